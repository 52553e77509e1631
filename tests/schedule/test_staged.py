"""Work in stages writes what the nest means: chunk by chunk, through scratch, flushed out or not."""

from __future__ import annotations

from math import prod
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restride.desc.memory_desc import MemoryDesc
from restride.ir.conversion import storage_dtype
from restride.ir.digits import reorder_nest
from restride.ir.nest import LoopNest, linear
from restride.ir.staged_nest import StridedRun, runs_of
from restride.ops.programs.shuffle import shuffle_in_stages, shuffle_nest
from restride.schedule.machine import NOMINAL, Machine
from restride.schedule.moves.staged import StagedSchedule, one_stage, stage
from restride.targets import cpu
from restride.targets.isa import CacheSizes, Isa, host_isa
from support.by_offset import positions
from support.kernels import Bytes, destination, difference, isa_id, random_source, room, runnable
from support.shuffles import (
    STAGED,
    ChosenKernel,
    ShuffleCase,
    by_offset,
    can_pour,
    run_stages,
    staged_kernel,
    ways,
)

each_case = pytest.mark.parametrize("case", STAGED, ids=lambda case: case.name)


def _wanted(case: ShuffleCase, src: Bytes, dst: Bytes) -> Bytes:
    kind = storage_dtype(case.dst.data_type)
    made = by_offset(src.view(kind), case.src, dst.view(kind), case.dst, case.axis, case.group_size)
    wanted = room(dst.size)
    wanted[:] = made.view(np.uint8)
    return wanted


@pytest.mark.sweep(1)
@pytest.mark.parametrize("chunk", [None, 3, 1])
@each_case
def test_stages_mean_what_the_nest_means(case: ShuffleCase, chunk: int | None) -> None:
    kind = storage_dtype(case.dst.data_type)
    src, dst = random_source(case.src, 1), destination(case.dst)
    wanted = _wanted(case, src, dst)
    chain = case.chain
    assert chain is not None
    for through_scratch in (False, True)[: 1 + can_pour(case)]:
        got = dst.copy()
        positions = chunk or chain.along.extent
        run_stages(chain, positions, src.view(kind), got.view(kind), through_scratch=through_scratch)
        assert not difference(got, wanted, case.dst.data_type), through_scratch


@pytest.mark.sweep(1)
@each_case
@pytest.mark.parametrize("isa", runnable(), ids=isa_id)
def test_machine_code_does_the_stages(case: ShuffleCase, isa: Isa) -> None:
    src = random_source(case.src, 1, start=1)
    for way in ways(case, isa):
        kernel = staged_kernel(case, isa, way)
        for start, parts in ((0, 1), (64, 3)) if way == "streamed" else ((0, 1), (4, 3), (63, 50)):
            dst = destination(case.dst, start=start)
            wanted = _wanted(case, src, dst)
            kernel(src.ctypes.data, dst.ctypes.data, parts=parts)
            assert not difference(dst, wanted, case.dst.data_type), (way, start, parts)


@st.composite
def _permutations(draw: st.DrawFn) -> tuple[MemoryDesc, MemoryDesc]:
    """An array of up to six axes and the same with its axes permuted, of bytes enough for squares."""
    data_type = draw(st.sampled_from(["u8", "bf16", "f32", "f64"]))
    extents = st.sampled_from([2, 3, 4, 5, 8, 16, 32, 64, 96, 128, 256])
    dims = draw(st.lists(extents, min_size=2, max_size=6).filter(lambda n: 1 << 13 <= prod(n) <= 1 << 17))
    order = draw(st.permutations(range(len(dims))))
    tags = "abcdef"[: len(dims)], "".join("abcdef"[d] for d in order)
    src, dst = (MemoryDesc(tuple(dims), data_type, tag) for tag in tags)
    return src, dst


