"""Constants in the formats that steps read: packed once for all plans of a network, or found in its file."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, NamedTuple

from ...desc.memory_desc import MemoryDesc
from ...files.mapped_file import is_mapped, release_pages
from ...ops.reorder import Reorder
from ...runtime.alloc import Buffer, address_of
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ...runtime.result_pool import allocate
from ...runtime.stream import Stream
from ...schedule.machine import LINE
from ..graph import Constant
from ..nodes.operations import TensorType
from ..stored_constant import StoredConstant

if TYPE_CHECKING:
    from .saved import SavedNetwork

# A constant of at least this size that needs no packing stays in its file: a run may need little of it.
_STAYS_MAPPED = 1 << 30

__all__ = ["ConstantBlock", "PrepackedConstants", "block_bytes"]


class _Prepacked(NamedTuple):
    constant: Constant
    memory: weakref.ref[Memory]


class ConstantBlock:
    """One block of memory for constants that are packed together: separate ones would each begin a page.

    `nbytes`: of all of them; the unused part is never touched. Threads can share it.
    """

    def __init__(self, nbytes: int) -> None:
        self._nbytes, self._taken = nbytes, 0
        self._block: Buffer | None = None
        self._lock = threading.Lock()

    def take(self, md: MemoryDesc, engine: Engine) -> Memory:
        """Allocate memory for a constant in a format; it keeps the block alive."""
        with self._lock:
            if self._block is None:
                self._block = allocate(self._nbytes)
            block, start = self._block, self._taken
            self._taken += block_bytes(md)
        return Memory.from_pointer(block.address + start, md.size, md, engine, owner=block)


def block_bytes(md: MemoryDesc) -> int:
    """Return the bytes of a block that a constant in a format takes: whole cache lines."""
    return -(-md.size // LINE) * LINE


class PrepackedConstants:
    """Constants in the formats of plans, kept as long as a plan uses them. Threads can share it.

    Plans of other dims have separate constants with equal values: they share the packed ones.
    """

    def __init__(self, stored: SavedNetwork | None = None) -> None:
        self.stored = stored
        self._memories: dict[tuple[TensorType, MemoryDesc], list[_Prepacked]] = {}
        self._lock = threading.Lock()

    def memory(self, constant: Constant, md: MemoryDesc, engine: Engine, block: ConstantBlock) -> Memory:
        """Return the values of a constant in a format, in `block` if they have to be packed."""
        key = constant.type, md
        memory = self._find(key, constant)
        if memory is not None:
            return memory
        # Not under the lock: threads pack constants in parallel.
        memory = self._pack(constant, md, engine, block)
        with self._lock:
            entries = [entry for entry in self._memories.get(key, ()) if entry.memory() is not None]
            self._memories[key] = [*entries, _Prepacked(constant, weakref.ref(memory))]
        return memory

    def _find(self, key: tuple[TensorType, MemoryDesc], constant: Constant) -> Memory | None:
        with self._lock:
            entries = list(self._memories.get(key, ()))
        for entry in entries:
            memory = entry.memory()
            if memory is not None and entry.constant == constant:
                return memory
        return None

    def _pack(self, constant: Constant, md: MemoryDesc, engine: Engine, block: ConstantBlock) -> Memory:
        if self.stored is not None:
            memory = self.stored.memory_of(constant, md)
            if memory is not None:
                return memory
            self.stored.check(constant)
        if isinstance(constant, StoredConstant):
            values, source = constant.content, constant.memory(engine)
        else:
            values = constant.values.reshape(constant.type.desc_dims)
            source = Memory.from_numpy(values, None, engine)
        # Small constants are copied: unlike a saved network's, a model's file may be changed meanwhile.
        is_large = values.nbytes >= _STAYS_MAPPED and address_of(values) % LINE == 0
        if source.desc == md and (self.stored is not None or is_large or not is_mapped(values)):
            return source
        memory = block.take(md, engine)
        pd = Reorder.PrimitiveDesc(engine, source.desc, engine, md)
        Reorder(pd).execute(Stream(engine), source, memory)
        release_pages(values)
        return memory
