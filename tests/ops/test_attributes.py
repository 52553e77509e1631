"""Attributes against N1 computed from `MemoryDesc.offset`: every engine and instruction set, bit for bit.

Scales, zero points, groups, sums, functions and operands, over types, layouts and masks (N13).
"""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.attributed import BEST, LEVELS, Some, attr_of, capped, check, filled
from support.attributes import BINARY, EXACT, Eltwise, Factor, Given, Sum
from support.engines import allocated, from_numpy, memory_over, run, storage

FLOATS = ("f64", "f32", "bf16", "f16", "f8_e5m2", "f8_e4m3")
INTEGERS = ("s32", "s8", "u8", "s4", "u4", "s64", "u64", "u32", "s16", "u16")
TYPES = (*FLOATS, *INTEGERS, "boolean")
ZERO_POINT_TYPES = ("s32", "s8", "u8", "s4", "u4")
SCALE_TYPES = ("f32", "bf16", "f16", "e8m0", "f8_e5m2", "f8_e4m3")
DIMS = (3, 17, 5)
CPU = rs.Engine("cpu")


def descs(src: str, dst: str, tags: str = "abc aBc16b", dims: tuple[int, ...] = DIMS):
    source, target = tags.split()
    return rs.MemoryDesc(dims, src, source), rs.MemoryDesc(dims, dst, target)


def window(data_type: str, tag: str) -> rs.MemoryDesc:
    """DIMS in the midst of a larger tensor."""
    return rs.MemoryDesc((5, 33, 9), data_type, tag).submemory_desc(DIMS, (1, 16, 2))


# --- types -------------------------------------------------------------------------------------------------

PAIRS = [(src, dst) for src in TYPES for dst in TYPES]
# Three destinations for each source, of all; the rest take their time.
FAST = {(src, TYPES[(5 * i + k) % len(TYPES)]) for i, src in enumerate(TYPES) for k in (0, 3, 8)}


@pytest.mark.parametrize(
    ("src", "dst"), [pair if pair in FAST else pytest.param(*pair, marks=pytest.mark.slow) for pair in PAIRS]
)
def test_every_type_takes_every_attribute(engine, src, dst):
    some = Some(1, DIMS)
    given = Given(
        src_scale=some.factor(2, "f32"),
        src_zero=some.factor(5, "s8") if src in INTEGERS else None,
        dst_scale=some.factor(3, "f32", known=True),
        dst_zero=some.factor(4, "s32", known=True) if dst in INTEGERS else None,
        ops=(Sum(0.5), Eltwise("relu", 0.25), some.binary("add", rs.MemoryDesc((1, 17, 1), "bf16", "abc"))),
    )
    check(*descs(src, dst), given, engine)


@pytest.mark.parametrize("src", ["s8", "f32", "u4"])
@pytest.mark.parametrize("level", LEVELS)
def test_every_type_is_the_same_on_every_instruction_set(src, level):
    some = Some(2, DIMS)
    with capped(level):
        for dst in ("s8", "f32", "bf16", "u4", "f64"):
            zero = some.factor(2, "s8") if src in INTEGERS else None
            given = Given(src_scale=some.factor(6, "f16"), src_zero=zero, ops=(Sum(-2.0),))
            assert check(*descs(src, dst), given, CPU).startswith(f"jit:{level}:")


# --- masks and layouts -------------------------------------------------------------------------------------

