"""More than one nest for the CPU target: interleaved nests, fused sums, reductions, groups quantised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from ..emit.blocks import emit_fused_sums, emit_interleaved
from ..emit.group_quantization import emit_group_quantization
from ..emit.tree import emit_tree
from ..ir.group_quantization import GroupQuantization
from ..ir.nest import LoopNest
from ..ir.tree import LoopTree
from ..schedule.groups import GroupSchedule, schedule_groups
from ..schedule.moves.blocks import FusedSums, fuse_sums
from ..schedule.moves.interleaved import InterleavedNests, interleave
from ..schedule.trees.lanes import folds_in_lanes
from ..schedule.trees.padding import padding_nests
from ..schedule.trees.plan import TreeSchedule
from ..schedule.trees.schedule import schedule_tree
from ..schedule.trees.streams import has_streams
from .compilable import WrittenInOrder
from .cpu import machine_of
from .cpu_contraction import LoweredContraction, lower_contraction
from .cpu_ir import style_of
from .isa import CacheSizes, Isa


@dataclass(frozen=True, slots=True)
class LoweredInterleaved(WrittenInOrder):
    """Nests that write one destination in step, for one instruction set."""

    interleaved: InterleavedNests
    isa: Isa

    kind = "joined"

    @property
    def why(self) -> str:
        """The reason for it."""
        return f"sources share cache lines: {self.steps} blocks, each from all of them"

    @property
    def steps(self) -> int:
        """Blocks that threads can share."""
        return self.interleaved.steps

    @property
    def key(self) -> tuple[object, ...]:
        """The values that the code depends on besides the compiler."""
        return (self.interleaved, self.isa)

    def ir(self) -> str:
        """The kernel as LLVM IR text."""
        return emit_interleaved(self.interleaved, style_of(self.isa))


@dataclass(frozen=True, slots=True)
class LoweredFusedSums:
    """A nest whose destination is summed block by block as it is written, for one instruction set."""

    fused: FusedSums
    isa: Isa

    kind = "summed"

    @property
    def why(self) -> str:
        """The reason for it."""
        return f"{self.steps} blocks, each summed while it is in the cache"

    @property
    def steps(self) -> int:
        """Blocks that threads can share."""
        return self.fused.blocks.count

    @property
    def nests(self) -> tuple[LoopNest, ...]:
        """The nest whose destination is written block by block."""
        return (self.fused.blocks.nest,)

    @property
    def key(self) -> tuple[object, ...]:
        """The values that the code depends on besides the compiler."""
        return (self.fused, self.isa)

    def ir(self) -> str:
        """The kernel as LLVM IR text."""
        return emit_fused_sums(self.fused, style_of(self.isa))


@dataclass(frozen=True, slots=True)
class LoweredGroups(WrittenInOrder):
    """A quantisation in groups for one instruction set."""

    plan: GroupSchedule
    isa: Isa

    @property
    def kind(self) -> str:
        """The name of such kernels."""
        return self.plan.kind

    @property
    def steps(self) -> int:
        """Steps that threads can share."""
        return self.plan.steps

    @property
    def key(self) -> tuple[object, ...]:
        """The values that the code depends on besides the compiler."""
        return (self.plan, self.isa)

    def without_streams(self) -> LoweredGroups | None:
        """The same for elements that do not begin at a cache line, where that is another kernel."""
        plan = self.plan.without_streams()
        return None if plan is None else replace(self, plan=plan)

    def ir(self) -> str:
        """The kernel as LLVM IR text."""
        return emit_group_quantization(self.plan, style_of(self.isa))


@dataclass(frozen=True, slots=True)
class LoweredTree(WrittenInOrder):
    """A scheduled loop tree of one outermost loop, for one instruction set.

    `is_large`: its tensors are not in the caches; `streams`: what it writes goes past them.
    """

    tree: LoopTree
    isa: Isa
    is_large: bool = False
    streams: bool = False

    numbers = ()

    @property
    def schedule(self) -> TreeSchedule:
        """The schedule of the tree."""
        return schedule_tree(self.tree)

    @property
    def kind(self) -> str:
        """The name of such kernels."""
        return self.schedule.kind

    @property
    def why(self) -> str:
        """The reason for it."""
        return self.schedule.why

    @property
    def steps(self) -> int:
        """Steps that threads can share."""
        return prod(turns for _, _, turns in self.schedule.grid)

    @property
    def key(self) -> tuple[object, ...]:
        """The values that the code depends on besides the compiler."""
        return (self.tree, self.isa, self.is_large, self.streams)

    def without_streams(self) -> LoweredTree:
        """The same for tensors that do not begin at cache lines."""
        return replace(self, streams=False)

    def ir(self) -> str:
        """The kernel as LLVM IR text."""
        return emit_tree(self.schedule, style_of(self.isa), streams=self.streams, reads_ahead=self.is_large)

    def __str__(self) -> str:
        return str(self.schedule)


class LoweredLoops(NamedTuple):
    """A loop tree in kernels: the nests that clear padding first, by tensor, then a kernel for each loop."""

    cleared: tuple[tuple[str, LoopNest], ...]
    loops: tuple[LoweredTree | LoweredContraction, ...]


def lower_tree(tree: LoopTree, isa: Isa, caches: CacheSizes) -> LoweredLoops:
    """Schedule a tree that is not empty: sums of products in tiles of registers, where they have vectors."""
    parts = [replace(tree, items=(item,)) for item in tree.items]
    if tree.number.is_integer:
        parts = list(map(folds_in_lanes, parts))
    loops = tuple(lower_contraction(part, isa, caches) or _lowered(part, isa, caches) for part in parts)
    trees = (loop for loop in loops if isinstance(loop, LoweredTree))
    names = dict.fromkeys(name for loop in trees for name in loop.schedule.uncovered)
    cleared = tuple((name, nest) for name in names for nest in padding_nests(tree.tensor(name)))
    return LoweredLoops(cleared, loops)


def _lowered(tree: LoopTree, isa: Isa, caches: CacheSizes) -> LoweredTree:
    """A tree whose stores go past the caches where it is larger than these, and they are of whole lines."""
    is_large = sum(tensor.data_type.nbytes(prod(tensor.padded)) for tensor in tree.tensors) >= caches.l3
    return LoweredTree(tree, isa, is_large, streams=is_large and has_streams(schedule_tree(tree)))


def lower_interleaved(nests: Sequence[LoopNest], isa: Isa, caches: CacheSizes) -> LoweredInterleaved | None:
    """Schedule nests that write one destination in step; None where they would not gain by it."""
    interleaved = interleave(nests, machine_of(isa, caches))
    return None if interleaved is None else LoweredInterleaved(interleaved, isa)


def lower_fused_sums(nest: LoopNest, tree: LoopTree, isa: Isa, caches: CacheSizes) -> LoweredFusedSums | None:
    """A nest and a tree of sums of its destination in one pass; None where it has no such blocks."""
    if nest.has_nibbles:
        return None
    fused = fuse_sums(nest, tree, machine_of(isa, caches))
    return None if fused is None else LoweredFusedSums(fused, isa)


def lower_groups(quantization: GroupQuantization, isa: Isa, caches: CacheSizes) -> LoweredGroups | None:
    """Schedule a quantisation in groups; None where one pass does not do it."""
    plan = schedule_groups(quantization, machine_of(isa, caches))
    return None if plan is None else LoweredGroups(plan, isa)
