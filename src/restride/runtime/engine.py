"""Engines: the devices that hold memory and run primitives (programming model)."""

from __future__ import annotations

import enum
import operator
from typing import Any, NoReturn, final

from ..desc.parse import short_repr
from ..errors import Error, LookupType, ValueLookup, refuse
from ..foreign import has_attribute
from .device import Device
from .devices import Platform, find_platform, sycl_device_in, sycl_objects


class EngineKind(ValueLookup, enum.IntEnum, metaclass=LookupType):
    """Kinds of engine (`dnnl::engine::kind`) with oneDNN's numbers; `reference` is an extension."""

    any = 0
    cpu = 1
    gpu = 2
    reference = 3


@final
class Engine:
    """Device number `index` of a kind: "cpu", "gpu", "reference" or "sycl" (`dnnl::engine`).

    "gpu" is a SYCL device that is a GPU. "sycl" is any SYCL device; "sycl:cpu", "sycl:opencl:cpu" and so on
    narrow it down, like SYCL's own filters. "reference" runs every primitive in plain NumPy on the memory of
    the CPU. `Engine(kind, device, context)` is the engine of dpctl's SYCL device in dpctl's context. There is
    one object per device, so equal engines are identical (`is`). Raises InvalidArguments for a kind or an
    index that does not exist.
    """

    __slots__ = ("device",)
    device: Device

    def __new__(cls, kind: str | EngineKind, index: object = 0, context: object = None) -> Engine:
        """Return the one object of that device."""
        if context is not None:
            return cls._of_sycl(kind, index, context)
        (word, platform, selector), number = _parse_kind(kind), _parse_index(index)
        device = platform.open(selector, number)
        if device is None:
            raise _absent(word, number, platform, platform.count(selector))
        return cls.of_device(device)

    @staticmethod
    def get_count(kind: str | EngineKind) -> int:
        """Return the number of engines of `kind` (`dnnl::engine::get_count`)."""
        _, platform, selector = _parse_kind(kind)
        return platform.count(selector)

    @classmethod
    def _of_sycl(cls, kind: object, device: object, context: object) -> Engine:
        """Return the engine of dpctl's device in dpctl's context."""
        word, _, _ = _parse_kind(kind)
        engine = cls.of_device(sycl_device_in("Engine", device, context))
        if word.partition(":")[0] in ("sycl", "any", engine.kind):
            return engine
        raise refuse("RS-P03:device-no", word=word[:60], made=engine)

    @classmethod
    def of_device(cls, device: Device) -> Engine:
        """Return the one engine of a device. Raises InvalidArguments for anything else."""
        if not has_attribute(device, "open_queue"):
            raise refuse("RS-V08:device", device=short_repr(device), type=type(device).__name__)
        return _OPEN.setdefault(device, _opened(device))

    @property
    def kind(self) -> str:
        """The kind as a word: "cpu", "gpu" or "reference"; for a SYCL device, that of the hardware."""
        return self.device.kind

    def get_kind(self) -> EngineKind:
        """Return the kind as oneDNN's enumeration."""
        return EngineKind[self.kind]

    def get_sycl_device(self) -> Any:
        """Return the `dpctl.SyclDevice` of the engine. Raises InvalidArguments for an engine of the host."""
        return sycl_objects("Engine.get_sycl_device", self.device)[0]

    def get_sycl_context(self) -> Any:
        """Return the `dpctl.SyclContext` of the engine. Raises InvalidArguments for an engine of the host."""
        return sycl_objects("Engine.get_sycl_context", self.device)[1]

    @property
    def name(self) -> str:
        """The name of this device for `rs.Engine`: the kind, or "sycl:opencl:cpu"."""
        return self.device.name

    @property
    def is_sycl(self) -> bool:
        """True for a SYCL device: its memory is USM, its streams are queues."""
        return self.device.usm_queue is not None

    @property
    def index(self) -> int:
        """The device's number among those of its kind."""
        return self.device.index

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"an Engine cannot be changed: {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"an Engine cannot be changed: {name}")

    def __reduce__(self) -> tuple[object, ...]:
        if not self.device.is_default:
            raise refuse("RS-P03:cannot-copied-pickled", owner=self)
        return Engine, (self.name, self.index)

    def __repr__(self) -> str:
        return f"restride.Engine({self.name!r}, {self.index})"

    def __str__(self) -> str:
        return f"{self.name}:{self.index}"


_OPEN: dict[Device, Engine] = {}


def _opened(device: Device) -> Engine:
    engine = object.__new__(Engine)
    object.__setattr__(engine, "device", device)
    return engine


def _parse_kind(kind: object) -> tuple[str, Platform, str]:
    """Return the word of a kind, the devices that it names, and the filter."""
    word = kind.name if isinstance(kind, EngineKind) else kind.lower() if isinstance(kind, str) else ""
    platform = find_platform(word)
    if platform is not None:
        return word, *platform
    raise refuse("RS-P03:unknown-kind", kind=_index_text(kind))


def _index_text(index: object) -> str:
    # Python refuses to print an int of thousands of digits.
    too_long = isinstance(index, int) and abs(index) >= 2**64
    return "(a number beyond 64 bits)" if too_long else short_repr(index)


def _parse_index(index: object) -> int:
    try:
        number = -1 if isinstance(index, bool) else operator.index(index)  # type: ignore[arg-type]
    except Exception:  # a foreign __index__ can raise anything
        number = -1
    if number >= 0:
        return number
    raise refuse("RS-P03:index-not-device", index=_index_text(index))


def _absent(word: str, index: int, platform: Platform, count: int) -> Error:
    word = word[:60]
    why = f"this machine offers {count} engine{'' if count == 1 else 's'} of kind {word!r}"
    hint = f'use rs.Engine("{word}", {count - 1})' if count else 'use rs.Engine("cpu")'
    if not count and platform.why_none is not None:
        reason, way_out = platform.why_none()
        why, hint = f"{why}: {reason}", f"{hint}, or {way_out}"
    return refuse("RS-P03:no-engine", word=word, index=_index_text(index), why=why, hint=hint)
