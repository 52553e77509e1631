"""Attention of arrays is what NumPy makes of its formula in f64, in any layout, and reads no copy."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.errors import refused

RNG = np.random.default_rng(5)
LAYOUTS = {
    "heads apart": lambda x: np.ascontiguousarray(x),
    "heads side by side": lambda x: np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2),
    "every second": lambda x: np.repeat(x, 2, axis=2)[:, :, ::2],
    "columns": lambda x: np.ascontiguousarray(x.swapaxes(2, 3)).swapaxes(2, 3),
}


def numbers(*dims, kind=np.float32):
    return RNG.standard_normal(dims).astype(kind)


def problem(key_heads=2, queries=9, keys=11):
    return (
        numbers(2, 4, queries, 16),
        numbers(2, key_heads, keys, 16),
        numbers(2, key_heads, keys, 24),
    )


def wanted(q, k, v, hidden=None, added=0.0):
    """In f64; `hidden`: which keys have no share."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]) + added
    scores = scores if hidden is None else np.where(hidden, -np.inf, scores)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers @ v / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_every_layout_is_read_where_it_lies(layout, key_heads):
    arrays = problem(key_heads)
    q, k, v = map(LAYOUTS[layout], arrays)
    for _ in range(2):  # checked, and by the stored call
        found = rs.attention(q, k, v)
        np.testing.assert_allclose(found, wanted(*arrays), atol=2e-6)
        assert np.argsort(found.strides)[::-1].tolist() == np.argsort(q.strides)[::-1].tolist()
    out = LAYOUTS[layout](np.empty_like(found))
    assert rs.attention(q, k, v, out=out) is out
    assert out.tobytes() == found.tobytes()


def test_causal_from_both_corners():
    arrays = problem()
    i, j = np.ogrid[:9, :11]
    for word, hidden in ((True, j > i + 2), ("bottom_right", j > i + 2), ("top_left", j > i)):
        np.testing.assert_allclose(rs.attention(*arrays, causal=word), wanted(*arrays, hidden), atol=2e-6)
    for word in (False, "none"):
        np.testing.assert_allclose(rs.attention(*arrays, causal=word), wanted(*arrays), atol=2e-6)


def test_what_else_hides_or_adds():
    arrays = problem()
    i, j = np.ogrid[:9, :11]
    mask, added = RNG.random((9, 11)) < 0.7, numbers(4, 1, 11)
    mask[:, 0] = True
    np.testing.assert_allclose(rs.attention(*arrays, mask=mask), wanted(*arrays, ~mask), atol=2e-6)
    np.testing.assert_allclose(rs.attention(*arrays, mask=added), wanted(*arrays, added=added), atol=2e-6)
    near = rs.attention(*arrays, window=[3, 2], scale=0.25)
    np.testing.assert_allclose(near, wanted(*arrays, (j < i - 3) | (j > i + 2)), atol=2e-6)
    lengths = np.array([4, 11])[:, None, None, None]
    for given in ([4, 11], np.array([4, 11], np.int32)):
        found = rs.attention(*arrays, lengths=given)
        np.testing.assert_allclose(found, wanted(*arrays, j >= lengths), atol=2e-6)
    np.testing.assert_allclose(rs.attention(*arrays, lengths=4), wanted(*arrays, j >= 4), atol=2e-6)
    assert np.abs(rs.attention(*arrays, sinks=[60.0] * 4)).max() < 1e-6
    assert not rs.attention(*arrays, lengths=0).any()


def test_fewer_dims_are_leading_dims_of_1():
    q, k, v = problem(4)
    whole = rs.attention(q, k, v, causal=True)
    for _ in range(2):
        np.testing.assert_array_equal(rs.attention(q[1], k[1], v[1], causal=True), whole[1])
        np.testing.assert_array_equal(rs.attention(q[1, 2], k[1, 2], v[1, 2], causal=True), whole[1, 2])
    out = np.empty((4, 9, 24), np.float32)
    assert rs.attention(q[0], k[0], v[0], causal=True, lengths=11, out=out) is out
    np.testing.assert_allclose(out, whole[0], atol=1e-6)
    np.testing.assert_allclose(
        rs.attention(*(x[0, 0].tolist() for x in (q, k, v)), causal=True), whole[0, 0], 1e-4
    )


@pytest.mark.parametrize("tag", ["abcd", "acbd", "abcD8d", "abCd8c"])
def test_memories_of_any_format_come_back_in_that_format(tag):
    arrays = problem()
    q, k, v = (rs.Memory(rs.MemoryDesc(x.shape, "f32", tag), rs.Engine("cpu")) for x in arrays)
    for x, memory in zip(arrays, (q, k, v), strict=True):
        rs.reorder(x, None, out=memory)
    found = rs.attention(q, k, v)
    assert isinstance(found, rs.Memory)
    assert found.desc == rs.MemoryDesc((2, 4, 9, 24), "f32", tag)
    np.testing.assert_allclose(rs.reorder(found, "abcd"), wanted(*arrays), atol=2e-6)


