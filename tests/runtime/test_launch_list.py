"""Lists of launches: they keep the code that goes through them."""

from __future__ import annotations

import gc
import threading

import numpy as np

import restride as rs
from restride.runtime.cpu import launch_list

CPU = rs.Engine("cpu")


def softmax() -> tuple[rs.Primitive, rs.Memory]:
    """A primitive of one loop tree that one thread runs: its call is a native list."""
    md = rs.MemoryDesc((1, 16), "f32")
    pd = rs.SoftmaxForward.PrimitiveDesc(CPU, "forward_inference", "softmax_accurate", md, md, 1)
    return rs.SoftmaxForward(pd), rs.Memory(md, CPU, np.arange(16, dtype=np.float32))


def test_a_list_keeps_the_code_that_goes_through_it() -> None:
    launch_list.native_list.cache_clear()
    rs.set_primitive_cache_capacity(0)
    try:
        primitive, x = softmax()
    finally:
        rs.set_primitive_cache_capacity(1024)
    # As where two threads make the first lists at once: the cache keeps one code, this list has the other.
    launch_list.native_list.cache_clear()
    gc.collect()
    primitive.execute(rs.Stream(CPU), x, x)
    assert np.isclose(np.asarray(x).sum(), 1)


def test_threads_may_make_the_first_lists_at_once() -> None:
    launch_list.native_list.cache_clear()
    made: list[tuple[rs.Primitive, rs.Memory]] = []
    threads = [threading.Thread(target=lambda: made.append(softmax())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    for primitive, x in made:
        primitive.execute(rs.Stream(CPU), x, x)
        assert np.isclose(np.asarray(x).sum(), 1)
