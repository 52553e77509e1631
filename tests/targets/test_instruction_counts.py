"""Instructions of a kernel, counted in the text of its tiles: whole ones, by registers, for any target."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import restride as rs
from restride.ir.digits import reorder_nest
from restride.ir.nest import Compute, Step
from restride.schedule.cost import Instructions
from restride.targets.cpu import lower_nest
from restride.targets.instructions import instructions_of
from restride.targets.isa import CacheSizes, Isa

_CACHES = CacheSizes(l2=1 << 20, l3=32 << 20)
_DIMS = (4, 64, 32, 32)
_ELEMENTS = 4 * 64 * 32 * 32


def _count(
    src: str, dst: str, compute: Compute | None = None, isa: str = "avx512", dims: tuple[int, ...] = _DIMS
) -> Instructions:
    sides = (rs.MemoryDesc(dims, *each.split()) for each in (src, dst))
    nest = reorder_nest(*sides, compute or Compute())
    found = instructions_of(lower_nest(nest, Isa.for_name(isa), _CACHES), _CACHES)
    assert found is not None
    return found


@pytest.mark.parametrize(("isa", "lanes"), [("avx512", 16), ("avx2", 8), ("sse41", 4), ("neon", 4)])
def test_a_copy_loads_and_stores_each_register_once(isa: str, lanes: int) -> None:
    assert _count("f32 nchw", "f32 nchw", isa=isa) == (_ELEMENTS / lanes, _ELEMENTS / lanes, 0)


@pytest.mark.parametrize("isa", ["avx512", "avx2", "sse41", "neon"])
def test_transposes_store_no_less_than_copies_and_permute_besides(isa: str) -> None:
    copy, turned = (_count("f32 nchw", f"f32 {tag}", isa=isa) for tag in ("nchw", "nhwc"))
    assert copy.stores <= turned.stores <= 2 * copy.stores
    assert 2 * copy.simple < turned.simple < 8 * copy.simple


def test_twice_the_images_are_twice_the_instructions() -> None:
    for tag in ("nchw", "nhwc", "nChw16c"):
        one, two = (_count("f32 nchw", f"s8 {tag}", dims=(n, *_DIMS[1:])) for n in (4, 8))
        assert two == pytest.approx([2 * each for each in one])


def test_conversions_scales_and_functions_add_to_what_a_move_has() -> None:
    chains: list[Any] = [(), ("mul",), ("mul", "add"), ("mul", "add", "exp")]
    simple = [_count("s8 nchw", "f32 nhwc", Compute(tuple(map(Step, each)))).simple for each in chains]
    assert simple == sorted(set(simple))
    assert _count("s8 nchw", "s8 nhwc").simple < simple[0]


def test_code_for_values_that_are_seldom_does_not_count() -> None:
    """To bf16, where an instruction converts all but subnormal values."""
    md = rs.MemoryDesc(_DIMS, "f32", "nchw")
    nest = reorder_nest(md, rs.MemoryDesc(_DIMS, "bf16", "nchw"), Compute())
    base = Isa.for_name("avx512")
    isas = base, replace(base, features=f"{base.features},+avx512bf16")
    by_hand, converted = (instructions_of(lower_nest(nest, isa, _CACHES), _CACHES) for isa in isas)
    assert by_hand
    assert converted
    assert converted.stores == by_hand.stores
    assert converted.simple < by_hand.simple / 2


def test_rows_a_power_of_two_apart_crowd_and_others_do_not() -> None:
    assert _count("u8 ab", "u8 ba", dims=(4096, 4096)).crowded > 0
    assert _count("u8 ab", "u8 ba", dims=(4032, 4032)).crowded == 0


def test_partial_tiles_count_as_tiles() -> None:
    whole, cut = (_count("f32 nchw", "f32 nhwc", dims=(4, 64, 32, n)) for n in (32, 31))
    assert 0.8 * whole.simple < cut.simple < 1.3 * whole.simple
