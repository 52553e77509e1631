"""The cache of primitives and kernels: what is kept, what is made once, and how large it may get."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import restride as rs
from restride.runtime.cache import CacheInfo, LruCache
from restride.runtime.cpu import kernel
from support.errors import refused

CPU = rs.Engine("cpu")
STREAM = rs.Stream(CPU)
THREADS = 64


@pytest.fixture
def capacity():
    """Sets the capacity; afterward it is what it was."""
    before = rs.get_primitive_cache_capacity()
    yield rs.set_primitive_cache_capacity
    rs.set_primitive_cache_capacity(before)


@pytest.fixture
def compiled(monkeypatch):
    """Counts the kernels that are loaded, by nest."""
    counts: Counter[object] = Counter()

    class Counted(kernel.KernelCode):
        __slots__ = ()

        def __init__(self, lowered):
            counts[lowered.nests[0]] += 1
            super().__init__(lowered)

    monkeypatch.setattr(kernel, "KernelCode", Counted)
    return counts


# The cache by itself


def lru(size: int) -> LruCache[object]:
    return LruCache(lambda: size)


def test_a_value_is_made_once_and_found_ever_after():
    cache, made = lru(4), []
    for _ in range(3):
        value, _ = cache.get_or_make("a", lambda: made.append(1) or "A")
        assert value == "A"
    assert made == [1]
    assert cache.get_or_make("a", lambda: None) == ("A", True)


def test_the_least_recently_used_goes_first():
    cache = lru(2)
    for key in "abacab":
        cache.get_or_make(key, lambda key=key: key.upper())
    assert cache.get_or_make("a", lambda: "new") == ("A", True)
    assert cache.get_or_make("b", lambda: "new") == ("B", True)
    assert cache.get_or_make("c", lambda: "new") == ("new", False)
    assert len(cache) == 2


def test_no_capacity_keeps_nothing():
    cache = lru(0)
    assert [cache.get_or_make("a", object)[1] for _ in range(3)] == [False] * 3
    assert len(cache) == 0


def test_trimming_keeps_the_newest():
    cache = lru(10)
    for key in range(10):
        cache.get_or_make(key, lambda key=key: key + 100)
    cache.trim(3)
    assert [cache.get_or_make(key, lambda: None)[1] for key in (7, 8, 9)] == [True] * 3
    assert len(cache) == 3


def test_a_failure_is_told_to_who_asked_and_not_kept():
    cache = lru(4)

    def fail():
        raise rs.RuntimeFailure("no luck")

    for _ in range(2):
        with pytest.raises(rs.RuntimeFailure):
            cache.get_or_make("a", fail)
    assert cache.get_or_make("a", lambda: 1) == (1, False)


@pytest.mark.parametrize("size", [0, 1, 8])
def test_those_who_ask_meanwhile_wait_for_the_one_that_is_being_made(size):
    cache, made, gate, asked = lru(size), [], threading.Barrier(16), []

    class Key:
        """Each who asks looks for it once in what is kept, then in what is being made."""

        def __hash__(self):
            asked.append(threading.get_ident())
            return 1

    key = Key()

    def make():
        made.append(1)
        end = time.monotonic() + 60
        while len(asked) < 32 and time.monotonic() < end:
            time.sleep(0.001)
        return object()

    def ask(_):
        gate.wait(120)
        return cache.get_or_make(key, make)[0]

    with ThreadPoolExecutor(16) as pool:
        values = list(pool.map(ask, range(16)))
    assert len(made) == 1
    assert len(set(map(id, values))) == 1


def test_different_values_are_made_at_the_same_time():
    cache, both = lru(4), threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(cache.get_or_make, key, lambda: both.wait(120) is not None) for key in "ab"]
        assert all(done.result(120)[0] for done in asked)


def test_making_a_value_may_ask_for_itself_as_a_signals_handler_would():
    cache = lru(4)
    inner = cache.get_or_make("a", lambda: cache.get_or_make("a", lambda: "inner")[0] + " again")
    assert inner[0] == "inner again"


def test_after_a_failure_those_who_waited_try_themselves():
    cache, gate, failures = lru(4), threading.Barrier(8), [3]

    def make():
        time.sleep(0.01)
        failures[0] -= 1
        if failures[0] >= 0:
            raise rs.RuntimeFailure("no luck")
        return "made"

    def ask(_):
        gate.wait(120)
        try:
            return cache.get_or_make("a", make)[0]
        except rs.RuntimeFailure:
            return "failed"

    with ThreadPoolExecutor(8) as pool:
        answers = Counter(pool.map(ask, range(8)))
    assert answers == {"failed": 3, "made": 5}


# What it did


def test_a_cache_counts_what_it_found_made_and_let_go():
    cache = lru(2)
    assert cache.info() == CacheInfo(0, 0, 0, 0, 2)
    for key in "aabac":
        cache.get_or_make(key, lambda key=key: key)
    assert cache.info() == CacheInfo(hits=2, misses=3, evictions=1, size=2, capacity=2)
    cache.trim(0)
    assert cache.info() == CacheInfo(2, 3, 3, 0, 2)


def test_what_is_never_kept_is_never_let_go():
    cache = lru(0)
    for _ in range(3):
        cache.get_or_make("a", object)
    assert cache.info() == CacheInfo(hits=0, misses=3, evictions=0, size=0, capacity=0)


def test_what_cannot_be_made_is_not_counted():
    cache = lru(2)
    with pytest.raises(ZeroDivisionError):
        cache.get_or_make("a", lambda: 1 / 0)
    assert cache.info() == CacheInfo(0, 0, 0, 0, 2)


def test_those_who_waited_for_a_value_found_it():
    cache, gate = lru(4), threading.Barrier(16)

    def ask(_):
        gate.wait(120)
        return cache.get_or_make("a", lambda: time.sleep(0.05) or "A")[0]

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(ask, range(16))) == {"A"}
    assert cache.info() == CacheInfo(hits=15, misses=1, evictions=0, size=1, capacity=4)


def test_whoever_wants_to_know_is_told_what_goes_with_no_lock_held():
    told: list[object] = []

    def tell(value: str) -> None:
        with ThreadPoolExecutor(1) as pool:
            told.append((value, pool.submit(cache.info).result(120).evictions))

    cache = LruCache(lambda: 1, tell)
    for key in "abc":
        cache.get_or_make(key, lambda key=key: key.upper())
    assert told == [("A", 1), ("B", 2)]


def solve(dims):
    return rs.Reorder.PrimitiveDesc(CPU, rs.MemoryDesc(dims, "f32"), CPU, rs.MemoryDesc(dims, "f32", "ba"))


def since(before):
    """Hits, misses and evictions of solved problems since `before`."""
    now = rs.cache_info()["primitives"]
    return now.hits - before.hits, now.misses - before.misses, now.evictions - before.evictions


def test_the_primitive_cache_tells_hits_misses_and_evictions(capacity):
    capacity(0)
    capacity(2)
    before = rs.cache_info()["primitives"]
    assert (before.size, before.capacity) == (0, 2)
    dims = [fresh_dims(600 + i) for i in range(3)]
    for shape in (dims[0], dims[1], dims[0], dims[2], dims[0], dims[1]):
        solve(shape)
    # dims[1] was the least recently used when dims[2] came, and dims[2] when dims[1] came again.
    assert since(before) == (2, 4, 2)
    assert rs.cache_info()["primitives"].size == 2


def calls_since(before):
    """Hits, misses and evictions of calls on arrays since `before`."""
    now = rs.cache_info()["calls"]
    return now.hits - before.hits, now.misses - before.misses, now.evictions - before.evictions


def test_calls_on_arrays_tell_hits_misses_and_evictions(capacity):
    capacity(0)
    capacity(2)
    before = rs.cache_info()["calls"]
    assert (before.size, before.capacity) == (0, 2)
    arrays = [np.zeros(fresh_dims(640 + i), np.float32) for i in range(3)]
    for x in (arrays[0], arrays[1], arrays[0], arrays[0], arrays[2], arrays[1]):
        rs.reorder(x, "ba")
    # The oldest goes first: arrays[0] when arrays[2] came, although it had been asked for again.
    assert calls_since(before) == (3, 3, 1)
    rs.shuffle(arrays[0], group_size=1)
    assert calls_since(before) == (3, 4, 2)
    assert rs.cache_info()["calls"].size == 2


def test_calls_of_several_threads_are_all_counted(capacity):
    x = np.zeros(fresh_dims(650), np.float32)
    rs.reorder(x, "ba")
    before = rs.cache_info()["calls"]
    threads = [threading.Thread(target=lambda: [rs.reorder(x, "ba") for _ in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls_since(before) == (2000, 0, 0)


def test_calls_are_not_kept_where_the_cache_is_off(capacity):
    capacity(0)
    before = rs.cache_info()["calls"]
    x = np.zeros(fresh_dims(660), np.float32)
    for _ in range(2):
        rs.reorder(x, "ba")
    assert calls_since(before) == (0, 2, 0)


def test_an_eviction_is_a_verbose_line(capacity, capsys):
    capacity(0)
    capacity(1)
    with rs.set_verbose("profile_create"):
        solve(fresh_dims(610))
        solve(fresh_dims(611))
    operations = [line.split(",")[3] for line in capsys.readouterr().err.splitlines() if ",reorder," in line]
    assert operations == ["create:cache_miss", "cache:evict", "create:cache_miss"]


def test_kernels_are_counted_apart_and_shared_by_equal_problems():
    before = rs.cache_info()["kernels"]
    dims = fresh_dims(620)
    for format in ("ba", (1, dims[0])):
        dst = rs.MemoryDesc(dims, "f32", format)
        rs.Reorder(rs.Reorder.PrimitiveDesc(CPU, rs.MemoryDesc(dims, "f32"), CPU, dst))
        rs.reorder(np.zeros(dims, np.float32), "ba")
    now = rs.cache_info()["kernels"]
    assert now.misses - before.misses == 1


def test_kernels_of_all_kinds_are_kept_in_one_cache(capacity):
    capacity(0)
    capacity(1)
    x = np.arange(4096 * 7, dtype=np.float32).reshape(4096, 7)
    rs.reorder(x, "ba")
    # Scales are found by a kernel that reduces.
    rs.quantize(x, axis=1)
    assert rs.cache_info()["kernels"].size == 1
    capacity(64)
    solve(fresh_dims(630))
    rs.quantize(x[:-1], axis=1)
    assert rs.cache_info()["kernels"].size > 1
    capacity(0)
    assert rs.cache_info()["kernels"].size == 0


def test_every_cache_has_its_line_and_the_same_capacity():
    # That of the sums is there from the first one on.
    importlib.import_module("restride.runtime.cpu.ranges")
    infos = rs.cache_info()
    assert {"calls", "primitives", "kernels", "sums"} == set(infos)
    assert {info.capacity for info in infos.values()} == {rs.get_primitive_cache_capacity()}


def test_every_cache_has_its_line_before_it_is_needed():
    code = "import restride as rs; print(*sorted(rs.cache_info()), rs.cache_info()['sums'].size)"
    assert run(code) == "calls kernels primitives sums 0"


def test_the_key_is_descriptors_attributes_and_engine_whatever_the_number_of_threads(capacity):
    capacity(0)
    capacity(64)
    dims, threads = fresh_dims(630), rs.get_num_threads()
    attr = rs.PrimitiveAttr()
    attr.set_output_scales(0, [0.5])
    user = rs.PrimitiveAttr()
    user.set_scratchpad_mode("user")
    src, dst = rs.MemoryDesc(dims, "f32", "ab"), rs.MemoryDesc(dims, "f32", "ba")
    reference = rs.Engine("reference")
    keys = [
        (CPU, src, CPU, dst),
        (CPU, dst, CPU, src),
        (CPU, src, CPU, dst, attr),
        (CPU, src, CPU, dst, user),
        (reference, src, reference, dst),
    ]
    before = rs.cache_info()["primitives"]
    try:
        for count in (1, 2):
            rs.set_num_threads(count)
            for key in keys:
                rs.Reorder.PrimitiveDesc(*key)
    finally:
        rs.set_num_threads(threads)
    assert since(before) == (5, 5, 0)


def scaled(values):
    attr = rs.PrimitiveAttr()
    attr.set_scales(rs.ARG_SRC, 3, values)
    attr.set_zero_points(rs.ARG_DST, 3, np.arange(values.size, dtype=np.int32).reshape(values.shape))
    return attr


def scaled_pd(dims, values):
    mds = rs.MemoryDesc(dims, "f32", (dims[1], 1)), rs.MemoryDesc(dims, "s8", (dims[1], 1))
    return rs.Reorder.PrimitiveDesc(CPU, mds[0], CPU, mds[1], scaled(values))


def test_values_of_an_array_of_several_dims_and_of_a_run_are_one_entry():
    before, values = rs.cache_info()["primitives"], np.arange(1, 29, dtype=np.float32).reshape(4, 7)
    made = [scaled_pd((4, 7), given) for given in (values, values.ravel(), values[:, None], values)]
    assert since(before) == (3, 1, 0)
    assert len({id(pd._impl.executable) for pd in made}) == 1
    for _ in range(2):
        with pytest.raises(rs.InvalidArguments, match="the array is 7 x 4"):
            scaled_pd((4, 7), values.reshape(7, 4))
    assert since(before) == (3, 1, 0)


@pytest.mark.parametrize("first", ["array", "run"])
def test_the_shape_of_values_for_dims_of_an_execution_is_checked_there(first):
    values, memories = np.ones((7, 4), np.float32), []
    for data_type in ("f32", "s8"):
        memories.append(rs.Memory(rs.MemoryDesc((4, 7), data_type, "ab"), CPU))
    given = {"array": values, "run": values.ravel()}
    made = {
        name: rs.Reorder(scaled_pd((rs.RUNTIME_DIM,) * 2, given[name]))
        for name in sorted(given, reverse=first == "run")
    }
    made["run"].execute(rs.Stream(CPU), *memories)
    with pytest.raises(rs.InvalidArguments, match="the array is 7 x 4"):
        made["array"].execute(rs.Stream(CPU), *memories)
    made["run"].execute(rs.Stream(CPU), *memories)


def test_creating_what_is_in_the_cache_takes_microseconds():
    dims = fresh_dims(640)
    solve(dims)

    def one() -> float:
        start = time.perf_counter()
        solve(dims)
        return time.perf_counter() - start

    # Descriptors are made here as well; others share this machine.
    assert min(one() for _ in range(50)) < 500e-6


# The capacity


def test_the_capacity_is_1024_unless_said_otherwise():
    code = "import restride as rs; print(rs.onednn.get_primitive_cache_capacity())"
    assert run(code) == "1024"
    assert run(code, RESTRIDE_PRIMITIVE_CACHE_CAPACITY="7") == "7"
    assert run(code, ONEDNN_PRIMITIVE_CACHE_CAPACITY="8") == "8"
    assert run(code, DNNL_PRIMITIVE_CACHE_CAPACITY="9", ONEDNN_PRIMITIVE_CACHE_CAPACITY="8") == "8"


def run(code: str, **env: str) -> str:
    """Run code in a fresh process, without the disk caches; return its output."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_CAPACITY")}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(
        command, env=kept | {"RESTRIDE_CACHE_DIR": ""} | env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


CREATED = """
import io, os, sys
import numpy as np
import restride as rs
os.environ.update({environment})
x = np.zeros((3, 5), "f4")
md, to = rs.MemoryDesc((3, 5), "f32", "ab"), rs.MemoryDesc((3, 5), "f32", "ba")
cpu = rs.Engine("cpu")
sys.stderr = told = io.StringIO()
rs.set_verbose("profile_create")
{set_up}
for _ in range(3):
    rs.onednn.Reorder.PrimitiveDesc(cpu, md, cpu, to)
for _ in range(3):
    rs.reorder(x, "ba", dtype="s8")
print([line.split(",")[3] for line in told.getvalue().splitlines() if ",create:" in line])
"""
HITS = "['create:cache_miss', 'create:cache_hit', 'create:cache_hit'" + (
    ", 'create:cache_miss', 'create:cache_hit', 'create:cache_hit']"
)
MISSES = str(["create:cache_miss"] * 6)


def test_primitives_and_arrays_tell_hits_from_misses():
    assert run(CREATED.format(environment={}, set_up="")) == HITS


def test_the_environment_is_read_with_the_first_use_not_at_import():
    zero = {"RESTRIDE_PRIMITIVE_CACHE_CAPACITY": "0"}
    assert run(CREATED.format(environment=zero, set_up="")) == MISSES
    assert run(CREATED.format(environment={}, set_up=""), **zero) == MISSES


def test_the_setter_wins_over_the_environment():
    zero = {"RESTRIDE_PRIMITIVE_CACHE_CAPACITY": "0"}
    set_up = "rs.onednn.set_primitive_cache_capacity(4)"
    assert run(CREATED.format(environment=zero, set_up=set_up)) == HITS
    set_up = "rs.onednn.set_primitive_cache_capacity(0)"
    assert run(CREATED.format(environment={}, set_up=set_up)) == MISSES


def test_an_unusable_environment_is_told_at_the_first_use_by_its_name():
    code = """
import numpy as np, restride as rs
asks = [
    rs.onednn.get_primitive_cache_capacity,
    lambda: rs.reorder(np.zeros((3, 5), "f4"), "ba"),
    lambda: rs.reorder(np.zeros((3, 5), "f4"), "ba"),
    lambda: rs.reorder(rs.Memory.from_numpy(np.zeros((3, 5), "f4")), "ba"),
]
for ask in asks:
    try:
        ask()
    except rs.InvalidArguments as error:
        assert "RESTRIDE_PRIMITIVE_CACHE_CAPACITY" in error.message
        continue
    print("not told")
rs.onednn.set_primitive_cache_capacity(3)
print(rs.reorder(np.ones((3, 5), "f4"), "ba").sum())
"""
    for value in ("many", "-1", "1e3", "99999999999999999999"):
        assert run(code, RESTRIDE_PRIMITIVE_CACHE_CAPACITY=value) == "15.0"


@pytest.mark.parametrize("wrong", [-1, 1.0, "5", None, True, 2**31, 10**400, [], np.float32(3)], ids=str)
def test_what_is_no_capacity_is_refused_and_changes_nothing(wrong):
    before = rs.get_primitive_cache_capacity()
    with refused("set_primitive_cache_capacity"):
        rs.set_primitive_cache_capacity(wrong)
    assert rs.get_primitive_cache_capacity() == before


@pytest.mark.parametrize("number", [0, 1, 5, 2**31 - 1, np.int64(6), np.uint8(7)])
def test_the_capacity_is_what_was_set(capacity, number):
    capacity(number)
    assert rs.get_primitive_cache_capacity() == number


# One compile per key


def fresh_dims(salt: int) -> tuple[int, int]:
    """Dims that no other test makes a kernel for."""
    return 1000 + salt, 7


@pytest.mark.parametrize("size", [1024, 1])
def test_64_threads_that_want_one_kernel_compile_it_once(capacity, compiled, size):
    capacity(size)
    dims = fresh_dims(size)
    x = np.random.default_rng(0).standard_normal(dims, np.float32)
    gate = threading.Barrier(THREADS)

    def work(i: int):
        gate.wait(120)
        if i % 2:
            return rs.reorder(x, "ba", dtype="f16")
        src, dst = rs.Memory.from_numpy(x), rs.Memory(rs.MemoryDesc(dims, "f16", "ba"), CPU)
        rs.Reorder(src, dst).execute(STREAM, src, dst)
        return np.asarray(dst)

    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(work, range(THREADS)))
    assert sum(compiled.values()) == 1
    for result in results:
        np.testing.assert_array_equal(result, x.astype(np.float16))


