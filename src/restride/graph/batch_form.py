"""Graphs for any batch size: two of them say what all others are, and those between agree.

    extents of a graph of 1 row, of 1024 rows      ->  extents of a graph of n rows, on the line through both

The batch is the first extent of the first input that leaves it open, and of the others whose first extent is
open and the same. A model is any program, so what it makes of other batches is asked, not supposed: graphs
for the least and the largest batch and some between them have the same nodes and constants, and numbers that
lie on a line. Then an extent cut off at a number, which is on no line, does not hide between them. What is
decided by remainders or comparisons of extents could: who makes the graphs has to say that nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import Error
from .dims import Dims
from .graph import Constant, Graph
from .network.inputs import NetworkInput
from .network.stored_graph import Values, graph_of_values, values_of_graph

__all__ = ["LARGEST", "BatchForm", "IsLinear", "batch_form"]

LARGEST = 1024
"""The largest batch that a file serves, unless it is saved for a larger one."""

IsLinear = Callable[[Sequence[Mapping[str, Dims]]], bool]
"""Says of a source of graphs, for dims of its inputs from the least batch to the largest one, that nothing
in the graphs of these and all between them is decided by the batch."""


@dataclass(frozen=True)
class BatchForm:
    """Graphs for all batches up to `largest`.

    `dims`: of the inputs for a batch of 1. `places`: which inputs have the batch. `ends`: the graphs of the
    least and the largest batch as values, where constants are numbers of `constants`.
    """

    dims: tuple[Dims, ...]
    places: tuple[int, ...]
    largest: int
    ends: tuple[Values, Values]
    constants: Sequence[Constant]

    def covers(self, dims: Sequence[Dims]) -> bool:
        """True for inputs of these dims but for the batch."""
        size = next(iter(dims[self.places[0]]), 0)
        return 1 <= size <= self.largest and _with_batch(self.dims, self.places, size) == dims

    def graph(self, dims: Sequence[Dims]) -> Graph:
        """The graph for dims that it covers. Raises ValueError where the values do not hold."""
        return graph_of_values(self.values(dims[self.places[0]][0]), self.constants.__getitem__)

    def values(self, size: int) -> Values:
        """The graph for a batch size as values. Raises ValueError where the ends differ in more."""
        first, last = self.ends
        if first["constants"] != last["constants"]:
            raise ValueError("constants change with the batch")
        values: Values = _between(first, last, size - 1, self.largest - 1)
        return values


def batch_form(
    inputs: Sequence[NetworkInput],
    dims: tuple[Dims, ...],
    fused: Callable[[tuple[Dims, ...]], Graph],
    is_linear: IsLinear,
    largest: int = LARGEST,
) -> BatchForm | None:
    """The form of the graph that `fused` returns for these dims and any batch; None where there is none."""
    is_open = [
        bool(own) and (tensor.dims is None or tensor.dims[0] is None)
        for tensor, own in zip(inputs, dims, strict=True)
    ]
    size = next((own[0] for own, may in zip(dims, is_open, strict=True) if may), 0)
    places = tuple(i for i, own in enumerate(dims) if is_open[i] and own[0] == size)
    if size < 1:
        return None
    sizes = sorted({1, 2, size, max(size, largest)})
    dims_by_size = [_with_batch(dims, places, batch) for batch in sizes]
    numbers: dict[Constant, int] = {}
    try:
        if not is_linear([{x.name: own for x, own in zip(inputs, of, strict=True)} for of in dims_by_size]):
            return None
        graphs = [fused(input_dims) for input_dims in dims_by_size]
        values = [
            values_of_graph(graph, lambda key: numbers.setdefault(key, len(numbers))) for graph in graphs
        ]
        form = BatchForm(dims_by_size[0], places, sizes[-1], (values[0], values[-1]), list(numbers))
        between = zip(sizes[1:-1], values[1:-1], strict=True)
        return form if all(form.values(own) == graph_values for own, graph_values in between) else None
    except (Error, ValueError):
        return None


def _with_batch(dims: Sequence[Dims], places: Sequence[int], size: int) -> tuple[Dims, ...]:
    return tuple((size, *own[1:]) if i in places else tuple(own) for i, own in enumerate(dims))


def _between(first: Any, last: Any, steps: int, count: int) -> Any:
    """Values whose integers are so many of `count` steps on the way from one to the other."""
    if isinstance(first, Mapping) and first.keys() == last.keys():
        return {key: _between(value, last[key], steps, count) for key, value in first.items()}
    if isinstance(first, list):
        return [_between(*pair, steps, count) for pair in zip(first, last, strict=True)]
    if type(first) is type(last) is int:
        whole, rest = divmod((last - first) * steps, count)
        if not rest:
            return first + whole
    if type(first) is type(last) and first == last:
        return first
    raise ValueError(f"{first!r} and {last!r} change with the batch")
