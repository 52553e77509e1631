"""A network as rows from top to bottom: nodes, reorders between them, and lanes for tensors.

A tensor has a lane from the row that writes it to the last row that reads it. A row is in the lane of its
result: that of the first tensor read for the last time there, or the first free one. A tensor in another
format is a separate tensor, written by a reorder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..desc.memory_desc import MemoryDesc
from ..graph.dims import Dims
from ..graph.formats.node_formats import VIEWS
from ..graph.formats.propagation import InsertedReorder, Propagation, format_name
from ..graph.graph import Graph, Node
from ..graph.nodes.layers import PoolingOperation
from ..graph.nodes.products import ConvolutionOperation

__all__ = ["Lane", "MeasuredTimes", "NetworkRow", "network_rows", "with_lanes"]

Tensor = tuple[str, MemoryDesc]


@dataclass(frozen=True)
class NetworkRow:
    """A line of the picture.

    `kind`: "input", "node", "view", "reorder" or "output". `words`: its description. `reads`, `writes`:
    tensors, each with its format. `seconds`: duration; `bytes_moved` and `why` apply to reorders.
    """

    kind: str
    name: str
    words: str
    reads: tuple[Tensor, ...]
    writes: tuple[Tensor, ...]
    seconds: float = 0.0
    bytes_moved: int = 0
    why: str = ""
    lane: int = 0


@dataclass(frozen=True)
class Lane:
    """A tensor's path: its format, its start, and where it is read; lanes and rows count from 0."""

    md: MemoryDesc
    lane: int
    row: int
    readers: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class MeasuredTimes:
    """Seconds of nodes by name, and of reorders by tensor and the name of its new format."""

    nodes: Mapping[str, float] = field(default_factory=dict)
    reorders: Mapping[tuple[str, str], float] = field(default_factory=dict)


def network_rows(
    graph: Graph, formats: Propagation, times: MeasuredTimes | None = None
) -> tuple[NetworkRow, ...]:
    """Return the rows of a graph whose tensors have these formats.

    `times`: measured times of steps; steps without one use the prediction.
    """
    writer = _RowWriter(graph, formats, times or MeasuredTimes())
    return tuple(writer.rows())


class _RowWriter:
    def __init__(self, graph: Graph, formats: Propagation, times: MeasuredTimes) -> None:
        self._graph, self._formats, self._times = graph, formats, times
        reorders = (move for move in formats.reorders if not move.is_constant)
        self._waiting: dict[Tensor, InsertedReorder] = {(move.tensor, move.dst): move for move in reorders}
        self._results = frozenset(self._waiting)
        self._rows: list[NetworkRow] = []

    def rows(self) -> list[NetworkRow]:
        for name in self._graph.inputs:
            tensor = name, self._formats.formats[name]
            self._rows.append(NetworkRow("input", name, str(self._graph.tensors[name]), (), (tensor,)))
        for node, way in zip(self._graph.nodes, self._formats.steps, strict=True):
            reads = [
                self._tensor(name, md)
                for name, md in zip(node.inputs, way.inputs, strict=True)
                if name not in self._graph.constants
            ]
            self._bring(reads)
            kind = "view" if isinstance(node.operation, VIEWS) and not way.seconds else "node"
            seconds = self._times.nodes.get(node.name, way.seconds)
            writes = tuple(zip(node.outputs, way.outputs, strict=True))
            words = _words(self._graph, node)
            self._rows.append(
                NetworkRow(kind, node.name, words, tuple(dict.fromkeys(reads)), writes, seconds)
            )
        self._bring([*self._waiting])
        for name in dict.fromkeys(self._graph.outputs):
            self._rows.append(
                NetworkRow("output", name, str(self._graph.tensors[name]), (self._last(name),), ())
            )
        return self._rows

    def _tensor(self, name: str, md: MemoryDesc) -> Tensor:
        """Return a tensor as written, or reordered; other descriptors of its memory count as the same."""
        return (name, md) if (name, md) in self._results else (name, self._formats.formats[name])

    def _bring(self, tensors: Sequence[Tensor]) -> None:
        """Add the reorders that have not been added yet."""
        for tensor in tensors:
            reorder = self._waiting.pop(tensor, None)
            if reorder is not None:
                self._rows.append(self._reorder(reorder))

    def _reorder(self, reorder: InsertedReorder) -> NetworkRow:
        words = f"{format_name(reorder.src)} → {format_name(reorder.dst)}"
        source, result = (reorder.tensor, reorder.src), (reorder.tensor, reorder.dst)
        key = reorder.tensor, str(reorder.dst)
        seconds = self._times.reorders.get(key, reorder.cost.seconds)
        size = reorder.cost.bytes_moved
        return NetworkRow("reorder", reorder.tensor, words, (source,), (result,), seconds, size, reorder.why)

    def _last(self, name: str) -> Tensor:
        """Return an output in the form that the network returns."""
        reorders = [e for e in self._formats.reorders if e.tensor == name and "" in e.readers]
        return name, reorders[0].dst if reorders else self._formats.formats[name]


