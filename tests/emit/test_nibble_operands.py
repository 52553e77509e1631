"""Operands of 4 bits, read as they are: binary post-ops in any layout, zero points by any mask and groups.

Held against N1 computed from `MemoryDesc.offset` (N13).
"""

from __future__ import annotations

import time

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from restride.ops.reorder import ReorderProblem
from support.attributed import BEST, LEVELS, Some, attr_of, capped, check
from support.attributes import Given, Sum
from support.programs import executable_of

CPU = rs.Engine("cpu")
DIMS = (3, 17, 5)
MATRIX = (16, 256)


def window(data_type, tag, dims=DIMS, at=(1, 16, 2)):
    """`dims` in the midst of a larger tensor, so that rows begin in either half of a byte."""
    return rs.MemoryDesc((5, 33, 9), data_type, tag).submemory_desc(dims, at)


def operands(kind):
    """Layouts of an operand that DIMS take."""
    return {
        "rows": rs.MemoryDesc(DIMS, kind, "abc"),
        "columns": rs.MemoryDesc(DIMS, kind, "cba"),
        "blocks": rs.MemoryDesc(DIMS, kind, "aBc16b"),
        "blocks of two dims": rs.MemoryDesc(DIMS, kind, "ABc4a8b2a"),
        "window": window(kind, "abc"),
        "window of columns": window(kind, "cab", at=(0, 15, 3)),
        "one number": rs.MemoryDesc((1, 1, 1), kind, "abc"),
        "one number, a high half": window(kind, "abc", (1, 1, 1)),
        "by the middle dim": rs.MemoryDesc((1, 17, 1), kind, "abc"),
        "by two dims": rs.MemoryDesc((3, 1, 5), kind, "cab"),
        "repeated by a stride of 0": rs.MemoryDesc.from_strides(DIMS, kind, (0, 3, 0)),
        "strides": rs.MemoryDesc.from_strides(DIMS, kind, (101, 5, 1), 3),
    }


# How values move: copies, transposes, blocks, lanes one by one, and through bytes where dst is of 4 bits.
MOVES = {
    "copy": ("f32 abc", "f32 abc"),
    "transpose": ("s8 abc", "bf16 cab"),
    "into blocks": ("u4 abc", "f32 aBc16b"),
    "into small values": ("f32 acb", "u8 abc"),
    "through bytes": ("s4 abc", "u4 cba"),
    "blocks that do not nest": ("f32 aBC32b48c", "f32 aBC48b32c"),
}


def moved(move, dims=DIMS):
    return [rs.MemoryDesc(dims, *text.split()) for text in MOVES[move]]


@pytest.mark.sweep(1)
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("layout", operands("s4"))
def test_operands_of_4_bits_lie_in_any_layout(engine, layout, move):
    some = Some(1, DIMS)
    signed, unsigned = (some.binary("add", operands(kind)[layout]) for kind in ("s4", "u4"))
    check(*moved(move), Given(src_scale=some.factor(2, "f32"), ops=(unsigned, Sum(0.5), signed)), engine)


@pytest.mark.parametrize("level", LEVELS)
def test_operands_of_4_bits_are_the_same_on_every_instruction_set(level):
    some = Some(2, DIMS)
    with capped(level):
        for layout in ("rows", "blocks", "window", "by the middle dim", "repeated by a stride of 0"):
            for move, kind in (("copy", "s4"), ("transpose", "u4"), ("through bytes", "s4")):
                op = some.binary("mul", operands(kind)[layout])
                assert f":{level}:" in check(*moved(move), Given(ops=(op,)), CPU)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("start", [0, 1])
def test_runs_of_every_length_begin_in_either_half(start, level):
    """Dims of odd rows: the first of a row is a low half by turns, which the kernel learns as it runs."""
    with capped(level):
        for count in (1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 64, 67):
            dims = (3, count)
            md = rs.MemoryDesc((4, count + 1), "s4", "ab").submemory_desc(dims, (1, start))
            tight = rs.MemoryDesc.from_strides(dims, "u4", (count | 1, 1), start)
            some = Some(count, dims)
            given = Given(ops=(some.binary("add", md), some.binary("sub", tight)))
            check(rs.MemoryDesc(dims, "s8"), rs.MemoryDesc(dims, "f32"), given, CPU)


@pytest.mark.parametrize("count", [17, 33])
def test_odd_runs_compile_in_a_moment(count):
    """LLVM interleaves vectors of odd lengths in minutes; so none is made."""
    dims = (count, count)
    some = Some(count, dims)
    given = Given(ops=tuple(some.binary("add", rs.MemoryDesc((1, count), kind)) for kind in ("s4", "u4")))
    start = time.thread_time()
    check(rs.MemoryDesc(dims, "u8", "ab"), rs.MemoryDesc(dims, "f64", "ba"), given, CPU)
    assert time.thread_time() - start < 60


