"""Functions of elements that are written as several nodes become one.

x * 2, x + 1, x - 1, x / 2, max(x, 0)       ->  linear(x), relu(x)
linear(linear(x))                           ->  linear(x); nothing where it changes nothing
a * clip(linear(x), l, h) + b, 0 to 1       ->  hardsigmoid(x)
x * hardsigmoid(x)                          ->  hardswish(x)
x * clip(linear(x), 0, h)                   ->  linear(hardswish(x))
x * logistic(x), x * tanh(soft_relu(x))     ->  swish(x), mish(x)
y + z of a sum without scales               ->  add(y, z)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isclose, isfinite

from ..graph import Node
from ..nodes.operations import BinaryOperation, EltwiseOperation, SumOperation, function_of
from .draft import GraphDraft

__all__ = ["fuse_functions"]

_Place = tuple[int, Node]


def fuse_functions(draft: GraphDraft) -> None:
    """Every node in turn, by the rules in turn."""
    for place, _ in draft:
        for rule in _RULES:
            node = draft.at(place)
            if node is not None and not node.epilogues and draft.is_computed_as_f32(node):
                rule(draft, place, node)


def _function(draft: GraphDraft, name: str, algorithm: str) -> _Place | None:
    """The private maker of a tensor, where it is this function."""
    made = draft.private_maker(name)
    return made if made is not None and _is_function(made[1], algorithm) else None


def _is_function(node: Node, algorithm: str) -> bool:
    operation = node.operation
    return isinstance(operation, EltwiseOperation) and operation.algorithm == algorithm and not node.epilogues


def _numbers(node: Node) -> tuple[float, float]:
    assert isinstance(node.operation, EltwiseOperation)
    return node.operation.alpha, node.operation.beta


# --- one operand is a constant ------------------------------------------------------------------------------


def _with_a_scalar(draft: GraphDraft, place: int, node: Node) -> bool:
    operation = node.operation
    if not isinstance(operation, BinaryOperation) or len(node.sources) != 2:
        return False
    for source, other, is_left in (
        (*node.sources, True),
        (*node.sources[::-1], False),
    ):
        value = draft.scalar(other)
        function = None if value is None else function_of(operation.algorithm, value, is_left)
        if function is not None and draft.type(source) == draft.type(node.output):
            draft.fuse(place, replace(node, operation=function, inputs=(source,)))
            return True
    return False


def _linear(alpha: float, beta: float) -> EltwiseOperation:
    return EltwiseOperation("eltwise_linear", alpha, beta)


# --- chains -------------------------------------------------------------------------------------------------


def _linear_of_linear(draft: GraphDraft, place: int, node: Node) -> bool:
    if not _is_function(node, "eltwise_linear"):
        return False
    alpha, beta = _numbers(node)
    if (alpha, beta) == (1.0, 0.0):
        return draft.drop(place)
    before = _function(draft, node.sources[0], "eltwise_linear")
    if before is None:
        return False
    inner_alpha, inner_beta = _numbers(before[1])
    joint = _linear(_near_one(alpha * inner_alpha), alpha * inner_beta + beta)
    fused = replace(node, operation=joint, inputs=before[1].sources)
    draft.fuse(place, fused, before[0])
    _linear_of_linear(draft, place, fused)
    return True


def _near_one(value: float) -> float:
    """1 for what rounding of f32 constants has made of it, such as 6 times a sixth."""
    return 1.0 if isclose(value, 1.0, rel_tol=1e-7) else value


def _hard_sigmoid(draft: GraphDraft, place: int, node: Node) -> bool:
    """`scale * clip(alpha * x + beta, low, high) + shift` that goes from 0 to 1."""
    outer = _numbers(node) if _is_function(node, "eltwise_linear") else (1.0, 0.0)
    clip = _function(draft, node.sources[0], "eltwise_clip") if _is_function(node, "eltwise_linear") else None
    taken = [] if clip is None else [clip[0]]
    found = clip[1] if clip is not None else node
    if not _is_function(found, "eltwise_clip"):
        return False
    low, high = _numbers(found)
    scale, shift = outer
    if scale <= 0 or not (_close(scale * low + shift, 0) and _close(scale * high + shift, 1)):
        return False
    inner = _function(draft, found.sources[0], "eltwise_linear")
    alpha, beta = _numbers(inner[1]) if inner is not None else (1.0, 0.0)
    source = inner[1].sources[0] if inner is not None else found.sources[0]
    taken += [inner[0]] if inner is not None else []
    made = EltwiseOperation("eltwise_hardsigmoid", scale * alpha, scale * beta + shift)
    draft.fuse(place, replace(node, operation=made, inputs=(source,)), *taken)
    return True


def _close(value: float, wanted: float) -> bool:
    return isclose(value, wanted, abs_tol=1e-6)


# --- a tensor times a function of it ------------------------------------------------------------------------


def _gated(draft: GraphDraft, place: int, node: Node) -> bool:
    """`x * f(x)`: swish, hard swish, mish."""
    if node.operation != BinaryOperation("binary_mul"):
        return False
    for x, gate in (node.sources, node.sources[::-1]):
        made = draft.private_maker(gate)
        if made is None or not isinstance(made[1].operation, EltwiseOperation) or made[1].epilogues:
            continue
        for form in (_swish, _hard_swish, _mish):
            found = form(draft, x, made)
            if found is not None:
                draft.fuse(place, replace(node, operation=found[0], inputs=(x,)), *found[1])
                return True
        if _clipped(draft, place, node, x, made):
            return True
    return False


_Gated = tuple[EltwiseOperation, tuple[int, ...]] | None


def _swish(draft: GraphDraft, x: str, gate: _Place) -> _Gated:
    if not _is_function(gate[1], "eltwise_logistic"):
        return None
    if gate[1].sources[0] == x:
        return EltwiseOperation("eltwise_swish", 1.0), (gate[0],)
    inner = _function(draft, gate[1].sources[0], "eltwise_linear")
    if inner is None or inner[1].sources[0] != x or _numbers(inner[1])[1] != 0:
        return None
    return EltwiseOperation("eltwise_swish", _numbers(inner[1])[0]), (gate[0], inner[0])


def _hard_swish(draft: GraphDraft, x: str, gate: _Place) -> _Gated:
    if not _is_function(gate[1], "eltwise_hardsigmoid") or gate[1].sources[0] != x:
        return None
    return EltwiseOperation("eltwise_hardswish", *_numbers(gate[1])), (gate[0],)


def _clipped(draft: GraphDraft, place: int, node: Node, x: str, gate: _Place) -> bool:
    """`x * clip(alpha * x + beta, 0, high)` is `high` times a hard swish, which stands where the clip did."""
    if not _is_function(gate[1], "eltwise_clip") or _numbers(gate[1])[0] != 0:
        return False
    high = _numbers(gate[1])[1]
    inner = _function(draft, gate[1].sources[0], "eltwise_linear")
    if inner is None or inner[1].sources[0] != x or not (isfinite(high) and high > 0):
        return False
    alpha, beta = _numbers(inner[1])
    function = EltwiseOperation("eltwise_hardswish", alpha / high, beta / high)
    draft.fuse(gate[0], replace(gate[1], operation=function, inputs=(x,)), inner[0])
    draft.fuse(place, replace(node, operation=_linear(high, 0.0), inputs=gate[1].outputs))
    return True


def _mish(draft: GraphDraft, x: str, gate: _Place) -> _Gated:
    if not _is_function(gate[1], "eltwise_tanh"):
        return None
    inner = _function(draft, gate[1].sources[0], "eltwise_soft_relu")
    if inner is None or inner[1].sources[0] != x or _numbers(inner[1])[0] not in (0.0, 1.0):
        return None
    return EltwiseOperation("eltwise_mish"), (gate[0], inner[0])


# --- sums ---------------------------------------------------------------------------------------------------


def _sum_of_two(draft: GraphDraft, place: int, node: Node) -> bool:
    operation = node.operation
    if not isinstance(operation, SumOperation) or operation.scales != (1.0, 1.0):
        return False
    draft.fuse(place, replace(node, operation=BinaryOperation("binary_add")))
    return True


_RULES: tuple[Callable[[GraphDraft, int, Node], bool], ...] = (
    _with_a_scalar,
    _linear_of_linear,
    _hard_sigmoid,
    _gated,
    _sum_of_two,
)
