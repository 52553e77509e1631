"""The cost model: positive, growing with the work, and never better for having less to do it with."""

from dataclasses import replace

import pytest

from restride.schedule.cost import KernelWork, predict
from restride.schedule.machine import RATES, Machine

MACHINE = Machine(vector_bytes=64, l2=1 << 20, l3=32 << 20)
KINDS = ("copy", "transpose", "staged", "strided", "guarded", "zero")
SIZES = [1 << n for n in range(3, 43, 2)]


def _seconds(work, machine=MACHINE):
    return predict(work, machine).seconds


@pytest.mark.parametrize("threads", [1, 2, 64])
@pytest.mark.parametrize("kind", KINDS)
def test_more_bytes_take_longer(kind, threads):
    times = [_seconds(KernelWork(kind, size, size // 8, threads)) for size in SIZES]
    assert times[0] >= RATES.call
    assert times == sorted(set(times))


@pytest.mark.parametrize("kind", KINDS)
def test_large_work_is_no_faster_than_memory(kind):
    found = predict(KernelWork(kind, 1 << 32, 1 << 29, 64), MACHINE)
    assert found.gb_per_s * 1e9 <= RATES.memory_limit
    assert found.moved_bytes == 1 << 32


@pytest.mark.parametrize("size", [1 << 22, 1 << 24, 1 << 30], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_wider_vectors_and_more_threads_take_no_longer(kind, size):
    work = KernelWork(kind, size, size // 8)
    widths = [_seconds(work, replace(MACHINE, vector_bytes=width)) for width in (16, 32, 64)]
    assert widths == sorted(widths, reverse=True)
    assert _seconds(replace(work, threads=2)) < _seconds(work)


def test_what_must_be_read_first_and_what_is_computed_cost_more():
    work = KernelWork("copy", 1 << 30, 1 << 27)
    assert _seconds(replace(work, read_first=1 << 29)) == pytest.approx(1.5 * _seconds(work), rel=0.01)
    assert _seconds(replace(work, function_bytes=32 << 27)) > 3 * _seconds(work)


def test_lane_by_lane_is_slower_than_tiles_and_bounds_checked_slower_still():
    order = [
        _seconds(KernelWork(kind, 1 << 16, 1 << 13)) for kind in ("copy", "transpose", "strided", "guarded")
    ]
    assert order == sorted(set(order))


def test_what_was_measured_is_foretold_and_what_lies_between():
    sizes, turned = (1e5, 1e6, 1e7, 1e8), (8e9, 4e9, 2e9, 1e9)
    curves = ((16e9, 8e9, 4e9, 2e9), (4e9,) * 4, (16e9,) * 4, (2e9,) * 4, turned)
    rates = RATES._replace(call=0.0, sizes=sizes, curves=curves)

    def rate(size, **more):
        return predict(KernelWork("transpose", int(size), 1, **more), MACHINE, rates).gb_per_s

    assert [rate(size) for size in (*sizes, 1e9)] == pytest.approx([8, 4, 2, 1, 1])
    assert rate(10**6.5) == pytest.approx(8**0.5, rel=1e-3)
    assert [rate(1e6, bits=bits, place="near") for bits in (4, 8, 16, 32, 64)] == pytest.approx(
        [4, 4, 8, 16, 16]
    )
    assert [rate(size, place="copy") for size in sizes] == pytest.approx([16, 8, 4, 2])
    assert [rate(size, place="pieces") for size in sizes] == pytest.approx([16, 8, 4, 4])
    strided = predict(KernelWork("strided", 1000, 10**6), MACHINE, rates)
    assert strided.seconds == pytest.approx(10**6 * rates.lane)
