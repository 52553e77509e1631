"""Windows that move over the spatial dims of a tensor, as in pooling.

An output `o` reads the source positions `o * stride + k * (dilation + 1) - padding`, for each position `k` of
the kernel: a dilation of 0 is dense. Positions outside the source do not count.
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
    """Return the names of spatial dims, a letter each: w; h and w; d, h and w."""
    return "dhw"[-count:]


def window_span(kernel: int, dilation: int) -> int:
    """Return the extent of a window along a dim: a dilation of 0 is dense."""
    return (kernel - 1) * (dilation + 1) + 1


def window_count(size: int, padding: int, span: int, stride: int) -> int:
    """Return the number of windows that fit into elements plus both paddings; below 1 if none does."""
    return (size + padding - span) // stride + 1


@dataclass(frozen=True, slots=True)
class WindowPhase:
    """The source positions along a dim with one remainder modulo the stride.

    `source` is such a position, `output` a window that contains it, at position `tap` of the kernel; `taps`
    are the loops over all these windows, empty if there are none. `inside` and `guards` keep source and
    windows within their sizes.
    """

    source: Affine
    output: Affine
    tap: Affine
    taps: tuple[TreeAxis, ...]
    inside: tuple[Guard, ...]
    guards: tuple[Guard, ...]


@dataclass(frozen=True, slots=True)
class Windows:
    """The window's numbers for each spatial dim. `padding_r` follows from the sizes, and moves nothing."""

    strides: Dims
    kernel: Dims
    dilation: Dims
    padding_l: Dims
    padding_r: Dims

    @property
    def positions(self) -> int:
        """The number of positions in a window."""
        return prod(self.kernel)

    def span(self, dim: int) -> int:
        """Return the extent of a window along a dim."""
        return window_span(self.kernel[dim], self.dilation[dim])

    def output(self, dim: int, size: int) -> int:
        """Return the number of windows along a dim of this size, padding included."""
        padding = self.padding_l[dim] + self.padding_r[dim]
        return window_count(size, padding, self.span(dim), self.strides[dim])

    def spans_within(self, outputs: Dims, sizes: Dims) -> tuple[range, ...]:
        """Return the range of kernel positions, along each dim, that some window has within a source of
        `sizes`: padding can exclude others from all windows. Never empty.
        """
        pairs = enumerate(zip(outputs, sizes, strict=True))
        return tuple(self._within(dim, count, size) for dim, (count, size) in pairs)

    def _within(self, dim: int, outputs: int, size: int) -> range:
        stride, step, padding = self.strides[dim], self.dilation[dim] + 1, self.padding_l[dim]
        last = self.kernel[dim] - 1
        first = min(max(-((max(outputs - 1, 0) * stride - padding) // step), 0), last)
        return range(first, max(min((padding + size - 1) // step, last), first) + 1)

    def taps_within(self, outputs: Dims, sizes: Dims) -> tuple[tuple[TreeAxis, ...], tuple[Affine, ...]]:
        """Return the loops over positions that windows can have in a source of `sizes`, and their indices."""
        spans = self.spans_within(outputs, sizes)
        axes = tuple(TreeAxis(f"k{self._name(dim)}", len(span)) for dim, span in enumerate(spans))
        return axes, tuple(axis + span.start for axis, span in zip(axes, spans, strict=True))

    def _name(self, dim: int) -> str:
        return spatial_names(len(self.kernel))[dim]

    def position(self, taps: Sequence[TreeAxis | Affine]) -> Affine:
        """Return the number of a position in its window, row by row."""
        index = Affine()
        for extent, tap in zip(self.kernel, taps, strict=True):
            index = index * extent + tap
        return index

    def sources(self, outputs: Sequence[TreeAxis], taps: Sequence[Affine]) -> tuple[Affine, ...]:
        """Return the source indices of window positions."""
        return tuple(
            out * self.strides[dim] + tap * (self.dilation[dim] + 1) - self.padding_l[dim]
            for dim, (out, tap) in enumerate(zip(outputs, taps, strict=True))
        )

    def guards(self, sources: Sequence[Affine], outputs: Dims, sizes: Dims) -> tuple[Guard, ...]:
        """Return the guards that keep windows within a source of `sizes`, where they extend past it."""
        return tuple(
            Guard(index, size)
            for dim, (index, size) in enumerate(zip(sources, sizes, strict=True))
            if self._reaches_out(dim, outputs[dim], size)
        )

    def _reaches_out(self, dim: int, outputs: int, size: int) -> bool:
        last = (outputs - 1) * self.strides[dim] + self.span(dim) - 1 - self.padding_l[dim]
        return self.padding_l[dim] > 0 or last >= size

    def outputs(self, sources: Sequence[TreeAxis], taps: Sequence[Affine]) -> tuple[Affine, ...]:
        """Return the windows that have a source position at the given taps; invalid if it does not divide."""
        return tuple(
            (source + self.padding_l[dim] - tap * (self.dilation[dim] + 1)) // self.strides[dim]
            for dim, (source, tap) in enumerate(zip(sources, taps, strict=True))
        )

    def phases(self, dim: int, size: int, outputs: int) -> tuple[TreeAxis, tuple[WindowPhase, ...]]:
        """Return the loop over multiples of the stride along a dim, and a phase for each offset from them.

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
        """`every`: the step between kernel positions that can have the same source position."""
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
        """Return the number of positions of each window that are within the source; 1 if there are none."""
        found = np.ones((), np.float32)
        for dim, (count, size) in enumerate(zip(outputs, sizes, strict=True)):
            starts, step = np.arange(count) * self.strides[dim] - self.padding_l[dim], self.dilation[dim] + 1
            before, behind = np.maximum(-(starts // step), 0), (size - 1 - starts) // step + 1
            inside = np.maximum(np.minimum(behind, self.kernel[dim]) - before, 0)
            found = found[..., None] * inside.astype(np.float32)
        return np.maximum(found, np.float32(1))
