"""Quantisation in one pass: scales from their definitions in NumPy, elements from ml_dtypes, on every
instruction set and in any share of the work."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import restride as rs
from restride.arrays.scaling.grouped import split_views
from restride.desc.memory_desc import MemoryDesc
from restride.dtypes import DataType
from restride.emit import entry
from restride.ir.group_quantization import GroupQuantization, group_quantization
from restride.ir.scale_rule import ScaleRule
from restride.runtime.cpu.kernel import KernelWords
from restride.schedule.groups import schedule_groups
from restride.schedule.machine import Machine
from restride.targets.cpu_kernels import lower_groups
from restride.targets.isa import CacheSizes, Isa
from restride.targets.lowered import Lowered
from support.kernels import isa_id, runnable
from support.machine_code import loaded
from support.values import patterns

Array = npt.NDArray[np.generic]

_REACH = {
    "s8": 127,
    "u8": 127,
    "s4": 7,
    "u4": 7,
    "f4_e2m1": 6,
    "f4_e3m0": 16,
    "f8_e4m3": 448,
    "f8_e5m2": 57344,
}
_WIDE = Machine(vector_bytes=64, registers=32)
_F4 = {"f4_e2m1": [0, 0.5, 1, 1.5, 2, 3, 4, 6], "f4_e3m0": [0, 0.25, 0.5, 1, 2, 4, 8, 16]}
_LEAST = {"f16": 2.0**-24, "f8_e4m3": 2.0**-9, "f8_e5m2": 2.0**-16}
_ENDS = {"s8": (-128, 127), "u8": (0, 255), "s4": (-8, 7), "u4": (0, 15)}


@dataclass(frozen=True)
class Case:
    """A tensor, its groups, and the types of all three."""

    dims: tuple[int, ...]
    groups: tuple[int, ...]
    kind: str
    scale_type: str = "f32"
    src_type: str = "f32"
    tag: str = "ab"
    is_two_level: bool = False
    has_zeros: bool = False

    @property
    def counts(self) -> tuple[int, ...]:
        """How many groups there are along each axis."""
        return tuple(n // g for n, g in zip(self.dims, self.groups, strict=True))

    @property
    def quantization(self) -> GroupQuantization:
        """As the planner makes it."""
        mds = MemoryDesc(self.dims, self.src_type, self.tag), MemoryDesc(self.dims, self.kind, self.tag)
        views = split_views(*mds, [MemoryDesc(self.counts, self.scale_type)])
        rule = ScaleRule(DataType[self.kind], DataType[self.scale_type], self.is_two_level, self.has_zeros)
        found = group_quantization(views[0], views[1], views[2], rule)
        assert found is not None
        return found

    def source(self) -> Array:
        """Numbers of many sizes, and among them what is not finite, and a group of zeros."""
        rng = np.random.default_rng(5)
        x = rng.standard_normal(self.dims) * np.exp(3 * rng.standard_normal((*self.dims[:-1], 1)))
        x[tuple(slice(0, g) for g in self.groups)] = 0
        flat = x.reshape(-1)
        flat[[-1, -2, -3, -20]] = np.nan, np.inf, -np.inf, -0.0
        with np.errstate(all="ignore"):
            return x.astype(DataType[self.src_type].numpy)

    def spread(self, scales: Array) -> Array:
        """A scale for each element."""
        for axis, group in enumerate(self.groups):
            scales = scales.repeat(group, axis)
        return scales

    def wanted(self, x: Array, tensor_scale: np.float32) -> tuple[Array, Array, Array]:
        """The scales in f32, the elements as numbers, and zero points."""
        real = x.astype(np.float32)
        split = [n for pair in zip(self.counts, self.groups, strict=True) for n in pair]
        if self.has_zeros:
            return self._ranged(real, np.where(np.isfinite(real), real, 0).reshape(split))
        magnitudes = np.abs(np.where(np.isfinite(real), real, 0)).reshape(split)
        largest = magnitudes.max(tuple(range(1, 2 * len(self.dims), 2)))
        with np.errstate(all="ignore"):
            scales = self._scales(largest, tensor_scale)
            used = scales * tensor_scale if self.is_two_level else scales
            return scales, self._elements(real / self.spread(used)), np.zeros(0)

    def _ranged(self, real: Array, finite: Array) -> tuple[Array, Array, Array]:
        """With zero points: computed in f64, rounded once."""
        over = tuple(range(1, finite.ndim, 2))
        low, high = (end(over).astype(np.float64) for end in (finite.min, finite.max))
        low, high = np.minimum(low, 0), np.maximum(high, 0)
        bottom, top = _ENDS[self.kind]
        exact = ((high - low) / (top - bottom)).astype(np.float32)
        scales = np.where(exact > 0, exact, 1).astype(DataType[self.scale_type].numpy).astype(np.float32)
        scales = np.maximum(scales, np.float32(_LEAST.get(self.scale_type, 2.0**-126)))
        zeros = np.clip(np.rint(bottom - low / scales), bottom, top).astype(np.float32)
        with np.errstate(all="ignore"):
            t = real / self.spread(scales)
        elements = np.where(np.isnan(t), 0, t) + self.spread(zeros)
        return scales, np.rint(np.clip(elements, bottom, top)), zeros

    def _scales(self, largest: Array, tensor_scale: np.float32) -> Array:
        reach = _REACH[self.kind]
        if self.scale_type == "e8m0":
            exact = np.log2(largest.astype(np.float64) / reach)
            if self.kind[0] != "f":
                power = np.ceil(exact)
            else:
                power = np.floor(np.log2(largest.astype(np.float64))) - np.floor(np.log2(reach))
            return np.where(largest > 0, np.exp2(power), 1).astype(np.float32)
        exact = largest / np.float32(reach)
        if self.is_two_level:
            exact = np.minimum(exact / tensor_scale, np.float32(448))
        exact = np.where(exact > 0, exact, np.float32(1))
        stored = exact.astype(DataType[self.scale_type].numpy).astype(np.float32)
        return np.maximum(stored, np.float32(_LEAST.get(self.scale_type, 2.0**-126)))

    def _elements(self, t: Array) -> Array:
        if self.kind in _ENDS:
            middle = {"u8": 128, "u4": 8}.get(self.kind, 0)
            return np.rint(np.clip(np.where(np.isnan(t), 0, t) + np.float32(middle), *_ENDS[self.kind]))
        reach = _REACH[self.kind]
        limited = t if self.kind.startswith("f4") else np.clip(t, -reach, reach)
        kind = DataType[self.kind].numpy or ml_dtypes.float4_e2m1fn
        return _cast(limited, self.kind, kind)


def _cast(t: Array, name: str, kind: npt.DTypeLike) -> Array:
    if not name.startswith("f4"):
        return t.astype(kind).astype(np.float32)
    most = _REACH[name]
    values = np.array(_F4[name])
    size = np.minimum(np.abs(np.where(np.isnan(t), 0, t)).astype(np.float64), most)
    above = np.searchsorted(values, size).clip(1, 7)
    low, high = values[above - 1], values[above]
    middle = (low + high) / 2
    is_up = (size > middle) | ((size == middle) & (above % 2 == 0))
    sign = np.where(np.signbit(t), -1, 1)
    return (sign * np.where(is_up, high, low)).astype(np.float32)


CASES = (
    Case((24, 256), (1, 32), "s8"),
    Case((24, 256), (1, 16), "s4", "f16"),
    Case((7, 96), (1, 32), "u4", "f32", "bf16"),
    Case((5, 96), (1, 32), "u8", "bf16", "f16"),
    Case((9, 384), (1, 32), "f4_e2m1", "e8m0"),
    Case((9, 384), (1, 16), "f4_e2m1", "f8_e4m3", is_two_level=True),
    Case((9, 128), (1, 64), "f4_e3m0", "f8_e5m2"),
    Case((16, 256), (1, 32), "f8_e4m3", "e8m0", "bf16"),
    Case((16, 256), (1, 128), "f8_e5m2", "f32"),
    Case((3, 1280), (1, 1280), "s8", "e8m0"),
    Case((256, 384), (128, 128), "f8_e4m3"),
    Case((64, 200), (32, 1), "s8"),
    Case((64, 202), (64, 1), "s4", "f16", "bf16"),
    Case((64, 96), (1, 48), "s8"),
    Case((4, 6, 320), (2, 3, 64), "s8", "f16", tag="abc"),
    Case((4, 64, 5, 32), (1, 16, 1, 1), "u8", tag="acdb"),
    Case((1, 32), (1, 32), "s4"),
    Case((24, 256), (1, 32), "u8", has_zeros=True),
    Case((24, 256), (1, 128), "u4", "f16", "bf16", has_zeros=True),
    Case((6, 1280), (1, 640), "s8", "bf16", "f16", has_zeros=True),
    Case((64, 200), (32, 1), "s4", has_zeros=True),
    Case((64, 256), (32, 128), "u8", "f8_e4m3", has_zeros=True),
    Case((64, 256), (32, 1), "f4_e2m1", "e8m0", "bf16"),
    Case((64, 256), (32, 1), "f8_e5m2", "e8m0", "bf16"),
    Case((3, 1280), (1, 1280), "f8_e4m3", "e8m0", "bf16"),
    # bf16 is read by turns where a register of bytes has a table.
    Case((24, 256), (1, 128), "s8", "f32", "bf16"),
    Case((24, 256), (1, 64), "s4", "f16", "bf16"),
    Case((24, 256), (1, 16), "u8", "f32", "bf16"),
    Case((40, 384), (1, 16), "f4_e2m1", "f8_e4m3", "bf16", is_two_level=True),
    Case((24, 256), (1, 64), "f4_e3m0", "f8_e5m2", "bf16"),
    Case((256, 256), (128, 128), "f8_e4m3", "f32", "bf16"),
    Case((24, 256), (1, 128), "f8_e5m2", "f32", "bf16"),
)
_each = pytest.mark.parametrize("case", CASES, ids=str)


def _checked(
    case: Case, values: rs.Memory, scales: Array, x: Array, tensor_scale: np.float32, zeros: Array
) -> None:
    wanted_scales, wanted, wanted_zeros = case.wanted(x, tensor_scale)
    np.testing.assert_array_equal(scales, wanted_scales)
    if case.has_zeros:
        np.testing.assert_array_equal(zeros, wanted_zeros)
    found = rs.reorder(values, None, dtype="f32")
    # What has no sign has no NaN either: f8 keeps it.
    np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.sweep(1)
@_each
@pytest.mark.parametrize("isa", runnable(), ids=isa_id)
def test_kernels_find_scales_and_elements_by_their_definition(case: Case, isa: Isa) -> None:
    lowered = lower_groups(case.quantization, isa, CacheSizes())
    assert lowered is not None
    _check_kernel(case, lowered)


@pytest.mark.parametrize("case", CASES[::3], ids=str)
@pytest.mark.parametrize("isa", runnable()[-1:], ids=isa_id)
def test_kernels_past_the_caches_ask_ahead_and_write_the_same(case: Case, isa: Isa) -> None:
    lowered = lower_groups(case.quantization, isa, CacheSizes(l2=1, l3=1))
    assert lowered is not None
    assert lowered.plan.ahead or lowered.plan.walked is None
    assert ("prefetch" in lowered.ir()) == bool(lowered.plan.ahead)
    assert ("!nontemporal" in lowered.ir()) == lowered.plan.streams
    _check_kernel(case, lowered)


def test_elements_stream_where_they_are_whole_lines() -> None:
    def streams(*args: Any, **options: Any) -> bool:
        plan = schedule_groups(Case(*args, **options).quantization, replace(_WIDE, l2=1, l3=1))
        assert plan is not None
        plain = plan.without_streams()
        assert (plain is None) == (not plan.streams)
        assert plain is None or not plain.streams
        return plan.streams

    assert streams((64, 256), (1, 32), "s8")
    assert streams((64, 256), (1, 16), "f4_e2m1", "f8_e4m3")
    assert streams((256, 384), (128, 128), "f8_e4m3")
    assert streams((64, 512), (32, 1), "s8")
    # Registers of 4-bit elements of columns are half a line; rows of 96 bytes begin between two.
    assert not streams((64, 512), (32, 1), "s4")
    assert not streams((64, 96), (32, 32), "s8")
    assert schedule_groups(Case((64, 256), (1, 32), "s8").quantization, _WIDE).streams is False


def _check_kernel(case: Case, lowered: Lowered) -> None:
    """What a kernel writes, in one part and in three, is what the definition says."""
    cpu = rs.Engine("cpu")
    x = case.source()
    source = rs.Memory(MemoryDesc(case.dims, case.src_type, case.tag), cpu)
    rs.reorder(x, None, out=source)
    values = rs.Memory(MemoryDesc(case.dims, case.kind, case.tag), cpu)
    scale = rs.Memory(MemoryDesc(case.counts, case.scale_type), cpu)
    tensor_scale = np.float32(0.125) if case.is_two_level else np.float32(1)
    zeros = np.zeros(case.counts, np.int8 if case.kind[0] == "s" else np.uint8)
    words = KernelWords((float(tensor_scale),), (scale.get_data_handle(), zeros.ctypes.data))
    pointer, count = ctypes.c_void_p, ctypes.c_int64
    library = loaded(lowered.ir(), lowered.isa)
    run = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, count, count)(library.address(entry.ENTRY))
    for parts in (1, 3):
        for part in reversed(range(parts)):
            run(source.get_data_handle(), values.get_data_handle(), words.address, part, parts)
        _checked(case, values, scale.to_numpy().astype(np.float32), x, tensor_scale, zeros)


@_each
def test_quantize_does_so_in_one_pass(case: Case) -> None:
    if case.is_two_level:
        made = rs.quantize(case.source(), "nvfp4")
    else:
        source = rs.Memory(MemoryDesc(case.dims, case.src_type, case.tag), rs.Engine("cpu"))
        rs.reorder(case.source(), None, out=source)
        options = {"scale_type": case.scale_type, "symmetric": not case.has_zeros}
        made = rs.quantize(source, case.kind, group=case.groups, **options)
        assert made.values.desc == MemoryDesc(case.dims, case.kind, case.tag)
    scales = made.scale.to_numpy().astype(np.float32)
    zeros = made.zero_point.to_numpy().astype(np.float32) if case.has_zeros else np.zeros(0)
    _checked(case, made.values, scales, case.source(), np.float32(made.tensor_scale), zeros)


def test_two_levels_run_backward_where_the_tensor_has_just_been_read() -> None:
    case, caches = Case((40, 384), (1, 16), "f4_e2m1", "f8_e4m3", is_two_level=True), replace(_WIDE, l2=1)
    plan = schedule_groups(case.quantization, caches)
    assert plan is not None
    assert plan.is_backward
    assert plan.ahead < 0
    assert not schedule_groups(case.quantization, _WIDE).is_backward
    assert not schedule_groups(Case((40, 384), (1, 16), "s8").quantization, caches).is_backward


@pytest.mark.parametrize("scale_type", ["e8m0", "f32"])
@pytest.mark.parametrize("src", ["bf16", "f32"])
@pytest.mark.parametrize("kind", ["f4_e2m1", "f4_e3m0"])
def test_every_rounding_to_4_bits_is_right(kind: str, src: str, scale_type: str) -> None:
    """Numbers at and beside every tie, with a neighbour that makes the scale 1."""
    most = {"f4_e2m1": 7.99, "f4_e3m0": 31.9}[kind] if scale_type == "e8m0" else _REACH[kind]
    if src == "bf16":
        with np.errstate(invalid="ignore"):
            real = patterns(DataType.bf16).view(ml_dtypes.bfloat16).astype(np.float32)
        most = float(np.float32(most).astype(ml_dtypes.bfloat16)) if scale_type == "f32" else _REACH[kind]
    else:
        real = np.concatenate([patterns(DataType.f32), _ties(_F4[kind])]).view(np.float32)
    with np.errstate(invalid="ignore"):
        real = real[~(np.abs(real) > most) | ~np.isfinite(real)]
    real = np.resize(real, (-(-real.size // 60), 60))
    x = np.concatenate([real, np.full((len(real), 4), most, np.float32)], 1)
    with np.errstate(invalid="ignore"):
        source = x if src == "f32" else x.astype(ml_dtypes.bfloat16)
    made = rs.quantize(source, kind, group=64, scale_type=scale_type)
    assert (made.scale.to_numpy().astype(np.float32) == 1).all()
    codes = made.values.data.view(np.uint8)
    found = np.stack([codes & 15, codes >> 4], -1).reshape(x.shape)
    wanted = np.abs(_cast(x, kind, np.float32))
    np.testing.assert_array_equal(np.array(_F4[kind])[found & 7], np.where(np.isnan(x), 0, wanted))
    np.testing.assert_array_equal(found >> 3, np.where(np.isnan(x), 1, np.signbit(x)))


def _ties(values: list[float]) -> Array:
    """The bits of the middles between neighbours, and of what lies beside them."""
    exact = np.array(values, np.float32)
    middles = np.concatenate([exact, (exact[1:] + exact[:-1]) / 2])
    beside = [np.nextafter(middles, np.float32(end)) for end in (-np.inf, np.inf)]
    found = np.concatenate([middles, *beside])
    return np.concatenate([found, -found]).view(np.uint32)


@pytest.mark.parametrize("group", [(1, 32), (32, 1), (1, 320), (32, 64)])
@pytest.mark.parametrize("size", [1.0, 2.0**-80, 2.0**-125, 2.0**100])
def test_values_of_16_and_of_32_bits_become_the_same_codes(group: tuple[int, int], size: float) -> None:
    """bf16 is divided as words, f32 as floats; some values of each group are 0, infinite or NaN."""
    x = (np.random.default_rng(3).standard_normal((64, 640)) * size).astype(ml_dtypes.bfloat16)
    x[::7, ::5], x[::9, ::11], x[1::9, ::13] = 0.0, np.inf, np.nan
    for kind in ("f4_e2m1", "f8_e4m3"):
        half, whole = (
            rs.quantize(x.astype(dtype), kind, group=group, scale_type="e8m0")
            for dtype in (ml_dtypes.bfloat16, np.float32)
        )
        np.testing.assert_array_equal(half.scale.data.view(np.uint8), whole.scale.data.view(np.uint8))
        np.testing.assert_array_equal(half.values.data.view(np.uint8), whole.values.data.view(np.uint8))


def test_scales_stay_finite_in_types_that_end_early() -> None:
    x = np.full((2, 32), 1e9, np.float32)
    made = rs.quantize(x, "s8", group=32, scale_type="f16")
    assert made.scale.to_numpy().tolist() == [[65504.0], [65504.0]]
    assert (made.values.to_numpy() == 127).all()
    assert (rs.quantize(x, "s8", group=32, scale_type="f8_e4m3").scale.to_numpy() == 448).all()


def test_groups_that_no_vector_holds_are_left_to_other_kernels() -> None:
    assert schedule_groups(Case((6, 36), (1, 9), "s8").quantization, _WIDE) is None
    assert schedule_groups(Case((8, 33), (8, 1), "s4").quantization, _WIDE) is None
    made = rs.quantize(np.arange(216, dtype=np.float32).reshape(6, 36), "s8", group=9)
    assert made.groups == (1, 9)


def test_a_quantisation_is_readable_and_equal_to_its_like() -> None:
    case = Case((4, 64), (1, 32), "s4", "f16", "bf16")
    assert str(case.quantization).splitlines() == [
        "s4(bf16) in scales of f16",
        "  for 8: src += 32, dst += 32, scale += 1",
        "    for 32: src += 1, dst += 1",
    ]
    assert case.quantization == Case((8, 32), (1, 32), "s4", "f16", "bf16").quantization
