"""Loop trees read and write elements of 4 bits, and nothing beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import restride as rs

CPU, REF = rs.Engine("cpu"), rs.Engine("reference")
NIBBLES = ("s4", "u4", "f4_e2m1", "f4_e3m0", "nf4")
TAGS = ("abcd", "acdb", "aBcd8b")


def _reduction(engine: rs.Engine, src: rs.MemoryDesc, data_type: str, tag: str) -> Any:
    dst = rs.MemoryDesc((*src.dims[:3], 1), data_type, tag)
    return rs.Reduction(rs.Reduction.PrimitiveDesc(engine, "reduction_max", src, dst))


def _pooling(engine: rs.Engine, src: rs.MemoryDesc, data_type: str, tag: str) -> Any:
    n, c, h, w = src.dims
    dst = rs.MemoryDesc((n, c, h - 1, w - 1), data_type, tag)
    window = (1, 1), (2, 2), (0, 0), (0, 0), (0, 0)
    pd = rs.PoolingForward.PrimitiveDesc(engine, "forward_inference", "pooling_max", src, dst, *window)
    return rs.PoolingForward(pd)


def _resampling(engine: rs.Engine, src: rs.MemoryDesc, data_type: str, tag: str) -> Any:
    n, c, h, w = src.dims
    dst = rs.MemoryDesc((n, c, 2 * h, 2 * w), data_type, tag)
    pd = rs.ResamplingForward.PrimitiveDesc(engine, "forward_inference", "resampling_linear", src, dst)
    return rs.ResamplingForward(pd)


def _lrn(engine: rs.Engine, src: rs.MemoryDesc, data_type: str, tag: str) -> Any:
    dst, numbers = rs.MemoryDesc(src.dims, data_type, tag), (3, 1.0, 0.75, 1.0)
    algorithm = "lrn_across_channels"
    pd = rs.LRNForward.PrimitiveDesc(engine, "forward_inference", algorithm, src, dst, *numbers)
    return rs.LRNForward(pd)


def _result(primitive: Any, engine: rs.Engine, src: rs.Memory, before: Any) -> Any:
    """The bytes of the destination, and some before and behind it."""
    md = primitive.get_primitive_desc().dst_desc()
    held = np.full(md.size + 128, 0xAB, np.uint8)
    held[64:-64] = before[: md.size]
    dst = rs.Memory(md, engine, held[64:-64])
    arguments = {rs.ARG_SRC: rs.Memory(src.desc, engine, src.data), rs.ARG_DST: dst}
    primitive.execute(rs.Stream(engine), arguments)
    return held


@pytest.mark.sweep(2)
@pytest.mark.parametrize("shape", [(3, 5, 6, 7), (2, 16, 3, 4), (1, 3, 2, 3)])
@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("written", [*NIBBLES, "f32"])
@pytest.mark.parametrize("read", [*NIBBLES, "f32"])
@pytest.mark.parametrize("make", [_reduction, _pooling, _resampling, _lrn])
def test_trees_of_four_bits_are_those_of_the_interpreter(
    make: Any, read: str, written: str, tag: str, shape: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(len(read) + len(written))
    md = rs.MemoryDesc(shape, read, tag)
    src = rs.Memory(md, CPU, np.zeros(md.size, np.uint8))
    rs.reorder(rng.integers(0, 5, shape).astype(np.float32), None, out=src)
    before = rng.integers(0, 256, 20_000, np.uint8)
    results = [_result(make(engine, md, written, tag), engine, src, before) for engine in (CPU, REF)]
    assert np.array_equal(*results)


@pytest.mark.parametrize("data_type", NIBBLES)
@pytest.mark.parametrize("first", [1, 2])
def test_neighbors_of_a_part_stay_as_they_are(data_type: str, first: int) -> None:
    """Of a submemory whose rows begin in the low or the high half of a byte."""
    x = np.float32([0, 1, 2, 4] if data_type != "nf4" else [0, 1, -1, 1])[np.arange(24).reshape(4, 3, 2) % 4]
    whole = rs.MemoryDesc((4, 9, 1), data_type, "abc")
    part = whole.submemory_desc((4, 3, 1), (0, first, 0))
    pd = rs.Reduction.PrimitiveDesc(CPU, "reduction_max", rs.MemoryDesc(x.shape, "f32"), part)
    held = np.random.default_rng(0).integers(0, 256, whole.size, np.uint8)
    expected = np.asarray(rs.reorder(rs.Memory(whole, CPU, held.copy()), None, dtype="f32"))
    expected[:, first : first + 3, 0] = x.max(2)
    memories = {rs.ARG_SRC: rs.Memory.from_numpy(x), rs.ARG_DST: rs.Memory(part, CPU, held)}
    rs.Reduction(pd).execute(rs.Stream(CPU), memories)
    found = np.asarray(rs.reorder(rs.Memory(whole, CPU, held), None, dtype="f32"))
    np.testing.assert_array_equal(found, expected)
