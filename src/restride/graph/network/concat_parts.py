"""Concats that need not run: what makes a part writes it into its place in the whole.

Each part is to be made by one step, for the concat alone, and to lie in the whole as a window that a
descriptor can say: a range of channels of a tensor whose blocks it does not cut. Otherwise the concat copies.
"""

from __future__ import annotations

from ..formats.node_formats import is_same_memory
from ..formats.propagation import Propagation
from ..graph import Graph
from ..nodes.moves import ConcatOperation
from .concat_windows import ConcatPart, FreeParts, part_windows

__all__ = ["concat_parts"]


def concat_parts(graph: Graph, formats: Propagation) -> dict[str, ConcatPart]:
    """The tensors that are written into the result of a concat, by name."""
    free, found = FreeParts(graph), dict[str, ConcatPart]()
    for node, way in zip(graph, formats.steps, strict=True):
        if not isinstance(node.operation, ConcatOperation) or node.epilogues:
            continue
        pairs = zip(node.inputs, way.inputs, strict=True)
        comes_alike = all(is_same_memory(formats.formats[name], md) for name, md in pairs)
        if comes_alike and free.is_free(node):
            found |= part_windows(graph, node, formats.formats[node.output])
    return found
