"""Layer normalizations written as their formula become one node.

    m = mean(x); d = x - m; v = mean(d * d)
    d / sqrt(v + epsilon) * scale + shift       ->  layer_normalization(x, scale, shift)

Means are over the last dim; scale and shift are constants along it, both optional.
"""

from __future__ import annotations

import numpy as np

from ..graph import Node
from ..nodes.layers import LayerNormalizationOperation, ReductionOperation
from ..nodes.operations import AS_F32
from .draft import Array, GraphDraft
from .patterns import Match, Pattern, Rule, binary, function, rewrite

__all__ = ["fuse_layer_norm"]


def fuse_layer_norm(draft: GraphDraft) -> None:
    """Match the formula backwards from the division."""
    rewrite(draft, _RULES, draft.is_computed_as_f32)


def _mean(source: Pattern | str, name: str) -> Pattern:
    return Pattern(ReductionOperation, (source,), {"algorithm": "reduction_mean"}, name)


_DIFFERENCE = binary("sub", "x", _mean("x", "mean"), name="difference", is_shared=True)
# `x * x` in all its forms.
_SQUARES = (
    binary("mul", "difference", "difference", name="square"),
    function("square", "difference"),
    function("pow", "difference", "square", alpha=1.0, beta=2.0),
)


def _layer_norm(match: Match) -> bool:
    """Replace the formula, with the product and the sum after it, by the normalization."""
    draft, difference = match.draft, match["difference"]
    dims = draft.type(match["x"]).dims
    means = {match.of("mean").axes, match.of("variance").axes}
    readers = {name for place in draft.readers(difference) for name in draft.at(place).outputs}  # type: ignore[union-attr]
    is_private = readers == {match["square"], match.node.output} and difference not in draft.graph.outputs
    epsilon, is_whole = match.of("linear").beta, draft.type(match.node.output).dims == dims
    if means != {(len(dims) - 1,)} or not is_private or epsilon < 0 or not is_whole:
        return False
    scale, shift = np.ones(dims[-1], np.float32), np.zeros(dims[-1], np.float32)
    end, places = (match.place, match.node), sorted(match.places)
    for word in ("mul", "add"):
        following = _following(draft, end[1], word)
        if following is not None:
            places.append(end[0])
            place, node, values = following
            end = place, node
            scale, shift = (values, shift) if word == "mul" else (scale, values)
    names = (draft.new_constant(values, match.node.output) for values in (scale, shift))
    fused = Node(match.node.name, LayerNormalizationOperation(epsilon), (match["x"], *names), end[1].outputs)
    draft.fuse(end[0], fused, *places)
    return True


def _following(draft: GraphDraft, node: Node, word: str) -> tuple[int, Node, Array] | None:
    """Return the only reader if it combines the result with a constant along the last dim."""
    readers, extent = draft.readers(node.output), draft.type(node.output).dims[-1]
    if len(readers) != 1 or node.output in draft.graph.outputs:
        return None
    for match in binary(word, "y", "other").matches(draft, readers[0]):
        values = draft.constant(match["other"])
        if match["y"] != node.output or values is None:
            continue
        if draft.type(match["other"]).data_type not in AS_F32 or values.size not in (1, extent):
            return None
        if values.size > 1 and values.shape[-1] != extent:
            return None
        row = np.broadcast_to(values.reshape(-1).astype(np.float32), extent)
        return readers[0], match.node, row
    return None


_RULES: tuple[Rule, ...] = tuple(
    (binary("div", _DIFFERENCE, function("sqrt", function("linear", variance, alpha=1.0))), _layer_norm)
    for variance in (_mean(square, "variance") for square in _SQUARES)
)
