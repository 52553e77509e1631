"""Shuffle: a reorder whose source axis is split and exchanged (S04, spec 1.4).

The shuffled axis of C channels is a matrix of `group_size` columns in the source, and its transpose in the
destination: with `rows = C / group_size`, `dst[v * rows + u] = src[u * group_size + v]`. So the index in the
destination has the digits v and u, of which v is the finer one in the source. Backward is forward with both
factors exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from .compute import Compute
from .digits import Level, Levels, levels
from .exchange import Exchange
from .nest import Axis, Bound, LoopNest, normalise
from .reorder import bounded, common_digits, digits_of, nest_of
from .staged import Chain, Pour, Run, linear_chain, runs_of

_PLAIN = (Level(1, 1),)


def shuffle_nest(src: MemoryDesc, dst: MemoryDesc, axis: int, group_size: int) -> LoopNest:
    """The nest that shuffles `axis` of `src` into `dst` and writes zero into the padding of `dst`.

    Both descriptors are concrete, of equal dims, and of types of one width; `group_size` divides the axis.
    """
    dims = [common_digits(src, dst, dim) for dim in range(dst.ndims)]
    if 1 < group_size < dst.dims[axis]:
        dims[axis] = _exchange(src, dst, axis, group_size).digits()
    nest = nest_of(src, dst, Compute(), dims)
    # Bits move, whatever they mean: one of the 4-bit types stands for all.
    return replace(nest, src_type=DataType.u4, dst_type=DataType.u4) if src.data_type.bits == 4 else nest


def shuffle_chain(src: MemoryDesc, dst: MemoryDesc, axis: int, group_size: int) -> Chain | None:
    """The same in stages, for large work; None where there is no such form.

    Where blocks are cut by the factors, the axis is brought into a plain layout, and from there into blocks.
    """
    nest = shuffle_nest(src, dst, axis, group_size)
    if nest.is_empty or not 1 < group_size < dst.dims[axis]:
        return None
    if all(a.is_linear for a in nest.axes) and not nest.bounds:
        return linear_chain(nest)
    if any(d != axis for md in (src, dst) for d in md.inner_idxs):
        return None
    return _plain_chain(nest, _exchange(src, dst, axis, group_size), _others(nest, src, dst, axis))


def _others(nest: LoopNest, src: MemoryDesc, dst: MemoryDesc, axis: int) -> tuple[Axis, ...]:
    """The axes of the other dims, fused, outermost in the destination first."""
    digits = (common_digits(src, dst, dim)[0] for dim in range(dst.ndims) if dim != axis)
    axes = tuple(Axis(digit.extent, digit.src, digit.dst) for digit in digits)
    return normalise(replace(nest, axes=axes, bounds=())).axes


def _exchange(src: MemoryDesc, dst: MemoryDesc, axis: int, group_size: int) -> Exchange:
    sizes = dst.dims[axis], dst.padded_dims[axis]
    return Exchange(*sizes, group_size, levels(src, axis), levels(dst, axis))


# --- through a plain layout ---------------------------------------------------------------------------------


def _plain_chain(nest: LoopNest, exchange: Exchange, others: tuple[Axis, ...]) -> Chain:
    """Chunks of the innermost other axis, whose channels lie side by side between two stages."""
    along = others[-1] if others else Axis(1, 0, 0)
    chunks = _Chunks(nest, exchange, along)
    return Chain(
        nest=nest,
        outer=others[:-1],
        along=along,
        row=exchange.padded,
        run=chunks.run,
        nests=chunks.nests,
        pour=chunks.pour,
        why="groups cut blocks: in stages, through plain channels",
    )


@dataclass(frozen=True, slots=True)
class _Chunks:
    """Chunks of positions `along`, of which each has all channels of the exchanged axis."""

    nest: LoopNest
    exchange: Exchange
    along: Axis

    @property
    def block(self) -> int:
        """Channels that lie side by side in the destination."""
        return self.exchange.dst[-1].step

    @property
    def is_row(self) -> bool:
        """True where the blocks of one position lie nearer to each other than the same block of the next."""
        return abs(self.exchange.dst[-1].stride) < abs(_int(self.along.dst))

    @property
    def run(self) -> int:
        """Elements that a position adds to a run of the destination; 0 where gaps make its runs short."""
        if self.is_row:
            return self.exchange.padded if self.exchange.dst[-1].stride == self.block else 0
        return self.block if _int(self.along.dst) == self.block else 0

    def nests(self, positions: int, poured: bool) -> tuple[LoopNest, ...]:
        """Into plain channels, and from there into the destination; one of them exchanges, or one between."""
        whole, size = self.exchange, self.exchange.size
        along_dst, dst = self._packed(positions) if poured else (_int(self.along.dst), whole.dst)
        steps = _int(self.along.src), size, along_dst
        stage = partial(self._stage, positions)
        unpack = digits_of([whole.src, _PLAIN], size)
        pack = digits_of([_PLAIN, dst], whole.padded)
        if whole.is_source_nested:
            exchanged = replace(whole, dst=_PLAIN, padded=size).digits_of_source()
            return stage(steps[:2], exchanged, size), stage(steps[1:], pack, whole.padded)
        if whole.is_destination_nested:
            exchanged = replace(whole, src=_PLAIN, dst=dst).digits_of_destination()
            return stage(steps[:2], unpack, size), stage(steps[1:], exchanged, whole.padded)
        exchanged = replace(whole, src=_PLAIN, dst=_PLAIN, padded=size).digits()
        between = stage((size, size), exchanged, size)
        return stage(steps[:2], unpack, size), between, stage(steps[1:], pack, whole.padded)

    def _stage(self, positions: int, steps: tuple[int, int], digits: list[Axis], padded: int) -> LoopNest:
        bounds: list[Bound] = []
        axes = bounded(digits, self.exchange.size, padded, bounds)
        stage = replace(self.nest, axes=(Axis(positions, *steps), *axes), bounds=tuple(bounds))
        return replace(stage, src_base=0, dst_base=0).verify()

    def _packed(self, positions: int) -> tuple[int, Levels]:
        """The destination of a chunk without the gaps between its runs: step along, and the channels."""
        along, block = (
            (self.exchange.padded, self.block) if self.is_row else (self.block, positions * self.block)
        )
        return along, (*self.exchange.dst[:-1], Level(self.block, block))

    def pour(self, positions: int) -> Pour:
        """The runs of a chunk: over blocks or positions, unless those follow each other too."""
        padded, block = self.exchange.padded, self.block
        if self.is_row:
            loop, length = Axis(positions, padded, self.along.dst), padded
        else:
            loop = Axis(padded // block, positions * block, self.exchange.dst[-1].stride)
            length = positions * block
        ahead = self._ahead(positions)
        return Pour((), positions * padded, ahead) if loop.src == loop.dst else Pour((loop,), length, ahead)

    def _ahead(self, positions: int) -> tuple[Run, ...]:
        """Where a chunk lies in the source."""
        top = self.exchange.src[-1]
        blocks = Run(-(-self.exchange.size // top.step), top.stride)
        return runs_of((Run(top.step, 1), Run(positions, _int(self.along.src)), blocks))


def _int(stride: object) -> int:
    assert isinstance(stride, int)
    return stride
