"""A cache of made things: least recently used goes first, and nobody makes the same thing twice (P16)."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from ..errors import InvalidArguments
from ..settings import lookup_int

T = TypeVar("T")
_DEFAULT_CAPACITY = 1024


class LruCache(Generic[T]):
    """Key -> value, at most `capacity` of them; safe for any number of threads, and across a fork."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: OrderedDict[Hashable, T] = OrderedDict()
        self._making: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def get_or_make(self, key: Hashable, make: Callable[[], T]) -> tuple[T, bool]:
        """The value of `key` and whether it was there; where it was not, `make` is called once for all callers."""
        found = self._get(key)
        if found is not None:
            return found, True
        with self._lock:
            turn = self._making.setdefault(key, threading.Lock())
        with turn:
            found = self._get(key)
            if found is not None:
                return found, True
            try:
                value = make()
                self._put(key, value)
            finally:
                with self._lock:
                    self._making.pop(key, None)
        return value, False

    def resize(self, capacity: int) -> None:
        """Keep at most `capacity` values from now on; 0 keeps none."""
        with self._lock:
            self._capacity = capacity
            self._trim()

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()

    def reset_locks(self) -> None:
        """In the child of a fork: a lock held by a thread that is not here would never be released."""
        self._lock = threading.Lock()
        self._making = {}

    def __len__(self) -> int:
        return len(self._entries)

    def _get(self, key: Hashable) -> T | None:
        with self._lock:
            value = self._entries.get(key)
            if value is not None:
                self._entries.move_to_end(key)
            return value

    def _put(self, key: Hashable, value: T) -> None:
        with self._lock:
            self._entries[key] = value
            self._trim()

    def _trim(self) -> None:
        while len(self._entries) > self._capacity:
            self._entries.popitem(last=False)


_caches: list[LruCache[object]] = []
_capacity: int | None = None


def shared_cache() -> LruCache[object]:
    """A new cache whose capacity is the primitive cache's."""
    cache: LruCache[object] = LruCache(get_primitive_cache_capacity())
    _caches.append(cache)
    return cache


def get_primitive_cache_capacity() -> int:
    """How many primitives are kept; RESTRIDE_PRIMITIVE_CACHE_CAPACITY, or 1024."""
    if _capacity is not None:
        return _capacity
    return lookup_int("PRIMITIVE_CACHE_CAPACITY", _DEFAULT_CAPACITY, low=0, high=1 << 31)


def set_primitive_cache_capacity(capacity: int) -> None:
    """Keep at most `capacity` primitives and kernels; 0 keeps none. Wins over the environment.

    Raises InvalidArguments for anything but an integer of at least 0.
    """
    global _capacity
    if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 0:
        raise InvalidArguments(
            "set_primitive_cache_capacity: bad capacity",
            why=f"it must be an integer of at least 0; this is {capacity!r:.60}",
            hint="0 turns the cache off",
        )
    _capacity = capacity
    for cache in _caches:
        cache.resize(capacity)


def _after_fork_in_child() -> None:
    for cache in _caches:
        cache.reset_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
