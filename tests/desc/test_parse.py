"""Single real numbers as f32 values: rounded once, and equal by their bits (N1)."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from restride.desc.parse import f32_bits, to_f32
from restride.errors import InvalidArguments

NUMBERS = {
    "int": (2, 2.0),
    "tenth": (0.1, 13421773 / 2**27),
    "too large": (np.float64(1e300), math.inf),
    "too small": (-1e300, -math.inf),
    "underflow": (1e-60, 0.0),
    "inf": (math.inf, math.inf),
    "int8": (np.int8(-3), -3.0),
    "odd beyond 24 bits": (16777217, 16777216.0),
    "bf16": (ml_dtypes.bfloat16(1.5), 1.5),
    "array of one": (np.array(0.25), 0.25),
}


@pytest.mark.parametrize(("value", "rounded"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_are_rounded_to_f32(value: Any, rounded: float) -> None:
    assert to_f32(value, "x") == rounded


STRANGERS: dict[str, Any] = {
    "text": "2",
    "bytes": b"2",
    "bool": True,
    "numpy bool": np.bool_(True),
    "complex": 1j,
    "complex64": np.complex64(1),
    "none": None,
    "list": [1.0],
    "object": object(),
    "huge": 10**400,
}


@pytest.mark.parametrize("value", STRANGERS.values(), ids=STRANGERS)
def test_what_is_no_number_is_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidArguments, match=r"^call: x is (?s:.*)one real number"):
        to_f32(value, "call: x")


def test_bits_tell_zeros_apart_and_make_nans_one() -> None:
    assert f32_bits(1.0) == 0x3F800000
    assert (f32_bits(0.0), f32_bits(-0.0)) == (0, 0x80000000)
    assert f32_bits(math.nan) == f32_bits(-math.nan) == 0x7FC00000
