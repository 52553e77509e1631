"""Softmax and its logarithm, forward and backward, along every axis, in every format; refusals."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.computed import computed, elements, random
from support.errors import refused

DIMS = (2, 19, 5, 3)
PD, BackwardPD = rs.SoftmaxForward.PrimitiveDesc, rs.SoftmaxBackward.PrimitiveDesc


def _md(dims=DIMS, format="abcd", data_type="f32"):
    return rs.MemoryDesc(dims, data_type, format)


def softmax(x, axis):
    powers = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def _forward(engine, alg, x, src, dst, axis, attr=None, more=None):
    pd = PD(engine, "forward_training", alg, src, dst, axis, attr)
    return computed(rs.SoftmaxForward, pd, engine, {rs.ARG_SRC: x, **(more or {})}, rs.ARG_DST)[rs.ARG_DST]


def test_rows_longer_than_the_caches_and_extreme_values(engine):
    x = random((3, 5000))
    x[0, :3] = 3e38, -3e38, -np.inf
    x[1] = 700.0
    dst = _forward(engine, "accurate", x, _md(x.shape, "ab"), _md(x.shape, "ab"), 1)
    np.testing.assert_allclose(elements(dst), softmax(x, 1), rtol=1e-5, atol=1e-12)
    log = _forward(engine, "log", x[1:], _md((2, 5000), "ab"), _md((2, 5000), "ab"), 1)
    np.testing.assert_allclose(elements(log), np.log(softmax(x[1:], 1)), rtol=1e-6)


def test_nan_stays_in_its_row(engine):
    x = random((4, 70))
    x[2, 40] = np.nan
    found = elements(_forward(engine, "accurate", x, _md(x.shape, "ab"), _md(x.shape, "ab"), 1))
    assert np.isnan(found).all(1).tolist() == [False, False, True, False]
    assert np.isfinite(np.delete(found, 2, 0)).all()


@pytest.mark.parametrize("axis", range(3))
def test_nothing_is_computed_of_no_elements(engine, axis):
    md = _md((2, 0, 3), "abc")
    pd = PD(engine, "forward_inference", "accurate", md, md, axis)
    rs.SoftmaxForward(pd).execute(rs.Stream(engine), rs.Memory(md, engine), rs.Memory(md, engine))


def test_what_makes_no_sense_is_refused():
    engine = rs.Engine("cpu")
    make = lambda *args, **more: PD(engine, "forward_training", *args, **more)  # noqa: E731
    with refused("axis is 4"):
        make("accurate", _md(), _md(), 4)
    with refused("axis is -1"):
        make("accurate", _md(), _md(), -1)
    with refused("algorithm is 'soft'"):
        make("soft", _md(), _md(), 1)
    with refused("different shapes"):
        make("accurate", _md(), _md((2, 19, 5, 4)), 1)
    with refused("elements of dst share memory"):
        make("accurate", _md(), _md(format=(285, 0, 3, 1)), 1)
    with refused("prop_kind is backward"):
        PD(engine, "backward", "accurate", _md(), _md(), 1)
    hint = make("log", _md(), _md(), 1)
    with refused("hint is for another problem"):
        BackwardPD(engine, "accurate", _md(), _md(), _md(), 1, hint_pd=hint)
