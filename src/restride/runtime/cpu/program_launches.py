"""Programs as launches: which kernels a program of this processor becomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...errors import refuse
from ...ir.program import (
    DST,
    NestStep,
    Place,
    Program,
    RepeatStep,
    Step,
    TreeStep,
    are_independent,
)
from ...loading import load_whole
from ...schedule.machine import LINE
from ...targets.isa import CacheSizes, Isa
from .kernel import is_small
from .launch import (
    FusedSumsLaunch,
    InterleavedLaunch,
    Launch,
    NestLaunch,
    RepeatLaunch,
    TreeLaunch,
)
from .thread_pool import default_pool

if TYPE_CHECKING:
    from ...ir.staged_nest import StagedNest
    from ...schedule.language import Transform
    from ...targets.cpu import LoweredNest
    from ...targets.cpu_kernels import LoweredFusedSums

# The launches that a native list may have.
NATIVE = NestLaunch | InterleavedLaunch | TreeLaunch | RepeatLaunch

# Sources that one kernel reads: more streams of memory than this are slower than a second pass (measured).
_MOST_SOURCES = 16


def after_passes(program: Program, isa: Isa, caches: CacheSizes) -> Program:
    """The program in steps that kernels of the CPU can do."""
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

    widened = unpack_operands(widen_trees(program), lambda step, _: _adds(step))
    spread = spread_bytes(split_sums(widened, _MOST_SOURCES), lambda step: _tears_bytes(step, isa, caches))
    return split_integer_folds(spread, lambda step, fold: _fused_sums(step, fold, isa, caches) is not None)


def _adds(step: NestStep) -> bool:
    return step.nest.compute.steps[-1].is_accumulation


def _tears_bytes(step: NestStep, isa: Isa, caches: CacheSizes) -> bool:
    load_whole("restride.targets.cpu")
    from ...targets.cpu import lower

    return not step.nest.is_empty and lower(step.nest, isa, caches).splits_bytes


def launches_of(program: Program, isa: Isa, caches: CacheSizes) -> Iterator[Launch]:
    """The launches of a program whose passes have been made."""
    steps = [step for step in program.steps if not (isinstance(step, NestStep) and step.nest.is_empty)]
    interleaved = _interleaved(steps, isa, caches)
    if interleaved is not None:
        yield interleaved
        return
    at = 0
    while at < len(steps):
        step, following = steps[at], steps[at + 1] if at + 1 < len(steps) else None
        if isinstance(step, TreeStep):
            yield from _tree_launches(step, isa, caches)
            at += 1
            continue
        if isinstance(step, RepeatStep):
            yield _repeat_launch(step, isa, caches)
            at += 1
            continue
        fused = _fused(step, following, isa, caches)
        yield fused or _nest_launch(step, following, isa, caches)
        at += 2 if fused else 1


def _tree_launches(step: TreeStep, isa: Isa, caches: CacheSizes) -> Iterator[Launch]:
    """A launch for each outermost loop, and before them those that clear padding which no loop reaches."""
    if step.tree.is_empty:
        return
    load_whole("restride.targets.cpu_kernels")
    from ...targets.cpu_kernels import LoweredTree, lower_tree

    lowered = lower_tree(step.tree, isa, caches)
    places = {tensor.name: place for tensor, place in zip(step.tree.tensors, step.places, strict=True)}
    for name, nest in lowered.cleared:
        clears = NestStep(nest, places[name], places[name], nest.moved_bytes, (0, 0), (0, 0), is_named=False)
        yield _nest_launch(clears, step, isa, caches)
    for part in lowered.loops:
        plain = part.without_streams if isinstance(part, LoweredTree) and part.streams else None
        yield TreeLaunch(step, part, plain)


def _repeat_launch(step: RepeatStep, isa: Isa, caches: CacheSizes) -> RepeatLaunch:
    """A launch for each outermost loop of each tree, one after the other in every turn."""
    launches: list[TreeLaunch] = []
    strides: list[tuple[int, ...]] = []
    for tree, tree_strides in zip(step.steps, step.strides, strict=True):
        for launch in _tree_launches(tree, isa, caches):
            if not isinstance(launch, TreeLaunch):
                raise ValueError(f"padding would be cleared in every turn of\n{step}")
            # Places move, to where no cache line may begin.
            plain = launch.lower_unaligned() if launch.lower_unaligned else launch.lowered
            launches.append(TreeLaunch(tree, plain))
            strides.append(tree_strides)
    return RepeatLaunch(step.turns, tuple(launches), tuple(strides))


def _nest_launch(step: NestStep, following: Step | None, isa: Isa, caches: CacheSizes) -> NestLaunch:
    # What schedules is loaded with the first problem: descriptors and memories do without.
    load_whole("restride.targets.cpu")
    from ...targets.cpu import lower

    nest = step.nest
    low, high = step.written
    is_read_next = following is not None and following.sources[:1] == (step.dst,)
    stays = is_read_next and nest.dst_type.nbytes(high - low) <= caches.l3 // 2
    staged = None if stays else _staged(step, caches)
    lowered = lower(nest, isa, caches, may_stream=not stays, chain=staged)

    def lower_unaligned() -> LoweredNest:
        return lower(nest, isa, caches, may_stream=False, chain=staged)

    return NestLaunch(step, lowered, lower_unaligned if lowered.streams else None)


def why_fixed(launches: Sequence[Launch]) -> str:
    """Why no text says how the launches of a program run; empty where they are a nest that one does."""
    if not launches:
        return "there are no elements"
    if len(launches) > 1 or not isinstance(launches[0], NestLaunch):
        return "it takes more than one nest"
    return launches[0].lowered.unreadable


def launch_by(launches: Sequence[Launch], transforms: Sequence[Transform]) -> NestLaunch:
    """The one launch of a program, its nest by the transforms that a person passes.

    Raises InvalidArguments where they do not fit, or there is no such launch.
    """
    if why := why_fixed(launches):
        raise refuse("RS-V09:no-text", why=why)
    (launch,) = launches
    assert isinstance(launch, NestLaunch)
    load_whole("restride.targets.cpu")
    from ...targets.cpu import lower_by

    chosen = launch.lowered
    lowered = lower_by(chosen.nest, transforms, chosen.isa, chosen.caches)
    return NestLaunch(launch.step, lowered, lowered.without_streams if lowered.streams else None)


def _staged(step: NestStep, caches: CacheSizes) -> StagedNest | None:
    """The nest in stages, where it is too large for the caches and of whole bytes."""
    is_large = step.nest.moved_bytes >= caches.l3
    if not step.finds_stages or not is_large or step.nest.has_nibbles:
        return step.staged
    load_whole("restride.schedule.moves.staged")
    from ...schedule.moves.staged import one_stage

    return one_stage(step.nest)


def _interleaved(steps: Sequence[Step], isa: Isa, caches: CacheSizes) -> InterleavedLaunch | None:
    """All steps as one launch; None where each is better run on its own."""
    nests = [step for step in steps if isinstance(step, NestStep) and step.operands == ()]
    if len(nests) < 2 or len(nests) < len(steps) or not are_independent(nests):
        return None
    if any(step.dst.buffer != DST or step.nest.has_nibbles for step in nests):
        return None
    load_whole("restride.targets.cpu_kernels")
    from ...targets.cpu_kernels import lower_interleaved

    # Each nest with its begin in the destination, which is one for all of them.
    loops = [
        replace(n.nest, dst_base=n.nest.dst_base + n.dst.offset * 8 // n.nest.dst_type.bits) for n in nests
    ]
    lowered = lower_interleaved(loops, isa, caches)
    if lowered is None:
        return None
    places = tuple(step.src for step in nests)
    return InterleavedLaunch(lowered, places, Place(DST), sum(nest.moved_bytes for nest in loops))


def _fused(step: NestStep, following: Step | None, isa: Isa, caches: CacheSizes) -> FusedSumsLaunch | None:
    """A nest and the sums of what it writes in one pass; None where that takes two."""
    if not isinstance(following, TreeStep):
        return None
    lowered = _fused_sums(step, following, isa, caches)
    if lowered is None:
        return None
    return FusedSumsLaunch(_nest_launch(step, following, isa, caches), following, lowered)


def _fused_sums(step: Step, sums: TreeStep, isa: Isa, caches: CacheSizes) -> LoweredFusedSums | None:
    if not isinstance(step, NestStep) or not sums.tree.number.is_integer or sums.places[0] != step.dst:
        return None
    if any(place.buffer < 0 for place in sums.places):
        # Sums that are moved afterwards are many: what threads would add them up in is no small memory.
        return None
    load_whole("restride.targets.cpu_kernels")
    from ...targets.cpu_kernels import lower_fused_sums

    return lower_fused_sums(step.nest, sums.tree, isa, caches)


def name_and_reason(launches: Sequence[Launch], isa: Isa) -> tuple[str, str]:
    """A name and a reason for all launches that are named: `jit:avx512:copy+transpose`."""
    work = [launch for launch in launches if launch.kind]
    if not work:
        return "jit:nothing", "there are no elements"
    kinds, whys = (dict.fromkeys(item.kind for item in work), dict.fromkeys(item.why for item in work))
    return f"jit:{isa.name}:{'+'.join(kinds)}", "; ".join(whys)


def temporary_places(temporaries: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """The offset of each temporary in scratch, in whole cache lines, and the length of scratch."""
    offsets, end = [], 0
    for nbytes in temporaries:
        offsets.append(end)
        end += -(-nbytes // LINE) * LINE
    return tuple(offsets), end


def threads_of(launch: Launch) -> int:
    """The number of threads a launch may use."""
    if isinstance(launch, RepeatLaunch):
        return max((threads_of(part) for part in launch.launches), default=1)
    if not isinstance(launch, NestLaunch | TreeLaunch) or is_small(launch.lowered.steps, launch.work_bytes):
        return 1
    return min(default_pool().threads, launch.lowered.steps)
