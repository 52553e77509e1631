"""Constants in the formats that steps read: made once for all plans of a network, or found in its file."""

from __future__ import annotations

import threading
from typing import Protocol

from ..desc.memory_desc import MemoryDesc
from ..primitives.reorder import Reorder
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.stream import Stream
from .graph import Constant

__all__ = ["PrepackedConstants", "StoredFormats"]


class StoredFormats(Protocol):
    """What a file has of constants beside their values."""

    def found(self, constant: Constant, md: MemoryDesc) -> Memory | None:
        """The bytes of a constant in a format; None where the file has them not."""

    def check(self, constant: Constant) -> None:
        """Raise InvalidArguments where the values of a constant are damaged in the file."""


class PrepackedConstants:
    """What constants have become, by identity and format. Threads may share it."""

    def __init__(self, stored: StoredFormats | None = None) -> None:
        self.stored = stored
        # The constant is held, so that its identity stays.
        self._known: dict[tuple[int, MemoryDesc], tuple[Constant, Memory]] = {}
        self._lock = threading.Lock()

    def memory(self, constant: Constant, md: MemoryDesc, engine: Engine) -> Memory:
        """The values of a constant in a format."""
        key = id(constant), md
        with self._lock:
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = constant, self._made(constant, md, engine)
        return found[1]

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
