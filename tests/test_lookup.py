"""Bytes by tables: what the tables hold, where they are used, and the bits that kernels make with them."""

from __future__ import annotations

from itertools import product

import ml_dtypes
import numpy as np
import pytest

from restride.desc.memory_desc import MemoryDesc
from restride.dtypes import DataType
from restride.emit.lookup import entries
from restride.plan.compute import Compute
from restride.plan.reorder import reorder_nest
from restride.targets import cpu
from restride.targets.isa import Isa
from support.kernels import COMMON, check, compiled, destination, elements, room, runnable

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
    return cpu.lower(reorder_nest(*tags, Compute()), isa, COMMON).ir()


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
        made = _run(src, dst, codes, isa)
        np.testing.assert_array_equal(made.view(np.int8), expected)


@pytest.mark.parametrize("kind", _FLOATS)
def test_integers_become_floats_of_8_bits_as_ml_dtypes_makes_them(kind: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    src, dst = MemoryDesc((256,), "s8", "a"), MemoryDesc((256,), kind, "a")
    expected = codes.view(np.int8).astype(np.float32).astype(_TWINS[kind]).view(np.uint8)
    for isa in runnable():
        np.testing.assert_array_equal(_run(src, dst, codes, isa), expected)


def _run(src: MemoryDesc, dst: MemoryDesc, codes: np.ndarray, isa: Isa) -> np.ndarray:
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


@pytest.mark.parametrize("level", ["generic", "neon"])
def test_other_instruction_sets_compute(level: str) -> None:
    text = _ir("s4", "f8_e4m3", Isa.for_name(level))
    assert "pshuf.b" not in text
    assert "vpermi2var" not in text


def test_wider_types_and_integers_have_no_table() -> None:
    assert not entries(DataType.f8_e4m3, DataType.f16)
    assert not entries(DataType.u8, DataType.s8)
    assert not entries(DataType.f8_e4m3, DataType.f8_e4m3)
    assert entries(DataType.f8_e4m3, DataType.f8_e5m2) == 256
    assert entries(DataType.u4, DataType.f8_e5m2) == 16
