"""Concats and sums on buffers between pages that nobody may touch, in a process of its own.

    RESTRIDE_MAX_CPU_ISA=LEVEL python -m support.guarded_several

prints the case that it is about to run, so that a crash names its case, and `done` at the end.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import restride as rs

from .by_offset import Guarded as Held
from .guarded import Guarded
from .kernels import POISON
from .several import CPU, concat_expected, filled, storage, sum_expected

_MANY = 19


@dataclass(frozen=True)
class Case:
    """A primitive, its descriptors, and the axis or the scales."""

    name: str
    kind: Any
    how: Any
    srcs: tuple[rs.MemoryDesc, ...]
    dst: rs.MemoryDesc


def _concat(name: str, axis: int, parts: tuple[int, ...], tags: str, types: str, to: str) -> Case:
    rest, (kind, out), names = [3, 5, 7], types.split(), tags.split()
    dims = [(*rest[:axis], n, *rest[axis + 1 :]) for n in parts]
    srcs = tuple(rs.MemoryDesc(shape, kind, names[i % len(names)]) for i, shape in enumerate(dims))
    whole = (*rest[:axis], sum(parts), *rest[axis + 1 :])
    return Case(name, rs.Concat, axis, srcs, rs.MemoryDesc(whole, out, to))


def _sum(
    name: str, count: int, dims: tuple[int, ...], tags: str, types: str, to: str, scale: float = 0.5
) -> Case:
    names, (*kinds, out) = tags.split(), types.split()
    srcs = tuple(rs.MemoryDesc(dims, kinds[i % len(kinds)], names[i % len(names)]) for i in range(count))
    return Case(name, rs.Sum, [scale] * count, srcs, rs.MemoryDesc(dims, out, to))


CASES = (
    _concat("rows", 0, (2, 3), "abc", "f32 f32", "abc"),
    _concat("columns", 2, (31, 2, 65), "abc", "u8 u8", "abc"),
    _concat("into blocks", 1, (16, 21), "abc acb", "f32 f32", "aBc16b"),
    _concat("into the midst of blocks", 1, (5, 40, 3), "aBc16b abc", "f32 s8", "aBc16b"),
    _concat("blocks out of step", 1, (5, 40, 3), "aBc8b", "bf16 bf16", "aBc16b"),
    _concat("out of blocks", 1, (17, 20), "aBc16b", "s8 f32", "acb"),
    _concat("halves of bytes", 2, (3, 8, 6), "abc", "s4 s4", "abc"),
    _sum("one run", 3, (1003,), "a", "f32 f32", "a"),
    _sum("bytes", 4, (4099,), "a", "u8 s8", "a"),
    _sum("types", 5, (517,), "a", "f32 bf16 s32 f16 u8 s8", "a"),
    _sum("integers", 3, (517,), "a", "s32 u8 s32", "a", 1.0),
    _sum("doubles", 3, (3, 67), "ab ba", "f32 f64 f32", "ab"),
    _sum("layouts", 3, (2, 35, 9), "abc acb aBc16b", "f32 f32", "aBc16b"),
    _sum("many", _MANY, (3, 67), "ab ba", "f32 s8", "ab"),
    _sum("nibbles", 3, (3, 7), "ab ba", "s4 u4 f32", "ab"),
)  # fmt: skip


def run_case(case: Case, *, at_end: bool) -> None:
    """The primitive reads its sources alone, and writes the destination alone."""
    held = [filled(md, CPU, i) for i, md in enumerate(case.srcs)]
    before = np.full(case.dst.size, POISON, np.uint8)
    wanted = _expected(case, held, Held(before, rs.Memory(case.dst, CPU, before.copy())))
    sources = [_guarded(each.memory.data.tobytes(), at_end) for each in held]
    for source in sources:
        source.lock()
    target = _guarded(before.tobytes(), at_end)
    memories = [_memory(source, md) for source, md in zip(sources, case.srcs, strict=True)]
    pd = case.kind.PrimitiveDesc(CPU, case.how, case.srcs, case.dst)
    case.kind(pd).execute(rs.Stream(CPU), memories, _memory(target, case.dst))
    if target.read() != wanted or target.around() - {POISON}:
        raise AssertionError("the destination, or bytes beside it, are wrong")


def _expected(case: Case, held: list[Held], dst: Held) -> bytes:
    if case.kind is rs.Concat:
        ones = [1.0] * len(held)
        return concat_expected(held, storage(dst), case.dst, case.how, ones).tobytes()
    return sum_expected(held, storage(dst), case.dst, case.how).tobytes()


def _guarded(data: bytes, at_end: bool) -> Guarded:
    made = Guarded(len(data), at_end=at_end)
    made.write(data)
    return made


def _memory(held: Guarded, md: rs.MemoryDesc) -> rs.Memory:
    return rs.Memory.from_pointer(held.address, md.size, md, CPU)


def _runs() -> Iterator[tuple[Case, bool]]:
    return ((case, at_end) for case in CASES for at_end in (False, True))


def main() -> None:
    """Run all cases for the instruction set that the settings allow."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for case, at_end in _runs():
        print(f"{case.name}, at the {'end' if at_end else 'start'}", flush=True)
        run_case(case, at_end=at_end)
    print("done", flush=True)


if __name__ == "__main__":
    main()
