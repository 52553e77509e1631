"""Random loop nests for hypothesis, and plain buffers to run them on."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
from hypothesis import strategies as st

from restride.dtypes import DataType
from restride.ir.conversion import Array, storage_dtype
from restride.ir.interpret_nest import interpret
from restride.ir.nest import Axis, Bound, LoopNest, Stride, linear
from support.kernels import factors_of

_POISON = 0xFF


@st.composite
def nests(draw: st.DrawFn, bounded: bool = True, zero: bool = True) -> LoopNest:
    """A nest with an injective destination: strides, tables, reversed and partial axes, bounded dims."""
    axes: list[Axis] = []
    bounds: list[Bound] = []
    for _ in range(draw(st.integers(0, 2)) if bounded else 0):
        digits, bound = draw(_digits(len(bounds)))
        axes += digits
        bounds.append(bound)
    for _ in range(draw(st.integers(0, 3))):
        extent = draw(st.integers(1, 5))
        valid = draw(st.integers(0 if zero else 1, extent)) if draw(st.booleans()) else extent
        axes.append(Axis(extent, 0, 0, valid=valid))
    axes = draw(st.permutations(axes))
    axes = _with_destination(draw, axes)
    axes = [replace(axis, src=draw(_source(axis.extent))) for axis in axes]
    return LoopNest(
        src_type=draw(st.sampled_from((DataType.f32, DataType.u8, DataType.s32))),
        dst_type=draw(st.sampled_from((DataType.f32, DataType.s8, DataType.bf16))),
        axes=tuple(axes),
        src_base=_lift([a.src for a in axes]) + draw(st.integers(0, 3)),
        dst_base=_lift([a.dst for a in axes]) + draw(st.integers(0, 3)),
        compute=linear(draw(st.booleans()), draw(st.booleans())),
        bounds=tuple(bounds),
    ).verify()


@st.composite
def _digits(draw: st.DrawFn, index: int) -> tuple[list[Axis], Bound]:
    """The axes of one bounded dimension: a mixed radix, as reorders make it."""
    extents = [draw(st.integers(1, 4)), *draw(st.lists(st.integers(2, 4), max_size=2))]
    steps = [prod(extents[place + 1 :]) for place in range(len(extents))]
    whole = prod(extents)
    padded = draw(st.integers(1, whole))
    bound = Bound(draw(st.integers(0, padded)), padded)
    return [Axis(n, 0, 0, bound=index, step=s) for n, s in zip(extents, steps, strict=True)], bound


def _with_destination(draw: st.DrawFn, axes: list[Axis]) -> list[Axis]:
    """Give every axis a stride, or a shuffled table, such that no two positions share a place."""
    placed = list(axes)
    stride = draw(st.sampled_from((1, 1, 2)))
    for index in draw(st.permutations(range(len(axes)))):
        extent = axes[index].extent
        placed[index] = replace(axes[index], dst=draw(_places(extent, stride)))
        stride = stride * extent + draw(st.sampled_from((0, 0, 1)))
    return placed


def _places(extent: int, stride: int) -> st.SearchStrategy[Stride]:
    strides = st.sampled_from((stride, stride, -stride))
    tables = st.permutations(range(extent)).map(lambda order: tuple(i * stride for i in order))
    return st.one_of(strides, tables)


def _source(extent: int) -> st.SearchStrategy[Stride]:
    strides = st.sampled_from((0, 1, 2, 3, 4, 6, 12, -1, -4))
    tables = st.lists(st.integers(0, 30), min_size=extent, max_size=extent).map(tuple)
    return st.one_of(strides, strides, tables)


def _lift(moves: list[Stride]) -> int:
    """A base that keeps every offset at 0 or more, for up to five positions."""
    return sum(-4 * move for move in moves if isinstance(move, int) and move < 0)


def reach(nest: LoopNest) -> tuple[int, int]:
    """One past the highest offset of source and destination."""
    src = nest.src_base + sum(_furthest(a.src, a.extent) for a in nest.axes)
    dst = nest.dst_base + sum(_furthest(a.dst, a.extent) for a in nest.axes)
    return src + 1, dst + 1


def _furthest(move: Stride, extent: int) -> int:
    return max(move * (extent - 1), 0) if isinstance(move, int) else max(move, default=0)


def buffers(nest: LoopNest) -> tuple[Array, Array]:
    """A source of random bits and a destination of random bits, as wide as the nest reaches."""
    rng = np.random.default_rng(5)
    src, dst = (
        rng.integers(0, 256, n * kind.bits // 8, np.uint8).view(storage_dtype(kind))
        for n, kind in zip(reach(nest), (nest.src_type, nest.dst_type), strict=True)
    )
    return src, dst


def meaning(*parts: LoopNest, like: LoopNest | None = None) -> list[int]:
    """Run `parts` in turn on the buffers of `like` (by default the first part)."""
    src, dst = buffers(like or parts[0])
    for part in parts:
        interpret(part, src, dst, factors_of(part.compute, 0.75, -1.5))
    return [int(bits) for bits in dst]
