"""Converts arguments to plain Python values, checked: dims, strides, indices, types, real numbers (N1)."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence, Set
from ctypes import c_float
from itertools import islice
from typing import Any

import numpy as np

from ..deprecation import old_name
from ..dtypes import DataType
from ..errors import Error, InvalidArguments, refuse
from ..foreign import plain_text
from ..nearest import nearest
from .layout import RUNTIME_DIM
from .tag_names import suggest_format
from .tags import MAX_NDIMS

_LIMIT = 2**63
_SHOWN = 80
_MOST_BITS = 128
_MAX_ITEMS = 64
_SEQUENCE = "pass a tuple of integers, one for each axis"


def fail(code: str, what: str, why: str, hint: str = "", where: str = "") -> InvalidArguments:
    """Return the error for an invalid argument, in the common form."""
    return InvalidArguments(what, code=code, where=where, why=why, hint=hint)


def short_repr(value: object) -> str:
    """Return a shortened `repr` of a caller's value, which can be long or raise."""
    if type(value) is int and value.bit_length() > _MOST_BITS:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def one_of(words: Iterable[str], typed: object = None, others: Mapping[str, str] | None = None) -> str:
    """Return a hint with the accepted words, and the one that was probably meant.

    `others`: words of other libraries with our equivalents; otherwise the most similar word is suggested.
    """
    choices, near = list(words), ""
    if isinstance(typed, str):
        word = typed[:_SHOWN].lower()
        near = (others or {}).get(word) or nearest(word, choices)
    question = f"did you mean {near!r}? " if near else ""
    return f"{question}use one of {', '.join(choices)}"


def parse_word(what: str, value: object, words: Iterable[str], why: str = "") -> str:
    """Return one of these words. Raises InvalidArguments suggesting the most similar word."""
    word, choices = plain_text(value), list(words)
    if isinstance(word, str) and word in choices:
        return word
    why = why or f"there is no such {what.rpartition(' ')[2]}"
    raise refuse("RS-V04:word", what=what, value=short_repr(value), why=why, advice=one_of(choices, word))


def parse_int(value: object, name: str, hint: str = "pass a Python or NumPy integer") -> int:
    """Return a Python or NumPy integer as `int`; bool, float and str raise InvalidArguments naming `name`."""
    if type(value) is int:
        return value
    if not isinstance(value, bool | np.bool_ | np.ndarray):
        try:
            return operator.index(value)  # type: ignore[arg-type]
        except Exception:
            pass  # __index__ can raise anything; in any case the value is not an integer
    raise refuse(
        "RS-V01:integer-not", name=name, value=short_repr(value), type=type(value).__name__, hint=hint
    )


