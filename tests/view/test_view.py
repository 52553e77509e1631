"""Pictures and explanations of layouts: what they say is what the descriptor does."""

from __future__ import annotations

import itertools
import re
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restride.desc.layout import RUNTIME_DIM
from restride.desc.memory_desc import MemoryDesc
from restride.view.explain import explain, fields, formula
from restride.view.names import aligned, axis_names
from restride.view.text import ASCII, TextStyle, show
from restride.view.walk import Walk, budget, some
from support.descriptors import strided, tags, windows

_LAYOUTS = [
    ((1, 17, 2, 2), "nChw16c"),
    ((20, 9, 2, 1), "OIhw4i16o4i"),
    ((17, 23, 2, 3), "ABcd16b16a2b"),
    ((2, 3, 4), "acb"),
    ((5,), "a"),
    ((1, 1), "ab"),
    ((3, 4, 5, 6, 2), "decab"),
    ((2, 17, 3), "aBx8b"),
    ((2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2), "lkjihgfedcba"),
]


def evaluated(md: MemoryDesc, index: tuple[int, ...], names: str) -> int:
    return eval(formula(md, names), {"__builtins__": {}}, dict(zip(names, index, strict=True)))


def assert_formula_is_offset(md: MemoryDesc) -> None:
    names = axis_names(md.ndims)
    whole = list(itertools.product(*map(range, md.padded_dims)))
    for index in whole[:: max(1, len(whole) // 500)]:
        assert evaluated(md, index, names) == md.offset(*index)


@pytest.mark.parametrize(("dims", "tag"), _LAYOUTS)
def test_formula_equals_offset_for_every_position(dims: tuple[int, ...], tag: str) -> None:
    md = MemoryDesc(dims, "f32", tag)
    names = axis_names(md.ndims, tag)
    for index in itertools.product(*map(range, md.padded_dims)):
        assert evaluated(md, index, names) == md.offset(*index)


@given(st.data())
def test_formula_equals_offset_for_random_blocked_layouts(data: st.DataObject) -> None:
    dims = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=5)))
    assert_formula_is_offset(MemoryDesc(dims, "s8", data.draw(tags(dims))))


@given(st.data())
def test_formula_equals_offset_for_gaps_reversed_axes_and_windows(data: st.DataObject) -> None:
    dims = tuple(data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4)))
    made = data.draw(st.sampled_from((strided, windows)))
    md = data.draw(made(dims, MemoryDesc((1,), "f32").data_type))
    assert_formula_is_offset(md)


def test_formula_is_short() -> None:
    assert formula(MemoryDesc((1, 17, 2, 2), "f32", "nChw16c"), "nchw") == "c//16*64 + h*32 + w*16 + c%16"
    assert formula(MemoryDesc.from_strides((3, 4), "f32", (-6, 1), 12), "ab") == "12 - a*6 + b"
    assert formula(MemoryDesc.from_strides((3, 4), "f32", (0, 1)), "ab") == "b"
    assert formula(MemoryDesc((1, 1), "f32"), "ab") == "0"


def test_explanation_holds_the_formula_and_the_facts() -> None:
    md = MemoryDesc((64, 64, 3, 3), "s8", "OIhw4i16o4i")
    text = explain(md, tag="OIhw4i16o4i")
    assert f"    {formula(md, 'oihw')}\n" in text
    assert "s8 64x64x3x3 ABcd4b16a4b (OIhw4i16o4i)" in text
    assert "inside a block 4 i by 16 o by 4 i" in text
    assert "36864 bytes: 36864 elements of 1 byte" in text
    assert "padding  none" in text


def test_explanation_counts_padding_and_gaps() -> None:
    padded = explain(MemoryDesc((1, 17, 2, 2), "f32", "nChw16c"))
    assert "b from 17 to 32: 60 of 128 elements (46.9 %) are zero padding" in padded
    assert "6 of them in gaps" in explain(MemoryDesc((3, 4), "f32", (6, 1)))
    window = MemoryDesc((6, 4), "f32").submemory_desc((2, 2), (1, 1))
    assert "the first is at offset 5" in explain(window)
    assert "15 elements of 4 bits" in explain(MemoryDesc((3, 5), "s4"))


