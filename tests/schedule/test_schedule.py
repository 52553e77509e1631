"""Schedules keep the meaning, reach every position once, and fit the machine."""

from __future__ import annotations

import dataclasses
import time
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restride as rs
from restride.desc.memory_desc import MemoryDesc
from restride.dtypes import DataType
from restride.ir.digits import reorder_nest
from restride.ir.nest import Axis, Compute, LoopNest, linear
from restride.ir.nest_rewrites import normalize, peel
from restride.ops.resampling import ResamplingProblem
from restride.schedule.machine import DeviceFacts, Machine
from restride.schedule.moves.schedule import Schedule, converts_after_permute, schedule
from restride.schedule.moves.tiling import contiguous
from restride.targets import cpu
from restride.targets.isa import CacheSizes, Isa
from support.by_offset import check_reorder
from support.compensation import attr_of, reordered, totals
from support.descriptors import pairs
from support.effort import examples
from support.nests import meaning, nests
from support.sycl import sycl_engine

# --- schedule ----------------------------------------------------------------

_SSE, _AVX2 = Machine(), Machine(vector_bytes=32)
_AVX512, _NEON = Machine(vector_bytes=64, registers=32), Machine(registers=32)
_MACHINES = [_SSE, _AVX2, _AVX512, _NEON]
_machines = st.sampled_from([*_MACHINES, *(dataclasses.replace(m, l2=1, l3=1) for m in _MACHINES)])
# A tile is straight-line code: its size is compile time.
_MOST_IN_A_TILE = 64 * 64


def _boxes(src: MemoryDesc, dst: MemoryDesc, compute: Compute | None = None) -> list[LoopNest]:
    return [normalize(box) for box in peel(reorder_nest(src, dst, compute or Compute()))]


def _plans(src: MemoryDesc, dst: MemoryDesc, machine: Machine = _AVX512) -> list[Schedule]:
    return [plan for box in _boxes(src, dst) for plan in schedule(box, machine)]


def _problem(dims: tuple[int, ...], src: str, dst: str, machine: Machine = _AVX512) -> list[Schedule]:
    """`src` and `dst` are a data type and a tag."""
    made = (MemoryDesc(dims, *text.split()) for text in (src, dst))
    return _plans(*made, machine)


# --- the whole nest ----------------------------------------------------------------------------------------


@given(nests(bounded=False), _machines)
def test_schedules_do_together_what_the_nest_does(nest: LoopNest, machine: Machine) -> None:
    normal = normalize(nest)
    parts = [plan.nest for plan in schedule(normal, machine)]
    assert meaning(*parts, like=nest) == meaning(nest)


@given(nests(bounded=False), _machines)
def test_parts_of_a_schedule_write_no_place_twice(nest: LoopNest, machine: Machine) -> None:
    normal = normalize(nest)
    assert sum(plan.nest.positions for plan in schedule(normal, machine)) == normal.positions


@settings(max_examples=examples(150))
@given(pairs(max_ndims=5), _machines)
def test_loops_reach_every_tile_once(pair: tuple[MemoryDesc, MemoryDesc], machine: Machine) -> None:
    for plan in _plans(*pair, machine):
        _check_loops(plan)


def _check_loops(plan: Schedule) -> None:
    grid = {g.axis: g.tiles for g in plan.grid}
    assert len(grid) == len(plan.grid)
    assert len(set(plan.inner)) == len(plan.inner)
    for index in range(len(plan.nest.axes)):
        tiles = plan.tiles(index)
        if index not in grid:
            assert tiles == 1 or index in plan.inner
            continue
        block, steps = grid[index], plan.grid_extent(next(g for g in plan.grid if g.axis == index))
        assert block >= 1
        assert block == 1 or index in plan.inner
        assert (steps - 1) * block < tiles <= steps * block
    assert plan.steps() == prod(plan.grid_extent(g) for g in plan.grid)


@settings(max_examples=examples(150))
@given(pairs(max_ndims=5), _machines)
def test_tiles_fit(pair: tuple[MemoryDesc, MemoryDesc], machine: Machine) -> None:
    for plan in _plans(*pair, machine):
        assert prod(plan.chunks) <= _MOST_IN_A_TILE
        for chunk, axis in zip(plan.chunks, plan.nest.axes, strict=True):
            assert 1 <= chunk < 2 * axis.extent or chunk == axis.extent
            assert chunk == 1 or axis.is_linear
            assert axis.is_whole or plan.nest.is_zero or chunk > 1


