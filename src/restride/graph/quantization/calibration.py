"""Statistics of a network's tensors on samples, the scales derived from them, and quantization errors.

    range     [low, high], containing 0, that a method keeps of the observed values; values outside saturate
    bytes     u8 without zero point if nothing is negative; u8 with a zero point if the range is lopsided, so
              that symmetric bytes would waste most of a bit; else s8 around 0, which needs no border value
    error     of a single layer: the root of the mean square of the change in its result by quantization,
              relative to that of the result, on samples whose sources are those of the f32 network

The methods: "minmax" keeps everything, "percentile" all but 1 number of 10,000 at each end, "mse" the range
with the least mean square error of quantization.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np

from ...dtypes import DataType
from ..dims import Dims
from ..graph import Graph, Node
from ..network.network import Network
from ..nodes.layers import ReductionOperation
from ..nodes.operations import BinaryOperation, EltwiseOperation
from ..rewrites.draft import Array
from ..rewrites.integer_chains import IntegerType
from .recipe import Point, Recipe, channel_axis, insert

__all__ = ["METHODS", "Calibration", "Feed", "Loss", "integer_scales", "losses", "observe"]

METHODS = ("minmax", "percentile", "mse")
Feed = Mapping[str, Array]
"""The inputs of one call, by name."""
_KEPT, _LEAST_KEPT = 1 << 17, 1 << 9
_MOST_BYTES = 1 << 28
_PERCENT = 0.01
_LOPSIDED = 0.75


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """The samples by the dims of their inputs, and the prepared graph for each of these dims."""

    graphs: Mapping[tuple[Dims, ...], Graph]
    feeds: Mapping[tuple[Dims, ...], Sequence[Feed]]

    @property
    def graph(self) -> Graph:
        """One of the graphs: all have the same layers."""
        return next(iter(self.graphs.values()))

    @property
    def count(self) -> int:
        """The number of samples."""
        return sum(map(len, self.feeds.values()))

    def mapped(self, change: Callable[[Graph], Graph]) -> Calibration:
        """Return the same samples with changed graphs."""
        return Calibration({dims: change(graph) for dims, graph in self.graphs.items()}, self.feeds)

    def values(self, names: Collection[str], without: Sequence[str] = ()) -> Iterator[tuple[str, Array]]:
        """Yield the tensors of these names for each sample."""
        for dims, graph in self.graphs.items():
            own = [name for name in names if name in graph.tensors and name not in graph.constants]
            yield from ((name, feed[name]) for feed in self.feeds[dims] for name in own if name in feed)
            sizes, total = [], 0
            for name in (inner := [name for name in own if name not in graph.inputs]):
                total += graph.tensors[name].nbytes
                sizes.append(total // _MOST_BYTES)
            for _, part in groupby(zip(sizes, inner, strict=True), lambda pair: pair[0]):
                outputs = tuple(name for _, name in part)
                net = Network(replace(graph, outputs=outputs), without=without)
                for feed in self.feeds[dims]:
                    result = net({name: feed[name] for name in graph.inputs})
                    yield from result.items() if isinstance(result, dict) else [(outputs[0], result)]


# --- scales -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Observed:
    """The extremes of a tensor, and some of its elements."""

    low: float = 0.0
    high: float = 0.0
    elements: list[Array] = field(default_factory=list)


def observe(calibration: Calibration, tensors: Collection[str]) -> dict[str, _Observed]:
    """Observe tensors on the samples, keeping a limited number of random elements of each sample."""
    count = max(_KEPT // max(calibration.count, 1), _LEAST_KEPT)
    rng = np.random.default_rng(0)
    observed = {name: _Observed() for name in tensors}
    for name, values in calibration.values(tensors):
        flat, own = values.reshape(-1), observed[name]
        if flat.size:
            own.low, own.high = min(own.low, float(flat.min())), max(own.high, float(flat.max()))
            own.elements.append(flat if flat.size <= count else flat[rng.integers(0, flat.size, count)])
    return observed


def integer_scales(
    observed: Mapping[str, _Observed], tensors: Mapping[str, Point], method: str
) -> dict[str, IntegerType]:
    """Return the quantization of each tensor, from the observations of its group."""
    groups: dict[str, list[_Observed]] = {}
    for name, point in tensors.items():
        groups.setdefault(point.group, []).append(observed[name])
    made = {}
    for group, members in groups.items():
        low, high = min(each.low for each in members), max(each.high for each in members)
        elements = np.concatenate([np.zeros(1), *(x for each in members for x in each.elements)])
        if method == "percentile":
            percentiles = np.percentile(elements, (_PERCENT, 100 - _PERCENT))
            low, high = min(float(percentiles[0]), 0.0), max(float(percentiles[1]), 0.0)
        made[group] = _integers(low, high)
        if method == "mse":
            choices = [_integers(low * part, high * part) for part in np.linspace(0.25, 1, 31)]
            made[group] = min(choices, key=lambda each: _square_error(elements, each))
    return {name: made[point.group] for name, point in tensors.items()}


def _integers(low: float, high: float) -> IntegerType:
    largest = max(-low, high)
    if not largest:
        return IntegerType(1.0, 0, DataType.u8)
    if high - low > _LOPSIDED * 2 * largest:
        return IntegerType(float(np.float32(largest / 127)), 0, DataType.s8)
    scale = float(np.float32((high - low) / 255))
    return IntegerType(scale, round(-low / scale), DataType.u8)


def _square_error(values: Array, integers: IntegerType) -> float:
    low, high = integers.limits
    quantized = np.clip(np.rint(values / integers.scale) + integers.zero, low, high)
    return float(np.square((quantized - integers.zero) * integers.scale - values).mean())


# --- quantization errors ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """The change in a layer's result by quantization: `mean` by output, `square` and `size` mean squares."""

    mean: Array
    square: Array
    size: Array

    def error(self, *, is_corrected: bool) -> float:
        """Return the relative error of the layer; without its mean if that is corrected."""
        square = self.square - np.square(self.mean) if is_corrected else self.square
        return float(np.sqrt(max(square.sum(), 0.0) / max(self.size.sum(), np.finfo(np.float64).tiny)))


