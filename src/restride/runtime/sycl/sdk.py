"""dpctl, Python's interface to SYCL: imported only here, and only when a SYCL device is requested.

Differences between versions of dpctl are handled here too.
"""

from __future__ import annotations

import ctypes
import functools
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

from ...loading import load_whole
from ..device import Waitable
from .pending import SubmittedEvent

INSTALL = "pip install 'restride[sycl]', which includes dpctl and a driver for CPUs"
_DRIVER, _DRIVER_PACKAGE = "libintelocl.so", "intel-opencl-rt"
_SYSTEM_DRIVERS = Path("/etc/OpenCL/vendors")
_C_LIBRARIES = ("libDPCTLSyclInterface.so*", "DPCTLSyclInterface.dll")
# OpenCL's loader reads it when it first looks for devices.
_DRIVERS_VARIABLE = "OCL_ICD_FILENAMES"


class Usm(Protocol):
    """The part of dpctl's memory that is used."""

    _pointer: int
    nbytes: int


class SyclQueue(Protocol):
    """The part of a dpctl queue that is used."""

    def wait(self) -> object:
        """Block until all work on the queue has ended."""

    def submit_async(
        self, kernel: object, args: list[object], items: list[int], group: list[int], deps: list[Waitable]
    ) -> SubmittedEvent:
        """Run a kernel on a grid of items."""

    def memcpy_async(
        self, target: object, source: object, nbytes: int, deps: list[Waitable]
    ) -> SubmittedEvent:
        """Copy between the host and the device, or on the device."""

    def memcpy(self, target: object, source: object, nbytes: int) -> None:
        """Copy, and wait for the end."""

    def submit_barrier(self, deps: list[Waitable] = ...) -> SubmittedEvent:
        """Return the event of the end of `deps`; without any, of everything on the queue."""


@dataclass(frozen=True, slots=True)
class Sdk:
    """The part of dpctl that is used. `build(queue, code, name)` makes the kernel `name` of SPIR-V.

    `pointer_type(address, context.addressof_ref())` is 0 for memory that is not USM of the context: of the
    host, of another context, or freed.
    """

    dpctl: Any
    memory: Any
    build: Callable[[object, bytes, str], object]
    pointer_type: Callable[[int, int], int]

    def usm_type(self, usm: Any, queue: Any) -> str:
        """Return "device", "shared" or "host"; "unknown" for memory that has been freed, or was never USM."""
        return str(usm.get_usm_type(queue))

    def devices(self, selector: str) -> list[Any]:
        """Return the devices that a filter such as "gpu" or "opencl:cpu" names; "" names all."""
        words = {word for word in selector.split(":") if word}
        return [one for one in self.dpctl.get_devices() if words <= {*one.filter_string.split(":")[:2]}]

    def default_context(self, device: object) -> Any:
        """Return the context that queues of a device use by default."""
        return self.dpctl.SyclQueue(device).sycl_context


@functools.cache
def find_sdk() -> Sdk | None:
    """Return dpctl; None if it is not installed, or cannot be loaded."""
    _point_at_driver()
    try:
        # Deprecation warnings of other libraries do not concern users of restride.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dpctl = load_whole("dpctl")
            memory = load_whole("dpctl.memory")
            return Sdk(dpctl, memory, _builder(), _pointer_type(Path(str(dpctl.__file__)).parent))
    except (ImportError, OSError, AttributeError, StopIteration):
        return None


def _builder() -> Callable[[Any, bytes, str], Any]:
    """Return dpctl's builder; since 0.22 it says compiler and kernel bundle in place of program."""
    try:
        make = load_whole("dpctl.compiler").create_kernel_bundle_from_spirv
    except ImportError:
        make = load_whole("dpctl.program").create_program_from_spirv
    return lambda queue, code, name: make(queue, code, "").get_sycl_kernel(name)


def _pointer_type(package: Path) -> Callable[[int, int], int]:
    """Return a query of dpctl's C library; dpctl's Python aborts if a pointer is not USM."""
    library = next(path for name in _C_LIBRARIES for path in sorted(package.glob(name)))
    ask = ctypes.CDLL(str(library)).DPCTLUSM_GetPointerType
    ask.argtypes, ask.restype = (ctypes.c_void_p, ctypes.c_void_p), ctypes.c_int
    return ask


def _point_at_driver() -> None:
    """Point OpenCL's loader at the CPU driver that pip has installed in this environment.

    The loader only searches /etc. A user's setting, and a driver of the system, are left unchanged.
    """
    if os.environ.get(_DRIVERS_VARIABLE) or _has_system_driver():
        return
    driver = _installed_driver()
    if driver is not None:
        os.environ[_DRIVERS_VARIABLE] = str(driver)


def _has_system_driver() -> bool:
    try:
        return any(_DRIVER in path.read_text() for path in _SYSTEM_DRIVERS.glob("*.icd"))
    except OSError:
        return False


def _installed_driver() -> Path | None:
    try:
        files = metadata.files(_DRIVER_PACKAGE) or []
    except metadata.PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())).resolve() for file in files if file.name == _DRIVER)
    return next((path for path in paths if path.exists()), None)
