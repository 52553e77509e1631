"""Single real numbers as f32 values (N1, R36)."""

from __future__ import annotations

from ctypes import c_float
from typing import Any

import numpy as np

from ..errors import InvalidArguments
from .parse import is_scalar, short_repr

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