@settings(max_examples=examples(150))
@given(pairs(max_ndims=5), _machines, st.booleans())
def test_streaming_is_for_what_outgrows_the_caches_and_keeps_nothing(
    pair: tuple[MemoryDesc, MemoryDesc], machine: Machine, summed: bool
) -> None:
    for box in _boxes(*pair, linear(summed=summed)):
        for plan in schedule(box, machine):
            keeps = summed and not box.is_zero
            assert not plan.streams or (not keeps and box.moved_bytes >= machine.l3)
            assert not plan.without_streams().streams
            assert plan.without_streams().nest == plan.nest
            if plan.streams:
                assert box.dst_base * box.dst_type.bits // 8 % machine.line == 0
                assert contiguous(plan.nest, "dst")


# --- families ----------------------------------------------------------------------------------------------

_KINDS = [
    ("copy", (1000,), "f32 a", "f32 a"),
    ("copy", (64, 64), "f32 ab", "bf16 ab"),
    ("copy", (2, 64, 9, 9), "f32 nChw16c", "f32 nhwc"),
    ("transpose", (64, 64), "f32 ab", "f32 ba"),
    ("transpose", (2, 64, 9, 9), "f32 nchw", "f32 nhwc"),
    ("transpose", (2, 64, 9, 9), "f32 nhwc", "s8 nchw"),
    ("transpose", (2, 3, 90, 90), "u8 nhwc", "f32 nchw"),
    ("transpose", (2, 64, 9, 9), "f32 nchw", "f32 nChw16c"),
    ("transpose", (64, 64), "s8 ab", "s8 BA16a64b4a"),
]


@pytest.mark.parametrize("machine", _MACHINES, ids=["sse", "avx2", "avx512", "neon"])
@pytest.mark.parametrize(("kind", "dims", "src", "dst"), _KINDS)
def test_known_problems_get_their_kernel(
    kind: str, dims: tuple[int, ...], src: str, dst: str, machine: Machine
) -> None:
    (plan,) = _problem(dims, src, dst, machine)
    assert plan.kind == kind
    assert plan.why


def test_what_is_contiguous_on_no_side_is_called_strided() -> None:
    """Never a silent slow path."""
    (plan,) = _plans(MemoryDesc((40, 50), "f32", (200, 3)), MemoryDesc((40, 50), "f32", "ab"))
    assert plan.kind == "strided"
    assert "source" in plan.why
    assert "destination" not in plan.why
    (both,) = _plans(MemoryDesc((40, 50), "f32", (200, 3)), MemoryDesc((40, 50), "f32", (2, 100)))
    assert "source and destination" in both.why
    assert not both.streams


def test_padding_is_a_box_of_zeros_or_part_of_a_tile() -> None:
    whole, tail = _problem((2, 17, 9, 9), "f32 nchw", "f32 nChw16c")
    assert whole.nest.axes != tail.nest.axes
    assert any(axis.valid == 1 for axis in tail.nest.axes)
    plans = _problem((2, 16), "f32 ab", "f32 AB16a4b")
    assert sum(plan.nest.positions for plan in plans) == 16 * 16


def test_an_axis_read_in_part_outside_the_tile_splits_the_nest() -> None:
    nest = LoopNest(DataType.f32, DataType.f32, (Axis(40, 70, 70, valid=9), Axis(64, 1, 1)))
    read, zero = schedule(nest, _AVX512)
    assert not read.nest.is_zero
    assert zero.nest.is_zero
    assert zero.kind == "zero"
    assert read.nest.positions + zero.nest.positions == nest.positions


@pytest.mark.parametrize(
    ("src", "dst", "compute", "middle"),
    [
        ("f32", "u8", Compute(), "u8"),
        ("u8", "f32", Compute(), "u8"),
        ("f32", "f32", Compute(), "f32"),
        ("f32", "u8", linear(scaled=True), "u8"),
        ("s32", "bf16", Compute(), "bf16"),
        ("f32", "u8", linear(summed=True), "f32"),
        ("u8", "f32", linear(summed=True), "u8"),
    ],
)
def test_values_are_permuted_while_they_are_narrow(src: str, dst: str, compute: Compute, middle: str) -> None:
    """With a sum they are finished where the old destination is at hand."""
    nest = LoopNest(DataType[src], DataType[dst], (Axis(4, 1, 1),), compute=compute)
    assert (nest.src_type if converts_after_permute(nest) else nest.dst_type) is DataType[middle]


