"""The CPU target: a nest in, a binary out. Needs no device; any instruction set can be emitted on any machine."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..emit.convert import Abilities
from ..emit.kernel import ENTRY, Style, emit_guarded, emit_kernel
from ..plan.machine import Machine
from ..plan.nest import LoopNest, normalise, peel, peeled_boxes
from ..plan.schedule import Schedule, schedule
from .isa import CacheSizes, Isa
from .jit import compile_ir

__all__ = ["ENTRY", "Binary", "Lowered", "compile_lowered", "lower", "machine_of"]

# Past this many boxes the code would outgrow its use; the guarded form is smaller.
_MOST_BOXES = 48


@dataclass(frozen=True, slots=True)
class Lowered:
    """A nest as IR text: what would be compiled, and why it looks as it does."""

    ir: str
    schedules: tuple[Schedule, ...]
    kind: str
    why: str
    steps: int
    streams: bool


@dataclass(frozen=True, slots=True)
class Binary:
    """Object code with the entry `restride`."""

    code: bytes
    lowered: Lowered


def machine_of(isa: Isa, caches: CacheSizes) -> Machine:
    """The facts that a schedule depends on."""
    is_wide = isa.name == "avx512"
    return Machine(
        vector_bytes=isa.vector_bytes,
        registers=32 if is_wide or isa.name == "neon" else 16,
        has_wide_permute=is_wide,
        has_byte_permute=is_wide and isa.has("avx512vbmi"),
        l2=caches.l2,
        l3=caches.l3,
        line=caches.line,
    )


def style_of(isa: Isa) -> Style:
    """How code for an instruction set is written."""
    is_wide = isa.name == "avx512"
    can = Abilities(
        half=isa.name in ("avx512", "avx2", "neon"),
        round_even=isa.name in ("avx512", "avx2", "sse41", "neon"),
        masks=is_wide,
    )
    return Style(isa.vector_bytes, 1 if is_wide else 3, 1 if is_wide and isa.has("avx512vbmi") else 4, can)


def lower(nest: LoopNest, isa: Isa, caches: CacheSizes, *, may_stream: bool = True) -> Lowered:
    """Schedule a nest and write its IR. `may_stream` promises a destination aligned to a cache line."""
    machine, style = machine_of(isa, caches), style_of(isa)
    if peeled_boxes(nest) > _MOST_BOXES:
        ir = emit_guarded(nest, style)
        return Lowered(ir, (), "guarded", "too many partial blocks to peel", nest.axes[0].extent, False)
    boxes = [normalise(box) for box in peel(nest)]
    plans = tuple(plan for box in boxes for plan in schedule(box, machine))
    if not may_stream:
        plans = tuple(plan.without_streams() for plan in plans)
    main = max(plans, key=lambda p: p.nest.positions)
    streams = any(p.streams for p in plans)
    return Lowered(emit_kernel(plans, style), plans, main.kind, main.why, max(p.steps() for p in plans), streams)


def compile_lowered(lowered: Lowered, isa: Isa) -> Binary:
    """Object code of a lowered nest."""
    return Binary(compile_ir(lowered.ir, isa), lowered)


def moved_bytes(nest: LoopNest) -> int:
    """Bytes that a nest reads and writes, padding included."""
    return prod(a.extent for a in nest.axes) * (nest.src_type.bits + nest.dst_type.bits) // 8
