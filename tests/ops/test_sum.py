"""Sum: bytes by `MemoryDesc.offset`, added in order and rounded once, in place, what is refused (N1, N9)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restride as rs
from support.by_offset import guarded, random_bits
from support.effort import examples
from support.engines import allocated, memory_over, run
from support.engines import storage as room
from support.errors import refused
from support.several import CPU, check_sum, filled, storage, sum_expected, sums


def desc(dims, data_type="f32", format=None):
    return rs.MemoryDesc(dims, data_type, format)


def added(mds, values, scales=None, dst=None, engine=CPU):
    """The sum of row-major arrays of one dim, by the primitive."""
    pd = rs.Sum.PrimitiveDesc(engine, scales, mds, dst)
    srcs = [allocated(md, engine) for md in mds]
    for memory, value in zip(srcs, values, strict=True):
        memory.data[:] = value
    out = allocated(pd.dst_desc(), engine)
    run(rs.Sum(pd), engine, srcs, out)
    return out.data


# --- values -------------------------------------------------------------------------------------------------


@settings(max_examples=examples(60))
@given(sums(), st.sampled_from((0, 1, 4)), st.sampled_from((0, 4, 64)))
def test_any_sources_into_any_destination(engine, case, src_start, dst_start):
    mds, dst, scales = case
    check_sum(mds, dst, engine, scales, (src_start, dst_start))


@settings(max_examples=examples(4))
@given(sums(40))
def test_sources_for_several_passes(engine, case):
    mds, dst, scales = case
    check_sum(mds, dst, engine, scales)


def test_a_dim_of_one_is_no_broadcast(engine):
    with refused("different shapes", "a sum never broadcasts"):
        rs.Sum.PrimitiveDesc(engine, None, [desc((2, 3)), desc((2, 1))])
    repeated = rs.MemoryDesc.from_strides((2, 3), "f32", (1, 0))
    check_sum([desc((2, 3)), repeated, repeated], desc((2, 3)), engine)


# --- the contract -------------------------------------------------------------------------------------------


def test_integers_added_as_they_are_add_exactly_and_saturate_once(engine):
    one = desc((2,), "s32")
    most = 2**31 - 1
    values = ((2**24 + 1, most), (2, most), (-(2**24), -most))
    assert added([one] * 3, values, None, one, engine).tolist() == [3, most]
    assert added([one] * 2, ([most, -most], [5, -5]), None, one, engine).tolist() == [most, -(2**31)]
    scaled = added([one] * 2, ([2**24 + 1, 0], [2, 0]), [1.0, 0.5], one, engine)
    assert scaled.tolist() == [2**24, 0]  # with scales all is f32, which does not hold 2**24 + 1
    assert added([desc((1,), "u8")] * 3, (200, 100, 7), [1.0, 1.0, -1.0], None, engine).tolist() == [255]


def test_a_double_among_them_makes_doubles_of_all(engine):
    floats, double = desc((1,)), desc((1,), "f64")
    tiny = 2.0**-40
    for mds, dst in (([floats, double], double), ([double, floats], double), ([floats, floats], double)):
        assert added(mds, (1.0, tiny) if mds[1] is double else (tiny, 1.0), None, dst, engine)[0] == 1 + tiny
    third = added([floats, double, floats], (1.0, tiny, -1.0), None, floats, engine)
    assert third[0] == np.float32(tiny)


def test_the_sum_is_rounded_once(engine):
    halves = desc((1,), "bf16")
    # 1 + 2**-8 is a tie that bf16 rounds to 1: added twice, rounded each time, nothing would change.
    values = (1.0, 2.0**-8, 2.0**-8)
    assert float(added([halves] * 3, values, None, halves, engine)[0]) == 1 + 2.0**-7


def test_the_order_is_that_of_the_sources(engine):
    floats = desc((1,))
    assert added([floats] * 3, (1e8, -1e8, 1.0), None, None, engine)[0] == 1
    assert added([floats] * 3, (1e8, 1.0, -1e8), None, None, engine)[0] == 0


def test_one_source_with_scale_one_is_a_copy_of_bits(engine):
    nan = np.uint32(0x7F812345).view(np.float32)
    assert added([desc((1,))], [nan], [1.0], None, engine).view(np.uint32)[0] == 0x7F812345
    quiet = added([desc((1,))] * 2, [nan, 0.0], None, None, engine).view(np.uint32)[0]
    assert quiet == 0x7FC00000


def test_scales_of_either_zero_are_told_apart(engine):
    signs = [np.signbit(added([desc((1,))], [5.0], [zero], None, engine)[0]) for zero in (0.0, -0.0)]
    assert signs == [False, True]


# --- in place -----------------------------------------------------------------------------------------------


@pytest.mark.sweep(1)
@pytest.mark.parametrize("tag", ["abc", "acb", "aBc16b"])
@pytest.mark.parametrize(("index", "count"), [(0, 3), (1, 3), (2, 3), (3, 40), (20, 40), (39, 40)])
@pytest.mark.parametrize("data_type", ["f32", "s8"])
def test_the_destination_may_be_a_source(tag, index, count, data_type, engine):
    dst_md = desc((2, 19, 5), data_type, tag)
    mds = [dst_md if i == index else desc((2, 19, 5), "f32", "abc") for i in range(count)]
    held = [filled(md, engine, i) for i, md in enumerate(mds)]
    target = held[index]
    random_bits(target, 77)
    scales = [0.5] * count
    wanted = sum_expected(held, storage(target), dst_md, scales)
    pd = rs.Sum.PrimitiveDesc(engine, scales, mds, dst_md)
    run(rs.Sum(pd), engine, [h.memory for h in held], target.memory)
    np.testing.assert_array_equal(storage(target), wanted)
    target.check_canaries()


def test_a_source_of_another_type_may_be_in_place(engine):
    floats, integers = desc((4, 5)), desc((4, 5), "s32")
    held = filled(integers, engine, 1)
    held.memory.data[:] = np.arange(20)
    made = rs.Sum(rs.Sum.PrimitiveDesc(engine, None, [integers, integers], floats))
    run(made, engine, [held.memory] * 2, rs.Memory(floats, engine, held.memory))
    assert held.memory.data.view(np.float32).tolist() == [2 * i for i in range(20)]


def test_overlap_anywhere_else_is_refused(engine):
    md, turned = desc((4, 4)), desc((4, 4), "f32", "ba")
    whole = room(np.zeros(32, np.float32), engine)
    dst = memory_over(md, engine, whole[:16])
    for kind, data in ((turned, whole[:16]), (md, whole[1:17])):
        made = rs.Sum(rs.Sum.PrimitiveDesc(engine, None, [md, kind], md))
        with refused("source 1 and the destination overlap", "(N9)", where=(kind, md)):
            run(made, engine, [rs.Memory(md, engine), memory_over(kind, engine, data)], dst)


# --- the programming model ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formats", "wanted"),
    [("abc acb acb", "abc"), ("acb abc", "acb"), ("abc aBc16b", "aBc16b"), ("aBc8b aBc16b", "aBc8b")],
)
def test_the_format_is_the_first_with_blocks(formats, wanted):
    mds = [desc((2, 21, 5), "s8", tag) for tag in formats.split()]
    assert rs.Sum.PrimitiveDesc(CPU, None, mds).dst_desc() == desc((2, 21, 5), "s8", wanted)
    any_md = desc((2, 21, 5), "f32", "any")
    assert rs.Sum.PrimitiveDesc(CPU, None, mds, any_md).dst_desc() == desc((2, 21, 5), "f32", wanted)


def test_gaps_and_windows_of_sources_are_not_the_formats():
    window = desc((5, 40)).submemory_desc((5, 7), (0, 3))
    assert rs.Sum.PrimitiveDesc(CPU, None, [window, window]).dst_desc() == desc((5, 7))


@pytest.mark.parametrize(
    ("call", "texts"),
    [
        (lambda: (CPU, [1], [desc((2,))] * 2), ("wrong number of scales", "2 sources and 1 scales")),
        (lambda: (CPU, 0.5, [desc((2,))] * 2), ("scales are 0.5", "one for each source")),
        (lambda: (CPU, ["a", 1], [desc((2,))] * 2), ("scales[0] is 'a'", "one real number")),
        (lambda: (CPU, None, []), ("must be from 1 to 1024",)),
        (lambda: (CPU, None, [desc((2,)), desc((3,))]), ("different shapes", "source 1 (3,)")),
        (lambda: (CPU, None, [desc((2,))], desc((3,))), ("different shapes", "dst (3,)")),
        (lambda: (CPU, None, [desc((2,), "f32", "any")]), ("has no format", "(N15)")),
        (lambda: (CPU, None, [desc((2,))], desc((2,), "f32", (0,))), ("share memory", "(N8)")),
        (lambda: (None, None, [desc((2,))]), ("not an engine",)),
    ],
    ids=range(9),
)
def test_what_cannot_be_added_is_refused(call, texts):
    with refused(*texts):
        rs.Sum.PrimitiveDesc(*call())


@pytest.mark.parametrize("is_own", [False, True], ids=["in dst", "apart"])
def test_the_scratchpad_of_several_passes_is_the_callers_in_user_mode(is_own):
    attr, md = rs.PrimitiveAttr(), desc((3, 1000), "f32")
    attr.set_scratchpad_mode("user")
    mds = [md] * 33 + [desc((3, 1000), "s4")]
    dst_md = desc((3, 1000), "s8" if is_own else "f32")
    pd = rs.Sum.PrimitiveDesc(CPU, None, mds, dst_md, attr)
    pad_md = pd.scratchpad_desc()
    assert pad_md.size >= 3000 * (4 + 1)
    held = [filled(each, CPU, i) for i, each in enumerate(mds)]
    dst, pad = guarded(dst_md, CPU), guarded(pad_md, CPU)
    wanted = sum_expected(held, storage(dst), dst_md, [1.0] * 34)
    args = {rs.ARG_MULTIPLE_SRC + i: each.memory for i, each in enumerate(held)}
    args |= {rs.ARG_DST: dst.memory, rs.ARG_SCRATCHPAD: pad.memory}
    rs.Sum(pd).execute(rs.Stream(CPU), args)
    np.testing.assert_array_equal(storage(dst), wanted)
    pad.check_canaries()
    with refused("argument 80 (ARG_SCRATCHPAD) is missing"):
        rs.Sum(pd).execute(rs.Stream(CPU), [each.memory for each in held], dst.memory)
    with refused("overlaps", "(N9)"):
        own = rs.Memory(pad_md, CPU, np.empty(pad_md.size + 12000, np.uint8))
        args[rs.ARG_MULTIPLE_SRC + 1] = rs.Memory(md, CPU, own.data[:12000])
        rs.Sum(pd).execute(rs.Stream(CPU), args | {rs.ARG_SCRATCHPAD: own})


def test_one_pass_needs_no_scratchpad():
    pd = rs.Sum.PrimitiveDesc(CPU, None, [desc((3, 5))] * 16)
    assert pd.query_s64("memory_consumption_s64") == 0
    assert pd.query_s64("num_of_inputs_s32") == 16


def test_attributes_are_refused():
    attr = rs.PrimitiveAttr()
    attr.set_scales(rs.ARG_MULTIPLE_SRC, 0, [2.0])
    with refused("sum: unsupported attribute", kind=rs.Unimplemented):
        rs.Sum.PrimitiveDesc(CPU, None, [desc((2,))], None, attr)


def test_another_scale_is_no_other_kernel():
    mds = [desc((3, 1009))] * 2
    kernels = {
        rs.Sum.PrimitiveDesc(CPU, [scale, 1.5], mds)._impl.executable.launches[0].kernel(0).code
        for scale in (0.5, 0.25, 1.0)
    }
    assert len(kernels) == 1
