"""The eltwise functions of many operations, for f32: computed in f32, to a few units in the last place.

The same formulas as in `ir/eltwise_formulas.py`, with shorter polynomials. Where the argument of a power
would amplify its error, the argument is a sum of two. Each operation is rounded, none is fused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .arithmetic import Term, V, horner, polynomial, with_sign


def _singles(text: str) -> tuple[float, ...]:
    return tuple(map(float.fromhex, text.split()))


# Polynomials, lowest power first: minimax, with coefficients rounded to f32 one after another.
# (e**r - 1 - r) / r**2 for |r| <= ln(2) / 2; to 2**-28 of e**r.
_EXP = _singles("0x1p-1 0x1.55549p-3 0x1.5554cap-5 0x1.123ac2p-7 0x1.6d6ef8p-10")
# (2**r - 1) / r for |r| <= 1/2; 2**r to 2**-28.
_EXP2 = _singles("0x1.62e43p-1 0x1.ebfbdcp-3 0x1.c6aee8p-5 0x1.3b2d4cp-7 0x1.5f3e52p-10 0x1.41fbb2p-13")
# (ln(1 + f) / s - 2) / s**2 by powers of s**2, s = f / (2 + f); ln(1 + f) to 2**-30 of itself.
_LOG = _singles("0x1.55557ap-1 0x1.995ed6p-2 0x1.31e08p-2")
# erfc(a / sqrt(2)) / 2 * e**(a**2 / 2) as a quotient, for 0 <= a <= 14.8; to 2**-26.2. No term is negative.
_TAIL_OVER = _singles("0x1p-1 0x1.c170cp-2 0x1.7831b6p-3 0x1.4e1eaep-5 0x1.0f408p-8")
_TAIL_UNDER = _singles("0x1p+0 0x1.acfa9p+0 0x1.3452a4p+0 0x1.e1f6b2p-2 0x1.a2c85ap-4 0x1.53f5cep-7")
# erf(t) / t - 1 by powers of t**2, for t up to 3/4; to 2**-29.
_ERF = _singles(
    "0x1.06eba8p-3 -0x1.812746p-2 0x1.ce2efep-4 -0x1.b82704p-6 0x1.55e324p-8 -0x1.b623f4p-11 0x1.8d33fep-14"
)
_ROOT_2 = 1.4142135623730951
_LOG2_E, _LN2 = _singles("0x1.715476p+0 0x1.62e43p-1")
# ln(2) in two parts: products of the first with an exponent are exact.
_LN2_HIGH, _LN2_LOW = _singles("0x1.62e4p-1 0x1.7f7d1cp-20")
_ROOT_2_LESS_1 = float.fromhex("0x1.a8279ap-2")
_GELU_LINEAR, _GELU_CUBIC = 1.5957691216057308, 0.07135481627260025
# 1 / sqrt(2 * pi): the normal density at 0.
_BELL_HEIGHT = 0.3989422804014327

# Fields of an f32, as integers.
_SIGN, _SIZE, _HEAD = 1 << 31, (1 << 31) - 1, (1 << 32) - (1 << 12)
_ONE, _ROOT_HALF, _BIAS = 0x3F800000, 0x3F3504F3, 127
# 1.5 * 2**23: adding it rounds to an integer, which then is in the lowest bits.
_ROUNDER, _ROUNDER_BITS = 12582912.0, 0x4B400000
_WIDE_ROUNDER = 1.5 * 2**52
# 2**23: its lowest bits hold an integer below it.
_HOLDER, _HOLDER_BITS = 8388608.0, 0x4B000000
_LEAST_NORMAL, _SMALL, _SMALL_BIAS = 2.0**-126, 2.0**-64, 127 + 64


def exp(x: Term[V], rest: Term[V] | None = None) -> Term[V]:
    """Return e ** (x + rest), for a rest of about the size of x's last place."""
    return _exp_within(limited(x, -104.0, 89.0), rest)


def _exp_within(x: Term[V], rest: Term[V] | None = None) -> Term[V]:
    """Return the same for x from -170 to 89."""
    m, k = _reduce(x, rest)
    # Use two powers of 2: neither overflows or is subnormal, so that only the last product rounds.
    twice = k - (_ROUNDER_BITS - 2 * _BIAS)
    half = twice >> 1
    return (m + 1.0) * _power(half) * _power(twice - half)


def _expm1(x: Term[V]) -> Term[V]:
    """Return e**x - 1 for x <= 0, accurate for small x too."""
    m, k = _reduce((x < -20.0).where(-20.0, x))
    scale = _power(k - (_ROUNDER_BITS - _BIAS))
    return m * scale - (1.0 - scale)