# --- zero points ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["s4", "u4"])
@pytest.mark.parametrize("level", LEVELS)
def test_zero_points_of_4_bits_take_every_mask(level, kind):
    some = Some(3, DIMS)
    with capped(level):
        for mask in range(8):
            given = Given(src_zero=some.factor(mask, kind), dst_zero=some.factor(mask ^ 5, kind))
            check(rs.MemoryDesc(DIMS, "u8", "abc"), rs.MemoryDesc(DIMS, "s8", "aBc16b"), given, CPU)


def test_the_reference_engine_reads_zero_points_of_4_bits():
    some = Some(4, DIMS)
    for mask in range(8):
        given = Given(src_zero=some.factor(mask, "s4"), dst_zero=some.factor(mask ^ 5, "u4"))
        check(
            rs.MemoryDesc(DIMS, "u8", "abc"), rs.MemoryDesc(DIMS, "s8", "cab"), given, rs.Engine("reference")
        )


GROUPS = ((1, 1), (1, 2), (1, 16), (1, 32), (1, 128), (1, 256), (2, 1), (16, 4))


@pytest.mark.parametrize("tags", ["ab ab", "ba ab", "ab BA16a16b2a"])
@pytest.mark.parametrize("level", LEVELS)
def test_groups_of_zero_points_of_4_bits_unpack_weights(level, tags):
    some, (src, dst) = Some(5, MATRIX), tags.split()
    with capped(level):
        for turn, groups in enumerate(GROUPS if level == BEST else GROUPS[::3]):
            read, kind = (("u4", "u4"), ("s8", "s4"))[turn % 2]
            scale, zero = some.factor(3, "bf16", groups), some.factor(3, kind, groups)
            given = Given(src_scale=scale, src_zero=zero)
            check(rs.MemoryDesc(MATRIX, read, src), rs.MemoryDesc(MATRIX, "bf16", dst), given, CPU)


def test_zero_points_beside_every_element_are_unpacked_in_registers():
    """64 of them are 32 bytes, loaded at once; none is picked alone."""
    some = Some(6, MATRIX)
    src, dst = rs.MemoryDesc(MATRIX, "u4", "ab"), rs.MemoryDesc(MATRIX, "bf16", "ab")
    attr, _ = attr_of(Given(src_zero=some.factor(3, "u4", (1, 1))))
    with capped("avx512"):
        ir = executable_of(ReorderProblem(src, dst, attr.freeze())).lowered.ir()
    assert "load <32 x i8>" in ir
    assert "load <1 x i8>" not in ir
    assert "inttoptr" not in ir


@pytest.mark.parametrize("kind", ["cpu", "reference"])
@pytest.mark.parametrize("start", [1, 2, 3])
def test_zero_points_may_begin_at_any_half(kind, start):
    engine, count = rs.Engine(kind), 300
    attr = rs.PrimitiveAttr()
    attr.set_zero_points(rs.ARG_SRC, 1, data_type="u4")
    src = rs.Memory.from_numpy(np.zeros((count, 2), np.uint8), None, engine)
    dst = rs.Memory(rs.MemoryDesc((count, 2), "f32"), engine)
    values = np.arange(count + 4, dtype=np.uint8) % 16
    zeros = rs.Memory(
        rs.MemoryDesc((count + 4,), "u4").submemory_desc((count,), (start,)),
        engine,
        values[::2] | values[1::2] << 4,
    )
    made = rs.Reorder(src, dst, attr)
    arg = rs.ARG_ATTR_ZERO_POINTS | rs.ARG_SRC
    made.execute(rs.Stream(engine), {rs.ARG_FROM: src, rs.ARG_TO: dst, arg: zeros})
    wanted = -np.repeat(values[start : start + count].astype(np.float32), 2).reshape(count, 2)
    np.testing.assert_array_equal(dst.to_numpy(), wanted)


# --- arrays -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ml_dtypes.int4, ml_dtypes.uint4])
def test_arrays_of_4_bit_integers_are_operands(kind):
    x = np.arange(21, dtype=np.float32).reshape(3, 7)
    numbers = (np.arange(21).reshape(3, 7) % 16 - (8 if kind is ml_dtypes.int4 else 0)).astype(kind)
    got = rs.reorder(x, None, post_ops=[("add", numbers), ("mul", numbers[:, :1])])
    wide = numbers.astype(np.float32)
    np.testing.assert_array_equal(got, (x + wide) * wide[:, :1])
