"""The interpreter of loop trees means what their grammar says: against NumPy, and position by position."""

from __future__ import annotations

import numpy as np
import pytest

from restride.desc.memory_desc import MemoryDesc
from restride.ir import interpret_tree as module
from restride.ir.expression import Coordinate, Ref, Scalar, TreeAxis, apply
from restride.ir.interpret_tree import interpret_tree
from restride.ir.tree import Each, Fold, Guard, LoopTree, TreeTensor, fold_over
from support.trees import OneByOne, flat_of, places_of, softmax_tree, values_in, window_tree

DIMS = (2, 17, 5, 3)
TAGS = ("nchw", "nhwc", "nChw16c", "nChw8c")
RNG = np.random.default_rng(7)


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize("tags", [("nchw", "nhwc"), ("nChw16c", "nChw8c"), ("nhwc", "nChw16c")], ids=str)
def test_softmax_is_that_of_numpy_in_any_format(tags: tuple[str, str], axis: int) -> None:
    x = RNG.standard_normal(DIMS).astype(np.float32)
    src, dst = (MemoryDesc(DIMS, "f32", tag) for tag in tags)
    held, out = flat_of(src, x), flat_of(dst)
    interpret_tree(softmax_tree(src, dst, axis), [held, out])
    np.testing.assert_allclose(values_in(dst, out), _softmax(x, axis), rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("tag", TAGS[2:])
def test_padding_is_written_zero_and_not_read(tag: str) -> None:
    md = MemoryDesc(DIMS, "f32", tag)
    held, out = flat_of(md, np.ones(DIMS, np.float32)), flat_of(md)
    inside = np.zeros(held.size, bool)
    inside[places_of(md)] = True
    held[~inside] = 0x7FC00000
    interpret_tree(softmax_tree(md, md, 1), [held, out])
    assert not out[~inside].any()
    np.testing.assert_allclose(values_in(md, out), np.full(DIMS, 1 / 17), rtol=1e-6)


@pytest.mark.parametrize(("kernel", "step", "pad"), [(3, 1, 1), (2, 2, 0), (3, 2, 2), (4, 3, 1)])
def test_windows_leave_out_what_is_outside(kernel: int, step: int, pad: int) -> None:
    src = MemoryDesc((2, 5, 7, 6), "f32", "nChw8c")
    size = [(n + 2 * pad - kernel) // step + 1 for n in src.dims[2:]]
    dst = MemoryDesc((2, 5, *size), "f32", "nhwc")
    tree = window_tree(src, dst, kernel, step, pad)
    x = RNG.integers(-9, 9, src.dims).astype(np.float32)
    flats = [flat_of(src, x), flat_of(dst), *(np.zeros(dst.nelems, np.uint32) for _ in range(2))]
    slow = {t.name: flat.copy() for t, flat in zip(tree.tensors, flats, strict=True)}
    interpret_tree(tree, flats)
    OneByOne(tree, slow)
    for tensor, flat in zip(tree.tensors, flats, strict=True):
        np.testing.assert_array_equal(flat.view(np.float32), slow[tensor.name].view(np.float32), tensor.name)


def test_large_trees_in_pieces_mean_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    src, dst = MemoryDesc((3, 7, 6, 5), "f32", "nchw"), MemoryDesc((3, 7, 6, 5), "f32", "nChw8c")
    x = RNG.integers(-9, 9, src.dims).astype(np.float32)
    tree = window_tree(src, dst, 3, 1, 1)
    runs = []
    for block in (module._BLOCK, 40):
        monkeypatch.setattr(module, "_BLOCK", block)
        flats = [flat_of(src, x), flat_of(dst), *(np.zeros(dst.nelems, np.uint32) for _ in range(2))]
        interpret_tree(tree, flats)
        runs.append(flats)
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_indices_that_a_divisor_does_not_divide_are_left_out() -> None:
    # The transpose of taking every third element, from the second on.
    i, j, k = TreeAxis("i", 7), TreeAxis("j", 2), TreeAxis("k", 2)
    x, y = TreeTensor.row_major("x", (2,)), TreeTensor.row_major("y", (7,))
    source = (i - k - 1) // 3
    window = Each((k,), (fold_over("sum", "s", x.load(source)),), (Guard(source, j.extent),))
    tree = LoopTree((x, y), (Each((i,), (window, y.store((i,), Ref("s")))),)).verify()
    out = np.zeros(7, np.uint32)
    interpret_tree(tree, [np.array([3, 5], np.float32).view(np.uint32), out])
    assert out.view(np.float32).tolist() == [0, 3, 3, 0, 5, 5, 0]


def test_moments_are_those_of_numpy_far_from_zero() -> None:
    x = (RNG.standard_normal((3, 400)) + 1e4).astype(np.float32)
    i, j = TreeAxis("i", 3), TreeAxis("j", 400)
    src, dst = TreeTensor.row_major("x", x.shape), TreeTensor.row_major("y", (3, 2))
    value = src.load(i, j)
    moments = Fold(
        "moments", ("n", "mean", "square"), (apply("add", 1.0, 0.0), value, apply("sub", 0.0, 0.0))
    )
    stores = (dst.store((i, 0), Ref("mean")), dst.store((i, 1), Ref("square") / Ref("n")))
    tree = LoopTree((src, dst), (Each((i,), (Each((j,), (moments,)), *stores)),)).verify()
    out = np.zeros(6, np.uint32)
    interpret_tree(tree, [x.reshape(-1).view(np.uint32), out])
    found = out.view(np.float32).reshape(3, 2)
    np.testing.assert_allclose(found[:, 0], x.mean(1, dtype=np.float64), rtol=1e-6)
    np.testing.assert_allclose(found[:, 1], x.var(1, dtype=np.float64), rtol=1e-3)


@pytest.mark.parametrize("op", ["max", "min", "argmax"])
def test_nan_wins_wherever_it_is(op: str) -> None:
    for place in range(5):
        x = np.arange(5, dtype=np.float32)
        x[place] = np.nan
        i = TreeAxis("i", 5)
        src, dst = TreeTensor.row_major("x", (5,)), TreeTensor.row_major("y", (2,))
        values = (src.load(i), Coordinate(i * 1)) if op == "argmax" else (src.load(i),)
        folds = Fold(op, ("v", "p")[: len(values)], values)
        store = dst.store((0,), Ref("v"))
        stores = (store, dst.store((1,), Ref("p"))) if op == "argmax" else (store,)
        tree = LoopTree((src, dst), (Each((), (Each((i,), (folds,)), *stores)),)).verify()
        out = np.zeros(2, np.uint32)
        interpret_tree(tree, [x.view(np.uint32), out])
        found = out.view(np.float32)
        assert np.isnan(found[0])
        assert op != "argmax" or found[1] == place


def test_scalars_types_and_nothing_at_all() -> None:
    i = TreeAxis("i", 4)
    x, y = (
        TreeTensor.of_desc("x", MemoryDesc((4,), "s8", "a")),
        TreeTensor.of_desc("y", MemoryDesc((4,), "u8", "a")),
    )
    tree = LoopTree((x, y), (Each((i,), (y.store((i,), x.load(i) * Scalar(0)),)),), scalars=1).verify()
    out = np.zeros(4, np.uint8)
    interpret_tree(tree, [np.array([-3, 2, 5, 127], np.int8).view(np.uint8), out], [2.5])
    assert out.tolist() == [0, 5, 12, 255]
    empty = MemoryDesc((2, 0, 3), "f32", "abc")
    reduced = MemoryDesc((2, 1, 3), "f32", "abc")
    a, b, c = TreeAxis("a", 2), TreeAxis("b", 0), TreeAxis("c", 3)
    src, dst = TreeTensor.of_desc("x", empty), TreeTensor.of_desc("y", reduced)
    inner = Each((b,), (fold_over("max", "m", src.load(a, b, c)), fold_over("sum", "s", src.load(a, b, c))))
    body = (inner, dst.store((a, 0, c), Ref("m") + Ref("s")))
    out = np.zeros(6, np.uint32)
    interpret_tree(LoopTree((src, dst), (Each((a, c), body),)).verify(), [np.zeros(0, np.uint32), out])
    assert np.isneginf(out.view(np.float32)).all()


def test_a_loop_of_no_positions_reads_nothing_of_its_rows() -> None:
    md = MemoryDesc((0, 3), "f32", "ab")
    nothing = np.zeros(0, np.uint32)
    interpret_tree(softmax_tree(md, md, 1), [nothing, nothing])
