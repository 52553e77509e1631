"""How long a move will take, predicted from its size and the kind of its kernel: a roofline.

    seconds = call + region where threads share the work + the longer of
        the bytes over the bandwidth of where they lie,
        the bytes, or elements, over what the threads' cores can do.

The rates (`machine.Rates`) were measured once, and not on your machine, unless they are measured. On one
like it a prediction may be wrong by a factor of 1.5, on another by 3; between one size class of caches and
the next the step is sharp here, and a slope there. Conversions count as moves: of doubles and of 4-bit types,
and where a tensor goes through bytes of its own, they may take ten times as long. What knows better is
`Plan.measure`; and the roofline of the standing benchmark shows what was predicted beside what was measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

from .machine import CURVES, RATES, Machine, Rates


@dataclass(frozen=True, slots=True)
class KernelWork:
    """What a kernel has to do: its kind, bytes read and written, positions of the nest, threads to share it.

    `function_bytes`: what functions of the values weigh. `read_first`: bytes of the destination whose lines
    come from memory before they are written, because no streaming store writes them. `bits`: of the narrower
    type. `place`: how neighbours on one side lie on the other (`moves/tiling.py`).
    """

    kind: str
    moved_bytes: int
    elements: int
    threads: int = 1
    function_bytes: int = 0
    read_first: int = 0
    bits: int = 32
    place: str = "turned"


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds that one execution should take, and the bytes that it moves."""

    seconds: float
    moved_bytes: int

    @property
    def gb_per_s(self) -> float:
        """Bytes read and written, in 1e9 a second."""
        return self.moved_bytes / self.seconds / 1e9


def predict(work: KernelWork, machine: Machine, rates: Rates = RATES) -> Prediction:
    """The time of `work` with its pages touched and its kernel compiled."""
    region = rates.region if work.threads > 1 else 0.0
    if rates.curves:
        return Prediction(rates.call + region + _as_measured(work, machine, rates), work.moved_bytes)
    moving = _moving(work, machine, rates) + work.function_bytes / rates.function
    longer = max(_in_memory(work, machine, rates), moving / work.threads)
    return Prediction(rates.call + region + longer, work.moved_bytes)


def _as_measured(work: KernelWork, machine: Machine, rates: Rates) -> float:
    """By the speed of moves like this one, at the sizes that were measured on both sides of it."""
    curves = dict(zip(CURVES, rates.curves, strict=True))
    is_copy = work.kind in ("copy", "zero") and work.place != "pieces"
    if is_copy or work.place == "copy":
        low = high = curves["copy"]
    elif work.place == "pieces":  # as fast as copies in the caches alone
        low = high = (*curves["copy"][:2], *curves["near 8"][2:])
    else:
        low, high = (curves[f"{work.place} {bits}"] for bits in (8, 32))
    share = min(max(log2(work.bits / 8) / 2, 0.0), 1.0)  # of the wider type
    each: list[float] = [a ** (1 - share) * b**share for a, b in zip(low, high, strict=True)]
    at = log2(max(work.moved_bytes, 1))
    places = [log2(size) for size in rates.sizes]
    after = next((i for i, place in enumerate(places) if place > at), len(places) - 1)
    before = max(after - 1, 0)
    span = places[after] - places[before]
    part = min(max((at - places[before]) / span, 0.0), 1.0) if span else 1.0
    rate: float = each[before] ** (1 - part) * each[after] ** part
    cores = work.threads if work.moved_bytes <= machine.l3 else rates.memory_limit / rates.memory
    cores = min(cores, work.threads) if work.threads > 1 else 1.0
    moving = work.moved_bytes / rate + work.function_bytes / rates.function
    return max(moving, _by_element(work, rates)) / cores


def _by_element(work: KernelWork, rates: Rates) -> float:
    """Where lanes are loaded or stored one by one."""
    if work.kind not in ("strided", "guarded"):
        return 0.0
    return work.elements * (rates.lane if work.kind == "strided" else rates.guarded)


def _in_memory(work: KernelWork, machine: Machine, rates: Rates) -> float:
    if work.moved_bytes <= machine.l2 * work.threads:
        return 0.0
    if work.moved_bytes <= machine.l3:
        return work.moved_bytes / (rates.cache * work.threads)
    rate = min(rates.memory * work.threads, rates.memory_limit)
    return (work.moved_bytes + work.read_first) / rate


def _moving(work: KernelWork, machine: Machine, rates: Rates) -> float:
    if work.kind in ("strided", "guarded"):
        return _by_element(work, rates)
    return work.moved_bytes / (
        rates.copy if work.kind in ("copy", "zero") else rates.tile(machine.vector_bytes)
    )
