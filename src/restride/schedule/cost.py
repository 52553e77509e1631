"""How long a move will take, predicted: from the instructions of its kernel and the bytes that they move.

    seconds = call + region where threads share the work + both of these, of which the longer hides most:
        the instructions of a core's part, each by what it costs,
        the bytes over the bandwidth of where they lie, for moves whose neighbours lie like these.

`targets/instructions.py` counts the instructions in the code. The rates (`machine.Rates`) were measured once,
and not on your machine, unless they are measured: `docs/performance.md` says how far they are off. What knows
better is `Plan.measure`; and the roofline of the standing benchmark shows what was predicted beside what was
measured.

Formats of networks are chosen without code, by `KernelWork`: by the bytes, and the kind of the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log2
from typing import NamedTuple

from .machine import CURVES, IN_CACHES, RATES, Machine, Rates, curve_sizes

# The longer of the time of instructions and of bytes hides most of the other: as in this norm of both.
_NORM = 2.5
# Past the caches a byte that is written weighs this much more than one of a copy, one that is read less.
_WRITTEN = 0.4


class Instructions(NamedTuple):
    """Vector instructions of an execution: `simple` ones, which are all but stores, and `stores`; `crowded`:
    lines, of those that a tile reads or writes, that push each other out of the first cache.
    """

    simple: float
    stores: float
    crowded: float = 0.0


@dataclass(frozen=True, slots=True)
class InstructionWork:
    """What a kernel does whose code was read: instructions, bytes in all and those that are written.

    `bits`: of the narrower type. `place`: how neighbours on one side lie on the other (`moves/tiling.py`).
    """

    instructions: Instructions
    moved_bytes: int
    written_bytes: int
    threads: int = 1
    bits: int = 32
    place: str = "turned"


@dataclass(frozen=True, slots=True)
class KernelWork:
    """What a kernel has to do: its kind, bytes read and written, positions of the nest, threads to share it.

    `read_first`: bytes of the destination whose lines come from memory before they are written, because no
    streaming store writes them.
    """

    kind: str
    moved_bytes: int
    elements: int
    threads: int = 1
    read_first: int = 0


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds that one execution should take, and the bytes that it moves."""

    seconds: float
    moved_bytes: int

    @property
    def gb_per_s(self) -> float:
        """Bytes read and written, in 1e9 a second."""
        return self.moved_bytes / self.seconds / 1e9


def predict(work: KernelWork | InstructionWork, machine: Machine, rates: Rates = RATES) -> Prediction:
    """The time of `work` with its pages touched and its kernel compiled."""
    region = rates.region if work.threads > 1 else 0.0
    if isinstance(work, InstructionWork):
        computing, moving = _in_core(work, rates), _in_caches(work, machine, rates)
        longer = (computing**_NORM + moving**_NORM) ** (1 / _NORM)
    else:
        longer = max(_in_memory(work, machine, rates), _moving(work, machine, rates) / work.threads)
    return Prediction(rates.call + region + longer, work.moved_bytes)


def _in_core(code: InstructionWork, rates: Rates) -> float:
    """Seconds of instructions whose lines are in the first cache."""
    count, each = code.instructions, rates
    seconds = count.simple * each.instruction + count.stores * each.store + count.crowded * each.crowded
    return seconds / code.threads


def _in_caches(code: InstructionWork, machine: Machine, rates: Rates) -> float:
    """Seconds of the bytes, by the speed of moves like this one at the sizes that were measured on both sides
    of it. At the size of the last cache speed makes a step, as from there on lines are written past it.
    """
    curves = dict(zip(CURVES, rates.curves, strict=True))
    names = [code.place] if code.place == "copy" else [f"{code.place} {bits}" for bits in (8, 32)]
    at = slice(IN_CACHES, None) if code.moved_bytes >= machine.l3 else slice(IN_CACHES)
    sizes = curve_sizes(machine.l2, machine.l3)[at]
    slow, fast, alone, shared = (
        _between(sizes, speeds[at], code.moved_bytes)
        for speeds in (curves[names[0]], curves[names[-1]], curves["copy"], rates.shared)
    )
    wide = min(max(log2(code.bits / 8) / 2, 0.0), 1.0)
    cores = min(code.threads, shared / alone)
    is_past = code.moved_bytes >= machine.l3
    nbytes = code.moved_bytes + is_past * _WRITTEN * (2 * code.written_bytes - code.moved_bytes)
    return nbytes / (_mean(slow, fast, wide) * cores)


def _between(sizes: Sequence[int], speeds: Sequence[float], size: int) -> float:
    """The speed at a size, by those at the nearest ones: all in logarithms."""
    for (low, slow), (high, fast) in pairwise(zip(sizes, speeds, strict=True)):
        if size <= high:
            part = max(log2(max(size, 1) / low), 0.0) / log2(high / low)
            return _mean(slow, fast, part)
    return speeds[-1]


def _mean(low: float, high: float, part: float) -> float:
    """The geometric mean of two speeds, of which the second counts for so large a part."""
    mean: float = low ** (1 - part) * high**part
    return mean


def _in_memory(work: KernelWork, machine: Machine, rates: Rates) -> float:
    if work.moved_bytes <= machine.l2 * work.threads:
        return 0.0
    if work.moved_bytes <= machine.l3:
        return work.moved_bytes / (rates.cache * work.threads)
    rate = min(rates.memory * work.threads, rates.memory_limit)
    return (work.moved_bytes + work.read_first) / rate


def _moving(work: KernelWork, machine: Machine, rates: Rates) -> float:
    if work.kind in ("strided", "guarded"):  # lanes, or positions, one by one
        return work.elements * (rates.lane if work.kind == "strided" else rates.guarded)
    return work.moved_bytes / (
        rates.copy if work.kind in ("copy", "zero") else rates.tile(machine.vector_bytes)
    )
