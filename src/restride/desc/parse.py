"""Arguments as plain Python values, checked: dims, strides, indices, types, real numbers (N1)."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence, Set
from ctypes import c_float
from itertools import islice
from typing import Any

import numpy as np

from ..dtypes import DataType
from ..errors import InvalidArguments
from ..foreign import plain_text
from ..nearest import nearest
from .layout import RUNTIME_DIM
from .tag_names import told_of_format
from .tags import MAX_NDIMS

_LIMIT = 2**63
_SHOWN = 80
_MOST_BITS = 128
_MAX_ITEMS = 64
_MOST_AXES = f"a tensor has at most {MAX_NDIMS} axes"
_FEWER_AXES = "join axes that lie side by side with reshape, or move the tensor in slices"
_SEQUENCE = "pass a tuple of integers, one for each axis"


def fail(code: str, what: str, why: str, hint: str = "", where: str = "") -> InvalidArguments:
    """The error for a wrong argument, in the common form."""
    return InvalidArguments(what, code=code, where=where, why=why, hint=hint)


def short_repr(value: object) -> str:
    """`repr` of a caller's value, cut: it may be long, or fail."""
    if type(value) is int and value.bit_length() > _MOST_BITS:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def one_of(words: Iterable[str], typed: object = None, others: Mapping[str, str] | None = None) -> str:
    """A hint at the words that may stand there, and at the one that was meant by what was typed.

    `others`: words of other libraries, and what they are called here; else it is the word most like it.
    """
    known, near = list(words), ""
    if isinstance(typed, str):
        word = typed[:_SHOWN].lower()
        near = (others or {}).get(word) or nearest(word, known)
    asked = f"did you mean {near!r}? " if near else ""
    return f"{asked}use one of {', '.join(known)}"


def parse_word(what: str, value: object, words: Iterable[str], why: str = "") -> str:
    """One of these words. Raises InvalidArguments, with the word that is most like it."""
    word, known = plain_text(value), list(words)
    if isinstance(word, str) and word in known:
        return word
    why = why or f"there is no such {what.rpartition(' ')[2]}"
    raise fail("RS-V04", f"{what} is {short_repr(value)}", why, one_of(known, word))


def parse_int(value: object, name: str, hint: str = "pass a Python or NumPy integer") -> int:
    """A Python or NumPy integer as `int`; bool, float and str raise InvalidArguments naming `name`."""
    if type(value) is int:
        return value
    if not isinstance(value, bool | np.bool_ | np.ndarray):
        try:
            return operator.index(value)  # type: ignore[arg-type]
        except Exception:
            pass  # __index__ may raise anything: whatever it is, the value is no integer
    raise fail(
        "RS-V01", f"{name} is {short_repr(value)}", f"it must be an integer, not {type(value).__name__}", hint
    )


