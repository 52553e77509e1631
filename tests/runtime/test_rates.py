"""The rates of this machine: measured once and kept, checked when read, and of no influence on kernels."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import restride as rs
from restride.runtime.cpu import rates, schedule_search
from restride.runtime.cpu.rates import measure, parse_rates, rates_of, rates_text
from restride.schedule.machine import RATES, Rates
from restride.targets.isa import CacheSizes, host_caches, host_isa

_COPIES = (80e9, 4e9, 2e9, 1e9, 1e9)
_CURVES = {"curves": (_COPIES, *[(8e9, 4e9, 2e9, 5e8, 5e8)] * 4), "shared": _COPIES}


def _parsed(**changes: float) -> Rates:
    """Rates as they are read back."""
    found = parse_rates(rates_text(RATES._replace(**changes, **_CURVES)))
    assert found is not None
    return found


_SLOW = _parsed(region=1e-5, copy=80e9, cache=4e9, memory=1e9, memory_limit=1.5e9)
_SMALL = CacheSizes(l2=1 << 17, l3=1 << 20)
_MOVED = rs.MemoryDesc((1 << 23,), "f32", "a")


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = rs.get_num_threads()
    yield rs.set_num_threads
    rs.set_num_threads(before)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[CacheSizes]:
    """A store with nothing in it, and a machine that is slow; the caches of each measurement."""
    found: list[CacheSizes] = []

    def slow(isa: object, caches: CacheSizes) -> Rates:
        found.append(caches)
        return _SLOW

    monkeypatch.setenv("RESTRIDE_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.setattr(rates, "measure", slow)
    return found


def test_what_was_measured_is_kept_and_read_back(measured: list[CacheSizes]) -> None:
    assert rates_of("a processor") == _SLOW
    again = rates_of("a processor")
    assert measured == [host_caches()]
    names = ("region", "copy", "cache", "memory", "memory_limit", "curves", "shared")
    assert [getattr(again, name) for name in names] == [getattr(_SLOW, name) for name in names]


def test_another_processor_and_another_number_of_threads_are_measured_anew(
    measured: list[CacheSizes], threads: Callable[[int], None]
) -> None:
    threads(1)
    rates_of("one")
    rates_of("another")
    threads(2)
    rates_of("another")
    assert len(measured) == 3
    rates_of("another")
    assert len(measured) == 3


def test_what_is_not_measured_is_scaled_by_what_copies_are() -> None:
    slow = _parsed(copy=RATES.copy / 2)
    assert slow.tiles == tuple(rate / 2 for rate in RATES.tiles)
    assert (slow.store, slow.call, slow.lane) == (2 * RATES.store, 2 * RATES.call, 2 * RATES.lane)
    assert _parsed() == RATES._replace(**_CURVES)
    assert parse_rates(rates_text(RATES._replace(curves=RATES.curves[:-1]))) is None  # of another version


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"\xff\xfe", b"words", b"1e-6 1e11 1e10 1e10", b"1e-6 1e11 1e10 1e10 1e10 1e10"),
        *(b"nan 1e11 1e10 1e10 1e10", b"1e-6 inf 1e10 1e10 1e10", b"1e-6 1e11 0 1e10 1e10"),
        *(b"-1 1e11 1e10 1e10 1e10", b"5 1e11 1e10 1e10 1e10", b"1e-6 1e11 1e10 -1e10 1e10"),
    ],
)
def test_a_text_that_is_broken_or_of_no_machine_is_ignored(
    text: bytes, measured: list[CacheSizes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert parse_rates(text) is None
    rates_of("another")  # by now the pool has read its code, which the store keeps too
    kept = rates.default_store()
    monkeypatch.setattr(kept, "get", lambda key: text)
    assert rates_of("a processor") == _SLOW
    assert len(measured) == 2


def test_a_damaged_file_is_ignored_with_a_warning(measured: list[CacheSizes], tmp_path: Path) -> None:
    rates_of("a processor")
    (file,) = (tmp_path / "store").glob("*.o")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert rates_of("a processor") == _SLOW
    assert len(measured) == 2


def test_this_machine_is_measured_soon() -> None:
    measure(host_isa(), _SMALL)
    begin = time.perf_counter()
    found = measure(host_isa(), _SMALL)
    # Moves of a few megabytes, and what else the machine has to do.
    assert time.perf_counter() - begin < 5
    assert parse_rates(rates_text(found)) == found
    assert found.memory <= found.cache <= found.copy
    assert found.memory <= found.memory_limit


def test_a_plan_that_measures_predicts_by_them_and_no_other_plan_does(
    measured: list[CacheSizes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule_search, "_SECONDS", 0.0)
    before = rs.plan(_MOVED, None)
    found = rs.plan(_MOVED, None, effort="measure")
    after = rs.plan(_MOVED, None)
    assert measured
    assert found.predicted.seconds > 10 * before.predicted.seconds
    assert after.predicted == before.predicted
    assert after.ir == before.ir
