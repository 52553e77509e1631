"""The location of each element: a layout as a frozen value, index to offset and back (N8).

All offsets and strides count elements, all arithmetic is in Python integers, so nothing here can overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import gcd, prod
from typing import NamedTuple

from ..errors import refuse
from ..frozen import dataclass
from .tags import Tag

# --- layout ------------------------------------------------------------------
# Dims, strides and inner blocks as one frozen value, with its arithmetic.

RUNTIME_DIM = -(2**63)
"""Placeholder for a dim or stride known only at execution (`DNNL_RUNTIME_DIM_VAL`)."""

# Programs describe the same few tensors again and again: slow computations are cached for this many.
_CACHED_LAYOUTS = 1024


class LayoutDigit(NamedTuple):
    """One digit of a position: `position[axis] = Σ digit * weight`, `offset = offset0 + Σ digit * stride`."""

    axis: int
    extent: int
    weight: int
    stride: int


@dataclass(frozen=True, slots=True)
class BlockedLayout:
    """A blocked layout. Plain layouts have no inner blocks. `strides[d]` steps over the blocks of axis d."""

    dims: tuple[int, ...]
    padded_dims: tuple[int, ...]
    strides: tuple[int, ...]
    inner_blks: tuple[int, ...] = ()
    inner_idxs: tuple[int, ...] = ()
    inner_steps: tuple[int, ...] = ()
    offset0: int = 0

    @property
    def has_runtime(self) -> bool:
        """True if a dim or stride is known only at execution."""
        return RUNTIME_DIM in self.dims or RUNTIME_DIM in self.strides

    @property
    def inner(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Sizes, axes and steps of the inner blocks, outer to inner: the part of a tag after its order."""
        return self.inner_blks, self.inner_idxs, self.inner_steps

    @property
    def blocks(self) -> tuple[int, ...]:
        """The product of the inner blocks of each axis; 1 for an axis that is not blocked."""
        return block_products(len(self.dims), self.inner_blks, self.inner_idxs)

    @property
    def inner_strides(self) -> tuple[int, ...]:
        """Stride of each inner block; they are dense, the last innermost."""
        return tuple(prod(self.inner_blks[i + 1 :]) for i in range(len(self.inner_blks)))

    @property
    def outer_extents(self) -> tuple[int, ...]:
        """Number of blocks along each axis. A submemory smaller than its block counts as one."""
        return tuple(-(-padded // blk) for padded, blk in zip(self.padded_dims, self.blocks, strict=True))

    @property
    def outer_order(self) -> tuple[int, ...]:
        """Axes outermost to innermost: by descending stride, then block count, then letter."""
        extents = self.outer_extents
        return tuple(sorted(range(len(self.dims)), key=lambda d: (-abs(self.strides[d]), -extents[d], d)))


# Its name in pickles of earlier versions.
Layout = BlockedLayout

NO_LAYOUT = BlockedLayout((), (), ())
"""The layout of the zero descriptor."""


def block_products(ndims: int, blks: Sequence[int], idxs: Sequence[int]) -> tuple[int, ...]:
    """Return the product of the inner blocks of each of `ndims` axes."""
    products = [1] * ndims
    for blk, d in zip(blks, idxs, strict=True):
        products[d] *= blk
    return tuple(products)


@lru_cache(maxsize=_CACHED_LAYOUTS)
def layout_of_tag(dims: tuple[int, ...], tag: Tag) -> BlockedLayout:
    """Return the dense layout of `dims` in the order of `tag`; blocked axes are padded to whole blocks.

    A runtime dim makes its padded dim and every stride outside it runtime too. A zero dim does not make the
    strides zero.
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
    return BlockedLayout(dims, padded, tuple(strides), tag.inner_blks, tag.inner_idxs, tag.inner_steps)


def layout_digits(layout: BlockedLayout) -> list[LayoutDigit]:
    """Return the digits of a position, outer ones first: one per axis, then one per inner block."""
    blocks = layout.blocks
    extents = layout.outer_extents
    digits = [LayoutDigit(d, extents[d], blocks[d], layout.strides[d]) for d in range(len(layout.dims))]
    inner = zip(*layout.inner, layout.inner_strides, strict=True)
    return digits + [LayoutDigit(d, blk, step, stride) for blk, d, step, stride in inner]


def axis_offset(layout: BlockedLayout, axis: int, position: int) -> int:
    """Return the offset of `position` on `axis`: of its digits in the inner blocks, then of whole blocks."""
    total, stride, whole = 0, 1, 1
    for blk, i, step in zip(*map(reversed, layout.inner), strict=True):
        if i == axis:
            total += position // step % blk * stride
            whole *= blk
        stride *= blk
    return total + position // whole * layout.strides[axis]


@lru_cache(maxsize=_CACHED_LAYOUTS)
def extent_range(layout: BlockedLayout) -> tuple[int, int]:
    """Return the lowest offset, and one past the highest, of elements and padding; (0, 0) if there are none.

    Along an axis the offset is highest, or lowest with a negative stride, at its last position; in a
    truncated block whose digits are not in order, possibly at an earlier one, where all lower digits are at
    their maximum.
    """
    if 0 in layout.padded_dims:
        return 0, 0
    ends = [_last_positions(layout, d) for d in range(len(layout.dims))]
    far = [[axis_offset(layout, d, i) for i in last] for d, last in enumerate(ends)]
    low = layout.offset0 + sum(min(0, *steps) for steps in far)
    return low, layout.offset0 + sum(max(0, *steps) for steps in far) + 1


def _last_positions(layout: BlockedLayout, axis: int) -> list[int]:
    """Return an axis's last position, and the last at which all digits below one of its blocks are full."""
    last = layout.padded_dims[axis] - 1
    steps = [step for step, i in zip(layout.inner_steps, layout.inner_idxs, strict=True) if i == axis]
    return [last, *(at for step in steps if (at := last // step * step - 1) > 0)]


@lru_cache(maxsize=_CACHED_LAYOUTS)
def storage_elements(layout: BlockedLayout) -> int:
    """Return the elements of storage without offset0: oneDNN's rule, but never less than the elements
    touched.

    Trailing gaps of a strided axis count. The rule alone would give 0 for a broadcast element (stride 0), and
    too little for overlapping windows.
    """
    if 0 in layout.dims:
        return 0
    counts = zip(layout.outer_extents, layout.strides, strict=True)
    size = max(1 if n == 1 else n * abs(stride) for n, stride in counts)
    low, high = extent_range(layout)
    return max(size, high - low, prod(layout.inner_blks))


# --- from offsets back to indices --------------------------------------------
# The inverse of a layout, and whether it has one (N8).

_MAX_STEPS = 100_000


class _UnknownDigit(NamedTuple):
    """An unknown integer between `least` and `most`; each unit moves the offset by `stride` > 0."""

    stride: int
    least: int
    most: int


class _TooLongError(Exception):
    """The search for digits exceeded its limit, which is possible only for strides that do not nest."""


class _DigitSearch:
    """Finds digits with `Σ digit * stride == target`, widest stride first.

    A digit is tried only if the narrower strides can make up the remainder: it is within reach and divisible
    by their common divisor. For strides that nest this leaves one value each, so the search does not branch.
    """

    def __init__(self, digits: list[_UnknownDigit]) -> None:
        self.digits = digits
        self.low, self.high, self.common = [0], [0], [0]
        for digit in reversed(digits):
            self.low.insert(0, self.low[0] + digit.least * digit.stride)
            self.high.insert(0, self.high[0] + digit.most * digit.stride)
            self.common.insert(
                0, gcd(self.common[0], digit.stride) if digit.least < digit.most else self.common[0]
            )
        self.steps = 0

    def solve(self, target: int, depth: int = 0) -> tuple[int, ...] | None:
        """Return digits from `depth` on that sum to `target`, or None."""
        self.steps += 1
        if self.steps > _MAX_STEPS:
            raise _TooLongError
        if depth == len(self.digits):
            return () if target == 0 else None
        for value in self.choices(target, depth):
            rest = self.solve(target - value * self.digits[depth].stride, depth + 1)
            if rest is not None:
                return (value, *rest)
        return None

    def choices(self, target: int, depth: int) -> range:
        """Return the values of one digit that leave a remainder which the later ones can reach."""
        digit, after = self.digits[depth], depth + 1
        least = max(digit.least, -((self.high[after] - target) // digit.stride))
        most = min(digit.most, (target - self.low[after]) // digit.stride)
        shared = gcd(self.common[after], digit.stride)
        if target % shared:
            return range(0)
        period = max(1, self.common[after] // shared)
        first = target // shared * pow(digit.stride // shared, -1, period) if period > 1 else 0
        return range(least + (first - least) % period, most + 1, period)


def index_of(layout: BlockedLayout, offset: int) -> tuple[int, ...] | None:
    """Return the logical index of the element at `offset`; None for padding, gaps, and outside.

    Raises Unimplemented if overlapping strides make the search too long.
    """
    if 0 in layout.dims:
        return None
    levels = sorted(
        (level for level in layout_digits(layout) if level.stride), key=lambda level: -abs(level.stride)
    )
    backwards = sum((level.extent - 1) * level.stride for level in levels if level.stride < 0)
    search = _DigitSearch([_UnknownDigit(abs(level.stride), 0, level.extent - 1) for level in levels])
    try:
        digits = search.solve(offset - layout.offset0 - backwards)
    except _TooLongError:
        raise refuse("RS-L01:too-many-overlapping", strides=layout.strides) from None
    if digits is None:
        return None
    position = [0] * len(layout.dims)
    for level, digit in zip(levels, digits, strict=True):
        position[level.axis] += level.weight * (digit if level.stride > 0 else level.extent - 1 - digit)
    return tuple(position) if all(i < n for i, n in zip(position, layout.dims, strict=True)) else None


def is_injective(layout: BlockedLayout) -> bool:
    """Return True if no two positions, padding included, share an offset.

    Two positions clash if differences of digits, not all zero, sum to offset 0. That is impossible for
    strides that nest; for others the differences are searched. A search that would take too long counts as a
    clash.
    """
    levels = [level for level in layout_digits(layout) if level.extent > 1]
    if 0 in layout.dims:
        return True
    if any(level.stride == 0 for level in levels):
        return False
    steps = sorted(((abs(level.stride), level.extent) for level in levels), reverse=True)
    search = _DigitSearch([_UnknownDigit(stride, 1 - extent, extent - 1) for stride, extent in steps])
    try:
        return not any(_clashes_from(search, depth) for depth in range(len(steps)))
    except _TooLongError:
        return False


def _clashes_from(search: _DigitSearch, depth: int) -> bool:
    """Return True if differences exist that start at `depth`; by symmetry the first can be positive."""
    digit = search.digits[depth]
    if digit.stride > search.high[depth + 1]:
        return False
    values = (value for value in search.choices(0, depth) if value > 0)
    return any(search.solve(-value * digit.stride, depth + 1) is not None for value in values)
