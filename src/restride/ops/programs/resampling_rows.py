"""Linear resampling to an integer multiple of the size, and its gradient, by rows that stay in the L1 cache.

Along a dim that becomes `scale` times as long, each source position has `scale` **phases** around it. Each
phase reads that position and a neighbor: the preceding one in its first half, else the following one. Weights
depend only on the phase::

    linear, 2 times as long      dst[2 * i] = 0.25 * src[i - 1] + 0.75 * src[i]
                             dst[2 * i + 1] = 0.75 * src[i]     + 0.25 * src[i + 1]

Beyond both ends, the last position replaces its neighbor. The last dim but one is done first, into rows with
both ends repeated, and the last dim from these rows: so tables and tests within a row are unnecessary. A
gradient likewise adds up what has read a position, `2 * scale` elements along each dim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...desc.attr import Attr
from ...desc.memory_desc import MemoryDesc
from ...ir.attribute_chain import operand_loads, operand_tensors, with_steps
from ...ir.computation import Computation, ComputationWriter
from ...ir.expression import Affine, Expr, Load, TreeAxis
from ...ir.numbers import Number
from ...ir.pointwise import moved_bytes
from ...ir.program import Place, Program, Slot, TreeStep
from ...ir.tree import Each, Guard, Item, LoopTree, TreeTensor
from .resampling_terms import LINEAR, dim_terms

# The most elements of a row with several channels, if their number is free, and of any row.
_ROW_ELEMENTS, _MOST_ELEMENTS = 1 << 13, 1 << 15
# The most elements of all rows of an image, if these are computed before any is read; and the most bytes of
# the larger tensor, which is then in cache.
_MOST_OF_IMAGE, _IN_CACHES = 1 << 12, 1 << 24
# The fewest channels that are adjacent or a block, and positions of a row of one channel: fewer fill a small
# part of a vector.
_LEAST_CHANNELS, _LEAST_COLUMNS = 8, 8
_LEAST_NDIMS = 3

Index = tuple[Affine | TreeAxis, ...]
Finish = Callable[[Expr, Index], Expr]
"""The conversion of a value before it is stored at an index."""


class _Phase(NamedTuple):
    """A phase of a position: its weight there, and the neighbor with its weight."""

    here: float
    side: int
    there: float


def _phases(src: int, dst: int) -> tuple[_Phase, ...] | None:
    """Return the phases of a dim; None if they vary along it."""
    if src < 2 or dst % (2 * src):
        return None
    scale = dst // src
    low, high = dim_terms(LINEAR, src, dst)
    position, phase = np.divmod(np.arange(dst), scale)
    is_low = phase < scale // 2
    there = np.clip(position + np.where(is_low, -1, 1), 0, src - 1)
    if (np.where(is_low, there, position) != low.index).any():
        return None
    if (np.where(is_low, position, there) != high.index).any():
        return None
    weights = np.array([low.weights, high.weights]).reshape(2, src, scale)
    if (weights != weights[:, :1]).any():
        return None
    below, above = weights[:, 0].tolist()
    if below != above[::-1]:
        return None
    half = scale // 2
    return tuple(
        _Phase(above[p], -1, below[p]) if p < half else _Phase(below[p], 1, above[p]) for p in range(scale)
    )


def _added(terms: Sequence[tuple[float, Expr]]) -> Expr:
    """Return the sum of products, added in order."""
    total, *others = [value if weight == 1.0 else value * weight for weight, value in terms]
    for other in others:
        total = total + other
    return total


@dataclass(frozen=True, slots=True)
class ResamplingRows:
    """A linear resampling between the smaller and the larger of two tensors of one format."""

    small: MemoryDesc
    large: MemoryDesc

    def can_be(self, *, backward: bool) -> bool:
        """Return whether it can be done by rows, and they are faster.

        Tables are as fast if all channels are adjacent (forward), and if only one dim changes.
        """
        small, large = self.small, self.large
        if small.ndims < _LEAST_NDIMS or not (small.nelems and large.nelems):
            return False
        if small.dims[:-2] != large.dims[:-2] or small.outer_order != large.outer_order:
            return False
        blocks = small.layout.inner
        if blocks != large.layout.inner or len(blocks[0]) > 1 or any(dim != 1 for dim in blocks[1]):
            return False
        if self._along is None or (self._has_down and self._down is None):
            return False
        is_interleaved = self._channels == 1
        if is_interleaved and (self.scale != 2 or abs(small.layout.strides[-1]) != 1):
            return False
        if is_interleaved and small.dims[-1] < _LEAST_COLUMNS:
            return False
        if not (is_interleaved or blocks[0] or self._has_down):
            return False
        length = (self.large.dims[-1] + self.scale) * self._channels
        return 0 < length <= _MOST_ELEMENTS and (backward or is_interleaved or blocks[0] != ())

    @property
    def scale(self) -> int:
        """The factor by which the last dim grows."""
        return self.large.dims[-1] // self.small.dims[-1]

    @property
    def _has_down(self) -> bool:
        """True if the dim before the last one changes."""
        return self.small.ndims > _LEAST_NDIMS and self.small.dims[-2] != self.large.dims[-2]

    @property
    def _along(self) -> tuple[_Phase, ...] | None:
        return _phases(self.small.dims[-1], self.large.dims[-1])

    @property
    def _down(self) -> tuple[_Phase, ...] | None:
        return _phases(self.small.dims[-2], self.large.dims[-2])

    @property
    def _channels(self) -> int:
        """The number of channels in a row: a block, some adjacent ones, or one; 0 if none is suitable."""
        md = self.small
        block, channels = md.layout.blocks[1], md.dims[1]
        if block > 1:
            return 0 if channels % block or block < _LEAST_CHANNELS else block
        if md.layout.strides[1] != 1:
            return 1
        most = min(channels, _ROW_ELEMENTS // (self.large.dims[-1] + self.scale))
        found = next((n for n in range(most, 0, -1) if channels % n == 0), 0)
        return found if found >= _LEAST_CHANNELS else 0

    # --- loops

    @property
    def _outer(self) -> tuple[TreeAxis, ...]:
        """The outer loops: batch, channels or groups of them, and dims that do not change."""
        dims = self.small.dims
        spatial = dims[2 : -2 if self._has_down else -1]
        groups = TreeAxis("c", dims[1] // self._channels)
        return (TreeAxis("n", dims[0]), groups, *(TreeAxis(f"d{i}", n) for i, n in enumerate(spatial)))

    @property
    def _inner(self) -> tuple[TreeAxis, ...]:
        """The loop over the channels of a row."""
        return (TreeAxis("lane", self._channels),) if self._channels > 1 else ()

    def _at(self, *spatial: Affine | TreeAxis) -> Index:
        """Return an index from the positions along the dims that change."""
        batch, groups, *others = self._outer
        channel = groups * self._channels + self._inner[0] if self._inner else groups
        return (batch, channel, *others, *spatial)

    def _own(self, down: TreeAxis, size: int, rows: int) -> tuple[TreeAxis, ...]:
        """Return the loop in which each position has separate rows; in small images, all rows come first."""
        is_small = down.extent * rows * size <= _MOST_OF_IMAGE and self.large.size <= _IN_CACHES
        # With several channels, values read together have been written together.
        return (down,) if self._has_down and self._channels == 1 and is_small else ()

    def _row(self, name: str, size: int, repeated: int, own: tuple[TreeAxis, ...]) -> TreeTensor:
        extents = [axis.extent for axis in self._inner]
        return TreeTensor.row_major(name, (*(axis.extent for axis in own), size + 2 * repeated, *extents))

    def _around(
        self, down: TreeAxis, own: tuple[TreeAxis, ...], rows: Sequence[TreeTensor], *loops: Sequence[Item]
    ) -> Each:
        """Return all loops: those that fill rows, and those that read them."""
        before = (*self._outer, down) if self._has_down and not own else self._outer
        if own:
            loops = tuple([Each(own, tuple(items))] for items in loops)
        return Each(before, tuple(item for items in loops for item in items), locals=tuple(rows))

    def _ends(self, rows: Sequence[TreeTensor], size: int, repeated: int, own: tuple[TreeAxis, ...]) -> Each:
        """Return the loop that repeats the elements at both ends of rows, mirrored."""
        pairs = [(repeated - 1 - k, repeated + k) for k in range(repeated)]
        pairs += [(repeated + size + k, repeated + size - 1 - k) for k in range(repeated)]
        stores = (
            row.store((*own, Affine((), to), *self._inner), row.load(*own, at, *self._inner))
            for row in rows
            for to, at in pairs
        )
        return Each(self._inner, tuple(stores))

    def planned(
        self, args: tuple[int, int], attr: Attr, *, backward: bool, is_wide: bool
    ) -> tuple[Program, Computation]:
        """Return the program, and what the attributes read. `args`: the arguments read and written."""
        read, written = (self.large, self.small) if backward else (self.small, self.large)
        writer = ComputationWriter(written.dims, is_wide=is_wide)
        writer.finish(attr)
        computed = writer.computation()
        src, dst = TreeTensor.of_desc("src", read), TreeTensor.of_desc("dst", written)
        operands = operand_tensors(computed.tensors, written.dims)

        def finish(value: Expr, index: Index) -> Expr:
            return with_steps(value, computed.compute, operand_loads(operands, index))

        loop = (self.backward if backward else self.forward)(src, dst, finish)
        scalars = computed.compute.scalars
        tree = LoopTree((src, dst, *operands), (loop,), scalars, Number.real(is_wide=is_wide)).verify()
        slots = (Slot(args[0]), Slot(args[1], is_written=True), *computed.slots())
        work = moved_bytes([read], written) + written.nelems
        step = TreeStep(tree, tuple(map(Place, range(len(slots)))), work, (0, scalars))
        return Program(slots, (step,), scalars=scalars).verify(), computed

    def forward(self, src: TreeTensor, dst: TreeTensor, finish: Finish) -> Each:
        """Return the loops that write the larger tensor."""
        size, along = self.small.dims[-1], self._along or ()
        w, j = TreeAxis("w", size), TreeAxis("j", size)
        down = TreeAxis("i", self.small.dims[-2])
        count = len(self._down or ()) if self._has_down else 1
        own = self._own(down, size, count)
        rows = [self._row(f"row{p}", size, 1, own) for p in range(count)]
        items: list[Item] = []
        for number, row in enumerate(rows):
            items += self._filled(row, w, 1, own, self._taps_forward(src, down, w, number))
        items.append(self._ends(rows, size, 1, own))
        stores: list[Item] = []
        for number, row in enumerate(rows):
            for place, phase in enumerate(along):
                near, far = (row.load(*own, j + 1 + side, *self._inner) for side in (0, phase.side))
                pair = [(phase.here, near), (phase.there, far)]
                to = [down * count + number] if self._has_down else []
                at = self._at(*to, j * len(along) + place)
                stores.append(dst.store(at, finish(_added(pair[:: phase.side]), at)))
        return self._around(down, own, rows, items, [Each((j, *self._inner), tuple(stores))])

    def _taps_forward(
        self, src: TreeTensor, down: TreeAxis, w: TreeAxis, number: int
    ) -> Iterator[tuple[tuple[Guard, ...], list[tuple[float, Load]]]]:
        """Return the terms of the row of a phase, with their guards."""
        if not self._has_down or self._down is None:
            yield (), [(1.0, src.load(*self._at(w)))]
            return
        phase, last = self._down[number], down.extent - 1
        here, there = (src.load(*self._at(down + side, w)) for side in (0, phase.side))
        terms = [(phase.here, here), (phase.there, there)]
        yield (Guard(down + phase.side, down.extent),), terms[:: phase.side]
        at_end = down * -1 if phase.side < 0 else down - last
        # Both read the last position there.
        yield (Guard(at_end, 1),), [(phase.here + phase.there, here)]

    def backward(self, src: TreeTensor, dst: TreeTensor, finish: Finish) -> Each:
        """Return the loops that sum the gradient of the smaller tensor. `src`: that of the larger one."""
        size, along = self.large.dims[-1], self._along or ()
        scale = len(along)
        repeated = scale // 2
        w, j = TreeAxis("w", size), TreeAxis("j", self.small.dims[-1])
        down = TreeAxis("i", self.small.dims[-2])
        own = self._own(down, size, 1)
        row = self._row("row", size, repeated, own)
        terms = [
            (weight, row.load(*own, j * scale + tap, *self._inner))
            for tap, weight in enumerate(_gradient_weights(along))
        ]
        at = self._at(down, j) if self._has_down else self._at(j)
        filled = self._filled(row, w, repeated, own, self._taps_backward(src, down, w))
        items = [*filled, self._ends((row,), size, repeated, own)]
        stores = [Each((j, *self._inner), (dst.store(at, finish(_added(terms), at)),))]
        return self._around(down, own, (row,), items, stores)

    def _taps_backward(
        self, src: TreeTensor, down: TreeAxis, w: TreeAxis
    ) -> Iterator[tuple[tuple[Guard, ...], list[tuple[float, Load]]]]:
        """Return the terms of a row: within the tensor, and mirrored at both ends."""
        if not self._has_down or self._down is None:
            yield (), [(1.0, src.load(*self._at(w)))]
            return
        weights, scale, last = _gradient_weights(self._down), len(self._down), down.extent - 1
        taps = dict(enumerate(weights, -(scale // 2)))

        def terms(found: dict[int, float]) -> list[tuple[float, Load]]:
            return [
                (weight, src.load(*self._at(down * scale + tap, w))) for tap, weight in sorted(found.items())
            ]

        yield (Guard(down - 1, last - 1),), terms(taps)
        first = {tap: weight for tap, weight in taps.items() if tap >= 0}
        for tap in range(scale // 2):
            first[tap] += self._down[tap].there
        yield (Guard(down * -1, 1),), terms(first)
        final = {tap: weight for tap, weight in taps.items() if tap < scale}
        for tap in range(scale // 2, scale):
            final[tap] += self._down[tap].there
        yield (Guard(down - last, 1),), terms(final)

    def _filled(
        self,
        row: TreeTensor,
        w: TreeAxis,
        repeated: int,
        own: tuple[TreeAxis, ...],
        parts: Iterator[tuple[tuple[Guard, ...], list[tuple[float, Load]]]],
    ) -> Iterator[Each]:
        """Return the loops that fill a row between its ends."""
        for guards, terms in parts:
            loop = Each((w, *self._inner), (row.store((*own, w + repeated, *self._inner), _added(terms)),))
            yield Each((), (loop,), guards) if guards else loop


def _gradient_weights(phases: Sequence[_Phase]) -> list[float]:
    """Return the weights of the phases that read a position, from half a scale before its own on."""
    half = len(phases) // 2
    before = [phase.there for phase in phases[half:]]
    behind = [phase.there for phase in phases[:half]]
    return [*before, *(phase.here for phase in phases), *behind]
