"""Engines: the devices that hold memory and run primitives (programming model, P03, P07)."""

from __future__ import annotations

import enum
import operator
from typing import TYPE_CHECKING, Any, NoReturn, final

from ..desc.parse import short_repr
from ..errors import InvalidArguments
from .devices import count_devices, open_device, why_none

if TYPE_CHECKING:
    from .sycl import SyclDevice


class EngineKind(enum.IntEnum):
    """Kinds of engine (`dnnl::engine::kind`) with oneDNN's numbers; `reference` is ours."""

    any = 0
    cpu = 1
    gpu = 2
    reference = 3


# What this process itself is. "any" names no device, hence none of it can be opened.
_HOST_COUNT = {"any": 0, "cpu": 1, "reference": 1}
_SYCL = "sycl"


@final
class Engine:
    """The device number `index` of one kind: "cpu", "gpu", "reference" or "sycl" (`dnnl::engine`).

    "gpu" is a SYCL device that is a GPU. "sycl" is any SYCL device; "sycl:cpu", "sycl:opencl:cpu" and the
    like narrow it down, as SYCL's own filters do (P07). "reference" runs every primitive in plain NumPy on
    the memory of the CPU. There is one object per device, so equal engines are identical (`is`). Raises
    InvalidArguments for a kind or an index that does not exist.
    """

    __slots__ = ("_device", "_index", "_kind")
    _kind: EngineKind
    _index: int
    _device: SyclDevice | None

    def __new__(cls, kind: str | EngineKind, index: int = 0) -> Engine:
        """Return the one object of that device."""
        word, number = _parse_kind(kind), _parse_index(index)
        selector = _selector(word)
        if selector is not None:
            return _open_sycl(word, selector, number)
        count = _HOST_COUNT[word]
        if number >= count:
            raise _absent(word, number, count)
        parsed = EngineKind[word]
        return _OPEN.setdefault((parsed, number), _opened(parsed, number))

    @staticmethod
    def get_count(kind: str | EngineKind) -> int:
        """How many engines of `kind` there are (`dnnl::engine::get_count`)."""
        word = _parse_kind(kind)
        selector = _selector(word)
        return _HOST_COUNT[word] if selector is None else count_devices(selector)

    @classmethod
    def of_device(cls, device: SyclDevice) -> Engine:
        """The one engine of a SYCL device in a context."""
        kind = EngineKind.__members__.get(device.word, EngineKind.any)
        return _OPEN.setdefault(device, _opened(kind, device.index, device))

    @property
    def kind(self) -> str:
        """The kind as a word: "cpu", "gpu" or "reference"; of a SYCL device what it is."""
        return self._kind.name

    @property
    def name(self) -> str:
        """What `rs.Engine` takes for this device: the kind, or "sycl:opencl:cpu"."""
        return self.kind if self._device is None else self._device.name

    @property
    def is_sycl(self) -> bool:
        """True for a SYCL device: its memory is USM, its streams are queues."""
        return self._device is not None

    @property
    def index(self) -> int:
        """The device's number among those of its kind."""
        return self._index

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"an Engine cannot be changed: {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"an Engine cannot be changed: {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        if self._device is not None and not self._device.is_default:
            raise InvalidArguments(
                f"Engine: {self} cannot be copied or pickled",
                code="RS-P03",
                why="its context, or its part of a device, is of this process alone",
                hint="pickle an engine of a whole device in its default context",
            )
        return Engine, (self.name, self._index)

    def __repr__(self) -> str:
        return f"restride.Engine({self.name!r}, {self._index})"

    def __str__(self) -> str:
        return f"{self.name}:{self._index}"


_OPEN: dict[object, Engine] = {}


def _opened(kind: EngineKind, index: int, device: SyclDevice | None = None) -> Engine:
    engine = object.__new__(Engine)
    object.__setattr__(engine, "_kind", kind)
    object.__setattr__(engine, "_index", index)
    object.__setattr__(engine, "_device", device)
    return engine


def _open_sycl(word: str, selector: str, index: int) -> Engine:
    device = open_device(selector, index)
    if device is None:
        raise _absent(word, index, count_devices(selector))
    return Engine.of_device(device)


def _parse_kind(kind: object) -> str:
    word = kind.name if isinstance(kind, EngineKind) else kind.lower() if isinstance(kind, str) else ""
    if word in EngineKind.__members__ or word.partition(":")[0] == _SYCL:
        return word
    raise InvalidArguments(
        f"Engine: unknown kind {_shown(kind)}",
        code="RS-P03",
        why="an engine's kind is a word or an EngineKind",
        hint='use "cpu", "gpu" or "reference", or a SYCL device: "sycl", "sycl:opencl:cpu"',
    )


def _selector(word: str) -> str | None:
    """What a SYCL device must be; None for the host."""
    if word == EngineKind.gpu.name:
        return word
    first, _, rest = word.partition(":")
    return rest if first == _SYCL else None


def _shown(index: object) -> str:
    # Python refuses to print an int of thousands of digits.
    too_long = isinstance(index, int) and abs(index) >= 2**64
    return "(a number beyond 64 bits)" if too_long else short_repr(index)


def _parse_index(index: object) -> int:
    try:
        number = -1 if isinstance(index, bool) else operator.index(index)  # type: ignore[arg-type]
    except Exception:  # a foreign __index__ may raise anything
        number = -1
    if number >= 0:
        return number
    raise InvalidArguments(
        "Engine: the index is not a device number",
        code="RS-P03",
        why=f"engines of a kind are numbered 0, 1, …; {_shown(index)} was given",
        hint='leave the index out for the first one: rs.Engine("cpu")',
    )


def _absent(word: str, index: int, count: int) -> InvalidArguments:
    word = word[:60]
    why = f"this machine offers {count} engine{'' if count == 1 else 's'} of kind {word!r}"
    hint = f'use rs.Engine("{word}", {count - 1})' if count else 'use rs.Engine("cpu")'
    if not count and _selector(word) is not None:
        reason, way_out = why_none()
        why, hint = f"{why}: {reason}", f"{hint}, or {way_out}"
    return InvalidArguments(
        f"Engine: there is no engine {word}:{_shown(index)}", code="RS-P03", why=why, hint=hint
    )