def _reduce(x: Term[V], rest: Term[V] | None = None) -> tuple[Term[V], Term[V]]:
    """m and k with e**(x + rest) = (1 + m) * 2**k, |m| < 0.42; k as the integer _ROUNDER_BITS + k."""
    shifted = x * _LOG2_E + _ROUNDER
    k = shifted - _ROUNDER
    low = k * _LN2_LOW if rest is None else k * _LN2_LOW - rest
    r = (x - k * _LN2_HIGH) - low
    return r + r * r * polynomial(_EXP, r), shifted.bits()


def _power(biased: Term[V]) -> Term[V]:
    """2 ** (biased - 127)."""
    return (biased << 23).real()


def limited(s: Term[V], low: Term[V] | float, high: Term[V] | float) -> Term[V]:
    """Return s, but at least low and at most high."""
    s = (s < low).where(low, s)
    return (s > high).where(high, s)


def _size_of(x: Term[V]) -> Term[V]:
    return (x.bits() & _SIZE).real()


def _head(x: Term[V]) -> Term[V]:
    """Return the upper 12 bits of x: products of two such numbers are exact."""
    return (x.bits() & _HEAD).real()


def weigh(s: Term[V], weight: Term[V]) -> Term[V]:
    """Return s * weight, except that an infinite s times 0 is a zero."""
    return weight.equals(0.0).where(limited(s, -1.0, 1.0), s) * weight


def _product(x: Term[V], y: Term[V]) -> tuple[Term[V], Term[V]]:
    """Return x * y as a sum of two; the second is 0 where exp() has left its range."""
    product, x_head, y_head = x * y, _head(x), _head(y)
    x_low, y_low = x - x_head, y - y_head
    low = ((x_head * y_head - product) + x_head * y_low + x_low * y_head) + x_low * y_low
    return product, (_size_of(product) < 1000.0).where(low, product.number(0.0))


def elu(s: Term[V], alpha: Term[V]) -> Term[V]:
    """s above 0, else alpha * (e**s - 1)."""
    return (s < 0.0).where(alpha * _expm1(s), s)


def tanh(s: Term[V]) -> Term[V]:
    """-m / (2 + m) for m = e**(-2 * |s|) - 1, with the sign of s."""
    m = _expm1(_size_of(s) * -2.0)
    return (((0.0 - m) / (m + 2.0)).bits() | (s.bits() & _SIGN)).real()


def logistic(s: Term[V], rest: Term[V] | None = None) -> Term[V]:
    """1 / (1 + e) or e / (1 + e) for e = e**-|s + rest|: nothing overflows or cancels."""
    if rest is None:
        e = _small_power(_size_at_most(s, 105.0))
        return (s < 0.0).where(e, 1.0 / _SMALL) / (e * _SMALL + 1.0) * _SMALL
    down = (s < 0.0).where(rest, 0.0 - rest)
    size = (s.bits() | _SIGN).real()
    e = _exp_within((size < -104.0).where(-104.0, size), down)
    return (s < 0.0).where(e, 1.0) / (e + 1.0)


def swish(s: Term[V], alpha: Term[V]) -> Term[V]:
    """s * logistic(alpha * s)."""
    return weigh(s, logistic(*_product(alpha, s)))


def silu(s: Term[V], alpha: Term[V]) -> Term[V]:
    """The same for an `alpha` of 1: max(s, 0) - |s| * e / (1 + e) for e = e**-|s|, without cancellation."""
    a = _size_at_most(s, 110.0)
    return _times_logistic(s, a, _small_power(a))


def _times_logistic(s: Term[V], a: Term[V], e: Term[V]) -> Term[V]:
    """max(s, 0) - a * e / (1 + e), of e over _SMALL."""
    return _above_zero(s) - a * e / (e * _SMALL + 1.0) * _SMALL


def _small_power(a: Term[V]) -> Term[V]:
    """e**-a / _SMALL for a from 0 to 130, never subnormal."""
    shifted = a * -_LOG2_E + (_ROUNDER + _SMALL_BIAS)
    k = shifted - (_ROUNDER + _SMALL_BIAS)
    r = (k * -_LN2_HIGH - a) - k * _LN2_LOW
    # The shift keeps the lowest bits, which are the integer part and the bias.
    return (r + r * r * polynomial(_EXP, r) + 1.0) * _power(shifted.bits())


