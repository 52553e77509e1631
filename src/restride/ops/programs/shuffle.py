"""Shuffle: a reorder whose source axis is split and transposed.

The shuffled axis of C channels is a matrix of `group_size` columns in the source, and its transpose in the
destination: with `rows = C / group_size`, `dst[v * rows + u] = src[u * group_size + v]`. So the index in the
destination has the digits v and u, of which v is the finer one in the source. Backward equals forward with
the two factors swapped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import prod

from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...errors import Unimplemented
from ...ir.digits import (
    IndexDigit,
    IndexDigits,
    axes_of_digits,
    common_digits,
    digits_of,
    index_digits,
    nest_of,
)
from ...ir.nest import Axis, Bound, Compute, LoopNest, as_int
from ...ir.nest_rewrites import normalize
from ...ir.staged_nest import Flush, StagedNest, StridedRun, runs_of
from ...schedule.machine import LINE, NOMINAL
from ...schedule.moves.shuffled_axis import ShuffledAxis
from ...schedule.moves.staged import one_stage

# --- exchange ----------------------------------------------------------------
# The shuffled axis alone: digits of its index that move by a stride on both sides, if there are any.


# --- shuffle -----------------------------------------------------------------

# Strides of the positions and of the axes inside them: in the tensor read, and in the tensor written.
_Others = tuple[list[int], list[int]]
# The type by which elements of each width in bits are moved together.
_TYPE_OF_BITS = {16: DataType.f16, 32: DataType.f32, 64: DataType.f64}


def shuffle_nest(src: MemoryDesc, dst: MemoryDesc, axis: int, group_size: int) -> LoopNest:
    """Return the nest that shuffles `axis` of `src` into `dst` and zeros the padding of `dst`.

    Both descriptors are concrete, of equal dims, and of types of one width; `group_size` divides the axis.
    """
    dims = [common_digits(src, dst, dim) for dim in range(dst.ndims)]
    if 1 < group_size < dst.dims[axis]:
        dims[axis] = _digits(src, dst, axis, group_size)
    nest = nest_of(src, dst, Compute(), dims)
    # Only bits are moved, so one of the 4-bit types stands for all.
    return replace(nest, src_type=DataType.u4, dst_type=DataType.u4) if src.data_type.bits == 4 else nest


def _digits(src: MemoryDesc, dst: MemoryDesc, axis: int, group_size: int) -> list[Axis]:
    try:
        return _exchange(src, dst, axis, group_size).digits()
    except Unimplemented as error:
        where = f"src {src}; dst {dst}; axis {axis}, group size {group_size}"
        raise Unimplemented(
            error.what, code=error.code, where=where, why=error.why, hint=error.hint
        ) from None


def shuffle_in_stages(src: MemoryDesc, dst: MemoryDesc, axis: int, group_size: int) -> StagedNest | None:
    """Return the shuffle in stages, for large work; None if there is no such form.

    If the factors cut blocks, the axis is moved into a plain layout, and from there into blocks.
    """
    nest = shuffle_nest(src, dst, axis, group_size)
    if nest.is_empty or not 1 < group_size < dst.dims[axis]:
        return None
    if all(a.is_linear for a in nest.axes) and not nest.bounds:
        return one_stage(nest)
    others = _others(nest, src, dst, axis)
    if others is None:
        return None
    return _stages_of_plain(nest, _exchange(src, dst, axis, group_size), others, prod(dst.inner_blks))


def widen(src: MemoryDesc, dst: MemoryDesc, axis: int) -> tuple[MemoryDesc, MemoryDesc]:
    """Merge elements that always move together into wider ones, in both; unchanged if there are none.

    Blocks of 8 channels of 8 bytes each, `8b8a`, are blocks of 8 channels of one element of 8 bytes, `8b`.
    """
    last, other = ([part[-1:] for part in md.layout.inner] for md in (src, dst))
    if not src.inner_blks or src.inner_idxs[-1] == axis or last != other or src.layout.inner_steps[-1] != 1:
        return src, dst
    wide = _TYPE_OF_BITS.get(src.data_type.bits * src.inner_blks[-1])
    if wide is None or not (_is_even(src) and _is_even(dst)):
        return src, dst
    return widen(_wider(src, wide), _wider(dst, wide), axis)


def _is_even(md: MemoryDesc) -> bool:
    """Return whether the innermost block moves as one: it is full, and begins at a multiple of its size."""
    block, dim = md.inner_blks[-1], md.inner_idxs[-1]
    return not any(n % block for n in (md.dims[dim], md.padded_dims[dim], md.offset0, *md.strides))


def _wider(md: MemoryDesc, data_type: DataType) -> MemoryDesc:
    """Return the descriptor whose innermost block is one element."""
    layout, (block, dim) = md.layout, (md.inner_blks[-1], md.inner_idxs[-1])

    def fewer(sizes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(n // block if d == dim else n for d, n in enumerate(sizes))

    others = zip(layout.inner_steps[:-1], layout.inner_idxs[:-1], strict=True)
    fewer_steps = tuple(step // block if d == dim else step for step, d in others)
    narrow = replace(
        layout,
        dims=fewer(layout.dims),
        padded_dims=fewer(layout.padded_dims),
        strides=tuple(stride // block for stride in layout.strides),
        inner_blks=layout.inner_blks[:-1],
        inner_idxs=layout.inner_idxs[:-1],
        inner_steps=fewer_steps,
        offset0=layout.offset0 // block,
    )
    return MemoryDesc._make("blocked", data_type, narrow)


def _others(nest: LoopNest, src: MemoryDesc, dst: MemoryDesc, axis: int) -> tuple[Axis, ...] | None:
    """Return the axes of the other dims, fused, outermost in the destination first; None if blocks are not
    full or move by a table.
    """
    axes: list[Axis] = []
    for dim in range(dst.ndims):
        digits = common_digits(src, dst, dim) if dim != axis else []
        is_covered = dim == axis or dst.dims[dim] == dst.padded_dims[dim] == prod(a.extent for a in digits)
        if not is_covered or not all(digit.is_linear for digit in digits):
            return None
        axes += [Axis(digit.extent, digit.src, digit.dst) for digit in digits]
    return normalize(replace(nest, axes=tuple(axes), bounds=())).axes


def _exchange(src: MemoryDesc, dst: MemoryDesc, axis: int, group_size: int) -> ShuffledAxis:
    sizes = dst.dims[axis], dst.padded_dims[axis]
    return ShuffledAxis(*sizes, group_size, index_digits(src, axis), index_digits(dst, axis))


# --- through a plain layout ---------------------------------------------------------------------------------


def _stages_of_plain(
    nest: LoopNest, exchange: ShuffledAxis, others: tuple[Axis, ...], block: int
) -> StagedNest:
    """Split the nest into chunks of one other axis, whose channels are adjacent between two stages.

    `block`: elements of the destination's inner blocks. Axes within them are part of each position, unless it
    would then exceed the scratch.
    """
    inner = tuple(axis for axis in others if axis.extent * abs(as_int(axis.dst)) <= block)
    row = exchange.padded * prod(axis.extent for axis in inner)
    if row * nest.dst_type.bits // 8 > NOMINAL.stack_bytes:
        inner, row = (), exchange.padded
    outer = tuple(axis for axis in others if axis not in inner)
    along = outer[-1] if outer else Axis(1, 0, 0)
    chunks = _Chunks(nest, exchange, along, inner)
    return StagedNest(
        nest=nest,
        outer=outer[:-1],
        along=along,
        row=row,
        run=chunks.run,
        plane=chunks.plane,
        nests=chunks.nests,
        flush=chunks.flush,
        why="groups cut blocks: in stages, through plain channels",
    )


@dataclass(frozen=True, slots=True)
class _Chunks:
    """Chunks of positions `along`, each with all channels and all of `inner`."""

    nest: LoopNest
    exchange: ShuffledAxis
    along: Axis
    inner: tuple[Axis, ...] = ()

    @property
    def width(self) -> int:
        """The elements that a position has of each channel."""
        return prod(axis.extent for axis in self.inner)

    @property
    def block(self) -> int:
        """The elements of a position that are adjacent in the destination."""
        return self.exchange.dst[-1].step * self.width

    @property
    def padded(self) -> int:
        """The elements of a position in the destination, including zeros."""
        return self.exchange.padded * self.width

    @property
    def is_row(self) -> bool:
        """True if blocks of one position are closer to each other than equal blocks of adjacent positions."""
        return abs(self.exchange.dst[-1].stride) < abs(as_int(self.along.dst))

    @property
    def run(self) -> int:
        """The elements that a position adds to a run of the destination; 0 if gaps make its runs short."""
        if runs_of(_block_runs(self.exchange.dst, self.inner, "dst")) not in (
            (),
            (StridedRun(self.block, 1),),
        ):
            return 0
        if self.is_row:
            return self.padded if self.exchange.dst[-1].stride == self.block else 0
        return self.block if as_int(self.along.dst) == self.block else 0

    def nests(self, positions: int, through_scratch: bool) -> tuple[LoopNest, ...]:
        """Move into plain channels, and on to the destination; one of them exchanges, or a nest between."""
        whole, size = self.exchange, self.exchange.size
        apart = -(-positions // self.plane) * self.plane if self.plane else self._lanes
        plain = (IndexDigit(1, apart),)
        along_dst, dst = self._packed(positions) if through_scratch else (as_int(self.along.dst), whole.dst)
        unpacked, between, packed = self._steps(along_dst)
        stage = partial(self._stage, positions)
        unpack = digits_of([whole.src, plain], size)
        pack = digits_of([plain, dst], whole.padded)
        if whole.is_source_nested:
            exchanged = replace(whole, dst=plain, padded=size).digits_of_source()
            return stage(unpacked, exchanged, size), stage(packed, pack, whole.padded)
        if whole.is_destination_nested:
            exchanged = replace(whole, src=plain, dst=dst).digits_of_destination()
            return stage(unpacked, unpack, size), stage(packed, exchanged, whole.padded)
        exchanged = replace(whole, src=plain, dst=plain, padded=size).digits()
        return (
            stage(unpacked, unpack, size),
            stage(between, exchanged, size),
            stage(packed, pack, whole.padded),
        )

    @property
    def plane(self) -> int:
        """The elements that fill a cache line, if each channel has its own lines between stages; else 0.

        Adjacent channels of a position are exchanged in rows, and short rows leave most of a register empty.
        Lines of positions fill it. Measured with rows of up to half a line: this makes u8 and bf16 1.1 to 1.8
        times as fast, but not f32, and longer rows are slower.
        """
        whole, bits = self.exchange, self.nest.dst_type.bits
        is_between = not (whole.is_source_nested or whole.is_destination_nested)
        is_short = max(whole.rows, whole.columns) * bits <= LINE * 4 and bits <= 16
        is_near = whole.padded * LINE <= NOMINAL.l1
        return LINE * 8 // bits if is_between and is_short and is_near and not self.inner else 0

    @property
    def _lanes(self) -> int:
        """The elements of each channel that stay adjacent between stages, as they are on both sides."""
        last = self.inner[-1:]
        return next((axis.extent for axis in last if axis.src == axis.dst == 1), 1)

    def _steps(self, along_dst: int) -> tuple[_Others, _Others, _Others]:
        """Return the axes other than the channels in each stage: read, between, and written."""
        size, counts = self.exchange.size, [axis.extent for axis in self.inner]
        plain = [size * prod(counts[i:]) for i in range(len(counts) + 1)]
        if self._lanes > 1 or self.plane:
            plain[-1] = 1
        src = [as_int(self.along.src), *(as_int(axis.src) for axis in self.inner)]
        dst = [along_dst, *(as_int(axis.dst) for axis in self.inner)]
        return (src, plain), (plain, plain), (plain, dst)

    def _stage(self, positions: int, steps: _Others, digits: list[Axis], padded: int) -> LoopNest:
        bounds: list[Bound] = []
        extents = positions, *(axis.extent for axis in self.inner)
        others = [Axis(*axis) for axis in zip(extents, *steps, strict=True)]
        axes = axes_of_digits(digits, self.exchange.size, padded, bounds)
        stage = replace(self.nest, axes=(*others, *axes), bounds=tuple(bounds))
        return replace(stage, src_base=0, dst_base=0).verify()

    def _packed(self, positions: int) -> tuple[int, IndexDigits]:
        """Return the destination of a chunk without gaps between its runs: step along, and the channels."""
        along, block = (self.padded, self.block) if self.is_row else (self.block, positions * self.block)
        return along, (*self.exchange.dst[:-1], IndexDigit(self.exchange.dst[-1].step, block))

    def flush(self, positions: int) -> Flush:
        """Return the runs of a chunk: over blocks or positions, unless those are contiguous too."""
        padded, block = self.padded, self.block
        if self.is_row:
            loop, length = Axis(positions, padded, self.along.dst), padded
        else:
            loop = Axis(padded // block, positions * block, self.exchange.dst[-1].stride)
            length = positions * block
        ahead = self._ahead(positions)
        return Flush((), positions * padded, ahead) if loop.src == loop.dst else Flush((loop,), length, ahead)

    def _ahead(self, positions: int) -> tuple[StridedRun, ...]:
        """Return where a chunk is in the source."""
        top = self.exchange.src[-1]
        blocks = StridedRun(-(-self.exchange.size // top.step), top.stride)
        inside = _block_runs(self.exchange.src, self.inner, "src")
        return runs_of((*inside, StridedRun(positions, as_int(self.along.src)), blocks))


def _block_runs(of: IndexDigits, inner: tuple[Axis, ...], side: str) -> list[StridedRun]:
    """Return the runs of a position in one block."""
    channels = [StridedRun(outer.step // level.step, level.stride) for level, outer in pairwise(of)]
    return channels + [StridedRun(axis.extent, as_int(getattr(axis, side))) for axis in inner]
