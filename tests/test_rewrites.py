"""Rewrites of nests keep their meaning."""

from __future__ import annotations

import dataclasses
from itertools import product

from hypothesis import assume, given
from hypothesis import strategies as st

from restride.dtypes import DataType
from restride.plan.compute import Compute
from restride.plan.nest import Axis, Bound, LoopNest
from restride.plan.rewrites import linear_table, normalise, peel, peeled_boxes, slice_axis
from support.nests import meaning, nests

_F32, _S8 = DataType.f32, DataType.s8


def _nest(*axes: Axis, bounds: tuple[Bound, ...] = (), compute: Compute | None = None) -> LoopNest:
    return LoopNest(_F32, _S8, axes, compute=compute or Compute(), bounds=bounds)


@given(nests(), st.data())
def test_slices_of_an_axis_do_together_what_the_axis_does(nest: LoopNest, data: st.DataObject) -> None:
    free = [i for i, axis in enumerate(nest.axes) if axis.bound < 0]
    assume(free)
    index = data.draw(st.sampled_from(free))
    extent = nest.axes[index].extent
    cut = data.draw(st.integers(0, extent))
    low, high = slice_axis(nest, index, 0, cut), slice_axis(nest, index, cut, extent - cut)
    assert meaning(low, high, like=nest) == meaning(nest)
    assert low.axes[index].extent + high.axes[index].extent == extent
    low.verify()
    high.verify()


def test_slice_moves_the_bases_and_keeps_what_is_left_to_read() -> None:
    nest = LoopNest(_F32, _S8, (Axis(5, 3, (7, 9, 11, 20, 1), valid=4),), src_base=1, dst_base=2)
    sliced = slice_axis(nest, 0, 2, 3)
    assert (sliced.src_base, sliced.dst_base) == (7, 13)
    assert sliced.axes == (Axis(3, 3, (0, 9, -10), valid=2),)
    assert slice_axis(nest, 0, 0, 3).axes == (Axis(3, 3, 2),)
    assert slice_axis(nest, 0, 0, 3).dst_base == 9


def test_a_table_that_is_a_line_becomes_its_stride() -> None:
    assert linear_table((0, 4, 8)) == 4
    assert linear_table((0, -4, -8)) == -4
    assert linear_table((0, 0, 0)) == 0
    assert linear_table((0, 4, 9)) == (0, 4, 9)
    assert linear_table((1, 5, 9)) == (1, 5, 9)
    assert linear_table((0,)) == linear_table(()) == 0


@given(nests())
def test_peeled_boxes_do_together_what_the_nest_does(nest: LoopNest) -> None:
    boxes = peel(nest)
    assert meaning(*boxes, like=nest) == meaning(nest)
    assert all(not box.bounds and all(axis.bound < 0 for axis in box.axes) for box in boxes)
    assert not any(box.is_empty for box in boxes)
    for box in boxes:
        box.verify()


@given(nests())
def test_peeled_boxes_do_not_overlap(nest: LoopNest) -> None:
    """Together they run each position that is written exactly once."""
    indices = product(*(range(axis.extent) for axis in nest.axes))
    assert sum(box.positions for box in peel(nest)) == sum(_is_written(nest, at) for at in indices)


def _is_written(nest: LoopNest, at: tuple[int, ...]) -> bool:
    sums = [0] * len(nest.bounds)
    for axis, position in zip(nest.axes, at, strict=True):
        if axis.bound >= 0:
            sums[axis.bound] += position * axis.step
    return all(total < bound.padded for total, bound in zip(sums, nest.bounds, strict=True))


@given(nests())
def test_the_number_of_boxes_is_known_before_peeling(nest: LoopNest) -> None:
    assert len(peel(nest)) <= peeled_boxes(nest)


def test_twelve_partial_blocks_are_counted_without_being_made() -> None:
    axes = [a for d in range(12) for a in (Axis(2, 1, 1, bound=d, step=2), Axis(2, 1, 1, bound=d, step=1))]
    nest = _nest(*axes, bounds=(Bound(3, 4),) * 12)
    assert peeled_boxes(nest.verify()) == 2**12


