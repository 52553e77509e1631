"""Primitives that are bound by memory: each beside memcpy of the bytes that it must move, oneDNN and torch.

Every side works in the same format, on the same values; torch makes a new result at each call, as it does for
its users. Large rows move 64 MB or more, small ones stay in the caches. Answers are compared afterwards.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import restride as rs
from restride import Error, MemoryDesc

from .array_peers import Torch
from .figures import BenchSetup
from .measure import Call, Quartiles, alternate, batch_size
from .onednn import OneDNN, OneDNNPrimitive, _int64s
from .peers import OneDNNPeer
from .problem import storage

_FORMATS = {"nchw": "abcd", "nhwc": "acdb", "nChw16c": "aBcd16b"}
_SIZES = {"large": (40, 64, 56, 56), "small": (2, 64, 56, 56)}
_ROWS = {"large": (8192, 1024), "small": (512, 1024)}
_TOLERANCE = 1e-4
_INFERENCE, _SCALE_SHIFT, _GLOBAL = 96, 6, 7
# What a tensor beside source and destination is in torch's calls, in this order.
_WEIGHTS = (rs.ARG_SRC_1, rs.ARG_WEIGHTS, rs.ARG_MEAN, rs.ARG_VARIANCE, rs.ARG_SCALE, rs.ARG_SHIFT)
MEMCPY = "memcpy"

Descs = Mapping[int, Any]
# Of the module, the source, and what stands beside it in the order of `_WEIGHTS`.
TorchCall = Callable[[Any, Any, list[Any]], Any]


@dataclass(frozen=True)
class MemoryBoundCase:
    """One primitive: how restride, oneDNN's C API and torch call it.

    `make` gives a class and the descriptor of engine and source; `create` the name of oneDNN's function and
    what follows its engine, by descriptors; `torch` takes source and what stands in `_WEIGHTS`.
    """

    name: str
    make: Callable[[rs.Engine, MemoryDesc], tuple[Any, Any]]
    create: Callable[[Descs], tuple[str, Sequence[Any]]]
    torch: TorchCall
    of_rows: bool = False


def _eltwise(alg: str, number: int, torch: TorchCall) -> MemoryBoundCase:
    def make(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
        pd = rs.EltwiseForward.PrimitiveDesc(engine, "forward_inference", alg, md, _open(md), 0.0, 0.0)
        return rs.EltwiseForward, pd

    def create(md: Descs) -> tuple[str, Sequence[Any]]:
        numbers = ctypes.c_float(0), ctypes.c_float(0)
        return "eltwise_forward", (_INFERENCE, number, md[rs.ARG_SRC], md[rs.ARG_DST], *numbers)

    return MemoryBoundCase(f"eltwise {alg}", make, create, torch)


def _pool(alg: str, number: int, kernel: int, stride: int, padding: int, torch: TorchCall) -> MemoryBoundCase:
    def make(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
        sizes = tuple((n + 2 * padding - kernel) // stride + 1 for n in md.dims[2:])
        dst = MemoryDesc((*md.dims[:2], *sizes), "f32", "any")
        two = [(n, n) for n in (stride, kernel, 0, padding, padding)]
        pd = rs.PoolingForward.PrimitiveDesc(engine, "forward_inference", f"pooling_{alg}", md, dst, *two)
        return rs.PoolingForward, pd

    def create(md: Descs) -> tuple[str, Sequence[Any]]:
        two = [_int64s((n, n)) for n in (stride, kernel, 0, padding, padding)]
        return "pooling_forward", (_INFERENCE, number, md[rs.ARG_SRC], md[rs.ARG_DST], *two)

    return MemoryBoundCase(f"pooling {alg} {kernel}x{kernel}", make, create, torch)


def _resampling(alg: str, number: int, torch: TorchCall) -> MemoryBoundCase:
    def make(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
        dst = MemoryDesc((*md.dims[:2], *(2 * n for n in md.dims[2:])), "f32", "any")
        pd = rs.ResamplingForward.PrimitiveDesc(engine, "forward_inference", f"resampling_{alg}", md, dst)
        return rs.ResamplingForward, pd

    def create(md: Descs) -> tuple[str, Sequence[Any]]:
        return "resampling_forward", (_INFERENCE, number, None, md[rs.ARG_SRC], md[rs.ARG_DST])

    return MemoryBoundCase(f"resampling {alg} x2", make, create, torch)


def _open(md: MemoryDesc) -> MemoryDesc:
    return MemoryDesc(md.dims, md.data_type, "any")


def _binary(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
    return rs.Binary, rs.Binary.PrimitiveDesc(engine, "binary_add", md, md, _open(md))


def _softmax(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
    make = rs.SoftmaxForward.PrimitiveDesc
    return rs.SoftmaxForward, make(engine, "forward_inference", "softmax_accurate", md, _open(md), 1)


def _layer_norm(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
    make = rs.LayerNormalizationForward.PrimitiveDesc
    flags = "use_scale|use_shift"
    return rs.LayerNormalizationForward, make(engine, "forward_inference", md, _open(md), None, 1e-5, flags)


def _batch_norm(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
    make = rs.BatchNormalizationForward.PrimitiveDesc
    flags = "use_global_stats|use_scale|use_shift"
    return rs.BatchNormalizationForward, make(engine, "forward_inference", md, _open(md), 1e-5, flags)


def _prelu(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
    weights = MemoryDesc((1, md.dims[1], 1, 1), "f32", "abcd")
    make = rs.PReLUForward.PrimitiveDesc
    return rs.PReLUForward, make(engine, "forward_inference", md, weights, _open(md))


def _reduction(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
    dst = MemoryDesc((*md.dims[:2], 1, 1), "f32", "any")
    return rs.Reduction, rs.Reduction.PrimitiveDesc(engine, "reduction_sum", md, dst)


def _layer_norm_of(md: Descs) -> tuple[str, Sequence[Any]]:
    numbers = ctypes.c_float(1e-5), _SCALE_SHIFT
    return "layer_normalization_forward", (_INFERENCE, md[rs.ARG_SRC], md[rs.ARG_DST], md[0], *numbers)


def _batch_norm_of(md: Descs) -> tuple[str, Sequence[Any]]:
    both = md[rs.ARG_SRC], md[rs.ARG_DST]
    return "batch_normalization_forward", (_INFERENCE, *both, ctypes.c_float(1e-5), _GLOBAL)


def _sources(name: str, number: int, *numbers: Any) -> Callable[[Descs], tuple[str, Sequence[Any]]]:
    return lambda md: (name, (number, md[rs.ARG_SRC], md[rs.ARG_DST], *numbers))


PRIMITIVES = (
    *(
        _eltwise(alg, number, torch)
        for alg, number, torch in (
            ("relu", 0x20, lambda t, x, _: t.nn.functional.relu(x)),
            ("tanh", 0x21, lambda t, x, _: t.tanh(x)),
            ("logistic", 0x29, lambda t, x, _: t.sigmoid(x)),
            ("exp", 0x2A, lambda t, x, _: t.exp(x)),
            ("gelu_tanh", 0x2B, lambda t, x, _: t.nn.functional.gelu(x, approximate="tanh")),
            ("log", 0x2D, lambda t, x, _: t.log(x)),
            ("gelu_erf", 0x31, lambda t, x, _: t.nn.functional.gelu(x)),
        )
    ),
    MemoryBoundCase(
        "binary add",
        _binary,
        lambda md: ("binary", (0x1FFF0, md[rs.ARG_SRC], md[rs.ARG_SRC_1], md[rs.ARG_DST])),
        lambda t, x, w: t.add(x, w[0]),
    ),
    MemoryBoundCase(
        "prelu",
        _prelu,
        lambda md: ("prelu_forward", (_INFERENCE, md[rs.ARG_SRC], md[rs.ARG_WEIGHTS], md[rs.ARG_DST])),
        lambda t, x, w: t.nn.functional.prelu(x, w[0].flatten()),
    ),
    MemoryBoundCase(
        "batch normalization", _batch_norm, _batch_norm_of, lambda t, x, w: t.nn.functional.batch_norm(x, *w)
    ),
    _pool("max", 0x1FF, 3, 2, 1, lambda t, x, _: t.nn.functional.max_pool2d(x, 3, 2, 1)),
    _pool("avg_include_padding", 0x2FF, 56, 1, 0, lambda t, x, _: t.nn.functional.avg_pool2d(x, 56)),
    MemoryBoundCase(
        "reduction sum",
        _reduction,
        _sources("reduction", 0x2FFF4, *[ctypes.c_float(0)] * 2),
        lambda _t, x, _: x.sum((2, 3), True),
    ),
    _resampling("nearest", 0x2FFF0, lambda t, x, _: t.nn.functional.interpolate(x, scale_factor=2)),
    _resampling(
        "linear", 0x2FFF1, lambda t, x, _: t.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")
    ),
    MemoryBoundCase(
        "softmax",
        _softmax,
        lambda md: ("softmax_forward", (_INFERENCE, 0x30000, md[rs.ARG_SRC], md[rs.ARG_DST], 1)),
        lambda t, x, _: t.softmax(x, 1),
        of_rows=True,
    ),
    MemoryBoundCase(
        "layer normalization",
        _layer_norm,
        _layer_norm_of,
        lambda t, x, w: t.nn.functional.layer_norm(x, (1024,), *w),
        of_rows=True,
    ),
)


@dataclass(frozen=True)
class BoundRow:
    """What was measured of one primitive in one format: bytes that it must move, seconds of each side."""

    name: str
    moved: int
    seconds: dict[str, Quartiles]
    kernel: str = ""
    wrong: str = ""
    refused: dict[str, str] = field(default_factory=dict)

    def rate(self, side: str) -> float:
        """Bytes per second."""
        return self.moved / self.seconds[side].median

    def over(self, side: str) -> float | None:
        """How many times faster restride was; None where there is no such side."""
        return self.seconds[side].median / self.seconds["restride"].median if side in self.seconds else None


def rows() -> Iterator[tuple[MemoryBoundCase, MemoryDesc, str]]:
    """Every primitive in every format and size, with its name."""
    for size in _SIZES:
        for primitive in PRIMITIVES:
            formats = {"ab": "ab"} if primitive.of_rows else _FORMATS
            dims = _ROWS[size] if primitive.of_rows else _SIZES[size]
            for name, tag in formats.items():
                yield primitive, MemoryDesc(dims, "f32", tag), f"{primitive.name} {name} {size}"


def measure(setting: BenchSetup) -> list[BoundRow]:
    """All rows beside the peers of the bench that are there."""
    return [measure_row(setting, *row) for row in rows()]


def measure_row(setting: BenchSetup, primitive: MemoryBoundCase, src: MemoryDesc, name: str) -> BoundRow:
    """One row."""
    engine = rs.Engine("cpu")
    kind, pd = primitive.make(engine, src)
    descs = {arg: md for arg in range(_MOST_ARGS) if (md := pd.query_md("exec_arg_md", arg))}
    memories = {arg: rs.Memory(md, engine) for arg, md in descs.items()}
    for seed, (arg, memory) in enumerate(memories.items()):
        values = np.random.default_rng(seed).uniform(0.1, 1.1, memory.desc.dims).astype(np.float32)
        rs.reorder(values if arg != rs.ARG_DST else values * 0, None, out=memory)
    run = partial(kind(pd).execute, rs.Stream(engine), memories)
    calls: dict[str, Call] = {"restride": run}
    refused: dict[str, str] = {}
    answers: dict[str, Callable[[], Any]] = {}
    for peer in setting.peers:
        try:
            if isinstance(peer, OneDNNPeer):
                calls[peer.name], answers[peer.name] = _by_onednn(peer.library, primitive, memories)
            elif isinstance(peer, Torch):
                calls[peer.name], answers[peer.name] = _by_torch(primitive, memories)
        except (Error, ValueError) as error:
            refused[peer.name] = str(error).splitlines()[0]
    moved = sum(md.size for md in descs.values())
    source, target = storage(moved // 2), storage(moved // 2)
    copies = [call for peer in setting.copiers for call in peer.copies(source, target).values()]
    calls |= {f"{MEMCPY} {i}": call for i, call in enumerate(copies)}
    number = batch_size(run) if moved <= _WARM else 1
    times = {
        each: timing.spread for each, timing in alternate(calls, rounds=setting.rounds, number=number).items()
    }
    best = min((each for each in times if each.startswith(MEMCPY)), key=lambda each: times[each].median)
    seconds = {each: found for each, found in times.items() if not each.startswith(MEMCPY)}
    wrong = _difference(memories[rs.ARG_DST].to_numpy(), answers)
    return BoundRow(name, moved, {**seconds, MEMCPY: times[best]}, str(pd.impl_info_str), wrong, refused)


# Arguments of forward primitives have numbers below it.
_MOST_ARGS = 320
_WARM = 16 << 20


def _difference(found: Any, answers: Mapping[str, Callable[[], Any]]) -> str:
    for name, answer in answers.items():
        wanted = answer()
        if not np.allclose(found, wanted, rtol=_TOLERANCE, atol=_TOLERANCE):
            return f"off by {float(np.abs(found - wanted).max()):.3g} from {name}"
    return ""


def _by_onednn(
    library: OneDNN, primitive: MemoryBoundCase, memories: Mapping[int, rs.Memory]
) -> tuple[Call, Callable[[], Any]]:
    """The same on the same bytes, written into storage of its own."""
    descs = {arg: library.desc(each.desc.dims, "f32", each.desc.tag or "a") for arg, each in memories.items()}
    src = memories[rs.ARG_SRC].desc
    stats = library.desc(src.dims[:-1], "f32", "abcde"[: src.ndims - 1])
    name, arguments = primitive.create(
        {arg: desc.pointer for arg, desc in descs.items()} | {0: stats.pointer}
    )
    pd = library._chosen(f"dnnl_{name}_primitive_desc_create", library.engine, *arguments, None)
    result = library.memory(descs[rs.ARG_DST])
    held = {
        arg: result if arg == rs.ARG_DST else library.memory(descs[arg], np.asarray(each.data))
        for arg, each in memories.items()
    }
    call = library._primitive(OneDNNPrimitive, pd).bind_all(held)
    md = memories[rs.ARG_DST].desc
    return call, lambda: rs.Memory(md, rs.Engine("cpu"), result.bytes.view(np.float32)).to_numpy()


def _by_torch(
    primitive: MemoryBoundCase, memories: Mapping[int, rs.Memory]
) -> tuple[Call, Callable[[], Any]]:
    """torch's function on tensors over the same bytes. Raises ValueError for a blocked format."""
    import torch

    if memories[rs.ARG_SRC].desc.inner_blks:
        raise ValueError("torch has no blocked formats")
    x = torch.from_numpy(np.asarray(memories[rs.ARG_SRC]))
    w = [torch.from_numpy(np.asarray(memories[arg])) for arg in _WEIGHTS if arg in memories]
    run = partial(primitive.torch, torch, x, w)
    return run, lambda: run().numpy()
