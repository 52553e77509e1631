"""Placement of the memories of a run: host storage, or USM with the same contents, canaries included."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import restride as rs

from .check import GUARD, GuardedStorage
from .common import CommonKnobs
from .operands import CaseOperand
from .work import CaseWork

Execute = Callable[[Any, rs.onednn.Stream, dict[int, rs.Memory]], None]
# What `--memory-kind` allocates; there are no buffers.
USM_KINDS = {"usm": "device", "usm_device": "device", "usm_shared": "shared"}


class Engines(NamedTuple):
    """Who runs a case, and where its source and destination lie: all one engine, unless it crosses."""

    runs: rs.Engine
    src: rs.Engine
    dst: rs.Engine

    @classmethod
    def of(cls, engine: rs.Engine, crossing: str = "none") -> Engines:
        """The engines of a run; `crossing` is what `--cross-engine` says."""
        host = rs.Engine("cpu")
        return cls(
            engine, host if crossing == "cpu2gpu" else engine, host if crossing == "gpu2cpu" else engine
        )


@dataclass(frozen=True, slots=True)
class PlacedMemory:
    """A memory over a storage. `whole` is the USM that stands for all of the storage on a device."""

    memory: rs.Memory
    stored: GuardedStorage
    whole: rs.Memory | None = None

    @classmethod
    def at(
        cls, operand: CaseOperand, engine: rs.Engine, stored: GuardedStorage, usm_kind: str
    ) -> PlacedMemory:
        """Place a storage on an engine, with a copy of its bytes where the engine has memory of its own."""
        if engine.device.is_host:
            return cls(rs.Memory(operand.md, engine, stored.bytes), stored)
        whole = rs.sycl_interop.make_memory(rs.MemoryDesc((stored.whole.size,), "u8", "a"), engine, usm_kind)
        mapped = whole.map_data()
        assert mapped is not None
        mapped[...] = stored.whole
        whole.unmap_data(mapped)
        inner = _UsmStorage(whole, stored.bytes.size) if stored.bytes.size else None
        return cls(rs.Memory(operand.md, engine, inner), stored, whole)

    def fetch(self) -> None:
        """Bring what is on the device into the storage."""
        if self.whole is not None:
            self.stored.whole[...] = self.whole.to_numpy()


class _UsmStorage:
    """USM between canaries, as dpctl's interface says it."""

    def __init__(self, whole: rs.Memory, nbytes: int) -> None:
        self._whole = whole
        around = whole.__sycl_usm_array_interface__
        self.__sycl_usm_array_interface__ = {**around, "shape": (nbytes,), "offset": GUARD}


class BoundPrimitive:
    """A primitive with its memories. `call` runs it; `fetch` makes the storages hold what it has left."""

    def __init__(
        self,
        primitive: Any,
        engines: Engines,
        placed: Mapping[int, PlacedMemory],
        execute: Execute,
        stream_kind: str = "def",
    ) -> None:
        args = {arg: one.memory for arg, one in placed.items()}
        stream = rs.onednn.Stream(engines.runs, "in_order" if stream_kind == "def" else stream_kind)
        self._placed = tuple(placed.values())

        def ended() -> None:
            # What is submitted is not done.
            execute(primitive, stream, args)
            stream.wait()

        is_host = engines.runs.device.is_host
        self.call: Callable[[], object] = partial(execute, primitive, stream, args) if is_host else ended

    def fetch(self) -> None:
        """Bring all memories into their storages."""
        for one in self._placed:
            one.fetch()


def place(
    work: CaseWork, engines: Engines, stored: Mapping[int, GuardedStorage], common: CommonKnobs
) -> dict[int, PlacedMemory]:
    """The memories of an execution by their arguments."""
    kind = USM_KINDS.get(common.memory_kind, "device")
    src, *inputs = work.reads
    groups = ((engines.src, (src,)), (engines.runs, (*inputs, *work.scratchpads)), (engines.dst, work.writes))
    return {
        one.arg: PlacedMemory.at(one, engine, stored[one.arg], kind)
        for engine, operands in groups
        for one in operands
    }
