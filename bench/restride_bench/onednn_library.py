"""Finding and opening the shared libraries of a oneDNN installed from wheels.

The wheels put their libraries into `<prefix>/lib`, where the loader does not look. They are opened here by
full path in the order of their dependencies, and the OpenCL driver is named to the SYCL runtime before it
starts, so neither `LD_LIBRARY_PATH` nor a restart is needed.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from restride import RuntimeFailure, Status

INSTALL = "pip install onednn dpcpp-cpp-rt intel-opencl-rt"

_DNNL, _TBB, _DRIVER = "libdnnl.so.3", "libtbb.so.12", "libintelocl.so"
_RUNTIME = ("libintlc.so.5", "libimf.so", "libirng.so", "libsvml.so", _TBB, "libsycl.so.?")
_MAX_PARALLELISM = 0


class OneDNNError(RuntimeFailure):
    """oneDNN is missing, or a call to it failed; `.status` is the status it returned."""


def failure(call: str, status: int) -> OneDNNError:
    """The error for a call that returned `status`."""
    error = OneDNNError(
        f"oneDNN: {call} failed",
        code="RS-C03",
        why=f"status {status} ({Status(status).name})",
        hint="the benchmark leaves such a problem out",
    )
    error.status = Status(status)
    return error


def why_not(error: OneDNNError) -> str:
    """Return the reason why oneDNN has no implementation. Raises the error if it is another one."""
    if error.status != Status.unimplemented:
        raise error
    return error.what


class _GlobalControl(ctypes.Structure):
    """`tbb::global_control`: value, reserved, parameter."""

    _fields_ = [("value", ctypes.c_size_t), ("reserved", ctypes.c_ssize_t), ("parameter", ctypes.c_int)]


class OneDNNLibrary:
    """The opened `libdnnl` of the environment at `prefix`, and the TBB that it runs on."""

    # TBB keeps the address of a limit, whichever opened library has set it.
    _limit: ClassVar[_GlobalControl | None] = None

    def __init__(self, prefix: str | os.PathLike[str]) -> None:
        folder = Path(prefix) / "lib"
        self.driver = folder / _DRIVER
        self.tbb: ctypes.CDLL | None = None
        if not (folder / _DNNL).exists():
            raise OneDNNError(
                "oneDNN is not installed",
                code="RS-C03",
                where=str(folder / _DNNL),
                why="its library is not in the folder of the environment",
                hint=INSTALL,
            )
        try:
            self._open_runtime(folder)
            self.dnnl = ctypes.CDLL(str(folder / _DNNL))
        except OSError as error:
            raise OneDNNError(
                "oneDNN cannot be loaded", code="RS-C03", why=str(error), hint=INSTALL
            ) from None

    def check(self, call: str, *arguments: object) -> None:
        """Call a function of the library; raise OneDNNError unless it returns success."""
        status = getattr(self.dnnl, call)(*arguments)
        if status:
            raise failure(call, status)

    def limit_threads(self, count: int) -> None:
        """Let at most `count` TBB threads work from now on."""
        if self.tbb is None:
            raise OneDNNError(
                "oneDNN: the number of threads cannot be set",
                code="RS-C03",
                why="libtbb was not found",
                hint=INSTALL,
            )
        if OneDNNLibrary._limit is not None:
            self.tbb._ZN3tbb6detail2r17destroyERNS0_2d114global_controlE(ctypes.byref(OneDNNLibrary._limit))
        OneDNNLibrary._limit = _GlobalControl(count, 0, _MAX_PARALLELISM)
        self.tbb._ZN3tbb6detail2r16createERNS0_2d114global_controlE(ctypes.byref(OneDNNLibrary._limit))

    def _open_runtime(self, folder: Path) -> None:
        for pattern in _RUNTIME:
            for found in sorted(folder.glob(pattern))[:1]:
                opened = ctypes.CDLL(str(found))
                self.tbb = opened if found.name == _TBB else self.tbb


@contextmanager
def driver_named(driver: Path) -> Iterator[None]:
    """Name the OpenCL driver to the SYCL runtime while it starts; a name that the user set stands."""
    is_new = "OCL_ICD_FILENAMES" not in os.environ and driver.exists()
    if is_new:
        os.environ["OCL_ICD_FILENAMES"] = str(driver)
    try:
        yield
    finally:
        if is_new:
            del os.environ["OCL_ICD_FILENAMES"]
