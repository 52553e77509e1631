"""The memory of this process as a device, shared by the CPU and the reference."""

from __future__ import annotations

from ..dtypes import DataType
from .alloc import Buffer, wrap
from .device import Device, Queue
from .event import COMPLETED, Event
from .result_pool import allocate


class HostDevice(Device):
    """A device that works on the memory of this process during the call: no copies, no waiting."""

    index = 0
    is_host = True

    def __init__(self, name: str) -> None:
        self.name = self.kind = name

    def allocate(self, nbytes: int, *, zero_last: bool = False) -> Buffer:
        """Allocate memory, aligned to a cache line or a page; its last byte is zero if `zero_last`."""
        buffer = allocate(nbytes)
        if zero_last:
            buffer.bytes()[-1:] = 0
        return buffer

    def wrap(self, data: object, data_type: DataType) -> Buffer:
        """Return the bytes of an array or of any object with the buffer protocol."""
        return data if isinstance(data, Buffer) else wrap(data, data_type)

    def check_alive(self, buffer: Buffer) -> None:
        """Do nothing: memory of the host lives while its owner does."""

    def host_view(self, buffer: Buffer) -> Buffer:
        """Return the buffer itself."""
        return buffer

    def download(self, buffer: Buffer) -> Buffer:
        """Return the buffer itself."""
        return buffer

    def upload(self, source: Buffer, target: Buffer, nbytes: int) -> None:
        """Copy the first bytes."""
        target.bytes()[:nbytes] = source.bytes()[:nbytes]

    def synchronize(self, buffer: Buffer) -> None:
        """Do nothing: all work has ended."""

    def open_queue(self, in_order: bool) -> Queue | None:
        """Return None: there is no queue."""
        return None

    def wait(self, queue: Queue | None) -> None:
        """Do nothing: all work has ended."""

    def mark(self, queue: Queue | None) -> Event:
        """Return a completed event: all work has ended."""
        return COMPLETED

    def constant(self, values: Buffer) -> Buffer:
        """Return the values themselves."""
        return values
