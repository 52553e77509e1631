"""Writes a network to a file; `file.py` says how such a file looks."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...files.writing.replacement import Replacement
from ...runtime.alloc import Array
from ...runtime.memory import Memory
from ..batch_form import BatchForm
from ..dims import Dims
from ..formats.chosen import chosen_values
from ..graph import Constant
from .file import FILE_VERSION, HEAD, MAGIC, aligned, machine_facts
from .inputs import NetworkInput
from .plan import NetworkPlan, plain
from .stored_graph import Values, type_values, values_of_graph

__all__ = ["SavedPlan", "WrittenNetwork", "write_network"]


class SavedPlan(NamedTuple):
    """What is saved for inputs of certain dims: the plan, and its constants in their formats, by name."""

    dims: tuple[Dims, ...]
    plan: NetworkPlan
    constants: Mapping[str, Memory]


class WrittenNetwork(NamedTuple):
    """What was written: the digest of the header, and for each plan the tensors of its constants by name."""

    digest: bytes
    tensors: tuple[Mapping[str, int], ...]


class _NumberedTensors:
    """Numbers tensors, constants and what was made of them, each once."""

    def __init__(self) -> None:
        self.contents: list[Array] = []
        self.constants: list[Constant] = []
        self.prepacked: list[Values] = []
        self.plain_tensors: list[int] = []
        self._numbers: dict[Constant, int] = {}
        self._formats: dict[tuple[int, MemoryDesc], int] = {}

    def number(self, constant: Constant) -> int:
        found = self._numbers.setdefault(constant, len(self.constants))
        if found == len(self.constants):
            self.constants.append(constant)
        return found

    def add_format(self, constant: Constant, md: MemoryDesc, memory: Memory) -> None:
        key = self.number(constant), md
        if md == plain(constant.type) or key in self._formats:
            return
        assert memory._buffer is not None
        tensor = self._formats[key] = self._add(memory._buffer.bytes()[: md.size])
        self.prepacked.append({"constant": key[0], "md": md.to_dict(), "tensor": tensor})

    def finished_constants(self) -> list[Values]:
        """All constants, whose bytes stand behind those that runs read."""
        made = []
        for each in self.constants:
            content = np.ascontiguousarray(each.values).reshape(-1).view(np.uint8)
            self.plain_tensors.append(self._add(content))
            made.append({**type_values(each.type), "tensor": self.plain_tensors[-1]})
        return made

    def tensor(self, constant: Constant, md: MemoryDesc) -> int:
        """The tensor that has a constant in a format, when all are finished."""
        number = self.number(constant)
        return self.plain_tensors[number] if md == plain(constant.type) else self._formats[number, md]

    def _add(self, content: Array) -> int:
        self.contents.append(content)
        return len(self.contents) - 1


def write_network(
    path: str,
    inputs: Sequence[NetworkInput],
    outputs: Sequence[str],
    rule: str,
    plans: Sequence[SavedPlan],
    forms: Sequence[BatchForm],
) -> WrittenNetwork:
    """Write a network: the file appears whole under its name or not at all. `forms`: for other batches.

    Raises RuntimeFailure where the system refuses.
    """
    writer = _NumberedTensors()
    stored_plans = [_plan_values(writer, each) for each in plans]
    stored_forms = [_form_values(writer, each) for each in forms]
    header: Values = {
        "machine": machine_facts(),
        "rule": rule,
        "inputs": [_input_values(each) for each in inputs],
        "outputs": list(outputs),
        "plans": stored_plans,
        "batches": stored_forms,
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
    begin, digest = aligned(HEAD.size + len(text)), sha256(text).digest()
    with Replacement(path).open(begin + starts[-1]) as file:
        file.write(HEAD.pack(MAGIC, FILE_VERSION, 0, len(text), digest) + text)
        for start, each in zip(starts, writer.contents, strict=False):
            file.seek(begin + start)
            file.write(each.data)
        file.truncate(begin + starts[-1])
    tensors = ({name: writer.tensor(*kind) for name, kind in each.plan.constants.items()} for each in plans)
    return WrittenNetwork(digest, tuple(tensors))


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


def _form_values(writer: _NumberedTensors, form: BatchForm) -> Values:
    constants = {name: writer.number(form.constants[at]) for name, at in form.ends[0]["constants"].items()}
    return {
        "dims": [list(each) for each in form.dims],
        "places": list(form.places),
        "largest": form.largest,
        "ends": [{**each, "constants": constants} for each in form.ends],
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
