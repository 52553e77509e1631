"""More than one nest for the CPU target: interleaved nests, fused sums, groups, loop trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import NamedTuple, TypeVar

from ..emit.blocks import emit_fused_sums, emit_interleaved
from ..emit.contraction import emit_contraction
from ..emit.group_quantization import emit_group_quantization
from ..emit.kernel import Style
from ..emit.tree import emit_tree
from ..ir.group_quantization import GroupQuantization
from ..ir.nest import LoopNest
from ..ir.tree import LoopTree
from ..schedule.contraction.kernel import ContractionKernel
from ..schedule.contraction.numbers import kernel_of_plan
from ..schedule.contraction.schedule import ContractionPlan, schedule_contraction
from ..schedule.contraction.strides import find_contraction
from ..schedule.groups import GroupSchedule, schedule_groups
from ..schedule.moves.blocks import fuse_sums
from ..schedule.moves.interleaved import interleave
from ..schedule.trees.lanes import folds_in_lanes
from ..schedule.trees.padding import padding_nests
from ..schedule.trees.schedule import schedule_tree
from ..schedule.trees.streams import has_streams
from .cpu import machine_of
from .cpu_ir import style_of
from .isa import CacheSizes, Isa
from .lowered import Lowered

_Code = TypeVar("_Code")


def _write(emit: Callable[[_Code, Style], str], code: _Code, isa: Isa) -> str:
    return emit(code, style_of(isa))


# --- nests --------------------------------------------------------------------------------------------------


def lower_interleaved(nests: Sequence[LoopNest], isa: Isa, caches: CacheSizes) -> Lowered | None:
    """Schedule nests that write one destination in step; None where they would not gain by it."""
    plan = interleave(nests, machine_of(isa, caches))
    if plan is None:
        return None
    why = f"sources share cache lines: {plan.steps} blocks, each from all of them"
    return Lowered(plan, partial(_write, emit_interleaved), isa, "joined", why, plan.steps)


def lower_fused_sums(nest: LoopNest, tree: LoopTree, isa: Isa, caches: CacheSizes) -> Lowered | None:
    """A nest and a tree of sums of its destination in one pass; None where it has no such blocks."""
    plan = None if nest.has_nibbles else fuse_sums(nest, tree, machine_of(isa, caches))
    if plan is None:
        return None
    steps, nests = plan.blocks.count, (plan.blocks.nest,)
    why = f"{steps} blocks, each summed while it is in the cache"
    return Lowered(plan, partial(_write, emit_fused_sums), isa, "summed", why, steps, nests=nests)


# --- groups -------------------------------------------------------------------------------------------------


def lower_groups(quantization: GroupQuantization, isa: Isa, caches: CacheSizes) -> Lowered | None:
    """Schedule a quantisation in groups; None where one pass does not do it."""
    plan = schedule_groups(quantization, machine_of(isa, caches))
    return None if plan is None else _lowered_groups(plan, isa)


def _lowered_groups(plan: GroupSchedule, isa: Isa) -> Lowered:
    lowered = Lowered(plan, partial(_write, emit_group_quantization), isa, plan.kind, "", plan.steps)
    plain = plan.without_streams()
    return lowered if plain is None else replace(lowered, unaligned=partial(_lowered_groups, plain, isa))


# --- loop trees ---------------------------------------------------------------------------------------------


class LoweredLoops(NamedTuple):
    """A loop tree in kernels: the nests that clear padding first, by tensor, then a kernel for each loop."""

    cleared: tuple[tuple[str, LoopNest], ...]
    loops: tuple[Lowered, ...]


def lower_tree(tree: LoopTree, isa: Isa, caches: CacheSizes) -> LoweredLoops:
    """Schedule a tree that is not empty: sums of products in tiles of registers, where they have vectors."""
    is_large = sum(tensor.data_type.nbytes(prod(tensor.padded)) for tensor in tree.tensors) >= caches.l3
    loops, uncovered = list[Lowered](), dict[str, None]()
    for part in (replace(tree, items=(item,)) for item in tree.items):
        part = folds_in_lanes(part) if tree.number.is_integer else part
        lowered = lower_contraction(part, isa, caches)
        if lowered is None:
            lowered = lower_loop(part, isa, is_large=is_large, streams=is_large)
            uncovered |= dict.fromkeys(schedule_tree(part).uncovered)
        loops.append(lowered)
    cleared = tuple((name, nest) for name in uncovered for nest in padding_nests(tree.tensor(name)))
    return LoweredLoops(cleared, tuple(loops))


class LoopPlan(NamedTuple):
    """A tree of one outermost loop, and what goes past the caches."""

    tree: LoopTree
    is_large: bool
    streams: bool

    def __str__(self) -> str:
        return str(schedule_tree(self.tree))


def lower_loop(tree: LoopTree, isa: Isa, *, is_large: bool = False, streams: bool = False) -> Lowered:
    """Schedule a tree of one outermost loop. `is_large`: its tensors are not in the caches; `streams`: it may
    write past them, which it does in whole lines alone.
    """
    schedule = schedule_tree(tree)
    plan = LoopPlan(tree, is_large, streams and has_streams(schedule))
    steps = prod(turns for _, _, turns in schedule.grid)
    plain = partial(lower_loop, tree, isa, is_large=is_large) if plan.streams else None
    return Lowered(plan, _write_loop, isa, schedule.kind, schedule.why, steps, unaligned=plain)


def _write_loop(plan: LoopPlan, isa: Isa) -> str:
    schedule = schedule_tree(plan.tree)
    return emit_tree(schedule, style_of(isa), streams=plan.streams, reads_ahead=plan.is_large)


def lower_contraction(tree: LoopTree, isa: Isa, caches: CacheSizes) -> Lowered | None:
    """Schedule a tree as a contraction; None where it is none, or its layouts have no vectors."""
    contraction = find_contraction(tree)
    plan = None if contraction is None else schedule_contraction(contraction, machine_of(isa, caches))
    return None if plan is None else lower_plan(plan, isa)


def lower_plan(plan: ContractionPlan, isa: Isa) -> Lowered:
    """A contraction as it is scheduled; its reason: the values that are held in registers."""
    code, numbers = kernel_of_plan(plan)
    return Lowered(plan, _write_contraction, isa, "contraction", str(plan), plan.steps, code, numbers)


def _write_contraction(code: ContractionKernel, isa: Isa) -> str:
    return emit_contraction(code, style_of(isa), fused=isa.name in ("avx512", "avx2", "neon"))
