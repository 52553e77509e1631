"""Quantizations in groups to run: scales by their definitions in NumPy, elements by ml_dtypes."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import numpy.typing as npt

from restride.arrays.scaling.grouped import split_views
from restride.desc.memory_desc import MemoryDesc
from restride.dtypes import DataType
from restride.ir.program import Program
from restride.ir.scale_rule import ScaleRule
from restride.ops.programs.group_quantization import group_program

Array = npt.NDArray[np.generic]

REACH = {
    "s8": 127,
    "u8": 127,
    "s4": 7,
    "u4": 7,
    "f4_e2m1": 6,
    "f4_e3m0": 16,
    "f8_e4m3": 448,
    "f8_e5m2": 57344,
}
F4 = {"f4_e2m1": [0, 0.5, 1, 1.5, 2, 3, 4, 6], "f4_e3m0": [0, 0.25, 0.5, 1, 2, 4, 8, 16]}
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
        """The number of groups along each axis."""
        return tuple(n // g for n, g in zip(self.dims, self.groups, strict=True))

    @property
    def descs(self) -> tuple[MemoryDesc, MemoryDesc, MemoryDesc]:
        """The tensor, its elements and its scales."""
        md, kind = (MemoryDesc(self.dims, each, self.tag) for each in (self.src_type, self.kind))
        return md, kind, MemoryDesc(self.counts, self.scale_type)

    @property
    def program(self) -> Program:
        """As `quantize` makes it."""
        views = split_views(*self.descs[:2], [self.descs[2]])
        rule = ScaleRule(DataType[self.kind], DataType[self.scale_type], self.is_two_level, self.has_zeros)
        return group_program(views[0], views[1], views[2], rule)

    def source(self) -> Array:
        """Numbers of many sizes, and among them what is not finite, and a group of zeros."""
        rng = np.random.default_rng(5)
        x = rng.standard_normal(self.dims) * np.exp(3 * rng.standard_normal((*self.dims[:-1], 1)))
        x[tuple(slice(0, g) for g in self.groups)] = 0
        flat = x.reshape(-1)
        if flat.size > 20:
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
        reach = REACH[self.kind]
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
        reach = REACH[self.kind]
        limited = t if self.kind.startswith("f4") else np.clip(t, -reach, reach)
        kind = DataType[self.kind].numpy or ml_dtypes.float4_e2m1fn
        return cast(limited, self.kind, kind)


def cast(t: Array, name: str, kind: npt.DTypeLike) -> Array:
    """Reals rounded to a type, as reals."""
    if not name.startswith("f4"):
        return t.astype(kind).astype(np.float32)
    most = REACH[name]
    values = np.array(F4[name])
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
    Case((6, 36), (1, 9), "s8"),
    Case((8, 33), (8, 1), "s4"),
    Case((6, 45), (1, 9), "f4_e2m1", "e8m0", "bf16"),
    Case((5, 16, 4, 4), (1, 8, 1, 1), "s8", tag="aBcd8b"),
    Case((4, 24, 3, 5), (2, 8, 1, 1), "u8", "f16", "f16", tag="aBcd8b", has_zeros=True),
    Case((2, 257 * 16), (1, 16), "s4", "f16"),
    Case((1031, 12), (1031, 1), "s8", "f32", "bf16"),
    Case((40, 24), (1, 1), "u8"),
    Case((24, 256), (24, 256), "s8"),
    Case((8, 64), (1, 32), "s8", "f32", "f64"),
    Case((8, 64), (1, 32), "f4_e2m1", "e8m0", "f64"),
    Case((64, 24), (32, 1), "u4", "f16", "f64", has_zeros=True),
    Case((16, 64), (1, 32), "f8_e4m3", "e8m0", "f8_e5m2"),
)
"""Cases that include remainders of vectors, padding, and bytes shared by two groups."""
