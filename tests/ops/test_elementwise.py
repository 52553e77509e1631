"""Elementwise: functions of elements of every type, beside NumPy, in formats, broadcasts and on engines."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.computed import computed, elements, padding_is_zero
from support.errors import refused

PD = rs.onednn.Elementwise.PrimitiveDesc
CPU = rs.Engine("cpu")
ARGS = rs.ARG_SRC_0, rs.ARG_SRC_1, rs.ARG_SRC_2
SIGNED, UNSIGNED = ("s8", "s16", "s32", "s64"), ("u8", "u16", "u32", "u64")
INTEGERS, REALS = (*SIGNED, *UNSIGNED), ("f32", "f64")


def md(values, data_type=None, format=None):
    return rs.MemoryDesc(
        values.shape, data_type or rs.DataType.parse(values.dtype), format or "abcd"[: values.ndim]
    )


def result(engine, algorithm, *sources, to=None, **numbers):
    """The function of arrays, row-major."""
    dims = np.broadcast_shapes(*(x.shape for x in sources))
    first = sources[1] if algorithm == "where" else sources[0]
    dst = rs.MemoryDesc(dims, to or rs.DataType.parse(first.dtype), "abcd"[: len(dims)])
    pd = PD(engine, algorithm, dst, *map(md, sources), **numbers)
    made = computed(rs.onednn.Elementwise, pd, engine, dict(zip(ARGS, sources, strict=False)), rs.ARG_DST)
    return elements(made[rs.ARG_DST])


def integers(kind, count=97, seed=0, nonzero=False):
    """Numbers of all sizes, the ends of the range and those about 0 among them."""
    dtype = rs.DataType.parse(kind).numpy
    info, random = np.iinfo(dtype), np.random.default_rng((seed, len(kind), ord(kind[0]), int(kind[1:])))
    bits = random.integers(0, 2**63, count, np.uint64) >> random.integers(0, 64, count, np.uint64)
    values = (bits * random.choice([1, -1], count).astype(np.int64).astype(np.uint64)).astype(dtype)
    ends = np.array([info.min, info.max, 0, 1, info.max - 1, 3], dtype)
    values[: ends.size] = np.roll(ends, seed)
    return np.where(values == 0, dtype.type(1), values) if nonzero else values


def reals(kind, count=97, seed=0):
    """Numbers of all sizes; zeros of both signs, infinities, subnormals and NaN among them."""
    random, dtype = np.random.default_rng(seed), np.dtype({"f32": np.float32, "f64": np.float64}[kind])
    most = 38 if kind == "f32" else 300
    values = random.choice([-1, 1], count) * 10.0 ** random.uniform(-most, most, count)
    values[: count // 2] = random.standard_normal(count // 2) * 3
    info = np.finfo(dtype)
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, info.tiny / 4, -info.tiny / 2, info.max, 1, -1, 0.5, 2]
    values = values.astype(dtype)
    values[: len(ends)] = np.roll(np.array(ends, dtype), seed)
    return values


def truncated(a, b):
    """Division toward zero by Python's integers; by 0 it is 0."""
    return [0 if not y else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in _pairs(a, b)]


def _pairs(a, b):
    return zip(a.tolist(), b.tolist(), strict=True)


def wrapped(numbers, dtype):
    bits = dtype.itemsize * 8
    return np.array([n % (1 << bits) for n in numbers], np.uint64).astype(f"u{dtype.itemsize}").view(dtype)


