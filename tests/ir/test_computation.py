"""Chains of post-ops with several sums, behind every primitive that takes post-ops, beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import restride as rs
from support.computed import Array, elements, memory_of
from support.conformance import outcome
from support.convolved import Case, forward
from support.engines import run
from support.errors import refused
from support.sycl import skip_where_the_compiler_crashes

CPU = rs.Engine("cpu")
DIMS = (2, 20, 5, 6)


def whole(dims: tuple[int, ...], seed: int, low: int = -4, high: int = 5) -> Array:
    return np.random.default_rng(seed).integers(low, high, dims).astype(np.float32)


def md(dims: tuple[int, ...], format: Any = None, data_type: str = "f32") -> rs.MemoryDesc:
    return rs.MemoryDesc(dims, data_type, format)


def _attr(*sums: tuple[object, ...]) -> rs.PrimitiveAttr:
    """Sums with a function between them."""
    attr, ops = rs.PrimitiveAttr(), rs.PostOps()
    for number, values in enumerate(sums):
        if number:
            ops.append_eltwise("relu_use_dst_for_bwd", 0.25)
        ops.append_sum(*values)
    attr.set_post_ops(ops)
    return attr


def _wanted(result: Array, old: Array) -> Array:
    """The chain of sums of 2 and -0.5 by NumPy: both see what the destination held before."""
    t = result + 2.0 * old
    return np.where(t > 0, t, 0.25 * t) - 0.5 * old


@pytest.mark.parametrize("name", ["eltwise", "binary"])
def test_several_sums_see_the_source_where_the_destination_lies_in_its_place(engine, name):
    x, y = whole(DIMS, 0), whole(DIMS, 1)
    inputs = {rs.ARG_SRC: x} if name == "eltwise" else {rs.ARG_SRC_0: x, rs.ARG_SRC_1: y}
    attr, desc = _attr((2.0,), (-0.5,)), md(DIMS)
    if name == "eltwise":
        pd = rs.EltwiseForward.PrimitiveDesc(engine, "forward_inference", "abs", desc, desc, attr=attr)
    else:
        pd = rs.Binary.PrimitiveDesc(engine, "add", desc, desc, desc, attr)
    memories = {arg: memory_of(desc, values, engine) for arg, values in inputs.items()}
    primitive = (rs.EltwiseForward if name == "eltwise" else rs.Binary)(pd)
    run(primitive, engine, {**memories, rs.ARG_DST: memories[rs.ARG_SRC]})
    result = abs(x) if name == "eltwise" else x + y
    np.testing.assert_array_equal(elements(memories[rs.ARG_SRC]), _wanted(result, x))


def test_the_sums_of_a_pooling_see_the_old_destination(engine):
    skip_where_the_compiler_crashes(engine)
    x, old = whole((2, 20, 10, 12), 0), whole(DIMS, 9)
    windows = [2, 2], [2, 2], [0, 0], [0, 0], [0, 0]
    for format in ("abcd", "aBcd16b"):
        dst = memory_of(md(DIMS, format), old, engine)
        src, how = md(x.shape, "acdb"), ("forward_inference", "pooling_max")
        attr = _attr((2.0,), (-0.5,))
        pd = rs.PoolingForward.PrimitiveDesc(engine, *how, src, dst.desc, *windows, attr=attr)
        args = {rs.ARG_SRC: memory_of(src, x, engine), rs.ARG_DST: dst}
        run(rs.PoolingForward(pd), engine, args)
        result = x.reshape(2, 20, 5, 2, 6, 2).max((3, 5))
        np.testing.assert_array_equal(elements(dst), _wanted(result, old))


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


_TAKING_SUMS = (
    "--reorder 2x3",
    "--binary 2x3:2x3",
    "--eltwise 2x3",
    "--softmax --dir=FWD_I 2x3",
    "--bnorm --dir=FWD_I --dt=s8 --flags=G mb2ic3ih2",
    "--lnorm --dir=FWD_I --dt=f32:s8 2x3",
    "--gnorm --dir=FWD_I --dt=f32:s8 g1ic3ih2",
    "--pool --dir=FWD_I --dt=s8 ic3_iw4kw2",
    "--resampling --dir=FWD_I ic3_iw4ow8",
    "--reduction 2x3:2x1",
    "--matmul --dt=u8:s8:s8 2x3:3x4",
    "--ip --dir=FWD_I --dt=u8:s8:s8 ic3ih2oc4",
    "--conv --dir=FWD_I --dt=u8:s8:s8 ic3oc4_iw5kw3",
    "--deconv --dir=FWD_I --dt=u8:s8:s8 ic3oc4_iw5kw3",
)


@pytest.mark.parametrize("line", _TAKING_SUMS)
def test_the_sums_of_a_chain_read_one_type(line):
    operation, *words = line.split()
    kinds = {"--eltwise": ("--dt=s8",), "--matmul": ()}.get(operation)
    if kinds is None:
        kinds = () if "--dt=" in line else ("--ddt=s8",)
    for sums, is_wrong in (("sum:1:0:u8+sum:1", True), ("sum:1:0:u8+sum:2:0:u8", False)):
        result = outcome(" ".join((operation, *kinds, f"--attr-post-ops={sums}", *words)))
        assert (result.status.name == "UNIMPLEMENTED") == is_wrong, result
        assert ("sums that read dst as u8 and as s8" in result.reason) == is_wrong


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
