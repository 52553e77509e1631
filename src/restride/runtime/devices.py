"""Registry of devices by the words that name them, used by `rs.Engine`.

A device runtime is loaded when one of its words is first used: CPU programs never pay for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..loading import load_whole
from .cpu.device import CpuDevice
from .device import Device, Queue


class Platform(NamedTuple):
    """The devices of one word. `has_filters`: text after a colon in the word narrows them down.

    `open(filter, index)` returns a device, always the same object, or None; `count(filter)` their number;
    `why_none()` why there is none, and what to do about it.
    """

    open: Callable[[str, int], Device | None]
    count: Callable[[str], int]
    why_none: Callable[[], tuple[str, str]] | None = None
    has_filters: bool = False


_platforms: dict[str, Platform] = {}


def register_platform(word: str, platform: Platform) -> None:
    """Let `rs.Engine(word, index)` open devices; the word is in lower case."""
    _platforms[word] = platform


def register_device(device: Device) -> None:
    """Let `rs.Engine(device.name)` open a device, the only one of its name."""
    register_platform(device.name, Platform(lambda _, index: None if index else device, lambda _: 1))


def find_platform(word: str) -> tuple[Platform, str] | None:
    """Return the devices that a word names, and the filter after its colon; None for an unknown word."""
    first, colon, rest = word.partition(":")
    platform = _platforms.get(first)
    return None if platform is None or (colon and not platform.has_filters) else (platform, rest)


def _reference() -> Device:
    load_whole("restride.runtime.reference")
    from .reference import DEVICE

    return DEVICE


def _open_sycl(selector: str, index: int) -> Device | None:
    load_whole("restride.runtime.sycl.device")
    from .sycl import device as sycl

    return sycl.open_device(selector, index)


def _count_sycl(selector: str) -> int:
    load_whole("restride.runtime.sycl.device")
    from .sycl import device as sycl

    return sycl.count_devices(selector)


def _why_no_sycl() -> tuple[str, str]:
    load_whole("restride.runtime.sycl.device")
    from .sycl import device as sycl

    return sycl.why_none()


def sycl_device_in(what: str, device: object, context: object) -> Device:
    """Return the device for one of dpctl's in a context; `what` is for errors."""
    load_whole("restride.runtime.sycl.device")
    from .sycl import device as sycl

    return sycl.checked_device(what, device, context)


def sycl_queue_of(what: str, device: Device, queue: object) -> Queue:
    """Return a queue of dpctl that belongs to a device; `what` is for errors."""
    load_whole("restride.runtime.sycl.device")
    from .sycl import device as sycl

    return sycl.checked_queue(what, device, queue)


def sycl_objects(what: str, device: Device) -> tuple[Any, Any]:
    """Return dpctl's device and context of a SYCL device; `what` is for errors."""
    load_whole("restride.runtime.sycl.device")
    from .sycl import device as sycl

    sycl_device = sycl.sycl_device(what, device)
    return sycl_device.device, sycl_device.context


# "any" does not name a specific device, so none can be opened.
register_platform("any", Platform(lambda _, index: None, lambda _: 0))
register_device(CpuDevice("cpu"))
register_platform("reference", Platform(lambda _, index: None if index else _reference(), lambda _: 1))
register_platform(
    "gpu", Platform(lambda _, index: _open_sycl("gpu", index), lambda _: _count_sycl("gpu"), _why_no_sycl)
)
register_platform("sycl", Platform(_open_sycl, _count_sycl, _why_no_sycl, has_filters=True))
