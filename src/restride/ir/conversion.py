"""The numeric contract in plain NumPy: how one value becomes another (N1 to N7).

This is the definition that every engine must match bit for bit. Conversions between floats round half to even
and keep a NaN's sign and leading payload, quieted (bf16 to f32 is exact, NaNs included); arithmetic (scale,
sum) yields the single quiet NaN 0x7FC00000. A NaN of the 8-bit floats keeps only its sign, e8m0 has one NaN
without sign, and the 4-bit floats, which saturate, have none. If a side is f64, everything is computed in
float64 and rounded once.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..dtypes import DataType
from ..frozen import dataclass
from .arithmetic import NumpyArithmetic
from .eltwise import apply as eltwise
from .nest import SCALAR, Compute, Step, has_wide

Array = np.ndarray[Any, np.dtype[Any]]

_NUMPY = NumpyArithmetic()
_MOVE = Compute()
_INT_TYPES = tuple(
    data_type for data_type in DataType if data_type.is_integral or data_type is DataType.boolean
)
_TINY_FLOATS = (
    *(DataType.f8_e5m2, DataType.f8_e4m3, DataType.e8m0),
    *(DataType.f4_e2m1, DataType.f4_e3m0, DataType.nf4),
)
PROVIDED = (DataType.f64, DataType.f32, DataType.bf16, DataType.f16, *_TINY_FLOATS, *_INT_TYPES)


def _integer_limits(data_type: DataType) -> tuple[int, int]:
    if data_type.kind == "uint":
        return 0, (1 << data_type.bits) - 1
    most = (1 << data_type.bits - 1) - 1
    return -most - 1, most


def _real_below(limit: int, real: type[np.floating[Any]]) -> float:
    """Return the largest real number that is not above an integer."""
    near = real(limit)
    return float(near if int(near) <= limit else np.nextafter(near, real(0)))


INTEGER_LIMITS = {data_type: _integer_limits(data_type) for data_type in DataType if data_type.is_integral}
# The limits to which reals saturate: s32 is bounded by the largest float32 below 2**31, and so on (N3).
DOUBLE_LIMITS, FLOAT_LIMITS = (
    {each: (float(low), _real_below(high, real)) for each, (low, high) in INTEGER_LIMITS.items()}
    for real in (np.float64, np.float32)
)
# The magnitudes of the 4-bit floats, by code; the fourth bit is the sign.
F4_MAGNITUDES = {
    DataType.f4_e2m1: (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0),
    DataType.f4_e3m0: (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
}
# Quantiles of the normal distribution, in two halves, of which the upper one has one more value.
_NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
CODE_VALUES = {
    **{kind: (*sizes, *(-size for size in sizes)) for kind, sizes in F4_MAGNITUDES.items()},
    DataType.nf4: _NF4,
}
"""The values of the codes of 4-bit floats."""
NF4_NAN = _NF4.index(0.0)
# The largest floats that are closer to a code than to the next one; there are no ties.
NF4_ENDS = tuple(
    float(end if float(end) <= (low + high) / 2 else np.nextafter(end, np.float32(-1)))
    for low, high in pairwise(_NF4)
    for end in (np.float32((low + high) / 2),)
)


def storage_dtype(data_type: DataType) -> np.dtype[Any]:
    """Return the NumPy dtype that carries the bits of `data_type` unchanged.

    For the 4-bit types it is the byte that holds two of them; `convert` takes one per byte.
    """
    return np.dtype({4: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[data_type.bits])


def _twin(data_type: DataType) -> np.dtype[Any]:
    """Return the NumPy dtype with the values of `data_type`."""
    assert data_type.numpy is not None
    return data_type.numpy


def is_integer_move(src: DataType, dst: DataType, compute: Compute) -> bool:
    """Return whether the value stays an integer: both types are integers and there are no attributes (N1)."""
    return compute.is_move and src in _INT_TYPES and dst in _INT_TYPES


def is_wide(src: DataType, dst: DataType, compute: Compute = _MOVE) -> bool:
    """Return whether values are computed in f64: either type is f64, or the computation requires it (N1)."""
    is_f64 = DataType.f64 in (src, dst)
    return compute.wide or is_f64 or (not compute.is_move and has_wide(src, dst))


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of the chain except the source: bits of the old destination, scalars, bits of operands."""

    old: Array | None = None
    scalars: tuple[float, ...] = ()
    operands: tuple[Array, ...] = ()
    operand_types: tuple[DataType, ...] = ()

    def real(self, index: int, real: type[np.floating[Any]]) -> Array:
        """Return an operand as real numbers."""
        return to_real(self.operands[index], self.operand_types[index], real)


