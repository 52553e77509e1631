"""Lists of launches that one native call does: the workers of the pool stay in it from one to the next."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..emit.launches import LAUNCHES, launches_ir
from ..plan.machine import LINE
from ..plan.program import DST, SRC, Place
from ..targets import jit, store
from ..targets.isa import host_isa
from .kernel import LOCKED_BYTES, Kernel, KernelWords
from .launch import Addresses, InterleavedLaunch, NestLaunch, RepeatLaunch, TreeLaunch
from .native import native_call
from .pool import default_pool

OneLaunch = NestLaunch | InterleavedLaunch | TreeLaunch
NativeLaunch = OneLaunch | RepeatLaunch
_SCRATCH = -1
# About a millisecond of work in the caches.
_PIECE_BYTES = 1 << 26


class LaunchList:
    """Launches as the native code reads them, for so many threads as the pool has now.

    `offsets`: where each temporary begins in scratch; `slots`: how many the program has; `dst`: an address
    that is aligned to a cache line or not, as those of all destinations are.
    """

    __slots__ = ("_call", "_is_alone", "_native", "_table")

    def __init__(
        self, launches: Sequence[NativeLaunch], offsets: Sequence[int], slots: int, is_aligned: bool
    ) -> None:
        single = [each for launch in launches for each in _launches(launch)]
        most = max((len(each.places) + _scalars(each)[1] for each in single), default=0)
        words = [len(single), max(most, 1), slots - 2]
        for launch in launches:
            words += _launch_words(launch, offsets, is_aligned)
        self._table = (ctypes.c_int64 * len(words))(*words)
        keeps_lock = sum(launch.work_bytes for launch in launches) < LOCKED_BYTES
        # Of threads that make the first lists at once, each may get code of its own: the list keeps it.
        self._native = _native_list(keeps_lock)
        self._call = functools.partial(self._native.call, ctypes.addressof(self._table))
        self._is_alone = all(_kernel(launch, is_aligned).parts() == 1 for launch in single)

    def run(self, src: int, dst: int, words: int, scratch: int) -> None:
        """Run all launches; `words` is the address of the other slots' addresses and the scalars."""
        # The local name keeps the team's memory alive while another thread resizes the pool.
        team = None if self._is_alone else default_pool().native_team()
        run, pool = (0, 0) if team is None else team.native_run
        self._call(run, pool, scratch, src, dst, words)

    def alone(self) -> Callable[[int, int, int], None]:
        """`run` without scratch, for launches that one thread always does; good while this object lives."""
        return functools.partial(self._call, 0, 0, 0)


class RepeatPieces:
    """A long repeat in pieces, each a native list of some turns: between two of them Python sees Ctrl-C.

    Every place is a word of its own, so that all pieces of one length share a list.
    """

    __slots__ = ("_lists", "_repeat", "_strides")

    def __init__(self, repeat: RepeatLaunch) -> None:
        self._strides = [stride for strides in repeat.strides for stride in strides]
        self._repeat = _with_own_words(repeat)
        self._lists: dict[tuple[int, int], LaunchList] = {}

    def run(self, repeat: RepeatLaunch, memory: Addresses) -> None:
        """Run on checked memory."""
        pool = default_pool()
        if pool.native_team() is None:
            repeat.run(memory)
            return
        turns = min(repeat.turns, max(1, _PIECE_BYTES // max(repeat.turn_bytes, 1)))
        starts = [memory.at(place) for launch in repeat.launches for place in launch.places]
        for first in range(0, repeat.turns, turns):
            count = min(turns, repeat.turns - first)
            places = [start + first * stride for start, stride in zip(starts, self._strides, strict=True)]
            words = KernelWords(memory.scalars, places)
            self._list(count, pool.threads).run(0, 0, words.address, 0)

    def _list(self, turns: int, threads: int) -> LaunchList:
        found = self._lists.get((turns, threads))
        if found is None:
            slots = DST + 1 + len(self._strides)
            repeat = replace(self._repeat, turns=turns)
            found = self._lists[turns, threads] = LaunchList([repeat], (), slots, is_aligned=False)
        return found


def _with_own_words(repeat: RepeatLaunch) -> RepeatLaunch:
    """The same, with a slot for every place."""
    launches, slot = list[TreeLaunch](), DST + 1
    for launch in repeat.launches:
        places = tuple(Place(slot + i) for i in range(len(launch.places)))
        launches.append(TreeLaunch(replace(launch.step, places=places), launch.lowered))
        slot += len(places)
    return replace(repeat, launches=tuple(launches))


def _launches(launch: NativeLaunch) -> tuple[OneLaunch, ...]:
    return launch.launches if isinstance(launch, RepeatLaunch) else (launch,)


def _launch_words(launch: NativeLaunch, offsets: Sequence[int], is_aligned: bool) -> list[int]:
    if not isinstance(launch, RepeatLaunch):
        return _one_launch_words(launch, (0,) * len(launch.places), offsets, is_aligned)
    words = [0, launch.turns, len(launch.launches)]
    for each, strides in zip(launch.launches, launch.strides, strict=True):
        words += _one_launch_words(each, strides, offsets, is_aligned)
    return words


def _one_launch_words(
    launch: OneLaunch, strides: Sequence[int], offsets: Sequence[int], is_aligned: bool
) -> list[int]:
    kernel, dst = _kernel(launch, is_aligned), _dst(launch)
    first, count = _scalars(launch)
    src = launch.step.src if isinstance(launch, NestLaunch) else Place(SRC)
    pairs = zip(launch.places, strides, strict=True)
    places = [word for place, stride in pairs for word in (*_place_words(place, offsets), stride)]
    return [
        kernel.address,
        kernel.whole,
        kernel.parts(),
        *_place_words(src, offsets),
        0,
        *_place_words(dst, offsets),
        0,
        len(launch.places),
        count,
        first,
        *places,
    ]


def _kernel(launch: OneLaunch, is_aligned: bool) -> Kernel:
    """The kernel of a launch, which may begin between two cache lines of an aligned destination."""
    if isinstance(launch, TreeLaunch):
        places = launch.step.targets
        lies = all(buffer <= DST and offset % LINE == 0 for buffer, offset in places)
        return launch.kernel(0 if is_aligned and lies else 1)
    buffer, offset = _dst(launch)
    return launch.kernel(0 if is_aligned and buffer <= DST and offset % LINE == 0 else 1)


def _dst(launch: OneLaunch) -> Place:
    return launch.step.dst if isinstance(launch, NestLaunch) else launch.dst


def _scalars(launch: OneLaunch) -> tuple[int, int]:
    return (0, 0) if isinstance(launch, InterleavedLaunch) else launch.step.scalars


def _place_words(place: Place, offsets: Sequence[int]) -> tuple[int, int]:
    buffer, offset = place
    return (buffer, offset) if buffer >= 0 else (_SCRATCH, offsets[~buffer] + offset)


class _NativeList(NamedTuple):
    """The code that goes through a list, called, and the library that it is in."""

    call: Callable[..., None]
    library: jit.Library


@functools.cache
def _native_list(keeps_lock: bool) -> _NativeList:
    isa = host_isa()
    library = jit.load(store.object_code(launches_ir(), isa))
    call = functools.partial(native_call(7, keep_lock=keeps_lock), library.address(LAUNCHES))
    return _NativeList(call, library)
