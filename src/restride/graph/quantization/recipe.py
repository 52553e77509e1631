"""Quantization of a graph: layers that compute with bytes, and the tensors that become bytes for them.

    conv(x, w) + b     ->  conv(dequantized quantized x, dequantized w) + b      `rewrites/integers.py` then
                                                                                 makes integer sums of it
    relu(x), x + y     ->  the same of the dequantized x, if a layer also reads x
    max(x) for a layer ->  max of the dequantized x: moves and maxima operate on bytes

In dynamic quantization each row of x has a scale, computed in a run:

    matmul(x, w) + b   ->  matmul(quantized x, w) * scale of its row * scales of w + b

Weights are s8 with a scale for each output, without zero points.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ...dtypes import DataType
from ...errors import refuse
from ..graph import Epilogue, Graph, Node
from ..nodes.layers import BatchNormalizationOperation, PoolingOperation, ReductionOperation
from ..nodes.moves import (
    ConcatOperation,
    ReshapeOperation,
    ShuffleOperation,
    SliceOperation,
    TransposeOperation,
)
from ..nodes.operations import (
    BinaryOperation,
    DequantizeOperation,
    EltwiseOperation,
    Operation,
    QuantizeOperation,
    SumOperation,
)
from ..nodes.products import (
    ConvolutionOperation,
    DeconvolutionOperation,
    InnerProductOperation,
    MatmulOperation,
)
from ..rewrites.affine import channel_axes
from ..rewrites.draft import Array, GraphDraft
from ..rewrites.fusions import fuse
from ..rewrites.integer_chains import IntegerType
from ..rewrites.integers import MEANS

__all__ = ["Balances", "Point", "Recipe", "insert", "points", "prepared", "products", "weights_of"]

_PRODUCTS = (ConvolutionOperation, InnerProductOperation, MatmulOperation)
_MOVES = (ReshapeOperation, TransposeOperation, SliceOperation, ShuffleOperation, ConcatOperation)
_STEPS = (EltwiseOperation, BatchNormalizationOperation)
_READERS = (*_MOVES, *_STEPS, PoolingOperation, ReductionOperation, BinaryOperation, SumOperation)
"""Operations that compute with bytes if their source is quantized for a layer anyway."""
_MUL, _ADD = (Epilogue(BinaryOperation(f"binary_{word}")) for word in ("mul", "add"))
_SUMS = (BinaryOperation("binary_add"), SumOperation((1.0, 1.0)))
_LATER = ("integers", "attention", "gathers", "epilogues", "winograd")
_LEAST_SCALE = 1e-30


Balances = Mapping[tuple[str, int, int], Array]


class Point(NamedTuple):
    """A tensor that becomes bytes, with the scale of its `group`; some are moves of quantized ones."""

    group: str
    is_quantized: bool


def prepared(graph: Graph, without: Collection[str] = ()) -> Graph:
    """Return the graph with batch norms in weights, and all other fusions that keep a node per layer."""
    return fuse(graph, {*without, *_LATER}).graph


def products(graph: Graph) -> dict[str, str]:
    """Return the layers that sum products, with the reasons to keep them f32; "" if quantizable."""
    return {node.name: _reason(graph, node) for node in graph.nodes if isinstance(node.operation, _PRODUCTS)}


def _reason(graph: Graph, node: Node) -> str:
    kinds = {graph.tensors[name].data_type for name in (*node.inputs, *node.outputs)}
    weights = graph.constants.get(node.inputs[1])
    if isinstance(node.operation, DeconvolutionOperation):
        return "it has no kernel for bytes"
    if weights is None or any(name not in graph.constants for name in node.inputs[2:]):
        return "its weights are computed in a run"
    is_matrix = not isinstance(node.operation, MatmulOperation) or len(weights.type.dims) == 2
    if kinds != {DataType.f32} or not is_matrix or not weights.values.size or node.epilogues:
        return "it has no kernel for bytes"
    return "its source is a constant" if node.inputs[0] in graph.constants else ""


def weights_of(values: Array, channels: Collection[int]) -> tuple[Array, Array]:
    """Return weights as s8, and the scale of each output along `channels`, in dims that broadcast."""
    summed = tuple(axis for axis in range(values.ndim) if axis not in channels)
    largest = np.abs(values).max(summed, keepdims=True)
    scale = np.where(largest > 0, largest / np.float32(127), np.float32(1)).astype(np.float32)
    return np.clip(np.rint(values / scale), -127, 127).astype(np.int8), scale


# --- tensors that become bytes ------------------------------------------------------------------------------


def points(graph: Graph, layers: Collection[str]) -> dict[str, Point]:
    """Return the tensors that become bytes for these layers: their sources; those of moves, maxima and means
    before them; and one of two layer results that are added for a layer.
    """
    makers = {name: node for node in graph.nodes for name in node.outputs}
    readers = graph.readers()
    groups: dict[str, str] = {}
    quantized: set[str] = set()

    def spread(name: str) -> None:
        todo = [name]
        while todo:
            name = todo.pop()
            maker = makers.get(name)
            groups.setdefault(name, name)
            if maker is None or not _moves(maker) or any(x in graph.constants for x in maker.inputs):
                quantized.add(name)
                if maker is not None and getattr(maker.operation, "algorithm", "") in MEANS:
                    todo += [source for source in maker.inputs if source not in groups]
                continue
            for source in maker.inputs:
                if source not in groups:
                    todo.append(source)
                old, new = groups.setdefault(source, source), groups[name]
                groups.update({key: new for key, group in groups.items() if group == old})

    def leads_to(name: str) -> bool:
        """True if a tensor becomes bytes after functions whose intermediate results nobody else reads."""
        while name not in groups:
            nodes = readers[name]
            if len(nodes) != 1 or not isinstance(nodes[0].operation, _STEPS) or name in graph.outputs:
                return False
            name = nodes[0].output
        return True

    def is_grown(name: str) -> bool:
        """True if a layer makes a tensor for one reader, possibly followed by functions."""
        maker = makers.get(name)
        while maker is not None and len(readers[maker.output]) == 1 and maker.output not in graph.outputs:
            if maker.name in layers:
                return True
            maker = makers.get(maker.inputs[0]) if isinstance(maker.operation, _STEPS) else None
        return False

    for node in graph.nodes:
        if node.name in layers and node.inputs[0] not in groups:
            spread(node.inputs[0])
    for node in graph.nodes[::-1]:
        is_sum = node.operation in _SUMS and not groups.keys() & set(node.inputs)
        if is_sum and all(map(is_grown, node.inputs)) and leads_to(node.output):
            spread(node.inputs[0])
    return {name: Point(group, name in quantized) for name, group in groups.items()}


def _moves(node: Node) -> bool:
    operation = node.operation
    is_maximum = isinstance(operation, PoolingOperation) and operation.algorithm == "pooling_max"
    return (is_maximum or isinstance(operation, _MOVES)) and not node.epilogues


# --- the recipe ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """The quantization of a network's graphs, independent of the dims of its inputs.

    products     the layers of the network that sum products, in order
    layers       those that compute with bytes
    scales       the quantization of each tensor that becomes bytes; empty if computed in a run
    corrections  summands of the biases of layers, one number for each output
    balances     factors by which weights, scales and shifts are multiplied first: along an axis of an
                 input of a node, by (node, input, axis)
    """

    products: tuple[str, ...]
    layers: tuple[str, ...] = ()
    scales: Mapping[str, IntegerType] = field(default_factory=dict)
    corrections: Mapping[str, Array] = field(default_factory=dict)
    balances: Balances = field(default_factory=dict)

    def applied(self, graph: Graph) -> Graph:
        """Return a prepared graph of the network with quantization.

        Raises InvalidArguments for a graph whose layers differ from those of the samples.
        """
        if tuple(products(graph)) != self.products:
            raise refuse("RS-G08:other-layers")
        return insert(self.balanced(graph), self)

    def balanced(self, graph: Graph) -> Graph:
        """Return the graph with rescaled weights; its results are equal up to rounding."""
        draft = GraphDraft(graph, "balance")
        for place, node in draft:
            inputs = list(node.inputs)
            for (owner, at, axis), factors in self.balances.items():
                if owner == node.name:
                    values = draft.constant(inputs[at])
                    assert values is not None
                    shape = tuple(-1 if i == axis else 1 for i in range(values.ndim))
                    balanced = (values * factors.reshape(shape)).astype(values.dtype)
                    inputs[at] = draft.new_constant(balanced, node.inputs[at])
            if tuple(inputs) != node.inputs:
                draft.fuse(place, replace(node, inputs=tuple(inputs)))
        return draft.finished()


def insert(graph: Graph, recipe: Recipe, *, is_shared: bool = True) -> Graph:
    """Apply the recipe to the graph; `is_shared`: `_READERS` read the bytes of quantized tensors too."""
    draft, made = GraphDraft(graph, "quantization"), dict[str, tuple[str, ...]]()
    for place, node in draft:
        is_layer = node.name in recipe.layers
        if is_layer:
            wanted: Iterator[str] = iter(node.inputs[:1])
        elif is_shared and isinstance(node.operation, _READERS):
            wanted = iter(node.inputs)
        else:
            continue
        for name in wanted:
            if name in recipe.scales and name not in made:
                made[name] = (_through_bytes(draft, place, name, recipe.scales[name]),)
            elif is_layer and not recipe.scales and name not in made:
                made[name] = _rows_as_bytes(draft, place, name)
        if is_layer:
            new = _layer(draft, place, node, made[node.inputs[0]], recipe.corrections.get(node.name))
        else:
            new = replace(node, inputs=tuple(made.get(name, (name,))[0] for name in node.inputs))
        if new != node:
            draft.fuse(place, new)
    return draft.finished()


def _layer(
    draft: GraphDraft, place: int, node: Node, source: tuple[str, ...], correction: Array | None
) -> Node:
    """Return the layer with weights of s8; `source` is bytes with scales of rows, or dequantized."""
    values = draft.constant(node.inputs[1])
    assert values is not None
    integers, scale = weights_of(values, channel_axes(node.operation, values.ndim))
    bias = draft.constant(node.inputs[2]) if len(node.inputs) > 2 else None
    rank = len(draft.type(node.output).dims)
    outputs = draft.type(node.output).dims[channel_axis(node.operation, rank)]
    if correction is not None:
        bias = (0 if bias is None else bias.reshape(-1)) + correction
    if bias is not None:
        bias = np.broadcast_to(bias.reshape(-1), outputs).astype(np.float32)
    names = [draft.new_constant(x, node.inputs[1]) for x in (integers, scale)]
    is_row = len(source) > 1 or isinstance(node.operation, MatmulOperation)
    shape = (*(1,) * (rank - 1), outputs) if is_row else (outputs,)
    biases = [] if bias is None else [draft.new_constant(bias.reshape(shape), node.output)]
    if len(source) == 1:
        zero = draft.new_constant(np.zeros(scale.shape, np.float32), node.inputs[1])
        weights = draft.before(place, DequantizeOperation(), *names, zero)
        return replace(node, inputs=(source[0], weights, *biases))
    factor = draft.new_constant(scale.reshape(shape), node.inputs[1])
    rows = source[1]
    if draft.type(rows).dims != (wanted := (*draft.type(node.output).dims[:-1], 1)):
        rows = draft.before(place, ReshapeOperation(wanted), rows)
    return replace(
        node,
        inputs=(source[0], names[0], rows, factor, *biases),
        epilogues=(_MUL, _MUL, *[_ADD] * len(biases)),
        data_type=DataType.f32,
    )


def channel_axis(operation: Operation, rank: int) -> int:
    """Return the axis of a layer's result that has its outputs."""
    return rank - 1 if isinstance(operation, MatmulOperation) else 1


def _through_bytes(draft: GraphDraft, place: int, name: str, integers: IntegerType) -> str:
    shape = (1,) * len(draft.type(name).dims)
    numbers = [
        draft.new_constant(np.full(shape, value, np.float32), name)
        for value in (integers.scale, integers.zero)
    ]
    quantized = draft.before(place, QuantizeOperation(integers.data_type), name, *numbers)
    return draft.before(place, DequantizeOperation(), quantized, *numbers)


def _rows_as_bytes(draft: GraphDraft, place: int, name: str) -> tuple[str, str]:
    """Return rows as s8, each with its own scale, and the scales."""
    rank = len(draft.type(name).dims)
    sizes = draft.before(place, EltwiseOperation("eltwise_abs"), name)
    axes = tuple(range(1, rank)) if rank > 1 else (0,)
    largest = draft.before(place, ReductionOperation("reduction_max", axes), sizes)
    scale = draft.before(place, EltwiseOperation("eltwise_linear", 1 / 127, _LEAST_SCALE), largest)
    zero = draft.new_constant(np.zeros((1,) * rank, np.float32), name)
    return draft.before(place, QuantizeOperation(DataType.s8), name, scale, zero), scale
