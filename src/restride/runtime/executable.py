"""A program compiled for the CPU: one call on addresses, whatever the program is.

    call(src, dst, words)      addresses of slots 0 and 1; `words`: where those of the other slots are, and
                               behind them the scalars as doubles, as kernels read them

One nest that reads its slots as they are is one kernel, and the call goes straight to it. All else is a list
of launches: done by one native call where that is short, else from Python, which sees Ctrl-C between pieces.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..loading import load_whole
from ..plan.machine import LINE
from ..plan.nest import LoopNest
from ..plan.program import (
    DST,
    SRC,
    NestStep,
    Place,
    Program,
    RepeatStep,
    Step,
    SumStep,
    TreeStep,
    are_independent,
)
from ..targets.isa import CacheSizes, Isa
from .kernel import REPEAT_BYTES, SHORT_BYTES, is_small
from .launch import (
    Addresses,
    FusedSumsLaunch,
    InterleavedLaunch,
    Launch,
    NestLaunch,
    RepeatLaunch,
    SumLaunch,
    TreeLaunch,
)
from .pool import default_pool
from .result_pool import allocate

if TYPE_CHECKING:
    from ..plan.staged import StagedNest
    from ..targets.cpu import LoweredNest
    from .launch_list import LaunchList, RepeatPieces

Call = Callable[[int, int, int], None]

# The launches that a native list may have.
NATIVE = NestLaunch | InterleavedLaunch | TreeLaunch | RepeatLaunch
# Sources that one kernel reads: more streams of memory than this are slower than a second pass (measured).
_MOST_SOURCES = 16


class CpuExecutable:
    """A program for this CPU. Immutable but for kernels, compiled when first wanted; threads may share it.

    `name` and `why` say which kernels run and for what reason; without elements there are none.
    `temporary_offsets`: where each temporary begins in the scratch memory of a run.
    """

    __slots__ = (
        "_is_native",
        "_lists",
        "_pieces",
        "call",
        "launches",
        "name",
        "program",
        "scratch_bytes",
        "temporary_offsets",
        "why",
    )

    def __init__(self, program: Program, isa: Isa, caches: CacheSizes) -> None:
        self.program = _passed(program, isa, caches)
        self.launches: tuple[Launch, ...] = tuple(_launches(self.program, isa, caches))
        self.name, self.why = _named(self.launches, isa)
        self.temporary_offsets, self.scratch_bytes = _laid_out(self.program.temporaries)
        work = sum(each.work_bytes for each in self.launches if isinstance(each, NATIVE))
        repeats = any(isinstance(each, RepeatLaunch) for each in self.launches)
        most = REPEAT_BYTES if repeats else SHORT_BYTES
        self._is_native = work < most and all(each.is_native for each in self.launches)
        self._lists: dict[tuple[bool, int], LaunchList] = {}
        self._pieces: dict[RepeatLaunch, RepeatPieces] = {}
        self.call: Call = self._call_first

    def __str__(self) -> str:
        return "\n".join(map(str, self.launches)) or "nothing to launch"

    # --- what is asked of every executable ------------------------------------------------------------------

    @property
    def threads(self) -> int:
        """How many threads may share a run."""
        return max((_threads(each) for each in self.launches), default=1)

    @property
    def lowered(self) -> LoweredNest | None:
        """The schedule of the nest that does the work; None where there is nothing to do."""
        nests = (each for each in self.launches if isinstance(each, NestLaunch) and each.step.is_named)
        return next((each.lowered for each in nests), None)

    def prepare(self) -> Call:
        """Compile; later calls go straight to the machine code where nothing has to be decided."""
        if self.call != self._call_first:
            return self.call
        for launch in self.launches:
            launch.prepare()
        self.call = self._direct() or (self._call_single if self._single() else self._call_list)
        return self.call

    @property
    def direct_kernel_address(self) -> int:
        """The address of that kernel, void(src, dst, words); 0 where there is none."""
        single = self._single()
        if single is None or single.lower_unaligned is not None:
            return 0
        kernel = single.kernel(0)
        return kernel.code.whole if kernel.is_small else 0

    def run(self, src: int, dst: int, words: int, scratch: int = 0) -> None:
        """As `call`, with `scratch_bytes` bytes at `scratch` for temporaries; 0 takes new ones."""
        if scratch and self.scratch_bytes:
            self._call_list(src, dst, words, scratch)
        else:
            self.call(src, dst, words)

    # --- how calls run --------------------------------------------------------------------------------------

    def _call_first(self, src: int, dst: int, words: int) -> None:
        # Only now, when everything has been checked, is it worth compiling.
        self.prepare()(src, dst, words)

    def _single(self) -> NestLaunch | None:
        """The launch of a program of one nest that reads its slots as they are."""
        if len(self.launches) != 1 or not isinstance(self.launches[0], NestLaunch):
            return None
        step = self.launches[0].step
        others = tuple(Place(DST + 1 + i) for i in range(len(self.program.slots) - 2))
        reads_all = step.operands == others and step.scalars == (0, self.program.scalars)
        return self.launches[0] if reads_all and (step.src, step.dst) == (Place(SRC), Place(DST)) else None

    def _direct(self) -> Call | None:
        """The machine code itself, where one thread always runs all of it at any address."""
        if not self.launches:
            return _nothing
        single = self._single()
        if single is None:
            return self._direct_list()
        kernel = single.kernel(0)
        if single.lower_unaligned is not None:
            return None
        return kernel.call if kernel.is_small else kernel.run

    def _direct_list(self) -> Call | None:
        """The native code that goes through all launches, where one thread does them at any address."""
        if not self._is_native or self.scratch_bytes or any(_is_shared(each) for each in self.launches):
            return None
        # A call holds no more than the address of the list: the first one stays, whoever prepares again.
        key = True, 0
        found = self._lists.get(key) or self._lists.setdefault(key, self._new_list(is_aligned=True))
        return found.alone()

    def _call_single(self, src: int, dst: int, words: int) -> None:
        single = self.launches[0]
        assert isinstance(single, NestLaunch)
        single.kernel(dst).run(src, dst, words)

    def _call_list(self, src: int, dst: int, words: int, scratch: int = 0) -> None:
        held = None if scratch or not self.scratch_bytes else allocate(self.scratch_bytes)
        scratch = held.address if held else scratch
        if self._is_native and (found := self._native_list(dst, scratch)) is not None:
            found.run(src, dst, words, scratch)
            return
        memory = self._addresses(src, dst, words, scratch)
        for launch in self.launches:
            if isinstance(launch, RepeatLaunch):
                self._pieces_of(launch).run(launch, memory)
            else:
                launch.run(memory)

    def _pieces_of(self, repeat: RepeatLaunch) -> RepeatPieces:
        found = self._pieces.get(repeat)
        if found is None:
            load_whole("restride.runtime.launch_list")
            from .launch_list import RepeatPieces

            found = self._pieces.setdefault(repeat, RepeatPieces(repeat))
        return found

    def _native_list(self, dst: int, scratch: int) -> LaunchList | None:
        pool = default_pool()
        is_aligned = dst % LINE == 0 and scratch % LINE == 0
        found = self._lists.get((is_aligned, pool.threads))
        if found is None:
            if any(map(_is_shared, self.launches)) and pool.native_team() is None:
                return None
            found = self._lists[is_aligned, pool.threads] = self._new_list(is_aligned)
        return found

    def _new_list(self, is_aligned: bool) -> LaunchList:
        load_whole("restride.runtime.launch_list")
        from .launch_list import LaunchList

        launches = [each for each in self.launches if isinstance(each, NATIVE)]
        return LaunchList(launches, self.temporary_offsets, len(self.program.slots), is_aligned)

    def _addresses(self, src: int, dst: int, words: int, scratch: int) -> Addresses:
        others, scalars = len(self.program.slots) - 2, self.program.scalars
        slots = (ctypes.c_uint64 * others).from_address(words) if others else ()
        values = (ctypes.c_double * scalars).from_address(words + 8 * others) if scalars else ()
        temporaries = [scratch + offset for offset in self.temporary_offsets]
        return Addresses([src, dst, *slots], temporaries, tuple(values))


def _is_shared(launch: Launch) -> bool:
    """True where threads may share a launch, or its kernel depends on the address of the destination."""
    if isinstance(launch, NestLaunch):
        return launch.lower_unaligned is not None or not is_small(launch.lowered.steps, launch.work_bytes)
    if isinstance(launch, TreeLaunch):
        return not is_small(launch.lowered.steps, launch.work_bytes)
    return not isinstance(launch, RepeatLaunch) or any(map(_is_shared, launch.launches))


def _nothing(src: int, dst: int, words: int) -> None:
    """What a program without elements does."""


# --- from programs to launches ------------------------------------------------------------------------------


def _passed(program: Program, isa: Isa, caches: CacheSizes) -> Program:
    """The program in steps that kernels of the CPU can do."""
    has_nibbles = any(step.nest.has_nibbles for step in program.nests)
    adds = any(step.nest.compute.steps[-1:] and _adds(step) for step in program.nests)
    if not (has_nibbles or adds):
        return program
    load_whole("restride.plan.passes")
    from ..plan.passes import split_sums, spread_bytes, unpack_operands

    made = unpack_operands(program, lambda step, _: _adds(step))
    return spread_bytes(split_sums(made, _MOST_SOURCES), lambda step: _tears_bytes(step, isa, caches))


def _adds(step: NestStep) -> bool:
    return step.nest.compute.steps[-1].is_accumulation


def _tears_bytes(step: NestStep, isa: Isa, caches: CacheSizes) -> bool:
    load_whole("restride.targets.cpu")
    from ..targets.cpu import lower

    return not step.nest.is_empty and lower(step.nest, isa, caches).splits_bytes


def _launches(program: Program, isa: Isa, caches: CacheSizes) -> Iterator[Launch]:
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
        yield fused or _launch(step, following, isa, caches)
        at += 2 if fused else 1


def _tree_launches(step: TreeStep, isa: Isa, caches: CacheSizes) -> Iterator[Launch]:
    """A launch for each outermost loop, and before them those that clear padding which no loop reaches."""
    if step.tree.is_empty:
        return
    load_whole("restride.targets.cpu_kernels")
    from ..targets.cpu_kernels import LoweredTree, lower_tree

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
    for tree, moved in zip(step.steps, step.strides, strict=True):
        for launch in _tree_launches(tree, isa, caches):
            if not isinstance(launch, TreeLaunch):
                raise ValueError(f"padding would be cleared in every turn of\n{step}")
            # Places move, to where no cache line may begin.
            plain = launch.lower_unaligned() if launch.lower_unaligned else launch.lowered
            launches.append(TreeLaunch(tree, plain))
            strides.append(moved)
    return RepeatLaunch(step.turns, tuple(launches), tuple(strides))


def _launch(step: NestStep | SumStep, following: Step | None, isa: Isa, caches: CacheSizes) -> Launch:
    if isinstance(step, SumStep):
        load_whole("restride.runtime.reduction")
        from .reduction import reduction_program

        return SumLaunch(step, reduction_program(step.reduction))
    return _nest_launch(step, following, isa, caches)


def _nest_launch(step: NestStep, following: Step | None, isa: Isa, caches: CacheSizes) -> NestLaunch:
    # What schedules is loaded with the first problem: descriptors and memories do without.
    load_whole("restride.targets.cpu")
    from ..targets.cpu import lower

    nest = step.nest
    low, high = step.written
    is_read_next = following is not None and following.sources[:1] == (step.dst,)
    stays = is_read_next and nest.dst_type.nbytes(high - low) <= caches.l3 // 2
    staged = None if stays else _staged(step, caches)
    lowered = lower(nest, isa, caches, may_stream=not stays, chain=staged)

    def lower_unaligned() -> LoweredNest:
        return lower(nest, isa, caches, may_stream=False, chain=staged)

    return NestLaunch(step, lowered, lower_unaligned if lowered.streams else None)


def _staged(step: NestStep, caches: CacheSizes) -> StagedNest | None:
    """The nest in stages, where it is too large for the caches and of whole bytes."""
    is_large = step.nest.moved_bytes >= caches.l3
    if not step.finds_stages or not is_large or step.nest.has_nibbles:
        return step.staged
    load_whole("restride.plan.staged")
    from ..plan.staged import one_stage

    return one_stage(step.nest)


def _interleaved(steps: Sequence[Step], isa: Isa, caches: CacheSizes) -> InterleavedLaunch | None:
    """All steps as one launch; None where each is better run on its own."""
    nests = [step for step in steps if isinstance(step, NestStep) and step.operands == ()]
    if len(nests) < 2 or len(nests) < len(steps) or not are_independent(nests):
        return None
    if any(step.dst.buffer != DST or step.nest.has_nibbles for step in nests):
        return None
    load_whole("restride.targets.cpu_kernels")
    from ..targets.cpu_kernels import lower_interleaved

    moved = [_with_base(step) for step in nests]
    lowered = lower_interleaved(moved, isa, caches)
    if lowered is None:
        return None
    places = tuple(step.src for step in nests)
    return InterleavedLaunch(lowered, places, Place(DST), sum(nest.moved_bytes for nest in moved))


def _with_base(step: NestStep) -> LoopNest:
    """The nest with where it begins in the destination, which is one for all nests in step."""
    return replace(step.nest, dst_base=step.nest.dst_base + step.dst.offset * 8 // step.nest.dst_type.bits)


def _fused(step: Step, following: Step | None, isa: Isa, caches: CacheSizes) -> FusedSumsLaunch | None:
    """A nest and the sums of what it writes in one pass; None where that takes two."""
    if not isinstance(step, NestStep) or not isinstance(following, SumStep) or following.src != step.dst:
        return None
    if any(place.buffer < 0 for place, _ in following.outputs):
        # Sums that are moved afterwards are many: what threads would add them up in is no small memory.
        return None
    load_whole("restride.targets.cpu_kernels")
    from ..targets.cpu_kernels import lower_fused_sums

    lowered = lower_fused_sums(step.nest, following.reduction, isa, caches)
    if lowered is None:
        return None
    return FusedSumsLaunch(_nest_launch(step, following, isa, caches), following, lowered)


def _named(launches: Sequence[Launch], isa: Isa) -> tuple[str, str]:
    """A name and a reason for all launches that are named: `jit:avx512:copy+transpose`."""
    named = [each for each in launches if each.kind]
    if not named:
        return "jit:nothing", "there are no elements"
    kinds, whys = dict.fromkeys(each.kind for each in named), dict.fromkeys(each.why for each in named)
    return f"jit:{isa.name}:{'+'.join(kinds)}", "; ".join(whys)


def _laid_out(temporaries: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Where each temporary begins in scratch, in whole cache lines, and how long scratch is."""
    offsets, end = [], 0
    for nbytes in temporaries:
        offsets.append(end)
        end += -(-nbytes // LINE) * LINE
    return tuple(offsets), end


def _threads(launch: Launch) -> int:
    if isinstance(launch, RepeatLaunch):
        return max((_threads(each) for each in launch.launches), default=1)
    if not isinstance(launch, NestLaunch | TreeLaunch) or is_small(launch.lowered.steps, launch.work_bytes):
        return 1
    return min(default_pool().threads, launch.lowered.steps)
