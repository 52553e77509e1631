"""The operations that formulas are made of: NumPy's are IEEE's, and compiled ones have the same bits."""

from __future__ import annotations

import functools
import math
import operator

import numpy as np
import pytest

from restride.dtypes import DataType
from restride.emit.builder import Builder, Value
from restride.emit.compute import VectorArithmetic
from restride.ir.arithmetic import Arithmetic, NumpyArithmetic, Term, V
from restride.targets.isa import Isa
from support.formulas import ISAS, TYPES, Compiled, Formula, Reals, unlike
from support.kernels import isa_id
from support.values import patterns

_NUMPY: Arithmetic[Reals] = NumpyArithmetic()
_TYPES = pytest.mark.parametrize("dtype", list(TYPES.values()), ids=str)


def _over_terms(formula: Formula) -> Formula:
    """A formula of terms as one of plain values."""

    def run(ar: Arithmetic[V], *given: V) -> V:
        result: V = formula(*(Term(ar, value) for value in given)).value
        return result

    return run


def _by_bits(change: Formula) -> Formula:
    return lambda x, y, z: change(x.bits(), y.bits(), z.bits()).real()


_FORMULAS = {
    "add": lambda x, y, z: x + y,
    "sub": lambda x, y, z: x - y,
    "mul": lambda x, y, z: x * y,
    "div": lambda x, y, z: x / y,
    "not_fused": lambda x, y, z: x * y + z,
    "from_number": lambda x, y, z: 1.0 - x,
    "by_number": lambda x, y, z: 2.5 / (x * 0.3),
    "sqrt": lambda x, y, z: x.sqrt(),
    "round": lambda x, y, z: x.round(),
    "less": lambda x, y, z: (x < y).where(x, y),
    "more": lambda x, y, z: (x > y).where(x, y),
    "equal": lambda x, y, z: x.equals(y).where(z, x),
    "both": lambda x, y, z: ((x < y) & (y < z)).where(1.0, x),
    "either": lambda x, y, z: ((x < y) | (y < z)).where(x, x.number(-math.inf)),
    "widened": lambda x, y, z: (x.widen() * y.widen() + z.widen()).narrow(x),
    "bit_sum": _by_bits(lambda x, y, z: x + y - z),
    "bit_sets": _by_bits(lambda x, y, z: (x & y) | (z & 0x7FFFFFFF)),
    "bit_shifts": _by_bits(lambda x, y, z: (x << 3) + (y >> 5)),
}
_PLAIN = {name: _over_terms(formula) for name, formula in _FORMULAS.items()}


@functools.cache
def _compiled(isa: Isa) -> Compiled:
    return Compiled(isa, _PLAIN)


@functools.cache
def _operands(dtype: np.dtype) -> tuple[Reals, Reals, Reals]:
    """Every pattern beside others; beside values of about its own size; beside itself."""
    kind = DataType.f32 if dtype == np.float32 else DataType.f64
    x = patterns(kind).view(dtype)
    rng = np.random.default_rng(4)
    y = np.concatenate([rng.permutation(x), np.roll(x, 1), x])
    z = np.concatenate([rng.permutation(x), np.roll(x, 2), -np.roll(x, 1)])
    return np.tile(x, 3), y, z


@_TYPES
@pytest.mark.parametrize("name", _PLAIN)
def test_compiled_operations_have_the_bits_of_numpy(name: str, dtype: np.dtype) -> None:
    given = _operands(dtype)
    wanted = _PLAIN[name](_NUMPY, *given)
    assert wanted.dtype == dtype
    for isa in ISAS:
        bad = np.flatnonzero(unlike(_compiled(isa)(name, *given), wanted))
        assert bad.size == 0, (isa_id(isa), [array[bad[0]] for array in given], bad.size)


