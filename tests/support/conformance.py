"""Cases of the driver as tests of conformance: which of them run, where, and what must hold of each.

A case is compared with the driver's formula for its operation, in memories between pages that nobody may
touch; its padding must be zero, its gaps as before, and its bits the same on any number of threads.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import restride as rs
from restride.desc.arguments import is_output
from restride_bench.driver import run as driver
from restride_bench.driver.expand import Test, expand
from restride_bench.driver.result import Outcome
from support.attributed import LEVELS, capped
from support.guarded import Guarded
from support.kernels import runnable
from support.sweeps import covering
from support.sycl import sycl_engine

PLACES = ("reference", *(level for level in LEVELS if level in {isa.name for isa in runnable()}), "sycl")
"""The places where a case runs: the interpreter, the CPU with each instruction set, a SYCL device."""
_THREADS = (1, 2, 5)
_PASSED = (Outcome.PASSED, Outcome.MISTRUSTED)
# What is neither right nor wrong: combinations of a line that make no sense, or that no engine provides.
_LEFT_OUT = (Outcome.SKIPPED, Outcome.UNIMPLEMENTED)
_MOST_LEFT_OUT = 0.5

_MAY_BE_WRITTEN = (rs.ARG_WORKSPACE, rs.ARG_MEAN, rs.ARG_VARIANCE, rs.ARG_SCRATCHPAD)

Bytes = npt.NDArray[np.uint8]


class _PagedStorage:
    """Storage at either end of its pages, between two that nobody may touch; in place of the driver's."""

    _count = 0

    def __init__(self, nbytes: int) -> None:
        _PagedStorage._count += 1
        self._pages = Guarded(nbytes, at_end=bool(_PagedStorage._count % 3))
        self._pages.write(bytes(nbytes))
        self._around = self._pages.around()
        self.bytes: Bytes = self._pages.array()

    def is_intact(self) -> bool:
        """False where something was written outside the storage."""
        return self._pages.around() == self._around


def cases_of(line: str, place: str, *, is_all: bool) -> list[Test]:
    """The cases of a line that run at a place: so many that each pair of values is in one of them, or all."""
    engine = "cpu" if place in LEVELS else place
    tests = expand(f"--engine={engine} {line}".split()).tests
    return list(tests) if is_all else [tests[i] for i in _chosen(line, len(tests), PLACES.index(place))]


@functools.cache
def _chosen(line: str, count: int, place: int) -> list[int]:
    """A place has a share of the pairs of values, a different one each."""
    tests = expand(line.split()).tests
    values = [(*test.case.knobs(is_full=True), test.case.shape) for test in tests]
    numbers: list[dict[str, int]] = [{} for _ in values[0]]
    every = [
        tuple(seen.setdefault(value, len(seen)) for seen, value in zip(numbers, row, strict=True))
        for row in values
    ]
    varied = [i for i, seen in enumerate(numbers) if len(seen) > 1]
    rows = [tuple(row[i] for i in varied) for row in every]
    chosen = covering(rows, min(2, len(varied)))
    shares = len(PLACES) - 1  # a device has a share of its own, which another place has too
    return [i for n, i in enumerate(chosen) if n % shares == place % shares] or [chosen[place % len(chosen)]]


@contextlib.contextmanager
def at_place(place: str) -> Iterator[None]:
    """Kernels of one instruction set; storage of the host between guard pages."""
    if place == "sycl":
        sycl_engine()
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as level:
        if place != "sycl":
            patch.setattr(driver, "GuardedStorage", _PagedStorage)
        if place in LEVELS:
            level.enter_context(capped(place))
        yield


def outcome(line: str) -> Any:
    """Return the result of the single case of a line, which is only created."""
    (test,) = expand(f"--mode=I {line}".split()).tests
    return driver.run(test)


def failures(tests: Sequence[Test], place: str) -> list[str]:
    """Return the failures, with the words that reproduce each case."""
    ways = {"reference": _execute, "sycl": driver.execute}
    execute = ways.get(place, _on_several_threads)
    results = [(test, driver.run(test, execute)) for test in tests]
    wrong = [
        f"{test.repro}: {result.status.name} {result.reason} {' '.join(result.lines[:2])}"
        for test, result in results
        if result.status not in (*_PASSED, *_LEFT_OUT)
    ]
    left_out = [f"{test.repro}: {result.reason}" for test, result in results if result.status in _LEFT_OUT]
    if len(left_out) > _MOST_LEFT_OUT * len(tests):
        wrong.append(f"{len(left_out)} of {len(tests)} did not run: {left_out[0]}")
    return wrong


def _on_several_threads(primitive: Any, stream: rs.Stream, args: dict[int, rs.Memory]) -> None:
    """Execute on any number of threads. Raises AssertionError where one gives other bits."""
    before, count = {arg: _bytes(memory).copy() for arg, memory in args.items()}, rs.get_num_threads()
    found: dict[int, Bytes] = {}
    try:
        for threads in _THREADS:
            rs.set_num_threads(threads)
            for arg, memory in args.items():
                _bytes(memory)[...] = before[arg]
            _execute(primitive, stream, args)
            after = {arg: _bytes(memory).copy() for arg, memory in args.items() if arg != rs.ARG_SCRATCHPAD}
            for arg, data in (found or after).items():
                assert data.tobytes() == after[arg].tobytes(), f"{threads} threads give other bits in {arg}"
            found = after
    finally:
        rs.set_num_threads(count)


def _execute(primitive: Any, stream: rs.Stream, args: dict[int, rs.Memory]) -> None:
    """Execute. Raises AssertionError where an input is written."""
    written = {_bytes(args[arg]).ctypes.data for arg in args if is_output(arg)}
    read = {
        arg: data
        for arg, data in ((arg, _bytes(memory)) for arg, memory in args.items())
        if arg not in _MAY_BE_WRITTEN and data.ctypes.data not in written
    }
    before = {arg: data.tobytes() for arg, data in read.items()}
    primitive.execute(stream, args)
    stream.wait()
    changed = [arg for arg, data in read.items() if data.tobytes() != before[arg]]
    assert not changed, f"inputs {changed} were written"


def _bytes(memory: rs.Memory) -> Bytes:
    data = memory.data
    return np.zeros(0, np.uint8) if data is None else np.asarray(data.reshape(-1).view(np.uint8))
