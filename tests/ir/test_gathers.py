"""Gathers, scatters and scans of loop trees: NumPy's, on the interpreters and on every instruction set."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restride.dtypes import DataType
from restride.errors import InvalidArguments
from restride.ir.conversion import from_real, storage_dtype
from restride.ir.interpret_tree import interpret_tree
from restride.ir.parse import parse_tree
from restride.ir.tree import LoopTree
from restride.schedule.machine import DeviceFacts
from restride.schedule.trees.plan import grid_of, plans_of
from restride.schedule.trees.schedule import schedule_tree
from restride.schedule.work_trees import plan_trees
from support.gathers import CASES, inside
from support.kernels import isa_id, runnable
from support.random_trees import trees
from support.trees import OneByOne, run_kernels

EACH_CASE = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


@EACH_CASE
def test_the_interpreter_does_what_numpy_does(case) -> None:
    flats, tree = case.flats(), case.tree()
    slow = {t.name: flat.copy() for t, flat in zip(tree.tensors, flats, strict=True)}
    wanted = case.wanted(flats)
    interpret_tree(tree, flats)
    np.testing.assert_array_equal(case.result(flats[-1]), wanted)
    OneByOne(tree, slow)
    np.testing.assert_array_equal(case.result(slow[tree.tensors[-1].name]), wanted)


@EACH_CASE
@pytest.mark.parametrize("isa", runnable(), ids=isa_id)
def test_kernels_do_what_numpy_does_in_any_parts(case, isa) -> None:
    for parts in (1, 3):
        flats = case.flats(parts)
        wanted = case.wanted(flats)
        run_kernels(case.tree(), flats, isa, parts=parts)
        np.testing.assert_array_equal(case.result(flats[-1]), wanted)


@pytest.mark.parametrize("kind", ["s64", "s32", "s16", "u32", "u16"])
@settings(max_examples=20, deadline=None)
@given(st.data(), st.integers(1, 9))
def test_any_integer_is_an_index(kind: str, data: st.DataObject, size: int) -> None:
    dtype = DataType[kind].numpy
    limits = np.iinfo(dtype)
    numbers = data.draw(st.lists(st.integers(limits.min, limits.max), min_size=1, max_size=40))
    tree = parse_tree(
        f"x f32 {size}\ni {kind} {len(numbers)}\ny f32 {len(numbers)}\n"
        f"each a {len(numbers)}:\n  y[a] = x[i[a]]"
    )
    x, i = np.arange(size, dtype=np.float32), np.array(numbers, dtype)
    for run in (interpret_tree, lambda tree, flats: run_kernels(tree, flats, runnable()[-1])):
        out = np.zeros(len(numbers), np.uint32)
        run(tree, [x.view(np.uint32), i.view(storage_dtype(DataType[kind])), out])
        np.testing.assert_array_equal(out.view(np.float32), x[inside(i, size)])


@settings(max_examples=60, deadline=None)
@given(trees(is_run=True), st.integers(0, 2**32 - 1))
def test_any_tree_means_the_same_to_interpreters_and_kernels(tree: LoopTree, seed: int) -> None:
    rng = np.random.default_rng(seed)
    flats = []
    for tensor in tree.tensors:
        numbers = rng.integers(0 if tensor.data_type.kind == "uint" else -12, 12, math.prod(tensor.sizes))
        values = np.zeros(numbers.shape) if tensor.name in tree.written else numbers.astype(np.float64)
        flats.append(from_real(values, tensor.data_type))
    scalars = (3.0, -5.0)[: tree.scalars]
    mine, theirs, slow = ([flat.copy() for flat in flats] for _ in range(3))
    interpret_tree(tree, mine, scalars)
    OneByOne(tree, {t.name: flat for t, flat in zip(tree.tensors, slow, strict=True)}, scalars)
    isas = runnable()
    run_kernels(tree, theirs, isas[seed % len(isas)], scalars, parts=1 + seed % 3)
    for tensor, one, two, three in zip(tree.tensors, mine, theirs, slow, strict=True):
        np.testing.assert_array_equal(one, three, err_msg=f"{tensor.name} of\n{tree}")
        np.testing.assert_array_equal(one, two, err_msg=f"{tensor.name} of\n{tree}")


def test_positions_in_order_are_neither_lanes_nor_shared() -> None:
    tree = CASES["scan along ab"].tree()
    schedule = schedule_tree(tree)
    assert grid_of(schedule.plan) == []
    assert all(plan.lanes == 1 for plan in plans_of(schedule.plan) if plan.each.in_order)
    # What is inside of one position goes along vectors as elsewhere.
    assert any(plan.lanes > 1 for plan in plans_of(schedule.plan))
    (plan,) = plan_trees(tree, DeviceFacts(64, 16, 1 << 16))
    assert plan.items == 1


def test_a_position_reads_what_those_before_it_have_written() -> None:
    """An element that is read before the loop, too, is read again."""
    tree = parse_tree(
        "y f32 9\nz f32 9\neach once:\n  let first = y[0]\n  each t 8 in order:\n"
        "    z[t] = y[0] + first\n    y[0] = y[0] + 1"
    )
    for run in (interpret_tree, lambda tree, flats: run_kernels(tree, flats, runnable()[-1])):
        y, z = np.full(9, 5, np.float32).view(np.uint32), np.zeros(9, np.uint32)
        run(tree, [y, z])
        assert z.view(np.float32)[:8].tolist() == [10 + t for t in range(8)]


@pytest.mark.parametrize(
    ("loops", "why"),
    [
        ("each a 4:\n  y[i[a]] = x[a]", "positions of a write different values"),
        ("each a 4:\n  y[a] = x[x[a]]", "not an integer"),
        ("each a 4:\n  y[a] = x[u[a]]", "not an integer"),
        ("each a 4:\n  y[a] = y[i[a]]", "another position of the loop reads it"),
        ("each a 3:\n  y[a + 1] = y[a]", "another position of the loop reads it"),
        ("each a 4:\n  y[a] = e[i[a]]", "is empty"),
        ("each a 4:\n  y[a] = x[i[a + 1]]", "ranges from 1 to 4, but its size is 4"),
    ],
)
def test_what_no_order_makes_sense_of_is_refused(loops: str, why: str) -> None:
    with pytest.raises(InvalidArguments, match=why) as caught:
        parse_tree(f"x f32 4\ni s32 4\nu u64 4\ne f32 0\ny f32 4\n{loops}")
    assert caught.value.code == "RS-T02"
    assert caught.value.where == loops.splitlines()[1].strip()
