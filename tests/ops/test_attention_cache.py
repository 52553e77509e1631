"""A cache of keys and values is a memory with room: what is appended moves alone, what is there is read."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.errors import refused

BATCH, HEADS, KEY_HEADS, CAPACITY, WIDTH = 2, 8, 2, 640, 32
DIMS = BATCH, KEY_HEADS, CAPACITY, WIDTH
RNG = np.random.default_rng(3)
FORMATS = ["abcd", "acbd", "abdc", "abcD8d", "abDc16d"]


def numbers(count, heads=KEY_HEADS):
    return RNG.standard_normal((BATCH, heads, count, WIDTH)).astype(np.float32)


def window_at(cache, at, count=1):
    desc = cache.desc.submemory_desc((BATCH, KEY_HEADS, count, WIDTH), (0, 0, at, 0))
    return rs.Memory(desc, cache.engine, cache)


def wanted(q, k, v):
    k, v = (np.repeat(x, HEADS // KEY_HEADS, 1).astype(np.float64) for x in (k, v))
    scores = q.astype(np.float64) @ k.swapaxes(2, 3) / np.sqrt(WIDTH)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers @ v / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize("kind", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("tag", FORMATS)
def test_steps_of_a_model_append_and_attend(engine, tag, kind):
    md = rs.MemoryDesc(DIMS, kind, tag)
    caches = rs.Memory(md, engine), rs.Memory(md, engine)
    for cache in caches:  # the room behind the end may hold anything
        rs.reorder(np.full(DIMS, np.nan, np.float32), None, out=cache)
    every = [], []
    at = 0
    for count in (300, 1, 1):
        for cache, so_far in zip(caches, every, strict=True):
            x = numbers(count)
            rs.reorder(x, None, out=window_at(cache, at, count))
            so_far.append(x)
        at += count
        q = numbers(1, HEADS)
        found = rs.attention(q, *caches, lengths=at, causal=True)
        found = found.to_numpy() if isinstance(found, rs.Memory) else found
        k, v = (np.concatenate(x, 2).astype(rs.DataType[kind].numpy) for x in every)
        np.testing.assert_allclose(found, wanted(q, k, v), atol=1e-5)


@pytest.mark.parametrize("tag", FORMATS)
def test_appending_moves_the_bytes_of_a_position(tag):
    md, one = rs.MemoryDesc(DIMS, "bf16", tag), rs.MemoryDesc((BATCH, KEY_HEADS, 1, WIDTH), "f32")
    plan = rs.plan(one, md.submemory_desc(one.dims, (0, 0, 77, 0)))
    assert plan.bytes_moved == one.nelems * (4 + 2)


@pytest.mark.parametrize("has_lengths", [False, True])
@pytest.mark.parametrize("kind", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("tag", FORMATS)
def test_a_query_reads_keys_and_values_where_they_lie(tag, kind, has_lengths):
    """No step before the last touches them, and what is kept has a few bytes for each key, not its width."""
    cache, query = rs.MemoryDesc(DIMS, kind, tag), rs.MemoryDesc((BATCH, HEADS, 1, WIDTH), kind)
    lengths = rs.MemoryDesc((BATCH,), "s64") if has_lengths else None
    pd = rs.onednn.ScaledDotProductAttention.PrimitiveDesc(
        rs.Engine("cpu"), query, cache, cache, query, lengths=lengths, causal="bottom_right"
    )
    program = pd._implementation().problem.program()
    kept = {i for i, slot in enumerate(program.slots) if slot.arg in (rs.ARG_SRC_1, rs.ARG_SRC_2)}
    assert len(kept) == 2
    for step in program.steps[:-1]:
        places = getattr(step, "places", None) or (step.src, step.dst)
        assert kept.isdisjoint(place.buffer for place in places)
    assert sum(program.temporaries) <= BATCH * (8 * CAPACITY + 64)


def test_a_full_cache_has_no_window():
    cache = rs.Memory(rs.MemoryDesc(DIMS, "f32"), rs.Engine("cpu"))
    for at, count in ((CAPACITY, 1), (CAPACITY - 3, 4)):
        with refused("RS-M20", "the window leaves axis 2", f"end within {CAPACITY}"):
            window_at(cache, at, count)


def test_a_prefix_of_several_caches_is_read_and_not_written():
    engine, md = rs.Engine("cpu"), rs.MemoryDesc((1, *DIMS[1:]), "f32")
    data = [RNG.standard_normal(md.dims).astype(np.float32) for _ in range(2)]
    prefix = [rs.Memory(md, engine) for _ in data]
    for x, memory in zip(data, prefix, strict=True):
        rs.reorder(x, None, out=memory)
    shared = rs.MemoryDesc.from_strides((BATCH, KEY_HEADS, 100, WIDTH), "f32", (0, *md.strides[1:]))
    q, views = numbers(1, HEADS), [rs.Memory(shared, engine, memory) for memory in prefix]
    k, v = (np.repeat(x[:, :, :100], BATCH, 0) for x in data)
    np.testing.assert_allclose(rs.attention(q, *views), wanted(q, k, v), atol=1e-5)
    with refused("RS-N08"):
        rs.reorder(
            numbers(1),
            None,
            out=rs.Memory(
                shared.submemory_desc((BATCH, KEY_HEADS, 1, WIDTH), (0, 0, 5, 0)), engine, views[0]
            ),
        )
