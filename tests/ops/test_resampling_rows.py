"""Linear resampling by rows: beside NumPy in every format that has them, at the ends, where it is taken."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.desc.attr import Attr
from restride.desc.memory_desc import MemoryDesc
from restride.ir.program import TreeStep
from restride.ops.programs.resampling_rows import ResamplingRows
from restride.ops.resampling import ResamplingBackwardProblem, ResamplingProblem
from support.computed import computed, elements, random
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
