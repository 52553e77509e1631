"""SYCL devices: their memory (USM) and their kernels."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...dtypes import DataType
from ...emit.entry import ENTRY
from ...errors import Error, refuse
from ...ir.program import Program
from ...schedule.machine import DeviceFacts
from ...targets.lowered import Lowered
from ...targets.spirv import spirv_code
from ..alloc import Array, Buffer, address_of
from ..arguments import Arguments, Executable
from ..cache import cache_level
from ..device import Device, Queue, Waitable
from .executable import SyclExecutable
from .pending import pending
from .sdk import INSTALL, Sdk, SyclQueue, find_sdk

USM_KINDS = {"device": "MemoryUSMDevice", "shared": "MemoryUSMShared", "host": "MemoryUSMHost"}
# Larger groups do not speed up kernels that only move.
_GROUP = 256
# Before allocations of at least this size, finished work is released.
_LARGE = 2**20
# SPIR-V has vectors of 16 lanes, and the narrowest elements are bytes.
_VECTOR_BYTES = 16

_kernels = cache_level("kernels")


class SyclDevice(Device):
    """One SYCL device in one context. `queue` is its own, in order: for copies without a stream."""

    is_host = False

    def __init__(self, sdk: Sdk, device: Any, context: Any) -> None:
        self.sdk, self.device, self.context = sdk, device, context
        self.queue = self.usm_queue = sdk.dpctl.SyclQueue(context, device, property="in_order")
        # Read at every execution, so stored to avoid a Python call.
        self._pointer_type, self._context_at = sdk.pointer_type, context.addressof_ref()
        self.name, self.index = _name_and_number(device)
        self.kind = device.device_type.name if device.is_cpu or device.is_gpu else "any"
        # Other devices cannot be reopened by name.
        self.is_default = device.parent_device is None and context == sdk.default_context(device)
        self.has_double = bool(device.has_aspect_fp64)
        self.facts = _facts(device)

    def __repr__(self) -> str:
        return f"<{self.name}:{self.index} {self.device.name}>"

    # --- memory ---------------------------------------------------------------------------------------------

    def allocate(self, nbytes: int, *, zero_last: bool = False, kind: str = "device") -> Buffer:
        """Allocate USM of a kind; its last byte is zero if `zero_last`. Raises OutOfMemory."""
        make = getattr(self.sdk.memory, USM_KINDS[kind])
        if nbytes >= _LARGE:
            pending.release_finished()
        try:
            # Empty USM does not exist.
            usm = make(max(nbytes, 1), queue=self.queue)
        except (self.sdk.memory.USMAllocationError, MemoryError, OverflowError) as error:
            raise refuse(
                "RS-D01:cannot-allocate-bytes-memory", nbytes=nbytes, kind=kind, owner=self, reason=error
            ) from error
        if zero_last and nbytes:
            usm.memset(0)
        return Buffer(usm._pointer, nbytes, False, usm)

    def wrap(self, data: object, data_type: DataType) -> Buffer:
        """Return the USM that `data` is or exports, without a copy; of any type.

        Raises InvalidArguments for memory of the host, of another context, or already freed.
        """
        data = data.owner if isinstance(data, Buffer) else data
        interface = getattr(data, "__sycl_usm_array_interface__", None)
        if interface is None:
            raise refuse("RS-P08:data-memory-host", owner=self, type=type(data).__name__)
        if not all(self._pointer_type(address, self._context_at) for address in self._ends(interface)):
            raise self._no_usm("its pointer is not USM of the engine's context: freed, or of another context")
        try:
            usm = self.sdk.memory.as_usm_memory(data)
        except (TypeError, ValueError) as error:
            raise self._no_usm(str(error)) from error
        return Buffer(usm._pointer, int(usm.nbytes), False, usm)

    def _ends(self, interface: Any) -> tuple[int, int]:
        """Return the addresses of the first and last byte of an array interface."""
        try:
            width = np.dtype(interface["typestr"]).itemsize
            start = interface["data"][0] + width * interface.get("offset", 0)
            extents = [int(n) for n in interface["shape"]]
            steps = interface.get("strides") or [prod(extents[i + 1 :]) for i in range(len(extents))]
            reach = [(n - 1) * step * width for n, step in zip(extents, steps, strict=True) if n]
            return start + sum(min(r, 0) for r in reach), start + sum(max(r, 0) for r in reach) + width - 1
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            why = f"its __sycl_usm_array_interface__ is malformed: {type(error).__name__} {error}"
            raise self._no_usm(why[:300]) from error

    def _no_usm(self, why: str) -> Error:
        return refuse("RS-P08:data-no-usm", owner=self, why=why)

    def usm_type(self, usm: object) -> str:
        """Return "device", "shared", "host", or "unknown" for memory unknown to this context."""
        return self.sdk.usm_type(usm, self.queue)

    def check_alive(self, buffer: Buffer) -> None:
        """Raise InvalidArguments for USM that the context does not know, or no longer knows."""
        if not self._pointer_type(buffer.address, self._context_at):
            raise self._gone(buffer)

    def _gone(self, buffer: Buffer) -> Error:
        return refuse("RS-P08:usm-gone", nbytes=buffer.nbytes, owner=self)

    def host_view(self, buffer: Buffer) -> Buffer | None:
        """Return the same memory, once no work uses it; None for USM that the host cannot access."""
        if self.usm_type(buffer.owner) not in ("shared", "host"):
            return None
        self.synchronize(buffer)
        return buffer

    def download(self, buffer: Buffer) -> Buffer:
        """Return a copy of the bytes on the host, once no work uses them."""
        self.check_alive(buffer)
        self.synchronize(buffer)
        copied = np.empty(max(buffer.nbytes, 1), np.uint8)
        if buffer.nbytes:
            self.queue.memcpy(copied, buffer.owner, buffer.nbytes)
        return Buffer(address_of(copied), buffer.nbytes, False, copied)

    def upload(self, source: Buffer, target: Buffer, nbytes: int) -> None:
        """Write the first bytes of a host buffer, once no work uses the target."""
        self.check_alive(target)
        self.synchronize(target)
        if nbytes:
            self.queue.memcpy(target.owner, readable(source.bytes()[:nbytes]), nbytes)

    def synchronize(self, buffer: Buffer) -> None:
        """Block until no submitted work uses the buffer."""
        pending.wait_for(buffer.owner)

    def open_queue(self, in_order: bool) -> Queue:
        """Return a queue of dpctl."""
        order = {"property": "in_order"} if in_order else {}
        queue: Queue = self.sdk.dpctl.SyclQueue(self.context, self.device, **order)
        return queue

    def wait(self, queue: Queue | None) -> None:
        """Block until everything on the queue has ended, and release what it held."""
        if queue is not None:
            queue.wait()
            pending.release_finished()

    def mark(self, queue: Queue | None) -> Waitable:
        """Return an event after everything on the queue."""
        to: SyclQueue = self.queue if queue is None else queue  # type: ignore[assignment]
        return to.submit_barrier()

    # --- programs -------------------------------------------------------------------------------------------

    def compile(self, program: Program) -> SyclExecutable:
        """Compile the program for this device. Raises Unimplemented for f64 if the device lacks it."""
        return SyclExecutable(program, self)

    def constant(self, values: Buffer) -> Buffer:
        """Return the same bytes in memory of the device."""
        buffer = self.allocate(values.nbytes)
        self.upload(values, buffer, values.nbytes)
        return buffer

    def launch(
        self, executable: Executable, arguments: Arguments, queue: Queue | None, deps: Sequence[Waitable] = ()
    ) -> Waitable:
        """Submit all launches, each after the previous one. Raises InvalidArguments for freed USM."""
        assert isinstance(executable, SyclExecutable)
        for buffer in arguments.buffers:
            if buffer[1] and not self._pointer_type(buffer[0], self._context_at):
                raise self._gone(buffer)
        to: SyclQueue = self.queue if queue is None else queue  # type: ignore[assignment]
        buffers, events = arguments.buffers, list(deps)
        if executable.program.temporaries:
            buffers = (*buffers, *map(self.allocate, reversed(executable.program.temporaries)))
        for launch in executable.launches:
            events = launch.submit(to, buffers, arguments.scalars, events)
        return events[0] if len(events) == 1 else to.submit_barrier(events)

    # --- kernels --------------------------------------------------------------------------------------------

    def kernel(self, lowered: Lowered) -> Any:
        """Return the compiled kernel, from the cache of kernels or compiled now."""
        key = (*lowered.key, self.device, self.context)
        kernel, _ = _kernels.get_or_make(key, lambda: self._build(lowered))
        return kernel

    def _build(self, lowered: Lowered) -> Any:
        code = spirv_code(lowered)
        try:
            return self.sdk.build(self.queue, code, ENTRY)
        except Exception as error:  # dpctl's own errors have no common base class
            raise refuse("RS-D03:device-compiler-refused", owner=self, reason=str(error)[:500]) from error


def readable(array: Array) -> Array:
    """Return bytes that dpctl can copy from: it only accepts writable ones, so others are copied first."""
    return array if array.flags.writeable else array.copy()


def _facts(device: Any) -> DeviceFacts:
    if device.is_cpu:
        # CPUs run items in sequence, with vector registers, and have no memory local to a group.
        return DeviceFacts(group=1, sub_group=1, vector_bytes=_VECTOR_BYTES)
    widths = [int(width) for width in device.sub_group_sizes]
    group = min(_GROUP, int(device.max_work_group_size))
    return DeviceFacts(group, max(widths, default=1), int(device.local_mem_size))


# --- devices ------------------------------------------------------------------------------------------------

_devices: dict[tuple[object, object], SyclDevice] = {}
_devices_lock = threading.RLock()


def count_devices(selector: str) -> int:
    """Count the SYCL devices that a filter such as "gpu" or "opencl:cpu" names; "" names all."""
    sdk = find_sdk()
    return 0 if sdk is None else len(sdk.devices(selector))


def open_device(selector: str, index: int) -> SyclDevice | None:
    """Return the device of that number in its default context, or None."""
    sdk = find_sdk()
    devices = [] if sdk is None else sdk.devices(selector)
    if sdk is None or index >= len(devices):
        return None
    return device_in(sdk, devices[index], sdk.default_context(devices[index]))


def device_in(sdk: Sdk, device: object, context: object) -> SyclDevice:
    """Return the one object of a device in a context."""
    with _devices_lock:
        key = device, context
        return _devices.get(key) or _devices.setdefault(key, SyclDevice(sdk, device, context))


def checked_device(what: str, device: Any, context: Any) -> SyclDevice:
    """Return the one object of dpctl's device and context. Raises InvalidArguments for anything else."""
    sdk = find_sdk()
    if sdk is None:
        why, hint = why_none()
        raise refuse("RS-P08:no-sycl", what=what, why=why, hint=hint)
    _check_is(what, "device", device, sdk.dpctl.SyclDevice)
    _check_is(what, "context", context, sdk.dpctl.SyclContext)
    if device in context.get_devices():
        return device_in(sdk, device, context)
    raise refuse(
        "RS-P08:device-not-context",
        what=what,
        name=device.name,
        context=[member.name for member in context.get_devices()],
    )


