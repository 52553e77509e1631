"""The CPU as a device: programs become machine code, which runs in the call itself."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.program import Program
from ...targets.isa import host_caches, host_isa
from ..arguments import Arguments, Executable
from ..device import Queue
from ..event import COMPLETED, Event
from ..host import HostDevice
from .executable import CpuExecutable
from .kernel import packed_address, packer


class CpuDevice(HostDevice):
    """This process's CPU."""

    def compile(self, program: Program) -> CpuExecutable:
        """The program for this CPU's instruction set."""
        return CpuExecutable(program, host_isa(), host_caches())

    def launch(
        self, executable: Executable, arguments: Arguments, queue: Queue | None, deps: Sequence[object] = ()
    ) -> Event:
        """Run to the end."""
        assert isinstance(executable, CpuExecutable)
        src, dst, *others = (buffer.address for buffer in arguments.buffers)
        words = packer(len(others), len(arguments.scalars))(*others, *arguments.scalars)
        scratch = arguments.scratch.address if arguments.scratch else 0
        executable.run(src, dst, packed_address(words), scratch)
        return COMPLETED
