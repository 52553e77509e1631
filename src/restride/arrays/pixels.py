"""Converts batches of images to network inputs: type, layout, mean and standard deviation in one pass."""

from __future__ import annotations

from functools import lru_cache, partial
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from ..desc.parse import parse_int, short_repr
from ..dtypes import DataType
from ..errors import Error, refuse
from ..runtime.describe import Subject
from ..runtime.memory import Memory
from .calls.function import permuted
from .calls.operands import engine_of, memory_of
from .calls.tensors import as_array, as_numpy, for_owner, is_foreign
from .reorders import reorder

if TYPE_CHECKING:
    from numpy.typing import NDArray


__all__ = ["normalize"]

_CALL = "normalize"
_LETTERS = "abcdefghijkl"
_LARGEST = 255.0
Numbers = tuple[float, ...]


def normalize(
    x: Any,
    mean: Any,
    std: Any,
    dst: Any = None,
    *,
    axis: int = -1,
    unit: float | None = None,
    dtype: Any = "f32",
    out: Any = None,
) -> Any:
    """Return `(x / unit - mean) / std` for each channel, in another type and layout, in one pass.

    x      decoded images: a NumPy array, a torch tensor, any object with `__dlpack__`, or a `Memory`
    mean   a number, or one for each channel
    std    standard deviation: a number, or one for each channel
    dst    the format of the result: None for row-major (NCHW), "nhwc", "nChw16c", or anything `reorder`
           accepts
    axis   the channel axis of `x`; by default the last, as in (N, H, W, C)
    unit   the value in `x` that represents 1; by default 255 if `x` is u8, otherwise 1
    dtype  the type of the result
    out    destination; it is returned

    The result has the channels in axis 1, (N, C, H, W), or in axis 0 for a single image of three axes. It is
    computed in f32 as `(x - mean * unit) * (1 / (unit * std))`, or in f64 if `x` or the result is f64. A
    plain format gives an array of the kind of `x`, a blocked one a `Memory`.

    Raises InvalidArguments, before anything is written, for an axis that `x` does not have, for numbers that
    are not finite or not one for each channel, for a `std` or a `unit` of 0, and whenever `reorder` does.

    >>> import numpy as np, restride as rs
    >>> photos = np.full((1, 2, 2, 3), 255, np.uint8)
    >>> rs.normalize(photos, (0.5, 0.5, 0.25), (0.5, 0.25, 0.25))[0, :, 0, 0].round(4).tolist()
    [1.0, 2.0, 3.0]
    """

    try:
        how = (mean, std), dst, axis, unit, dtype
        if is_foreign(x) or is_foreign(out):
            return for_owner(f"{_CALL}: x", x, out, partial(_normalized, how))
        return _normalized(how, as_array(x, f"{_CALL}: x"), out)
    except Error as error:
        error.drop_frames()
        raise


def _normalized(how: tuple[Any, ...], x: Any, out: Any) -> Any:
    factors, dst, axis, unit, dtype = how
    images, kind, dims = _with_channels(x, axis)
    one = (_LARGEST if kind is DataType.u8 else 1.0) if unit is None else unit
    place = _place(len(dims))
    is_wide = DataType.f64 in (kind, None if dtype is None else DataType.parse(dtype))
    keys = tuple(_key(value) for value in (*factors, one))
    shift, factor = _operands(keys, dims[place], len(dims) - place - 1, is_wide)
    to = _LETTERS[: len(dims)] if dst is None and out is None else dst
    return reorder(images, to, dtype=dtype, post_ops=[("sub", shift), ("mul", factor)], out=out)


def _place(ndim: int) -> int:
    """Return the channel axis of a result."""
    return 0 if ndim == 3 else 1


