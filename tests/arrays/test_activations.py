"""Softmax of arrays: values in every layout, kinds of arrays, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.errors import refused

X = np.random.default_rng(0).normal(0, 3, (2, 12, 5, 3)).astype(np.float32)


def softmax(x, axis):
    powers = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


@pytest.mark.parametrize("layout", ["nchw", "nhwc", "nChw8c"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_results_add_up_to_one_in_the_layout_of_the_source(layout, axis):
    x = rs.reorder(X, layout)
    for log in (False, True):
        made = rs.softmax(x, axis, log=log)
        assert type(made) is type(x)
        is_memory = isinstance(made, rs.Memory)
        assert made.desc == x.desc if is_memory else made.strides == x.strides
        wanted = np.log(softmax(X, axis)) if log else softmax(X, axis)
        np.testing.assert_allclose(made.to_numpy() if is_memory else made, wanted, rtol=5e-6, atol=1e-6)


def test_results_go_where_it_is_told():
    out = np.empty(X.shape, np.float64)
    assert rs.softmax(X, 1, out=out) is out
    np.testing.assert_allclose(out, softmax(X, 1), rtol=1e-12)
    x = X.copy()
    assert rs.softmax(x, 1, out=x) is x
    np.testing.assert_allclose(x, softmax(X, 1), rtol=3e-6)
    np.testing.assert_allclose(rs.softmax([1.0, 2.0]), softmax(np.array([1.0, 2.0]), 0))


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int32, np.bool_])
@pytest.mark.parametrize("layout", ["ab", "AB4a4b"])
def test_integers_give_fractions(kind, layout):
    x = np.arange(20).reshape(4, 5).astype(kind)
    made = rs.softmax(rs.reorder(x, layout), 1)
    assert made.dtype == np.float32
    np.testing.assert_allclose(rs.reorder(made, "ab"), softmax(x, 1), rtol=3e-6)


def test_lists_of_integers_give_fractions():
    made = rs.softmax([[1, 2, 3]])
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, softmax(np.array([[1.0, 2, 3]]), 1), rtol=3e-6)


def test_what_does_not_fit_is_refused_before_anything_is_written():
    out = np.full(X.shape, 7, np.float32)
    with refused("axis is 4", "x has 4 axes"):
        rs.softmax(X, 4, out=out)
    with refused("axis"):
        rs.softmax(X, 1.5, out=out)
    with refused("log"):
        rs.softmax(X, 1, log="no", out=out)
    with refused("different shapes"):
        rs.softmax(X[:1], 1, out=out)
    with refused("read-only"):
        rs.softmax(X, 1, out=np.broadcast_to(out, out.shape))
    with refused("softmax: x and out overlap"):
        rs.softmax(out, 1, out=out[:, ::-1])
    with refused("empty"):
        rs.softmax(rs.Memory())
    with refused("a mask would be lost"):
        rs.softmax(np.ma.masked_array(X, X > 0), out=out)
    assert (out == 7).all()


def test_a_call_that_goes_well_writes_no_descriptor_as_text(monkeypatch):
    rs.softmax(X)
    monkeypatch.setattr(rs.MemoryDesc, "__str__", lambda md: pytest.fail("a text that nobody reads"))
    rs.softmax(X)


@pytest.mark.parametrize("x", [None, "x", {}, 3.0, rs.MemoryDesc((2, 3), "f32", "ab")], ids=str)
def test_what_is_no_array_is_refused(x):
    with refused("softmax: x cannot be read"):
        rs.softmax(x)


@pytest.mark.peer
def test_tensors_of_torch_give_tensors():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X)
    torch.testing.assert_close(rs.softmax(x, 1), x.softmax(1))
    assert rs.softmax(x.bfloat16(), 1).dtype is torch.bfloat16


@pytest.mark.peer
def test_arrays_of_jax_give_arrays_of_jax():
    jax = pytest.importorskip("jax")
    made = rs.softmax(jax.numpy.asarray(X), 1)
    assert isinstance(made, jax.Array)
    np.testing.assert_allclose(made, softmax(X, 1), rtol=3e-6)
