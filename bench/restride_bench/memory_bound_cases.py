"""The primitives bound by memory that are measured: how restride, oneDNN's C API and torch call each."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import restride as rs
from restride import MemoryDesc

from .onednn import int64s

TRAINING, _INFERENCE, BACKWARD = 64, 96, 128
_GLOBAL_SCALE_SHIFT, SCALE_SHIFT = 7, 6
GROUPS, EPSILON = 32, 1e-5
LRN = (5, 1e-4, 0.75, 1.0)
# The arguments of torch's functions beside the source, in this order.
TORCH_ARGUMENTS = (
    *(rs.ARG_DIFF_DST, rs.ARG_SRC_1, rs.ARG_WEIGHTS),
    *(rs.ARG_MEAN, rs.ARG_VARIANCE, rs.ARG_SCALE, rs.ARG_SHIFT),
)
# What a call of oneDNN needs of the statistics of rows, which restride makes by itself.
ROW_STATISTICS = 0

Descs = Mapping[int, Any]
PeerCall = tuple[str, Sequence[Any]]
# Of the module, the source, and what stands beside it in the order of `TORCH_ARGUMENTS`.
TorchCall = Callable[[Any, Any, list[Any]], Any]


@dataclass(frozen=True)
class MemoryBoundCase:
    """One primitive: how restride, oneDNN's C API and torch call it, which is None where torch has none.

    `make` gives a class and the descriptor of engine and source; `create` the name of oneDNN's function and
    what follows its engine, by descriptors; `hint` the same for the forward step of a gradient; `torch` takes
    source and what stands in `TORCH_ARGUMENTS`. `twice`: tensors that must be read twice where they are
    larger than the caches; `formats`: False where none makes a difference.
    """

    name: str
    make: Callable[[rs.Engine, MemoryDesc], tuple[Any, Any]]
    create: Callable[[Descs], PeerCall]
    torch: TorchCall | None
    of_rows: bool = False
    hint: Callable[[Descs], PeerCall] | None = None
    twice: tuple[int, ...] = ()
    formats: bool = True


def _open(md: MemoryDesc) -> MemoryDesc:
    return MemoryDesc(md.dims, md.data_type, "any")


def floats(*numbers: float) -> tuple[Any, ...]:
    """Numbers as C has them."""
    return tuple(map(ctypes.c_float, numbers))


def int64_pairs(pairs: Sequence[tuple[int, int]]) -> list[Any]:
    """Numbers for both spatial dims as C has them."""
    return [int64s(each) for each in pairs]


def halved(md: MemoryDesc) -> MemoryDesc:
    """A tensor of half the height and the width."""
    return MemoryDesc((*md.dims[:2], *(n // 2 for n in md.dims[2:])), "f32", md.tag)


def _both(md: Descs) -> tuple[Any, Any]:
    """Source and destination of the forward step; of a gradient what is like them."""
    src = md.get(rs.ARG_SRC) or md.get(rs.ARG_DIFF_SRC)
    return src, md.get(rs.ARG_DST) or md.get(rs.ARG_DIFF_DST)


# --- functions of elements ----------------------------------------------------------------------------------


def _eltwise(
    alg: str, number: int, torch: TorchCall, alpha: float = 0.0, beta: float = 0.0
) -> MemoryBoundCase:
    def make(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
        pd = rs.EltwiseForward.PrimitiveDesc(engine, "forward_inference", alg, md, _open(md), alpha, beta)
        return rs.EltwiseForward, pd

    def create(md: Descs) -> PeerCall:
        return "eltwise_forward", (_INFERENCE, number, *_both(md), *floats(alpha, beta))

    return MemoryBoundCase(f"eltwise {alg}", make, create, torch, formats=alg == "relu")


def _eltwise_gradient(alg: str, number: int, torch: TorchCall) -> MemoryBoundCase:
    def make(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
        return rs.EltwiseBackward, rs.EltwiseBackward.PrimitiveDesc(engine, alg, md, md, md)

    def create(md: Descs) -> PeerCall:
        three = md[rs.ARG_DIFF_SRC], md[rs.ARG_DIFF_DST], md[rs.ARG_SRC]
        return "eltwise_backward", (number, *three, *floats(0, 0))

    def hint(md: Descs) -> PeerCall:
        return "eltwise_forward", (TRAINING, number, *_both(md), *floats(0, 0))

    return MemoryBoundCase(f"eltwise {alg} backward", make, create, torch, hint=hint, formats=False)


def _binary(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
    return rs.Binary, rs.Binary.PrimitiveDesc(engine, "binary_add", md, md, _open(md))


def _prelu(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
    weights = MemoryDesc((1, md.dims[1], 1, 1), "f32", "abcd")
    make = rs.PReLUForward.PrimitiveDesc
    return rs.PReLUForward, make(engine, "forward_inference", md, weights, _open(md))


_ELTWISE = (
    _eltwise("relu", 0x20, lambda t, x, _: t.nn.functional.relu(x)),
    _eltwise("tanh", 0x21, lambda t, x, _: t.tanh(x)),
    _eltwise("logistic", 0x29, lambda t, x, _: t.sigmoid(x)),
    _eltwise("exp", 0x2A, lambda t, x, _: t.exp(x)),
    _eltwise("gelu_tanh", 0x2B, lambda t, x, _: t.nn.functional.gelu(x, approximate="tanh")),
    _eltwise("log", 0x2D, lambda t, x, _: t.log(x)),
    _eltwise("pow", 0x30, lambda _t, x, _: x**0.75, 1.0, 0.75),
    _eltwise("gelu_erf", 0x31, lambda t, x, _: t.nn.functional.gelu(x)),
    _eltwise_gradient("relu", 0x20, lambda t, x, w: t.ops.aten.threshold_backward(w[0], x, 0.0)),
    _eltwise_gradient("gelu_erf", 0x31, lambda t, x, w: t.ops.aten.gelu_backward(w[0], x)),
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
)


# --- normalizations -----------------------------------------------------------------------------------------


def _batch_norm(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
    make = rs.BatchNormalizationForward.PrimitiveDesc
    flags = "use_global_stats|use_scale|use_shift"
    return rs.BatchNormalizationForward, make(engine, "forward_inference", md, _open(md), EPSILON, flags)


def _batch_norm_trained(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
    make, flags = rs.BatchNormalizationForward.PrimitiveDesc, "use_scale|use_shift"
    return rs.BatchNormalizationForward, make(engine, "forward_training", md, _open(md), EPSILON, flags)


def _batch_norm_gradient(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
    make, flags = rs.BatchNormalizationBackward.PrimitiveDesc, "use_scale|use_shift"
    return rs.BatchNormalizationBackward, make(engine, "backward", md, md, md, EPSILON, flags)


def _batch_norm_call(kind: int, flags: int) -> Callable[[Descs], PeerCall]:
    return lambda md: ("batch_normalization_forward", (kind, *_both(md), *floats(EPSILON), flags))


def _gradients_of_norm(name: str, *more: int) -> Callable[[Descs], PeerCall]:
    def create(md: Descs) -> PeerCall:
        three = md[rs.ARG_DIFF_SRC], md[rs.ARG_DIFF_DST], md[rs.ARG_SRC]
        return name, (BACKWARD, *three, *(md[arg] for arg in more), *floats(EPSILON), SCALE_SHIFT)

    return create


def _group_norm(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
    make, flags = rs.GroupNormalizationForward.PrimitiveDesc, "use_scale|use_shift"
    pd = make(engine, "forward_inference", md, _open(md), GROUPS, EPSILON, flags)
    return rs.GroupNormalizationForward, pd


def group_norm_call(md: Descs, kind: int = _INFERENCE) -> PeerCall:
    """oneDNN's group normalization, forward."""
    numbers = ctypes.c_int64(GROUPS), *floats(EPSILON), SCALE_SHIFT
    return "group_normalization_forward", (kind, *_both(md), *numbers)


