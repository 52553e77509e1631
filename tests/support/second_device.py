"""A second device: the CPU behind handles that are no addresses, and work that is done when it is waited for.

A forgotten copy reads through a handle, which fails; a forgotten wait finds the bytes of before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from restride.dtypes import DataType
from restride.errors import InvalidArguments
from restride.ir.program import Program
from restride.runtime.alloc import Array, Buffer, address_of
from restride.runtime.arguments import Arguments
from restride.runtime.cpu.device import CpuDevice
from restride.runtime.device import Device
from restride.runtime.devices import register_device
from restride.runtime.result_pool import allocate

_CPU = CpuDevice("cpu")
_FILL = 0xA5
# No process has memory up there; handles overlap where the memory behind them does.
_HANDLE = 1 << 62


class DeviceBuffer(Buffer):
    """Memory of the second device: `address` is a handle, `owner` what only the device touches."""

    __slots__ = ()

    def bytes(self) -> Array:
        raise AssertionError("memory of the second device is used as if it were memory of the host")


class SharedBuffer(DeviceBuffer):
    """Memory of the second device that Python sees too."""

    __slots__ = ()


class SecondExecutable:
    """A kernel compiled for the CPU that cannot be called on addresses."""

    call = None

    def __init__(self, program: Program) -> None:
        self.of_cpu = _CPU.compile(program)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.of_cpu, name)


@dataclass(eq=False)
class Task:
    """A piece of work on buffers, and its event: it is done, after `deps`, when somebody waits for it."""

    work: Callable[[], object] | None
    buffers: Sequence[Buffer]
    deps: Sequence[Task] = ()

    def wait(self) -> None:
        for before in self.deps:
            before.wait()
        work, self.work = self.work, None
        if work is not None:
            work()


class SecondQueue:
    """Tasks one after the other; out of order the last one first."""

    def __init__(self, device: SecondDevice, in_order: bool) -> None:
        self._device, self._in_order, self.tasks = device, in_order, list[Task]()

    def submit(self, work: Callable[[], object], buffers: Sequence[Buffer], *deps: Task) -> Task:
        task = Task(work, buffers, [*deps, *self.tasks[-1:]] if self._in_order else deps)
        self.tasks.append(task)
        self._device.tasks.append(task)
        return task

    def wait(self) -> None:
        while self.tasks:
            self.tasks.pop().wait()


class SecondDevice(Device):
    name, index, kind, is_host = "second", 0, "any", False

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def allocate(self, nbytes: int, *, zero_last: bool = False) -> Buffer:
        owner = allocate(nbytes).bytes()
        owner[...] = _FILL
        owner[nbytes - zero_last :] = 0
        return DeviceBuffer(*self.adopt(owner))

    def adopt(self, array: Array) -> Buffer:
        """A contiguous array of the host as memory of the device, for tests that look at its bytes."""
        owner = array.reshape(-1).view(np.uint8)
        return SharedBuffer(_HANDLE | address_of(owner), owner.nbytes, not owner.flags.writeable, owner)

    def wrap(self, data: object, data_type: DataType) -> Buffer:
        if isinstance(data, DeviceBuffer):
            return data
        raise InvalidArguments("Memory: the data is in host memory", code="RS-P08", why="no handle")

    def check_alive(self, buffer: Buffer) -> None: ...

    def host_view(self, buffer: Buffer) -> Buffer | None:
        if not isinstance(buffer, SharedBuffer):
            return None
        self.synchronize(buffer)
        return _on_host(buffer)

    def download(self, buffer: Buffer) -> Buffer:
        copied = self.memory(buffer).copy()
        return Buffer(address_of(copied), buffer.nbytes, False, copied)

    def upload(self, source: Buffer, target: Buffer, nbytes: int) -> None:
        self.memory(target)[:nbytes] = source.bytes()[:nbytes]

    def memory(self, buffer: Buffer) -> Any:
        """The bytes behind a handle, once nothing works on them."""
        self.synchronize(buffer)
        return buffer.owner

    def synchronize(self, buffer: Buffer) -> None:
        for task in self.tasks:
            if any(np.shares_memory(buffer.owner, used.owner) for used in task.buffers if used.nbytes):
                task.wait()
        self.tasks = [task for task in self.tasks if task.work]

    def open_queue(self, in_order: bool) -> SecondQueue:
        return SecondQueue(self, in_order)

    def wait(self, queue: Any) -> None:
        queue.wait()

    def mark(self, queue: Any) -> Task:
        return Task(None, (), () if queue is None else tuple(queue.tasks))

    def compile(self, program: Program) -> SecondExecutable:
        return SecondExecutable(program)

    def constant(self, values: Buffer) -> Buffer:
        made = self.allocate(values.nbytes)
        self.upload(values, made, values.nbytes)
        return made

    def launch(self, executable: Any, arguments: Arguments, queue: Any, deps: Sequence[Any] = ()) -> Task:
        pad = arguments.scratch
        on_host = replace(
            arguments, buffers=tuple(map(_on_host, arguments.buffers)), scratch=pad and _on_host(pad)
        )
        buffers = (*arguments.buffers, *([pad] if pad else []))

        def work() -> None:
            _CPU.launch(executable.of_cpu, on_host, None)

        return Task(work, buffers, deps) if queue is None else queue.submit(work, buffers, *deps)


def _on_host(buffer: Buffer) -> Buffer:
    """The memory behind a handle."""
    return Buffer(buffer.address & ~_HANDLE, buffer.nbytes, buffer.readonly, buffer.owner)


SECOND = SecondDevice()
register_device(SECOND)
