"""Convolutions as loop trees: one relation of three tensors, seen from each of them.

A **window** tensor x and a **point** tensor y are related by weights w:

    y[n, g, j, o] += x[n, g, i, o * stride + k * dilation - padding] * w[g, j, i, k]

for every channel i of x and j of y in a group g, and every tap k whose index lies in x. From there:

| | writes y | writes x | writes w |
| --- | --- | --- | --- |
| convolution | forward | backward data | backward weights |
| deconvolution | backward data | forward | backward weights |

A tree that writes y or w iterates over windows. One that writes x has a loop for each residue modulo the
stride: the positions of x with that residue share a set of taps, in which their indices are linear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd

from ...ir.expression import Affine, Const, Expr, Load, Ref, TreeAxis
from ...ir.tree import Each, Guard, Item, TreeTensor, fold_over

Index = tuple[Affine | TreeAxis | int, ...]


@dataclass(frozen=True, slots=True)
class ResultOf:
    """The expressions of elements at an index of the written tensor: of an element that the weights are
    multiplied with, of a weight, and of the sum.
    """

    source: Callable[[Load, Index], Expr]
    weights: Callable[[Load, Index], Expr]
    result: Callable[[Expr, Index], Expr]


TOTAL = "total"


@dataclass(frozen=True, slots=True)
class Taps:
    """One spatial dim: extents of x, y and the kernel; stride, dilation (1 is dense) and padding."""

    window: int
    points: int
    kernel: int
    stride: int
    dilation: int
    padding: int


@dataclass(frozen=True, slots=True)
class ConvolutionExtents:
    """Extents of a convolution: batch, groups, channels of a group of x and y, and its spatial dims.

    `has_groups`: weights have a dim of groups; `is_point_first`: there, channels of y precede those of x.
    """

    batch: int
    groups: int
    window_channels: int
    point_channels: int
    dims: tuple[Taps, ...]
    has_groups: bool
    is_point_first: bool = True

    @property
    def is_depthwise(self) -> bool:
        """True if every group has one channel."""
        return self.window_channels == self.point_channels == 1

    def axes(self) -> tuple[TreeAxis, TreeAxis, TreeAxis, TreeAxis]:
        """The axes of batch, group, channel of x, channel of y."""
        extents = self.batch, self.groups, self.window_channels, self.point_channels
        n, g, i, j = map(TreeAxis, ("n", "g", "i", "j"), extents)
        return n, g, i, j

    def weights_index(
        self, g: TreeAxis, i: TreeAxis, j: TreeAxis, taps: Sequence[Affine | TreeAxis]
    ) -> Index:
        """Return the index of an element of the weights."""
        channels = (j, i) if self.is_point_first else (i, j)
        return (*((g,) if self.has_groups else ()), *channels, *taps)

    def outer(self, *axes: TreeAxis) -> tuple[TreeAxis, ...]:
        """Return the axes without a single group and channels of extent 1."""
        return tuple(axis for axis in axes if axis.extent != 1 or axis.name not in ("g", "i", "j"))


def _channel(g: TreeAxis, channel: TreeAxis) -> Affine | TreeAxis:
    """Return the channel among all groups, from the axes whose extent is not 1."""
    if g.extent == 1:
        return channel
    return g if channel.extent == 1 else g * channel.extent + channel


def _points(relation: ConvolutionExtents) -> tuple[TreeAxis, ...]:
    return tuple(TreeAxis(f"o{i}", dim.points) for i, dim in enumerate(relation.dims))


def _taps(relation: ConvolutionExtents) -> tuple[TreeAxis, ...]:
    return tuple(TreeAxis(f"k{i}", dim.kernel) for i, dim in enumerate(relation.dims))


def _windows(
    relation: ConvolutionExtents, points: Sequence[TreeAxis], taps: Sequence[TreeAxis]
) -> tuple[Affine, ...]:
    return tuple(
        o * dim.stride + k * dim.dilation - dim.padding
        for o, k, dim in zip(points, taps, relation.dims, strict=True)
    )


def _guards(indices: Sequence[Affine], sizes: Sequence[int]) -> tuple[Guard, ...]:
    return tuple(Guard(index, size) for index, size in zip(indices, sizes, strict=True))


def points_tree(
    relation: ConvolutionExtents, x: TreeTensor, w: TreeTensor, y: TreeTensor, made: ResultOf
) -> tuple[Each]:
    """Return the loops that write y: every point sums its window."""
    n, g, i, j = relation.axes()
    points, taps = _points(relation), _taps(relation)
    at = _windows(relation, points, taps)
    index: Index = (n, _channel(g, j), *points)
    element = made.source(x.load(n, _channel(g, i), *at), index)
    term = element * made.weights(w.load(*relation.weights_index(g, i, j, taps)), index)
    guards = _guards(at, [dim.window for dim in relation.dims])
    summed = Each((*relation.outer(i), *taps), (fold_over("sum", TOTAL, term),), guards)
    value = made.result(Ref(TOTAL), index)
    return (Each(relation.outer(n, g, j, *points), (summed, y.store(index, value))),)


def weights_tree(
    relation: ConvolutionExtents, x: TreeTensor, w: TreeTensor, y: TreeTensor, made: ResultOf
) -> tuple[Each]:
    """Return the loops that write w: every weight sums over the batch and the points."""
    n, g, i, j = relation.axes()
    points, taps = _points(relation), _taps(relation)
    at = _windows(relation, points, taps)
    term = x.load(n, _channel(g, i), *at) * y.load(n, _channel(g, j), *points)
    guards = _guards(at, [dim.window for dim in relation.dims])
    summed = Each((n, *points), (fold_over("sum", TOTAL, term),), guards)
    index = relation.weights_index(g, i, j, taps)
    return (Each(relation.outer(g, j, i, *taps), (summed, w.store(index, made.result(Ref(TOTAL), index)))),)


# --- loops that write x -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Residue:
    """The positions `first`, `first + stride`, ... of x along a dim, and their taps.

    Tap number t is `tap - t * tap_step`, so that the point `position + point - t * -point_step` moves forward
    with t. Without taps it stands for `count` adjacent residues, which all have equally many positions.
    """

    first: int
    positions: int
    taps: int
    tap: int
    tap_step: int
    point: int
    point_step: int
    count: int = 1


def windows_tree(
    relation: ConvolutionExtents, x: TreeTensor, w: TreeTensor, y: TreeTensor, made: ResultOf
) -> tuple[Each, ...]:
    """Return the loops that write x: one for each residue of the strides, with its own taps."""
    return tuple(
        _window_loops(relation, (x, w, y), residues, made)
        for residues in product(*map(tuple, map(_residues, relation.dims)))
    )


def _residues(dim: Taps) -> Iterator[_Residue]:
    """Yield residues: positions of x are `first + stride * q`; a tap k belongs if it divides the rest."""
    # Strides can far exceed kernels: residues without taps are found in runs, not one by one.
    by_residue: dict[int, list[int]] = {}
    for k in range(dim.kernel):
        by_residue.setdefault((k * dim.dilation - dim.padding) % dim.stride, []).append(k)
    end = min(dim.stride, dim.window)
    # From here on each residue has one position less.
    fewer = dim.window % dim.stride
    ends = sorted({end, *(fewer,) * (fewer < end), *(first for first in by_residue if first < end)})
    first = 0
    while first < end:
        positions = -(-(dim.window - first) // dim.stride)
        fitting = by_residue.get(first)
        if not fitting:
            count = next(other for other in ends if other > first) - first
            yield _Residue(first, positions, 0, 0, 0, 0, 0, count)
            first += count
            continue
        # Taps run downward from the last one: then points go up.
        tap, step = fitting[-1], dim.stride // gcd(dim.stride, dim.dilation)
        point = (first + dim.padding - tap * dim.dilation) // dim.stride
        yield _Residue(first, positions, len(fitting), tap, step, point, step * dim.dilation // dim.stride)
        first += 1


def _window_loops(
    relation: ConvolutionExtents,
    tensors: tuple[TreeTensor, TreeTensor, TreeTensor],
    residues: Sequence[_Residue],
    made: ResultOf,
) -> Each:
    x, w, y = tensors
    n, g, i, j = relation.axes()
    places = tuple(TreeAxis(f"q{d}", residue.positions) for d, residue in enumerate(residues))
    taps = tuple(TreeAxis(f"t{d}", residue.taps) for d, residue in enumerate(residues))
    rows = list(zip(relation.dims, residues, places, taps, strict=True))
    index: Index = (n, _channel(g, i), *(q * dim.stride + r.first for dim, r, q, _ in rows))
    axes = relation.outer(n, g, i, *places)
    if any(residue.taps == 0 for residue in residues):
        beside = tuple(TreeAxis(f"r{d}", residue.count) for d, residue in enumerate(residues))
        more = tuple(r for r in beside if r.extent > 1)
        at = [q * dim.stride + r.first for dim, r, q, _ in rows]
        at = [place + r if r in more else place for place, r in zip(at, beside, strict=True)]
        index = (*index[:2], *at)
        return Each((*axes, *more), (x.store(index, made.result(Const(0.0), index)),))
    at = [q + t * r.point_step + r.point for _, r, q, t in rows]
    kernel = [Affine(((t.name, -r.tap_step),), r.tap) for _, r, _, t in rows]
    element = made.source(y.load(n, _channel(g, j), *at), index)
    term = element * made.weights(w.load(*relation.weights_index(g, i, j, kernel)), index)
    guards = _guards(at, [dim.points for dim in relation.dims])
    summed: Item = Each((*relation.outer(j), *taps), (fold_over("sum", TOTAL, term),), guards)
    return Each(axes, (summed, x.store(index, made.result(Ref(TOTAL), index))))
