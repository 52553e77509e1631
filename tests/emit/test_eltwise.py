"""Eltwise functions: the same bits compiled and in NumPy, the values of C at special places, how exact."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass

import numpy as np
import pytest

from restride.desc.post_op_values import ELTWISE, FIXED_POWERS
from restride.dtypes import DataType
from restride.ir.arithmetic import NumpyArithmetic
from restride.ir.eltwise import apply
from restride.ir.eltwise_formulas import FUNCTIONS, POWERS
from restride.targets import jit
from restride.targets.isa import Isa
from support.formulas import ISAS, TYPES, Compiled, Reals, module, unlike
from support.kernels import LEVELS, isa_id
from support.precise import HAS_80_BITS, exact, ulps
from support.values import patterns

_INF, _NAN = math.inf, math.nan
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_NUMPY = NumpyArithmetic()
_ALGORITHMS = pytest.mark.parametrize("alg", sorted(FUNCTIONS))
_TYPES = pytest.mark.parametrize("dtype", list(TYPES.values()), ids=str)
_COMPILED = {**FUNCTIONS, **POWERS}
_FORMULAS = {alg: functools.partial(apply, alg) for alg in sorted(_COMPILED)}

# alpha and beta, of which an algorithm takes what it wants.
_PLAIN = (1.0, 0.0)
_FACTORS = (
    _PLAIN,
    (0.5, -1.5),
    (-1.25, 3.0),
    (0.0, 0.0),
    (-0.0, 0.5),
    (_INF, -_INF),
    (_NAN, 2.0),
    (2.0, _NAN),
)


def _run(alg: str, s: Reals, alpha: float, beta: float) -> Reals:
    return apply(alg, _NUMPY, s, np.full_like(s, alpha), np.full_like(s, beta))


def _one(alg: str, s: float, alpha: float = 1.0, beta: float = 0.0, dtype: np.dtype = _F32) -> float:
    return float(_run(alg, np.array([s], dtype), alpha, beta)[0])


def test_every_algorithm_of_post_ops_is_defined() -> None:
    assert FUNCTIONS.keys() == set(ELTWISE)


# --- the same bits ------------------------------------------------------------------------------------------


@functools.cache
def _compiled(isa: Isa, alg: str) -> Compiled:
    return Compiled(isa, {alg: _FORMULAS[alg]})


@functools.cache
def _values(dtype: np.dtype) -> Reals:
    """Each exponent with corners of mantissas, and the range in which the functions bend."""
    kind = DataType.f32 if dtype == _F32 else DataType.f64
    rng = np.random.default_rng(6)
    bent = [rng.uniform(-limit, limit, 20000) for limit in (1, 20, 110, 760)]
    return np.concatenate([patterns(kind).view(dtype), *(array.astype(dtype) for array in bent)])


@_TYPES
@pytest.mark.parametrize("alg", sorted(_COMPILED))
def test_compiled_functions_have_the_bits_of_numpy(alg: str, dtype: np.dtype) -> None:
    s = _values(dtype)
    for alpha, beta in _FACTORS[: 1 if _COMPILED[alg].operands == 1 else None]:
        given = (s, np.full_like(s, alpha), np.full_like(s, beta))
        wanted = apply(alg, _NUMPY, *given)
        for isa in ISAS:
            bad = np.flatnonzero(unlike(_compiled(isa, alg)(alg, *given), wanted))
            assert bad.size == 0, (isa_id(isa), s[bad[0]], alpha, beta, bad.size)


@pytest.mark.parametrize("level", [*LEVELS, "neon"])
def test_no_function_calls_anything(level: str) -> None:
    """No libm and no compiler run time: those may round otherwise, or not be there."""
    isa = Isa.for_name(level)
    text = jit.assembly(module(isa, _FORMULAS), isa)
    assert re.findall(r"^\s+(?:call\w*|blr?|jmp\w*\s+\S+@PLT)\s.*$", text, re.MULTILINE) == []
    assert re.findall(r"^\s+(?:v?fn?m(?:add|sub)|fml[as])\w*\s.*$", text, re.MULTILINE) == []


@_TYPES
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)], ids=str)
def test_arrays_of_any_shape_compute_without_warnings(shape: tuple[int, ...], dtype: np.dtype) -> None:
    for alg in FUNCTIONS:
        for value in (_INF, -_INF, _NAN, 0.0, -1e30, np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal):
            result = _run(alg, np.full(shape, value, dtype), 0.5, 2.0)
            assert (result.shape, result.dtype) == (shape, dtype)


# --- how exact ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Bound:
    """The largest error of f32 and of f64 results in units of the last place, for |s| up to `reach`."""

    alg: str
    f32: float
    f64: float
    alpha: float = 1.0
    beta: float = 0.0
    reach: tuple[float, float] = (_INF, _INF)

    def __str__(self) -> str:
        return f"{self.alg}-{self.alpha:g}-{self.beta:g}"


_NEAREST = 0.5 + 2.0**-13
# Measured, and a little more. Beyond a finite `reach`, results near underflow lose places.
_BOUNDS = (
    _Bound("exp", 1.1, 1.1),
    _Bound("log", 1.0, 1.0),
    _Bound("tanh", 2.7, 2.7),
    _Bound("elu", 1.2, 1.3),
    _Bound("elu", 1.8, 2.0, alpha=0.3),
    _Bound("logistic", 2.5, 2.4),
    _Bound("swish", 3.5, 3.3, reach=(86, 690)),
    _Bound("swish", 3.5, 700, alpha=-2.3, reach=(37, 300)),
    _Bound("gelu_tanh", 3.5, 4.0, reach=(9.8, 1)),
    _Bound("gelu_erf", 6.0, 8.0, reach=(12.7, 36)),
    _Bound("mish", 5.0, 4.0, reach=(86, 690)),
    _Bound("soft_relu", 2.0, 2.2),
    _Bound("soft_relu", 3.0, 2.2, alpha=-2, reach=(_INF, 350)),
    _Bound("pow", _NEAREST, 1.2, beta=0.5),
    _Bound("pow", _NEAREST, 1.2, beta=-1),
    _Bound("pow", _NEAREST, 1.2, beta=2),
    _Bound("pow", _NEAREST, 2.0, alpha=1.3, beta=2.2),
    _Bound("pow", _NEAREST, 1.2, beta=20.5),
    _Bound("pow", _NEAREST, 40.0, beta=2000.7),
)
_BOUNDED = pytest.mark.parametrize("bound", _BOUNDS, ids=str)
_NEEDS_80_BITS = pytest.mark.skipif(not HAS_80_BITS, reason="needs 80-bit floats to measure against")


@functools.cache
def _spread(dtype: np.dtype) -> Reals:
    """Some 240000 finite values: all magnitudes, where the functions bend, beside 0 and beside 1."""
    rng = np.random.default_rng(7)
    count = 40000
    everywhere = rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)
    bent = [rng.uniform(-limit, limit, count) for limit in (20, 110, 760)]
    small, near_one = (10 ** rng.uniform(-8, 0.3, count) * rng.choice([-1, 1], count) for _ in range(2))
    found = np.concatenate([everywhere, *(v.astype(dtype) for v in (*bent, small, 1 + near_one))])
    return found[np.isfinite(found)]


def _errors(bound: _Bound, dtype: np.dtype, reach: float) -> Reals:
    s = _spread(dtype)
    s = np.abs(s) if bound.alg in ("log", "pow") else s
    s = s[np.abs(s) <= reach]
    alpha, beta = float(np.float32(bound.alpha)), float(np.float32(bound.beta))
    return ulps(_run(bound.alg, s, alpha, beta), exact(bound.alg, s, alpha, beta))


@_NEEDS_80_BITS
@_BOUNDED
def test_f32_results_are_as_exact_as_stated(bound: _Bound) -> None:
    errors = _errors(bound, _F32, bound.reach[0])
    assert errors.size > 80000
    assert errors.max() < bound.f32


@_NEEDS_80_BITS
@_BOUNDED
def test_f64_results_are_as_exact_as_stated(bound: _Bound) -> None:
    assert _errors(bound, _F64, bound.reach[1]).max() < bound.f64


@_NEEDS_80_BITS
@pytest.mark.parametrize("alg", ["swish", "mish", "gelu_erf", "gelu_tanh"])
def test_f32_results_of_small_weights_are_near_in_proportion_to_the_value(alg: str) -> None:
    s = np.linspace(-120, -9, 200000, dtype=np.float32)
    wanted = exact(alg, s, 1, 0)
    bound = np.abs(s) * 2.0**-149 + 6 * 2.0**-23 * np.abs(wanted)
    assert (np.abs(_run(alg, s, 1, 0) - wanted) <= bound).all()


@_NEEDS_80_BITS
@pytest.mark.slow
@pytest.mark.parametrize("bound", [each for each in _BOUNDS if FUNCTIONS[each.alg].single], ids=str)
def test_one_f32_in_61_has_a_result_as_exact_as_stated(bound: _Bound) -> None:
    """70 million, against the same function computed in f64: its own error is 2**-26 of such a unit."""
    compiled, steps = _compiled(ISAS[0], bound.alg), 61 << 20
    for first in range(0, 1 << 32, steps):
        s = (
            np.arange(first, min(first + steps, 1 << 32), 61, dtype=np.int64)
            .astype(np.uint32)
            .view(np.float32)
        )
        s = s[np.isfinite(s) & (np.abs(s) <= bound.reach[0])]
        if bound.alg == "log":
            s = s[s > 0]
        if not s.size:
            continue
        alpha = np.full(s.size, bound.alpha, np.float32)
        got = compiled(bound.alg, s, alpha, alpha)
        wide = alpha.astype(np.float64)
        wanted = compiled(bound.alg, s.astype(np.float64), wide, wide)
        assert ulps(got, wanted).max() < bound.f32, hex(first)


@_NEEDS_80_BITS
def test_f64_gelu_tanh_loses_places_in_proportion_to_its_argument() -> None:
    s = _spread(_F64)
    s = s[np.abs(s) < 20]
    argument = np.abs(1.6 * (s + 0.044715 * s**3))
    assert (ulps(_run("gelu_tanh", s, 0, 0), exact("gelu_tanh", s, 0, 0)) < 4 + 2.5 * argument).all()


@_NEEDS_80_BITS
@pytest.mark.parametrize(
    ("alg", "low"), [("gelu_erf", -12.7), ("swish", -86), ("mish", -86), ("gelu_tanh", -9.8)]
)
def test_negative_tails_keep_their_digits_until_they_underflow(alg: str, low: float) -> None:
    s = np.linspace(low, -3, 50000, dtype=np.float32)
    assert ulps(_run(alg, s, 1, 0), exact(alg, s, 1, 0)).max() < 6


@_TYPES
def test_the_oracle_agrees_with_the_mathematics_of_python(dtype: np.dtype) -> None:
    """Its own formulas for what NumPy lacks, against math.erfc."""
    s = np.linspace(-30, 5, 999, dtype=dtype)
    wanted = [float(v) * math.erfc(-float(v) / math.sqrt(2)) / 2 for v in s]
    np.testing.assert_allclose(exact("gelu_erf", s, 0, 0).astype(float), wanted, rtol=2e-13)
    erf_free = [
        float(v) / (1 + math.exp(-2 * math.sqrt(2 / math.pi) * float(v + 0.044715 * v**3))) for v in s[600:]
    ]
    np.testing.assert_allclose(exact("gelu_tanh", s[600:], 0, 0).astype(float), erf_free, rtol=1e-5)


# --- what the simple ones compute ---------------------------------------------------------------------------

_SIMPLE = {
    "relu": lambda s, a, b: np.where(s > 0, s, a * s),
    "linear": lambda s, a, b: a * s + b,
    "clip": lambda s, a, b: np.minimum(np.maximum(s, a), b),
    "clip_v2": lambda s, a, b: np.minimum(np.maximum(s, a), b),
    "abs": lambda s, a, b: np.abs(s),
    "nan_to_zero": lambda s, a, b: np.where(np.isnan(s), s.dtype.type(0), s),
    "sqrt": lambda s, a, b: np.sqrt(s),
    "square": lambda s, a, b: s * s,
    "round": lambda s, a, b: np.rint(s),
    "hardsigmoid": lambda s, a, b: np.minimum(np.maximum(a * s + b, 0), 1),
    "hardswish": lambda s, a, b: s * np.minimum(np.maximum(a * s + b, 0), 1),
}


@_TYPES
@pytest.mark.parametrize("alg", _SIMPLE)
def test_simple_functions_compute_in_the_type_of_the_value(alg: str, dtype: np.dtype) -> None:
    s = _spread(dtype)
    for alpha, beta in ((0.25, 0.5), (-0.1, 3.0)):
        with np.errstate(all="ignore"):
            wanted = _SIMPLE[alg](s, dtype.type(alpha), dtype.type(beta))
        np.testing.assert_array_equal(_run(alg, s, alpha, beta), wanted)


def test_simple_functions_are_what_is_left() -> None:
    assert {alg for alg, how in FUNCTIONS.items() if not how.in_double} == _SIMPLE.keys()


# --- special values -----------------------------------------------------------------------------------------

# name: s alpha beta result, ...; in both types.
_SPECIAL = """
relu        2 0 0 2, -2 0.5 0 -1, -inf 0 0 -0.0, -inf 0.5 0 -inf, inf 0 0 inf
linear      3 2 1 7, inf -1 0 -inf, inf 0 1 nan, -0.0 1 -0.0 -0.0
clip        3 -1 2 2, -3 -1 2 -1, inf -1 2 2, -inf -1 2 -1, 1 -inf inf 1
clip_v2     3 -1 2 2, -3 -1 2 -1, 0.5 -1 2 0.5
nan_to_zero nan 0 0 0, -0.0 0 0 -0.0, -inf 0 0 -inf, 3 0 0 3
abs         -3 0 0 3, -0.0 0 0 0, 0 0 0 0, -inf 0 0 inf
sqrt        4 0 0 2, -0.0 0 0 -0.0, -1 0 0 nan, inf 0 0 inf
square      -3 0 0 9, -0.0 0 0 0, -inf 0 0 inf
round       2.5 0 0 2, -0.5 0 0 -0.0, inf 0 0 inf
hardsigmoid 0 0.5 0.5 0.5, inf 0.5 0.5 1, -inf 0.5 0.5 0
hardswish   1 0.5 0.25 0.75, inf 0.5 0.5 inf, -inf 0.5 0.5 -0.0, -8 0.5 0.5 -0.0
exp         0 0 0 1, -0.0 0 0 1, inf 0 0 inf, -inf 0 0 0, 800 0 0 inf, -800 0 0 0
log         1 0 0 0, 0 0 0 -inf, -0.0 0 0 -inf, -1 0 0 nan, inf 0 0 inf, -inf 0 0 nan
tanh        0 0 0 0, -0.0 0 0 -0.0, inf 0 0 1, -inf 0 0 -1, 50 0 0 1, -50 0 0 -1
logistic    0 0 0 0.5, inf 0 0 1, -inf 0 0 0, 800 0 0 1, -800 0 0 0
elu         0 1 0 0, -0.0 1 0 -0.0, inf 2 0 inf, -inf 2 0 -2, -100 2 0 -2, 3 2 0 3
swish       0 1 0 0, -0.0 1 0 -0.0, inf 1 0 inf, -inf 1 0 -0.0, inf -1 0 0, 3 0 0 1.5, -2000 1 0 -0.0
gelu_tanh   0 0 0 0, -0.0 0 0 -0.0, inf 0 0 inf, -inf 0 0 -0.0, 100 0 0 100
gelu_erf    0 0 0 0, -0.0 0 0 -0.0, inf 0 0 inf, -inf 0 0 -0.0, 100 0 0 100
mish        0 0 0 0, -0.0 0 0 -0.0, inf 0 0 inf, -inf 0 0 -0.0, 100 0 0 100
soft_relu   inf 1 0 inf, -inf 1 0 0, inf -1 0 -0.0, 1000 1 0 1000, 0 0 0 inf
pow         2 3 3 24, 0 1 -1 inf, -2 1 3 -8, -2 1 0.5 nan, nan 5 0 5
"""
_ROWS = [
    (line.split()[0], *map(float, row.split()))
    for line in _SPECIAL.strip().splitlines()
    for row in line.split(maxsplit=1)[1].split(",")
]


@_TYPES
@pytest.mark.parametrize(("alg", "s", "alpha", "beta", "wanted"), _ROWS, ids=str)
def test_special_values(
    alg: str, s: float, alpha: float, beta: float, wanted: float, dtype: np.dtype
) -> None:
    assert repr(_one(alg, s, alpha, beta, dtype)) == repr(float(wanted))


def test_every_algorithm_has_special_values() -> None:
    assert {alg for alg, *_ in _ROWS} == set(ELTWISE)


@_TYPES
@_ALGORITHMS
def test_nan_gives_nan(alg: str, dtype: np.dtype) -> None:
    if alg == "nan_to_zero":
        assert repr(_one(alg, _NAN, dtype=dtype)) == "0.0"
        return
    for alpha, beta in ((1.0, 1.0), (0.0, 0.5), (-2.0, -3.0)):
        assert math.isnan(_one(alg, _NAN, alpha, beta, dtype))


_BASES = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 1e-30, -1e30, _INF, -_INF, _NAN)
_POWERS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    3.0,
    -3.0,
    0.5,
    -0.5,
    2.0**24 - 1,
    2.0**53 - 1,
    1e30,
    _INF,
    -_INF,
    _NAN,
)


@_TYPES
@pytest.mark.parametrize("power", _POWERS)
def test_pow_has_the_special_cases_of_c(power: float, dtype: np.dtype) -> None:
    s = np.array(_BASES, dtype)
    with np.errstate(all="ignore"):
        # Two arrays: for a scalar exponent of 1/2 NumPy takes a root, and C's pow(-0.0, 0.5) is 0.0.
        beta = np.full(s.size, power, dtype).astype(np.float64)
        wanted = np.power(s.astype(np.float64), beta).astype(dtype)
    got = _run("pow", s, 1.0, float(beta[0]))
    np.testing.assert_allclose(got, wanted, rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(np.signbit(got[got == got]), np.signbit(wanted[got == got]))


@pytest.mark.parametrize("power", FIXED_POWERS)
def test_fixed_powers_of_f32_are_the_nearest_to_those_of_f64(power: float) -> None:
    s = _values(_F32)
    for alpha in (1.0, -0.75, _INF):
        got = _run(FIXED_POWERS[power], s, alpha, power)
        with np.errstate(all="ignore"):
            wanted = _run("pow", s.astype(np.float64), alpha, power).astype(_F32)
        if power == 0.5 and alpha == -0.75:
            np.testing.assert_array_max_ulp(got[got == got], wanted[got == got], 1)
            got = np.where(np.isnan(got), got, wanted)
        assert not unlike(got, wanted).any(), (power, alpha, s[unlike(got, wanted)][:3])


@pytest.mark.parametrize("power", FIXED_POWERS)
def test_fixed_powers_of_f64_are_near_those_of_pow(power: float) -> None:
    s = np.concatenate([_spread(_F64)[::7], np.array(_BASES)])
    for alpha in (1.0, -0.75):
        got, wanted = _run(FIXED_POWERS[power], s, alpha, power), _run("pow", s, alpha, power)
        is_normal = ~(np.abs(wanted) < np.finfo(_F64).tiny)
        np.testing.assert_allclose(got[is_normal], wanted[is_normal], rtol=1e-15)
        np.testing.assert_array_equal(np.signbit(got[got == got]), np.signbit(wanted[got == got]))


def test_gradients_of_pow_of_f32_are_those_of_f64() -> None:
    s = np.abs(_values(_F32))
    for alpha, beta in ((1.5, 2.0), (0.5, 0.3), (2.0, -1.5), (1.0, 0.0)):
        with np.errstate(all="ignore"):
            wanted = _run("pow_gradient", s.astype(np.float64), alpha, float(np.float32(beta))).astype(_F32)
        got = _run("pow_gradient", s, alpha, beta)
        np.testing.assert_array_max_ulp(got[got == got], wanted[got == got], 1)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))


@_TYPES
def test_whole_powers_of_whole_numbers_are_exact_in_f32_and_near_in_f64(dtype: np.dtype) -> None:
    s = np.arange(-100, 101, dtype=dtype)
    for power in (1, 2, 3):
        np.testing.assert_allclose(_run("pow", s, 1, power), s**power, rtol=0 if dtype == _F32 else 3e-16)


@_TYPES
def test_smallest_values_pass_where_the_slope_is_one(dtype: np.dtype) -> None:
    tiny = np.finfo(dtype).smallest_subnormal
    s = np.array([tiny, -tiny, 3 * tiny, np.finfo(dtype).tiny], dtype)
    for alg in ("tanh", "elu"):
        np.testing.assert_array_equal(_run(alg, s, 1, 0), s)
    np.testing.assert_array_equal(
        _run("log", np.abs(s), 0, 0), np.log(np.abs(s).astype(np.longdouble)).astype(dtype)
    )


@pytest.mark.parametrize(
    ("alg", "most"), [("swish", 104), ("gelu_tanh", 11), ("gelu_erf", 14.75), ("mish", 104)]
)
def test_f32_gradients_are_near_those_of_f64(alg: str, most: float) -> None:
    s = _spread(_F32)
    s = s[np.abs(s) < 1e30]
    found = _run(f"{alg}_gradient", s, 1, 0)
    wanted = _run(f"{alg}_gradient", s.astype(np.float64), 1, 0)
    assert np.abs(found - wanted).max() < 3e-7
    far = (s < -1.5) & (s > -0.75 * most)  # nothing cancels there
    np.testing.assert_allclose(found[far], wanted[far], rtol=3e-6)
    assert (found[s > most] == 1).all()
    assert np.isnan(_run(f"{alg}_gradient", np.array([np.nan], _F32), 1, 0)).all()
