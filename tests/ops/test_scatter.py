"""Scatters write in the order of the indices, in every type, format and engine; nothing outside is."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.ir.conversion import PROVIDED
from support.errors import refused
from support.executions import INDICES, executed, inside, same_bits, values_of

DIMS = (3, 17, 6)
TAGS = "abc", "cab", "aBc16b", "Abc4a"
_SRC, _AT, _UPDATES, _DST = rs.ARG_SRC_0, rs.ARG_SRC_1, rs.ARG_SRC_2, rs.ARG_DST
_FUNCTIONS = {
    "none": lambda old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def scattered(engine, algorithm, tensors, tag="abc", axis=0, reduction="none"):
    x, at, updates = tensors
    tag = tag if x.ndim == 3 else "abcd"[: x.ndim]
    arguments = (
        *(algorithm, rs.MemoryDesc(x.shape, x.dtype, tag), rs.MemoryDesc(at.shape, at.dtype)),
        *(rs.MemoryDesc(updates.shape, x.dtype), rs.MemoryDesc(x.shape, x.dtype, tag), axis, reduction),
    )
    return executed(engine, "Scatter", {_SRC: x, _AT: at, _UPDATES: updates}, *arguments)[_DST]


def wanted_of(places, x, updates, reduction="none"):
    """One update after the other: `places` has for each the index of an element, or of a part."""
    found = x.copy()
    with np.errstate(all="ignore"):
        for place, update in zip(places, updates, strict=True):
            found[place] = _FUNCTIONS[reduction](found[place], update)
    return found


def places_of_elements(at, axis, size):
    at = inside(at, size)
    return [(*index[:axis], int(at[index]), *index[axis + 1 :]) for index in np.ndindex(at.shape)]


@pytest.mark.parametrize("kind", [kind for kind in PROVIDED if kind.numpy is not None], ids=str)
def test_every_type_is_written_as_it_is(engine, kind):
    x, updates = values_of(kind, (9, 13)), values_of(kind, (5, 13), 1)
    at = np.array([3, -1, 3, 20, 8], np.int64)
    same_bits(scattered(engine, "axis", (x, at, updates)), wanted_of(inside(at, 9), x, updates))


@pytest.mark.parametrize("kind", INDICES)
def test_indices_of_every_integer_type_are_brought_inside(engine, kind):
    limits = np.iinfo(rs.DataType[kind].numpy)
    at = np.array([0, limits.max // 2, limits.min, 3], rs.DataType[kind].numpy)
    x, updates = np.zeros((6, 5), np.float32), np.arange(20, dtype=np.float32).reshape(4, 5) + 1
    same_bits(scattered(engine, "axis", (x, at, updates)), wanted_of(inside(at, 6), x, updates))


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("reduction", _FUNCTIONS)
def test_elements(engine, axis, tag, reduction):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(DIMS).astype(np.float32)
    dims = tuple(9 if i == axis else n for i, n in enumerate(DIMS))
    at, updates = rng.integers(-30, 30, dims), rng.standard_normal(dims).astype(np.float32)
    wanted = wanted_of(places_of_elements(at, axis, DIMS[axis]), x, updates.reshape(-1), reduction)
    same_bits(scattered(engine, "elements", (x, at, updates), tag, axis, reduction), wanted)


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_several_dims_at_once(engine, tag, count, reduction):
    rng = np.random.default_rng(2)
    x, at = rng.standard_normal(DIMS).astype(np.float32), rng.integers(-30, 30, (4, 5, count))
    updates = rng.standard_normal((4, 5, *DIMS[count:])).astype(np.float32)
    places = np.stack([inside(at[..., i], DIMS[i]) for i in range(count)], -1).reshape(-1, count)
    wanted = wanted_of(map(tuple, places), x, updates.reshape(-1, *DIMS[count:]), reduction)
    same_bits(scattered(engine, "nd", (x, at, updates), tag, reduction=reduction), wanted)


@pytest.mark.parametrize("kind", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("reduction", _FUNCTIONS)
def test_integers_wrap_and_are_compared_as_they_are(engine, kind, reduction):
    twin = rs.DataType[kind].numpy
    x, updates = values_of(rs.DataType[kind], (7, 9)), values_of(rs.DataType[kind], (20, 9), 1)
    at = np.random.default_rng(3).integers(0, 7, 20)
    found = scattered(engine, "axis", (x, at, updates), reduction=reduction)
    assert found.dtype == twin
    same_bits(found, wanted_of(at, x, updates, reduction))


@pytest.mark.parametrize("kind", ["f16", "bf16", "f64"])
@pytest.mark.parametrize("reduction", ["add", "mul", "max"])
def test_floats_are_rounded_after_each_update(engine, kind, reduction):
    twin, rng = rs.DataType[kind].numpy, np.random.default_rng(4)
    x, updates = rng.standard_normal((5, 8)).astype(twin), rng.standard_normal((20, 8)).astype(twin)
    at = rng.integers(0, 5, 20)
    same_bits(
        scattered(engine, "axis", (x, at, updates), reduction=reduction), wanted_of(at, x, updates, reduction)
    )


@pytest.mark.parametrize("reduction", ["min", "max"])
def test_nan_is_never_lost(engine, reduction):
    x = np.array([np.nan, 1, 2, np.nan], np.float32)
    updates = np.array([1, np.nan, 3, np.nan], np.float32)
    found = scattered(engine, "elements", (x, np.arange(4), updates), reduction=reduction)
    np.testing.assert_array_equal(found, _FUNCTIONS[reduction](x, updates))


@pytest.mark.parametrize("reduction", _FUNCTIONS)
def test_truth_values(engine, reduction):
    x, updates = np.array([False, True, False, True]), np.array([True, True, False, False])
    functions = {**_FUNCTIONS, "add": np.logical_or, "mul": np.logical_and}
    found = scattered(engine, "elements", (x, np.arange(4), updates), reduction=reduction)
    np.testing.assert_array_equal(found, functions[reduction](x, updates))


def test_the_source_may_be_the_destination():
    engine, md = rs.Engine("cpu"), rs.MemoryDesc((4, 5), "f32")
    at, updates = np.array([2, 2]), np.ones((2, 5), np.float32)
    mds = md, rs.MemoryDesc((2,), "s64"), rs.MemoryDesc((2, 5), "f32"), md
    pd = rs.onednn.Scatter.PrimitiveDesc(engine, "axis", *mds, 0, "add")
    held = rs.Memory.from_numpy(np.arange(20, dtype=np.float32).reshape(4, 5))
    wanted = held.to_numpy().copy()
    wanted[2] += 2
    others = {_AT: rs.Memory.from_numpy(at), _UPDATES: rs.Memory.from_numpy(updates)}
    rs.onednn.Scatter(pd).execute(rs.Stream(engine), {_SRC: held, **others, _DST: held})
    np.testing.assert_array_equal(held.to_numpy(), wanted)


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize(
    "kinds", [("s64", "f32"), ("u8", "s8"), ("s32", "f64"), ("u32", "boolean"), ("s8", "u16")], ids=str
)
def test_one_hot(engine, axis, kinds):
    indices, values = (rs.DataType[kind].numpy for kind in kinds)
    at = (
        np.random.default_rng(5)
        .integers(0 if np.dtype(indices).kind == "u" else -12, 12, (4, 5))
        .astype(indices)
    )
    both = np.array([0, 1] if kinds[1] == "boolean" else [3, 7]).astype(values)
    dims = (*(4, 5)[:axis], 9, *(4, 5)[axis:])
    mds = rs.MemoryDesc((4, 5), kinds[0]), rs.MemoryDesc((2,), kinds[1]), rs.MemoryDesc(dims, kinds[1], "cab")
    place = np.arange(9).reshape([-1 if i == axis else 1 for i in range(3)])
    whole = np.expand_dims(at.astype(np.int64), axis)
    wanted = np.where((whole == place) | (whole + 9 == place), both[1], both[0])
    same_bits(executed(engine, "OneHot", {_SRC: at, _AT: both}, *mds, axis)[_DST], wanted.astype(values))


def test_what_does_not_fit_is_refused():
    cpu, md, at = rs.Engine("cpu"), rs.MemoryDesc((4, 5), "f32"), rs.MemoryDesc((3,), "s64")
    make, updates = rs.onednn.Scatter.PrimitiveDesc, rs.MemoryDesc((3, 5), "f32")
    with refused("the dims of the updates must be (3, 5)"):
        make(cpu, "axis", md, at, md, md)
    with refused("not a type of indices"):
        make(cpu, "axis", md, rs.MemoryDesc((3,), "f32"), updates, md)
    with refused("reduction is 'sub'"):
        make(cpu, "axis", md, at, updates, md, 0, "sub")
    with refused("updates has another type"):
        make(cpu, "axis", md, at, updates.as_type("s32"), md)
    with refused("only the dim of the axis"):
        make(cpu, "elements", md, rs.MemoryDesc((3, 7), "s64"), rs.MemoryDesc((3, 7), "f32"), md)
    packed = [each.as_type("s4") for each in (md, updates)]
    with refused("4-bit elements can only be moved"):
        make(cpu, "axis", packed[0], at, packed[1], packed[0], 0, "add")
    with refused("there must be two values"):
        rs.onednn.OneHot.PrimitiveDesc(cpu, at, rs.MemoryDesc((3,), "f32"), updates, 1)