def test_fields_are_plain_values_with_the_formula() -> None:
    found = fields(MemoryDesc((1, 17, 2, 2), "f32", "nChw16c"), "nchw")
    assert found["formula"] == "c//16*64 + h*32 + w*16 + c%16"
    assert (found["size"], found["storage"], found["padding"]) == (512, 128, 60)
    assert found["blocks"] == [1, 16, 1, 1]
    assert "formula" not in fields(MemoryDesc((2, 3), "f32", "any"), "ab")


@pytest.mark.parametrize(
    "md",
    [MemoryDesc(), MemoryDesc((2, 3), "f32", "any"), MemoryDesc((RUNTIME_DIM, 3), "f32", "ab")],
    ids=["zero", "any", "runtime"],
)
def test_descriptors_without_a_layout_say_why(md: MemoryDesc) -> None:
    for text in (show(md), explain(md)):
        first, second = text.split("\n")
        assert str(md) in first
        assert second.endswith(".")


def test_empty_tensors_have_no_picture() -> None:
    assert "No elements" in show(MemoryDesc((2, 0, 3), "f32"))
    assert "0 bytes" in explain(MemoryDesc((2, 0, 3), "f32"))


# Pictures


def cells(md: MemoryDesc) -> dict[int, str]:
    """Return the picture's contents at each offset, checking each line's byte."""
    walk = Walk.over(md.layout)
    (row,) = walk.row.levels
    lies = [
        walk.group_offset(group) + cell * row.stride
        for group in range(walk.groups.extent)
        for cell in range(row.extent)
    ]
    found = {}
    for line in show(md, ink=ASCII, width=10_000).splitlines()[4:]:
        offset, *rest = [word for word in line.split() if word != "|"] or [""]
        if offset.isdecimal() and "more" not in line:
            assert float(rest[0]) == int(offset) * md.data_type.bits / 8
            drawn = rest[-len(lies) :]
            found |= {int(offset) + place: cell for place, cell in zip(lies, drawn, strict=True)}
    return found


@pytest.mark.parametrize(("dims", "tag"), _LAYOUTS)
def test_picture_shows_at_each_offset_the_index_that_lies_there(dims: tuple[int, ...], tag: str) -> None:
    md = MemoryDesc(dims, "f32", tag)
    axis = Walk.over(md.layout).row.levels[0].axis
    drawn = cells(md)
    assert {0, prod(md.padded_dims) - 1} <= set(drawn)
    for offset, cell in drawn.items():
        index = md.index(offset)
        assert cell == "##" if index is None else cell == str(index[axis])


def test_picture_of_a_small_layout_is_whole() -> None:
    md = MemoryDesc((1, 17, 2, 2), "f32", "nChw16c")
    assert sorted(cells(md)) == list(range(128))
    assert show(md).count("░") == 60 * 2 + 2


def test_picture_runs_from_low_offsets_to_high_for_reversed_axes() -> None:
    md = MemoryDesc.from_strides((3, 4), "f32", (-6, -1), 15)
    lines = [line.split() for line in show(md, ink=ASCII).splitlines()[4:]]
    assert lines == [
        ["0", "0", "2", "3", "2", "1", "0"],
        ["6", "24", "1", "3", "2", "1", "0"],
        ["12", "48", "0", "3", "2", "1", "0"],
    ]


def test_picture_names_axes_after_the_alias_that_was_asked_for() -> None:
    md = MemoryDesc((1, 17, 2, 2), "f32", "nChw16c")
    assert "offset  byte  n h w    c →" in show(md, tag="nChw16c")
    assert "offset  byte  a c d    b →" in show(md)
    assert axis_names(4, "OhwI24o") == "oihw"
    assert axis_names(4, "aBx16b") == axis_names(4, "") == "abcd"
    assert axis_names(5, "nhwc") == "abcde"


