"""Powers, alpha * s**beta: for f32 by f64 arithmetic, and those with exponents fixed by a program.

A power of f32 is computed in f64 and rounded once. With so many spare bits, neither logarithm nor exponent
needs to be a sum of two: before rounding it is within 2**-37 of the power. Special cases are those of C.
"""

from __future__ import annotations

import math

from .arithmetic import Term, V, polynomial


def _doubles(text: str) -> tuple[float, ...]:
    return tuple(map(float.fromhex, text.split()))


# Polynomials, lowest power first: minimax by Remez exchange in 200 bits, coefficients then rounded to f64.
# log2(1 + f) = s * (_TWICE_LOG2_E + z * p(z)), s = f / (2 + f), z = s * s, for 1 + f from sqrt(1/2) to
# sqrt(2); to 2**-44.9 of itself.
_TWICE_LOG2_E = 2 / math.log(2)
_LOG2 = _doubles("""
    0x1.ec709dc4c1fcep-1 0x1.2776c2f07bebbp-1 0x1.a619f57eaa07bp-2 0x1.479cfff95b217p-2 0x1.2151bcd2e2c36p-2
""")
# (2**r - 1) / r for |r| <= 1/2; 2**r to 2**-40.1 of itself.
_EXP2 = _doubles("""
    0x1.62e42fef89d25p-1  0x1.ebfbdff8edecfp-3  0x1.c6b08dced257bp-5  0x1.3b2ab5ed66c0ep-7
    0x1.5d874d081c84ep-10 0x1.430aa8958eec2p-13 0x1.00d8529785845p-16 0x1.61c4db0bfa4efp-20
""")

# Fields of an f64, as integers.
_SIGN, _SIZE = 1 << 63, (1 << 63) - 1
_ONE, _ROOT_HALF = 0x3FF0000000000000, 0x3FE6A09E667F3BCD
# 1.5 * 2**52 and the bias of exponents: adding it rounds to an integer, which then is in the lowest bits,
# biased.
_ROUNDER = 6755399441055744.0 + 1023
# 2**52: its lowest bits hold an integer below it.
_HOLDER, _HOLDER_BITS = 4503599627370496.0, 0x4330000000000000
# Beyond it, a power times any f32 is not a finite f32, or rounds to 0.
_MOST_EXPONENT = 600.0


def power_of_single(s: Term[V], alpha: Term[V], beta: Term[V]) -> Term[V]:
    """Return alpha * s**beta for f32."""
    return _power(s.widen(), alpha.widen(), beta.widen()).narrow(s)


def gradient_of_single(s: Term[V], alpha: Term[V], beta: Term[V]) -> Term[V]:
    """Return alpha * beta * s**(beta - 1) for f32; 0 for an exponent of 0."""
    a, b = alpha.widen(), beta.widen()
    return b.equals(0.0).where(0.0, _power(s.widen(), a * b, b - 1.0)).narrow(s)


def _power(x: Term[V], a: Term[V], b: Term[V]) -> Term[V]:
    """Return a * x**b for f64 values that fit f32, except for the last places of b."""
    size = (x.bits() & _SIZE).real()
    power = _exp2(b * _log2(size))
    power = (size.equals(1.0) | b.equals(0.0)).where(1.0, power)
    is_whole, half = b.round().equals(b), b * 0.5
    sign = is_whole.where(half.round().equals(half).where(0, x.bits() & _SIGN), x.bits().number(0))
    is_bad = is_whole.where(x < -math.inf, (x < 0.0) & (x > -math.inf))
    return a * is_bad.where(math.nan, (power.bits() | sign).real())


def _log2(x: Term[V]) -> Term[V]:
    """Return log2 of an f64 that fits f32: -infinity for 0; infinity and NaN are unchanged."""
    bits = x.bits() + _ONE
    biased = (bits - _ROOT_HALF) >> 52
    k = (biased | _HOLDER_BITS).real() - (_HOLDER + 1023)
    f = (bits - (biased << 52)).real() - 1.0
    s = f / (f + 2.0)
    z = s * s
    result = s * (z * polynomial(_LOG2, z) + _TWICE_LOG2_E) + k
    return (x < math.inf).where(x.equals(0.0).where(-math.inf, result), x)


def _exp2(x: Term[V]) -> Term[V]:
    """Return 2 ** x, with |x| limited to `_MOST_EXPONENT`."""
    x = (x < -_MOST_EXPONENT).where(-_MOST_EXPONENT, x)
    x = (x > _MOST_EXPONENT).where(_MOST_EXPONENT, x)
    shifted = x + _ROUNDER
    r = x - (shifted - _ROUNDER)
    return (r * polynomial(_EXP2, r) + 1.0) * (shifted.bits() << 52).real()


# --- fixed exponents ----------------------------------------------------------------------------------------
# Functions of s and alpha. In f64, a product of two f32 is exact; one of three is rounded to f32 only once.


def reciprocal(s: Term[V], alpha: Term[V]) -> Term[V]:
    """alpha * s**-1."""
    return alpha / s


def constant(s: Term[V], alpha: Term[V]) -> Term[V]:
    """alpha * s**0, which is alpha even for NaN."""
    return s.equals(s).where(alpha, alpha)


def root(s: Term[V], alpha: Term[V]) -> Term[V]:
    """alpha * s**0.5: for -0.0 it is 0.0 and for -infinity infinity, where sqrt gives -0.0 and NaN."""
    return alpha * s.equals(-math.inf).where(math.inf, (s + 0.0).sqrt())


def product(s: Term[V], alpha: Term[V]) -> Term[V]:
    """alpha * s**1."""
    return alpha * s


def square(s: Term[V], alpha: Term[V]) -> Term[V]:
    """alpha * s**2."""
    return alpha * (s * s)


def cube(s: Term[V], alpha: Term[V]) -> Term[V]:
    """alpha * s**3."""
    return alpha * (s * s * s)
