"""Random attributes on random descriptors: every engine and instruction set writes what N1 says."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given, seed, settings
from hypothesis import strategies as st

import restride as rs
from support.attributed import LEVELS, Some, capped, check
from support.attributes import BINARY, EXACT, Binary, Eltwise, Given, Sum
from support.descriptors import data_types, destinations, meet_soon, shapes, sources
from support.effort import examples

CPU = rs.Engine("cpu")
_SCALE_TYPES = ("f32", "f32", "bf16", "f16", "e8m0", "f8_e5m2", "f8_e4m3")
_ZERO_TYPES = ("s32", "s8", "u8", "s4", "u4")
_OPERAND_TYPES = ("f32", "bf16", "f16", "f64", "s32", "s8", "u8", "boolean", "f8_e5m2")
_REREAD = {
    4: ("s4", "u4"),
    8: ("s8", "u8", "f8_e5m2", "f8_e4m3", "boolean"),
    16: ("bf16", "f16"),
    32: ("f32", "s32"),
    64: ("f64",),
}


@dataclass
class Case:
    """A random reorder; hypothesis prints it."""

    src: rs.MemoryDesc
    dst: rs.MemoryDesc
    given: Given = field(repr=False)
    seed: int = 0

    def __repr__(self) -> str:
        return f"{self.src} to {self.dst}, seed {self.seed}: {self.given}"


@st.composite
def cases(draw: st.DrawFn) -> Case:
    dims = draw(shapes(5, 900))
    src, dst = draw(sources(dims, draw(data_types))), draw(destinations(dims, draw(data_types)))
    number = draw(st.integers(0, 2**32 - 1))
    some = Some(number, dims)
    older = draw(st.integers(0, 3)) == 0
    made = Given(
        output=draw(_factors(some, _SCALE_TYPES[:1], False)) if older else None,
        src_scale=None if older else draw(_factors(some, _SCALE_TYPES, True)),
        src_zero=draw(_factors(some, _ZERO_TYPES, True)) if src.data_type.is_integral else None,
        dst_scale=draw(_factors(some, _SCALE_TYPES, False)),
        dst_zero=draw(_factors(some, _ZERO_TYPES, False)) if dst.data_type.is_integral else None,
        ops=tuple(draw(_chains(some, dst))),
    )
    assume(not made.is_nothing)
    assume(meet_soon(src, dst, *(op.desc for op in made.ops if isinstance(op, Binary))))
    return Case(src, dst, made, number)


@st.composite
def _factors(draw, some, kinds, has_groups):
    if draw(st.integers(0, 2)) == 0:
        return None
    mask, groups = draw(st.integers(0, (1 << len(some.dims)) - 1)), ()
    if has_groups and len(some.dims) > 1 and draw(st.booleans()):
        mask |= 3 << len(some.dims) - 2
        groups = tuple(
            draw(st.sampled_from([g for g in range(1, n + 1) if n % g == 0])) for n in some.dims[-2:]
        )
    return some.factor(mask, draw(st.sampled_from(kinds)), groups, draw(st.booleans()))


@st.composite
def _chains(draw, some, dst):
    ops = [draw(st.one_of(_eltwise(), _binaries(some))) for _ in range(draw(st.integers(0, 3)))]
    if draw(st.booleans()):
        ops.insert(draw(st.integers(0, len(ops))), draw(_sums(dst.data_type)))
    return ops


@st.composite
def _sums(draw, data_type):
    kind = draw(st.sampled_from((None, *_REREAD[data_type.bits])))
    read = data_type if kind is None else rs.DataType[kind]
    zero = draw(st.integers(-9, 9)) if read.is_integral else 0
    return Sum(draw(st.sampled_from((1.0, 0.5, -2.0, 0.0, 0.1))), zero, kind and read)


@st.composite
def _eltwise(draw):
    alg = draw(st.sampled_from(sorted(EXACT)))
    return Eltwise(alg, draw(st.sampled_from((-0.5, 0.0, 0.1))), 1.5, draw(st.sampled_from((1.0, 0.3, -2.0))))


@st.composite
def _binaries(draw, some):
    dims = tuple(draw(st.sampled_from((n, 1))) for n in some.dims)
    kind = rs.DataType[draw(st.sampled_from(_OPERAND_TYPES))]
    return some.binary(draw(st.sampled_from(BINARY)), draw(sources(dims, kind)))


def test_random_attributes_do_what_the_formula_says(engine):
    # A device's compiler takes half a second for each.
    @settings(max_examples=20 if engine.is_sycl else examples(80))
    @given(cases())
    def run(case):
        check(case.src, case.dst, case.given, engine, seed=case.seed)

    run()


@pytest.mark.parametrize("level", LEVELS)
def test_random_attributes_are_the_same_on_every_instruction_set(level):
    @settings(max_examples=examples(25))
    @given(cases())
    def run(case):
        assert check(case.src, case.dst, case.given, CPU, case.seed).split(":")[1] in (level, "nothing")

    with capped(level):
        run()


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(16))
def test_many_random_attributes_do_what_the_formula_says(engine, batch):
    @seed(batch)
    @settings(settings.get_profile("explore"), max_examples=400)
    @given(cases())
    def run(case):
        check(case.src, case.dst, case.given, engine, seed=case.seed)

    with capped(tuple(LEVELS)[batch % len(LEVELS)]):
        run()
