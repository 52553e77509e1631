"""A prediction of the time of a move, from the instructions of its kernel and the bytes that they move.

    seconds = call + region if threads share the work + these two, which mostly overlap:
        the instructions of a core's part, each times its cost,
        the bytes over the bandwidth of the cache or memory, for moves with neighbors in the same places.

`targets/instructions.py` counts the instructions in the code. The default rates (`machine.Rates`) were
measured on one machine; `docs/performance.md` gives the errors of the predictions. `Plan.measure` is more
accurate, and the roofline of the standing benchmark shows predicted and measured times.

Formats of networks are chosen by `KernelWork`, without code: by the bytes and the kind of the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log2
from typing import NamedTuple

from .machine import CURVES, IN_CACHES, RATES, Machine, Rates, curve_sizes

# The times of instructions and bytes overlap: they are combined in this norm.
_NORM = 2.5
# Past the caches a written byte costs this much more than a byte of a copy, and a byte that is read less.
_WRITTEN = 0.4


class Instructions(NamedTuple):
    """Vector instructions of an execution: `stores`, and `simple` for all others; `crowded`: lines of tiles
    that evict each other from the first cache.
    """

    simple: float
    stores: float
    crowded: float = 0.0


@dataclass(frozen=True, slots=True)
class InstructionWork:
    """The work of a kernel whose code was read: instructions, all bytes and the bytes that are written.

    `bits`: of the narrower type. `place`: how neighbors on one side lie on the other (`moves/tiling.py`).
    """

    instructions: Instructions
    moved_bytes: int
    written_bytes: int
    threads: int = 1
    bits: int = 32
    place: str = "turned"


@dataclass(frozen=True, slots=True)
class KernelWork:
    """The work of a kernel: its kind, bytes read and written, positions of the nest, threads to share it.

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
    """Seconds of the bytes, interpolated between the measured speeds of similar moves at the next smaller and
    larger sizes. Speed jumps at the size of the last cache, because larger moves write past it.
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
    """The speed at a size, interpolated between the nearest ones in logarithms."""
    for (low, slow), (high, fast) in pairwise(zip(sizes, speeds, strict=True)):
        if size <= high:
            part = max(log2(max(size, 1) / low), 0.0) / log2(high / low)
            return _mean(slow, fast, part)
    return speeds[-1]


def _mean(low: float, high: float, part: float) -> float:
    """The geometric mean of two speeds; `part` is the weight of the second."""
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
