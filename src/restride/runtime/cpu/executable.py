"""A program compiled for the CPU: one call on addresses, whatever the program is.

    call(src, dst, words)      addresses of slots 0 and 1; `words`: where those of the other slots are, and
                               behind them the scalars as doubles, as kernels read them

One nest that reads its slots as they are is one kernel, and the call goes straight to it. All else is a list
of launches: done by one native call where that is short, else from Python, which sees Ctrl-C between pieces.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...ir.program import (
    DST,
    SRC,
    Place,
    Program,
)
from ...loading import load_whole
from ...schedule.machine import LINE
from ...targets.isa import CacheSizes, Isa
from ..result_pool import allocate
from .kernel import REPEAT_BYTES, SHORT_BYTES, is_small
from .launch import (
    Addresses,
    Launch,
    NestLaunch,
    RepeatLaunch,
    TreeLaunch,
)
from .program_launches import (
    NATIVE,
    after_passes,
    launch_by,
    launches_of,
    name_and_reason,
    temporary_places,
    threads_of,
    why_fixed,
)
from .thread_pool import default_pool

if TYPE_CHECKING:
    from ...schedule.language import Transform
    from ...targets.cpu import LoweredNest
    from .launch_list import LaunchList, RepeatPieces

Call = Callable[[int, int, int], None]


class CpuExecutable:
    """A program for this CPU. Immutable but for kernels, compiled when first wanted; threads may share it.

    `name` and `why` say which kernels run and for what reason; without elements there are none.
    `temporary_offsets`: where each temporary begins in the scratch memory of a run.
    """

    __slots__ = (
        "_is_native",
        "_lists",
        "_pieces",
        "call",
        "isa",
        "launches",
        "name",
        "program",
        "scratch_bytes",
        "temporary_offsets",
        "why",
    )

    def __init__(self, program: Program, isa: Isa, caches: CacheSizes) -> None:
        self.program = after_passes(program, isa, caches)
        self._take(tuple(launches_of(self.program, isa, caches)), isa)

    def _take(self, launches: tuple[Launch, ...], isa: Isa) -> None:
        self.launches, self.isa = launches, isa
        self.name, self.why = name_and_reason(self.launches, isa)
        self.temporary_offsets, self.scratch_bytes = temporary_places(self.program.temporaries)
        work = sum(launch.work_bytes for launch in self.launches if isinstance(launch, NATIVE))
        repeats = any(isinstance(launch, RepeatLaunch) for launch in self.launches)
        most = REPEAT_BYTES if repeats else SHORT_BYTES
        self._is_native = work < most and all(launch.is_native for launch in self.launches)
        self._lists: dict[tuple[bool, int], LaunchList] = {}
        self._pieces: dict[RepeatLaunch, RepeatPieces] = {}
        self.call: Call = self._call_first

    @property
    def why_fixed(self) -> str:
        """Why no text says how the program runs; empty where `scheduled_by` takes one."""
        return why_fixed(self.launches)

    def scheduled_by(self, transforms: Sequence[Transform]) -> CpuExecutable:
        """The same program by the transforms that a person passes. Raises InvalidArguments where they do not
        fit, or the schedule is fixed.
        """
        made = CpuExecutable.__new__(CpuExecutable)
        made.program = self.program
        made._take((launch_by(self.launches, transforms),), self.isa)
        return made

    def __str__(self) -> str:
        return "\n".join(map(str, self.launches)) or "nothing to launch"

    # --- what is asked of every executable ------------------------------------------------------------------

    @property
    def threads(self) -> int:
        """The number of threads that may share a run."""
        return max((threads_of(launch) for launch in self.launches), default=1)

    @property
    def lowered(self) -> LoweredNest | None:
        """The schedule of the nest that does the work; None where there is nothing to do."""
        nests = (
            launch for launch in self.launches if isinstance(launch, NestLaunch) and launch.step.is_named
        )
        return next((nest.lowered for nest in nests), None)

    def prepare(self) -> Call:
        """Compile; later calls go straight to the machine code where nothing has to be decided."""
        if self.call != self._call_first:
            return self.call
        for launch in self.launches:
            launch.prepare()
        self.call = self._direct() or (self._call_single if self._single() else self._call_list)
        return self.call

    @property
    def direct_kernel_address(self) -> int:
        """The address of that kernel, void(src, dst, words); 0 where there is none."""
        single = self._single()
        if single is None or single.lower_unaligned is not None:
            return 0
        kernel = single.kernel(0)
        return kernel.code.whole if kernel.is_small else 0

    def run(self, src: int, dst: int, words: int, scratch: int = 0) -> None:
        """As `call`, with `scratch_bytes` bytes at `scratch` for temporaries; 0 takes new ones."""
        if scratch and self.scratch_bytes:
            self._call_list(src, dst, words, scratch)
        else:
            self.call(src, dst, words)

    # --- how calls run --------------------------------------------------------------------------------------

    def _call_first(self, src: int, dst: int, words: int) -> None:
        # Only now, when everything has been checked, is it worth compiling.
        self.prepare()(src, dst, words)

    def _single(self) -> NestLaunch | None:
        """The launch of a program of one nest that reads its slots as they are."""
        if len(self.launches) != 1 or not isinstance(self.launches[0], NestLaunch):
            return None
        step = self.launches[0].step
        others = tuple(Place(DST + 1 + i) for i in range(len(self.program.slots) - 2))
        reads_all = step.operands == others and step.scalars == (0, self.program.scalars)
        return self.launches[0] if reads_all and (step.src, step.dst) == (Place(SRC), Place(DST)) else None

    def _direct(self) -> Call | None:
        """The machine code itself, where one thread always runs all of it at any address."""
        if not self.launches:
            return _nothing
        single = self._single()
        if single is None:
            return self._direct_list()
        kernel = single.kernel(0)
        if single.lower_unaligned is not None:
            return None
        return kernel.call if kernel.is_small else kernel.run

    def _direct_list(self) -> Call | None:
        """The native code that goes through all launches, where one thread does them at any address."""
        if not self._is_native or self.scratch_bytes or any(_is_shared(launch) for launch in self.launches):
            return None
        # A call holds no more than the address of the list: the first one stays, whoever prepares again.
        key = True, 0
        launch_list = self._lists.get(key) or self._lists.setdefault(key, self._new_list(is_aligned=True))
        return launch_list.alone()

    def _call_single(self, src: int, dst: int, words: int) -> None:
        single = self.launches[0]
        assert isinstance(single, NestLaunch)
        single.kernel(dst).run(src, dst, words)

    def _call_list(self, src: int, dst: int, words: int, scratch: int = 0) -> None:
        buffer = None if scratch or not self.scratch_bytes else allocate(self.scratch_bytes)
        scratch = buffer.address if buffer else scratch
        if self._is_native and (native_list := self._native_list(dst, scratch)) is not None:
            native_list.run(src, dst, words, scratch)
            return
        memory = self._addresses(src, dst, words, scratch)
        for launch in self.launches:
            if isinstance(launch, RepeatLaunch):
                self._pieces_of(launch).run(launch, memory)
            else:
                launch.run(memory)

    def _pieces_of(self, repeat: RepeatLaunch) -> RepeatPieces:
        pieces = self._pieces.get(repeat)
        if pieces is None:
            load_whole("restride.runtime.cpu.launch_list")
            from .launch_list import RepeatPieces

            pieces = self._pieces.setdefault(repeat, RepeatPieces(repeat))
        return pieces

    def _native_list(self, dst: int, scratch: int) -> LaunchList | None:
        pool = default_pool()
        is_aligned = dst % LINE == 0 and scratch % LINE == 0
        launch_list = self._lists.get((is_aligned, pool.threads))
        if launch_list is None:
            if any(map(_is_shared, self.launches)) and pool.native_team() is None:
                return None
            launch_list = self._lists[is_aligned, pool.threads] = self._new_list(is_aligned)
        return launch_list

    def _new_list(self, is_aligned: bool) -> LaunchList:
        load_whole("restride.runtime.cpu.launch_list")
        from .launch_list import LaunchList

        launches = [launch for launch in self.launches if isinstance(launch, NATIVE)]
        return LaunchList(launches, self.temporary_offsets, len(self.program.slots), is_aligned)

    def _addresses(self, src: int, dst: int, words: int, scratch: int) -> Addresses:
        others, scalars = len(self.program.slots) - 2, self.program.scalars
        slots = (ctypes.c_uint64 * others).from_address(words) if others else ()
        values = (ctypes.c_double * scalars).from_address(words + 8 * others) if scalars else ()
        temporaries = [scratch + offset for offset in self.temporary_offsets]
        return Addresses([src, dst, *slots], temporaries, tuple(values))


def _is_shared(launch: Launch) -> bool:
    """True where threads may share a launch, or its kernel depends on the address of the destination."""
    if isinstance(launch, NestLaunch | TreeLaunch):
        return launch.lower_unaligned is not None or not is_small(launch.lowered.steps, launch.work_bytes)
    return not isinstance(launch, RepeatLaunch) or any(map(_is_shared, launch.launches))


def _nothing(src: int, dst: int, words: int) -> None:
    """The work of a program without elements."""
