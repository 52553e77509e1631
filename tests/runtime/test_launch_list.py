"""Lists of launches: they keep the code that goes through them."""

from __future__ import annotations

import gc
import threading

import numpy as np

import restride as rs
from restride.ir.digits import reorder_nest
from restride.ir.nest import linear
from restride.ir.program import DST, SRC, NestStep, Place, Program, Slot
from restride.runtime.alloc import address_of
from restride.runtime.cpu import launch_list
from restride.runtime.cpu.executable import CpuExecutable
from restride.runtime.cpu.kernel import packed_address, packer
from restride.targets.isa import host_caches, host_isa

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


def test_scalars_of_a_launch_stand_between_those_of_an_execution() -> None:
    md = rs.MemoryDesc((5, 7), "f32", "ab")
    nest = reorder_nest(md, md, linear(scaled=True))

    def scaled(src: Place, dst: Place, **scalars: tuple[int, int] | tuple[float]) -> NestStep:
        return NestStep(nest, src, dst, 2 * md.size, (0, 35), (0, 35), **scalars)  # type: ignore[arg-type]

    first, second = Place(~0), Place(~1)
    steps = (
        scaled(Place(SRC), first, scalars=(1, 1)),
        scaled(first, second, constants=(3.0,)),
        scaled(second, Place(DST), scalars=(0, 1)),
    )
    slots = Slot(rs.ARG_SRC), Slot(rs.ARG_DST, is_written=True)
    program = Program(slots, steps, (md.size, md.size), scalars=2).verify()
    executable = CpuExecutable(program, host_isa(), host_caches())
    x, out = np.arange(35, dtype=np.float32), np.zeros(35, np.float32)
    words = packer(0, 2)(5.0, 7.0)
    executable.call(address_of(x), address_of(out), packed_address(words))
    assert len(executable._lists) == 1, "one native call does all three"
    np.testing.assert_array_equal(out, 105 * x)
