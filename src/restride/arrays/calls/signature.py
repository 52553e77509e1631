"""The arithmetic of a call in two parts: the structure, which selects a kernel, and the values.

Only unambiguous arguments are read here, as fast as possible. For all others the result is None, and
`arithmetic` reads them again, or reports the error.
"""

from __future__ import annotations

from collections.abc import Hashable
from ctypes import c_float
from typing import Any

import numpy as np

from ...desc.post_op_values import BINARY, ELTWISE, FIXED_POWERS, EltwiseOp, SumOp
from ...desc.post_ops import PostOps
from ...runtime.alloc import Array
from .arithmetic import entries_of
from .carriers import NIBBLES

_S32 = 2**31
# Integers up to this one are exact in double.
_EXACT = 2**53
_F32, _F64, _S32_TYPE, _S64 = (np.dtype(name) for name in ("f4", "f8", "i4", "i8"))
_REALS = frozenset((float, int, np.float32, np.float64))
_FUNCTIONS = frozenset((*ELTWISE, *(f"eltwise_{name}" for name in ELTWISE)))
_CLIPS = frozenset(("clip", "clip_v2", "eltwise_clip", "eltwise_clip_v2"))
_POWERS, _SWISHES = frozenset(("pow", "eltwise_pow")), frozenset(("swish", "eltwise_swish"))
_OPERATIONS = frozenset((*BINARY, *(f"binary_{name}" for name in BINARY)))


class Values:
    """The values of a call other than its arrays.

    `structure`: which values there are and of what kind; calls with an equal structure share a kernel.
    `scalars`: zero point, scale, beta and numbers of post-ops, where present, in this order. `arrays`: zero
    points, scales and operands in this order, as kernels read them.
    """

    __slots__ = ("arrays", "scalars", "structure")

    def __init__(self) -> None:
        self.structure: tuple[Any, ...] = ()
        self.scalars: list[float] = []
        self.arrays: list[Array] = []


NO_VALUES = Values()
"""For a call that only moves and converts."""


def scale_values(alpha: float) -> Values:
    """Return the values of a call with one scale, an f32 value; none for 1."""
    if alpha == 1.0:
        return NO_VALUES
    values = Values()
    values.structure, values.scalars = (None, "one", None, None, ()), [alpha]
    return values


def read_values(scale: Any, zero_point: Any, axis: Any, beta: Any, post_ops: Any) -> Values | None:
    """Return the values of a call's arguments; None if they need a closer look."""
    if axis is not None and type(axis) is not int:
        return None
    values = Values()
    shift = _read_zero_point(values, zero_point)
    factor = _read_scale(values, scale)
    if axis is None and values.arrays:
        return None  # one value, or an error
    weight = None if type(beta) is float and beta == 0.0 else _value(values, beta, 0.0)
    chain = _read_chain(values, post_ops)
    if shift is False or factor is False or weight is False or chain is None:
        return None
    if shift is factor is weight is None and not chain:
        return NO_VALUES if axis is None else None
    values.structure = (shift, factor, axis, weight, chain)
    return values


# Each of these returns the structure of one argument: None if it is neutral, False if it is unclear.


def _read_zero_point(values: Values, value: Any) -> Hashable:
    if value is None:
        return None
    if isinstance(value, np.integer):
        value = int(value)
    if type(value) is not int:
        array = _whole(value)
        return False if array is None else _array(values, array)
    if not -_S32 < value < _S32:
        return False
    if value == 0:
        return None
    values.scalars.append(value)
    return "one"


def _read_scale(values: Values, value: Any) -> Hashable:
    if value is None:
        return None
    if type(value) in _REALS:
        return _value(values, value, 1.0)
    array = _real_row(value)
    return False if array is None else _array(values, array)


def _value(values: Values, value: Any, neutral: float) -> Hashable:
    number = _real(value)
    if number is None:
        return False
    if number == neutral:
        return None
    values.scalars.append(number)
    return "one"


