"""Lists of launches that one native call does: the workers of the pool stay in it from one to the next."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from ...emit.launches import LAUNCHES, launches_ir
from ...ir.program import DST, SRC, Place
from ...schedule.machine import LINE
from ...targets import jit, store
from ...targets.isa import host_isa
from .kernel import LOCKED_BYTES, REPEAT_BYTES, Kernel, KernelCode, KernelWords
from .launch import Addresses, InterleavedLaunch, NestLaunch, RepeatLaunch, TreeLaunch
from .native import native_call
from .thread_pool import default_pool

OneLaunch = NestLaunch | InterleavedLaunch | TreeLaunch
NativeLaunch = OneLaunch | RepeatLaunch
_SCRATCH = -1


class PlaceWords(Protocol):
    """The places of a program, as the words of a table say them."""

    def words(self, place: Place) -> tuple[int, int]:
        """The number of the buffer, and how many bytes behind its begin."""

    def is_aligned(self, place: Place) -> bool:
        """True where the place is known to begin at a cache line."""


class LaunchWords(NamedTuple):
    """Words of a table, and its kernels: where the address of each stands among the words."""

    words: list[int]
    kernels: list[tuple[int, KernelCode]]


class LaunchList:
    """Launches as the native code reads them, for so many threads as the pool has now.

    `offsets`: where each temporary begins in scratch; `slots`: how many the program has; `dst`: an address
    that is aligned to a cache line or not, as those of all destinations are.
    """

    __slots__ = ("_call", "_is_alone", "_native", "_table")

    def __init__(
        self, launches: Sequence[NativeLaunch], offsets: Sequence[int], slots: int, is_aligned: bool
    ) -> None:
        single = [part for launch in launches for part in _launches(launch)]
        most = max(map(most_params, launches), default=0)
        words, places = [len(single), max(most, 1), slots - 2], _ProgramPlaces(tuple(offsets), is_aligned)
        for launch in launches:
            words += launch_words(launch, places).words
        self._table = (ctypes.c_int64 * len(words))(*words)
        keeps_lock = sum(launch.work_bytes for launch in launches) < LOCKED_BYTES
        # Of threads that make the first lists at once, each may get code of its own: the list keeps it.
        self._native = native_list(keeps_lock)
        self._call = functools.partial(self._native.call, ctypes.addressof(self._table))
        self._is_alone = all(_kernel(launch, places).parts() == 1 for launch in single)

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
        turns = min(repeat.turns, max(1, REPEAT_BYTES // max(repeat.turn_bytes, 1)))
        starts = [memory.at(place) for launch in repeat.launches for place in launch.places]
        for first in range(0, repeat.turns, turns):
            count = min(turns, repeat.turns - first)
            places = [start + first * stride for start, stride in zip(starts, self._strides, strict=True)]
            words = KernelWords(memory.scalars, places)
            self._list(count, pool.threads).run(0, 0, words.address, 0)

    def _list(self, turns: int, threads: int) -> LaunchList:
        launch_list = self._lists.get((turns, threads))
        if launch_list is None:
            slots = DST + 1 + len(self._strides)
            repeat = replace(self._repeat, turns=turns)
            launch_list = self._lists[turns, threads] = LaunchList([repeat], (), slots, is_aligned=False)
        return launch_list


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


@dataclass(frozen=True, slots=True)
class _ProgramPlaces:
    """Places of one program: temporaries lie in scratch. `begins_at_line`: the destination, and scratch."""

    offsets: tuple[int, ...]
    begins_at_line: bool

    def words(self, place: Place) -> tuple[int, int]:
        buffer, offset = place
        return (buffer, offset) if buffer >= 0 else (_SCRATCH, self.offsets[~buffer] + offset)

    def is_aligned(self, place: Place) -> bool:
        return self.begins_at_line and place.buffer <= DST and place.offset % LINE == 0


def launch_words(launch: NativeLaunch, places: PlaceWords, first_scalar: int = 0) -> LaunchWords:
    """The words of a launch in a table. `first_scalar`: the number of the first scalar of its program."""
    if not isinstance(launch, RepeatLaunch):
        return _one_launch_words(launch, (0,) * len(launch.places), places, first_scalar)
    words = LaunchWords([0, launch.turns, len(launch.launches)], [])
    for part, strides in zip(launch.launches, launch.strides, strict=True):
        one = _one_launch_words(part, strides, places, first_scalar)
        words.kernels.extend((len(words.words) + at, kernel) for at, kernel in one.kernels)
        words.words.extend(one.words)
    return words


def _one_launch_words(
    launch: OneLaunch, strides: Sequence[int], places: PlaceWords, first_scalar: int
) -> LaunchWords:
    kernel = _kernel(launch, places)
    first, count = _scalars(launch)
    src = launch.step.src if isinstance(launch, NestLaunch) else Place(SRC)
    pairs = zip(launch.places, strides, strict=True)
    operands = [word for place, stride in pairs for word in (*places.words(place), stride)]
    words = [
        kernel.code.address,
        kernel.code.whole,
        kernel.parts(),
        *places.words(src),
        0,
        *places.words(_dst(launch)),
        0,
        len(launch.places),
        count,
        first_scalar + first,
        len(kernel.numbers),
        *operands,
        *kernel.numbers,
    ]
    return LaunchWords(words, [(0, kernel.code)])


def count_launches(launch: NativeLaunch) -> int:
    """The number of kernels a launch calls, each once."""
    return len(_launches(launch))


def most_params(launch: NativeLaunch) -> int:
    """The most words that one of its kernels reads."""
    return max(len(part.places) + _scalars(part)[1] for part in _launches(launch))


def _kernel(launch: OneLaunch, places: PlaceWords) -> Kernel:
    """The kernel of a launch: what it writes may begin between two cache lines."""
    targets = launch.step.targets if isinstance(launch, TreeLaunch) else (_dst(launch),)
    return launch.kernel(0 if all(map(places.is_aligned, targets)) else 1)


def _dst(launch: OneLaunch) -> Place:
    return launch.step.dst if isinstance(launch, NestLaunch) else launch.dst


def _scalars(launch: OneLaunch) -> tuple[int, int]:
    return (0, 0) if isinstance(launch, InterleavedLaunch) else launch.step.scalars


class NativeList(NamedTuple):
    """The code that goes through a list, called, and the library that it is in."""

    call: Callable[..., None]
    library: jit.Library


@functools.cache
def native_list(keeps_lock: bool) -> NativeList:
    """The code, which lets go of Python's lock or not."""
    isa = host_isa()
    library = jit.load(store.object_code(launches_ir(), isa))
    call = functools.partial(native_call(7, keep_lock=keeps_lock), library.address(LAUNCHES))
    return NativeList(call, library)
