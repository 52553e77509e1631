"""Nodes between quantized tensors compute with integers: `importers/onnx/quantized.py` output becomes int8.

    conv(dequantized x, dequantized w)             ->  conv(x, w) * scales + bias, sums of integers
    quantized relu(y), quantized y + z, ...        ->  epilogues of the node that makes y
    max(dequantized x), reshape, concat, ...       ->  the same of x
    y = quantized dequantized x, of equal scales   ->  x
    quantized f(dequantized x)                     ->  one node from integers to integers
    matmul(floats x, dequantized w)                ->  matmul(x, w), whose attributes have the scales of w
    gather(dequantized w)                          ->  the same of only the rows that are taken

If the result of a convolution is rounded to integers before it is added to something, the epilogues round it
likewise: results are those of the model. s8 with a zero point is stored as u8, plus 128: results of relu then
have zero points of 0, which cost nothing.

One pass, in order. Dequantized tensors are not computed until a node needs floats.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...dtypes import DataType
from ..graph import Constant, Graph, Node
from ..nodes.layers import BatchNormalizationOperation, PoolingOperation, ReductionOperation
from ..nodes.moves import (
    ConcatOperation,
    PadOperation,
    ReorderOperation,
    ReshapeOperation,
    ShuffleOperation,
    SliceOperation,
    TransposeOperation,
)
from ..nodes.operations import (
    AS_F32,
    BinaryOperation,
    DequantizeOperation,
    EltwiseOperation,
    Operation,
    PrimitiveOperation,
    QuantizeOperation,
    SumOperation,
)
from ..nodes.products import (
    ConvolutionOperation,
    DeconvolutionOperation,
    InnerProductOperation,
    MatmulOperation,
    QuantizedMatmulOperation,
)
from ..stored_constant import as_constant
from .affine import AffineStep
from .draft import AppliedFusion, Array
from .integer_chains import ChainStep, Combination, IntegerChain, IntegerType
from .integer_factors import product_factors
from .quantized_weights import KnownIntegers

__all__ = ["MEANS", "fuse_integers"]

NAME = "integers"
_MOVES = (ReshapeOperation, TransposeOperation, SliceOperation, ShuffleOperation)
_PRODUCTS = (ConvolutionOperation, InnerProductOperation, MatmulOperation)
_BYTES = (DataType.s8, DataType.u8)
MEANS = ("reduction_mean", "pooling_avg_include_padding", "pooling_avg_exclude_padding")
_ADD, _SUB, _MUL = (BinaryOperation(f"binary_{word}") for word in ("add", "sub", "mul"))
_MOST_STEPS, _MATRIX = 12, 2


@dataclass(frozen=True, slots=True)
class _Dequantized:
    """A tensor of floats that is not computed: the integers, and their meaning."""

    source: str
    integers: IntegerType


def fuse_integers(graph: Graph) -> tuple[Graph, tuple[AppliedFusion, ...]]:
    """Return the graph whose nodes between integers compute with them, and the applied fusions."""
    if not any(isinstance(node.operation, DequantizeOperation) for node in graph.nodes):
        return graph, ()
    return _IntegerPass(graph).run()


class _IntegerPass:
    """Goes through the nodes in order; `_made` has the resulting nodes, including chains that still grow."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._readers = graph.readers()
        self._nodes: dict[str, Node | IntegerChain] = {}
        self._floats: dict[str, _Dequantized] = {}
        self._integers: dict[str, KnownIntegers] = {}
        self._stored: dict[str, tuple[str, int]] = {}
        self._constants: dict[str, Constant] = {}
        self._types = dict(graph.tensors)
        self._applied: list[AppliedFusion] = []

    def run(self) -> tuple[Graph, tuple[AppliedFusion, ...]]:
        for node in self._graph.nodes:
            self._visit(node)
        for name in self._graph.outputs:
            self._float(name)
        nodes, applied = [], self._applied
        for item in self._nodes.values():
            if isinstance(item, IntegerChain):
                nodes.append(item.finished(self._constant))
                others = tuple(name for name in item.nodes if name != item.node.name)
                applied.append(AppliedFusion(NAME, others or item.nodes, item.node.name))
            else:
                nodes.append(item)
        return self._graph.replaced(nodes, self._constants), tuple(applied)

    def _visit(self, node: Node) -> None:
        operation, is_done = node.operation, False
        if isinstance(operation, DequantizeOperation):
            is_done = self._dequantized(node)
        elif isinstance(operation, QuantizeOperation):
            is_done = self._quantized(node, operation)
        elif not node.epilogues and len(node.outputs) == 1:
            is_f32 = self._types[node.output].data_type is DataType.f32
            rules = (rule for kinds, rule in _RULES if isinstance(operation, kinds))
            rules = (rule for rule in rules if is_f32 or rule in _OF_ANY_FLOATS)
            is_done = any(rule(self, node, operation) for rule in rules)
        if not is_done:
            inputs = tuple(self._float(name) for name in node.inputs)
            self._nodes[node.output] = replace(node, inputs=inputs)

    # --- integers and floats --------------------------------------------------------------------------------

    def _dequantized(self, node: Node) -> bool:
        name, scale, zero = node.inputs[0], *(self._values(parameter) for parameter in node.inputs[1:])
        if scale is None or zero is None:
            return False
        constant = self._graph.constants.get(name)
        if constant is not None:
            self._integers[node.output] = KnownIntegers.of(constant, scale, zero, node.name)
            return True
        is_plain = scale.size == zero.size == 1 and node.data_type in (None, DataType.f32)
        if not is_plain or self._graph.tensors[name].data_type not in _BYTES:
            return False
        source, shift = self._stored.get(name, (name, 0))
        kind = self._types[source].data_type
        integers = IntegerType(float(scale.reshape(())), int(zero.reshape(())) + shift, kind)
        self._floats[node.output] = _Dequantized(source, integers)
        return True

    def _quantized(self, node: Node, operation: QuantizeOperation) -> bool:
        scale, zero = (self._values(parameter) for parameter in node.inputs[1:])
        if scale is None or zero is None or scale.size > 1:
            return False
        integers = IntegerType(float(scale.reshape(())), int(zero.reshape(())), operation.data_type)
        name, shift, readers = node.output, 0, self._readers[node.output]
        is_seen = name in self._graph.outputs or not readers
        is_only_dequantized = all(isinstance(reader.operation, DequantizeOperation) for reader in readers)
        if integers.data_type is DataType.s8 and integers.zero and is_only_dequantized and not is_seen:
            shift, integers = 128, IntegerType(integers.scale, integers.zero + 128, DataType.u8)
        source = self._floats.get(node.inputs[0])
        if source is not None and source.integers == integers and name not in self._graph.outputs:
            self._stored[name] = source.source, shift
            return True
        self._put(replace(self._chain(node, node.inputs[0]).doing(node), integers=integers))
        self._stored[name] = name, shift
        return True

    def _float(self, name: str) -> str:
        """Return a tensor that a node needs as floats, computing it if necessary."""
        integers, floats = self._integers.get(name), self._floats.get(name)
        if name in self._nodes or name in self._constants:
            return name
        if integers is not None:
            self._constants[name] = Constant(integers.reals.astype(self._types[name].data_type.numpy))
        elif floats is not None:
            node = Node(name, EltwiseOperation("eltwise_linear", 1.0), (floats.source,), (name,))
            self._put(IntegerChain(node, (floats.integers.to_real,), nodes=(name,)))
        return name

    def _values(self, name: str) -> Array | None:
        integers = self._integers.get(name)
        if integers is not None:
            return integers.reals
        constant = self._graph.constants.get(name)
        return None if constant is None else constant.values

    def _constant(self, values: Array | Constant, near: str) -> str:
        name = _free_name(f"{near}.{NAME}", {*self._types, *self._constants})
        self._constants[name] = as_constant(values)
        return name

    # --- chains ---------------------------------------------------------------------------------------------

    def _put(self, chain: IntegerChain) -> None:
        name = chain.node.output
        self._nodes.pop(name, None)
        self._nodes[name] = chain
        kind = DataType.f32 if chain.integers is None else chain.integers.data_type
        self._types[name] = replace(self._types[name], data_type=kind)

    def _chain(self, node: Node, source: str) -> IntegerChain:
        """Return the chain that makes a tensor, to be extended; or a new one of steps on the tensor."""
        growing, floats = self._growing(source), self._floats.get(source)
        if growing is not None:
            del self._nodes[growing.node.output]
            return growing
        function = EltwiseOperation("eltwise_linear", 1.0)
        name = self._float(source) if floats is None else floats.source
        steps = () if floats is None else (floats.integers.to_real,)
        return IntegerChain(Node(node.name, function, (name,), node.outputs), steps)

    def _growing(self, name: str) -> IntegerChain | None:
        """Return the chain that makes a tensor for one reader: as floats, whatever it is stored as."""
        maker = self._nodes.get(name)
        if isinstance(maker, IntegerChain) and maker.integers is None:
            return maker if self._may_grow(name, maker) else None
        source = self._floats.get(name)
        chain = None if source is None else self._nodes.get(source.source)
        if source is None or not isinstance(chain, IntegerChain) or chain.integers != source.integers:
            return None
        is_product = isinstance(chain.node.operation, _PRODUCTS)
        is_private = self._may_grow(source.source, chain) and self._may_grow(name, chain)
        return chain.reopened() if is_product and is_private else None

    def _may_grow(self, name: str, chain: IntegerChain) -> bool:
        readers = self._readers[name]
        is_private = len(readers) == 1 and readers[0].inputs.count(name) == 1
        return is_private and name not in self._graph.outputs and len(chain.steps) <= _MOST_STEPS

    # --- products -------------------------------------------------------------------------------------------

    def _product(self, node: Node, operation: Operation) -> bool:
        """Sum products of integers, and apply scales afterward."""
        source, weights = self._floats.get(node.inputs[0]), self._integers.get(node.inputs[1])
        bias = self._values(node.inputs[2]) if len(node.inputs) > 2 else np.zeros(1)
        if source is None or weights is None or bias is None or source.integers.data_type not in _BYTES:
            return False
        if isinstance(operation, DeconvolutionOperation):
            return False
        factors = product_factors(weights, operation)
        if factors is None:
            return False
        name, integers = source.source, source.integers
        if integers.zero and isinstance(operation, ConvolutionOperation) and _is_padded(operation):
            # Padding with zero points, which represent zero.
            before, behind = ((0, 0, *padding) for padding in (operation.padding_l, operation.padding_r))
            pad, none = PadOperation(before, behind, float(integers.zero)), (0,) * len(operation.strides)
            name = self._new_tensor(f"{node.output}.padded", pad, name)
            operation = replace(operation, padding_l=none, padding_r=none)
        weights_name = self._constant(factors.values, node.inputs[1])
        main = Node(node.name, operation, (name, weights_name), node.outputs)
        scales = factors.scales_of(integers, np.asarray(bias, np.float64))
        self._put(IntegerChain(main, (scales,), nodes=(node.name,)))
        return True

    def _new_tensor(
        self, near: str, operation: Operation, *sources: str, data_type: DataType | None = None
    ) -> str:
        name = _free_name(near, self._types)
        node = Node(name, operation, sources, (name,), (), data_type)
        self._types |= node.results({**self._types, **{x: c.type for x, c in self._constants.items()}})
        self._readers[name] = ()
        self._nodes[name] = node
        return name

    # --- weights that stay integers -------------------------------------------------------------------------

    def _moved_weights(self, node: Node, operation: Operation) -> bool:
        """Move constants by moving their integers, scales and zero points."""
        weights = self._integers.get(node.inputs[0])
        if weights is None or len(node.inputs) > 1:
            return False
        self._integers[node.output] = weights.moved(operation, node.name)
        return True

    def _scaled_weights(self, node: Node, operation: Operation) -> bool:
        """Recognize arithmetic that dequantizes integers, as in files without an operator for it."""
        first, *others = node.inputs if node.inputs[0] in self._integers else node.inputs[::-1]
        weights, result = self._integers.get(first), None
        if weights is None:
            return False
        if isinstance(operation, ReorderOperation) and operation.data_type in AS_F32:
            result = replace(weights, nodes=(*weights.nodes, node.name))
        elif isinstance(operation, EltwiseOperation) and operation.algorithm == "eltwise_linear":
            if operation.beta == 0:
                result = weights.scaled(np.array(operation.alpha, np.float32), node.name)
            elif operation.alpha == 1:
                result = weights.less(np.array(-operation.beta, np.float32), node.name)
        elif operation in (_MUL, _SUB) and (operation == _MUL or first == node.inputs[0]):
            values = self._values(others[0])
            change = weights.scaled if operation == _MUL else weights.less
            result = None if values is None else change(values, node.name)
        if result is not None:
            self._integers[node.output] = result
        return result is not None

    def _quantized_product(self, node: Node, operation: Operation) -> bool:
        """Multiply by a matrix of integers, which are dequantized when read."""
        weights, (source, second, *biases) = self._integers.get(node.inputs[1]), node.inputs
        if weights is None or {len(weights.stored.type.dims), len(self._types[source].dims)} != {_MATRIX}:
            return False
        if isinstance(operation, InnerProductOperation):
            weights = replace(weights.moved(TransposeOperation((1, 0)), ""), nodes=weights.nodes)
        factors = weights.factors()
        if factors is None or self._types[source].data_type not in AS_F32:
            return False
        shape = ReshapeOperation((1, self._types[node.output].dims[-1]))
        biases = [
            self._new_tensor(f"{name}.row", shape, self._float(name))
            if isinstance(operation, InnerProductOperation)
            else self._float(name)
            for name in biases
        ]
        names = (self._constant(each, second) for each in (weights.stored, *factors))
        integers, *numbers = names
        inputs = (self._float(source), integers, *biases, *numbers)
        mode = operation.fpmath_mode if isinstance(operation, MatmulOperation) else "strict"
        product = QuantizedMatmulOperation(len(factors) > 1, fpmath_mode=mode)
        self._nodes[node.output] = replace(node, operation=product, inputs=inputs)
        self._applied.append(AppliedFusion(NAME, weights.nodes, node.name))
        return True

    def _rows(self, node: Node, operation: PrimitiveOperation) -> bool:
        """Take rows of an integer table, and dequantize only those."""
        table = self._integers.get(node.inputs[0])
        if table is None or operation.kind != "gather" or len(table.stored.type.dims) != _MATRIX:
            return False
        indices = node.inputs[1]
        parameters, places = dict(operation.parameters), self._types[indices].dims
        if parameters.pop("algorithm").removeprefix("gather_") != "axis" or any(parameters.values()):
            return False
        parts = [table.stored, table.factor, *([table.shift] if np.any(table.shift.values) else [])]
        (count, width), (_, groups) = (part.type.dims for part in parts[:2])
        if any(
            n not in (1, count) or m not in (1, groups) for n, m in (part.type.dims for part in parts[1:])
        ):
            return False
        is_grouped = 1 < groups < width
        result, names = self._types[node.output], []
        for part, columns in zip(parts, (width // groups, 1, 1), strict=False):
            name, dims, near = self._constant(part, node.inputs[0]), (*places, part.type.dims[1]), node.output
            if part.type.dims[0] == 1:
                dims = (*(1,) * len(places), dims[-1])
            else:
                name = self._new_tensor(
                    f"{near}.rows", operation, name, self._float(indices), data_type=DataType.f32
                )
            if is_grouped or part.type.dims[0] == 1:
                split = (*dims[:-1], min(groups, dims[-1]), columns) if is_grouped else dims
                name = self._new_tensor(f"{near}.groups", ReshapeOperation(split), name)
            names.append(name)
        rows, scales, *zeros = names
        for zero in zeros:
            rows = self._new_tensor(f"{node.output}.shifted", _SUB, rows, zero)
        reals = Node(node.name, _MUL, (rows, scales), node.outputs, (), result.data_type)
        if is_grouped:
            rows = self._new_tensor(f"{node.output}.scaled", _MUL, rows, scales, data_type=result.data_type)
            reals = replace(node, operation=ReshapeOperation(result.dims), inputs=(rows,))
        self._nodes[node.output] = reals
        self._applied.append(AppliedFusion(NAME, table.nodes, node.name))
        return True

    # --- operations that keep integers ----------------------------------------------------------------------

    def _move(self, node: Node, operation: Operation) -> bool:
        """Apply moves, maxima of windows, and concats with one scale to the integers."""
        if isinstance(operation, PoolingOperation) and operation.algorithm != "pooling_max":
            return False
        floats = [self._floats.get(name) for name in node.inputs]
        sources = [source for source in floats if source is not None]
        if len(sources) < len(floats) or len({source.integers for source in sources}) != 1:
            return False
        tensor = self._new_tensor(f"{node.output}.{NAME}", operation, *(source.source for source in sources))
        self._floats[node.output] = _Dequantized(tensor, sources[0].integers)
        return True

    def _averaged(self, node: Node, operation: ReductionOperation | PoolingOperation) -> bool:
        """Average integers, and apply the scale afterward."""
        source, algorithm = self._floats.get(node.inputs[0]), operation.algorithm
        if source is None or algorithm not in MEANS:
            return False
        counts_padding = algorithm == "pooling_avg_include_padding"
        if counts_padding and source.integers.zero and _is_padded(operation):
            return False
        main = Node(node.name, operation, (source.source,), node.outputs)
        self._put(IntegerChain(main, (source.integers.to_real,), nodes=(node.name,)))
        return True

    # --- steps on elements ----------------------------------------------------------------------------------

    def _function(self, node: Node, operation: EltwiseOperation) -> bool:
        is_linear = operation.algorithm == "eltwise_linear"
        step = AffineStep.of(operation.alpha, operation.beta) if is_linear else operation
        return self._added(node, node.inputs[0], (step,))

    def _normalized(self, node: Node, operation: BatchNormalizationOperation) -> bool:
        step = AffineStep.of_norm([self._values(name) for name in node.inputs[1:]], operation.epsilon)
        shape = (1, -1, *(1,) * (len(self._types[node.output].dims) - 2))
        return step is not None and self._added(node, node.inputs[0], (step.reshaped(shape),))

    def _combine(self, node: Node, operation: Operation) -> bool:
        """Add sums and products of a chain's result, or of integers, as steps of the chain."""
        word = _ADD if operation == SumOperation((1.0, 1.0)) else operation
        if not isinstance(word, BinaryOperation) or word not in (_ADD, _MUL):
            return False
        for source, other in (node.inputs, node.inputs[::-1]):
            values = self._values(other)
            if values is not None and self._types[source].dims == self._types[node.output].dims:
                step = AffineStep.of(1.0, values) if word == _ADD else AffineStep.of(values, 0.0)
                return self._added(node, source, (step,))
        return self._combined(node, word)

    def _combined(self, node: Node, word: BinaryOperation) -> bool:
        """Add or multiply two tensors, one of which is made by a chain."""
        dims = self._types[node.output].dims
        if any(self._types[name].dims != dims for name in node.inputs):
            return False
        chains = [name for name in node.inputs if self._growing(name) is not None]
        integers = [name for name in node.inputs if name in self._floats]
        main = next(iter(chains[::-1] or integers), None)
        if main is None or node.inputs.count(main) > 1:
            return False
        other = node.inputs[node.inputs.index(main) - 1]
        floats = self._floats.get(other)
        if floats is None or (word == _MUL and floats.integers.zero):
            return self._added(node, main, (Combination(word, self._float(other)),))
        scale, zero, _ = floats.integers
        before = (AffineStep.of(1 / scale, -zero),) if word == _ADD else ()
        steps = (*before, Combination(word, floats.source), AffineStep.of(scale, 0.0))
        return self._added(node, main, steps)

    def _added(self, node: Node, source: str, steps: tuple[ChainStep, ...]) -> bool:
        """Append steps to the chain that makes a tensor, or to a new one on integers."""
        if source not in self._floats and self._growing(source) is None:
            return False
        chain = self._chain(node, source)
        for step in steps:
            chain = chain.then(step)
        self._put(chain.doing(node))
        return True


_RULES: tuple[tuple[type[Operation] | tuple[type[Operation], ...], Callable[..., bool]], ...] = (
    (_MOVES[:3], _IntegerPass._moved_weights),
    ((BinaryOperation, EltwiseOperation, ReorderOperation), _IntegerPass._scaled_weights),
    ((*_MOVES, ConcatOperation, PoolingOperation), _IntegerPass._move),
    (_PRODUCTS, _IntegerPass._product),
    ((InnerProductOperation, MatmulOperation), _IntegerPass._quantized_product),
    (PrimitiveOperation, _IntegerPass._rows),
    ((ReductionOperation, PoolingOperation), _IntegerPass._averaged),
    (EltwiseOperation, _IntegerPass._function),
    (BatchNormalizationOperation, _IntegerPass._normalized),
    ((BinaryOperation, SumOperation), _IntegerPass._combine),
)
"""Kinds of operations, and their rule: it returns True if it has done the work of the node."""
_OF_ANY_FLOATS = (
    _IntegerPass._moved_weights,
    _IntegerPass._scaled_weights,
    _IntegerPass._quantized_product,
    _IntegerPass._rows,
)


def _is_padded(operation: Any) -> bool:
    return any((*operation.padding_l, *operation.padding_r))


def _free_name(near: str, existing: Collection[str]) -> str:
    names = (f"{near}{i or ''}" for i in range(len(existing) + 1))
    return next(name for name in names if name not in existing)
