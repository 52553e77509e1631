"""What a saved network computes: graphs by the dims of their inputs, and constants in several formats.

What a reader finds in a file becomes a graph, which is checked as one that is built by calls. Constants that
this machine's plan wants in another format than the file has are made of the plain ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...errors import refuse
from ...files.writing.replacement import shown
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ..batch_form import BatchForm
from ..dims import Dims, by
from ..formats.chosen import chosen_ways
from ..formats.propagation import RULES
from ..graph import Constant, Graph
from ..rewrites.draft import AppliedFusion
from ..rewrites.fusions import FusedGraph
from .file import NetworkFile, machine_facts, told_of
from .plan import FormatChoices, PlannedGraph, plain
from .stored_graph import graph_of_values, type_of_values

__all__ = ["SavedNetwork"]


class SavedNetwork:
    """What a file holds: graphs by the dims of their inputs, and constants in several formats.

    Raises InvalidArguments for a header that does not hold.
    """

    def __init__(self, file: NetworkFile) -> None:
        self._file, self._header, self._path = file, file.header, file.path
        if file.rule not in RULES:
            raise refuse("RS-F10:names-rule-propagation", path=shown(self._path))
        told_of(self._path, self._read)

    def _read(self) -> None:
        self._plans = dict(zip(self._file.dims, self._header["plans"], strict=True))
        self._constants = [self._constant(each) for each in self._header["constants"]]
        self._numbers = {id(each): number for number, each in enumerate(self._constants)}
        self.forms = [
            BatchForm(
                tuple(map(tuple, each["dims"])),
                tuple(each["places"]),
                each["largest"],
                tuple(each["ends"]),
                self._constants,
            )
            for each in self._header.get("batches", ())
        ]
        if not all(each.covers(each.dims) for each in self.forms):
            raise refuse("RS-F10:graph-other-batches", path=shown(self._path))
        self._formats = {
            (each["constant"], MemoryDesc.from_dict(each["md"])): each["tensor"]
            for each in self._header["prepacked"]
        }

    def graph(self, dims: Mapping[str, Dims]) -> PlannedGraph:
        """The graph for inputs of these dims, with what propagation chose on a machine like this.

        Raises InvalidArguments for dims that were not saved, and differ in more than the batch from those.
        """
        wanted = tuple(dims[each.name] for each in self._file.inputs)
        if (found := self._plans.get(wanted)) is not None:
            return told_of(self._path, lambda: PlannedGraph(self._fused(found), self._choices(found)))
        if (form := next((each for each in self.forms if each.covers(wanted)), None)) is not None:
            return told_of(self._path, lambda: PlannedGraph(self._checked(form.graph(wanted), wanted)))
        largest = max((each.largest for each in self.forms), default=0)
        raise refuse(
            "RS-G03:file-no-plan",
            dims=", ".join((f"{name}: {by(each)}" for name, each in dims.items())),
            plans="; ".join(", ".join(map(by, each)) for each in self._plans),
            largest=f"; and for batches of 1 to {largest} of these" if self.forms else "",
        )

    def tensor(self, constant: Constant, md: MemoryDesc) -> int | None:
        """The number of the tensor that has a constant in a format; None where the file has none."""
        number = self._numbers.get(id(constant))
        if number is None:
            return None
        if md == plain(constant.type):
            return int(self._header["constants"][number]["tensor"])
        return self._formats.get((number, md))

    def found(self, constant: Constant, md: MemoryDesc) -> Memory | None:
        """The bytes of a constant in a format; None where the file has them not."""
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
        """Raise InvalidArguments where the values of a constant are damaged."""
        number = self._numbers.get(id(constant))
        if number is not None:
            self._file.check(self._header["constants"][number]["tensor"])

    # --- parts ----------------------------------------------------------------------------------------------

    def _fused(self, values: Mapping[str, Any]) -> FusedGraph:
        graph = graph_of_values(values["graph"], self._constants.__getitem__)
        applied = (AppliedFusion(str(a), tuple(map(str, b)), str(c)) for a, b, c in values["fusions"])
        return self._checked(graph, tuple(map(tuple, values["dims"])), tuple(applied))

    def _checked(
        self, graph: Graph, wanted: tuple[Dims, ...], applied: tuple[AppliedFusion, ...] = ()
    ) -> FusedGraph:
        names = [each.name for each in self._file.inputs]
        if list(graph.inputs) != names or len(graph.outputs) != len(self._file.outputs):
            raise refuse("RS-F10:graph-other-inputs", path=shown(self._path))
        if tuple(graph.tensors[name].dims for name in names) != wanted:
            raise refuse("RS-F10:graph-inputs-other", path=shown(self._path))
        return FusedGraph(graph, applied)

    def _choices(self, values: Mapping[str, Any]) -> FormatChoices | None:
        """What propagation chose, where it would choose the same here."""
        if self._header["machine"] != machine_facts():
            return None
        return FormatChoices(self._file.rule, chosen_ways(values["chosen"]), bool(values["is_exact"]))

    def _constant(self, values: Mapping[str, Any]) -> Constant:
        kind, content = type_of_values(values), self._file.tensor(values["tensor"])
        twin = kind.data_type.numpy
        if twin is None or content.nbytes != kind.nbytes:
            raise refuse("RS-F10:tensor-not-bytes", path=shown(self._path), tensor=values["tensor"], md=kind)
        return Constant(content.view(np.ndarray).view(twin).reshape(kind.dims))


_CPU = Engine("cpu")
