"""Folds along long columns as folds over blocks of rows, which traverse memory in order.

Along a column, each row is on another page. So eight rows are folded at a time, for all adjacent columns of a
chunk, into rows of parts that stay in cache; then these, and then the pieces that threads share. This also
keeps a sum of many elements accurate, as no part has many.

    each c 512: (each r 65536: s = sum(x[r, c])); y[c] = s   ->
    each p 128: (each b 64, c 512: (each r 8: s = sum(x[512 p + 8 b + r, c])); part[b, c] = s),
                (each c 512: (each b 64: s = sum(part[b, c])); t[p, c] = s)
    each c 512: (each p 128: s = sum(t[p, c])); y[c] = s
"""

from __future__ import annotations

from math import prod

from ...ir.expression import TreeAxis
from ...ir.tree import Each, LoopTree, loads_in
from ..fold_order import (
    COLUMN_PIECES,
    LEAST_BLOCK_ROWS,
    LEAST_CHUNK_COLUMNS,
    LEAST_COLUMN_BYTES,
    LEAST_COLUMN_STEP,
    LEAST_COLUMN_STEP_OF_MANY,
    LEAST_PIECE_BLOCKS,
    MOST_BLOCK_ROWS,
    MOST_CHUNK_COLUMNS,
    MOST_PART_BYTES,
)
from ..language import Schedule, Transform
from .pieces import pieces_of, pieces_with_a_rest, step_along
from .rewrites import part_of

Axes = tuple[TreeAxis, ...]


def folds_by_rows(tree: LoopTree, outer: Each, inner: Each) -> Schedule:
    """Return the transforms; none if the fold of `inner`, the first loop of `outer`, follows memory order."""
    near = _columns(tree, outer, inner)
    if not near:
        return ()
    far = sorted(inner.axes, key=lambda axis: -step_along(axis, inner, tree))
    rows = pieces_with_a_rest(far, MOST_BLOCK_ROWS)
    columns = pieces_of(near, MOST_CHUNK_COLUMNS)
    count = _positions(columns.inside)
    if _positions(rows.inside) < LEAST_BLOCK_ROWS or count < LEAST_CHUNK_COLUMNS or not rows.outside:
        return ()
    # No more blocks than fit a stack, and few enough that threads have work.
    states = [name for fold in inner.folds for name in fold.names]
    room = MOST_PART_BYTES // (count * tree.number.storage.nbytes(len(states)))
    share = _positions(rows.outside) * outer.positions // count // COLUMN_PIECES
    blocks = pieces_with_a_rest(rows.outside, min(room, max(share, LEAST_PIECE_BLOCKS)))
    if _positions(blocks.inside) < 2:
        return ()
    state, found = states[0], [*rows.transforms, *blocks.transforms]
    if blocks.outside:
        found.append(Transform("split_fold", (state, *_names(blocks.outside))))
        state = part_of(state)
        found.append(Transform("compute_root", (state,)))
    found.append(Transform("split_fold", (state, *_names(blocks.inside))))
    others = tuple(axis for axis in outer.axes if axis not in near)
    around = _names((*blocks.outside, *others, *columns.outside))
    found += [*columns.transforms, Transform("compute_at", (part_of(state), *around))]
    return tuple(found)


def _names(axes: Axes) -> tuple[str, ...]:
    return tuple(axis.name for axis in axes)


def _positions(axes: Axes) -> int:
    return prod(axis.extent for axis in axes)


def _columns(tree: LoopTree, outer: Each, inner: Each) -> Axes:
    """Return the axes of adjacent columns, if each row of them is far from the next; else none."""
    loads = list(loads_in(inner.items))
    if not (loads and inner.axes) or inner.guards or outer.guards:
        return ()
    tensor = max((tree.tensor(load.tensor) for load in loads), key=lambda each: prod(each.padded))
    row = min(step_along(axis, inner, tree) for axis in inner.axes)
    is_large = tensor.data_type.nbytes(prod(tensor.padded)) >= LEAST_COLUMN_BYTES
    least = LEAST_COLUMN_STEP if len(inner.folds) == 1 else LEAST_COLUMN_STEP_OF_MANY
    if not is_large or row * tensor.data_type.bits < 8 * least:
        return ()
    steps = {axis: step_along(axis, inner, tree) for axis in outer.axes}
    near = sorted((axis for axis in steps if 0 < steps[axis] < row), key=lambda axis: -steps[axis])
    return tuple(near) if near and steps[near[-1]] == 1 else ()
