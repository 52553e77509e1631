"""Windows that move over the spatial dims of a tensor, as pooling has them.

An output `o` looks at the source positions `o * stride + k * (dilation + 1) - padding`, for each of the
kernel's positions `k`: a dilation of 0 leaves nothing out. Positions outside the source do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

import numpy as np

from ...ir.expression import Affine, TreeAxis
from ...ir.tree import Guard

Array = np.ndarray[Any, np.dtype[Any]]
Dims = tuple[int, ...]


def spatial_names(count: int) -> str:
    """The names of so many spatial dims, a letter each: w; h and w; d, h and w."""
    return "dhw"[-count:]


def window_span(kernel: int, dilation: int) -> int:
    """How far a window reaches along a dim: a dilation of 0 leaves nothing out."""
    return (kernel - 1) * (dilation + 1) + 1


def window_count(size: int, padding: int, span: int, stride: int) -> int:
    """How many windows lie in so many elements and both paddings together; below 1 where none does."""
    return (size + padding - span) // stride + 1


@dataclass(frozen=True, slots=True)
class WindowPhase:
    """The source positions along a dim that are a multiple of the stride and so many more.

    `source` is such a position, `output` a window that has it, at position `tap` of the kernel; `taps` are
    the loops over all these windows, empty where there is none. `inside` and `guards` keep source and windows
    within their sizes.
    """

    source: Affine
    output: Affine
    tap: Affine
    taps: tuple[TreeAxis, ...]
    inside: tuple[Guard, ...]
    guards: tuple[Guard, ...]


@dataclass(frozen=True, slots=True)
class Windows:
    """One number of each kind for each spatial dim. `padding_r` follows from the sizes, and moves nothing."""

    strides: Dims
    kernel: Dims
    dilation: Dims
    padding_l: Dims
    padding_r: Dims

    @property
    def positions(self) -> int:
        """The number of positions a window has."""
        return prod(self.kernel)

    def span(self, dim: int) -> int:
        """How far a window reaches along a dim."""
        return window_span(self.kernel[dim], self.dilation[dim])

    def output(self, dim: int, size: int) -> int:
        """The number of windows along a dim of this size, padding included."""
        padding = self.padding_l[dim] + self.padding_r[dim]
        return window_count(size, padding, self.span(dim), self.strides[dim])

    def spans_within(self, outputs: Dims, sizes: Dims) -> tuple[range, ...]:
        """The positions of the kernel, along each dim, from the first to the last that a window has in a
        source of `sizes`: padding may leave others out of all windows. One at least.
        """
        pairs = enumerate(zip(outputs, sizes, strict=True))
        return tuple(self._within(dim, count, size) for dim, (count, size) in pairs)

    def _within(self, dim: int, outputs: int, size: int) -> range:
        stride, step, padding = self.strides[dim], self.dilation[dim] + 1, self.padding_l[dim]
        last = self.kernel[dim] - 1
        first = min(max(-((max(outputs - 1, 0) * stride - padding) // step), 0), last)
        return range(first, max(min((padding + size - 1) // step, last), first) + 1)

    def taps_within(self, outputs: Dims, sizes: Dims) -> tuple[tuple[TreeAxis, ...], tuple[Affine, ...]]:
        """The loops over what a window may have in a source of `sizes`, and the positions that these are."""
        spans = self.spans_within(outputs, sizes)
        axes = tuple(TreeAxis(f"k{self._name(dim)}", len(span)) for dim, span in enumerate(spans))
        return axes, tuple(axis + span.start for axis, span in zip(axes, spans, strict=True))

    def _name(self, dim: int) -> str:
        return spatial_names(len(self.kernel))[dim]

    def position(self, taps: Sequence[TreeAxis | Affine]) -> Affine:
        """The number of a position in its window, row by row."""
        index = Affine()
        for extent, tap in zip(self.kernel, taps, strict=True):
            index = index * extent + tap
        return index

    def sources(self, outputs: Sequence[TreeAxis], taps: Sequence[Affine]) -> tuple[Affine, ...]:
        """Where the positions of windows are in the source."""
        return tuple(
            out * self.strides[dim] + tap * (self.dilation[dim] + 1) - self.padding_l[dim]
            for dim, (out, tap) in enumerate(zip(outputs, taps, strict=True))
        )

    def guards(self, sources: Sequence[Affine], outputs: Dims, sizes: Dims) -> tuple[Guard, ...]:
        """What keeps windows within a source of `sizes`, along the dims where they reach out of it."""
        return tuple(
            Guard(index, size)
            for dim, (index, size) in enumerate(zip(sources, sizes, strict=True))
            if self._reaches_out(dim, outputs[dim], size)
        )

    def _reaches_out(self, dim: int, outputs: int, size: int) -> bool:
        last = (outputs - 1) * self.strides[dim] + self.span(dim) - 1 - self.padding_l[dim]
        return self.padding_l[dim] > 0 or last >= size

    def outputs(self, sources: Sequence[TreeAxis], taps: Sequence[Affine]) -> tuple[Affine, ...]:
        """Which windows have a source position at one of theirs; none does where it does not divide."""
        return tuple(
            (source + self.padding_l[dim] - tap * (self.dilation[dim] + 1)) // self.strides[dim]
            for dim, (source, tap) in enumerate(zip(sources, taps, strict=True))
        )

    def phases(self, dim: int, size: int, outputs: int) -> tuple[TreeAxis, tuple[WindowPhase, ...]]:
        """The loop over multiples of the stride along a dim, and a phase for each position that follows them.

        >>> windows = Windows((2,), (3,), (0,), (1,), (1,))
        >>> axis, (even, odd) = windows.phases(0, 6, 3)
        >>> print(axis, "|", even.source, "|", even.output, "|", even.tap)
        qw 3 | 2 * qw | qw - kw.0 | 2 * kw.0 + 1
        >>> print(odd.source, "|", odd.output, "|", odd.taps[0])
        2 * qw + 1 | qw - kw.1 + 1 | kw.1 2
        """
        stride, step = self.strides[dim], self.dilation[dim] + 1
        axis = TreeAxis(f"q{self._name(dim)}", -(-size // stride))
        return axis, tuple(
            self._phase(dim, axis, place, size, outputs, stride // gcd(stride, step))
            for place in range(min(stride, size))
        )

    def _phase(
        self, dim: int, axis: TreeAxis, place: int, size: int, outputs: int, every: int
    ) -> WindowPhase:
        """`every`: how many positions of the kernel are from one that has the source position to the next."""
        stride, step, kernel = self.strides[dim], self.dilation[dim] + 1, self.kernel[dim]
        source, start = axis * stride + place, place + self.padding_l[dim]
        inside = (Guard(source, size),) if (axis.extent - 1) * stride + place >= size else ()
        first = next((k for k in range(kernel) if (start - k * step) % stride == 0), kernel)
        if first == kernel:
            return WindowPhase(source, Affine(), Affine(), (), inside, ())
        tap = TreeAxis(f"k{self._name(dim)}.{place}", len(range(first, kernel, every)))
        back = every * step // stride
        nearest = (start - first * step) // stride
        output = axis + nearest - tap * back
        reaches_out = nearest - (tap.extent - 1) * back < 0 or axis.extent - 1 + nearest >= outputs
        guards = (Guard(output, outputs),) if reaches_out else ()
        return WindowPhase(source, output, tap * every + first, (tap,), inside, guards)

    def counts(self, outputs: Dims, sizes: Dims) -> Array:
        """The number of positions of each window that are within the source; 1 where there is none."""
        found = np.ones((), np.float32)
        for dim, (count, size) in enumerate(zip(outputs, sizes, strict=True)):
            starts, step = np.arange(count) * self.strides[dim] - self.padding_l[dim], self.dilation[dim] + 1
            before, behind = np.maximum(-(starts // step), 0), (size - 1 - starts) // step + 1
            inside = np.maximum(np.minimum(behind, self.kernel[dim]) - before, 0)
            found = found[..., None] * inside.astype(np.float32)
        return np.maximum(found, np.float32(1))
