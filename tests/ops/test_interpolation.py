"""Interpolation: sums of elements by tables, on every engine, in formats and types, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.errors import refused
from support.executions import executed

Arg = rs.onednn.Arg
DIMS = (2, 19, 6, 5)
CPU = rs.Engine("cpu")
RNG = np.random.default_rng(7)


def interpolated(
    x: np.ndarray, indices: np.ndarray, weights: np.ndarray, axis: int, engine: rs.Engine, **options: str
) -> np.ndarray:
    dims = (*x.shape[:axis], len(indices), *x.shape[axis + 1 :])
    src = rs.MemoryDesc(x.shape, options.get("data_type", "f32"), options.get("tag", "nchw"))
    dst = rs.MemoryDesc(dims, options.get("result_type", src.data_type), "any")
    tables = [rs.MemoryDesc(table.shape, table.dtype) for table in (indices, weights)]
    inputs = {Arg.SRC: x, Arg.SRC_1: indices, Arg.WEIGHTS: weights}
    return executed(engine, "Interpolation", inputs, src, *tables, dst, axis)[Arg.DST]


def by_numpy(x: np.ndarray, indices: np.ndarray, weights: np.ndarray, axis: int) -> np.ndarray:
    parts = np.take(x.astype(np.float64), np.clip(indices, 0, x.shape[axis] - 1), axis)
    shape = (*weights.shape, *(1,) * (x.ndim - axis - 1))
    return (parts * weights.reshape(shape)).sum(axis + 1)


@pytest.mark.parametrize("tag", ["nchw", "nhwc", "nChw16c"])
@pytest.mark.parametrize("axis", range(4))
def test_sums_of_elements_along_an_axis(engine: rs.Engine, tag: str, axis: int) -> None:
    x = RNG.standard_normal(DIMS).astype(np.float32)
    indices = RNG.integers(0, DIMS[axis], (7, 3)).astype(np.int32)
    weights = RNG.standard_normal((7, 3)).astype(np.float32)
    found = interpolated(x, indices, weights, axis, engine, tag=tag)
    np.testing.assert_allclose(found, by_numpy(x, indices, weights, axis), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("index_type", [np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("data_type", ["f64", "f16", "bf16", "s8"])
def test_types_and_indices_outside(engine: rs.Engine, data_type: str, index_type: type) -> None:
    x = RNG.integers(-4, 5, DIMS).astype(np.float32)
    indices = np.array([[0, 5], [9, 1], [2, 200]], index_type)
    weights = np.array([[0.5, 0.5], [2, -1], [1, 0.25]], np.float32)
    found = interpolated(x, indices, weights, 2, engine, data_type=data_type, result_type="f32")
    np.testing.assert_array_equal(found, by_numpy(x, indices, weights, 2))


def test_tables_and_results_that_do_not_fit_are_refused() -> None:
    src, table = rs.MemoryDesc((2, 3), "f32"), rs.MemoryDesc((4, 2), "s32")
    weights, dst = rs.MemoryDesc((4, 2), "f32"), rs.MemoryDesc((2, 4), "f32")
    make = rs.onednn.Interpolation.PrimitiveDesc
    assert make(CPU, src, table, weights, dst, 1).get_axis() == 1
    for wrong in (
        (src, table, rs.MemoryDesc((4, 3), "f32"), dst, 1),
        (src, table, rs.MemoryDesc((4, 2), "f16"), dst, 1),
        (src, table, weights, rs.MemoryDesc((2, 5), "f32"), 1),
        (src, table, weights, dst, 2),
        (src, weights, weights, dst, 1),
        (rs.MemoryDesc((2, 0), "f32"), table, weights, dst, 1),
    ):
        with refused("Interpolation"):
            make(CPU, *wrong)
