"""The eltwise functions, each written once, over any arithmetic (N1).

Functions of a few operations are computed in the type of the value, f32 or f64, and each operation rounds.
The others are written here in f64. For f32, most have a separate form in `ir/eltwise_singles.py`; the rest
are computed in f64 and rounded once.

NaN gives NaN, except that s ** 0 is 1. Infinities give the limit of the function: where an infinite s is
multiplied by 0, as in gelu of -inf or relu of slope 0, the result is a zero.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from ..frozen import dataclass
from . import eltwise_powers as powers
from . import eltwise_singles as singles
from .arithmetic import Term, V, polynomial
from .eltwise_singles import limited, weigh


def doubles(text: str) -> tuple[float, ...]:
    """Parse numbers."""
    return tuple(map(float.fromhex, text.split()))


# Polynomials, lowest power first: minimax by Remez exchange in 250 bits, coefficients then rounded to f64.
# (e**r - 1 - r) / r**2 for |r| <= ln(2) / 2; e**r - 1 to 2**-54.6 of itself.
_EXP = doubles("""
    0x1p-1                0x1.5555555555557p-3  0x1.5555555554287p-5  0x1.111111110f7bfp-7
    0x1.6c16c177c7a30p-10 0x1.a01a01b1aecd4p-13 0x1.a019ba320b4bfp-16 0x1.71ddefe7cc514p-19
    0x1.2891300dd8200p-22 0x1.af73586794b46p-26
""")
# (ln(1 + f) / s - 2) / s**2 by powers of s**2, s = f / (2 + f), for 1 + f from sqrt(1/2) to sqrt(2);
# ln(1 + f) to 2**-59.5 of itself.
_LOG = doubles("""
    0x1.5555555555592p-1  0x1.999999997fef2p-2  0x1.24924941e4de3p-2  0x1.c71c521098a01p-3
    0x1.74663dd5bd069p-3  0x1.39a1ce21d660bp-3  0x1.2f04e4047c01ap-3
""")
# erfc(a / sqrt(2)) / 2 * e**(a**2 / 2) / v by powers of a * v - 1, v = 2 / (a + 5), 0 <= a <= 39; to 2**-54.
_TAIL = doubles("""
       0x1.89d3abe1f95aep-2   -0x1.54ad03f27ca16p-2    0x1.fb31653876f9ap-3   -0x1.410ed5f875b44p-3
       0x1.51f6329f0153bp-4   -0x1.1b1c254c93dfep-5    0x1.54b4d4f4cf96ep-7  -0x1.88590eb66494ep-10
     -0x1.a25037e2ddf43p-12   0x1.1daf1eb729503p-12  -0x1.f2145e868d7acp-16  -0x1.a171404115653p-16
      0x1.17dcf905d5b0bp-17   0x1.0b3180f7fcacap-19  -0x1.73a8088cf28fdp-20  -0x1.6aa6474282ddbp-23
      0x1.d09828a169d91p-23   0x1.76a208ec0e6efp-26  -0x1.188c8af763359p-25  -0x1.5edc21a9789d8p-28
      0x1.ed8da62ed0bc7p-29   0x1.14cf788fb9597p-30
