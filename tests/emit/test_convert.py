"""Compiled conversions equal the numeric contract bit for bit: every pattern, on every instruction set."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import re
from collections.abc import Sequence
from itertools import product
from typing import TypeVar

import ml_dtypes
import numpy as np
import pytest

from restride.desc.memory_desc import MemoryDesc
from restride.dtypes import DataType
from restride.emit.builder import Builder, Value, i64, vector
from restride.emit.compute import StepInputs, load_scalars, run_steps
from restride.emit.convert import bits_type, carrier_bits, convert, entries, real_type
from restride.ir.conversion import PROVIDED, storage_dtype
from restride.ir.conversion import Inputs as ContractInputs
from restride.ir.conversion import convert as contract
from restride.ir.digits import reorder_nest
from restride.ir.nest import Compute, linear
from restride.targets import cpu, jit
from restride.targets.cpu_ir import style_of
from restride.targets.isa import Isa
from support.kernels import (
    COMMON,
    LEVELS,
    check,
    compiled,
    destination,
    elements,
    factors_of,
    isa_id,
    room,
    runnable,
)
from support.machine_code import loaded
from support.values import Bits, patterns

T = TypeVar("T")

# --- convert -----------------------------------------------------------------

# Without what the host has beyond its level: conversions use none of it.
_ISAS = tuple(isa for isa in runnable() if isa == Isa.for_name(isa.name)) or runnable()
_ALPHAS = (1.0, 0.0, -0.0, 0.5, -3.7, 1e-30, 2.0**-149, 4294967295.0, math.inf, -math.inf, math.nan)
_BETAS = (1.0, 0.0, -0.0, -0.25, 3e38, math.inf, math.nan)
# Every alpha and every beta, and some of the products.
_BOTH = [*zip(_ALPHAS, itertools.cycle(_BETAS), strict=False), (0.5, 0.5), (math.inf, -math.inf), (0.0, 0.0)]


def _name(src: DataType, dst: DataType, what: Compute) -> str:
    return "_".join([str(src), str(dst), *(step.name for step in what.steps)])


def _function(src: DataType, dst: DataType, what: Compute, isa: Isa) -> tuple[str, dict[str, str]]:
    """IR of `void name(src, dst, params, count)` that converts `count` vectors, and what it declares."""
    b, lanes = Builder(), _lanes(isa)
    scalars = load_scalars(b, what, Value("ptr", "%params"), 0, real_type(src, dst, what))
    with b.loop(i64(0), Value("i64", "%count")) as step:
        at = b.advance(Value("ptr", "%src"), b.op("mul", step, i64(lanes * carrier_bits(src) // 8)))
        to = b.advance(Value("ptr", "%dst"), b.op("mul", step, i64(lanes * carrier_bits(dst) // 8)))
        value = _load(b, at, src, lanes)
        old = _load(b, to, dst, lanes) if what.reads_destination else None
        can = style_of(isa).can
        if what.is_move:
            result = convert(b, value, src, dst, can)
        else:
            inputs = StepInputs(scalars, _no_tensor, lambda _: old)
            result = run_steps(b, value, (src, dst), what, inputs, can)
        b.line(f"store {result}, {to}, align 1")
    b.line("ret void")
    head = f"define void @{_name(src, dst, what)}(ptr %src, ptr %dst, ptr %params, i64 %count) nounwind"
    return f"{head} {{\nentry:\n{b.body()}\n}}", b.declared


def _load(b: Builder, at: Value, data_type: DataType, lanes: int) -> Value:
    kind = vector(bits_type(data_type), lanes)
    return b.value(kind, f"load {kind}, {at}, align 1")


def _lanes(isa: Isa) -> int:
    return isa.vector_bytes // 4


def _no_tensor(index: int) -> Value:
    raise AssertionError(f"no operand {index} was asked for")


@functools.cache
def _library(isa: Isa, src: DataType, what: Compute) -> jit.Library:
    """The conversions of one type into all others."""
    return loaded(_module(isa, src, what), isa)


def _module(isa: Isa, src: DataType, what: Compute) -> str:
    made = [_function(src, dst, what, isa) for dst in PROVIDED]
    declared = {name: text for _, needs in made for name, text in needs.items()}
    return "\n".join([*declared.values(), *(text for text, _ in made)])


def _run(
    isa: Isa, types: tuple[DataType, DataType], what: Compute, src: Bits, old: Bits, factors: object
) -> Bits:
    lanes = _lanes(isa)
    whole = -(-src.size // lanes) * lanes
    read = _padded(_carried(src, types[0]), whole)
    written = _padded(_carried(old, types[1]), whole)
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)
    call = kind(_library(isa, types[0], what).address(_name(*types, what)))
    params = np.array(factors, np.float32).astype(np.float64)
    call(read.ctypes.data, written.ctypes.data, params.ctypes.data, whole // lanes)
    return written[: src.size] & np.uint8(15) if types[1].bits == 4 else written[: src.size]


def _carried(bits: Bits, data_type: DataType) -> Bits:
    """As registers carry it: s4 with its sign."""
    return (bits ^ np.uint8(8)) - np.uint8(8) if data_type is DataType.s4 else bits


def _padded(bits: Bits, size: int) -> Bits:
    data = room(size * bits.itemsize).view(bits.dtype)
    data[: bits.size] = bits
    return data


@functools.cache
def _old(data_type: DataType, size: int) -> Bits:
    """Old values of a destination: all patterns, out of step with the source's."""
    return np.resize(np.roll(patterns(data_type)[::-1], 12345), size)


