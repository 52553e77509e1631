"""Winograd's algorithm for convolutions with constant weights, where it is faster.

Each such node adds an error of about 2e-6 of the largest value of its result, five times that of the direct
sum. The number of such nodes on a path is limited, so that results stay within 1e-4 of those in f64: the
first nodes of a path are chosen.
"""

from __future__ import annotations

from dataclasses import fields, replace

from ...desc.memory_desc import MemoryDesc
from ...ops.convolution import ConvolutionProblem
from ..graph import Node
from ..nodes.products import ConvolutionOperation, WinogradConvolutionOperation
from .draft import GraphDraft

__all__ = ["by_algorithm", "choose_winograd"]

_MOST_IN_A_PATH = 24


def choose_winograd(draft: GraphDraft) -> None:
    """Use Winograd's algorithm for convolutions that it makes faster."""
    depths: dict[str, int] = {}
    for place, node in draft:
        depth = max((depths.get(name, 0) for name in node.inputs), default=0)
        if depth < _MOST_IN_A_PATH and _is_faster(draft, node):
            node = by_algorithm(node, WinogradConvolutionOperation)
            draft.fuse(place, node)
        depth += isinstance(node.operation, WinogradConvolutionOperation)
        depths |= dict.fromkeys(node.outputs, depth)


def by_algorithm(node: Node, kind: type[ConvolutionOperation]) -> Node:
    """Return the node of a convolution with an operation of another class."""
    numbers = (getattr(node.operation, each.name) for each in fields(node.operation))
    return replace(node, operation=kind(*numbers))


def _is_faster(draft: GraphDraft, node: Node) -> bool:
    operation = node.operation
    if type(operation) is not ConvolutionOperation or draft.known(node.sources[1]) is None:
        return False
    spec, names = operation._spec, (*node.sources[:2], node.output)
    types = [draft.type(name) for name in names]
    descs = [MemoryDesc(each.desc_dims, each.data_type, "any") for each in types]
    window = {name: getattr(operation, name) for name in ("strides", "dilates", "padding_l")}
    assert issubclass(spec, ConvolutionProblem)
    problem = spec(tensors=(descs[0], descs[1], descs[2]), bias=MemoryDesc(), block=1, **window)
    return problem.best_tile(may_be_direct=True) > 0
