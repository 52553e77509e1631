"""Pooling where the last dim lies side by side: rows first, then windows in what the rows have become.

A row of results looks at a few rows of the source. These are folded into one, in whole vectors. It stays in
the first cache, with what the padding counts as at both ends. Then windows along it are folded, of which none
reaches out. So an element of the source is read once for each row of results, not once for each window. Of a
small image all rows come first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from ...desc.memory_desc import MemoryDesc
from ...ir.expression import Const, Expr, Ref, TreeAxis
from ...ir.tree import Each, Item, Store, TreeTensor, fold_over
from .windows import Windows

# Elements of a row, at most: it stays in the first cache, as doubles too.
_MOST_ELEMENTS = 1 << 11
# Elements of all rows of an image, at most, where these are found before any is read; and bytes of a source
# that is in the caches. What was written a moment ago, in other vectors than it is read in, has to reach the
# cache before it can be read; but from memory reading and writing go on together, row by row.
_MOST_OF_IMAGE, _IN_CACHES = 1 << 12, 1 << 24


@dataclass(frozen=True, slots=True)
class PoolingRows:
    """The rows of a pooling. `is_max`: maxima are taken, not sums."""

    windows: Windows
    src: MemoryDesc
    dst: MemoryDesc
    is_max: bool

    @property
    def are_faster(self) -> bool:
        """True where rows are folded first."""
        windows, size = self.windows, self._size
        if not (self.src.nelems and self.dst.nelems):
            return False
        lies_so = all(
            not md.inner_blks and md.layout.outer_order[-1] == md.ndims - 1 and md.layout.strides[-1] == 1
            for md in (self.src, self.dst)
        )
        has_both = windows.kernel[-1] > 1 and prod(windows.kernel[:-1]) > 1
        return lies_so and has_both and self.dst.dims[-1] > 1 and 0 < size <= _MOST_ELEMENTS

    @property
    def _size(self) -> int:
        """The number of elements of a row the windows look at, those of the padding too."""
        return (self.dst.dims[-1] - 1) * self.windows.strides[-1] + self.windows.span(-1)

    @property
    def _most_of_image(self) -> int:
        return _MOST_OF_IMAGE if self.src.size <= _IN_CACHES else 0

    def loop(self, src: TreeTensor, outer: Sequence[TreeAxis], store: Callable[[Expr], Store]) -> Each:
        """The loops over all results; `store` writes one."""
        windows, far = self.windows, tuple(outer[2:-1])
        own = far if prod(axis.extent for axis in far) * self._size <= self._most_of_image else ()
        row = TreeTensor.row_major("row", (*(axis.extent for axis in own), self._size))
        tap, step = windows.kernel_axes()[-1], windows.dilation[-1] + 1
        element = row.load(*own, outer[-1] * windows.strides[-1] + tap * step)
        found = (Each((tap,), (fold_over(self._fold[0], "found", element),)), store(Ref("found")))
        rows = self._folded_rows(src, outer, row, own)
        if not own:
            return Each(tuple(outer[:-1]), (*rows, Each((outer[-1],), found)), locals=(row,))
        loops = Each(own, rows), Each((*own, outer[-1]), found)
        return Each(tuple(outer[:2]), loops, locals=(row,))

    @property
    def _fold(self) -> tuple[str, float]:
        """The operation, and what the padding counts as."""
        return ("max", float("-inf")) if self.is_max else ("sum", 0.0)

    def _folded_rows(
        self, src: TreeTensor, outer: Sequence[TreeAxis], row: TreeTensor, own: tuple[TreeAxis, ...]
    ) -> tuple[Item, ...]:
        """The items that fold the rows of one row of windows into one, and write what is at its ends."""
        windows, size, left = self.windows, self._size, self.windows.padding_l[-1]
        taps, (op, identity) = windows.kernel_axes(), self._fold
        at = windows.sources(outer[2:], taps)
        guards = windows.guards(at, self.dst.dims[2:], self.src.dims[2:])
        x = TreeAxis("x", max(min(self.src.dims[-1], size - left), 0))
        part = fold_over(op, "part", src.load(*outer[:2], *at[:-1], x))
        inside = tuple(guard for guard in guards if guard.index != at[-1])
        items: list[Item] = [
            Each((x,), (Each(taps[:-1], (part,), inside), row.store((*own, x + left), Ref("part"))))
        ]
        for name, first, end in (("left", 0, left), ("right", left + x.extent, size)):
            if end > first:
                axis = TreeAxis(name, end - first)
                items.append(Each((axis,), (row.store((*own, axis + first), Const(identity)),)))
        return tuple(items)
