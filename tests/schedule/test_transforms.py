"""Schedules of loop trees as lists of transforms: what is chosen is replayed, what fits means the same."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restride as rs
from restride.desc.memory_desc import MemoryDesc
from restride.ir.conversion import to_real
from restride.ir.interpret_tree import interpret_tree
from restride.ir.ranges import amax_tree, min_max_tree, sum_tree
from restride.ir.tree import LoopTree
from restride.schedule.language import Schedule, Transform, parse_schedule, schedule_text
from restride.schedule.trees.lanes import folds_in_lanes
from restride.schedule.trees.plan import plans_of
from restride.schedule.trees.schedule import schedule_tree
from restride.schedule.trees.transforms import apply, transforms_of
from restride.targets import cpu_kernels
from support.effort import examples
from support.kernels import runnable
from support.trees import (
    Array,
    flat_of,
    pointwise_trees,
    reduction_trees,
    run_scheduled,
    softmax_tree,
    window_tree,
)

_BLOCKED, _PLAIN = MemoryDesc((2, 19, 5, 6), "f32", "aBcd8b"), MemoryDesc((2, 19, 5, 6), "f32", "abcd")


# --- what is chosen -----------------------------------------------------------------------------------------


def test_a_softmax_and_a_window_are_readable() -> None:
    softmax = transforms_of(schedule_tree(softmax_tree(_BLOCKED, _PLAIN, 1)))
    assert schedule_text(softmax).split(" · ") == [
        "fuse(d2/1, d3/1)",
        "1.split(c, 8)",
        "1.vectorize(c/1, 64)",
        "1.unroll()",
        "2.split(c, 8)",
        "2.vectorize(c/1, 64)",
        "3.vectorize(c/1, 64)",
        "parallel(d0/1, 1)",
        "parallel(d3/1, 1)",
    ]
    window = transforms_of(schedule_tree(window_tree(_BLOCKED, _BLOCKED, 3, 1, 1)))
    assert schedule_text(window).split(" · ") == [
        "split(c, 8)",
        "reorder(n/1, c/8, h/1, w/1, c/1)",
        "vectorize(c/1, 64)",
        "interior(h, w)",
        "1.unroll()",
        "parallel(n/1, 1)",
        "parallel(c/8, 1)",
    ]


def _solve(x: np.ndarray | rs.Memory) -> None:
    """Problems that become trees of many kinds."""
    window = {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1)}
    for axis in range(4):
        rs.ops.Softmax(x, axis=axis)
        rs.ops.ReduceSum(x, (axis,))
    rs.ops.MaxPool(x, **window)
    rs.ops.AveragePool(x, **window, count_include_pad=1)
    rs.ops.ReduceMean(x, (0, 2, 3))
    rs.ops.LpNormalization(x, axis=1) if hasattr(rs.ops, "LpNormalization") else None
    rs.ops.LRN(x, size=3)
    rs.ops.GlobalMaxPool(x)
    rs.layer_norm(x)
    rs.group_norm(x, 3)


@pytest.mark.parametrize("tag", ["nchw", "nhwc", "nChw8c"])
def test_every_schedule_that_is_chosen_is_replayed(tag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[LoopTree] = []

    def schedule(tree: LoopTree, **options: Any) -> object:
        seen.append(tree)
        return schedule_tree(tree, **options)

    monkeypatch.setattr(cpu_kernels, "schedule_tree", schedule)
    rs.empty_cache()
    x = np.random.default_rng(1).standard_normal((2, 24, 9, 11)).astype(np.float32)
    _solve(rs.reorder(x, tag))
    trees = dict.fromkeys(seen)
    assert len(trees) > 12
    for tree in trees:
        chosen = schedule_tree(tree)
        text = schedule_text(transforms_of(chosen))
        assert apply(tree, parse_schedule(text)) == chosen, f"{text}\n{tree}"


# --- what a person passes -----------------------------------------------------------------------------------


def _edited(draw: st.DrawFn, tree: LoopTree) -> Schedule:
    """A schedule of any splits, orders, lanes and shares, so far as they fit."""
    schedule: Schedule = ()

    def add(name: str, *args: int | str, loop: int = 0) -> None:
        nonlocal schedule
        if draw(st.booleans()):
            schedule = _if_fits(tree, schedule, Transform(name, args, loop))

    def digits(loop: int) -> list[str]:
        return [digit.name for digit in list(plans_of(apply(tree, schedule).plan))[loop].digits]

    for number, plan in enumerate(plans_of(schedule_tree(tree).plan)):
        for axis in plan.each.axes:
            add("split", axis.name, draw(st.sampled_from((2, 3, 4, 8))), loop=number)
        add("reorder", *draw(st.permutations(digits(number))), loop=number)
        add("fuse", *digits(number)[draw(st.integers(0, 2)) :][:2], loop=number)
        for name in draw(st.permutations(digits(number)))[:1]:
            add("vectorize", name, draw(st.sampled_from((2, 4, 8, 16, 64))), loop=number)
        add("unroll", loop=number)
        add("interior", *(axis.name for axis in plan.each.axes), loop=number)
    for name in digits(0):
        add("parallel", name, draw(st.integers(1, 3)))
    return schedule


def _if_fits(tree: LoopTree, schedule: Schedule, more: Transform) -> Schedule:
    try:
        apply(tree, (*schedule, more))
    except rs.InvalidArguments:
        return schedule
    return (*schedule, more)


@st.composite
def _cases(draw: st.DrawFn) -> tuple[LoopTree, list[Array]]:
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    kind = draw(st.sampled_from(("pointwise", "folds", "softmax", "window", "integers")))
    if kind in ("pointwise", "folds"):
        tree, mds = draw(pointwise_trees() if kind == "pointwise" else reduction_trees())
        *read, written = mds
        return tree, [*(flat_of(md, rng.integers(-9, 9, md.dims)) for md in read), flat_of(written)]
    src, dst = (draw(st.sampled_from((_BLOCKED, _PLAIN))) for _ in range(2))
    if kind == "softmax":
        return softmax_tree(src, dst, draw(st.integers(0, 3))), [
            flat_of(src, rng.standard_normal(src.dims)),
            flat_of(dst),
        ]
    if kind == "window":
        tree = window_tree(src, dst, 3, 1, 1)
        flats = [flat_of(src, rng.integers(-9, 9, src.dims)), flat_of(dst)]
        return tree, [*flats, *(np.zeros(dst.nelems, np.uint32) for _ in range(2))]
    make, data_type = draw(
        st.sampled_from(((amax_tree, "f32"), (min_max_tree, "f32"), (partial(sum_tree, factors=(3,)), "s8")))
    )
    md = MemoryDesc((3, 16, 5), data_type, draw(st.sampled_from(("abc", "aBc8b", "acb"))))
    tree = make(md, draw(st.integers(0, 7)))
    tree = folds_in_lanes(tree) if draw(st.booleans()) else tree
    outs = [np.zeros(max(int(np.prod(out.sizes)), 1), np.uint32) for out in tree.tensors[1:]]
    return tree, [flat_of(md, rng.integers(-9, 9, md.dims)), *outs]


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_any_list_that_fits_computes_what_the_tree_says(data: st.DataObject) -> None:
    tree, flats = data.draw(_cases())
    schedule = _edited(data.draw, tree)
    scheduled = apply(tree, schedule)
    assert apply(tree, parse_schedule(schedule_text(transforms_of(scheduled)))) == scheduled
    wanted, found = ([flat.copy() for flat in flats] for _ in range(2))
    interpret_tree(tree, wanted)
    run_scheduled(scheduled, found, data.draw(st.sampled_from(runnable())), data.draw(st.integers(1, 3)))
    _check_same(tree, found, wanted, schedule)


def _check_same(tree: LoopTree, found: Sequence[Array], wanted: Sequence[Array], schedule: Schedule) -> None:
    for tensor, one, other in zip(tree.tensors, found, wanted, strict=True):
        told = f"{tensor.name} of\n{tree}\n{schedule_text(schedule)}"
        if tree.number.is_integer:
            np.testing.assert_array_equal(one, other, err_msg=told)
        else:
            a, b = (to_real(flat, tensor.data_type, np.float64) for flat in (one, other))
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5, err_msg=told)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tile(n, 2)", "no transform tile"),
        ("split(k, 2)", "axes of the loop are n, c, h, w"),
        ("split(c, 1)", "must be 2 or more"),
        ("split(c, 19)", "longer"),
        ("split(c, 4, 4)", "multiple of the next"),
        ("split(c, 3)", "do not nest"),
        ("split(c, n)", "must be 2 or more"),
        ("reorder(n/1, h/1, w/1)", "digits of the loop are"),
        ("reorder(n/1, c/1, c/8, h/1, w/1)", "put the larger one first"),
        ("fuse(n/1, h/1)", "the order of the loop's digits"),
        ("fuse(h/1, w/1)", "not contiguous"),
        ("vectorize(w/1)", "takes a digit"),
        ("vectorize(w/1, 3)", "power of two"),
        ("vectorize(w/1, 512)", "power of two"),
        ("vectorize(c/8, 4)", "outer one"),
        ("vectorize(w/1, 4) · 1.vectorize(kw/1, 4)", "an outer loop has vectors"),
        ("unroll()", "folds and has no inner loop"),
        ("interior(kh)", "axes of the loop"),
        ("parallel(k/1, 1)", "takes a digit"),
        ("parallel(n/1, 0)", "takes a digit"),
        ("parallel(h/1, 1) · parallel(n/1, 1)", "from the outermost"),
        ("1.parallel(kh/1, 1)", "applies to the outermost"),
        ("1.stream()", "applies to the outermost"),
        ("stream()", "fills whole lines"),
        ("2.unroll()", "numbered 0 to 1"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_the_transform(text: str, why: str) -> None:
    tree = window_tree(_BLOCKED, _BLOCKED, 3, 1, 1)
    with pytest.raises(rs.InvalidArguments, match=why) as error:
        apply(tree, parse_schedule(text))
    assert error.value.code == "RS-V09"
    assert text.split(" · ")[-1] in str(error.value)