LAYOUTS = {
    "rows": descs("f32", "s8", "abc abc"),
    "channels last": descs("f32", "s8", "cab cab"),
    "transpose": descs("f32", "s8", "abc cab"),
    "into blocks": descs("bf16", "u8", "acb aBc16b"),
    "out of blocks": descs("s8", "f32", "aBc8b cba"),
    "blocks of two dims": descs("f16", "s8", "abc ABc4a8b2a"),
    "windows": (window("f32", "abc"), window("s8", "aBc16b")),
    "strides": (
        rs.MemoryDesc.from_strides(DIMS, "f32", (0, 1, 19)),
        rs.MemoryDesc.from_strides(DIMS, "bf16", (200, 11, 2)),
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("level", LEVELS)
def test_every_mask_reads_the_right_value_for_each_index(layout, level):
    some = Some(3, DIMS)
    src, dst = LAYOUTS[layout]
    with capped(level):
        for mask in range(8) if level == BEST else (2, 5, 7):
            other = (5 * mask + 3) % 8
            scale, divisor = (
                some.factor(mask, "f32"),
                some.factor(other, "f32", known=mask % 2 > 0),
            )
            check(src, dst, Given(src_scale=scale, dst_scale=divisor), CPU)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("known", [True, False], ids=["known", "at execution"])
@pytest.mark.parametrize("mask", [0, 2, 5])
def test_output_scales_are_the_scales_of_the_source_by_their_older_name(engine, mask, known):
    some = Some(5, DIMS)
    check(*descs("f32", "s8"), Given(output=some.factor(mask, "f32", known=known)), engine)


@pytest.fixture
def threads():
    before = rs.get_num_threads()
    yield rs.set_num_threads
    rs.set_num_threads(before)


@pytest.mark.parametrize("tags", ["ab ba", "ab BA16a16b", "ba Ab32a"])
def test_every_number_of_threads_writes_the_same(tags, threads):
    dims = (211, 257)
    some = Some(7, dims)
    given = Given(src_scale=some.factor(2, "f32"), dst_scale=some.factor(1, "f32"), ops=(Sum(0.5),))
    for count in (1, 2, 5):
        threads(count)
        check(*descs("f32", "s8", tags, dims), given, CPU)


def test_blocks_that_do_not_nest_and_guarded_kernels_take_attributes(engine):
    dims = (100, 6)
    some = Some(8, dims)
    given = Given(src_scale=some.factor(1, "f32"), dst_zero=some.factor(3, "s8"))
    check(*descs("f32", "s8", "Ab32a Ab48a", dims), given, engine)
    dims = (3,) * 6
    some = Some(8, dims)
    given = Given(src_scale=some.factor(0b101101, "f32"), ops=(Sum(0.5),))
    name = check(*descs("f32", "s8", "fedcba ABCDEF2a2b2c2d2e2f", dims), given, engine)
    assert "guarded" in name or name.startswith("ref:")


# --- scales and zero points --------------------------------------------------------------------------------


@pytest.mark.sweep(1)
@pytest.mark.parametrize("known", [True, False], ids=["known", "at execution"])
@pytest.mark.parametrize("kind", SCALE_TYPES)
def test_scales_of_every_type(engine, kind, known):
    some = Some(10, DIMS)
    given = Given(src_scale=some.factor(2, kind, known=known), dst_scale=some.factor(5, kind, known=known))
    check(*descs("f32", "s8"), given, engine)
    check(*descs("s8", "f64", "abc cba"), given, engine)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("known", [True, False], ids=["known", "at execution"])
@pytest.mark.parametrize("kind", ZERO_POINT_TYPES)
def test_zero_points_of_every_type(engine, kind, known):
    some = Some(11, DIMS)
    given = Given(src_zero=some.factor(3, kind, known=known), dst_zero=some.factor(6, kind, known=known))
    check(*descs("s8", "u8"), given, engine)
    check(*descs("u4", "s32", "abc cba"), given, engine)


STRANGE = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3e38, -1.0])


@pytest.mark.sweep(1)
@pytest.mark.parametrize("kind", ["s8", "s32", "f32", "f16"])
@pytest.mark.parametrize("known", [True, False], ids=["known", "at execution"])
def test_strange_scales_follow_f32_arithmetic(engine, kind, known):
    """Scale 0, infinities, NaN and subnormals: by each for a row, and by each for the whole tensor."""
    dims = (8, 21)
    each = Factor(1, rs.f32, STRANGE.view(np.uint32), known=known)
    for given in (Given(src_scale=each), Given(dst_scale=each)):
        check(*descs("f32", kind, "ab ab", dims), given, engine)
    for value in STRANGE.view(np.uint32):
        one = Factor(0, rs.f32, np.array([value]), known=known)
        check(*descs("f32", kind, "ab ba", dims), Given(src_scale=one, dst_scale=one), engine)


