"""Tests one after the other, or in several processes at once; results come in the order of the tests."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from math import prod

from restride.runtime.cpu.thread_pool import available_processors, set_num_threads

from .expand import Test
from .result import Outcome, Result
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
    """Return the number of processes to use; `jobs` is the requested number, 0 for automatic.

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
    return Result(Outcome.SKIPPED, "Skip start") if index < test.common.start else run(test)


def _create_ahead(tests: Sequence[Numbered]) -> None:
    """Create primitives in several threads at once, for the modifier P. They stay in the cache."""
    wanted = [
        test for index, test in tests if "P" in test.common.mode_modifier and index >= test.common.start
    ]
    if not wanted:
        return
    with ThreadPoolExecutor(available_processors()) as pool:
        list(pool.map(create, wanted))


def _shared(tests: Sequence[Numbered], count: int) -> Iterator[Result]:
    """Results from several processes. One that dies takes its test with it, and no other."""
    chunks = deque(_chunks(tests))
    while chunks:
        yield from _until_one_dies(chunks, count)
        if chunks:
            yield from map(_alone, chunks.popleft())


def _until_one_dies(chunks: deque[Sequence[Numbered]], count: int) -> Iterator[Result]:
    """The results of the chunks in front; those chunks are taken away."""
    with _pool(count) as pool:
        try:
            for future in _submitted(pool, [_small(chunk) for chunk in chunks]):
                found = iter(future.result())
                for numbered in chunks.popleft():
                    yield _run_one(numbered) if _is_large(numbered) else next(found)
        except BrokenProcessPool:
            return
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _alone(numbered: Numbered) -> Result:
    """The result of a test that may be the one."""
    if _is_large(numbered):
        return _run_one(numbered)
    with _pool(1) as pool:
        try:
            return _submitted(pool, [[numbered]])[0].result()[0]
        except BrokenProcessPool:
            return Result(Outcome.UNTESTED, "its process died")


def _pool(count: int) -> ProcessPoolExecutor:
    # Not forked: a child would have the pool of threads of this process, without its threads.
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _start)


def _submitted(pool: ProcessPoolExecutor, chunks: Sequence[Sequence[Numbered]]) -> list[Future[list[Result]]]:
    with _nameless_main():
        return [pool.submit(_run_all, chunk) for chunk in chunks]


@contextlib.contextmanager
def _nameless_main() -> Iterator[None]:
    """Started processes do not run the caller's script, which may have no guard: nothing of it is needed."""
    main = sys.modules["__main__"]
    held = {name: value for name, value in vars(main).items() if name in ("__spec__", "__file__")}
    for name in held:
        setattr(main, name, None)
    try:
        yield
    finally:
        for name, value in held.items():
            setattr(main, name, value)


def _chunks(tests: Sequence[Numbered]) -> list[Sequence[Numbered]]:
    return [tests[start : start + _CHUNK] for start in range(0, len(tests), _CHUNK)]


def _small(chunk: Sequence[Numbered]) -> list[Numbered]:
    """The tests that run in processes. Large ones run here, one by one, to limit memory."""
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
