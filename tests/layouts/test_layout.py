"""The laws of the layout algebra, against the offsets of every index."""

from __future__ import annotations

import pickle
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import restride as rs
from restride.layouts import Layout, from_offsets
from support.errors import refused
from support.layouts import flat, is_layout, layouts, offsets

FORMS = ("logical", "zipped", "tiled", "flat")


@given(layouts())
def test_a_layout_is_its_text_its_parts_and_its_offsets(a: Layout) -> None:
    assert Layout(str(a)) == a == eval(repr(a)) == pickle.loads(pickle.dumps(a))
    assert hash(Layout(str(a))) == hash(a)
    expected = offsets(a)
    assert a.offsets().tolist() == expected == [a(i) for i in range(a.size)]
    assert [a(a.coordinate(i)) for i in range(a.size)] == expected
    assert (a.size, a.cosize) == (len(expected), max(expected) + 1)
    assert offsets(Layout.of(*a.modes)) == offsets(a.flatten()) == expected


@given(layouts())
def test_coalesce_keeps_the_function_in_the_fewest_modes(a: Layout) -> None:
    found = a.coalesce()
    assert offsets(found) == offsets(a)
    assert found == found.coalesce() == from_offsets(a.offsets())
    assert 1 not in flat(found.shape) or found == Layout("1:0")
    modes = a.coalesce(by_mode=True).modes
    assert [offsets(mode) for mode in modes] == [offsets(mode) for mode in a.modes]


def _is_compatible(shape: Any, finer: Any) -> bool:
    """True where coordinates of `shape` are coordinates of `finer`."""
    if isinstance(shape, int):
        return prod(flat(finer)) == shape
    return isinstance(finer, tuple) and len(shape) == len(finer) and all(map(_is_compatible, shape, finer))


def _is_composition(a: list[int], b: Layout) -> bool:
    """True where A(B(c)) is a layout: each digit of B moves the offset by itself."""
    parts, begin = [], 1
    inner = offsets(b)
    for extent in flat(b.shape):
        parts.append([a[i] for i in inner[: begin * extent : begin]])
        begin *= extent
    sums = np.zeros(1, np.int64)
    for part in parts:
        sums = (np.array(part)[:, None] + sums).reshape(-1)
    return all(map(is_layout, parts)) and sums.tolist() == [a[i] for i in inner]


@given(layouts(), layouts(64))
def test_composition_is_a_of_b_or_there_is_no_such_layout(a: Layout, b: Layout) -> None:
    table, inner = offsets(a), offsets(b)
    try:
        found = a.compose(b)
    except rs.InvalidArguments:
        assert max(inner) >= a.size or not _is_composition(table, b)
        return
    assert offsets(found) == [table[i] for i in inner]
    assert _is_compatible(b.shape, found.shape)


def test_a_long_composition_needs_no_table() -> None:
    a = Layout((2**20, 2**20), (2**20, 1))
    assert str(a.compose(Layout(2**30, 2**10))) == "(1024,1048576):(1073741824,1)"
    with refused("RS-A18"):
        Layout((3 * 2**30, 2), (1, 2**40)).compose(Layout(2**30, 5))


@given(layouts(is_nested=True), st.integers(1, 1000))
def test_a_complement_is_ordered_disjoint_and_complete(a: Layout, size: int) -> None:
    rest = a.complement(size)
    own, others = set(offsets(a)), offsets(rest)
    assert all(map(int.__lt__, others, others[1:]))
    assert own & set(others) == {0}
    sums = sorted(x + y for x in own for y in others)
    assert sums == list(range(len(sums)))
    assert len(sums) >= size
    assert a.complement().cosize <= a.cosize


@given(layouts())
def test_inverses_undo_a_layout(a: Layout) -> None:
    table = offsets(a)
    right = a.right_inverse()
    assert [table[i] for i in offsets(right)] == list(range(right.size))
    try:
        left = a.left_inverse()
    except rs.InvalidArguments:
        return
    assert [left(offset) for offset in table] == list(range(a.size))


@given(layouts())
def test_the_inverse_is_that_of_a_permutation(a: Layout) -> None:
    if sorted(offsets(a)) == list(range(a.size)):
        assert offsets(a.inverse()) == np.argsort(offsets(a)).tolist()
        assert a.inverse() == a.left_inverse() == a.right_inverse()
    else:
        with refused("RS-A18"):
            a.inverse()


