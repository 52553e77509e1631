"""The reorder primitive: what it computes, in place too, and what it cannot do."""

import numpy as np
import pytest

import restride as rs
from support.by_offset import POISON, attr_of, check_reorder, expected, guarded, random_bits
from support.engines import allocated, from_numpy, memory_over, run, storage
from support.errors import refused

CPU = rs.Engine("cpu")
STREAM = rs.Stream(CPU)
PD = rs.Reorder.PrimitiveDesc
NCHW = rs.MemoryDesc((2, 17, 3, 5), "f32", "nchw")
BLOCKED = rs.MemoryDesc((2, 17, 3, 5), "f32", "nChw16c")
ANY = rs.MemoryDesc((2, 17, 3, 5), "f32", "any")


def desc(dims, data_type, format):
    return rs.MemoryDesc(dims, data_type, format)


def pair(engine, src=NCHW, dst=BLOCKED):
    return allocated(src, engine), allocated(dst, engine)


# What it computes (N14)

MOVES = [
    ((7,), "a", "a"),
    ((33, 18), "ab", "ba"),
    ((70, 37), "ba", "BA16a16b"),
    ((2, 3, 9, 11), "nhwc", "nchw"),
    ((2, 17, 3, 5), "nchw", "nhwc"),
    ((2, 17, 3, 5), "nchw", "nChw16c"),
    ((2, 17, 3, 5), "nChw16c", "nchw"),
    ((2, 17, 3, 5), "nhwc", "nChw8c"),
    ((2, 40, 3, 5), "nChw16c", "nChw8c"),
    ((35, 20, 3, 3), "oihw", "OIhw4i16o4i"),
    ((20, 35, 3, 3), "OIhw16i16o", "hwio"),
    ((2, 8, 9, 3, 3), "goihw", "Goihw8g"),
    ((17, 4, 3, 2, 3), "ncdhw", "ndhwc"),
    ((2, 1, 3, 1, 2, 2, 1, 2, 3, 1, 2, 2), "abcdefghijkl", "lkjihgfedcba"),
    ((1, 1, 1, 1), "nchw", "nChw16c"),
    ((96, 5), "Ab32a", "Ab48a"),
]


@pytest.mark.sweep(1)
@pytest.mark.parametrize(("dims", "src", "dst"), MOVES, ids=lambda value: str(value).replace(" ", ""))
@pytest.mark.parametrize("data_type", ["f32", "u8"])
def test_each_element_and_all_padding_lands_where_the_descriptor_says(engine, dims, src, dst, data_type):
    check_reorder(desc(dims, data_type, src), desc(dims, data_type, dst), engine)


@pytest.mark.parametrize(("dims", "src", "dst"), MOVES[4:8], ids=lambda value: str(value).replace(" ", ""))
def test_a_scale_and_a_sum_go_with_any_layout(engine, dims, src, dst):
    check_reorder(desc(dims, "f32", src), desc(dims, "s8", dst), engine, alpha=0.5, beta=-0.25)


def test_gaps_of_a_strided_destination_stay_as_they_are(engine):
    check_reorder(NCHW, desc(NCHW.dims, "f32", (600, 32, 8, 1)), engine)
    check_reorder(desc((9, 7), "u8", (16, 2)), desc((9, 7), "u8", (1, 24)), engine)
    check_reorder(desc((9, 7), "f32", (16, 2)), desc((9, 7), "f32", (16, 2)), engine)


def test_windows_of_larger_tensors_are_read_and_written_alone(engine):
    whole = desc((9, 70, 11), "f32", "aBc16b")
    window = whole.submemory_desc((5, 22, 7), (3, 48, 2))
    plain = desc((8, 54, 9), "bf16", "abc").submemory_desc((5, 22, 7), (1, 32, 1))
    check_reorder(window, plain, engine)
    check_reorder(plain, window, engine)


def test_two_sources_make_one_destination_through_submemories(engine):
    parts = [np.arange(6, dtype="f4").reshape(2, 3), -np.arange(8, dtype="f4").reshape(2, 4)]
    whole = allocated(desc((2, 7), "f32", "ab"), engine)
    whole.data[:] = np.nan
    for part, start in zip(parts, (0, 3), strict=True):
        src = from_numpy(part, engine)
        window = whole.desc.submemory_desc(part.shape, (0, start))
        dst = rs.Memory(window, engine, whole)
        run(rs.Reorder(src, dst), engine, src, dst)
    np.testing.assert_array_equal(whole.physical(), np.concatenate(parts, axis=1))