def parse_bool(what: str, value: object) -> bool:
    """Return True or False, of Python or NumPy; 0, 1 and words raise InvalidArguments naming `what`."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise refuse("RS-V06", what=what, value=short_repr(value))


def check_function(what: str, value: object) -> None:
    """Raise InvalidArguments unless the value is callable or None."""
    if value is not None and not callable(value):
        raise refuse("RS-V08:called", what=what, value=short_repr(value))


def renamed(call: str, value: Any, **older: Any) -> Any:
    """Return a renamed parameter, passed under either name. Raises InvalidArguments if both were passed."""
    values = {name: other for name, other in older.items() if other is not None}
    if not values:
        return value
    if value is None and len(values) == 1:
        ((old, other),) = values.items()
        what, _, new = call.rpartition(": ")
        if old != new:  # `dtype` of a MemoryDesc is another name, not an old one
            old_name(f"{what}: {old}", f"{what}: {new}")
        return other
    raise refuse("RS-V07:given-twice", call=call, given=", ".join(values))


def is_scalar(value: object) -> bool:
    """Return True for a single value, False for a sequence of any kind, ragged ones included."""
    try:
        return bool(np.ndim(value) == 0)  # type: ignore[arg-type]
    except Exception:  # a foreign object's shape can raise anything
        return False


def parse_ints(values: object, name: str) -> tuple[int, ...]:
    """Return a sequence of integers as a tuple; errors name the index."""
    if isinstance(values, str | bytes | Set | Mapping) or not isinstance(values, Iterable):
        hint = f"write ({short_repr(values)},)" if isinstance(values, int) else _SEQUENCE
        raise refuse("RS-V03:sequence-integers", name=name, values=short_repr(values), hint=hint)
    try:
        # Bounded, because a generator can be infinite.
        items = list(islice(values, _MAX_ITEMS + 1))
    except Exception:
        raise refuse("RS-V03:no-sequence", name=name, values=short_repr(values)) from None
    if len(items) > _MAX_ITEMS:
        raise refuse("RS-M04:more-entries", name=name, max_items=_MAX_ITEMS, max_ndims=MAX_NDIMS)
    return tuple(parse_int(value, f"{name}[{i}]") for i, value in enumerate(items))


def parse_dims(dims: object, name: str = "dims") -> tuple[int, ...]:
    """Return up to 12 extents, each at least 0, or RUNTIME_DIM."""
    shape = parse_ints(dims, name)
    if len(shape) > MAX_NDIMS:
        raise refuse("RS-M04:axes", name=name, count=len(shape), max_ndims=MAX_NDIMS)
    for i, n in enumerate(shape):
        if n != RUNTIME_DIM and not 0 <= n < _LIMIT:
            raise _bad_dim(f"{name}[{i}]", n, f"{name} {_by(shape)}")
    return shape


def _bad_dim(name: str, n: int, where: str) -> Error:
    return refuse(
        "RS-M04:dim-0-more" if n < 0 else "RS-M04:dim-too-large", name=name, n=short_repr(n), where=where
    )


def _by(values: tuple[int, ...]) -> str:
    return f"({', '.join(map(short_repr, values))})"


def parse_strides(strides: object, ndims: int, name: str = "strides") -> tuple[int, ...]:
    """Return one stride in elements for each axis, of any sign."""
    steps = parse_ints(strides, name)
    if len(steps) != ndims:
        raise refuse("RS-M07:entries-dims", name=name, count=len(steps), ndims=ndims)
    for i, step in enumerate(steps):
        if not -_LIMIT <= step < _LIMIT:
            raise refuse("RS-M07:fit-64-bits", name=name, i=i, step=short_repr(step))
    return steps


def parse_type(value: Any) -> DataType:
    """Return a data type other than undef."""
    try:
        dtype = DataType.parse(value)
    except InvalidArguments as error:
        raise suggest_format(error, value, "format, after the data type") from None
    if dtype is DataType.undef:
        raise refuse("RS-M04:tensor-elements-need")
    return dtype


def parse_index(index: Sequence[object], padded_dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return a position inside the padded dims."""
    position = parse_ints(index, "index")
    if len(position) != len(padded_dims):
        why = f"the descriptor has {len(padded_dims)} axes"
        raise refuse("RS-M10:index-entries", count=len(position), why=why)
    for i, (at, padded) in enumerate(zip(position, padded_dims, strict=True)):
        if not 0 <= at < padded:
            why = f"positions on axis {i} are 0..{padded - 1}, padding included"
            raise refuse("RS-M10:index", i=i, at=short_repr(at), why=why)
    return position


def parse_offset(offset: object) -> int:
    """Return an element offset."""
    return parse_int(offset, "offset")


# --- real numbers ------------------------------------------------------------
# Single real numbers as f32 values (N1).

_NAN_BITS = 0x7FC00000
_NO_NUMBERS = bool | np.bool_ | str | bytes | complex | np.complexfloating


def to_f32(value: Any, name: str) -> float:
    """Return `value` rounded to f32, as a Python float; inf and NaN are allowed. Errors name `name`."""
    if type(value) is float:
        return c_float(value).value
    wide = to_f64(value, name)
    with np.errstate(all="ignore"):
        return float(np.float32(wide))


def to_f64(value: Any, name: str) -> float:
    """Return `value` as a Python float; inf and NaN are allowed. Errors name `name`."""
    if isinstance(value, _NO_NUMBERS) or not is_scalar(value):
        raise refuse("RS-V02:real-number", name=name, value=short_repr(value))
    try:
        return float(value)
    except OverflowError:
        raise refuse("RS-V02:real-number-float", name=name, value=short_repr(value)) from None
    except Exception:
        raise refuse(
            "RS-V02:real-number", name=name, value=short_repr(value)
        ) from None  # __float__ can raise anything


def f32_bits(value: float) -> int:
    """Return the bits of an f32 value; -0.0 differs from 0.0, and all NaNs are equal."""
    return _NAN_BITS if value != value else int(np.float32(value).view(np.uint32))
