"""Folds over windows that move along a contiguous axis: rows first, then along the rows.

A row of results reads a few rows of the source. These are folded into one, in whole vectors, which stays in
the L1 cache. Then windows along it are folded, none of which reaches out. So an element of the source is read
once for each row of results, not once for each window. In a small image, all rows come first::

    each n, c, h, w: (each k0, k1: s = sum(x[n, c, h + k0 - 1, w + k1 - 1])); y[n, c, h, w] = s   ->
    each n, c, h:
      local s.part[w + 2]
      each s.part.w: (each k0: s.part = sum(x[n, c, h + k0 - 1, s.part.w])); s.part[s.part.w + 1] = s.part
      ...                                                         zeros at both ends
      each w: (each k1: s = sum(s.part[w + k1])); y[n, c, h, w] = s
"""

from __future__ import annotations

from math import prod

from ...ir.expression import Load, TreeAxis
from ...ir.tree import Each, LoopTree, TreeTensor, loads_in
from ..fold_order import MOST_WINDOW_ROW
from ..language import Schedule, Transform
from ..machine import NOMINAL
from .rewrites import part_of

# The most elements of all rows of an image, if these are computed before any is read, and the source is in
# cache. Values just written with vectors other than those they are read with must reach the cache before they
# can be read; but from memory, reading and writing overlap, row by row.
_MOST_OF_IMAGE = 1 << 12


def rows_of_windows(tree: LoopTree) -> Schedule:
    """Return the transforms that fold rows first; none if the tree has no such windows."""
    (outer,) = tree.items
    loop = outer.items[0] if outer.items else None
    if not isinstance(loop, Each) or outer.locals or any(len(fold.names) > 1 for fold in loop.folds):
        return ()
    sources = set(loads_in(loop.items))
    if len(sources) != 1 or not loop.folds:
        return ()
    (load,) = sources
    source = tree.tensor(load.tensor)
    windows: list[tuple[TreeAxis, TreeAxis]] = []
    size, row = 0, None
    for digits, at in zip(source.digits, load.index, strict=True):
        along = [axis for axis in outer.axes if axis.name in at.axes]
        taps = [axis for axis in loop.axes if axis.name in at.axes]
        if len(along) != 1 or len(taps) != 1 or isinstance(at, Load) or at.divisor > 1:
            continue
        windows.append((along[0], taps[0]))
        if len(digits) == 1 and digits[0].stride == 1:
            row, factors = windows[-1], dict(at.terms)
            size = sum(abs(factors[axis.name]) * (axis.extent - 1) for axis in row) + 1
    far = [axis for axis, _ in windows if row and axis != row[0]]
    if row is None or not 0 < size <= MOST_WINDOW_ROW or not _lies_along(tree, row[0]):
        return ()
    others = prod(axis.extent for axis in loop.axes if axis != row[1])
    if min(others, *(axis.extent for axis in row)) < 2 or 0 in (axis.extent for axis in outer.axes):
        return ()
    is_image = prod(axis.extent for axis in far) * size <= _MOST_OF_IMAGE and _nbytes(source) <= NOMINAL.l3
    own = (*far, row[0]) if is_image else row[:1]
    state, around = loop.folds[0].names[0], (axis.name for axis in outer.axes if axis not in own)
    return (
        Transform("split_fold", (state, row[1].name)),
        Transform("compute_at", (part_of(state), *around)),
    )


def _lies_along(tree: LoopTree, axis: TreeAxis) -> bool:
    """Return whether adjacent positions of an axis are adjacent in the result."""
    return all(
        any(at.axis == axis.name and digits[0].stride == 1 and len(digits) == 1 for digits, at in dims)
        for store in tree.stores
        for dims in [list(zip(tree.tensor(store.tensor).digits, store.index, strict=True))]
    )


def _nbytes(tensor: TreeTensor) -> int:
    low, high = tensor.span
    return tensor.data_type.nbytes(high - low)
