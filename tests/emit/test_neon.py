"""Conversions in AArch64 instructions: the instructions of each, and their number."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from pathlib import Path

import pytest

from restride.desc.memory_desc import MemoryDesc
from restride.ir.digits import reorder_nest
from restride.ir.nest import linear
from restride.targets import cpu, jit
from restride.targets.isa import Isa
from restride.targets.llvm import llvm
from restride_bench.code_size import LEVELS, ROWS, instructions_for_16_bytes, longest_inner_loop
from restride_bench.problem import PeerProblem
from support.kernels import COMMON

_NEON = Isa.for_name("neon")
_BF16 = replace(_NEON, features="+neon,+bf16")
# Counts of NEON against those of SSE4.1, whose registers are as wide.
_MOST = 1.3


def _assembly(src: str, dst: str, isa: Isa = _NEON, *, scaled: bool = False) -> str:
    sides = MemoryDesc((4096,), src, "a"), MemoryDesc((4096,), dst, "a")
    return jit.assembly(cpu.lower_nest(reorder_nest(*sides, linear(scaled=scaled)), isa, COMMON).ir(), isa)


@pytest.mark.parametrize(
    ("src", "dst", "wanted"),
    [
        ("f32", "s8", ("fcvtns", "sqxtn", "sqxtn2")),
        ("f32", "u8", ("fcvtns", "sqxtun", "sqxtun2")),
        ("f32", "s32", ("fcvtns", "smin")),
        ("f64", "s32", ("fcvtns", "sqxtn", "sqxtn2")),
        ("s32", "s8", ("sqxtn", "sqxtn2")),
        ("s32", "u8", ("sqxtn", "sqxtun2")),
        ("s4", "f8_e4m3", ("tbl",)),
        ("f8_e5m2", "s8", ("tbl", "tbx")),
    ],
)
def test_conversions_are_the_instructions_that_are_made_for_them(
    src: str, dst: str, wanted: tuple[str, ...]
) -> None:
    text = _assembly(src, dst)
    assert not [name for name in wanted if not re.search(rf"\b{name}\b", text)]
    assert not re.search(r"\b(fcvtz[su]|frintn|fmaxnm|fminnm|fcmgt)\b", text)


@pytest.mark.parametrize(("src", "dst", "wanted"), [("nchw", "nhwc", "st3"), ("nhwc", "nchw", "ld3")])
def test_three_channels_of_bytes_are_moved_by_turns(src: str, dst: str, wanted: str) -> None:
    sides = (MemoryDesc((2, 3, 224, 224), "u8", tag) for tag in (src, dst))
    text = jit.assembly(cpu.lower_nest(reorder_nest(*sides, linear()), _NEON, COMMON).ir(), _NEON)
    assert re.search(rf"\b{wanted}\b", text)
    assert not re.search(r"\b(tbl|zip[12]|ext)\b", text)


def test_bf16_is_rounded_by_one_instruction_only_where_the_machine_has_it() -> None:
    assert re.search(r"\bbfcvtn2?\b", _assembly("f32", "bf16", _BF16))
    assert not re.search(r"\bbfcvt", _assembly("f32", "bf16"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_no_row_takes_many_more_instructions_than_sse_and_all_counts_are_told(row: PeerProblem) -> None:
    counts = {level: instructions_for_16_bytes(row, level) for level in LEVELS}
    assert counts["neon"] <= _MOST * counts["sse41"]
    if llvm().llvm_version_info[0] == _told_llvm():
        assert [f"{count:.1f}" for count in counts.values()] == _told_counts()[row.name]


def test_the_documentation_has_a_line_for_each_row() -> None:
    assert list(_told_counts()) == [row.name for row in ROWS]


@functools.cache
def _page() -> str:
    return (Path(__file__).parents[2] / "docs" / "platforms.md").read_text(encoding="utf-8")


def _told_counts() -> dict[str, list[str]]:
    """The numbers of each row of the table."""
    lines = re.findall(r"^\| (.*?) \| ([0-9.]+(?: \| [0-9.]+){3}) \|$", _page(), re.MULTILINE)
    return {name: numbers.split(" | ") for name, numbers in lines}


def _told_llvm() -> int:
    """The version of LLVM that the table is of; others count otherwise."""
    found = re.search(r"as\s+LLVM (\d+) compiles it", _page())
    assert found
    return int(found[1])


def test_the_loop_that_is_counted_is_the_longest_that_holds_no_other() -> None:
    outer = "\n".join(["f:", "\tmov\tx1, x2", ".LBB0_1:", "\tadd\tx1, x1, #1"])
    inner = "\n".join(
        [".LBB0_2:", "\t.loc\t1", "\tldr\tq0, [x1]", "\tsub\tx2, x2, #1", "\tcbnz\tx2, .LBB0_2"]
    )
    later = "\n".join([".LBB0_3:", "\tb.ne\t.LBB0_3", "\tb.ne\t.LBB0_1", "\tret"])
    assert longest_inner_loop("\n".join([outer, inner, later])) == 3
