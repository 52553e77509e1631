"""Parts of concats as windows of the whole: which may be written there, and where they lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...desc.memory_desc import MemoryDesc
from ...errors import Error
from ..graph import Graph, Node
from ..nodes.layers import PoolingOperation
from ..nodes.moves import ConcatOperation
from ..nodes.operations import BinaryOperation
from ..nodes.products import ConvolutionOperation

__all__ = ["ConcatPart", "FreeParts", "part_windows"]

# What writes any strides as fast as dense ones.
_WRITERS = (BinaryOperation, ConvolutionOperation, PoolingOperation)


@dataclass(frozen=True, slots=True)
class ConcatPart:
    """Where a tensor lies in `whole`, which a concat would make of it, and the format of the window."""

    whole: str
    md: MemoryDesc


class FreeParts:
    """Of the tensors of a graph, those that may be written into what a concat makes of them."""

    def __init__(self, graph: Graph) -> None:
        self._graph, self._readers = graph, graph.readers()
        self._makers = {name: node for node in graph for name in node.outputs}

    def is_free(self, concat: Node) -> bool:
        """True where a step makes each part, and the concat reads it once, and nobody else does."""
        return all(self._is_free(concat, name) for name in concat.inputs)

    def _is_free(self, concat: Node, name: str) -> bool:
        maker = self._makers.get(name)
        is_made = maker is not None and isinstance(maker.operation, _WRITERS) and len(maker.outputs) == 1
        is_read_once = len(self._readers[name]) == 1 and concat.inputs.count(name) == 1
        return is_made and is_read_once and name not in self._graph.outputs


def part_windows(graph: Graph, concat: Node, whole: MemoryDesc) -> dict[str, ConcatPart]:
    """The windows of all parts; none where a descriptor cannot say one of them."""
    if whole.padded_dims != whole.dims or not whole.nelems:
        return {}
    try:
        return {name: ConcatPart(concat.output, md) for name, md in _submemories(graph, concat, whole)}
    except Error:
        return {}


def _submemories(graph: Graph, concat: Node, whole: MemoryDesc) -> Iterator[tuple[str, MemoryDesc]]:
    assert isinstance(concat.operation, ConcatOperation)
    axis, start = concat.operation.axis, 0
    for name in concat.inputs:
        dims = graph.tensors[name].dims
        yield name, whole.submemory_desc(dims, tuple(start if d == axis else 0 for d in range(len(dims))))
        start += dims[axis]
