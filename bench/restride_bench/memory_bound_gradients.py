"""Gradients of the primitives bound by memory that are measured beside those of `memory_bound_cases`."""

from __future__ import annotations

import ctypes
from typing import Any

import restride as rs
from restride import MemoryDesc

from .memory_bound_cases import (
    BACKWARD,
    EPSILON,
    GROUPS,
    LRN,
    SCALE_SHIFT,
    TRAINING,
    Descs,
    MemoryBoundCase,
    PeerCall,
    TorchCall,
    floats,
    group_norm_call,
    halved,
    int64_pairs,
)


def _pool(alg: str, number: int, padding: int, torch: TorchCall | None) -> MemoryBoundCase:
    """Windows of 3 by 3 whose strides are 2. A workspace of zeros and ones chooses two positions of each."""
    pairs = [(n, n) for n in (2, 3, 0, padding, padding)]

    def make(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
        sizes = tuple((n + 2 * padding - 3) // 2 + 1 for n in md.dims[2:])
        gradient = MemoryDesc((*md.dims[:2], *sizes), "f32", md.tag)
        pd = rs.PoolingBackward.PrimitiveDesc(engine, f"pooling_{alg}", md, gradient, *pairs)
        return rs.PoolingBackward, pd

    def create(md: Descs) -> PeerCall:
        both = md[rs.ARG_DIFF_SRC], md[rs.ARG_DIFF_DST]
        return "pooling_backward", (number, *both, *int64_pairs(pairs))

    def hint(md: Descs) -> PeerCall:
        both = md[rs.ARG_DIFF_SRC], md[rs.ARG_DIFF_DST]
        return "pooling_forward", (TRAINING, number, *both, *int64_pairs(pairs))

    return MemoryBoundCase(f"pooling {alg} 3x3 backward", make, create, torch, hint=hint)


def _resampling(alg: str, number: int, torch: TorchCall) -> MemoryBoundCase:
    def make(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
        small = halved(md)
        return rs.ResamplingBackward, rs.ResamplingBackward.PrimitiveDesc(
            engine, f"resampling_{alg}", small, md
        )

    def create(md: Descs) -> PeerCall:
        return "resampling_backward", (number, None, md[rs.ARG_DIFF_SRC], md[rs.ARG_DIFF_DST])

    def hint(md: Descs) -> PeerCall:
        return "resampling_forward", (TRAINING, number, None, md[rs.ARG_DIFF_SRC], md[rs.ARG_DIFF_DST])

    return MemoryBoundCase(f"resampling {alg} x2 backward", make, create, torch, hint=hint)


def _prelu(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
    weights = MemoryDesc((1, md.dims[1], 1, 1), "f32", "abcd")
    return rs.PReLUBackward, rs.PReLUBackward.PrimitiveDesc(engine, md, weights, md, weights, md)


def _prelu_call(md: Descs) -> PeerCall:
    src, weights = md[rs.ARG_SRC], md[rs.ARG_WEIGHTS]
    gradients = md[rs.ARG_DIFF_SRC], md[rs.ARG_DIFF_WEIGHTS], md[rs.ARG_DIFF_DST]
    return "prelu_backward", (src, weights, *gradients)


def _prelu_hint(md: Descs) -> PeerCall:
    return "prelu_forward", (TRAINING, md[rs.ARG_SRC], md[rs.ARG_WEIGHTS], md[rs.ARG_DIFF_DST])


def _lrn(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
    return rs.LRNBackward, rs.LRNBackward.PrimitiveDesc(engine, "lrn_across_channels", md, md, md, *LRN)


def _lrn_call(md: Descs) -> PeerCall:
    size, *numbers = LRN
    three = md[rs.ARG_DIFF_SRC], md[rs.ARG_DIFF_DST], md[rs.ARG_SRC]
    return "lrn_backward", (0xAFF, *three, ctypes.c_int64(int(size)), *floats(*numbers))


def _lrn_hint(md: Descs) -> PeerCall:
    size, *numbers = LRN
    both = md[rs.ARG_SRC], md[rs.ARG_DIFF_DST]
    return "lrn_forward", (TRAINING, 0xAFF, *both, ctypes.c_int64(int(size)), *floats(*numbers))


def _group_norm(engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
    make, flags = rs.GroupNormalizationBackward.PrimitiveDesc, "use_scale|use_shift"
    pd = make(engine, "backward", md, md, md, GROUPS, EPSILON, flags)
    return rs.GroupNormalizationBackward, pd


def _group_norm_call(md: Descs) -> PeerCall:
    three = md[rs.ARG_DIFF_SRC], md[rs.ARG_DIFF_DST], md[rs.ARG_SRC]
    numbers = ctypes.c_int64(GROUPS), *floats(EPSILON), SCALE_SHIFT
    return "group_normalization_backward", (BACKWARD, *three, *numbers)


def _torch_average(t: Any, d: Any, w: list[Any]) -> Any:
    n, c, h, v = d.shape
    like = d.new_empty((n, c, 2 * h, 2 * v))
    return t.ops.aten.avg_pool2d_backward(d, like, [3, 3], [2, 2], [1, 1], False, True, None)


def _torch_nearest(t: Any, d: Any, w: list[Any]) -> Any:
    n, c, h, v = d.shape
    return t.ops.aten.upsample_nearest2d_backward(d, [h, v], [n, c, h // 2, v // 2])


def _torch_linear(t: Any, d: Any, w: list[Any]) -> Any:
    n, c, h, v = d.shape
    return t.ops.aten.upsample_bilinear2d_backward(d, [h, v], [n, c, h // 2, v // 2], False)


GRADIENTS = (
    _pool("max", 0x1FF, 0, None),
    _pool("avg_include_padding", 0x2FF, 1, _torch_average),
    _resampling("nearest", 0x2FFF0, _torch_nearest),
    _resampling("linear", 0x2FFF1, _torch_linear),
    MemoryBoundCase(
        "prelu backward",
        _prelu,
        _prelu_call,
        lambda t, x, w: t.ops.aten._prelu_kernel_backward(w[0], x, w[1])[0],
        hint=_prelu_hint,
    ),
    MemoryBoundCase("lrn across channels backward", _lrn, _lrn_call, None, hint=_lrn_hint),
    MemoryBoundCase(
        "group normalization backward",
        _group_norm,
        _group_norm_call,
        None,
        hint=lambda md: group_norm_call({**md, rs.ARG_DST: md[rs.ARG_DIFF_DST]}, TRAINING),
    ),
)
"""Gradients of windows, sizes, weights and groups."""
