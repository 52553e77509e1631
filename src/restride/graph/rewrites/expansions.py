"""Expansion of nodes that no primitive runs, or none runs well: the last rewrites before formats are chosen.

    quantize      reorder(round(x / scale) + zero)      to nearest, ties to even; it saturates
    dequantize    (reorder(q) - zero) * scale           of constants a constant

    pad(x)                                      ->  concats of x with constants: no primitive writes a border
    deconv(x) with adjacent windows, and fewer
    outputs than fit into a vector              ->  a 1 by 1 convolution, whose outputs include the positions
                                                    in a window, and a move of these into the image

Vectors hold channels of a result: if a deconvolution has one output, the positions of its window fill them
instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import prod

import numpy as np

from ...dtypes import DataType
from ...errors import OutOfMemory
from ...ops.product import kernel_block
from ..graph import Constant, Graph, Node
from ..nodes.moves import (
    ConcatOperation,
    PadOperation,
    ReorderOperation,
    ReshapeOperation,
    TransposeOperation,
)
from ..nodes.operations import (
    BinaryOperation,
    DequantizeOperation,
    EltwiseOperation,
    Operation,
    QuantizeOperation,
    in_groups,
)
from ..nodes.products import ConvolutionOperation, DeconvolutionOperation

__all__ = ["as_arithmetic", "runnable"]

_Constants = dict[str, Constant]
_Expansion = Callable[[Graph, Node, _Constants], Iterator[Node]]


def as_arithmetic(graph: Graph) -> Graph:
    """Return the graph without nodes that quantize or dequantize."""
    return _expanded(graph, {QuantizeOperation: _quantized, DequantizeOperation: _dequantized})


def runnable(graph: Graph) -> Graph:
    """Return the graph without pads, and without deconvolutions that a convolution does better."""
    return _expanded(graph, {PadOperation: _without_pad, DeconvolutionOperation: _as_product})


def _expanded(graph: Graph, table: Mapping[type[Operation], _Expansion]) -> Graph:
    if not any(type(node.operation) in table for node in graph):
        return graph
    constants: _Constants = {}
    nodes: list[Node] = []
    for node in graph:
        expand = table.get(type(node.operation))
        nodes += [node] if expand is None else expand(graph, node, constants)
    return graph if tuple(nodes) == graph.nodes else graph.replaced(nodes, constants)


# --- quantized integers -------------------------------------------------------------------------------------

_SUB, _DIV, _MUL, _ADD = (BinaryOperation(f"binary_{word}") for word in ("sub", "div", "mul", "add"))
_ROUND = EltwiseOperation("eltwise_round")


def _quantized(graph: Graph, node: Node, constants: _Constants) -> Iterator[Node]:
    assert isinstance(node.operation, QuantizeOperation)
    conversion = ReorderOperation(node.operation.data_type)
    return _chained(graph, node, [(_DIV, 1), (_ROUND, 0), (_ADD, 2), (conversion, 0)], constants)


def _dequantized(graph: Graph, node: Node, constants: _Constants) -> Iterator[Node]:
    values = [graph.constants[name].values for name in node.inputs if name in graph.constants]
    if len(values) < len(node.inputs):
        for at, name in enumerate(node.inputs[1:], 1):
            if name in graph.constants:
                factor = in_groups(graph.constants[name].values, graph.tensors[node.inputs[0]].dims)
                constants[f"{node.output}.factor{at}"] = Constant(factor.astype(np.float32))
                node = replace(
                    node, inputs=(*node.inputs[:at], f"{node.output}.factor{at}", *node.inputs[at + 1 :])
                )
        return _chained(graph, node, [(ReorderOperation(DataType.f32), 0), (_SUB, 2), (_MUL, 1)], constants)
    source, scale, zero = values
    kind, (zero, scale) = node.data_type or DataType.f32, (in_groups(x, source.shape) for x in (zero, scale))
    reals = (source.astype(np.float32) - zero.astype(np.float32)) * scale.astype(np.float32)
    constants[node.output] = Constant(reals.astype(kind.numpy))
    return iter(())


def _chained(
    graph: Graph, node: Node, steps: list[tuple[Operation, int]], constants: _Constants
) -> Iterator[Node]:
    """Yield a chain of steps; each reads the result of the previous one, as the input with its number."""
    zero = {**graph.constants, **constants}.get(node.inputs[2])
    if zero is not None and not np.any(zero.values):
        steps = [step for step in steps if step[0] not in (_ADD, _SUB, _ROUND)]
    source = node.inputs[0]
    for number, (operation, at) in enumerate(steps):
        result = node.output if number == len(steps) - 1 else f"{node.output}.{operation.kind}{number}"
        inputs = (source, node.inputs[at]) if at else (source,)
        kind = node.data_type if result == node.output else None
        yield Node(result, operation, inputs, (result,), (), kind)
        source = result


# --- borders ------------------------------------------------------------------------------------------------


def _without_pad(graph: Graph, node: Node, constants: _Constants) -> Iterator[Node]:
    operation, source = node.operation, node.inputs[0]
    assert isinstance(operation, PadOperation)
    dims = list(graph.tensors[source].dims)
    value = np.array(operation.value, graph.tensors[source].data_type.numpy)
    axes = [axis for axis in range(len(dims)) if operation.low[axis] or operation.high[axis]]
    for axis in axes:
        borders = {"low": operation.low[axis], "high": operation.high[axis]}
        names = {side: f"{node.output}.{side}.{axis}" for side, size in borders.items() if size}
        for side, name in names.items():
            extents = (*dims[:axis], borders[side], *dims[axis + 1 :])
            try:
                constants[name] = Constant(np.broadcast_to(value, extents))
            except OutOfMemory as error:
                raise error.with_context(f"node {node.name!r} ({node.kind}): {error.what}") from None
        inputs = [name for name in (names.get("low"), source, names.get("high")) if name is not None]
        dims[axis] += operation.low[axis] + operation.high[axis]
        is_last = axis == axes[-1]
        source = node.output if is_last else f"{node.output}.{axis}"
        epilogues, operands = (node.epilogues, node.operands) if is_last else ((), ())
        yield Node(f"{node.name}.{axis}", ConcatOperation(axis), (*inputs, *operands), (source,), epilogues)
    if not axes:
        idle = EltwiseOperation("eltwise_linear", 1.0) if node.epilogues else ReshapeOperation(tuple(dims))
        yield replace(node, operation=idle)


# --- deconvolutions -----------------------------------------------------------------------------------------


def _is_of_squares(graph: Graph, node: Node, operation: DeconvolutionOperation) -> bool:
    """True if each element of the source makes a separate square, of few outputs."""
    weights = graph.constants.get(node.inputs[1])
    if weights is None or operation.groups > 1 or node.operands or len(node.sources) > 3:
        return False
    if len(node.sources) == 3 and node.sources[2] not in graph.constants:
        return False
    dims = weights.type.dims
    is_apart = dims[2:] == operation.strides and not any(
        (*operation.dilates, *operation.padding_l, *operation.padding_r)
    )
    return is_apart and dims[0] < kernel_block()


def _as_product(graph: Graph, node: Node, constants: _Constants) -> Iterator[Node]:
    assert isinstance(node.operation, DeconvolutionOperation)
    if not _is_of_squares(graph, node, node.operation):
        yield node
        return
    weights = graph.constants[node.inputs[1]].values
    outputs, channels, *kernel = weights.shape
    batch, _, *sizes = graph.tensors[node.inputs[0]].dims
    rank, squares = len(kernel), f"{node.output}.squares"
    places = weights.reshape(outputs, channels, prod(kernel)).transpose(0, 2, 1)
    inputs = [node.inputs[0], f"{squares}.weights"]
    constants[inputs[1]] = Constant(places.reshape(-1, channels, *(1,) * rank))
    if len(node.sources) == 3:
        inputs.append(f"{squares}.bias")
        constants[inputs[2]] = Constant(graph.constants[node.sources[2]].values.repeat(prod(kernel)))
    zeros = (0,) * rank
    window = ConvolutionOperation((1,) * rank, zeros, zeros, zeros)
    yield Node(squares, window, tuple(inputs), (squares,), node.epilogues)
    digits, mixed = f"{squares}.digits", f"{squares}.mixed"
    split = ReshapeOperation((batch, outputs, *kernel, *sizes))
    yield Node(digits, split, (squares,), (digits,))
    order = tuple(axis for i in range(rank) for axis in (2 + rank + i, 2 + i))
    yield Node(mixed, TransposeOperation((0, 1, *order)), (digits,), (mixed,))
    yield Node(node.name, ReshapeOperation(graph.tensors[node.output].dims), (mixed,), (node.output,))