@pytest.mark.parametrize(("kind", "step"), [("f64", 1e-14), ("bf16", 2.0**-6), ("f16", 2.0**-9)])
def test_types(kind, step):
    arrays = [x.astype(rs.DataType[kind].numpy) for x in problem()]
    found = rs.attention(*arrays)
    assert found.dtype == arrays[0].dtype
    np.testing.assert_allclose(found.astype(np.float64), wanted(*arrays), atol=step)


def test_numbers_of_f64_are_not_rounded():
    q, k, v = (x.astype(np.float64) for x in problem())
    scale = 0.1
    found = rs.attention(q, k, v, scale=scale, soft_cap=1e6)
    np.testing.assert_allclose(found, wanted(q * (scale * 4), k, v), atol=1e-11)  # sqrt(16) is 4
    capped = rs.attention(q, k, v, soft_cap=0.3)
    scores = q @ np.repeat(k, 2, 1).swapaxes(2, 3) / 4
    np.testing.assert_allclose(capped, wanted(0 * q, k, v, added=0.3 * np.tanh(scores / 0.3)), atol=1e-14)


def test_tensors_of_torch_come_back_as_such():
    torch = pytest.importorskip("torch")
    q, k, v = (torch.from_numpy(x) for x in problem())
    wide = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    torch.testing.assert_close(rs.attention(q, k, v), wide, rtol=1e-5, atol=1e-5)
    out = torch.empty_like(wide)
    assert rs.attention(q, k, v, mask=torch.zeros(9, 11), out=out) is out
    torch.testing.assert_close(out, wide, rtol=1e-5, atol=1e-5)


def test_bad_input_is_refused_before_anything_is_written():
    q, k, v = problem(4, 11)
    out = np.full((2, 4, 11, 24), 7, np.float32)
    for code, match, arrays, more in (
        ("RS-R10", "width 16, but keys have width 3", (q, k[..., :3], v), {}),
        ("RS-R10", "4 heads of queries are not a multiple of 3", (q, k[:, :3], v[:, :3]), {}),
        ("RS-R10", "keys and values must match", (q, k, v[:, :, :4]), {}),
        ("RS-R10", "four dims", (q[None], k[None], v[None]), {"out": None}),
        ("RS-R10", "mask does not fit", (q, k, v), {"mask": np.zeros((3, 11, 11), np.float32)}),
        ("RS-R10", "lengths does not fit", (q, k, v), {"lengths": [1, 2, 3]}),
        ("RS-R10", "lengths does not fit", (q, k, v), {"lengths": 1.5}),
        ("RS-R10", "sinks does not fit", (q, k, v), {"sinks": [1.0]}),
        ("RS-R10", "out has the wrong dims", (q, k, v), {"out": out[:, :, :5]}),
        ("RS-V06", "causal is 1", (q, k, v), {"causal": 1}),
        ("RS-V04", "causal", (q, k, v), {"causal": "left"}),
        ("RS-V05", "window", (q, k, v), {"window": 3}),
        ("RS-V05", "window", (q, k, v), {"window": (1.5, 0)}),
        ("RS-V05", "window", (q, k, v), {"window": "12"}),
        ("RS-V02", "soft_cap is inf", (q, k, v), {"soft_cap": np.inf}),
        ("RS-V02", "soft_cap is nan", (q, k, v), {"soft_cap": np.nan}),
        ("RS-V02", "scale", (q, k, v), {"scale": "a"}),
        ("RS-X02", "type", (q.astype(np.int8), k, v), {}),
        ("RS-A01", "k cannot be read", (q, "a", v), {}),
        ("RS-A01", "v cannot be read", (q, k, None), {}),
    ):
        with refused(code, match, kind=rs.Unimplemented if code == "RS-X02" else rs.InvalidArguments):
            rs.attention(*arrays, **{"out": out, **more})
    assert (out == 7).all()


def test_a_result_over_what_is_read_is_refused():
    q, k, v = numbers(2, 4, 9, 16), numbers(2, 4, 9, 16), numbers(2, 4, 9, 16)
    for _ in range(2):
        for name, x in (("q", q), ("k", k), ("v", v)):
            with refused("RS-N09", f"{name} and out overlap"):
                rs.attention(q, k, v, out=x)
        rs.attention(q, k, v, out=np.empty_like(q))  # now there is a stored call
    mask = np.zeros((2, 4, 9, 16), np.float32)
    with refused("RS-N09", "mask and out overlap"):
        rs.attention(q, k, v, mask=mask[..., :9], out=mask)
    out = np.empty_like(q)
    out.flags.writeable = False
    with refused("RS-A08"):
        rs.attention(q, k, v, out=out)
