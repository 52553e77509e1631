"""Binary: operations with broadcast both ways, scales, post-ops, in place; what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.computed import any_like, computed, elements, memory_of, random
from support.engines import run
from support.errors import refused

CPU, REF = rs.Engine("cpu"), rs.Engine("reference")
DIMS = (2, 17, 5, 3)
PD = rs.Binary.PrimitiveDesc


def _md(dims=DIMS, format="abcd", data_type="f32"):
    return rs.MemoryDesc(dims, data_type, format)


def _result(pd, engine, *sources):
    args = (rs.ARG_SRC_0, rs.ARG_SRC_1, rs.ARG_SRC_2)
    made = computed(rs.Binary, pd, engine, dict(zip(args, sources, strict=False)), rs.ARG_DST)
    return made[rs.ARG_DST]


def test_f64_is_computed_as_f64_wherever_it_stands(engine):
    a, b = random(DIMS), np.full(DIMS, 1e-12)
    pd = PD(engine, "add", _md(), _md(data_type="f64"), _md(data_type="f64"))
    assert (elements(_result(pd, engine, a, b)) == a.astype(np.float64) + b).all()
    narrow = PD(engine, "sub", _md(), _md(data_type="f64"), _md())
    assert (elements(_result(narrow, engine, a, a + b)) == (a - (a + b)).astype(np.float32)).all()


# --- attributes ---------------------------------------------------------------------------------------------


def test_scales_come_with_the_attributes_or_with_the_execution(engine):
    a, b = random(DIMS), random((1, 17, 1, 1), 1)
    mds = _md(format="acdb"), _md(b.shape), any_like(_md())
    wanted = a * np.float32(0.5) / (b * np.float32(0.25))
    known = rs.PrimitiveAttr()
    known.set_scales(rs.ARG_SRC_0, 0, [0.5])
    known.set_scales(rs.ARG_SRC_1, 0, [0.25])
    np.testing.assert_array_equal(elements(_result(PD(engine, "div", *mds, known), engine, a, b)), wanted)
    later = rs.PrimitiveAttr()
    later.set_scales_mask(rs.ARG_SRC_0, 0)
    later.set_scales_mask(rs.ARG_SRC_1, 0)
    values = {rs.ARG_SRC_0: a, rs.ARG_SRC_1: b}
    values |= {
        rs.ARG_ATTR_SCALES | rs.ARG_SRC_0: np.array([0.5]),
        rs.ARG_ATTR_SCALES | rs.ARG_SRC_1: np.array([0.25]),
    }
    made = computed(rs.Binary, PD(engine, "div", *mds, later), engine, values, rs.ARG_DST)
    np.testing.assert_array_equal(elements(made[rs.ARG_DST]), wanted)


# --- descriptors --------------------------------------------------------------------------------------------


def test_open_formats_follow_the_first_source():
    blocked, one = _md(format="aBcd16b"), rs.MemoryDesc((1, 17, 1, 1), "f32", "any")
    pd = PD(CPU, "add", blocked, any_like(blocked), any_like(blocked))
    assert (pd.src_desc(1), pd.dst_desc()) == (blocked, blocked)
    # 17 channels in blocks of 16 would be half padding.
    assert PD(CPU, "add", blocked, one, any_like(blocked)).src_desc(1) == _md((1, 17, 1, 1))
    wide = rs.MemoryDesc((2, 32, 5, 3), "f32", "aBcd16b")
    found = PD(CPU, "add", wide, rs.MemoryDesc((1, 32, 1, 1), "f32", "any"), any_like(wide)).src_desc(1)
    assert found.inner_blks == (16,)


@pytest.mark.parametrize(
    ("args", "texts"),
    [
        ((CPU, "binary_pow", _md(), _md(), _md()), ("algorithm is 'binary_pow'",)),
        (
            (CPU, "add", _md(), _md((2, 16, 5, 3)), _md()),
            ("shapes cannot be broadcast", "dim 1 is 17 and 16"),
        ),
        ((CPU, "add", _md(), _md((17, 5, 3), "abc"), _md()), ("different ranks",)),
        ((CPU, "add", _md(), _md((1, 17, 1, 1)), _md((1, 17, 1, 1))), ("dst has the wrong dims",)),
        ((CPU, "add", _md(), _md(), _md(), _md()), ("wrong number of sources", "add takes two")),
        ((CPU, "select", _md(), _md(), _md()), ("wrong number of sources", "select takes three")),
    ],
)
def test_what_makes_no_sense_is_refused(args, texts):
    with refused(*texts):
        PD(*args)


def test_attributes_that_do_not_fit_are_refused():
    attr = rs.PrimitiveAttr()
    attr.set_scales(rs.ARG_SRC_1, 2, [1.0, 2.0, 3.0])
    with refused("Binary.PrimitiveDesc: wrong number of scales of src1"):
        PD(CPU, "add", _md(), _md(), _md(), attr)
    shifted = rs.PrimitiveAttr()
    shifted.set_zero_points(rs.ARG_SRC, 0, [3])
    with refused("unsupported attribute, zero points", kind=rs.Unimplemented):
        PD(CPU, "add", _md(data_type="s8"), _md(data_type="s8"), _md(), shifted)


def test_a_source_that_lies_otherwise_in_the_destination_is_refused():
    md = _md((1, 17, 1, 1))
    pd = PD(CPU, "add", _md(), md, _md())
    dst = memory_of(_md(), random(DIMS), CPU)
    part = rs.Memory(md, CPU, dst.data[:17])
    with refused("overlap"):
        run(rs.Binary(pd), CPU, {rs.ARG_SRC_0: dst, rs.ARG_SRC_1: part, rs.ARG_DST: dst})