def test_contiguous_axes_follow_each_other_without_a_gap() -> None:
    nest = LoopNest(
        DataType.f32,
        DataType.f32,
        (Axis(3, 40, 1), Axis(1, 1, 3), Axis(5, 8, 3), Axis(8, 1, 20), Axis(2, 120, 200)),
    )
    assert contiguous(nest, "src") == [3, 2, 0, 4]
    assert contiguous(nest, "dst") == [0, 2]


# --- loops -------------------------------------------------------------------------------------------------

_LARGE = [
    ((64, 256, 28, 28), "f32 nchw", "f32 nhwc"),
    ((64, 256, 28, 28), "f32 nChw16c", "f32 nchw"),
    ((4096, 4096), "u8 ab", "u8 ba"),
    ((1, 3, 2048, 2048), "u8 nhwc", "f32 nchw"),
    ((2**25,), "f32 a", "bf16 a"),
    ((4096, 4096), "s8 ab", "s8 BA16a64b4a"),
    ((8, 2**22), "f32 ab", "f32 ba"),
    ((2**22, 8), "f32 ab", "f32 ba"),
]


@pytest.mark.parametrize("machine", _MACHINES, ids=["sse", "avx2", "avx512", "neon"])
@pytest.mark.parametrize(("dims", "src", "dst"), _LARGE)
def test_large_work_is_cut_into_steps_for_many_threads(
    dims: tuple[int, ...], src: str, dst: str, machine: Machine
) -> None:
    (plan,) = _problem(dims, src, dst, machine)
    assert plan.steps() >= 32
    assert 1 <= len(plan.inner) <= 3


def test_images_that_are_stretched_follow_each_other() -> None:
    src, dst = (MemoryDesc((40, 64, n, n), "f32", "nhwc") for n in (56, 112))
    (step,) = ResamplingProblem("linear", src, dst).program().nests
    nest = normalize(step.nest)
    (plan,) = cpu.lower_nest(nest, Isa.for_name("avx512"), CacheSizes()).plan
    images = next(i for i, axis in enumerate(plan.nest.axes) if axis.extent == 40)
    assert plan.grid[0].axis == images
    assert images not in plan.inner


def test_small_work_is_one_step() -> None:
    for dims, src, dst in (
        ((32, 32), "f32 ab", "f32 ba"),
        ((4000,), "f32 a", "f32 a"),
        ((1,), "f32 a", "u8 a"),
    ):
        (plan,) = _problem(dims, src, dst)
        assert plan.steps() == 1


def test_planning_a_schedule_is_quick_whatever_the_size() -> None:
    boxes = _boxes(MemoryDesc((2**40, 70, 3), "u8", "abc"), MemoryDesc((2**40, 70, 3), "u8", "caB16b"))
    start = time.thread_time()
    for box in boxes:
        schedule(box, _AVX512)
    assert time.thread_time() - start < 0.1


def test_text_tells_tile_loops_and_reason() -> None:
    (plan,) = _problem((64, 256, 28, 28), "f32 nchw", "f32 nhwc")
    why, text = str(plan).splitlines()
    assert why == "# transpose of a0 64, a1 784, a2 256: the contiguous axes of the two sides differ"
    assert text == "tile(a1, 16) · tile(a2, 16) · parallel(a0) · parallel(a1, 17) · stream() · prefetch(128)"
    (one,) = _problem((1,), "f32 a", "f32 a")
    assert str(one) == "# copy: there is one element"


