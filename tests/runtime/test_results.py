"""New results: `rs.empty`, in any format and type, and where results begin."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from restride.errors import InvalidArguments, OutOfMemory


@pytest.mark.parametrize(
    ("dims", "dtype", "format", "strides"),
    [
        ((2, 3, 4, 5), "f32", None, (240, 80, 20, 4)),
        ((2, 3, 4, 5), "f32", "nhwc", (240, 4, 60, 12)),
        ((64, 3, 64, 64), np.uint8, "nhwc", (12288, 1, 192, 3)),
        ([7], "f64", None, (8,)),
        ((128, 1024), "bf16", "ba", (2, 256)),
        ((128, 1024), "s8", (2048, 1), (2048, 1)),
        ((2, 0, 4), "f16", None, None),
    ],
)
def test_a_plain_format_gives_an_array(dims: Any, dtype: Any, format: Any, strides: Any) -> None:
    made = rs.empty(dims, dtype, format)
    assert made.shape == tuple(dims)
    assert rs.DataType.parse(made.dtype) is rs.DataType.parse(dtype)
    assert strides is None or made.strides == strides
    made[...] = 1
    assert (made == 1).all()


@pytest.mark.parametrize(
    ("dtype", "format"), [("f32", "nChw16c"), ("s4", "nchw"), (ml_dtypes.bfloat16, "NChw4n16c")]
)
def test_what_numpy_has_no_array_for_is_a_memory(dtype: Any, format: str) -> None:
    made = rs.empty((32, 17, 28, 28), dtype, format)
    assert isinstance(made, rs.Memory)
    assert made.desc == rs.MemoryDesc((32, 17, 28, 28), dtype, format)


def test_f32_in_rows_is_usual() -> None:
    assert (rs.empty((2, 3)).dtype, rs.empty((2, 3)).flags.c_contiguous) == (np.float32, True)


@pytest.mark.parametrize("dims", [(1 << 16,), (4, 64, 56, 56), (4096, 4096)])
def test_large_results_begin_at_a_page(dims: tuple[int, ...]) -> None:
    assert rs.empty(dims).ctypes.data % 4096 == 0
    assert rs.reorder(np.zeros(dims, np.float32), None).ctypes.data % 4096 == 0


@pytest.mark.parametrize(
    "words",
    [
        (5,),
        ("hello",),
        ((),),
        ((2, -3),),
        ((2.5,),),
        ((rs.RUNTIME_DIM, 3), "f32", "ab"),
        ((2, 3), "floaty"),
        ((2, 3), None),
        ((2, 3), "f32", "nhwc"),
        ((2, 3), "f32", "any"),
        ((2, 3), "f32", 7),
        ((1,) * 13,),
    ],
)
def test_what_no_descriptor_can_be_made_of_is_told(words: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidArguments):
        rs.empty(*words)


def test_more_than_there_is_is_out_of_memory() -> None:
    with pytest.raises(OutOfMemory):
        rs.empty((1 << 58,), "u8")