def test_exponents_as_scales_reach_both_ends(engine):
    dims = (256, 3)
    scale = Factor(1, rs.e8m0, np.arange(256, dtype=np.uint8))
    check(*descs("f32", "f32", "ab ba", dims), Given(src_scale=scale), engine)
    check(*descs("bf16", "f64", "ab ba", dims), Given(dst_scale=scale), engine)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("groups", [(8, 1), (1, 12), (4, 6), (1, 1)], ids=str)
@pytest.mark.parametrize("kind", ["s8", "u4", "bf16"])
def test_weights_are_compressed_by_groups(engine, kind, groups):
    dims = (32, 24)
    some = Some(23, dims)
    for turn, tags in enumerate(("ab ab", "ba ab", "ab BA16a16b2a")):
        known = turn == 1
        zero = some.factor(3, ("s32", "u4", "s4")[turn], (2, 3), known) if kind != "bf16" else None
        given = Given(dst_scale=some.factor(3, "f32", groups, known), dst_zero=zero, ops=(Sum(0.5),))
        check(*descs("f32", kind, tags, dims), given, engine)
    some = Some(24, (2, 20, 36))
    given = Given(src_scale=some.factor(7, "f32", (5, 1)), dst_scale=some.factor(6, "bf16", (1, 9)))
    check(*descs("s8", kind, "abc aBC16b16c", (2, 20, 36)), given, engine)


@pytest.mark.parametrize("level", LEVELS)
def test_groups_of_batched_weights_are_the_same_on_every_instruction_set(level):
    dims = (2, 20, 36)
    some = Some(14, dims)
    with capped(level):
        for mask, groups, tags in (
            (7, (5, 1), "abc acb"),
            (6, (1, 9), "acb aBC16b16c"),
            (7, (4, 18), "abc abc"),
        ):
            given = Given(src_scale=some.factor(mask, "f16", groups), src_zero=some.factor(6, "u4", (4, 4)))
            check(*descs("u4", "bf16", tags, dims), given, CPU)


# --- post-ops ----------------------------------------------------------------------------------------------


REREAD = "s8 u8,u8 s8,s8 f8_e4m3,f32 s32,s32 f32,bf16 f16,f16 bf16,f8_e5m2 s8,u8 boolean,s4 u4,f64,boolean"


@pytest.mark.parametrize("types", REREAD.split(","))
def test_a_sum_reads_the_old_bits_as_another_type(engine, types):
    dst, read = (*types.split(), None)[:2]
    kind = None if read is None else rs.DataType[read]
    zero = 3 if (kind or rs.DataType[dst]).is_integral else 0
    for beta in (1.0, 0.5, -2.0, float("nan")):
        check(*descs("f32", dst, "abc aBc8b"), Given(ops=(Sum(beta, zero, kind),)), engine)


PARAMETERS = {"linear": (0.37, -1.5), "clip": (-2.0, 7.5), "clip_v2": (-1.0, 1.0), "hardsigmoid": (0.2, 0.5)}


@pytest.mark.parametrize("alg", EXACT)
def test_functions_of_a_few_operations_have_the_one_right_answer(engine, alg):
    alpha, beta = PARAMETERS.get(alg, (0.1, 0.5))
    for dst, scale in (("f32", 1.0), ("s8", 0.5), ("f64", -3.0)):
        check(*descs("f32", dst, "abc cab"), Given(ops=(Eltwise(alg, alpha, beta, scale),)), engine)
    check(*descs("s32", "bf16"), Given(ops=(Eltwise(alg, 0.0, 0.0 if "clip" in alg else beta),)), engine)


@pytest.mark.parametrize("alg", BINARY)
def test_operands_of_any_type_layout_and_broadcast(engine, alg):
    some, turn = Some(17, DIMS), BINARY.index(alg)
    for number, (dims, tag) in enumerate(
        (((1, 17, 1), "abc"), (DIMS, "aBc16b"), ((3, 1, 5), "cba"), ((1, 1, 1), "abc"))
    ):
        kind = TYPES[(turn + 5 * number) % len(TYPES)]
        op = some.binary(alg, rs.MemoryDesc(dims, kind, tag))
        check(
            *descs("f32", ("f32", "s8", "f64", "f16")[(turn + number) % 4], "abc acb"),
            Given(ops=(op,)),
            engine,
        )