@pytest.mark.parametrize("size", [0, 1, 3])
def test_many_kernels_in_a_small_cache_are_all_right(capacity, size):
    capacity(size)
    gate = threading.Barrier(12)

    def work(i: int) -> bool:
        gate.wait(120)
        x = np.arange(5 * (i % 4 + 3), dtype=np.float32).reshape(5, -1)
        got = [rs.reorder(x, "ba", dtype="s32") for _ in range(4)]
        return all((result == x).all() for result in got)

    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(work, range(12)))


def test_a_smaller_capacity_forgets_at_once(capacity, compiled):
    x = np.zeros(fresh_dims(500), np.float32)
    rs.reorder(x, "ba", dtype="bf16")
    rs.reorder(x, "ba", dtype="bf16")
    assert sum(compiled.values()) == 1
    capacity(0)
    capacity(1024)
    rs.reorder(x, "ba", dtype="bf16")
    assert sum(compiled.values()) == 2


def test_equal_problems_share_a_kernel_however_they_are_spelled(compiled):
    x = np.zeros((1, *fresh_dims(501)), np.float32)
    for dst in ("acb", rs.FormatTag.acb, (7007 * 1001, 1, 1501), rs.MemoryDesc(x.shape, "f32", "acb")):
        rs.reorder(x, dst)
    assert sum(compiled.values()) == 1
