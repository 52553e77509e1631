"""Nests of one destination in step: every element at its place, whoever shares the blocks; and when."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest

import restride as rs
from restride.desc.memory_desc import MemoryDesc
from restride.ir.nest import LoopNest
from restride.ir.program import Place
from restride.ops.programs.concat import Window, window_moves
from restride.runtime.cpu.launch import Addresses, Launch
from restride.schedule.moves.interleaved import InterleavedNests
from restride.targets.cpu_kernels import lower_interleaved
from restride.targets.isa import CacheSizes, host_isa
from support.by_offset import positions

STORED, FLUSHED = CacheSizes(l2=1 << 10, l3=1 << 30), CacheSizes(l2=1 << 10, l3=1 << 12)
_POISON, _ROOM = 0xA5, 192

Sources = tuple[MemoryDesc, ...]


def sources(shapes: list[tuple[int, ...]], types: str, tag: str) -> Sources:
    words = (types.split() * len(shapes))[: len(shapes)]
    return tuple(MemoryDesc(dims, word, tag) for dims, word in zip(shapes, words, strict=True))


def joined_desc(mds: Sources, tag: str, axis: int = 1) -> MemoryDesc:
    dims = list(mds[0].dims)
    dims[axis] = sum(md.dims[axis] for md in mds)
    return MemoryDesc(dims, mds[0].data_type, tag)


def nests_of(mds: Sources, dst: MemoryDesc, axis: int = 1) -> list[tuple[int, LoopNest]]:
    """The nests of a concat, and the number of the source of each."""
    ends = list(accumulate(md.dims[axis] for md in mds))
    ends[-1] = dst.padded_dims[axis]
    starts = [0, *accumulate(md.dims[axis] for md in mds)]
    return [
        (i, move.nest)
        for i, md in enumerate(mds)
        for move in window_moves(md, Window(dst, axis, starts[i], ends[i]))
    ]


def planned(mds: Sources, dst: MemoryDesc, caches: CacheSizes, axis: int = 1) -> InterleavedNests | None:
    lowered = lower_interleaved([nest for _, nest in nests_of(mds, dst, axis)], host_isa(), caches)
    return None if lowered is None else lowered.plan


CASES = {
    "pixels": (sources([(2, 20, 31, 31), (2, 7, 31, 31), (2, 13, 31, 31)], "u8", "acdb"), "acdb"),
    "pixels of floats": (sources([(3, 20, 17, 13), (3, 5, 17, 13)], "f32", "acdb"), "acdb"),
    "planes into pixels": (sources([(2, 36, 14, 14)] * 3, "bf16", "abcd"), "acdb"),
    "an axis of a prime": (sources([(2, 9, 1009), (2, 4, 1009)], "f32", "acb"), "acb"),
    "cut blocks": (sources([(2, 36, 14, 14)] * 4, "f32", "aBcd16b"), "aBcd16b"),
    "padding behind": (sources([(4, 5, 28, 28)] * 5, "u8", "aBcd8b"), "aBcd8b"),
    "blocks of pixels": (sources([(2, 20, 14, 14), (2, 9, 14, 14)], "f32", "acdB8b"), "acdB8b"),
    "two types": (sources([(2, 20, 31, 31), (2, 7, 31, 31)], "f32 s32", "acdb"), "acdb"),
}


@pytest.mark.parametrize("start", [0, 4])
@pytest.mark.parametrize("caches", [STORED, FLUSHED], ids=["stored", "flushed"])
@pytest.mark.parametrize("name", CASES)
def test_every_element_is_in_its_place(name: str, caches: CacheSizes, start: int) -> None:
    mds, tag = CASES[name]
    dst = joined_desc(mds, tag)
    numbered = nests_of(mds, dst)
    lowered = lower_interleaved([nest for _, nest in numbered], host_isa(), caches)
    assert lowered is not None
    held = [np.random.default_rng(i).integers(0, 99, md.size, np.uint8) for i, md in enumerate(mds)]
    held = [x if md.data_type.bits == 8 else _numbers(md, x) for md, x in zip(mds, held, strict=True)]
    # Enough for threads to share it, and too little.
    for moved in (1 << 20, 1 << 10):
        target = np.full(dst.size + 2 * _ROOM, _POISON, np.uint8)
        at = _ROOM + start - target.ctypes.data % 64
        wanted = target.copy()
        _expect(wanted[at : at + dst.size], dst, mds, held)
        places = tuple(Place(1 + i) for i in range(len(numbered)))
        launch = Launch(lowered, places, moved, targets=(Place(0),))
        launch.prepare()
        slots = [target.ctypes.data + at, *(held[i].ctypes.data for i, _ in numbered)]
        launch.run(Addresses(slots, (), ()))
        np.testing.assert_array_equal(target, wanted)


def _numbers(md: MemoryDesc, data: np.ndarray) -> np.ndarray:
    """Whole numbers that every type of the cases holds."""
    if md.data_type.bits == 16:
        return data
    return data[: md.size // 4].astype(md.data_type.numpy)


def _expect(room: np.ndarray, dst: MemoryDesc, mds: Sources, held: list[np.ndarray]) -> None:
    """Zero everywhere, and each source at the offsets of its window."""
    bits = np.dtype(f"u{dst.data_type.bits // 8}")
    elements, at = np.zeros(dst.size // bits.itemsize, bits), positions(dst, dst.dims)
    start = 0
    for md, data in zip(mds, held, strict=True):
        values = (
            data.view(bits) if md.data_type is dst.data_type else data.astype(dst.data_type.numpy).view(bits)
        )
        window = at[:, start : start + md.dims[1]]
        elements[window] = values[positions(md, md.dims)]
        start += md.dims[1]
    room[:] = elements.view(np.uint8)


# --- when ---------------------------------------------------------------------------------------------------


def test_blocks_stay_in_the_first_cache_and_are_even_parts() -> None:
    mds = sources([(2, 20, 64, 64)] * 3, "f32", "acdb")
    plan = planned(mds, joined_desc(mds, "acdb"), FLUSHED)
    assert plan is not None
    # A row of 64 pixels of 60 floats is 15360 bytes.
    assert (plan.along.extent, plan.block, [axis.extent for axis in plan.outer]) == (64, 1, [2])
    assert plan.steps == 128
    assert plan.flush is not None
    assert plan.flush.length == 64 * 60
    assert "flushed in runs of 3840" in str(plan)


def test_only_unbroken_blocks_of_large_work_are_flushed() -> None:
    pixels, blocks = CASES["pixels"], CASES["cut blocks"]
    for (mds, tag), caches, is_flushed in (
        (pixels, FLUSHED, True),
        (pixels, STORED, False),
        (blocks, FLUSHED, False),
    ):
        plan = planned(mds, joined_desc(mds, tag), caches)
        assert plan is not None
        assert (plan.flush is not None) == is_flushed


def test_nests_that_share_no_line_are_run_one_by_one() -> None:
    mds = sources([(2, 64, 32, 32), (2, 128, 32, 32)], "u8", "acdb")
    assert planned(mds, joined_desc(mds, "acdb"), FLUSHED) is None


@pytest.mark.parametrize(
    ("shapes", "types", "tag", "axis", "caches"),
    [
        ([(2, 20, 31, 31)], "u8", "acdb", 1, FLUSHED),
        ([(2, 20, 31, 31), (2, 8, 31, 31)], "u4", "acdb", 1, FLUSHED),
        ([(90001,), (60001,)], "u8", "a", 0, FLUSHED),
        ([(20, 300, 31), (7, 300, 31)], "f32", "abc", 0, FLUSHED),
        ([(2, 20, 31, 31), (2, 7, 31, 31)], "u8", "acdb", 1, CacheSizes()),
        ([(2, 99001), (2, 99001)], "u8", "ab", 1, FLUSHED),
    ],
    ids=["one source", "4 bits", "one axis", "the outermost axis", "small", "long rows"],
)
def test_there_are_no_blocks_of(
    shapes: list[tuple[int, ...]], types: str, tag: str, axis: int, caches: CacheSizes
) -> None:
    mds = sources(shapes, types, tag)
    assert planned(mds, joined_desc(mds, tag, axis), caches, axis) is None


def test_crowded_destinations_are_written_by_each_source() -> None:
    mds = sources([(3, 4, 3, 3, 3, 3), (3, 1, 3, 3, 3, 3)], "f32", "abcdef")
    assert planned(mds, joined_desc(mds, "ABCDEF2a2b2c2d2e2f"), FLUSHED) is None


def test_too_many_sources_are_run_one_by_one() -> None:
    mds = sources([(2, 3, 31, 31)] * 70, "u8", "acdb")
    assert planned(mds, joined_desc(mds, "acdb"), FLUSHED) is None


# --- primitives ---------------------------------------------------------------------------------------------


def test_a_large_concat_of_short_runs_is_done_in_step() -> None:
    mds = [rs.MemoryDesc((16, n, 96, 96), "u8", "nhwc") for n in (20, 7, 13)]
    engine = rs.Engine("cpu")
    pd = rs.Concat.PrimitiveDesc(engine, 1, mds)
    held = [np.random.default_rng(i).integers(0, 255, md.size, np.uint8) for i, md in enumerate(mds)]
    memories = [rs.Memory(md, engine, x) for md, x in zip(mds, held, strict=True)]
    dst = rs.Memory(pd.dst_desc(), engine)
    assert pd.impl_info_str.endswith(":joined")
    rows = [x.reshape(-1, n) for x, n in zip(held, (20, 7, 13), strict=True)]
    args = {rs.ARG_MULTIPLE_SRC + i: memory for i, memory in enumerate(memories)} | {rs.ARG_DST: dst}
    for given in ((memories, dst), (args,)):
        dst.data[:] = 0
        rs.Concat(pd).execute(rs.Stream(engine), *given)
        np.testing.assert_array_equal(dst.data.reshape(-1, 40), np.concatenate(rows, 1))


def test_sources_in_place_are_left_there() -> None:
    whole = np.zeros((16, 96, 96, 27), np.uint8)
    x = np.random.default_rng(0).integers(0, 255, (16, 96, 96, 7), np.uint8)
    rs.concat([whole[..., :20].copy(), x], axis=3, out=whole)
    whole[..., :20] = 5
    rs.concat([whole[..., :20], x], axis=3, out=whole)
    assert (whole[..., :20] == 5).all()
    np.testing.assert_array_equal(whole[..., 20:], x)