@pytest.mark.parametrize("strides", [(0, 1), (1, 0), (0, 0), (3, 1), (-9, 2), (-7, -1), (2, 2)])
def test_sources_may_repeat_overlap_and_run_backwards(engine, strides):
    dims = (6, 7)
    start = sum((n - 1) * -s for n, s in zip(dims, strides, strict=True) if s < 0)
    src = rs.MemoryDesc.from_strides(dims, "f32", strides, start)
    check_reorder(src, desc(dims, "f32", "ba"), engine)
    check_reorder(src, desc(dims, "s8", "AB4a4b"), engine)


def test_destinations_may_run_backwards(engine):
    dst = rs.MemoryDesc.from_strides((6, 7), "f32", (-7, 1), 35)
    check_reorder(desc((6, 7), "f32", "ba"), dst, engine)


@pytest.mark.parametrize(
    ("dims", "dst"),
    [
        ((0, 16, 8, 8), "nchw"),
        ((0, 5, 8, 8), "nChw8c"),
        ((0, 5, 8, 8), "nChw16c"),
        ((13, 0, 3, 3), "nChw16c"),
        ((16, 31, 0, 3), "OIhw16i16o"),
        ((32, 16, 3, 0), "nhwc"),
    ],
)
def test_tensors_without_elements_are_reordered_by_doing_nothing(dims, dst, engine):
    src_md, dst_md = desc(dims, "f32", "nchw"), desc(dims, "u8", dst)
    held = storage(np.full(64, POISON, np.uint8), engine)
    for make in (rs.Memory, lambda md, on: rs.Memory(md, on, rs.NO_DATA), lambda *on: memory_over(*on, held)):
        src, dst_mem = make(src_md, engine), make(dst_md, engine)
        r = rs.Reorder(src, dst_mem)
        run(r, engine, src, dst_mem)
        run(r, engine, {rs.ARG_FROM: src, rs.ARG_TO: dst_mem})
    assert (held == POISON).all()


@pytest.mark.parametrize(
    ("dims", "tags"),
    [((40_000,), ("A131a", "A128a")), ((3, 17_001), ("aB127b", "aB129b")), ((20_000,), ("A5a7a", "A11a13a"))],
)
def test_blocks_that_meet_late_or_never_are_reordered(dims, tags):
    src, dst = (desc(dims, "f32", tag) for tag in tags)
    x = np.arange(np.prod(dims), dtype=np.float32).reshape(dims)
    made = rs.reorder(rs.reorder(rs.Memory.from_numpy(x), src), dst)
    assert made.desc == dst
    assert (made.to_numpy() == x).all()


@pytest.mark.sweep(1)
@pytest.mark.parametrize("starts", [(1, 0), (0, 1), (3, 2), (61, 63)])
@pytest.mark.parametrize("data_type", ["f32", "bf16"])
def test_buffers_may_begin_at_any_byte(engine, starts, data_type):
    check_reorder(
        desc(NCHW.dims, data_type, "nchw"), desc(NCHW.dims, data_type, "nhwc"), engine, starts=starts
    )
    check_reorder(desc((999,), data_type, "a"), desc((999,), data_type, "a"), engine, starts=starts)


@pytest.mark.parametrize(("alpha", "beta"), [(0.5, 0.0), (1.0, 1.0), (2.0, -0.5), (0.0, 1.0), (-0.0, 0.0)])
def test_output_scale_and_sum_make_alpha_src_plus_beta_dst(engine, alpha, beta):
    for src_type, dst_type in (("f32", "f32"), ("s32", "u8"), ("u8", "f16")):
        src, dst = desc(NCHW.dims, src_type, "nhwc"), desc(NCHW.dims, dst_type, "nChw16c")
        check_reorder(src, dst, engine, alpha=alpha, beta=beta)


def test_a_sum_writes_zeros_into_padding_that_held_something(engine):
    check_reorder(NCHW, BLOCKED, engine, beta=1.0)


