"""The graphs of a saved network by the dims of their inputs, and its constants in several formats.

`file.py` describes the file. Graphs in it are checked like those that are built by calls. Constants that this
machine's plan needs in formats that the file lacks are converted from the plain ones. Chosen formats are JSON
values, each stored once:

    values      := {"formats": [descriptor], "steps": [[inputs, outputs, seconds]]}
    inputs      := [number of a format]

A loaded network therefore does not search for alternatives.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import accumulate
from math import inf
from typing import Any, NamedTuple

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...errors import refuse
from ...files.writing.replacement import Replacement, shown
from ...runtime.alloc import Array
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ..batch_form import BatchForm, RowsOfBatch
from ..dims import Dims, by
from ..formats.problem import Alternative
from ..formats.propagation import RULES
from ..graph import Constant, Graph
from ..nodes.operations import row_major
from ..rewrites.draft import AppliedFusion
from ..rewrites.fusions import FusedGraph
from ..rewrites.precision import PRECISIONS
from ..stored_constant import StoredConstant
from .file import FILE_VERSION, HEAD, MAGIC, NetworkFile, aligned, machine_facts, naming_file
from .inputs import NetworkInput
from .plan import NetworkPlan, PlannedGraph
from .stored_graph import Values, graph_of_values, type_of_values, type_values, values_of_graph

__all__ = ["SavedNetwork", "SavedPlan", "WrittenNetwork", "write_network"]


# --- reading ------------------------------------------------------------------------------------------------


class SavedNetwork:
    """The content of a file: graphs by the dims of their inputs, and constants in several formats.

    Raises InvalidArguments for an invalid header.
    """

    def __init__(self, file: NetworkFile) -> None:
        self._file, self._header, self._path = file, file.header, file.path
        if file.rule not in RULES or file.precision not in PRECISIONS:
            raise refuse("RS-F10:names-rule-propagation", path=shown(self._path))
        naming_file(self._path, self._read)

    def _read(self) -> None:
        self._plans = dict(zip(self._file.dims, self._header["plans"], strict=True))
        self._constants = [self._constant(entry) for entry in self._header["constants"]]
        self._numbers = {id(constant): number for number, constant in enumerate(self._constants)}
        self.forms = [
            BatchForm(
                tuple(map(tuple, entry["dims"])),
                tuple(entry["places"]),
                entry["largest"],
                tuple(entry["ends"]),
                self._constants,
                {str(name): RowsOfBatch(*map(int, own)) for name, own in entry.get("rows", {}).items()},
            )
            for entry in self._header.get("batches", ())
        ]
        if not all(form.covers(form.dims) for form in self.forms):
            raise refuse("RS-F10:graph-other-batches", path=shown(self._path))
        self._formats = {
            (entry["constant"], MemoryDesc.from_dict(entry["md"])): entry["tensor"]
            for entry in self._header["prepacked"]
        }

    def graph(self, dims: Mapping[str, Dims]) -> PlannedGraph:
        """Return the graph for inputs of these dims, with the choices that propagation made on a similar
        machine.

        Raises InvalidArguments for dims that were not saved, and differ from those in more than the batch.
        """
        key = tuple(dims[tensor.name] for tensor in self._file.inputs)
        if (plan_values := self._plans.get(key)) is not None:
            return naming_file(self._path, lambda: self._planned(plan_values))
        if (form := next((item for item in self.forms if item.covers(key)), None)) is not None:
            return naming_file(self._path, lambda: PlannedGraph(self._checked(form.graph(key), key)))
        largest = max((item.largest for item in self.forms), default=0)
        raise refuse(
            "RS-G15",
            dims=", ".join((f"{name}: {by(extents)}" for name, extents in dims.items())),
            plans="; ".join(", ".join(map(by, saved_dims)) for saved_dims in self._plans),
            largest=f"; and for batches of 1 to {largest} of these" if self.forms else "",
        )

    def tensor(self, constant: Constant, md: MemoryDesc) -> int | None:
        """Return the number of the tensor with a constant in a format; None if the file has none."""
        number = self._numbers.get(id(constant))
        if number is None:
            return None
        if md == _stored_md(constant):
            return int(self._header["constants"][number]["tensor"])
        return self._formats.get((number, md))

    def memory_of(self, constant: Constant, md: MemoryDesc) -> Memory | None:
        """Return the bytes of a constant in a format; None if the file does not have them."""
        tensor = self._formats.get((self._numbers.get(id(constant), -1), md))
        if tensor is None:
            return None
        content = self._file.tensor(tensor)
        if content.nbytes != md.size:
            raise refuse("RS-F10:tensor-not-bytes", path=shown(self._path), tensor=tensor, md=md)
        self._file.check(tensor)
        address = content.__array_interface__["data"][0]
        return Memory.from_pointer(address, content.nbytes, md, _CPU, owner=content, readonly=True)

    def check(self, constant: Constant) -> None:
        """Raise RuntimeFailure if the values of a constant are damaged."""
        number = self._numbers.get(id(constant))
        if number is not None:
            self._file.check(self._header["constants"][number]["tensor"])

    # --- parts ----------------------------------------------------------------------------------------------

    def _planned(self, values: Mapping[str, Any]) -> PlannedGraph:
        """Return the graph, with the choices of propagation if they would be the same here."""
        graph = graph_of_values(values["graph"], self._constants.__getitem__)
        applied = (AppliedFusion(str(a), tuple(map(str, b)), str(c)) for a, b, c in values["fusions"])
        fused = self._checked(graph, tuple(map(tuple, values["dims"])), tuple(applied))
        if self._header["machine"] != machine_facts():
            return PlannedGraph(fused)
        return PlannedGraph(fused, self._file.rule, _ways(values["chosen"]), bool(values["is_exact"]))

    def _checked(
        self, graph: Graph, input_dims: tuple[Dims, ...], applied: tuple[AppliedFusion, ...] = ()
    ) -> FusedGraph:
        names = [network_input.name for network_input in self._file.inputs]
        if list(graph.inputs) != names or len(graph.outputs) != len(self._file.outputs):
            raise refuse("RS-F10:graph-other-inputs", path=shown(self._path))
        if tuple(graph.tensors[name].dims for name in names) != input_dims:
            raise refuse("RS-F10:graph-inputs-other", path=shown(self._path))
        return FusedGraph(graph, applied)

    def _constant(self, values: Mapping[str, Any]) -> Constant:
        kind, content = type_of_values(values), self._file.tensor(values["tensor"])
        is_stored = "md" in values or (kind.data_type.bits < _BYTE and bool(kind.dims))
        md = MemoryDesc.from_dict(values["md"]) if "md" in values else row_major(kind)
        twin, nbytes = kind.data_type.numpy, kind.nbytes
        if is_stored:
            nbytes = md.size if (md.dims, md.data_type) == (kind.dims, kind.data_type) else -1
        if content.nbytes == nbytes and is_stored:
            return StoredConstant(content.view(np.ndarray), md)
        if content.nbytes != nbytes or twin is None:
            raise refuse("RS-F10:tensor-not-bytes", path=shown(self._path), tensor=values["tensor"], md=kind)
        return Constant(content.view(np.ndarray).view(twin).reshape(kind.dims))


_CPU, _BYTE = Engine("cpu"), 8


def _stored_md(constant: Constant) -> MemoryDesc:
    """Return the layout in which a file stores a constant itself."""
    return constant.md if isinstance(constant, StoredConstant) else row_major(constant.type)


def _ways(values: Mapping[str, Any]) -> tuple[Alternative, ...]:
    """Return the chosen alternatives of steps. Raises ValueError for an invalid time."""
    if not all(type(seconds) is float and 0 <= seconds < inf for *_, seconds in values["steps"]):
        raise ValueError("a time is negative or not finite")
    formats = [MemoryDesc.from_dict(desc) for desc in values["formats"]]

    def named(numbers: Sequence[int]) -> tuple[MemoryDesc, ...]:
        return tuple(formats[number] for number in numbers)

    return tuple(
        Alternative(named(reads), named(writes), seconds) for reads, writes, seconds in values["steps"]
    )


def _way_values(ways: Sequence[Alternative]) -> Values:
    numbers: dict[MemoryDesc, int] = {}
    steps = [
        [
            *([numbers.setdefault(md, len(numbers)) for md in mds] for mds in (way.inputs, way.outputs)),
            way.seconds,
        ]
        for way in ways
    ]
    return {"formats": [md.to_dict() for md in numbers], "steps": steps}


# --- writing ------------------------------------------------------------------------------------------------


class SavedPlan(NamedTuple):
    """The saved values for inputs of given dims: the plan, and its constants in their formats, by name."""

    dims: tuple[Dims, ...]
    plan: NetworkPlan
    constants: Mapping[str, Memory]


class WrittenNetwork(NamedTuple):
    """A written file: the digest of the header, and for each plan the tensors of its constants by name."""

    digest: bytes
    tensors: tuple[Mapping[str, int], ...]


class _NumberedTensors:
    """Numbers tensors, constants and their packed copies, each once."""

    def __init__(self) -> None:
        self.contents: list[Array] = []
        self.constants: list[Constant] = []
        self.prepacked: list[Values] = []
        self.own_tensors: list[int] = []
        self._numbers: dict[Constant, int] = {}
        self._formats: dict[tuple[int, MemoryDesc], int] = {}

    def number(self, constant: Constant) -> int:
        number = self._numbers.setdefault(constant, len(self.constants))
        if number == len(self.constants):
            self.constants.append(constant)
        return number

    def add_format(self, constant: Constant, md: MemoryDesc, memory: Memory) -> None:
        key = self.number(constant), md
        if md == _stored_md(constant) or key in self._formats:
            return
        assert memory._buffer is not None
        tensor = self._formats[key] = self._add(memory._buffer.bytes()[: md.size])
        self.prepacked.append({"constant": key[0], "md": md.to_dict(), "tensor": tensor})

    def finished_constants(self) -> list[Values]:
        """Return all constants, whose bytes follow those that runs read."""
        entries = []
        for constant in self.constants:
            entry = type_values(constant.type)
            if isinstance(constant, StoredConstant):
                content = constant.content[: constant.md.size]
                entry |= {"md": constant.md.to_dict()} if constant.md != row_major(constant.type) else {}
            else:
                content = np.ascontiguousarray(constant.values).reshape(-1).view(np.uint8)
            self.own_tensors.append(self._add(content))
            entries.append({**entry, "tensor": self.own_tensors[-1]})
        return entries

    def tensor(self, constant: Constant, md: MemoryDesc) -> int:
        """Return the number of the tensor with a constant in a format, once all are finished."""
        number = self.number(constant)
        return self.own_tensors[number] if md == _stored_md(constant) else self._formats[number, md]

    def _add(self, content: Array) -> int:
        self.contents.append(content)
        return len(self.contents) - 1


def write_network(
    path: str,
    inputs: Sequence[NetworkInput],
    outputs: Sequence[str],
    rule: str,
    precision: str,
    plans: Sequence[SavedPlan],
    forms: Sequence[BatchForm],
) -> WrittenNetwork:
    """Write a network atomically: the file appears complete or not at all. `forms`: for other batches.

    Raises RuntimeFailure if the system refuses.
    """
    writer = _NumberedTensors()
    stored_plans = [_plan_values(writer, plan) for plan in plans]
    stored_forms = [_form_values(writer, form) for form in forms]
    header: Values = {
        "machine": machine_facts(),
        "rule": rule,
        "precision": precision,
        "inputs": [
            {
                "name": network_input.name,
                "dims": None if network_input.dims is None else list(network_input.dims),
                "data_type": str(network_input.data_type),
            }
            for network_input in inputs
        ],
        "outputs": list(outputs),
        "plans": stored_plans,
        "batches": stored_forms,
        "constants": writer.finished_constants(),
        "prepacked": writer.prepacked,
        "tensors": [],
    }
    # Offsets of tensors after the header, and the end of the last one.
    starts = list(accumulate((aligned(content.nbytes) for content in writer.contents), initial=0))
    header["tensors"] = [
        {"start": start, "nbytes": content.nbytes, "crc32": zlib.crc32(content.data)}
        for start, content in zip(starts, writer.contents, strict=False)
    ]
    text = json.dumps(header, separators=(",", ":")).encode()
    begin, digest = aligned(HEAD.size + len(text)), sha256(text).digest()
    with Replacement(path).open(begin + starts[-1]) as file:
        file.write(HEAD.pack(MAGIC, FILE_VERSION, 0, len(text), digest) + text)
        for start, content in zip(starts, writer.contents, strict=False):
            file.seek(begin + start)
            file.write(content.data)
        file.truncate(begin + starts[-1])
    tensors = ({name: writer.tensor(*kind) for name, kind in plan.plan.constants.items()} for plan in plans)
    return WrittenNetwork(digest, tuple(tensors))


def _plan_values(writer: _NumberedTensors, saved: SavedPlan) -> Values:
    plan = saved.plan
    for name, (constant, md) in plan.constants.items():
        writer.add_format(constant, md, saved.constants[name])
    return {
        "dims": [list(extents) for extents in saved.dims],
        "graph": values_of_graph(plan.graph, writer.number),
        "chosen": _way_values(plan.formats.steps),
        "is_exact": plan.formats.is_exact,
        "fusions": [[fusion.fusion, list(fusion.nodes), fusion.into] for fusion in plan.fusions],
    }


def _form_values(writer: _NumberedTensors, form: BatchForm) -> Values:
    constants = {name: writer.number(form.constants[at]) for name, at in form.ends[0]["constants"].items()}
    return {
        "dims": [list(extents) for extents in form.dims],
        "places": list(form.places),
        "largest": form.largest,
        "ends": [{**end, "constants": constants} for end in form.ends],
        "rows": {
            name: [writer.number(form.constants[own.number]), *own[1:]] for name, own in form.rows.items()
        },
    }
