"""The pool of results: what lives keeps its bytes, what has died is used again, and nothing piles up."""

from __future__ import annotations

import gc
import itertools
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.errors import InvalidArguments, OutOfMemory
from restride.runtime import result_pool as module
from restride.runtime.alloc import address_of
from restride.runtime.result_pool import (
    POOLED_BYTES,
    ResultPool,
    allocate,
    block_size,
    empty_cache,
    take_bytes,
)

SIZE = POOLED_BYTES


@pytest.fixture
def pool() -> Iterator[ResultPool]:
    made = ResultPool(64 << 20)
    yield made
    made.trim()


def _address(pool: ResultPool, nbytes: int = SIZE) -> int:
    address, _ = pool.take(nbytes)
    return address


def _run(program: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.strip()


# --- one after the other ------------------------------------------------------------------------------------


@pytest.mark.parametrize("nbytes", [SIZE, SIZE + 1, 3 << 20, (8 << 20) - 1, 8 << 20, (9 << 20) + 12345])
def test_the_next_result_lies_where_the_last_one_died(pool: ResultPool, nbytes: int) -> None:
    first = _address(pool, nbytes)
    assert first % 4096 == 0
    assert [_address(pool, nbytes) for _ in range(3)] == [first] * 3


def test_living_arrays_share_no_byte(pool: ResultPool) -> None:
    held = [pool.take(nbytes) for nbytes in (SIZE, SIZE, 300_000, 1 << 20, 5 << 20, SIZE, 9 << 20)]
    ends = sorted((address, address + len(array)) for address, array in held)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ends))


def test_an_array_is_writable_and_as_long_as_asked(pool: ResultPool) -> None:
    address, array = pool.take(SIZE + 5)
    assert array.dtype == np.uint8
    assert array.flags.writeable
    assert len(array) >= SIZE + 5
    assert address_of(array) == address


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "a slice": lambda y: y[..., 1:],
    "a transpose of a view": lambda y: y.view(np.uint32).T[::2],
    "a memoryview": memoryview,
    "an array of a memoryview": lambda y: np.asarray(memoryview(y)),
    "a read of the buffer": lambda y: np.frombuffer(y, np.uint8),
    "a capsule": lambda y: y.__dlpack__(),
    "an import of it": np.from_dlpack,
    "an array of another class": lambda y: y.view(np.recarray),
    "a memory": rs.Memory.from_numpy,
    "the base": lambda y: y.base,
    "the base of the base": lambda y: y[1:].base,
    "an iterator": lambda y: y.flat,
}


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=list(HOLDERS))
def test_whoever_refers_to_a_result_keeps_its_bytes(hold: Callable[[Any], Any]) -> None:
    x = np.arange(2 * 8 * 128 * 64, dtype=np.float32).reshape(2, 8, 128, 64)
    y = rs.reorder(x, None)
    first = address_of(y)
    held = hold(y)
    del y
    assert address_of(rs.reorder(x, None)) != first
    del held
    gc.collect()
    # The pool's keeper may have changed the order of what waits at this very moment.
    results = [rs.reorder(x, None) for _ in range(8)]
    assert first in map(address_of, results)


def test_memories_come_from_the_pool_and_go_back() -> None:
    md = rs.MemoryDesc((4, 64, 56, 56), "f32", "nChw16c")
    memory = rs.Memory(md, rs.Engine("cpu"))
    first = memory.get_data_handle()
    data = memory.data
    del memory
    assert rs.Memory(md, rs.Engine("cpu")).get_data_handle() != first
    del data
    assert rs.Memory(md, rs.Engine("cpu")).get_data_handle() == first


def test_what_a_finalizer_brings_back_to_life_keeps_its_bytes(pool: ResultPool) -> None:
    class Phoenix:
        def __init__(self) -> None:
            self.me = self
            self.address, self.array = pool.take(SIZE)

        def __del__(self) -> None:
            alive.append(self)

    alive: list[Phoenix] = []
    Phoenix()
    gc.collect()
    assert len(alive) == 1
    assert _address(pool) != alive[0].address
    address = alive.pop().address
    gc.collect()
    assert address in {_address(pool), _address(pool)}


def test_what_dies_in_another_thread_comes_back(pool: ResultPool) -> None:
    held = [pool.take(SIZE)]
    first = held[0][0]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert _address(pool) == first


# --- any thread, any time -----------------------------------------------------------------------------------


