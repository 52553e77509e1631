"""Loop trees for work-items: what an item has, rows that move, kernels that do what the interpreter says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import restride as rs
from restride.desc.memory_desc import MemoryDesc
from restride.dtypes import DataType
from restride.ir.conversion import to_real
from restride.ir.expression import Ref, Scalar, TreeAxis, apply
from restride.ir.interpret_tree import interpret_tree
from restride.ir.program import Place, Program, Slot, TreeStep
from restride.ir.tree import Each, Guard, LoopTree, TreeTensor, fold_over
from restride.runtime.alloc import Buffer, address_of
from restride.runtime.arguments import Arguments
from restride.schedule.machine import DeviceFacts
from restride.schedule.work_trees import TreePlan, move_rows, plan_trees
from restride.targets import spirv
from support.gathers import CASES as GATHERS
from support.sycl import sycl_engine
from support.trees import flat_of, pointwise_trees, reduction_trees, softmax_tree, window_tree

RNG = np.random.default_rng(3)
_GATHERS = ("rows of aB8b by s8", "guarded", "added rows of Ab8a", "scan along ab", "state along aB8b")
GPU, CPU = DeviceFacts(64, 16, 1 << 16), DeviceFacts(1, 1, vector_bytes=16)
DEVICES = pytest.mark.parametrize("facts", [CPU, GPU], ids=["CPU", "GPU"])


# --- trees, each with values for its tensors ----------------------------------------------------------------


def softmax(dims=(2, 19, 3, 5), src="nchw", dst="nChw8c", axis=1):
    mds = MemoryDesc(dims, "f32", src), MemoryDesc(dims, "bf16", dst)
    return softmax_tree(*mds, axis), [flat_of(mds[0], RNG.standard_normal(dims)), flat_of(mds[1])]


def windows(tag="nChw16c"):
    src = MemoryDesc((2, 5, 9, 21), "f32", tag)
    dst = MemoryDesc((2, 5, 5, 11), "f32", tag)
    flats = [flat_of(src, RNG.integers(-9, 9, src.dims)), flat_of(dst)]
    return window_tree(src, dst, 3, 2, 1), [*flats, *(np.zeros(dst.nelems, np.uint32) for _ in range(2))]


def window_over_blocks():
    """An index that is computed as it runs."""
    md = MemoryDesc((2, 19, 3), "f32", "aBc8b")
    x, y = TreeTensor.of_desc("x", md), TreeTensor.of_desc("y", md)
    a, b, c, k = (TreeAxis(name, n) for name, n in zip("abck", (*md.dims, 5), strict=True))
    window = Each((k,), (fold_over("sum", "s", x.load(a, b + k - 2, c)),), (Guard(b + k - 2, 19),))
    tree = LoopTree((x, y), (Each((a, b, c), (window, y.store((a, b, c), Ref("s")))),)).verify()
    return tree, [flat_of(md, RNG.integers(-9, 9, md.dims)), flat_of(md)]


def padding_beside():
    """Padding that no axis covers."""
    md = MemoryDesc((2, 15), "f32", "aB8b")
    x, y = TreeTensor.of_desc("x", md), TreeTensor.of_desc("y", md)
    a, g, k = (TreeAxis(name, n) for name, n in zip("agk", (2, 5, 3), strict=True))
    tree = LoopTree((x, y), (Each((a, g, k), (y.store((a, g * 3 + k), x.load(a, g * 3 + k)),)),)).verify()
    return tree, [flat_of(md, RNG.integers(-9, 9, md.dims)), flat_of(md)]


def blocks_that_do_not_nest():
    """Strides by a table."""
    mds = MemoryDesc((2, 50), "f32", "aB6b"), MemoryDesc((2, 50), "f16", "aB4b")
    x, y = (TreeTensor.of_desc(name, md) for name, md in zip("xy", mds, strict=True))
    a, b = TreeAxis("a", 2), TreeAxis("b", 50)
    tree = LoopTree((x, y), (Each((a, b), (y.store((a, b), x.load(a, b) * 2),)),)).verify()
    return tree, [flat_of(mds[0], RNG.integers(-9, 9, mds[0].dims)), flat_of(mds[1])]


def two_loops():
    """The second reads what the first has written; scalars, and a function in f64."""
    md = MemoryDesc((70,), "f32", "a")
    x, y, z = (TreeTensor.of_desc(name, md) for name in "xyz")
    i = TreeAxis("i", 70)
    first = Each((i,), (y.store((i,), x.load(i) * Scalar(1)),))
    second = Each((i,), (z.store((i,), apply("exp", y.load(i) * 0.1)),))
    tree = LoopTree((x, y, z), (first, second), scalars=2).verify()
    return tree, [flat_of(md, RNG.integers(-9, 9, md.dims)), flat_of(md), flat_of(md)]


TREES = {
    "softmax": softmax,
    "long rows": lambda: softmax((3, 2000, 2), "acb", "abc"),
    "windows": windows,
    "window over blocks": window_over_blocks,
    "padding beside": padding_beside,
    "blocks that do not nest": blocks_that_do_not_nest,
    "two loops": two_loops,
    **{
        name: lambda case=case: (case.tree(), case.flats())
        for name, case in GATHERS.items()
        if name in _GATHERS
    },
}


# --- without a device ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("facts", [GPU, CPU], ids=["GPU", "CPU"])
@pytest.mark.parametrize(("tag", "last"), [("nchw", 54400), ("nhwc", 54400), ("nChw16c", 16)])
def test_items_in_step_have_a_position_each(tag, last, facts):
    md = MemoryDesc((8, 17, 20, 20), "f32", tag)
    x, y = TreeTensor.of_desc("x", md), TreeTensor.of_desc("y", md)
    index = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(md.dims))
    tree = LoopTree((x, y), (Each(index, (y.store(index, x.load(*index)),)),)).verify()
    (plan,) = plan_trees(tree, facts)
    assert plan.items == md.nelems // 17 * md.padded_dims[1]
    assert plan.schedule.plan.lanes == 1
    size = plan.device.group
    if facts is GPU:
        assert size == 64
    else:
        # The last digit fills groups, so that a vector is of neighbors alone.
        assert size == min(64, 1 << (last.bit_length() - 1))
        assert plan.row_groups == -(-last // size)
    rows = plan.items // last * -(-last // size)
    assert plan.groups == (rows if plan.row_groups else -(-plan.items // size))


def test_threads_have_many_positions_where_they_fold_what_lies_side_by_side():
    tree, _ = softmax((40, 50, 60), "abc", "abc", axis=2)
    (threads,), (apart,) = plan_trees(tree, CPU), plan_trees(tree, GPU)
    assert threads.device.group == 1
    assert threads.items == threads.groups <= 1024 < apart.items == 2000
    # An order of sums is that of the loops, which are the same.
    assert threads.schedule == apart.schedule


def test_the_name_says_whether_items_fold():
    assert [plan.kind for plan in plan_trees(windows()[0], GPU)] == ["folds"]
    assert [plan.kind for plan in plan_trees(two_loops()[0], GPU)] == ["positions"] * 2


@pytest.mark.parametrize("case", TREES)
def test_what_needs_a_device_with_doubles(case):
    needs = any(plan.needs_double for plan in plan_trees(TREES[case]()[0], GPU))
    assert needs == (case == "two loops")


def program_of(tree):
    """A program of one step, whose slots are the tree's tensors."""
    names = tree.written
    slots = tuple(Slot(i, tensor.name in names) for i, tensor in enumerate(tree.tensors))
    step = TreeStep(tree, tuple(map(Place, range(len(slots)))), 0, (0, tree.scalars))
    return Program(slots, (step,), scalars=tree.scalars).verify()


