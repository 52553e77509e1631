"""The cost model: positive, growing with the work, and never better for having less to do it with."""

from dataclasses import replace

import pytest

from restride.schedule.cost import Instructions, InstructionWork, KernelWork, predict
from restride.schedule.machine import RATES, Machine, curve_sizes

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


def test_what_must_be_read_first_costs_more():
    work = KernelWork("copy", 1 << 30, 1 << 27)
    assert _seconds(replace(work, read_first=1 << 29)) == pytest.approx(1.5 * _seconds(work), rel=0.01)


def test_lane_by_lane_is_slower_than_tiles_and_bounds_checked_slower_still():
    order = [
        _seconds(KernelWork(kind, 1 << 16, 1 << 13)) for kind in ("copy", "transpose", "strided", "guarded")
    ]
    assert order == sorted(set(order))


# --- by the code -------------------------------------------------------------------------------------------

# A copy in registers of 64 bytes: a load and a store for each two of them.
CODE = InstructionWork(Instructions(1 << 13, 1 << 13), 1 << 20, 1 << 19, place="copy")


def _sized(nbytes, **more):
    lines = nbytes / 128
    return replace(
        CODE, instructions=Instructions(lines, lines), moved_bytes=nbytes, written_bytes=nbytes // 2, **more
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_copies_of_more_bytes_take_longer_by_their_code(threads):
    times = [_seconds(_sized(size, threads=threads)) for size in SIZES]
    assert times[0] >= RATES.call
    assert times == sorted(set(times))


@pytest.mark.parametrize("nbytes", [1 << 16, 1 << 23, 1 << 27], ids=str)
def test_more_instructions_take_longer_the_most_in_the_caches(nbytes):
    work, lines = _sized(nbytes), nbytes / 128
    times = [_seconds(replace(work, instructions=Instructions(n * lines, lines))) for n in (1, 4, 16, 64)]
    assert times == sorted(set(times))
    crowded = replace(work, instructions=Instructions(lines, lines, lines))
    assert _seconds(crowded) > times[0]


def test_the_longer_of_instructions_and_bytes_hides_most_of_the_other():
    many = replace(_sized(1 << 27), instructions=Instructions(1 << 28, 0))
    computing = (1 << 28) * RATES.instruction
    assert computing < _seconds(many) < 1.1 * computing
    few = replace(many, instructions=Instructions(1, 1))
    assert _seconds(few) < _seconds(_sized(1 << 27)) < 1.1 * _seconds(few)


def test_bytes_that_are_written_weigh_more_past_the_caches_alone():
    for nbytes, weight in ((1 << 20, 1.0), (1 << 28, 1.4 / 0.6)):
        work = replace(_sized(nbytes), instructions=Instructions(0, 0))
        read, written = (_seconds(replace(work, written_bytes=n)) - RATES.call for n in (0, nbytes))
        assert written / read == pytest.approx(weight)


def test_threads_share_instructions_and_bytes_as_far_as_memory_lets_them():
    for nbytes, most in ((1 << 23, 2.0), (1 << 28, 1.4)):
        one, two, many = (_seconds(_sized(nbytes, threads=n)) for n in (1, 2, 64))
        assert 1.1 < one / two <= most
        assert two > many


def test_what_was_measured_is_foretold_and_what_lies_between():
    sizes = curve_sizes(MACHINE.l2, MACHINE.l3)
    curves = ((16e9, 8e9, 4e9, 2e9, 1e9), (4e9,) * 5, (16e9,) * 5, (2e9,) * 5, (8e9,) * 5)
    rates = RATES._replace(call=0.0, region=0.0, curves=curves, shared=(32e9, 16e9, 8e9, 4e9, 1.5e9))

    def rate(size, **more):
        work = replace(_sized(int(size), **more), instructions=Instructions(0, 0))
        return predict(work, MACHINE, rates).gb_per_s

    assert [rate(size) for size in (*sizes, 8 * sizes[-1])] == pytest.approx([16, 8, 4, 2, 1, 1])
    assert rate(1) == pytest.approx(16)
    assert rate((sizes[0] * sizes[1]) ** 0.5) == pytest.approx(128**0.5, rel=1e-3)
    assert [rate(MACHINE.l3 + step) for step in (-1, 0)] == pytest.approx([4, 2])  # lines are written past it
    assert [rate(1e6, bits=bits, place="near") for bits in (4, 8, 16, 32, 64)] == pytest.approx(
        [4, 4, 8, 16, 16]
    )
    assert rate(1e6, bits=32, place="turned") == pytest.approx(8)
    assert [rate(size, threads=2) for size in sizes] == pytest.approx([32, 16, 8, 4, 1.5])
    assert rate(sizes[-1], threads=64) == pytest.approx(1.5)
