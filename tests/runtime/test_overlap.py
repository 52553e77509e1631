"""Tensors between each other's elements are apart; whatever shares a byte is never said to be."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restride as rs
from restride.runtime.overlap import share_bytes_at
from support.by_offset import positions
from support.descriptors import shapes, tags
from support.effort import examples
from support.errors import refused

CPU = rs.Engine("cpu")
STREAM = rs.Stream(CPU)


def bytes_of(md: rs.MemoryDesc, address: int) -> set[int]:
    """All bytes of elements and padding."""
    width = md.data_type.bits // 8
    starts = address + positions(md, md.padded_dims) * width
    return set((starts[..., None] + np.arange(width)).reshape(-1).tolist())


@st.composite
def tensors(draw: st.DrawFn) -> rs.MemoryDesc:
    kind = draw(st.sampled_from(("f32", "bf16", "s8")))
    dims = draw(shapes(max_ndims=3, most=60))
    if draw(st.booleans()):
        return rs.MemoryDesc(dims, kind, draw(tags(dims)))
    strides = draw(st.tuples(*[st.integers(-12, 12)] * len(dims)))
    lowest = sum(min(0, step * (n - 1)) for n, step in zip(dims, strides, strict=True))
    return rs.MemoryDesc.from_strides(dims, kind, strides, draw(st.integers(0, 5)) - lowest)


@settings(max_examples=examples(100))
@given(tensors(), tensors(), st.integers(-100, 100))
def test_what_shares_a_byte_and_what_does_not(one: rs.MemoryDesc, other: rs.MemoryDesc, shift: int) -> None:
    base = 1 << 20
    expected = not bytes_of(one, base).isdisjoint(bytes_of(other, base + shift))
    assert share_bytes_at(one, base, other, base + shift) == expected


def test_what_takes_long_to_say_is_taken_for_shared() -> None:
    primes = 10**9 + 7, 10**9 + 9, 998244353, 10**9 + 21
    one = rs.MemoryDesc.from_strides((200,) * 4, "s8", primes)
    other = rs.MemoryDesc.from_strides((201,) * 4, "s8", primes[::-1])
    start = time.perf_counter()
    assert share_bytes_at(one, 1 << 50, other, (1 << 50) + 3)
    assert time.perf_counter() - start < 1


def test_half_bytes_within_each_others_reach_are_taken_for_shared() -> None:
    md = rs.MemoryDesc((4, 4), "s4", (16, 1))
    assert share_bytes_at(md, 1000, md, 1004)
    assert not share_bytes_at(md, 1000, md, 1032)


def halves(rows: int = 37, width: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """The left and the right half of an array: each lies between the elements of the other."""
    a = np.arange(rows * width, dtype=np.float32).reshape(rows, width)
    return a[:, : width // 2], a[:, width // 2 :]


@pytest.mark.parametrize("rows", [3, 37, 20_000])
def test_every_function_writes_between_the_elements_of_its_sources(rows: int) -> None:
    calls = [
        lambda x, out: rs.reorder(x, None, out=out),
        lambda x, out: rs.reorder(x, None, scale=2.0, out=out),
        lambda x, out: rs.reorder(x, None, scale=[1.0, 2.0, 3.0], axis=1, out=out),
        lambda x, out: rs.concat([x[:, :1], x[:, 1:]], axis=1, out=out),
        lambda x, out: rs.add_n([x, x], out=out),
        lambda x, out: rs.shuffle(x, group_size=3, axis=1, out=out),
    ]
    for call in calls:
        # The second time the call is known.
        for _ in range(2):
            left, right = halves(rows)
            x = left.copy()
            expected = call(x, np.zeros_like(x))
            assert call(left, right) is right
            assert (left == x).all()
            assert (right == expected).all()


def test_memories_lie_between_each_others_elements() -> None:
    left, right = halves()
    md = rs.MemoryDesc.from_strides(left.shape, "f32", (6, 1))
    src, dst = (rs.Memory.from_numpy(x) for x in (left, right))
    primitive = rs.Reorder(rs.Reorder.PrimitiveDesc(CPU, md, CPU, md))
    for _ in range(2):
        right[:] = 0
        primitive.execute(STREAM, src, dst)
        assert (right == left).all()
    pd = rs.ShuffleForward.PrimitiveDesc(rs.ShuffleForward.Desc("forward_inference", md, 1, 1), CPU)
    rs.ShuffleForward(pd).execute(STREAM, src, dst)
    total = rs.Sum(rs.Sum.PrimitiveDesc(CPU, [1.0, 1.0], [md, md], md))
    total.execute(STREAM, [src, src], dst)
    assert (right == 2 * left).all()
    joined = rs.Concat(rs.Concat.PrimitiveDesc(CPU, 1, [md], md))
    joined.execute(STREAM, [src], dst)
    assert (right == left).all()


def test_one_common_element_is_refused() -> None:
    a = np.zeros((37, 6), np.float32)
    for call in (
        lambda x, out: rs.reorder(x, None, out=out),
        lambda x, out: rs.concat([x], axis=1, out=out),
        lambda x, out: rs.add_n([x, x], out=out),
        lambda x, out: rs.shuffle(x, group_size=3, axis=1, out=out),
    ):
        with refused("overlap"):
            call(a[:, :3], a[:, 2:5])
    assert not a.any()
