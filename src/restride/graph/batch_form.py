"""Graphs for any batch size: two of them say what all others are, and those between agree.

    extents of a graph of 1 row, of 1024 rows      ->  extents of a graph of n rows, on the line through both

The batch is the first extent of the first input that leaves it open, and of the others whose first extent is
open and the same. A model is any program, so what it makes of other batches is asked, not supposed: graphs
for the least and the largest batch and some between them have the same nodes and constants, and numbers that
lie on a line. Then an extent cut off at a number, which is on no line, does not hide between them. What is
decided by remainders or comparisons of extents could: who makes the graphs has to say that nothing is.

A constant may have rows of the batch, as the first state of a recurrent layer or numbers of rows: all are
alike, or those of fewer are the first of those of more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..errors import Error
from ..runtime.alloc import Array
from .dims import Dims
from .graph import Constant, Graph
from .network.inputs import NetworkInput
from .network.stored_graph import Values, graph_of_values, values_of_graph

__all__ = ["LARGEST", "BatchForm", "IsLinear", "RowsOfBatch", "batch_forms"]

LARGEST = 1024
"""The largest batch that a file serves, unless it is saved for a larger one."""

IsLinear = Callable[[Sequence[Mapping[str, Dims]]], bool]
"""Says of a source of graphs, for dims of its inputs from the least batch to the largest one, that nothing
in the graphs of these and all between them is decided by the batch."""


class RowsOfBatch(NamedTuple):
    """The rows of a constant along an axis: how many there are for the least batch and for the largest.

    The constant of this number has those of the largest batch, or one where all are alike.
    """

    number: int
    axis: int
    least: int
    most: int


@dataclass(frozen=True)
class BatchForm:
    """Graphs for all batches up to `largest`.

    `dims`: of the inputs for the least batch. `places`: which inputs have the batch. `ends`: the graphs of
    the least and the largest batch as values, where constants are numbers of `constants`. `rows`: the
    constants that have rows of the batch, by name.
    """

    dims: tuple[Dims, ...]
    places: tuple[int, ...]
    largest: int
    ends: tuple[Values, Values]
    constants: Sequence[Constant]
    rows: Mapping[str, RowsOfBatch] = field(default_factory=dict)

    @property
    def least(self) -> int:
        """The least batch that it covers."""
        return self.dims[self.places[0]][0]

    def covers(self, dims: Sequence[Dims]) -> bool:
        """True for inputs of these dims but for the batch."""
        size = next(iter(dims[self.places[0]]), 0)
        return 1 <= self.least <= size <= self.largest and _with_batch(self.dims, self.places, size) == dims

    def graph(self, dims: Sequence[Dims]) -> Graph:
        """The graph for dims that it covers. Raises ValueError where the values do not hold."""
        size = dims[self.places[0]][0]
        values = self.values(size)
        constants = {name: self.constants[number] for name, number in values["constants"].items()}
        constants |= {name: self.constant(name, size) for name in self.rows}
        return graph_of_values(
            {**values, "constants": {name: name for name in constants}}, constants.__getitem__
        )

    def constant(self, name: str, size: int) -> Constant:
        """A constant that has rows of the batch. Raises ValueError where the ends are on no line."""
        number, axis, least, most = self.rows[name]
        stored = self.constants[number].values
        count = _between(least, most, size - self.least, self.largest - self.least)
        return Constant(stored.take(np.arange(count) % stored.shape[axis], axis))

    def values(self, size: int) -> Values:
        """The graph for a batch size as values. Raises ValueError where the ends differ in more."""
        first, last = self.ends
        if first["constants"] != last["constants"]:
            raise ValueError("constants change with the batch")
        values: Values = _between(first, last, size - self.least, self.largest - self.least)
        return values


def batch_forms(
    inputs: Sequence[NetworkInput],
    dims: tuple[Dims, ...],
    fused: Callable[[tuple[Dims, ...]], Graph],
    is_linear: IsLinear,
    largest: int = LARGEST,
) -> list[BatchForm]:
    """The forms of the graphs that `fused` returns for these dims and all batches; none where there are none.

    `largest`: the largest batch, unless these dims have more.
    """
    is_open = [
        bool(own) and (tensor.dims is None or tensor.dims[0] is None)
        for tensor, own in zip(inputs, dims, strict=True)
    ]
    size = next((own[0] for own, may in zip(dims, is_open, strict=True) if may), 0)
    places = tuple(i for i, own in enumerate(dims) if is_open[i] and own[0] == size)
    if size < 1:
        return []
    most, numbers, graphs = max(size, largest), dict[Constant, int](), dict[int, Graph]()

    def form(*sizes: int) -> BatchForm:
        for batch in sizes:
            graphs[batch] = graphs.get(batch) or fused(_with_batch(dims, places, batch))
        of_sizes = {batch: graphs[batch] for batch in sizes}
        return _form_of_graphs(_with_batch(dims, places, sizes[0]), places, of_sizes, numbers)

    sizes = sorted({1, 2, size, most})
    by_name = [
        {x.name: own for x, own in zip(inputs, _with_batch(dims, places, batch), strict=True)}
        for batch in sizes
    ]
    try:
        if not is_linear(by_name):
            return []
        try:
            return [form(*sizes)]
        except ValueError:  # of one row transpositions are no work, and more
            return [form(1), form(*sorted({2, min(3, most), max(size, 2), most}))]
    except (Error, ValueError):
        return []


def _form_of_graphs(
    dims: tuple[Dims, ...], places: tuple[int, ...], graphs: Mapping[int, Graph], numbers: dict[Constant, int]
) -> BatchForm:
    """The form of graphs by their batch, the least first. Raises ValueError where there is none."""
    largest, rows = max(graphs), dict[str, RowsOfBatch]()
    first, last = graphs[min(graphs)], graphs[largest]
    for name, constant in first.constants.items():
        other = last.constants.get(name, constant)
        if constant != other:
            stored, axis, counts = _rows(constant.values, other.values)
            rows[name] = RowsOfBatch(numbers.setdefault(stored, len(numbers)), axis, *counts)
    of_sizes = []
    for graph in graphs.values():
        values = values_of_graph(graph, lambda key: numbers.setdefault(key, len(numbers)))
        values["constants"] = {name: n for name, n in values["constants"].items() if name not in rows}
        of_sizes.append(values)
    form = BatchForm(dims, places, largest, (of_sizes[0], of_sizes[-1]), list(numbers), rows)
    for (size, graph), values in zip(graphs.items(), of_sizes, strict=True):
        own = {name: form.constant(name, size) for name in rows}
        if form.values(size) != values or any(own[name] != graph.constants.get(name) for name in own):
            raise ValueError(f"the graph of a batch of {size} is another")
    return form


def _rows(least: Array, most: Array) -> tuple[Constant, int, list[int]]:
    """The rows of the largest batch, or one where all are alike; their axis, and how many there are.

    Raises ValueError where constants of the least and the largest batch differ in more than one extent.
    """
    ((axis, counts),) = [
        (axis, [*pair])
        for axis, pair in enumerate(zip(least.shape, most.shape, strict=True))
        if len({*pair}) > 1
    ]
    one = most.take([0], axis)
    return Constant(one if (one == most).all() else most), axis, counts


def _with_batch(dims: Sequence[Dims], places: Sequence[int], size: int) -> tuple[Dims, ...]:
    return tuple((size, *own[1:]) if i in places else tuple(own) for i, own in enumerate(dims))


def _between(first: Any, last: Any, steps: int, count: int) -> Any:
    """Values whose integers are so many of `count` steps on the way from one to the other."""
    if type(first) is type(last) and first == last:
        return first
    if isinstance(first, Mapping) and first.keys() == last.keys():
        return {key: _between(value, last[key], steps, count) for key, value in first.items()}
    if isinstance(first, list):
        return [_between(*pair, steps, count) for pair in zip(first, last, strict=True)]
    if type(first) is type(last) is int:
        whole, rest = divmod((last - first) * steps, count)
        if not rest:
            return first + whole
    raise ValueError(f"{first!r} and {last!r} change with the batch")
