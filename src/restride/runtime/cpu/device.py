"""The CPU as a device: programs become machine code, which runs during the call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from ...loading import load_whole
from ..arguments import Arguments, Executable
from ..device import Queue
from ..event import COMPLETED, Event
from ..host import HostDevice

if TYPE_CHECKING:
    from ...ir.program import Program
    from .executable import CpuExecutable


class CpuDevice(HostDevice):
    """This process's CPU."""

    def compile(self, program: Program) -> CpuExecutable:
        """Compile the program for this CPU's instruction set."""
        load_whole("restride.runtime.cpu.executable")
        from .executable import executable_of

        return executable_of(program)

    def launch(
        self, executable: Executable, arguments: Arguments, queue: Queue | None, deps: Sequence[object] = ()
    ) -> Event:
        """Run to completion."""
        cast("CpuExecutable", executable).run_with(arguments)
        return COMPLETED
