"""How long a move will take, predicted from its size and the kind of its kernel: a roofline.

    seconds = CALL + REGION where threads share the work + the longer of
        the bytes over the bandwidth of where they lie,
        the bytes, or elements, over what the threads' cores can do.

The rates were measured once, on two cores of an AMD EPYC of family 26 (Zen 5; 1 MiB of second cache a core,
32 MiB of last) that had other work beside; how, is told at each. They are not those of your machine. On one
like it a prediction may be wrong by a factor of 1.5, on another by 3; between one size class of caches and
the next the step is sharp here, and a slope there. Conversions count as moves: of doubles and of 4-bit types,
and where a tensor goes through bytes of its own, they may take ten times as long. What knows better is
`Plan.measure`; and the roofline of the standing benchmark shows what was predicted beside what was measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from .machine import Machine

# A warm `execute` of next to nothing, checks and native call: 0.25 to 0.28 us.
CALL = 0.26e-6
# A region of the pool that its workers find awake: 2 to 5 us.
REGION = 4e-6
# One core on copies of 100 KB, which stay in its second cache, less the call: 150 to 170 bytes a ns, on
# vectors of 16, 32 and 64 bytes alike.
COPY_RATE = 160e9
# The same on f32 NCHW to NHWC, by the bytes of a vector. The network takes log2(lanes) rounds, so that wider
# vectors need fewer instructions for a byte, but not half as many.
TILE_RATES = {16: 75e9, 32: 92e9, 64: 150e9}
# A lane that is loaded or stored by itself takes 0.12 to 0.35 ns, whatever its type.
LANE = 0.2e-9
# A guarded position takes 2.8 ns: its index is compared with every bound.
GUARDED = 2.8e-9
# A function of an element is weighed in bytes, ten of which go by in a ns.
FUNCTION_RATE = 10e9
# One core on 2 to 16 MB, which stay in the last cache: 70 to 105 bytes a ns; two cores 150.
CACHE_RATE = 80e9
# One core past the caches: 40 to 52 bytes a ns. Both together, on a quiet machine: 55 to 66.
MEMORY_RATE, MEMORY_LIMIT = 45e9, 58e9


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


def predict(work: KernelWork, machine: Machine) -> Prediction:
    """The time of `work` with its pages touched and its kernel compiled."""
    region = REGION if work.threads > 1 else 0.0
    longer = max(_in_memory(work, machine), _in_cores(work, machine))
    return Prediction(CALL + region + longer, work.moved_bytes)


def _in_memory(work: KernelWork, machine: Machine) -> float:
    if work.moved_bytes <= machine.l2 * work.threads:
        return 0.0
    if work.moved_bytes <= machine.l3:
        return work.moved_bytes / (CACHE_RATE * work.threads)
    rate = min(MEMORY_RATE * work.threads, MEMORY_LIMIT)
    return (work.moved_bytes + work.read_first) / rate


def _in_cores(work: KernelWork, machine: Machine) -> float:
    return (_moving(work, machine) + work.function_bytes / FUNCTION_RATE) / work.threads


def _moving(work: KernelWork, machine: Machine) -> float:
    if work.kind in ("strided", "guarded"):
        return work.elements * (LANE if work.kind == "strided" else GUARDED)
    if work.kind in ("copy", "zero"):
        return work.moved_bytes / COPY_RATE
    return work.moved_bytes / TILE_RATES.get(machine.vector_bytes, TILE_RATES[16])
