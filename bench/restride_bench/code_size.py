"""How many instructions kernels take for 16 bytes that they store, on any instruction set, and none is run.

    python -m restride_bench.code_size

prints the table of docs/platforms.md. Counted is the loop over whole tiles: the instructions that its body
has, against the bytes that one tile stores. That stands in for speed where no machine can be measured; it is
not speed, which depends on what each instruction takes and on memory.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from math import prod

from restride import DataType, MemoryDesc
from restride.plan.nest import linear
from restride.plan.reorder import reorder_nest
from restride.targets import cpu, jit
from restride.targets.isa import CacheSizes, Isa

LEVELS = ("neon", "sse41", "avx2", "avx512")
# Caches in which all work here fits, so that what is counted is the kernel without its ways around memory.
_CACHES = CacheSizes(l2=1 << 30, l3=1 << 32)
_LABEL = re.compile(r"^(\.?L\w+):")
_BRANCH = re.compile(r"^\s+(?:j\w+|b|b\.\w+|cbn?z|tbn?z)\s.*?(\.?L\w+)$")


@dataclass(frozen=True)
class CodeRow:
    """One reorder: two types and formats, and whether values are scaled."""

    name: str
    dims: tuple[int, ...]
    src: tuple[str, str]
    dst: tuple[str, str]
    is_scaled: bool = False


# The rows of the table in README.md, of one image or a part where that changes nothing in the loop; and
# conversions in place, which are all arithmetic.
ROWS = (
    CodeRow("f32 nchw→nhwc", (1, 256, 56, 56), ("f32", "nchw"), ("f32", "nhwc")),
    CodeRow("f32 nhwc→nchw", (1, 256, 56, 56), ("f32", "nhwc"), ("f32", "nchw")),
    CodeRow("f32 nchw→nChw16c", (1, 256, 56, 56), ("f32", "nchw"), ("f32", "nChw16c")),
    CodeRow("f32 nChw16c→nchw", (1, 256, 56, 56), ("f32", "nChw16c"), ("f32", "nchw")),
    CodeRow("f32 ab→ba", (1024, 1024), ("f32", "ab"), ("f32", "ba")),
    CodeRow("bf16 nchw→nhwc", (1, 256, 56, 56), ("bf16", "nchw"), ("bf16", "nhwc")),
    CodeRow("f16 nchw→nChw16c", (1, 256, 56, 56), ("f16", "nchw"), ("f16", "nChw16c")),
    CodeRow("u8 nchw→nhwc", (1, 256, 56, 56), ("u8", "nchw"), ("u8", "nhwc")),
    CodeRow("u8 nhwc→nchw, three channels", (8, 3, 224, 224), ("u8", "nhwc"), ("u8", "nchw")),
    CodeRow("u8 nchw→nhwc, three channels", (8, 3, 224, 224), ("u8", "nchw"), ("u8", "nhwc")),
    CodeRow("f32→s8 nchw→nhwc", (1, 256, 56, 56), ("f32", "nchw"), ("s8", "nhwc")),
    CodeRow("f32→bf16 nchw→nChw16c", (1, 256, 56, 56), ("f32", "nchw"), ("bf16", "nChw16c")),
    CodeRow("s8 OIhw→OIhw4i16o4i", (512, 512, 3, 3), ("s8", "abcd"), ("s8", "OIhw4i16o4i")),
    CodeRow("f32 nchw→nhwc, 17 channels", (16, 17, 7, 7), ("f32", "nchw"), ("f32", "nhwc")),
    CodeRow("s8 ab→BA16a64b4a", (1024, 1024), ("s8", "ab"), ("s8", "BA16a64b4a")),
    CodeRow("f32→s8 scaled", (1 << 20,), ("f32", "a"), ("s8", "a"), True),
    CodeRow("f32→u8", (1 << 20,), ("f32", "a"), ("u8", "a")),
    CodeRow("f32→s32", (1 << 20,), ("f32", "a"), ("s32", "a")),
    CodeRow("s32→s8", (1 << 20,), ("s32", "a"), ("s8", "a")),
    CodeRow("s8→f32 scaled", (1 << 20,), ("s8", "a"), ("f32", "a"), True),
    CodeRow("f32→bf16", (1 << 20,), ("f32", "a"), ("bf16", "a")),
    CodeRow("bf16→f32", (1 << 20,), ("bf16", "a"), ("f32", "a")),
    CodeRow("f32→f16", (1 << 20,), ("f32", "a"), ("f16", "a")),
    CodeRow("f32→f8_e4m3", (1 << 20,), ("f32", "a"), ("f8_e4m3", "a")),
    CodeRow("f8_e4m3→f32", (1 << 20,), ("f8_e4m3", "a"), ("f32", "a")),
    CodeRow("f8_e4m3→s8", (1 << 20,), ("f8_e4m3", "a"), ("s8", "a")),
    CodeRow("s4→f8_e4m3", (1 << 20,), ("s4", "a"), ("f8_e4m3", "a")),
    CodeRow("u4→u8", (1 << 20,), ("u4", "a"), ("u8", "a")),
)


def instructions_for_16_bytes(row: CodeRow, level: str) -> float:
    """Instructions in the loop over whole tiles, for each 16 bytes of the destination."""
    isa = Isa.for_name(level)
    src, dst = (MemoryDesc(row.dims, *side) for side in (row.src, row.dst))
    nest = reorder_nest(src, dst, linear(scaled=row.is_scaled))
    lowered = cpu.lower(nest, isa, _CACHES, may_stream=False)
    plan = max(lowered.schedules, key=lambda plan: plan.nest.positions)
    stored = prod(plan.chunks) * DataType[row.dst[0]].bits / 8
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
    inner = [end - start for start, end in loops if not any(_holds((start, end), other) for other in loops)]
    return max(inner)


def _holds(loop: tuple[int, int], other: tuple[int, int]) -> bool:
    return loop != other and loop[0] <= other[0] and other[1] <= loop[1]


def table(rows: tuple[CodeRow, ...] = ROWS) -> str:
    """The counts of all rows as Markdown."""
    lines = [
        "| reorder | NEON | SSE4.1 | AVX2 | AVX-512 |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        counts = [f"{instructions_for_16_bytes(row, level):.1f}" for level in LEVELS]
        lines.append(f"| {row.name} | {' | '.join(counts)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
