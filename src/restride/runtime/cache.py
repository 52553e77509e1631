"""LRU caches in which every value is made only once, even by concurrent threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from heapq import nsmallest
from itertools import count
from typing import Any, Generic, TypeVar

from ..desc.parse import parse_int, short_repr
from ..errors import refuse
from ..frozen import dataclass
from ..settings import lookup_int

T = TypeVar("T")
_DEFAULT_CAPACITY = 1024
_MOST = 2**31 - 1
_HINT = f"0 turns the cache off, {_DEFAULT_CAPACITY} is the default"


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """The counters of a cache since the process started, and its present size.

    `hits`: found, or made by another thread meanwhile. `misses`: made. `evictions`: made, kept, and removed
    since. `size`: kept now, at most `capacity`.
    """

    hits: int
    misses: int
    evictions: int
    size: int
    capacity: int


class _Turn(Generic[T]):
    """The making of one value. Waiting threads get the value from here, whether the cache keeps it or not."""

    __slots__ = ("lock", "value")

    def __init__(self) -> None:
        # Reentrant, like all locks here: a signal handler may request what the interrupted code is making.
        self.lock = threading.RLock()
        self.value: T | None = None


class _CachedValue(Generic[T]):
    """A value, and a counter of its last use: larger is later."""

    __slots__ = ("used", "value")

    def __init__(self, value: T, used: int) -> None:
        self.value, self.used = value, used


class LruCache(Generic[T]):
    """Map from keys to at most `capacity()` values; safe for any number of threads, and across a fork.

    `on_evict` is called with each removed value, with no lock held.
    """

    def __init__(self, capacity: Callable[[], int], on_evict: Callable[[T], None] | None = None) -> None:
        self._capacity, self._on_evict = capacity, on_evict
        self._hits = self._misses = self._evictions = 0
        # Moving an entry to the end of an OrderedDict would compare its key once more.
        self._entries: dict[Hashable, _CachedValue[T]] = {}
        self._clock = count()
        self._making: dict[Hashable, _Turn[T]] = {}
        self._lock = threading.RLock()

    def get_or_make(self, key: Hashable, make: Callable[[], T]) -> tuple[T, bool]:
        """Return the value of `key` and whether it was found.

        If it was not, `make` is called once for all concurrent callers.
        """
        value = self._get(key)
        if value is not None:
            return value, True
        with self._lock:
            turn = self._making.setdefault(key, _Turn())
        with turn.lock:
            value = self._get(key) if turn.value is None else self._hit(turn.value)
            if value is not None:
                return value, True
            return self._make(key, turn, make), False

    def trim(self, capacity: int) -> None:
        """Keep at most `capacity` values, removing the least recently used first."""
        with self._lock:
            excess = max(len(self._entries) - capacity, 0)
            # Lookups hash keys, and problems are deeply nested: only the keys that are removed are looked up.
            oldest = nsmallest(excess, self._entries.items(), key=lambda entry: entry[1].used)
            gone = [self._entries.pop(key).value for key, _ in oldest]
            self._evictions += len(gone)
        for value in gone:
            self._tell(value)

    def discard(self, key: Hashable) -> None:
        """Remove the value of `key`; this does not count as an eviction."""
        with self._lock:
            self._entries.pop(key, None)

    def info(self) -> CacheInfo:
        """Return a consistent snapshot of the counters and the size."""
        capacity = self._capacity()
        with self._lock:
            return CacheInfo(self._hits, self._misses, self._evictions, len(self._entries), capacity)

    def reset_locks(self) -> None:
        """Replace locks in the child of a fork: those of other threads would never be released."""
        self._lock = threading.RLock()
        self._making = {}

    def __len__(self) -> int:
        return len(self._entries)

    def _get(self, key: Hashable) -> T | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            entry.used = next(self._clock)
            self._hits += 1
            return entry.value

    def _hit(self, value: T) -> T:
        """Count and return a value that another thread made while this one waited."""
        with self._lock:
            self._hits += 1
        return value

    def _tell(self, value: T) -> None:
        if self._on_evict is not None:
            self._on_evict(value)

    def _make(self, key: Hashable, turn: _Turn[T], make: Callable[[], T]) -> T:
        try:
            capacity = self._capacity()
            value = turn.value = make()
            with self._lock:
                self._misses += 1
                if capacity:
                    self._entries[key] = _CachedValue(value, next(self._clock))
            self.trim(capacity)
            return value
        finally:
            with self._lock:
                if self._making.get(key) is turn:
                    del self._making[key]


_capacity: int | None = None


def _new_level(on_evict: Callable[[object], None] | None = None) -> LruCache[object]:
    return LruCache(lambda: get_primitive_cache_capacity(), on_evict)


def _tell_evicted(value: object) -> None:
    for tell in _evictions:
        tell(value)


_evictions: list[Callable[[object], None]] = []
_LEVELS: dict[str, LruCache[object]] = {
    "primitives": _new_level(_tell_evicted),
    "kernels": _new_level(),
    "sums": _new_level(),
}


def cache_level(name: str) -> LruCache[Any]:
    """Return the one level of that name; all levels have the primitive cache's capacity."""
    return _LEVELS[name]


