"""Schedules that a search has found on this machine: one small file of the store, read once a process.

A line has a number that tells most works apart, the key of the work, and the schedule as text. Nothing there
is trusted: a line that is none, or a schedule that does not fit, is as if it were not there; and a text is
read, never run. Where the store is turned off schedules are kept for this process alone.
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

# The newest stay where there would be more.
_MOST_LINES = 1024


class _WorkKey(NamedTuple):
    """What a schedule was found for. `size`: the bytes of the work, which is cheap to look for."""

    size: int
    digest: str


class ScheduleStore:
    """The schedules that were found for an instruction set. Threads may share it."""

    def __init__(self, store: ObjectStore, isa: Isa, caches: CacheSizes) -> None:
        self._store, self.isa, self.caches = store, isa, caches
        self._name = text_key("schedules", isa.triple, isa.features, repr(caches))
        self._take(self._read())

    def _take(self, texts: dict[_WorkKey, str]) -> None:
        self._texts, self._sizes = texts, frozenset(key.size for key in texts)

    @property
    def is_empty(self) -> bool:
        """True where nothing was found yet."""
        return not self._texts

    def find(self, size: int, threads: int, choose: Callable[[], ScheduleChoice]) -> Schedule | None:
        """The schedule of a work of so many bytes; None where none was found, or it does not fit."""
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
        """Keep what was found for a work, beside what other processes have found meanwhile."""
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
    """The one in the store that the environment asks for."""
    return _store_of(default_store(), isa, caches)


_store_of = cache(ScheduleStore)


def _key(size: int, threads: int, choice: ScheduleChoice) -> _WorkKey:
    return _WorkKey(size, text_key(host_processor(), str(threads), repr(choice.work)))
