"""Resampling: nearest and linear, beside NumPy, with gradients; what is refused."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import restride as rs
from restride.ops import resampling
from support.computed import any_like, computed, elements, random
from support.errors import refused
from support.python_calls import python_calls
from support.resampled import gradient_of, resampled

CPU = rs.Engine("cpu")
ALGORITHMS = ("nearest", "linear")


def _mds(sizes, format="abx", data_type="f32", channels=17):
    src = rs.MemoryDesc((2, channels, *sizes[0]), data_type, format)
    return src, rs.MemoryDesc((2, channels, *sizes[1]), data_type, "any")


@pytest.mark.parametrize("alg", ALGORITHMS)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 12, 13])
def test_an_infinite_gradient_stays_with_what_it_was_computed_from(engine, size, alg):
    src, dst = _mds(((5, 8 if size < 5 else 4), (size, 4 if size == 2 else 8)), "axb", channels=3)
    d = random(dst.dims, 1)
    d[0, :, 0, 0], d[1, :, -1, 3] = np.inf, np.nan
    pd = rs.ResamplingForward.PrimitiveDesc(engine, "forward_training", alg, src, dst)
    back = rs.ResamplingBackward.PrimitiveDesc(engine, alg, src, any_like(dst), hint_pd=pd)
    made = computed(rs.ResamplingBackward, back, engine, {rs.ARG_DIFF_DST: d}, rs.ARG_DIFF_SRC)
    reached = gradient_of(alg, (~np.isfinite(d)).astype(np.float64), src.dims[2:]) > 0
    found = elements(made[rs.ARG_DIFF_SRC])
    assert (np.isfinite(found) == ~reached).all()
    assert (np.isposinf(found[0]) == reached[0]).all()
    wanted = gradient_of(alg, np.where(np.isfinite(d), d, 0).astype(np.float64), src.dims[2:])
    np.testing.assert_allclose(found[~reached], wanted[~reached], rtol=1e-5, atol=1e-5)


def test_nearest_moves_bits(engine):
    src, dst = _mds(((7, 6), (6, 14)), "axb", "bf16", 3)
    x = random(src.dims, 4, "bf16")
    pd = rs.ResamplingForward.PrimitiveDesc(engine, "forward_inference", "nearest", src, dst)
    made = computed(rs.ResamplingForward, pd, engine, {rs.ARG_SRC: x}, rs.ARG_DST)[rs.ARG_DST]
    assert set(elements(made).view(np.uint16).ravel().tolist()) <= set(x.view(np.uint16).ravel().tolist())


@pytest.mark.parametrize("alg", ALGORITHMS)
@pytest.mark.parametrize("format", ["axb", "abx"])
@pytest.mark.parametrize("sizes", [((5, 8), (11, 3)), ((1, 6), (4, 6)), ((4, 3), (4, 9))])
def test_long_dims_are_found_in_the_run(engine, monkeypatch, alg, format, sizes):
    monkeypatch.setattr(resampling, "_LONGEST_TABLE", 0)
    src, dst = _mds(sizes, format, channels=5)
    x = random(src.dims, 3)
    attr, ops = rs.PrimitiveAttr(), rs.PostOps()
    ops.append_eltwise("linear", 2.0, 1.0)
    attr.set_post_ops(ops)
    pd = rs.ResamplingForward.PrimitiveDesc(engine, "forward_inference", alg, src, dst, attr=attr)
    made = computed(rs.ResamplingForward, pd, engine, {rs.ARG_SRC: x}, rs.ARG_DST)[rs.ARG_DST]
    wanted = 2 * resampled(alg, x.astype(np.float64), dst.dims[2:]) + 1
    np.testing.assert_allclose(elements(made), wanted, rtol=1e-5, atol=1e-5)


def test_a_plan_takes_no_more_for_a_larger_result():
    src = rs.MemoryDesc((1, 1, 3, 3), "f32", "nchw")

    def described(size):
        tracemalloc.start()
        for alg in ALGORITHMS:
            dst = rs.MemoryDesc((1, 1, size, 3), "f32", "nchw")
            rs.ResamplingForward.PrimitiveDesc(CPU, "forward_inference", alg, src, dst)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    described(1 << 20)
    assert described(1 << 30) < 4 << 20


def test_positions_are_found_all_at_once_not_one_after_the_other():
    """A minute of sound took half a minute to describe."""

    def describe():
        src, dst = rs.MemoryDesc((1, 1, 100_000), "f32", "ncw"), rs.MemoryDesc((1, 1, 150_000), "f32", "ncw")
        for alg in ALGORITHMS:
            pd = rs.ResamplingForward.PrimitiveDesc(CPU, "forward_training", alg, src, dst)
            rs.ResamplingBackward.PrimitiveDesc(CPU, alg, src, dst, hint_pd=pd)

    describe()
    assert python_calls(describe, ("table_nest.py", "resampling_terms.py", "reorder.py")) < 2000


def test_factors_give_the_size():
    src = rs.MemoryDesc((2, 3, 5, 4), "f32", "nhwc")
    pd = rs.ResamplingForward.PrimitiveDesc(CPU, "forward_inference", "nearest", src, factors=(2.0, 0.5))
    assert (pd.dst_desc().dims, pd.dst_desc().tag) == ((2, 3, 10, 2), "acdb")
    as_in_c = rs.ResamplingForward.PrimitiveDesc(CPU, "forward_inference", "nearest", [2, 0.5], src)
    assert as_in_c.dst_desc() == pd.dst_desc()
    back = rs.ResamplingBackward.PrimitiveDesc(CPU, "nearest", [2, 0.5], any_like(src), pd.dst_desc(), pd)
    assert back.diff_src_desc() == src


_SRC = rs.MemoryDesc((2, 3, 8, 8), "f32", "nchw")


@pytest.mark.parametrize(
    ("args", "texts"),
    [
        (("cubic", _SRC, _SRC), ("algorithm is 'cubic'",)),
        (("nearest", _SRC), ("is unknown",)),
        (("nearest", _SRC, rs.MemoryDesc((2, 4, 8, 8), "f32")), ("do not fit", "must be equal")),
        (("nearest", _SRC, rs.MemoryDesc((2, 3, 8), "f32")), ("do not fit",)),
        (("nearest", rs.MemoryDesc((2, 3), "f32"), rs.MemoryDesc((2, 3), "f32")), ("no spatial dims",)),
        (("nearest", _SRC, None, (2.0,)), ("factors are (2.0,)", "2 numbers above 0")),
        (("nearest", _SRC, None, (2.0, 0.0)), ("factors are",)),
        (("nearest", _SRC, None, (2.0, "x")), ("factors[1]",)),
        (("nearest", _SRC, None, np.array(2.0)), ("factors are", "2 numbers above 0")),
        (("nearest", _SRC, _SRC, (2.0, 1.0)), ("the factors give (2, 3, 16, 8)",)),
        (
            ("nearest", rs.MemoryDesc((2, 3, 0), "f32"), rs.MemoryDesc((2, 3, 4), "f32")),
            ("the source is empty",),
        ),
    ],
)
def test_what_makes_no_sense_is_refused(args, texts):
    with refused(*texts):
        rs.ResamplingForward.PrimitiveDesc(CPU, "forward_training", *args)


def test_a_gradient_of_open_format_needs_a_hint():
    with refused("diff_dst has no format"):
        rs.ResamplingBackward.PrimitiveDesc(CPU, "linear", _SRC, any_like(_SRC))
    hint = rs.ResamplingForward.PrimitiveDesc(CPU, "forward_training", "nearest", _SRC, _SRC)
    with refused("the hint is for another problem", "its algorithm"):
        rs.ResamplingBackward.PrimitiveDesc(CPU, "linear", _SRC, _SRC, hint_pd=hint)