def checked_queue(what: str, device: Device, queue: Any) -> Queue:
    """Check that a queue of dpctl belongs to the device and its context. Raises InvalidArguments."""
    if not isinstance(device, SyclDevice):
        raise no_sycl_device(what, f"{device.name}:{device.index} runs on the host")
    _check_is(what, "queue", queue, device.sdk.dpctl.SyclQueue)
    same = (queue.sycl_device == device.device, queue.sycl_context == device.context)
    if all(same):
        checked: Queue = queue
        return checked
    raise refuse(
        "RS-P08:queue-not-engine", what=what, device=device, which="context" if same[0] else "device"
    )


def sycl_device(what: str, device: Device) -> SyclDevice:
    """Return an engine's device if it is a SYCL device. Raises InvalidArguments for those of the host."""
    if isinstance(device, SyclDevice):
        return device
    raise no_sycl_device(what, f"{device.name}:{device.index} runs on the host")


def no_sycl_device(what: str, why: str) -> Error:
    """Return the error for an engine that is not a SYCL device."""
    return refuse("RS-P08:engine-no-sycl", what=what, why=why)


def _check_is(what: str, name: str, value: object, kind: type) -> None:
    if isinstance(value, kind):
        return
    raise refuse("RS-P08:no-dpctl", what=what, name=name, type=type(value).__name__, kind=kind.__name__)


def _name_and_number(device: Any) -> tuple[str, int]:
    """Return the name of the device's engine; a sub-device has no number."""
    name = f"sycl:{device.backend.name}:{device.device_type.name}"
    return name, 0 if device.parent_device else int(device.filter_string.rpartition(":")[2])


def why_none() -> tuple[str, str]:
    """Return the reason why a SYCL device is missing, and what to do about it."""
    if find_sdk() is None:
        return "dpctl is not installed, or cannot be loaded", INSTALL
    return (
        "no driver offers such a device",
        "install its driver: for CPUs intel-opencl-rt, named by OCL_ICD_FILENAMES=<path of libintelocl.so>",
    )