def convert(bits: Array, types: tuple[DataType, DataType], compute: Compute, inputs: Inputs) -> Array:
    """Return the bits to write for source `bits`, in storage dtypes; `types` are those of src and dst."""
    src, dst = types
    if compute.is_move and src is dst:
        return bits
    if is_integer_move(src, dst, compute):
        return _saturate_integers(integers_of(bits, src), dst)
    real = np.float64 if is_wide(src, dst, compute) else np.float32
    value = to_real(bits, src, real)
    if compute.is_move:
        return from_real(value, dst)
    with np.errstate(all="ignore"):
        for step, first in compute.steps_with_scalars():
            value = _apply(step, value, dst, inputs, inputs.scalars[first : first + step.scalars])
    return from_real(np.where(np.isnan(value), real(np.nan), value), dst)


def _apply(step: Step, value: Array, dst: DataType, inputs: Inputs, scalars: tuple[float, ...]) -> Array:
    real = value.dtype.type
    factors = [real(scalar) for scalar in scalars]
    if step.is_sum:
        return _sum(value, _old(step, dst, inputs, real), factors)
    if step.is_eltwise:
        alpha, beta, scale = factors
        return np.asarray(scale * eltwise(step.name, _NUMPY, value, np.asarray(alpha), np.asarray(beta)))
    if step.operand < 0:
        return _binary(step.name, value, factors[0])
    other = _operand(step, inputs, factors, real)
    if step.name == "rescale":
        return np.asarray(value * (real(1) / other))
    if step.name == "select":
        return np.where(inputs.real(step.condition, real) != 0, value, other)
    return _binary(step.name, value, other)


def _operand(step: Step, inputs: Inputs, factors: list[Any], real: Any) -> Array:
    """Return the operand of a step, times its factor."""
    other = inputs.real(step.operand, real)
    if step.factor == SCALAR:
        return np.asarray(factors[0] * other)
    return other if step.factor < 0 else np.asarray(inputs.real(step.factor, real) * other)


def _old(step: Step, dst: DataType, inputs: Inputs, real: Any) -> Array:
    if step.operand >= 0:
        return inputs.real(step.operand, real)
    assert inputs.old is not None
    return to_real(inputs.old, step.data_type or dst, real)


def _sum(value: Array, old: Array, factors: list[Any]) -> Array:
    return np.asarray(value + factors[0] * (old - factors[1] if len(factors) > 1 else old))


def _binary(name: str, t: Array, x: Any) -> Array:
    """Apply a binary step. With NaN, min and max give `x`, and every comparison but "ne" gives 0."""
    if name in _CHOICES:
        return np.where(_CHOICES[name](t, x), t, x)
    if name in _SLOPES:
        above, below = _SLOPES[name](t, x)
        return np.asarray(np.where(t > 0, above, below))
    result: Array = _OPERATIONS[name](t, x)
    return result.astype(t.dtype)


_CHOICES: dict[str, Any] = {"min": np.less, "max": np.greater}
# The factors of prelu and its derivative above 0, and elsewhere.
_SLOPES: dict[str, Any] = {
    "prelu": lambda t, x: (t, t * x),
    "prelu_slope": lambda t, x: (t.dtype.type(1), x),
}
_OPERATIONS: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
    "eq": np.equal,
    "ne": np.not_equal,
}


def integers_of(bits: Array, src: DataType) -> Array:
    """Return integers, with booleans as 0 or 1."""
    if src is DataType.boolean:
        return np.asarray(bits != 0, np.uint8)
    if src is DataType.s4:
        return np.asarray((bits ^ 8).view(np.int8) - np.int8(8), np.int8)
    return bits if src is DataType.u4 else np.asarray(bits.view(_twin(src)))


def _saturate_integers(values: Array, dst: DataType) -> Array:
    if dst is DataType.boolean:
        return np.asarray(values != 0).view(np.uint8)
    (low, high), info = INTEGER_LIMITS[dst], np.iinfo(values.dtype)
    return _integer_bits(np.clip(values, max(low, info.min), min(high, info.max)), dst)


def _integer_bits(whole: Array, dst: DataType) -> Array:
    """Clamp integers to the limits of `dst` and return its bits; 4-bit ones in the low half of a byte."""
    if dst.bits == 4:
        return np.asarray(whole.astype(np.int8).view(np.uint8) & np.uint8(15))
    return whole.astype(_twin(dst)).view(storage_dtype(dst))


def to_real(bits: Array, src: DataType, real: type[np.floating[Any]] = np.float32) -> Array:
    """Return bits of `src` as float32 or float64: exact, but as float32 s32 past 2**24 rounds to even."""
    if src is DataType.f32 and real is np.float32:
        return bits.view(np.float32)
    if src in _INT_TYPES:
        return np.asarray(integers_of(bits, src).astype(real))
    if src is DataType.f64:
        return np.asarray(bits.view(np.float64).astype(real, copy=False))
    with np.errstate(all="ignore"):
        return _to_float(bits, src).astype(real, copy=False)


def _to_float(bits: Array, src: DataType) -> Array:
    if src is DataType.f32:
        return bits.view(np.float32)
    if src is DataType.bf16:
        return (bits.astype(np.uint32) << 16).view(np.float32)
    if src is DataType.f16:
        return _half_to_float(bits)
    if src is DataType.e8m0:
        return _exponent_to_float(bits)
    if src in CODE_VALUES:
        return np.asarray(np.array(CODE_VALUES[src], np.float32)[bits & 15])
    return bits.view(_twin(src)).astype(np.float32)


