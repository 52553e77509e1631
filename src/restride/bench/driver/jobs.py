"""Tests one after the other, or in several processes at once; results come in the order of the tests."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import repeat
from math import prod

from ...runtime.pool import available_processors, set_num_threads
from .expand import Test
from .result import Result, Status
from .run import create, run

_WORTH_PROCESSES = 100  # tests; starting a process takes as long as some tens of them
_CHUNK = 16
_LARGE = 1 << 25  # elements

Numbered = tuple[int, Test]


def results(tests: Sequence[Test], count: int) -> Iterator[Result]:
    """The result of every test. `count` is how many processes share them."""
    numbered = list(enumerate(tests))
    if count > 1:
        yield from _shared(numbered, count)
        return
    for chunk in _chunks(numbered):
        _create_ahead(chunk)
        yield from map(_run_one, chunk)


def processes(tests: Sequence[Test], jobs: int) -> int:
    """How many processes to use; `jobs` is what was asked for, 0 for no wish.

    It is one where times are taken, which would disturb each other, and where tests are told before they run.
    """
    if any(test.common.times or test.common.verbose for test in tests) or all(
        test.common.mode == "L" for test in tests
    ):
        return 1
    if jobs:
        return min(jobs, len(tests))
    return available_processors() if len(tests) >= _WORTH_PROCESSES else 1


def _run_one(numbered: Numbered) -> Result:
    index, test = numbered
    return Result(Status.SKIPPED, "Skip start") if index < test.common.start else run(test)


def _create_ahead(tests: Sequence[Numbered]) -> None:
    """What the modifier P asks for: primitives made in several threads at once. They stay in the cache."""
    wanted = [
        test for index, test in tests if "P" in test.common.mode_modifier and index >= test.common.start
    ]
    if not wanted:
        return
    with ThreadPoolExecutor(available_processors()) as pool:
        list(pool.map(create, wanted))


def _shared(tests: Sequence[Numbered], count: int) -> Iterator[Result]:
    # Not forked: a child would have the pool of threads of this process, without its threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context, initializer=_start) as pool:
        pending = [(chunk, pool.submit(_run_all, _small(chunk))) for chunk in _chunks(tests)]
        try:
            for chunk, future in pending:
                yield from _collected(chunk, future)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _chunks(tests: Sequence[Numbered]) -> list[Sequence[Numbered]]:
    return [tests[start : start + _CHUNK] for start in range(0, len(tests), _CHUNK)]


def _small(chunk: Sequence[Numbered]) -> list[Numbered]:
    """What processes run. The others run here, one by one, so that no two ask for the memory at once."""
    return [numbered for numbered in chunk if not _is_large(numbered)]


def _is_large(numbered: Numbered) -> bool:
    return prod(numbered[1].case.dims) > _LARGE


def _start() -> None:
    # Whoever interrupts the run interrupts its first process, which ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Two threads, so that work is shared among threads in these runs too.
    set_num_threads(2)


def _run_all(tests: Sequence[Numbered]) -> list[Result]:
    _create_ahead(tests)
    return [_run_one(numbered) for numbered in tests]


def _collected(chunk: Sequence[Numbered], future: Future[list[Result]]) -> Iterator[Result]:
    try:
        found = iter(future.result())
    except BrokenProcessPool:
        found = repeat(Result(Status.UNTESTED, "the process that ran this test, or one beside it, died"))
    for numbered in chunk:
        yield _run_one(numbered) if _is_large(numbered) else next(found)
