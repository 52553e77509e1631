"""Random descriptors for hypothesis: every tag, gaps, windows, broadcast and reversed sources."""

from __future__ import annotations

from math import lcm, prod

from hypothesis import strategies as st

from restride.desc.inner_blocks import usual_steps
from restride.desc.memory_desc import MemoryDesc
from restride.desc.tags import Tag
from restride.dtypes import DataType
from restride.ir.conversion import PROVIDED

TYPES = PROVIDED
# Extents around the sizes of registers, tiles and blocks, where tails begin.
_EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 48, 63, 64, 65, 70, 96, 100, 129)
_BLOCKS = (2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64)
_MOST_ELEMENTS = 20_000
_MOST_PADDED = 60_000
_MOST_STEPS = 4096


@st.composite
def shapes(draw: st.DrawFn, max_ndims: int = 6, most: int = _MOST_ELEMENTS) -> tuple[int, ...]:
    """Dims of up to `most` elements."""
    dims: list[int] = []
    room = most
    for _ in range(draw(st.integers(1, max_ndims))):
        fitting = [n for n in _EXTENTS if n <= room]
        dims.append(draw(st.sampled_from(fitting)))
        room //= dims[-1]
    return tuple(draw(st.permutations(dims)))


@st.composite
def tags(draw: st.DrawFn, dims: tuple[int, ...], most: int = _MOST_PADDED) -> Tag:
    """Axes in any order, up to four inner blocks of any axes, nested or not, while padding stays small.

    Of every fourth the digits are in any order.
    """
    order = tuple(draw(st.permutations(range(len(dims)))))
    blocks: list[tuple[int, int]] = []
    wanted = draw(st.lists(st.tuples(st.sampled_from(_BLOCKS), st.integers(0, len(dims) - 1)), max_size=4))
    for block in wanted:
        if _padded(dims, [*blocks, block]) <= most:
            blocks.append(block)
    sizes, axes = tuple(size for size, _ in blocks), tuple(axis for _, axis in blocks)
    if len(blocks) < 2 or draw(st.integers(0, 3)):
        return Tag(order, sizes, axes)
    digits = draw(st.permutations([*zip(sizes, axes, usual_steps(sizes, axes), strict=True)]))
    return Tag(order, *(tuple(digit[i] for digit in digits) for i in range(3)))


def _padded(dims: tuple[int, ...], blocks: list[tuple[int, int]]) -> int:
    whole = [prod(size for size, axis in blocks if axis == d) for d in range(len(dims))]
    return prod(-(-n // block) * block for n, block in zip(dims, whole, strict=True))


@st.composite
def strided(draw: st.DrawFn, dims: tuple[int, ...], data_type: DataType) -> MemoryDesc:
    """Axes in any order with gaps between them, some reversed: no two elements share a place."""
    strides = [0] * len(dims)
    stride = draw(st.sampled_from((1, 1, 1, 2, 3)))
    for axis in draw(st.permutations(range(len(dims)))):
        strides[axis] = stride
        stride = stride * dims[axis] + draw(st.sampled_from((0, 0, 0, 1, 3, 16)))
    signs = draw(st.tuples(*(st.sampled_from((1, 1, 1, -1)) for _ in dims)))
    return _lifted(dims, data_type, [s * sign for s, sign in zip(strides, signs, strict=True)], draw)


@st.composite
def windows(draw: st.DrawFn, dims: tuple[int, ...], data_type: DataType) -> MemoryDesc:
    """A submemory of a larger, maybe blocked tensor: gaps, an offset0, padding only at the far border."""
    order = draw(tags(dims))
    blocks = [
        prod(b for b, a in zip(order.inner_blks, order.inner_idxs, strict=True) if a == d)
        for d in range(len(dims))
    ]
    start, whole = [], []
    for n, block in zip(dims, blocks, strict=True):
        start.append(block * draw(st.sampled_from((0, 0, 1, 2))))
        after = draw(st.sampled_from((0, 0, 1, 5))) if n % block == 0 or n < block else 0
        whole.append(start[-1] + n + after)
    if prod(whole) > 3 * _MOST_PADDED:
        return MemoryDesc(dims, data_type, order)
    return MemoryDesc(whole, data_type, order).submemory_desc(dims, start)


@st.composite
def shared(draw: st.DrawFn, dims: tuple[int, ...], data_type: DataType) -> MemoryDesc:
    """A source whose elements may share a place: broadcast axes, sliding windows, reversed axes (N8)."""
    strides = [draw(st.sampled_from((0, 0, 1, 1, 2, 3, 7, 16, -1, -1, -2, -16))) for _ in dims]
    return _lifted(dims, data_type, strides, draw)


def _lifted(dims: tuple[int, ...], data_type: DataType, strides: list[int], draw: st.DrawFn) -> MemoryDesc:
    below = sum((n - 1) * -s for n, s in zip(dims, strides, strict=True) if s < 0)
    offset0 = below + draw(st.sampled_from((0, 0, 1, 5, 64)))
    return MemoryDesc.from_strides(dims, data_type, strides, offset0)


def tagged(dims: tuple[int, ...], data_type: DataType) -> st.SearchStrategy[MemoryDesc]:
    """Descriptors of any tag."""
    return tags(dims).map(lambda tag: MemoryDesc(dims, data_type, tag))


def destinations(dims: tuple[int, ...], data_type: DataType) -> st.SearchStrategy[MemoryDesc]:
    """Descriptors that can be written: injective."""
    return st.one_of(
        tagged(dims, data_type), tagged(dims, data_type), strided(dims, data_type), windows(dims, data_type)
    )


def sources(dims: tuple[int, ...], data_type: DataType) -> st.SearchStrategy[MemoryDesc]:
    """Descriptors that can be read."""
    return st.one_of(destinations(dims, data_type), tagged(dims, data_type), shared(dims, data_type))


data_types = st.sampled_from(TYPES)


@st.composite
def crowded(draw: st.DrawFn) -> tuple[MemoryDesc, MemoryDesc]:
    """Six to twelve short axes, many of them blocked: more partial blocks than can be peeled."""
    dims = tuple(draw(st.lists(st.sampled_from((1, 2, 3, 3)), min_size=6, max_size=12)))
    blocked = [d for d in range(len(dims)) if draw(st.integers(0, 3))]
    while blocked and _padded(dims, [(2, d) for d in blocked]) > 2 * _MOST_PADDED:
        blocked.pop()
    plain = draw(st.permutations(range(len(dims))))
    tag = Tag(tuple(draw(st.permutations(range(len(dims))))), (2,) * len(blocked), tuple(blocked))
    return MemoryDesc(dims, draw(data_types), Tag(tuple(plain))), MemoryDesc(dims, draw(data_types), tag)


@st.composite
def pairs(draw: st.DrawFn, max_ndims: int = 6, most: int = _MOST_ELEMENTS) -> tuple[MemoryDesc, MemoryDesc]:
    """A source and a destination of equal dims."""
    dims = draw(shapes(max_ndims, most))
    return draw(sources(dims, draw(data_types))), draw(destinations(dims, draw(data_types)))


def meet_soon(*mds: MemoryDesc) -> bool:
    """True where the blocks of all meet again within the steps that are provided."""
    return all(lcm(*(_block(md, dim) for md in mds)) <= _MOST_STEPS for dim in range(mds[0].ndims))


def _block(md: MemoryDesc, dim: int) -> int:
    return prod(size for size, axis in zip(md.inner_blks, md.inner_idxs, strict=True) if axis == dim)
