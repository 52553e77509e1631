"""Concat: bytes by `MemoryDesc.offset`, sources that are in place, what is refused."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restride as rs
from restride.model.checks import Names
from restride.model.several import implementation_in_place
from support.by_offset import POISON, Guarded, guarded, random_bits
from support.effort import examples
from support.engines import allocated, from_numpy, memory_over, run
from support.engines import storage as room
from support.errors import refused
from support.several import CPU, REF, check_concat, concat_expected, concats, filled, scaled, storage


def desc(dims, data_type="f32", format=None):
    return rs.MemoryDesc(dims, data_type, format)


def primitive(axis, srcs, dst=None, engine=CPU, attr=None):
    return rs.Concat(rs.Concat.PrimitiveDesc(engine, axis, srcs, dst, attr))


# --- values -------------------------------------------------------------------------------------------------


@settings(max_examples=examples(60))
@given(concats(), st.sampled_from((0, 1, 4)), st.sampled_from((0, 4, 64)))
def test_any_sources_into_any_destination(engine, case, src_start, dst_start):
    mds, dst, axis, scales = case
    check_concat(mds, dst, axis, engine, scales, (src_start, dst_start))


def test_a_part_of_padding_alone_takes_no_scales(engine):
    def column(size, tag="abcd"):
        return desc((size, 1, 1, 1), "f64", tag)

    mds, scales = [*map(column, (1, 1, 1, 3)), column(40, "Abcd5a")], [1.0, 1.0, 1.0, 1.0, 0.5]
    check_concat(mds, column(46, "Abcd5a"), 0, engine, scales, (0, 0))


def test_sources_of_the_same_shape_share_a_kernel():
    pd = rs.Concat.PrimitiveDesc(CPU, 1, [desc((4, 32, 9)) for _ in range(64)])
    kernels = {launch.kernel(0).code for launch in pd._impl.executable.launches}
    assert len(kernels) == 1


def test_blocks_with_too_little_in_common_are_refused():
    srcs = [desc((5,), "u8"), desc((1_100_000,), "u8", "A1031a")]
    with refused("too little in common", kind=rs.Unimplemented):
        rs.Concat.PrimitiveDesc(CPU, 0, srcs, desc((1_100_005,), "u8", "A1024a"))
    check_concat([desc((5,), "u8"), desc((900,), "u8", "A25a")], desc((905,), "u8", "A24a"), 0, CPU)


# --- in place -----------------------------------------------------------------------------------------------


def windows(dst, axis, extents):
    """Submemories of a destination, one behind the other."""
    found, start = [], 0
    for n in extents:
        offsets = [start if d == axis else 0 for d in range(dst.ndims)]
        found.append(dst.submemory_desc([n if d == axis else m for d, m in enumerate(dst.dims)], offsets))
        start += n
    return found


@pytest.mark.parametrize("tag", ["abc", "acb", "aBc16b", "ABc2b8a"])
def test_sources_in_place_are_not_copied_and_padding_becomes_zero(tag, engine):
    dst_md = desc((3, 48 + 5, 7), "f32", tag)
    mds = windows(dst_md, 1, (32, 16, 5))
    held = guarded(dst_md, engine)
    random_bits(held, 1)
    srcs = [rs.Memory(md, engine, held.memory) for md in mds]
    before = storage(held).copy()
    wanted = concat_expected([_moment(md, before) for md in mds], before, dst_md, 1, [1.0] * 3)
    run(primitive(1, mds, dst_md, engine), engine, srcs, held.memory)
    np.testing.assert_array_equal(storage(held), wanted)
    held.check_canaries()


def _moment(md, data):
    """A memory of its own with the bytes that another had."""
    whole = data.view(np.uint8).copy()
    return Guarded(whole, rs.Memory(md, REF, whole))


def test_bytes_in_place_are_neither_read_nor_written():
    dst = rs.Memory.from_numpy(np.zeros((64, 1024), np.float32))
    mds = windows(dst.desc, 0, (32, 32))
    impl = rs.Concat.PrimitiveDesc(CPU, 0, mds, dst.desc)._impl
    srcs = [rs.Memory(md, CPU, dst) for md in mds]
    made = implementation_in_place(Names("concat"), impl, srcs, dst)
    assert made.problem.in_window == {0, 1}
    assert made.executable.launches == ()


def test_one_source_in_place_and_one_from_elsewhere(engine):
    dst_md = desc((2, 21, 3), "s8", "aBc16b")
    held = guarded(dst_md, engine)
    random_bits(held, 2)
    mine = windows(dst_md, 1, (16, 5))[0]
    there, other = rs.Memory(mine, engine, held.memory), filled(desc((2, 5, 3)), engine, 3)
    before = storage(held).copy()
    wanted = concat_expected([_moment(mine, before), other], before, dst_md, 1, [1.0, 1.0])
    pd = rs.Concat.PrimitiveDesc(engine, 1, [mine, other.memory.desc], dst_md)
    run(rs.Concat(pd), engine, [there, other.memory], held.memory)
    np.testing.assert_array_equal(storage(held), wanted)


def test_a_source_in_place_may_change_its_type_or_be_scaled(engine):
    dst_md = desc((4, 6), "s32")
    held = guarded(dst_md, engine)
    held.memory.data.view(np.float32)[:] = np.arange(24) + 0.5
    floats = windows(dst_md, 0, (2, 2))[0].as_type("f32")
    half, other = rs.Memory(floats, engine, held.memory), filled(desc((2, 6), "s32"), engine, 5)
    pd = rs.Concat.PrimitiveDesc(engine, 0, [floats, other.memory.desc], dst_md, scaled([2.0, 1.0]))
    run(rs.Concat(pd), engine, [half, other.memory], held.memory)
    assert held.memory.data[:12].tolist() == [2 * i + 1 for i in range(12)]
    np.testing.assert_array_equal(held.memory.data[12:], other.memory.data)


def test_overlap_anywhere_else_is_refused(engine):
    dst_md = desc((4, 6))
    mds = windows(dst_md, 0, (2, 2))
    whole = room(np.full(24, 7, np.float32), engine)
    dst = memory_over(dst_md, engine, whole)
    first, second = (rs.Memory(md, engine, dst) for md in mds)
    plain = desc((2, 6))
    made = primitive(0, [plain, mds[1]], dst_md, engine)
    for source in (memory_over(plain, engine, whole[1:]), memory_over(plain, engine, whole[12:])):
        with refused("source 0 and the destination overlap", "(N9)", where=(plain, dst_md)):
            run(made, engine, [source, second], dst)
    with refused("source 1 and the destination overlap"):
        run(primitive(0, [mds[0], mds[0]], dst_md, engine), engine, [first, first], dst)
    assert (dst.data == 7).all()


def test_a_source_without_elements_may_lie_anywhere(engine):
    dst_md = desc((4, 6))
    dst = allocated(dst_md, engine)
    none = memory_over(desc((0, 6)), engine, dst.data[6:])
    whole = from_numpy(np.ones((4, 6), np.float32), engine)
    run(primitive(0, [none.desc, whole.desc], dst_md, engine), engine, [none, whole], dst)
    assert (dst.data == 1).all()


# --- destinations that are chosen ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formats", "extents", "wanted"),
    [
        ("abc acb acb", (4, 4, 4), "abc"),
        ("acb abc", (4, 4), "acb"),
        ("aBc16b abc abc", (32, 16, 4), "aBc16b"),
        ("aBc16b abc abc", (16, 4, 4), "abc"),
        ("acb aBc8b aBc16b", (16, 8, 4), "aBc8b"),
        ("aBc16b aBc16b aBc16b", (5, 16, 4), "abc"),
        ("aBc16b aBc16b acb", (5, 16, 4), "acb"),
        ("aBc8b aBc8b", (8, 3), "aBc8b"),
        ("Abc8a Abc8a", (5, 3), "Abc8a"),
    ],
)
@pytest.mark.parametrize("is_any", [False, True], ids=["left out", "any"])
def test_the_format_is_the_first_with_blocks_that_no_window_cuts(formats, extents, wanted, is_any):
    mds = [desc((16, n, 7), "s8", tag) for n, tag in zip(extents, formats.split(), strict=True)]
    dims = (16, sum(extents), 7)
    pd = rs.Concat.PrimitiveDesc(CPU, 1, mds, desc(dims, "f32", "any") if is_any else None)
    assert pd.dst_desc() == desc(dims, "f32" if is_any else "s8", wanted)


# --- the programming model ---------------------------------------------------------------------------------


def test_scales_that_come_at_execution():
    mds = [desc((2, 3)), desc((2, 5), "s8")]
    attr = rs.PrimitiveAttr()
    attr.set_scales(rs.ARG_MULTIPLE_SRC + 1, 0)
    argument = rs.ARG_ATTR_SCALES | (rs.ARG_MULTIPLE_SRC + 1)
    for engine in (CPU, REF):
        made = primitive(1, mds, desc((2, 8)), engine, attr)
        assert made.get_primitive_desc().query_md("exec_arg_md", argument) == desc((1,))
        srcs = [rs.Memory(md, engine) for md in mds]
        srcs[0].data[:], srcs[1].data[:] = 1, 3
        dst, scale = rs.Memory(desc((2, 8)), engine), rs.Memory(desc((1,)), engine)
        scale.data[:] = 0.5
        args = {rs.ARG_MULTIPLE_SRC: srcs[0], rs.ARG_MULTIPLE_SRC + 1: srcs[1], rs.ARG_DST: dst}
        made.execute(rs.Stream(engine), {**args, argument: scale})
        assert np.asarray(dst)[1].tolist() == [1, 1, 1, 1.5, 1.5, 1.5, 1.5, 1.5]
        with refused(f"argument {argument} (ARG_ATTR_SCALES | ARG_MULTIPLE_SRC + 1) is missing"):
            made.execute(rs.Stream(engine), args)
        with refused("is not valid"):
            made.execute(rs.Stream(engine), {**args, argument: srcs[0]})


@pytest.mark.parametrize(
    ("call", "texts"),
    [
        (lambda: (CPU, 2, [desc((2, 3))]), ("bad axis", "the last of 2 is 1")),
        (lambda: (CPU, -1, [desc((2, 3))]), ("bad axis", "rs.concat counts negative axes")),
        (lambda: (CPU, "1", [desc((2, 3))]), ("axis is '1'", "it must be an integer")),
        (lambda: (CPU, 0, []), ("must be from 1 to 1024", "there is none")),
        (lambda: (CPU, 0, [desc((1, 3))] * 1025), ("must be from 1 to 1024", "there are more")),
        (lambda: (CPU, 0, desc((2, 3))), ("no sources", "expected a sequence")),
        (lambda: (CPU, 0, ["ab"]), ("source 0 is not a descriptor",)),
        (lambda: ("cpu", 0, [desc((2, 3))]), ("not an engine", "it is str")),
        (lambda: (CPU, 0, [desc((2, 3)), desc((2, 4))]), ("dim 1 is 3 in source 0 and 4 in source 1",)),
        (lambda: (CPU, 0, [desc((2, 3)), desc((2, 3, 1))]), ("source 0 has 2 dims, source 1 has 3",)),
        (lambda: (CPU, 0, [desc((2, 3))], desc((3, 3))), ("dst has another shape", "give (2, 3)")),
        (lambda: (CPU, 0, [desc((2, 3), "f32", "any")]), ("source 0 has no format", "(N15)")),
        (lambda: (CPU, 0, [rs.MemoryDesc()]), ("source 0 does not describe a tensor",)),
        (lambda: (CPU, 0, [desc((2, 3))], "ab"), ("dst is not a descriptor",)),
        (lambda: (CPU, 0, [desc((2, 3))], None, "attr"), ("attr is not a set of attributes",)),
        (lambda: (CPU, 0, [desc((2, 3))], desc((2, 3), "f32", (0, 1))), ("share memory", "(N8)")),
    ],
    ids=range(16),
)
def test_what_cannot_be_joined_is_refused(call, texts):
    with refused(*texts):
        rs.Concat.PrimitiveDesc(*call())
    assert not rs.Concat.PrimitiveDesc(*call(), allow_empty=True)


def _attr(change):
    attr = rs.PrimitiveAttr()
    change(attr)
    return attr


@pytest.mark.parametrize(
    "change",
    [
        lambda attr: attr.set_output_scales(0, [2.0]),
        lambda attr: attr.set_scales(rs.ARG_DST, 0, [2.0]),
        lambda attr: attr.set_scales(rs.ARG_MULTIPLE_SRC + 2, 0, [2.0]),
        lambda attr: attr.set_scales(rs.ARG_MULTIPLE_SRC, 1, [2.0, 3.0]),
        lambda attr: attr.set_zero_points(rs.ARG_DST, 0, [2]),
    ],
    ids=["output scales", "scale of dst", "no such source", "mask", "zero point"],
)
def test_other_attributes_are_refused(change):
    with refused("concat: unsupported attribute", "one scale for each source", kind=rs.Unimplemented):
        rs.Concat.PrimitiveDesc(CPU, 0, [desc((2, 3))] * 2, None, _attr(change))


def test_dims_known_only_at_execution_are_refused():
    with refused("dims known only at execution", kind=rs.Unimplemented):
        rs.Concat.PrimitiveDesc(CPU, 0, [desc((rs.RUNTIME_DIM, 3))])


def test_halves_of_bytes_take_the_callers_scratchpad_in_user_mode():
    attr = _attr(lambda attr: attr.set_scratchpad_mode("user"))
    mds, dst_md = [desc((5, 3), "s4"), desc((5, 4), "s4")], desc((5, 7), "s4")
    pd = rs.Concat.PrimitiveDesc(CPU, 1, mds, dst_md, attr)
    srcs, dst = [filled(md, CPU, i) for i, md in enumerate(mds)], guarded(dst_md, CPU)
    wanted = concat_expected(srcs, storage(dst), dst_md, 1, [1.0, 1.0])
    args = {rs.ARG_MULTIPLE_SRC + i: held.memory for i, held in enumerate(srcs)}
    pad = guarded(pd.scratchpad_desc(), CPU)
    rs.Concat(pd).execute(rs.Stream(CPU), {**args, rs.ARG_DST: dst.memory, rs.ARG_SCRATCHPAD: pad.memory})
    np.testing.assert_array_equal(storage(dst), wanted)
    pad.check_canaries()


def test_a_reorder_has_no_scales_of_sources():
    attr = scaled([2.0])
    with refused("scales of argument 1024", kind=rs.Unimplemented):
        rs.Reorder.PrimitiveDesc(CPU, desc((2, 3)), CPU, desc((2, 3)), attr)


def test_threads_may_share_a_primitive():
    mds, dst_md = [desc((4, 100)), desc((4, 33), "s8")], desc((4, 133), "f32", "aB16b")
    made = primitive(1, mds, dst_md)
    sets = [
        ([filled(md, CPU, i + 9 * k) for i, md in enumerate(mds)], guarded(dst_md, CPU)) for k in range(4)
    ]

    def work(srcs, dst):
        for _ in range(50):
            made.execute(rs.Stream(CPU), [held.memory for held in srcs], dst.memory)

    threads = [threading.Thread(target=work, args=each) for each in sets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for srcs, dst in sets:
        poison = np.full_like(storage(dst), POISON)
        np.testing.assert_array_equal(storage(dst), concat_expected(srcs, poison, dst_md, 1, [1.0, 1.0]))
