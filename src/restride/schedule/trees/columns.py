"""Folds down long columns as folds over blocks of rows, which go through memory as it lies.

Down a column each row lies on another page. So eight rows are folded at a time, all columns of a chunk side
by side, into rows of parts that stay in the caches; then these, and then the pieces that threads share. A sum
of many elements loses little so, as no part is of many.

    each c 512: (each r 65536: s = sum(x[r, c])); y[c] = s   ->
    each p 128: (each b 64, c 512: (each r 8: s = sum(x[512 p + 8 b + r, c])); part[b, c] = s),
                (each c 512: (each b 64: s = sum(part[b, c])); t[p, c] = s)
    each c 512: (each p 128: s = sum(t[p, c])); y[c] = s
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import NamedTuple

from ...dtypes import DataType
from ...ir.expression import Affine, Expr, Load, Ref, TreeAxis, parts_of
from ...ir.tree import Each, Fold, Guard, Item, LoopTree, TreeTensor, values_of
from .pieces import pieces_of, pieces_with_a_rest, step_along, with_axes

# Bytes of a tensor, and from a row to the next, of one fold and of many, at least: else columns are as fast.
_LEAST_BYTES = 1 << 22
_LEAST_STEP, _LEAST_STEP_OF_MANY = 1 << 9, 1 << 11
# Rows of a block, at most and at least; columns of a chunk likewise; bytes of the parts of a piece, at most,
# as they lie on the stack of a thread, and its blocks, at least.
_MOST_ROWS, _LEAST_ROWS = 8, 4
_MOST_COLUMNS, _LEAST_COLUMNS = 1 << 12, 1 << 7
_MOST_BYTES, _LEAST_BLOCKS = 1 << 17, 4
# Pieces of all columns together, at least, where there are enough rows.
_PIECES = 64

Index = tuple[Affine | TreeAxis, ...]
Axes = tuple[TreeAxis, ...]


class ColumnFolds(NamedTuple):
    """The loops that a fold down columns becomes; two where there are pieces, in which `partial` are kept."""

    loops: tuple[Each, ...]
    partial: tuple[TreeTensor, ...]


class _Cut(NamedTuple):
    """Rows as pieces of blocks, columns as chunks; `by`: what the axes have become, `guards` of the rows."""

    pieces: Axes
    blocks: Axes
    rows: Axes
    chunks: Axes
    columns: Axes
    by: dict[str, Affine]
    guards: tuple[Guard, ...]


def folds_by_rows(tree: LoopTree, outer: Each, inner: Each) -> ColumnFolds | None:
    """The loops; None where the fold of `inner`, the first in `outer`, goes through memory as it lies."""
    near = _columns(tree, outer, inner)
    real = tree.number.storage
    names = [name for fold in inner.folds for name in fold.names]
    cut = _cut(tree, outer, inner, near, real.nbytes(len(names))) if near else None
    if cut is None:
        return None
    place = (*cut.blocks, *cut.columns)
    parts = {name: _tensor_of(f"{name}.parts", place, real) for name in names}
    first = Each(cut.rows, tuple(with_axes(item, cut.by) for item in inner.items), cut.guards)
    blocked = Each(place, (first, *(parts[name].store(place, Ref(name)) for name in names)))
    together = Each(cut.blocks, _folds_of(inner, lambda name: parts[name].load(*place)))
    others = tuple(axis for axis in outer.axes if axis not in near)
    around, own = (*cut.pieces, *others, *cut.chunks), tuple(parts.values())
    if not cut.pieces:
        rest = tuple(with_axes(item, cut.by) for item in outer.items[1:])
        return ColumnFolds((Each(around, (blocked, Each(cut.columns, (together, *rest))), locals=own),), ())
    partial = {name: _tensor_of(f"{name}.pieces", (*cut.pieces, *outer.axes), real) for name in names}
    at: Index = (*cut.pieces, *(cut.by.get(axis.name, axis) for axis in outer.axes))
    stores = (partial[name].store(at, Ref(name)) for name in names)
    pieces = Each(around, (blocked, Each(cut.columns, (together, *stores))), locals=own)
    ends = Each(cut.pieces, _folds_of(inner, lambda name: partial[name].load(*cut.pieces, *outer.axes)))
    return ColumnFolds((pieces, replace(outer, items=(ends, *outer.items[1:]))), tuple(partial.values()))


def _cut(tree: LoopTree, outer: Each, inner: Each, near: Axes, nbytes: int) -> _Cut | None:
    """How rows and columns are cut, whose parts have so many bytes; None where there are too few of them."""
    far = sorted(inner.axes, key=lambda axis: -step_along(axis, inner, tree))
    rows = pieces_with_a_rest(far, _MOST_ROWS)
    chunks, columns, by_columns = pieces_of(near, _MOST_COLUMNS)
    if _positions(rows.inside) < _LEAST_ROWS or _positions(columns) < _LEAST_COLUMNS or not rows.outside:
        return None
    # Not more blocks than lie on a stack, and not so many that threads have nothing to do.
    room = _MOST_BYTES // (_positions(columns) * nbytes)
    share = _positions(rows.outside) * outer.positions // _positions(columns) // _PIECES
    blocks = pieces_with_a_rest(rows.outside, min(room, max(share, _LEAST_BLOCKS)))
    if _positions(blocks.inside) < 2:
        return None
    by = {name: index.with_axes(blocks.moved) for name, index in rows.moved.items()}
    guards = (
        *(Guard(guard.index.with_axes(blocks.moved), guard.size) for guard in rows.guards),
        *blocks.guards,
    )
    by = blocks.moved | by_columns | by
    return _Cut(blocks.outside, blocks.inside, rows.inside, chunks, columns, by, guards)


def _tensor_of(name: str, axes: Axes, data_type: DataType) -> TreeTensor:
    """A tensor of a number for each position."""
    return TreeTensor.row_major(name, tuple(axis.extent for axis in axes), data_type)


def _folds_of(inner: Each, value: Callable[[str], Expr]) -> tuple[Item, ...]:
    """The folds of what folds have found."""
    return tuple(Fold(fold.op, fold.names, tuple(map(value, fold.names))) for fold in inner.folds)


def _positions(axes: Axes) -> int:
    return prod(axis.extent for axis in axes)


def _columns(tree: LoopTree, outer: Each, inner: Each) -> Axes:
    """The axes of columns that lie side by side, where each row of them is far from the next; else none."""
    values = (value for item in inner.items for value in values_of(item))
    loads = [part for value in values for part in parts_of(value) if isinstance(part, Load)]
    if not (loads and inner.axes) or inner.guards or outer.guards:
        return ()
    tensor = max((tree.tensor(load.tensor) for load in loads), key=lambda each: prod(each.padded))
    row = min(step_along(axis, inner, tree) for axis in inner.axes)
    is_large = tensor.data_type.nbytes(prod(tensor.padded)) >= _LEAST_BYTES
    least = _LEAST_STEP if len(inner.folds) == 1 else _LEAST_STEP_OF_MANY
    if not is_large or row * tensor.data_type.bits < 8 * least:
        return ()
    steps = {axis: step_along(axis, inner, tree) for axis in outer.axes}
    near = sorted((axis for axis in steps if 0 < steps[axis] < row), key=lambda axis: -steps[axis])
    return tuple(near) if near and steps[near[-1]] == 1 else ()