BY_PYTHON = {
    "add": lambda a, b: [x + y for x, y in _pairs(a, b)],
    "sub": lambda a, b: [x - y for x, y in _pairs(a, b)],
    "mul": lambda a, b: [x * y for x, y in _pairs(a, b)],
    "div": truncated,
    "fmod": lambda a, b: [
        0 if not y else x - q * y for (x, y), q in zip(_pairs(a, b), truncated(a, b), strict=True)
    ],
    "mod": lambda a, b: [x % y if y else 0 for x, y in _pairs(a, b)],
    "floor_divide": lambda a, b: [x // y if y else 0 for x, y in _pairs(a, b)],
    "min": lambda a, b: [min(x, y) for x, y in _pairs(a, b)],
    "max": lambda a, b: [max(x, y) for x, y in _pairs(a, b)],
    "bitwise_and": lambda a, b: [x & y for x, y in _pairs(a, b)],
    "bitwise_or": lambda a, b: [x | y for x, y in _pairs(a, b)],
    "bitwise_xor": lambda a, b: [x ^ y for x, y in _pairs(a, b)],
}


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("algorithm", BY_PYTHON)
def test_integers_are_computed_exactly_and_wrap(engine, algorithm, kind):
    a, b = integers(kind), integers(kind, seed=1)
    found = result(engine, algorithm, a, b)
    np.testing.assert_array_equal(found, wrapped(BY_PYTHON[algorithm](a, b), a.dtype))


@pytest.mark.parametrize("kind", INTEGERS)
def test_powers_shifts_and_signs_of_integers(engine, kind):
    a, dtype = integers(kind), rs.DataType.parse(kind).numpy
    bits = dtype.itemsize * 8
    exponents = np.resize(np.array([0, 1, 2, 3, 5, 7, 31, 63, 100, 127]), a.size).astype(dtype)
    wanted = [x ** int(y) for x, y in _pairs(a, exponents)]
    np.testing.assert_array_equal(result(engine, "pow", a, exponents), wrapped(wanted, dtype))
    counts = np.resize(np.arange(bits + 3), a.size).astype(dtype)
    left = [x << y if y < bits else 0 for x, y in _pairs(a, counts)]
    np.testing.assert_array_equal(result(engine, "shift_left", a, counts), wrapped(left, dtype))
    right = [x >> y for x, y in _pairs(a, counts)]
    np.testing.assert_array_equal(result(engine, "shift_right", a, counts), wrapped(right, dtype))
    for name, function in {"neg": lambda x: -x, "abs": abs, "bitwise_not": lambda x: ~x}.items():
        np.testing.assert_array_equal(result(engine, name, a), wrapped(map(function, a.tolist()), dtype))
    np.testing.assert_array_equal(result(engine, "sign", a), np.sign(a))
    np.testing.assert_array_equal(result(engine, "relu", a), np.maximum(a, 0))


def test_negative_exponents_leave_what_is_whole(engine):
    a = np.array([0, 1, -1, -1, 2, -7], np.int32)
    b = np.array([-1, -5, -4, -5, -1, -2], np.int32)
    np.testing.assert_array_equal(result(engine, "pow", a, b), [0, 1, 1, -1, 0, 0])


COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@pytest.mark.parametrize("kind", [*INTEGERS, *REALS, "boolean"])
def test_comparisons_of_every_type_are_true_or_false(engine, kind):
    if kind == "boolean":
        a, b = (np.random.default_rng(seed).integers(0, 2, 97).astype(np.bool_) for seed in (0, 1))
    else:
        make = reals if kind in REALS else integers
        a, b = make(kind), make(kind, seed=1)
        b = np.where(np.arange(a.size) % 5 == 0, a, b)
    for name, function in COMPARISONS.items():
        found = result(engine, name, a, b, to="boolean")
        assert found.dtype == np.bool_
        np.testing.assert_array_equal(found, function(a, b), err_msg=name)
    for name, function in {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}.items():
        np.testing.assert_array_equal(result(engine, name, a, b, to="boolean"), function(a, b), err_msg=name)
    np.testing.assert_array_equal(result(engine, "not", a, to="boolean"), np.logical_not(a))


@pytest.mark.parametrize("kind", [*INTEGERS, *REALS, "boolean", "bf16", "f16", "f8_e4m3"])
def test_a_choice_gives_the_bits_of_its_elements(engine, kind):
    dtype = rs.DataType.parse(kind).numpy
    raw = np.random.default_rng(2).integers(0, 256, (2, 6, 1, 9, dtype.itemsize), np.uint8)
    a, b = (raw[0], raw[1]) if kind != "boolean" else (raw[0] & 1, raw[1] & 1)
    a, b = (each.view(dtype)[..., 0] for each in (a, b))
    condition = np.random.default_rng(3).integers(0, 2, (6, 5, 1)).astype(np.bool_)
    found = result(engine, "where", condition, a, b)
    bits = f"u{dtype.itemsize}"
    wanted = np.where(condition, a.view(bits), b.view(bits))
    np.testing.assert_array_equal(found.view(bits), wanted)


@pytest.mark.parametrize("kind", [*INTEGERS, *REALS])
def test_clip_takes_its_bounds_from_tensors(engine, kind):
    make = reals if kind in REALS else integers
    a, low, high = make(kind), make(kind, seed=1)[9:10], make(kind, seed=1)[20:21]
    np.testing.assert_array_equal(result(engine, "clip", a, low, high), np.minimum(np.maximum(a, low), high))


def test_casts_cut_off_fractions_and_keep_low_bits(engine):
    a = np.array([-129.9, -1.5, -0.5, 0.5, 1.99, 2.5, 300.7, 2**31 - 100, -(2.0**40), np.nan], np.float64)
    for kind in SIGNED:
        info = np.iinfo(rs.DataType.parse(kind).numpy)
        wanted = np.nan_to_num(np.trunc(a)).clip(info.min, info.max).astype(info.dtype)
        np.testing.assert_array_equal(result(engine, "truncate", a, to=kind), wanted)
    for kind in INTEGERS:
        values = integers(kind)
        for other in INTEGERS:
            np.testing.assert_array_equal(
                result(engine, "wrap", values, to=other), values.astype(rs.DataType.parse(other).numpy)
            )
    x = np.array([500, -1e6, np.inf, -np.inf, np.nan, 3, 1e-3], np.float32)
    within = result(engine, "within", x, to="f8_e4m3").astype(np.float32)
    np.testing.assert_array_equal(within[:6], [448, -448, 448, -448, np.nan, 3])


ROUNDINGS = {
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "sign": np.sign,
    "abs": np.abs,
    "neg": np.negative,
}


@pytest.mark.parametrize("kind", REALS)
def test_whole_numbers_and_signs_of_reals_are_exact(engine, kind):
    a = reals(kind)
    for name, function in ROUNDINGS.items():
        found, wanted = result(engine, name, a), function(a)
        np.testing.assert_array_equal(found, wanted, err_msg=name)
        is_signed = ~np.isnan(a) & (name != "sign")
        np.testing.assert_array_equal(
            np.signbit(found)[is_signed], np.signbit(wanted)[is_signed], err_msg=name
        )
    np.testing.assert_array_equal(result(engine, "is_nan", a, to="boolean"), np.isnan(a))
    for low, high in ((1, 1), (1, 0), (0, 1), (0, 0)):
        wanted = (bool(low) & np.isneginf(a)) | (bool(high) & np.isposinf(a))
        np.testing.assert_array_equal(result(engine, "is_inf", a, to="boolean", alpha=low, beta=high), wanted)


@pytest.mark.parametrize("kind", REALS)
def test_remainders_of_reals_are_exact(engine, kind):
    a, b = reals(kind, 500), reals(kind, 500, seed=1)
    with np.errstate(all="ignore"):
        found, wanted = result(engine, "fmod", a, b), np.fmod(a, b)
        np.testing.assert_array_equal(found, wanted)
        is_number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(wanted)[is_number])
        rest = np.where((wanted != 0) & ((wanted < 0) != (b < 0)), wanted + b, wanted)
        np.testing.assert_array_equal(result(engine, "mod", a, b), rest)
        few = np.abs(a / b) < 2**20
        np.testing.assert_array_equal(result(engine, "floor_divide", a, b)[few], np.floor_divide(a, b)[few])


