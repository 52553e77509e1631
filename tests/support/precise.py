"""The eltwise functions in 80-bit floats, by formulas of their own: what results are measured against."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Long = npt.NDArray[np.longdouble]
Reals = npt.NDArray[np.floating[npt.NBitBase]]

HAS_80_BITS = np.finfo(np.longdouble).nmant >= 63
_PI = 4 * np.arctan(np.longdouble(1))


def exact(alg: str, s: Reals, alpha: float, beta: float) -> Long:
    """`alg` of every value, rounded to 64 bits, give or take a few of their last places."""
    with np.errstate(all="ignore"):
        return _FUNCTIONS[alg](s.astype(np.longdouble), np.longdouble(alpha), np.longdouble(beta))


def ulps(got: Reals, wanted: Long) -> Long:
    """Return the error of each result in units of the last place of its type."""
    with np.errstate(all="ignore"):
        nearest = wanted.astype(got.dtype)
        off = np.abs(got - wanted) / np.spacing(np.abs(nearest))
        return np.where((got == nearest) & ~np.isfinite(nearest), 0, off)


def _bell(a: Long) -> Long:
    """e**(-a**2 / 2), with a**2 in two parts."""
    head = a.astype(np.float32).astype(np.longdouble)
    return np.exp(-head * head / 2) * np.exp((head - a) * (head + a) / 2)


def _near_tail(a: Long) -> Long:
    """The upper tail of the normal distribution for small a: 1/2 less a power series without cancellation."""
    term, total = a, a
    for n in range(1, 60):
        term = term * a * a / (2 * n + 1)
        total = total + term
    return np.longdouble(0.5) - total * _bell(a) / np.sqrt(2 * _PI)


def _far_tail(a: Long, h: float = 0.4) -> Long:
    """The same for a > 1: the trapezoidal rule on an integral of erfc, and its first correction."""
    z = a / np.sqrt(np.longdouble(2))
    step = np.longdouble(h)
    total = 1 / (z * z)
    for n in range(1, 19):
        total = total + 2 * np.exp(-((n * step) ** 2)) / (z * z + (n * step) ** 2)
    correction = np.where(z < _PI / step, 1 / np.expm1(2 * _PI * z / step), 0)
    return step * z * _bell(a) * total / (2 * _PI) - correction


def _normal(s: Long) -> Long:
    size = np.minimum(np.abs(s), 150)
    tail = np.where(size < 1.5, _near_tail(np.minimum(size, 1.5)), _far_tail(np.maximum(size, 1.5)))
    return np.where(s < 0, tail, 1 - tail)


def _logistic(s: Long) -> Long:
    return np.exp(-np.logaddexp(np.longdouble(0), -s))


def _tanh_gelu(s: Long) -> Long:
    constant = np.longdouble(44715) / 1000000
    return s * _logistic(2 * np.sqrt(2 / _PI) * s * (1 + constant * s * s))


_FUNCTIONS: dict[str, Callable[[Long, np.longdouble, np.longdouble], Long]] = {
    "exp": lambda s, a, b: np.exp(s),
    "log": lambda s, a, b: np.log(s),
    "tanh": lambda s, a, b: np.tanh(s),
    "elu": lambda s, a, b: np.where(s > 0, s, a * np.expm1(s)),
    "logistic": lambda s, a, b: _logistic(s),
    "swish": lambda s, a, b: s * _logistic(a * s),
    "gelu_tanh": lambda s, a, b: _tanh_gelu(s),
    "gelu_erf": lambda s, a, b: s * _normal(s),
    "mish": lambda s, a, b: s * np.tanh(np.log1p(np.exp(s))),
    "soft_relu": lambda s, a, b: np.logaddexp(np.longdouble(0), a * s) / a,
    "pow": lambda s, a, b: a * np.power(s, b),
}