def on_eviction(tell: Callable[[Any], None]) -> None:
    """Call `tell` with each primitive that is evicted."""
    _evictions.append(tell)


class CallLevel:
    """The prepared calls, by signature: found without a lock, stored under one.

    It keeps as many as there may be primitives, and removes the oldest first. A reader that finds one calls
    `count_hit()`, which is a single step of an iterator, and therefore atomic.
    """

    def __init__(self) -> None:
        self._calls: dict[Hashable, object] = {}
        self.find: Callable[[Hashable], Any] = self._calls.get
        self._lock = threading.RLock()
        self._hits = count()
        self.count_hit: Callable[[], int] = self._hits.__next__
        self._infos = self._misses = self._evictions = 0

    def keep(self, signature: Hashable, call: T) -> T:
        """Store what was made for a signature, and return it."""
        capacity = get_primitive_cache_capacity()
        with self._lock:
            self._misses += 1
            if capacity:
                self._calls[signature] = call
        self.trim(capacity)
        return call

    def trim(self, capacity: int) -> None:
        """Keep at most `capacity` of them."""
        with self._lock:
            while len(self._calls) > capacity:
                del self._calls[next(iter(self._calls))]
                self._evictions += 1

    def info(self) -> CacheInfo:
        """Return a consistent snapshot of the counters and the size."""
        capacity = get_primitive_cache_capacity()
        with self._lock:
            # Reading the counter steps it: these steps are not hits.
            hits = self.count_hit() - self._infos
            self._infos += 1
            return CacheInfo(hits, self._misses, self._evictions, len(self._calls), capacity)

    def reset_locks(self) -> None:
        """Replace locks in the child of a fork: those of other threads would never be released."""
        self._lock = threading.RLock()


calls = CallLevel()
"""Prepared calls of all functions on arrays, by signature."""


def cache_info() -> dict[str, CacheInfo]:
    """Return the counters and sizes of the caches of this process.

    "calls": prepared calls of functions on arrays, for each kind of call (kinds of arrays, formats, which
    attributes); a hit goes straight to machine code, without using another cache. "primitives": solved
    problems, one for each pair of descriptors, structure of attributes (whatever the values of scales and the
    like) and engine. "kernels": machine code, compiled or read from disk, shared by equal problems of
    different primitives. "sums": solved reductions, of compensations and of scales computed from data, and
    quantizations in groups.
    """
    return {"calls": calls.info()} | {name: level.info() for name, level in _LEVELS.items()}


def get_primitive_cache_capacity() -> int:
    """Return the number of primitives that are kept; RESTRIDE_PRIMITIVE_CACHE_CAPACITY, or 1024."""
    if _capacity is not None:
        return _capacity
    return lookup_int("PRIMITIVE_CACHE_CAPACITY", _DEFAULT_CAPACITY, low=0, high=_MOST)


def set_primitive_cache_capacity(capacity: int) -> None:
    """Keep at most `capacity` primitives and kernels; 0 keeps none. Takes precedence over the environment.

    Raises InvalidArguments for anything but an integer from 0 to 2**31 - 1.
    """
    global _capacity
    limit = parse_int(capacity, "set_primitive_cache_capacity: capacity", _HINT)
    if not 0 <= limit <= _MOST:
        raise refuse("RS-P16", capacity=short_repr(capacity), most=_MOST, default_capacity=_DEFAULT_CAPACITY)
    _capacity = limit
    calls.trim(limit)
    for level in _LEVELS.values():
        level.trim(limit)


def _after_fork_in_child() -> None:
    calls.reset_locks()
    for level in _LEVELS.values():
        level.reset_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
