"""Caches of made things: least recently used goes first, and nobody makes the same thing twice."""

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
    """The counters of a cache since the process began, and its present size.

    `hits`: found there, or made by another thread meanwhile. `misses`: made. `evictions`: made, kept, and
    gone since. `size`: kept now, at most `capacity` of them.
    """

    hits: int
    misses: int
    evictions: int
    size: int
    capacity: int


class _Turn(Generic[T]):
    """Whose turn it is to make one value. Those who wait take it from here, whatever the cache keeps."""

    __slots__ = ("lock", "value")

    def __init__(self) -> None:
        # Reentrant, as all locks here: a signal's handler may ask for what the code it interrupts is making.
        self.lock = threading.RLock()
        self.value: T | None = None


class _CachedValue(Generic[T]):
    """A value, and when it was last used: of two the larger number is later."""

    __slots__ = ("used", "value")

    def __init__(self, value: T, used: int) -> None:
        self.value, self.used = value, used


class LruCache(Generic[T]):
    """Key -> value, at most `capacity()` of them; safe for any number of threads, and across a fork.

    `on_evict` is told each value that goes, with no lock held.
    """

    def __init__(self, capacity: Callable[[], int], on_evict: Callable[[T], None] | None = None) -> None:
        self._capacity, self._on_evict = capacity, on_evict
        self._hits = self._misses = self._evictions = 0
        # To move what is found to the end of an OrderedDict would compare its key once more.
        self._entries: dict[Hashable, _CachedValue[T]] = {}
        self._clock = count()
        self._making: dict[Hashable, _Turn[T]] = {}
        self._lock = threading.RLock()

    def get_or_make(self, key: Hashable, make: Callable[[], T]) -> tuple[T, bool]:
        """The value of `key` and whether it was there.

        Where it was not, `make` is called once for all who ask meanwhile.
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
        """Keep at most `capacity` values; the least recently used go first."""
        with self._lock:
            excess = max(len(self._entries) - capacity, 0)
            # To look a key up hashes it, and a problem is a deep one: only those that go are looked up.
            oldest = nsmallest(excess, self._entries.items(), key=lambda entry: entry[1].used)
            gone = [self._entries.pop(key).value for key, _ in oldest]
            self._evictions += len(gone)
        for value in gone:
            self._tell(value)

    def discard(self, key: Hashable) -> None:
        """Keep the value of `key` no longer, which is no eviction."""
        with self._lock:
            self._entries.pop(key, None)

    def info(self) -> CacheInfo:
        """The counters and the size of this cache, all of one moment."""
        capacity = self._capacity()
        with self._lock:
            return CacheInfo(self._hits, self._misses, self._evictions, len(self._entries), capacity)

    def reset_locks(self) -> None:
        """In the child of a fork: a lock held by a thread that is not here would never be released."""
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
        """A value that another thread has made while this one waited."""
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
    """The one level of that name; all levels have the primitive cache's capacity."""
    return _LEVELS[name]


def on_eviction(tell: Callable[[Any], None]) -> None:
    """Call `tell` with each primitive that goes."""
    _evictions.append(tell)


class CallLevel:
    """The prepared calls, by signature: found without a lock, kept under one.

    As many are kept as primitives, and the oldest goes first. Whoever finds one says `count_hit()`, and is
    counted by one step of an iterator, which no other thread can interrupt.
    """

    def __init__(self) -> None:
        self._calls: dict[Hashable, object] = {}
        self.find: Callable[[Hashable], Any] = self._calls.get
        self._lock = threading.RLock()
        self._hits = count()
        self.count_hit: Callable[[], int] = self._hits.__next__
        self._infos = self._misses = self._evictions = 0

    def keep(self, signature: Hashable, call: T) -> T:
        """Keep what was made for a signature, and give it back."""
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
        """The counters and the size of this level, all of one moment."""
        capacity = get_primitive_cache_capacity()
        with self._lock:
            # To read the counter is to step it: these steps are no hits.
            hits = self.count_hit() - self._infos
            self._infos += 1
            return CacheInfo(hits, self._misses, self._evictions, len(self._calls), capacity)

    def reset_locks(self) -> None:
        """In the child of a fork: a lock held by a thread that is not here would never be released."""
        self._lock = threading.RLock()


calls = CallLevel()
"""Signature of a call -> what it needs, for all functions on arrays."""


def cache_info() -> dict[str, CacheInfo]:
    """The counters and sizes of the caches of this process.

    "calls": what functions on arrays keep for each kind of call (kinds of arrays, formats, which attributes);
    a hit goes straight to machine code, and asks no other cache. "primitives": solved problems, one for each
    pair of descriptors, structure of attributes (whatever the values of scales and the like) and engine.
    "kernels": machine code, compiled or read from disk, which equal problems of different primitives share.
    "sums": solved reductions, of compensations and of scales found from data, and quantisations in groups.
    """
    return {"calls": calls.info()} | {name: level.info() for name, level in _LEVELS.items()}


def get_primitive_cache_capacity() -> int:
    """The number of primitives that are kept; RESTRIDE_PRIMITIVE_CACHE_CAPACITY, or 1024."""
    if _capacity is not None:
        return _capacity
    return lookup_int("PRIMITIVE_CACHE_CAPACITY", _DEFAULT_CAPACITY, low=0, high=_MOST)


def set_primitive_cache_capacity(capacity: int) -> None:
    """Keep at most `capacity` primitives and kernels; 0 keeps none. Wins over the environment.

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
