"""Derivatives of the eltwise functions, from a source or from a result: the factors of gradients.

They are written like the functions in `ir/eltwise_formulas.py`: short ones in the type of the value, the rest
in f64; for f32, those that do not cancel use `ir/eltwise_singles.py`. Derivatives from a result, with `_dst`
in their names, exist for functions whose result determines the derivative.
"""

from __future__ import annotations

import math

from . import eltwise_powers as powers
from . import eltwise_singles as singles
from .arithmetic import Term, V
from .eltwise_formulas import (
    GELU_CUBIC,
    GELU_LINEAR,
    EltwiseFunction,
    exp,
    hardsigmoid,
    logistic,
    normal_distribution,
    power_of,
    size_of,
)
from .eltwise_singles import weigh

_BELL_HEIGHT = 1 / math.sqrt(2 * math.pi)


def _relu(s: Term[V], alpha: Term[V]) -> Term[V]:
    return (s > 0.0).where(1.0, alpha)


def _linear(s: Term[V], alpha: Term[V]) -> Term[V]:
    """Return 1 for each element, also for infinite ones."""
    return (s > 0.0).where(alpha, alpha)


def _clip(s: Term[V], low: Term[V], high: Term[V]) -> Term[V]:
    return (s > low).where((s > high).where(s.number(0.0), s.number(1.0)), s.number(0.0))


def _clip_v2(s: Term[V], low: Term[V], high: Term[V]) -> Term[V]:
    return ((s > low) & (s < high)).where(s.number(1.0), 0.0)


def _abs(s: Term[V]) -> Term[V]:
    return (s > 0.0).where(s.number(1.0), (s < 0.0).where(s.number(-1.0), 0.0))


def _sqrt(s: Term[V]) -> Term[V]:
    return 0.5 / s.sqrt()


def _sqrt_dst(d: Term[V]) -> Term[V]:
    return 0.5 / d


def _square(s: Term[V]) -> Term[V]:
    return s + s


def _hardsigmoid(s: Term[V], alpha: Term[V], beta: Term[V]) -> Term[V]:
    v = alpha * s + beta
    return ((v > 0.0) & (v < 1.0)).where(alpha, 0.0)


def _hardswish(s: Term[V], alpha: Term[V], beta: Term[V]) -> Term[V]:
    v = alpha * s + beta
    return ((v > 0.0) & (v < 1.0)).where(v + alpha * s, hardsigmoid(s, alpha, beta))


def _exp_dst(d: Term[V]) -> Term[V]:
    return d


def _elu(s: Term[V], alpha: Term[V]) -> Term[V]:
    return (s > 0.0).where(1.0, alpha * exp((s > 0.0).where(0.0, s)))


def _elu_dst(d: Term[V], alpha: Term[V]) -> Term[V]:
    return (d > 0.0).where(1.0, d + alpha)


def _tanh(s: Term[V]) -> Term[V]:
    """4 e / (1 + e)**2 for e = e**(-2 |s|), which does not cancel."""
    e = exp(size_of(s) * -2.0)
    root = e + 1.0
    return e * 4.0 / (root * root)


def _tanh_dst(d: Term[V]) -> Term[V]:
    return (1.0 - d) * (d + 1.0)


def _logistic(s: Term[V]) -> Term[V]:
    """e / (1 + e)**2 for e = e**-|s|, which does not cancel."""
    e = exp(0.0 - size_of(s))
    root = e + 1.0
    return e / (root * root)


def _logistic_dst(d: Term[V]) -> Term[V]:
    return d * (1.0 - d)


def _swish(s: Term[V], alpha: Term[V]) -> Term[V]:
    y = alpha * s
    weight = logistic(y)
    return weight + weigh(y, weight * logistic(0.0 - y))


