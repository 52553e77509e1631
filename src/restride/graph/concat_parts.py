"""Concats that need not run: what makes a part writes it into its place in the whole.

Each part is to be made by one step, for the concat alone, and to lie in the whole as a window that a
descriptor can say: a range of channels of a tensor whose blocks it does not cut. Otherwise the concat copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..desc.memory_desc import MemoryDesc
from ..errors import Error
from .graph import Graph, Node
from .node_formats import is_same_memory
from .operations import BinaryOperation, ConcatOperation, ConvolutionOperation, PoolingOperation
from .propagation import Propagation

__all__ = ["ConcatPart", "concat_parts"]

# What writes any strides as fast as dense ones.
_WRITERS = (BinaryOperation, ConvolutionOperation, PoolingOperation)


@dataclass(frozen=True, slots=True)
class ConcatPart:
    """Where a tensor lies in `whole`, which a concat would make of it, and the format of the window."""

    whole: str
    md: MemoryDesc


def concat_parts(graph: Graph, formats: Propagation) -> dict[str, ConcatPart]:
    """The tensors that are written into the result of a concat, by name."""
    makers = {name: node for node in graph for name in node.outputs}
    readers = graph.readers()
    found: dict[str, ConcatPart] = {}
    for node, way in zip(graph, formats.steps, strict=True):
        if not isinstance(node.operation, ConcatOperation) or node.epilogues:
            continue
        pairs = zip(node.inputs, way.inputs, strict=True)
        comes_alike = all(is_same_memory(formats.formats[name], md) for name, md in pairs)
        if comes_alike and all(_is_free(graph, makers, readers, node, name) for name in node.inputs):
            found |= _windows(graph, node, node.operation.axis, formats.formats[node.output])
    return found


def _is_free(
    graph: Graph,
    makers: Mapping[str, Node],
    readers: Mapping[str, tuple[Node, ...]],
    concat: Node,
    name: str,
) -> bool:
    """True where a step makes the tensor, and the concat reads it once, and nobody else does."""
    maker = makers.get(name)
    is_made = maker is not None and isinstance(maker.operation, _WRITERS) and len(maker.outputs) == 1
    is_read_once = len(readers[name]) == 1 and concat.inputs.count(name) == 1
    return is_made and is_read_once and name not in graph.outputs


def _windows(graph: Graph, node: Node, axis: int, whole: MemoryDesc) -> dict[str, ConcatPart]:
    if whole.padded_dims != whole.dims or not whole.nelems:
        return {}
    try:
        return {name: ConcatPart(node.output, md) for name, md in _submemories(graph, node, axis, whole)}
    except Error:
        return {}


def _submemories(graph: Graph, node: Node, axis: int, whole: MemoryDesc) -> Iterator[tuple[str, MemoryDesc]]:
    start = 0
    for name in node.inputs:
        dims = graph.tensors[name].dims
        yield name, whole.submemory_desc(dims, tuple(start if d == axis else 0 for d in range(len(dims))))
        start += dims[axis]
