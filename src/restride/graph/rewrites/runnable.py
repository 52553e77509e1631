"""Graphs in a form that primitives run well: the last rewrites before formats are chosen.

pad(x)                                      ->  concats of x with constants: no primitive writes a border
deconv(x), of windows beside each other
and fewer outputs than fit into a vector    ->  a convolution of 1 by 1, whose outputs are the places of the
                                                windows too, and a move of these places into the image

Channels of a result are what vectors hold: where a deconvolution has one output, it is the places of its
window that fill them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from ...errors import OutOfMemory
from ...ops.product import kernel_block
from ..graph import Constant, Graph, Node
from ..nodes.moves import ConcatOperation, PadOperation, ReshapeOperation, TransposeOperation
from ..nodes.operations import EltwiseOperation
from ..nodes.products import ConvolutionOperation, DeconvolutionOperation

__all__ = ["runnable"]


def runnable(graph: Graph) -> Graph:
    """The graph without pads, and without deconvolutions that a convolution does better."""
    constants: dict[str, Constant] = {}
    nodes = [made for node in graph for made in _expanded(graph, node, constants)]
    return graph if tuple(nodes) == graph.nodes else graph.replaced(nodes, constants)


def _expanded(graph: Graph, node: Node, constants: dict[str, Constant]) -> Iterator[Node]:
    if isinstance(node.operation, PadOperation):
        return _without_pad(graph, node, node.operation, constants)
    if isinstance(node.operation, DeconvolutionOperation) and _is_of_squares(graph, node, node.operation):
        return _as_product(graph, node, node.operation, constants)
    return iter((node,))


def _without_pad(
    graph: Graph, node: Node, operation: PadOperation, constants: dict[str, Constant]
) -> Iterator[Node]:
    dims, source = list(graph.tensors[node.inputs[0]].dims), node.inputs[0]
    twin = graph.tensors[node.inputs[0]].data_type.numpy
    axes = [axis for axis in range(len(dims)) if operation.low[axis] or operation.high[axis]]
    for axis in axes:
        names = {}
        for side, size in (("low", operation.low[axis]), ("high", operation.high[axis])):
            if size:
                names[side] = f"{node.output}.{side}.{axis}"
                extents = (*dims[:axis], size, *dims[axis + 1 :])
                value = np.array(operation.value, twin)
                try:
                    constants[names[side]] = Constant(np.broadcast_to(value, extents))
                except OutOfMemory as error:
                    raise error.with_context(f"node {node.name!r} ({node.kind}): {error.what}") from None
        parts = [name for name in (names.get("low"), source, names.get("high")) if name is not None]
        dims[axis] += operation.low[axis] + operation.high[axis]
        is_last = axis == axes[-1]
        source = node.output if is_last else f"{node.output}.{axis}"
        epilogues, operands = (node.epilogues, node.operands) if is_last else ((), ())
        yield Node(f"{node.name}.{axis}", ConcatOperation(axis), (*parts, *operands), (source,), epilogues)
    if not axes:
        idle = EltwiseOperation("eltwise_linear", 1.0) if node.epilogues else ReshapeOperation(tuple(dims))
        yield replace(node, operation=idle)


def _is_of_squares(graph: Graph, node: Node, operation: DeconvolutionOperation) -> bool:
    """True where each element of the source makes a square of its own, of few outputs."""
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


def _as_product(
    graph: Graph, node: Node, operation: DeconvolutionOperation, constants: dict[str, Constant]
) -> Iterator[Node]:
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
