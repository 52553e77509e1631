"""Engines: the devices that hold memory and run primitives (programming model, P03)."""

from __future__ import annotations

import enum
import operator
from typing import Any, NoReturn, final

from ..errors import InvalidArguments


class EngineKind(enum.IntEnum):
    """Kinds of engine (`dnnl::engine::kind`) with their numbers of the documents; `reference` is ours."""

    any = 0
    cpu = 1
    gpu = 2
    reference = 3


# One row per kind. "any" names no device, hence none of it can be opened.
_COUNT = {EngineKind.any: 0, EngineKind.cpu: 1, EngineKind.gpu: 0, EngineKind.reference: 1}


@final
class Engine:
    """The device number `index` of one kind: "cpu", "gpu" or "reference" (`dnnl::engine`).

    There is one object per device, so equal engines are identical (`is`). "reference" runs every primitive in
    plain NumPy on the memory of the CPU. Raises InvalidArguments for a kind or an index that does not exist.
    """

    __slots__ = ("_index", "_kind")
    _kind: EngineKind
    _index: int

    def __new__(cls, kind: str | EngineKind, index: int = 0) -> Engine:
        """Return the one object of that device."""
        parsed, number = _parse_kind(kind), _parse_index(index)
        count = _COUNT[parsed]
        if number >= count:
            raise _absent(parsed, number, count)
        return _OPEN.setdefault((parsed, number), _opened(parsed, number))

    @staticmethod
    def get_count(kind: str | EngineKind) -> int:
        """How many engines of `kind` there are (`dnnl::engine::get_count`)."""
        return _COUNT[_parse_kind(kind)]

    @property
    def kind(self) -> str:
        """The kind as a word: "cpu", "gpu" or "reference"."""
        return self._kind.name

    @property
    def index(self) -> int:
        """The device's number among those of its kind."""
        return self._index

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"an Engine cannot be changed: {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"an Engine cannot be changed: {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Engine, (self.kind, self._index)

    def __repr__(self) -> str:
        return f"restride.Engine({self.kind!r}, {self._index})"

    def __str__(self) -> str:
        return f"{self.kind}:{self._index}"


_OPEN: dict[tuple[EngineKind, int], Engine] = {}


def _opened(kind: EngineKind, index: int) -> Engine:
    engine = object.__new__(Engine)
    object.__setattr__(engine, "_kind", kind)
    object.__setattr__(engine, "_index", index)
    return engine


def _parse_kind(kind: object) -> EngineKind:
    if isinstance(kind, EngineKind):
        return kind
    if isinstance(kind, str) and kind.lower() in EngineKind.__members__:
        return EngineKind[kind.lower()]
    raise InvalidArguments(
        f"Engine: unknown kind {_shown(kind)}",
        why="an engine's kind is a word or an EngineKind",
        hint='use "cpu", "gpu" or "reference"',
    )


def _shown(index: object) -> str:
    # Python refuses to print an int of thousands of digits.
    too_long = isinstance(index, int) and abs(index) >= 2**64
    return "(a number beyond 64 bits)" if too_long else repr(index)[:60]


def _parse_index(index: object) -> int:
    try:
        number = -1 if isinstance(index, bool) else operator.index(index)  # type: ignore[arg-type]
    except Exception:  # a foreign __index__ may raise anything
        number = -1
    if number >= 0:
        return number
    raise InvalidArguments(
        "Engine: the index is not a device number",
        why=f"engines of a kind are numbered 0, 1, …; {_shown(index)} was given",
        hint='leave the index out for the first one: rs.Engine("cpu")',
    )


def _absent(kind: EngineKind, index: int, count: int) -> InvalidArguments:
    other = f'rs.Engine("{kind.name}", {count - 1})' if count else 'rs.Engine("cpu")'
    return InvalidArguments(
        f"Engine: there is no engine {kind.name}:{_shown(index)}",
        why=f"this machine offers {count} engine{'' if count == 1 else 's'} of kind {kind.name!r}",
        hint=f"use {other}",
    )
