"""Lowering of programs to launches of kernels on this processor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from ...emit.grid import CALL_WORDS, HEAD_WORDS
from ...errors import refuse
from ...ir.program import (
    DST,
    OWN,
    GridStep,
    NestStep,
    Place,
    Program,
    RepeatStep,
    Step,
    TreeStep,
    are_independent,
)
from ...loading import load_whole
from ...schedule.machine import LINE, NOMINAL
from ...targets.isa import CacheSizes, Isa
from .launch import FusedSumsLaunch, Launch, Repeat
from .thread_pool import default_pool

if TYPE_CHECKING:
    from ...errors import Error
    from ...ir.staged_nest import StagedNest
    from ...ir.tree import LoopTree
    from ...schedule.language import Argument, Schedule, Transform
    from ...targets.cpu_kernels import LoweredLoops
    from ...targets.lowered import Lowered
    from ...targets.schedule_store import ScheduleStore


def after_passes(program: Program, isa: Isa, caches: CacheSizes) -> Program:
    """Return the program in steps that kernels of the CPU support."""
    trees = (step.tree for step in program.steps if isinstance(step, TreeStep))
    has_nibbles = any(step.nest.has_nibbles for step in program.nests)
    has_nibbles |= any(tensor.data_type.bits < 8 for tree in trees for tensor in tree.tensors)
    adds = any(step.nest.compute.steps[-1:] and _adds(step) for step in program.nests)
    folds = any(isinstance(step, TreeStep) and step.tree.number.is_integer for step in program.steps)
    if not (has_nibbles or adds or folds):
        return program
    load_whole("restride.schedule.passes")
    from ...schedule.passes import (
        split_integer_folds,
        split_sums,
        spread_bytes,
        unpack_operands,
        widen_trees,
    )

    widened = widen_trees(program, lambda tree: _has_whole_bytes(tree, isa, caches))
    widened = unpack_operands(widened, lambda step, _: _adds(step))
    spread = spread_bytes(split_sums(widened, NOMINAL.sources), lambda step: _tears_bytes(step, isa, caches))
    return split_integer_folds(spread, lambda step, fold: _fused_sums(step, fold, isa, caches) is not None)


def _has_whole_bytes(tree: LoopTree, isa: Isa, caches: CacheSizes) -> bool:
    load_whole("restride.targets.cpu_kernels")
    from ...targets.cpu_kernels import has_whole_bytes

    return has_whole_bytes(tree, isa, caches)


def _adds(step: NestStep) -> bool:
    return step.nest.compute.steps[-1].is_accumulation


def _tears_bytes(step: NestStep, isa: Isa, caches: CacheSizes) -> bool:
    load_whole("restride.targets.cpu")
    from ...targets.cpu import lower_nest, splits_bytes

    return not step.nest.is_empty and splits_bytes(lower_nest(step.nest, isa, caches))


def repeats_of(program: Program, isa: Isa, caches: CacheSizes) -> Iterator[Repeat]:
    """Yield the launches of a program to which the passes have been applied."""
    steps = [step for step in program.steps if not (isinstance(step, NestStep) and step.nest.is_empty)]
    interleaved = _interleaved(steps, isa, caches)
    if interleaved is not None:
        yield Repeat((interleaved,))
        return
    is_summed = False
    # Steps of other columns differ only in their places.
    trees: dict[int, LoweredLoops] = {}
    nests: dict[tuple[int, bool], Lowered] = {}
    for step, following in zip(steps, [*steps, None][1:], strict=True):
        if is_summed:
            is_summed = False
        elif isinstance(step, TreeStep):
            yield Repeat(tuple(_tree_launches(step, isa, caches, trees)))
        elif isinstance(step, RepeatStep):
            pairs = zip(step.steps, step.strides, strict=True)
            launches = (_turn_launches(tree, strides, isa, caches) for tree, strides in pairs)
            yield Repeat(tuple(chain.from_iterable(launches)), step.turns)
        elif isinstance(step, GridStep):
            yield Repeat((_grid_launch(step, isa, caches),))
        else:
            launch = _nest_launch(step, following, isa, caches, nests)
            sums = following if isinstance(following, TreeStep) else None
            fused = sums and _fused_sums(step, sums, isa, caches)
            is_summed = fused is not None
            yield Repeat((FusedSumsLaunch(launch, sums, fused) if sums and fused else launch,))


def _tree_launches(
    step: TreeStep, isa: Isa, caches: CacheSizes, made: dict[int, LoweredLoops]
) -> Iterator[Launch]:
    """Yield a launch for each outermost loop, preceded by those that clear padding which no loop reaches.

    `made`: trees that were lowered, by identity.
    """
    if step.tree.is_empty:
        return
    load_whole("restride.targets.cpu_kernels")
    from ...targets.cpu_kernels import lower_tree

    lowered = made.get(id(step.tree)) or lower_tree(step.tree, isa, caches, step.source, step.rewrites)
    made[id(step.tree)] = lowered
    places = {tensor.name: place for tensor, place in zip(step.tree.tensors, step.places, strict=True)}
    for name, nest in lowered.cleared:
        clears = NestStep(nest, places[name], places[name], nest.moved_bytes, (0, 0), (0, 0), is_named=False)
        yield _nest_launch(clears, step, isa, caches, {})
    for part in lowered.loops:
        yield Launch(
            part,
            step.places,
            step.work_bytes,
            targets=step.places_of(part.streamed) if part.streams else step.targets,
            scalars=step.scalars,
            is_named=step.is_named,
            note=step.note,
            rewrites="" if step.source else step.rewrites,
            called=step.kind,
        )


def _turn_launches(
    step: TreeStep, strides: tuple[int, ...], isa: Isa, caches: CacheSizes
) -> Iterator[Launch]:
    """Return the launches of a tree in every turn: its places move to addresses that may be unaligned."""
    for launch in _tree_launches(step, isa, caches, {}):
        if launch.lowered.nests:
            raise ValueError(f"padding would be cleared in every turn of\n{step}")
        plain = launch.lowered.unaligned
        yield replace(launch, lowered=plain() if plain else launch.lowered, strides=strides)


def _grid_launch(step: GridStep, isa: Isa, caches: CacheSizes) -> Launch:
    """Return one launch, whose kernel goes through a table of the kernels of all trees."""
    load_whole("restride.targets.cpu_kernels")
    from ...targets.cpu_kernels import lower_grid

    buffers = [place.buffer for place in (*step.sources, *step.targets)]
    buffers += [place.buffer for call in step.calls for place in call.step.places]
    memories = [buffer for buffer in dict.fromkeys(buffers) if buffer != OWN]
    numbers = {buffer: number for number, buffer in enumerate(memories)} | {OWN: -1}
    axes, words, inner, most = len(step.extents), list[int](), list[tuple[int, Launch]](), 1
    calls = [(call, launch) for call in step.calls for launch in _turn_launches(call.step, (), isa, caches)]
    for call, launch in calls:
        record = list[int]()
        for condition in call.conditions:
            added, strides = condition.added, condition.strides or (0,) * axes
            place = (0, 0) if added is None else (numbers[added.buffer], added.offset)
            sign = condition.sign if added else 0
            record += (condition.constant, sign, *condition.factors, *place, *strides)
        for place, strides in zip(launch.places, call.strides, strict=True):
            record += (numbers[place.buffer], place.offset, *strides)
        inner.append((HEAD_WORDS + axes - 1 + len(words), launch))
        record += launch.lowered.numbers
        words += (0, 0, CALL_WORDS + len(record), len(call.conditions), len(launch.places), *record)
        most = max(most, len(launch.places))
    head = (step.positions, axes, step.extents[-1], step.own_bytes, len(calls), most, *step.extents[:-1])
    return Launch(
        lower_grid(str(step), (*head, *words), step.positions, isa, (step.kind, step.note)),
        tuple(Place(buffer) for buffer in memories),
        step.work_bytes,
        targets=tuple(Place(place.buffer) for place in step.targets),
        inner=tuple(inner),
    )


def _nest_launch(
    step: NestStep,
    following: Step | None,
    isa: Isa,
    caches: CacheSizes,
    made: dict[tuple[int, bool], Lowered],
) -> Launch:
    # Scheduling is loaded with the first problem: descriptors and memories do not need it.
    load_whole("restride.targets.cpu")
    from ...targets.cpu import lower_nest

    low, high = step.written
    is_read_next = following is not None and following.sources[:1] == (step.dst,)
    stays = is_read_next and step.nest.dst_type.nbytes(high - low) <= caches.l3 // 2
    key = id(step.nest), stays
    if key not in made:
        staged = None if stays else _staged(step, caches)
        made[key] = lower_nest(step.nest, isa, caches, may_stream=not stays, chain=staged)
    return Launch(
        made[key],
        step.operands,
        step.work_bytes,
        src=step.src,
        targets=step.targets,
        scalars=step.scalars,
        constants=step.constants,
        is_named=step.is_named,
        note=step.note,
    )


# Looking up the store takes a hundredth of a descriptor's time: it is done once, and after a search.
_found: ScheduleStore | None = None


def look_for_schedules() -> None:
    """Look for the store again: it may have other schedules now."""
    global _found
    _found = None


def with_found(repeats: Sequence[Repeat], isa: Isa, caches: CacheSizes) -> tuple[Repeat, ...]:
    """Return the launches with the schedules that a search has found for them on this machine, if any."""
    global _found
    found = _found
    if found is None or found.isa is not isa or found.caches is not caches:
        load_whole("restride.targets.schedule_store")
        from ...targets.schedule_store import schedule_store

        found = _found = schedule_store(isa, caches)
    if found.is_empty:
        return tuple(repeats)
    threads = default_pool().threads

    def as_found(launch: Launch | FusedSumsLaunch) -> Launch | FusedSumsLaunch:
        choice = launch.lowered.choice
        if choice is None or not isinstance(launch, Launch):
            return launch
        transforms = found.find(launch.work_bytes, threads, choice)
        if transforms is None:
            return launch
        measured = launch_by(launch, transforms)
        return replace(measured, lowered=measured.lowered.as_measured())

    return tuple(replace(repeat, launches=tuple(map(as_found, repeat.launches))) for repeat in repeats)


def launch_by(launch: Launch, transforms: Schedule) -> Launch:
    """Return a schedulable launch with other transforms. Raises InvalidArguments if they do not fit."""
    assert launch.lowered.choice is not None
    lowered = launch.lowered.choice().lower(transforms)
    # Places move between turns, to addresses that may be unaligned.
    plain = lowered.unaligned if launch.strides else None
    return replace(launch, lowered=plain() if plain else lowered, _kernels={})


def why_fixed(launches: Sequence[Launch | FusedSumsLaunch]) -> str:
    """Return why no schedule text describes any launch of a program; empty if one does."""
    if not any(launch.is_named for launch in launches):
        return "there are no elements"
    if any(launch.lowered.choice for launch in launches):
        return ""
    return next(launch.lowered.why for launch in launches if launch.is_named)


def only_kernel(launches: Sequence[Launch | FusedSumsLaunch]) -> int | None:
    """Return the number of the launch that does the work, if there is only one, and it is schedulable."""
    work = [number for number, launch in enumerate(launches) if launch.is_named]
    return work[0] if len(work) == 1 and launches[work[0]].lowered.choice else None


def by_kernel(transforms: Schedule, launches: Sequence[Launch | FusedSumsLaunch]) -> Mapping[int, Schedule]:
    """Return the transforms of each launch, by number: those after `kernel(n)`; without it, of the only one.

    Raises InvalidArguments for a number that is not a schedulable launch, and if several could be meant.
    """
    number: Argument | None = only_kernel(launches)
    known = numbered_kernels(launches)
    found: dict[Argument | None, list[Transform]] = {} if transforms else {number: []}
    for transform in transforms:
        is_name = transform.name == "kernel"
        if is_name:
            number = transform.args[0] if len(transform.args) == 1 and not transform.loop else None
        if number not in known or (is_name and number in found):
            raise _no_kernel(transform, known)
        found.setdefault(number, [])
        found[number] += [] if is_name else [transform]
    if None in found:
        raise _no_kernel("an empty text", known)
    return {at: tuple(found[at]) for at in known if at in found}


def numbered_kernels(launches: Sequence[Launch | FusedSumsLaunch]) -> list[int]:
    """Return the numbers of the schedulable launches."""
    return [number for number, launch in enumerate(launches) if launch.lowered.choice]


def _no_kernel(transform: Transform | str, known: Sequence[int]) -> Error:
    kernels = ", ".join(f"kernel({number})" for number in known)
    return refuse("RS-V09:no-kernel", transform=transform, kernels=kernels)


def _staged(step: NestStep, caches: CacheSizes) -> StagedNest | None:
    """Return the nest in stages, if it is too large for the caches and consists of whole bytes."""
    is_large = step.nest.moved_bytes >= caches.l3
    if not step.finds_stages or not is_large or step.nest.has_nibbles:
        return step.staged
    load_whole("restride.schedule.moves.staged")
    from ...schedule.moves.staged import one_stage

    return one_stage(step.nest)


def _interleaved(steps: Sequence[Step], isa: Isa, caches: CacheSizes) -> Launch | None:
    """Return all steps as one launch; None if separate launches are better."""
    nests = [step for step in steps if isinstance(step, NestStep) and step.operands == ()]
    if len(nests) < 2 or len(nests) < len(steps) or not are_independent(nests):
        return None
    if any(step.dst.buffer != DST or step.nest.has_nibbles for step in nests):
        return None
    load_whole("restride.targets.cpu_kernels")
    from ...targets.cpu_kernels import lower_interleaved

    # Each nest with its start in the destination, which they share.
    loops = [
        replace(n.nest, dst_base=n.nest.dst_base + n.dst.offset * 8 // n.nest.dst_type.bits) for n in nests
    ]
    lowered = lower_interleaved(loops, isa, caches)
    if lowered is None:
        return None
    places = tuple(step.src for step in nests)
    return Launch(lowered, places, sum(nest.moved_bytes for nest in loops))


def _fused_sums(step: Step, sums: TreeStep, isa: Isa, caches: CacheSizes) -> Lowered | None:
    """Return a nest and the sums of its destination as one pass; None if that takes two."""
    if not isinstance(step, NestStep) or not sums.tree.number.is_integer or sums.places[0] != step.dst:
        return None
    if any(place.buffer < 0 for place in sums.places):
        # Sums that are moved afterward are numerous: partial sums per thread would take much memory.
        return None
    load_whole("restride.targets.cpu_kernels")
    from ...targets.cpu_kernels import lower_fused_sums

    return lower_fused_sums(step.nest, sums.tree, isa, caches)


def temporary_places(temporaries: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Return the offset of each temporary in scratch, in whole cache lines, and the length of scratch."""
    offsets, end = [], 0
    for nbytes in temporaries:
        offsets.append(end)
        end += -(-nbytes // LINE) * LINE
    return tuple(offsets), end
