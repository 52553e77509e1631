"""Trigonometric, hyperbolic and error functions, each written once, over any arithmetic, in f64.

For f32 they are computed in f64 and rounded once; sines have a shorter form for f32. Arguments of sines can
be of any size: whole turns are removed exactly, as products with enough bits of 2 / pi.
"""

from __future__ import annotations

import math
from typing import Any

from . import eltwise_singles as singles
from .arithmetic import Term, V, polynomial, with_sign
from .eltwise_formulas import EltwiseFunction, doubles, exp, expm1, log, normal_distribution, size_of

# Polynomials, lowest power first: by Chebyshev's points in 200 bits, coefficients then rounded to f64.
# (sin(a) / a - 1) / z and (cos(a) - 1 + z / 2) / z**2 by powers of z = a**2, for a up to pi / 4.
_SIN = doubles("""
    -0x1.5555555555555p-3 0x1.1111111111110p-7 -0x1.a01a01a01991fp-13 0x1.71de3a545d898p-19
    -0x1.ae64540d7c413p-26 0x1.61217adca53fdp-33 -0x1.ab155daa2903cp-41
""")
_COS = doubles("""
    0x1.5555555555555p-5 -0x1.6c16c16c16c16p-10 0x1.a01a01a019cffp-16 -0x1.27e4fb77117b5p-22
    0x1.1eed8de93dd11p-29 -0x1.9394b6543d97dp-37 0x1.ab762a41c6f5dp-45
""")
# (atan(t) / t - 1) / z by powers of z = t**2, for t up to tan(pi / 8).
_ATAN = doubles("""
    -0x1.5555555555555p-2 0x1.9999999999953p-3 -0x1.249249248d7e6p-3 0x1.c71c71c3045bap-4
    -0x1.745d165de250bp-4 0x1.3b1392d7e8f73p-4 -0x1.110e87e6a8718p-4 0x1.e19a10824a443p-5
    -0x1.ac7a7bd8f00acp-5 0x1.74dd67f0d1c4fp-5 -0x1.1b32a32667ef3p-5 0x1.0ad102216cf38p-6
""")
# (asin(t) / t - 1) / z by powers of z = t**2, for t up to 1/2.
_ASIN = doubles("""
    0x1.5555555555555p-3 0x1.3333333333388p-4 0x1.6db6db6dac1c7p-5 0x1.f1c71c7a53dc4p-6
    0x1.6e8ba123ad37cp-6 0x1.1c4efce873224p-6 0x1.c990ac55b52e0p-7 0x1.7b028a13eace1p-7
    0x1.3b498006caef6p-7 0x1.3164456bc3618p-7 0x1.8ef81e8762730p-9 0x1.406bebb665752p-6
    -0x1.3b50757adfe1cp-6 0x1.e5336d3cad7d6p-6
""")
# erf(t) / t - 1 by powers of t**2, for t up to 3/4.
_ERF = doubles("""
    0x1.06eba8214db69p-3 -0x1.812746b0379e7p-2 0x1.ce2f21a042be1p-4 -0x1.b82ce31288b15p-6
    0x1.565bcd0e6922dp-8 -0x1.c02db3ffcd361p-11 0x1.f9a326dda2e48p-14 -0x1.f4d257a9a9026p-17
    0x1.b9e646d4e1af3p-20 -0x1.5f6a1afd4187fp-23 0x1.fbb86115d12bcp-27 -0x1.48b4c6ad8af6ep-30
    0x1.3fd682b14f1bep-34
""")
# sin(r * pi / 2) / r and cos(r * pi / 2) by powers of r**2, for r up to 1/2: to 2**-40.
_TURN_SIN = doubles("""
    0x1.921fb54442cfap+0 -0x1.4abbce6257a07p-1 0x1.466bc671216f9p-4 -0x1.32d2c642a57cfp-8
    0x1.5071ccfcecc39p-13 -0x1.dd53ebcfd32f5p-19
""")
_TURN_COS = doubles("""
    0x1.ffffffffffe0ap-1 -0x1.3bd3cc9bd2ba5p+0 0x1.03c1f074d9924p-2 -0x1.55d3ba2bda315p-6
    0x1.e1e7ca1a14d07p-11 -0x1.a0ed79bf55fd9p-16
""")
_HALF_PI, _HALF_PI_LOW = doubles("0x1.921fb54442d18p+0 0x1.1a62633145c07p-54")
_QUARTER_PI, _QUARTER_PI_LOW = doubles("0x1.921fb54442d18p-1 0x1.1a62633145c07p-55")
_LN2, _ROOT_2 = doubles("0x1.62e42fefa39efp-1 0x1.6a09e667f3bcdp+0")
_LEAST_OF_MANY = 2.0**28
"""From here on, adding 1 to the square of a number does not change it."""

