"""Inner product: every direction, with and without spatial dims, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.computed import computed, elements
from support.errors import refused

CPU = rs.Engine("cpu")
SHAPES = [(3, 5, ()), (7, 33, ()), (40, 16, (3, 2)), (2, 20, (4, 4)), (1, 6, (2, 3, 2))]


def whole(dims: tuple[int, ...], seed: int) -> np.ndarray:
    """Small whole numbers, whose sums of products are exact."""
    return np.random.default_rng(seed).integers(-3, 4, dims).astype(np.float32)


def md(dims, format=None, data_type="f32"):
    return rs.MemoryDesc(dims, data_type, format)


@pytest.mark.parametrize("formats", ["any", "plain", "blocked"])
@pytest.mark.parametrize(("batch", "inputs", "spatial"), SHAPES)
@pytest.mark.parametrize("outputs", [1, 24])
def test_all_directions_are_those_of_numpy(batch, inputs, spatial, outputs, formats):
    x, w = whole((batch, inputs, *spatial), 1), whole((outputs, inputs, *spatial), 2)
    y, bias = whole((batch, outputs), 3), whole((outputs,), 4)
    flat, turned = x.reshape(batch, -1), w.reshape(outputs, -1)
    tag = {"any": "any", "plain": None}.get(formats, "aB" + "cdef"[: len(spatial)] + "8b")
    other = "any" if formats == "any" else None
    src, weights, dst, bias_md = md(x.shape, tag), md(w.shape, other), md(y.shape, other), md(bias.shape)
    pd = rs.InnerProductForward.PrimitiveDesc(CPU, "forward_training", src, weights, bias_md, dst)
    values = {rs.ARG_SRC: x, rs.ARG_WEIGHTS: w, rs.ARG_BIAS: bias}
    made = computed(rs.InnerProductForward, pd, CPU, values, rs.ARG_DST)
    np.testing.assert_array_equal(elements(made[rs.ARG_DST]), flat @ turned.T + bias)
    back = rs.InnerProductBackwardData.PrimitiveDesc(CPU, src, weights, dst, pd)
    values = {rs.ARG_DIFF_DST: y, rs.ARG_WEIGHTS: w}
    made = computed(rs.InnerProductBackwardData, back, CPU, values, rs.ARG_DIFF_SRC)
    np.testing.assert_array_equal(elements(made[rs.ARG_DIFF_SRC]), (y @ turned).reshape(x.shape))
    both = rs.InnerProductBackwardWeights.PrimitiveDesc(CPU, src, weights, bias_md, dst, pd)
    values = {rs.ARG_SRC: x, rs.ARG_DIFF_DST: y}
    made = computed(rs.InnerProductBackwardWeights, both, CPU, values, rs.ARG_DIFF_WEIGHTS, rs.ARG_DIFF_BIAS)
    np.testing.assert_array_equal(elements(made[rs.ARG_DIFF_WEIGHTS]), (y.T @ flat).reshape(w.shape))
    np.testing.assert_array_equal(elements(made[rs.ARG_DIFF_BIAS]), y.sum(0))


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        (((4, 5), (6, 7), (4, 6)), "all dims but the first are equal"),
        (((4, 5), (6, 5), (4, 7)), "it is (4, 6)"),
        (((4, 5, 2), (6, 5), (4, 6)), "ranks are 3, 2 and 2"),
    ],
    ids=str,
)
def test_dims_that_do_not_fit_are_refused(dims, words):
    with refused(words):
        rs.InnerProductForward.PrimitiveDesc(CPU, "forward_inference", *map(md, dims))


def test_a_bias_or_a_hint_that_does_not_fit_is_refused():
    with refused("the bias is (9,)"):
        rs.InnerProductForward.PrimitiveDesc(CPU, "forward", md((4, 5)), md((6, 5)), md((9,)), md((4, 6)))
    pd = rs.InnerProductForward.PrimitiveDesc(CPU, "forward", md((4, 5)), md((6, 5)), md((4, 6)))
    with refused("hint is of another problem"):
        rs.InnerProductBackwardData.PrimitiveDesc(CPU, md((3, 5)), md((6, 5)), md((3, 6)), pd)
