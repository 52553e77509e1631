"""Sums of columns that tiles leave for the next ones: exact for all columns, windows, batches and threads."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.computed import computed, elements
from support.convolved import Case, forward

CPU = rs.Engine("cpu")


def _bytes(dims, seed):
    return np.random.default_rng(seed).integers(-128, 128, dims)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 31, 40), (3, 40, 50)),  # other weights in each batch
        ((2, 3, 31, 40), (1, 3, 40, 50)),
        ((30, 8), (8, 9600)),  # more groups of columns than a table has
        ((64, 20), (20, 16)),
        ((1, 20), (20, 48)),
    ],
)
@pytest.mark.parametrize("zero", [0, 5])
def test_products_of_bytes_with_signs_are_exact(left, right, zero, threads):
    attr = rs.PrimitiveAttr()
    attr.set_zero_points(rs.ARG_SRC, 0, [zero])
    dims = left, right, (*left[:-1], right[-1])
    kinds = ("s8", "any"), ("s8", "any"), ("s32", None)
    pd = rs.Matmul.PrimitiveDesc(CPU, *(rs.MemoryDesc(a, *b) for a, b in zip(dims, kinds, strict=True)), attr)
    x, w = _bytes(left, 1), _bytes(right, 2)
    before = rs.get_num_threads()
    rs.set_num_threads(threads)
    try:
        made = computed(rs.Matmul, pd, CPU, {rs.ARG_SRC: x, rs.ARG_WEIGHTS: w}, rs.ARG_DST)
    finally:
        rs.set_num_threads(before)
    np.testing.assert_array_equal(elements(made[rs.ARG_DST]), (x - zero) @ w)


@pytest.mark.parametrize(
    "case",
    [
        Case(2, 1, 20, 40, (9, 33), (3, 3), (1, 1), (0, 0), (1, 1)),
        Case(1, 1, 8, 16, (12, 70), (5, 3), (2, 1), (1, 1), (4, 2)),
        Case(2, 3, 16, 16, (6, 30), (3, 3), (1, 1), (0, 0), (1, 1)),
        Case(1, 40, 1, 1, (7, 20), (3, 3), (1, 1), (0, 0), (1, 1)),
        Case(1, 1, 16, 32, (4, 5, 20), (3, 3, 3), (1, 1, 1), (0, 0, 0), (1, 1, 1)),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["s8", "u8"])
def test_windows_leave_out_what_they_leave_out_of_the_sums(case, kind):
    attr = rs.PrimitiveAttr()
    attr.set_zero_points(rs.ARG_SRC, 0, [3])
    kinds = (kind, "any"), ("s8", "any"), ("s32", "any")
    mds = [rs.MemoryDesc(dims, *each) for dims, each in zip(case.dims, kinds, strict=True)]
    pd = rs.ConvolutionForward.PrimitiveDesc(
        CPU, "forward_inference", "convolution_direct", *mds, *case.window, attr=attr
    )
    x, w = _bytes(case.dims[0], 1) + 128 * (kind == "u8"), _bytes(case.dims[1], 2)
    made = computed(rs.ConvolutionForward, pd, CPU, {rs.ARG_SRC: x, rs.ARG_WEIGHTS: w}, rs.ARG_DST)
    np.testing.assert_array_equal(elements(made[rs.ARG_DST]), forward(case, x - 3, w))
