"""Writes a network to a file; `saved_network.py` says how such a file looks, and reads it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from struct import Struct
from typing import NamedTuple

import numpy as np

from ..desc.memory_desc import MemoryDesc
from ..files.replacement import Replacement
from ..runtime.memory import Memory
from ..runtime.pool import get_num_threads
from ..targets.isa import host_caches, host_isa
from ..version import VERSION
from .chosen_formats import chosen_values
from .graph import Constant
from .network_input import NetworkInput
from .network_plan import NetworkPlan, plain
from .onnx_model import Array
from .operations import Dims
from .stored_graph import Values, type_values, values_of_graph

__all__ = [
    "ALIGNMENT",
    "FILE_VERSION",
    "HEAD",
    "MAGIC",
    "SavedPlan",
    "aligned",
    "machine_facts",
    "write_network",
]

MAGIC, FILE_VERSION, ALIGNMENT = b"restride network", 2, 64
HEAD = Struct("<16sIIQ32s")
"""Magic, version, zero, bytes of the header, and its SHA-256."""


class SavedPlan(NamedTuple):
    """What is saved for inputs of certain dims: the plan, and its constants in their formats, by name."""

    dims: tuple[Dims, ...]
    plan: NetworkPlan
    constants: Mapping[str, Memory]


class _NumberedTensors:
    """Numbers tensors, constants and what was made of them, each once."""

    def __init__(self) -> None:
        self.contents: list[Array] = []
        self.constants: list[Constant] = []
        self.prepacked: list[Values] = []
        self._numbers: dict[int, int] = {}
        self._formats: set[tuple[int, MemoryDesc]] = set()

    def number(self, constant: Constant) -> int:
        found = self._numbers.setdefault(id(constant), len(self.constants))
        if found == len(self.constants):
            self.constants.append(constant)
        return found

    def add_format(self, constant: Constant, md: MemoryDesc, memory: Memory) -> None:
        key = self.number(constant), md
        if md == plain(constant.type) or key in self._formats:
            return
        self._formats.add(key)
        assert memory._buffer is not None
        tensor = self._add(memory._buffer.bytes()[: md.size])
        self.prepacked.append({"constant": key[0], "md": md.to_dict(), "tensor": tensor})

    def finished_constants(self) -> list[Values]:
        """All constants, whose bytes stand behind those that runs read."""
        made = []
        for each in self.constants:
            content = np.ascontiguousarray(each.values).reshape(-1).view(np.uint8)
            made.append({**type_values(each.type), "tensor": self._add(content)})
        return made

    def _add(self, content: Array) -> int:
        self.contents.append(content)
        return len(self.contents) - 1


def write_network(
    path: str, inputs: Sequence[NetworkInput], outputs: Sequence[str], rule: str, plans: Sequence[SavedPlan]
) -> None:
    """Write a network: the file appears whole under its name or not at all.

    Raises RuntimeFailure where the system refuses.
    """
    writer = _NumberedTensors()
    stored_plans = [_plan_values(writer, each) for each in plans]
    header: Values = {
        "machine": machine_facts(),
        "rule": rule,
        "inputs": [_input_values(each) for each in inputs],
        "outputs": list(outputs),
        "plans": stored_plans,
        "constants": writer.finished_constants(),
        "prepacked": writer.prepacked,
        "tensors": [],
    }
    starts = _starts([each.nbytes for each in writer.contents])
    header["tensors"] = [
        {"start": start, "nbytes": each.nbytes, "crc32": zlib.crc32(each.data)}
        for start, each in zip(starts, writer.contents, strict=False)
    ]
    text = json.dumps(header, separators=(",", ":")).encode()
    begin = aligned(HEAD.size + len(text))
    with Replacement(path).open(begin + starts[-1]) as file:
        file.write(HEAD.pack(MAGIC, FILE_VERSION, 0, len(text), sha256(text).digest()) + text)
        for start, each in zip(starts, writer.contents, strict=False):
            file.seek(begin + start)
            file.write(each.data)
        file.truncate(begin + starts[-1])


def machine_facts() -> list[str | int]:
    """What the choices of propagation depend on beside the graph."""
    isa, caches = host_isa(), host_caches()
    return [VERSION, isa.name, isa.features, caches.l2, caches.l3, get_num_threads()]


def _plan_values(writer: _NumberedTensors, saved: SavedPlan) -> Values:
    plan = saved.plan
    for name, (constant, md) in plan.constants.items():
        writer.add_format(constant, md, saved.constants[name])
    return {
        "dims": [list(each) for each in saved.dims],
        "graph": values_of_graph(plan.graph, writer.number),
        "chosen": chosen_values(plan.formats.steps),
        "is_exact": plan.formats.is_exact,
        "fusions": [[each.fusion, list(each.nodes), each.into] for each in plan.fusions],
    }


def _input_values(each: NetworkInput) -> Values:
    dims = None if each.dims is None else list(each.dims)
    return {"name": each.name, "dims": dims, "data_type": str(each.data_type)}


def _starts(sizes: Sequence[int]) -> list[int]:
    """Where each tensor begins behind the header, and where the last ends."""
    starts = [0]
    for nbytes in sizes:
        starts.append(aligned(starts[-1] + nbytes))
    return starts


def aligned(nbytes: int) -> int:
    """The next place where a tensor may begin."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
