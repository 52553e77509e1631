"""Repeats of a tensor, and what lies on one side of a diagonal: every type, format and engine."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.ir.conversion import PROVIDED
from support.errors import refused
from support.executions import executed, same_bits, values_of

DIMS = (3, 17, 6)
TAGS = "abc", "cab", "aBc16b", "Abc4a"


@pytest.mark.parametrize("tags", [(a, b) for a in TAGS for b in TAGS], ids=str)
@pytest.mark.parametrize("repeats", [(1, 2, 3), (2, 1, 1), (3, 3, 1), (1, 1, 1)], ids=str)
def test_repeats(engine, tags, repeats):
    x = np.random.default_rng(1).standard_normal(DIMS).astype(np.float32)
    wanted = np.tile(x, repeats)
    mds = (rs.MemoryDesc(dims, "f32", tag) for dims, tag in zip((DIMS, wanted.shape), tags, strict=True))
    same_bits(executed(engine, "Tile", {rs.ARG_SRC: x}, *mds)[rs.ARG_DST], wanted)


@pytest.mark.parametrize("kind", [kind for kind in PROVIDED if kind.numpy is not None], ids=str)
def test_every_type_is_moved_as_it_is(engine, kind):
    x = values_of(kind, (5, 8))
    mds = rs.MemoryDesc((5, 8), kind), rs.MemoryDesc((10, 24), kind)
    same_bits(executed(engine, "Tile", {rs.ARG_SRC: x}, *mds)[rs.ARG_DST], np.tile(x, (2, 3)))
    for upper, function in ((True, np.triu), (False, np.tril)):
        arguments = rs.MemoryDesc((5, 8), kind), rs.MemoryDesc((5, 8), kind), None, 1, upper
        found = executed(engine, "Trilu", {rs.ARG_SRC: x}, *arguments)[rs.ARG_DST]
        mask = function(np.ones((5, 8), bool), 1)
        same_bits(found, np.where(mask, x, np.zeros((), x.dtype)))


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("k", [0, 1, -4, 30, -30])
@pytest.mark.parametrize("is_of_a_run", [False, True])
def test_one_side_of_a_diagonal(engine, tag, k, is_of_a_run):
    x, md = np.random.default_rng(2).standard_normal(DIMS).astype(np.float32), rs.MemoryDesc(DIMS, "f32", tag)
    offset = {rs.ARG_SRC_1: np.array([k])} if is_of_a_run else {}
    for upper, function in ((True, np.triu), (False, np.tril)):
        arguments = (
            md,
            md,
            rs.MemoryDesc((1,), "s64") if is_of_a_run else None,
            0 if is_of_a_run else k,
            upper,
        )
        found = executed(engine, "Trilu", {rs.ARG_SRC: x, **offset}, *arguments)[rs.ARG_DST]
        same_bits(found, function(x, k))


@pytest.mark.parametrize("name", ["cpu", "reference"])
@pytest.mark.parametrize("kind", ["f4_e2m1", "nf4"])
def test_the_other_side_is_zero_of_types_whose_bits_of_zero_are_not(name, kind):
    engine = rs.Engine(name)
    x = rs.reorder(np.full((3, 4), 0.5, np.float32), None, dtype=kind)
    primitive = rs.onednn.Trilu(rs.onednn.Trilu.PrimitiveDesc(engine, x.desc, x.desc))
    own, found = rs.Memory(x.desc, engine, x.data), rs.Memory(x.desc, engine)
    primitive.execute(rs.Stream(engine), {rs.ARG_SRC: own, rs.ARG_DST: found})
    value = rs.reorder(x, None, dtype="f32")[0, 0]
    expected = np.triu(np.full((3, 4), value))
    np.testing.assert_array_equal(np.asarray(rs.reorder(found, None, dtype="f32")), expected)


def test_what_does_not_fit_is_refused():
    cpu, md = rs.Engine("cpu"), rs.MemoryDesc((4, 5), "f32")
    with refused("dst has the wrong dims"):
        rs.onednn.Tile.PrimitiveDesc(cpu, md, rs.MemoryDesc((8, 7), "f32"))
    with refused("a diagonal needs two dims"):
        row = rs.MemoryDesc((4,), "f32")
        rs.onednn.Trilu.PrimitiveDesc(cpu, row, row)
    with refused("the offset of the diagonal must be one integer"):
        rs.onednn.Trilu.PrimitiveDesc(cpu, md, md, rs.MemoryDesc((2,), "s64"))
