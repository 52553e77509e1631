"""Folds of much into little in pieces: the same meaning, pieces that depend on the tree alone."""

from __future__ import annotations

import numpy as np
import pytest

from restride.desc.memory_desc import MemoryDesc
from restride.ir.conversion import Array
from restride.ir.expression import Const, Coordinate, Ref, TreeAxis
from restride.ir.interpret_tree import interpret_tree
from restride.ir.program import Place, TreeStep
from restride.ir.tree import Each, Fold, LoopTree, TreeTensor
from restride.schedule.trees.split_folds import split_folds
from support.trees import flat_of

DIMS = (64, 5, 16, 40)


def _step(tag: str, op: str, dims: tuple[int, ...] = DIMS) -> tuple[TreeStep, MemoryDesc]:
    md = MemoryDesc(dims, "f32", tag)
    x, y = TreeTensor.of_desc("x", md), TreeTensor.row_major("y", (5, 3))
    n, c, h, w = (TreeAxis(name, extent) for name, extent in zip("nchw", dims, strict=True))
    load = x.load(n, c, h, w)
    values = {
        "argmax": (load, Coordinate(n * 1)),
        "moments": (Const(1), load, Const(0)),
    }.get(op, (load,))
    names = ("p", "q", "r")[: len(values)]
    stores = tuple(y.store((c, i), Ref(name)) for i, name in enumerate(names))
    tree = LoopTree((x, y), (Each((c,), (Each((n, h, w), (Fold(op, names, values),)), *stores)),)).verify()
    return TreeStep(tree, (Place(0), Place(1)), md.size), md


def _run(steps: tuple[TreeStep, ...], sizes: tuple[int, ...], src: Array) -> Array:
    memory = {0: src, 1: np.zeros(15, np.uint32)}
    memory |= {~i: np.zeros(nbytes // 4, np.uint32) for i, nbytes in enumerate(sizes)}
    for step in steps:
        interpret_tree(step.tree, [memory[place.buffer] for place in step.places])
    return memory[1].view(np.float32)


@pytest.mark.parametrize("op", ["sum", "max", "argmax", "moments"])
@pytest.mark.parametrize("tag", ["nchw", "nhwc"])
def test_pieces_mean_the_same(tag: str, op: str) -> None:
    dims = (64, 2, 16, 40)
    step, md = _step(tag, op, dims)
    src = flat_of(md, np.random.default_rng(1).integers(-50, 50, dims))
    steps, sizes = split_folds(step)
    assert len(steps) == 2
    assert len(sizes) == {"argmax": 2, "moments": 3}.get(op, 1)
    np.testing.assert_allclose(_run(steps, sizes, src), _run((step,), (), src), rtol=1e-5, atol=1e-5)


def test_the_axis_that_moves_farthest_is_cut_and_neighbors_stay() -> None:
    (first, second), _ = split_folds(_step("nchw", "sum")[0])
    assert str(first.tree.items[0]).splitlines()[0] == "each n.block 4, c 5:"
    assert "n.place 16, h 16, w 40" in str(first.tree)
    assert "x" not in {tensor.name for tensor in second.tree.tensors}


def test_little_work_and_many_results_stay_one() -> None:
    md = MemoryDesc((4, 5, 8, 8), "f32", "nchw")
    x, y = TreeTensor.of_desc("x", md), TreeTensor.row_major("y", (5,))
    n, c, h, w = (TreeAxis(name, extent) for name, extent in zip("nchw", md.dims, strict=True))
    fold = Each((n, h, w), (Fold("sum", ("s",), (x.load(n, c, h, w),)),))
    tree = LoopTree((x, y), (Each((c,), (fold, y.store((c,), Ref("s")))),)).verify()
    step = TreeStep(tree, (Place(0), Place(1)), md.size)
    assert split_folds(step) == ((step,), ())
