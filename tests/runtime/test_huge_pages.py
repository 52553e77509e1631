"""Pages of a destination: which bytes stand for them, and that no piece of a long job waits for many."""

from __future__ import annotations

import gc
import itertools
import os
import weakref
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restride as rs
from restride.dtypes import DataType
from restride.ir.digits import reorder_nest
from restride.ir.nest import Axis, Compute, LoopNest
from restride.runtime.cpu import huge_pages, kernel
from restride.runtime.cpu.huge_pages import page_offsets
from restride.runtime.cpu.thread_pool import ThreadPool
from support.descriptors import shapes, tags
from support.effort import examples

CPU = rs.Engine("cpu")
PAGE = 64


@pytest.fixture(autouse=True)
def small_pages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "small" in request.node.name:
        monkeypatch.setattr(huge_pages, "HUGE_PAGE", PAGE)


def written(nest: LoopNest) -> set[int]:
    """The bytes at which the elements begin that a nest writes, one position after the other."""
    found = set()
    for position in itertools.product(*(range(axis.extent) for axis in nest.axes)):
        index = [0] * len(nest.bounds)
        for axis, at in zip(nest.axes, position, strict=True):
            if axis.bound >= 0:
                index[axis.bound] += at * axis.step
        if all(i < bound.padded for i, bound in zip(index, nest.bounds, strict=True)):
            offset = sum(axis.dst_offset(at) for axis, at in zip(nest.axes, position, strict=True))
            found.add((nest.dst_base + offset) * nest.dst_type.bits // 8)
    return found


def check(nest: LoopNest) -> None:
    touched, bytes_written = page_offsets([nest]), sorted(written(nest))
    assert touched.dtype == np.int64
    assert list(touched) == sorted(set(touched) & set(bytes_written))
    if bytes_written:
        gaps = [np.abs(touched - byte).min() for byte in bytes_written]
        assert max(gaps) <= PAGE


@settings(max_examples=examples(100))
@given(st.data())
def test_small_pages_all_have_a_byte_that_is_written(data: st.DataObject) -> None:
    dims = data.draw(shapes(max_ndims=4, most=300))
    types = data.draw(st.tuples(*[st.sampled_from(("f32", "bf16", "s8"))] * 2))
    src, dst = (rs.MemoryDesc(dims, kind, data.draw(tags(dims, most=2000))) for kind in types)
    check(reorder_nest(src, dst, Compute()))


def test_small_pages_of_strides_tables_and_nothing() -> None:
    kind = DataType.f32
    rows = Axis(5, 1, -100), Axis(3, 7, 1)
    check(LoopNest(kind, kind, rows, dst_base=400))
    check(LoopNest(kind, kind, (Axis(4, 1, (0, 50, 3, 200)), Axis(2, 9, 1))))
    check(LoopNest(kind, kind, (Axis(0, 1, 1),)))
    check(LoopNest(kind, DataType.s4, (Axis(64, 1, 300), Axis(6, 1, 2))))
    assert list(page_offsets([])) == []


def test_a_page_is_asked_for_without_a_change_of_any_byte() -> None:
    data = np.random.default_rng(0).integers(0, 256, 100 * PAGE, np.uint8)
    before, offsets = data.copy(), np.arange(0, data.size, PAGE)
    ThreadPool(2).prefault(data.ctypes.data, offsets.ctypes.data, len(offsets))
    ThreadPool(1).prefault(data.ctypes.data, offsets.ctypes.data, 0)
    assert (data == before).all()


def count_huge_pages() -> int:
    """The number of huge pages of this process."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("AnonHugePages:")) // 2048


def huge_pages_are_used() -> bool:
    if not Path("/proc/self/smaps_rollup").exists():
        return False
    before, data = count_huge_pages(), np.ones(64 << 20, np.uint8)
    return count_huge_pages() - before > data.nbytes // (4 << 20)


def test_no_piece_of_a_long_transpose_waits_for_many_fresh_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row of the destination has a page of its own, and each piece writes to every row."""
    if not huge_pages_are_used():
        pytest.skip("the system gives no huge pages")
    dims = (1 << 19, 48)
    src, dst = (rs.MemoryDesc(dims, "f32", tag) for tag in ("ab", "ba"))
    x = rs.Memory(src, CPU, np.ones(prod(dims), np.float32))
    pieces: list[int] = []
    run = ThreadPool.run

    def counted(self: ThreadPool, *args: int) -> None:
        before = count_huge_pages()
        run(self, *args)
        pieces.append(count_huge_pages() - before)

    primitive = rs.Reorder(rs.Reorder.PrimitiveDesc(CPU, src, CPU, dst))
    monkeypatch.setattr(ThreadPool, "run", counted)
    primitive.execute(rs.Stream(CPU), x, rs.Memory(dst, CPU))
    assert len(pieces) > 4
    assert max(pieces) <= max(8, os.cpu_count() or 1)


def test_pages_stay_while_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads may find the pages of a kernel at once: one must not take from the other what it uses."""
    made: list[weakref.ref[np.ndarray]] = []

    def pages(nests: object) -> np.ndarray:
        array = np.arange(100)
        made.append(weakref.ref(array))
        return array

    class Asking:
        def prefault(self, dst: int, offsets: int, count: int) -> None:
            work._pages = np.arange(100)
            gc.collect()
            assert made[0]() is not None

    monkeypatch.setattr(kernel, "page_offsets", pages)
    monkeypatch.setattr(kernel, "default_pool", Asking)
    work = kernel.Kernel.__new__(kernel.Kernel)
    work._nests, work._pages = (), None
    work._prefault(0)
    assert len(made) == 1
