"""Gradients of maxima of short rows: planes of windows at once, in whole vectors, then their rows.

A row of few windows fills a part of a vector only. Where rows of windows lie behind each other, and each
phase of the stride has as many positions along a row as there are windows, a plane is one long row: a vector
goes on in the next row of windows. What it finds there, at the other end, has not chosen the position, which
is outside of the source for it. Planes of phases stay in the first cache, from where their rows are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from ..desc.memory_desc import MemoryDesc
from .expression import Affine, Const, Expr, Ref, TreeAxis
from .tree import Each, Guard, Item, Store, TreeTensor, fold_over
from .windows import WindowPhase, Windows

# Windows of a row, at most: more fill most of a vector.
_MOST_WINDOWS = 12
# Elements of a plane of the source, at most: it stays in the first cache.
_MOST_ELEMENTS = 1 << 12
# Bytes of the source, at most, where there is a stride: from memory all phases at once are faster.
_MOST_BYTES = 1 << 24
# Batch, channels, and a plane.
_LEAST_NDIMS = 4

Index = tuple[Affine | TreeAxis, ...]
Term = Callable[[Index, Sequence[Affine]], Expr]
"""What a window adds, by the index of the window with its plane as one dim, and the positions of taps."""


@dataclass(frozen=True, slots=True)
class PoolingPlanes:
    """The planes of a gradient of maxima."""

    windows: Windows
    diff_src: MemoryDesc
    diff_dst: MemoryDesc

    @property
    def are_faster(self) -> bool:
        """True where planes are found first: where a position has one window, rows are as fast."""
        src, dst, windows = self.diff_src, self.diff_dst, self.windows
        overlaps = prod(windows.kernel) >= 2 * prod(windows.strides)
        if src.ndims < _LEAST_NDIMS or not (src.nelems and dst.nelems and overlaps):
            return False
        if src.inner_blks or dst.inner_blks or src.layout.strides[-1] != 1:
            return False
        (*_, rows, row), columns = dst.layout.strides, dst.dims[-1]
        is_plane = row == 1 and rows == columns == -(-src.dims[-1] // windows.strides[-1])
        is_short = 1 < columns <= _MOST_WINDOWS < 2 * columns * dst.dims[-2]
        is_near = src.size <= _MOST_BYTES or prod(windows.strides) == 1
        return is_plane and is_short and is_near and prod(src.dims[-2:]) <= _MOST_ELEMENTS

    def merged(self, md: MemoryDesc) -> MemoryDesc:
        """Windows, or what is of them, with a plane as one dim."""
        dims, strides = md.dims, md.layout.strides
        merged = (*dims[:-2], dims[-2] * dims[-1])
        return MemoryDesc.from_strides(merged, md.data_type, (*strides[:-2], 1), md.layout.offset0)

    def loop(self, out: TreeTensor, outer: Sequence[TreeAxis], term: Term) -> Each:
        """The loops over all positions of the source."""
        sizes, outputs = self.diff_src.dims[2:], self.diff_dst.dims[2:]
        found = [self.windows.phases(dim, *both) for dim, both in enumerate(zip(sizes, outputs, strict=True))]
        (rows, _), (columns, _) = found[-2:]
        phases = tuple(product(*(each for _, each in found[-2:])))
        plane = TreeAxis("plane", rows.extent * columns.extent)
        local = TreeTensor.row_major("planes", (len(phases), plane.extent))
        items: list[Item] = []
        for number, depth in enumerate(product(*(each for _, each in found[:-2]))):
            folds: list[Item] = []
            stores: list[Item] = []
            for place, (row, column) in enumerate(phases):
                value: Expr = Const(0.0)
                if all(phase.taps for phase in (*depth, row, column)):
                    shift = (row.output - rows) * columns.extent + (column.output - columns)
                    name = f"total{number}.{place}"
                    folds.append(self._total(name, (*depth, row, column), plane + shift, outer, term))
                    folds.append(local.store((place, plane), Ref(name)))
                    value = local.load(place, rows * columns.extent + columns)
                at: Index = (*outer, *(phase.source for phase in (*depth, row, column)))
                inside, made = (*row.inside, *column.inside), out.store(at, value)
                stores.append(Each((), (made,), inside) if inside else made)
            # Stores last: so that what several phases read is read once.
            folds.sort(key=lambda item: isinstance(item, Store))
            found_planes = (Each((plane,), tuple(folds)),) if folds else ()
            parts: tuple[Item, ...] = (*found_planes, Each((rows, columns), tuple(stores)))
            guards = tuple(guard for phase in depth for guard in phase.inside)
            items += [Each((), parts, guards)] if guards else parts
        return Each((*outer, *(axis for axis, _ in found[:-2])), tuple(items), locals=(local,))

    def _total(
        self, name: str, phases: Sequence[WindowPhase], at: Affine, outer: Sequence[TreeAxis], term: Term
    ) -> Each:
        """The sum over the windows that have a position of a phase; `at`: the window in its plane."""
        depth = phases[:-2]
        guards = (
            *(guard for phase in depth for guard in phase.guards),
            Guard(at, prod(self.diff_dst.dims[-2:])),
        )
        index: Index = (*outer, *(phase.output for phase in depth), at)
        value = term(index, [phase.tap for phase in phases])
        taps = tuple(axis for phase in phases for axis in phase.taps)
        return Each(taps, (fold_over("sum", name, value),), guards)
