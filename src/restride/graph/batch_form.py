"""Graphs for any batch size, interpolated between those of the smallest and the largest batch.

    extents of a graph of 1 row, of 1024 rows      ->  extents of a graph of n rows, on the line through both

The batch is the first extent of the first input that leaves it open, and of every other input whose first
extent is open and equal. A model can be any program, so linearity is checked, not assumed: the graphs of the
smallest batch, the largest, and some between must have the same nodes and constants, and integers that are
linear in the batch. This finds an extent that is clipped at a number. It can miss decisions made by
remainders or comparisons of extents, so the caller has to guarantee that there are none.

A constant can have one row per batch element, such as the initial state of a recurrent layer or row indices:
either all rows are equal, or those of a smaller batch are a prefix of those of a larger one.
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
"""Largest batch that a file supports, unless it is saved for a larger one."""

IsLinear = Callable[[Sequence[Mapping[str, Dims]]], bool]
"""Predicate of a source of graphs: True if nothing in its graphs is decided by the batch, for all dims of the
inputs from the smallest batch to the largest.
"""


class RowsOfBatch(NamedTuple):
    """The rows of a constant along `axis`: `least` of them for the smallest batch, `most` for the largest."""

    number: int
    axis: int
    least: int
    most: int


@dataclass(frozen=True)
class BatchForm:
    """Graphs for all batches up to `largest`.

    `dims`: of the inputs for the smallest batch. `places`: the inputs that have the batch. `ends`: the graphs
    of the smallest and the largest batch as values, with constants as indices into `constants`. `rows`: the
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
        """The smallest batch that is covered."""
        return self.dims[self.places[0]][0]

    def covers(self, dims: Sequence[Dims]) -> bool:
        """True if `dims` equals the dims of these inputs except for the batch."""
        size = next(iter(dims[self.places[0]]), 0)
        return 1 <= self.least <= size <= self.largest and _with_batch(self.dims, self.places, size) == dims

    def graph(self, dims: Sequence[Dims]) -> Graph:
        """Return the graph for covered dims. Raises ValueError if the values do not fit."""
        size = dims[self.places[0]][0]
        values = self.values(size)
        constants = {name: self.constants[number] for name, number in values["constants"].items()}
        constants |= {name: self.constant(name, size) for name in self.rows}
        return graph_of_values(
            {**values, "constants": {name: name for name in constants}}, constants.__getitem__
        )

    def constant(self, name: str, size: int) -> Constant:
        """Return a constant that has rows of the batch. Raises ValueError if it is not linear."""
        number, axis, least, most = self.rows[name]
        stored = self.constants[number].values
        count = _between(least, most, size - self.least, self.largest - self.least)
        return Constant(stored.take(np.arange(count) % stored.shape[axis], axis))

    def values(self, size: int) -> Values:
        """Return the graph of a batch size as values. Raises ValueError if the ends differ otherwise."""
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
    """Return the forms of the graphs that `fused` returns for these dims and all batches, or none.

    `largest`: the largest batch, unless these dims have a larger one.
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
        except ValueError:  # for example, transpositions of a single row are removed
            return [form(1), form(*sorted({2, min(3, most), max(size, 2), most}))]
    except (Error, ValueError):
        return []


def _form_of_graphs(
    dims: tuple[Dims, ...], places: tuple[int, ...], graphs: Mapping[int, Graph], numbers: dict[Constant, int]
) -> BatchForm:
    """Derive the form from graphs, ordered by batch. Raises ValueError if there is none."""
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
            raise ValueError(f"the graph of a batch of {size} is different")
    return form


def _rows(least: Array, most: Array) -> tuple[Constant, int, list[int]]:
    """Return the rows of the largest batch (a single one if all are equal), their axis and their numbers.

    Raises ValueError if the constants of the smallest and the largest batch differ in more than one extent.
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
    """Interpolate integers at `steps` of `count` steps from `first` to `last`."""
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
