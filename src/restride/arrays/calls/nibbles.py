"""NumPy's arrays of 4-bit elements, which keep one to a byte where memories keep two."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ...runtime.alloc import Array

_BYTES: dict[int, type] = {
    np.dtype(ml_dtypes.int4).num: np.int8,
    np.dtype(ml_dtypes.uint4).num: np.uint8,
    np.dtype(ml_dtypes.float4_e2m1fn).num: ml_dtypes.float8_e4m3fn,
}
NIBBLES = frozenset(_BYTES)
"""NumPy's numbers of the 4-bit types."""


def is_nibbles(x: Any) -> bool:
    """True for an array of NumPy's 4-bit types."""
    return isinstance(x, np.ndarray) and x.dtype.num in NIBBLES


def as_bytes(x: Array) -> Array:
    """4-bit elements as 8-bit ones, which hold every one of them."""
    return x.astype(_BYTES[x.dtype.num])
