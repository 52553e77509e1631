"""Scratchpads: the library's own, or one that each execution brings."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.errors import refused
from support.primitives import BLOCKED, CPU, NCHW, PD, REF, STREAM, desc

# Columns of 4-bit elements: the two of a byte come from two places, so that bytes between are needed.
COLUMNS, ROWS = desc((5, 7), "s4", "ba"), desc((5, 7), "s4", "ab")


def solved(mode, engine=CPU, dst=ROWS, src=COLUMNS):
    attr = rs.PrimitiveAttr()
    attr.set_scratchpad_mode(mode)
    return PD(engine, src, engine, dst, attr)


def filled(engine=CPU):
    src, dst = rs.Memory(COLUMNS, engine), rs.Memory(ROWS, engine)
    src.data[:] = np.arange(src.data.size) * 37 % 256
    dst.data[:] = 0xFF
    return src, dst


def pad_of(pd, engine=CPU):
    return rs.Memory(pd.scratchpad_desc(), engine)


# What is needed


def test_the_librarys_mode_is_the_default_and_consumes_memory_of_its_own():
    pd = PD(CPU, COLUMNS, CPU, ROWS)
    assert pd.get_primitive_attr().get_scratchpad_mode() == "library"
    assert pd.scratchpad_desc().is_zero()
    assert pd.query_s64("memory_consumption_s64") >= 35


def test_users_mode_asks_for_bytes_and_consumes_none():
    pd = solved("user")
    pad = pd.scratchpad_desc()
    assert (pad.data_type, pad.ndims, pad.tag) == (rs.u8, 1, "a")
    assert pad.size == solved("library").query_s64("memory_consumption_s64")
    assert pd.query_s64("memory_consumption_s64") == 0
    assert pd.query_md("scratchpad") == pd.query_md("exec_arg_md", rs.ARG_SCRATCHPAD) == pad
    assert pd.scratchpad_engine() is CPU


@pytest.mark.parametrize("mode", ["library", "user"])
def test_most_reorders_need_none(mode):
    for pd in (solved(mode, src=NCHW, dst=BLOCKED), solved(mode, REF)):
        assert pd.scratchpad_desc().is_zero()
        assert pd.query_s64("memory_consumption_s64") == 0


# Executions


def test_both_modes_give_the_same_bytes():
    src, dst = filled()
    rs.Reorder(solved("library")).execute(STREAM, src, dst)
    np.testing.assert_array_equal(dst.to_numpy(), src.to_numpy())
    wanted, (_, dst) = dst.data.copy(), filled()
    pd = solved("user")
    rs.Reorder(pd).execute(STREAM, {rs.ARG_FROM: src, rs.ARG_TO: dst, rs.ARG_SCRATCHPAD: pad_of(pd)})
    np.testing.assert_array_equal(dst.data, wanted)


def test_it_is_written_within_its_bytes_alone():
    """A guard on both sides, and a sum, which needs one more stretch of bytes."""
    attr, ops = rs.PrimitiveAttr(), rs.PostOps()
    ops.append_sum(1.0)
    attr.set_post_ops(ops)
    attr.set_scratchpad_mode("user")
    pd = PD(CPU, COLUMNS, CPU, ROWS, attr)
    size = pd.scratchpad_desc().size
    assert size > solved("user").scratchpad_desc().size
    room = np.full(size + 128, 0xA5, np.uint8)
    src, dst = filled()
    dst.data[:] = 0
    pad = rs.Memory(pd.scratchpad_desc(), CPU, room[64:-64])
    rs.Reorder(pd).execute(STREAM, {rs.ARG_FROM: src, rs.ARG_TO: dst, rs.ARG_SCRATCHPAD: pad})
    np.testing.assert_array_equal(dst.to_numpy(), src.to_numpy())
    assert (room[:64] == 0xA5).all()
    assert (room[-64:] == 0xA5).all()
    assert (room[64:-64] != 0xA5).any()


@pytest.mark.parametrize("shift", [0, 1, 13])
def test_a_longer_one_at_any_address_will_do(shift):
    pd = solved("user")
    size = pd.scratchpad_desc().size
    room = np.zeros(size + 200, np.uint8)
    src, dst = filled()
    pad = rs.Memory(desc((size + 100,), "u8", "a"), CPU, room[shift : shift + size + 100])
    rs.Reorder(pd).execute(STREAM, {rs.ARG_FROM: src, rs.ARG_TO: dst, rs.ARG_SCRATCHPAD: pad})
    np.testing.assert_array_equal(dst.to_numpy(), src.to_numpy())


def wrong_ones():
    pd = solved("user")
    md, size = pd.scratchpad_desc(), pd.scratchpad_desc().size
    read_only = np.zeros(size, np.uint8)
    read_only.flags.writeable = False
    mapped = rs.Memory(md, CPU)
    mapped.map_data()
    return {
        "short": (rs.Memory(desc((size - 1,), "u8", "a"), CPU), "its descriptor is not the primitive's"),
        "other type": (rs.Memory(desc((size,), "s8", "a"), CPU), "its descriptor"),
        "with gaps": (rs.Memory(desc((size,), "u8", (2,)), CPU), "its descriptor"),
        "two dims": (rs.Memory(desc((2, size), "u8", "ab"), CPU), "its descriptor"),
        "other engine": (rs.Memory(md, REF), "on engine reference:0"),
        "no buffer": (rs.Memory(md, CPU, rs.NO_DATA), "no buffer"),
        "empty": (rs.Memory(), "empty"),
        "mapped": (mapped, "mapped"),
        "read-only": (rs.Memory(md, CPU, read_only), "read-only"),
        "none": (None, "an rs.Memory"),
        "an array": (np.zeros(size, np.uint8), "an rs.Memory"),
    }


WRONG = wrong_ones()


@pytest.mark.parametrize(("pad", "why"), WRONG.values(), ids=WRONG)
def test_a_wrong_one_is_refused_before_anything_is_written(pad, why):
    src, dst = filled()
    with refused("Reorder.execute", why):
        rs.Reorder(solved("user")).execute(STREAM, {rs.ARG_FROM: src, rs.ARG_TO: dst, rs.ARG_SCRATCHPAD: pad})
    assert (dst.data == 0xFF).all()


def test_a_missing_one_is_an_input_too_few():
    src, dst = filled()
    primitive = rs.Reorder(solved("user"))
    with refused("bad number of inputs (expected 2 got 1)", "80 (ARG_SCRATCHPAD) is missing"):
        primitive.execute(STREAM, src, dst)
    assert (dst.data == 0xFF).all()


@pytest.mark.parametrize("with_src", [True, False])
def test_one_that_overlaps_another_argument_is_refused(with_src):
    pd = solved("user")
    room = np.full(pd.scratchpad_desc().size + 64, 0xFF, np.uint8)
    pad = rs.Memory(pd.scratchpad_desc(), CPU, room[: pd.scratchpad_desc().size])
    src, dst = filled()
    overlapping = rs.Memory(COLUMNS if with_src else ROWS, CPU, room[pad.desc.size - 3 :][: src.data.size])
    args = {rs.ARG_FROM: src, rs.ARG_TO: dst, rs.ARG_SCRATCHPAD: pad}
    args[rs.ARG_FROM if with_src else rs.ARG_TO] = overlapping
    with refused("ARG_SCRATCHPAD", f"overlaps {'src' if with_src else 'dst'}"):
        rs.Reorder(pd).execute(STREAM, args)
    assert (room == 0xFF).all()


@pytest.mark.parametrize("pad", [None, rs.Memory(desc((1,), "u8", "a"), CPU), rs.Memory()], ids=repr)
def test_where_none_is_needed_whatever_is_passed_is_left_alone(pad):
    src, dst = rs.Memory(NCHW, CPU), rs.Memory(BLOCKED, CPU)
    src.data[:] = 3.0
    primitive = rs.Reorder(solved("user", src=NCHW, dst=BLOCKED))
    primitive.execute(STREAM, {rs.ARG_FROM: src, rs.ARG_TO: dst, rs.ARG_SCRATCHPAD: pad})
    assert dst.data[0] == 3.0
