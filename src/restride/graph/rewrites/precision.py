"""Reduced precision: f32 networks with 16-bit tensors, if `precision=` allows it and the processor benefits.

    with an instruction for    y = conv(x, w)      ->  y as bf16 = conv(x as bf16, w as bf16)
    pairs of bf16              reshape(y) + z      ->  the same of bf16, if another product reads it
    else                       y = x @ w           ->  y = x @ (w as bf16), f32 except w

The first is for every product that adds up 4 channels or more. Its inputs are bf16 from their producer on: a
product, an elementwise function or combination, a pooling, a norm; moves in between keep the type. Tensors
that nothing makes as bf16 are converted. Inputs, outputs, statistics, softmax, and whatever no product reads,
stay f32, and all computation is in f32, including sums, whatever the stored type.

The second is for products bound by reading weights: those with at most eight rows, in a network whose weights
exceed any cache. f16, for which there is no multiplication instruction, always uses it. Other weights would
be widened repeatedly, which takes longer than reading them.

Convolutions by Winograd's algorithm become direct where pairs are multiplied, and keep their weights
elsewhere. Integer products are faster than both: a network that has some, or weights of few bits, is left
unchanged.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...dtypes import DataType
from ...errors import refuse
from ...ops.product import has_dots_of_bf16
from ...schedule.machine import NOMINAL
from ...targets.isa import host_isa
from ..graph import Constant, Graph, Node
from ..nodes.layers import (
    BatchNormalizationOperation,
    LayerNormalizationOperation,
    PoolingOperation,
    ReductionOperation,
    ResamplingOperation,
    SoftmaxOperation,
)
from ..nodes.moves import (
    ConcatOperation,
    ReorderOperation,
    ReshapeOperation,
    ShuffleOperation,
    SliceOperation,
    TransposeOperation,
)
from ..nodes.operations import (
    AS_F32,
    BinaryOperation,
    EltwiseOperation,
    Operation,
    PReluOperation,
    PrimitiveOperation,
    SumOperation,
)
from ..nodes.products import (
    ConvolutionOperation,
    InnerProductOperation,
    MatmulOperation,
    WinogradConvolutionOperation,
)
from .scaled_constant import ScaledConstant
from .winograd import by_algorithm

__all__ = ["PRECISIONS", "lowered"]

PRECISIONS = "f32", "bf16", "f16"
"""Precisions of networks: f32, or f32 with some tensors of a 16-bit type."""

_PRODUCTS = ConvolutionOperation, InnerProductOperation, MatmulOperation
_MOVES = ReshapeOperation, TransposeOperation, SliceOperation, ConcatOperation, ShuffleOperation
_ALL, _ONE = 1 << 30, np.ones(())
# Number of leading sources and results that can have either type; the rest are f32. The flag marks operations
# that follow: their sources are bf16 if their result is.
_ALLOWING: tuple[tuple[tuple[type[Operation], ...], int, bool], ...] = (
    (_MOVES, _ALL, True),
    ((BinaryOperation, SumOperation), _ALL, True),
    ((EltwiseOperation, PoolingOperation, BatchNormalizationOperation, PReluOperation), 1, True),
    (_PRODUCTS, 2, False),
    ((LayerNormalizationOperation, ReductionOperation, ResamplingOperation, SoftmaxOperation), 1, False),
)
_GATHER = "Gather"
_PRIMITIVES = {_GATHER: 1, "ScaledDotProductAttention": 3}
# Up to this many rows, reading weights hides widening them; fewer channels do not benefit from pairs.
_MOST_ROWS, _LEAST_CHANNELS = 8, 4
# Instruction sets that widen at least 8 16-bit numbers with an instruction or two.
_WIDENING = "avx2", "avx512", "neon"


def lowered(graph: Graph, precision: str) -> Graph:
    """Return the graph with tensors of `precision`, one of `PRECISIONS`; lowered ones stay unchanged.

    Raises Unimplemented for a graph of f64.
    """
    if precision == "f32":
        return graph
    wide = next((name for name, own in graph.tensors.items() if own.data_type is DataType.f64), None)
    if wide is not None:
        raise refuse("RS-G02:precision-f64", precision=precision, name=wide)
    products = [node for node in graph.nodes if isinstance(node.operation, _PRODUCTS)]
    factors = {graph.tensors[name].data_type for node in products for name in node.sources[:2]}
    if not factors.issubset(AS_F32):
        return graph
    rewrite = _LoweredGraph(graph, DataType.parse(precision))
    if precision == "bf16" and has_dots_of_bf16():
        return rewrite.with_activations(products)
    return rewrite.with_weights(products) if host_isa().name in _WIDENING else graph


class _LoweredGraph:
    """A graph while tensors change types. `kind`: the 16-bit type."""

    def __init__(self, graph: Graph, kind: DataType) -> None:
        self._graph, self._kind = graph, kind
        self._constants: dict[str, Constant] = {}
        self._types = {**graph.tensors}

    # --- weights only ---------------------------------------------------------------------------------------

    def with_weights(self, products: list[Node]) -> Graph:
        """Lower weights that few rows read, if those of all products exceed the caches."""
        graph = self._graph
        weights = {node.sources[1] for node in products if node.sources[1] in graph.constants}
        if sum(graph.tensors[name].nbytes for name in weights) <= NOMINAL.l3:
            return graph
        nodes = list[Node]()
        for node in graph.nodes:
            name = node.sources[1] if isinstance(node.operation, _PRODUCTS) else ""
            if (
                name in weights
                and not isinstance(node.operation, WinogradConvolutionOperation)
                and self._is_of_f32(node)
                and self._rows(node) <= _MOST_ROWS
                and self._holds(name)
            ):
                node = replace(node, inputs=(node.inputs[0], self._converted(name), *node.inputs[2:]))
            nodes.append(node)
        return graph.replaced(nodes, self._constants) if self._constants else graph

    def _is_of_f32(self, node: Node) -> bool:
        return all(self._is_f32(name) for name in node.sources[:2])

    def _rows(self, node: Node) -> int:
        """Return how many times a product reads each of its weights."""
        weights, result = (self._graph.tensors[name] for name in (node.sources[1], node.output))
        is_matrix = isinstance(node.operation, MatmulOperation)
        outputs = weights.elements // max(weights.dims[-2], 1) if is_matrix else result.dims[1]
        return result.elements // max(outputs, 1)

    def _holds(self, name: str) -> bool:
        """True if no value of a constant becomes infinite in the type."""
        if self._kind is DataType.bf16:
            return True
        values = self._graph.constants[name].values
        most = float(np.finfo(np.float16).max)
        return bool(-most <= values.min(initial=0) and values.max(initial=0) <= most)

    # --- activations too ------------------------------------------------------------------------------------

    def with_activations(self, products: list[Node]) -> Graph:
        """Lower the factors of all large products, and what is between these."""
        lowering = {node.name for node in products if self._has_pairs(node)}
        narrow = self._narrow_tensors(lowering)
        nodes, copies = list[Node](), dict[str, str]()

        def factor(name: str) -> str:
            if name in narrow or not self._is_f32(name):
                return name
            if name in self._graph.constants:
                return self._converted(name)
            if name not in copies:
                copies[name] = self._new_name(name)
                self._types[copies[name]] = replace(self._types[name], data_type=self._kind)
                nodes.append(Node(copies[name], ReorderOperation(self._kind), (name,), (copies[name],)))
            return copies[name]

        for node in self._graph.nodes:
            if node.name in lowering and isinstance(node.operation, WinogradConvolutionOperation):
                node = by_algorithm(node, ConvolutionOperation)
            is_narrow = node.name in lowering or (_is_move(node) and node.output in narrow)
            count = _reads_narrow(node)[0] if is_narrow else 0
            node = replace(node, inputs=(*map(factor, node.inputs[:count]), *node.inputs[count:]))
            nodes.append(self._typed(node, narrow))
        return self._graph.replaced(nodes, self._constants) if lowering else self._graph

    def _has_pairs(self, node: Node) -> bool:
        """True for a product of f32 that adds up enough channels."""
        source, weights = (self._graph.tensors[name] for name in node.sources[:2])
        axis = -1 if isinstance(node.operation, MatmulOperation) else 1
        channels = source.dims[axis] // getattr(node.operation, "groups", 1)
        return self._is_of_f32(node) and bool(weights.elements) and channels >= _LEAST_CHANNELS

    def _narrow_tensors(self, lowering: set[str]) -> set[str]:
        """Return the tensors that products need in 16 bits, if all their producers and readers allow it."""
        wanted, graph = set[str](), self._graph
        fixed = {*graph.inputs, *graph.outputs, *graph.constants}
        for node in reversed(graph.nodes):
            first, follows = _reads_narrow(node)
            fixed.update(node.sources[first:], node.outputs if first == 0 else ())
            if node.name in lowering:
                wanted.update(node.sources[:2])
            elif follows and wanted.intersection(node.outputs):
                wanted.update(node.sources[:first])
        # A move has the same type on both sides.
        moves = [node for node in graph.nodes if _is_move(node)]
        ends = [
            {*node.sources[: _reads_narrow(node)[0]], *node.outputs} - {*graph.constants} for node in moves
        ]
        fixed.update(name for name in graph.tensors if not self._is_f32(name))
        fixed = _joined(fixed, ends)
        return _joined(wanted - fixed, ends) - fixed

    def _typed(self, node: Node, narrow: set[str]) -> Node:
        """Return the node with an explicit result type if that does not follow."""
        (name, *others), made = node.outputs, node.results(self._types)
        wanted = self._kind if name in narrow else self._graph.tensors[name].data_type
        if not others and made[name].data_type is not wanted:
            node = replace(node, data_type=wanted)
            made = node.results(self._types)
        self._types |= made
        return node

    # --- names ----------------------------------------------------------------------------------------------

    def _is_f32(self, name: str) -> bool:
        return self._graph.tensors[name].data_type is DataType.f32

    def _new_name(self, name: str) -> str:
        name = f"{name}.{self._kind}"
        while name in self._graph.tensors:
            name += "'"
        return name

    def _converted(self, name: str) -> str:
        """Return a constant converted to the 16-bit type."""
        new = self._new_name(name)
        self._constants[new] = ScaledConstant(self._graph.constants[name], _ONE, self._kind)
        self._types[new] = self._constants[new].type
        return new


def _joined(names: set[str], ends: list[set[str]]) -> set[str]:
    """Return names, with everything that moves between these `ends` connect to them."""
    while True:
        more = set[str]().union(*(own for own in ends if not own.isdisjoint(names)))
        if more <= names:
            return names
        names = names | more


def _is_move(node: Node) -> bool:
    """True for operations that return elements unchanged."""
    return isinstance(node.operation, _MOVES) or getattr(node.operation, "primitive", "") == _GATHER


def _reads_narrow(node: Node) -> tuple[int, bool]:
    """Return how many of a node's sources can have either type, and whether they follow a narrow result."""
    operation = node.operation
    if isinstance(operation, PrimitiveOperation):
        count = _PRIMITIVES.get(operation.primitive, 0) * (len(node.outputs) == 1)
        return count, count > 0
    for kinds, count, follows in _ALLOWING:
        if isinstance(operation, kinds) and len(node.outputs) == 1:
            return count, follows
    return 0, False