# 2 / pi, with enough bits that those after them do not matter for any f64.
_TWO_OVER_PI = int(
    """
    a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1921c
    fe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980f
    ef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d08
    56033046
    """.replace("\n", "").replace(" ", ""),
    16,
)
_WORDS = 37


# --- sines --------------------------------------------------------------------------------------------------


def _quarters_single(x: Term[V]) -> tuple[Term[V], Term[V]]:
    """Return the quarter turn, as an integer, and the position in it, from -1/2 to 1/2, for f32 >= 0 as f64.

    Uses 116 bits of 2 / pi times a power of 2**32: products of 29 bits with 24 are exact.
    """
    place = ((x < 1.0).where(1.0, x).bits() >> 52) - 1023
    scaled = (x.bits() - ((place >> 5) << 57)).real()
    parts: list[list[Any]] = [[_chunk(word, at) for word in range(4)] for at in range(4)]
    for bit in (1, 0):
        is_low = (place & (1 << bit + 5)).equals(0)
        half = 1 << bit
        parts = [
            [is_low.where(low, _number(x, high)) for low, high in zip(part[:half], part[half:], strict=True)]
            for part in parts
        ]
    first, second, third, fourth = (scaled * part[0] for part in parts)
    first, second = (part - (part * 0.25).round() * 4.0 for part in (first, second))
    whole = (first + second + third).round()
    total, rest = _sum(first - whole, second)
    return (whole + _HOLDER).bits(), (total + third) + (rest + fourth)


# 1.5 * 2**52: an integer added to it appears in its lowest bits.
_HOLDER = 6755399441055744.0


def _number(like: Term[V], value: Any) -> Any:
    return value if isinstance(value, Term) else like.number(value)


def _chunk(word: int, at: int) -> float:
    """Return 29 bits of 2**(32 * word) * 2 / pi, from 2**26 down; those above are whole turns for f32."""
    low = 3 + 29 * at
    scaled = _TWO_OVER_PI << 32 * word
    bits = scaled >> 32 * _WORDS - low & (1 << 29) - 1
    return math.ldexp(bits, -low)


def _quarters(x: Term[V]) -> tuple[Term[V], Term[V], Term[V]]:
    """Return the same for f64, and the rest of the position: three pieces of 53 bits times 32-bit words."""
    place = ((x < 1.0).where(1.0, x).bits() >> 52) - 1023
    scaled = (x.bits() - ((place >> 5) << 57)).real()
    # The words after the first ones, whose products are whole turns.
    words: list[Any] = [0.0, 0.0] + [
        float(_TWO_OVER_PI >> 32 * (_WORDS - 1 - at) & 0xFFFFFFFF) for at in range(_WORDS - 2)
    ]
    for bit in (4, 3, 2, 1, 0):
        is_low, step = (place & (1 << bit + 5)).equals(0), 1 << bit
        pairs = zip(words[:-step], words[step:], strict=True)
        words = [is_low.where(_number(x, low), _number(x, high)) for low, high in pairs]
    # At most 18 bits.
    high = _upper(scaled, 35)
    rest = scaled - high
    middle = _upper(rest, 35)
    total, small, least = x.number(0.0), x.number(0.0), x.number(0.0)
    whole = x.number(0.0)
    for at, word in enumerate(words):
        weighed = word * 2.0 ** (32 * (1 - at))
        for piece in (high, middle, rest - middle):
            product = piece * weighed
            if at < 3:
                product = product - (product * 0.25).round() * 4.0
            total, left = _sum(total, product)
            small, left = _sum(small, left)
            least = least + left
        turn = total.round()
        total, whole = total - turn, whole + turn
    total, small = _sum(total, small)
    turn = total.round()
    total, whole = total - turn, whole + turn
    total, small = _sum(total, small + least)
    return (whole + _HOLDER).bits(), total, small


