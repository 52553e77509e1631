"""The CPU target: schedules nests for any instruction set on any machine. Needs no device."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from ..dtypes import DataType
from ..errors import InvalidArguments
from ..frozen import dataclass
from ..ir.nest import LoopNest
from ..ir.nest_rewrites import in_pairs, normalize, peel, peeled_boxes
from ..loading import load_whole
from ..schedule.machine import LIMITS, LINE, Machine
from ..schedule.moves.schedule import Schedule, moves_whole_bytes, needs_square, scatters_rows, schedule
from .isa import CacheSizes, Isa
from .lowered import Lowered, ScheduleChoice

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..emit.kernel import Style
    from ..ir.staged_nest import StagedNest
    from ..schedule import language
    from ..schedule.moves.blocks import Blocks
    from ..schedule.moves.staged import StagedSchedule


# Instructions that multiply 32 bits of elements and add the products to a sum, by LLVM's features: vpdpbusd
# and vdpbf16ps.
_DOTS = (
    ("avx512vnni", (DataType.u8, DataType.s8)),
    ("avxvnni", (DataType.u8, DataType.s8)),
    ("avx512bf16", (DataType.bf16, DataType.bf16)),
)

# pshufb permutes the bytes of each 16 in the same order.
_WITH_PSHUFB = ("sse41", "avx2", "avx512")
_PSHUFB_LANE = 16


@cache
def machine_of(isa: Isa, caches: CacheSizes) -> Machine:
    """Return the machine for an instruction set and caches: this one, or one that is emulated or targeted.

    Other values have the defaults of `Machine`: cache associativity, costs of loads and threads.
    """
    is_wide = isa.name == "avx512"
    return Machine(
        vector_bytes=isa.vector_bytes,
        registers=32 if is_wide or isa.name == "neon" else 16,
        l2=caches.l2,
        l3=caches.l3,
        # Streaming stores write a whole line of `LINE` bytes, even if the system reports shorter lines.
        line=max(caches.line, LINE),
        adds_pairs=isa.triple.startswith("x86_64"),
        dots=tuple(types for feature, types in _DOTS if isa.has(feature)),
        permuted_bits=(8 if isa.has("avx512vbmi") else 16) if is_wide else 128,
        permuted_lane=_PSHUFB_LANE if isa.name in _WITH_PSHUFB else 0,
    )


def lower_nest(
    nest: LoopNest,
    isa: Isa,
    caches: CacheSizes,
    *,
    may_stream: bool = True,
    chain: StagedNest | None = None,
    at_once: bool = False,
) -> Lowered:
    """Schedule a nonempty nest. `may_stream` promises a destination aligned to a cache line.

    `chain` is the same in stages, used if it is faster. `at_once`: neither in stages nor in blocks.
    """
    lowering = _NestLowering(nest, isa, caches, may_stream, chain)
    return lowering.direct() if at_once else lowering.chosen()


def lower_by(
    nest: LoopNest,
    transforms: language.Schedule,
    isa: Isa,
    caches: CacheSizes,
    *,
    may_stream: bool = True,
    chain: StagedNest | None = None,
) -> Lowered:
    """Schedule a nonempty nest by transforms. Raises InvalidArguments if they do not fit."""
    return _NestLowering(nest, isa, caches, may_stream, chain).by(transforms)


@dataclass(frozen=True, slots=True)
class _NestLowering:
    """A nest for an instruction set and caches, and the ways in which it can be lowered."""

    nest: LoopNest
    isa: Isa
    caches: CacheSizes
    may_stream: bool
    chain: StagedNest | None

    @property
    def machine(self) -> Machine:
        """The machine to schedule for."""
        return machine_of(self.isa, self.caches)

    def chosen(self) -> Lowered:
        """Return the nest directly, in blocks, or in stages, whichever is fastest."""
        direct, machine = self.direct(), self.machine
        own = self._with_stages() if any(needs_square(plan, machine) for plan in direct.plan) else self
        whole = _block(direct, machine, self.may_stream) or _stage(
            own.chain, direct, machine, self.may_stream
        )
        lowered = direct if whole is None else own._in_parts(whole, direct)
        return self._with_unaligned(lowered, _NestLowering.chosen)

    def by(self, transforms: language.Schedule) -> Lowered:
        """Return the nest by transforms. Raises InvalidArguments if they do not fit."""
        load_whole("restride.schedule.moves.transforms")
        from ..schedule.moves.transforms import WHOLE, apply

        if transforms and transforms[0].name in WHOLE:
            load_whole("restride.schedule.moves.whole_nest")
            from ..schedule.moves.whole_nest import apply_whole

            own = self._with_stages() if transforms[0].name == "stage" else self
            whole = apply_whole(self.nest, own.chain, transforms, self.machine, self._chosen_transforms)
            if not self.may_stream:
                whole = whole.without_streams()
            lowered = own._in_parts(whole, self.direct())
        else:
            lowered = self._of_plans(
                apply(boxes_of(self.nest), transforms, self.machine, self._chosen_transforms)
            )
        return self._with_unaligned(lowered, lambda plain: plain.by(transforms))

    def _with_stages(self) -> _NestLowering:
        """Return the same with stages, searched for if the caller did not; small nests have none."""
        if self.chain is not None or self.nest.has_nibbles:
            return self
        load_whole("restride.schedule.moves.staged")
        from ..schedule.moves.staged import one_stage

        return replace(self, chain=one_stage(self.nest))

    def _chosen_transforms(self) -> language.Schedule:
        choice = self.chosen().choice
        return choice().transforms if choice else ()

    def direct(self) -> Lowered:
        """Return the nest without blocks or stages: each box with its chosen schedule."""
        nest = self.nest
        if peeled_boxes(nest) > LIMITS.boxes:
            why, steps = "too many partial blocks to peel", nest.axes[0].extent
            return Lowered((), _write_guarded, self.isa, "guarded", why, steps, code=nest, nests=(nest,))
        return self._of_plans(tuple(plan for box in boxes_of(nest) for plan in schedule(box, self.machine)))

    def _of_plans(self, plans: tuple[Schedule, ...]) -> Lowered:
        """Return the nest with the schedules of its boxes; the one that moves the most gives it its name."""
        if not self.may_stream:
            plans = tuple(plan.without_streams() for plan in plans)
        main = max(plans, key=lambda plan: (not plan.nest.is_zero, plan.nest.positions))
        steps = max(plan.steps() for plan in plans)
        return Lowered(
            *(plans, _write_schedules, self.isa, main.kind, main.why, steps),
            nests=(self.nest,),
            choice=partial(self._choice, plans),
        )

    def _in_parts(self, plan: Blocks | StagedSchedule, direct: Lowered) -> Lowered:
        """Return the nest in blocks, named like the direct one, or in stages."""
        is_staged = plan.kind == "staged"
        kind, why = (plan.kind, plan.why) if is_staged else (direct.kind, direct.why)
        return Lowered(
            *(plan, _write_staged if is_staged else _write_blocks, self.isa, kind, why, plan.steps),
            nests=(self.nest,),
            choice=partial(self._choice, plan),
        )

    def _with_unaligned(self, lowered: Lowered, of: Callable[[_NestLowering], Lowered]) -> Lowered:
        """Add the kernel for destinations not aligned to a cache line, if it differs. Blocks and flushes can
        begin anywhere.
        """
        plans = lowered.plan if isinstance(lowered.plan, tuple) else (lowered.plan,)
        if not any(plan.streams for plan in plans):
            return lowered
        return replace(lowered, unaligned=partial(of, replace(self, may_stream=False)))

    def _choice(self, plan: tuple[Schedule, ...] | Blocks | StagedSchedule) -> ScheduleChoice:
        load_whole("restride.schedule.moves.neighbors")
        load_whole("restride.schedule.moves.whole_nest")
        from ..schedule.moves.neighbors import neighbors
        from ..schedule.moves.transforms import text_of, transforms_of
        from ..schedule.moves.whole_nest import whole_transforms

        boxes = [] if peeled_boxes(self.nest) > LIMITS.boxes else boxes_of(self.nest)
        if isinstance(plan, tuple):
            transforms, text = transforms_of(boxes, plan), text_of(boxes, plan)
        else:
            transforms, text = whole_transforms(self.nest, self.chain, plan)
        ways = partial(neighbors, self.nest, boxes, self.chain, self.machine)
        return ScheduleChoice(self.nest, transforms, ways, self._fits, self.by, text)

    def _fits(self, transforms: language.Schedule) -> bool:
        """Return whether transforms fit."""
        try:
            self.by(transforms)
        except InvalidArguments:
            return False
        return True


def boxes_of(nest: LoopNest) -> list[LoopNest]:
    """Return the boxes of a nest, each without bounds and in its normal form."""
    return [in_pairs(normalize(box)) for box in peel(nest)]


def splits_bytes(lowered: Lowered) -> bool:
    """Return whether 4-bit elements of one byte would be in different tiles: then it must not be compiled."""
    (nest,) = lowered.nests
    return nest.has_nibbles and not (lowered.plan and moves_whole_bytes(lowered.plan))


def _block(direct: Lowered, machine: Machine, may_stream: bool) -> Blocks | None:
    """Return boxes in blocks through scratch, if they cannot all stream by themselves."""
    (nest,) = direct.nests
    if not may_stream or nest.moved_bytes < machine.l3 or nest.has_nibbles:
        return None
    if all(plan.streams for plan in direct.plan):
        return None
    if any(plan.kind == "strided" for plan in direct.plan):
        # Reading one element of each line dominates the time there.
        return None
    load_whole("restride.schedule.moves.blocks")
    from ..schedule.moves.blocks import blocks_through_scratch

    return blocks_through_scratch(nest, machine)


def _stage(
    chain: StagedNest | None, direct: Lowered, machine: Machine, may_stream: bool
) -> StagedSchedule | None:
    """Return the stages if they are faster: they stream what the direct way cannot, or move in vectors.

    A gather moves in vectors too: in cache it is 1.0 to 2.0 times as fast as stages, and past the caches 1.0
    to 1.5 times if it streams.
    """
    (nest,) = direct.nests
    if chain is None or nest.moved_bytes < LIMITS.staged:
        return None
    load_whole("restride.schedule.moves.staged")
    from ..schedule.moves.staged import stage, stream

    is_large = nest.moved_bytes >= machine.l3
    if direct.kind == "gather" and (not is_large or all(plan.streams for plan in direct.plan)):
        return None
    if direct.kind not in ("strided", "guarded", "gather"):
        plans = direct.plan
        is_short = is_large and not any(plan.streams for plan in plans)
        if chain.whole_run:
            is_short = direct.kind == "transpose" and (
                is_short or any(needs_square(plan, machine) for plan in plans)
            )
        else:
            is_short |= is_large and any(scatters_rows(plan, machine) for plan in plans)
        staged = stage(chain, machine, through_scratch=True) if is_short else None
        return staged if staged is None or may_stream else staged.without_streams()
    ways = [partial(stream, chain, machine)] if is_large and may_stream else []
    ways += [
        partial(stage, chain, machine, through_scratch=through_scratch)
        for through_scratch in (is_large, False)
    ]
    return next(filter(None, (way() for way in ways)), None)


# --- text ---------------------------------------------------------------------------------------------------
# Most kernels are found on disk: the code generators are loaded only when one is not.


def _style(isa: Isa) -> Style:
    load_whole("restride.targets.cpu_ir")
    from .cpu_ir import style_of

    return style_of(isa)


def _write_schedules(plans: tuple[Schedule, ...], isa: Isa) -> str:
    load_whole("restride.emit.kernel")
    from ..emit.kernel import emit_kernel

    return emit_kernel(plans, _style(isa))


def _write_guarded(nest: LoopNest, isa: Isa) -> str:
    load_whole("restride.emit.guarded")
    from ..emit.guarded import emit_guarded

    return emit_guarded(nest, _style(isa))


def _write_staged(plan: StagedSchedule, isa: Isa) -> str:
    load_whole("restride.emit.staged")
    from ..emit.staged import emit_staged

    return emit_staged(plan, _style(isa))


def _write_blocks(plan: Blocks, isa: Isa) -> str:
    load_whole("restride.emit.blocks")
    from ..emit.blocks import emit_blocks

    return emit_blocks(plan, _style(isa))