@given(layouts(), st.data())
def test_a_division_has_the_tile_and_moves_nothing(a: Layout, data: st.DataObject) -> None:
    extent = data.draw(st.sampled_from([n for n in range(1, a.size + 1) if a.size % n == 0]))
    step = data.draw(st.sampled_from([n for n in range(1, a.size + 1) if a.size // extent % n == 0]))
    tile = Layout(extent, step)
    try:
        divided = a.divide(tile)
    except rs.InvalidArguments:
        return
    assert divided[0] == a.compose(tile)
    assert sorted(offsets(divided)) == sorted(offsets(a))
    assert divided == a.divide(tile, "zipped") == Layout.of(*a.divide(tile, "tiled")[0,], divided[1])


def test_tiles_that_do_not_divide_are_rounded_up() -> None:
    assert str(Layout(10).divide(4)) == "(4,3):(1,4)"


@given(layouts(is_nested=True), layouts(16))
def test_a_product_has_a_copy_at_each_offset_of_the_tiler(a: Layout, b: Layout) -> None:
    rest = a.complement(a.size * b.cosize)
    try:
        found = a.product(b)
    except rs.InvalidArguments:
        assert not _is_composition(offsets(rest), b)
        return
    assert found[0] == a
    assert offsets(found[1]) == [offsets(rest)[i] for i in offsets(b)]
    if len(set(offsets(b))) == b.size:
        assert len(set(offsets(found))) == found.size


PUBLISHED = [
    (lambda: Layout("(2,(1,6)):(1,(6,2))").coalesce(), "12:1"),
    (lambda: Layout("20:2").compose("(5,4):(4,1)"), "(5,4):(8,2)"),
    (lambda: Layout("(10,2):(16,4)").compose("(5,4):(1,5)"), "(5,(2,2)):(16,(80,4))"),
    (lambda: Layout("(12,(4,8)):(59,(13,1))").compose(("3:4", "8:2")), "(3,(2,4)):(236,(26,1))"),
    (lambda: Layout("4:1").complement(24), "6:4"),
    (lambda: Layout("6:4").complement(24), "4:1"),
    (lambda: Layout("(4,6):(1,4)").complement(24), "1:0"),
    (lambda: Layout("4:2").complement(24), "(2,3):(1,8)"),
    (lambda: Layout("(2,4):(1,6)").complement(24), "3:2"),
    (lambda: Layout("(2,2):(1,6)").complement(24), "(3,2):(2,12)"),
    (lambda: Layout("(4,2,3):(2,1,8)").divide("4:2"), "((2,2),(2,3)):((4,1),(2,8))"),
    (lambda: Layout("(2,2):(4,1)").product("6:1"), "((2,2),(2,3)):((4,1),(2,8))"),
    (lambda: Layout("(2,5):(5,1)").product("(3,4):(1,3)", "blocked"), "((2,3),(5,4)):((5,10),(1,30))"),
    (lambda: Layout("(2,5):(5,1)").product("(3,4):(1,3)", "raked"), "((3,2),(4,5)):((10,5),(30,1))"),
    (lambda: Layout("(4,8):(8,1)").right_inverse(), "(8,4):(4,1)"),
]


@pytest.mark.parametrize(("make", "text"), PUBLISHED, ids=[text for _, text in PUBLISHED])
def test_published_examples(make: Any, text: str) -> None:
    assert str(make()) == text


def test_forms_arrange_the_same_modes() -> None:
    a, tiler = Layout("(9,(4,8),5):(59,(13,1),600)"), ("3:3", "(2,4):(1,8)")
    shapes = [str(a.divide(tiler, form)).partition(":")[0] for form in FORMS]
    assert shapes == [
        "((3,3),((2,4),(2,2)),5)",
        "((3,(2,4)),(3,(2,2),5))",
        "((3,(2,4)),3,(2,2),5)",
        "(3,(2,4),3,(2,2),5)",
    ]
    assert len({tuple(sorted(offsets(a.divide(tiler, form)))) for form in FORMS}) == 1
    assert str(a.divide((None, 2), "zipped")) == "((1,2),(9,(2,8),5)):((0,13),(59,(26,1),600))"
    shapes = [str(Layout("(2,5):(1,1)").product((3, 4), form)).partition(":")[0] for form in FORMS]
    assert shapes == ["((2,3),(5,4))", "((2,5),(3,4))", "((2,5),3,4)", "(2,5,3,4)"]
    assert str(Layout(4).product("(2,2)", "blocked")) == "((4,2),(1,2)):((1,4),(0,8))"


def test_modes_are_taken_by_number_and_by_name() -> None:
    a = Layout("(2,(3,4)):(12,(1,3))", names=("n", "c"))
    assert a["c"] == a[1] == Layout("(3,4):(1,3)")
    assert (a["c", "n"], a["c", "n"].names) == (Layout("((3,4),2):((1,3),12)"), ("c", "n"))
    assert a == Layout("(2,(3,4)):(12,(1,3))")
    assert list(a) == list(a.modes)


def test_texts_may_be_written_as_cute_and_python_do() -> None:
    for text in ("((_4,_2),_8):((_1,_16),_2)", "((4, 2), 8) : ((1, 16), 2,)"):
        assert Layout(text) == Layout(((4, 2), 8), ((1, 16), 2)) == Layout([[4, 2], 8], [[1, 16], 2])
    assert (str(Layout((4,))), str(Layout("(3,4)")), str(Layout("4:-1"))) == (
        "(4):(1)",
        "(3,4):(1,3)",
        "4:-1",
    )
    assert (Layout("4:-1")(3), Layout("():()").size, Layout("():()")(0)) == (-3, 1, 0)


A = Layout("(4,3):(1,10)")
HUGE = 10**30
REFUSED = [
    *(
        lambda text=text: Layout(text)
        for text in ("", ":", "4:", "(4:1", "4:1:1", "4.5:1", "4:(1)", "a:b", "\x1b[31m")
    ),
    *(
        lambda text=text: Layout(text)
        for text in ("(" * 3000, "[4]:[1]", "0:1", "-4:1", "9" * 5000, "(4)2:1", "_:_")
    ),
    *(
        lambda x=x: Layout(x)
        for x in (None, 1.5, float("nan"), True, {}, b"4:1", HUGE, (1,) * 100, np.zeros(2))
    ),
    lambda: Layout(*[eval("(" * 20 + "1" + ",)" * 20)]),
    lambda: Layout((2, 2), (1,)),
    lambda: Layout((2**62, 2**62, 2)),
    lambda: Layout("4:1", 1),
    lambda: Layout((2, 2), names=("a",)),
    lambda: Layout((2, 2), names=("a", "\x1b")),
    lambda: Layout((2, 2), names=5),
    *(lambda at=at: A(*at) for at in ((), (12,), (-1,), (1.0,), (0, 3), ((0, 1), 2), (1, 2, 3), ("0",))),
    *(lambda at=at: A[at] for at in (2, -1, "n", 1.0, (0, 5), None)),
    lambda: A.coordinate(12),
    lambda: A.compose("6:1"),
    lambda: A.compose("13:1"),
    lambda: A.compose("2:-1"),
    lambda: A.compose(("2", "2", "2")),
    lambda: A.compose([[[[["2"]]]]]),
    lambda: A.compose(0.5),
    lambda: Layout("(2,2):(1,3)").complement(),
    lambda: Layout("2:-1").complement(),
    lambda: A.complement(0),
    lambda: A.complement("x"),
    lambda: Layout("(2,2):(0,1)").left_inverse(),
    lambda: A.inverse(),
    lambda: A.divide(2, "odd"),
    lambda: A.product(2, 3),
    lambda: A.product("(2,2):(1,1)", None),
    lambda: Layout(HUGE // 10**12).offsets(),
    lambda: Layout("4:9223372036854775807").offsets(),
    *(
        lambda x=x: from_offsets(x)
        for x in ([], [1], [0, 1, 3], [[0]], [0.0], "x", None, [0, 2**63], object())
    ),
]


@pytest.mark.parametrize("make", REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_layout_is_refused(make: Any) -> None:
    with refused():
        make()


@given(st.text("()_:,-0123456789 ", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = Layout(text)
    except rs.Error:
        return
    assert Layout(str(found)) == found
    assume(found.size < 1000)
    assert len(found.offsets()) == found.size
