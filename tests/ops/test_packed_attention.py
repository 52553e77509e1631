"""Sequences that lie one behind the other, and keys and values of 8 bits: each alone gives the same."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import restride as rs
from support.errors import refused
from support.executions import executed

RNG = np.random.default_rng(11)
SEQUENCES = [[0, 1, 2, 3], [0, 0, 40, 40, 130], [0, 300], [5, 7, 7, 290], [300, 300], [0]]


def numbers(*dims):
    return RNG.standard_normal(dims).astype(np.float32)


def array(x):
    return x.to_numpy() if isinstance(x, rs.Memory) else x


def pieces(offsets):
    return list(pairwise(offsets))


def alone(q, k, v, offsets, key_offsets, **more):
    """Each sequence for itself; zeros where none is."""
    result = np.zeros((*q.shape[:3], v.shape[3]), np.float32)
    for (a, b), (c, d) in zip(pieces(offsets), pieces(key_offsets), strict=True):
        if b > a and d > c:
            result[:, :, a:b] = rs.attention(q[:, :, a:b], k[:, :, c:d], v[:, :, c:d], **more)
    return result


@pytest.mark.parametrize("more", [{}, {"causal": True}, {"window": (20, 3)}, {"causal": "top_left"}], ids=str)
@pytest.mark.parametrize("offsets", SEQUENCES, ids=str)
def test_sequences_see_nothing_of_each_other(offsets, more):
    q, k, v = numbers(2, 4, 300, 16), numbers(2, 2, 300, 16), numbers(2, 2, 300, 24)
    found = rs.attention(q, k, v, offsets=offsets, **more)
    np.testing.assert_allclose(found, alone(q, k, v, offsets, offsets, **more), atol=2e-6)


@pytest.mark.parametrize("causal", ["none", "top_left", "bottom_right"])
def test_keys_have_offsets_of_their_own(causal):
    offsets, key_offsets = [0, 1, 30, 31], np.array([0, 513, 600, 1300], np.int32)
    q, k, v = numbers(1, 4, 31, 16), numbers(1, 4, 1300, 16), numbers(1, 4, 1300, 16)
    found = rs.attention(q, k, v, offsets=offsets, key_offsets=key_offsets, causal=causal)
    np.testing.assert_allclose(found, alone(q, k, v, offsets, key_offsets, causal=causal), atol=2e-6)


def test_one_query_of_each_sequence_reads_its_own_part_of_a_cache():
    q, k, v = numbers(1, 8, 4, 32), numbers(1, 8, 700, 32), numbers(1, 8, 700, 32)
    offsets, key_offsets = np.arange(5), [0, 3, 90, 650, 700]
    found = rs.attention(q, k, v, offsets=offsets, key_offsets=key_offsets, causal=True)
    np.testing.assert_allclose(found, alone(q, k, v, offsets, key_offsets), atol=2e-6)


@pytest.mark.parametrize("tag", ["acbd", "abdc", "aBcd8b", "abCd8c"])
def test_formats_of_packed_sequences(engine, tag):
    q, k, v = (numbers(1, 4, 90, 16) for _ in range(3))
    md = rs.MemoryDesc(q.shape, "f32", tag)
    found = rs.attention(*(rs.reorder(x, md, engine=engine) for x in (q, k, v)), offsets=[0, 33, 90])
    wanted = alone(q, k, v, [0, 33, 90], [0, 33, 90])
    np.testing.assert_allclose(array(rs.reorder(found, "abcd")), wanted, atol=2e-6)


def test_gradients_of_packed_sequences_are_those_of_each(engine):
    dims, offsets = (1, 2, 60, 16), np.array([0, 25, 60])
    q, k, v, back = (numbers(*dims) for _ in range(4))

    def gradients(q, k, v, back, *more):
        md, stats = rs.MemoryDesc(q.shape, "f32"), rs.MemoryDesc(q.shape[:3], "f32")
        at = [rs.MemoryDesc(x.shape, x.dtype) for x in more]
        none = (None,) * 3
        inputs = {rs.ARG_SRC: q, rs.ARG_SRC_1: k, rs.ARG_SRC_2: v}
        inputs |= zip([rs.ARG_MULTIPLE_SRC], more, strict=False)
        words = (None, "top_left", None, 0.0, *at)
        inputs |= executed(engine, "ScaledDotProductAttention", inputs, *(md,) * 4, *none, stats, *words)
        inputs[rs.ARG_DIFF_DST] = back
        name = "ScaledDotProductAttentionBackward"
        found = executed(engine, name, inputs, *(md,) * 4, stats, *(md,) * 4, *none, *words)
        return [found[arg] for arg in (rs.ARG_DIFF_SRC, rs.ARG_DIFF_SRC_1, rs.ARG_DIFF_SRC_ITER_C)]

    whole = gradients(q, k, v, back, offsets)
    for a, b in pieces(offsets):
        own = gradients(*(np.ascontiguousarray(x[:, :, a:b]) for x in (q, k, v, back)))
        for found, wanted in zip(whole, own, strict=True):
            np.testing.assert_allclose(found[:, :, a:b], wanted, atol=3e-6)


@pytest.mark.parametrize("queries", [1, 3, 50])
@pytest.mark.parametrize("kind", ["s8", "f8_e4m3", "f8_e5m2"])
def test_keys_and_values_of_8_bits_have_a_scale_for_each_position(engine, kind, queries):
    q, k, v = numbers(2, 8, queries, 32), numbers(2, 2, 600, 32), numbers(2, 2, 600, 16)
    small = [rs.quantize(x, kind, group=0) for x in (k, v)]
    held = [rs.reorder(x.values, None, engine=engine) for x in small]
    scales = [
        rs.reorder(np.ascontiguousarray(x.scale.to_numpy()[..., 0]), None, engine=engine) for x in small
    ]
    rest = {"lengths": [600, 77], "causal": True}
    q = q if engine.kind == "cpu" else rs.reorder(q, None, engine=engine)
    found = rs.attention(q, *held, key_scales=scales[0], value_scales=scales[1], **rest)
    wanted = rs.attention(array(q), *(array(x.dequantize()) for x in small), **rest)
    np.testing.assert_allclose(array(found), wanted, atol=3e-6)
    own = rs.attention(array(q), *small, **rest)
    np.testing.assert_allclose(own, array(found), atol=1e-6)


def test_what_lies_behind_a_length_is_no_scale():
    q, k = numbers(1, 2, 1, 16), RNG.integers(-99, 99, (1, 2, 600, 16)).astype(np.int8)
    scales = np.full((1, 2, 600), 0.01, np.float32)
    wanted = rs.attention(q, k, k, key_scales=scales, value_scales=scales, lengths=530)
    scales[..., 530:] = np.nan
    found = rs.attention(q, k, k, key_scales=scales, value_scales=scales, lengths=530)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("offsets", [[0, 5, 3], [0, 11], [-1, 5], [1.5, 2.0], [], [[0, 10]], 5])
def test_offsets_that_do_not_fit_are_refused(offsets):
    x = numbers(2, 10, 8)
    with refused("offsets"):
        rs.attention(x, x, x, offsets=offsets)


def test_what_does_not_go_with_offsets_is_refused():
    x, long = numbers(2, 10, 8), numbers(2, 12, 8)
    with refused("pass offsets too"):
        rs.attention(x, x, x, key_offsets=[0, 10])
    with refused("leave one of them out"):
        rs.attention(x, x, x, offsets=[0, 10], lengths=3)
    with refused("pass key_offsets"):
        rs.attention(x, long, long, offsets=[0, 10])
    with refused("key_offsets does not fit"):
        rs.attention(x, long, long, offsets=[0, 10], key_offsets=[0, 5, 12])
    with refused("by position and head", kind=rs.Unimplemented):
        rs.attention(x, rs.quantize(x, "s8", group=4), x)
