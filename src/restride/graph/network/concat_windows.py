"""Parts of concats as windows of the result: which ones can be written in place, and their location."""

from __future__ import annotations

from ...desc.memory_desc import MemoryDesc
from ...errors import Error
from ..graph import Graph, Node
from ..nodes.layers import PoolingOperation
from ..nodes.moves import ConcatOperation
from ..nodes.operations import BinaryOperation
from ..nodes.products import ConvolutionOperation

__all__ = ["free_concats", "part_windows"]

# Operations that write strided results as fast as dense ones.
_WRITERS = (BinaryOperation, ConvolutionOperation, PoolingOperation)


def free_concats(graph: Graph) -> frozenset[str]:
    """Return the results of concats all of whose parts are made by steps and read only by the concat."""
    readers = graph.readers()
    makers = {name: node for node in graph if len(node.outputs) == 1 for name in node.outputs}

    def is_free(concat: Node, name: str) -> bool:
        is_made = name in makers and isinstance(makers[name].operation, _WRITERS)
        is_read_once = len(readers[name]) == 1 and concat.inputs.count(name) == 1
        return is_made and is_read_once and name not in graph.outputs

    concats = (node for node in graph if isinstance(node.operation, ConcatOperation) and not node.epilogues)
    return frozenset(node.output for node in concats if all(is_free(node, name) for name in node.inputs))


def part_windows(graph: Graph, concat: Node, whole: MemoryDesc) -> dict[str, MemoryDesc]:
    """Return the windows of all parts in the whole; empty if a descriptor cannot express one of them."""
    if whole.padded_dims != whole.dims or not whole.nelems:
        return {}
    assert isinstance(concat.operation, ConcatOperation)
    start, windows = [0] * whole.ndims, {}
    try:
        for name in concat.inputs:
            dims = graph.tensors[name].dims
            windows[name] = whole.submemory_desc(dims, tuple(start))
            start[concat.operation.axis] += dims[concat.operation.axis]
    except Error:
        return {}
    return windows
