"""PReLU: slopes below zero, forward and backward, in every format; what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.computed import computed, elements, random
from support.errors import refused
from support.sycl import skip_where_the_compiler_crashes

CPU = rs.Engine("cpu")
DIMS = (2, 17, 5, 3)
WEIGHTS = [(1, 17, 1, 1), (1, 1, 1, 1), (2, 1, 5, 1), DIMS]
PD, BackwardPD = rs.PReLUForward.PrimitiveDesc, rs.PReLUBackward.PrimitiveDesc


def _md(dims=DIMS, format="abcd", data_type="f32"):
    return rs.MemoryDesc(dims, data_type, format)


@pytest.mark.parametrize("dims", WEIGHTS)
def test_the_gradient_of_weights_of_what_is_no_number_is_none(engine, dims):
    skip_where_the_compiler_crashes(engine)
    x, w, gradient = random(DIMS), random(dims, 1), random(DIMS, 2)
    x[1, 3, 2, 1] = np.nan
    pd = BackwardPD(engine, _md(), _md(dims), _md(), _md(dims), _md())
    values = {rs.ARG_SRC: x, rs.ARG_WEIGHTS: w, rs.ARG_DIFF_DST: gradient}
    made = computed(rs.PReLUBackward, pd, engine, values, rs.ARG_DIFF_SRC, rs.ARG_DIFF_WEIGHTS)
    repeated = tuple(dim for dim in range(4) if dims[dim] != DIMS[dim])
    wanted = (np.minimum(x, 0).astype(np.float64) * gradient).sum(repeated, keepdims=True)
    np.testing.assert_allclose(elements(made[rs.ARG_DIFF_WEIGHTS]), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("data_type", ["bf16", "f16"])
def test_one_channel_behind_the_whole_vectors_is_written_alone(engine, data_type):
    """A single lane of 16 bits: what lies behind it is another pixel's, or nobody's."""
    skip_where_the_compiler_crashes(engine)
    dims, shape = (3, 17, 9, 2), (1, 17, 1, 2)
    x, gradient, w = random(dims, 1, data_type), random(dims, 2, data_type), random(shape, 3)
    src, weights = _md(dims, "acdb", data_type), _md(shape, "aBcd4b")
    pd = BackwardPD(engine, src, weights, src, weights, src)
    values = {rs.ARG_SRC: x, rs.ARG_WEIGHTS: w, rs.ARG_DIFF_DST: gradient}
    made = computed(rs.PReLUBackward, pd, engine, values, rs.ARG_DIFF_SRC, rs.ARG_DIFF_WEIGHTS)
    wide, slopes = gradient.astype(np.float32), np.broadcast_to(w, dims).astype(np.float32)
    wanted = (np.where(x > 0, np.float32(1), slopes) * wide).astype(x.dtype)
    np.testing.assert_array_equal(elements(made[rs.ARG_DIFF_SRC]), wanted)


@pytest.mark.parametrize(
    ("args", "texts"),
    [
        ((CPU, "forward_training", _md(), _md((1, 16, 1, 1)), _md()), ("weights do not fit",)),
        ((CPU, "forward_training", _md(), _md((17,), "a"), _md()), ("weights do not fit",)),
        ((CPU, "forward_training", _md(), _md(), _md((2, 17, 5, 4))), ("different shapes",)),
        ((CPU, "undef", _md(), _md(), _md()), ("prop_kind is undef",)),
    ],
)
def test_what_makes_no_sense_is_refused(args, texts):
    with refused(*texts):
        PD(*args)


def test_a_hint_of_other_weights_is_refused():
    hint = PD(CPU, "forward_training", _md(), _md((1, 1, 1, 1)), _md())
    with refused("the hint is for another problem", "its dims"):
        BackwardPD(CPU, _md(), _md(), _md(), _md(), _md(), hint_pd=hint)
