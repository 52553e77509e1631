"""ONNX operators on known values, by NumPy: computations of shapes, and constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ....dtypes import DataType
from ....model.result_dims import Misfit
from ....runtime.alloc import Array
from ....runtime.free_memory import check_room
from ...dims import by
from ..operator_call import ONNX, Ints, OperatorCall, Value
from .tensors import ELEMENTS

_CONSTANTS = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


def check_countable(dims: Sequence[int], kind: DataType) -> None:
    """Raise Misfit for a tensor whose number of bytes exceeds 64 bits."""
    if kind.nbytes(prod(dims)) >= 1 << 63:
        raise Misfit(f"it makes {kind} {by(tuple(dims))}: the size exceeds 64 bits")


def axis_of(number: object, rank: int, what: str = "axis") -> int:
    """Return a nonnegative axis; negative numbers count from the end. Raises Misfit if out of range."""
    axis = int(str(number))
    if not -rank <= axis < rank:
        raise Misfit(f"{what} {axis} is out of range: there are {rank}")
    return axis % rank


def new_dims(dims: Sequence[int], pattern: Sequence[int], keeps_zeros: bool = False) -> tuple[int, ...]:
    """Return the dims of a Reshape: 0 copies the dim of the source unless `keeps_zeros`; -1 is inferred."""
    sizes = [dims[i] if n == 0 and not keeps_zeros else n for i, n in enumerate(pattern)]
    if sizes.count(-1) > 1 or any(n < -1 for n in sizes):
        raise Misfit(f"the new dims are {tuple(pattern)}")
    rest = prod(n for n in sizes if n != -1)
    return tuple(prod(dims) // max(rest, 1) if n == -1 else n for n in sizes)


def squeezed(dims: Sequence[int], axes: Sequence[int] | None) -> tuple[int, ...]:
    """Return dims without those of `axes`, or without all that are 1."""
    if axes is None:
        return tuple(n for n in dims if n != 1)
    gone = {axis_of(axis, len(dims)) for axis in axes}
    if any(dims[axis] != 1 for axis in gone):
        raise Misfit(f"dims {sorted(gone)} of {tuple(dims)} are not all 1")
    return tuple(n for i, n in enumerate(dims) if i not in gone)


def unsqueezed(dims: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """Return dims with a 1 inserted at each of `axes`, which refer to the result."""
    rank = len(dims) + len(axes)
    new = {axis_of(axis, rank) for axis in axes}
    if len(new) < len(axes):
        raise Misfit(f"{tuple(axes)} contains an axis twice")
    rest = iter(dims)
    return tuple(1 if i in new else next(rest) for i in range(rank))


def span(n: int, start: int, end: int, step: int) -> range:
    """Return the indices that a Slice takes of n elements; backwards it stops before index 0 at most."""
    low, high = (0, n) if step > 0 else (-1, n - 1)
    first, last = (min(max(at + n if at < 0 else at, low), high) for at in (start, end))
    return range(first if step > 0 else max(first, min(0, high)), last, step)


# --- operators ----------------------------------------------------------------------------------------------


@ONNX("Constant")
def _constant(call: OperatorCall, **attributes: Any) -> Value:
    ((name, value),) = attributes.items()
    if value is None or name.startswith(("sparse", "value_string")):
        raise Misfit(f"constants given by {name} are not supported")
    return np.asarray(value, _CONSTANTS.get(name))


@ONNX("ConstantOfShape")
def _constant_of_shape(call: OperatorCall, shape: Ints, *, value: Array | None = None) -> Value:
    return np.broadcast_to(np.float32(0) if value is None else value.reshape(-1)[0], shape)


@ONNX("Range")
def _range(call: OperatorCall, start: Array, limit: Array, delta: Array) -> Value:
    first, last, step = (bound.item() for bound in (start, limit, delta))
    count = int(max((last - first) / step, 0))
    call.check_size((count,))
    check_room(8 * count)
    return np.asarray(np.arange(first, last, step), start.dtype)


@ONNX("EyeLike")
def _eye_like(call: OperatorCall, x: Value, *, dtype: int = 0, k: int = 0) -> Value:
    kind = ELEMENTS[dtype] if dtype else call.type_of(x).numpy
    rows, columns = call.dims(x)
    call.check_size((rows, columns))
    check_room(8 * rows * columns)
    return np.eye(rows, columns, k).astype(kind)


def cast(x: Array, to: int) -> Array:
    """Cast to the type with this ONNX number."""
    return x.astype(ELEMENTS[to])


def _divided(left: Array, right: Array) -> Array:
    if left.dtype.kind not in "iu":
        return np.asarray(left / right)
    return np.asarray(np.trunc(left / right) if np.any(left < 0) or np.any(right < 0) else left // right)


def _of_elements(function: Callable[..., Any]) -> Callable[..., Array]:
    def run(*values: Array) -> Array:
        result = np.asarray(function(*values))
        return result if result.dtype == np.bool_ else result.astype(values[-1].dtype, copy=False)

    return run


_OF_ELEMENTS: Mapping[str, Callable[..., Any]] = {
    "Abs": np.abs, "Add": np.add, "And": np.logical_and, "Ceil": np.ceil, "Div": _divided,
    "Equal": np.equal, "Exp": np.exp, "Floor": np.floor, "Greater": np.greater, "Less": np.less,
    "Log": np.log, "Mul": np.multiply, "Neg": np.negative, "Not": np.logical_not, "Or": np.logical_or,
    "Reciprocal": np.reciprocal, "Sqrt": np.sqrt, "Sub": np.subtract,
    "Max": lambda *values: np.maximum.reduce(np.broadcast_arrays(*values)),
    "Min": lambda *values: np.minimum.reduce(np.broadcast_arrays(*values)),
}  # fmt: skip
ONNX.on_arrays |= {name: _of_elements(function) for name, function in _OF_ELEMENTS.items()}
