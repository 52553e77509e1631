"""The largest, the smallest, and all in order: indices and values, in every type, format and engine."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.ir.conversion import PROVIDED
from support.errors import refused
from support.executions import executed, same_bits, values_of

DIMS = (3, 17, 6)
TAGS = "abc", "cab", "aBc16b", "Abc4a"


def order_of(x, axis, largest):
    """All indices in order, equal ones as they lie; NaN before infinity where that is the largest."""
    keys = x.astype(np.int64) if x.dtype == bool or x.dtype.kind not in "fuV" else x
    if keys.dtype.kind == "u":
        keys = keys.astype(object)
    if keys.dtype.kind in "fV":
        with np.errstate(invalid="ignore"):
            values = keys.astype(np.float64) + 0.0
        ranks = np.unique(values[~np.isnan(values)])
        keys = np.where(np.isnan(values), len(ranks), np.searchsorted(ranks, values))
    return np.argsort(-keys if largest else keys, axis, kind="stable")


def best_of(engine, algorithm, x, axis, tag="abc", select_last=False):
    dims = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    tag = tag if x.ndim == 3 else "abcd"[: x.ndim]
    mds = rs.MemoryDesc(x.shape, x.dtype, tag), rs.MemoryDesc(dims, "s64")
    found = executed(engine, "ArgReduction", {rs.ARG_SRC: x}, algorithm, *mds, axis, select_last)
    return found[rs.ARG_DST]


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("algorithm", ["max", "min"])
@pytest.mark.parametrize("select_last", [False, True])
def test_the_index_of_the_largest(engine, axis, tag, algorithm, select_last):
    x = np.random.default_rng(1).integers(-3, 4, DIMS).astype(np.float32)
    function = {"max": np.argmax, "min": np.argmin}[algorithm]
    wanted = function(np.flip(x, axis) if select_last else x, axis, keepdims=True)
    wanted = DIMS[axis] - 1 - wanted if select_last else wanted
    np.testing.assert_array_equal(best_of(engine, algorithm, x, axis, tag, select_last), wanted)


@pytest.mark.parametrize("kind", [kind for kind in PROVIDED if kind.numpy is not None], ids=str)
@pytest.mark.parametrize("algorithm", ["max", "min"])
def test_the_index_in_every_type(engine, kind, algorithm):
    x = values_of(kind, (5, 40))
    if kind.kind == "float":
        with np.errstate(invalid="ignore"):
            x = np.where(np.isnan(x.astype(np.float64)), np.ones((), x.dtype), x)
    wanted = order_of(x, 1, algorithm == "max")[:, :1]
    np.testing.assert_array_equal(best_of(engine, algorithm, x, 1), wanted)


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16"])
def test_nan_and_zeros(engine, kind):
    twin = rs.DataType[kind].numpy
    rows = np.array([[1, np.nan, 3, np.nan], [-np.inf, -0.0, 0.0, -1], [np.inf, 1, np.inf, -np.inf]]).astype(
        twin
    )
    for algorithm, function in (("max", np.argmax), ("min", np.argmin)):
        wanted = function(rows.astype(np.float64), 1)[:, None]
        np.testing.assert_array_equal(best_of(engine, algorithm, rows, 1), wanted)


def test_the_index_in_a_long_row(engine):
    x = np.random.default_rng(2).standard_normal((1, 300_000)).astype(np.float32)
    np.testing.assert_array_equal(best_of(engine, "max", x, 1), np.argmax(x, 1, keepdims=True))


def top_of(engine, x, k, axis, largest=True, tag="abc", index_type="s64"):
    dims = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    tag = tag if x.ndim == 3 else "abcd"[: x.ndim]
    mds = rs.MemoryDesc(x.shape, x.dtype, tag), rs.MemoryDesc(dims, x.dtype), rs.MemoryDesc(dims, index_type)
    word = "largest" if largest else "smallest"
    found = executed(engine, "TopK", {rs.ARG_SRC: x}, word, *mds, axis)
    return found[rs.ARG_DST], found[rs.ARG_DST_1]


def check_top(engine, x, k, axis, largest, tag="abc"):
    values, indices = top_of(engine, x, k, axis, largest, tag)
    wanted = np.take(order_of(x, axis, largest), range(k), axis)
    np.testing.assert_array_equal(indices, wanted)
    same_bits(values, np.take_along_axis(x, wanted, axis))


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("count", [1, 2, 0])
def test_the_first_ones_and_all_in_order(engine, axis, tag, largest, count):
    x = np.random.default_rng(3).integers(-5, 6, DIMS).astype(np.float32)
    check_top(engine, x, count or DIMS[axis], axis, largest, tag)


@pytest.mark.parametrize("kind", [kind for kind in PROVIDED if kind.numpy is not None], ids=str)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("count", [3, 40])
def test_order_in_every_type(engine, kind, largest, count):
    check_top(engine, values_of(kind, (5, 40)), count, 1, largest)


@pytest.mark.parametrize("size", [1, 2, 3, 31, 32, 33, 1000])
def test_sorting(engine, size):
    x = np.random.default_rng(4).standard_normal((2, size)).astype(np.float32)
    x[0, size // 2] = np.nan
    check_top(engine, x, size, 1, False)


def test_indices_of_another_type(engine):
    x = np.random.default_rng(5).standard_normal((4, 9)).astype(np.float32)
    _, indices = top_of(engine, x, 2, 1, index_type="s32")
    assert indices.dtype == np.int32
    np.testing.assert_array_equal(indices, order_of(x, 1, True)[:, :2])


def test_what_does_not_fit_is_refused():
    cpu, md, any_ = rs.Engine("cpu"), rs.MemoryDesc((4, 5), "f32"), rs.MemoryDesc((4, 6), "f32", "any")
    with refused("k is 6, but the axis has 5 elements"):
        rs.onednn.TopK.PrimitiveDesc(cpu, "largest", md, any_, rs.MemoryDesc((4, 6), "s64"), 1)
    with refused("not a type of indices"):
        rs.onednn.ArgReduction.PrimitiveDesc(cpu, "max", md, rs.MemoryDesc((4, 1), "f32"), 1)
    with refused("an empty axis has no largest element"):
        empty = rs.MemoryDesc((4, 0), "f32")
        rs.onednn.ArgReduction.PrimitiveDesc(cpu, "max", empty, rs.MemoryDesc((4, 1), "s64"), 1)
