"""Memories and descriptors by the names of NumPy, and a memory in a notebook."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from support.errors import refused

CPU = rs.Engine("cpu")
X = np.random.default_rng(1).integers(-8, 8, (2, 17, 3, 5)).astype(np.float32)
FORMATS = ("nchw", "nhwc", "nChw16c", "ABcd4b4a2b", "abcD4d")


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("data_type", ["f32", "bf16", "s8", "s4", "f8_e4m3"])
def test_names_are_those_of_the_array_of_the_same_elements(format: str, data_type: str) -> None:
    memory = rs.Memory.from_numpy(X).to(format, data_type)
    array = memory.to_numpy()
    for held in (memory, memory.desc):
        assert held.shape == array.shape
        assert held.ndim == array.ndim
        assert held.dtype == array.dtype
        assert held.itemsize == array.itemsize
        assert held.nbytes == memory.desc.size
    assert memory.size == array.size
    assert memory.T.get_data_handle() == memory.get_data_handle()
    np.testing.assert_array_equal(memory.T.to_numpy(), array.T)
    assert memory.desc == memory.desc.T.T


def test_a_type_without_a_twin_is_no_attribute() -> None:
    for held in (rs.Memory(), rs.MemoryDesc()):
        assert not hasattr(held, "dtype")
        assert held.shape == ()
        assert held.nbytes == 0


def test_an_array_without_elements_has_names_too() -> None:
    memory = rs.Memory(rs.MemoryDesc((0, 3), "bf16"), CPU)
    assert (memory.shape, memory.size, memory.nbytes) == ((0, 3), 0, 0)
    assert memory.T.shape == (3, 0)
    assert memory.dtype == ml_dtypes.bfloat16


def test_what_is_transposed_stays_as_writable_as_it_was() -> None:
    x = X.copy()
    x.flags.writeable = False
    assert rs.Memory.from_numpy(x).T.readonly
    assert rs.Memory(rs.MemoryDesc((2, 3), "f32"), CPU, rs.NO_DATA).T.data is None


def test_a_descriptor_takes_its_type_by_either_name() -> None:
    assert rs.MemoryDesc((2, 3), dtype=np.int8) == rs.MemoryDesc((2, 3), data_type="s8")
    assert rs.MemoryDesc((2, 3), dtype="f32", format="ba") == rs.MemoryDesc((2, 3), "f32", "ba")
    with refused("given twice"):
        rs.MemoryDesc((2, 3), "f32", dtype="s8")


def test_what_has_a_type_is_none() -> None:
    for held in (X, rs.MemoryDesc((2, 3), "f32"), rs.Memory.from_numpy(X), X[0, 0, 0, 0]):
        with refused("unknown data type"):
            rs.DataType.parse(held)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("data_type", ["f32", "s4"])
def test_a_notebook_shows_the_layout_and_the_first_values(format: str, data_type: str) -> None:
    memory = rs.Memory.from_numpy(X).to(format, data_type)
    page = memory._repr_html_()
    assert page.count("<svg") == page.count("</svg>") >= 1
    assert str(memory.desc) in page
    shown = [float(cell) for cell in re.findall(r"<td>([^<]*)</td>", page)]
    assert shown == X[0, 0].reshape(-1).tolist()
    assert "[0, 0, :3, :5] of 2 &times; 17 &times; 3 &times; 5" in page


def test_a_large_memory_shows_a_corner_and_an_empty_one_no_values() -> None:
    long = rs.Memory.from_numpy(np.arange(1000.0))
    assert re.findall(r"<td>([^<]*)</td>", long._repr_html_()) == [str(float(i)) for i in range(8)]
    for memory in (
        rs.Memory(),
        rs.Memory(long.desc, CPU, rs.NO_DATA),
        rs.Memory(rs.MemoryDesc((0,), "f32"), CPU),
    ):
        assert "<td>" not in memory._repr_html_()


@pytest.mark.parametrize("dtype", ["s8", "u4", "f8_e4m3"])
@pytest.mark.parametrize("axis", [None, 1])
def test_a_blocked_memory_is_dequantized_to_a_plain_array_in_one_step(dtype: str, axis: int | None) -> None:
    q, scale, zero = rs.quantize(X, dtype, axis=axis, dst="nChw16c")
    assert isinstance(q, rs.Memory)
    made = rs.dequantize(q, scale, zero, axis=axis, dst="nchw")
    assert isinstance(made, np.ndarray)
    assert made.flags.c_contiguous
    shift = zero if axis is None else zero[:, None, None]
    factor = scale if axis is None else scale[:, None, None]
    wanted = (q.to_numpy().astype(np.float32) - shift) * factor
    np.testing.assert_allclose(made, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("mean", r"to_numpy\(\) returns an array with one: m.to_numpy\(\).mean$"),
        ("numpy", r"to_numpy\(\) returns a NumPy array$"),
        ("frobnicate", "no attribute 'frobnicate'$"),
        ("__array_interface__", "has no strides"),
        ("__sycl_usm_array_interface__", "is not USM"),
    ],
)
def test_what_a_memory_has_not_is_told_with_the_way_to_it(name: str, way: str) -> None:
    memory = rs.Memory.from_numpy(X).to("nChw16c")
    with pytest.raises(AttributeError, match=way):
        getattr(memory, name)
    assert not hasattr(memory, name)


def test_a_property_that_raises_is_told_in_its_own_words() -> None:
    with pytest.raises(AttributeError, match="undef has no NumPy equivalent"):
        rs.Memory().dtype  # noqa: B018 - it raises
