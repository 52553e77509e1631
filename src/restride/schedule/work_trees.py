"""Scheduler for loop trees on a device: maps them to a grid of work-items.

Each outermost loop of a tree is a kernel. An item has separate positions of that loop, and runs all the inner
loops sequentially: so it folds in the order of the digits, which depends only on the tree. Items that run in
step have one position each, with the digit that a CPU would vectorize varying fastest, so that adjacent items
read and write adjacent elements. Those of a CPU also run in step, as vector lanes, if vectors run along the
outermost loop; otherwise an item is a thread, and has many positions.

A row of a tree, a local tensor, is private memory of an item. There is little: `move_rows` moves large ones
to a temporary, with a part for each position.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeVar

from ..dtypes import DataType
from ..ir.accesses import items_of, with_values
from ..ir.expression import Affine, Apply, Expr, Load, TreeAxis, index_of, is_costly
from ..ir.program import Place, Program, Step, TreeStep
from ..ir.tree import Each, Item, LoopTree, Store, TreeTensor, parts_in
from .machine import DeviceFacts
from .trees.plan import EachPlan, TreeDigit, TreeSchedule, grid_of
from .trees.schedule import schedule_tree
from .work_items import ItemPlan

# At least one item of this many in a group must have work.
_LEAST_USED = 2
# The items of a group on a CPU, where a device's compiler makes vectors of adjacent ones.
_VECTOR_GROUP, _LEAST_GROUP = 64, 8

_T = TypeVar("_T")

Grid = list[tuple[TreeDigit, int, int]]
"""Digits that items share, outermost first: the positions of an item, and the number of items."""


@dataclass(frozen=True, slots=True)
class TreePlan:
    """A loop tree with one outermost loop, for a device."""

    tree: LoopTree
    device: DeviceFacts

    @property
    def schedule(self) -> TreeSchedule:
        """The loops, without vectors."""
        return schedule_tree(self.tree, with_vectors=False)

    @property
    def grid(self) -> Grid:
        """The digits that items share."""
        plan = self.schedule.plan
        is_shared = self.device.vector_bytes or plan.each.in_order
        return grid_of(plan) if is_shared else list(_every_position(plan))

    @property
    def items(self) -> int:
        """The number of items that have work."""
        return prod(count for _, _, count in self.grid)

    @property
    def row_groups(self) -> int:
        """The number of groups for the positions of the last digit, if a group has positions only of it.

        Then the items of a group differ in just that digit, which compilers can see. 0 if the digit is short,
        and groups take any consecutive positions.
        """
        size, grid = self.device.group, self.grid
        if size == 1 or not grid:
            return 0
        groups = -(-grid[-1][2] // size)
        return groups if grid[-1][2] * _LEAST_USED >= groups * size else 0

    @property
    def groups(self) -> int:
        """The total number of groups."""
        if self.row_groups:
            return prod(count for _, _, count in self.grid[:-1]) * self.row_groups
        return -(-self.items // self.device.group)

    @property
    def kind(self) -> str:
        """The name of such kernels."""
        return "folds" if self.schedule.plan.inner else "positions"

    @property
    def why(self) -> str:
        """The reason for it."""
        return {
            "folds": "an item folds all inputs of its results",
            "positions": "no result is of several elements",
        }[self.kind]

    @property
    def needs_double(self) -> bool:
        """True if something is computed in f64, or an element is one."""
        parts = parts_in(items_of(self.tree.items))
        has_double = any(tensor.data_type is DataType.f64 for tensor in self.tree.tensors)
        return self.tree.wide or has_double or any(map(_is_costly, parts))

    def __str__(self) -> str:
        return f"{self.kind} ({self.why}): {self.items} items\n{self.schedule}"


DevicePlan = ItemPlan | TreePlan
"""The work of a device kernel."""


def plan_trees(tree: LoopTree, device: DeviceFacts) -> tuple[TreePlan, ...]:
    """Schedule a nonempty tree for a device: a plan for each outermost loop."""
    return tuple(_planned(replace(tree, items=(item,)), device) for item in tree.items)


def _planned(tree: LoopTree, device: DeviceFacts) -> TreePlan:
    """Plan a tree; on a CPU, items run in step as vector lanes if vectors run along the outermost loop."""
    plan = TreePlan(tree, device)
    if not device.vector_bytes or schedule_tree(tree).plan.lanes == 1:
        return plan
    apart = TreePlan(tree, DeviceFacts(_VECTOR_GROUP, 1))
    last = apart.grid[-1][2] if apart.grid else 1
    size = min(_VECTOR_GROUP, 1 << (last.bit_length() - 1))
    return plan if size < _LEAST_GROUP else TreePlan(tree, DeviceFacts(size, 1))


def _every_position(plan: EachPlan) -> Iterator[tuple[TreeDigit, int, int]]:
    """Yield an item for each position that has work."""
    limits = dict(plan.limits)
    for digit in plan.digits:
        count = digit.extent
        if digit.bound:
            ((name, step),) = digit.steps
            count = min(count, -(-limits[name].end // step))
        if count > 1:
            yield digit, 1, count


def _is_costly(part: Expr) -> bool:
    return isinstance(part, Apply) and is_costly(part.op)


# --- rows ---------------------------------------------------------------------------------------------------


def move_rows(program: Program, device: DeviceFacts) -> Program:
    """Move rows too large for an item to temporaries, which have one for each position of the outer loops.

    `each n 2: local row[17] ...`  ->  `each n 2: ... row[n, c]`, `row` a temporary of 2x17.
    """
    steps: list[Step] = []
    sizes: list[int] = []
    for step in program.steps:
        if isinstance(step, TreeStep) and _row_bytes(step.tree) > device.row_bytes:
            in_step = not any(plan.device.vector_bytes for plan in plan_trees(step.tree, device))
            rows = _Rows(step.tree, is_outermost=in_step)
            tree = rows.tree()
            first = len(program.temporaries) + len(sizes)
            places = tuple(Place(~(first + i)) for i in range(len(rows.tensors)))
            sizes += [tensor.data_type.nbytes(prod(tensor.sizes)) for tensor in rows.tensors.values()]
            step = replace(step, tree=tree.verify(), places=(*step.places, *places))
        steps.append(step)
    return program.with_steps(steps, sizes).verify() if sizes else program


def _row_bytes(tree: LoopTree) -> int:
    """Return the bytes of all rows of one position."""
    loops = (item for item in items_of(tree.items) if isinstance(item, Each))
    return sum(tree.row_type(row).nbytes(prod(row.sizes)) for loop in loops for row in loop.locals)


@dataclass
class _Rows:
    """Turns a tree's rows into tensors. `is_outermost`: the index of a row moves farthest, so that adjacent
    positions of the outer loops are adjacent in memory.
    """

    source: LoopTree
    is_outermost: bool
    tensors: dict[str, TreeTensor] = field(default_factory=dict)
    around: dict[str, tuple[Affine, ...]] = field(default_factory=dict)

    def tree(self) -> LoopTree:
        """Return the tree without rows; `tensors` are then the additional ones."""
        items = tuple(self._each(item, ()) for item in self.source.items)
        return replace(self.source, tensors=(*self.source.tensors, *self.tensors.values()), items=items)

    def _each(self, each: Each, around: tuple[TreeAxis, ...]) -> Each:
        axes = (*around, *each.axes)
        for row in each.locals:
            sizes = self._index(tuple(axis.extent for axis in axes), row.sizes)
            self.tensors[row.name] = TreeTensor.row_major(row.name, sizes, self.source.row_type(row))
            self.around[row.name] = index_of(*axes)
        return replace(each, items=tuple(self._item(item, axes) for item in each.items), locals=())

    def _item(self, item: Item, axes: tuple[TreeAxis, ...]) -> Item:
        if isinstance(item, Each):
            return self._each(item, axes)
        made = with_values(item, self._leaf)
        if isinstance(made, Store) and made.tensor in self.tensors:
            index = self._index(self.around[made.tensor], made.index)
            return self.tensors[made.tensor].store(index, made.value)
        return made

    def _leaf(self, leaf: Expr) -> Expr:
        if isinstance(leaf, Load) and leaf.tensor in self.tensors:
            return self.tensors[leaf.tensor].load(*self._index(self.around[leaf.tensor], leaf.index))
        return leaf

    def _index(self, around: tuple[_T, ...], own: tuple[_T, ...]) -> tuple[_T, ...]:
        """Combine a row's part of an index, or of sizes, with that of the loops around it."""
        return (*own, *around) if self.is_outermost else (*around, *own)
