"""The nest of a shuffle: each element at its place; digits where groups and blocks nest, else tables."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.desc.memory_desc import MemoryDesc
from restride.ir.digits import reorder_nest
from restride.ir.interpret_nest import interpret
from restride.ir.nest import Compute
from restride.ops.programs.shuffle import shuffle_in_stages, shuffle_nest, widen
from support.by_offset import every_index
from support.errors import refused
from support.shuffles import shuffled

_ZERO, _OLD = 0, 0xFFFF


def _divisors(size: int) -> list[int]:
    return [n for n in range(1, size + 1) if size % n == 0]


def _source_index(index: tuple[int, ...], dims: tuple[int, ...], axis: int, group: int) -> tuple[int, ...]:
    """S04 as it is written: dst(ou, u + v * C/G, in) = src(ou, u * G + v, in)."""
    v, u = divmod(index[axis], dims[axis] // group)
    return (*index[:axis], u * group + v, *index[axis + 1 :])


CASES = [
    ((2, 6, 3), "abc", 1),
    ((2, 12, 3), "acb", 1),
    ((12, 2, 3), "abc", 0),
    ((2, 3, 12), "abc", 2),
    ((2, 12, 3), "aBc16b", 1),
    ((2, 36, 3), "aBc16b", 1),
    ((2, 36, 3), "acB16b", 1),
    ((2, 24, 3), "aBc4b", 1),
    ((2, 30, 3), "aBc8b", 1),
    ((12, 36), "BA8b4a2b", 0),
    ((12, 36), "BA8b4a2b", 1),
    ((18, 20), "AB16b16a", 1),
    ((2, 45, 2), "aBc4b3b", 1),
    ((2, 40, 2), "aBc2b8b", 1),
    ((3, 20), (31, 1), 1),
    ((3, 20), (1, 5), 1),
    ((16,), "a", 0),
    ((36,), "A8a", 0),
]


@pytest.mark.parametrize(("dims", "layout", "axis"), CASES, ids=[f"{d} {t} axis {a}" for d, t, a in CASES])
def test_every_element_goes_where_the_formula_says(dims: tuple[int, ...], layout: object, axis: int) -> None:
    md = MemoryDesc(dims, "u8", layout)  # type: ignore[arg-type]
    length = md.extent_range()[1] + 3
    src = np.random.default_rng(0).integers(1, 255, length).astype(np.uint8)
    for group in _divisors(dims[axis]):
        wanted = np.full(length, 0xFF, np.uint8)
        for index in every_index(md.padded_dims):
            wanted[md.offset(*index)] = 0
        for index in every_index(dims):
            wanted[md.offset(*index)] = src[md.offset(*_source_index(index, dims, axis, group))]
        got = np.full(length, 0xFF, np.uint8)
        interpret(shuffle_nest(md, md, axis, group), src, got)
        np.testing.assert_array_equal(got, wanted, err_msg=f"group size {group}")


def test_the_formula_in_numpy_is_the_formula() -> None:
    x = np.arange(2 * 12 * 3).reshape(2, 12, 3)
    for axis, group in ((1, 1), (1, 3), (1, 4), (1, 12), (2, 3), (0, 2)):
        wanted = np.empty_like(x)
        for index in every_index(x.shape):
            wanted[index] = x[_source_index(index, x.shape, axis, group)]
        np.testing.assert_array_equal(shuffled(x, axis, group), wanted)


@pytest.mark.parametrize("tag", ["abc", "acb", "aBc16b"])
def test_one_group_and_groups_of_one_are_a_copy(tag: str) -> None:
    md = MemoryDesc((2, 20, 3), "f32", tag)
    copy = reorder_nest(md, md, Compute())
    assert shuffle_nest(md, md, 1, 1) == shuffle_nest(md, md, 1, 20) == copy


@pytest.mark.parametrize(
    ("channels", "tag", "group"),
    [(12, "abc", 3), (64, "aBc16b", 4), (64, "aBc16b", 32), (64, "aBc16b", 2), (96, "aBc8b", 24)],
)
def test_groups_and_blocks_that_nest_are_digits(channels: int, tag: str, group: int) -> None:
    md = MemoryDesc((2, channels, 5), "f32", tag)
    nest = shuffle_nest(md, md, 1, group)
    assert all(axis.is_linear for axis in nest.axes)
    assert nest.positions == 2 * channels * 5
    assert nest.bounds == ()


def test_groups_that_cut_blocks_are_runs_in_a_table() -> None:
    md = MemoryDesc((2, 244, 5), "f32", "aBc16b")
    nest = shuffle_nest(md, md, 1, 2)
    tables = [axis for axis in nest.axes if not axis.is_linear]
    assert [axis.extent for axis in tables] == [128]
    assert shuffle_in_stages(md, md, 1, 2) is not None


def test_what_is_a_copy_has_no_stages() -> None:
    md = MemoryDesc((2, 244, 5), "f32", "aBc16b")
    assert shuffle_in_stages(md, md, 1, 1) is None
    assert shuffle_in_stages(md, md, 1, 244) is None


def test_a_chain_needs_elements_and_whole_blocks_of_the_other_axes() -> None:
    empty = MemoryDesc((0, 12, 3), "f32", "aBc16b")
    partial, whole = (MemoryDesc((size, 36), "f32", "AB16b16a") for size in (20, 32))
    assert shuffle_in_stages(empty, empty, 1, 3) is None
    assert shuffle_in_stages(partial, partial, 1, 4) is None
    assert shuffle_in_stages(whole, whole, 1, 4) is not None


@pytest.mark.parametrize(
    ("tag", "outer", "along", "row"),
    [
        ("ABcd16a16b", 2, 12 * 16, 48),
        ("ABcd16b16a", 2, 12, 48 * 16),
        ("ABcd4b16a4b", 2, 12, 48 * 16),
        ("BAcd8a16b2a", 0, 2 * 12 * 8, 48 * 2),
    ],
)
def test_blocks_of_other_axes_are_positions_or_a_part_of_each(
    tag: str, outer: int, along: int, row: int
) -> None:
    md = MemoryDesc((32, 36, 4, 3), "f32", tag)
    chain = shuffle_in_stages(md, md, 1, 9)
    assert chain is not None
    assert [axis.extent for axis in chain.outer] == [outer] * bool(outer)
    assert (chain.along.extent, chain.row) == (along, row)


def test_a_position_that_is_too_long_is_a_part_of_its_block() -> None:
    md = MemoryDesc((32, 9600), "f32", "AB16b16a")
    chain = shuffle_in_stages(md, md, 1, 6)
    assert chain is not None
    assert (chain.along.extent, chain.row, chain.run) == (16, 9600, 0)


# --- wider elements -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dims", "data_type", "tag", "wide"),
    [
        ((16, 24, 3), "u8", "ABc8b8a", MemoryDesc((2, 24, 3), "f64", "aBc8b")),
        ((16, 24, 3), "bf16", "ABc8a16b2a", MemoryDesc((8, 24, 3), "f32", "ABc8a16b")),
        ((16, 24, 3), "u8", "ABc8b2a2a", MemoryDesc((4, 24, 3), "f32", "aBc8b")),
        ((12, 24, 3), "s8", "ABc8b2a", MemoryDesc((6, 24, 3), "f16", "aBc8b")),
    ],
)
def test_elements_that_move_together_are_one(
    dims: tuple[int, ...], data_type: str, tag: str, wide: MemoryDesc
) -> None:
    md = MemoryDesc(dims, data_type, tag)
    made, same = widen(md, md, 1)
    assert made == same
    assert (made.dims, made.data_type, made.layout.inner_blks) == (wide.dims, wide.data_type, wide.inner_blks)
    for index in every_index(wide.dims):
        first = (index[0] * (dims[0] // wide.dims[0]), *index[1:])
        assert made.offset(*index) * made.data_type.bits == md.offset(*first) * md.data_type.bits


@pytest.mark.parametrize(
    ("dims", "data_type", "tag"),
    [
        ((15, 24, 3), "u8", "ABc8b8a"),
        ((16, 24, 3), "f64", "ABc8b2a"),
        ((16, 24, 3), "u8", "ABc8b16a"),
        ((15, 24, 3), "u8", "ABc8b3a"),
        ((16, 24, 3), "u8", "ABc8a8b"),
        ((16, 24, 3), "u8", "abc"),
    ],
)
def test_elements_stay_as_they_are_where_nothing_wider_holds_them(
    dims: tuple[int, ...], data_type: str, tag: str
) -> None:
    md = MemoryDesc(dims, data_type, tag)
    made = widen(md, md, 1)
    assert made[0] is md
    assert made[1] is md


def test_only_what_both_sides_hold_together_is_wider() -> None:
    dims = (16, 24, 3)
    blocked, plain, other = (MemoryDesc(dims, "u8", tag) for tag in ("ABc8b8a", "abc", "ABc8b4a"))
    window = MemoryDesc((16, 48, 3), "u8", "ABc8b8a").submemory_desc(dims, (0, 8, 0))
    assert widen(blocked, plain, 1) == (blocked, plain)
    assert widen(blocked, other, 1) == (blocked, other)
    made = widen(window, blocked, 1)
    assert made[0].offset0 * 8 == window.offset0 > 0


def test_a_table_has_an_end() -> None:
    size = 3 * (1 << 18)
    md = MemoryDesc((size, 1), "u8", "Ab16a")
    assert shuffle_nest(md, md, 0, 2).axes
    texts = "too little in common", "src u8 2359296x1 Ab16a; dst u8", "reorder into a plain format first"
    with refused(*texts, kind=rs.Unimplemented):
        shuffle_nest(MemoryDesc((size * 3, 1), "u8", "Ab16a"), MemoryDesc((size * 3, 1), "u8", "Ab16a"), 0, 9)