@DEVICES
def test_long_rows_are_temporaries_and_mean_the_same(facts):
    tree, flats = softmax((3, 2000, 2), "abc", "acb")
    moved = move_rows(program_of(tree), facts)
    (step,), (nbytes,) = moved.steps, moved.temporaries
    assert nbytes == 4 * 3 * 2000 * 2
    assert not any(each.locals for each in step.tree.items)
    # Neighbors on a GPU are the positions around, on a CPU those of the row.
    assert step.tree.tensor("row").sizes == ((3, 2, 2000) if facts is CPU else (2000, 3, 2))
    wanted = [flat.copy() for flat in flats]
    interpret_tree(tree, wanted)
    interpret_tree(step.tree, [*flats, np.zeros(nbytes // 4, np.uint32)])
    assert (flats[1] == wanted[1]).all()


@DEVICES
def test_short_rows_stay(facts):
    program = program_of(softmax()[0])
    assert move_rows(program, facts) is program


@DEVICES
@pytest.mark.parametrize("case", TREES)
def test_trees_become_spirv(case, facts):
    for step in move_rows(program_of(TREES[case]()[0]), facts).steps:
        for plan in plan_trees(step.tree, facts):
            code = spirv.spirv_code(spirv.lower_plan(plan))
            assert code[:4].hex() == "03022307"
            assert spirv.has_unique_numbers(code)


# --- on a device --------------------------------------------------------------------------------------------


@pytest.fixture
def device(facts, monkeypatch):
    """The device with other facts; no kernel made before is taken."""
    held, before = sycl_engine().device, rs.get_primitive_cache_capacity()
    rs.set_primitive_cache_capacity(0)
    monkeypatch.setattr(held, "facts", facts)
    yield held
    rs.set_primitive_cache_capacity(before)


def run_on(device, tree, flats, scalars):
    """Run a tree on a device, with its tensors' bytes brought there and back."""
    executable = device.compile(program_of(tree))
    held = [device.allocate(flat.nbytes) for flat in flats]
    for flat, buffer in zip(flats, held, strict=True):
        device.upload(Buffer(address_of(flat), flat.nbytes, False, flat.view(np.uint8)), buffer, flat.nbytes)
    device.launch(executable, Arguments(tuple(held), scalars), None).wait()
    for flat, buffer in zip(flats, held, strict=True):
        flat[...] = device.download(buffer).owner[: flat.nbytes].view(flat.dtype)


def check(device, tree, flats, rtol=2e-5):
    """The device and the interpreter write the same, floats up to what another order of sums gives."""
    scalars = tuple(range(2, 2 + tree.scalars))
    wanted = [flat.copy() for flat in flats]
    interpret_tree(tree, wanted, scalars)
    run_on(device, tree, flats, scalars)
    for tensor, found, right in zip(tree.tensors, flats, wanted, strict=True):
        a, b = (to_real(flat, tensor.data_type, np.float64) for flat in (found, right))
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol, err_msg=f"{tensor.name} of\n{tree}")


@pytest.mark.sycl
@DEVICES
@pytest.mark.parametrize("case", TREES)
def test_devices_do_what_the_interpreter_says(device, case):
    check(device, *TREES[case](), rtol=2.0**-8 if case in ("softmax", "long rows") else 2e-5)


@pytest.mark.sycl
@DEVICES
def test_devices_compute_at_each_position_as_the_interpreter_does(device):
    @settings(max_examples=6)
    @given(pointwise_trees())
    def run(case):
        tree, (*read, written) = case
        flats = [flat_of(md, np.random.default_rng(1).integers(-9, 9, md.dims)) for md in read]
        check(device, tree, [*flats, flat_of(written)], rtol=0)

    run()


@pytest.mark.sycl
@DEVICES
def test_devices_fold_along_any_dims(device):
    @settings(max_examples=6)
    @given(reduction_trees())
    def run(case):
        tree, (read, written) = case
        values = np.random.default_rng(1).integers(-9, 9, read.dims)
        check(device, tree, [flat_of(read, values), flat_of(written)])

    run()


@pytest.mark.sycl
@DEVICES
def test_sums_have_the_same_bits_in_every_run_and_on_every_grid(device):
    """An item's order depends on the tree alone."""
    dims = (4, 30, 50)
    md, out = MemoryDesc(dims, "f32", "acb"), MemoryDesc((4, 1, 50), "f32", "abc")
    x, y = TreeTensor.of_desc("x", md), TreeTensor.of_desc("y", out)
    a, b, c = (TreeAxis(name, n) for name, n in zip("abc", dims, strict=True))
    body = (Each((b,), (fold_over("sum", "s", x.load(a, b, c)),)), y.store((a, 0, c), Ref("s")))
    tree = LoopTree((x, y), (Each((a, c), body),)).verify()
    values = np.random.default_rng(5).standard_normal(dims).astype(np.float32)
    flats = [flat_of(md, values), flat_of(out)]
    run_on(device, tree, flats, ())
    total = np.zeros((4, 50), np.float32)
    for at in range(30):
        total += values[:, at]
    assert (flats[1].view(np.float32).reshape(4, 50) == total).all()


def test_a_plan_tells_what_it_is():
    (plan,) = plan_trees(softmax()[0], GPU)
    assert isinstance(plan, TreePlan)
    assert str(plan).startswith("folds (an item folds all inputs of its results): 30 items\nfor ")
    assert plan.tree.tensors[0].data_type is DataType.f32
