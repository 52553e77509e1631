"""Schedules of loop trees: which digits there are, in which order, and along which vectors go."""

from __future__ import annotations

import pytest

from restride.desc.memory_desc import MemoryDesc
from restride.ir.digits import IndexDigit, index_digits
from restride.ir.expression import Const, Ref, TreeAxis
from restride.ir.tree import Each, LoopTree, TreeTensor, fold_over
from restride.schedule.trees.padding import padding_nests
from restride.schedule.trees.plan import AxisLimits, axis_digits, grid_of, sections_of
from restride.schedule.trees.schedule import schedule_tree
from support.trees import softmax_tree, window_tree

DIMS = (2, 17, 5, 3)


@pytest.mark.parametrize(
    ("tag", "kind", "lines"),
    [
        ("nhwc", "rows", ["for d3/1 30", "  for c/1 17 in vectors of 32"]),
        ("nchw", "columns", ["for d0/1 2, d3/1 15 in vectors of 32", "  for c/1 17"]),
        ("nChw16c", "rows", ["for d0/1 2, d3/1 15", "  for c/16 2, c/1 16 in vectors of 32"]),
    ],
)
def test_vectors_go_where_neighbors_are(tag: str, kind: str, lines: list[str]) -> None:
    md = MemoryDesc(DIMS, "f32", tag)
    plan = schedule_tree(softmax_tree(md, md, 1))
    assert plan.kind == kind
    assert str(plan).splitlines()[:2] == lines
    assert plan.why


@pytest.mark.parametrize(("tag", "step"), [("nhwc", 17 * 4), ("nchw", 64 * 4), ("nChw16c", 16 * 4)])
def test_the_last_of_loops_over_the_same_asks_for_what_the_next_position_has(tag: str, step: int) -> None:
    md = MemoryDesc((2, 17, 5, 64), "f32", tag)
    plan = schedule_tree(softmax_tree(md, md, 1))
    first, last, *stores = (plan.read_ahead(number) for number in range(len(plan.plan.inner)))
    assert not first
    assert [name for name, _ in last] == ["src"]
    assert list(last.values()) == [step]
    assert not any(stores)


def test_what_one_loop_reads_goes_on_by_itself() -> None:
    src, dst = MemoryDesc((2, 3, 9, 9), "f32", "nhwc"), MemoryDesc((2, 3, 7, 7), "f32", "nhwc")
    plan = schedule_tree(window_tree(src, dst, 3, 1, 0))
    assert plan.plan.inner
    assert not any(plan.read_ahead(number) for number in range(len(plan.plan.inner)))


def test_pieces_of_a_position_each_are_no_windows() -> None:
    """A sum over images, an image each: what is read goes on by itself, and is asked for by nobody."""
    x = TreeTensor.of_desc("x", MemoryDesc((4, 8, 32, 64), "f32", "nChw8c"))
    n, c, h, w = (TreeAxis(name, extent) for name, extent in zip("nchw", (1, 8, 32, 64), strict=True))
    piece = TreeAxis("piece", 4)
    y = TreeTensor.row_major("y", (4, 8))
    fold = Each((n, h, w), (fold_over("sum", "found", x.load(piece + n, c, h, w)),))
    plan = schedule_tree(LoopTree((x, y), (Each((piece, c), (fold, y.store((piece, c), Ref("found")))),)))
    assert not plan.read_ahead(0)


def test_vectors_go_along_the_neighbors_of_a_row_that_all_lanes_share() -> None:
    """Every second element is written either way: what is read decides, of a local of the loop around too."""
    y, row = TreeTensor.row_major("y", (3, 32, 32)), TreeTensor.row_major("row", (16, 16))
    n, i, j, p, q = (
        TreeAxis(name, extent) for name, extent in zip("nijpq", (3, 16, 16, 16, 16), strict=True)
    )
    filled = Each((i, j), (row.store((i, j), Const(1.0)),))
    for place, along in (((p, q), "q"), ((q, p), "p")):
        read = Each((p, q), (y.store((n, p * 2, q * 2), row.load(*place)),))
        plan = schedule_tree(LoopTree((y,), (Each((n,), (filled, read), locals=(row,)),)))
        assert plan.plan.inner[-1].digits[-1].steps[0][0] == along


def test_axes_that_continue_each_other_are_one_digit() -> None:
    md = MemoryDesc((2, 32, 5, 3), "f32", "nChw16c")
    x, y = TreeTensor.of_desc("x", md), TreeTensor.of_desc("y", md)
    axes = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(md.dims))
    plan = schedule_tree(LoopTree((x, y), (Each(axes, (y.store(axes, x.load(*axes)),)),)))
    assert str(plan) == "for d1/1 960 in vectors of 64"
    assert plan.kind == "lines"
    (_, tiles, steps), *others = grid_of(plan.plan)
    assert not others
    assert tiles * steps * 64 >= 960


def test_windows_keep_their_axes_apart() -> None:
    src, dst = MemoryDesc((1, 16, 8, 8), "f32", "nhwc"), MemoryDesc((1, 16, 8, 8), "f32", "nhwc")
    plan = schedule_tree(window_tree(src, dst, 3, 1, 1))
    assert str(plan).splitlines()[0].endswith("c/1 16 in vectors of 64")
    assert plan.read_axes == {"h", "w", "kh", "kw"}


def test_an_index_of_two_axes_has_digits_where_blocks_nest() -> None:
    md = MemoryDesc((1, 48), "f32", "aB16b")
    digits, extents = index_digits(md, 1), {"g": 12, "k": 4}
    found = axis_digits(digits, TreeAxis("g", 12) * 4 + TreeAxis("k", 4), extents)
    assert found == {"k": (IndexDigit(1, 1),), "g": (IndexDigit(1, 4), IndexDigit(4, 16))}
    assert axis_digits(digits, TreeAxis("g", 12) * 4 + TreeAxis("k", 4) - 1, extents) is None
    assert axis_digits(digits, TreeAxis("g", 16) * 3 + TreeAxis("k", 3), {"g": 16, "k": 3}) is None
    # More than a block, and no whole number of them.
    assert axis_digits(digits, TreeAxis("g", 16) * 17 + TreeAxis("k", 17), {"g": 16, "k": 17}) is None
    assert axis_digits(digits, TreeAxis("g", 16) * 32 + TreeAxis("k", 32), {"g": 16, "k": 32}) is not None


def test_sections_are_what_is_whole_partial_and_zero() -> None:
    found = list(sections_of(AxisLimits(17, (("y", 48),)), 16, 3))
    assert found == [
        (0, 1, AxisLimits(16, (("y", 16),))),
        (1, 2, AxisLimits(1, (("y", 16),))),
        (2, 3, AxisLimits(0, (("y", 16),))),
    ]


def test_padding_nests_write_what_no_index_has() -> None:
    tensor = TreeTensor.of_desc("y", MemoryDesc((2, 17), "f32", "aB16b"))
    (nest,) = padding_nests(tensor)
    assert nest.is_zero
    assert nest.positions == 2 * 15
    assert nest.dst_base == 17
