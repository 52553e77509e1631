"""How a tensor is quantised with one scale, or with one for each index of an axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...desc.parse import parse_bool
from ...dtypes import DataType
from ...errors import refuse
from ...runtime.alloc import Array
from ...runtime.cpu.reduction import amax, min_max
from ...runtime.memory import Memory
from ...runtime.transfer import to_host
from .group import parse_kind


@dataclass(frozen=True, slots=True)
class TargetRange:
    """What values are mapped to: [low, high], and where 0 goes when the range is symmetric."""

    data_type: DataType
    low: int
    high: int
    middle: int


TARGETS = {
    found.data_type: found
    for found in (
        TargetRange(DataType.s8, -128, 127, 0),
        TargetRange(DataType.u8, 0, 255, 128),
        TargetRange(DataType.s4, -8, 7, 0),
        TargetRange(DataType.u4, 0, 15, 8),
        TargetRange(DataType.f8_e4m3, -448, 448, 0),
        TargetRange(DataType.f8_e5m2, -57344, 57344, 0),
    )
}
"""What each type takes."""
_KINDS = {kind.name: kind for kind in TARGETS}
# Smaller scales would have no finite inverse.
_SMALLEST = np.float32(2.0**-126)
_LARGEST = np.finfo(np.float32).max
_ONE = np.float32(1)


def target_range(dtype: Any, symmetric: Any) -> TargetRange:
    """What values of a type are mapped to. Raises InvalidArguments for types that nothing is quantised to."""
    kind = _KINDS.get(dtype) if type(dtype) is str else None
    kind = kind or parse_kind(dtype)
    if kind not in TARGETS:
        raise refuse("RS-A15:values-quantised-s8", kind=kind)
    if not parse_bool("quantize: symmetric", symmetric) and not kind.is_integral:
        raise refuse("RS-A15:symmetric-false", kind=kind)
    return TARGETS[kind]


def ends_of(target: TargetRange) -> Any:
    """What saturates floats, which a reorder would make infinite or NaN beyond their ends."""
    return None if target.data_type.is_integral else [("clip", target.low, target.high)]


def scale_and_zero(source: Memory, axis: int | None, target: TargetRange, symmetric: bool) -> tuple[Any, Any]:
    """Scales as f32 and zero points as s32, without axes where there is one of each."""
    keep = 0 if axis is None else 1 << axis
    source = to_host(source)
    address = source.get_data_handle()
    if symmetric:
        largest = amax(source.desc, address, keep)
        reach = min(target.middle - target.low, target.high - target.middle)
        scale = _scale(largest, reach)
        zero = np.full(scale.shape, target.middle, np.int32) if scale.ndim else target.middle
    else:
        low, high = (np.float64(ends) for ends in min_max(source.desc, address, keep))
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
        scale = _scale(high / 2 - low / 2, (target.high - target.low) / 2)
        exact = np.rint(target.low - low / scale.astype(np.float64))
        zero = np.clip(exact, target.low, target.high).astype(np.int32)
    return (scale[()], int(zero)) if axis is None else (scale, zero)


def _scale(extent: Array, steps: float) -> Array:
    """The f32 scale that maps `extent` to `steps`; 1 where there is no extent."""
    exact = np.asarray(extent, np.float64) / steps
    if (exact > _LARGEST).any():
        raise refuse("RS-A15:large-step", exact=float(exact.max()))
    scale = np.maximum(exact, _SMALLEST).astype(np.float32)
    return np.where(exact > 0, scale, _ONE)