def test_beta_zero_does_not_read_the_destination(engine):
    src, dst = pair(engine, desc((5,), "f32", "a"), desc((5,), "f32", "a"))
    src.data[:], dst.data[:] = 3.0, np.nan
    attr = rs.PrimitiveAttr()
    ops = rs.PostOps()
    ops.append_sum(0.0)
    attr.set_post_ops(ops)
    run(rs.Reorder(src, dst, attr), engine, src, dst)
    np.testing.assert_array_equal(dst.data, np.full(5, 3.0, "f4"))


# In place (N9)

SAME_PLACE = [
    ("f32", "f32", 1.0, 0.0),
    ("f32", "s32", 1.0, 0.0),
    ("s32", "f32", 0.5, 0.0),
    ("bf16", "f16", 1.0, 0.0),
    ("u8", "s8", 1.0, 0.0),
    ("f32", "f32", 2.0, 0.5),
]


@pytest.mark.sweep(1)
@pytest.mark.parametrize(("src_type", "dst_type", "alpha", "beta"), SAME_PLACE)
@pytest.mark.parametrize("format", ["nchw", "nhwc", "nChw16c", (600, 32, 8, 1)], ids=str)
def test_types_of_one_size_convert_in_place(engine, src_type, dst_type, alpha, beta, format):
    src_md, dst_md = desc(NCHW.dims, src_type, format), desc(NCHW.dims, dst_type, format)
    held = guarded(src_md, engine)
    random_bits(held, 3)
    dst = rs.Memory(dst_md, engine, held.memory)
    wanted = expected(held.elements, src_md, held.elements, dst_md, alpha, beta)
    r = rs.Reorder(held.memory, dst, attr_of(alpha, beta))
    run(r, engine, held.memory, dst)
    np.testing.assert_array_equal(held.elements, wanted)
    held.check_canaries()


# Tails of every vector, and beside some of their lengths whole ones; the slow tests have all up to 40.
_TAILS = [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 39, 63, 64, 65, 127, 129, 1000]
_OTHER_TAILS = [n for n in range(1, 40) if n not in _TAILS]


@pytest.mark.parametrize("n", [*_TAILS, *(pytest.param(n, marks=pytest.mark.slow) for n in _OTHER_TAILS)])
def test_in_place_conversion_has_no_tail_that_is_read_too_late(engine, n):
    data = storage(np.linspace(-1e9, 1e9, n, dtype=np.float32), engine)
    wanted = np.rint(np.clip(data, -(2.0**31), 2147483520.0)).astype(np.int32)
    src = memory_over(desc((n,), "f32", "a"), engine, data)
    dst = memory_over(desc((n,), "s32", "a"), engine, data.view(np.uint8))
    run(rs.Reorder(src, dst), engine, src, dst)
    np.testing.assert_array_equal(data.view(np.int32), wanted)


@pytest.mark.parametrize("shift", [-16, -4, -1, 1, 4, 16])
def test_buffers_that_overlap_by_part_are_refused_before_a_byte_is_written(engine, shift):
    md = desc((32,), "f32", "a")
    whole = storage(np.full(256, POISON, np.uint8), engine)
    src, dst = (memory_over(md, engine, whole[at : at + 128]) for at in (64, 64 + shift))
    r = rs.Reorder(src, dst)
    with refused("overlap", "N9", where=(md,)):
        run(r, engine, src, dst)
    assert (whole == POISON).all()


@pytest.mark.parametrize(
    "dst", [desc((4, 4), "f32", "ba"), desc((4, 4), "s8", "ab"), desc((4, 4), "bf16", "ab")]
)
def test_another_layout_or_element_size_is_no_conversion_in_place(engine, dst):
    src = rs.Memory(desc((4, 4), "f32", "ab"), engine)
    onto = rs.Memory(dst, engine, src)
    r = rs.Reorder(src, onto)
    with refused("overlap"):
        run(r, engine, src, onto)


def test_neighboring_buffers_do_not_overlap(engine):
    whole = storage(np.zeros(64, np.float32), engine)
    whole[:32] = np.arange(32)
    src, dst = (memory_over(desc((32,), "f32", "a"), engine, part) for part in (whole[:32], whole[32:]))
    run(rs.Reorder(src, dst), engine, src, dst)
    np.testing.assert_array_equal(whole[32:], np.arange(32))


