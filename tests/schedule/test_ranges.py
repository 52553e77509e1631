"""Sums and ranges: every kernel finds what there is, on any instruction set and in any share of the work."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restride as rs
from restride.desc.memory_desc import MemoryDesc
from restride.dtypes import DataType
from restride.ir.conversion import storage_dtype
from restride.ir.interpret_tree import interpret_tree
from restride.ir.ranges import NOT_FINITE, amax_tree, sum_tree
from restride.runtime.cpu.ranges import amax, min_max
from restride.schedule.trees.lanes import folds_in_lanes
from restride.targets import jit, objects
from restride.targets.cpu_kernels import lower_tree
from restride.targets.isa import CacheSizes, Isa
from support.descriptors import shapes, sources
from support.effort import examples
from support.kernels import COMMON, isa_id, runnable
from support.reductions import (
    CASES,
    NO_CACHE,
    Array,
    Bytes,
    Reduced,
    compiled,
    expected,
    found,
    interpreted,
    same,
    source,
)
from support.values import patterns

_FLOATS = tuple(NOT_FINITE)
_INTEGERS = (DataType.s8, DataType.u8, DataType.s32, DataType.boolean)
_each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
_levels = pytest.mark.parametrize("isa", runnable(), ids=isa_id)
_float_types = pytest.mark.parametrize("kind", _FLOATS, ids=str)


# --- what they mean -----------------------------------------------------------------------------------------


@_each
def test_the_interpreter_folds_each_element_of_the_descriptor_once(case: Reduced) -> None:
    data = source(case.md, 1, case.op)
    same(interpreted(case, data), expected(case, data))


@pytest.mark.parametrize("mask", [-1, 4, 7])
def test_a_mask_with_bits_for_other_dims_is_refused(mask: int) -> None:
    with pytest.raises(rs.InvalidArguments, match="mask"):
        amax(MemoryDesc((2, 3), "f32", "ab"), 0, mask)


def test_ranges_are_of_floats() -> None:
    with pytest.raises(rs.Unimplemented, match="amax"):
        amax(MemoryDesc((2, 3), "s8", "ab"), 0, 0)
    with pytest.raises(rs.Unimplemented, match="min_max"):
        min_max(MemoryDesc((2, 4), "u4", "ab"), 0, 0)


# --- kernels ------------------------------------------------------------------------------------------------


@_levels
@_each
def test_kernels_find_what_is_there(case: Reduced, isa: Isa) -> None:
    data = source(case.md, 2, case.op)
    case = replace(case, factor=-128)
    same(found(case, data, isa), expected(case, data))


@_each
def test_kernels_for_tensors_past_the_caches_find_the_same(case: Reduced) -> None:
    data = source(case.md, 3, case.op)
    isa = runnable()[CASES.index(case) % len(runnable())]
    same(found(case, data, isa, NO_CACHE), expected(case, data))


_LARGE = (
    Reduced("whole", MemoryDesc((3, 33, 71, 41), "f32", "nchw"), 0, "amax"),
    Reduced("channels", MemoryDesc((3, 33, 71, 41), "f32", "nchw"), 2, "min_max"),
    Reduced("channels last", MemoryDesc((3, 33, 71, 41), "bf16", "nhwc"), 2, "amax"),
    Reduced("blocked", MemoryDesc((3, 33, 71, 41), "f16", "nChw16c"), 2, "min_max"),
    Reduced("rows", MemoryDesc((601, 1407), "s8", "ab"), 1, "sum"),
    Reduced("columns", MemoryDesc((601, 1407), "s8", "ab"), 2, "sum"),
    Reduced("wide columns", MemoryDesc((64, 20001), "u8", "ab"), 2, "sum"),
    Reduced("weights", MemoryDesc((130, 70, 9, 9), "s8", "OIhw4i16o4i"), 1, "sum"),
    Reduced("images", MemoryDesc((3, 33, 71, 41), "f64", "nhwc"), 1, "amax"),
)
_each_large = pytest.mark.parametrize("case", _LARGE, ids=lambda case: case.name)


@pytest.mark.parametrize("name", ["generic", "sse41", "avx2", "avx512", "neon"])
def test_object_code_comes_out_for_every_instruction_set(name: str) -> None:
    isa = Isa.for_name(name)
    for case in CASES[::7]:
        for loop in lower_tree(case.tree, isa, COMMON).loops:
            assert jit.compile_ir(loop.ir(), isa)[:4] == b"\x7fELF"


@st.composite
def _problems(draw: st.DrawFn) -> Reduced:
    op = draw(st.sampled_from(("sum", "amax", "min_max")))
    dims = draw(shapes(5, 4000))
    md = draw(sources(dims, draw(st.sampled_from(_INTEGERS if op == "sum" else _FLOATS))))
    return Reduced("drawn", md, draw(st.integers(0, (1 << len(dims)) - 1)), op, 3)


@settings(max_examples=examples(60))
@given(_problems(), st.sampled_from(runnable()), st.sampled_from((COMMON, NO_CACHE)))
def test_any_layout_and_mask(case: Reduced, isa: Isa, caches: CacheSizes) -> None:
    data = source(case.md, 5, case.op)
    same(found(case, data, isa, caches), expected(case, data))


@settings(max_examples=examples(60))
@given(_problems())
def test_lanes_change_no_result(case: Reduced) -> None:
    data = source(case.md, 5, case.op)
    kinds = [storage_dtype(tensor.data_type) for tensor in case.tree.tensors]
    results = case.new_results()
    flats = [bits.view(kind) for bits, kind in zip((data, *results), kinds, strict=True)]
    interpret_tree(folds_in_lanes(case.tree), flats)
    same(case.values(results), expected(case, data))


# --- how they run -------------------------------------------------------------------------------------------


def test_neighbors_of_several_results_are_lanes() -> None:
    tree = folds_in_lanes(sum_tree(MemoryDesc((64, 64, 3, 3), "s8", "OIhw4i16o4i"), 1, (-1,)))
    assert str(tree).splitlines()[3:] == [
        "each d0.block 4:",
        "  local s.part[16, 4] s32",
        "  each d0.place 16, d1.place 4:",
        "    each d1.block 16, d2 3, d3 3:",
        "      s.part = sum(src[16 * d0.block + d0.place, 4 * d1.block + d1.place, d2, d3])",
        "    s.part[d0.place, d1.place] = s.part",
        "  each d0.place 16:",
        "    each d1.place 4:",
        "      s = sum(s.part[d0.place, d1.place])",
        "    dst0[16 * d0.block + d0.place] = s * -1",
    ]


@pytest.mark.parametrize(
    ("dims", "tag", "mask"),
    [
        ((64, 300), "ab", 1),
        ((64, 300), "ab", 2),
        ((8, 64, 7, 7), "acdb", 2),
        ((4,), "a", 0),
        ((0, 4), "ab", 1),
    ],
)
def test_where_one_digit_fills_vectors_lanes_stay(dims: tuple[int, ...], tag: str, mask: int) -> None:
    tree = amax_tree(MemoryDesc(dims, "f32", tag), mask)
    assert folds_in_lanes(tree) is tree


def test_a_whole_tensor_is_cut_into_pieces_for_threads() -> None:
    case = Reduced("", MemoryDesc((1 << 24,), "f32", "a"), 0, "amax")
    first, second = compiled(case, runnable()[-1]).launches
    assert (first.lowered.steps, second.lowered.steps) == (128, 1)


# --- values -------------------------------------------------------------------------------------------------


@_levels
@_float_types
def test_every_value_is_its_own_range_and_those_that_are_not_finite_are_0(kind: DataType, isa: Isa) -> None:
    data = patterns(kind).copy()
    with np.errstate(all="ignore"):
        values = data.view(kind.numpy).astype(np.float64 if kind is DataType.f64 else np.float32)
    finite = np.where(np.isfinite(values), values, 0) + values.dtype.type(0)
    md = MemoryDesc(data.shape, kind, "a")
    for op, wanted in (("amax", (np.abs(finite),)), ("min_max", (finite, finite))):
        same(found(Reduced("", md, 1, op), data.view(np.uint8), isa), wanted)


@_float_types
@pytest.mark.parametrize("bad", ["nan", "-nan", "inf", "-inf"])
def test_where_nothing_is_finite_the_range_is_0(kind: DataType, bad: str) -> None:
    assert kind.numpy is not None
    x = np.full((3, 40), float(bad)).astype(kind.numpy)
    md = MemoryDesc(x.shape, kind, "ab")
    for ends in (amax(md, x.ctypes.data, 1), *min_max(md, x.ctypes.data, 1)):
        assert ends.tolist() == [0, 0, 0]
        assert not np.signbit(ends).any()


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


@pytest.mark.parametrize("value", [127, -128])
def test_long_sums_of_extreme_bytes_are_exact(value: int) -> None:
    case = Reduced("", MemoryDesc((1 << 17,), "s8", "a"), 0, "sum")
    data = np.full(1 << 17, value, np.int8).view(np.uint8)
    assert int(found(case, data, runnable()[-1])[0]) == value << 17


@pytest.mark.parametrize("factor", [1, -1, -128, 2**31 - 1, -(2**31), 12345])
def test_sums_are_exact_modulo_2_to_32(factor: int) -> None:
    x = np.random.default_rng(6).integers(-(2**31), 2**31, (5, 1000), np.int64).astype(np.int32)
    case = Reduced("", MemoryDesc(x.shape, "s32", "ab"), 1, "sum", factor)
    (sums,) = found(case, x.view(np.uint8), runnable()[-1])
    wanted = [sum(map(int, row)) * factor for row in x]
    assert [int(v) % 2**32 for v in sums] == [v % 2**32 for v in wanted]


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
        same(_by_function(case, data), wanted)


def _by_function(case: Reduced, data: Bytes) -> tuple[Array, ...]:
    if case.op == "sum":
        return found(case, data, runnable()[-1])
    return (
        (amax(case.md, data.ctypes.data, case.mask),)
        if case.op == "amax"
        else min_max(case.md, data.ctypes.data, case.mask)
    )


@_each
def test_the_functions_find_what_kernels_find(case: Reduced) -> None:
    data = source(case.md, 8, case.op)
    same(_by_function(case, data), expected(case, data))


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


@pytest.mark.parametrize("dims", [(0,), (0, 5), (5, 0), (0, 0)])
def test_tensors_without_elements_have_sums_and_ranges_of_0(dims: tuple[int, ...]) -> None:
    tag = "ab"[: len(dims)]
    for mask in range(1 << len(dims)):
        case = Reduced("", MemoryDesc(dims, "s8", tag), mask, "sum")
        results = (
            *found(case, np.zeros(0, np.uint8), runnable()[-1]),
            amax(MemoryDesc(dims, "f32", tag), 0, mask),
            *min_max(MemoryDesc(dims, "f64", tag), 0, mask),
        )
        assert [(each.shape, each.dtype) for each in results] == [
            (case.shape, np.dtype(kind)) for kind in ("i4", "f4", "f8", "f8")
        ]
        assert not any(each.any() for each in results)


def test_many_partial_blocks_are_folded_all_the_same() -> None:
    for kind, op in (("f32", "min_max"), ("bf16", "amax")):
        case = Reduced("", MemoryDesc((3,) * 6, kind, "ABCDEF2a2b2c2d2e2f"), 0b10, op)
        data = source(case.md, 13, op)
        same(_by_function(case, data), expected(case, data))


def test_a_problem_is_planned_and_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    load = objects.load_kernel
    monkeypatch.setattr(objects, "load_kernel", lambda *args: (made.append(args), load(*args))[1])
    md = MemoryDesc((7, 123, 3), "f32", "abc")
    x = np.ones(md.dims, np.float32)
    for _ in range(3):
        amax(md, x.ctypes.data, 1)
    assert len(made) == 1


def test_unaligned_addresses_are_read() -> None:
    raw = np.zeros(4 * 1000 + 1, np.uint8)
    raw[1:].view(np.uint8)[:] = np.arange(1000, dtype=np.float32).view(np.uint8)
    assert float(amax(MemoryDesc((1000,), "f32", "a"), raw.ctypes.data + 1, 0)) == 999
    assert ctypes.c_float.from_address(raw.ctypes.data + 1).value == 0
