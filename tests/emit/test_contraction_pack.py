"""Contractions in packs: bytes by fours and floats of 16 bits by twos, on every instruction set."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restride.desc.memory_desc import MemoryDesc
from restride.targets import isa, jit
from restride.targets.cpu_kernels import lower_contraction
from restride.targets.isa import CacheSizes, Isa
from restride.targets.llvm_facts import llvm_facts
from restride.targets.lowered import Lowered
from support.contractions import ConvolutionShape, check_contraction, convolution_tree, product_tree
from support.effort import examples
from support.kernels import isa_id, runnable

BYTES, HALVES = ("u8 s8", "s8 s8", "u8 u8", "s8 u8"), ("bf16 bf16",)
NAN_BITS = 0xFF


@functools.cache
def levels() -> tuple[Isa, ...]:
    """The instruction sets of this machine, and caps between the levels."""
    own = isa.host_isa()
    found = [*runnable()]
    if own.name == "avx512":
        features = llvm_facts().features
        for cap in ("AVX2_VNNI", "AVX512_CORE_VNNI"):
            found.append(isa.choose("x86_64", own.triple, features, *isa._parse_cap("", cap)))
    return tuple(dict.fromkeys(found))


def _lowered(tree, level: Isa) -> Lowered:
    found = lower_contraction(tree, level, CacheSizes())
    assert found is not None
    return found


BLOCKS_OF_GROUPS = "nChw16c", "Goihw16g", "nChw16c"
# Features that have an instruction for both factors of depthwise convolutions.
_DOTS = dict.fromkeys(("u8 s8", "s8 s8", "u8 u8"), ("avx512vnni", "avxvnni")) | {"bf16 bf16": ("avx512bf16",)}
CONVOLUTIONS = [
    # (shape, formats of bytes, formats of floats of 16 bits)
    (
        ConvolutionShape(1, 1, 16, 32, 5, 9),
        ("nChw16c", "OIhw4i16o4i", "nChw16c"),
        ("nChw16c", "OIhw8i16o2i", "nChw16c"),
    ),
    (
        ConvolutionShape(2, 1, 23, 20, 7, 9, stride=2),
        ("nChw16c", "OIhw4i16o4i", "nChw16c"),
        ("nChw16c", "OIhw8i16o2i", "nChw16c"),
    ),
    (
        ConvolutionShape(1, 1, 21, 33, 5, 9, dilation=2, padding=2),
        ("nhwc", "OIhw4i16o4i", "nhwc"),
        ("nhwc", "OIhw8i16o2i", "nhwc"),
    ),
    (
        ConvolutionShape(1, 1, 3, 20, 9, 9, stride=2),
        ("nChw4c", "ABcd16a4b", "nChw16c"),
        ("aBcd2b", "ABcd16a2b", "nChw16c"),
    ),
    (ConvolutionShape(1, 1, 3, 20, 9, 9), ("nhwc", "ABcd16a4b", "nhwc"), ("nhwc", "ABcd16a2b", "nhwc")),
    (
        ConvolutionShape(1, 2, 6, 20, 5, 7),
        ("nhwc", "aBdeC16b4c", "nhwc"),
        ("nhwc", "aBdeC16b2c", "nhwc"),
    ),
    (
        ConvolutionShape(1, 1, 13, 9, 6, 20, (1, 1), padding=0),
        ("nChw8c", "OIhw2i8o4i", "nChw8c"),
        ("nChw8c", "ABcd4b8a2b", "nChw8c"),
    ),
]


def _cases() -> Iterator[tuple[ConvolutionShape, tuple[str, str, str], str]]:
    for number, (shape, of_bytes, of_halves) in enumerate(CONVOLUTIONS):
        for types in BYTES[number % 2 :: 3] if number else BYTES:
            yield shape, of_bytes, types
        for types in HALVES:
            yield shape, of_halves, types


@pytest.mark.sweep(1)
@pytest.mark.parametrize("level", levels(), ids=isa_id)
@pytest.mark.parametrize(("shape", "formats", "types"), [*_cases()], ids=str)
def test_convolutions_in_packs_equal_the_interpreter(shape, formats, types, level):
    descs = shape.descs(*formats, *types.split())
    tree = convolution_tree(shape, descs, is_relu=True)
    assert _lowered(tree, level).plan.pack is not None
    check_contraction(tree, descs, level, at_end=True)


DEPTHWISE = [
    (ConvolutionShape(1, 32, 1, 1, 7, 30), BLOCKS_OF_GROUPS),
    (ConvolutionShape(2, 20, 1, 1, 7, 9, stride=2), BLOCKS_OF_GROUPS),
    (ConvolutionShape(1, 16, 1, 1, 9, 21, (3, 5), padding=3, dilation=2), BLOCKS_OF_GROUPS),
    (ConvolutionShape(1, 16, 1, 1, 9, 21, (1, 9), padding=0), BLOCKS_OF_GROUPS),
    (ConvolutionShape(1, 20, 1, 1, 7, 9), ("nhwc", "decab", "nhwc")),
]


@pytest.mark.sweep(1)
@pytest.mark.parametrize("level", levels(), ids=isa_id)
@pytest.mark.parametrize("types", ["u8 s8", "s8 s8", "u8 u8", "bf16 bf16", "f32 f32"])
@pytest.mark.parametrize(("shape", "formats"), DEPTHWISE, ids=str)
def test_depthwise_convolutions_are_multiplied_lane_by_lane(shape, formats, types, level):
    descs = shape.descs(*formats, *types.split())
    tree = convolution_tree(shape, descs, is_relu=True)
    plan = _lowered(tree, level).plan
    assert plan.is_by_lanes
    is_dot = any(level.has(name) for name in _DOTS.get(types, ()))
    assert plan.is_dot == is_dot
    # More taps than are held in registers are read one after the other.
    assert plan.shared_taps == (shape.kernel[1] if shape.kernel[1] < 9 else 0)
    check_contraction(tree, descs, level, at_end=True)


_EXTENTS = st.integers(1, 40)


@settings(max_examples=examples(40))
@given(
    sizes=st.tuples(st.integers(1, 2), _EXTENTS, _EXTENTS, _EXTENTS),
    types=st.sampled_from((*BYTES, *HALVES)),
    block=st.sampled_from((8, 16)),
    level=st.sampled_from(levels()),
    padding=st.sampled_from((0, NAN_BITS)),
    at_end=st.booleans(),
)
def test_what_is_behind_the_last_pack_has_no_part_in_products(sizes, types, block, level, padding, at_end):
    batch, m, k, n = sizes
    first_type, second_type = types.split()
    pack = 2 if second_type == "bf16" else 4
    shapes = (batch, m, k), (batch, k, n), (batch, m, n)
    descs = (
        MemoryDesc(shapes[0], first_type, "abc"),
        MemoryDesc(shapes[1], second_type, f"aCB{block}c{pack}b"),
        MemoryDesc(shapes[2], "s32" if pack == 4 else "f32", "abc"),
    )
    tree = product_tree(*descs)
    found = lower_contraction(tree, level, CacheSizes())
    if found is None:
        assert 1 in (m, n)
        return
    check_contraction(tree, descs, level, at_end=at_end, padding=padding)


INSTRUCTIONS = [
    ("u8 s8", "AVX512_CORE_VNNI", "vpdpbusd"),
    ("u8 s8", "AVX2_VNNI", "vpdpbusd"),
    ("s8 s8", "AVX512_CORE_VNNI", "vpdpbusd"),
    ("bf16 bf16", "AVX512_CORE_BF16", "vdpbf16ps"),
]
FEATURES = ("avx512vnni", "avx512bf16", "avxvnni")


@pytest.mark.parametrize(("types", "cap", "instruction"), INSTRUCTIONS)
def test_an_instruction_multiplies_packs_where_the_cap_allows_it(types, cap, instruction):
    shape, of_bytes, of_halves = CONVOLUTIONS[0]
    descs = shape.descs(*(of_halves if types.startswith("bf16") else of_bytes), *types.split())
    tree = convolution_tree(shape, descs)
    has_all = {need: True for needs in isa._NEEDS.values() for need in needs} | dict.fromkeys(FEATURES, True)
    level, extras = isa._parse_cap("", cap)
    for allowed in (extras, frozenset[str]()):
        chosen = isa.choose("x86_64", "x86_64-unknown-linux-gnu", has_all, level, allowed)
        text = jit.assembly(_lowered(tree, chosen).ir(), chosen)
        assert (instruction in text) == bool(allowed)
        assert "vcvtne" not in text


def test_other_machines_multiply_bytes_one_by_one():
    shape, of_bytes, _ = CONVOLUTIONS[0]
    descs = shape.descs(*of_bytes, "u8", "s8")
    assert lower_contraction(convolution_tree(shape, descs), Isa.for_name("neon"), CacheSizes()) is None


def test_sums_that_32_bits_do_not_hold_have_no_packs():
    descs = (
        MemoryDesc((1, 4, 70000), "u8", "abc"),
        MemoryDesc((1, 70000, 16), "s8", "aCB16c4b"),
        MemoryDesc((1, 4, 16), "s32", "abc"),
    )
    assert lower_contraction(product_tree(*descs), runnable()[-1], CacheSizes()) is None
