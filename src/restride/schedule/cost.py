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

from .machine import RATES, Machine, Rates


@dataclass(frozen=True, slots=True)
class KernelWork:
    """What a kernel has to do: its kind, bytes read and written, positions of the nest, threads to share it.

    `function_bytes`: what functions of the values weigh. `read_first`: bytes of the destination whose lines
    come from memory before they are written, because no streaming store writes them.
    """

    kind: str
    moved_bytes: int
    elements: int
    threads: int = 1
    function_bytes: int = 0
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


def predict(work: KernelWork, machine: Machine, rates: Rates = RATES) -> Prediction:
    """The time of `work` with its pages touched and its kernel compiled."""
    region = rates.region if work.threads > 1 else 0.0
    moving = _moving(work, machine, rates) + work.function_bytes / rates.function
    longer = max(_in_memory(work, machine, rates), moving / work.threads)
    return Prediction(rates.call + region + longer, work.moved_bytes)


def _in_memory(work: KernelWork, machine: Machine, rates: Rates) -> float:
    if work.moved_bytes <= machine.l2 * work.threads:
        return 0.0
    if work.moved_bytes <= machine.l3:
        return work.moved_bytes / (rates.cache * work.threads)
    rate = min(rates.memory * work.threads, rates.memory_limit)
    return (work.moved_bytes + work.read_first) / rate


def _moving(work: KernelWork, machine: Machine, rates: Rates) -> float:
    if work.kind in ("strided", "guarded"):
        return work.elements * (rates.lane if work.kind == "strided" else rates.guarded)
    return work.moved_bytes / (
        rates.copy if work.kind in ("copy", "zero") else rates.tile(machine.vector_bytes)
    )
