"""Shuffles that reach every way to do one; what a shuffle is, in NumPy; stages by interpretation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np
import numpy.typing as npt

import restride as rs
from restride.desc.memory_desc import MemoryDesc
from restride.ir.interpret_nest import interpret
from restride.ir.nest import LoopNest
from restride.ir.staged_nest import StagedNest
from restride.ops.programs.shuffle import shuffle_in_stages, shuffle_nest
from restride.schedule.machine import Machine
from restride.schedule.moves.staged import stage, stream
from restride.schedule.moves.whole_nest import whole_transforms
from restride.targets import cpu
from restride.targets.isa import CacheSizes, Isa

from .by_offset import guarded, positions, random_bits
from .engines import run
from .kernels import COMMON, Kernel

Array = npt.NDArray[np.generic]
_JUNK = 0xAA


def shuffled(x: Array, axis: int, group_size: int) -> Array:
    """oneDNN's shuffle by its definition: the axis as (C / G, G), transposed."""
    front = np.moveaxis(x, axis, 0)
    rows = front.reshape(front.shape[0] // group_size, group_size, *front.shape[1:])
    return np.moveaxis(rows.swapaxes(0, 1).reshape(front.shape), 0, axis)


def by_offset(src: Array, src_md: MemoryDesc, dst: Array, dst_md: MemoryDesc, axis: int, group: int) -> Array:
    """The storage `dst` as a shuffle must leave it; both storages are flat, element offset 0 first."""
    wanted = dst.copy()
    if dst_md.nelems:
        wanted[positions(dst_md, dst_md.padded_dims)] = 0
        wanted[positions(dst_md, dst_md.dims)] = shuffled(src[positions(src_md, src_md.dims)], axis, group)
    return wanted


@dataclass(frozen=True)
class ShuffleCase:
    """A shuffle of one descriptor, or from one layout into another."""

    name: str
    src: MemoryDesc
    dst: MemoryDesc
    axis: int
    group_size: int

    @property
    def nest(self) -> LoopNest:
        """The loop nest."""
        return shuffle_nest(self.src, self.dst, self.axis, self.group_size)

    @property
    def chain(self) -> StagedNest | None:
        """The same in stages."""
        return shuffle_in_stages(self.src, self.dst, self.axis, self.group_size)


def _case(
    name: str, dims: tuple[int, ...], data_type: str, format: object, axis: int, group: int
) -> ShuffleCase:
    md = MemoryDesc(dims, data_type, format)  # type: ignore[arg-type]
    return ShuffleCase(name, md, md, axis, group)


def _into(dims: tuple[int, ...], data_type: str, src: str, dst: str, group: int) -> ShuffleCase:
    mds = MemoryDesc(dims, data_type, src), MemoryDesc(dims, data_type, dst)
    return ShuffleCase(f"{src} into {dst}, {data_type}", *mds, 1, group)


# Enough positions for several chunks and a smaller last one, unless the name says otherwise.
STAGED = (
    _case("rows of groups", (700, 30), "f32", "ab", 1, 5),
    _case("rows of groups of bytes", (997, 37 * 3), "u8", "ab", 1, 3),
    _case("small planes", (2, 90, 7, 7), "f32", "abcd", 1, 6),
    _case("small planes of doubles", (3, 34, 5, 5), "f64", "abcd", 1, 2),
    _case("channels last", (2, 18, 21, 13), "f16", "acdb", 1, 3),
    _case("a gap behind each image", (2, 30, 200), "f32", (6100, 1, 30), 1, 5),
    _case("groups of the source nest", (2, 36, 20, 9), "f32", "aBcd16b", 1, 4),
    _case("groups of the destination nest", (2, 48, 17, 9), "f16", "aBcd16b", 1, 3),
    _case("no groups nest", (3, 39, 13, 11), "u8", "aBcd16b", 1, 3),
    _case("blocks of four", (2, 34, 7, 23), "f32", "aBcd4b", 1, 17),
    _case("blocks of eight doubles", (2, 20, 7, 23), "f64", "aBcd8b", 1, 5),
    _case("double blocks", (2, 45, 300), "f16", "aBc4b3b", 1, 5),
    _case("a rest shorter than a line", (2, 36, 205), "f16", "aBc8b", 1, 4),
    _case("blocks last", (2, 35, 16, 20), "f32", "acdB8b", 1, 5),
    _case("no other axis", (3003,), "f32", "A16a", 0, 7),
    _case("no other axis of more than one", (1, 1003, 1), "u8", "aBc16b", 1, 17),
    _case("rows of blocks", (400, 35), "f16", "aB16b", 1, 5),
    _case("more zeros than channels", (2, 4, 37, 41), "f32", "aBcd16b", 1, 2),
    _case("the first axis", (50, 7, 61), "f32", "Abc16a", 0, 5),
    _case("a row too long for much scratch", (2, 5001, 3), "f32", "aBc16b", 1, 3),
    _case("blocks of two axes, channels last", (32, 36, 5, 3), "f32", "ABcd16a16b", 1, 4),
    _case("blocks of two axes, channels first", (32, 39, 5, 3), "u8", "ABcd8b8a", 1, 3),
    _case("channels on both sides of a block", (32, 39, 5), "f32", "ABc4b16a4b", 1, 3),
    _case("channels within a block", (32, 39, 5, 3), "bf16", "BAcd8a16b2a", 1, 3),
    _case("blocks of three axes", (8, 35, 12), "f16", "ABC4b2a3c4b2a", 1, 5),
    _case("a position longer than the scratch", (4, 9603, 2), "f32", "ABc8b4a", 1, 3),
    _into((16, 36, 7, 3), "f32", "abcd", "ABcd4b8a4b", 4),
    _into((16, 36, 7, 3), "u8", "ABcd16b8a", "abcd", 9),
    _into((16, 39, 7, 3), "u8", "ABcd16b8a", "ABcd8a8b", 3),
    _into((2, 35, 23, 11), "f32", "abcd", "aBcd16b", 5),
    _into((2, 35, 23, 11), "f16", "aBcd16b", "acdb", 7),
    _into((2, 42, 23, 11), "u8", "aBcd4b", "aBcd16b", 6),
    _into((2, 42, 23, 11), "f32", "acdB8b", "abcd", 6),
    # Squares: rows of the destination by runs of the source.
    _into((2, 64, 64, 40), "f32", "abcd", "acdb", 16),
    _into((2, 128, 64, 64), "u8", "abcd", "acdb", 32),
    _into((3, 64, 36, 32), "f16", "acdb", "abcd", 8),
    _into((32, 32, 3, 3), "f32", "abcd", "ABcd16b16a", 8),
)


# Shuffles in one stage: digits and tables, tails of registers and of blocks.
DIRECT = (
    _case("planes", (2, 12, 7, 5), "f32", "abcd", 1, 3),
    _case("planes of odd bytes", (2, 30, 37), "u8", "abc", 1, 5),
    _case("channels last", (2, 30, 7, 5), "f32", "acdb", 1, 5),
    _case("channels last, bytes", (5, 39, 3), "u8", "acb", 1, 3),
    _case("channels last, halves", (5, 68, 3), "bf16", "acb", 1, 17),
    _case("blocks that nest", (2, 64, 7, 5), "f32", "aBcd16b", 1, 4),
    _case("blocks that nest, bytes", (2, 64, 7, 5), "u8", "aBcd16b", 1, 8),
    _case("blocks that are cut", (2, 36, 7, 5), "f32", "aBcd16b", 1, 4),
    _case("blocks that are cut, bytes", (2, 36, 7, 5), "u8", "aBcd8b", 1, 4),
    _case("blocks of two axes", (20, 36, 3), "f32", "ABc16b16a", 1, 4),
    _case("doubles", (3, 33, 5), "f64", "abc", 1, 11),
    _case("the last axis", (3, 33, 100), "f32", "abc", 2, 10),
)


def run_stages(chain: StagedNest, chunk: int, src: Array, dst: Array, *, through_scratch: bool) -> None:
    """Interpret a chain in chunks of so many positions."""
    for place in product(*(range(axis.extent) for axis in chain.outer)):
        src_at = chain.nest.src_base + sum(a.src_offset(i) for a, i in zip(chain.outer, place, strict=True))
        dst_at = chain.nest.dst_base + sum(a.dst_offset(i) for a, i in zip(chain.outer, place, strict=True))
        for start in range(0, chain.along.extent, chunk):
            positions = min(chunk, chain.along.extent - start)
            at = src_at + chain.along.src_offset(start), dst_at + chain.along.dst_offset(start)
            _run_chunk(chain, positions, (src, dst), at, through_scratch=through_scratch)


def _run_chunk(
    chain: StagedNest, count: int, buffers: tuple[Array, Array], at: tuple[int, int], *, through_scratch: bool
) -> None:
    (read, dst), (first, to) = buffers, at
    nests = chain.nests(count, through_scratch)
    for nest in nests[: None if through_scratch else -1]:
        scratch = np.full(chain.scratch(count), _JUNK, dst.dtype)
        interpret(replace(nest, src_base=first), read, scratch)
        read, first = scratch, 0
    if not through_scratch:
        interpret(replace(nests[-1], src_base=first, dst_base=to), read, dst)
        return
    flush = chain.flush(count)
    for place in product(*(range(axis.extent) for axis in flush.loops)):
        start = sum(a.src_offset(i) for a, i in zip(flush.loops, place, strict=True))
        end = to + sum(a.dst_offset(i) for a, i in zip(flush.loops, place, strict=True))
        dst[end : end + flush.length] = read[start : start + flush.length]


def can_pour(case: ShuffleCase, machine: Machine | None = None) -> bool:
    """True where a chunk of the case has long enough runs."""
    return (
        case.chain is not None and stage(case.chain, machine or Machine(), through_scratch=True) is not None
    )


def can_stream(case: ShuffleCase, machine: Machine) -> bool:
    """True where the last stage of the case writes whole lines."""
    return case.chain is not None and stream(case.chain, machine) is not None


def ways(case: ShuffleCase, isa: Isa) -> list[str]:
    """The ways in which the last stage of a case may write."""
    machine = cpu.machine_of(isa, COMMON)
    return ["stored", *["flushed"] * can_pour(case, machine), *["streamed"] * can_stream(case, machine)]


class StagedKernel(Kernel):
    """The machine code of a chain, whatever its size."""

    def __init__(self, case: ShuffleCase, isa: Isa, way: str) -> None:
        chain, machine = case.chain, cpu.machine_of(isa, COMMON)
        assert chain is not None
        is_streamed = way == "streamed"
        staged = (
            stream(chain, machine) if is_streamed else stage(chain, machine, through_scratch=way == "flushed")
        )
        assert staged is not None
        # The transforms that say it, which replay it.
        transforms, _ = whole_transforms(case.nest, chain, staged)
        lowered = cpu.lower_by(case.nest, transforms, isa, COMMON, chain=chain)
        assert lowered.plan == staged
        self._take(lowered)


class ChosenKernel(Kernel):
    """The machine code that a case gets where caches are of this size: in stages or not."""

    def __init__(self, case: ShuffleCase, isa: Isa, caches: CacheSizes, *, may_stream: bool) -> None:
        self._take(cpu.lower_nest(case.nest, isa, caches, may_stream=may_stream, chain=case.chain))


@lru_cache(maxsize=256)
def staged_kernel(case: ShuffleCase, isa: Isa, way: str) -> StagedKernel:
    """The kernel of a case, compiled once per test process."""
    return StagedKernel(case, isa, way)


# --- primitives ---------------------------------------------------------------------------------------------


def forward(
    md: rs.MemoryDesc, axis: int, group_size: int, engine: rs.Engine, **more: object
) -> rs.ShuffleForward:
    """A forward shuffle by the form of version 0.9."""
    desc = rs.ShuffleForward.Desc("forward_inference", md, axis, group_size)
    return rs.ShuffleForward(rs.ShuffleForward.PrimitiveDesc(desc, engine, **more))  # type: ignore[arg-type]


def backward(md: rs.MemoryDesc, axis: int, group_size: int, engine: rs.Engine) -> rs.ShuffleBackward:
    """A backward shuffle by the form of version 0.9."""
    desc = rs.ShuffleBackward.Desc(md, axis, group_size)
    return rs.ShuffleBackward(rs.ShuffleBackward.PrimitiveDesc(desc, engine, None))


def check_both(
    md: rs.MemoryDesc,
    axis: int,
    group_size: int,
    engine: rs.Engine,
    starts: tuple[int, int] = (0, 0),
    seed: int = 0,
) -> None:
    """Forward and backward write what `MemoryDesc.offset` says, zero padding, and nothing else."""
    src, dst, back = (guarded(md, engine, start) for start in (*starts, starts[0]))
    random_bits(src, seed)
    before = src.elements.copy()
    wanted = by_offset(src.elements, md, dst.elements, md, axis, group_size)
    args = {rs.ARG_SRC: src.memory, rs.ARG_DST: dst.memory}
    run(forward(md, axis, group_size, engine), engine, args)
    np.testing.assert_array_equal(dst.elements, wanted)
    elements = positions(md, md.dims)
    restored = by_offset(dst.elements, md, back.elements, md, axis, md.dims[axis] // group_size)
    np.testing.assert_array_equal(restored[elements], before[elements])
    args = {rs.ARG_DIFF_DST: dst.memory, rs.ARG_DIFF_SRC: back.memory}
    run(backward(md, axis, group_size, engine), engine, args)
    np.testing.assert_array_equal(back.elements, restored)
    np.testing.assert_array_equal(src.elements, before)
    for held in (src, dst, back):
        held.check_canaries()
