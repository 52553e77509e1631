"""Gradients of pooling by rows of windows: beside plain loops, infinities, where they are taken."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.ir.tree import Store
from restride.ops.pooling import PoolingBackwardProblem
from restride.ops.programs.pooling_gradient_rows import PoolingGradientRows
from restride.ops.programs.windows import Windows
from support.computed import computed, elements, random
from support.pooled import gradient_of, pooled, pooled_dims
from support.sycl import skip_where_the_compiler_crashes

ALGORITHMS = ("max", "avg_include_padding", "avg_exclude_padding")
# dims of the source, then strides, kernel, dilation, padding before and after.
CASES = {
    "every position": ((2, 2, 9, 14), ((1, 1), (3, 3), (0, 0), (1, 1), (1, 1))),
    "every second": ((1, 3, 14, 14), ((2, 2), (3, 3), (0, 0), (1, 1), (0, 0))),
    "a row more": ((1, 2, 9, 17), ((2, 2), (3, 3), (0, 0), (0, 0), (0, 0))),
    "two windows": ((1, 2, 4, 3), ((1, 1), (2, 2), (0, 0), (0, 0), (0, 0))),
    "long windows": ((1, 2, 11, 12), ((1, 1), (7, 9), (0, 0), (3, 4), (3, 4))),
    "of several dims": ((1, 2, 5, 6, 7), ((2, 1, 2), (3, 2, 3), (0, 0, 0), (1, 0, 1), (1, 1, 1))),
    "dilated": ((1, 2, 9, 21), ((1, 2), (2, 3), (2, 3), (0, 2), (1, 3))),
    "phases without windows": ((1, 2, 9, 6, 23), ((4, 1, 3), (2, 2, 4), (0, 0, 0), (0, 0, 1), (0, 0, 1))),
    "cropped": ((1, 3, 10, 12), ((2, 2), (3, 3), (0, 0), (0, 0), (-2, -3))),
    "more than the caches": ((1, 1, 40, 70), ((1, 1), (3, 3), (0, 0), (1, 1), (1, 1))),
}


def _gradient(engine, alg, dims, windows, values, data_type="f32"):
    src, dst = (rs.MemoryDesc(each, data_type, "abx") for each in (dims, pooled_dims(dims, windows)))
    hint = rs.PoolingForward.PrimitiveDesc(engine, "forward_training", alg, src, dst, *windows)
    pd = rs.PoolingBackward.PrimitiveDesc(engine, alg, src, dst, *windows, hint_pd=hint)
    return elements(computed(rs.PoolingBackward, pd, engine, values, rs.ARG_DIFF_SRC)[rs.ARG_DIFF_SRC])


def _rows(alg, dims, windows, tag="abx"):
    both = (rs.MemoryDesc(each, "f32", tag) for each in (dims, pooled_dims(dims, windows)))
    return PoolingGradientRows(Windows(*windows), *both, alg == "max")


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_an_infinite_gradient_reaches_the_positions_of_its_window_alone(engine, alg):
    if alg == "max":
        skip_where_the_compiler_crashes(engine)
    dims, windows = CASES["every second"]
    made, places = pooled(alg, random(dims), windows)
    gradient = np.ones(made.shape, np.float32)
    gradient[:, :, 3, 3] = np.inf
    values = {rs.ARG_DIFF_DST: gradient} | ({rs.ARG_WORKSPACE: places} if alg == "max" else {})
    found = _gradient(engine, f"pooling_{alg}", dims, windows, values)
    wanted = gradient_of(alg, gradient, places, dims, windows)
    np.testing.assert_array_equal(np.isinf(found), np.isinf(wanted))
    assert not np.isnan(found).any()


def test_stores_of_neighbors_stand_together():
    """Behind all sums, so that two phases of a stride are written as one."""
    dims, windows = (1, 1, 40, 40), ((2, 2), (13, 13), (0, 0), (6, 6), (6, 6))
    src, dst = (rs.MemoryDesc(each, "f32", "abx") for each in (dims, pooled_dims(dims, windows)))
    (loop,) = PoolingBackwardProblem("avg_include_padding", Windows(*windows), src, dst).tree().items
    items = loop.items[-1].items
    assert [isinstance(item, Store) for item in items] == [False] * 4 + [True] * 4


def test_small_images_have_all_their_sums_first_and_large_ones_those_of_a_row():
    def locals_of(case):
        dims, windows = CASES[case]
        src, dst = (rs.MemoryDesc(each, "f32", "abx") for each in (dims, pooled_dims(dims, windows)))
        (loop,) = PoolingBackwardProblem("max", Windows(*windows), src, dst).tree().items
        return [tensor.sizes for tensor in loop.locals]

    assert locals_of("every position") == [(9, 3, 16)]
    assert locals_of("more than the caches") == [(3, 72)]


@pytest.mark.parametrize(
    ("dims", "windows", "tag"),
    [
        ((1, 2, 8, 8), ((2, 2), (2, 2), (0, 0), (0, 0), (0, 0)), "abx"),
        ((1, 2, 8, 8), ((1, 1), (3, 3), (0, 0), (1, 1), (1, 1)), "axb"),
        ((1, 8, 8, 8), ((1, 1), (3, 3), (0, 0), (1, 1), (1, 1)), "aBx8b"),
        ((1, 2, 8, 3000), ((1, 1), (3, 3), (0, 0), (1, 1), (1, 1)), "abx"),
        ((0, 2, 8, 8), ((1, 1), (3, 3), (0, 0), (1, 1), (1, 1)), "abx"),
        ((2, 3, 19), ((2,), (3,), (0,), (1,), (1,)), "abx"),
        ((1, 3, 8, 8), ((2, 1), (2, 3), (0, 0), (0, 1), (0, 1)), "abx"),
        ((1, 64, 256, 256), ((2, 2), (3, 3), (0, 0), (1, 1), (0, 0)), "abx"),
    ],
    ids=[
        "windows apart",
        "channels last",
        "blocks",
        "rows too long",
        "no image",
        "one dim",
        "a row of windows each",
        "long rows from memory",
    ],
)
def test_other_gradients_are_not_done_by_rows(dims, windows, tag):
    assert not _rows("avg_include_padding", dims, windows, tag).are_faster