def _fill_and_check(pool: ResultPool, mark: int, seconds: float, faults: list[str]) -> None:
    """Hold a few arrays, each filled with a byte of its own, and look at all of them again and again."""
    dice, held = random.Random(mark), []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        array = pool.take(dice.choice((SIZE, SIZE, SIZE + 40_000, 1 << 20)))[1]
        byte = dice.randrange(256)
        array[:: 1 << 12] = byte
        held.append((array, byte))
        if len(held) > 4:
            old, was = held.pop(dice.randrange(len(held)))
            if not (old[:: 1 << 12] == was).all():
                faults.append("another thread has written here")


def test_threads_never_share_a_block(pool: ResultPool) -> None:
    faults: list[str] = []
    threads = [threading.Thread(target=_fill_and_check, args=(pool, i, 0.4, faults)) for i in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not faults


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers")
def test_a_handler_of_a_signal_takes_and_drops_blocks_at_any_moment(pool: ResultPool) -> None:
    faults: list[str] = []
    taken: list[Any] = []
    depth = [0]

    def handle(*_: object) -> None:
        # Handlers interrupt each other; on a busy machine without end.
        if depth[0] > 5:
            return
        depth[0] += 1
        array = pool.take(SIZE)[1]
        array[:: 1 << 12] = 99
        taken.append(array)
        if len(taken) > 3:
            del taken[::2]
        depth[0] -= 1

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
    try:
        _fill_and_check(pool, 1, 0.3, faults)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not faults
    assert all((array[:: 1 << 12] == 99).all() for array in taken)


def test_a_handler_that_raises_at_any_moment_loses_no_block(pool: ResultPool) -> None:
    class Interruption(Exception):
        pass

    def trace(frame: Any, event: str, arg: object) -> Any:
        if frame.f_code.co_filename == module.__file__:
            frame.f_trace_opcodes = True
            steps[0] -= 1
            if not steps[0]:
                raise Interruption
        return trace

    steps = [0]
    for stop in range(1, 400, 3):
        steps[0] = stop
        sys.settrace(trace)
        try:
            for _ in range(2):
                pool.take(SIZE)
        except Interruption:
            pass
        finally:
            sys.settrace(None)
    pool._look_after(time.monotonic())
    gc.collect()
    assert not pool._finalizers
    a, b = pool.take(SIZE), pool.take(SIZE)
    assert abs(a[0] - b[0]) >= SIZE


def test_a_fork_shares_no_block_that_is_written_again(pool: ResultPool) -> None:
    array = pool.take(SIZE)[1]
    _address(pool, 1 << 20)
    pool.begin_era()
    assert not pool.idle_bytes
    del array
    assert pool.trim() == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_parent_and_child_go_on_after_a_fork() -> None:
    assert (
        _run("""
            import os, numpy as np, restride as rs
            x = np.arange(2 * 3 * 256 * 256, dtype=np.float32).reshape(2, 3, 256, 256)
            y = rs.reorder(x, "nhwc")
            rs.reorder(x, "nhwc")
            pid = os.fork()
            for _ in range(5):
                good = bool((rs.reorder(x, "nhwc") == x).all()) and bool((y == x).all())
            del y
            good = good and bool((rs.reorder(x, "nhwc") == x).all())
            if not pid:
                os._exit(0 if good else 1)
            print(good and os.waitpid(pid, 0)[1] == 0)
        """)
        == "True"
    )


def test_a_program_ends_with_results_alive() -> None:
    program = """
        import threading, time, numpy as np, restride as rs
        x = np.zeros((2, 3, 256, 256), np.float32)
        kept = [rs.reorder(x, "nhwc") for _ in range(3)]
        class Late:
            def __del__(self):
                rs.reorder(x, "nhwc")
        late = Late()
        def work():
            while True:
                rs.reorder(x, "nhwc")
        threading.Thread(target=work, daemon=True).start()
        time.sleep(0.05)
        print("end")
    """
    assert _run(program) == "end"


# --- nothing piles up ---------------------------------------------------------------------------------------


def test_no_more_than_the_limit_waits() -> None:
    pool = ResultPool(10 << 20)
    held = [pool.take(size << 20) for size in (3, 9, 11, 9, 2)]
    del held
    assert pool.trim(10 << 20) == 0
    assert 0 < pool.idle_bytes <= 10 << 20
    assert pool.trim() > 0
    assert pool.idle_bytes == 0


def test_a_limit_of_none_recycles_nothing() -> None:
    pool = ResultPool(0)
    held = [pool.take(SIZE)[1] for _ in range(3)]
    held[0][:] = 1
    del held
    pool.take(SIZE)
    assert pool.idle_bytes == 0


def test_blocks_that_have_waited_go_back_to_the_system(
    pool: ResultPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("_TICK_S", 0.01), ("_WAIT_S", 0.01), ("_SPARE_S", 0.02), ("_IDLE_S", 0.1)):
        monkeypatch.setattr(module, name, seconds)
    pool.take(SIZE)
    pool.take(9 << 20)
    end = time.monotonic() + 20
    while (pool._finalizers or pool.idle_bytes or not pool._keeper) and time.monotonic() < end:
        time.sleep(0.01)
    assert (len(pool._finalizers), pool.idle_bytes, len(pool._keeper)) == (0, 0, 1)


def test_what_the_system_may_take_holds_what_is_written_later(pool: ResultPool) -> None:
    address, array = pool.take(1 << 20)
    del array
    pool._look_after(time.monotonic())
    pool._look_after(time.monotonic() + module._SPARE_S * 2)
    again, array = pool.take(1 << 20)
    array[:] = 7
    assert again == address
    assert (array == 7).all()


def test_where_memory_runs_short_nothing_waits(pool: ResultPool, monkeypatch: pytest.MonkeyPatch) -> None:
    pool.take(9 << 20)
    monkeypatch.setattr(module, "free_memory", lambda: (100 << 20, 7 << 20))
    pool._look_after(time.monotonic())
    assert pool.idle_bytes > 0
    monkeypatch.setattr(module, "free_memory", lambda: (100 << 20, 5 << 20))
    pool._look_after(time.monotonic())
    assert pool.idle_bytes == 0


def test_what_waits_is_given_back_before_a_refusal_is_an_error(
    pool: ResultPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.take(9 << 20)
    pool.take(SIZE)
    new_blocks, refusals = pool._new_blocks, [True]

    def refuse_once(size: int, era: int, most: int) -> Any:
        if refusals and refusals.pop():
            raise MemoryError
        assert pool.idle_bytes == 0
        return new_blocks(size, era, most)

    monkeypatch.setattr(pool, "_new_blocks", refuse_once)
    assert len(pool.take(20 << 20)[1]) >= 20 << 20


@pytest.mark.parametrize("nbytes", [2**60, 2**63 - 1, 2**63, 2**70])
def test_more_than_there_is_is_out_of_memory(nbytes: int) -> None:
    with pytest.raises(OutOfMemory, match="cannot allocate"):
        allocate(nbytes)
    with pytest.raises(OutOfMemory):
        take_bytes(nbytes)


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory")
def test_after_ten_thousand_calls_no_more_memory_is_held() -> None:
    program = """
        import os, numpy as np, restride as rs
        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        images = [np.zeros((1, 16, side, side), np.float32) for side in (65, 80, 97, 128)]
        def work(times):
            for i in range(times):
                x = images[i % 4]
                y = rs.reorder(x, "nhwc")
                if not i % 10:
                    rs.reorder(y, "nChw16c")
        work(200)
        before = resident()
        work(10_000)
        print(resident() - before)
    """
    assert int(_run(program)) < 2 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory")
def test_trim_gives_memory_back() -> None:
    program = """
        import os, numpy as np, restride as rs
        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        kept = rs.empty((1 << 20,), "f32")
        for size in (1 << 20, 1 << 22, 1 << 24):
            rs.empty((size,), "f32")[:] = 1
        before = resident()
        given = rs.empty_cache()
        print(given >= 80 << 20, before - resident() > 70 << 20, rs.empty_cache(), kept.nbytes)
    """
    assert _run(program) == "True True 0 4194304"


def test_trim_before_any_result_does_nothing() -> None:
    assert _run("import restride as rs; print(rs.empty_cache())") == "0"
    assert isinstance(empty_cache(), int)


@pytest.mark.parametrize("text", ["none", "-1", "1e9"])
def test_a_limit_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("RESTRIDE_RESULT_POOL", text)
    monkeypatch.setattr(module, "_pools", {})
    with pytest.raises(InvalidArguments, match="RESTRIDE_RESULT_POOL"):
        rs.empty((1 << 20,), "f32")


def test_the_limit_of_the_environment_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTRIDE_RESULT_POOL", str(5 << 20))
    monkeypatch.setattr(module, "_pools", {})
    assert module.result_pool().limit == 5 << 20


@pytest.mark.parametrize("nbytes", [1, 4096, SIZE, SIZE + 1, 10**6, (1 << 23) + 1, 10**9 + 7])
def test_blocks_are_whole_pages_and_little_longer_than_asked(nbytes: int) -> None:
    size = block_size(nbytes)
    assert size % 4096 == 0
    assert nbytes <= size <= max(nbytes * 9 / 8 + 1, nbytes + 4096)
    assert block_size(size) == size