def _gelu_tanh(s: Term[V]) -> Term[V]:
    """s w, w the logistic of v: w + s w (1 - w) v'."""
    square = s * s
    v = s * (square * GELU_CUBIC + GELU_LINEAR)
    weight = logistic(v)
    slope = square * (3.0 * GELU_CUBIC) + GELU_LINEAR
    both = weight * logistic(0.0 - v)
    return weight + weigh(s * slope, both)


def _gelu_erf(s: Term[V]) -> Term[V]:
    distribution, bell = normal_distribution(s)
    return distribution + weigh(s, bell * _BELL_HEIGHT)


def _mish(s: Term[V]) -> Term[V]:
    """With e = e**s and n = e (e + 2): n / (n + 2) + 4 s e (e + 1) / (n + 2)**2; it is 1 from 40 on."""
    is_large = s > 40.0
    x = is_large.where(40.0, s)
    e = exp(x)
    n = e * (e + 2.0)
    m = n + 2.0
    return is_large.where(1.0, n / m + weigh(x, e * (e + 1.0) * 4.0 / (m * m)))


def _log(s: Term[V]) -> Term[V]:
    return 1.0 / s


def _soft_relu(s: Term[V], alpha: Term[V]) -> Term[V]:
    return logistic(alpha * s)


def _pow(s: Term[V], alpha: Term[V], beta: Term[V]) -> Term[V]:
    return beta.equals(0.0).where(0.0, power_of(s, alpha * beta, beta - 1.0))


GRADIENTS = {
    "relu_gradient": EltwiseFunction(_relu, 2),
    "relu_dst_gradient": EltwiseFunction(_relu, 2),
    "linear_gradient": EltwiseFunction(_linear, 2),
    "clip_gradient": EltwiseFunction(_clip, 3),
    "clip_v2_gradient": EltwiseFunction(_clip_v2, 3),
    "clip_v2_dst_gradient": EltwiseFunction(_clip_v2, 3),
    "abs_gradient": EltwiseFunction(_abs),
    "sqrt_gradient": EltwiseFunction(_sqrt),
    "sqrt_dst_gradient": EltwiseFunction(_sqrt_dst),
    "square_gradient": EltwiseFunction(_square),
    "hardsigmoid_gradient": EltwiseFunction(_hardsigmoid, 3),
    "hardswish_gradient": EltwiseFunction(_hardswish, 3),
    "exp_gradient": EltwiseFunction(exp, in_double=True, single=singles.exp),
    "exp_dst_gradient": EltwiseFunction(_exp_dst),
    "elu_gradient": EltwiseFunction(_elu, 2, in_double=True, single=singles.elu_gradient),
    "elu_dst_gradient": EltwiseFunction(_elu_dst, 2),
    "tanh_gradient": EltwiseFunction(_tanh, in_double=True, single=singles.tanh_gradient),
    "tanh_dst_gradient": EltwiseFunction(_tanh_dst),
    "logistic_gradient": EltwiseFunction(_logistic, in_double=True, single=singles.logistic_gradient),
    "logistic_dst_gradient": EltwiseFunction(_logistic_dst),
    "swish_gradient": EltwiseFunction(_swish, 2, in_double=True, single=singles.swish_gradient),
    "gelu_tanh_gradient": EltwiseFunction(
        _gelu_tanh, in_double=True, single=singles.gelu_tanh_gradient, single_in_double=True
    ),
    "gelu_erf_gradient": EltwiseFunction(_gelu_erf, in_double=True, single=singles.gelu_erf_gradient),
    "mish_gradient": EltwiseFunction(_mish, in_double=True, single=singles.mish_gradient),
    "log_gradient": EltwiseFunction(_log),
    "soft_relu_gradient": EltwiseFunction(_soft_relu, 2, in_double=True, single=singles.soft_relu_gradient),
    "pow_gradient": EltwiseFunction(
        _pow, 3, in_double=True, single=powers.gradient_of_single, single_in_double=True
    ),
}
"""The derivatives by the names of their functions; those with `dst` are computed from the result."""
