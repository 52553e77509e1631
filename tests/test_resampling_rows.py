"""Linear resampling by rows: beside NumPy in every format that has them, at the ends, where it is taken."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.desc.attr import Attr
from restride.desc.memory_desc import MemoryDesc
from restride.ops.resampling import ResamplingBackwardProblem, ResamplingProblem
from restride.plan.program import TreeStep
from restride.plan.resampling_rows import ResamplingRows
from support.computed import any_like, computed, elements, padding_is_zero, random
from support.resampled import gradient_of, resampled

# Spatial sizes of source and destination.
_SIZES = {
    "one dim": ((9,), (18,)),
    "two positions": ((2, 2), (4, 4)),
    "both": ((5, 21), (10, 42)),
    "the last alone": ((5, 9), (5, 18)),
    "by four and two": ((3, 6), (12, 12)),
    "depth stays": ((3, 4, 5), (3, 8, 10)),
    "long rows": ((2, 70), (4, 140)),
    "large": ((24, 90), (48, 180)),
}
_FORMATS = ("abx", "axb", "aBx8b", "aBx16b")


def _pd(engine, sizes, format, data_type="f32", channels=16, attr=None):
    src = MemoryDesc((2, channels, *sizes[0]), data_type, format)
    dst = MemoryDesc((2, channels, *sizes[1]), data_type, "any")
    return rs.ResamplingForward.PrimitiveDesc(engine, "forward_training", "linear", src, dst, attr=attr)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("format", _FORMATS)
@pytest.mark.parametrize("case", _SIZES)
def test_results_and_gradients_are_those_of_the_formula(engine, case, format):
    sizes = _SIZES[case]
    pd = _pd(engine, sizes, format)
    src, dst = pd.src_desc(), pd.dst_desc()
    x, d = random(src.dims), random(dst.dims, 1)
    made = computed(rs.ResamplingForward, pd, engine, {rs.ARG_SRC: x}, rs.ARG_DST)[rs.ARG_DST]
    np.testing.assert_allclose(elements(made), resampled("linear", x, sizes[1]), rtol=1e-5, atol=2e-6)
    back = rs.ResamplingBackward.PrimitiveDesc(engine, "linear", any_like(src), any_like(dst), hint_pd=pd)
    made = computed(rs.ResamplingBackward, back, engine, {rs.ARG_DIFF_DST: d}, rs.ARG_DIFF_SRC)
    wanted = gradient_of("linear", d.astype(np.float64), sizes[0])
    np.testing.assert_allclose(elements(made[rs.ARG_DIFF_SRC]), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("format", _FORMATS)
@pytest.mark.parametrize("data_type", ["bf16", "f16", "f64", "u8", "s32"])
def test_every_type_is_rounded_once(engine, data_type, format):
    sizes = _SIZES["both"]
    pd = _pd(engine, sizes, format, data_type)
    x = random(pd.src_desc().dims, 3, data_type)
    made = computed(rs.ResamplingForward, pd, engine, {rs.ARG_SRC: x}, rs.ARG_DST)[rs.ARG_DST]
    exact = resampled("linear", x.astype(np.float64), sizes[1])
    step = {"bf16": 2.0**-8, "f16": 2.0**-11, "f64": 1e-12}.get(data_type)
    found = elements(made).astype(np.float64)
    if step is None:
        assert np.abs(found - exact).max() <= 0.5 + 1e-4
    else:
        assert (np.abs(found - exact) <= step * np.abs(exact) + 1e-6).all()


@pytest.mark.parametrize("format", _FORMATS)
def test_what_is_not_finite_stays_where_it_was_looked_at(engine, format):
    pd = _pd(engine, _SIZES["both"], format)
    back = rs.ResamplingBackward.PrimitiveDesc(engine, "linear", pd.src_desc(), pd.dst_desc(), hint_pd=pd)
    for made, arg, out, same in (
        (pd, rs.ARG_SRC, rs.ARG_DST, resampled),
        (back, rs.ARG_DIFF_DST, rs.ARG_DIFF_SRC, gradient_of),
    ):
        md = made.query_md("exec_arg_md", arg)
        x = random(md.dims, 2)
        x[0, 3, 0, 0], x[1, 5, -1, 7], x[1, 6, 2, -1] = np.inf, np.nan, -np.inf
        kind = rs.ResamplingForward if made is pd else rs.ResamplingBackward
        found = elements(computed(kind, made, engine, {arg: x}, out)[out])
        sizes = found.shape[2:]
        reached = same("linear", (~np.isfinite(x)).astype(np.float64), sizes) > 0
        assert (np.isfinite(found) == ~reached).all()
        wanted = same("linear", np.where(np.isfinite(x), x, 0).astype(np.float64), sizes)
        np.testing.assert_allclose(found[~reached], wanted[~reached], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("format", ["abx", "aBx8b"])
def test_attributes_follow(engine, format):
    attr, post_ops = rs.PrimitiveAttr(), rs.PostOps()
    post_ops.append_eltwise("linear", 2.0, 1.0)
    post_ops.append_binary("mul", MemoryDesc((1, 16, 1, 1), "f32", "abcd"))
    post_ops.append_binary("add", MemoryDesc((2, 16, 10, 42), "f32", "acdb"))
    attr.set_post_ops(post_ops)
    pd = _pd(engine, _SIZES["both"], format, attr=attr)
    x, channel, more = random(pd.src_desc().dims), random((1, 16, 1, 1), 1), random((2, 16, 10, 42), 2)
    arg = [rs.arg_attr_multiple_post_op(i) | rs.ARG_SRC_1 for i in (1, 2)]
    given = {rs.ARG_SRC: x, arg[0]: channel, arg[1]: more}
    made = computed(rs.ResamplingForward, pd, engine, given, rs.ARG_DST)[rs.ARG_DST]
    wanted = (resampled("linear", x, (10, 42)) * 2 + 1) * channel + more
    np.testing.assert_allclose(elements(made), wanted, rtol=1e-5, atol=1e-5)
    assert padding_is_zero(made)


def _is_by_rows(problem):
    return all(isinstance(step, TreeStep) for step in problem.program().steps)


_TWICE = ((2, 16, 8, 8), (2, 16, 16, 16))


@pytest.mark.parametrize(
    ("dims", "formats", "forward", "backward"),
    [
        (_TWICE, ("nchw", "nchw"), True, True),
        (_TWICE, ("nhwc", "nhwc"), False, True),
        (_TWICE, ("nChw8c", "nChw8c"), True, True),
        (_TWICE, ("nchw", "nhwc"), False, False),
        (_TWICE, ("cdba", "cdba"), False, False),
        (_TWICE, ("NChw8n8c", "NChw8n8c"), False, False),
        (((2, 20, 8, 8), (2, 20, 16, 16)), ("nChw16c", "nChw16c"), False, False),
        (((2, 3, 8, 8), (2, 3, 16, 16)), ("nhwc", "nhwc"), False, False),
        (((2, 16, 8, 8), (2, 16, 8, 16)), ("nhwc", "nhwc"), False, False),
        (((2, 16, 8, 8), (2, 16, 8, 16)), ("nChw8c", "nChw8c"), True, True),
        (_TWICE, ("nChw4c", "nChw4c"), False, False),
        (((2, 16, 8, 7), (2, 16, 16, 14)), ("nchw", "nchw"), False, False),
        (((2, 16, 8, 8), (2, 16, 24, 24)), ("nChw8c", "nChw8c"), False, False),
        (((2, 16, 8, 8), (2, 16, 32, 32)), ("nchw", "nchw"), False, False),
        (((2, 16, 8, 8), (2, 16, 32, 32)), ("nChw8c", "nChw8c"), True, True),
        (((2, 16, 8, 8), (2, 16, 16, 8)), ("nchw", "nchw"), False, False),
        (((2, 16, 8, 8), (2, 16, 4, 4)), ("nchw", "nchw"), False, False),
        (((2, 16, 1, 1), (2, 16, 2, 2)), ("nchw", "nchw"), False, False),
        (((2, 16, 4, 8, 8), (2, 16, 8, 16, 16)), ("ncdhw", "ncdhw"), False, False),
    ],
)
def test_rows_are_taken_where_weights_are_the_same_all_along(dims, formats, forward, backward):
    small, large = (MemoryDesc(n, "f32", tag) for n, tag in zip(dims, formats, strict=True))
    assert _is_by_rows(ResamplingProblem("linear", small, large)) == forward
    assert _is_by_rows(ResamplingBackwardProblem("linear", small, large)) == backward
    assert not _is_by_rows(ResamplingProblem("nearest", small, large))


def test_rows_have_as_many_channels_as_the_first_cache_holds():
    small, large = (MemoryDesc((1, 512, 8, n), "f32", "nhwc") for n in (112, 224))
    loop = ResamplingRows(small, large).planned((1, 2), Attr(), backward=True, is_wide=False)[0]
    (step,) = loop.steps
    (row,) = step.tree.items[0].locals
    assert row.sizes == (226, 32)
