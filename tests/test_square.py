"""Squares in local memory: run by a device as one whose items run in step would; the bits are right."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.plan.machine import DeviceFacts
from support.by_offset import check_reorder
from support.compensation import attr_of, reordered, totals
from support.sycl import sycl_engine

GPUS = [
    DeviceFacts(64, 8, 1 << 16),
    DeviceFacts(256, 16, 1 << 16),
    DeviceFacts(256, 32, 48 << 10),
    DeviceFacts(256, 64, 1 << 16),
]
CASES = {
    "sub-groups of 8": (GPUS[0], (2, 33, 40, 3), "nhwc nchw", ("f32", "f32", 1.0, 0.0)),
    "sub-groups of 16": (GPUS[1], (3, 70, 35), "abc acb", ("f32", "s8", 0.5, -2.0)),
    "sub-groups of 32": (GPUS[2], (2, 64, 9, 9), "nchw nhwc", ("f64", "f16", 1.0, 1.0)),
    "sub-groups of 64": (GPUS[3], (100, 130), "ab ba", ("f32", "f32", 1.0, 0.0)),
    "bytes": (GPUS[2], (100, 130), "ab ba", ("u8", "u8", 1.0, 0.0)),
    "padding": (GPUS[1], (2, 40, 17, 5), "nchw nChw16c", ("f32", "bf16", 3.0, 0.0)),
}


@pytest.fixture
def as_gpu(monkeypatch):
    """The device with the facts of one whose items run in step, and no problem solved before."""
    engine, before = sycl_engine(), rs.get_primitive_cache_capacity()
    rs.set_primitive_cache_capacity(0)
    yield lambda facts: monkeypatch.setattr(engine.device, "facts", facts) or engine
    rs.set_primitive_cache_capacity(before)


@pytest.mark.sycl
@pytest.mark.parametrize("case", CASES)
def test_squares_have_the_right_bits(as_gpu, case):
    facts, dims, tags, (first, second, alpha, beta) = CASES[case]
    src, dst = tags.split()
    mds = rs.MemoryDesc(dims, first, src), rs.MemoryDesc(dims, second, dst)
    engine = as_gpu(facts)
    pd = rs.Reorder.PrimitiveDesc(engine, mds[0], engine, mds[1])
    assert "through local memory" in str(pd._impl.executable.lowered)
    check_reorder(*mds, engine, alpha=alpha, beta=beta)


@pytest.mark.sycl
@pytest.mark.parametrize("types", ["s4 u4", "bf16 f8_e4m3", "s32 boolean"])
def test_items_in_step_have_the_right_bits(as_gpu, types):
    first, second = types.split()
    engine = as_gpu(GPUS[1])
    for src, dst in (("abc", "abc"), ("abc", "acb"), ("aBc8b", "abc"), ("abc", "ABc4a8b")):
        dims = (6, 22, 10)
        check_reorder(rs.MemoryDesc(dims, first, src), rs.MemoryDesc(dims, second, dst), engine)


@pytest.mark.sycl
@pytest.mark.parametrize("mask", [1, 2, 0])
def test_sums_of_items_in_step_are_right(as_gpu, mask):
    engine = as_gpu(GPUS[1])
    x = np.random.default_rng(1).standard_normal((20, 300, 3, 2)).astype(np.float32) * 90
    for tag in ("abcd", "cdba", "ABcd4b16a4b"):
        target, s8s8, zero = reordered(engine, x, rs.MemoryDesc(x.shape, "s8", tag), attr_of(mask))
        found = totals(target, mask)
        assert s8s8.tolist() == [-128 * n for n in found]
        assert zero.tolist() == [-n for n in found]
