"""The transforms of a whole move, at most one of which comes first: in blocks, or in stages through scratch.

    for a0: for a1: for a2: move                                   (nothing)
    for a1 in blocks of 64: each box of the nest within            block(a1, 64)
    for chunks of 128 positions: one stage after another           stage(128)
    ... the last one into scratch, flushed in whole lines          stage(128, flush)
    ... the last one with streaming stores                         stage(128, stream)

Axes are those of the nest with all its bounds; a chunk is of the axis that the stages are along. The
following transforms apply to boxes (`transforms.py`), numbered from 0: the boxes of a block, once for all
similar blocks; or those of the stages of a chunk, then of a smaller last one. Without them, boxes get their
default schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from ...ir.nest import LoopNest
from ...ir.nest_rewrites import normalize
from ...ir.staged_nest import StagedNest
from ..language import Schedule as Transforms
from ..language import Transform
from ..machine import Machine
from .blocks import Blocks, blocks_of, boxes_of_blocks, cuts, divisors_of, in_blocks
from .schedule import BoxScheduler, Schedule, schedule
from .staged import StagedSchedule, boxes_of_stages, in_chunks, stage, with_streams
from .transforms import WHOLE, Chosen, NoFitError, apply, no_fit, text_of, transforms_of

_ENDS = {
    "": "",
    "flush": ", flushed in runs",
    "stream": ", with streaming stores in the last stage",
}


def apply_whole(
    nest: LoopNest, chain: StagedNest | None, transforms: Transforms, machine: Machine, chosen: Chosen
) -> Blocks | StagedSchedule:
    """Apply transforms to a nest; the first of them is one of `WHOLE`.

    `chain`: the same nest in stages, if there is such a form. `chosen`: the schedule that messages quote.
    Raises InvalidArguments if a transform does not fit, before any is applied.
    """
    head, rest = transforms[0], transforms[1:]
    plans_of = partial(_parts, rest, chosen) if rest else None
    try:
        if head.loop:
            raise NoFitError("it applies to the whole nest, so omit the number")
        if head.name == "block":
            return _in_blocks(bounded(nest), head, machine, plans_of)
        return _in_stages(chain, head, machine, plans_of)
    except NoFitError as error:
        raise no_fit(head, str(error), chosen) from None


def bounded(nest: LoopNest) -> LoopNest:
    """Return the nest whose axes `block` names: unchanged, or, for a box, its normal form."""
    return nest if nest.bounds else normalize(nest)


def _in_blocks(nest: LoopNest, head: Transform, machine: Machine, plans_of: BoxScheduler | None) -> Blocks:
    axes = {f"a{i}": i for i in cuts(nest)}
    name, positions = (*head.args, "", "")[:2]
    if len(head.args) != 2 or not isinstance(positions, int):
        raise NoFitError("block takes an axis and a number")
    if name not in axes:
        why = " since two elements share a byte" * nest.has_nibbles
        raise NoFitError(f"the axes that can be cut are {_cut_axes(nest) or 'none'}{why}")
    extent = nest.axes[axes[str(name)]].extent
    if positions < 1 or extent % positions:
        raise NoFitError(f"{name} has {extent} positions; a block must have a divisor of them")
    blocks = blocks_of(nest, axes[str(name)], positions, machine, plans_of)
    if any(plan.streams for section in blocks.sections for plan in section.plans):
        raise NoFitError(
            "the boxes of a block do not stream: they are written in cache, and flushed from there"
        )
    return blocks


def _in_stages(
    chain: StagedNest | None, head: Transform, machine: Machine, plans_of: BoxScheduler | None
) -> StagedSchedule:
    chunk, end = (*head.args, "", "")[:2]
    if not isinstance(chunk, int) or head.args[1:] not in ((), ("flush",), ("stream",)):
        raise NoFitError("stage takes a number, and optionally flush or stream")
    if chain is None:
        raise NoFitError("this nest has no stages: no chunk of it is a run of the destination")
    width, as_chosen = chain.nest.src_type.bits // 8, stage(chain, machine, through_scratch=False)
    if as_chosen is None:
        raise NoFitError(f"a position does not fit the {machine.stack_bytes} bytes of scratch")
    most = max(machine.stack_bytes, as_chosen.scratch * width)
    if not 1 <= chunk <= chain.along.extent or chain.scratch(chunk) * width > most:
        raise NoFitError(
            f"it has {chain.along.extent} positions, each of {chain.row * width} of {most} bytes of scratch"
        )
    if end == "flush" and not (chain.run or chain.whole_run):
        raise NoFitError("the last stage writes no runs that can be flushed")
    staged = in_chunks(chain, chunk, machine, through_scratch=end == "flush", plans_of=plans_of)
    if any(plan.streams for plan in staged.plans):
        raise NoFitError("boxes of stages do not stream by themselves: use stage(..., stream)")
    if end != "stream":
        return staged
    streaming = with_streams(staged, chain, machine)
    if streaming is None:
        raise NoFitError("the last stage does not write whole cache lines")
    return streaming


def _cut_axes(nest: LoopNest) -> str:
    return ", ".join(f"a{i} of {nest.axes[i].extent}" for i in sorted(cuts(nest)))


def _parts(
    transforms: Transforms, chosen: Chosen, boxes: Sequence[LoopNest], machine: Machine
) -> Iterator[list[Schedule]]:
    """Return the schedules of each box by transforms: its parts cover all of its positions."""
    plans = iter(apply(boxes, transforms, machine, chosen))
    for box in boxes:
        parts = list[Schedule]()
        while sum(plan.nest.positions for plan in parts) < box.positions:
            parts.append(next(plans))
        yield parts


# --- the inverse --------------------------------------------------------------------------------------------


def whole_transforms(
    nest: LoopNest, chain: StagedNest | None, plan: Blocks | StagedSchedule
) -> tuple[Transforms, str]:
    """Return the transforms that produce a schedule of a nest, and the same as text, a line for each box."""
    if isinstance(plan, Blocks):
        head = Transform("block", (f"a{plan.cut}", plan.positions))
        boxes, plans = boxes_of_blocks(plan), [each for section in plan.sections for each in section.plans]
        end = f", each flushed as a run of {plan.scratch_elements} elements" if plan.scratch_elements else ""
        about = f"blocks{end}: {plan.count}; axes that may be cut: {_cut_axes(bounded(nest))}"
    else:
        assert chain is not None
        word = "flush" if plan.whole.flush else "stream" if plan.streams else ""
        head = Transform("stage", (plan.chunk, word) if word else (plan.chunk,))
        plans = [replace(each, streams=False) for each in plan.plans]
        boxes, about = (
            boxes_of_stages(chain, plan),
            f"{plan.kind} ({plan.why}): {plan.steps} chunks{_ENDS[word]}",
        )
    return (head, *transforms_of(boxes, plans)), f"# {about}\n{head}\n{text_of(boxes, plans)}"


# --- variants for a search ----------------------------------------------------------------------------------


def whole_neighbors(
    nest: LoopNest, boxes: Sequence[LoopNest], chain: StagedNest | None, machine: Machine
) -> Callable[[Transforms], Iterator[Transforms]]:
    """Yield longer and shorter blocks or chunks, and other ends of stages; and changes from and to none."""

    def near(transforms: Transforms) -> Iterator[Transforms]:
        head = transforms[0] if transforms and transforms[0].name in WHOLE else None
        if head is None:
            yield from _heads(nest, chain, machine)
            return
        at = head.name == "block"
        size, extents = head.args[at], bounded(nest).axes
        assert isinstance(size, int)
        sizes = [size // 2, size * 2]
        if at:  # the next divisors
            divisors = sorted(divisors_of(extents[int(str(head.args[0])[1:])].extent))
            place = divisors.index(size)
            sizes = [*divisors[max(place - 1, 0) : place], *divisors[place + 1 : place + 2]]
        for other in sizes:
            yield (replace(head, args=(*head.args[:at], other, *head.args[at + 1 :])),)
        for word in () if at else _ENDS:
            yield (Transform("stage", (size, word) if word else (size,)),)
        if boxes:
            plans = [plan for box in boxes for plan in schedule(box, machine)]
            yield transforms_of(boxes, plans)

    return near


def _heads(nest: LoopNest, chain: StagedNest | None, machine: Machine) -> Iterator[Transforms]:
    """Yield blocks and stages of the default size."""
    whole = bounded(nest)
    for cut in cuts(whole)[:1]:
        if blocks := in_blocks(whole, cut, machine):
            yield (Transform("block", (f"a{cut}", blocks.positions)),)
    staged = stage(chain, machine, through_scratch=False) if chain else None
    for word in _ENDS if staged else ():
        assert staged is not None
        yield (Transform("stage", (staged.chunk, word) if word else (staged.chunk,)),)
