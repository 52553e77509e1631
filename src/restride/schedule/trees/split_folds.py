"""Folds of many elements into few outputs, split into pieces that threads share: one tree becomes two.

The number of pieces, and their order, depend only on the tree: so the bits of a sum are the same for any
number of threads.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...ir.expression import TreeAxis
from ...ir.program import Place, TreeStep
from ...ir.tree import Each, LoopTree
from ..fold_order import (
    ENOUGH_SPLIT_PIECES,
    FEW_OUTPUTS,
    LONE_PIECE,
    MOST_LONE_PIECES,
    MOST_SPLIT_PIECES,
    SPLIT_PIECE,
)
from ..language import Schedule, Transform, schedule_text
from .columns import folds_by_rows
from .pieces import step_along
from .rewrites import part_of, rewrite

Steps = tuple[tuple[TreeStep, ...], tuple[int, ...]]
"""Steps, and the sizes of their temporaries, in bytes."""


def split_folds(step: TreeStep, temporaries: int = 0) -> Steps:
    """Split a step whose tree folds many elements into few: pieces into temporaries, then these combined.

    `each c: (each n, h: s = sum(x[n, c, h])); y[c] = s`  ->  `each n, c: (each h: s.part = sum(x[n, c, h]));
    s.part[n, c] = s.part`  and  `each c: (each n: s = sum(s.part[n, c])); y[c] = s`. `temporaries`: the
    number that the program already has.
    """
    return rewritten_steps(step, pieces_of_folds(step.tree), temporaries)


def pieces_of_folds(tree: LoopTree) -> Schedule:
    """Return the transforms that split a tree's first fold; none unless it folds many elements into few."""
    if len(tree.items) != 1:
        return ()
    (outer,) = tree.items
    loop = next((item for item in outer.items if isinstance(item, Each) and item.folds), None)
    if loop is None or loop is not outer.items[0] or not is_plain(outer, loop):
        return ()
    columns = folds_by_rows(tree, outer, loop)
    if columns:
        return columns
    if outer.positions >= FEW_OUTPUTS or loop.positions < 2 * SPLIT_PIECE:
        return ()
    axis, size = _cut(loop, tree)
    state = loop.folds[0].names[0]
    if axis.extent // size < 2:
        return ()
    cut, last = (Transform("block", (axis.name, size)),), f"{axis.name}.block"
    folded = Transform("split_fold", (state, last if size > 1 else axis.name))
    return (*(cut if size > 1 else ()), folded, Transform("compute_root", (part_of(state),)))


def rewritten_steps(step: TreeStep, transforms: Schedule, temporaries: int = 0) -> Steps:
    """Return the steps that transforms produce: one for each outermost loop, connected by temporaries."""
    if not transforms:
        return (step,), ()
    tree, text = rewrite(step.tree, transforms), schedule_text(transforms)
    partial = tree.tensors[len(step.tree.tensors) :]
    places = (*step.places, *(Place(~(temporaries + i)) for i in range(len(partial))))
    by_name = {tensor.name: place for tensor, place in zip(tree.tensors, places, strict=True)}
    source = step.tree if len(tree.items) == 1 else None
    made = []
    for number, loop in enumerate(tree.items):
        part = _used(replace(tree, items=(loop,)))
        # The last loop combines the results of those before it.
        work = step.work_bytes // (MOST_SPLIT_PIECES if number else 1)
        own = tuple(by_name[tensor.name] for tensor in part.tensors)
        other = replace(step, tree=part, places=own, work_bytes=work)
        made.append(replace(other, rewrites=text, source=source))
    return tuple(made), tuple(tensor.data_type.nbytes(prod(tensor.sizes)) for tensor in partial)


def _used(tree: LoopTree) -> LoopTree:
    """Return a tree with only the tensors that it uses."""
    names = {load.tensor for load in tree.loads} | {store.tensor for store in tree.stores}
    return replace(tree, tensors=tuple(tensor for tensor in tree.tensors if tensor.name in names))


def is_plain(outer: Each, inner: Each) -> bool:
    """Return whether a loop and the one in it have only items, whose order is free."""
    has_loops = any(isinstance(item, Each) for item in inner.items)
    return not (outer.locals or inner.locals or has_loops or outer.in_order or inner.in_order)


def _cut(inner: Each, tree: LoopTree) -> tuple[TreeAxis, int]:
    """Return the axis to cut, and the length of a piece: a divisor, so that all are equal.

    The axis that moves farthest in memory and makes enough pieces, else the one with the most; adjacent
    elements stay together if another axis can be cut.
    """
    wanted = max(2, min(MOST_SPLIT_PIECES, inner.positions // SPLIT_PIECE))
    guarded = {name for guard in inner.guards for name, _ in guard.index.terms}
    axes = sorted(
        (axis for axis in inner.axes if axis.name not in guarded), key=lambda a: -step_along(a, inner, tree)
    )
    counts = [(axis, _pieces(axis.extent, 2 * wanted)) for axis in axes]
    apart = [each for each in counts if step_along(each[0], inner, tree) != 1 and each[1] > 1]
    cut = next((each for each in apart if each[1] >= min(wanted, ENOUGH_SPLIT_PIECES)), None)
    if cut and cut[0].extent <= MOST_LONE_PIECES and inner.positions // cut[0].extent >= LONE_PIECE:
        return cut[0], 1
    axis, count = cut or max(apart or counts, key=lambda each: each[1], default=(inner.axes[0], 1))
    return axis, axis.extent // count


def _pieces(extent: int, most: int) -> int:
    """Return the most pieces of equal length."""
    return next(count for count in range(min(extent, most), 0, -1) if extent % count == 0)