def _check(
    types: tuple[DataType, DataType], what: Compute, alpha: float, beta: float, isas: Sequence[Isa] = _ISAS
) -> None:
    src = patterns(types[0])
    old = _old(types[1], src.size)
    scalars = factors_of(what, alpha, beta)
    wanted = contract(src, types, what, ContractInputs(old, tuple(scalars)))
    for isa in isas:
        got = _run(isa, types, what, src, old, scalars)
        if (got == wanted).all():
            continue
        bad = np.flatnonzero(got != wanted)
        i = int(bad[0])
        pytest.fail(
            f"{isa_id(isa)}: {types[0]} {int(src[i]):#x} to {types[1]} (held {int(old[i]):#x}, {what}, "
            f"{alpha}, {beta}) gave {int(got[i]):#x} for {int(wanted[i]):#x}; {bad.size} of {src.size} differ"
        )


_SOURCES = pytest.mark.parametrize("src", PROVIDED, ids=str)
# At every change some factors for each pair of types, and each for some, on the narrowest instruction set and
# the widest. The others take their time.
_SHARE = pytest.mark.parametrize("is_all", [False, pytest.param(True, marks=pytest.mark.slow)])


def _some(factors: Sequence[T], src: DataType, dst: DataType, is_all: bool) -> Sequence[T]:
    first = PROVIDED.index(src) + 2 * PROVIDED.index(dst)
    return factors if is_all else [factors[i % len(factors)] for i in range(first, first + 3)]


def _isas(is_all: bool) -> Sequence[Isa]:
    return _ISAS if is_all else tuple(dict.fromkeys((_ISAS[0], _ISAS[-1])))


@_SOURCES
def test_every_pattern_converts_as_the_contract_says(src: DataType) -> None:
    for dst in PROVIDED:
        _check((src, dst), Compute(), 1.0, 0.0)


@_SOURCES
@_SHARE
def test_every_pattern_is_scaled_as_the_contract_says(src: DataType, is_all: bool) -> None:
    for dst in PROVIDED:
        for alpha in _some(_ALPHAS, src, dst, is_all):
            _check((src, dst), linear(scaled=True), alpha, 0.0, _isas(is_all))


@_SOURCES
@_SHARE
def test_every_pattern_is_added_as_the_contract_says(src: DataType, is_all: bool) -> None:
    for dst in PROVIDED:
        for beta in _some(_BETAS, src, dst, is_all):
            _check((src, dst), linear(summed=True), 1.0, beta, _isas(is_all))


@_SOURCES
@_SHARE
def test_every_pattern_is_scaled_and_added_as_the_contract_says(src: DataType, is_all: bool) -> None:
    for dst in PROVIDED:
        for alpha, beta in _some(_BOTH, src, dst, is_all):
            _check((src, dst), linear(scaled=True, summed=True), alpha, beta, _isas(is_all))


@pytest.mark.sweep(1)
@_SOURCES
@pytest.mark.parametrize("level", [*LEVELS, "neon"])
def test_no_conversion_calls_anything(src: DataType, level: str) -> None:
    """No libm and no compiler run time: those may round otherwise, or not be there."""
    isa = Isa.for_name(level)
    for what in (Compute(), linear(scaled=True, summed=True)):
        text = jit.assembly(_module(isa, src, what), isa)
        assert re.findall(r"^\s+(?:call\w*|blr?|jmp\w*\s+\S+@PLT)\s.*$", text, re.MULTILINE) == []


@pytest.mark.parametrize("src", ["f64", "f32", "bf16", "f16"])
def test_no_signalling_nan_is_left_to_the_minimum_of_aarch64(src: str) -> None:
    """`fmaxnm` gives a NaN for a signalling one, where a comparison and a selection give the limit."""
    isa = Isa.for_name("neon")
    for what in (Compute(), linear(scaled=True, summed=True)):
        text = jit.assembly(_module(isa, DataType[src], what), isa)
        assert set(re.findall(r"\b(?:fmax|fmin)\w*", text)) == set()
        assert "fcvtns" in text


@pytest.mark.slow
@pytest.mark.parametrize("quarter", range(4))
@pytest.mark.parametrize("dst", [kind for kind in PROVIDED if kind is not DataType.f32], ids=str)
def test_all_floats_convert_as_the_contract_says(dst: DataType, quarter: int) -> None:
    """All 2**32 patterns of f32."""
    step = 1 << 22
    nothing = np.zeros(step, storage_dtype(dst))
    for first in range(quarter << 30, quarter + 1 << 30, step):
        src = np.arange(first, first + step, dtype=np.uint64).astype(np.uint32)
        wanted = contract(src, (DataType.f32, dst), Compute(), ContractInputs())
        for isa in _ISAS:
            got = _run(isa, (DataType.f32, dst), Compute(), src, nothing, ())
            assert (got == wanted).all(), (isa_id(isa), hex(int(src[np.flatnonzero(got != wanted)[0]])))


