"""The CPU target: a nest in, schedules out, for any instruction set on any machine. Needs no device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from ..dtypes import DataType
from ..ir.nest import LoopNest
from ..ir.nest_rewrites import in_pairs, normalise, peel, peeled_boxes
from ..loading import load_whole
from ..schedule.machine import LINE, Machine
from ..schedule.moves.schedule import Schedule, moves_whole_bytes, scatters_rows, schedule
from .isa import CacheSizes, Isa

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..ir.staged_nest import StagedNest
    from ..schedule.language import Transform
    from ..schedule.moves.blocks import Blocks
    from ..schedule.moves.staged import StagedSchedule

# Past this many boxes the code would outgrow its use; the guarded form is smaller.
_MOST_BOXES = 48
# Work below this many bytes is not worth the code of several stages.
_STAGED_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class LoweredNest:
    """A scheduled nest for one instruction set: what would be compiled, and why it looks as it does."""

    nest: LoopNest
    isa: Isa
    caches: CacheSizes
    schedules: tuple[Schedule, ...]
    kind: str
    why: str
    steps: int
    staged: StagedSchedule | None = None
    blocks: Blocks | None = None

    numbers = ()

    @property
    def streams(self) -> bool:
        """True where streaming stores ask for a destination aligned to a cache line."""
        if self.staged:
            return self.staged.streams
        return any(plan.streams for plan in self.schedules)

    @property
    def nests(self) -> tuple[LoopNest, ...]:
        """The nest whose destination is written here and there in it."""
        return (self.nest,)

    @property
    def key(self) -> tuple[object, ...]:
        """The values that the code depends on besides the compiler; equal normal forms have equal keys."""
        return (self.staged or self.blocks or self.schedules or self.nest, self.isa)

    @property
    def splits_bytes(self) -> bool:
        """True where 4-bit elements of one byte would meet in different tiles: it must not be compiled."""
        if not self.nest.has_nibbles:
            return False
        return not self.schedules or not moves_whole_bytes(self.schedules)

    def ir(self) -> str:
        """The kernel as LLVM IR text."""
        # Most kernels are found on disk: what writes them is loaded with the first that is not.
        load_whole("restride.targets.cpu_ir")
        from .cpu_ir import ir_of

        return ir_of(self)

    def without_streams(self) -> LoweredNest:
        """The same with ordinary stores, for a destination that is not aligned to cache lines."""
        return replace(self, schedules=tuple(plan.without_streams() for plan in self.schedules))

    @property
    def boxes(self) -> list[LoopNest]:
        """The boxes of the nest that `schedules` run, which may have split some of them."""
        return _boxes(self.nest)

    @property
    def unreadable(self) -> str:
        """Why no text that can be read says how the nest runs; empty where one does."""
        if self.staged or self.blocks:
            return f"no transform makes {'stages' if self.staged else 'blocks'}"
        return "" if self.schedules else self.why

    def __str__(self) -> str:
        if self.unreadable:
            return str(self.staged or self.blocks or f"{self.kind} ({self.why})")
        load_whole("restride.schedule.moves.transforms")
        from ..schedule.moves.transforms import text_of

        return text_of(self.boxes, self.schedules)


# Instructions that multiply all of 32 bits and add the products to a sum, by LLVM's features: vpdpbusd and
# vdpbf16ps.
_DOTS = (
    ("avx512vnni", (DataType.u8, DataType.s8)),
    ("avxvnni", (DataType.u8, DataType.s8)),
    ("avx512bf16", (DataType.bf16, DataType.bf16)),
)

# pshufb puts the bytes of each 16 in one order.
_WITH_PSHUFB = ("sse41", "avx2", "avx512")
_PSHUFB_LANE = 16


def machine_of(isa: Isa, caches: CacheSizes) -> Machine:
    """The facts that a schedule depends on."""
    is_wide = isa.name == "avx512"
    return Machine(
        vector_bytes=isa.vector_bytes,
        registers=32 if is_wide or isa.name == "neon" else 16,
        l2=caches.l2,
        l3=caches.l3,
        # Streaming stores are of a whole line of ours, however short the system says its lines are.
        line=max(caches.line, LINE),
        adds_pairs=isa.triple.startswith("x86_64"),
        dots=tuple(types for feature, types in _DOTS if isa.has(feature)),
        permuted_bits=(8 if isa.has("avx512vbmi") else 16) if is_wide else 128,
        permuted_lane=_PSHUFB_LANE if isa.name in _WITH_PSHUFB else 0,
    )


def lower(
    nest: LoopNest, isa: Isa, caches: CacheSizes, *, may_stream: bool = True, chain: StagedNest | None = None
) -> LoweredNest:
    """Schedule a nest that is not empty. `may_stream` promises a destination aligned to a cache line.

    `chain` is the same in stages, taken where it is faster.
    """
    direct = _lower_direct(nest, isa, caches, may_stream)
    blocks = _block(direct, machine_of(isa, caches), may_stream)
    if blocks is not None:
        return replace(direct, schedules=(), steps=blocks.count, blocks=blocks)
    staged = _stage(chain, direct, machine_of(isa, caches), may_stream)
    if staged is None:
        return direct
    return LoweredNest(nest, isa, caches, (), staged.kind, staged.why, staged.steps, staged)


def _block(direct: LoweredNest, machine: Machine, may_stream: bool) -> Blocks | None:
    """Boxes in blocks through scratch, where they cannot all stream by themselves."""
    is_large = direct.nest.moved_bytes >= machine.l3
    if not may_stream or not is_large or direct.nest.has_nibbles:
        return None
    if all(plan.streams for plan in direct.schedules):
        return None
    if any(plan.kind == "strided" for plan in direct.schedules):
        # Reading one element of each line is all that takes time there.
        return None
    load_whole("restride.schedule.moves.blocks")
    from ..schedule.moves.blocks import blocks_through_scratch

    return blocks_through_scratch(direct.nest, machine)


def _stage(
    chain: StagedNest | None, direct: LoweredNest, machine: Machine, may_stream: bool
) -> StagedSchedule | None:
    """The stages where they are faster: they stream what the direct way cannot, or move in vectors.

    A gather moves in vectors too: in the caches it is 1.0 to 2.0 times as fast as stages, and past them 1.0
    to 1.5 times where it streams.
    """
    if chain is None or direct.nest.moved_bytes < _STAGED_BYTES:
        return None
    load_whole("restride.schedule.moves.staged")
    from ..schedule.moves.staged import stage, stream

    is_large = direct.nest.moved_bytes >= machine.l3
    if direct.kind == "gather" and (not is_large or all(plan.streams for plan in direct.schedules)):
        return None
    if direct.kind not in ("strided", "guarded", "gather"):
        is_short = not direct.streams or any(scatters_rows(plan, machine) for plan in direct.schedules)
        return stage(chain, machine, through_scratch=True) if is_large and is_short else None
    ways = [partial(stream, chain, machine)] if is_large and may_stream else []
    ways += [
        partial(stage, chain, machine, through_scratch=through_scratch)
        for through_scratch in (is_large, False)
    ]
    return next(filter(None, (way() for way in ways)), None)


def lower_by(nest: LoopNest, transforms: Iterable[Transform], isa: Isa, caches: CacheSizes) -> LoweredNest:
    """Schedule a nest that is not empty by transforms. Raises InvalidArguments where they do not fit."""
    load_whole("restride.schedule.moves.transforms")
    from ..schedule.moves.transforms import apply

    return _of_plans(nest, isa, caches, apply(_boxes(nest), transforms, machine_of(isa, caches)))


def _lower_direct(nest: LoopNest, isa: Isa, caches: CacheSizes, may_stream: bool) -> LoweredNest:
    if peeled_boxes(nest) > _MOST_BOXES:
        why = "too many partial blocks to peel"
        return LoweredNest(nest, isa, caches, (), "guarded", why, nest.axes[0].extent)
    machine = machine_of(isa, caches)
    plans = tuple(plan for box in _boxes(nest) for plan in schedule(box, machine))
    lowered = _of_plans(nest, isa, caches, plans)
    return lowered if may_stream else lowered.without_streams()


def _boxes(nest: LoopNest) -> list[LoopNest]:
    """The boxes of a nest, each without bounds and in its normal form."""
    return [in_pairs(normalise(box)) for box in peel(nest)]


def _of_plans(nest: LoopNest, isa: Isa, caches: CacheSizes, plans: tuple[Schedule, ...]) -> LoweredNest:
    """A nest with the schedules of its boxes; the one that moves the most gives it its name."""
    main = max(plans, key=lambda plan: (not plan.nest.is_zero, plan.nest.positions))
    steps = max(plan.steps() for plan in plans)
    return LoweredNest(nest, isa, caches, plans, main.kind, main.why, steps)
