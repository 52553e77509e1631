"""Shuffle: a reorder whose source axis is split and exchanged.

The shuffled axis of C channels is a matrix of `group_size` columns in the source, and its transpose in the
destination: with `rows = C / group_size`, `dst[v * rows + u] = src[u * group_size + v]`. So the index in the
destination has the digits v and u, of which v is the finer one in the source. Backward is forward with both
factors exchanged.
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
from ...ir.nest_rewrites import normalise
from ...ir.staged_nest import Flush, StagedNest, StridedRun, runs_of
from ...schedule.machine import LINE, NOMINAL
from ...schedule.moves.shuffled_axis import ShuffledAxis
from ...schedule.moves.staged import one_stage

# --- exchange ----------------------------------------------------------------
# The shuffled axis alone: digits of its index that move by a stride on both sides, where there are such.


# --- shuffle -----------------------------------------------------------------

# Strides of the positions and of the axes inside them: where they are read, and where they are written.
_Others = tuple[list[int], list[int]]
# Types of so many bits, by which elements move together.
_TYPE_OF_BITS = {16: DataType.f16, 32: DataType.f32, 64: DataType.f64}


def shuffle_nest(src: MemoryDesc, dst: MemoryDesc, axis: int, group_size: int) -> LoopNest:
    """The nest that shuffles `axis` of `src` into `dst` and writes zero into the padding of `dst`.

    Both descriptors are concrete, of equal dims, and of types of one width; `group_size` divides the axis.
    """
    dims = [common_digits(src, dst, dim) for dim in range(dst.ndims)]
    if 1 < group_size < dst.dims[axis]:
        dims[axis] = _digits(src, dst, axis, group_size)
    nest = nest_of(src, dst, Compute(), dims)
    # Bits move, whatever they mean: one of the 4-bit types stands for all.
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
    """The same in stages, for large work; None where there is no such form.

    Where blocks are cut by the factors, the axis is brought into a plain layout, and from there into blocks.
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
    """Both with elements that always move together as one wider element; as they are where there are none.

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
    """True where all that lies in the innermost block moves as one: it is full, and begins at a multiple."""
    block, dim = md.inner_blks[-1], md.inner_idxs[-1]
    return not any(n % block for n in (md.dims[dim], md.padded_dims[dim], md.offset0, *md.strides))


def _wider(md: MemoryDesc, data_type: DataType) -> MemoryDesc:
    """The descriptor whose innermost block is one element."""
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
    """The axes of the other dims, fused, outermost in the destination first; None where blocks are not full
    or move by a table.
    """
    axes: list[Axis] = []
    for dim in range(dst.ndims):
        digits = common_digits(src, dst, dim) if dim != axis else []
        is_covered = dim == axis or dst.dims[dim] == dst.padded_dims[dim] == prod(a.extent for a in digits)
        if not is_covered or not all(digit.is_linear for digit in digits):
            return None
        axes += [Axis(digit.extent, digit.src, digit.dst) for digit in digits]
    return normalise(replace(nest, axes=tuple(axes), bounds=())).axes


def _exchange(src: MemoryDesc, dst: MemoryDesc, axis: int, group_size: int) -> ShuffledAxis:
    sizes = dst.dims[axis], dst.padded_dims[axis]
    return ShuffledAxis(*sizes, group_size, index_digits(src, axis), index_digits(dst, axis))


# --- through a plain layout ---------------------------------------------------------------------------------


def _stages_of_plain(
    nest: LoopNest, exchange: ShuffledAxis, others: tuple[Axis, ...], block: int
) -> StagedNest:
    """Chunks of one other axis, whose channels lie side by side between two stages.

    `block`: elements of the destination's inner blocks. Axes that lie within them are part of each position,
    unless it would not fit the scratch then.
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
    """Chunks of positions `along`, of which each has all channels and all of `inner`."""

    nest: LoopNest
    exchange: ShuffledAxis
    along: Axis
    inner: tuple[Axis, ...] = ()

    @property
    def width(self) -> int:
        """Elements that a position has of each channel."""
        return prod(axis.extent for axis in self.inner)

    @property
    def block(self) -> int:
        """Elements of a position that lie side by side in the destination."""
        return self.exchange.dst[-1].step * self.width

    @property
    def padded(self) -> int:
        """Elements of a position in the destination, zeros among them."""
        return self.exchange.padded * self.width

    @property
    def is_row(self) -> bool:
        """True where the blocks of one position lie nearer to each other than the same block of the next."""
        return abs(self.exchange.dst[-1].stride) < abs(as_int(self.along.dst))

    @property
    def run(self) -> int:
        """Elements that a position adds to a run of the destination; 0 where gaps make its runs short."""
        if runs_of(_block_runs(self.exchange.dst, self.inner, "dst")) not in (
            (),
            (StridedRun(self.block, 1),),
        ):
            return 0
        if self.is_row:
            return self.padded if self.exchange.dst[-1].stride == self.block else 0
        return self.block if as_int(self.along.dst) == self.block else 0

    def nests(self, positions: int, through_scratch: bool) -> tuple[LoopNest, ...]:
        """Into plain channels, and from there into the destination; one of them exchanges, or one between."""
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
        """Elements that fill a line, where each channel has lines of its own between stages; else 0.

        Channels of a position that lie side by side are exchanged in rows, of which short ones leave most of
        a register empty. Lines of positions fill it. Measured with rows of up to half a line: u8 and bf16 run
        1.1 to 1.8 times as fast so, f32 does not, and longer rows are slower.
        """
        whole, bits = self.exchange, self.nest.dst_type.bits
        is_between = not (whole.is_source_nested or whole.is_destination_nested)
        is_short = max(whole.rows, whole.columns) * bits <= LINE * 4 and bits <= 16
        is_near = whole.padded * LINE <= NOMINAL.l1
        return LINE * 8 // bits if is_between and is_short and is_near and not self.inner else 0

    @property
    def _lanes(self) -> int:
        """Elements of each channel that stay side by side between stages, as they do on both sides."""
        last = self.inner[-1:]
        return next((axis.extent for axis in last if axis.src == axis.dst == 1), 1)

    def _steps(self, along_dst: int) -> tuple[_Others, _Others, _Others]:
        """The axes other than the channels, in each of the stages: read, between, and written."""
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
        """The destination of a chunk without the gaps between its runs: step along, and the channels."""
        along, block = (self.padded, self.block) if self.is_row else (self.block, positions * self.block)
        return along, (*self.exchange.dst[:-1], IndexDigit(self.exchange.dst[-1].step, block))

    def flush(self, positions: int) -> Flush:
        """The runs of a chunk: over blocks or positions, unless those follow each other too."""
        padded, block = self.padded, self.block
        if self.is_row:
            loop, length = Axis(positions, padded, self.along.dst), padded
        else:
            loop = Axis(padded // block, positions * block, self.exchange.dst[-1].stride)
            length = positions * block
        ahead = self._ahead(positions)
        return Flush((), positions * padded, ahead) if loop.src == loop.dst else Flush((loop,), length, ahead)

    def _ahead(self, positions: int) -> tuple[StridedRun, ...]:
        """Where a chunk lies in the source."""
        top = self.exchange.src[-1]
        blocks = StridedRun(-(-self.exchange.size // top.step), top.stride)
        inside = _block_runs(self.exchange.src, self.inner, "src")
        return runs_of((*inside, StridedRun(positions, as_int(self.along.src)), blocks))


def _block_runs(of: IndexDigits, inner: tuple[Axis, ...], side: str) -> list[StridedRun]:
    """What a position has of one block."""
    channels = [StridedRun(outer.step // level.step, level.stride) for level, outer in pairwise(of)]
    return channels + [StridedRun(axis.extent, as_int(getattr(axis, side))) for axis in inner]