@settings(max_examples=60)
@given(_permutations(), st.booleans(), st.sampled_from([0, 16, 64]), st.sampled_from([1, 3]))
def test_random_permutations_past_small_caches(
    mds: tuple[MemoryDesc, MemoryDesc], may_stream: bool, start: int, parts: int
) -> None:
    src_md, dst_md = mds
    nest = reorder_nest(src_md, dst_md, linear())
    case = SimpleNamespace(nest=nest, chain=one_stage(nest))
    start = 0 if may_stream else start
    for isa in runnable():
        src, dst = random_source(src_md, 1), destination(dst_md, start=start)
        ChosenKernel(case, isa, CacheSizes(l2=1 << 12, l3=1 << 14), may_stream=may_stream)(
            src.ctypes.data, dst.ctypes.data, parts=parts
        )
        kind = storage_dtype(src_md.data_type)
        values = [x.view(kind)[positions(md, md.dims)] for x, md in ((src, src_md), (dst, dst_md))]
        np.testing.assert_array_equal(*values)


# --- which chunks, and when ---------------------------------------------------------------------------------


def _nest(dims: tuple[int, ...], tag: str, group: int, data_type: str = "f32") -> tuple[LoopNest, MemoryDesc]:
    md = MemoryDesc(dims, data_type, tag)
    return shuffle_nest(md, md, 1, group), md


def test_runs_that_follow_each_other_are_one() -> None:
    assert runs_of([StridedRun(4, 30), StridedRun(5, 6), StridedRun(6, 1)]) == (StridedRun(120, 1),)
    assert runs_of([StridedRun(4, 100), StridedRun(5, 6), StridedRun(6, 1)]) == (
        StridedRun(30, 1),
        StridedRun(4, 100),
    )
    assert runs_of([StridedRun(3, 7)]) == (StridedRun(3, 7),)


def test_chunks_are_one_run_of_the_source_where_there_are_such() -> None:
    nest, _ = _nest((64, 96, 7, 7), "abcd", 4)
    chain = one_stage(nest)
    assert chain is not None
    assert chain.flush(5).ahead == (StridedRun(5 * 4 * 49, 1),)
    assert [axis.extent for axis in chain.flush(5).loops] == [4]
    assert chain.flush(5).length == 5 * 49


def test_there_is_no_chain_of_one_stage_with_short_runs() -> None:
    nest, _ = _nest((2, 4000, 3), "abc", 2000)
    assert nest.bounds == ()
    assert one_stage(nest) is None


def _move(dims: tuple[int, ...], data_type: str, src: str, dst: str) -> LoopNest:
    return reorder_nest(MemoryDesc(dims, data_type, src), MemoryDesc(dims, data_type, dst), linear())


@pytest.mark.parametrize(
    ("data_type", "run", "stages"), [("f64", 32, 1), ("f32", 64, 1), ("bf16", 64, 2), ("u8", 128, 2)]
)
def test_rows_that_collide_are_transposed_in_squares(data_type: str, run: int, stages: int) -> None:
    """Rows 4096 bytes apart are read first if a tile has more rows than a cache set has ways."""
    columns = 4096 * 8 // MemoryDesc((1,), data_type, "a").data_type.bits
    chain = one_stage(_move((1024, columns), data_type, "ab", "ba"))
    assert chain is not None
    assert chain.whole_run == chain.flush(5).length == run
    assert len(chain.nests(5, True)) == stages
    assert [axis.extent for axis in chain.flush(5).loops] == [5]


def test_squares_are_for_powers_of_two_where_registers_are_few_and_for_large_work_that_cannot_stream() -> (
    None
):
    def kind(level: str, nest: LoopNest, caches: CacheSizes = CacheSizes()) -> str:  # noqa: B008
        chain = one_stage(nest) if nest.moved_bytes >= caches.l3 else None
        return cpu.lower_nest(nest, Isa.for_name(level), caches, chain=chain).kind

    small = CacheSizes(l2=1 << 14, l3=1 << 16)
    square, even = (_move((n, n), "f32", "ab", "ba") for n in (1024, 960))
    weights = _move((64, 64, 3, 3), "f32", "abcd", "ABcd16b16a")
    assert [kind(level, square) for level in ("avx2", "avx512")] == ["staged", "transpose"]
    assert [kind(level, even) for level in ("avx2", "avx512")] == ["transpose", "transpose"]
    assert [kind(level, even, small) for level in ("avx2", "avx512")] == ["staged", "transpose"]
    assert [kind(level, weights, small) for level in ("avx2", "avx512")] == ["staged", "staged"]