def losses(calibration: Calibration, recipe: Recipe) -> dict[str, Loss]:
    """Return the change of each layer of a recipe quantized alone, with the sources of the f32 network."""
    doubled = calibration.mapped(lambda graph: _with_twins(graph, recipe))
    names = {f"{name}{end}": name for name in recipe.layers for end in _ENDS}
    totals: dict[str, list[Array]] = {name: [] for name in names}
    for name, values in doubled.values(names, ("integers",)):
        totals[name].append(values.reshape(-1).astype(np.float64))
    means = {name: np.mean(arrays, 0) for name, arrays in totals.items()}
    return {name: Loss(*(means[f"{name}{end}"] for end in _ENDS)) for name in recipe.layers}


_TWIN = ".of_bytes"
_ENDS = (".mean", ".square", ".size")


def _with_twins(graph: Graph, recipe: Recipe) -> Graph:
    """Return the graph with a quantized twin of each layer of the recipe, and means of their difference."""
    nodes, outputs = list[Node](), list[str]()
    subtract, square = BinaryOperation("binary_sub"), EltwiseOperation("eltwise_square")
    for node in graph.nodes:
        nodes.append(node)
        if node.name not in recipe.layers:
            continue
        name, y = node.name, node.output
        twin, change = f"{name}{_TWIN}", f"{name}.change"
        rank = len(graph.tensors[y].dims)
        channel = channel_axis(node.operation, rank)
        mean = ReductionOperation("reduction_mean", tuple(axis for axis in range(rank) if axis != channel))
        squares = f"{change}.squares", f"{y}.squares"
        ends = tuple(f"{name}{end}" for end in _ENDS)
        nodes += [
            replace(node, name=twin, outputs=(twin,)),
            Node(change, subtract, (y, twin), (change,)),
            *(Node(each, square, (of,), (each,)) for each, of in zip(squares, (change, y), strict=True)),
            *(Node(e, mean, (of,), (e,)) for e, of in zip(ends, (change, *squares), strict=True)),
        ]
        outputs += ends
    if not outputs:
        return graph
    types = dict(graph.tensors)
    for node in nodes:
        types |= node.results(types)
    whole = Graph(graph.inputs, tuple(outputs), types, graph.constants, tuple(nodes))
    layers = tuple(f"{name}{_TWIN}" for name in recipe.layers)
    return insert(whole, replace(recipe, layers=layers, corrections={}), is_shared=False)