""")

# ln(2) in two parts: the first has 42 bits, so that its product with an exponent is exact.
_LN2, _LN2_HIGH, _LN2_LOW = doubles("0x1.62e42fefa39efp-1 0x1.62e42fefa38p-1 0x1.ef35793c7673p-45")
# 1 / ln(2); sqrt(2) - 1; 2 * sqrt(2 / pi), and 0.044715 times that.
_LOG2_E, _ROOT_2_LESS_1 = doubles("0x1.71547652b82fep+0 0x1.a827999fcef32p-2")
GELU_LINEAR, GELU_CUBIC = 1.5957691216057308, 0.07135481627260025

# Fields of an f64, as integers.
_SIGN, _SIZE, _HEAD = 1 << 63, (1 << 63) - 1, (1 << 64) - (1 << 27)
_ONE, _ROOT_HALF = 0x3FF0000000000000, 0x3FE6A09E667F3BCD
# 1.5 * 2**52: adding it rounds to an integer, which then is in the lowest bits.
_ROUNDER, _ROUNDER_BITS = 6755399441055744.0, 0x4338000000000000
# 2**52: its lowest bits hold an integer below it.
_HOLDER, _HOLDER_BITS = 4503599627370496.0, 0x4330000000000000


@dataclass(frozen=True, slots=True)
class EltwiseFunction:
    """A function of s, of s and alpha, or of s, alpha and beta; computed in the type of s or in f64.

    `single` computes it for f32; `single_in_double`: with some operations in f64.
    """

    function: Callable[..., Term[Any]]
    operands: int = 1
    in_double: bool = False
    single: Callable[..., Term[Any]] | None = None
    single_in_double: bool = False

    @property
    def needs_double(self) -> bool:
        """True if f32 cannot be computed without f64."""
        return self.is_all_double or self.single_in_double

    @property
    def is_all_double(self) -> bool:
        """True if f32 is computed in f64."""
        return self.in_double and self.single is None


# --- in the type of the value -------------------------------------------------------------------------------


def _relu(s: Term[V], alpha: Term[V]) -> Term[V]:
    return (s > 0.0).where(s, weigh(s, alpha))


def _linear(s: Term[V], alpha: Term[V], beta: Term[V]) -> Term[V]:
    return alpha * s + beta


def _abs(s: Term[V]) -> Term[V]:
    return (s < 0.0).where(0.0 - s, s + 0.0)  # -0.0 + 0.0 is 0.0


def _nan_to_zero(s: Term[V]) -> Term[V]:
    return s.equals(s).where(s, 0.0)


def _sqrt(s: Term[V]) -> Term[V]:
    return s.sqrt()


def _square(s: Term[V]) -> Term[V]:
    return s * s


def _round(s: Term[V]) -> Term[V]:
    return s.round()


def hardsigmoid(s: Term[V], alpha: Term[V], beta: Term[V]) -> Term[V]:
    """Return alpha * s + beta, clamped to 0 to 1."""
    return limited(alpha * s + beta, 0.0, 1.0)


def _hardswish(s: Term[V], alpha: Term[V], beta: Term[V]) -> Term[V]:
    return weigh(s, hardsigmoid(s, alpha, beta))


# --- exponential, in f64 ------------------------------------------------------------------------------------


def exp(x: Term[V], rest: Term[V] | None = None) -> Term[V]:
    """Return e ** (x + rest), for a rest of about the size of x's last place."""
    m, k = _reduce(limited(x, -746.0, 710.0), rest)
    # Use two powers of 2: neither overflows or is subnormal, so that only the last product rounds.
    twice = k - (_ROUNDER_BITS - 2 * 1023)
    half = twice >> 1
    return (m + 1.0) * _power(half) * _power(twice - half)


def expm1(x: Term[V]) -> Term[V]:
    """Return e**x - 1 for x <= 0, accurate for small x too."""
    m, k = _reduce((x < -45.0).where(-45.0, x))
    scale = _power(k - (_ROUNDER_BITS - 1023))
    return m * scale - (1.0 - scale)


def _reduce(x: Term[V], rest: Term[V] | None = None) -> tuple[Term[V], Term[V]]:
    """m and k with e**(x + rest) = (1 + m) * 2**k, |m| < 0.42; k as the integer _ROUNDER_BITS + k."""
    shifted = x * _LOG2_E + _ROUNDER
    k = shifted - _ROUNDER
    low = k * _LN2_LOW if rest is None else k * _LN2_LOW - rest
    r = (x - k * _LN2_HIGH) - low
    return r + r * r * polynomial(_EXP, r), shifted.bits()


def _power(biased: Term[V]) -> Term[V]:
    """2 ** (biased - 1023)."""
    return (biased << 52).real()


def size_of(x: Term[V]) -> Term[V]:
    """Return the absolute value."""
    return (x.bits() & _SIZE).real()


def _elu(s: Term[V], alpha: Term[V]) -> Term[V]:
    return (s < 0.0).where(alpha * expm1(s), s)


def _tanh(s: Term[V]) -> Term[V]:
    """-m / (2 + m) for m = e**(-2 * |s|) - 1, with the sign of s."""
    m = expm1(size_of(s) * -2.0)
    return (((0.0 - m) / (m + 2.0)).bits() | (s.bits() & _SIGN)).real()