def _product(a: Term[V], b: Term[V]) -> tuple[Term[V], Term[V]]:
    """Return a * b, rounded, and the rounding error."""
    product = a * b
    a_high, b_high = (_upper(x, 27) for x in (a, b))
    a_low, b_low = a - a_high, b - b_high
    low = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, low


def _upper(x: Term[V], bits: int) -> Term[V]:
    """Return a number without its lowest `bits`."""
    return (x.bits() & (1 << 64) - (1 << bits)).real()


def _sum(a: Term[V], b: Term[V]) -> tuple[Term[V], Term[V]]:
    """Return a + b, rounded, and the rounding error."""
    total = a + b
    second = total - a
    return total, (a - (total - second)) + (b - second)


def _sine_and_cosine(s: Term[V]) -> tuple[Term[V], Term[V], Term[V]]:
    """Return the quarter turn of |s|, and sine and cosine of the position in it."""
    size = size_of(s)
    quarter, turn, rest = _quarters(size)
    angle, low = _product(turn, turn.number(_HALF_PI))
    low = low + (turn * _HALF_PI_LOW + rest * _HALF_PI)
    angle, low = _sum(angle, low)
    is_small = size < _QUARTER_PI
    angle, low = is_small.where(size, angle), is_small.where(0.0, low)
    quarter = is_small.where(0, quarter)
    z = angle * angle
    sine = angle + (angle * z * polynomial(_SIN, z) + low * (1.0 - z * 0.5))
    half = z * 0.5
    near = 1.0 - half
    cosine = near + (((1.0 - near) - half) + (z * z * polynomial(_COS, z) - angle * low))
    return quarter, sine, cosine


def _sine_and_cosine_single(s: Term[V]) -> tuple[Term[V], Term[V], Term[V]]:
    """Return the same for f32 as f64, to about 2**-40; meaningless for nonfinite values."""
    quarter, turn = _quarters_single(size_of(s))
    z = turn * turn
    return quarter, turn * polynomial(_TURN_SIN, z), polynomial(_TURN_COS, z)


def _sine(s: Term[V], parts: tuple[Term[V], Term[V], Term[V]]) -> Term[V]:
    """Select by quarter: the sine, the cosine, or their negatives; odd in s."""
    quarter, sine, cosine = parts
    value = (quarter & 1).equals(0).where(sine, cosine)
    flips = (quarter & 2) << 62
    odd = ((value.bits() + flips) + (s.bits() & _SIGN)).real()
    return (size_of(s) < math.inf).where(odd, math.nan)


def _cosine(s: Term[V], parts: tuple[Term[V], Term[V], Term[V]]) -> Term[V]:
    quarter, sine, cosine = parts
    value = (quarter & 1).equals(0).where(cosine, sine)
    flips = ((quarter + 1) & 2) << 62
    return (size_of(s) < math.inf).where((value.bits() + flips).real(), math.nan)


def _tangent(s: Term[V], parts: tuple[Term[V], Term[V], Term[V]]) -> Term[V]:
    quarter, sine, cosine = parts
    is_even = (quarter & 1).equals(0)
    value = is_even.where(sine, cosine) / is_even.where(cosine, 0.0 - sine)
    odd = (value.bits() + (s.bits() & _SIGN)).real()
    return (size_of(s) < math.inf).where(odd, math.nan)


_SIGN = 1 << 63


