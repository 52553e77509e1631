"""Transforms of trees: what comes out means what went in, and what does not fit is refused."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restride.desc.memory_desc import MemoryDesc
from restride.errors import InvalidArguments
from restride.ir.accesses import items_of
from restride.ir.conversion import Array, to_real
from restride.ir.expression import Const, Coordinate, Expr, Ref, TreeAxis
from restride.ir.interpret_tree import interpret_tree
from restride.ir.numbers import Number
from restride.ir.parse import parse_tree
from restride.ir.tree import Each, Fold, Guard, LoopTree, TreeTensor, fold_over
from restride.schedule.language import Schedule, Transform, parse_schedule, schedule_text
from restride.schedule.trees.columns import folds_by_rows
from restride.schedule.trees.rewrites import part_of, rewrite
from restride.schedule.trees.windows import rows_of_windows
from support.effort import examples
from support.trees import flat_of

VALUES = {"sum": 1, "max": 1, "min": 1, "argmax": 2, "moments": 3}


def _window(
    op: str, dims: tuple[int, int, int], window: tuple[int, int, int, int], number: Number = Number.f32
) -> tuple[LoopTree, MemoryDesc]:
    """Windows of `kernel` positions, a stride, a dilation and a padding, over the last two of three dims."""
    kernel, stride, dilation, padding = window
    md = MemoryDesc(dims, "s8" if number.is_integer else "f32", "abc")
    out = tuple((n + 2 * padding - (kernel - 1) * dilation - 1) // stride + 1 for n in dims[1:])
    src, dst = TreeTensor.of_desc("src", md), TreeTensor.row_major("dst", (dims[0], *out), number.storage)
    c, h, w = (TreeAxis(name, n) for name, n in zip("chw", (dims[0], *out), strict=True))
    kh, kw = TreeAxis("kh", kernel), TreeAxis("kw", kernel)
    at = tuple(axis * stride + tap * dilation - padding for axis, tap in ((h, kh), (w, kw)))
    load = src.load(c, *at)
    values: dict[str, tuple[Expr, ...]] = {
        "argmax": (load, Coordinate(kh * kernel + kw)),
        "moments": (Const(1.0), load, Const(0.0)),
    }
    fold = Fold(op, ("s", "p", "q")[: VALUES[op]], values.get(op, (load,)))
    inner = Each((kh, kw), (fold,), tuple(map(Guard, at, dims[1:])))
    loop = Each((c, h, w), (inner, dst.store((c, h, w), Ref(fold.names[-1]))))
    return LoopTree((src, dst), (loop,), number=number).verify(), md


def _results(tree: LoopTree, flats: list[Array]) -> Array:
    """The second tensor, after a run on the first two, with new memory for the others."""
    more = [
        np.zeros(tensor.data_type.nbytes(int(np.prod(tensor.sizes))) // 4, np.uint32)
        for tensor in tree.tensors[2:]
    ]
    src, dst = flats[0], flats[1].copy()
    interpret_tree(tree, [src, dst, *more])
    return to_real(dst, tree.tensors[1].data_type, np.float64)


def _drawn(draw: random.Random, tree: LoopTree) -> Schedule:
    """A list of transforms, each of which may fit the tree that those before it make."""
    found: list[Transform] = []
    for _ in range(draw.randint(1, 5)):
        loops = [item for item in items_of(tree.items) if isinstance(item, Each)]
        axes = sorted({axis.name for each in loops for axis in each.axes})
        states = sorted({name for each in loops for fold in each.folds for name in fold.names})
        some = draw.sample(axes, draw.randint(0, min(4, len(axes))))
        transform = draw.choice(
            [
                Transform("block", (draw.choice(axes), draw.randint(1, 5))),
                Transform("split_fold", (draw.choice(states), *some)),
                Transform("compute_at", (draw.choice(states), *some)),
                Transform("compute_root", (draw.choice(states),)),
            ]
        )
        try:
            tree = rewrite(tree, (transform,))
        except InvalidArguments:
            continue
        found.append(transform)
    return tuple(found)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.sampled_from([*VALUES, "integers"]),
    st.tuples(st.integers(1, 3), st.integers(1, 7), st.integers(1, 9)),
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.integers(0, 2)),
    st.randoms(use_true_random=False),
)
def test_any_list_that_fits_means_the_same(
    op: str, dims: tuple[int, int, int], window: tuple[int, int, int, int], draw: random.Random
) -> None:
    span = (window[0] - 1) * window[2] + 1
    if min(dims[1:]) + 2 * window[3] < span:
        return
    number = Number.i32 if op == "integers" else Number.f32
    tree, md = _window("sum" if op == "integers" else op, dims, window, number)
    transforms = _drawn(draw, tree)
    made = rewrite(tree, parse_schedule(schedule_text(transforms)))
    assert parse_tree(str(made)) == made
    values = np.random.default_rng(draw.randint(0, 99)).integers(-9, 10, dims)
    flats = [flat_of(md, values), np.zeros(int(np.prod(tree.tensors[1].sizes)), np.uint32)]
    wanted, found = _results(tree, flats), _results(made, flats)
    told = f"{schedule_text(transforms)} of\n{tree}\nis\n{made}"
    if op == "moments":
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4, err_msg=told)
    else:
        # Small integers, whose sums are exact in any order.
        np.testing.assert_array_equal(found, wanted, err_msg=told)


def test_windows_become_rows_with_edges() -> None:
    tree, _ = _window("max", (2, 9, 20), (3, 1, 1, 1))
    transforms = rows_of_windows(tree)
    assert schedule_text(transforms) == "split_fold(s, kw) · compute_at(s.part, c)"
    far = rewrite(tree, parse_schedule("split_fold(s, kw) · compute_at(s.part, c, h)"))
    assert str(far.items[0]).splitlines() == [
        "each c 2, h 9:",
        "  local s.part[22]",
        "  each s.part.w.inside 20:",
        "    each kh 3:",
        "      where 0 <= h + kh - 1 < 9",
        "      s.part = max(src[c, h + kh - 1, s.part.w.inside])",
        "    s.part[s.part.w.inside + 1] = s.part",
        "  each s.part.w.left 1:",
        "    s.part[s.part.w.left] = -inf",
        "  each s.part.w.right 1:",
        "    s.part[s.part.w.right + 21] = -inf",
        "  each w 20:",
        "    each kw 3:",
        "      s = max(s.part[kw + w])",
        "    dst[c, h, w] = s",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tile(c, 2)", "no transform tile"),
        ("block(k, 2)", "an axis of c, h, w, kh, kw"),
        ("block(c)", "must have 1 to 2 positions"),
        ("block(c, 3)", "1 to 2 positions"),
        (
            "block(c, 2) · block(c.block, 1) · block(c.place, 1) · block(c.block.block, 1) · block(c, 1)",
            "an axis of",
        ),
        ("split_fold(m, kw)", "there is no fold m, only s"),
        ("split_fold()", "there is no fold without a name"),
        ("split_fold(s)", "axes of the fold, which are kh, kw"),
        ("split_fold(s, w)", "axes of the fold, which are kh, kw"),
        ("compute_at(s, kh)", "outermost first: c, h, w"),
        ("compute_at(s)", "outermost first: c, h, w"),
        ("compute_root(s, c)", "takes only the result of a fold"),
        ("split_fold(s, kw) · compute_at(s.part, h, kw)", "outermost first: c, h, w, kw"),
    ],
)
def test_what_does_not_fit_is_refused(text: str, why: str) -> None:
    tree, _ = _window("sum", (2, 9, 20), (3, 1, 1, 1))
    with pytest.raises(InvalidArguments, match="RS-V09") as refused:
        rewrite(tree, parse_schedule(text))
    assert why in str(refused.value)


def test_a_fold_stays_behind_what_it_needs() -> None:
    """The squares around a mean are not found before it."""
    x, y = TreeTensor.row_major("x", (4, 8)), TreeTensor.row_major("y", (4,))
    n, k = TreeAxis("n", 4), TreeAxis("k", 8)
    first = Each((k,), (fold_over("sum", "mean", x.load(n, k)),))
    distance = x.load(n, k) - Ref("mean")
    second = Each((replace(k, name="j"),), (fold_over("sum", "squares", distance * distance),))
    tree = LoopTree((x, y), (Each((n,), (first, second, y.store((n,), Ref("squares")))),))
    with pytest.raises(InvalidArguments, match="needs mean"):
        rewrite(tree, (Transform("compute_root", ("squares",)),))
    ordered = Each((n,), (first, y.store((n,), Ref("mean"))), in_order=True)
    with pytest.raises(InvalidArguments, match="in order"):
        rewrite(LoopTree((x, y), (ordered,)), (Transform("compute_root", ("mean",)),))


def test_folds_down_columns_are_three_folds() -> None:
    x, y = TreeTensor.row_major("x", (8192, 256)), TreeTensor.row_major("y", (256,))
    r, c = TreeAxis("r", 8192), TreeAxis("c", 256)
    loop = Each((c,), (Each((r,), (fold_over("sum", "s", x.load(r, c)),)), y.store((c,), Ref("s"))))
    tree = LoopTree((x, y), (loop,)).verify()
    transforms = folds_by_rows(tree, loop, loop.items[0])  # type: ignore[arg-type]
    assert schedule_text(transforms) == (
        "block(r, 8) · block(r.block, 16) · split_fold(s, r.block.block) · compute_root(s.part) · "
        "split_fold(s.part, r.block.place) · compute_at(s.part.part, r.block.block)"
    )
    assert part_of("s.part") in str(rewrite(tree, transforms))


@pytest.mark.parametrize("size", [1, 4])
def test_a_loop_of_a_fold_may_write_once(size: int) -> None:
    """As gradients of PReLU do: of the source, and a fold for the weights."""
    x, y, z = (TreeTensor.row_major(name, (size, 3, 8)[: 3 if name != "y" else 2]) for name in "xyz")
    n, c, k = (TreeAxis(name, extent) for name, extent in zip("nck", (size, 3, 8), strict=True))
    fold = Each((k,), (z.store((n, c, k), x.load(n, c, k) * 2.0), fold_over("sum", "s", x.load(n, c, k))))
    tree = LoopTree((x, y, z), (Each((n, c), (fold, y.store((n, c), Ref("s")))),)).verify()
    made = rewrite(tree, parse_schedule("split_fold(s, k) · compute_root(s.part)"))
    values = np.random.default_rng(1).integers(-9, 10, size * 24).astype(np.float32)
    results = []
    for each in (tree, made):
        flats = [np.zeros(int(np.prod(tensor.sizes)), np.float32) for tensor in each.tensors]
        flats[0][:] = values
        interpret_tree(each, [flat.view(np.uint32) for flat in flats])
        results.append(flats[1:3])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    shared = Each((k,), (z.store((n, c, k), x.load(n, c, k)), fold_over("sum", "s", x.load(n, 0, k))))
    later = replace(shared, items=(*shared.items, fold_over("sum", "t", z.load(n, c, k))))
    loop = Each((n, c), (replace(shared, axes=(replace(k, name="j"),)), later, y.store((n, c), Ref("s"))))
    with pytest.raises(InvalidArguments, match="writes"):
        rewrite(LoopTree((x, y, z), (loop,)), (Transform("compute_root", ("s",)),))