def logistic(s: Term[V]) -> Term[V]:
    """1 / (1 + e) or e / (1 + e) for e = e**-|s|: nothing overflows or cancels."""
    e = exp((s.bits() | _SIGN).real())
    return (s < 0.0).where(e, 1.0) / (e + 1.0)


def _swish(s: Term[V], alpha: Term[V]) -> Term[V]:
    return weigh(s, logistic(alpha * s))


def _gelu_tanh(s: Term[V]) -> Term[V]:
    """(1 + tanh(v)) / 2 is the logistic of 2 * v, which does not cancel."""
    return weigh(s, logistic(s * (s * s * GELU_CUBIC + GELU_LINEAR)))


def _gelu_erf(s: Term[V]) -> Term[V]:
    return weigh(s, normal_distribution(s)[0])


def normal_distribution(s: Term[V]) -> tuple[Term[V], Term[V]]:
    """Return the normal distribution at s (the upper tail at |s| if s < 0, else 1 - it), e**(-s**2 / 2)."""
    size = size_of(s)
    a = (size > 39.0).where(39.0, size)
    head = _head(a)
    # a**2 in two parts, the first exact: e**x turns the absolute error of x into a relative one.
    bell = exp(head * head * -0.5, (a - head) * (a + head) * -0.5)
    v = 2.0 / (a + 5.0)
    tail = bell * (v * polynomial(_TAIL, a * v - 1.0))
    return (s < 0.0).where(tail, 1.0 - tail), bell


def _mish(s: Term[V]) -> Term[V]:
    """tanh(ln(1 + e)) is n / (n + 2) for n = e * (e + 2), e = e**s; it is 1 long before e**40."""
    e = exp((s > 40.0).where(40.0, s))
    n = e * (e + 2.0)
    return weigh(s, n / (n + 2.0))


# --- logarithm, in f64 --------------------------------------------------------------------------------------


def log(x: Term[V]) -> Term[V]:
    """The natural logarithm."""
    k, f = _split(x)
    log = k * _LN2_HIGH - ((_log_rest(f) - k * _LN2_LOW) - f)
    return (x < 0.0).where(math.nan, _at_ends(x, log))


def _split(x: Term[V]) -> tuple[Term[V], Term[V]]:
    """k and f with x = 2**k * (1 + f), 1 + f from sqrt(1/2) to sqrt(2), for finite x > 0."""
    is_small = x < sys.float_info.min
    bits = is_small.where(x * 2.0**54, x).bits() + _ONE
    biased = (bits - _ROOT_HALF) >> 52
    k = (biased | _HOLDER_BITS).real() - is_small.where(_HOLDER + 1023 + 54, x.number(_HOLDER + 1023))
    return k, (bits - (biased << 52)).real() - 1.0


def _log_rest(f: Term[V]) -> Term[V]:
    """f - ln(1 + f)."""
    s = f / (f + 2.0)
    z = s * s
    return s * (f - z * polynomial(_LOG, z))


def _at_ends(x: Term[V], log: Term[V]) -> Term[V]:
    """The logarithm of 0, infinity and NaN, else `log`."""
    return (x < math.inf).where(x.equals(0.0).where(-math.inf, log), x)


def _soft_relu(s: Term[V], alpha: Term[V]) -> Term[V]:
    """ln(1 + e**y) is max(y, 0) + ln(1 + e**-|y|), for y = alpha * s."""
    y = alpha * s
    u = exp((y.bits() | _SIGN).real())
    is_large = u > _ROOT_2_LESS_1
    f = is_large.where(u * 0.5 - 0.5, u)
    log = is_large.where(_LN2, u.number(0.0)) + (f - _log_rest(f))
    return ((y < 0.0).where(0.0, y) + log) / alpha


def power_of(s: Term[V], alpha: Term[V], beta: Term[V]) -> Term[V]:
    """Return alpha * s**beta; the special cases are those of C."""
    size, is_whole, half = size_of(s), beta.round().equals(beta), beta * 0.5
    power = exp(*_product(beta, *_log_pair(size)))
    power = (size.equals(1.0) | beta.equals(0.0)).where(1.0, power)
    sign = is_whole.where(half.round().equals(half).where(0, s.bits() & _SIGN), s.bits().number(0))
    signed = (power.bits() | sign).real()
    is_bad = (s < 0.0) & (s > -math.inf)
    return alpha * is_whole.where(signed, is_bad.where(math.nan, signed))