# --- functions of reals -------------------------------------------------------------------------------------


def _places(found, wanted, dtype):
    """Return the largest error in units of the last place of `wanted`; ends must be equal."""
    wanted, info = wanted.astype(np.longdouble), np.finfo(dtype)
    rounded = wanted.astype(dtype)
    is_end = ~np.isfinite(rounded)
    np.testing.assert_array_equal(found[is_end], rounded[is_end])
    unit = np.maximum(np.spacing(np.abs(rounded)), info.smallest_subnormal)
    return float((np.abs(found.astype(np.longdouble) - wanted) / unit)[~is_end].max())


def _precise(name, x):
    mpmath = pytest.importorskip("mpmath")
    function = getattr(mpmath, name)
    with mpmath.workprec(1300 if name in ("sin", "cos", "tan") else 160):
        made = []
        for value in x.tolist():
            if value != value or (abs(value) == np.inf and name in ("sin", "cos", "tan", "acos", "asin")):
                made.append(np.nan)
                continue
            try:
                exact = function(mpmath.mpf(value))
            except (ValueError, ZeroDivisionError, OverflowError):
                exact = mpmath.nan
            is_complex = isinstance(exact, mpmath.mpc) and exact.imag != 0
            high = float("nan") if is_complex else float(mpmath.re(exact))
            low = 0.0 if is_complex or not np.isfinite(high) else float(mpmath.re(exact) - high)
            made.append(np.longdouble(high) + np.longdouble(low))
        return np.array(made, np.longdouble)