def test_operands_may_be_windows_and_repeat_by_stride(engine):
    some = Some(18, DIMS)
    ops = (
        some.binary("add", window("s8", "aBc16b")),
        some.binary("mul", rs.MemoryDesc.from_strides(DIMS, "f32", (0, 3, 0))),
        some.binary("max", rs.MemoryDesc((7, 17, 5), "bf16", "cba").submemory_desc((1, 17, 5), (4, 0, 0))),
    )
    check(*descs("f32", "u8"), Given(ops=ops), engine)


def chain_of_32():
    some = Some(19, DIMS)
    five = [
        some.binary("add", rs.MemoryDesc((1, 17, 1), "f32", "abc")),
        Eltwise("clip", -100.0, 100.0),
        some.binary("mul", rs.MemoryDesc((3, 1, 5), "s8", "acb")),
        Eltwise("linear", 0.5, 1.0),
        Eltwise("relu", -0.5, 0.0, 0.75),
    ]
    ops = (*five * 3, Sum(0.5, 3), *five * 3, Eltwise("abs"))
    assert len(ops) == 32
    return Given(src_scale=some.factor(2, "f32"), ops=ops)


def test_a_chain_of_32_is_done_in_order(engine):
    check(*descs("s32", "s8"), chain_of_32(), engine)


@pytest.mark.parametrize("level", LEVELS)
def test_a_chain_of_32_is_the_same_on_every_instruction_set(level):
    with capped(level):
        check(*descs("s32", "s8"), chain_of_32(), CPU)


# --- in place, and dims at execution -----------------------------------------------------------------------


def test_in_place_requantizing_reads_before_it_writes(engine):
    some = Some(21, DIMS)
    md, to = rs.MemoryDesc(DIMS, "s8", "aBc16b"), rs.MemoryDesc(DIMS, "u8", "aBc16b")
    given = Given(src_scale=some.factor(2, "f32", known=True), dst_zero=some.factor(0, "s32", known=True))
    data = filled(some.rng, rs.s8, md.size)
    apart, one = allocated(to, engine), storage(data, engine)
    source, same = memory_over(md, engine, storage(data, engine)), memory_over(to, engine, one)
    primitive = rs.Reorder(rs.Reorder.PrimitiveDesc(engine, md, engine, to, attr_of(given)[0]))
    run(primitive, engine, source, apart)
    run(primitive, engine, memory_over(md, engine, one), same)
    np.testing.assert_array_equal(same.data, apart.data)


def test_dims_that_only_an_execution_knows_take_attributes(engine):
    rng = np.random.default_rng(22)
    open_dim = rs.RUNTIME_DIM
    src, dst = (rs.MemoryDesc((3, open_dim, 5), t, (open_dim,) * 3) for t in ("s8", "f32"))
    attr = rs.PrimitiveAttr()
    attr.set_scales(rs.ARG_SRC, 2)
    attr.set_zero_points(rs.ARG_SRC, 4, data_type="s8")
    attr.set_scales(rs.ARG_DST, 1, [2.0, 4.0, 0.5])
    primitive = rs.Reorder(rs.Reorder.PrimitiveDesc(engine, src, engine, dst, attr))
    for n in (17, 1, 40):
        dims = (3, n, 5)
        x = rng.integers(-128, 128, dims).astype(np.int8)
        scale, zero = rng.random(n, np.float32), rng.integers(-9, 9, 5).astype(np.int8)
        out = rs.Memory(rs.MemoryDesc(dims, "f32", "cab"), engine)
        brought = {
            rs.ARG_ATTR_SCALES | rs.ARG_SRC: from_numpy(scale, engine),
            rs.ARG_ATTR_ZERO_POINTS | rs.ARG_SRC: from_numpy(zero, engine),
        }
        held = {rs.ARG_SRC: from_numpy(x, engine), rs.ARG_DST: out, **brought}
        run(primitive, engine, held)
        wanted = (
            (x - zero.astype(np.float32))
            * scale[:, None]
            * (np.float32(1) / np.float32([2, 4, 0.5]))[:, None, None]
        )
        np.testing.assert_array_equal(out.to_numpy(), wanted)