def _log_pair(x: Term[V]) -> tuple[Term[V], Term[V]]:
    """Return ln(x) as a sum of two, to about 60 bits; the second is meaningless for a nonfinite first."""
    k, f = _split(x)
    t = f + 2.0
    v = 1.0 / t
    s = f * v
    s_head, t_head = _head(s), _head(t)
    t_rest = (t - t_head) + (f - (t - 2.0))
    s_rest = ((f - s_head * t_head) - s_head * t_rest - (s - s_head) * t) * v
    z = s * s
    series = z * polynomial(_LOG, z) * s + s_rest * (z * 2.0 + 2.0)
    high, low = k * _LN2_HIGH, series + k * _LN2_LOW
    first, rest = _sum(high, s * 2.0)
    first, rest = _sum(first, rest + low)
    return _at_ends(x, first), rest


def _product(x: Term[V], first: Term[V], rest: Term[V]) -> tuple[Term[V], Term[V]]:
    """Return x * (first + rest) as a sum of two; the second is 0 where exp() has left its range."""
    product, x_head, first_head = x * first, _head(x), _head(first)
    x_low, first_low = x - x_head, first - first_head
    low = ((x_head * first_head - product) + x_head * first_low + x_low * first_head) + x_low * first_low
    return product, (size_of(product) < 1000.0).where(low + x * rest, product.number(0.0))


def _sum(a: Term[V], b: Term[V]) -> tuple[Term[V], Term[V]]:
    """Return a + b, rounded, and the rounding error, for |a| >= |b| or a = 0."""
    total = a + b
    return total, b - (total - a)


def _head(x: Term[V]) -> Term[V]:
    """Return the upper 26 bits of x: products of two such numbers are exact."""
    return (x.bits() & _HEAD).real()


FUNCTIONS = {
    "relu": EltwiseFunction(_relu, 2),
    "linear": EltwiseFunction(_linear, 3),
    "clip": EltwiseFunction(limited, 3),
    "clip_v2": EltwiseFunction(limited, 3),
    "abs": EltwiseFunction(_abs),
    "nan_to_zero": EltwiseFunction(_nan_to_zero),
    "sqrt": EltwiseFunction(_sqrt),
    "square": EltwiseFunction(_square),
    "round": EltwiseFunction(_round),
    "hardsigmoid": EltwiseFunction(hardsigmoid, 3),
    "hardswish": EltwiseFunction(_hardswish, 3),
    "exp": EltwiseFunction(exp, in_double=True, single=singles.exp),
    "elu": EltwiseFunction(_elu, 2, in_double=True, single=singles.elu),
    "tanh": EltwiseFunction(_tanh, in_double=True, single=singles.tanh),
    "logistic": EltwiseFunction(logistic, in_double=True, single=singles.logistic),
    "swish": EltwiseFunction(_swish, 2, in_double=True, single=singles.swish),
    "gelu_tanh": EltwiseFunction(_gelu_tanh, in_double=True, single=singles.gelu_tanh, single_in_double=True),
    "gelu_erf": EltwiseFunction(_gelu_erf, in_double=True, single=singles.gelu_erf),
    "mish": EltwiseFunction(_mish, in_double=True, single=singles.mish),
    "log": EltwiseFunction(log, in_double=True, single=singles.log),
    "soft_relu": EltwiseFunction(_soft_relu, 2, in_double=True, single=singles.soft_relu),
    "pow": EltwiseFunction(power_of, 3, in_double=True, single=powers.power_of_single, single_in_double=True),
}
"""The functions by oneDNN's names, without `eltwise_`."""

POWERS = {
    "pow_reciprocal": EltwiseFunction(powers.reciprocal, 2),
    "pow_constant": EltwiseFunction(powers.constant, 2),
    "pow_root": EltwiseFunction(powers.root, 2),
    "pow_product": EltwiseFunction(powers.product, 2),
    "pow_square": EltwiseFunction(powers.square, 2, in_double=True),
    "pow_cube": EltwiseFunction(powers.cube, 2, in_double=True),
    "silu": EltwiseFunction(_swish, 2, in_double=True, single=singles.silu),
}
"""The forms of pow for exponents in `FIXED_POWERS`, and of swish for an alpha of 1."""
