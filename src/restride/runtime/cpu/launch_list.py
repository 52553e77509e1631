"""Lists of launches that run in one native call: the pool's workers stay in it from one to the next."""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ...emit.launches import LAUNCHES, OWN_SCALARS, launches_ir
from ...ir.program import DST, Place
from ...schedule.machine import LINE, NOMINAL
from ...targets import jit, store
from ...targets.isa import host_isa
from .kernel import REPEAT_BYTES, Kernel, KernelCode, KernelWords
from .launch import Addresses, Launch, Repeat
from .native import native_call
from .thread_pool import default_pool

_SCRATCH = -1


class MemoryPlace(NamedTuple):
    """A place in table form: `offset` bytes into a buffer, which may be known to begin at a cache line."""

    buffer: int
    offset: int = 0
    is_aligned: bool = False


class ProgramPlaces(NamedTuple):
    """The locations of a program's slots and temporaries."""

    slots: Sequence[MemoryPlace]
    temporaries: Sequence[MemoryPlace]

    def at(self, place: Place) -> MemoryPlace:
        """Return the location of a place of the program."""
        buffer, offset, is_aligned = (
            self.slots[place.buffer] if place.buffer >= 0 else self.temporaries[~place.buffer]
        )
        offset += place.offset
        return MemoryPlace(buffer, offset, is_aligned and offset % LINE == 0)


class LaunchWords(NamedTuple):
    """Words of a table, and its kernels with the positions of their addresses among the words."""

    words: list[int]
    kernels: list[tuple[int, KernelCode]]


class LaunchList:
    """Launches in native form, for the current number of threads of the pool.

    `offsets`: the offset of each temporary in scratch; `slots`: the number of the program's slots; `dst`: an
    address that is representative of destinations in its alignment to a cache line.
    """

    __slots__ = ("_call", "_is_alone", "_native", "_table")

    def __init__(
        self, repeats: Sequence[Repeat], offsets: Sequence[int], slots: int, is_aligned: bool
    ) -> None:
        launches = [launch for repeat in repeats for launch in repeat.native]
        most = max((launch.params for launch in launches), default=0)
        memory = ProgramPlaces(
            [MemoryPlace(slot, 0, is_aligned and slot <= DST) for slot in range(slots)],
            [MemoryPlace(_SCRATCH, offset, is_aligned) for offset in offsets],
        )
        words = [len(launches), max(most, 1), slots - 2]
        for repeat in repeats:
            words += launch_words(repeat, memory).words
        self._table = (ctypes.c_int64 * len(words))(*words)
        keeps_lock = sum(repeat.work_bytes for repeat in repeats) < NOMINAL.lock_bytes
        # Threads that concurrently make the first lists may each get separate code: the list keeps it.
        self._native = native_list(keeps_lock)
        self._call = functools.partial(self._native.call, ctypes.addressof(self._table))
        self._is_alone = all(_kernel(launch, memory).parts() == 1 for launch in launches)

    def run(self, src: int, dst: int, words: int, scratch: int) -> None:
        """Run all launches; `words` is the address of the other slots' addresses and the scalars."""
        # The local name keeps the team's memory alive while another thread resizes the pool.
        team = None if self._is_alone else default_pool().native_team()
        run, pool = (0, 0) if team is None else team.native_run
        self._call(run, pool, scratch, src, dst, words)

    def alone(self) -> Callable[[int, int, int], None]:
        """`run` without scratch, for launches that one thread always does; valid while this object lives."""
        return functools.partial(self._call, 0, 0, 0)


class RepeatPieces:
    """A long repeat in pieces, each a native list of some turns: between two of them Python handles Ctrl-C.

    Every place is a separate word, so that all pieces of one length share a list.
    """

    __slots__ = ("_lists", "_own", "_repeat")

    def __init__(self, repeat: Repeat) -> None:
        self._repeat = repeat
        launches, slot = list[Launch](), DST + 1
        for launch in repeat.native:
            places = tuple(Place(slot + i) for i in range(len(launch.places)))
            launches.append(replace(launch, places=places, targets=(Place(DST),)))
            slot += len(places)
        self._own = Repeat(tuple(launches), repeat.turns)
        self._lists: dict[tuple[int, int], LaunchList] = {}

    def run(self, memory: Addresses) -> None:
        """Run on checked memory."""
        pool, repeat = default_pool(), self._repeat
        if pool.native_team() is None:
            repeat.run(memory)
            return
        turns = min(repeat.turns, max(1, REPEAT_BYTES // max(repeat.turn_bytes, 1)))
        starts = [memory.at(place) for launch in repeat.native for place in launch.places]
        strides = [stride for launch in repeat.native for stride in launch.strides]
        for first in range(0, repeat.turns, turns):
            count = min(turns, repeat.turns - first)
            places = [start + first * stride for start, stride in zip(starts, strides, strict=True)]
            words = KernelWords(memory.scalars, places)
            self._list(count, pool.threads, len(places)).run(0, 0, words.address, 0)

    def _list(self, turns: int, threads: int, places: int) -> LaunchList:
        launch_list = self._lists.get((turns, threads))
        if launch_list is None:
            repeats, slots = [replace(self._own, turns=turns)], DST + 1 + places
            launch_list = self._lists[turns, threads] = LaunchList(repeats, (), slots, is_aligned=False)
        return launch_list


def launch_words(repeat: Repeat, memory: ProgramPlaces, first_scalar: int = 0) -> LaunchWords:
    """Return the words of launches in a table. `first_scalar`: the number of their program's first scalar."""
    words, kernels = [0, repeat.turns, len(repeat.launches)] if repeat.turns > 1 else [], []
    for launch in repeat.native:
        kernel, (first, count), constants = _kernel(launch, memory), launch.scalars, launch.constants
        kernels.append((len(words), kernel.code))
        words += [
            kernel.code.address,
            kernel.code.whole,
            kernel.parts(),
            *memory.at(launch.src)[:2],
            0,
            *memory.at(launch.targets[0])[:2],
            0,
            len(launch.places),
            len(constants) or count,
            OWN_SCALARS if constants else first_scalar + first,
            len(kernel.numbers),
        ]
        strides = launch.strides or (0,) * len(launch.places)
        for place, stride in zip(launch.places, strides, strict=True):
            words += (*memory.at(place)[:2], stride)
        kernels += [(len(words) + at, code) for at, code in kernel.inner.items()]
        words += kernel.numbers
        words += struct.unpack(f"={len(constants)}q", struct.pack(f"={len(constants)}d", *constants))
    return LaunchWords(words, kernels)


def _kernel(launch: Launch, memory: ProgramPlaces) -> Kernel:
    """Return the kernel of a launch; a target that may be unaligned selects the unaligned one."""
    return launch.kernel(0 if all(memory.at(target).is_aligned for target in launch.targets) else 1)


class NativeList(NamedTuple):
    """The native code that runs a list, as a callable, with its library."""

    call: Callable[..., None]
    library: jit.Library


@functools.cache
def native_list(keeps_lock: bool) -> NativeList:
    """Return the code, which releases Python's lock or not."""
    isa = host_isa()
    library = jit.load(store.object_code(launches_ir(), isa))
    call = functools.partial(native_call(7, keep_lock=keeps_lock), library.address(LAUNCHES))
    return NativeList(call, library)
