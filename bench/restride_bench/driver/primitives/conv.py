"""Convolution and deconvolution: `--conv --dir=FWD_B --dt=bf16 g2ic16oc32_ih14oh14kh3ph1`, `--deconv …`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import restride as rs

from ..attr_text import PostOpText
from ..convolution_case import ConvCase, DeconvCase, parse_convolution, parse_deconvolution
from ..driver import Driver
from ..fill import Array, rounded
from ..formulas import after_post_ops, finished, scale_of, zero_point_of
from ..knobs import caseless
from ..products import (
    EXACT,
    LARGEST,
    PRODUCT_KNOBS,
    invalid_product,
    operand,
    product_work,
)
from ..work import CaseOperand, CaseWork, Values

Slices = tuple[slice, ...]
Tap = tuple[slice | int, ...]

_ALGORITHMS = ("direct", "auto", "wino")
_NAMES = {f"{kind}_{alg}": alg for kind in ("convolution", "deconvolution") for alg in _ALGORITHMS}
_KNOBS = {**PRODUCT_KNOBS, "alg": caseless("alg", *_ALGORITHMS, also=_NAMES)}


# --- what is run --------------------------------------------------------------------------------------------

_KINDS = {
    ("conv", "forward"): rs.ConvolutionForward,
    ("conv", "backward_data"): rs.ConvolutionBackwardData,
    ("conv", "backward_weights"): rs.ConvolutionBackwardWeights,
    ("deconv", "forward"): rs.DeconvolutionForward,
    ("deconv", "backward_data"): rs.DeconvolutionBackwardData,
    ("deconv", "backward_weights"): rs.DeconvolutionBackwardWeights,
}


def _forward_desc(case: ConvCase, engine: rs.Engine, attr: rs.PrimitiveAttr | None) -> Any:
    kind = "forward_inference" if case.dir == "FWD_I" else "forward_training"
    mds = case.mds
    made = _KINDS[case.driver, "forward"].PrimitiveDesc
    tensors = mds["src"], mds["weights"], mds.get("bias"), mds["dst"]
    return made(engine, kind, f"{case.prefix}_{case.alg}", *tensors, *case.windows, attr)


def _work(case: ConvCase) -> CaseWork:
    direction, mds = case.direction, case.mds
    kind: Any = _KINDS[case.driver, direction]

    def create(engine: rs.Engine, attr: rs.PrimitiveAttr) -> Any:
        if direction == "forward":
            return _forward_desc(case, engine, attr)
        hint = _forward_desc(case, engine, None)
        tensors: tuple[Any, ...] = (mds["src"], mds["weights"], mds["dst"])
        if direction == "backward_weights":
            tensors = (mds["src"], mds["weights"], mds.get("bias"), mds["dst"])
        alg = f"{case.prefix}_{case.alg}"
        return kind.PrimitiveDesc(engine, alg, *tensors, *case.windows, hint_pd=hint, attr=attr)

    return product_work(case, create, kind, _products(case), _finished, partial(_append_depthwise, case))


_DEPTHWISE = {"weights": rs.ARG_WEIGHTS, "bias": rs.ARG_BIAS}


def _append_depthwise(case: ConvCase, post_ops: rs.PostOps, op: PostOpText) -> list[CaseOperand]:
    """Append a depthwise convolution of the result; its weights, and its bias where there is one."""
    behind = case.fused
    assert behind is not None
    mds = behind.mds
    bias_type = behind.bias_type if "bias" in mds else "undef"
    post_ops.append_dw(behind.dt[1], bias_type, behind.dt[2], *op.window)
    terms = (EXACT - 1) // LARGEST**2
    return [
        operand(rs.ARG_ATTR_POST_OP_DW | arg, mds[name], "a", terms, seed)
        for seed, (name, arg) in enumerate(_DEPTHWISE.items(), 7)
        if name in mds
    ]


# --- the formula --------------------------------------------------------------------------------------------


def _products(case: ConvCase) -> dict[str, Any]:
    if case.driver == "conv":
        return {
            "forward": lambda src, weights: _points(case, src, _grouped(case, weights)),
            "backward_data": lambda dst, weights: _windows(case, dst, _grouped(case, weights)),
            "backward_weights": lambda src, dst: _weights(case, src, dst).reshape(case.weight_dims),
        }
    return {
        "forward": lambda src, weights: _windows(case, src, _turned(_grouped(case, weights))),
        "backward_data": lambda dst, weights: _points(case, dst, _turned(_grouped(case, weights))),
        "backward_weights": lambda src, dst: _turned(_weights(case, dst, src)).reshape(case.weight_dims),
    }


def _finished(case: ConvCase, total: Array, values: Values) -> Array:
    """What becomes of sums: with a depthwise convolution among the post-ops, those of two convolutions."""
    behind, place = case.fused, case.fused_place
    if behind is None:
        return finished(case, total, values)
    held = after_post_ops(case, total, values, range(place))
    scale, zero = scale_of(case, "dst", values), zero_point_of(case, "dst", values)
    held = rounded(held / scale + zero, rs.DataType.parse(case.dt[2])).astype(np.float64)
    weights, bias = (values.get(rs.ARG_ATTR_POST_OP_DW | arg) for arg in _DEPTHWISE.values())
    assert weights is not None
    weights = weights * scale_of(case, "attr_post_op_dw_wei", values)
    sums = _points(behind, (held - zero) * scale, weights)
    sums += 0.0 if bias is None else bias.reshape(-1, 1, 1)
    made = after_post_ops(case, sums, values, range(place + 1, len(case.attr_post_ops)))
    return np.asarray(made / scale_of(case, "attr_post_op_dw_dst", values))


def _grouped(case: ConvCase, weights: Array) -> Array:
    """Weights of groups, even of one."""
    return weights.reshape(-1, *weights.shape[-2 - len(case.kernel) :])


def _turned(weights: Array) -> Array:
    """Weights with the channels of points in front of those of windows, or back."""
    return np.swapaxes(weights, 1, 2)


def _taps(case: ConvCase) -> Iterator[tuple[Tap, Slices, Slices]]:
    """For each tap of the kernel: which elements under windows meet which points."""
    for tap in itertools.product(*map(range, case.kernel)):
        at = [_along(case, dim, step) for dim, step in enumerate(tap)]
        every = (slice(None),) * 3
        yield (*every, *tap), (*every, *(window for window, _ in at)), (*every, *(point for _, point in at))


def _along(case: ConvCase, dim: int, tap: int) -> tuple[slice, slice]:
    stride = case.window_strides[dim]
    first = tap * (case.dilation[dim] + 1) - case.padding[dim]
    low = max(0, -(first // stride))
    high = min(case.point_sizes[dim], (case.window_sizes[dim] - 1 - first) // stride + 1)
    if high <= low:
        return slice(0, 0), slice(0, 0)
    return slice(first + low * stride, first + (high - 1) * stride + 1, stride), slice(low, high)


def _split(case: ConvCase, x: Array) -> Array:
    """A tensor with its channels in groups."""
    groups = max(case.groups, 1)
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])


def _flat(x: Array) -> Array:
    return x.reshape(*x.shape[:3], -1)


def _points(case: ConvCase, x: Array, weights: Array) -> Array:
    """For each window the sum of what lies under it, times the weights (groups, points, windows, …)."""
    x, sizes = _split(case, x), case.point_sizes
    out = np.zeros((*x.shape[:2], weights.shape[1], *sizes))
    for tap, window, point in _taps(case):
        part = out[point]
        part += (weights[tap] @ _flat(x[window])).reshape(part.shape)
    return out.reshape(len(x), -1, *sizes)


def _windows(case: ConvCase, y: Array, weights: Array) -> Array:
    """For each element under windows the sum of the points that it is part of, times the weights."""
    y, sizes = _split(case, y), case.window_sizes
    out = np.zeros((*y.shape[:2], weights.shape[2], *sizes))
    for tap, window, point in _taps(case):
        part = out[window]
        part += (np.swapaxes(weights[tap], 1, 2) @ _flat(y[point])).reshape(part.shape)
    return out.reshape(len(y), -1, *sizes)


def _weights(case: ConvCase, x: Array, y: Array) -> Array:
    """For each weight the sum of elements under windows times points."""
    x, y = _split(case, x), _split(case, y)
    out = np.zeros((y.shape[1], y.shape[2], x.shape[2], *case.kernel))
    for tap, window, point in _taps(case):
        out[tap] = (_flat(y[point]) @ np.swapaxes(_flat(x[window]), 2, 3)).sum(0)
    return out


def _invalid(case: ConvCase) -> Iterator[str]:
    yield from invalid_product(case)
    if case.fused is not None:
        yield from _invalid_depthwise(case, case.fused_place)
    if case.alg == "wino":
        yield "Case not supported: --alg=wino, there is direct"


def _invalid_depthwise(case: ConvCase, place: int) -> Iterator[str]:
    op, *behind = case.attr_post_ops[place:]
    if case.direction != "forward":
        yield f"Invalid case: {op} of a gradient"
    if len(case.dims) != 2 + len("hw") or any(other.kind == "dw" for other in behind):
        yield f"Case not supported: {op}, there is one in two spatial dims"
    if any(other.kind == "sum" for other in case.attr_post_ops[:place]):
        yield f"Invalid case: a sum in front of {op}, of a result that nobody has"


_TEMPLATE = "%dir%,%dt%,%stag%,%dtag%,%alg%,%DESC%"
_MAKE = partial(Driver, types=lambda case: case.types, template=_TEMPLATE, invalid=_invalid)
CONV = _MAKE(ConvCase, _KNOBS, _work, parse=parse_convolution)
DECONV = _MAKE(DeconvCase, _KNOBS, _work, parse=parse_deconvolution)
