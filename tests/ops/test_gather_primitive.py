"""Gathers take the elements that indices name, of every type, format and engine; nothing outside is read."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.ir.conversion import PROVIDED
from support.errors import refused
from support.executions import INDICES, executed, inside, same_bits, values_of

DIMS = (3, 17, 6)
TAGS = "abc", "cab", "aBc16b", "Abc4a"
_ONE, _TWO, _DST = rs.ARG_SRC_0, rs.ARG_SRC_1, rs.ARG_DST


def gathered(engine, algorithm, x, indices, dims, tags=("abc", "abc"), **more):
    """Return the primitive's result; `tags`: of source and destination, plain if the ranks differ."""
    src, dst = (
        rs.MemoryDesc(shape, x.dtype, tag if len(shape) == 3 else "abcd"[: len(shape)])
        for shape, tag in zip((x.shape, dims), tags, strict=True)
    )
    of_indices = rs.MemoryDesc(indices.shape, indices.dtype)
    arguments = algorithm, src, of_indices, dst, more.get("axis", 0), more.get("batch_dims", 0)
    return executed(engine, "Gather", {_ONE: x, _TWO: indices}, *arguments)[_DST]


@pytest.mark.parametrize("kind", [kind for kind in PROVIDED if kind.numpy is not None], ids=str)
def test_every_type_is_moved_as_it_is(engine, kind):
    x, at = values_of(kind, (9, 13)), np.array([3, -1, 0, 20, 8], np.int64)
    found = gathered(engine, "axis", x, at, (5, 13))
    same_bits(found, x[inside(at, 9)])


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("tags", [(a, b) for a in TAGS for b in ("abc", "aBc16b")], ids=str)
def test_every_axis_and_format(engine, axis, tags):
    x = np.random.default_rng(1).standard_normal(DIMS).astype(np.float32)
    at = np.array([0, -1, 2, 1, 1], np.int32)
    dims = (*DIMS[:axis], 5, *DIMS[axis + 1 :])
    same_bits(
        gathered(engine, "axis", x, at, dims, tags, axis=axis), np.take(x, inside(at, DIMS[axis]), axis)
    )


@pytest.mark.parametrize("kind", INDICES)
def test_indices_of_every_integer_type_are_brought_inside(engine, kind):
    limits = np.iinfo(rs.DataType[kind].numpy)
    at = np.array([0, 5, limits.max, limits.min, 7, limits.max - 1, 40], rs.DataType[kind].numpy)
    x = np.random.default_rng(2).standard_normal((6, 5)).astype(np.float32)
    wanted = inside(at, 6)
    if kind == "u64":
        wanted[at > 2**63] = [5, 5][: int((at > 2**63).sum())]
        wanted = np.where(at > np.uint64(2**63 - 1), inside(at.view(np.int64), 6), wanted)
    same_bits(gathered(engine, "axis", x, at, (7, 5)), x[wanted])


def test_indices_of_any_rank_and_batches(engine):
    x = np.random.default_rng(3).standard_normal((4, 7, 5)).astype(np.float32)
    at = np.random.default_rng(4).integers(-7, 7, (2, 3)).astype(np.int64)
    same_bits(gathered(engine, "axis", x, at, (4, 2, 3, 5), axis=1), np.take(x, at, 1))
    each = np.random.default_rng(5).integers(-5, 5, (4, 2)).astype(np.int64)
    wanted = np.stack([np.take(row, index, 1) for row, index in zip(x, each, strict=True)])
    same_bits(gathered(engine, "axis", x, each, (4, 7, 2), axis=2, batch_dims=1), wanted)


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("tag", TAGS)
def test_elements(engine, axis, tag):
    x = np.random.default_rng(6).standard_normal(DIMS).astype(np.float16)
    dims = tuple(4 if i == axis else n for i, n in enumerate(DIMS))
    at = np.random.default_rng(7).integers(-DIMS[axis], DIMS[axis], dims)
    wanted = np.take_along_axis(x, inside(at, DIMS[axis]), axis)
    same_bits(gathered(engine, "elements", x, at, dims, (tag, "abc"), axis=axis), wanted)


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_several_dims_at_once(engine, tag, count):
    x = np.random.default_rng(8).standard_normal(DIMS).astype(np.float32)
    at = np.random.default_rng(9).integers(-40, 40, (5, 2, count)).astype(np.int32)
    places = tuple(inside(at[..., i], DIMS[i]) for i in range(count))
    dims = (5, 2, *DIMS[count:])
    same_bits(gathered(engine, "nd", x, at, dims, (tag, "abc")), x[places])


def test_several_dims_of_each_element_of_a_batch(engine):
    x = np.random.default_rng(10).standard_normal(DIMS).astype(np.float32)
    at = np.random.default_rng(11).integers(-6, 6, (3, 4, 2))
    wanted = np.stack(
        [row[tuple(inside(i[:, d], row.shape[d]) for d in range(2))] for row, i in zip(x, at, strict=True)]
    )
    same_bits(gathered(engine, "nd", x, at, (3, 4), batch_dims=1), wanted)


