"""One small image tensor, as plain arrays hold it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import restride as rs

CPU, REF = rs.Engine("cpu"), rs.Engine("reference")
DIMS = (2, 5, 3, 4)
STRIDES = {"nchw": (60, 12, 4, 1), "nhwc": (60, 1, 20, 5)}

Array = npt.NDArray[np.generic]


def image() -> npt.NDArray[np.float32]:
    """The numbers from 0 on, in NCHW."""
    return np.arange(120, dtype=np.float32).reshape(DIMS)


def strides_of(array: Array) -> tuple[int, ...]:
    """Strides in elements."""
    return tuple(stride // array.itemsize for stride in array.strides)


def check_nhwc(got: Array, x: Array) -> None:
    """`got` is `x`, and lies as NHWC."""
    assert type(got) is np.ndarray
    assert got.shape == x.shape
    assert strides_of(got) == STRIDES["nhwc"]
    np.testing.assert_array_equal(got, x)