def gelu_tanh(s: Term[V]) -> Term[V]:
    """max(s, 0) - |s| * e / (1 + e) for e = e**-|2 * v|: nothing cancels."""
    a = _size_at_most(s, 11.0)
    return _times_logistic(s, a, _gelu_power(a))


def _gelu_power(a: Term[V]) -> Term[V]:
    """e**(-2 * v) / _SMALL for a >= 0: a power of 2, whose exponent is computed in f64."""
    wide = a.widen()
    exponent = wide * (wide * wide * (-_GELU_CUBIC / math.log(2)) - _GELU_LINEAR / math.log(2))
    whole = (exponent + _WIDE_ROUNDER) - _WIDE_ROUNDER
    r = (exponent - whole).narrow(a)
    # The shift keeps the lowest bits, which are the integer part and the bias.
    biased = (whole.narrow(a) + (_ROUNDER + _SMALL_BIAS)).bits()
    return (r * polynomial(_EXP2, r) + 1.0) * _power(biased)


def gelu_erf(s: Term[V]) -> Term[V]:
    """max(s, 0) - |s| * t, for t the upper tail of the normal distribution at |s|."""
    a = _size_at_most(s, 14.75)
    tail, bell = _normal_tail(a)
    return _above_zero(s) - a * tail * bell * _SMALL


def erf(s: Term[V]) -> Term[V]:
    """Return a series for small arguments; otherwise 1 minus both tails of the normal distribution."""
    size = _size_of(s)
    a = size * _ROOT_2
    tail, bell = _normal_tail((a > 14.75).where(14.75, a))
    square = size * size
    near = size + size * polynomial(_ERF, square)
    return with_sign((size < 0.75).where(near, 1.0 - tail * bell * (2.0 * _SMALL)), s)


def _normal_tail(a: Term[V]) -> tuple[Term[V], Term[V]]:
    """The normal distribution's upper tail at a >= 0 over e**(-a**2 / 2), and that power over _SMALL."""
    head, half = _head(a), a * -0.5
    half_head = _head(half)
    # a**2 in two parts, the first exact: e**x turns the absolute error of x into a relative one.
    bell = _large_exp(head * half_head, (a - head) * (half + half_head))
    square = a * a
    return _by_pairs(_TAIL_OVER, a, square) / _by_pairs(_TAIL_UNDER, a, square), bell


def _by_pairs(coefficients: Sequence[float], x: Term[V], square: Term[V]) -> Term[V]:
    """A polynomial by powers of the square: of a quotient of two, what rounds the square cancels."""
    firsts, seconds = coefficients[::2], coefficients[1::2]
    terms = [x * second + first for first, second in zip(firsts, seconds, strict=False)]
    result = terms.pop() if len(firsts) == len(seconds) else square.number(firsts[-1])
    while terms:
        result = result * square + terms.pop()
    return result


def _size_at_most(s: Term[V], most: float) -> Term[V]:
    size = _size_of(s)
    return (size > most).where(most, size)


def _above_zero(s: Term[V]) -> Term[V]:
    """max(s, -0.0): subtracting from it preserves the sign of zeros."""
    return (s < -0.0).where(-0.0, s)


def _large_exp(x: Term[V], rest: Term[V]) -> Term[V]:
    """e ** (x + rest) / _SMALL for x from -130 to 0: never subnormal, so only the last product rounds."""
    m, k = _reduce(x, rest)
    return (m + 1.0) * _power(k - (_ROUNDER_BITS - _SMALL_BIAS))


def mish(s: Term[V]) -> Term[V]:
    """tanh(ln(1 + e)) is n / (n + 2) for n = e * (e + 2), e = e**s; it is 1 long before e**20."""
    s = _above(s, -110.0)
    e = _exp_within((s > 20.0).where(20.0, s))
    n = e * (e + 2.0)
    return s * (n / (n + 2.0))


def _above(s: Term[V], least: float) -> Term[V]:
    """Clamp from below at a number where weights are 0, so that infinity is not multiplied by them."""
    return (s < least).where(least, s)


# --- logarithm ----------------------------------------------------------------------------------------------


def log(x: Term[V]) -> Term[V]:
    """The natural logarithm: -infinity for zero, NaN below."""
    k, f = _split(x)
    result = k * _LN2_HIGH - ((_log_rest(f) - k * _LN2_LOW) - f)
    finite = (x < math.inf).where(x.equals(0.0).where(-math.inf, result), x)
    return (x < 0.0).where(math.nan, finite)


