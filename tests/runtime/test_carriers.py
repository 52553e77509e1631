"""Moves of numbers that no data type is named after: every bit arrives, in either order of bytes."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from restride.arrays.calls.carriers import bits_of, carried, of_bits
from support.errors import refused

DIMS = (2, 17, 3, 5)
TYPES = [
    *("complex64", "complex128", "longdouble"),
    *(">i2", ">u4", ">i8", ">f4", ">f8", ">c8", ">c16"),
    ml_dtypes.float8_e4m3fnuz,
]
INTEGERS = ["int16", "uint16", "uint32", "int64", "uint64"]


def _random(dtype: Any, dims: tuple[int, ...] = DIMS) -> np.ndarray[Any, Any]:
    """Any bits, those of NaNs among them."""
    kind = np.dtype(dtype)
    count = int(np.prod(dims)) * kind.itemsize
    return np.random.default_rng(7).integers(0, 256, count, np.uint8).view(kind).reshape(dims)


def _same(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


@pytest.mark.parametrize("dtype", [*INTEGERS, *TYPES], ids=str)
def test_a_reorder_without_arithmetic_moves_numbers_of_every_width_in_both_byte_orders(dtype: Any) -> None:
    x = _random(dtype)
    for _ in range(2):  # the second is warm
        y = rs.reorder(x, "nhwc")
        assert _same(y, x)
        assert y.transpose(0, 2, 3, 1).flags.c_contiguous
        assert _same(rs.reorder(y, None), x)
        assert rs.reorder(y, None).strides == y.strides
        assert _same(rs.reorder(x, "nhwc", dtype=x.dtype), x)
        assert _same(rs.reorder(x[::-1, :, :, ::-1], "nchw"), x[::-1, :, :, ::-1])
        repeated = np.broadcast_to(x[:1, :, :1], DIMS)
        assert _same(rs.reorder(repeated, None), repeated)
        out = np.empty_like(y)
        assert rs.reorder(x, None, out=out) is out
        assert _same(out, x)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_blocks_of_such_numbers_are_physical_arrays(dtype: Any) -> None:
    x, shape = _random(dtype), rs.MemoryDesc(DIMS, "u8", "nChw16c").physical_shape
    with refused("no Memory of", f"out=np.empty({shape}, x.dtype)"):
        rs.reorder(x, "nChw16c")
    out = np.empty(shape, dtype)
    rs.reorder(x, "nChw16c", out=out)
    wide = np.zeros((2, 32, 3, 5), dtype)
    wide[:, :17] = x
    assert _same(out, wide.reshape(2, 2, 16, 3, 5).transpose(0, 1, 3, 4, 2))
    assert _same(rs.reorder(out, "nhwc", src="nChw16c"), wide)
    for _ in range(2):  # the second is warm
        back = np.empty_like(x)
        rs.reorder(out, "nchw", src="nChw16c", out=back)
        assert _same(back, x)


def test_who_wants_a_memory_of_such_numbers_is_told_what_to_convert_them_to() -> None:
    swapped = 'convert, x.astype(x.dtype.newbyteorder("=")), or '
    for dtype, hint in {
        ">i8": swapped,
        ">f4": swapped,
        "longdouble": "convert, x.astype(np.float32), or ",
        ">c8": "",
    }.items():
        with refused("no Memory of", f"  hint: {hint}pass the physical array"):
            rs.reorder(_random(dtype), "nChw16c")


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_of_every_width_are_data_types(dtype: str) -> None:
    x, low, high = _random(dtype), -(2**31), 2**31 - 1
    memory = rs.reorder(x, "nChw16c")
    assert memory.desc.data_type is rs.DataType.parse(dtype)
    assert _same(memory.to_numpy(), x)
    narrow = np.array([min(max(value, low), high) for value in x.ravel().tolist()], np.int32).reshape(DIMS)
    assert _same(rs.reorder(x, None, dtype="s32"), narrow)
    assert _same(rs.reorder(memory, "nchw", dtype="f64"), x.astype(np.float64))
    out = np.empty(DIMS, np.float32)
    assert rs.reorder(x, None, out=out) is out
    assert _same(out, x.astype(np.float32))
    assert _same(rs.reorder(x // 4, None, dtype="f32", scale=2.0), 2 * (x // 4).astype(np.float32))
    assert (rs.reorder(x, None, post_ops="relu", dtype="f64") == np.maximum(x, 0).astype(np.float64)).all()


@pytest.mark.parametrize("dtype", ["int64", "complex128", ">f4", ">c16"])
def test_shuffles_and_concats_move_them_too(dtype: Any) -> None:
    x = _random(dtype, (2, 12, 5))
    wanted = x.reshape(2, 3, 4, 5).swapaxes(1, 2).reshape(x.shape)
    for source in (x, rs.reorder(x, "acb")):
        assert _same(rs.shuffle_channels(source, group=3, axis=-2), wanted)
        assert _same(rs.shuffle(source, group_size=4), wanted)
        assert _same(rs.concat([source[:, :5], source[:, 5:]], -2), x)
    assert _same(rs.concat([x, x], 2, "acb", dtype=x.dtype), np.concatenate([x, x], 2).astype(dtype))


def test_what_is_computed_takes_data_types_alone() -> None:
    x = _random("complex64")
    for options in ({"scale": 2.0}, {"dtype": "f32"}, {"post_ops": "relu"}, {"out": np.empty(DIMS, "f4")}):
        with refused("reorder: x cannot be read", "complex64", "np.stack([x.real, x.imag], axis=-1)"):
            rs.reorder(x, None, **options)
    for dtype in (">f4", ">i8"):
        with refused("reorder: x cannot be read", dtype, "newbyteorder"):
            rs.reorder(_random(dtype), None, dtype="f32")
    for desc in (rs.MemoryDesc(DIMS, "f64"), rs.MemoryDesc(DIMS, "f64", "nhwc")):
        with refused("reorder: x cannot be read"):
            rs.reorder(x, desc)


def test_eleven_axes_of_sixteen_bytes_are_moved_and_twelve_refused() -> None:
    x = _random("complex128", (2,) * 11)
    assert _same(rs.reorder(x, "kjihgfedcba"), x)
    with refused("reorder: x cannot be read", "complex128"):
        rs.reorder(_random("complex128", (1,) * 12), None)


def test_what_never_moves_is_its_own_carrier() -> None:
    for dtype in ("O", "U3", "S8", "M8[s]", [("a", "i4")], "V4", "clongdouble"):
        assert carried(np.dtype(dtype)) == np.dtype(dtype)


def test_bits_are_views() -> None:
    for dtype in ("int64", ">c16"):
        x = _random(dtype).transpose(3, 1, 0, 2)[::2]
        assert np.shares_memory(bits_of(x), x)
        assert of_bits(bits_of(x), x.dtype).strides == x.strides


@pytest.mark.parametrize(
    ("x", "dtype", "wanted"),
    [
        ([[1, 2], [3, 4]], None, np.array([[1, 2], [3, 4]])),
        (((1.5, -2.5),), "s8", np.array([[2, -2]], np.int8)),
        (3.75, "f16", np.array(3.75, np.float16)),
        (np.float32(2), None, np.array(2, np.float32)),
        (7, None, np.array(7)),
    ],
    ids=str,
)
def test_lists_and_numbers_are_taken_as_numpy_takes_them(x: Any, dtype: Any, wanted: Any) -> None:
    made = rs.reorder(x, None, dtype=dtype)
    assert _same(made, wanted)
    out = np.zeros_like(wanted)
    assert rs.reorder(x, None, dtype=dtype, out=out) is out
    assert _same(out, wanted)


def test_integers_of_lists_are_computed_with_where_they_fit() -> None:
    assert _same(rs.reorder([[1, -2]], None, dtype="f32"), np.array([[1, -2]], np.float32))
    assert _same(rs.reorder(7, None, scale=2.0), np.array(14, np.int32))
    assert _same(rs.reorder([3, 4], None, out=np.zeros(2, np.int8)), np.array([3, 4], np.int8))
    assert rs.dequantize([[1, 2]], 0.5).tolist() == [[0.5, 1.0]]
    for large in (2**31, -(2**31) - 2**8):  # what s32 has not is s64, as NumPy reads it
        assert _same(rs.reorder([large], None, dtype="f32"), np.array([large], np.float32))
        assert _same(rs.reorder([large], None, scale=2.0), np.array([2 * large]))
    assert _same(rs.reorder(np.array([1, 2]), None, scale=2.0), np.array([2, 4]))


def test_lists_are_taken_by_the_other_functions_too() -> None:
    assert rs.shuffle([1, 2, 3, 4], group_size=2, axis=0).tolist() == [1, 3, 2, 4]
    assert rs.concat([[1, 2], [3]]).tolist() == [1, 2, 3]
    assert rs.quantize([0.5, -2.0])[0].tolist() == [32, -127]
    assert rs.dequantize([[1.0, 2.0]], 0.5).tolist() == [[0.5, 1.0]]
    assert rs.plan([[1.0, 2.0]], "ba").dst.tag == "ba"


def test_what_numpy_makes_no_array_of_is_refused() -> None:
    class Failing:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise KeyError("no array")

    for x in ([[1.0], [1.0, 2.0]], Failing()):
        with refused("reorder: x cannot be read", "NumPy cannot convert it to an array"):
            rs.reorder(x, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with refused("reorder: x cannot be read", "astype"):
            rs.reorder(["a", "b"], None)
