"""The recorded run of a saved network, stored with its kernels, so that the next process skips planning.

A **record** has the tables of a run (`runtime/cpu/launch_image.py`), the kernels that they call, and the
tensors of the file that they read. It is in the cache on disk, like machine code, and is trusted like it:
only the user can write to that folder, so a network file from elsewhere cannot add a record. Its key contains
the header of the file, the machine, the number of threads, and the source of restride; if any of these
differ, there is no record, and the network is planned.
"""

from __future__ import annotations

import functools
import json
import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ...dtypes import DataType
from ...emit.entry import ENTRY, WHOLE
from ...loading import load_whole
from ...runtime.alloc import Array, Buffer, address_of
from ...runtime.cpu.launch_image import LaunchTable, LinkedKernel, LinkedTable, row
from ...runtime.cpu.thread_pool import default_pool
from ...runtime.result_pool import allocate
from ...targets.isa import host_caches, host_isa
from ..dims import Dims
from .file import NetworkFile, machine_facts
from .input_indices import InputIndices
from .outputs import NetworkOutput

__all__ = ["RecordedRun", "RunRecord", "Session", "find_record", "keep_record"]


class Session:
    """The memory that one run needs at a time: a block, and the row of addresses that tables read.

    `threads`: the number for which the tables are made.

    `row`: the address of the block; those of inputs and outputs, `ends` of them, set by each run; those of
    all other memories; then the scalars.
    """

    __slots__ = ("_address", "_block", "_ends", "_row", "_tables", "threads")

    def __init__(
        self, block: Buffer, row: Array, ends: int, tables: Sequence[LinkedTable], threads: int
    ) -> None:
        self._block, self._row, self._ends, self._tables = block, row, slice(1, 1 + ends), tables
        self._address, self.threads = address_of(row), threads

    def run(self, addresses: Sequence[int]) -> None:
        """Execute all steps, with the addresses of inputs and outputs in their order."""
        self._row[self._ends] = addresses
        for table in self._tables:
            table.run(self._address)


@dataclass(frozen=True)
class RunRecord:
    """A run as values: `arena` bytes of a block, tables, the key and the kind of each kernel.

    `inputs`: names in the order of their addresses. `indices`: the `InputIndices`. `outputs`: name, dims and
    type of each. `memories`: those after inputs and outputs, each as the number of a tensor or bytes as text.
    """

    arena: int
    tables: Sequence[tuple[Sequence[int], Sequence[int], Sequence[int], int]]
    kernels: Sequence[tuple[str, str]]
    inputs: Sequence[str]
    indices: Sequence[Sequence[Any]]
    outputs: Sequence[tuple[str, Sequence[int], str]]
    memories: Sequence[int | str]
    scalars: Sequence[float]


def keep_record(file_digest: bytes, dims: Sequence[Dims], record: RunRecord) -> None:
    """Store a record for the file whose header has this digest."""
    store = _store()
    store.default_store().put(_key(file_digest, dims), json.dumps(asdict(record)).encode())


def find_record(file: NetworkFile, dims: Sequence[Dims]) -> RecordedRun | None:
    """Return the recorded run of a file for these dims; None if there is no record, or a kernel is missing.

    Raises RuntimeFailure if the bytes of a tensor are damaged.
    """
    content = _store().default_store().get(_key(file.digest, dims))
    if content is None or default_pool().native_team() is None:
        return None
    record = RunRecord(**json.loads(content))
    kernels = _kernels(record)
    return None if kernels is None else RecordedRun(file, record, kernels)


def _kernels(record: RunRecord) -> list[LinkedKernel] | None:
    load_whole("restride.targets.objects")
    from ...targets.objects import load_stored

    candidates = [load_stored(key, host_isa(), kind) for key, kind in record.kernels]
    kernels = [kernel for kernel in candidates if kernel is not None]
    if len(kernels) < len(candidates):
        return None
    return [LinkedKernel(kernel.address(ENTRY), kernel.address(WHOLE), kernel) for kernel in kernels]


class RecordedRun:
    """A record with kernels and tensors in this process. Threads can share it."""

    def __init__(self, file: NetworkFile, record: RunRecord, kernels: Sequence[LinkedKernel]) -> None:
        self.inputs = tuple(record.inputs)
        self.indices = tuple(InputIndices(*each) for each in record.indices)
        self.outputs = tuple(
            NetworkOutput.of(name, tuple(dims), DataType.parse(kind)) for name, dims, kind in record.outputs
        )
        self._arena, self._threads = record.arena, default_pool().threads
        self._tables = [LinkedTable(LaunchTable(*table), kernels) for table in record.tables]
        self._constants = list(_constants(file, record.memories))
        self._ends = len(self.inputs) + len(self.outputs)
        addresses = [0] * (1 + self._ends) + list(map(address_of, self._constants))
        self._row = row(addresses, record.scalars)
        self._idle: deque[Session] = deque()

    @property
    def is_current(self) -> bool:
        """True while the number of threads is the recorded one."""
        return default_pool().threads == self._threads

    def run(self, addresses: Sequence[int]) -> None:
        """Run on addresses of inputs and outputs in their order, whose memory the caller keeps alive."""
        try:
            session = self._idle.pop()
        except IndexError:
            session = self._new_session()
        session.run(addresses)
        # A session of an interrupted run is left to the garbage collector.
        self._idle.append(session)

    def _new_session(self) -> Session:
        block, addresses = allocate(max(self._arena, 1)), self._row.copy()
        addresses[0] = block.address
        return Session(block, addresses, self._ends, self._tables, self._threads)


def _constants(file: NetworkFile, memories: Sequence[int | str]) -> Iterator[Array]:
    for memory in memories:
        if isinstance(memory, str):
            yield np.frombuffer(bytes.fromhex(memory) or bytes(1), np.uint8)
        else:
            file.check(memory)
            yield file.tensor(memory)


def _key(file_digest: bytes, dims: Sequence[Dims]) -> str:
    # Tables and kernels are made for so many threads and these caches; formats are not.
    caches, threads = host_caches(), default_pool().threads
    machine = [*machine_facts(), caches.l2, caches.l3, threads]
    facts = "run", file_digest.hex(), list(map(list, dims)), machine, _source()
    return str(_store().object_key(repr(facts), host_isa()))


def _store() -> ModuleType:
    load_whole("restride.targets.store")
    from ...targets import store

    return store


@functools.cache
def _source() -> tuple[tuple[str, int, int], ...]:
    """Return the files of restride with sizes and times, to detect changed source code.

    In an archive there are none: there the version, which is part of the key anyway, has to suffice.
    """
    package = Path(__file__).parents[2]
    return tuple(sorted(_states(package)))


def _states(folder: Path) -> Iterator[tuple[str, int, int]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    yield entry.path, status.st_size, status.st_mtime_ns
                elif entry.is_dir() and entry.name != "__pycache__":
                    yield from _states(Path(entry.path))
    except OSError:
        return