def test_inner_blocks_are_outlined() -> None:
    lines = [line.strip() for line in show(MemoryDesc((32, 8), "s8", "AB16a4b")).splitlines()]
    joins = [line for line in lines if line and set(line) <= set("┌┐├┤└┘─")]
    assert [line[0] + line[-1] for line in joins] == ["┌┐", "├┤", "├┤", "├┤", "└┘"]
    assert sum(line.endswith("│") for line in lines) == 64
    assert not set("┌│└") & set(show(MemoryDesc((4, 4, 4), "s8")))


@pytest.mark.parametrize(("dims", "blocks"), [((3, 17, 2, 2), 6), ((3, 16, 2, 2), 1), ((2, 33, 1, 1), 6)])
def test_blocks_of_the_same_place_in_two_images_have_outlines_of_their_own(
    dims: tuple[int, ...], blocks: int
) -> None:
    lines = [line.strip() for line in show(MemoryDesc(dims, "f32", "nChw16c")).splitlines()]
    assert sum(line.startswith("├") for line in lines) == blocks - 1


def test_elements_of_half_a_byte_lie_at_halves() -> None:
    lines = show(MemoryDesc((2, 3), "s4")).splitlines()[4:]
    assert [line.split()[:3] for line in lines[-1:]] == [["3", "1.5", "1"]]


@pytest.mark.parametrize(
    "md",
    [
        MemoryDesc((2**20, 2**15, 2**10, 7), "u8", "nChw16c"),
        MemoryDesc((2,) * 12, "f32"),
        MemoryDesc((2**62,), "u8"),
        MemoryDesc((3, 2**40), "u8", "ba"),
        MemoryDesc((2**31 - 1, 5), "s8", "Ab2147483647a"),
    ],
    ids=str,
)
def test_pictures_of_huge_layouts_stay_small_and_show_both_ends(md: MemoryDesc) -> None:
    text = show(md)
    assert len(text.splitlines()) < 150
    assert max(map(len, text.splitlines())) < 200
    assert "⋮" in text or "…" in text


def test_a_window_inside_a_block_shows_its_neighbors_dotted() -> None:
    md = MemoryDesc((2, 32), "f32", "aB16b").submemory_desc((2, 4), (0, 0))
    assert show(md).splitlines()[-2].split()[-13:-1] == ["··"] * 12


def test_color_only_where_asked_for() -> None:
    md = MemoryDesc((1, 17), "f32", "aB16b")
    assert "\x1b" not in show(md)
    colored = show(md, ink=TextStyle(color=True))
    assert re.sub(r"\x1b\[[\d;]+m", "", colored) == show(md)
    assert "\x1b[2m░░\x1b[0m" in colored


def test_ascii_pictures_are_ascii() -> None:
    assert show(MemoryDesc((2, 17, 99, 99), "f32", "nChw16c"), ink=ASCII).isascii()
    assert explain(MemoryDesc((2, 17, 99, 99), "f32", "nChw16c")).isascii()


@given(st.lists(st.integers(1, 100), max_size=8), st.integers(1, 64))
def test_budget_never_exceeds_the_most(extents: list[int], most: int) -> None:
    kept = budget(extents, most)
    assert prod(kept) <= most
    assert all(1 <= k <= n for k, n in zip(kept, extents, strict=True))
    if prod(extents) <= most:
        assert kept == extents


def test_some_positions_are_the_first_and_the_last() -> None:
    assert some(5, 9) == [0, 1, 2, 3, 4]
    assert some(5, 3) == [0, 1, 4]
    assert some(5, 1) == [0]


def test_tables_are_aligned() -> None:
    assert list(aligned([("a", 10), ("bcd", 7)], "<>")) == ["a    10", "bcd   7"]
