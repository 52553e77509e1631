"""Launches of several programs as tables: they run one after the other, on whatever memory a row names."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.model.implementation import Implementation
from restride.runtime.alloc import address_of
from restride.runtime.cpu import launch_image
from restride.runtime.cpu.executable import CpuExecutable
from restride.runtime.cpu.launch_image import ImageWriter, LinkedTable, MemoryPlace, of_process, row

CPU = rs.Engine("cpu")
MD = rs.MemoryDesc((3, 8), "f32")


def square(alpha: float) -> tuple[Implementation, CpuExecutable]:
    """y = alpha * x + 1, with alpha as a scalar of the program."""
    pd = rs.EltwiseForward.PrimitiveDesc(CPU, "forward_inference", "eltwise_linear", MD, MD, alpha, 1.0)
    implementation = rs.EltwiseForward(pd)._check_usable()
    executable = implementation.executable
    assert isinstance(executable, CpuExecutable)
    executable.prepare()
    return implementation, executable


def test_programs_run_in_order_each_with_its_scalars_on_the_memory_of_the_row() -> None:
    writer = ImageWriter(3)
    for alpha, places in ((2.0, (0, 1)), (3.0, (1, 2))):
        implementation, executable = square(alpha)
        slots = [MemoryPlace(number, offset=32) for number in places]
        writer.add(executable, slots, MemoryPlace(1), implementation.computation.scalars)
    table = writer.cut()
    assert table is not None
    assert writer.cut() is None
    assert len(table.sites) == 2
    linked = LinkedTable(table, [of_process(each) for each in writer.kernels])
    for seed in range(2):
        rng = np.random.default_rng(seed)
        memories = [rng.standard_normal(32).astype(np.float32) for _ in range(3)]
        before = [each.copy() for each in memories]
        addresses = row([address_of(each) for each in memories], writer.scalars)
        linked.run(address_of(addresses))
        assert np.array_equal(memories[1][8:], 2 * before[0][8:] + 1)
        assert np.allclose(memories[2][8:], 3 * memories[1][8:] + 1, rtol=1e-6)
        assert all(np.array_equal(a[:8], b[:8]) for a, b in zip(memories, before, strict=True))


def test_tables_name_no_address() -> None:
    tables = []
    for _ in range(2):
        implementation, executable = square(2.0)
        writer = ImageWriter(2)
        writer.add(executable, [MemoryPlace(0), MemoryPlace(1)], MemoryPlace(0), [2.0, 1.0])
        tables.append(writer.cut())
        assert implementation.constants == (None, None)
    assert tables[0] == tables[1]
    assert tables[0] is not None
    assert max(tables[0].words) < 1 << 16


def test_a_table_ends_where_its_work_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    _, executable = square(2.0)
    work = sum(each.work_bytes for each in executable.launches)  # type: ignore[attr-defined]
    monkeypatch.setattr(launch_image, "_TABLE_BYTES", 2 * work)
    writer = ImageWriter(2)
    for is_full in (False, True):
        writer.add(executable, [MemoryPlace(0), MemoryPlace(1)], MemoryPlace(0), [2.0, 1.0])
        assert writer.is_full == is_full
    assert writer.cut() is not None
    assert not writer.is_full