@pytest.mark.parametrize(
    ("name", "single", "double"),
    [
        ("sin", 0.51, 1.5), ("cos", 0.51, 1.5), ("tan", 0.51, 3), ("asin", 0.51, 2), ("acos", 0.51, 2),
        ("atan", 0.51, 2), ("sinh", 0.51, 4), ("cosh", 0.51, 4), ("asinh", 0.51, 4), ("acosh", 0.51, 4),
        ("atanh", 0.51, 4), ("expm1", 0.51, 2.5), ("log1p", 0.51, 3), ("erf", 2.5, 2),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", REALS)
def test_functions_of_reals_are_right_to_a_few_places(engine, name, single, double, kind):
    if engine.kind != "cpu" and kind == "f64":
        pytest.skip("the same formulas")
    x = reals(kind, 4000 if engine == CPU else 300)
    near = np.random.default_rng(5).uniform(-2, 2, x.size).astype(x.dtype)
    x = np.concatenate([x, near, near * 50, near * 1e-4])
    if name in ("sin", "cos", "tan"):
        turns = np.arange(1, 400) * (np.pi / 2) * 10.0 ** np.arange(1, 400).clip(0, 30)
        x = np.concatenate([x, turns.astype(x.dtype)])
    with np.errstate(all="ignore"):
        most = _places(result(engine, name, x), _precise(name, x), x.dtype)
    assert most <= (single if kind == "f32" else double), (name, most)


@pytest.mark.parametrize("kind", REALS)
def test_functions_of_two_and_with_numbers(engine, kind):
    a, b = reals(kind, 300), reals(kind, 300, seed=1)
    near = {"rtol": 4e-16 * (1 if kind == "f64" else 2**29), "atol": 0}
    with np.errstate(all="ignore"):
        found, wanted = result(engine, "atan2", a, b), np.arctan2(a, b)
        np.testing.assert_allclose(found, wanted, **near)
        is_number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(wanted)[is_number])
        powers = np.power(a.astype(np.longdouble), b.astype(np.longdouble)).astype(a.dtype)
        # Of f64 the error grows with the exponent, as `docs/primitives/elementwise.md` says.
        np.testing.assert_allclose(result(engine, "pow", a, b), powers, rtol=max(near["rtol"], 1e-14))
        x = a[np.isfinite(a)]
        celu = np.where(x < 0, 0.75 * np.expm1(x / a.dtype.type(0.75)), x)
        np.testing.assert_allclose(
            result(engine, "celu", x, alpha=0.75), celu, **(near | {"rtol": near["rtol"] * 3})
        )
        np.testing.assert_array_equal(
            result(engine, "thresholded_relu", x, alpha=0.5), np.where(x > a.dtype.type(0.5), x, 0)
        )
        shrunk = np.where(x < -1.5, x + a.dtype.type(0.25), np.where(x > 1.5, x - a.dtype.type(0.25), 0))
        np.testing.assert_array_equal(result(engine, "shrink", x, alpha=0.25, beta=1.5), shrunk)
        np.testing.assert_array_equal(result(engine, "softsign", x), x / (1 + np.abs(x)))
        ends = [result(engine, "lerp", x, x[::-1].copy(), np.full_like(x, end)) for end in (0, 1)]
        np.testing.assert_array_equal(ends, [x, x[::-1]])


# --- formats ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["abcd", "acdb", "aBcd16b", "dcba", (600, 20, 4, 1)])
def test_formats_and_broadcasts(engine, format):
    random = np.random.default_rng(7)
    a = random.integers(-100, 100, (2, 17, 5, 3)).astype(np.int64)
    b = random.integers(1, 100, (1, 17, 1, 3)).astype(np.int64)
    dst = rs.MemoryDesc(a.shape, "s64", format)
    pd = PD(engine, "mod", dst, rs.MemoryDesc(a.shape, "s64", format), rs.MemoryDesc(b.shape, "s64", "any"))
    made = computed(rs.onednn.Elementwise, pd, engine, {rs.ARG_SRC_0: a, rs.ARG_SRC_1: b}, rs.ARG_DST)[
        rs.ARG_DST
    ]
    np.testing.assert_array_equal(elements(made), np.mod(a, b))
    if not isinstance(format, tuple):
        assert padding_is_zero(made)
    tests = PD(
        engine, "gt", rs.MemoryDesc(a.shape, "boolean", "any"), dst, rs.MemoryDesc(b.shape, "s64", "abcd")
    )
    made = computed(rs.onednn.Elementwise, tests, engine, {rs.ARG_SRC_0: a, rs.ARG_SRC_1: b}, rs.ARG_DST)
    np.testing.assert_array_equal(elements(made[rs.ARG_DST]), a > b)


def test_open_formats_follow_and_bad_input_is_refused():
    x = rs.MemoryDesc((2, 16, 4, 4), "f32", "aBcd16b")
    pd = PD(CPU, "sin", rs.MemoryDesc(x.dims, "f32", "any"), x)
    assert (pd.dst_desc(), pd.get_algorithm(), pd.get_kind()) == (x, "elementwise_sin", "elementwise")
    with refused("wrong number of sources", "atan2 takes two"):
        PD(CPU, "atan2", x, x)
    with refused("bitwise_and does not support these types", "f32", kind=rs.Unimplemented):
        PD(CPU, "bitwise_and", x, x, x)
    with refused("algorithm is 'sine'"):
        PD(CPU, "sine", x, x)
    with refused("shapes cannot be broadcast"):
        PD(CPU, "mod", x, x, rs.MemoryDesc((2, 3, 4, 4), "f32", "abcd"))
    with refused("where does not support these types", kind=rs.Unimplemented):
        PD(CPU, "where", x, x, x, rs.MemoryDesc(x.dims, "s32", "abcd"))