# What it refuses when it is made (N8, N15)


@pytest.mark.parametrize(
    ("dst", "why"),
    [
        (desc((2, 17, 3), "f32", "abc"), "src has 4 dims, dst has 3"),
        (desc((2, 16, 3, 5), "f32", "nchw"), "dim 1 is 17 in src and 16 in dst"),
        (desc((1, 1, 1, 1), "f32", "nchw"), "dim 0 is 2 in src and 1 in dst"),
    ],
)
def test_other_shapes_are_refused_and_never_broadcast(dst, why):
    with refused(why, where=(NCHW, dst)):
        PD(CPU, NCHW, CPU, dst)


def test_blocks_that_do_not_nest_have_nothing_to_do_without_elements(engine):
    src, dst = (rs.Memory(rs.MemoryDesc((3, 0, 2), "f32", tag), engine) for tag in ("aBc6b", "aBc4b"))
    rs.Reorder(src, dst).execute(rs.Stream(engine), src, dst)
    assert dst.to_numpy().shape == (3, 0, 2)


def test_any_and_empty_descriptors_are_refused_by_name():
    with refused("reorder: src", "'any'", where=(NCHW, ANY)):
        PD(CPU, ANY, CPU, NCHW)
    with refused("reorder: src", "'any'"):
        PD(CPU, ANY, CPU, ANY)
    with refused("reorder: src", "it is empty"):
        PD(CPU, rs.MemoryDesc(), CPU, NCHW)


@pytest.mark.parametrize("format", ["nchw", "nhwc", "nChw8c", "ABcd4b4a"])
def test_a_destination_of_any_format_is_that_of_the_source_or_of_the_hint(format):
    like, open_md = desc((2, 17, 3, 5), "s8", format), desc((2, 17, 3, 5), "s8", "any")
    src = like.as_type("f32")
    assert PD(CPU, src, CPU, open_md).dst_desc() == like
    for hint in (like, src, PD(CPU, src, CPU, NCHW)):
        assert PD(CPU, NCHW, CPU, open_md, hint=hint).dst_desc() == like
    assert PD(CPU, NCHW, CPU, like, hint=NCHW).dst_desc() == like
    with refused("expected an rs.MemoryDesc or primitive descriptor as hint"):
        PD(CPU, NCHW, CPU, open_md, hint="nchw")
    x = np.arange(510, dtype=np.float32).reshape(2, 17, 3, 5)
    held = rs.reorder(x, format)
    for dst in ("any", rs.FormatTag.any, ANY):
        made = rs.reorder(held, dst)
        assert (made if isinstance(made, rs.Memory) else rs.Memory.from_numpy(made)).desc == src


def test_the_format_of_the_source_is_taken_without_its_gaps():
    src = rs.MemoryDesc((2, 3), "f32", (1, 5))
    assert PD(CPU, src, CPU, rs.MemoryDesc((2, 3), "s8", "any")).dst_desc() == desc((2, 3), "s8", "ba")
    runtime = desc((rs.RUNTIME_DIM, 3), "f32", "ab")
    with refused("reorder: dst", "'any'"):
        PD(CPU, runtime, CPU, rs.MemoryDesc((rs.RUNTIME_DIM, 3), "f32", "any"))


@pytest.mark.parametrize("strides", [(0, 15, 5, 1), (255, 15, 5, 0), (15, 5, 3, 1), (1, 1, 1, 1)])
def test_destinations_that_share_memory_are_refused(strides):
    dst = rs.MemoryDesc.from_strides(NCHW.dims, "f32", strides)
    with refused("share memory", "N8", where=(NCHW, dst)):
        PD(CPU, NCHW, CPU, dst)


def test_stride_zero_is_free_where_a_dim_is_one():
    src = rs.Memory(desc((1, 5), "f32", "ab"), CPU)
    dst = rs.Memory(rs.MemoryDesc.from_strides((1, 5), "f32", (0, 1)), CPU)
    src.data[:] = np.arange(5)
    rs.Reorder(src, dst).execute(STREAM, src, dst)
    np.testing.assert_array_equal(dst.data, np.arange(5))