def parse_bool(what: str, value: object) -> bool:
    """True or False, of Python or NumPy; 0, 1 and words raise InvalidArguments naming `what`."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise fail("RS-V06", f"{what} is {short_repr(value)}", "it is yes or no", "pass True or False")


def check_function(what: str, value: object) -> None:
    """Raise InvalidArguments for what cannot be called; None stands for no function."""
    if value is not None and not callable(value):
        raise fail("RS-V08", f"{what} is {short_repr(value)}", "it is called", "pass a function, or None")


def renamed(call: str, value: Any, **older: Any) -> Any:
    """A parameter that had another name: what was passed under either. Raises InvalidArguments for both."""
    given = {name: other for name, other in older.items() if other is not None}
    if not given:
        return value
    if value is None and len(given) == 1:
        return next(iter(given.values()))
    why = "they are the old and the new name of one parameter"
    raise fail("RS-V07", f"{call}: {', '.join(given)} is given twice", why, "pass the new one alone")


def is_scalar(value: object) -> bool:
    """True for one value, False for a sequence of any kind, ragged ones included."""
    try:
        return bool(np.ndim(value) == 0)  # type: ignore[arg-type]
    except Exception:  # a foreign object may raise anything when asked for its shape
        return False


def parse_ints(values: object, name: str) -> tuple[int, ...]:
    """A sequence of integers as a tuple; errors name the index."""
    if isinstance(values, str | bytes | Set | Mapping) or not isinstance(values, Iterable):
        hint = f"write ({short_repr(values)},)" if isinstance(values, int) else _SEQUENCE
        raise fail("RS-V03", f"{name} is {short_repr(values)}", "it must be a sequence of integers", hint)
    try:
        # Bounded, because a generator may never end.
        items = list(islice(values, _MAX_ITEMS + 1))
    except Exception:
        raise fail(
            "RS-V03", f"{name} is {short_repr(values)}", "it must be a sequence of integers", _SEQUENCE
        ) from None
    if len(items) > _MAX_ITEMS:
        raise fail("RS-M04", f"{name} has more than {_MAX_ITEMS} entries", _MOST_AXES, _FEWER_AXES)
    return tuple(parse_int(value, f"{name}[{i}]") for i, value in enumerate(items))


def parse_dims(dims: object, name: str = "dims") -> tuple[int, ...]:
    """Up to 12 extents, each 0 or more, or RUNTIME_DIM."""
    shape = parse_ints(dims, name)
    if len(shape) > MAX_NDIMS:
        raise fail("RS-M04", f"{name} has {len(shape)} axes", _MOST_AXES, _FEWER_AXES)
    for i, n in enumerate(shape):
        if n != RUNTIME_DIM and not 0 <= n < _LIMIT:
            raise _bad_dim(f"{name}[{i}]", n, f"{name} {_by(shape)}")
    return shape


def _bad_dim(name: str, n: int, where: str) -> InvalidArguments:
    why = "a dim must be 0 or more" if n < 0 else "a dim must be below 2**63"
    return fail("RS-M04", f"{name} is {short_repr(n)}", why, "give the extent of the axis in elements", where)


def _by(values: tuple[int, ...]) -> str:
    return f"({', '.join(map(short_repr, values))})"


def parse_strides(strides: object, ndims: int, name: str = "strides") -> tuple[int, ...]:
    """One stride in elements for each axis, of any sign."""
    steps = parse_ints(strides, name)
    if len(steps) != ndims:
        raise fail(
            "RS-M07",
            f"{name} has {len(steps)} entries, the dims have {ndims}",
            "each axis needs one stride",
            "strides count elements, in the order of the dims",
        )
    for i, step in enumerate(steps):
        if not -_LIMIT <= step < _LIMIT:
            raise fail(
                "RS-M07", f"{name}[{i}] is {short_repr(step)}", "it must fit in 64 bits", "it counts elements"
            )
    return steps


def parse_type(value: Any) -> DataType:
    """A data type other than undef."""
    try:
        dtype = DataType.parse(value)
    except InvalidArguments as error:
        raise told_of_format(error, value, "format, after the data type") from None
    if dtype is DataType.undef:
        raise fail("RS-M04", "the data type is undef", "a tensor's elements need a type", "for example 'f32'")
    return dtype


def parse_index(index: Sequence[object], padded_dims: tuple[int, ...]) -> tuple[int, ...]:
    """A position inside the padded dims."""
    position = parse_ints(index, "index")
    if len(position) != len(padded_dims):
        why = f"the descriptor has {len(padded_dims)} axes"
        raise fail("RS-M10", f"index has {len(position)} entries", why, "give one position for each axis")
    for i, (at, padded) in enumerate(zip(position, padded_dims, strict=True)):
        if not 0 <= at < padded:
            why = f"positions on axis {i} are 0..{padded - 1}, padding included"
            raise fail(
                "RS-M10",
                f"index[{i}] is {short_repr(at)}",
                why,
                "positions count from 0 and are not negative",
            )
    return position


def parse_offset(offset: object) -> int:
    """An element offset."""
    return parse_int(offset, "offset")


# --- real numbers ------------------------------------------------------------
# Single real numbers as f32 values (N1).

_NAN_BITS = 0x7FC00000
_TOO_LARGE = "it must be one real number that a float can hold"
_NO_NUMBERS = bool | np.bool_ | str | bytes | complex | np.complexfloating


def to_f32(value: Any, name: str) -> float:
    """`value` rounded to f32, as a Python float; inf and NaN are values. Errors name `name`."""
    if type(value) is float:
        return c_float(value).value
    if isinstance(value, _NO_NUMBERS) or not is_scalar(value):
        raise _no_number(value, name)
    try:
        wide = float(value)
    except OverflowError:
        raise _no_number(value, name, _TOO_LARGE, "pass math.inf, or less") from None
    except Exception:
        raise _no_number(value, name) from None  # __float__ may raise anything
    with np.errstate(all="ignore"):
        return float(np.float32(wide))


def _no_number(
    value: object, name: str, why: str = "it must be one real number", hint: str = "pass a number, as 0.5"
) -> InvalidArguments:
    return InvalidArguments(f"{name} is {short_repr(value)}", code="RS-V02", why=why, hint=hint)


def f32_bits(value: float) -> int:
    """The bits of an f32 value, all NaNs alike: tells -0.0 from 0.0, and NaN equals itself."""
    return _NAN_BITS if value != value else int(np.float32(value).view(np.uint32))
