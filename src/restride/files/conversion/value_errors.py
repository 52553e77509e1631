"""Errors of the values that a conversion wrote, and their bounds."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ...arrays.reorders import reorder
from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...ir.conversion import CODE_VALUES, INTEGER_LIMITS
from ...ir.scale_rule import ENDS, LARGEST
from ...runtime.alloc import Array
from ...runtime.memory import Memory
from .tiles import Ints

# Error of f32 arithmetic, in units of a step.
_SLACK = 1e-3
_EXPONENT = np.int64(0x7FF0 << 48)
# Below this fraction of the tensor's range, a group can lose its values, because scales have a smallest
# value.
_DUST = 2.0**-10
# Fraction bits, the exponent of the smallest step, and the largest value.
_FLOATS = {
    DataType.f64: (52, -1074, float(np.finfo(np.float64).max)),
    DataType.f32: (23, -149, float(np.finfo(np.float32).max)),
    DataType.bf16: (7, -133, float.fromhex("0x1.fep127")),
    DataType.f16: (10, -24, 65504.0),
    DataType.f8_e4m3: (3, -9, 448.0),
    DataType.f8_e5m2: (2, -16, 57344.0),
    DataType.f4_e2m1: (1, -1, 6.0),
    DataType.f4_e3m0: (0, -2, 16.0),
    DataType.e8m0: (0, -127, 2.0**127),
    DataType.nf4: (1, -1, 1.0),
}
_NF4 = np.array(CODE_VALUES[DataType.nf4], np.float32).astype(np.float64)
# For each code, half of the larger distance to its neighbors.
_NF4_HALVES = np.maximum(np.diff(_NF4, prepend=-1.0), np.diff(_NF4, append=1.0)) / 2
_INTEGERS = {**INTEGER_LIMITS, DataType.boolean: (0, 1)}


class Quantization(NamedTuple):
    """Real values from stored ones, `scale * (stored - zero)`, with arrays broadcastable to the elements.

    `is_found`: scales were found from the values, so values may saturate only because a scale was rounded.
    `rounding`: error of the arithmetic, relative to a value.
    """

    data_type: DataType
    scale: Any = 1.0
    zero: Any = 0.0
    is_found: bool = False
    rounding: float = 0.0


class ErrorBound(NamedTuple):
    """The largest error allowed in a conversion: `bound` times a range, or at least `least`, because scales
    are rounded to multiples of their smallest value.

    `has_groups`: ranges are of groups or of indices of an axis; else of the whole tensor. `is_spread`: a
    range is from the smallest to the largest value; else it is the largest magnitude. `share`: for a tensor
    without groups, the largest allowed ratio of the sum of all errors to the sum of all magnitudes.
    """

    bound: float
    least: float = 0.0
    has_groups: bool = False
    is_spread: bool = False
    share: float = 1.0

    def span(self, low: Any, high: Any) -> Any:
        """Return the range of values with these ends, including 0."""
        return high - low if self.is_spread else np.maximum(-low, high)

    def allowed(self, span: Any) -> Any:
        """Return the largest allowed error for values of this range."""
        return self.bound * span + np.where(span >= self.least, self.least, 0.0)

    def is_exceeded(self, errors: ValueErrors) -> bool:
        """Return True if the errors of a whole tensor are larger."""
        span = self.span(errors.low, errors.high)
        if self.has_groups:
            return bool(errors.lost > self.bound * span * _DUST)
        return bool(errors.largest > self.allowed(span) or errors.total > self.share * errors.magnitude)

    def relative(self, errors: ValueErrors) -> tuple[float, float]:
        """Return the largest and the mean error of a whole tensor, relative to the ranges."""
        span = 1.0 if self.has_groups else float(self.span(errors.low, errors.high))
        mean = errors.total / max(errors.count, 1)
        return (errors.largest / span, mean / span) if span else (errors.largest, mean)


HALF_LOST = ErrorBound(1 - 2.0**-20, share=0.5)
"""For an explicit scale, or none: each value is within half a step, and at most half of the total is lost."""

EXACT = ErrorBound(0.0)
"""For integers without a scale: numbers such as those of tokens must stay what they are."""


@dataclass(frozen=True, slots=True)
class ValueErrors:
    """The errors of a tensor, or of a part of it.

    is_right  each value is the nearest that its type and its scale can express
    largest, total  the largest error and the sum of all: relative to the range of each group or index of an
              axis if these have scales, else in the units of the values
    count     the number of values; non-finite ones have no error
    vanished  the number of NaNs and infinities that were not kept
    low, high  the ends of the values, including 0
    magnitude  the sum of all magnitudes
    lost      the largest error, in the units of the values, of groups that exceed the bound of their format
    """

    is_right: bool = True
    largest: float = 0.0
    total: float = 0.0
    count: int = 0
    low: float = 0.0
    high: float = 0.0
    magnitude: float = 0.0
    lost: float = 0.0
    vanished: int = 0

    def __add__(self, other: ValueErrors) -> ValueErrors:
        return ValueErrors(
            self.is_right and other.is_right,
            max(self.largest, other.largest),
            self.total + other.total,
            self.count + other.count,
            min(self.low, other.low),
            max(self.high, other.high),
            self.magnitude + other.magnitude,
            max(self.lost, other.lost),
            self.vanished + other.vanished,
        )


class GroupErrors:
    """The errors of groups of elements, each with its own range; `shape`: groups along each axis."""

    def __init__(self, shape: Ints) -> None:
        self._largest, self._total, self._low, self._high = (np.zeros(shape) for _ in range(4))
        self._count, self._magnitude, self._is_right, self._vanished = 0, 0.0, True, 0

    def add(self, exact: Array, result: Array, how: Quantization, first: Ints, counts: Ints) -> None:
        """Add elements of `counts` groups along each axis from `first` on; `exact` and `result` are their
        true and stored values, as f64.
        """
        is_finite = np.isfinite(exact)
        if not is_finite.all():
            is_kept = is_finite | (exact == result) | (np.isnan(exact) & np.isnan(result))
            self._vanished += exact.size - int(np.count_nonzero(is_kept))
            exact, result = np.where(is_finite, exact, 0.0), np.where(is_finite, result, how.zero)
        at = tuple(slice(a, a + n) for a, n in zip(first, counts, strict=True))
        blocks = tuple(chain(*((n, m // n) for n, m in zip(counts, exact.shape, strict=True))))
        within = tuple(range(1, len(blocks), 2))
        with np.errstate(all="ignore"):
            error, is_right = _compared(exact, result, how)
            for accumulator, fold, values in (
                (self._largest, np.maximum, error),
                (self._total, np.add, error),
                (self._low, np.minimum, exact),
                (self._high, np.maximum, exact),
            ):
                accumulator[at] = fold(accumulator[at], fold.reduce(values.reshape(blocks), within))
            self._magnitude += float(np.abs(exact).sum())
        self._count += exact.size
        self._is_right &= is_right

    def summed_up(self, tolerance: ErrorBound) -> ValueErrors:
        """Return the errors of all groups together."""
        largest, total, low, high = self._largest, self._total, self._low, self._high
        lost = 0.0
        if tolerance.has_groups and largest.size:
            with np.errstate(all="ignore"):
                span = tolerance.span(low, high)
                lost = float(np.where(largest > tolerance.allowed(span), largest, 0.0).max())
                largest, total = (np.where(part > 0, part / span, 0.0) for part in (largest, total))
        return ValueErrors(
            self._is_right,
            float(largest.max(initial=0.0)),
            float(total.sum()),
            self._count,
            float(low.min(initial=0.0)),
            float(high.max(initial=0.0)),
            self._magnitude,
            lost,
            self._vanished,
        )


def as_f64(memory: Memory) -> Array:
    """Return the elements of a tensor as f64, which is exact for every type."""
    return np.asarray(reorder(memory, MemoryDesc(memory.desc.dims, DataType.f64)))


def bound_of(data_type: DataType, scale_type: DataType, *, has_zeros: bool) -> tuple[float, float]:
    """Return the largest error relative to a group's range, for a scale found from the values, and the least.

    It is half a step, with the step enlarged by the rounding of the scale, plus the part beyond the largest
    value if rounding has made the scale smaller. The least is the error of a scale among the smallest of its
    type.
    """
    is_float, is_power = data_type in _FLOATS, scale_type is DataType.e8m0
    rounding = 0.0 if is_power else 2.0 ** -(_FLOATS[scale_type][0] + 1)
    reach = float(ENDS[data_type][1] - ENDS[data_type][0]) if has_zeros else LARGEST[data_type]
    if is_float:
        point, _, most = _FLOATS[data_type]
        step = 2.0**-point
        # A power of two puts the largest value into the last binade, which ends above `most`.
        beyond = 1 - most / 2.0 ** np.ceil(np.log2(most + 1)) if is_power else rounding
    elif has_zeros:
        # The zero point is rounded too: half a step at one of the ends.
        step, beyond = 2.0 / reach, rounding
    else:
        step, beyond = (2.0 if is_power else 1.0) / reach, rounding
    least = 0.0 if is_power else reach * 2.0 ** (_FLOATS[scale_type][1] - 1)
    return float(max(step * (1 + rounding) / 2, beyond) + step * rounding) * (1 + _SLACK), least


def _compared(exact: Array, result: Array, how: Quantization) -> tuple[Array, bool]:
    """Return the error of each element, and whether all are within half a step."""
    shifted = result - how.zero
    # In steps, because a represented value can exceed the largest float.
    exact_steps = exact / how.scale
    if how.data_type in _FLOATS:
        point, least, most = _FLOATS[how.data_type]
        low, high = -most, most
    if how.data_type is DataType.nf4:
        most_off = _NF4_HALVES[np.searchsorted(_NF4, shifted)] + _SLACK
    elif how.data_type in _FLOATS:
        # Only the exponent: the power of two at or below a value.
        most_off = (shifted.view(np.int64) & _EXPONENT).view(np.float64)
        most_off *= 2.0**-point
        np.maximum(most_off, 2.0**least, out=most_off)
        most_off *= 0.5 + _SLACK
    else:
        (low, high), most_off = _INTEGERS[how.data_type], np.float64(0.5 + _SLACK)
    if how.rounding:
        most_off = most_off + np.abs(exact_steps) * how.rounding
    error = exact_steps - shifted
    # The distance of an infinite value is that of its step size.
    fits = np.abs(error, out=error) < most_off
    if how.is_found:
        fits |= ((result == low) & (exact_steps < shifted)) | ((result == high) & (exact_steps > shifted))
    np.multiply(shifted, how.scale, out=error)
    np.abs(np.subtract(exact, error, out=error), out=error)
    return error, bool((fits & (error < np.inf)).all())
