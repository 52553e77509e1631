"""Constants in the formats that steps read: made once for all plans of a network, or found in its file."""

from __future__ import annotations

import threading
import weakref
from typing import NamedTuple, Protocol

from ..desc.memory_desc import MemoryDesc
from ..primitives.reorder import Reorder
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.stream import Stream
from .graph import Constant
from .operations import TensorType

__all__ = ["PrepackedConstants", "StoredFormats"]


class StoredFormats(Protocol):
    """What a file has of constants beside their values."""

    def found(self, constant: Constant, md: MemoryDesc) -> Memory | None:
        """The bytes of a constant in a format; None where the file has them not."""

    def check(self, constant: Constant) -> None:
        """Raise InvalidArguments where the values of a constant are damaged in the file."""


class _Prepacked(NamedTuple):
    constant: Constant
    memory: weakref.ref[Memory]


class PrepackedConstants:
    """What constants have become, for as long as a plan uses it. Threads may share it.

    Plans of other dims have constants of their own with equal values: they share what was made of them.
    """

    def __init__(self, stored: StoredFormats | None = None) -> None:
        self.stored = stored
        self._known: dict[tuple[TensorType, MemoryDesc], list[_Prepacked]] = {}
        self._lock = threading.Lock()

    def memory(self, constant: Constant, md: MemoryDesc, engine: Engine) -> Memory:
        """The values of a constant in a format."""
        key = constant.type, md
        found = self._found(key, constant)
        if found is not None:
            return found
        # Not under the lock: threads make what a plan wants side by side.
        made = self._made(constant, md, engine)
        with self._lock:
            known = [each for each in self._known.get(key, ()) if each.memory() is not None]
            self._known[key] = [*known, _Prepacked(constant, weakref.ref(made))]
        return made

    def _found(self, key: tuple[TensorType, MemoryDesc], constant: Constant) -> Memory | None:
        with self._lock:
            known = list(self._known.get(key, ()))
        for each in known:
            memory = each.memory()
            if memory is not None and each.constant == constant:
                return memory
        return None

    def _made(self, constant: Constant, md: MemoryDesc, engine: Engine) -> Memory:
        if self.stored is not None:
            found = self.stored.found(constant, md)
            if found is not None:
                return found
            self.stored.check(constant)
        source = Memory.from_numpy(constant.values, None, engine)
        if source.desc == md:
            return source
        made = Memory(md, engine)
        pd = Reorder.PrimitiveDesc(engine, source.desc, engine, md)
        Reorder(pd).execute(Stream(engine), source, made)
        return made
