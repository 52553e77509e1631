"""Launches: which kernel runs, and that the first one stays."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.desc.memory_desc import MemoryDesc
from restride.ir.digits import reorder_nest
from restride.ir.nest import linear
from restride.model.base import DEFAULT_ATTR
from restride.model.checks import Names
from restride.ops.concat import concat_problem
from restride.runtime.alloc import address_of
from restride.runtime.cpu import executable as cpu
from restride.runtime.cpu import launch
from restride.runtime.cpu.executable import CpuExecutable
from restride.runtime.cpu.kernel import Kernel, KernelCode, kernel_of, packed_address, packer
from restride.runtime.cpu.launch import Launch
from restride.targets.cpu import lower_nest
from restride.targets.isa import CacheSizes, host_isa
from support.by_offset import guarded
from support.computed import memory_of
from support.kernels import TINY


def test_two_threads_that_compile_at_once_use_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    # Whoever is first may hold the address of the kernel's code already, and nothing that keeps it there.
    nest = reorder_nest(MemoryDesc((5, 7), "f32", "ab"), MemoryDesc((5, 7), "s8", "ba"), linear())
    made = Launch(lower_nest(nest, host_isa(), CacheSizes()), (), 175)
    others: list[Kernel] = []

    def slow(lowered: object, work_bytes: int, inner: object) -> Kernel:
        monkeypatch.setattr(
            launch, "kernel_of", lambda *_: Kernel(KernelCode(made.lowered), made.lowered, work_bytes, {})
        )
        others.append(made.kernel(0))
        return kernel_of(made.lowered, work_bytes)

    monkeypatch.setattr(launch, "kernel_of", slow)
    assert made.kernel(0) is others[0] is made.kernel(0)


@pytest.mark.parametrize("start", [0, 4, 64])
@pytest.mark.parametrize("width", [160, 163])
def test_launches_between_cache_lines_stream_nothing(width: int, start: int) -> None:
    # The second source begins in the midst of a line of a destination that begins at one, or the first does.
    srcs = MemoryDesc((1, width), "f32", "ab"), MemoryDesc((64, width), "f32", "ab")
    dst = MemoryDesc((65, width), "f32", "ab")
    problem = concat_problem(0, srcs, dst, DEFAULT_ATTR, Names("concat"))
    executable = CpuExecutable(problem.program(), host_isa(), TINY)
    executable.prepare()
    x, y = np.ones((1, width), np.float32), np.arange(64.0 * width, dtype=np.float32).reshape(64, width)
    room = np.zeros(dst.size + 128, np.uint8)
    first = -address_of(room) % 64 + start
    out = room[first : first + dst.size]
    words = packer(1, 0)(address_of(y))
    executable.call(address_of(x), address_of(out), packed_address(words))
    np.testing.assert_array_equal(out.view(np.float32).reshape(65, width), np.concatenate([x, y]))


@pytest.mark.parametrize("start", [0, 4, 64])
@pytest.mark.parametrize("columns", [48, 64])
def test_what_one_thread_does_alone_streams_nothing_between_cache_lines(
    columns: int, start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All columns are one vector, so that threads have nothing to share.
    monkeypatch.setattr(cpu, "host_caches", lambda: TINY)
    engine, md = rs.Engine("cpu"), MemoryDesc((columns, 20), "f32", "ba")
    pd = rs.LayerNormalizationForward.PrimitiveDesc(engine, "forward_inference", md, md, 0.0, "none")
    x = np.arange(20.0, dtype=np.float32) * np.linspace(1, 2, columns, dtype=np.float32)[:, None]
    out = guarded(md, engine, start)
    primitive, stream = rs.LayerNormalizationForward(pd), rs.Stream(engine)
    primitive.execute(stream, {rs.ARG_SRC: memory_of(md, x, engine), rs.ARG_DST: out.memory})
    stream.wait()
    wanted = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
    np.testing.assert_allclose(out.memory.to_numpy(), wanted, rtol=1e-5, atol=1e-6)
    out.check_canaries()
