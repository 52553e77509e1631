"""Chains of post-ops with several sums, behind every primitive that takes post-ops, beside NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from support.attributed import LEVELS, capped
from support.by_offset import guarded
from support.computed import Array, elements, memory_of, padding_is_zero
from support.convolved import Case, backward_data, forward
from support.engines import run
from support.errors import refused

CPU = rs.Engine("cpu")
DIMS = (2, 20, 5, 6)
WINDOWS = Case(2, 1, 12, 20, (5, 6), (3, 3), (1, 1), (0, 0), (1, 1))
FORMATS = ("abcd", "acdb", "aBcd16b", (800, 35, 7, 1))
# The data type of the result, and what each of the two sums is less and reads it as.
TYPES = {
    "f32": ((0, 0), None),
    "bf16": ((0, 0), None),
    "f64": ((0, 0), None),
    "s32": ((3, -2), None),
    "u8": ((3, 0), None),
    "s8": ((-7, 100), "u8"),
    "s4": ((3, -2), None),
}
SCALES = (2.0, -0.5)


class Problem(NamedTuple):
    """A primitive: its descriptor for a result and attributes, what it reads, and what it is without them.

    `is_whole`: numbers are so small that every operation is exact.
    """

    primitive: Any
    pd: Callable[[rs.Engine, rs.MemoryDesc, rs.PrimitiveAttr], Any]
    inputs: dict[int, Array]
    result: Array
    is_whole: bool = True


def whole(dims: tuple[int, ...], seed: int, low: int = -4, high: int = 5) -> Array:
    return np.random.default_rng(seed).integers(low, high, dims).astype(np.float32)


def md(dims: tuple[int, ...], format: Any = None, data_type: str = "f32") -> rs.MemoryDesc:
    return rs.MemoryDesc(dims, data_type, format)


def _wide(dst: rs.MemoryDesc) -> str:
    return "f64" if dst.data_type is rs.f64 else "f32"


def _one_source(primitive: Any, x: Array, result: Array, *before: Any, is_whole: bool = True) -> Problem:
    """A primitive of one source, whose own parameters are `before` source and destination, or behind."""
    split = before.index(...) if ... in before else len(before)

    def pd(engine: rs.Engine, dst: rs.MemoryDesc, attr: rs.PrimitiveAttr) -> Any:
        src = md(x.shape, dst.tag or "abcd", _wide(dst))
        return primitive.PrimitiveDesc(engine, *before[:split], src, dst, *before[split + 1 :], attr=attr)

    return Problem(primitive, pd, {rs.ARG_SRC: x}, result, is_whole)


def _reorder() -> Problem:
    x = whole(DIMS, 0)
    return Problem(
        rs.Reorder,
        lambda engine, dst, attr: rs.Reorder.PrimitiveDesc(engine, md(DIMS), engine, dst, attr),
        {rs.ARG_SRC: x},
        x,
    )


def _binary() -> Problem:
    x, y = whole(DIMS, 0), whole((1, 20, 1, 1), 1)
    return Problem(
        rs.Binary,
        lambda engine, dst, attr: rs.Binary.PrimitiveDesc(engine, "add", md(DIMS), md(y.shape), dst, attr),
        {rs.ARG_SRC_0: x, rs.ARG_SRC_1: y},
        x + y,
    )


def _normalized(x: Array, axes: tuple[int, ...]) -> Array:
    wide = x.astype(np.float64)
    centered = wide - wide.mean(axes, keepdims=True)
    return centered / np.sqrt((centered**2).mean(axes, keepdims=True) + 1e-3)


def _softmax() -> Problem:
    x = whole(DIMS, 0)
    power = np.exp(x.astype(np.float64))
    result = power / power.sum(1, keepdims=True)
    kind = ("forward_inference", "softmax_accurate", ..., 1)
    return _one_source(rs.SoftmaxForward, x, result, *kind, is_whole=False)


def _norm(kind: str) -> Problem:
    x = whole(DIMS, 0)
    if kind == "group":
        result = _normalized(x.reshape(2, 4, -1), (2,)).reshape(DIMS)
        own = rs.GroupNormalizationForward, ("forward_inference", ..., 4, 1e-3, "none")
    elif kind == "layer":
        result = _normalized(x, (3,))
        own = rs.LayerNormalizationForward, ("forward_inference", ..., None, 1e-3, "none")
    else:
        result = _normalized(x, (0, 2, 3))
        own = rs.BatchNormalizationForward, ("forward_inference", ..., 1e-3, "none")
    return _one_source(own[0], x, result, *own[1], is_whole=False)


def _pooling() -> Problem:
    x = whole((2, 20, 10, 12), 0)
    result = x.reshape(2, 20, 5, 2, 6, 2).max((3, 5))
    kind = ("forward_inference", "pooling_max", ..., [2, 2], [2, 2], [0, 0], [0, 0], [0, 0])
    return _one_source(rs.PoolingForward, x, result, *kind)


def _resampling() -> Problem:
    x = whole((2, 20, 5, 3), 0)
    kind = ("forward_inference", "resampling_nearest", [1.0, 2.0])
    return _one_source(rs.ResamplingForward, x, x.repeat(2, 3), *kind)


def _reduction() -> Problem:
    x = whole((*DIMS[:3], 12), 0)
    result = x.reshape(2, 20, 5, 12).sum(3, keepdims=True)
    return _one_source(rs.Reduction, x, result, "sum", ..., 0.0, 0.0)


def _product(primitive: Any, x: Array, w: Array, result: Array, *around: Any) -> Problem:
    """A sum of products; `around` are the parameters in front of the tensors and behind them."""
    split = around.index(...)

    def pd(engine: rs.Engine, dst: rs.MemoryDesc, attr: rs.PrimitiveAttr) -> Any:
        kinds = ("u8", "s8") if dst.data_type.is_integral else (_wide(dst), _wide(dst))
        mds = [
            md(values.shape, "any" if dst.ndims == 4 else None, kind)
            for values, kind in zip((x, w), kinds, strict=True)
        ]
        return primitive.PrimitiveDesc(engine, *around[:split], *mds, dst, *around[split + 1 :], attr=attr)

    return Problem(primitive, pd, {rs.ARG_SRC: x, rs.ARG_WEIGHTS: w}, result)


def _matmul() -> Problem:
    x, w = whole((*DIMS[:3], 7), 0, 0), whole((*DIMS[:2], 7, 6), 1)
    return _product(rs.Matmul, x, w, x @ w, ...)


def _inner_product() -> Problem:
    x, w = whole((9, 7, 2), 0, 0), whole((20, 7, 2), 1)
    return _product(rs.InnerProductForward, x, w, np.einsum("nks,oks->no", x, w), "forward_inference", ...)


def _convolution() -> Problem:
    x, w = whole(WINDOWS.dims[0], 0, 0, 3), whole(WINDOWS.dims[1], 1, -1, 2)
    kind = ("forward_inference", "convolution_direct", ..., *WINDOWS.window)
    return _product(rs.ConvolutionForward, x, w, forward(WINDOWS, x, w), *kind)


def _deconvolution() -> Problem:
    case = Case(2, 1, 20, 12, (5, 6), (3, 3), (1, 1), (0, 0), (1, 1))
    x, w = whole(case.dims[2], 0, 0, 3), whole((20, 12, 3, 3), 1, -1, 2)
    result = backward_data(case, x, w.swapaxes(0, 1))
    kind = ("forward_inference", "deconvolution_direct", ..., *case.window)
    return _product(rs.DeconvolutionForward, x, w, result, *kind)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "reorder": _reorder,
    "binary": _binary,
    "softmax": _softmax,
    "batch normalization": lambda: _norm("batch"),
    "layer normalization": lambda: _norm("layer"),
    "group normalization": lambda: _norm("group"),
    "pooling": _pooling,
    "resampling": _resampling,
    "reduction": _reduction,
    "matmul": _matmul,
    "inner product": _inner_product,
    "convolution": _convolution,
    "deconvolution": _deconvolution,
    "eltwise": lambda: _one_source(
        rs.EltwiseForward, whole(DIMS, 0), abs(whole(DIMS, 0)), "forward_inference", "abs"
    ),
}


def _attr(zero_points: tuple[int, int], read_as: str | None) -> rs.PrimitiveAttr:
    attr, ops = rs.PrimitiveAttr(), rs.PostOps()
    ops.append_sum(SCALES[0], zero_points[0], read_as)
    ops.append_eltwise("relu_use_dst_for_bwd", 0.25)
    ops.append_sum(SCALES[1], zero_points[1], read_as)
    attr.set_post_ops(ops)
    return attr


def _wanted(result: Array, old: Array, zero_points: tuple[int, int], read_as: str | None) -> Array:
    """The chain of `_attr` by NumPy: both sums see what the destination held before."""
    old = (old if read_as is None else old.astype(np.int8).view(np.uint8)).astype(np.float64)
    t = result + SCALES[0] * (old - zero_points[0])
    t = np.where(t > 0, t, 0.25 * t)
    return t + SCALES[1] * (old - zero_points[1])


def _check(engine: rs.Engine, name: str, data_type: str, format: Any) -> None:
    problem, (zero_points, read_as) = PROBLEMS[name](), TYPES[data_type]
    dims = problem.result.shape
    dst = md(dims, format if len(dims) == 4 else None, data_type)
    old = whole(dims, 9, 0 if dst.data_type.kind == "uint" else -4)
    pd = problem.pd(engine, dst, _attr(zero_points, read_as))
    memories = {
        arg: memory_of(pd.query_md("exec_arg_md", arg), x, engine) for arg, x in problem.inputs.items()
    }
    made = guarded(dst, engine, fill=0xA5)
    before = memory_of(md(dims), old, engine)
    run(rs.Reorder(before, made.memory), engine, before, made.memory)
    run(problem.primitive(pd), engine, {**memories, rs.ARG_DST: made.memory})
    made.check_canaries()
    wanted, got = _wanted(problem.result, old, zero_points, read_as), elements(made.memory)
    if dst.data_type.is_integral:
        limits = ml_dtypes.iinfo(dst.data_type.numpy)
        wanted = np.rint(wanted).clip(limits.min, limits.max)
    if problem.is_whole and data_type != "bf16":
        np.testing.assert_array_equal(got, wanted)
    else:
        # Results beside a half, or of few bits, may be rounded to the next number.
        rough = {"bf16": 2**-8, "f64": 1e-12}.get(data_type, 1e-5)
        least = 1.0 if dst.data_type.is_integral else rough
        np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=rough, atol=least)
    assert padding_is_zero(made.memory)


def _is_compared(name: str, data_type: str) -> bool:
    if "normalization" in name:
        return data_type not in ("f64", "s32", "s4")
    return data_type != "s4" or name not in ("softmax", "pooling", "reduction")


@pytest.mark.sweep(2)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("level", [*LEVELS, "reference"])
@pytest.mark.parametrize("format", FORMATS, ids=str)
@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_sum_of_a_chain_sees_the_old_destination(name, data_type, format, level, threads):
    if not _is_compared(name, data_type):
        pytest.skip(f"{name} is not compared in {data_type}")
    before = rs.get_num_threads()
    rs.set_num_threads(threads)
    try:
        if level == "reference":
            _check(rs.Engine("reference"), name, data_type, format)
        else:
            with capped(level):
                _check(CPU, name, data_type, format)
    finally:
        rs.set_num_threads(before)


@pytest.mark.parametrize("name", ["eltwise", "binary"])
def test_several_sums_see_the_source_where_the_destination_lies_in_its_place(engine, name):
    x, y = whole(DIMS, 0), whole(DIMS, 1)
    inputs = {rs.ARG_SRC: x} if name == "eltwise" else {rs.ARG_SRC_0: x, rs.ARG_SRC_1: y}
    attr, desc = _attr((0, 0), None), md(DIMS)
    if name == "eltwise":
        pd = rs.EltwiseForward.PrimitiveDesc(engine, "forward_inference", "abs", desc, desc, attr=attr)
    else:
        pd = rs.Binary.PrimitiveDesc(engine, "add", desc, desc, desc, attr)
    memories = {arg: memory_of(desc, values, engine) for arg, values in inputs.items()}
    primitive = (rs.EltwiseForward if name == "eltwise" else rs.Binary)(pd)
    run(primitive, engine, {**memories, rs.ARG_DST: memories[rs.ARG_SRC]})
    result = abs(x) if name == "eltwise" else x + y
    np.testing.assert_array_equal(elements(memories[rs.ARG_SRC]), _wanted(result, x, (0, 0), None))


@pytest.mark.parametrize("name", ["reorder", "eltwise", "binary", "resampling"])
def test_several_sums_are_computed_on_every_engine(engine, name):
    _check(engine, name, "s8", "aBcd16b")


def test_several_sums_follow_a_depthwise_convolution_and_none_precedes_it():
    x, w, depth = whole((1, 4, 5, 6), 0), whole((8, 4, 1, 1), 1), whole((8, 1, 1, 3, 3), 2)
    ops = rs.PostOps()
    ops.append_dw("f32", "undef", "f32", 3, 1, 1)
    ops.append_sum(2.0)
    ops.append_sum(-0.5)
    attr = rs.PrimitiveAttr()
    attr.set_post_ops(ops)
    mds = [md(dims, "any") for dims in (x.shape, w.shape, (1, 8, 5, 6))]
    window = [1, 1], [0, 0], [0, 0], [0, 0]
    around = CPU, "forward_inference", "convolution_direct"
    pd = rs.ConvolutionForward.PrimitiveDesc(*around, *mds, *window, attr=attr)
    old = whole((1, 8, 5, 6), 3)
    given = {
        rs.ARG_SRC: x,
        rs.ARG_WEIGHTS: w,
        rs.ARG_ATTR_POST_OP_DW | rs.ARG_WEIGHTS: depth,
        rs.ARG_DST: old,
    }
    memories = {arg: memory_of(pd.query_md("exec_arg_md", arg), each, CPU) for arg, each in given.items()}
    run(rs.ConvolutionForward(pd), CPU, memories)
    between = np.einsum("nchw,oc->nohw", x, w[..., 0, 0])
    case = Case(1, 8, 1, 1, (5, 6), (3, 3), (1, 1), (0, 0), (1, 1))
    np.testing.assert_array_equal(elements(memories[rs.ARG_DST]), forward(case, between, depth) + 1.5 * old)


def test_a_sum_behind_beta_adds_the_old_destination_again():
    x, old = whole(DIMS, 0), whole(DIMS, 1)
    ops = rs.PostOps()
    ops.append_eltwise("relu")
    ops.append_sum(2.0)
    for chain in (ops, ["relu", ("sum", 2.0)]):
        out = old.copy()
        rs.reorder(x, out=out, beta=0.5, post_ops=chain)
        np.testing.assert_array_equal(out, np.maximum(x + 0.5 * old, 0) + 2 * old)
        with refused("beta without out"):
            rs.reorder(x, post_ops=chain)


def test_a_sum_of_scale_0_reads_nothing_whatever_the_other_sums_do():
    x, old = np.float32([1, 2, 3]), np.float32([np.nan, 4, np.inf])
    for scales, wanted in (((0.0, 0.0), [1, 2, 3]), ((0.0, 1.0), [np.nan, 6, np.inf])):
        out = old.copy()
        rs.reorder(x, out=out, post_ops=[("sum", scale) for scale in scales])
        np.testing.assert_array_equal(out, np.float32(wanted))


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_sums_of_a_chain_read_one_type(name):
    problem, attr, ops = PROBLEMS[name](), rs.PrimitiveAttr(), rs.PostOps()
    ops.append_sum(1.0, 0, "u8")
    ops.append_sum(1.0)
    attr.set_post_ops(ops)
    dst = md(problem.result.shape, None, "s8")
    with refused("sums that read dst as u8 and as s8", "R30", kind=rs.Unimplemented):
        problem.pd(CPU, dst, attr)
    assert problem.pd(CPU, md(dst.dims, None, "u8"), attr)


@pytest.mark.parametrize("alg", ["relu", "tanh", "elu", "sqrt", "logistic", "exp", "clip_v2"])
@pytest.mark.parametrize("suffix", ["", "_use_dst_for_bwd"])
def test_functions_that_go_back_from_the_result_are_post_ops_too(engine, alg, suffix):
    x = np.linspace(0.01, 3, 64, dtype=np.float32) * (1 if alg == "sqrt" else -1)
    formulas = {
        "relu": lambda x: np.where(x > 0, x, 0.5 * x),
        "tanh": np.tanh,
        "elu": lambda x: np.where(x > 0, x, 0.5 * np.expm1(x)),
        "sqrt": np.sqrt,
        "logistic": lambda x: 1 / (1 + np.exp(-x)),
        "exp": np.exp,
        "clip_v2": lambda x: np.clip(x, 0.5, 2.0),
    }
    attr, ops = rs.PrimitiveAttr(), rs.PostOps()
    ops.append_eltwise(f"eltwise_{alg}{suffix}", 0.5, 2.0)
    attr.set_post_ops(ops)
    desc = rs.MemoryDesc(x.shape, "f32")
    pd = rs.EltwiseForward.PrimitiveDesc(engine, "forward_inference", "linear", desc, desc, 1.0, attr=attr)
    src, dst = memory_of(desc, x, engine), memory_of(desc, x, engine)
    run(rs.EltwiseForward(pd), engine, {rs.ARG_SRC: src, rs.ARG_DST: dst})
    np.testing.assert_allclose(elements(dst), formulas[alg](x.astype(np.float64)), rtol=1e-6, atol=1e-7)
    assert ops.get_params_eltwise(0)[0] == alg + suffix
    params = {"relu": (0.5,), "elu": (0.5,), "clip_v2": (0.5, 2.0)}.get(alg, ())
    np.testing.assert_array_equal(rs.reorder(x, post_ops=[(alg + suffix, *params)]), elements(dst))