def _of_sines(combine: Any) -> EltwiseFunction:
    def single(s: Term[V]) -> Term[V]:
        wide = s.widen()
        result: Term[V] = combine(wide, _sine_and_cosine_single(wide))
        return result.narrow(s)

    return EltwiseFunction(
        lambda s: combine(s, _sine_and_cosine(s)), in_double=True, single=single, single_in_double=True
    )


# --- inverse functions --------------------------------------------------------------------------------------


def _atan_of_size(size: Term[V]) -> Term[V]:
    """Return the arctangent of a number >= 0, reduced to arguments up to tan(pi / 8)."""
    is_large, is_small = size > 2.414213562373095, size < 0.41421356237309503
    inner = (size - 1.0) / (size + 1.0)
    t = is_large.where(-1.0 / size, is_small.where(size, inner))
    base = is_large.where(_HALF_PI, is_small.where(0.0, size.number(_QUARTER_PI)))
    low = is_large.where(_HALF_PI_LOW, is_small.where(0.0, size.number(_QUARTER_PI_LOW)))
    z = t * t
    return base + (t + (t * z * polynomial(_ATAN, z) + low))


def _atan(s: Term[V]) -> Term[V]:
    return with_sign(_atan_of_size(size_of(s)), s)


def _atan2(y: Term[V], x: Term[V]) -> Term[V]:
    """Return the angle from the axis x to the point (x, y); the special cases are those of C."""
    width, height = size_of(x), size_of(y)
    is_steep = height > width
    least, most = is_steep.where(width, height), is_steep.where(height, width)
    ratio = least.equals(most).where(most.equals(0.0).where(0.0, most.number(1.0)), least / most)
    arc = _atan_of_size(ratio)
    arc = is_steep.where(_HALF_PI - (arc - _HALF_PI_LOW), arc)
    is_left = with_sign(x.number(1.0), x) < 0.0
    return with_sign(is_left.where(2.0 * _HALF_PI - (arc - 2.0 * _HALF_PI_LOW), arc), y)


def _arc_parts(s: Term[V]) -> tuple[Term[V], Term[V], Term[V]]:
    """Return whether |s| is above 1/2, and the arcsine of |s|, or half that of the rest to 1, as a root and
    its correction.
    """
    size = size_of(s)
    is_large = size > 0.5
    z = is_large.where((1.0 - size) * 0.5, size * size)
    root = is_large.where(z.sqrt(), size)
    return is_large, root, root * (z * polynomial(_ASIN, z))


def _asin(s: Term[V]) -> Term[V]:
    is_large, root, more = _arc_parts(s)
    arc = root + more
    return with_sign(is_large.where(_HALF_PI - (arc * 2.0 - _HALF_PI_LOW), arc), s)


def _acos(s: Term[V]) -> Term[V]:
    is_large, root, more = _arc_parts(s)
    arc = (root + more) * 2.0
    of_large = (s < 0.0).where(2.0 * _HALF_PI - (arc - 2.0 * _HALF_PI_LOW), arc)
    small = with_sign(root + more, s)
    return is_large.where(of_large, _HALF_PI - (small - _HALF_PI_LOW))


# --- hyperbolic functions -----------------------------------------------------------------------------------


def _expm1(s: Term[V]) -> Term[V]:
    """Return e**s - 1, accurate for small s too."""
    near = expm1((s > 45.0).where(45.0, s))
    near = (size_of(s) < 2.0**-54).where(s, near)
    return (s > 45.0).where(exp(s) - 1.0, near)


def _log1p(s: Term[V]) -> Term[V]:
    """Return ln(1 + s); the rounding of 1 + s cancels in the quotient."""
    up = s + 1.0
    near = up.equals(1.0).where(s, log(up) * (s / (up - 1.0)))
    return (s < math.inf).where(s.equals(-1.0).where(-math.inf, near), s)


def _half_power(size: Term[V]) -> Term[V]:
    """Return e**size / 2, which can be finite where e**size is not."""
    root = exp(size * 0.5)
    return (root * 0.5) * root


