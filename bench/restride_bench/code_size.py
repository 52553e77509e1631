"""Instructions that kernels take per 16 bytes stored, on any instruction set, without running them.

    python -m restride_bench.code_size

prints the table of docs/platforms.md. Counted is the loop over whole tiles: the instructions that its body
has, against the bytes that one tile stores. That stands in for speed where no machine can be measured; it is
not speed, which depends on what each instruction takes and on memory.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from math import prod

from restride import DataType, MemoryDesc
from restride.ir.digits import reorder_nest
from restride.ir.nest import linear
from restride.targets import cpu, jit
from restride.targets.isa import CacheSizes, Isa

from .pages import table
from .problem import PLAIN, PeerArithmetic, PeerProblem
from .rows import row_of

LEVELS = ("neon", "sse41", "avx2", "avx512")
# Caches in which all work here fits, so that what is counted is the kernel without its ways around memory.
_CACHES = CacheSizes(l2=1 << 30, l3=1 << 32)
_LABEL = re.compile(r"^(\.?L\w+):")
_BRANCH = re.compile(r"^\s+(?:j\w+|b|b\.\w+|cbn?z|tbn?z)\s.*?(\.?L\w+)$")


_IMAGE, _PICTURES = (1, 256, 56, 56), (8, 3, 224, 224)
# The rows of the table in README.md, of one image or a part where that changes nothing in the loop.
_MOVES = (
    ("f32 nchw f32 nhwc", _IMAGE, ""),
    ("f32 nhwc f32 nchw", _IMAGE, ""),
    ("f32 nchw f32 nChw16c", _IMAGE, ""),
    ("f32 nChw16c f32 nchw", _IMAGE, ""),
    ("f32 ab f32 ba", (1024, 1024), ""),
    ("bf16 nchw bf16 nhwc", _IMAGE, ""),
    ("f16 nchw f16 nChw16c", _IMAGE, ""),
    ("u8 nchw u8 nhwc", _IMAGE, ""),
    ("u8 nhwc u8 nchw", _PICTURES, ", three channels"),
    ("u8 nchw u8 nhwc", _PICTURES, ", three channels"),
    ("f32 nchw s8 nhwc", _IMAGE, ""),
    ("f32 nchw bf16 nChw16c", _IMAGE, ""),
    ("s8 OIhw s8 OIhw4i16o4i", (512, 512, 3, 3), ""),
    ("f32 nchw f32 nhwc", (16, 17, 7, 7), ", 17 channels"),
    ("s8 ab s8 BA16a64b4a", (1024, 1024), ""),
)
# Conversions in place, which are all arithmetic.
_CONVERSIONS = (
    *("f32→s8 scaled", "f32→u8", "f32→s32", "s32→s8", "s8→f32 scaled", "f32→bf16", "bf16→f32", "f32→f16"),
    *("f32→f8_e4m3", "f8_e4m3→f32", "f8_e4m3→s8", "s4→f8_e4m3", "u4→u8"),
)


def _rows() -> Iterator[PeerProblem]:
    for words, dims, more in _MOVES:
        row = row_of("", words, dims)
        yield replace(row, name=f"{row.name}{more}")
    for name in _CONVERSIONS:
        src, dst = name.split()[0].split("→")
        scale = PeerArithmetic(1.0) if name.endswith("scaled") else PLAIN
        yield PeerProblem(name, (1 << 20,), src, "a", dst, "a", scale)


ROWS = tuple(_rows())


def instructions_for_16_bytes(row: PeerProblem, level: str) -> float:
    """Instructions in the loop over whole tiles, for each 16 bytes of the destination."""
    isa = Isa.for_name(level)
    sides = (row.src_type, row.src_tag), (row.dst_type, row.dst_tag)
    src, dst = (MemoryDesc(row.dims, *side) for side in sides)
    nest = reorder_nest(src, dst, linear(scaled=row.scale is not None))
    lowered = cpu.lower_nest(nest, isa, _CACHES, may_stream=False, at_once=True)
    plan = max(lowered.plan, key=lambda plan: plan.nest.positions)
    stored: float = prod(plan.chunks) * DataType[row.dst_type].bits / 8
    return longest_inner_loop(jit.assembly(lowered.ir(), isa)) * 16 / stored


def longest_inner_loop(text: str) -> int:
    """Instructions of the longest loop that holds no other, in assembly text."""
    labels: dict[str, int] = {}
    # Of each first instruction the last that branches back to it.
    ends: dict[int, int] = {}
    count = 0
    for line in text.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = count
        elif line.startswith("\t") and not line.lstrip().startswith((".", "#", "//")):
            count += 1
            if (branch := _BRANCH.match(line)) and branch[1] in labels:
                ends[labels[branch[1]]] = count
    loops = list(ends.items())
    return max(
        end - start
        for start, end in loops
        if not any(start <= b and e <= end for b, e in loops if (b, e) != (start, end))
    )


def main() -> None:
    """Print the counts of all rows as Markdown."""
    lines = [
        [row.name, *(f"{instructions_for_16_bytes(row, level):.1f}" for level in LEVELS)] for row in ROWS
    ]
    sys.stdout.write(table(["reorder", "NEON", "SSE4.1", "AVX2", "AVX-512"], lines) + "\n")


if __name__ == "__main__":
    main()
