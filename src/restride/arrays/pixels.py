"""Batches of images as what networks read: types, layout, mean and deviation in one pass."""

from __future__ import annotations

from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..desc.parse import parse_int, short_repr
from ..dtypes import DataType
from ..errors import Error, refuse
from ..runtime.describe import Subject
from ..runtime.memory import Memory
from .calls.error_translation import translate_hint
from .calls.operands import engine_of, memory_of
from .calls.tensors import as_array, as_numpy, as_target, back_to, is_foreign, written
from .reorders import reorder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..typing import (
        ArrayLike,
        BlockedTag,
        FormatLike,
        OtherArray,
        PlainFormat,
        Tensor,
        TypeLike,
        WholeType,
    )

__all__ = ["normalize"]

_CALL = "normalize"
_LETTERS = "abcdefghijkl"
_LARGEST = 255.0
Numbers = tuple[float, ...]


@overload
def normalize(
    x: OtherArray | ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    dst: BlockedTag,
    *,
    axis: int = -1,
    unit: float | None = None,
    dtype: TypeLike = "f32",
) -> Memory: ...
@overload
def normalize(
    x: Tensor,
    mean: ArrayLike,
    std: ArrayLike,
    dst: PlainFormat = None,
    *,
    axis: int = -1,
    unit: float | None = None,
    dtype: WholeType = "f32",
) -> Tensor: ...
@overload
def normalize(
    x: ArrayLike | Memory,
    mean: ArrayLike,
    std: ArrayLike,
    dst: PlainFormat = None,
    *,
    axis: int = -1,
    unit: float | None = None,
    dtype: WholeType = "f32",
) -> NDArray[Any]: ...
@overload
def normalize(
    x: OtherArray | ArrayLike | Memory,
    mean: ArrayLike,
    std: ArrayLike,
    dst: FormatLike = None,
    *,
    axis: int = -1,
    unit: float | None = None,
    dtype: TypeLike = "f32",
    out: Any = None,
) -> Any: ...
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
    """`(x / unit - mean) / std` for each channel, in another type and layout, in one pass.

    x      images as they are decoded: a NumPy array, a tensor of torch, what has `__dlpack__`, or a `Memory`
    mean   a number, or one for each channel
    std    the same: the deviations
    dst    the format of the result: None for row-major (NCHW), "nhwc", "nChw16c", or what `reorder` takes
    axis   which axis of `x` holds the channels: the last, as in (N, H, W, C), unless it is given
    unit   what stands for 1 in `x`: 255 where it is u8, otherwise 1, unless it is given
    dtype  the type of the result
    out    where to write; it is returned

    The result has the channels in axis 1, (N, C, H, W), of one image of three axes in axis 0. It is computed
    as f32, `(x - mean * unit) * (1 / (unit * std))`, as f64 where `x` or the result is f64. A plain format
    gives an array of the kind of `x`, a blocked one a `Memory`.

    Raises InvalidArguments, before anything is written, for an axis that `x` has not, for numbers that are
    not one for each channel or not finite, for a deviation or a unit of 0, and for what `reorder` refuses.

    >>> import numpy as np, restride as rs
    >>> photos = np.full((1, 2, 2, 3), 255, np.uint8)
    >>> rs.normalize(photos, (0.5, 0.5, 0.25), (0.5, 0.25, 0.25))[0, :, 0, 0].round(4).tolist()
    [1.0, 2.0, 3.0]
    """
    try:
        if is_foreign(x) or is_foreign(out):
            return _foreign(x, (mean, std), dst, axis, unit, dtype, out)
        return _normalized(as_array(x, f"{_CALL}: x"), (mean, std), dst, axis, unit, dtype, out)
    except Error as error:
        error.drop_frames()
        raise


def _foreign(x: Any, factors: tuple[Any, Any], dst: Any, axis: Any, unit: Any, dtype: Any, out: Any) -> Any:
    source = as_numpy(x, f"{_CALL}: x")
    target = None if out is None else as_target(out, f"{_CALL}: out")
    try:
        made = _normalized(source, factors, dst, axis, unit, dtype, target)
    except Error as error:
        raise translate_hint(x if is_foreign(x) else out, error) from None
    if out is not None:
        return written(out)
    return made if isinstance(made, Memory) else back_to(x, made)


