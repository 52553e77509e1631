"""Sums of a quantized destination beside it: -128 and -1 times, for each kept padded index."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.compensation import attr_of, reordered, totals
from support.engines import allocated, from_numpy, memory_over, run, storage
from support.errors import refused

DIMS = (20, 7, 3, 2)
STREAM = rs.Stream(rs.Engine("cpu"))


def wrapped(numbers):
    return [(int(n) + 2**31) % 2**32 - 2**31 for n in numbers]


@pytest.mark.sweep(1)
@pytest.mark.parametrize("mask", [1, 2, 3, 5, 0, 15])
@pytest.mark.parametrize("tag", ["ABcd4b16a4b", "abcd", "cdba", "AcdB16a4b", "Abcd8a"])
def test_sums_are_of_what_was_written(engine, tag, mask):
    x = np.random.default_rng(1).standard_normal(DIMS).astype(np.float32) * 90
    scale = np.linspace(0.5, 2.0, DIMS[0], dtype=np.float32)
    dst = rs.MemoryDesc(DIMS, "s8", tag)
    target, s8s8, zero = reordered(engine, x, dst, attr_of(mask, scale=scale))
    found = totals(target, mask)
    assert s8s8.tolist() == [-128 * n for n in found]
    assert zero.tolist() == [-n for n in found]
    wanted = np.clip(np.rint(x * scale[:, None, None, None]), -128, 127)
    np.testing.assert_array_equal(target.to_numpy(), wanted)


@pytest.mark.parametrize("data_type", ["s8", "u8", "s32"])
def test_sums_of_each_type_wrap_at_32_bits(engine, data_type):
    rng = np.random.default_rng(2)
    limits = np.iinfo(rs.DataType[data_type].numpy)
    x = rng.integers(limits.min, limits.max, (3, 65, 9), rs.DataType[data_type].numpy, endpoint=True)
    target, s8s8, zero = reordered(engine, x, rs.MemoryDesc(x.shape, data_type, "aBc16b"), attr_of(3))
    found = totals(target, 3)
    assert found.size == 3 * 80
    assert s8s8.tolist() == wrapped(-128 * n for n in found)
    assert zero.tolist() == wrapped(-n for n in found)


def test_sums_leave_gaps_out(engine):
    whole = allocated(rs.MemoryDesc((32, 9, 5), "s8", "abc"), engine)
    whole.data[:] = 77
    window = whole.desc.submemory_desc((16, 7, 3), (8, 1, 2))
    x = np.random.default_rng(3).integers(-128, 128, window.dims).astype(np.int8)
    sums = allocated(rs.MemoryDesc((16,), "s32", "a"), engine)
    source, target = from_numpy(x, engine), rs.Memory(window, engine, whole)
    pd = rs.Reorder.PrimitiveDesc(source, target, attr_of(1, zero_point=False))
    held = {rs.ARG_FROM: source, rs.ARG_TO: target, rs.ARG_DST_1: sums}
    run(rs.Reorder(pd), engine, held)
    assert sums.data.tolist() == (-128 * x.astype(int).sum(axis=(1, 2))).tolist()
    assert (whole.to_numpy()[:8] == 77).all()


def test_sums_follow_dims_that_only_an_execution_knows(engine):
    open_dim = rs.RUNTIME_DIM
    src, dst = (rs.MemoryDesc((open_dim, 8), t, (8, 1)) for t in ("f32", "s8"))
    primitive = rs.Reorder(rs.Reorder.PrimitiveDesc(engine, src, engine, dst, attr_of(1, zero_point=False)))
    for n in (5, 1, 33):
        x = np.random.default_rng(n).integers(-9, 9, (n, 8)).astype(np.float32)
        target = allocated(rs.MemoryDesc((n, 8), "s8", "ab"), engine)
        sums = allocated(rs.MemoryDesc((n,), "s32", "a"), engine)
        held = {rs.ARG_FROM: from_numpy(x, engine), rs.ARG_TO: target, rs.ARG_DST_1: sums}
        run(primitive, engine, held)
        assert sums.data.tolist() == (-128 * x.sum(axis=1)).tolist()
        wrong = rs.Memory(rs.MemoryDesc((n + 1,), "s32", "a"), engine)
        with refused("argument 18 (ARG_DST_1)"):
            run(primitive, engine, {**held, rs.ARG_DST_1: wrong})


@pytest.mark.sweep(1)
@pytest.mark.parametrize("tag", ["abcd", "ABcd4b16a4b", "cdba"])
@pytest.mark.parametrize("data_type", ["s4", "u4"])
def test_sums_of_4_bit_elements_are_of_what_was_written(engine, data_type, tag):
    x = np.random.default_rng(5).standard_normal(DIMS).astype(np.float32) * 9
    dst = rs.MemoryDesc(DIMS, data_type, tag)
    low, high = (-8, 7) if data_type == "s4" else (0, 15)
    written = np.clip(np.rint(x), low, high).astype(int)
    room = np.zeros(dst.padded_dims, int)
    room[tuple(map(slice, DIMS))] = written
    for mask, lost in ((1, (1, 2, 3)), (3, (2, 3)), (0, (0, 1, 2, 3))):
        target, s8s8, zero = reordered(engine, x, dst, attr_of(mask))
        found = room.sum(axis=lost).ravel()
        assert s8s8.tolist() == (-128 * found).tolist()
        assert zero.tolist() == (-found).tolist()
        np.testing.assert_array_equal(target.to_numpy().astype(int), written)


def test_sums_of_4_bit_elements_leave_gaps_out(engine):
    whole = allocated(rs.MemoryDesc((9, 9), "s4"), engine)
    whole.data[:] = 0x77
    window = whole.desc.submemory_desc((4, 5), (2, 3))
    x = np.random.default_rng(6).integers(-8, 8, window.dims).astype(np.int8)
    sums = allocated(rs.MemoryDesc((4,), "s32", "a"), engine)
    source, target = from_numpy(x, engine), rs.Memory(window, engine, whole)
    pd = rs.Reorder.PrimitiveDesc(source, target, attr_of(1, zero_point=False))
    held = {rs.ARG_FROM: source, rs.ARG_TO: target, rs.ARG_DST_1: sums}
    run(rs.Reorder(pd), engine, held)
    assert sums.data.tolist() == (-128 * x.astype(int).sum(axis=1)).tolist()
    assert (whole.to_numpy()[:2] == 7).all()


@pytest.mark.parametrize("start", [0, 3])
def test_sums_may_lie_behind_the_destination_in_one_buffer(engine, start):
    dst = rs.MemoryDesc(DIMS, "s8", "ABcd4b16a4b")
    whole = storage(np.full(start + dst.size + 4 * 32 + 64, 0xA5, np.uint8), engine)[start:]
    x = np.random.default_rng(4).integers(-128, 128, DIMS).astype(np.int8)
    source, target = from_numpy(x, engine), memory_over(dst, engine, whole[: dst.size])
    behind = memory_over(rs.MemoryDesc((32,), "s32", "a"), engine, whole[dst.size : dst.size + 128])
    pd = rs.Reorder.PrimitiveDesc(source, target, attr_of(1, False, True))
    held = {rs.ARG_FROM: source, rs.ARG_TO: target, rs.ARG_DST_2: behind}
    run(rs.Reorder(pd), engine, held)
    wanted = -x.astype(np.int32).sum(axis=(1, 2, 3))
    assert whole[dst.size : dst.size + 80].view(np.int32).tolist() == wanted.tolist()
    assert not whole[dst.size + 80 : dst.size + 128].any()
    assert (whole[dst.size + 128 :] == 0xA5).all()


# --- what is refused ---------------------------------------------------------------------------------------

S8, F32 = rs.MemoryDesc(DIMS, "s8", "abcd"), rs.MemoryDesc(DIMS, "f32", "abcd")


@pytest.mark.parametrize("data_type", ["f32", "bf16", "f8_e4m3", "boolean"])
def test_only_quantized_destinations_have_sums(data_type):
    dst, engine = rs.MemoryDesc(DIMS, data_type, "abcd"), rs.Engine("cpu")
    with refused(f"compensation of {data_type}", "s8, u8, s32, s4 or u4", where=(F32, dst)):
        rs.Reorder.PrimitiveDesc(engine, F32, engine, dst, attr_of(1))


def test_a_mask_beyond_the_dims_says_which_there_are():
    engine = rs.Engine("cpu")
    with refused("the mask of the compensation is 17", "dims 0 to 3 (N10)", "1 for OIhw", where=(F32, S8)):
        rs.Reorder.PrimitiveDesc(engine, F32, engine, S8, attr_of(17))


def made():
    engine = rs.Engine("cpu")
    source, target = rs.Memory(F32, engine), rs.Memory(S8, engine)
    sums = [rs.Memory(rs.MemoryDesc((20,), "s32", "a"), engine) for _ in range(2)]
    primitive = rs.Reorder(rs.Reorder.PrimitiveDesc(source, target, attr_of(1)))
    held = {rs.ARG_FROM: source, rs.ARG_TO: target, rs.ARG_DST_1: sums[0], rs.ARG_DST_2: sums[1]}
    return primitive, held


@pytest.mark.parametrize("lost", [rs.ARG_DST_1, rs.ARG_DST_2])
def test_a_memory_for_sums_that_is_missing_is_named(lost):
    primitive, held = made()
    del held[lost]
    with refused("bad number of outputs (expected 3 got 2)", "(ARG_DST_"):
        primitive.execute(STREAM, held)
    with refused("bad number of outputs"):
        primitive.execute(STREAM, held[rs.ARG_FROM], held[rs.ARG_TO])


def test_memories_for_sums_that_will_not_do_are_refused():
    primitive, held = made()
    frozen = np.zeros(20, np.int32)
    frozen.flags.writeable = False
    md, long, real = (rs.MemoryDesc((n,), t, "a") for n, t in ((20, "s32"), (21, "s32"), (20, "f32")))
    for text, wrong in (
        (
            "its descriptor is not the primitive's",
            rs.Memory(long, rs.Engine("cpu")),
        ),
        (
            "its descriptor is not the primitive's",
            rs.Memory(real, rs.Engine("cpu")),
        ),
        ("it is on engine", rs.Memory(md, rs.Engine("reference"))),
        ("read-only", rs.Memory(md, rs.Engine("cpu"), frozen)),
        ("expected an rs.Memory", np.zeros(20, np.int32)),
        ("ARG_DST_1) overlaps 19 (ARG_DST_2)", held[rs.ARG_DST_2]),
        ("ARG_DST_1) overlaps the destination", rs.Memory(md, rs.Engine("cpu"), held[rs.ARG_TO].data[:80])),
        (
            "ARG_DST_1) overlaps",
            rs.Memory(md, rs.Engine("cpu"), held[rs.ARG_FROM].data[:20].view(np.int32)),
        ),
    ):
        with refused(text):
            primitive.execute(STREAM, {**held, rs.ARG_DST_1: wrong})


def test_sums_that_would_overwrite_scales_are_refused(engine):
    attr = rs.PrimitiveAttr()
    attr.set_compensation(1)
    attr.set_scales_mask(rs.ARG_SRC, 1)
    src, dst = (rs.Memory(rs.MemoryDesc((4, 8), t, "ab"), engine) for t in ("f32", "s8"))
    shared = storage(np.ones(4, np.float32), engine)
    scales = memory_over(rs.MemoryDesc((4,), "f32", "a"), engine, shared)
    sums = memory_over(rs.MemoryDesc((4,), "s32", "a"), engine, shared.view(np.int32))
    given = {rs.ARG_FROM: src, rs.ARG_TO: dst, rs.ARG_DST_1: sums, rs.ARG_ATTR_SCALES | rs.ARG_SRC: scales}
    with refused("ARG_DST_1) overlaps 4097 (ARG_ATTR_SCALES | ARG_SRC)", "(N9)"):
        run(rs.Reorder(rs.Reorder.PrimitiveDesc(engine, src.desc, engine, dst.desc, attr)), engine, given)
    assert (shared == 1).all()


def test_neither_kind_of_sum_takes_it_back():
    attr = attr_of(1)
    assert attr.get_compensation() == (1, True, True)
    attr.set_compensation(3, False, False)
    assert attr.get_compensation() is None