def _layer_norm(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
    make, flags = rs.LayerNormalizationForward.PrimitiveDesc, "use_scale|use_shift"
    return rs.LayerNormalizationForward, make(
        engine, "forward_inference", md, _open(md), None, EPSILON, flags
    )


def _layer_norm_gradient(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
    make, flags = rs.LayerNormalizationBackward.PrimitiveDesc, "use_scale|use_shift"
    return rs.LayerNormalizationBackward, make(engine, "backward", md, md, md, None, EPSILON, flags)


def _layer_norm_call(kind: int) -> Callable[[Descs], PeerCall]:
    def create(md: Descs) -> PeerCall:
        numbers = *floats(EPSILON), SCALE_SHIFT
        return "layer_normalization_forward", (kind, *_both(md), md[ROW_STATISTICS], *numbers)

    return create


def _lrn(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
    make = rs.LRNForward.PrimitiveDesc
    return rs.LRNForward, make(engine, "forward_inference", "lrn_across_channels", md, _open(md), *LRN)


def _lrn_call(md: Descs) -> PeerCall:
    size, *numbers = LRN
    return "lrn_forward", (_INFERENCE, 0xAFF, *_both(md), ctypes.c_int64(int(size)), *floats(*numbers))


_NORMALIZATIONS = (
    MemoryBoundCase(
        "batch normalization",
        _batch_norm,
        _batch_norm_call(_INFERENCE, _GLOBAL_SCALE_SHIFT),
        lambda t, x, w: t.nn.functional.batch_norm(x, *w),
    ),
    MemoryBoundCase(
        "batch normalization training",
        _batch_norm_trained,
        _batch_norm_call(TRAINING, SCALE_SHIFT),
        lambda t, x, w: t.nn.functional.batch_norm(x, None, None, w[2], w[3], training=True),
        twice=(rs.ARG_SRC,),
    ),
    MemoryBoundCase(
        "batch normalization backward",
        _batch_norm_gradient,
        _gradients_of_norm("batch_normalization_backward"),
        lambda t, x, w: t.ops.aten.native_batch_norm_backward(
            w[0], x, w[3], None, None, w[1], (w[2] + EPSILON).rsqrt(), True, EPSILON, [True] * 3
        )[0],
        hint=_batch_norm_call(TRAINING, SCALE_SHIFT),
        twice=(rs.ARG_SRC, rs.ARG_DIFF_DST),
    ),
    MemoryBoundCase(
        "group normalization",
        _group_norm,
        group_norm_call,
        lambda t, x, w: t.nn.functional.group_norm(x, GROUPS, *w),
    ),
    MemoryBoundCase(
        "lrn across channels",
        _lrn,
        _lrn_call,
        lambda t, x, _: t.nn.functional.local_response_norm(x, *LRN),
    ),
    MemoryBoundCase(
        "layer normalization",
        _layer_norm,
        _layer_norm_call(_INFERENCE),
        lambda t, x, w: t.nn.functional.layer_norm(x, x.shape[1:], *w),
        of_rows=True,
    ),
    MemoryBoundCase(
        "layer normalization backward",
        _layer_norm_gradient,
        _gradients_of_norm("layer_normalization_backward", ROW_STATISTICS),
        lambda t, x, w: t.ops.aten.native_layer_norm_backward(
            *(w[0], x, x.shape[1:], w[1][:, None], (w[2] + EPSILON).rsqrt()[:, None], w[3], w[3]),
            [True] * 3,
        )[0],
        of_rows=True,
        hint=_layer_norm_call(TRAINING),
    ),
)


# --- windows, sums, sizes -----------------------------------------------------------------------------------


def _pool(alg: str, number: int, kernel: int, stride: int, padding: int, torch: TorchCall) -> MemoryBoundCase:
    def make(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
        sizes = tuple((n + 2 * padding - kernel) // stride + 1 for n in md.dims[2:])
        dst = MemoryDesc((*md.dims[:2], *sizes), "f32", "any")
        two = [(n, n) for n in (stride, kernel, 0, padding, padding)]
        pd = rs.PoolingForward.PrimitiveDesc(engine, "forward_inference", f"pooling_{alg}", md, dst, *two)
        return rs.PoolingForward, pd

    def create(md: Descs) -> PeerCall:
        two = [int64s((n, n)) for n in (stride, kernel, 0, padding, padding)]
        return "pooling_forward", (_INFERENCE, number, *_both(md), *two)

    return MemoryBoundCase(f"pooling {alg} {kernel}x{kernel}", make, create, torch)


def _resampling(alg: str, number: int, torch: TorchCall) -> MemoryBoundCase:
    def make(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
        dst = MemoryDesc((*md.dims[:2], *(2 * n for n in md.dims[2:])), "f32", "any")
        pd = rs.ResamplingForward.PrimitiveDesc(engine, "forward_inference", f"resampling_{alg}", md, dst)
        return rs.ResamplingForward, pd

    def create(md: Descs) -> PeerCall:
        return "resampling_forward", (_INFERENCE, number, None, *_both(md))

    return MemoryBoundCase(f"resampling {alg} x2", make, create, torch)


def _softmax(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
    make = rs.SoftmaxForward.PrimitiveDesc
    return rs.SoftmaxForward, make(engine, "forward_inference", "softmax_accurate", md, _open(md), 1)


def _softmax_gradient(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
    make = rs.SoftmaxBackward.PrimitiveDesc
    return rs.SoftmaxBackward, make(engine, "softmax_accurate", md, md, md, 1)


def _softmax_gradient_call(md: Descs) -> PeerCall:
    three = md[rs.ARG_DIFF_SRC], md[rs.ARG_DIFF_DST], md[rs.ARG_DST]
    return "softmax_backward", (0x30000, *three, 1)


def _reduction(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
    dst = MemoryDesc((*md.dims[:2], 1, 1), "f32", "any")
    return rs.Reduction, rs.Reduction.PrimitiveDesc(engine, "reduction_sum", md, dst)


PRIMITIVES = (
    *_ELTWISE,
    *_NORMALIZATIONS,
    _pool("max", 0x1FF, 3, 2, 1, lambda t, x, _: t.nn.functional.max_pool2d(x, 3, 2, 1)),
    _pool("avg_include_padding", 0x2FF, 56, 1, 0, lambda t, x, _: t.nn.functional.avg_pool2d(x, 56)),
    MemoryBoundCase(
        "reduction sum",
        _reduction,
        lambda md: ("reduction", (0x2FFF4, *_both(md), *floats(0, 0))),
        lambda _t, x, _: x.sum((2, 3), True),
    ),
    _resampling("nearest", 0x2FFF0, lambda t, x, _: t.nn.functional.interpolate(x, scale_factor=2)),
    _resampling(
        "linear", 0x2FFF1, lambda t, x, _: t.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")
    ),
    MemoryBoundCase(
        "softmax",
        _softmax,
        lambda md: ("softmax_forward", (_INFERENCE, 0x30000, *_both(md), 1)),
        lambda t, x, _: t.softmax(x, 1),
        of_rows=True,
    ),
    MemoryBoundCase(
        "softmax backward",
        _softmax_gradient,
        _softmax_gradient_call,
        lambda t, x, w: t.ops.aten._softmax_backward_data(w[0], x, 1, x.dtype),
        of_rows=True,
        hint=lambda md: ("softmax_forward", (TRAINING, 0x30000, md[rs.ARG_DST], md[rs.ARG_DST], 1)),
    ),
)
"""All that are measured."""
