"""Folds down long columns as folds over blocks of rows, which go through memory as it lies.

Down a column each row lies on another page. So eight rows are folded at a time, all columns of a chunk side
by side, into rows of parts that stay in the caches; then these, and then the pieces that threads share. A sum
of many elements loses little so, as no part is of many.

    each c 512: (each r 8192: s = sum(x[r, c])); y[c] = s   ->
    each p 32: (each b 32, c 512: (each r 8: s = sum(x[256 p + 8 b + r, c])); part[b, c] = s),
               (each c 512: (each b 32: s = sum(part[b, c])); t[p, c] = s)
    each c 512: (each p 32: s = sum(t[p, c])); y[c] = s
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from ..dtypes import DataType
from .expression import Affine, Expr, Load, Ref, TreeAxis, parts_of
from .tree import Each, Fold, Guard, Item, LoopTree, TreeTensor, values_of
from .tree_pieces import pieces_of, step_along, with_axes

# Bytes of a tensor, and from a row to the next, of one fold and of many, at least: else columns are as fast.
_LEAST_BYTES = 1 << 22
_LEAST_STEP, _LEAST_STEP_OF_MANY = 1 << 9, 1 << 11
# Rows of a block, at most and at least; columns of a chunk likewise; bytes of the parts of a piece, at most, as
# they lie on the stack of a thread, and blocks of it, at least.
_MOST_ROWS, _LEAST_ROWS = 8, 4
_MOST_COLUMNS, _LEAST_COLUMNS = 1 << 12, 1 << 7
_MOST_BYTES, _LEAST_BLOCKS = 1 << 17, 2

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
    found = _columns(tree, outer, inner)
    real = DataType.f64 if tree.wide else DataType.f32
    names = [name for fold in inner.folds for name in fold.names]
    cut = _cut(tree, inner, found, real.nbytes(len(names))) if found else None
    if cut is None:
        return None
    place = (*cut.blocks, *cut.columns)
    parts = {name: _kept(f"{name}.parts", place, real) for name in names}
    first = Each(cut.rows, tuple(with_axes(item, cut.by) for item in inner.items), cut.guards)
    blocked = Each(place, (first, *(parts[name].store(place, Ref(name)) for name in names)))
    together = Each(cut.blocks, _combined(inner, lambda name: parts[name].load(*place)))
    others = tuple(axis for axis in outer.axes if axis not in found)
    around, own = (*cut.pieces, *others, *cut.chunks), tuple(parts.values())
    if not cut.pieces:
        rest = tuple(with_axes(item, cut.by) for item in outer.items[1:])
        return ColumnFolds((Each(around, (blocked, Each(cut.columns, (together, *rest))), locals=own),), ())
    partial = {name: _kept(f"{name}.pieces", (*cut.pieces, *outer.axes), real) for name in names}
    at: Index = (*cut.pieces, *(cut.by.get(axis.name, axis) for axis in outer.axes))
    stores = (partial[name].store(at, Ref(name)) for name in names)
    pieces = Each(around, (blocked, Each(cut.columns, (together, *stores))), locals=own)
    ends = Each(cut.pieces, _combined(inner, lambda name: partial[name].load(*cut.pieces, *outer.axes)))
    return ColumnFolds((pieces, replace(outer, items=(ends, *outer.items[1:]))), tuple(partial.values()))


def _cut(tree: LoopTree, inner: Each, found: Axes, nbytes: int) -> _Cut | None:
    """How rows and columns are cut, whose parts have so many bytes; None where there are too few of them."""
    far = sorted(inner.axes, key=lambda axis: -step_along(axis, inner, tree))
    outside, rows, by_rows = pieces_of(far, _MOST_ROWS)
    guards: tuple[Guard, ...] = ()
    if _size(rows) < _LEAST_ROWS:
        outside, rows, by_rows = _blocks_with_a_rest(far)
        guards = (Guard(by_rows[far[-1].name], far[-1].extent),)
    chunks, columns, by_columns = pieces_of(found, _MOST_COLUMNS)
    pieces, blocks, by_blocks = pieces_of(outside, _MOST_BYTES // (_size(columns) * nbytes))
    if _size(columns) < _LEAST_COLUMNS or _size(blocks) < _LEAST_BLOCKS:
        return None
    by = by_blocks | by_columns | {name: index.with_axes(by_blocks) for name, index in by_rows.items()}
    guards = tuple(Guard(guard.index.with_axes(by_blocks), guard.size) for guard in guards)
    return _Cut(pieces, blocks, rows, chunks, columns, by, guards)


def _kept(name: str, axes: Axes, data_type: DataType) -> TreeTensor:
    """A tensor of a number for each position."""
    return TreeTensor.row_major(name, tuple(axis.extent for axis in axes), data_type)


def _combined(inner: Each, value: Callable[[str], Expr]) -> tuple[Item, ...]:
    """The folds of what folds have found."""
    return tuple(Fold(each.op, each.names, tuple(map(value, each.names))) for each in inner.folds)


def _size(axes: Axes) -> int:
    return prod(axis.extent for axis in axes)


def _blocks_with_a_rest(axes: Sequence[TreeAxis]) -> tuple[Axes, Axes, dict[str, Affine]]:
    """As `pieces_of`, of the last axis, whose extent has no good divisor."""
    *others, last = axes
    blocks, row = (
        TreeAxis(f"{last.name}.piece", -(-last.extent // _MOST_ROWS)),
        TreeAxis(last.name, _MOST_ROWS),
    )
    return (*others, blocks), (row,), {last.name: blocks * _MOST_ROWS + row}


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