@pytest.mark.parametrize(
    ("dims", "src", "dst"),
    [
        ((1 << 31,), ("f32", "a"), ("f64", "a")),
        ((65536, 32768), ("f32", "ab"), ("f32", "ba")),
        ((1, 3, 1 << 15, 1 << 15), ("f32", "abcd"), ("f32", "acdb")),
        ((2, 1 << 28), ("u8", "ab"), ("f64", "ba")),
    ],
)
def test_steps_of_large_nests_stay_short(dims, src, dst) -> None:
    """A step cannot be interrupted: its share of the bytes is bounded, however large the nest."""
    nest = reorder_nest(MemoryDesc(dims, *src), MemoryDesc(dims, *dst), Compute())
    lowered = cpu.lower_nest(nest, Isa.for_name("avx512"), CacheSizes())
    assert nest.moved_bytes / lowered.steps <= 16 << 20


@pytest.mark.parametrize("data_type", ["f32", "bf16", "s8"])
def test_rows_of_few_sets_of_the_second_cache_are_read_few_at_a_time(data_type: str) -> None:
    (plan,) = _problem((8192, 8192), f"{data_type} ab", f"{data_type} ba")
    (rows,) = contiguous(plan.nest, "dst")[:1]
    taken = next(grid.tiles for grid in plan.grid if grid.axis == rows) * plan.chunks[rows]
    assert taken * DataType[data_type].bits // 8 == 128
    # Step after step goes on along the source.
    assert plan.grid[-1].axis == contiguous(plan.nest, "src")[0]


def test_images_of_a_power_of_two_are_moved_in_whole_runs_in_the_caches_too() -> None:
    """Their channels fall into the same sets of the first cache: what a line holds is moved at once."""
    (read,) = _problem((1, 64, 64, 64), "bf16 nchw", "bf16 nhwc")
    assert read.chunks[contiguous(read.nest, "src")[0]] * 16 == 64 * 8
    for data_type in ("u8", "bf16"):
        (written,) = _problem((1, 64, 32, 32), f"{data_type} nhwc", f"{data_type} nchw")
        assert written.inner[-1] == contiguous(written.nest, "dst")[0]
        (other,) = _problem((1, 64, 33, 33), f"{data_type} nhwc", f"{data_type} nchw")
        assert other.inner[-1] == contiguous(other.nest, "src")[0]


def test_other_rows_are_read_as_long_as_runs_of_the_destination_are() -> None:
    (plan,) = _problem((8200, 8200), "f32 ab", "f32 ba")
    (rows,) = contiguous(plan.nest, "dst")[:1]
    assert next(grid.tiles for grid in plan.grid if grid.axis == rows) * plan.chunks[rows] * 4 >= 512


@pytest.mark.parametrize(("images", "registers"), [(1, 16), (64, 8)])
def test_long_rows_of_16_bits_move_through_memory_in_half_the_tile(images: int, registers: int) -> None:
    (plan,) = _problem((images, 256, 56, 56), "bf16 nchw", "bf16 nhwc")
    assert prod(plan.chunks) * 2 == registers * 64


@pytest.mark.parametrize(
    ("src", "dst"), [("f32 nChw16c", "s8 nchw"), ("u8 nChw16c", "u8 nchw"), ("u8 nhwc", "f32 nchw")]
)
def test_what_is_read_as_one_run_from_memory_is_asked_for_tiles_ahead(src: str, dst: str) -> None:
    channels = 3 if src.endswith("nhwc") else 64
    (large,) = _problem((128, channels, 112, 112), src, dst)
    (small,) = _problem((1, channels, 112, 112), src, dst)
    assert large.prefetch >= prod(large.chunks) * large.nest.src_type.bits // 8
    assert small.prefetch <= 256


@pytest.mark.parametrize(("src", "dst"), [("f32 nchw", "f32 nhwc"), ("f32 nchw", "f32 nChw16c")])
def test_rows_that_lie_apart_are_asked_for_two_lines_ahead(src: str, dst: str) -> None:
    (plan,) = _problem((32, 64, 112, 112), src, dst)
    assert plan.prefetch == 128


@pytest.mark.parametrize("dst", ["marlin", "awq", "gptq"])
def test_tiles_of_4_bits_that_a_step_reads_in_one_run_are_asked_for_far_ahead(dst: str) -> None:
    dims = (4096, 8192)
    tiled, plain = rs.formats.torchao_int4_cpu(dims).values, MemoryDesc(dims, "u4")
    (from_tiles,) = _plans(tiled, rs.formats.named(dst, dims).values)
    (from_rows,) = _plans(plain, rs.formats.gptq(dims).values)
    assert from_tiles.prefetch == 4096
    assert from_rows.prefetch < 4096