def _words(graph: Graph, node: Node) -> str:
    """Return the operation, its algorithm if it has several, its window, and its post-ops."""
    operation = node.operation
    algorithm = str(getattr(operation, "algorithm", ""))
    own = algorithm.replace("_", " ") if algorithm else node.kind.replace("_", " ")
    own = own.removeprefix("eltwise ").removeprefix("binary ")
    if isinstance(operation, ConvolutionOperation):
        own += _window(graph.tensors[node.sources[1]].dims[-len(operation.strides) :], operation.strides)
        own += f", {operation.groups} groups" * (operation.groups > 1)
    elif isinstance(operation, PoolingOperation):
        own += _window(operation.kernel, operation.strides)
    rest = [epilogue.operation.algorithm.partition("_")[2].replace("_", " ") for epilogue in node.epilogues]
    return " + ".join([own, *rest])


def _window(kernel: Dims, strides: Dims) -> str:
    """Return ` 3×3`, with strides unless they are 1: ` 3×3/2`."""
    step = "/" + "×".join(map(str, dict.fromkeys(strides))) if set(strides) != {1} else ""
    return " " + "×".join(map(str, kernel)) + step


def with_lanes(rows: Sequence[NetworkRow]) -> tuple[tuple[NetworkRow, ...], tuple[Lane, ...]]:
    """Return the rows with their lanes, and the lanes of all tensors."""
    last = {tensor: place for place, row in enumerate(rows) for tensor in row.reads}
    occupants: dict[int, Tensor] = {}
    lanes: dict[Tensor, int] = {}
    placed: list[NetworkRow] = []
    starts: dict[Tensor, int] = {}
    readers: dict[Tensor, list[tuple[int, int]]] = {}
    for place, row in enumerate(rows):
        ending = [tensor for tensor in row.reads if last[tensor] == place and tensor in lanes]
        for tensor in ending:
            occupants.pop(lanes[tensor], None)
        lane = min((lanes[tensor] for tensor in ending), default=_first_free(occupants))
        for tensor in row.reads:
            readers.setdefault(tensor, []).append((place, lane))
        placed.append(replace(row, lane=lane))
        for tensor in row.writes:
            starts[tensor], readers[tensor] = place, []
            lanes[tensor] = lane if lane not in occupants else _first_free(occupants)
            if tensor in last:
                occupants[lanes[tensor]] = tensor
    placed_lanes = tuple(
        Lane(tensor[1], lanes[tensor], start, tuple(readers[tensor])) for tensor, start in starts.items()
    )
    return tuple(placed), placed_lanes


def _first_free(occupants: Mapping[int, Tensor]) -> int:
    return next(lane for lane in range(len(occupants) + 1) if lane not in occupants)