def test_peel_makes_the_boxes_that_its_text_shows() -> None:
    nest = _nest(
        Axis(2, 1600, 16, bound=0, step=16), Axis(16, 100, 1, bound=0, step=1), bounds=(Bound(17, 32),)
    )
    whole, part = peel(nest)
    assert whole.axes == (Axis(1, 1600, 16), Axis(16, 100, 1))
    assert part.axes == (Axis(1, 1600, 16), Axis(16, 100, 1, valid=1))
    assert (part.src_base, part.dst_base) == (1600, 16)


@given(nests(bounded=False))
def test_normal_form_means_the_same(nest: LoopNest) -> None:
    normal = normalise(nest)
    assert meaning(normal, like=nest) == meaning(nest)
    normal.verify()


@given(nests(bounded=False))
def test_normal_form_is_its_own_normal_form(nest: LoopNest) -> None:
    normal = normalise(nest)
    assert normalise(normal) == normal


@given(nests(), st.randoms(use_true_random=False))
def test_normal_form_does_not_depend_on_the_order_of_axes(nest: LoopNest, random: st.DrawFn) -> None:
    for box in peel(nest):
        if not all(axis.is_linear for axis in box.axes):
            continue
        axes = list(box.axes)
        random.shuffle(axes)  # type: ignore[attr-defined]
        assert normalise(dataclasses.replace(box, axes=tuple(axes))) == normalise(box)


@given(nests(bounded=False))
def test_normal_form_has_no_unit_axes_and_nothing_left_to_fuse(nest: LoopNest) -> None:
    normal = normalise(nest)
    assert all(axis.extent > 1 for axis in normal.axes) or normal.is_zero
    assert len(normal.axes) <= max(len(nest.axes), 1)
    for outer, inner in product(normal.axes, repeat=2):
        if not (outer.is_linear and inner.is_linear and inner.is_whole) or normal.is_zero:
            continue
        assert (outer.src, outer.dst) != (inner.src * inner.extent, inner.dst * inner.extent)


@given(nests(bounded=False))
def test_a_zero_nest_forgets_its_source(nest: LoopNest) -> None:
    assume(nest.axes)
    nest = dataclasses.replace(nest, axes=(dataclasses.replace(nest.axes[0], valid=0), *nest.axes[1:]))
    moved = dataclasses.replace(nest, src_base=nest.src_base + 7)
    moved = dataclasses.replace(moved, axes=tuple(dataclasses.replace(a, src=3) for a in nest.axes))
    assert normalise(moved) == normalise(nest)
    assert normalise(nest).is_zero
    assert normalise(nest).src_base == 0


def test_neighbours_fuse_into_one_axis() -> None:
    dense = _nest(Axis(2, 60, 60), Axis(3, 20, 20), Axis(1, 999, 999), Axis(4, 5, 5), Axis(5, 1, 1))
    assert normalise(dense).axes == (Axis(120, 1, 1),)
    transposed = _nest(Axis(2, 1, 60), Axis(3, 40, 20), Axis(4, 10, 5), Axis(5, 2, 1))
    assert normalise(transposed).axes == (Axis(2, 1, 60), Axis(60, 2, 1))
    reversed_ = _nest(Axis(3, -4, 4), Axis(4, -1, 1))
    assert normalise(reversed_).axes == (Axis(12, -1, 1),)
    broadcast = _nest(Axis(3, 0, 4), Axis(4, 0, 1))
    assert normalise(broadcast).axes == (Axis(12, 0, 1),)


def test_a_partial_axis_fuses_only_as_the_outer_one() -> None:
    outer = _nest(Axis(3, 4, 4, valid=2), Axis(4, 1, 1))
    assert normalise(outer).axes == (Axis(12, 1, 1, valid=8),)
    inner = _nest(Axis(3, 4, 4), Axis(4, 1, 1, valid=2))
    assert normalise(inner).axes == (Axis(3, 4, 4), Axis(4, 1, 1, valid=2))