def _array(values: Values, row: Array) -> int:
    values.arrays.append(row)
    return len(row)


def _real(value: Any) -> float | None:
    """Return a number rounded to f32. NaN is excluded: the bits of one mark values filled in later."""
    if type(value) not in _REALS:
        return None
    try:
        number = c_float(value).value
    except OverflowError:
        return None
    return number if number == number else None


def _real_row(values: Any) -> Array | None:
    """Return several scales as kernels read them."""
    row = _row(values)
    if row is None or row.dtype.kind not in "fiu":
        return None
    if row.dtype == _F32:
        return row if row.strides == (4,) else np.ascontiguousarray(row)
    with np.errstate(all="ignore"):
        return row.astype(np.float32)


def _whole(values: Any) -> Array | None:
    """Return several zero points as kernels read them."""
    row = _row(values)
    if row is None or row.dtype.kind not in "iu":
        return None
    if row.dtype == _S32_TYPE:
        return row if row.strides == (4,) else np.ascontiguousarray(row)
    exact = row.astype(np.int32)
    return exact if bool((exact == row).all()) else None


def _row(values: Any) -> Array | None:
    if type(values) is list or type(values) is tuple:
        try:
            values = np.array(values)
        except Exception:
            return None
    return values if type(values) is np.ndarray and values.ndim == 1 else None


# --- post-ops -----------------------------------------------------------------------------------------------


def _read_chain(values: Values, post_ops: Any) -> tuple[Hashable, ...] | None:
    """Return the structure of the chain; None if it is unclear."""
    if post_ops is None:
        return ()
    if isinstance(post_ops, PostOps):
        return _all(_read_op(values, op) for op in post_ops.freeze())
    if type(post_ops) is str:
        return (post_ops,) if post_ops in _FUNCTIONS else None
    if type(post_ops) is not list and type(post_ops) is not tuple:
        return None
    return _all(_read_entry(values, entry) for entry in entries_of(post_ops))


def _all(parts: Any) -> tuple[Hashable, ...] | None:
    values = tuple(parts)
    return None if None in values else values


def _read_op(values: Values, op: object) -> Hashable | None:
    if isinstance(op, EltwiseOp):
        numbers = (op.alpha, op.beta, op.scale)
        values.scalars += numbers
        return op.function, 3
    if not isinstance(op, SumOp) or not op.scale or op.zero_point:
        return None
    values.scalars.append(op.scale)
    return "sum", op.data_type


def _read_entry(values: Values, entry: Any) -> Hashable | None:
    if type(entry) is str:
        return entry if entry in _FUNCTIONS else None
    if (type(entry) is not tuple and type(entry) is not list) or not entry or type(entry[0]) is not str:
        return None
    name, *params = entry
    if name in _OPERATIONS and len(params) == 1:
        return _read_operand(values, name, params[0])
    if name not in _FUNCTIONS or len(params) > 3:
        return None
    numbers = [number for number in map(_real, params) if number is not None]
    low, high, *_ = *numbers, *(1.0, 0.0)[len(numbers) :]
    if len(numbers) < len(params) or (name in _CLIPS and low > high):
        return None
    values.scalars += numbers
    if name in _POWERS and len(numbers) > 1:
        return name, len(numbers), FIXED_POWERS.get(numbers[1])
    if name in _SWISHES:
        return name, len(numbers), low == 1.0
    return name, len(numbers)


def _read_operand(values: Values, name: str, x: Any) -> Hashable | None:
    kind = type(x)
    if kind is float or (kind is int and -_EXACT <= x <= _EXACT):
        x = np.array(x, _F64)
    elif kind is not np.ndarray or x.dtype.num in NIBBLES:
        return None
    elif x.dtype == _S64:
        x = x.astype(_F64)
    values.arrays.append(x)
    return name, x.shape, x.strides, x.dtype
