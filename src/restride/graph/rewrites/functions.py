"""Elementwise functions that are written as several nodes become one.

x * 2, x + 1, x - 1, x / 2, max(x, 0)       ->  linear(x), relu(x)
linear(linear(x))                           ->  linear(x); removed if it is the identity
a * clip(linear(x), l, h) + b, 0 to 1       ->  hardsigmoid(x)
x * hardsigmoid(x)                          ->  hardswish(x)
x * clip(linear(x), 0, h)                   ->  linear(hardswish(x))
x * logistic(x), x * tanh(soft_relu(x))     ->  swish(x), mish(x)
x * (erf(x / sqrt(2)) + 1)                  ->  linear(gelu_erf(x)); without linear after a factor of 0.5
y + z of a sum without scales               ->  add(y, z)
"""

from __future__ import annotations

from dataclasses import replace
from math import isclose, isfinite, sqrt

from ..graph import Node
from ..nodes.operations import (
    BinaryOperation,
    EltwiseOperation,
    PrimitiveOperation,
    SumOperation,
    function_of,
)
from .draft import GraphDraft
from .patterns import Match, Pattern, Rule, binary, function, rewrite

__all__ = ["fuse_functions"]


def fuse_functions(draft: GraphDraft) -> None:
    """Apply the rules in order to every node in order."""
    rewrite(draft, _RULES, draft.is_computed_as_f32, tries_all=True)


def _of_a_number(match: Match) -> Node | None:
    """Return a combination with a constant of one element as a function."""
    draft, value = match.draft, match.draft.scalar(match["number"])
    operation = None if value is None else function_of(match.of().algorithm, value, not match.is_reversed)
    has_type = draft.type(match["x"]) == draft.type(match.node.output)
    return match.becomes(operation, "x") if operation is not None and has_type else None


def _linear(alpha: float, beta: float) -> EltwiseOperation:
    return EltwiseOperation("eltwise_linear", alpha, beta)


def _linear_of_linear(match: Match) -> Node | None:
    outer, inner = match.of(), match.of("inner")
    if outer == _linear(1.0, 0.0):
        return None
    alpha = outer.alpha * inner.alpha
    # Rounding to f32 makes 6 times a sixth nearly 1.
    alpha = 1.0 if isclose(alpha, 1.0, rel_tol=1e-7) else alpha
    return match.becomes(_linear(alpha, outer.alpha * inner.beta + outer.beta), "x")


def _hard_sigmoid(match: Match) -> Node | None:
    """Match `scale * clip(alpha * x + beta, low, high) + shift` with the range 0 to 1."""
    names, none = match.nodes, _linear(1.0, 0.0)
    outer, inner = (match.of(name) if name in names else none for name in ("outer", "inner"))
    clip = match.of("clip")
    ends = (outer.alpha * limit + outer.beta for limit in (clip.alpha, clip.beta))
    if outer.alpha <= 0 or not all(isclose(*pair, abs_tol=1e-6) for pair in zip(ends, (0, 1), strict=True)):
        return None
    alpha, beta = outer.alpha * inner.alpha, outer.alpha * inner.beta + outer.beta
    return match.becomes(EltwiseOperation("eltwise_hardsigmoid", alpha, beta), "x")


def _swish(match: Match) -> Node:
    alpha = match.of("inner").alpha if "inner" in match.nodes else 1.0
    return match.becomes(EltwiseOperation("eltwise_swish", alpha), "x")


def _hard_swish(match: Match) -> Node:
    gate = match.of("hardsigmoid")
    return match.becomes(EltwiseOperation("eltwise_hardswish", gate.alpha, gate.beta), "x")


def _clipped(match: Match) -> bool:
    """Replace `x * clip(alpha * x + beta, 0, high)`, in the clip's place, by `high` times a hard swish."""
    clip, inner, high = match.nodes["clip"], match.of("inner"), match.of("clip").beta
    if not (isfinite(high) and high > 0):
        return False
    clip_place, inner_place = match.places
    swish = EltwiseOperation("eltwise_hardswish", inner.alpha / high, inner.beta / high)
    match.draft.fuse(clip_place, replace(clip, operation=swish, inputs=(match["x"],)), inner_place)
    match.draft.fuse(match.place, match.becomes(_linear(high, 0.0), "clip"))
    return True


def _gelu(match: Match) -> Node | bool | None:
    """Replace `factor * x * (a + a * erf(x / sqrt(2)))`, in erf's place, by `2 * a * factor` times a gelu."""
    gate, inner = match.of("gate"), match.of("inner")
    if not (isclose(gate.alpha, gate.beta, rel_tol=1e-6) and isclose(inner.alpha, sqrt(0.5), rel_tol=1e-6)):
        return None
    factor = 2.0 * gate.alpha * (match.of("outer").alpha if "outer" in match.nodes else 1.0)
    *outer_places, erf_place, inner_place = match.places
    gelu = EltwiseOperation("eltwise_gelu_erf")
    if isclose(factor, 1.0, rel_tol=1e-6):
        return match.becomes(gelu, "x")
    erf = replace(match.nodes["erf"], operation=gelu, inputs=(match["x"],))
    match.draft.fuse(erf_place, erf, inner_place)
    match.draft.fuse(match.place, match.becomes(_linear(factor, 0.0), "erf"), *outer_places)
    return True


_INNER = function("linear", "x", "inner")
_GATE = function(
    "linear",
    Pattern(
        PrimitiveOperation,
        (function("linear", "x", "inner", beta=0.0),),
        {"primitive": "Elementwise", "algorithm": "elementwise_erf"},
        "erf",
    ),
    "gate",
)
_IDLE: Rule = (
    function("linear", "x", alpha=1.0, beta=0.0),
    lambda match: match.draft.drop(match.place),
)
_RULES: tuple[Rule, ...] = (
    (Pattern(BinaryOperation, ("x", "number"), is_symmetric=True), _of_a_number),
    _IDLE,
    (function("linear", _INNER), _linear_of_linear),
    _IDLE,
    (function("linear", function("clip", _INNER), "outer"), _hard_sigmoid),
    (function("linear", function("clip", "x"), "outer"), _hard_sigmoid),
    (function("clip", _INNER), _hard_sigmoid),
    (function("clip", "x"), _hard_sigmoid),
    (binary("mul", "x", function("logistic", "x")), _swish),
    (binary("mul", "x", function("logistic", function("linear", "x", "inner", beta=0.0))), _swish),
    (binary("mul", "x", function("hardsigmoid", "x")), _hard_swish),
    (
        binary("mul", "x", function("tanh", function("soft_relu", "x", alpha=lambda a: a in (0.0, 1.0)))),
        lambda match: match.becomes(EltwiseOperation("eltwise_mish"), "x"),
    ),
    (binary("mul", "x", function("clip", _INNER, alpha=0.0)), _clipped),
    (binary("mul", "x", _GATE), _gelu),
    (binary("mul", function("linear", "x", "outer", beta=0.0), _GATE), _gelu),
    (
        Pattern(SumOperation, where={"scales": (1.0, 1.0)}),
        lambda match: match.becomes(BinaryOperation("binary_add")),
    ),
)
