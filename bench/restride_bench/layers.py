"""Convolutions and products of matrices of networks compared with oneDNN, each in its preferred formats.

Every layer is a point of a roofline: operations in a second, over operations for each byte that it must move.
The roof is what a loop of multiply-adds does in the same run; twice that for bf16, four times for bytes.

Times are without reorders, as layers in the middle of a network have none, and with them: source and result
row-major, weights packed before. torch reads channels last, which it likes best, and has no such layers of
bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

import restride as rs
from restride.runtime.cpu.multiply_adds import peak

from .array_peers import Torch
from .measure import Call, alternate, geometric_mean
from .onednn import OneDNN, int64s
from .onednn_library import OneDNNError, why_not
from .pages import Columns, cells, mean_of, ratio, table
from .peer import PreparedCall
from .study import OWN, BenchRow, BenchSetup, RowPlan, Study, race

TYPES = {"f32": ("f32",) * 3, "bf16": ("bf16",) * 3, "u8·s8": ("u8", "s8", "u8"), "s8·s8": ("s8",) * 3}
TORCH_TYPES = {"f32": "float32", "bf16": "bfloat16"}
_INFERENCE, _DIRECT = 96, 1
Dims = tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """The dims of source, weights and result; with strides it is a convolution, else a matmul."""

    name: str
    dims: tuple[Dims, Dims, Dims]
    strides: Dims = ()
    padding: Dims = ()

    @property
    def operations(self) -> int:
        """Two for each product that is added."""
        source, weights, result = self.dims
        # Weights of groups have a dim more in front: every output sums the inputs of its own.
        return (
            2
            * prod(result)
            * (prod(weights[len(weights) - len(source) + 1 :]) if self.strides else weights[0])
        )


def convolution(
    name: str,
    channels: int,
    outputs: int,
    size: int,
    kernel: int,
    stride: int = 1,
    *,
    batch: int = 1,
    groups: int = 1,
) -> Layer:
    """A convolution of square images, padded so that a stride of 1 keeps their size."""
    padding = kernel // 2
    points = (size + 2 * padding - kernel) // stride + 1
    weights = (outputs // groups, channels // groups, kernel, kernel)
    dims = (
        (batch, channels, size, size),
        weights if groups == 1 else (groups, *weights),
        (batch, outputs, points, points),
    )
    return Layer(name, dims, (stride,) * 2, (padding,) * 2)


def matmul(name: str, m: int, k: int, n: int) -> Layer:
    """A product of matrices of m x k and k x n."""
    return Layer(name, ((m, k), (k, n), (m, n)))


class LayerCalls(NamedTuple):
    """A layer alone, and between a source and a result that are row-major."""

    alone: Call
    reordered: Call


def primitive_of(
    layer: Layer, types: str, algorithm: str = "direct"
) -> rs.onednn.ConvolutionForward | rs.onednn.Matmul:
    """The primitive in the formats that it likes."""
    engine = rs.Engine("cpu")
    mds = [rs.MemoryDesc(*each, "any") for each in zip(layer.dims, TYPES[types], strict=True)]
    if not layer.strides:
        return rs.onednn.Matmul(rs.onednn.Matmul.PrimitiveDesc(engine, *mds))
    window = [list(each) for each in (layer.strides, layer.padding, layer.padding)]
    head = engine, "forward_inference", f"convolution_{algorithm}"
    return rs.onednn.ConvolutionForward(rs.onednn.ConvolutionForward.PrimitiveDesc(*head, *mds, *window))


def restride_calls(layer: Layer, types: str, algorithm: str = "direct") -> tuple[LayerCalls, int]:
    """The calls in those formats, and how many bytes it must move."""
    engine, primitive = rs.Engine("cpu"), primitive_of(layer, types, algorithm)
    pd, stream = primitive.get_primitive_desc(), rs.onednn.Stream(engine)
    descs = {
        rs.onednn.Arg.SRC: pd.src_desc(),
        rs.onednn.Arg.WEIGHTS: pd.weights_desc(),
        rs.onednn.Arg.DST: pd.dst_desc(),
    }
    memories = {arg: rs.Memory(md, engine) for arg, md in descs.items()}
    for seed, arg in enumerate((rs.onednn.Arg.SRC, rs.onednn.Arg.WEIGHTS)):
        _fill(np.asarray(memories[arg].data).view(np.uint8), str(descs[arg].data_type), seed)
    alone = partial(primitive.execute, stream, memories)
    steps: list[Call] = [alone]
    for arg in (rs.onednn.Arg.SRC, rs.onednn.Arg.DST):
        held, plain = memories[arg], rs.MemoryDesc(descs[arg].dims, descs[arg].data_type)
        if plain == descs[arg]:
            continue
        other = rs.Memory(plain, engine)
        np.asarray(other.data).view(np.uint8)[:] = 1
        of, to = (other, held) if arg == rs.onednn.Arg.SRC else (held, other)
        reorder = rs.onednn.Reorder(rs.onednn.Reorder.PrimitiveDesc(engine, of.desc, engine, to.desc))
        steps.insert(0 if arg == rs.onednn.Arg.SRC else 2, partial(reorder.execute, stream, of, to))
    return LayerCalls(alone, _in_turn(steps)), sum(md.size for md in descs.values())


def _in_turn(steps: Sequence[Call]) -> Call:
    def run() -> None:
        for step in steps:
            step()

    return run


def onednn_calls(library: OneDNN, layer: Layer, types: str) -> LayerCalls:
    """The calls in the formats that oneDNN chooses. Raises OneDNNError for what it has not here."""
    kinds = TYPES[types]
    mds = [library.desc(*each, "any") for each in zip(layer.dims, kinds, strict=True)]
    src, weights, dst = (md.pointer for md in mds)
    if layer.strides:
        sizes = (layer.strides, [0] * len(layer.strides), layer.padding, layer.padding)
        window = [int64s(each) for each in sizes]
        primitive, descs = library.product(
            "convolution_forward", _INFERENCE, _DIRECT, src, weights, None, dst, *window
        )
    else:
        primitive, descs = library.product("matmul", src, weights, None, dst)
    memories = [library.memory(md) for md in descs]
    for seed, (memory, kind) in enumerate(zip(memories[:2], kinds, strict=False)):
        _fill(memory.bytes, kind, seed)
    alone = primitive.bind_all(
        dict(zip((rs.onednn.Arg.SRC, rs.onednn.Arg.WEIGHTS, rs.onednn.Arg.DST), memories, strict=True))
    )
    steps = [alone]
    for place in (0, 2):
        held, plain = (
            memories[place],
            library.desc(layer.dims[place], kinds[place], "abcd"[: len(layer.dims[place])]),
        )
        if plain.blocking == descs[place].blocking:
            continue
        other = library.memory(plain)
        _fill(other.bytes, kinds[place], place)
        sides = [(other, plain), (held, descs[place])]
        (of, of_md), (to, to_md) = sides if place == 0 else reversed(sides)
        steps.insert(place, library.reorder(of_md, to_md).bind(of, to))
    return LayerCalls(alone, _in_turn(steps))


def torch_call(peer: Torch, layer: Layer, types: str) -> Call:
    """The layer on tensors that are channels last; a product of matrices on row-major ones."""
    torch = peer.torch
    inferring: Callable[[Call], Call] = torch.inference_mode()
    kinds = [getattr(torch, TORCH_TYPES[kind]) for kind in TYPES[types][:2]]
    random = np.random.default_rng(0)
    x, w = (
        torch.from_numpy(random.standard_normal(dims).astype(np.float32)).to(kind)
        for dims, kind in zip(layer.dims, kinds, strict=False)
    )
    if not layer.strides:
        return inferring(partial(torch.mm, x, w))
    groups = w.shape[0] if w.ndim > x.ndim else 1
    w = w.reshape(-1, *w.shape[-3:]).to(memory_format=torch.channels_last)
    x = x.to(memory_format=torch.channels_last)
    window = {"stride": layer.strides, "padding": layer.padding, "groups": groups}
    return inferring(partial(torch.nn.functional.conv2d, x, w, **window))


def _fill(held: np.ndarray[tuple[int], np.dtype[np.uint8]], kind: str, seed: int) -> None:
    """Numbers that are neither infinite nor below the normal ones."""
    rng = np.random.default_rng(seed)
    if kind == "f32":
        held.view(np.float32)[:] = rng.standard_normal(held.size // 4)
    elif kind == "bf16":
        wide = rng.standard_normal(held.size // 2).astype(np.float32)
        held.view(np.uint16)[:] = (wide.view(np.uint32) >> 16).astype(np.uint16)
    else:
        held[:] = rng.integers(0, 256, held.size, dtype=np.uint8)


_FACTORS = {"f32": 1, "bf16": 2, "u8·s8": 4, "s8·s8": 4}
_COPIED = 1 << 27
_ONEDNN, _AGAIN = "oneDNN", ", reordered"
_WINOGRAD, _FEWER = "convolution_winograd", f"{OWN}, Winograd"
LAYERS = (
    convolution("ResNet-50 3x3, 64→64 at 56", 64, 64, 56, 3),
    convolution("ResNet-50 3x3, 256→256 at 14", 256, 256, 14, 3),
    convolution("ResNet-50 3x3, 512→512 at 7", 512, 512, 7, 3),
    convolution("ResNet-50 1x1, 64→256 at 56", 64, 256, 56, 1),
    convolution("ResNet-50 1x1, 1024→256 at 14", 1024, 256, 14, 1),
    convolution("ResNet-50 1x1, 2048→512 at 7", 2048, 512, 7, 1),
    convolution("ResNet-50 1x1 by 2, 256→512 at 56", 256, 512, 56, 1, 2),
    convolution("ResNet-50 3x3, 128→128 at 28", 128, 128, 28, 3),
    convolution("VGG 3x3, 64→64 at 224", 64, 64, 224, 3),
    convolution("VGG 3x3, 128→128 at 112", 128, 128, 112, 3),
    convolution("VGG 3x3, 256→256 at 56", 256, 256, 56, 3),
    convolution("VGG 3x3, 512→512 at 28", 512, 512, 28, 3),
    convolution("VGG 3x3, 512→512 at 14", 512, 512, 14, 3),
    convolution("VGG-19 3x3, 3→64 at 224", 3, 64, 224, 3),
    convolution("Inception 3x3, 64→96 at 35", 64, 96, 35, 3),
    convolution("DenseNet 3x3, 128→32 at 28", 128, 32, 28, 3),
    convolution("ShuffleNet 1x1 of 3 groups, 240→240 at 28", 240, 240, 28, 1, groups=3),
    convolution("MobileNet 1x1, 512→512 at 14", 512, 512, 14, 1),
    convolution("ResNet-50 7x7 by 2, 3→64 at 224", 3, 64, 224, 7, 2),
    convolution("MobileNet depthwise 3x3, 512 at 14", 512, 512, 14, 3, groups=512),
    convolution("MobileNet depthwise 3x3 by 2, 128 at 56", 128, 128, 56, 3, 2, groups=128),
    convolution("MobileNet depthwise 3x3, 128 at 56, batch 16", 128, 128, 56, 3, batch=16, groups=128),
    convolution("ResNet-50 3x3, 128→128 at 28, batch 4", 128, 128, 28, 3, batch=4),
    convolution("ResNet-50 3x3, 256→256 at 14, batch 4", 256, 256, 14, 3, batch=4),
    convolution("ResNet-50 3x3, 64→64 at 56, batch 16", 64, 64, 56, 3, batch=16),
    convolution("ResNet-50 3x3, 512→512 at 7, batch 16", 512, 512, 7, 3, batch=16),
    convolution("ResNet-50 1x1, 1024→256 at 14, batch 16", 1024, 256, 14, 1, batch=16),
    matmul("ResNet-50 inner product 16x2048x1000", 16, 2048, 1000),
    matmul("BERT 128x768x768", 128, 768, 768),
    matmul("BERT 128x768x3072", 128, 768, 3072),
    matmul("BERT large 384x1024x1024", 384, 1024, 1024),
)


def measure(setting: BenchSetup) -> list[BenchRow]:
    """All layers of all types, on one thread and on all.

    A row says the types, the threads, the peak of operations, and bytes that come from memory and go there in
    a second. Its sides have a twin with reorders, of which the name says so.
    """
    before, found = rs.get_num_threads(), list[BenchRow]()
    try:
        for threads in sorted({1, setting.threads}):
            there = replace(setting.on(threads), copiers=[])
            roof, bandwidth = peak(threads), memory_bandwidth()
            for types in TYPES:
                about = {"types": types, "threads": threads}
                about |= {"peak": roof * _FACTORS[types], "bandwidth": bandwidth}
                found += [race(_work(layer, about, there), there) for layer in LAYERS]
    finally:
        rs.set_num_threads(before)
    return found


def _work(layer: Layer, about: dict[str, Any], setting: BenchSetup) -> RowPlan:
    types = about["types"]
    own, moved = restride_calls(layer, types)
    made, refused = {OWN: own}, dict[str, str]()
    if setting.onednn is not None:
        try:
            made[_ONEDNN] = onednn_calls(setting.onednn.library, layer, types)
        except OneDNNError as error:
            refused[_ONEDNN] = why_not(error)
    sides = {name: each.alone for name, each in made.items()}
    if layer.strides and primitive_of(layer, types, "auto").get_primitive_desc().get_algorithm() == _WINOGRAD:
        sides[_FEWER] = restride_calls(layer, types, "winograd")[0].alone
    if setting.torch is not None and TYPES[types][0] in TORCH_TYPES:
        sides["torch"] = torch_call(setting.torch, layer, types)
    sides |= {f"{name}{_AGAIN}": each.reordered for name, each in made.items()}
    calls = {name: PreparedCall(call) for name, call in sides.items()}
    words: dict[str, Any] = {"operations": layer.operations, "refused": refused, "about": about}
    return RowPlan(layer.name, moved, calls, **words, is_by_least=True)


def memory_bandwidth() -> float:
    """Bytes read and written in a second by a copy of more than caches hold, the best of a few."""
    engine, md = rs.Engine("cpu"), rs.MemoryDesc((_COPIED,), "u8")
    copy = rs.onednn.Reorder(rs.onednn.Reorder.PrimitiveDesc(engine, md, engine, md))
    memories = rs.Memory(md, engine), rs.Memory(md, engine)
    for memory in memories:
        np.asarray(memory.data).view(np.uint8)[:] = 1
    times = alternate({"copy": partial(copy.execute, rs.onednn.Stream(engine), *memories)}, rounds=5)
    return 2 * _COPIED / times["copy"].least


def of_peak(row: BenchRow) -> float:
    """The part of what a loop of multiply-adds would do."""
    return float(row.operations / row.seconds() / row.about["peak"])


def by_kind(rows: Sequence[BenchRow]) -> dict[tuple[str, int], list[BenchRow]]:
    """The rows of the same types and threads."""
    found: dict[tuple[str, int], list[BenchRow]] = {}
    for row in rows:
        found.setdefault((row.about["types"], row.about["threads"]), []).append(row)
    return found


_COLUMNS: Columns = {
    "layer": lambda row: row.name,
    "types": lambda row: str(row.about["types"]),
    "threads": lambda row: str(row.about["threads"]),
    "Gop/s": lambda row: f"{row.operations / row.seconds() / 1e9:.0f}",
    "op/byte": lambda row: f"{row.operations / row.moved:.0f}",
    "of the peak": lambda row: f"{of_peak(row):.0%}",
    "x oneDNN": lambda row: ratio(row.over(_ONEDNN)),
    "x oneDNN, with reorders": lambda row: ratio(row.over(f"{_ONEDNN}{_AGAIN}", f"{OWN}{_AGAIN}")),
    "Winograd x oneDNN": lambda row: ratio(row.over(_ONEDNN, _FEWER)),
    "x torch": lambda row: ratio(row.over("torch")),
}


def page(rows: Sequence[BenchRow]) -> str:
    """The means by types and threads, and every layer."""
    means = []
    for (types, threads), same in by_kind(rows).items():
        parts, over = [of_peak(row) for row in same], mean_of(row.over(_ONEDNN) for row in same)
        means.append([types, str(threads), f"{geometric_mean(parts) or 0:.0%}", f"{min(parts):.0%}"])
        means[-1] += [ratio(value) for value in over or (None, None)]
    head = ["types", "threads", "of the peak, mean", "least", "x oneDNN, mean", "least"]
    return f"{table(head, means)}\n\n{table([*_COLUMNS], cells(rows, _COLUMNS))}" if rows else ""


STUDY = Study("Layers", measure, page)
