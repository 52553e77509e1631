"""The interface of devices, which hold memory and run kernels; implemented in `host` and `sycl`.

An engine stands for one device. Code above calls the device without asking for its kind: every method works
on every device. If a rule does depend on it, `is_host` is the question.
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
    """The end of one execution: our `Event`, or the device's."""

    def wait(self) -> object:
        """Block until the execution has ended."""


class Queue(Protocol):
    """A queue of work on a device, held by a stream."""

    def wait(self) -> object:
        """Block until all work on the queue has ended."""


class Device(Protocol):
    """One device. `name` is its name for `rs.Engine`, `kind` its word in `EngineKind`.

    `is_host`: buffers are memory of this process, which Python accesses at their addresses, and work has
    ended when its call returns. Elsewhere, addresses are the device's own numbers; those of two buffers
    overlap if their memory does. `is_default`: another process can find it by name and index. `usm_queue`: a
    SYCL queue of the context that the buffers belong to, if they are USM.
    """

    name: str
    index: int
    kind: str
    is_host: bool
    is_default: bool = True
    usm_queue: object = None

    # --- memory: allocate, copy, wait -----------------------------------------------------------------------

    def allocate(self, nbytes: int, *, zero_last: bool = False) -> Buffer:
        """Allocate memory of undefined content; its last byte is zero if `zero_last`. Raises OutOfMemory."""

    def wrap(self, data: object, data_type: DataType) -> Buffer:
        """Return a user's memory for elements of a type, or a `Buffer`, without a copy.

        Raises InvalidArguments for memory that the device cannot reach.
        """

    def check_alive(self, buffer: Buffer) -> None:
        """Raise InvalidArguments for memory that the device does not know, or no longer knows."""

    def host_view(self, buffer: Buffer) -> Buffer | None:
        """Return the memory where Python can access it, once no work uses it; None if it cannot."""

    def download(self, buffer: Buffer) -> Buffer:
        """Return a copy of the bytes on the host, once no work uses them; on the host, the buffer itself."""

    def upload(self, source: Buffer, target: Buffer, nbytes: int) -> None:
        """Write the first bytes of a host buffer to one of the device, once no work uses it."""

    def synchronize(self, buffer: Buffer) -> None:
        """Block until no submitted work uses the buffer."""

    # --- queues ---------------------------------------------------------------------------------------------

    def open_queue(self, in_order: bool) -> Queue | None:
        """Return the queue of a stream; None if work ends before its call returns."""

    def wait(self, queue: Queue | None) -> None:
        """Block until everything on the queue has ended."""

    def mark(self, queue: Queue | None) -> Waitable:
        """Return the event of the end of everything on the queue now."""

    # --- programs: compile, launch --------------------------------------------------------------------------

    def compile(self, program: Program) -> Executable:
        """Compile the program for this device. Raises Unimplemented for unsupported operations."""

    def constant(self, values: Buffer) -> Buffer:
        """Return host values where kernels read them; `values` itself if that is the host."""

    def launch(
        self, executable: Executable, arguments: Arguments, queue: Queue | None, deps: Sequence[Waitable] = ()
    ) -> Waitable:
        """Run an executable on checked arguments after `deps`, on a queue or the device's; return its end."""
