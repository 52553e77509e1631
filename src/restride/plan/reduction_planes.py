"""What the kernels of reductions fold into, and how results come out of it.

A kernel folds into **planes**: arrays of all outputs, one for each piece of the work whose outputs other
pieces share, (results, planes, outputs) together. Sums are s32. Ranges are **keys**: integers as wide as the
data type, in the order of the values, plus a bias that makes those that are not finite wrap around to below
all others. The smallest value is the largest key of the negated ones.
"""

from __future__ import annotations

import numpy as np

from ..dtypes import DataType
from .contract import Array, to_real
from .reduction import NOT_FINITE, Op, Reduction, real_of

_SIGNED = {bits: np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)}
_UNSIGNED = {bits: np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)}


def accumulated_bits(reduction: Reduction) -> int:
    """Width of what is folded."""
    return 32 if reduction.op is Op.total else reduction.data_type.bits


def bias_of(data_type: DataType) -> int:
    """What is added to a magnitude's bits so that one that is not finite becomes negative."""
    return int((1 << data_type.bits - 1) - NOT_FINITE[data_type])


def new_planes(reduction: Reduction, planes: int) -> Array:
    """Planes in which nothing is folded yet."""
    bits = accumulated_bits(reduction)
    made = np.empty((reduction.op.results, planes, reduction.outputs), _SIGNED[bits])
    made.fill(0 if reduction.op is Op.total else -(1 << bits - 1))
    return made


def finish(reduction: Reduction, planes: Array) -> tuple[Array, ...]:
    """The results of what kernels folded into planes of `new_planes`; see `interpret`."""
    if reduction.op is Op.total:
        return (np.add.reduce(planes[0], axis=0, dtype=np.int32).reshape(reduction.shape),)
    keys = planes[:, 0] if planes.shape[1] == 1 else np.maximum.reduce(planes, axis=1)
    if reduction.op is Op.amax:
        return (_magnitudes(reduction, keys[0]).reshape(reduction.shape),)
    ends = _values(reduction, keys).reshape(len(keys), *reduction.shape)
    # Sums with a positive zero are never a negative one.
    zero = ends.dtype.type(0)
    return np.asarray(zero - ends[0]), np.asarray(ends[1] + zero)


def _magnitudes(reduction: Reduction, keys: Array) -> Array:
    """The values of keys of magnitudes, which are their bits plus the bias; 0 for lower keys."""
    data_type = reduction.data_type
    bias = keys.dtype.type(bias_of(data_type))
    bits = np.maximum(keys, bias) - bias
    return to_real(bits.view(_UNSIGNED[data_type.bits]), data_type, real_of(data_type))


def _values(reduction: Reduction, keys: Array) -> Array:
    """The values of keys; 0 for keys below that of the lowest finite value."""
    data_type, kind = reduction.data_type, keys.dtype.type
    bias = kind(bias_of(data_type))
    lowest = bias - kind(NOT_FINITE[data_type] - 1) - kind(1)
    plain = np.where(keys < lowest, kind(0), keys - bias)
    largest = kind((1 << data_type.bits - 1) - 1)
    bits = plain ^ ((plain >> kind(data_type.bits - 1)) & largest)
    return to_real(bits.view(_UNSIGNED[data_type.bits]), data_type, real_of(data_type))
