"""The CPU target for more than one nest: interleaved nests, fused sums, loop trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from math import prod
from typing import NamedTuple, TypeVar

from ..dtypes import DataType
from ..emit.blocks import emit_fused_sums, emit_interleaved
from ..emit.contraction import emit_contraction
from ..emit.grid import grid_ir
from ..emit.kernel import Style
from ..emit.tree import emit_tree
from ..errors import refuse
from ..ir.nest import LoopNest
from ..ir.tree import LoopTree
from ..schedule.contraction import neighbors as contraction_neighbors
from ..schedule.contraction import transforms as contraction_transforms
from ..schedule.contraction.kernel import ContractionKernel
from ..schedule.contraction.numbers import kernel_of_plan
from ..schedule.contraction.schedule import ContractionPlan, schedule_contraction
from ..schedule.contraction.strides import find_contraction
from ..schedule.language import Schedule, parse_schedule, schedule_text
from ..schedule.machine import Machine
from ..schedule.moves.blocks import fuse_sums
from ..schedule.moves.interleaved import interleave
from ..schedule.search import Neighbors
from ..schedule.trees import neighbors as tree_neighbors
from ..schedule.trees import nibbles
from ..schedule.trees import transforms as tree_transforms
from ..schedule.trees.lanes import lanes_of_folds
from ..schedule.trees.padding import padding_nests
from ..schedule.trees.plan import TreeSchedule
from ..schedule.trees.rewrites import NAMES as REWRITES
from ..schedule.trees.rewrites import RewrittenTree, rewrite
from ..schedule.trees.schedule import schedule_tree
from ..schedule.trees.streams import has_streams, streamed_tensors
from .cpu import machine_of
from .cpu_ir import style_of
from .isa import CacheSizes, Isa
from .lowered import Lowered, ScheduleChoice

_Code = TypeVar("_Code")


def _write(emit: Callable[[_Code, Style], str], code: _Code, isa: Isa) -> str:
    return emit(code, style_of(isa))


# --- nests --------------------------------------------------------------------------------------------------


def lower_interleaved(nests: Sequence[LoopNest], isa: Isa, caches: CacheSizes) -> Lowered | None:
    """Schedule nests that write one destination, in step; None if they would not gain."""
    plan = interleave(nests, machine_of(isa, caches))
    if plan is None:
        return None
    why = f"sources share cache lines: {plan.steps} blocks, each from all of them"
    return Lowered(plan, partial(_write, emit_interleaved), isa, "joined", why, plan.steps)


def lower_fused_sums(nest: LoopNest, tree: LoopTree, isa: Isa, caches: CacheSizes) -> Lowered | None:
    """Return a nest and a tree of sums of its destination in one pass; None without suitable blocks."""
    plan = None if nest.has_nibbles else fuse_sums(nest, tree, machine_of(isa, caches))
    if plan is None:
        return None
    steps, nests = plan.blocks.count, (plan.blocks.nest,)
    why = f"{steps} blocks, each summed while it is in the cache"
    return Lowered(plan, partial(_write, emit_fused_sums), isa, "summed", why, steps, nests=nests)


# --- loop trees ---------------------------------------------------------------------------------------------


class LoweredLoops(NamedTuple):
    """A loop tree in kernels: the nests that clear padding first, by tensor, then a kernel for each loop."""

    cleared: tuple[tuple[str, LoopNest], ...]
    loops: tuple[Lowered, ...]


def lower_tree(
    tree: LoopTree, isa: Isa, caches: CacheSizes, source: LoopTree | None = None, rewrites: str = ""
) -> LoweredLoops:
    """Schedule a nonempty tree: sums of products in register tiles, if they have vectors.

    `source`: the tree from which the transforms in `rewrites` made it, if any.
    """
    is_large = _touched_bytes(tree) >= caches.l3
    loops, uncovered = list[Lowered](), dict[str, None]()
    parts = [tree] if len(tree.items) == 1 else [replace(tree, items=(item,)) for item in tree.items]
    for part in parts:
        origin = RewrittenTree(source or part, rewrites if source else "")
        if tree.number.is_integer and (lanes := lanes_of_folds(part)):
            text = "\n".join((origin.rewrites, schedule_text(lanes)))
            part, origin = rewrite(part, lanes), origin._replace(rewrites=text)
        lowered = lower_contraction(part, isa, caches)
        if lowered is None:
            lowered = lower_loop(part, isa, origin, is_large=is_large)
            uncovered |= dict.fromkeys(lowered.plan.uncovered)
        loops.append(lowered)
    cleared = tuple((name, nest) for name in uncovered for nest in padding_nests(tree.tensor(name)))
    return LoweredLoops(cleared, tuple(loops))


def _touched_bytes(tree: LoopTree) -> int:
    """Return the bytes of all tensors; one read only at indices counts at most as many as are written."""
    written = max((prod(tree.tensor(name).padded) for name in tree.written), default=0)
    others = {load.tensor for load in tree.loads if not load.elements} | {*tree.written}
    return sum(
        tensor.data_type.nbytes(
            prod(tensor.padded) if tensor.name in others else min(prod(tensor.padded), written)
        )
        for tensor in tree.tensors
    )


def has_whole_bytes(tree: LoopTree, isa: Isa, caches: CacheSizes) -> bool:
    """Return whether the kernels of a tree access 4-bit elements directly, in whole bytes."""
    parts = [replace(tree, items=(item,)) for item in tree.items]
    is_plain = not (tree.number.is_integer or tree.is_empty)
    return is_plain and all(
        lower_contraction(part, isa, caches) is not None
        or nibbles.has_whole_bytes(schedule_tree(part, register=style_of(isa).vector_bytes))
        for part in parts
    )


def lower_loop(
    tree: LoopTree, isa: Isa, origin: RewrittenTree | None = None, *, is_large: bool = False
) -> Lowered:
    """Schedule a tree of one outermost loop, which was rewritten from another one.

    `is_large`: its tensors are not in cache, so that reads are prefetched, and writes bypass the caches in
    whole lines.
    """
    schedule = schedule_tree(tree, register=style_of(isa).vector_bytes)
    if is_large:
        schedule = replace(schedule, streams=has_streams(schedule), asks_ahead=True)
    return _lowered_loop(schedule, isa, origin or RewrittenTree(tree))


def lower_loop_by(source: LoopTree, cleared: Sequence[str], isa: Isa, transforms: Schedule) -> Lowered:
    """Schedule a tree of one outermost loop by a user's transforms, which begin with rewrites of the tree.

    `cleared`: the tensors whose padding is already zero.

    Raises InvalidArguments if they do not fit.
    """
    rewrites = tuple(takewhile(lambda transform: transform.name in REWRITES, transforms))
    tree = rewrite(source, rewrites)
    if len(tree.items) > 1:
        raise refuse("RS-V09:no-rewrite", transform=rewrites[-1], why="it makes a second kernel")
    schedule = tree_transforms.apply(tree, transforms[len(rewrites) :])
    if not set(schedule.uncovered) <= set(cleared):
        names = ", ".join(name for name in schedule.uncovered if name not in cleared)
        why = f"it would not clear the padding of {names}"
        raise refuse("RS-V09:no-rewrite", transform=schedule_text(transforms), why=why)
    return _lowered_loop(schedule, isa, RewrittenTree(source, schedule_text(rewrites)))


def _lowered_loop(schedule: TreeSchedule, isa: Isa, origin: RewrittenTree) -> Lowered:
    steps = prod(turns for _, _, turns in schedule.grid)
    plain = partial(_lowered_loop, replace(schedule, streams=False), isa, origin)
    return Lowered(
        *(schedule, _write_loop, isa, schedule.kind, schedule.why, steps, LoopCode(schedule)),
        streamed=frozenset(streamed_tensors(schedule)) if schedule.streams else frozenset(),
        unaligned=plain if schedule.streams else None,
        choice=partial(_loop_choice, schedule, isa, origin),
    )


def _loop_choice(schedule: TreeSchedule, isa: Isa, origin: RewrittenTree) -> ScheduleChoice:
    """Return the choice: a search keeps the tree, and varies its loops."""
    source, tree, rewrites = origin.source, schedule.tree, parse_schedule(origin.rewrites)
    count = len(rewrites)

    def varied(way: Neighbors, transforms: Schedule) -> Iterator[Schedule]:
        return ((*rewrites, *other) for other in way(transforms[count:]))

    def fits(transforms: Schedule) -> bool:
        return transforms[:count] == rewrites and tree_neighbors.fits(tree, transforms[count:])

    return ScheduleChoice(
        source,
        (*rewrites, *tree_transforms.transforms_of(schedule)),
        lambda: [partial(varied, way) for way in tree_neighbors.neighbors(tree)],
        fits,
        partial(lower_loop_by, source, schedule.uncovered, isa),
    )


class LoopCode:
    """Everything that the text of a loop depends on: its tree, and the transforms, which are taken from its
    schedule when the code is looked up.
    """

    __slots__ = ("_key", "schedule")

    def __init__(self, schedule: TreeSchedule) -> None:
        self.schedule = schedule
        self._key: tuple[LoopTree, Schedule] | None = None

    @property
    def key(self) -> tuple[LoopTree, Schedule]:
        """The key that identifies it."""
        if self._key is None:
            self._key = self.schedule.tree, tree_transforms.transforms_of(self.schedule)
        return self._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoopCode) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"LoopCode{self.key}"


def _write_loop(code: LoopCode, isa: Isa) -> str:
    return emit_tree(code.schedule, style_of(isa))


def lower_grid(plan: str, numbers: tuple[int, ...], steps: int, isa: Isa, about: tuple[str, str]) -> Lowered:
    """Lower a table of calls: the same code for all grids. `about`: the kind, and the reason."""
    kind, why = about
    return Lowered(plan, _write_grid, isa, kind, why, steps, code="grid", numbers=numbers)


def _write_grid(_code: str, _isa: Isa) -> str:
    return grid_ir()


def lower_contraction(tree: LoopTree, isa: Isa, caches: CacheSizes) -> Lowered | None:
    """Schedule a tree as a contraction; None if it is not one, or its layouts have no vectors."""
    contraction, machine = find_contraction(tree), machine_of(isa, caches)
    plan = None if contraction is None else schedule_contraction(contraction, machine)
    return None if plan is None else lower_plan(plan, machine, isa)


def lower_plan(plan: ContractionPlan, machine: Machine, isa: Isa) -> Lowered:
    """Lower a contraction scheduled for a machine; its reason lists the values that are held in registers."""
    code, numbers = kernel_of_plan(plan)
    sums = plan.contraction
    first, second, *_ = (access.tensor.data_type for access in sums.accesses)
    kind = "integer_" if sums.groups is not None and sums.sums_integers else ""
    kind = "bf16_" if first is DataType.bf16 and (second is first or second.bits < 8) else kind
    return Lowered(
        *(plan, _write_contraction, isa, f"{kind}contraction", str(plan), plan.steps, code, numbers),
        choice=partial(_contraction_choice, plan, machine, isa),
    )


def _contraction_choice(plan: ContractionPlan, machine: Machine, isa: Isa) -> ScheduleChoice:
    contraction, apply = plan.contraction, contraction_transforms.apply
    return ScheduleChoice(
        contraction,
        contraction_transforms.transforms_of(plan),
        partial(contraction_neighbors.neighbors, contraction, machine),
        partial(contraction_neighbors.fits, contraction, machine),
        lambda transforms: lower_plan(apply(contraction, machine, transforms), machine, isa),
    )


def _write_contraction(code: ContractionKernel, isa: Isa) -> str:
    return emit_contraction(code, style_of(isa), fused=isa.name in ("avx512", "avx2", "neon"))