def _normalized(
    x: Any, factors: tuple[Any, Any], dst: Any, axis: Any, unit: Any, dtype: Any, out: Any
) -> Any:
    images, kind, dims = _with_channels(x, axis)
    one = (_LARGEST if kind is DataType.u8 else 1.0) if unit is None else unit
    place = _place(len(dims))
    is_wide = DataType.f64 in (kind, None if dtype is None else DataType.parse(dtype))
    keys = tuple(_key(each) for each in (*factors, one))
    shift, factor = _operands(keys, dims[place], len(dims) - place - 1, is_wide)
    to = _LETTERS[: len(dims)] if dst is None and out is None else dst
    return reorder(images, to, dtype=dtype, post_ops=[("sub", shift), ("mul", factor)], out=out)


def _place(ndim: int) -> int:
    """Which axis of a result holds the channels."""
    return 0 if ndim == 3 else 1


def _with_channels(x: Any, axis: Any) -> tuple[Any, DataType, tuple[int, ...]]:
    """The images with the axis of their channels where the result has it, as a view; their type and dims."""
    if not isinstance(x, np.ndarray) or not x.ndim or not x.dtype.isnative:
        # Before its type and its axes are looked at: errors say what cannot be read.
        memory_of(x, engine_of(x, None, None), Subject.source(_CALL))
    if isinstance(x, Memory):
        kind, ndim = x.desc.data_type, x.desc.ndims
    else:
        kind, ndim = DataType.parse(x.dtype), x.ndim
    order = _order(ndim, parse_int(axis, f"{_CALL}: axis"))
    if isinstance(x, Memory):
        x = Memory(x.desc.permute_axes([order.index(i) for i in range(ndim)]), x.engine, x.data)
        return x, kind, x.desc.dims
    x = x.transpose(order)
    return x, kind, x.shape


@lru_cache(maxsize=64)
def _order(ndim: int, axis: int) -> tuple[int, ...]:
    """The axes of images in the order of the result."""
    if ndim < 2 or not -ndim <= axis < ndim:
        raise refuse(
            "RS-S05:images-rows-columns" if ndim < 2 else "RS-S05:no-such-axis", axis=axis, ndim=ndim
        )
    at, place = axis % ndim, _place(ndim)
    rest = [i for i in range(ndim) if i != at]
    return (*rest[:place], at, *rest[place:])


# --- numbers ------------------------------------------------------------------------------------------------


def _key(value: Any) -> Any:
    """Numbers as a tuple, which is the key of what is made of them; anything else as it is."""
    if type(value) is tuple or type(value) is float:
        return value
    if is_foreign(value):
        value = as_numpy(value, _CALL)
    if isinstance(value, np.ndarray):
        return tuple(value.tolist()) if value.ndim == 1 else value.tolist()
    return tuple(value) if isinstance(value, list) else value


@lru_cache(maxsize=64)
def _made(keys: tuple[Any, ...], count: int, behind: int, is_wide: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    mean, std, unit = keys
    one = _numbers("unit", unit, 1, may_be_zero=False)
    means, deviations = _numbers("mean", mean, count), _numbers("std", std, count, may_be_zero=False)
    real = np.float64 if is_wide else np.float32
    with np.errstate(all="ignore"):
        operands = np.multiply(means, one), 1 / np.multiply(deviations, one)
        shaped = [np.asarray(each, real).reshape(-1, *[1] * behind) for each in operands]
    for name, value, found in zip(("mean", "std"), (mean, std), shaped, strict=True):
        if not np.isfinite(found).all():
            raise refuse("RS-R22:too-large", name=name, value=short_repr(value), np_name=np.dtype(real).name)
    for each in shaped:
        each.flags.writeable = False
    return shaped[0], shaped[1]


def _operands(
    keys: tuple[Any, ...], count: int, behind: int, is_wide: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """What is subtracted, and what multiplies then, of mean, deviation and unit; with `behind` axes of 1
    behind the channels.
    """
    try:
        return _made(keys, count, behind, is_wide)
    except TypeError:  # no numbers, which may have no hash
        for name, value in zip(("mean", "std", "unit"), keys, strict=True):
            _numbers(name, value, count)
        raise


def _numbers(name: str, value: Any, count: int, *, may_be_zero: bool = True) -> Numbers:
    """So many finite numbers, or one for all of them."""
    try:
        found = np.asarray(value)
        found = np.asarray(np.nan) if found.dtype.kind in "USTmMc" else found.astype(np.float64)
    except Exception:  # NumPy makes no numbers of it
        found = np.asarray(np.nan)
    numbers: Numbers = tuple(found.reshape(-1).tolist())
    is_right = found.ndim < 2 and len(numbers) in (1, count) and all(map(isfinite, numbers))
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