@pytest.mark.parametrize("first", [0, 3, 11, 12, 100, -17, -3, -100])
@pytest.mark.parametrize("tag", TAGS)
def test_a_part_begins_where_a_run_says_and_stays_inside(engine, first, tag):
    x = np.random.default_rng(12).standard_normal(DIMS).astype(np.float32)
    start = min(max(first + 17 if first < 0 else first, 0), 17 - 5)
    found = gathered(engine, "window", x, np.array([first]), (3, 5, 6), (tag, "abc"), axis=1)
    same_bits(found, x[:, start : start + 5])


def test_a_table_of_another_type_is_converted(engine):
    x, at = np.arange(-20, 20, dtype=np.int8).reshape(8, 5), np.array([7, 0, 3])
    mds = rs.MemoryDesc((8, 5), "s8"), rs.MemoryDesc((3,), "s64"), rs.MemoryDesc((3, 5), "f32")
    found = executed(engine, "Gather", {_ONE: x, _TWO: at}, "axis", *mds)[_DST]
    same_bits(found, x[at].astype(np.float32))


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (2, 1), (1, 2)])
def test_sequences_are_reversed_up_to_their_lengths(engine, tag, axes):
    axis, batch = axes
    x = np.random.default_rng(13).standard_normal(DIMS).astype(np.float32)
    lengths = np.random.default_rng(14).integers(-2, 2 * DIMS[axis], DIMS[batch])
    md, of_lengths = rs.MemoryDesc(DIMS, "f32", tag), rs.MemoryDesc(lengths.shape, "s64")
    wanted = x.copy()
    for b, length in enumerate(np.clip(lengths, 0, DIMS[axis])):
        row = np.moveaxis(wanted, (axis, batch), (0, 1))[:, b]
        row[:length] = row[:length][::-1].copy()
    found = executed(
        engine,
        "ReverseSequence",
        {_ONE: x, _TWO: lengths},
        md,
        of_lengths,
        rs.MemoryDesc(DIMS, "f32"),
        axis,
        batch,
    )
    same_bits(found[_DST], wanted)


@pytest.mark.parametrize("tail", [1, 2, 4, 8])
@pytest.mark.parametrize("data_type", ["f32", "s64", "u8"])
def test_short_rows_behind_indices_are_those_of_their_index(engine, data_type, tail):
    """Rows that are shorter than a vector share one: each has an index of its own."""
    x = np.arange(5 * 3 * tail).reshape(5, 3, tail).astype(rs.MemoryDesc((1,), data_type).data_type.numpy)
    lengths, wanted = np.array([1, 3, 5]), x.copy()
    for b, length in enumerate(lengths):
        wanted[:length, b] = x[:length, b][::-1]
    md, of_lengths = rs.MemoryDesc(x.shape, data_type), rs.MemoryDesc((3,), "s64")
    operands = {_ONE: x, _TWO: lengths}
    found = executed(engine, "ReverseSequence", operands, md, of_lengths, md, 0, 1)[_DST]
    same_bits(found, wanted)


def test_what_does_not_fit_is_refused():
    cpu, md, at = rs.Engine("cpu"), rs.MemoryDesc((4, 5), "f32"), rs.MemoryDesc((3,), "s64")
    make, any_ = rs.onednn.Gather.PrimitiveDesc, rs.MemoryDesc((3, 5), "f32", "any")
    with refused("tensors do not fit", "not a type of indices"):
        make(cpu, "axis", md, rs.MemoryDesc((3,), "f32"), any_)
    with refused("axis is 2"):
        make(cpu, "axis", md, at, any_, 2)
    with refused("dst has the wrong dims", "(3, 5)"):
        make(cpu, "axis", md, at, rs.MemoryDesc((5, 3), "f32"))
    with refused("algorithm is 'rows'"):
        make(cpu, "rows", md, at, any_)
    with refused("a dim of the source is empty"):
        make(cpu, "axis", rs.MemoryDesc((0, 5), "f32"), at, any_)
    with refused("the first 1 dims differ"):
        make(cpu, "axis", md, at, any_, 1, 1)
    with refused("an index has 3 dims"):
        make(cpu, "nd", md, at, any_)
    assert make(cpu, "axis", md, at, any_).dst_desc() == rs.MemoryDesc((3, 5), "f32")


def test_no_elements(engine):
    x, at = np.zeros((4, 0), np.float32), np.array([1, 2])
    assert gathered(engine, "axis", x, at, (2, 0)).shape == (2, 0)
    assert gathered(engine, "axis", np.zeros((4, 3), np.float32), at[:0], (0, 3)).shape == (0, 3)
