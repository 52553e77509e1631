"""A second device: memory behind handles that are no addresses, and work that is done when it is waited for.

A forgotten copy reads through a handle, which fails; a forgotten wait finds the bytes of before.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from restride.dtypes import DataType
from restride.errors import InvalidArguments
from restride.runtime.alloc import Array, Buffer, address_of, allocate
from restride.runtime.device import Device
from restride.runtime.devices import register_device

_FILL = 0xA5
# No process has memory up there, and no two buffers come near each other.
_HANDLES = itertools.count(1 << 62, 1 << 40)


class DeviceBuffer(Buffer):
    """Memory of the second device: `address` is a handle, `owner` what only the device touches."""

    __slots__ = ()

    def bytes(self) -> Array:
        raise AssertionError("memory of the second device is used as if it were memory of the host")


class Task:
    """A piece of work on buffers, and its event: it is done, after `deps`, when somebody waits for it."""

    def __init__(self, work: Callable[[], object], buffers: Sequence[Buffer], deps: Sequence[Task]) -> None:
        self._work: Callable[[], object] | None = work
        self.buffers, self.deps = tuple(buffers), tuple(deps)

    def wait(self) -> None:
        for before in self.deps:
            before.wait()
        work, self._work = self._work, None
        if work is not None:
            work()

    def is_complete(self) -> bool:
        return self._work is None


class SecondQueue:
    """Tasks one after the other; out of order the last one first."""

    def __init__(self, device: SecondDevice, in_order: bool) -> None:
        self._device, self._is_in_order, self._tasks = device, in_order, list[Task]()

    def submit(
        self, work: Callable[[], object], buffers: Sequence[Buffer], deps: Sequence[Task] = ()
    ) -> Task:
        before = self._tasks[-1:] if self._is_in_order else []
        task = Task(work, buffers, [*before, *deps])
        self._tasks.append(task)
        self._device.tasks.append(task)
        return task

    def wait(self) -> None:
        while self._tasks:
            self._tasks.pop().wait()


class SecondDevice(Device):
    name, index, kind, is_host = "second", 0, "any", False

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def allocate(self, nbytes: int, *, zero_last: bool = False) -> Buffer:
        owner = allocate(nbytes).bytes()
        owner[...] = _FILL
        if zero_last:
            owner[-1:] = 0
        return DeviceBuffer(next(_HANDLES), nbytes, False, owner)

    def wrap(self, data: object, data_type: DataType) -> Buffer:
        if isinstance(data, DeviceBuffer):
            return data
        raise InvalidArguments("Memory: the data is memory of the host", code="RS-P08", why="no handle")

    def check_alive(self, buffer: Buffer) -> None: ...

    def host_view(self, buffer: Buffer) -> Buffer | None:
        return None

    def download(self, buffer: Buffer) -> Buffer:
        copied = self.memory(buffer).copy()
        return Buffer(address_of(copied), buffer.nbytes, False, copied)

    def upload(self, source: Buffer, target: Buffer, nbytes: int) -> None:
        self.memory(target)[:nbytes] = source.bytes()[:nbytes]

    def settle(self, buffer: Buffer) -> None:
        for task in self.tasks:
            if any(buffer.owner is used.owner for used in task.buffers):
                task.wait()
        self.tasks = [task for task in self.tasks if not task.is_complete()]

    def open_queue(self, in_order: bool) -> SecondQueue:
        return SecondQueue(self, in_order)

    def wait(self, queue: Any) -> None:
        queue.wait()

    def memory(self, buffer: Buffer) -> Any:
        """The bytes behind a handle, once nothing works on them."""
        self.settle(buffer)
        return buffer.owner


SECOND = SecondDevice()
register_device(SECOND)
