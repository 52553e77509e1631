"""Vector instructions of a kernel that moves elements, counted in the LLVM IR of its tiles, for predictions.

The innermost loops are read, and multiplied by the number of tiles. An instruction on values of several
registers counts once for each. Not counted: addresses, splits and joins of registers, broadcasts, and blocks
for rare values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import prod
from typing import NamedTuple

from ..emit.kernel import emit_kernel
from ..schedule.cost import Instructions
from ..schedule.moves.blocks import Blocks
from ..schedule.moves.schedule import Schedule
from ..schedule.moves.staged import StagedSchedule
from .cpu import machine_of
from .cpu_ir import style_of
from .isa import CacheSizes
from .lowered import Lowered

_BITS = {"float": 32, "double": 64, "half": 16, "bfloat": 16, "ptr": 64}
# A division or a square root takes as long as this many instructions. Instructions of functions wait for each
# other, and take longer by the second factor: measured on exp, tanh, gelu and others in the caches.
_QUOTIENT, _WAITING = 12, 1.7
# Vectors of anything but single bits, which are masks.
_VECTOR = re.compile(r"<(\d+) x (?!i1>)(?:i(\d+)|(\w+))>")
_SHUFFLE = re.compile(r"<(\d+) x i32> (?:<([^>]*)>|\w+)$")
_LABEL = re.compile(r"label %(\w+)")
_FUNCTION = re.compile(r"^define internal [^@]*@([\w.]+)\([^\n]*\n(.*?)^}", re.MULTILINE | re.DOTALL)
_CALL = re.compile(r"call [^@]*@([\w.]+)\(")
_USUALLY = "!prof !1"
_FREE = ("br", "phi", "getelementptr", "bitcast", "freeze", "insertelement", "extractelement")


class _Iteration(NamedTuple):
    """Instructions of one iteration of an innermost loop, a tile. `stored`: the bits that it writes."""

    stored: int = 0
    simple: float = 0
    stores: int = 0


@lru_cache(256)
def instructions_of(lowered: Lowered, caches: CacheSizes) -> Instructions | None:
    """Return the count for one execution; None if elements are moved one at a time."""
    vector, machine = 8 * lowered.isa.vector_bytes, machine_of(lowered.isa, caches)
    simple, stores, crowded = 0.0, 0.0, 0.0
    for plan, times in _parts(lowered.plan):
        loops = sorted(_turns(emit_kernel((plan,), style_of(lowered.isa)), vector), reverse=True)
        whole = times * prod(a.extent // chunk for a, chunk in zip(plan.nest.axes, plan.chunks, strict=True))
        tiles = times * prod(plan.tiles(index) for index in range(len(plan.chunks)))
        others = loops[1:] or loops
        for loop, share in ((loops[0], whole), *((loop, (tiles - whole) / len(others)) for loop in others)):
            simple, stores = simple + share * loop.simple, stores + share * loop.stores
        for axis, rows in zip(plan.nest.axes, plan.chunks, strict=True):
            for stride, kind in ((axis.src, plan.nest.src_type), (axis.dst, plan.nest.dst_type)):
                step = abs(stride) * kind.bits // 8 if isinstance(stride, int) else 0
                if step >= machine.line and machine.first_cache.overflows(rows, step):
                    crowded += tiles * rows
    if _is_flushed(lowered.plan):
        lines = lowered.nests[0].positions * lowered.nests[0].dst_type.bits / vector
        simple, stores = simple + lines, stores + lines
    return Instructions(simple, stores, crowded) if lowered.plan else None


def _parts(plan: tuple[Schedule, ...] | Blocks | StagedSchedule) -> Iterator[tuple[Schedule, int]]:
    """Yield the schedules of all boxes, and the number of times each runs."""
    if isinstance(plan, tuple):
        yield from ((each, 1) for each in plan)
    elif isinstance(plan, Blocks):
        for section in plan.sections:
            yield from ((each, section.end - section.first) for each in section.plans)
    else:
        yield from ((each, plan.steps) for stage in plan.whole.stages for each in stage)


def _is_flushed(plan: tuple[Schedule, ...] | Blocks | StagedSchedule) -> bool:
    if isinstance(plan, Blocks):
        return plan.scratch_elements > 0
    return isinstance(plan, StagedSchedule) and plan.whole.flush is not None


def _turns(text: str, vector: int) -> list[_Iteration]:
    """Return the innermost loops that store, or the whole code if none does."""
    called = dict[str, float]()
    for name, body in _FUNCTION.findall(text):
        called[name] = _turn(body.split("\n"), vector, called).simple
    lines = [line.strip() for line in _FUNCTION.sub("", text).splitlines()]
    places = {line[:-1]: number for number, line in enumerate(lines) if line.endswith(":")}
    ends = dict[int, int]()
    for number, line in enumerate(lines):
        if line.startswith("br "):
            first = min(places[name] for name in _LABEL.findall(line))
            if first < number and all(inner < first for inner in ends):
                ends[first] = number
    found = [_turn(lines[first:last], vector, called) for first, last in ends.items()]
    return [turn for turn in found if turn.stored] or [_turn(lines, vector, called)]


def _turn(lines: list[str], vector: int, called: Mapping[str, float]) -> _Iteration:
    seldom, is_seldom, found = set[str](), False, [_Iteration()]
    for line in lines:
        if line.endswith(":"):
            is_seldom = line[:-1] in seldom
        elif line.endswith(_USUALLY):
            seldom.add(_LABEL.findall(line)[1])
        elif not is_seldom:
            found.append(_counted(line.partition(" = ")[2] or line, vector))
            found += [
                _Iteration(0, _WAITING * called[name]) for name in _CALL.findall(line) if name in called
            ]
    return _Iteration(*map(sum, zip(*found, strict=True)))


def _counted(line: str, vector: int) -> _Iteration:
    name = line.partition(" ")[0]
    if name in _FREE:
        return _Iteration()
    sizes = [int(count) * (int(width or 0) or _BITS[word]) for count, width, word in _VECTOR.findall(line)]
    registers = -(-max(sizes, default=0) // vector)
    if name == "store" or "masked.store" in line:
        return _Iteration(max(sizes, default=1), 0, registers or 1)
    if name == "load":
        return _Iteration(0, registers or 1)
    if name == "fdiv" or "@llvm.sqrt" in line:
        return _Iteration(0, _QUOTIENT * registers)
    return _Iteration(0, _shuffles(line, sizes[0], vector) if name == "shufflevector" else registers)


def _shuffles(line: str, bits: int, vector: int) -> int:
    """Return the instructions of a shuffle of two operands of `bits`: 0 if it splits or joins registers."""
    width = bits // int(_VECTOR.findall(line)[0][0])
    count, listed = _SHUFFLE.findall(line)[0]
    places = [int(place) for place in re.findall(r"i32 (\d+)", listed)]
    if len(set(places)) <= 1:
        return 0
    size, is_run = int(count) * width, places == list(range(places[0], places[0] + int(count)))
    is_join = size > bits
    is_free = is_run and (size > vector if is_join else places[0] * width % vector == 0)
    return 0 if is_free else -(-size // vector)
