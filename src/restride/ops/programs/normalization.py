"""Normalizations, batch, layer and group, forward and backward: problems and their programs.

    y = (x - mean) * inv * scale + shift,  inv = 1 / sqrt(variance + eps)

They differ in what is reduced to one mean and variance, the **inner** axes, and in what has separate ones,
the **outer** axes; scale and shift always belong to the channels:

    batch   outer c           inner n, spatial
    layer   outer all others  inner the last
    group   outer n, group    inner channels of the group, spatial

Backward, with dy the gradient of y, g = dy * scale and h = (x - mean) * inv:

    diff_shift = sum(dy),  diff_scale = sum(dy * h),
    diff_src = inv * (g - mean(g) - h * mean(g * h)),  or  inv * g  if the statistics were given

A variance is computed in two passes over a piece that stays in cache; pieces are combined by their counts,
means and sums of squares. So it is accurate however far the mean is from zero.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...ir.expression import Affine, Const, Expr, Load, Ref, Scalar, TreeAxis, apply, index_of
from ...ir.numbers import Number
from ...ir.program import Place, TreeStep
from ...ir.tree import Each, Fold, Item, Let, LoopTree, TreeTensor, fold_over
from ...schedule.fold_order import (
    CHANNEL_PIECE,
    FEWEST_ROWS,
    LEAST_LONG_COLUMN_PIECE,
    LONG_COLUMN_PIECE,
    ROWS_PIECE,
)
from ...schedule.trees.pieces import pieces_of

Index = tuple[Affine, ...]


class NormKind(enum.Enum):
    """The elements that are normalized together."""

    batch = "batch"
    layer = "layer"
    group = "group"


@dataclass(frozen=True, slots=True)
class NormAxes:
    """The loops of a normalization, and how they index its tensors.

    `at` indexes a tensor of data, `stats` a statistic, `channel` scale and shift.
    """

    outer: tuple[TreeAxis, ...]
    inner: tuple[TreeAxis, ...]
    at: Index
    stats: Index
    channel: Index

    @property
    def count(self) -> int:
        """The number of elements that a statistic covers."""
        return prod(axis.extent for axis in self.inner)

    @property
    def channels(self) -> tuple[TreeAxis, ...]:
        """The axes along which a scale varies."""
        names = {name for index in self.channel for name, _ in index.terms}
        return tuple(axis for axis in (*self.outer, *self.inner) if axis.name in names)

    @property
    def others(self) -> tuple[TreeAxis, ...]:
        """The axes along which a scale is broadcast."""
        own = self.channels
        return tuple(axis for axis in (*self.outer, *self.inner) if axis not in own)


def norm_axes(kind: NormKind, dims: Sequence[int], groups: int = 1) -> NormAxes:
    """Return the axes of a normalization of data of these dims: batch, channels, spatial dims, or rows."""
    axes = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(dims))
    if kind is NormKind.layer:
        return NormAxes(axes[:-1], axes[-1:], index_of(*axes), index_of(*axes[:-1]), index_of(axes[-1]))
    n, c, *spatial = axes
    if kind is NormKind.batch:
        return NormAxes((c,), (n, *spatial), index_of(*axes), index_of(c), index_of(c))
    size = dims[1] // groups
    group, place = TreeAxis("group", groups), TreeAxis("place", size)
    channel = group * size + place
    at = index_of(n, channel, *spatial)
    return NormAxes((n, group), (place, *spatial), at, index_of(n, group), (channel,))


def stat_dims(kind: NormKind, dims: Sequence[int], groups: int = 1) -> tuple[int, ...]:
    """Return the dims of mean and variance."""
    return tuple(axis.extent for axis in norm_axes(kind, dims, groups).outer)


def step_of(
    loops: Sequence[Each],
    tensors: Mapping[str, TreeTensor],
    places: Mapping[str, Place],
    work_bytes: int,
    scalars: int = 0,
    *,
    is_wide: bool = False,
) -> TreeStep:
    """Return a step of loops, with the tensors that they use; computed in f64 if any is f64."""
    tree = LoopTree(tuple(tensors.values()), tuple(loops), scalars, Number.real(is_wide=is_wide))
    names = {load.tensor for load in tree.loads} | {store.tensor for store in tree.stores}
    used = tuple(tensor for name, tensor in tensors.items() if name in names)
    tree = replace(tree, tensors=used).verify()
    return TreeStep(tree, tuple(places[tensor.name] for tensor in used), work_bytes, (0, scalars))


def dense(name: str, sizes: Sequence[int], data_type: DataType = DataType.f32) -> TreeTensor:
    """Return a temporary."""
    return TreeTensor.row_major(name, tuple(sizes), data_type)


# --- statistics --------------------------------------------------------------------------------------------


def statistics(axes: NormAxes, value: Load, *, is_rms: bool) -> tuple[Item, ...]:
    """Return the items that compute `mean` and `variance` at one position of the outer axes; a root mean
    square has no mean.
    """
    count = Const(float(axes.count))
    if is_rms:
        return (
            Each(axes.inner, (fold_over("sum", "squares", value * value),)),
            Let("mean", Const(0.0)),
            Let("variance", Ref("squares") / count),
        )
    return (
        Each(axes.inner, (fold_over("sum", "total", value),)),
        Let("mean", Ref("total") / count),
        Each(axes.inner, (*_distance(value, "mean"), fold_over("sum", "squares", Ref("d") * Ref("d")))),
        Let("variance", Ref("squares") / count),
    )


def column_statistics(axes: NormAxes, value: Load, *, is_rms: bool) -> tuple[Item, ...]:
    """Return the same for a column, whose elements are added in order; a long one in pieces."""
    outside, inside, _ = pieces = pieces_of(axes.inner, LONG_COLUMN_PIECE)
    count = prod(axis.extent for axis in inside)
    if min(count, axes.count // count) < LEAST_LONG_COLUMN_PIECE:
        return statistics(axes, value, is_rms=is_rms)
    at = replace(value, index=tuple(index.with_axes(pieces.moved) for index in value.index))
    if is_rms:
        piece: tuple[Item, ...] = (Each(inside, (fold_over("sum", "piece", at * at),)),)
        fold = fold_over("sum", "squares", Ref("piece"))
    else:
        piece = _moments(at, inside, Const(float(count)), "piece")
        states = (Const(float(count)), Ref("part"), Ref("piece"))
        fold = Fold("moments", ("count", "mean", "squares"), states)
    mean = (Let("mean", Const(0.0)),) if is_rms else ()
    return (Each(outside, (*piece, fold)), *mean, Let("variance", Ref("squares") / Const(float(axes.count))))


def _moments(value: Expr, inside: tuple[TreeAxis, ...], count: Const, squares: str) -> tuple[Item, ...]:
    """Return the items that compute the mean of a piece, `part`, and the sum of squares around it."""
    return (
        Each(inside, (fold_over("sum", "total", value),)),
        Let("part", Ref("total") / count),
        Each(inside, (*_distance(value, "part"), fold_over("sum", squares, Ref("d") * Ref("d")))),
    )


def _distance(value: Expr, mean: str) -> tuple[Let, ...]:
    return (Let("d", value - Ref(mean)),)


class RowPieces(NamedTuple):
    """Rows cut into pieces: axes of pieces, axes of the rows in a piece, and the loops over both."""

    outside: tuple[TreeAxis, ...]
    inside: tuple[TreeAxis, ...]
    axes: NormAxes


def row_pieces(axes: NormAxes) -> RowPieces | None:
    """Return the pieces in which gradients of rows are computed; None if a piece would have too few rows."""
    outside, inside, _ = pieces = pieces_of(axes.outer, max(ROWS_PIECE // max(axes.count, 1), 1))
    if prod(axis.extent for axis in inside) < FEWEST_ROWS:
        return None
    at, stats = (tuple(index.with_axes(pieces.moved) for index in each) for each in (axes.at, axes.stats))
    return RowPieces(outside, inside, NormAxes((*outside, *inside), axes.inner, at, stats, axes.channel))


def piece_loops(
    axes: NormAxes, src: TreeTensor, means: TreeTensor, squares: TreeTensor
) -> tuple[Each, tuple[Item, ...]]:
    """Return the loop that computes the mean and the squares of each piece, and the items that combine the
    pieces of one position into `mean` and `variance`.
    """
    outside, inside, _ = pieces = pieces_of(axes.inner, CHANNEL_PIECE)
    at = tuple(index.with_axes(pieces.moved) for index in axes.at)
    value, count = src.load(*at), prod(axis.extent for axis in inside)
    place = (*outside, *axes.outer)
    first = Each(
        place,
        (
            *_moments(value, inside, Const(float(count)), "squares"),
            means.store(place, Ref("part")),
            squares.store(place, Ref("squares")),
        ),
    )
    states = (Const(float(count)), means.load(*place), squares.load(*place))
    together = (
        Each(outside, (Fold("moments", ("count", "mean", "squares"), states),)),
        Let("variance", Ref("squares") / Const(float(axes.count))),
    )
    return first, together


def piece_sizes(axes: NormAxes) -> tuple[int, ...]:
    """Return the extents of what is kept of each piece; empty if there is only one."""
    outside = pieces_of(axes.inner, CHANNEL_PIECE).outside
    if prod(axis.extent for axis in outside) < 2:
        return ()
    return tuple(axis.extent for axis in (*outside, *axes.outer))


# --- values ------------------------------------------------------------------------------------------------


def inverse(variance: Expr) -> Expr:
    """Return `1 / sqrt(variance + eps)`; eps is scalar 0."""
    return 1.0 / apply("sqrt", variance + Scalar(0))


def is_provided(md: MemoryDesc) -> bool:
    """Return whether a type can be normalized."""
    return md.data_type in (DataType.f32, DataType.bf16, DataType.f16, DataType.s8, DataType.u8)
