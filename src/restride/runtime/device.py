"""A device: the place of memory and kernels. One file each implements it: `host`, `sycl`.

An engine stands for one device. What is above asks the device, never which kind it is: every method does the
right thing on every device. Where a rule does depend on it, `is_host` is the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ..dtypes import DataType
from .alloc import Buffer
from .arguments import Arguments, Executable

if TYPE_CHECKING:
    from ..ir.program import Program


class Waitable(Protocol):
    """The end of one execution: our `Event`, or one of the device's own."""

    def wait(self) -> object:
        """Block until the execution has ended."""


class Queue(Protocol):
    """An order of work on a device, as a stream holds it."""

    def wait(self) -> object:
        """Block until all work on the queue has ended."""


class Device(Protocol):
    """One device. `name` is what `rs.Engine` takes for it, `kind` the word of `EngineKind` for what it is.

    `is_host`: buffers are memory of this process, which Python reads and writes at their addresses, and work
    has ended when the call that does it returns. Elsewhere an address is a number of the device's own; those
    of two buffers overlap where their memory does. `is_default`: another process finds it by name and index.
    `usm_queue`: a SYCL queue of the context that the buffers belong to, where they are USM.
    """

    name: str
    index: int
    kind: str
    is_host: bool
    is_default: bool = True
    usm_queue: object = None

    # --- memory: allocate, copy, wait -----------------------------------------------------------------------

    def allocate(self, nbytes: int, *, zero_last: bool = False) -> Buffer:
        """New memory of undefined content; its last byte is zero if `zero_last`. Raises OutOfMemory."""

    def wrap(self, data: object, data_type: DataType) -> Buffer:
        """The memory that a user brings for elements of a type, or a `Buffer`, without a copy.

        Raises InvalidArguments for what the device cannot reach.
        """

    def check_alive(self, buffer: Buffer) -> None:
        """Raise InvalidArguments for memory that the device does not know, or any more."""

    def host_view(self, buffer: Buffer) -> Buffer | None:
        """The memory where Python reads and writes it, once nothing works on it; None where it cannot."""

    def download(self, buffer: Buffer) -> Buffer:
        """A copy of the bytes on the host, once nothing works on them; of a host device the buffer itself."""

    def upload(self, source: Buffer, target: Buffer, nbytes: int) -> None:
        """Write the first bytes of a buffer of the host to one of the device, once nothing works on it."""

    def synchronize(self, buffer: Buffer) -> None:
        """Block until nothing that was submitted works on the buffer."""

    # --- queues ---------------------------------------------------------------------------------------------

    def open_queue(self, in_order: bool) -> Queue | None:
        """The queue that a stream holds; None where work ends before its call returns."""

    def wait(self, queue: Queue | None) -> None:
        """Block until everything on the queue has ended."""

    def mark(self, queue: Queue | None) -> Waitable:
        """The event of the end of all that is on the queue now."""

    # --- programs: compile, launch --------------------------------------------------------------------------

    def compile(self, program: Program) -> Executable:
        """The program for this device. Raises Unimplemented for what it cannot do."""

    def constant(self, values: Buffer) -> Buffer:
        """Values of the host where kernels read them; `values` itself where that is the host."""

    def launch(
        self, executable: Executable, arguments: Arguments, queue: Queue | None, deps: Sequence[Waitable] = ()
    ) -> Waitable:
        """Run an executable of this device on checked arguments, on the queue, or the device's own, after
        `deps`; the event of its end.
        """
