"""What no fusion has taken of quantizations, as arithmetic that primitives do.

quantize      reorder(round(x / scale) + zero)      to the nearest, halves to even; it saturates
dequantize    (reorder(q) - zero) * scale           of constants a constant
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...dtypes import DataType
from ..graph import Constant, Graph, Node
from ..nodes.moves import ReorderOperation
from ..nodes.operations import (
    BinaryOperation,
    DequantizeOperation,
    EltwiseOperation,
    Operation,
    QuantizeOperation,
)

__all__ = ["as_arithmetic"]

_SUB, _DIV, _MUL, _ADD = (BinaryOperation(f"binary_{word}") for word in ("sub", "div", "mul", "add"))
_ROUND = EltwiseOperation("eltwise_round")


def as_arithmetic(graph: Graph) -> Graph:
    """The graph without nodes that quantize or dequantize."""
    if not any(isinstance(node.operation, QuantizeOperation | DequantizeOperation) for node in graph.nodes):
        return graph
    constants: dict[str, Constant] = {}
    nodes = [made for node in graph.nodes for made in _expanded(graph, node, constants)]
    return graph.replaced(nodes, constants)


def _expanded(graph: Graph, node: Node, constants: dict[str, Constant]) -> Iterator[Node]:
    operation = node.operation
    if isinstance(operation, QuantizeOperation):
        steps = [(_DIV, 1), (_ROUND, 0), (_ADD, 2), (ReorderOperation(operation.data_type), 0)]
    elif isinstance(operation, DequantizeOperation):
        values = [graph.constants.get(name) for name in node.inputs]
        known = [each.values for each in values if each is not None]
        if len(known) == len(values):
            source, scale, zero = known
            reals = (source.astype(np.float32) - zero) * scale
            constants[node.output] = Constant(reals.astype(np.float32))
            return
        steps = [(ReorderOperation(DataType.f32), 0), (_SUB, 2), (_MUL, 1)]
    else:
        yield node
        return
    yield from _chained(graph, node, steps)


def _chained(graph: Graph, node: Node, steps: list[tuple[Operation, int]]) -> Iterator[Node]:
    """The steps in turn; each reads what the one before made, and the input of its number."""
    zero = graph.constants.get(node.inputs[2])
    if zero is not None and not np.any(zero.values):
        is_idle = (_ADD, _SUB, _ROUND)
        steps = [each for each in steps if each[0] not in is_idle]
    source = node.inputs[0]
    for number, (operation, at) in enumerate(steps):
        result = node.output if number == len(steps) - 1 else f"{node.output}.{operation.kind}{number}"
        inputs = (source, node.inputs[at]) if at else (source,)
        yield Node(result, operation, inputs, (result,))
        source = result
