"""The types that bits are moved as: where nothing is converted, arrays of any numbers will do (N6, N11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import DataType
from ..errors import InvalidArguments
from ..runtime.alloc import Array

NumpyType = np.dtype[Any]

_CARRIERS = {1: DataType.u8, 2: DataType.f16, 4: DataType.f32, 8: DataType.f64}
# Numbers of NumPy's own, complex ones among them; those of ml_dtypes are void to NumPy.
_KINDS = "biufc"


def carried(dtype: NumpyType) -> NumpyType:
    """The type that an array's bits are moved as; `dtype` itself where nothing can carry it.

    Nothing carries foreign byte order: all functions refuse it alike, with the way out, where data enters.
    """
    is_number = dtype.isnative and (dtype.kind in _KINDS or (dtype.kind == "V" and dtype.type is not np.void))
    carrier = _CARRIERS.get(dtype.itemsize) if is_number else None
    return dtype if carrier is None or carrier.numpy is None else carrier.numpy


def as_type(make: Callable[[], tuple[int, Array]], dtype: NumpyType) -> Callable[[], tuple[int, Array]]:
    """`make`, whose results are of the type that carries `dtype`, with results of `dtype` itself."""
    if carried(dtype) == dtype:
        return make

    def viewed() -> tuple[int, Array]:
        address, result = make()
        return address, result.view(dtype)

    return viewed


def unnamed_type(arrays: list[Any]) -> NumpyType | None:
    """The one type of all these arrays, where no data type is named after it, and its bits can be moved."""
    kinds = {x.dtype if isinstance(x, np.ndarray) else None for x in arrays}
    dtype = kinds.pop() if len(kinds) == 1 else None
    return None if dtype is None or carried(dtype) == dtype or _is_named(dtype) else dtype


def _is_named(dtype: NumpyType) -> bool:
    try:
        DataType.parse(dtype)
    except InvalidArguments:
        return False
    return True