def test_short_runs_of_the_source_are_not_asked_for_behind_their_end() -> None:
    # 16 channels of 512: 7 x 7 positions of them are a run, and then 31 others are skipped.
    whole = MemoryDesc((4096, 512, 7, 7), "u8", "nChw16c")
    window = whole.submemory_desc((4096, 16, 7, 7), (0, 0, 0, 0))
    (plan,) = _plans(
        window, MemoryDesc((4096, 16, 7, 7), "u8", "nchw"), dataclasses.replace(_AVX512, l2=1, l3=1)
    )
    assert 0 < plan.prefetch < 49 * 16


# --- square ------------------------------------------------------------------
# Squares in local memory: run by a device as one whose items run in step would; the bits are right.

GPUS = [
    DeviceFacts(64, 8, 1 << 16),
    DeviceFacts(256, 16, 1 << 16),
    DeviceFacts(256, 32, 48 << 10),
    DeviceFacts(256, 64, 1 << 16),
]
CASES = {
    "sub-groups of 8": (GPUS[0], (2, 33, 40, 3), "nhwc nchw", ("f32", "f32", 1.0, 0.0)),
    "sub-groups of 16": (GPUS[1], (3, 70, 35), "abc acb", ("f32", "s8", 0.5, -2.0)),
    "sub-groups of 32": (GPUS[2], (2, 64, 9, 9), "nchw nhwc", ("f64", "f16", 1.0, 1.0)),
    "sub-groups of 64": (GPUS[3], (100, 130), "ab ba", ("f32", "f32", 1.0, 0.0)),
    "bytes": (GPUS[2], (100, 130), "ab ba", ("u8", "u8", 1.0, 0.0)),
    "padding": (GPUS[1], (2, 40, 17, 5), "nchw nChw16c", ("f32", "bf16", 3.0, 0.0)),
}


@pytest.fixture
def as_gpu(monkeypatch):
    """The device with the facts of one whose items run in step, and no problem solved before."""
    engine, before = sycl_engine(), rs.get_primitive_cache_capacity()
    rs.set_primitive_cache_capacity(0)
    yield lambda facts: monkeypatch.setattr(engine.device, "facts", facts) or engine
    rs.set_primitive_cache_capacity(before)


@pytest.mark.sycl
@pytest.mark.parametrize("case", CASES)
def test_squares_have_the_right_bits(as_gpu, case):
    facts, dims, tags, (first, second, alpha, beta) = CASES[case]
    src, dst = tags.split()
    mds = rs.MemoryDesc(dims, first, src), rs.MemoryDesc(dims, second, dst)
    engine = as_gpu(facts)
    pd = rs.Reorder.PrimitiveDesc(engine, mds[0], engine, mds[1])
    assert "through local memory" in str(pd._impl.executable.lowered)
    check_reorder(*mds, engine, alpha=alpha, beta=beta)


@pytest.mark.sycl
@pytest.mark.parametrize("types", ["s4 u4", "bf16 f8_e4m3", "s32 boolean"])
def test_items_in_step_have_the_right_bits(as_gpu, types):
    first, second = types.split()
    engine = as_gpu(GPUS[1])
    for src, dst in (("abc", "abc"), ("abc", "acb"), ("aBc8b", "abc"), ("abc", "ABc4a8b")):
        dims = (6, 22, 10)
        check_reorder(rs.MemoryDesc(dims, first, src), rs.MemoryDesc(dims, second, dst), engine)


@pytest.mark.sycl
@pytest.mark.parametrize("mask", [1, 2, 0])
def test_sums_of_items_in_step_are_right(as_gpu, mask):
    engine = as_gpu(GPUS[1])
    x = np.random.default_rng(1).standard_normal((20, 300, 3, 2)).astype(np.float32) * 90
    for tag in ("abcd", "cdba", "ABcd4b16a4b"):
        target, s8s8, zero = reordered(engine, x, rs.MemoryDesc(x.shape, "s8", tag), attr_of(mask))
        found = totals(target, mask)
        assert s8s8.tolist() == [-128 * n for n in found]
        assert zero.tolist() == [-n for n in found]
