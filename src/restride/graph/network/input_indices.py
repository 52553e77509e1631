"""Indices among the inputs of a network, checked before each run.

For an index out of range a kernel reads the nearest element, so that it never reads outside a tensor; in an
input of the network it is an error. Indices that the network computes are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...errors import refuse
from ...runtime.alloc import Array
from ..nodes.moves import ReshapeOperation, SliceOperation, TransposeOperation

if TYPE_CHECKING:
    from ..graph import Graph, Node

__all__ = ["InputIndices", "input_indices"]

_Moves = Sequence[Sequence[Any]]


class InputIndices(NamedTuple):
    """Indices in the input `name`, after `moves`: all of a dim of one extent, or, in their last dim, one for
    each of several extents. `from_end`: negative ones count from the end. `node`: the one that reads them.
    """

    name: str
    node: str
    extents: Sequence[int]
    moves: _Moves
    from_end: bool

    def check(self, x: Array) -> None:
        """Raise InvalidArguments if an index is out of range."""
        for move, *numbers in self.moves:
            x = _MOVES[move](x, *numbers)
        columns = x.reshape(-1, len(self.extents)).T if len(self.extents) > 1 else (x,)
        for column, extent in zip(columns, self.extents, strict=True):
            if not column.size:
                continue
            least = -extent if self.from_end else 0
            for index in (int(np.minimum.reduce(column, None)), int(np.maximum.reduce(column, None))):
                if not least <= index < extent:
                    raise refuse(
                        "RS-G03:index",
                        name=self.name,
                        index=index,
                        node=self.node,
                        extent=extent,
                        least=least,
                        most=extent - 1,
                    )


def input_indices(graph: Graph) -> Iterator[InputIndices]:
    """Yield the indices among the inputs of a graph, read directly or moved first."""
    moved: dict[str, tuple[str, _Moves]] = {
        name: (name, ()) for name in graph.inputs if graph.tensors[name].data_type.is_integral
    }
    for node in graph.nodes:
        if node.inputs and node.inputs[0] in moved and (move := _move(node)) is not None:
            name, moves = moved[node.inputs[0]]
            moved[node.output] = name, (*moves, *move)
        if node.kind in ("gather", "scatter") and node.inputs[1] in moved:
            name, moves = moved[node.inputs[1]]
            extents = _extents(node, graph)
            # Other moves keep the smallest and the largest number.
            is_same = len(extents) == 1 and not any(move in ("cast", "slice") for move, *_ in moves)
            if extents:
                from_end = bool(getattr(node.operation, "from_end", True))
                yield InputIndices(name, node.name, extents, () if is_same else moves, from_end)


def _extents(node: Node, graph: Graph) -> tuple[int, ...]:
    """Return the extents of the dims that a gather or scatter indexes; none for a window, which is moved."""
    operation: Any = node.operation
    axis, first = (getattr(operation, name, 0) for name in ("axis", "batch_dims"))
    dims, places = (graph.tensors[name].dims for name in node.inputs[:2])
    algorithm = operation.algorithm.removeprefix(f"{node.kind}_")
    ends = {"window": (0, 0), "nd": (first, first + places[-1] if places else 0)}
    return dims[slice(*ends.get(algorithm, (axis, axis + 1)))]


def _move(node: Node) -> _Moves | None:
    """Return how a node moves elements of its source; None if it does more."""
    operation: Any = node.operation
    if node.epilogues:
        return None
    if getattr(operation, "algorithm", "") == "elementwise_wrap":
        return (("cast", str(operation.data_type.numpy)),)
    if isinstance(operation, ReshapeOperation):
        return (("reshape", operation.dims),)
    if isinstance(operation, TransposeOperation):
        return (("transpose", operation.order),)
    if isinstance(operation, SliceOperation):
        return (("slice", operation.starts, operation.sizes, operation.steps),)
    return None


def _sliced(x: Array, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> Array:
    for axis, (start, size, step) in enumerate(zip(starts, sizes, steps, strict=True)):
        x = x.take(range(start, start + size * step, step), axis)
    return x


_MOVES: Mapping[str, Callable[..., Array]] = {
    "cast": np.ndarray.astype,
    "reshape": np.reshape,
    "transpose": np.transpose,
    "slice": _sliced,
}
