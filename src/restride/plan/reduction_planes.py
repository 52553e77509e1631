"""What the kernels of reductions fold into, and how results come out of it.

A kernel folds into **planes**: arrays of all outputs, one for each piece of the work whose outputs other
pieces share, (results, planes, outputs) together. Sums are s32. Ranges are **keys**: integers as wide as the
data type, in the order of the values, plus a bias that makes those that are not finite wrap around to below
all others. The smallest value is the largest key of the negated ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import DataType
from .contract import Array, to_real
from .reduction import NOT_FINITE, Op, Reduction, real_of


def accumulated_bits(reduction: Reduction) -> int:
    """Width of what is folded."""
    return 32 if reduction.op is Op.total else reduction.data_type.bits


def bias_of(data_type: DataType) -> int:
    """What is added to a magnitude's bits so that one that is not finite becomes negative."""
    return int((1 << data_type.bits - 1) - NOT_FINITE[data_type])


def plane_dtype(reduction: Reduction) -> np.dtype[Any]:
    """The NumPy type of planes."""
    return np.dtype(f"i{accumulated_bits(reduction) // 8}")


def new_planes(reduction: Reduction, planes: int) -> Array:
    """Planes in which nothing is folded yet."""
    dtype = plane_dtype(reduction)
    start = 0 if reduction.op is Op.total else np.iinfo(dtype).min
    return np.full((reduction.op.results, planes, reduction.outputs), start, dtype)


def finish(reduction: Reduction, planes: Array) -> tuple[Array, ...]:
    """The results of what kernels folded into planes of `new_planes`; see `interpret`."""
    if reduction.op is Op.total:
        return (np.add.reduce(planes[0], axis=0, dtype=np.int32).reshape(reduction.shape),)
    keys = np.maximum.reduce(planes, axis=1)
    ends = _values(reduction, keys).reshape(len(keys), *reduction.shape)
    # Sums with a positive zero are never a negative one.
    zero = ends.dtype.type(0)
    high = np.asarray(ends[-1] + zero)
    return (high,) if len(keys) == 1 else (np.asarray(zero - ends[0]), high)


def _values(reduction: Reduction, keys: Array) -> Array:
    """The values of keys; 0 for keys below that of the lowest finite value."""
    data_type, kind = reduction.data_type, keys.dtype.type
    bias = kind(bias_of(data_type))
    lowest = bias if reduction.op is Op.amax else bias - kind(NOT_FINITE[data_type] - 1) - kind(1)
    plain = np.where(keys < lowest, kind(0), keys - bias)
    bits = plain ^ ((plain >> kind(data_type.bits - 1)) & np.iinfo(keys.dtype).max)
    return to_real(bits.view(f"u{keys.itemsize}"), data_type, real_of(data_type))
