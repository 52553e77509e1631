"""Attributes run at full speed: compiled, in vectors, by the kernels that plain conversions have (N13)."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest

import restride as rs
from restride.ops.reorder import ReorderProblem
from restride.targets.isa import Isa
from support.attributed import BEST, LEVELS, capped
from support.programs import executable_of

DIMS, MATRIX = (4, 64, 16, 16), (256, 256)
_SCALAR = re.compile(r" = (?:f(?:add|sub|mul|div)|[us]itofp|fpto[us]i) (?:float|double|i8|i32)\b")
_NIBBLE = re.compile(r" = (?:and|or|lshr|shl|zext) i8 ")
_VECTOR = re.compile(r" = fmul <(\d+) x float>")


def scaled(*calls):
    attr = rs.PrimitiveAttr()
    for name, *arguments in calls:
        getattr(attr, name)(*arguments)
    return attr


def by_columns(mask):
    return scaled(("set_scales", rs.ARG_SRC, mask), ("set_scales", rs.ARG_DST, mask))


GROUPED = scaled(
    ("set_scales", rs.ARG_SRC, 3, None, (1, 64), "f16"),
    ("set_zero_points", rs.ARG_SRC, 3, None, (1, 64), "u4"),
)
# Name: types, tags, dims, attributes, the kind of kernel that the plain conversion has.
CASES = {
    "rows, by a dim outside": ("f32 s8", "nchw nchw", DIMS, by_columns(2), "copy"),
    "rows, by the innermost dim": ("f32 s8", "nhwc nhwc", DIMS, by_columns(2), "copy"),
    "rows, by a dim in the middle": ("f32 s8", "nhwc nhwc", DIMS, by_columns(4), "copy"),
    "transpose, by the dim that the destination has innermost": (
        "f32 s8",
        "nchw nhwc",
        DIMS,
        by_columns(2),
        "transpose",
    ),
    "transpose, by the dim that the source has innermost": (
        "f32 s8",
        "nchw nhwc",
        DIMS,
        by_columns(8),
        "transpose",
    ),
    "into blocks, by the blocked dim": ("s8 f32", "nchw nChw16c", DIMS, by_columns(2), "transpose"),
    "into blocks, by a plain dim": ("s8 f32", "nchw nChw16c", DIMS, by_columns(8), "transpose"),
    "out of blocks": ("u8 bf16", "nChw16c nchw", DIMS, by_columns(2), "transpose"),
    "4-bit rows": ("u4 f32", "ab ab", MATRIX, GROUPED, "copy"),
    "4-bit rows to bf16": ("s4 bf16", "ab ab", MATRIX, GROUPED, "copy"),
    "4-bit transpose": ("u4 bf16", "ba ab", MATRIX, GROUPED, "transpose"),
    "4-bit into blocks": ("s4 bf16", "ab BA16a16b2a", MATRIX, GROUPED, "transpose"),
    "into 4-bit rows": ("f32 u4", "ab ab", MATRIX, by_columns(1), "copy"),
    "into 4-bit columns": ("f32 u4", "ab ba", MATRIX, by_columns(1), "transpose"),
}


def problem_of(name, attr=None):
    types, tags, dims, given, _ = CASES[name]
    src, dst = (rs.MemoryDesc(dims, *pair) for pair in zip(types.split(), tags.split(), strict=True))
    return ReorderProblem(src, dst, (attr or given).freeze())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("level", LEVELS)
def test_kernels_with_attributes_are_compiled_and_compute_in_vectors(level, name):
    with capped(level):
        program = executable_of(problem_of(name))
        ir = program.lowered.ir()
    assert program.name in (f"jit:{level}:copy", f"jit:{level}:transpose"), program.why
    assert "through bytes" not in program.why
    assert not _SCALAR.search(ir)
    assert not _NIBBLE.search(ir)
    widths = [int(width) for width in _VECTOR.findall(ir)]
    assert max(widths) * 4 >= Isa.for_name(level).vector_bytes


@pytest.mark.parametrize("name", CASES)
def test_attributes_do_not_change_the_kind_of_kernel_at_the_best_level(name):
    with capped(BEST):
        plain = executable_of(problem_of(name, rs.PrimitiveAttr()))
        assert plain.name == executable_of(problem_of(name)).name == f"jit:{BEST}:{CASES[name][-1]}"


def test_odd_rows_of_4_bits_are_compiled_too_through_bytes():
    src, dst = rs.MemoryDesc((33, 65), "f32", "ab"), rs.MemoryDesc((33, 65), "u4", "ba")
    program = executable_of(ReorderProblem(src, dst, by_columns(1).freeze()))
    assert program.name.startswith("jit:")
    assert "through bytes" in program.why


def test_post_ops_stay_in_one_compiled_kernel():
    md, chain = rs.MemoryDesc(DIMS, "f32", "nhwc"), rs.PostOps()
    chain.append_sum(0.5)
    chain.append_eltwise("gelu_erf")
    chain.append_binary("add", rs.MemoryDesc((1, 64, 1, 1), "f32", "nchw"))
    attr = by_columns(2)
    attr.set_post_ops(chain)
    program = executable_of(ReorderProblem(md, rs.MemoryDesc(DIMS, "s8", "nchw"), attr.freeze()))
    assert program.name.startswith("jit:")
    assert not _SCALAR.search(program.lowered.ir())


def milliseconds(problem):
    """The fastest of some runs."""
    engine = rs.Engine("cpu")
    pd = rs.Reorder.PrimitiveDesc(engine, problem.src, engine, problem.dst, rs.PrimitiveAttr.of(problem.attr))
    held = {
        arg: rs.Memory(pd.query_md("exec_arg_md", arg), engine)
        for arg in (1, 17, *problem.computation().args)
    }
    for memory in held.values():
        memory.data.view(np.uint8)[:] = 1
    primitive, stream, best = rs.Reorder(pd), rs.Stream(engine), 1e9
    for _ in range(15):
        start = time.perf_counter()
        primitive.execute(stream, held)
        best = min(best, time.perf_counter() - start)
    return best * 1e3


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_attributes_cost_little_beside_the_move(name, capsys):
    """No slow path: within four times the plain conversion, of which nearly all is memory."""
    types, tags, dims, given, _ = CASES[name]
    large = (16, 256, 56, 56) if len(dims) == 4 else (4096, 4096)
    src, dst = (rs.MemoryDesc(large, *pair) for pair in zip(types.split(), tags.split(), strict=True))
    plain = milliseconds(ReorderProblem(src, dst, rs.PrimitiveAttr().freeze()))
    full = milliseconds(ReorderProblem(src, dst, given.freeze()))
    with capsys.disabled():
        print(f"\n{name}: plain {plain:.2f} ms, with attributes {full:.2f} ms")
    assert full < 4 * plain + 0.5
