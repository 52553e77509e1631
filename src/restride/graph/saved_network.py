"""A network in one file: its graphs, its constants as they are and as kernels read them (G8).

    file    := head header tensor*
    head    := "restride network" version 0 bytes-of-header sha256-of-header      16, 4, 4, 8 and 32 bytes
    header  := JSON: rule, inputs, outputs, machine, plans, and numbered lists of tensors, of constants, and
               of what they became in other formats
    tensor  := bytes at a multiple of 64, in the order of the list; each has its CRC-32 in the header

Nothing in a file is executed, and no address or kernel is in it: what a reader finds becomes a graph, which
is checked as one that is built by calls. Tensors are mapped, and checked when they are first used. Constants
that this machine's plan wants in another format than the file has are made of the plain ones.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, TypeVar

import numpy as np

from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..errors import Error, InvalidArguments, OutOfMemory
from ..files.plain_file import bad_file, opened, read_at
from ..files.replacement import shown, system_error
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from .chosen_formats import chosen_ways
from .fusions import FusedGraph
from .graph import Constant
from .graph_draft import AppliedFusion
from .network_input import NetworkInput
from .network_plan import FormatChoices, PlannedGraph
from .network_writer import ALIGNMENT, FILE_VERSION, HEAD, MAGIC, aligned, machine_facts
from .onnx_model import Array
from .operations import Dims, by
from .propagation import RULES
from .stored_graph import graph_of_values, type_of_values

__all__ = ["SavedNetwork", "is_saved_network", "read_network"]

_MOST_HEADER = 1 << 28
_WRONG = (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, RecursionError)
_AGAIN = "save the network again"
_T = TypeVar("_T")


def is_saved_network(path: str) -> bool:
    """True for a file that begins as one that `Network.save` wrote. Raises RuntimeFailure as reading does."""
    with opened(path, "a model, or a file that Network.save wrote") as file:
        return file.read(len(MAGIC)) == MAGIC


def read_network(path: str) -> SavedNetwork:
    """The network in a file, mapped.

    Raises InvalidArguments for what is no such file, or a damaged one; RuntimeFailure where the system
    refuses.
    """
    with opened(path, "a file that Network.save wrote") as file:
        magic, version, zero, nbytes, digest = HEAD.unpack(read_at(file, path, 0, HEAD.size))
        if magic != MAGIC:
            raise _damaged(path, "it does not begin as one that Network.save wrote")
        if version != FILE_VERSION or zero:
            raise _damaged(path, f"it is of version {version}, this restride reads version {FILE_VERSION}")
        if nbytes > _MOST_HEADER:
            raise _damaged(path, f"its header would be of {nbytes} bytes")
        text = read_at(file, path, HEAD.size, nbytes)
        if sha256(text).digest() != digest:
            raise _damaged(path, "its header is not the one that was written")
        try:
            mapped = np.memmap(file, np.uint8, "r")
        except OSError as error:
            raise system_error("map", path, error) from None
    return _told(path, lambda: SavedNetwork(path, json.loads(text), mapped, aligned(HEAD.size + nbytes)))


class SavedNetwork:
    """What a file holds: graphs by the dims of their inputs, and constants in several formats."""

    def __init__(self, path: str, header: Mapping[str, Any], mapped: Array, begin: int) -> None:
        self._path, self._header, self._mapped, self._begin = path, header, mapped, begin
        self.inputs = tuple(map(_input, header["inputs"]))
        self.outputs = tuple(map(str, header["outputs"]))
        self.rule = str(header["rule"])
        if self.rule not in RULES:
            raise _damaged(path, "it names a rule of propagation that there is not")
        self._plans = {tuple(tuple(dims) for dims in each["dims"]): each for each in header["plans"]}
        self._check_tensors()
        self._constants = [self._constant(each) for each in header["constants"]]
        self._numbers = {id(each): number for number, each in enumerate(self._constants)}
        self._formats = {
            (each["constant"], MemoryDesc.from_dict(each["md"])): each["tensor"]
            for each in header["prepacked"]
        }
        self._checked: set[int] = set()

    @property
    def dims(self) -> tuple[tuple[Dims, ...], ...]:
        """The dims of inputs that it was saved for."""
        return tuple(self._plans)

    def graph(self, dims: Mapping[str, Dims]) -> PlannedGraph:
        """The graph for inputs of these dims, with what propagation chose on a machine like this.

        Raises InvalidArguments for dims that were not saved.
        """
        found = self._plans.get(tuple(dims[each.name] for each in self.inputs))
        if found is not None:
            return _told(self._path, lambda: PlannedGraph(self._fused(found), self._choices(found)))
        raise InvalidArguments(
            "Network: the file has no plan for inputs of these dims",
            code="RS-G03",
            where=", ".join(f"{name}: {by(each)}" for name, each in dims.items()),
            why=f"it was saved for {'; '.join(', '.join(map(by, each)) for each in self._plans)}",
            hint="save the network with the dims that it is to run with: net.save(path, dims)",
        )

    def found(self, constant: Constant, md: MemoryDesc) -> Memory | None:
        """The bytes of a constant in a format; None where the file has them not."""
        tensor = self._formats.get((self._numbers.get(id(constant), -1), md))
        if tensor is None:
            return None
        content = self._bytes(tensor)
        if content.nbytes != md.size:
            raise _damaged(self._path, f"tensor {tensor} has not the bytes of {md}")
        self._check(tensor)
        address = content.__array_interface__["data"][0]
        return Memory.from_pointer(address, content.nbytes, md, _CPU, owner=content, readonly=True)

    def check(self, constant: Constant) -> None:
        """Raise InvalidArguments where the values of a constant are damaged."""
        number = self._numbers.get(id(constant))
        if number is not None:
            self._check(self._header["constants"][number]["tensor"])

    # --- parts ----------------------------------------------------------------------------------------------

    def _fused(self, values: Mapping[str, Any]) -> FusedGraph:
        graph = graph_of_values(values["graph"], self._constants.__getitem__)
        names, wanted = [each.name for each in self.inputs], values["dims"]
        if list(graph.inputs) != names or len(graph.outputs) != len(self.outputs):
            raise _damaged(self._path, "a graph has other inputs or outputs than the network")
        if [list(graph.tensors[name].dims) for name in names] != wanted:
            raise _damaged(self._path, "a graph has inputs of other dims than its plan")
        applied = (AppliedFusion(str(a), tuple(map(str, b)), str(c)) for a, b, c in values["fusions"])
        return FusedGraph(graph, tuple(applied))

    def _choices(self, values: Mapping[str, Any]) -> FormatChoices | None:
        """What propagation chose, where it would choose the same here."""
        if self._header["machine"] != machine_facts():
            return None
        return FormatChoices(self.rule, chosen_ways(values["chosen"]), bool(values["is_exact"]))

    def _check_tensors(self) -> None:
        for number, each in enumerate(self._header["tensors"]):
            start, nbytes = each["start"], each["nbytes"]
            is_place = type(start) is type(nbytes) is int and min(start, nbytes) >= 0
            if not is_place or start % ALIGNMENT:
                raise _damaged(self._path, f"tensor {number} lies nowhere")
            if self._begin + start + nbytes > self._mapped.nbytes:
                raise _damaged(self._path, f"it ends before tensor {number} does: it was cut off")

    def _bytes(self, number: int) -> Array:
        each = self._header["tensors"][number]
        start = self._begin + each["start"]
        return self._mapped[start : start + each["nbytes"]]

    def _constant(self, values: Mapping[str, Any]) -> Constant:
        kind, content = type_of_values(values), self._bytes(values["tensor"])
        twin = kind.data_type.numpy
        if twin is None or content.nbytes != kind.nbytes:
            raise _damaged(self._path, f"tensor {values['tensor']} has not the bytes of {kind}")
        return Constant(content.view(np.ndarray).view(twin).reshape(kind.dims))

    def _check(self, number: int) -> None:
        if number in self._checked:
            return
        if zlib.crc32(self._bytes(number).data) != self._header["tensors"][number]["crc32"]:
            raise _damaged(self._path, f"the bytes of tensor {number} are not those that were written")
        self._checked.add(number)


def _input(values: Mapping[str, Any]) -> NetworkInput:
    dims = None if values["dims"] is None else tuple(None if n is None else int(n) for n in values["dims"])
    return NetworkInput(str(values["name"]), dims, DataType.parse(values["data_type"]))


def _told(path: str, function: Callable[[], _T]) -> _T:
    """What a function makes of a file; whatever goes wrong is told of the file."""
    try:
        return function()
    except MemoryError:
        raise OutOfMemory(
            f"cannot read {shown(path)}",
            code="RS-D01",
            why="its header says more than memory holds",
            hint=_AGAIN,
        ) from None
    except Error as error:
        if error.code in ("RS-F10", "RS-F02"):
            raise
        raise _damaged(path, f"{error.what}: {error.why}") from None
    except _WRONG as error:
        raise _damaged(path, f"its header does not hold: {type(error).__name__} {str(error)[:200]}") from None


def _damaged(path: str, why: str) -> InvalidArguments:
    return bad_file(path, why, _AGAIN, code="RS-F10")


_CPU = Engine("cpu")