@_TYPES
@pytest.mark.parametrize("name", ["add", "sub", "mul"])
def test_each_operation_rounds_once(name: str, dtype: np.dtype) -> None:
    """80-bit floats, where there are any, hold sums and products of these exactly."""
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("needs 80-bit floats")
    rng = np.random.default_rng(5)
    digits = 11 if dtype == np.float64 else 0
    x, y = ((rng.integers(-(2**31), 2**31, 10000) << digits).astype(dtype) for _ in range(2))
    exact = getattr(operator, name)(x.astype(np.longdouble), y.astype(np.longdouble))
    np.testing.assert_array_equal(_PLAIN[name](_NUMPY, x, y, y), exact.astype(dtype))


@_TYPES
def test_products_are_not_fused_with_sums(dtype: np.dtype) -> None:
    """(1 + e)**2 is 1 + 2 e after rounding, so that nothing is left."""
    e = dtype.type(2.0 ** -(np.finfo(dtype).nmant // 2 + 1))
    x, z = np.full(16, 1 + e, dtype), np.full(16, -(1 + 2 * e), dtype)
    for run in (functools.partial(_PLAIN["not_fused"], _NUMPY), *(_call(isa, "not_fused") for isa in ISAS)):
        assert not run(x, x, z).any()


def _call(isa: Isa, name: str) -> functools.partial:
    return functools.partial(_compiled(isa), name)


@_TYPES
def test_halves_round_to_even_and_zeros_keep_their_sign(dtype: np.dtype) -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.25, -0.25, -0.0, math.inf, -math.inf, 1e30], dtype)
    wanted = np.array([0.0, 2.0, 2.0, -0.0, -2.0, 0.0, -0.0, -0.0, math.inf, -math.inf, 1e30], dtype)
    assert not unlike(_PLAIN["round"](_NUMPY, x, x, x), wanted).any()
    for isa in ISAS:
        assert not unlike(_compiled(isa)("round", x, x, x), wanted).any()


@_TYPES
def test_comparisons_with_nan_do_not_hold(dtype: np.dtype) -> None:
    nan, one = np.array([math.nan], dtype), np.array([1], dtype)
    for name in ("less", "more"):
        assert _PLAIN[name](_NUMPY, nan, one, one) == 1
        assert np.isnan(_PLAIN[name](_NUMPY, one, nan, one))
    assert np.isnan(_PLAIN["equal"](_NUMPY, nan, nan, one))


def test_f64_narrows_to_the_type_asked_for() -> None:
    x = np.array([0.1, 1e300, 1e-310, math.inf])
    np.testing.assert_array_equal(_NUMPY.narrow(x, x), x)
    assert _NUMPY.narrow(x, np.float32([0])).tolist() == [float(np.float32(0.1)), math.inf, 0.0, math.inf]
    assert _NUMPY.widen(np.float32([0.1])).tolist() == [float(np.float32(0.1))]


@_TYPES
@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (4, 1, 2)], ids=str)
def test_arrays_of_any_shape_compute_without_warnings(shape: tuple[int, ...], dtype: np.dtype) -> None:
    x = np.full(shape, np.finfo(dtype).max, dtype)
    zero = np.zeros(shape, dtype)
    for run in _PLAIN.values():
        result = run(_NUMPY, x, zero, -x)
        assert result.shape == shape
        assert result.dtype == dtype


@_TYPES
def test_shapes_broadcast_and_need_not_be_contiguous(dtype: np.dtype) -> None:
    x = np.arange(12, dtype=dtype).reshape(3, 4).T
    y = np.arange(3, dtype=dtype)
    np.testing.assert_array_equal(_PLAIN["not_fused"](_NUMPY, x, y, x), x * y + x)
    np.testing.assert_array_equal(_PLAIN["bit_sets"](_NUMPY, x, x, x), x)


@pytest.mark.parametrize("real", TYPES)
def test_constants_are_written_exactly(real: str) -> None:
    ar = VectorArithmetic(Builder())
    like = Value(f"<4 x {real}>", "%x")
    assert str(ar.constant(0.5, like)) == f"<4 x {real}> splat ({real} 0x3FE0000000000000)"
    assert str(ar.constant(-math.inf, like)) == f"<4 x {real}> splat ({real} 0xFFF0000000000000)"
    assert str(ar.constant(3, Value("<4 x i64>", "%x"))) == "<4 x i64> splat (i64 3)"