def _half_to_float(bits: Array) -> Array:
    is_nan = (bits & 0x7FFF) > 0x7C00
    wide = bits.astype(np.uint32)
    nan = ((wide & 0x8000) << 16) | 0x7FC00000 | ((wide & 0x3FF) << 13)
    with np.errstate(all="ignore"):
        exact = bits.view(np.float16).astype(np.float32).view(np.uint32)
    return np.where(is_nan, nan, exact).view(np.float32)


def _exponent_to_float(bits: Array) -> Array:
    """Return powers of two from exponents, 2**-127 to 2**127; 255 is NaN."""
    wide = bits.astype(np.uint32)
    tiny = np.where(wide == 0, 0x00400000, wide << 23)
    return np.where(wide == 255, 0x7FC00000, tiny).astype(np.uint32).view(np.float32)


def from_real(value: Array, dst: DataType) -> Array:
    """Return float32 or float64 values as bits of `dst`: saturated and rounded half to even, once (N2-N5)."""
    if dst is DataType.boolean:
        with np.errstate(all="ignore"):
            return np.asarray(value != 0).view(np.uint8)
    if dst.is_integral:
        return _to_integer(value, dst)
    if dst is DataType.f64:
        return value.view(np.uint64)
    if value.dtype == np.float64:
        value = _narrow(value, is_last=dst is DataType.f32)
    return _from_float(value, dst)


def _to_integer(value: Array, dst: DataType) -> Array:
    real = value.dtype.type
    low, high = (FLOAT_LIMITS if real is np.float32 else DOUBLE_LIMITS)[dst]
    clean = np.where(np.isnan(value), real(0), value)
    return _integer_bits(np.rint(np.clip(clean, real(low), real(high))), dst)


def _narrow(value: Array, *, is_last: bool) -> Array:
    """Narrow f64 to f32: rounded half to even or, if another rounding follows, to odd where inexact."""
    with np.errstate(all="ignore"):
        near = value.astype(np.float32)
        if is_last:
            return near
        back = near.astype(np.float64)
        bits = near.view(np.uint32) - (np.abs(back) > np.abs(value)).astype(np.uint32)
        is_inexact = (back != value) & ~np.isnan(value)
        return np.where(is_inexact, bits | 1, near.view(np.uint32)).astype(np.uint32).view(np.float32)


def _from_float(value: Array, dst: DataType) -> Array:
    if dst is DataType.f32:
        return value.view(np.uint32)
    if dst is DataType.bf16:
        return _float_to_bfloat(value.view(np.uint32))
    if dst is DataType.f16:
        return _float_to_half(value)
    if dst is DataType.e8m0:
        return _float_to_exponent(value.view(np.uint32))
    if dst in F4_MAGNITUDES:
        return _float_to_nibble(value, F4_MAGNITUDES[dst])
    if dst is DataType.nf4:
        code = np.searchsorted(np.array(NF4_ENDS, np.float32), value).astype(np.uint8)
        return np.where(np.isnan(value), np.uint8(NF4_NAN), code)
    with np.errstate(all="ignore"):
        return value.astype(_twin(dst)).view(np.uint8)


def _float_to_exponent(bits: Array) -> Array:
    """Return the nearest power of two, the greater at a tie; NaN for 0 and below, and for 2**128.

    Values above 2**-127, the least, and below 2**-126 become the latter, as in ml_dtypes and torch.
    """
    capped = np.minimum(bits, np.uint32(0x7F800000))  # negative numbers and NaN count as infinity
    half = np.where(capped < 0x00800000, np.uint32(0x003FFFFF), np.uint32(0x00400000))
    return np.where(bits == 0, 255, (capped + half) >> 23).astype(np.uint8)


def _float_to_nibble(value: Array, magnitudes: tuple[float, ...]) -> Array:
    """Return the nearest code, the even one at a tie, the last one beyond it. NaN is a zero of other sign."""
    size, code = np.abs(value), np.zeros(value.shape, np.uint8)
    for number, (low, high) in enumerate(pairwise(magnitudes)):
        tie = np.float32((low + high) / 2)
        code += (size >= tie) if number % 2 else (size > tie)
    sign = np.signbit(value).astype(np.uint8) << np.uint8(3)
    return np.asarray(np.where(np.isnan(value), np.uint8(8), code) ^ sign)


def _float_to_bfloat(bits: Array) -> Array:
    is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
    rounded = (bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(is_nan, (bits >> 16) | 0x40, rounded).astype(np.uint16)


def _float_to_half(value: Array) -> Array:
    bits = value.view(np.uint32)
    is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
    nan = ((bits >> 16) & 0x8000) | 0x7E00 | ((bits >> 13) & 0x1FF)
    with np.errstate(all="ignore"):
        rounded = value.astype(np.float16).view(np.uint16)
    return np.where(is_nan, nan, rounded).astype(np.uint16)
