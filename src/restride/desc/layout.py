"""Where each element lies: dims, strides and inner blocks as one frozen value, with its arithmetic (spec 2.1,
M10, M16).

All offsets and strides count elements, all arithmetic is in Python integers, so nothing here can overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple

from .tags import Tag

RUNTIME_DIM = -(2**63)
"""Stands for a dim or stride that is known only at execution (`DNNL_RUNTIME_DIM_VAL`)."""

# Programs describe the same few tensors again and again: what takes Python long is kept for so many of them.
_KEPT = 1024


class Level(NamedTuple):
    """One digit of a position: `position[axis] = Σ digit * weight`, `offset = offset0 + Σ digit * stride`."""

    axis: int
    extent: int
    weight: int
    stride: int


@dataclass(frozen=True, slots=True)
class Layout:
    """A blocked layout. Plain layouts have no inner blocks. `strides[d]` steps over the blocks of axis d."""

    dims: tuple[int, ...]
    padded_dims: tuple[int, ...]
    strides: tuple[int, ...]
    inner_blks: tuple[int, ...] = ()
    inner_idxs: tuple[int, ...] = ()
    offset0: int = 0

    @property
    def has_runtime(self) -> bool:
        """True where a dim or stride is known only at execution."""
        return RUNTIME_DIM in self.dims or RUNTIME_DIM in self.strides

    @property
    def blocks(self) -> tuple[int, ...]:
        """The product of the inner blocks of each axis; 1 for an axis that is not blocked."""
        return block_products(len(self.dims), self.inner_blks, self.inner_idxs)

    @property
    def inner_strides(self) -> tuple[int, ...]:
        """Stride of each inner block; they lie densely, the last innermost."""
        return tuple(prod(self.inner_blks[i + 1 :]) for i in range(len(self.inner_blks)))

    @property
    def outer_extents(self) -> tuple[int, ...]:
        """Blocks along each axis. A submemory smaller than its block counts as one."""
        return tuple(-(-padded // blk) for padded, blk in zip(self.padded_dims, self.blocks, strict=True))

    @property
    def outer_order(self) -> tuple[int, ...]:
        """Axes outermost to innermost: by falling stride, then block count, then by letter (spec 1.6)."""
        extents = self.outer_extents
        return tuple(sorted(range(len(self.dims)), key=lambda d: (-abs(self.strides[d]), -extents[d], d)))


NO_LAYOUT = Layout((), (), ())
"""The layout of the zero descriptor."""


def block_products(ndims: int, blks: Sequence[int], idxs: Sequence[int]) -> tuple[int, ...]:
    """The product of the inner blocks of each of `ndims` axes."""
    products = [1] * ndims
    for blk, d in zip(blks, idxs, strict=True):
        products[d] *= blk
    return tuple(products)


@lru_cache(maxsize=_KEPT)
def layout_of_tag(dims: tuple[int, ...], tag: Tag) -> Layout:
    """The dense layout of `dims` in the order of `tag`; blocked axes are padded up to whole blocks (M11).

    A runtime dim makes its padded dim and every stride outside it runtime. A zero dim does not zero the
    strides.
    """
    blocks = block_products(len(dims), tag.inner_blks, tag.inner_idxs)
    padded = tuple(n if n == RUNTIME_DIM else -(-n // blk) * blk for n, blk in zip(dims, blocks, strict=True))
    strides = [0] * len(dims)
    stride = prod(tag.inner_blks)
    for d in reversed(tag.order):
        strides[d] = stride
        stride = (
            RUNTIME_DIM if RUNTIME_DIM in (stride, padded[d]) else stride * max(1, padded[d] // blocks[d])
        )
    return Layout(dims, padded, tuple(strides), tag.inner_blks, tag.inner_idxs)


def levels(layout: Layout) -> list[Level]:
    """The digits of a position, outer ones first: one per axis, then one per inner block."""
    blocks = layout.blocks
    extents = layout.outer_extents
    found = [Level(d, extents[d], blocks[d], layout.strides[d]) for d in range(len(layout.dims))]
    weights = list(blocks)
    for blk, d, stride in zip(layout.inner_blks, layout.inner_idxs, layout.inner_strides, strict=True):
        weights[d] //= blk
        found.append(Level(d, blk, weights[d], stride))
    return found


def axis_offset(layout: Layout, axis: int, position: int) -> int:
    """What `position` on `axis` adds to the offset: inner digits first, then whole blocks."""
    total = 0
    stride = 1
    for blk, i in zip(reversed(layout.inner_blks), reversed(layout.inner_idxs), strict=True):
        if i == axis:
            position, digit = divmod(position, blk)
            total += digit * stride
        stride *= blk
    return total + position * layout.strides[axis]


@lru_cache(maxsize=_KEPT)
def extent_range(layout: Layout) -> tuple[int, int]:
    """Lowest and one past the highest element offset of elements and padding; (0, 0) where there are none.

    Within an axis the offset grows with the position, or falls with a negative stride: the corners decide.
    """
    if 0 in layout.padded_dims:
        return 0, 0
    far = [axis_offset(layout, d, n - 1) for d, n in enumerate(layout.padded_dims)]
    low = layout.offset0 + sum(step for step in far if step < 0)
    return low, layout.offset0 + sum(step for step in far if step > 0) + 1


@lru_cache(maxsize=_KEPT)
def storage_elements(layout: Layout) -> int:
    """Elements of storage without offset0: the rule of the documents (M16), and never less than what is
    touched.

    Trailing gaps of a strided axis count. The rule alone would give 0 to a broadcast element (stride 0), and
    too little to overlapping windows.
    """
    if 0 in layout.dims:
        return 0
    counts = zip(layout.outer_extents, layout.strides, strict=True)
    size = max(1 if n == 1 else n * abs(stride) for n, stride in counts)
    low, high = extent_range(layout)
    return max(size, high - low, prod(layout.inner_blks))
