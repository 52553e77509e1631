"""NumPy's arrays of 4-bit integers, which keep one to a byte where memories keep two."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..dtypes import DataType
from ..runtime.alloc import Array

NIBBLES = frozenset(np.dtype(kind).num for kind in (ml_dtypes.int4, ml_dtypes.uint4))
"""NumPy's numbers of the 4-bit types."""


def is_nibbles(x: Any) -> bool:
    """True for an array of NumPy's 4-bit integers."""
    return isinstance(x, np.ndarray) and x.dtype.num in NIBBLES


def as_bytes(x: Array) -> Array:
    """4-bit integers as 8-bit ones, which are read as they are."""
    return x.astype(np.int8 if DataType.parse(x.dtype) is DataType.s4 else np.uint8)
