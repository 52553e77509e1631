"""Attention inside programs of JAX: values beside `rs.attention`, derivatives beside those of a formula."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.errors import refused

jax = pytest.importorskip("jax")
rj = pytest.importorskip("restride.jax")
jnp = jax.numpy
pytestmark = pytest.mark.peer

RNG = np.random.default_rng(11)
Q, K, V = (
    RNG.standard_normal(dims).astype(np.float32) for dims in ((2, 4, 9, 16), (2, 2, 11, 16), (2, 2, 11, 24))
)
MASK, SINKS = RNG.standard_normal((4, 9, 11)).astype(np.float32), np.float32([0.5, -1, 0, 2])
HOW = (
    {},
    {"causal": True, "scale": 0.3},
    {"mask": MASK, "window": (3, 4)},
    {"mask": MASK > -0.5, "sinks": SINKS, "soft_cap": 2.0},
    {"lengths": np.int32([4, 11]), "causal": "top_left"},
    {"lengths": 7, "causal": True},
)


def formula(q, k, v, mask=None, causal=False):
    k, v = (jnp.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    scores = scores if mask is None else scores + mask
    if causal:
        seen = jnp.tril(jnp.ones(scores.shape[-2:], bool), scores.shape[-1] - scores.shape[-2])
        scores = jnp.where(seen, scores, -jnp.inf)
    return jax.nn.softmax(scores, -1) @ v


@pytest.mark.parametrize("how", HOW, ids=lambda how: " ".join(how) or "plain")
def test_values_are_those_of_arrays_and_tangents_those_of_differences(how):
    wanted = rs.attention(Q, K, V, **how)
    for run in (rj.attention, jax.jit(lambda *x: rj.attention(*x, **how))):
        found = run(Q, K, V, **how) if run is rj.attention else run(Q, K, V)
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    along = [RNG.standard_normal(x.shape).astype(np.float32) for x in (Q, K, V)]
    _, tangent = jax.jvp(lambda *x: rj.attention(*x, **how), (Q, K, V), tuple(along))
    step = 1e-6
    ends = [
        rs.attention(
            *(x.astype(np.float64) + s * step * t for x, t in zip((Q, K, V), along, strict=True)), **how
        )
        for s in (-1, 1)
    ]
    np.testing.assert_allclose(tangent, (ends[1] - ends[0]) / (2 * step), atol=2e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients(causal):
    weight = RNG.standard_normal((2, 4, 9, 24)).astype(np.float32)
    ours, theirs = (
        jax.jit(jax.grad(lambda *x, f=f: (f(*x[:3], mask=x[3], causal=causal) * weight).sum(), (0, 1, 2, 3)))
        for f in (rj.attention, formula)
    )
    for found, wanted in zip(ours(Q, K, V, MASK), theirs(Q, K, V, MASK), strict=True):
        np.testing.assert_allclose(found, wanted, atol=2e-5, rtol=1e-4)


def test_gradients_of_gradients():
    ours, theirs = (
        jax.grad(lambda q, f=f: jax.grad(lambda q: (f(q, K, V) ** 2).sum())(q)[0, 0].sum())
        for f in (rj.attention, formula)
    )
    np.testing.assert_allclose(ours(Q), theirs(Q), atol=1e-4, rtol=1e-3)


def test_vmap():
    many = RNG.standard_normal((3, *Q.shape)).astype(np.float32)
    masks, sinks = np.stack([MASK, MASK + 1, -MASK]), np.stack([SINKS] * 3)
    for axes, arrays in (((0, None), (many, MASK)), ((0, 0), (many, masks)), ((None, 0), (Q, masks))):
        found = jax.vmap(lambda q, mask: rj.attention(q, K, V, mask=mask), axes)(*arrays)
        for i in range(3):
            q, mask = (x if at is None else x[i] for at, x in zip(axes, arrays, strict=True))
            np.testing.assert_allclose(found[i], rs.attention(q, K, V, mask=mask), atol=1e-6)
    found = jax.vmap(lambda q, sinks: rj.attention(q, K, V, sinks=sinks))(many, sinks)
    np.testing.assert_allclose(found[1], rs.attention(many[1], K, V, sinks=SINKS), atol=1e-6)
    found = jax.vmap(lambda q, n: rj.attention(q, K, V, lengths=n))(many, np.int32([[3, 4], [5, 6], [7, 8]]))
    np.testing.assert_allclose(found[2], rs.attention(many[2], K, V, lengths=[7, 8]), atol=1e-6)


def test_fewer_dims_types_and_nan_behind_a_length():
    k, v = K[0].copy(), V[0].copy()
    k[:, 6:] = v[:, 6:] = np.nan
    found = rj.attention(Q[0], k, v, lengths=6)
    assert found.shape == (4, 9, 24)
    np.testing.assert_allclose(found, rs.attention(Q[0], k, v, lengths=6), atol=1e-6)
    for one in (np.int64(6), jnp.int32(6)):
        np.testing.assert_array_equal(rj.attention(Q[0], k, v, lengths=one), found)
    np.testing.assert_array_equal(jax.jit(lambda n: rj.attention(Q[0], k, v, lengths=n))(6), found)
    whole = rs.attention(Q, K, V)
    np.testing.assert_allclose(rj.attention(Q, K, V, lengths=1 << 40), whole, atol=1e-6)
    gradient = jax.grad(lambda q: rj.attention(q, k, v, lengths=6).sum())(Q[0])
    assert np.isfinite(gradient).all()
    half = [jnp.asarray(x, jnp.bfloat16) for x in (Q, K, V)]
    found = rj.attention(*half)
    assert found.dtype == jnp.bfloat16
    np.testing.assert_allclose(found.astype(np.float32), rs.attention(Q, K, V), atol=0.05)


def test_bad_input_is_refused():
    for texts, call in (
        (("RS-R10", "queries have width 16, but keys have width 3"), lambda: rj.attention(Q, K[..., :3], V)),
        (("RS-R10", "mask"), lambda: rj.attention(Q, K, V, mask=MASK[:3])),
        (("RS-V06", "causal"), lambda: rj.attention(Q, K, V, causal=2)),
        (("RS-A17", "scale is traced"), lambda: jax.jit(lambda s: rj.attention(Q, K, V, scale=s))(0.5)),
        (("RS-A17", "soft_cap is traced"), lambda: jax.jit(lambda s: rj.attention(Q, K, V, soft_cap=s))(0.5)),
        (("RS-A17", "array"), lambda: rj.attention("q", K, V)),
    ):
        with refused(*texts):
            call()
    with refused("RS-X02", kind=rs.Unimplemented):
        rj.attention(Q.astype(np.int8), K, V)
