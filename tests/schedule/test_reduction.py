"""Sums and ranges: every kernel finds what there is, on any instruction set and in any share of the work."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restride as rs
from restride.desc.memory_desc import MemoryDesc
from restride.dtypes import DataType
from restride.ir.conversion import storage_dtype
from restride.ir.reduction import Op, ReductionAxis, interpret, reduction_of
from restride.runtime.cpu.reduction import amax, min_max, reduction_program, sum_over
from restride.schedule.machine import Machine
from restride.schedule.reduction import schedule_reduction
from restride.targets import jit, objects
from restride.targets.cpu_kernels import lower_reduction
from restride.targets.isa import Isa
from support.descriptors import shapes, sources
from support.effort import examples
from support.kernels import COMMON, isa_id, runnable
from support.reductions import CASES, NO_CACHE, Reduced, compiled, expected, same, source
from support.values import patterns

_FLOATS = Op.amax.types
_each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
_levels = pytest.mark.parametrize("isa", runnable(), ids=isa_id)
_float_types = pytest.mark.parametrize("kind", _FLOATS, ids=str)


# --- what a reduction means ---------------------------------------------------------------------------------


@_each
def test_the_interpreter_folds_each_element_of_the_descriptor_once(case: Reduced) -> None:
    data = source(case.md, 1, case.op)
    factor = -128 if case.op is Op.total else 1
    found = interpret(case.reduction, data.view(storage_dtype(case.md.data_type)), factor)
    same(found, expected(case, data, factor))


def test_axes_are_fused_sorted_and_turned_forward() -> None:
    md = MemoryDesc.from_strides((2, 3, 4, 5), "f32", (-60, 20, 5, 1), 60)
    (box,) = reduction_of(md, 0b0001, Op.amax).boxes
    assert box.axes == (ReductionAxis(2, 60, -1), ReductionAxis(60, 1, 0))
    assert (box.base, box.out) == (0, 1)


def test_equal_problems_are_equal_values() -> None:
    one = reduction_of(MemoryDesc((8, 5, 6, 7), "f32", "nchw"), 1, Op.amax)
    other = reduction_of(MemoryDesc((8, 10, 21), "f32", "abc"), 1, Op.amax)
    assert one == other
    assert hash(one) == hash(other)


def test_a_block_that_is_not_full_is_a_box_of_its_own_for_ranges_alone() -> None:
    md = MemoryDesc((2, 17, 3, 5), "f32", "nChw16c")
    full, part = reduction_of(md, 2, Op.amax).boxes
    assert part.base == 240
    assert math.prod(a.extent for a in part.axes) == 2 * 15
    assert full.positions + part.positions == md.nelems
    ints = MemoryDesc((2, 17, 3, 5), "s8", "nChw16c")
    (whole,) = reduction_of(ints, 2, Op.total).boxes
    assert whole.positions == 2 * 32 * 15


def test_a_reduction_is_readable() -> None:
    text = str(reduction_of(MemoryDesc((2, 17, 5), "s8", "aBc16b"), 2, Op.total))
    assert text.splitlines() == [
        "total of s8 into (32,)",
        "src + 0, out + 0",
        "  for 2: src += 160, out += 0",
        "    for 2: src += 80, out += 16",
        "      for 5: src += 16, out += 0",
        "        for 16: src += 1, out += 1",
    ]


@pytest.mark.parametrize("mask", [-1, 4, 7])
def test_a_mask_with_bits_for_other_dims_is_refused(mask: int) -> None:
    with pytest.raises(rs.InvalidArguments, match="mask"):
        reduction_of(MemoryDesc((2, 3), "f32", "ab"), mask, Op.amax)


def test_sums_are_of_integers_and_ranges_of_floats() -> None:
    with pytest.raises(rs.Unimplemented, match="total"):
        reduction_of(MemoryDesc((2, 3), "f32", "ab"), 0, Op.total)
    with pytest.raises(rs.Unimplemented, match="amax"):
        reduction_of(MemoryDesc((2, 3), "s8", "ab"), 0, Op.amax)
    with pytest.raises(rs.Unimplemented, match="min_max"):
        reduction_of(MemoryDesc((2, 4), "u4", "ab"), 0, Op.min_max)


# --- how it is run ------------------------------------------------------------------------------------------


@_each
@pytest.mark.parametrize("caches", [COMMON, NO_CACHE], ids=["cached", "walked"])
def test_loops_of_a_plan_run_over_every_tile_once(case: Reduced, caches: object) -> None:
    machine = Machine(64, 32, l2=1 if caches is NO_CACHE else 1 << 20)
    for plan in schedule_reduction(case.reduction, machine):
        axes = plan.box.axes
        looped = {i for i in range(len(axes)) if axes[i].extent > plan.chunk(i)}
        assert sorted([*plan.loop_axes, *plan.register_axes]) == sorted(looped)
        assert {loop.axis for loop in plan.grid} <= looped
        assert not any(axes[i].is_kept for i in plan.register_axes)
        assert plan.planes == math.prod(plan.turns(g) for g in plan.grid if not axes[g.axis].is_kept)


def test_a_whole_tensor_is_cut_into_pieces_for_threads() -> None:
    (plan,) = schedule_reduction(reduction_of(MemoryDesc((1 << 24,), "f32", "a"), 0, Op.amax), Machine())
    assert plan.steps == plan.planes == 64
    assert str(plan) == "tile 32 of 16777216; grid [axis 0 by 262144]; axes []; held [0]; planes 64"


def test_planes_stay_small_beside_what_is_read() -> None:
    for dims in ((64, 1 << 18), (4096, 8192), (8, 1 << 20)):
        reduction = reduction_of(MemoryDesc(dims, "s8", "ab"), 2, Op.total)
        (plan,) = schedule_reduction(reduction, Machine())
        assert plan.steps >= 16
        assert plan.planes == 1 or plan.planes * reduction.outputs * 64 <= plan.box.positions


# --- kernels ------------------------------------------------------------------------------------------------


@_levels
@_each
def test_kernels_find_what_is_there(case: Reduced, isa: Isa) -> None:
    data = source(case.md, 2, case.op)
    factor = -128 if case.op is Op.total else 1
    wanted = expected(case, data, factor)
    same(compiled(case.reduction, isa)(data, factor), wanted)


@_each
def test_kernels_for_tensors_past_the_caches_find_the_same(case: Reduced) -> None:
    data = source(case.md, 3, case.op)
    isa = runnable()[CASES.index(case) % len(runnable())]
    same(compiled(case.reduction, isa, NO_CACHE)(data), expected(case, data))


_LARGE = (
    Reduced("whole", MemoryDesc((3, 33, 71, 41), "f32", "nchw"), 0, Op.amax),
    Reduced("channels", MemoryDesc((3, 33, 71, 41), "f32", "nchw"), 2, Op.min_max),
    Reduced("channels last", MemoryDesc((3, 33, 71, 41), "bf16", "nhwc"), 2, Op.amax),
    Reduced("blocked", MemoryDesc((3, 33, 71, 41), "f16", "nChw16c"), 2, Op.min_max),
    Reduced("rows", MemoryDesc((601, 1407), "s8", "ab"), 1, Op.total),
    Reduced("columns", MemoryDesc((601, 1407), "s8", "ab"), 2, Op.total),
    Reduced("wide columns", MemoryDesc((64, 20001), "u8", "ab"), 2, Op.total),
    Reduced("weights", MemoryDesc((130, 70, 9, 9), "s8", "OIhw4i16o4i"), 1, Op.total),
    Reduced("images", MemoryDesc((3, 33, 71, 41), "f64", "nhwc"), 1, Op.amax),
)
_each_large = pytest.mark.parametrize("case", _LARGE, ids=lambda case: case.name)


@_levels
@_each_large
def test_any_number_of_parts_makes_the_same(case: Reduced, isa: Isa) -> None:
    data = source(case.md, 4, case.op)
    wanted = expected(case, data)
    kernel = compiled(case.reduction, isa)
    assert kernel.lowered.steps > 1
    for parts in (1, 2, 7, 200):
        same(kernel(data, parts=parts), wanted)


@pytest.mark.parametrize("name", ["generic", "sse41", "avx2", "avx512", "neon"])
def test_object_code_comes_out_for_every_instruction_set(name: str) -> None:
    isa = Isa.for_name(name)
    for case in CASES[::7]:
        code = jit.compile_ir(lower_reduction(case.reduction, isa, COMMON).ir(), isa)
        assert code[:4] == b"\x7fELF"


@st.composite
def _problems(draw: st.DrawFn) -> Reduced:
    op = draw(st.sampled_from(Op))
    dims = draw(shapes(5, 4000))
    md = draw(sources(dims, draw(st.sampled_from(op.types))))
    return Reduced("drawn", md, draw(st.integers(0, (1 << len(dims)) - 1)), op)


@settings(max_examples=examples(60))
@given(_problems(), st.sampled_from(runnable()), st.integers(1, 3), st.sampled_from((COMMON, NO_CACHE)))
def test_any_layout_and_mask(case: Reduced, isa: Isa, parts: int, caches: object) -> None:
    if len(case.reduction.boxes) > 16:
        return
    data = source(case.md, 5, case.op)
    same(compiled(case.reduction, isa, caches)(data, 3, parts), expected(case, data, 3))  # type: ignore[arg-type]


# --- values -------------------------------------------------------------------------------------------------


@_levels
@_float_types
def test_every_value_is_its_own_range_and_those_that_are_not_finite_are_0(kind: DataType, isa: Isa) -> None:
    data = patterns(kind).copy()
    with np.errstate(all="ignore"):
        values = data.view(kind.numpy).astype(np.float64 if kind is DataType.f64 else np.float32)
    finite = np.where(np.isfinite(values), values, 0) + values.dtype.type(0)
    md = MemoryDesc(data.shape, kind, "a")
    same(compiled(reduction_of(md, 1, Op.amax), isa)(data.view(np.uint8)), (np.abs(finite),))
    same(compiled(reduction_of(md, 1, Op.min_max), isa)(data.view(np.uint8)), (finite, finite))


@_float_types
@pytest.mark.parametrize("bad", ["nan", "-nan", "inf", "-inf"])
def test_where_nothing_is_finite_the_range_is_0(kind: DataType, bad: str) -> None:
    assert kind.numpy is not None
    x = np.full((3, 40), float(bad)).astype(kind.numpy)
    md = MemoryDesc(x.shape, kind, "ab")
    for found in (amax(md, x.ctypes.data, 1), *min_max(md, x.ctypes.data, 1)):
        assert found.tolist() == [0, 0, 0]
        assert not np.signbit(found).any()


@_float_types
def test_values_that_are_not_finite_are_skipped(kind: DataType) -> None:
    assert kind.numpy is not None
    x = np.full((2, 50), -1.5).astype(kind.numpy)
    x[0, ::7], x[0, 3], x[1, 9] = np.nan, -np.inf, 0.5
    md = MemoryDesc(x.shape, kind, "ab")
    low, high = min_max(md, x.ctypes.data, 1)
    assert (low.tolist(), high.tolist()) == ([-1.5, -1.5], [-1.5, 0.5])
    assert amax(md, x.ctypes.data, 1).tolist() == [1.5, 1.5]
    assert float(amax(md, x.ctypes.data, 0)) == 1.5


@_float_types
def test_a_zero_is_positive(kind: DataType) -> None:
    assert kind.numpy is not None
    x = np.full(33, -0.0).astype(kind.numpy)
    low, high = min_max(MemoryDesc(x.shape, kind, "a"), x.ctypes.data, 0)
    assert not np.signbit(low)
    assert not np.signbit(high)


def test_padding_does_not_count_in_ranges() -> None:
    md = MemoryDesc((2, 17, 3, 5), "f32", "nChw16c")
    data = np.full(md.size // 4, 1e30, np.float32)
    for c in range(17):
        for index in np.ndindex(2, 3, 5):
            data[md.offset(index[0], c, *index[1:])] = c - 20
    low, high = min_max(md, data.ctypes.data, 0)
    assert (float(low), float(high)) == (-20, -4)


@pytest.mark.parametrize(("value", "count"), [(127, 1 << 17), (-128, 1 << 17)])
def test_long_sums_of_extreme_bytes_are_exact(value: int, count: int) -> None:
    x = np.full(count, value, np.int8)
    assert (
        int(sum_over(MemoryDesc((count,), "s8", "a"), x.ctypes.data, 0, factor=1, padded=True))
        == value * count
    )


@pytest.mark.parametrize("factor", [1, -1, -128, 2**31 - 1, -(2**31), 12345])
def test_sums_are_exact_modulo_2_to_32(factor: int) -> None:
    x = np.random.default_rng(6).integers(-(2**31), 2**31, (5, 1000), np.int64).astype(np.int32)
    found = sum_over(MemoryDesc(x.shape, "s32", "ab"), x.ctypes.data, 1, factor=factor, padded=True)
    wanted = [sum(map(int, row)) * factor for row in x]
    assert [int(v) % 2**32 for v in found] == [v % 2**32 for v in wanted]


# --- the functions ------------------------------------------------------------------------------------------


@pytest.fixture
def threads() -> Iterator[None]:
    before = rs.get_num_threads()
    yield
    rs.set_num_threads(before)


@_each_large
def test_any_number_of_threads_finds_the_same(case: Reduced, threads: None) -> None:
    data = source(case.md, 7, case.op)
    wanted = expected(case, data)
    for count in (1, 2, 5):
        rs.set_num_threads(count)
        same(_by_function(case, data.ctypes.data), wanted)


def _by_function(case: Reduced, address: int) -> tuple[np.ndarray, ...]:
    if case.op is Op.total:
        return (sum_over(case.md, address, case.mask, factor=1, padded=True),)
    if case.op is Op.amax:
        return (amax(case.md, address, case.mask),)
    return min_max(case.md, address, case.mask)


@_each
def test_the_functions_find_what_kernels_find(case: Reduced) -> None:
    data = source(case.md, 8, case.op)
    same(_by_function(case, data.ctypes.data), expected(case, data))


def test_large_tensors_match_numpy(threads: None) -> None:
    rs.set_num_threads(2)
    x = np.random.default_rng(9).standard_normal((4, 64, 57, 61), np.float32)
    for tag, mask, axes in (
        ("nchw", 2, (0, 2, 3)),
        ("nchw", 3, (2, 3)),
        ("nhwc", 2, (0, 2, 3)),
        ("nhwc", 0, None),
    ):
        md = MemoryDesc(x.shape, "f32", tag)
        held = x if tag == "nchw" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        np.testing.assert_array_equal(amax(md, held.ctypes.data, mask), np.abs(x).max(axes))
        low, high = min_max(md, held.ctypes.data, mask)
        np.testing.assert_array_equal(low, x.min(axes))
        np.testing.assert_array_equal(high, x.max(axes))


def test_compensation_of_weights_has_a_sum_for_each_padded_output() -> None:
    md = MemoryDesc((17, 21, 3, 3), "s8", "OIhw4i16o4i")
    data = source(md, 10, Op.total)
    whole = sum_over(md, data.ctypes.data, 1, factor=-128, padded=True)
    assert whole.shape == (32,)
    assert not whole[17:].any()
    logical = sum_over(md, data.ctypes.data, 1, factor=-128, padded=False)
    assert logical.tolist() == whole[:17].tolist()
    assert logical.flags.c_contiguous


@pytest.mark.parametrize("tag", ["gOIhw4i16o4i", "goihw", "hwigo"])
def test_sums_go_to_an_address_and_nowhere_else(tag: str) -> None:
    md = MemoryDesc((3, 20, 18, 3, 3), "s8", tag)
    data = source(md, 11, Op.total)
    program = reduction_program(reduction_of(md, 3, Op.total))
    shape = program.reduction.shape
    assert shape == (3, md.padded_dims[1])
    held = np.full(math.prod(shape) + 32, 77, np.int32)
    for _ in range(2):
        program.write_sums(data.ctypes.data, held[16:].ctypes.data, -1)
    found = held[16:-16].reshape(shape)
    np.testing.assert_array_equal(found, sum_over(md, data.ctypes.data, 3, factor=-1, padded=True))
    assert (held[:16] == 77).all()
    assert (held[-16:] == 77).all()


def test_slices_along_a_kept_dim_make_the_whole() -> None:
    md = MemoryDesc((64, 70, 3, 3), "s8", "OIhw4i16o4i")
    data = source(md, 12, Op.total)
    wanted = sum_over(md, data.ctypes.data, 1, factor=-128, padded=True)
    part = reduction_program(reduction_of(MemoryDesc((16, 70, 3, 3), "s8", "OIhw4i16o4i"), 1, Op.total))
    found = np.empty(64, np.int32)
    for first in range(0, 64, 16):
        part.write_sums(data.ctypes.data + md.offset(first, 0, 0, 0), found[first:].ctypes.data, -128)
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("dims", [(0,), (0, 5), (5, 0), (0, 0)])
def test_tensors_without_elements_have_sums_and_ranges_of_0(dims: tuple[int, ...]) -> None:
    tag = "ab"[: len(dims)]
    for mask in range(1 << len(dims)):
        shape = tuple(n for d, n in enumerate(dims) if mask >> d & 1)
        found = (
            sum_over(MemoryDesc(dims, "s8", tag), 0, mask, factor=-128, padded=True),
            amax(MemoryDesc(dims, "f32", tag), 0, mask),
            *min_max(MemoryDesc(dims, "f64", tag), 0, mask),
        )
        assert [(each.shape, each.dtype) for each in found] == [
            (shape, np.dtype(kind)) for kind in ("i4", "f4", "f8", "f8")
        ]
        assert not any(each.any() for each in found)


def test_more_partial_blocks_than_code_is_made_for_are_folded_all_the_same() -> None:
    dims, tag = (3,) * 6, "ABCDEF2a2b2c2d2e2f"
    for kind, op in (("f32", Op.min_max), ("bf16", Op.amax)):
        case = Reduced("", MemoryDesc(dims, kind, tag), 0b10, op)
        assert len(case.reduction.boxes) == 64
        data = source(case.md, 13, op)
        same(_by_function(case, data.ctypes.data), expected(case, data))


def test_a_problem_is_planned_and_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    load = objects.load_kernel
    monkeypatch.setattr(objects, "load_kernel", lambda *args: (made.append(args), load(*args))[1])
    md = MemoryDesc((7, 123, 3), "f32", "abc")
    x = np.ones(md.dims, np.float32)
    for _ in range(3):
        amax(md, x.ctypes.data, 1)
    # The same loops from another descriptor.
    amax(MemoryDesc((7, 3, 123), "f32", "abc"), x.ctypes.data, 1)
    assert len(made) == 1


def test_a_factor_is_no_other_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    load = objects.load_kernel
    monkeypatch.setattr(objects, "load_kernel", lambda *args: (made.append(args), load(*args))[1])
    x = np.ones((9, 77), np.int8)
    out = np.empty(9, np.int32)
    for factor in (1, -1, -128):
        program = reduction_program(reduction_of(MemoryDesc(x.shape, "s8", "ab"), 1, Op.total))
        program.write_sums(x.ctypes.data, out.ctypes.data, factor)
        assert out.tolist() == [77 * factor] * 9
    assert len(made) == 1


def test_unaligned_addresses_are_read() -> None:
    raw = np.zeros(4 * 1000 + 1, np.uint8)
    raw[1:].view(np.uint8)[:] = np.arange(1000, dtype=np.float32).view(np.uint8)
    assert float(amax(MemoryDesc((1000,), "f32", "a"), raw.ctypes.data + 1, 0)) == 999
    assert ctypes.c_float.from_address(raw.ctypes.data + 1).value == 0
