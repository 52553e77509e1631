"""Where a runtime of devices is loaded, when one is first looked for: programs of the CPU never pay for it.

There is one such runtime, SYCL's. Another kind of device would get its line here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..loading import load_whole

if TYPE_CHECKING:
    from .sycl import SyclDevice


def count_devices(selector: str) -> int:
    """How many SYCL devices a filter such as "gpu" or "opencl:cpu" names; "" names all."""
    load_whole("restride.runtime.sycl")
    from . import sycl

    return sycl.count_devices(selector)


def open_device(selector: str, index: int) -> SyclDevice | None:
    """The device of that number in its default context; None where there is none."""
    load_whole("restride.runtime.sycl")
    from . import sycl

    return sycl.open_device(selector, index)


def why_none() -> tuple[str, str]:
    """Why a SYCL device is missing, and what to do about it."""
    load_whole("restride.runtime.sycl")
    from . import sycl

    return sycl.why_none()
