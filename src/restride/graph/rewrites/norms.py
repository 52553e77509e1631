"""Layer normalizations that are written as their formula become one node.

    m = mean(x); d = x - m; v = mean(d * d)
    d / sqrt(v + epsilon) * scale + shift       ->  layer_normalization(x, scale, shift)

Means are over the last dim, scale and shift are constants along it; both may be missing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..graph import Node
from ..nodes.layers import LayerNormalizationOperation, ReductionOperation
from ..nodes.operations import AS_F32, BinaryOperation, EltwiseOperation
from .draft import Array, GraphDraft

__all__ = ["fuse_layer_norm"]

_Place = tuple[int, Node]


@dataclass(frozen=True)
class _NormFormula:
    """The tensor that is normalized, what is added to its variance, and the nodes of the formula."""

    source: str
    epsilon: float
    places: tuple[int, ...]


def fuse_layer_norm(draft: GraphDraft) -> None:
    """The formula, from the division on."""
    for place, node in draft:
        if _is_binary(node, "binary_div") and draft.is_computed_as_f32(node):
            formula = _formula(draft, node)
            if formula is not None:
                _fuse_formula(draft, place, node, formula)


def _formula(draft: GraphDraft, node: Node) -> _NormFormula | None:
    """What stands above the division: `d / sqrt(mean(square(d)) + epsilon)`."""
    difference, root = node.sources
    chain = []
    name = root
    for algorithm in ("eltwise_sqrt", "eltwise_linear"):
        made = draft.private_maker(name)
        if made is None or not _is_function(made[1], algorithm):
            return None
        chain.append(made)
        name = made[1].sources[0]
    variance = draft.private_maker(name)
    if variance is None or not _is_mean(draft, variance[1]):
        return None
    square = draft.private_maker(variance[1].sources[0])
    if square is None or not _is_square(square[1], difference):
        return None
    centred = draft.maker(difference)
    uses = [square[0]] * len(square[1].sources) if square[1].kind == "binary" else [square[0]]
    others = sorted(draft.readers(difference))
    if centred is None or not _is_binary(centred[1], "binary_sub") or difference in draft.graph.outputs:
        return None
    source, mean = centred[1].sources
    made_mean = draft.private_maker(mean)
    own = next(place for place in draft.readers(root))
    if made_mean is None or not _is_mean(draft, made_mean[1]) or made_mean[1].sources[0] != source:
        return None
    alpha, epsilon = chain[1][1].operation.alpha, chain[1][1].operation.beta  # type: ignore[attr-defined]
    if others != sorted([*uses, own]) or alpha != 1 or epsilon < 0:
        return None
    places = (made_mean[0], centred[0], square[0], variance[0], chain[1][0], chain[0][0])
    return _NormFormula(source, epsilon, places)


def _fuse_formula(draft: GraphDraft, place: int, node: Node, formula: _NormFormula) -> None:
    dims = draft.type(formula.source).dims
    if draft.type(node.output).dims != dims:
        return
    ones, zeros = np.ones(dims[-1], np.float32), np.zeros(dims[-1], np.float32)
    scale, shift, end, taken = ones, zeros, (place, node), list(formula.places)
    for algorithm in ("binary_mul", "binary_add"):
        following = _following(draft, end[1], algorithm)
        if following is None:
            continue
        taken.append(end[0])
        end = following[0]
        scale, shift = (following[1], shift) if algorithm == "binary_mul" else (scale, following[1])
    names = (draft.new_constant(scale, node.output), draft.new_constant(shift, node.output))
    operation = LayerNormalizationOperation(formula.epsilon)
    fused = Node(node.name, operation, (formula.source, *names), end[1].outputs)
    draft.fuse(end[0], fused, *taken)


def _following(draft: GraphDraft, node: Node, algorithm: str) -> tuple[_Place, Array] | None:
    """The one reader, where it combines the result with a constant along the last dim."""
    readers = draft.readers(node.output)
    if len(readers) != 1 or node.output in draft.graph.outputs:
        return None
    reader = draft.at(readers[0])
    if reader is None or not _is_binary(reader, algorithm):
        return None
    other = next((name for name in reader.sources if name != node.output), "")
    values = draft.constant(other)
    extent = draft.type(node.output).dims[-1]
    if values is None or draft.type(other).data_type not in AS_F32 or values.size not in (1, extent):
        return None
    if values.size > 1 and values.shape[-1] != extent:
        return None
    return (readers[0], reader), np.broadcast_to(values.reshape(-1).astype(np.float32), extent)


def _is_binary(node: Node, algorithm: str) -> bool:
    return node.operation == BinaryOperation(algorithm) and len(node.sources) == 2 and not node.epilogues


def _is_function(node: Node, algorithm: str) -> bool:
    operation = node.operation
    return isinstance(operation, EltwiseOperation) and operation.algorithm == algorithm and not node.epilogues


def _is_mean(draft: GraphDraft, node: Node) -> bool:
    operation, dims = node.operation, draft.type(node.sources[0]).dims
    is_mean = isinstance(operation, ReductionOperation) and operation.algorithm == "reduction_mean"
    return is_mean and not node.epilogues and operation.axes == (len(dims) - 1,)  # type: ignore[attr-defined]


def _is_square(node: Node, source: str) -> bool:
    """`x * x`, however it is written."""
    if _is_binary(node, "binary_mul"):
        return node.sources == (source, source)
    if _is_function(node, "eltwise_square"):
        return node.sources == (source,)
    operation = node.operation
    is_power = _is_function(node, "eltwise_pow") and node.sources == (source,)
    return is_power and (operation.alpha, operation.beta) == (1.0, 2.0)  # type: ignore[attr-defined]
