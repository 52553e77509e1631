"""Scans add up, multiply or compare from one element to the next, whichever axis, format and engine."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.errors import refused
from support.executions import executed, same_bits, values_of

DIMS = (3, 17, 6)
_UFUNCS = {"sum": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def wanted_of(algorithm, x, axis, exclusive=False, reverse=False):
    rows = np.moveaxis(x, axis, 0)
    rows = rows[::-1] if reverse else rows
    with np.errstate(all="ignore"):
        found = _UFUNCS[algorithm].accumulate(rows, 0, dtype=x.dtype)
    if exclusive:
        first = {"sum": 0, "mul": 1, "max": -np.inf, "min": np.inf}[algorithm]
        found = np.concatenate([np.full_like(found[:1], first), found[:-1]])
    return np.moveaxis(found[::-1] if reverse else found, 0, axis)


def scanned(engine, algorithm, x, axis, tag="abc", exclusive=False, reverse=False, dtype=None):
    tag = tag if x.ndim == 3 else "abcd"[: x.ndim]
    mds = rs.MemoryDesc(x.shape, x.dtype, tag), rs.MemoryDesc(x.shape, dtype or x.dtype, tag)
    return executed(engine, "Scan", {rs.ARG_SRC: x}, algorithm, *mds, axis, exclusive, reverse)[rs.ARG_DST]


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("tag", ["abc", "cab", "aBc16b", "Abc4a"])
@pytest.mark.parametrize("algorithm", _UFUNCS)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_every_axis_and_format(engine, axis, tag, algorithm, exclusive, reverse):
    x = np.random.default_rng(1).standard_normal(DIMS).astype(np.float32)
    wanted = wanted_of(algorithm, x, axis, exclusive, reverse)
    same_bits(scanned(engine, algorithm, x, axis, tag, exclusive, reverse), wanted)


@pytest.mark.parametrize("kind", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f64"])
@pytest.mark.parametrize("algorithm", _UFUNCS)
def test_integers_wrap(engine, kind, algorithm):
    x = values_of(rs.DataType[kind], (4, 9))
    if kind == "f64":
        x = np.random.default_rng(2).standard_normal((4, 9))
    same_bits(scanned(engine, algorithm, x, 1), wanted_of(algorithm, x, 1))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_sums_of_short_floats_are_rounded_where_they_are_written(engine, kind):
    x = np.random.default_rng(3).standard_normal((4, 50)).astype(rs.DataType[kind].numpy)
    wanted = np.add.accumulate(x.astype(np.float32), 1, dtype=np.float32).astype(x.dtype)
    same_bits(scanned(engine, "sum", x, 1), wanted)


def test_counts_of_truth_values(engine):
    x = np.random.default_rng(4).integers(0, 2, (3, 20)).astype(bool)
    np.testing.assert_array_equal(scanned(engine, "sum", x, 1, dtype="s64"), np.cumsum(x, 1))


def test_nan_stays(engine):
    x = np.array([1, 5, np.nan, 3], np.float32)
    np.testing.assert_array_equal(scanned(engine, "max", x, 0), np.maximum.accumulate(x))


def test_what_does_not_fit_is_refused():
    cpu, md = rs.Engine("cpu"), rs.MemoryDesc((4, 5), "f32")
    with refused("axis is 2"):
        rs.onednn.Scan.PrimitiveDesc(cpu, "sum", md, md, 2)
    with refused("exclusive"):
        rs.onednn.Scan.PrimitiveDesc(cpu, "sum", md, md, 1, 1)
    with refused("different shapes"):
        rs.onednn.Scan.PrimitiveDesc(cpu, "sum", md, rs.MemoryDesc((5, 4), "f32"), 1)
