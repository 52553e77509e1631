"""Memories that an execution brings for attributes: what will do, what is refused (N9, N10)."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.errors import refused

KINDS = ("cpu", "reference")
DIMS = (4, 6)
X = np.arange(24, dtype=np.int8).reshape(DIMS)
SCALE, ZERO = rs.ARG_ATTR_SCALES | rs.ARG_SRC, rs.ARG_ATTR_ZERO_POINTS | rs.ARG_SRC
OPERAND = rs.arg_attr_multiple_post_op(0) | rs.ARG_SRC_1


def made(kind="cpu", zero_type="s8"):
    """A primitive that wants scales by columns, zero points of `zero_type` by rows and an operand."""
    engine = rs.Engine(kind)
    attr, ops = rs.PrimitiveAttr(), rs.PostOps()
    attr.set_scales(rs.ARG_SRC, 2)
    attr.set_zero_points(rs.ARG_SRC, 1, data_type=zero_type)
    ops.append_binary("add", rs.MemoryDesc((1, 6), "f32", "ab"))
    attr.set_post_ops(ops)
    source, target = rs.Memory.from_numpy(X, None, engine), rs.Memory(rs.MemoryDesc(DIMS, "f32"), engine)
    target.data[:] = 99
    primitive = rs.Reorder(rs.Reorder.PrimitiveDesc(source, target, attr))
    held = {
        rs.ARG_FROM: source,
        rs.ARG_TO: target,
        SCALE: rs.Memory.from_numpy(np.full(6, 2, np.float32), None, engine),
        ZERO: rs.Memory(rs.MemoryDesc((4,), zero_type, "a"), engine),
        OPERAND: rs.Memory.from_numpy(np.zeros((1, 6), np.float32), None, engine),
    }
    held[ZERO].data.view(np.uint8)[:] = 0
    return primitive, held


def run(kind, primitive, held):
    primitive.execute(rs.Stream(rs.Engine(kind)), held)
    return held[rs.ARG_TO].to_numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_primitive_takes_other_values_each_time(kind):
    primitive, held = made(kind)
    for factor in (2, 3, -1):
        held[SCALE].data[:] = factor
        held[ZERO].data[:] = [0, 1, 2, factor]
        held[OPERAND].data[:] = 10 * factor
        wanted = (X - np.float32([0, 1, 2, factor])[:, None]) * np.float32(factor) + np.float32(10 * factor)
        np.testing.assert_array_equal(run(kind, primitive, held), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_one_run_or_have_the_masked_dims_and_begin_anywhere(kind):
    primitive, held = made(kind)
    engine, plain = rs.Engine(kind), run(kind, *made(kind))
    row = rs.Memory(rs.MemoryDesc((3, 6), "f32", "ab"), engine)
    row.data[:] = np.repeat(np.float32([7, 2, 9]), 6)
    inside = row.desc.submemory_desc((1, 6), (1, 0))
    for md in (inside, rs.MemoryDesc((6, 1), "f32", "ab"), rs.MemoryDesc((1, 6, 1), "f32", "abc")):
        scale = rs.Memory(md, engine, row if md is inside else np.full(6, 2, np.float32))
        np.testing.assert_array_equal(run(kind, primitive, {**held, SCALE: scale}), plain)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("zero_type", "points"), [("s4", [-8, 7, -1, 3]), ("u4", [15, 0, 8, 1])])
def test_zero_points_of_4_bits_may_begin_in_the_midst_of_a_byte(kind, zero_type, points):
    primitive, held = made(kind, zero_type)
    raw = np.zeros(4, np.uint8)
    for at, value in enumerate(points, 3):
        raw[at // 2] |= (value & 15) << 4 * (at % 2)
    whole = rs.MemoryDesc((8,), zero_type, "a")
    md = whole.submemory_desc((4,), (3,))
    held[ZERO] = rs.Memory(md, rs.Engine(kind), raw)
    np.testing.assert_array_equal(run(kind, primitive, held), (X - np.float32(points)[:, None]) * 2)


WRONG = {
    "too few": (SCALE, rs.MemoryDesc((5,), "f32", "a"), "the mask requires 6 values, but it has 5"),
    "too many": (ZERO, rs.MemoryDesc((24,), "s8", "a"), "the mask requires 4 values, but it has 24"),
    "of another type": (
        SCALE,
        rs.MemoryDesc((6,), "bf16", "a"),
        "bf16, but the attribute requires f32",
    ),
    "integers for reals": (SCALE, rs.MemoryDesc((6,), "s32", "a"), "its values are s32"),
    "apart": (SCALE, rs.MemoryDesc((6,), "f32", (2,)), "its values are not contiguous"),
    "column by column": (SCALE, rs.MemoryDesc((2, 3), "f32", "ba"), "its values are not contiguous"),
    "of other dims": (SCALE, rs.MemoryDesc((2, 3), "f32", "ab"), "it is 2 x 3, but the masked dims are 6"),
    "in blocks": (ZERO, rs.MemoryDesc((4,), "s8", "A8a"), "its values are not contiguous"),
    "an operand of other dims": (OPERAND, rs.MemoryDesc((1, 1), "f32", "ab"), "is not the primitive's"),
    "an operand laid out otherwise": (
        OPERAND,
        rs.MemoryDesc((1, 6), "f32", (6, 2)),
        "is not the primitive's",
    ),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("kind", KINDS)
def test_values_that_will_not_do_are_refused_with_those_that_would(kind, name):
    primitive, held = made(kind)
    arg, md, why = WRONG[name]
    with refused(f"argument {arg}", why):
        run(kind, primitive, {**held, arg: rs.Memory(md, rs.Engine(kind))})
    assert (held[rs.ARG_TO].data == 99).all()


@pytest.mark.parametrize("kind", KINDS)
def test_transposed_values_are_refused(kind):
    engine, attr = rs.Engine(kind), rs.PrimitiveAttr()
    attr.set_scales(rs.ARG_SRC, 3)
    source, target = rs.Memory.from_numpy(X, None, engine), rs.Memory(rs.MemoryDesc(DIMS, "f32"), engine)
    primitive = rs.Reorder(rs.Reorder.PrimitiveDesc(source, target, attr))
    held = {rs.ARG_FROM: source, rs.ARG_TO: target}
    scales = np.arange(24, dtype=np.float32).reshape(DIMS)
    for given in (scales, scales.reshape(-1), scales.reshape(4, 1, 6)):
        memory = rs.Memory.from_numpy(given, None, engine)
        np.testing.assert_array_equal(run(kind, primitive, {**held, SCALE: memory}), X * scales)
    with refused("it is 6 x 4, but the masked dims are 4 x 6"):
        run(kind, primitive, {**held, SCALE: rs.Memory.from_numpy(scales.T.copy(), None, engine)})


@pytest.mark.parametrize("arg", [SCALE, ZERO, OPERAND])
def test_memories_of_others_are_refused(arg):
    primitive, held = made()
    md = held[arg].desc
    mapped = rs.Memory(md, rs.Engine("cpu"))
    mapped.map_data()
    for text, wrong in (
        ("it is on engine", rs.Memory(md, rs.Engine("reference"))),
        ("has no buffer", rs.Memory(md, rs.Engine("cpu"), rs.NO_DATA)),
        ("the memory is empty", rs.Memory()),
        ("is mapped", mapped),
        ("expected an rs.Memory", np.ones(6, np.float32)),
        ("expected an rs.Memory", None),
    ):
        with refused(f"argument {arg}", text):
            run("cpu", primitive, {**held, arg: wrong})
    mapped.unmap_data()
    assert (held[rs.ARG_TO].data == 99).all()


@pytest.mark.parametrize("arg", [SCALE, OPERAND])
def test_values_within_the_destination_are_refused(arg):
    primitive, held = made()
    inside = rs.Memory(held[arg].desc, rs.Engine("cpu"), held[rs.ARG_TO].data[3:9])
    with refused(f"argument {arg}", "overlaps the destination", "N9"):
        run("cpu", primitive, {**held, arg: inside})
    assert (held[rs.ARG_TO].data == 99).all()


@pytest.mark.parametrize("kind", KINDS)
def test_read_only_values_are_fine(kind):
    primitive, held = made(kind)
    frozen = np.full(6, 2, np.float32)
    frozen.flags.writeable = False
    held[SCALE] = rs.Memory.from_numpy(frozen, None, rs.Engine(kind))
    np.testing.assert_array_equal(run(kind, primitive, held), run(kind, *made(kind)))
