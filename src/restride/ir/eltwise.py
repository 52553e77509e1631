"""All functions of one value by name: oneDNN's, powers with fixed exponents, and the derivatives."""

from __future__ import annotations

from .arithmetic import Arithmetic, Term, V
from .elementary import ELEMENTARY
from .eltwise_formulas import FUNCTIONS, POWERS
from .eltwise_gradients import GRADIENTS

ALGORITHMS = {**FUNCTIONS, **POWERS, **ELEMENTARY, **GRADIENTS}
"""The functions that a step of a chain can apply to a value, with two parameters, alpha and beta."""


def apply(alg: str, ar: Arithmetic[V], value: V, alpha: V, beta: V) -> V:
    """Return oneDNN's eltwise `alg`, without the prefix `eltwise_`, of vectors all of f32 or all of f64."""
    algorithm = ALGORITHMS[alg]
    given = [Term(ar, v) for v in (value, alpha, beta)[: algorithm.operands]]
    function = algorithm.function
    if algorithm.single is not None and not ar.is_wide(value):
        function = algorithm.single
    elif algorithm.in_double:
        result: Term[V] = function(*(term.widen() for term in given))
        return result.narrow(given[0]).value
    result = function(*given)
    return result.value
