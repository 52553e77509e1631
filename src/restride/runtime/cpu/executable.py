"""A program compiled for the CPU, with a uniform call on addresses.

    call(src, dst, words)      addresses of slots 0 and 1; `words`: addresses of the other slots, followed by
                               the scalars as doubles, in the layout that kernels read

A single nest that reads its slots unchanged is one kernel, which is called directly. Everything else is a
list of launches: short ones run in one native call, others from Python, which checks for Ctrl-C between
pieces.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...ir.program import DST, SRC, Place, Program
from ...loading import load_whole
from ...schedule.machine import LINE
from ...targets.isa import CacheSizes, Isa, host_caches, host_isa
from ..arguments import Arguments, name_and_reason
from ..result_pool import allocate
from .kernel import REPEAT_BYTES, SHORT_BYTES, packed_address, packer
from .launch import Addresses, Launch, Repeat
from .program_launches import (
    after_passes,
    by_kernel,
    launch_by,
    numbered_kernels,
    only_kernel,
    repeats_of,
    temporary_places,
    why_fixed,
    with_found,
)
from .thread_pool import default_pool

if TYPE_CHECKING:
    from ...schedule.language import Schedule
    from ...targets.lowered import Lowered
    from .launch_list import LaunchList, RepeatPieces

Call = Callable[[int, int, int], None]


class CpuExecutable:
    """A program for this CPU. Immutable except for kernels, compiled at first use; threads can share it.

    `name` and `why` say which kernels run and for what reason; without elements there are none.
    `temporary_offsets`: the offset of each temporary in the scratch memory of a run.
    """

    __slots__ = (
        "_is_native",
        "_lists",
        "_pieces",
        "caches",
        "call",
        "isa",
        "launches",
        "name",
        "program",
        "repeats",
        "scratch_bytes",
        "temporary_offsets",
        "why",
    )

    def __init__(self, program: Program, isa: Isa, caches: CacheSizes) -> None:
        self.program, self.caches = after_passes(program, isa, caches), caches
        self._take(with_found(tuple(repeats_of(self.program, isa, caches)), isa, caches), isa)

    def _take(self, repeats: tuple[Repeat, ...], isa: Isa) -> None:
        self.repeats, self.isa = repeats, isa
        self.launches = tuple(launch for repeat in self.repeats for launch in repeat.launches)
        work = [(launch.kind, launch.why) for launch in self.launches if launch.is_named]
        self.name, self.why = name_and_reason(isa.name, work)
        self.temporary_offsets, self.scratch_bytes = temporary_places(self.program.temporaries)
        most = REPEAT_BYTES if any(repeat.turns > 1 for repeat in self.repeats) else SHORT_BYTES
        is_short = sum(repeat.work_bytes for repeat in self.repeats) < most
        self._is_native = is_short and all(repeat.is_native for repeat in self.repeats)
        self._lists: dict[tuple[bool, int], LaunchList] = {}
        self._pieces: dict[Repeat, RepeatPieces] = {}
        self.call: Call = self._call_first

    @property
    def why_fixed(self) -> str:
        """Why no schedule text describes the program; empty if `scheduled_by` accepts one."""
        return why_fixed(self.launches)

    @property
    def is_one_kernel(self) -> bool:
        """True if one kernel does the work: its transforms need no number."""
        return only_kernel(self.launches) is not None

    def scheduled_by(self, transforms: Schedule) -> CpuExecutable:
        """Return the program with a user's transforms, for its one kernel or for those that `kernel(n)`
        names. Raises InvalidArguments if they do not fit.
        """
        made = self
        for number, of_kernel in by_kernel(transforms, self.launches).items():
            launch = made.launches[number]
            assert isinstance(launch, Launch)
            made = made.with_launch(launch, of_kernel)
        return made

    def with_launch(self, launch: Launch, transforms: Schedule) -> CpuExecutable:
        """Return the program with one launch scheduled differently. Raises InvalidArguments if impossible."""
        other = launch_by(launch, transforms)
        made = CpuExecutable.__new__(CpuExecutable)
        made.program, made.caches = self.program, self.caches
        replaced = (tuple(other if each is launch else each for each in r.launches) for r in self.repeats)
        turns = (repeat.turns for repeat in self.repeats)
        made._take(tuple(map(Repeat, replaced, turns)), self.isa)
        return made

    def __str__(self) -> str:
        return "\n".join(map(str, self.repeats)) or "nothing to launch"

    # --- interface of executables ---------------------------------------------------------------------------

    @property
    def threads(self) -> int:
        """The number of threads that can share a run."""
        return max((launch.threads for launch in self.launches), default=1)

    @property
    def schedule(self) -> str:
        """The transforms of each kernel, one line each; after a `#`, its purpose and the reason."""
        lines, number = list[str](), 0
        is_one = numbered_kernels(self.launches) == [only_kernel(self.launches)]
        for repeat in self.repeats:
            lines += [f"# {repeat.turns} times"] if repeat.turns > 1 else []
            for launch in repeat.launches:
                lines += [f"# {launch.kind}: {launch.why}"]
                after = launch.rewrites if isinstance(launch, Launch) else ""
                lines += [f"# after {after}"] if after else []
                if launch.lowered.choice is None:
                    lines += [f"# {line}" for line in str(launch.lowered).splitlines()]
                else:
                    lines += [str(launch.lowered)] if is_one else [f"kernel({number})", str(launch.lowered)]
                number += 1
        return "\n".join(lines) or "# nothing to do"

    @property
    def lowered(self) -> Lowered | None:
        """The schedule of the nest that does the work, or None."""
        work = (launch for repeat in self.repeats for launch in repeat.native if launch.is_named)
        return next((launch.lowered for launch in work if launch.lowered.nests), None)

    @property
    def kernels(self) -> dict[str, Lowered]:
        """All kernels by names as in the schedule, each followed by those that it calls."""
        named: dict[str, Lowered] = {}
        for number, launch in enumerate(self.launches):
            named[f"kernel({number})"] = launch.lowered
            called = launch.inner if isinstance(launch, Launch) else ()
            named |= {f"kernel({number}), called {i}": each.lowered for i, (_, each) in enumerate(called)}
        return named

    def prepare(self) -> Call:
        """Compile; later calls go straight to the machine code if nothing has to be decided."""
        if self.call != self._call_first:
            return self.call
        for launch in self.launches:
            launch.prepare()
        self.call = self._direct() or (self._call_single if self._single() else self._call_list)
        return self.call

    @property
    def direct_kernel_address(self) -> int:
        """The address of the direct kernel, void(src, dst, words); 0 without one."""
        single = self._single()
        if single is None or single.lowered.streams:
            return 0
        kernel = single.kernel(0)
        return kernel.code.whole if kernel.is_small else 0

    def run_with(self, arguments: Arguments) -> None:
        """Run with these buffers and scalars."""
        src, dst, *others = (buffer.address for buffer in arguments.buffers)
        words = packer(len(others), len(arguments.scalars))(*others, *arguments.scalars)
        self.run(src, dst, packed_address(words), arguments.scratch.address if arguments.scratch else 0)

    def run(self, src: int, dst: int, words: int, scratch: int = 0) -> None:
        """Run as `call`, with `scratch_bytes` bytes at `scratch` for temporaries; 0 allocates them."""
        if scratch and self.scratch_bytes:
            self._call_list(src, dst, words, scratch)
        else:
            self.call(src, dst, words)

    # --- how calls run --------------------------------------------------------------------------------------

    def _call_first(self, src: int, dst: int, words: int) -> None:
        # Compiling is deferred until everything has been checked.
        self.prepare()(src, dst, words)

    def _single(self) -> Launch | None:
        """Return the launch of a program of one nest that reads its slots unchanged."""
        native = [launch for repeat in self.repeats for launch in repeat.native]
        if len(self.launches) != 1 or not native:
            return None
        launch, others = native[0], len(self.program.slots) - 2
        places = tuple(Place(DST + 1 + i) for i in range(others))
        is_plain = (launch.src, launch.targets, launch.places) == (Place(SRC), (Place(DST),), places)
        return launch if is_plain and launch.scalars == (0, self.program.scalars) else None

    def _direct(self) -> Call | None:
        """Return the machine code itself, if one thread always runs all of it at any address."""
        if not self.launches:
            return _nothing
        single = self._single()
        if single is None:
            return self._direct_list()
        kernel = single.kernel(0)
        if single.lowered.streams:
            return None
        return kernel.call if kernel.is_small else kernel.run

    def _direct_list(self) -> Call | None:
        """Return native code that runs all launches, if one thread runs them at any address."""
        if not self._is_native or self.scratch_bytes or any(launch.is_shared for launch in self.launches):
            return None
        # Callers hold only the address of the list: the first one stays, whoever prepares again.
        key = True, 0
        launch_list = self._lists.get(key) or self._lists.setdefault(key, self._new_list(is_aligned=True))
        return launch_list.alone()

    def _call_single(self, src: int, dst: int, words: int) -> None:
        (single,) = self.repeats[0].native
        single.kernel(dst).run(src, dst, words)

    def _call_list(self, src: int, dst: int, words: int, scratch: int = 0) -> None:
        buffer = None if scratch or not self.scratch_bytes else allocate(self.scratch_bytes)
        scratch = buffer.address if buffer else scratch
        if self._is_native and (native_list := self._native_list(dst, scratch)) is not None:
            native_list.run(src, dst, words, scratch)
            return
        memory = self._addresses(src, dst, words, scratch)
        for repeat in self.repeats:
            if repeat.turns > 1:
                self._pieces_of(repeat).run(memory)
            else:
                repeat.run(memory)

    def _pieces_of(self, repeat: Repeat) -> RepeatPieces:
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
            if any(launch.is_shared for launch in self.launches) and pool.native_team() is None:
                return None
            launch_list = self._lists[is_aligned, pool.threads] = self._new_list(is_aligned)
        return launch_list

    def _new_list(self, is_aligned: bool) -> LaunchList:
        load_whole("restride.runtime.cpu.launch_list")
        from .launch_list import LaunchList

        return LaunchList(self.repeats, self.temporary_offsets, len(self.program.slots), is_aligned)

    def _addresses(self, src: int, dst: int, words: int, scratch: int) -> Addresses:
        others, scalars = len(self.program.slots) - 2, self.program.scalars
        slots = (ctypes.c_uint64 * others).from_address(words) if others else ()
        values = (ctypes.c_double * scalars).from_address(words + 8 * others) if scalars else ()
        temporaries = [scratch + offset for offset in self.temporary_offsets]
        return Addresses([src, dst, *slots], temporaries, tuple(values))


def _nothing(src: int, dst: int, words: int) -> None:
    """Run a program without elements."""


def executable_of(program: Program) -> CpuExecutable:
    """Return the program for this machine's instruction set."""
    return CpuExecutable(program, host_isa(), host_caches())
