"""Convolutions and products of matrices of networks beside oneDNN, each in the formats that it likes best.

Every layer is a point of a roofline: operations in a second, over operations for each byte that it must move.
The roof is what a loop of multiply-adds does in the same run; twice that for bf16, four times for bytes.

Times are without reorders, as layers in the middle of a network have none, and with them: source and result
row-major, weights packed before. torch reads channels last, which it likes best, and has no such layers of
bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

import restride as rs

from .array_peers import Torch
from .figures import BenchSetup
from .measure import Call, alternate, batch_size, geometric_mean
from .multiply_adds import peak
from .onednn import OneDNN
from .peer import nothing
from .peers import OneDNNPeer

TYPES = {"f32": ("f32",) * 3, "bf16": ("bf16",) * 3, "u8·s8": ("u8", "s8", "u8"), "s8·s8": ("s8",) * 3}
TORCH_TYPES = {"f32": "float32", "bf16": "bfloat16"}
_ROW_MAJOR = "abcd"
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


def primitive_of(layer: Layer, types: str) -> rs.ConvolutionForward | rs.Matmul:
    """The primitive in the formats that it likes."""
    engine = rs.Engine("cpu")
    mds = [rs.MemoryDesc(*each, "any") for each in zip(layer.dims, TYPES[types], strict=True)]
    if not layer.strides:
        return rs.Matmul(rs.Matmul.PrimitiveDesc(engine, *mds))
    window = [list(each) for each in (layer.strides, layer.padding, layer.padding)]
    head = engine, "forward_inference", "convolution_direct"
    return rs.ConvolutionForward(rs.ConvolutionForward.PrimitiveDesc(*head, *mds, *window))


def restride_calls(layer: Layer, types: str) -> tuple[LayerCalls, int]:
    """The calls in those formats, and how many bytes it must move."""
    engine, primitive = rs.Engine("cpu"), primitive_of(layer, types)
    pd = primitive.get_primitive_desc()
    descs = {rs.ARG_SRC: pd.src_desc(), rs.ARG_WEIGHTS: pd.weights_desc(), rs.ARG_DST: pd.dst_desc()}
    memories = {arg: rs.Memory(md, engine) for arg, md in descs.items()}
    for number, arg in enumerate((rs.ARG_SRC, rs.ARG_WEIGHTS)):
        _fill(np.asarray(memories[arg].data).view(np.uint8), str(descs[arg].data_type), number)
    stream = rs.Stream(engine)

    alone = partial(primitive.execute, stream, memories)
    (into, _), (_, out) = (_moves(memories[arg], stream) for arg in (rs.ARG_SRC, rs.ARG_DST))

    def reordered() -> None:
        into()
        alone()
        out()

    return LayerCalls(alone, reordered), sum(md.size for md in descs.values())


def _moves(memory: rs.Memory, stream: rs.Stream) -> tuple[Call, Call]:
    """From a row-major memory, and back to it; nothing where the format is row-major already."""
    engine, md = rs.Engine("cpu"), memory.desc
    plain = rs.MemoryDesc(md.dims, md.data_type)
    if plain == md:
        return nothing, nothing
    other = rs.Memory(plain, engine)
    np.asarray(other.data).view(np.uint8)[:] = 1
    into = rs.Reorder(rs.Reorder.PrimitiveDesc(engine, plain, engine, md))
    out = rs.Reorder(rs.Reorder.PrimitiveDesc(engine, md, engine, plain))
    return partial(into.execute, stream, other, memory), partial(out.execute, stream, memory, other)


def onednn_calls(library: OneDNN, layer: Layer, types: str) -> LayerCalls:
    """The calls in the formats that oneDNN chooses."""
    kinds = TYPES[types]
    mds = [library.desc(*each, "any") for each in zip(layer.dims, kinds, strict=True)]
    window = layer.strides, layer.padding
    primitive, descs = library.convolution(mds, *window) if layer.strides else library.matmul(mds)
    memories = [library.memory(md) for md in descs]
    for number, (memory, kind) in enumerate(zip(memories[:2], kinds, strict=False)):
        _fill(memory.bytes, kind, number)
    alone = primitive.bind_all(dict(zip((rs.ARG_SRC, rs.ARG_WEIGHTS, rs.ARG_DST), memories, strict=True)))
    steps = [alone]
    for place, held, is_read in ((0, memories[0], True), (2, memories[2], False)):
        plain = library.desc(layer.dims[place], kinds[place], _ROW_MAJOR[: len(layer.dims[place])])
        if plain.blocking == descs[place].blocking:
            continue
        other = library.memory(plain)
        _fill(other.bytes, kinds[place], place)
        if is_read:
            steps.insert(0, library.reorder(plain, descs[place]).bind(other, held))
        else:
            steps.append(library.reorder(descs[place], plain).bind(held, other))

    def reordered() -> None:
        for step in steps:
            step()

    return LayerCalls(alone, reordered)


def torch_call(peer: Torch, layer: Layer, types: str) -> Call:
    """The layer on tensors that are channels last; a product of matrices on row-major ones."""
    torch = peer.torch
    kinds = [getattr(torch, TORCH_TYPES[kind]) for kind in TYPES[types][:2]]
    random = np.random.default_rng(0)
    x, w = (
        torch.from_numpy(random.standard_normal(dims).astype(np.float32)).to(kind)
        for dims, kind in zip(layer.dims, kinds, strict=False)
    )
    if not layer.strides:
        return _inferring(torch, partial(torch.mm, x, w))
    groups = w.shape[0] if w.ndim > x.ndim else 1
    w = w.reshape(-1, *w.shape[-3:]).to(memory_format=torch.channels_last)
    x = x.to(memory_format=torch.channels_last)
    window = {"stride": layer.strides, "padding": layer.padding, "groups": groups}
    return _inferring(torch, partial(torch.nn.functional.conv2d, x, w, **window))


def _inferring(torch: Any, call: Call) -> Call:
    """The call without records for gradients."""

    def run() -> None:
        with torch.inference_mode():
            call()

    return run


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
_OWN, _ONEDNN, _TORCH = "restride", "oneDNN", "torch"
LAYERS = (
    convolution("ResNet-50 3x3, 64→64 at 56", 64, 64, 56, 3),
    convolution("ResNet-50 3x3, 256→256 at 14", 256, 256, 14, 3),
    convolution("ResNet-50 3x3, 512→512 at 7", 512, 512, 7, 3),
    convolution("ResNet-50 1x1, 64→256 at 56", 64, 256, 56, 1),
    convolution("ResNet-50 1x1, 1024→256 at 14", 1024, 256, 14, 1),
    convolution("ResNet-50 1x1, 2048→512 at 7", 2048, 512, 7, 1),
    convolution("ResNet-50 1x1 by 2, 256→512 at 56", 256, 512, 56, 1, 2),
    convolution("VGG 3x3, 128→128 at 112", 128, 128, 112, 3),
    convolution("VGG-19 3x3, 3→64 at 224", 3, 64, 224, 3),
    convolution("Inception 3x3, 64→96 at 35", 64, 96, 35, 3),
    convolution("DenseNet 3x3, 128→32 at 28", 128, 32, 28, 3),
    convolution("ShuffleNet 1x1 of 3 groups, 240→240 at 28", 240, 240, 28, 1, groups=3),
    convolution("MobileNet 1x1, 512→512 at 14", 512, 512, 14, 1),
    convolution("ResNet-50 7x7 by 2, 3→64 at 224", 3, 64, 224, 7, 2),
    convolution("MobileNet depthwise 3x3, 512 at 14", 512, 512, 14, 3, groups=512),
    convolution("MobileNet depthwise 3x3 by 2, 128 at 56", 128, 128, 56, 3, 2, groups=128),
    convolution("MobileNet depthwise 3x3, 128 at 56, batch 16", 128, 128, 56, 3, batch=16, groups=128),
    convolution("ResNet-50 3x3, 64→64 at 56, batch 16", 64, 64, 56, 3, batch=16),
    convolution("ResNet-50 3x3, 512→512 at 7, batch 16", 512, 512, 7, 3, batch=16),
    convolution("ResNet-50 1x1, 1024→256 at 14, batch 16", 1024, 256, 14, 1, batch=16),
    matmul("ResNet-50 inner product 16x2048x1000", 16, 2048, 1000),
    matmul("BERT 128x768x768", 128, 768, 768),
    matmul("BERT 128x768x3072", 128, 768, 3072),
    matmul("BERT large 384x1024x1024", 384, 1024, 1024),
)


@dataclass(frozen=True)
class LayerTime:
    """A layer of some types on so many threads: the peak, and seconds of restride and its peers by name; of
    two of them with reorders too. `bandwidth`: bytes that come from memory and go there in a second. Ratios
    are of the least times of all rounds, which other work on the machine changes least.
    """

    name: str
    types: str
    threads: int
    operations: int
    moved: int
    peak: float
    seconds: float
    peers: dict[str, float] = field(default_factory=dict)
    reordered: dict[str, float] = field(default_factory=dict)
    bandwidth: float = 0.0

    @property
    def rate(self) -> float:
        """Operations in a second."""
        return self.operations / self.seconds

    @property
    def of_peak(self) -> float:
        """The part of what a loop of multiply-adds would do."""
        return self.rate / self.peak

    @property
    def over_onednn(self) -> float | None:
        """How many times faster than oneDNN."""
        return self.over(_ONEDNN)

    def over(self, peer: str) -> float | None:
        """How many times faster than a peer; None where there is none."""
        found = self.peers.get(peer)
        return None if found is None else found / self.seconds

    @property
    def over_reordered(self) -> float | None:
        """How many times faster than oneDNN, both with their reorders."""
        if _ONEDNN not in self.reordered:
            return None
        return self.reordered[_ONEDNN] / self.reordered[_OWN]


def measure(setting: BenchSetup) -> list[LayerTime]:
    """All layers of all types, on one thread and on all."""
    before, found = rs.get_num_threads(), list[LayerTime]()
    try:
        for threads in sorted({1, setting.threads}):
            rs.set_num_threads(threads)
            for peer in setting.peers:
                if isinstance(peer, OneDNNPeer):
                    peer.library.set_num_threads(threads)
                elif isinstance(peer, Torch):
                    peer.torch.set_num_threads(threads)
            roof, bandwidth = peak(threads), memory_bandwidth()
            for types in TYPES:
                times = (_measured(layer, types, threads, roof, setting) for layer in LAYERS)
                found += [replace(each, bandwidth=bandwidth) for each in times]
    finally:
        rs.set_num_threads(before)
    return found


def memory_bandwidth() -> float:
    """Bytes read and written in a second by a copy of more than caches hold, the best of a few."""
    engine, md = rs.Engine("cpu"), rs.MemoryDesc((_COPIED,), "u8")
    copy = rs.Reorder(rs.Reorder.PrimitiveDesc(engine, md, engine, md))
    memories = rs.Memory(md, engine), rs.Memory(md, engine)
    for memory in memories:
        np.asarray(memory.data).view(np.uint8)[:] = 1
    times = alternate({"copy": partial(copy.execute, rs.Stream(engine), *memories)}, rounds=5)
    return 2 * _COPIED / min(times["copy"].seconds)


def _measured(layer: Layer, types: str, threads: int, roof: float, setting: BenchSetup) -> LayerTime:
    own, moved = restride_calls(layer, types)
    sides, others = {_OWN: own}, dict[str, Call]()
    for peer in setting.peers:
        if isinstance(peer, OneDNNPeer):
            sides[_ONEDNN] = onednn_calls(peer.library, layer, types)
        elif isinstance(peer, Torch) and TYPES[types][0] in TORCH_TYPES:
            others[_TORCH] = torch_call(peer, layer, types)
    calls = {**{name: each.alone for name, each in sides.items()}, **others}
    both = {**calls, **{f"{name}, reordered": each.reordered for name, each in sides.items()}}
    times = alternate(both, rounds=setting.rounds, number=batch_size(own.alone))
    least = {name: min(timing.seconds) for name, timing in times.items()}
    return LayerTime(
        *(layer.name, types, threads, layer.operations, moved),
        *(roof * _FACTORS[types], least[_OWN]),
        {name: least[name] for name in calls if name != _OWN},
        {name: least[f"{name}, reordered"] for name in sides},
    )


def means(times: Sequence[LayerTime]) -> list[tuple[str, int, float, float, float | None, float | None]]:
    """By types and threads: geometric mean and least of the part of the peak, and of the ratio to oneDNN."""
    found = []
    for types, threads in dict.fromkeys((each.types, each.threads) for each in times):
        same = [each for each in times if (each.types, each.threads) == (types, threads)]
        parts = [each.of_peak for each in same]
        ratios = [each.over_onednn for each in same if each.over_onednn is not None]
        over = (geometric_mean(ratios), min(ratios)) if ratios else (None, None)
        found.append((types, threads, geometric_mean(parts) or 0.0, min(parts), *over))
    return found