def _sinh(s: Term[V]) -> Term[V]:
    size = size_of(s)
    m = _expm1((size > 30.0).where(30.0, size))
    return with_sign((size > 30.0).where(_half_power(size), (m + m / (m + 1.0)) * 0.5), s)


def _cosh(s: Term[V]) -> Term[V]:
    size = size_of(s)
    e = exp((size > 30.0).where(30.0, size))
    return (size > 30.0).where(_half_power(size), (e + 1.0 / e) * 0.5)


def _asinh(s: Term[V]) -> Term[V]:
    size = size_of(s)
    near = (size > _LEAST_OF_MANY).where(_LEAST_OF_MANY, size)
    square = near * near
    arc = _log1p(near + square / ((square + 1.0).sqrt() + 1.0))
    return with_sign((size > _LEAST_OF_MANY).where(log(size) + _LN2, arc), s)


def _acosh(s: Term[V]) -> Term[V]:
    above = (s > _LEAST_OF_MANY).where(_LEAST_OF_MANY, s) - 1.0
    arc = _log1p(above + (above * 2.0 + above * above).sqrt())
    return (s < 1.0).where(math.nan, (s > _LEAST_OF_MANY).where(log(s) + _LN2, arc))


def _atanh(s: Term[V]) -> Term[V]:
    size = size_of(s)
    return with_sign(_log1p(size * 2.0 / (1.0 - size)) * 0.5, s)


# --- others -------------------------------------------------------------------------------------------------


def _erf(s: Term[V]) -> Term[V]:
    """Return a series for small arguments; otherwise 1 minus both tails of the normal distribution."""
    size = size_of(s)
    tails = normal_distribution(size * -_ROOT_2)[0] * 2.0
    near = size + size * polynomial(_ERF, size * size)
    return with_sign((size < 0.75).where(near, 1.0 - tails), s)


def _fmod(steps: int) -> Any:
    """Return the exact remainder of truncated division, with the sign of s: 50 quotient bits per step."""

    def function(s: Term[V], divisor: Term[V]) -> Term[V]:
        rest, least = size_of(s), size_of(divisor)
        for step in range(steps - 1, -1, -1):
            scaled, exponent = least, 50 * step
            while exponent:  # powers of two in parts, as one could overflow
                scaled, exponent = scaled * 2.0 ** min(exponent, 1000), max(exponent - 1000, 0)
            quotient = rest / scaled
            whole = quotient.round()
            whole = (whole > quotient).where(whole - 1.0, whole)
            product, low = _product(whole, scaled)
            less = (rest - product) - low
            less = (less < 0.0).where(less + scaled, less)
            rest = whole.equals(0.0).where(rest, less)
        return with_sign(rest, s)

    return function


ELEMENTARY = {
    "sin": _of_sines(_sine),
    "cos": _of_sines(_cosine),
    "tan": _of_sines(_tangent),
    "asin": EltwiseFunction(_asin, in_double=True),
    "acos": EltwiseFunction(_acos, in_double=True),
    "atan": EltwiseFunction(_atan, in_double=True),
    "atan2": EltwiseFunction(_atan2, 2, in_double=True),
    "sinh": EltwiseFunction(_sinh, in_double=True),
    "cosh": EltwiseFunction(_cosh, in_double=True),
    "asinh": EltwiseFunction(_asinh, in_double=True),
    "acosh": EltwiseFunction(_acosh, in_double=True),
    "atanh": EltwiseFunction(_atanh, in_double=True),
    "expm1": EltwiseFunction(_expm1, in_double=True),
    "log1p": EltwiseFunction(_log1p, in_double=True),
    "erf": EltwiseFunction(_erf, in_double=True, single=singles.erf),
    "fmod": EltwiseFunction(
        _fmod(43),
        2,
        in_double=True,
        single=lambda s, divisor: _fmod(6)(s.widen(), divisor.widen()).narrow(s),
        single_in_double=True,
    ),
}
"""Functions of trees by name, in addition to those of `ir/eltwise_formulas.py`; post-ops do not have them."""