# --- lookup ------------------------------------------------------------------
# Bytes by tables: what the tables hold, where they are used, and the bits that kernels make with them.

_FLOATS = ("f8_e5m2", "f8_e4m3")
_OTHERS = ("s8", "u8", "s4", "u4", "boolean")
_PAIRS = [
    pair
    for pair in product((*_FLOATS, *_OTHERS), repeat=2)
    if set(pair) & set(_FLOATS) and len(set(pair)) > 1
]
_LAYOUTS = {"copy": ("ab", "ab"), "transpose": ("ab", "ba"), "blocks": ("ab", "AB4b16a4b")}
_TWINS = {"f8_e5m2": ml_dtypes.float8_e5m2, "f8_e4m3": ml_dtypes.float8_e4m3fn}


def _vbmi() -> Isa:
    base = Isa.for_name("avx512")
    return Isa(base.name, base.vector_bytes, base.triple, base.cpu, f"{base.features},+avx512vbmi")


def _ir(src: str, dst: str, isa: Isa) -> str:
    tags = (MemoryDesc((64, 64), src, "ab"), MemoryDesc((64, 64), dst, "ba"))
    return cpu.lower_nest(reorder_nest(*tags, Compute()), isa, COMMON).ir()


@pytest.mark.sweep(1)
@pytest.mark.parametrize("layout", _LAYOUTS)
@pytest.mark.parametrize(("src_type", "dst_type"), _PAIRS, ids="->".join)
def test_every_code_becomes_what_the_contract_says(src_type: str, dst_type: str, layout: str) -> None:
    src_tag, dst_tag = _LAYOUTS[layout]
    if DataType.parse(dst_type).bits == 4 or DataType.parse(src_type).bits == 4:
        dst_tag = "ab"
    src = MemoryDesc((83, 22), src_type, src_tag)
    dst = MemoryDesc((83, 22), dst_type, dst_tag)
    data = room(elements(src) * src.data_type.bits // 8)
    data[:] = np.resize(np.arange(256, dtype=np.uint8), data.size)
    check(reorder_nest(src, dst, Compute()), data, destination(dst), runnable())


@pytest.mark.parametrize("kind", _FLOATS)
def test_floats_of_8_bits_become_integers_as_numpy_makes_them(kind: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    src, dst = MemoryDesc((256,), kind, "a"), MemoryDesc((256,), "s8", "a")
    values = codes.view(_TWINS[kind]).astype(np.float32)
    expected = np.clip(np.rint(np.nan_to_num(values, posinf=127, neginf=-128)), -128, 127).astype(np.int8)
    for isa in runnable():
        made = _run_of_lookup(src, dst, codes, isa)
        np.testing.assert_array_equal(made.view(np.int8), expected)


@pytest.mark.parametrize("kind", _FLOATS)
def test_integers_become_floats_of_8_bits_as_ml_dtypes_makes_them(kind: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    src, dst = MemoryDesc((256,), "s8", "a"), MemoryDesc((256,), kind, "a")
    expected = codes.view(np.int8).astype(np.float32).astype(_TWINS[kind]).view(np.uint8)
    for isa in runnable():
        np.testing.assert_array_equal(_run_of_lookup(src, dst, codes, isa), expected)


def _run_of_lookup(src: MemoryDesc, dst: MemoryDesc, codes: np.ndarray, isa: Isa) -> np.ndarray:
    held, made = room(codes.size), room(codes.size)
    held[:] = codes
    compiled(reorder_nest(src, dst, Compute()), isa)(held.ctypes.data, made.ctypes.data)
    return made


def test_256_codes_are_looked_up_where_one_instruction_does_it() -> None:
    assert "vpermi2var.qi" in _ir("f8_e4m3", "s8", _vbmi())
    assert "vpermi2var.qi" not in _ir("f8_e4m3", "s8", Isa.for_name("avx512"))


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse41"])
def test_16_codes_are_looked_up_on_every_level_that_shuffles_bytes(level: str) -> None:
    assert "pshuf.b" in _ir("s4", "f8_e4m3", Isa.for_name(level))


def test_other_instruction_sets_compute() -> None:
    text = _ir("s4", "f8_e4m3", Isa.for_name("generic"))
    assert "pshuf.b" not in text
    assert "vpermi2var" not in text


def test_wider_types_and_integers_have_no_table() -> None:
    assert not entries(DataType.f8_e4m3, DataType.f16)
    assert not entries(DataType.u8, DataType.s8)
    assert not entries(DataType.f8_e4m3, DataType.f8_e4m3)
    assert entries(DataType.f8_e4m3, DataType.f8_e5m2) == 256
    assert entries(DataType.u4, DataType.f8_e5m2) == 16
