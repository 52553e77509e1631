"""Schedules found by searches on this machine: one small file of the store, read once per process.

A line has a number that distinguishes most works, the key of the work, and the schedule as text. Nothing in
it is trusted: an invalid line, or a schedule that does not fit, is ignored; and a text is parsed, never
executed. If the store is turned off, schedules are kept only for this process.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from ..errors import InvalidArguments
from ..schedule.language import Schedule, parse_schedule, schedule_text
from .isa import CacheSizes, Isa, host_processor
from .lowered import ScheduleChoice
from .store import ObjectStore, default_store, text_key

# The most schedules; the newest are kept.
_MOST_LINES = 1024


class _WorkKey(NamedTuple):
    """The key of a schedule. `size`: the bytes of the work, which are cheap to look up."""

    size: int
    digest: str


class ScheduleStore:
    """The schedules found for an instruction set. Threads can share it."""

    def __init__(self, store: ObjectStore, isa: Isa, caches: CacheSizes) -> None:
        self._store, self.isa, self.caches = store, isa, caches
        self._name = text_key("schedules", isa.triple, isa.features, repr(caches))
        self._take(self._read())

    def _take(self, texts: dict[_WorkKey, str]) -> None:
        self._texts, self._sizes = texts, frozenset(key.size for key in texts)

    @property
    def is_empty(self) -> bool:
        """True if nothing was found yet."""
        return not self._texts

    def find(self, size: int, threads: int, choose: Callable[[], ScheduleChoice]) -> Schedule | None:
        """Return the schedule of a work of `size` bytes; None if none was found, or it does not fit."""
        if size not in self._sizes:
            return None
        choice = choose()
        text = self._texts.get(_key(size, threads, choice))
        if text is None:
            return None
        with suppress(InvalidArguments):
            schedule = parse_schedule(text)
            return schedule if schedule == choice.transforms or choice.fits(schedule) else None
        return None

    def keep(self, size: int, threads: int, choice: ScheduleChoice, schedule: Schedule) -> None:
        """Store what was found for a work, merged with what other processes have found meanwhile."""
        texts, key = self._texts | self._read(), _key(size, threads, choice)
        texts.pop(key, None)
        texts[key] = schedule_text(schedule)
        texts = dict(list(texts.items())[-_MOST_LINES:])
        self._take(texts)
        lines = (f"{key.size} {key.digest} {text}\n" for key, text in texts.items())
        self._store.put(self._name, "".join(lines).encode())

    def _read(self) -> dict[_WorkKey, str]:
        content = self._store.get(self._name) or b""
        lines = (line.split(" ", 2) for line in content.decode(errors="replace").splitlines())
        return {
            _WorkKey(int(line[0]), line[1]): line[2]
            for line in lines
            if len(line) == 3 and line[0].isdecimal() and len(line[0]) < 20
        }


def schedule_store(isa: Isa, caches: CacheSizes) -> ScheduleStore:
    """Return the schedules in the store that the environment selects."""
    return _store_of(default_store(), isa, caches)


_store_of = cache(ScheduleStore)


def _key(size: int, threads: int, choice: ScheduleChoice) -> _WorkKey:
    return _WorkKey(size, text_key(host_processor(), str(threads), repr(choice.work)))