def _split(x: Term[V]) -> tuple[Term[V], Term[V]]:
    """k and f with x = 2**k * (1 + f), 1 + f from sqrt(1/2) to sqrt(2), for finite x > 0."""
    is_small = x < _LEAST_NORMAL
    bits = is_small.where(x * 2.0**25, x).bits() + _ONE
    biased = (bits - _ROOT_HALF) >> 23
    k = (biased | _HOLDER_BITS).real() - is_small.where(_HOLDER + _BIAS + 25, x.number(_HOLDER + _BIAS))
    return k, (bits - (biased << 23)).real() - 1.0


def _log_rest(f: Term[V]) -> Term[V]:
    """f - ln(1 + f)."""
    s = f / (f + 2.0)
    z = s * s
    return s * (f - z * horner(_LOG, z))


def soft_relu(s: Term[V], alpha: Term[V]) -> Term[V]:
    """ln(1 + e**y) is max(y, 0) + ln(1 + e**-|y|), for y = alpha * s, which may overflow."""
    y, rest = _product(alpha, s)
    u = exp((y.bits() | _SIGN).real(), (y < 0.0).where(rest, 0.0 - rest))
    is_large = u > _ROOT_2_LESS_1
    f = is_large.where(u * 0.5 - 0.5, u)
    result = is_large.where(_LN2, u.number(0.0)) + (f - _log_rest(f))
    return (y < 0.0).where(-0.0, s) + result / alpha


# --- derivatives that do not cancel: `ir/eltwise_gradients.py` --------------------------------------------


def elu_gradient(s: Term[V], alpha: Term[V]) -> Term[V]:
    """1 above 0, else alpha * e**s."""
    return (s > 0.0).where(1.0, alpha * exp((s > 0.0).where(0.0, s)))


def tanh_gradient(s: Term[V]) -> Term[V]:
    """4 e / (1 + e)**2 for e = e**(-2 |s|)."""
    e = exp(_size_of(s) * -2.0)
    root = e + 1.0
    return e * 4.0 / (root * root)


def logistic_gradient(s: Term[V]) -> Term[V]:
    """e / (1 + e)**2 for e = e**-|s|."""
    e = exp((s.bits() | _SIGN).real())
    root = e + 1.0
    return e / (root * root)


def soft_relu_gradient(s: Term[V], alpha: Term[V]) -> Term[V]:
    """logistic(alpha * s)."""
    return logistic(*_product(alpha, s))


# For a weight w(s) = 1 - w(-s), the derivative of s * w(s) is c at s < 0, and 1 - c at -s > 0.


def swish_gradient(s: Term[V], alpha: Term[V]) -> Term[V]:
    """c = q * (1 - |y| / (1 + e)) for y = alpha * s, e = e**-|y|, q = e / (1 + e)."""
    y, rest = _product(alpha, s)
    a = _size_at_most(y, 104.0)
    e = _exp_within(0.0 - a, (y < 0.0).where(rest, 0.0 - rest))
    return _mirrored(y, _weighted_slope(e, a))


def gelu_tanh_gradient(s: Term[V]) -> Term[V]:
    """c = q * (1 - |s| * (2 * v)' / (1 + e)) for e = e**-|2 * v|, q = e / (1 + e)."""
    a = _size_at_most(s, 11.0)
    slope = a * (a * a * (3.0 * _GELU_CUBIC) + _GELU_LINEAR)
    return _mirrored(s, _weighted_slope(_gelu_power(a) * _SMALL, slope))


def gelu_erf_gradient(s: Term[V]) -> Term[V]:
    """c is the tail of the normal distribution at |s| less |s| times its density."""
    a = _size_at_most(s, 14.75)
    tail, bell = _normal_tail(a)
    return _mirrored(s, (tail - a * _BELL_HEIGHT) * bell * _SMALL)


def mish_gradient(s: Term[V]) -> Term[V]:
    """With e = e**s and m = e * (e + 2) + 2: (e + 2 + 4 * s * (e + 1) / m) * e / m; it is 1 from 20 on."""
    x = limited(s, -104.0, 20.0)
    e = _exp_within(x)
    up = e + 2.0
    m = e * up + 2.0
    return (s > 20.0).where(1.0, (up + x * (e + 1.0) * 4.0 / m) * (e / m))


def _weighted_slope(e: Term[V], slope: Term[V]) -> Term[V]:
    root = 1.0 / (e + 1.0)
    return e * root * (1.0 - slope * root)


def _mirrored(s: Term[V], below: Term[V]) -> Term[V]:
    return (s < 0.0).where(below, 1.0 - below)