def _with_channels(x: Any, axis: Any) -> tuple[Any, DataType, tuple[int, ...]]:
    """Return a view of the images with the channel axis where the result has it; their type and dims."""
    if not isinstance(x, np.ndarray) or not x.ndim or not x.dtype.isnative:
        # Before its type and axes are used, so that errors say what cannot be read.
        memory_of(x, engine_of(x, None, None), Subject.source(_CALL))
    if isinstance(x, Memory):
        kind, ndim = x.desc.data_type, x.desc.ndims
    else:
        kind, ndim = DataType.parse(x.dtype), x.ndim
    order = _order(ndim, parse_int(axis, f"{_CALL}: axis"))
    if isinstance(x, Memory):
        turned = permuted(x, order)
        return turned, kind, turned.desc.dims
    x = x.transpose(order)
    return x, kind, x.shape


@lru_cache(maxsize=64)
def _order(ndim: int, axis: int) -> tuple[int, ...]:
    """Return the axes of the images in the order of the result."""
    if ndim < 2 or not -ndim <= axis < ndim:
        raise refuse(
            "RS-S05:images-rows-columns" if ndim < 2 else "RS-S05:no-such-axis", axis=axis, ndim=ndim
        )
    at, place = axis % ndim, _place(ndim)
    rest = [i for i in range(ndim) if i != at]
    return (*rest[:place], at, *rest[place:])


# --- numbers ------------------------------------------------------------------------------------------------


def _key(value: Any) -> Any:
    """Return numbers as a tuple, to be used as a cache key; anything else unchanged."""
    if type(value) is tuple or type(value) is float:
        return value
    if is_foreign(value):
        value = as_numpy(value, _CALL)
    if isinstance(value, np.ndarray):
        return tuple(value.tolist()) if value.ndim == 1 else value.tolist()
    return tuple(value) if isinstance(value, list) else value


@lru_cache(maxsize=64)
def _pair(keys: tuple[Any, ...], count: int, behind: int, is_wide: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    mean, std, unit = keys
    one = _numbers("unit", unit, 1, may_be_zero=False)
    means, deviations = _numbers("mean", mean, count), _numbers("std", std, count, may_be_zero=False)
    real = np.float64 if is_wide else np.float32
    with np.errstate(all="ignore"):
        operands = np.multiply(means, one), 1 / np.multiply(deviations, one)
        shaped = [np.asarray(operand, real).reshape(-1, *[1] * behind) for operand in operands]
    for name, value, operand in zip(("mean", "std"), (mean, std), shaped, strict=True):
        if not np.isfinite(operand).all():
            raise refuse("RS-R22:too-large", name=name, value=short_repr(value), np_name=np.dtype(real).name)
    for operand in shaped:
        operand.flags.writeable = False
    return shaped[0], shaped[1]


def _operands(
    keys: tuple[Any, ...], count: int, behind: int, is_wide: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the array to subtract and the one to multiply by, from mean, deviation and unit; with `behind`
    axes of 1 after the channels.
    """
    try:
        return _pair(keys, count, behind, is_wide)
    except TypeError:  # not numbers, perhaps unhashable
        for name, value in zip(("mean", "std", "unit"), keys, strict=True):
            _numbers(name, value, count)
        raise


def _numbers(name: str, value: Any, count: int, *, may_be_zero: bool = True) -> Numbers:
    """Return `count` finite numbers, or one for all of them."""
    try:
        array = np.asarray(value)
        array = np.asarray(np.nan) if array.dtype.kind in "USTmMc" else array.astype(np.float64)
    except Exception:  # NumPy cannot convert it
        array = np.asarray(np.nan)
    numbers: Numbers = tuple(array.reshape(-1).tolist())
    is_right = array.ndim < 2 and len(numbers) in (1, count) and all(map(isfinite, numbers))
    if is_right and (may_be_zero or all(numbers)):
        return numbers
    raise refuse(
        "RS-R22:not-finite" if may_be_zero else "RS-R22:not-finite-or-0",
        name=name,
        value=short_repr(value),
        which="a finite number"
        if count == 1
        else f"a finite number, or {count} of them, one for each channel",
    )
