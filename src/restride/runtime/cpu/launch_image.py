"""Launches of many programs as position-independent tables: stored in a file, linked, and run by native
calls.

    image    := table* scalar*
    table    := launches of one native call
    memory   := a number; the caller of an image supplies the address for each

A table is in the format of `emit.launches`, with the number of a kernel in place of its address. Every place
is an offset in a memory, and every scalar one of the image's. So a table works in any process that finds the
same kernels, and for concurrent runs, each with its own row of addresses.

Tables are short, so that Ctrl-C takes effect soon: Python handles signals between them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...emit.launches import HEAD_WORDS
from ...schedule.machine import NOMINAL
from ..alloc import Array, address_of
from .executable import CpuExecutable
from .kernel import SHORT_BYTES, KernelCode
from .launch_list import MemoryPlace, NativeList, ProgramPlaces, launch_words, native_list
from .thread_pool import default_pool

__all__ = [
    "ImageWriter",
    "LaunchTable",
    "LinkedKernel",
    "LinkedTable",
    "MemoryPlace",
    "is_native",
    "of_process",
    "row",
]

# A table ends with the launch that reaches this much work, about ten milliseconds in the caches.
_TABLE_BYTES = 1 << 29
# Limit for one launch: a tenth of a second in the caches.
_LONG_BYTES = 100 * SHORT_BYTES
_FIRST_WORD = 2
# Index of the word that holds the number of parts of a launch.
_PARTS = 2
_WORD = np.dtype(np.int64)


@dataclass(frozen=True, slots=True)
class LaunchTable:
    """Launches for one native call. The word at each of `sites` is the number of a kernel, also in `kernels`.

    `work_bytes`: the number of bytes that could be moved in the time that it takes.
    """

    words: Sequence[int]
    sites: Sequence[int]
    kernels: Sequence[int]
    work_bytes: int


class LinkedKernel(NamedTuple):
    """The two addresses of a kernel, and the owner that keeps its code loaded."""

    address: int
    whole: int
    owner: object


class ImageWriter:
    """Collects launches of programs, in sequence, into tables.

    `memories`: their number; scalars follow their addresses.
    """

    def __init__(self, memories: int) -> None:
        self._memories = memories
        self._words: list[int] = []
        self._sites: list[tuple[int, int]] = []
        self._numbers: dict[KernelCode, int] = {}
        self._count = self._most = self._work = 0
        self.scalars: list[float] = []

    @property
    def kernels(self) -> tuple[KernelCode, ...]:
        """The kernels by number."""
        return tuple(self._numbers)

    def add(
        self,
        executable: CpuExecutable,
        slots: Sequence[MemoryPlace],
        scratch: MemoryPlace,
        scalars: Sequence[float],
    ) -> None:
        """Add all launches of a program that `is_native`, with slots and temporaries at the given places."""
        buffer, start, is_aligned = scratch
        memory = ProgramPlaces(
            [slot._replace(buffer=_FIRST_WORD + slot.buffer) for slot in slots],
            [
                MemoryPlace(_FIRST_WORD + buffer, start + offset, is_aligned)
                for offset in executable.temporary_offsets
            ],
        )
        for repeat in executable.repeats:
            words = launch_words(repeat, memory, len(self.scalars))
            for at, code in words.kernels:
                number = self._numbers.setdefault(code, len(self._numbers))
                self._sites.append((HEAD_WORDS + len(self._words) + at, number))
            self._words.extend(words.words)
            self._count += len(repeat.launches)
            self._most = max([self._most, *(launch.params for launch in repeat.native)])
            self._work += repeat.work_bytes
        self.scalars.extend(scalars)

    @property
    def is_full(self) -> bool:
        """True if a table should end here."""
        return self._work >= _TABLE_BYTES

    def cut(self) -> LaunchTable | None:
        """Return a table of everything added since the last cut, or None."""
        if not self._count:
            return None
        words = [self._count, max(self._most, 1), self._memories, *self._words]
        for at, number in self._sites:
            words[at] = words[at + 1] = number
        sites, numbers = zip(*self._sites, strict=True)
        table = LaunchTable(tuple(words), sites, numbers, self._work)
        self._words, self._sites, self._count, self._most, self._work = [], [], 0, 0, 0
        return table


def is_native(executable: CpuExecutable) -> bool:
    """True if tables can have all launches of a program: Ctrl-C need not wait long for any of them."""
    return all(repeat.is_native and repeat.work_bytes < _LONG_BYTES for repeat in executable.repeats)


class LinkedTable:
    """A table with the addresses of kernels, ready to run. Threads can share it."""

    __slots__ = ("_call", "_is_alone", "_kernels", "_native", "_words")

    def __init__(self, table: LaunchTable, kernels: Sequence[LinkedKernel]) -> None:
        self._words: Array = np.array(table.words, _WORD)
        for at, number in zip(table.sites, table.kernels, strict=True):
            self._words[at], self._words[at + 1] = kernels[number][:2]
        self._is_alone = all(table.words[at + _PARTS] == 1 for at in table.sites)
        self._kernels = [kernels[number].owner for number in set(table.kernels)]
        self._native: NativeList = native_list(table.work_bytes < NOMINAL.lock_bytes)
        self._call: Callable[..., None] = functools.partial(self._native.call, address_of(self._words))

    def run(self, memories: int) -> None:
        """Run all launches; `memories` is the address of the row of addresses, followed by the scalars."""
        # The local name keeps the team's memory alive while another thread resizes the pool.
        team = None if self._is_alone else default_pool().native_team()
        run, pool = (0, 0) if team is None else team.native_run
        self._call(run, pool, 0, 0, 0, memories)


def of_process(code: KernelCode) -> LinkedKernel:
    """Return a kernel of this process."""
    return LinkedKernel(code.address, code.whole, code)


def row(memories: Sequence[int], scalars: Sequence[float]) -> Array:
    """Return the row that a run reads: the address of each memory, and the scalars as doubles."""
    words = np.empty(len(memories) + len(scalars), _WORD)
    words[: len(memories)] = memories
    words[len(memories) :].view(np.float64)[:] = scalars
    return words