@pytest.mark.parametrize(("pixels", "chunk"), [(12, 6), (60, 6), (784, 8), (49, 7), (131, 8)])
def test_chunks_divide_the_axis_evenly_if_they_can(pixels: int, chunk: int) -> None:
    md = MemoryDesc((4, 244, pixels), "f32", "aBc16b")
    chain = shuffle_in_stages(md, md, 1, 2)
    assert chain is not None
    staged = stage(chain, Machine(), through_scratch=True)
    assert staged is not None
    assert staged.chunk == chunk
    assert (staged.rest is None) == (pixels % chunk == 0)


def _kind(
    dims: tuple[int, ...],
    tag: str,
    group: int,
    caches: CacheSizes,
    *,
    may_stream: bool = True,
    level: str = "avx512",
) -> str:
    nest, md = _nest(dims, tag, group)
    chain = shuffle_in_stages(md, md, 1, group)
    return cpu.lower_nest(nest, Isa.for_name(level), caches, may_stream=may_stream, chain=chain).kind


def test_stages_are_for_blocks_that_groups_cut_and_for_large_work_that_cannot_stream() -> None:
    cut, misfit, aligned = (
        ((8, 244, 28, 28), "aBcd16b", 2),
        ((64, 244, 7, 7), "abcd", 2),
        ((64, 32, 28, 28), "abcd", 2),
    )
    assert _kind(*cut, CacheSizes(), level="avx2") == "staged"
    assert _kind((1, 36, 5, 5), "aBcd16b", 2, CacheSizes(), level="avx2") == "strided"
    assert _kind(*misfit, CacheSizes()) == "copy"
    small = CacheSizes(l2=1 << 14, l3=1 << 16)
    # Registers are permuted freely: stages are for what does not stream, as where zeros fill a block.
    assert _kind(*cut, CacheSizes()) == "gather"
    assert _kind(*cut, small) == "staged"
    assert _kind((8, 144, 28, 28), "aBcd16b", 12, small) == "gather"
    assert _kind(*misfit, small) == "staged"
    assert _kind(*aligned, small) == "copy"
    assert _kind(*aligned, small, may_stream=False) == "staged"


def test_whole_lines_are_streamed_and_cut_ones_poured() -> None:
    small, avx512 = CacheSizes(l2=1 << 14, l3=1 << 16), Isa.for_name("avx512")
    for dims, may_stream, streams in (
        ((8, 244, 28, 28), True, True),
        ((8, 244, 28, 28), False, False),
        ((8, 244, 7, 7), True, False),
    ):
        nest, md = _nest(dims, "aBcd8b", 2)
        chain = shuffle_in_stages(md, md, 1, 2)
        lowered = cpu.lower_nest(nest, avx512, small, may_stream=may_stream, chain=chain)
        assert isinstance(lowered.plan, StagedSchedule)
        assert lowered.streams == streams
        assert (lowered.plan.whole.flush is None) == streams
        assert "!nontemporal" in lowered.ir()
        assert "prefetch" in lowered.ir()


def test_a_lowered_chain_says_what_it_does() -> None:
    nest, md = _nest((8, 244, 7, 7), "aBcd8b", 2)
    lowered = cpu.lower_nest(nest, host_isa(), CacheSizes(l3=1 << 16), chain=shuffle_in_stages(md, md, 1, 2))
    assert isinstance(lowered.plan, StagedSchedule)
    assert lowered.steps == 8 * lowered.plan.chunks
    assert str(lowered).startswith("# staged (groups cut blocks")
    assert "flushed in runs" in str(lowered)
    nest, md = _nest((8, 244, 28, 28), "aBcd16b", 2)
    lowered = cpu.lower_nest(nest, host_isa(), CacheSizes(l3=1 << 16), chain=shuffle_in_stages(md, md, 1, 2))
    assert "streaming stores in the last stage" in str(lowered)


def test_scratch_stays_as_small_as_is_promised_of_a_thread_s_stack() -> None:
    # 31 positions of 6000 bytes: a little more than the limit, but no longer small.
    md = MemoryDesc((16, 6000, 31, 1), "u8", "aBcd4b")
    chain = shuffle_in_stages(md, md, 1, 10)
    assert chain is not None
    made = stage(chain, Machine(vector_bytes=64, registers=32), through_scratch=False)
    assert made is not None
    assert made.scratch <= NOMINAL.stack_bytes
