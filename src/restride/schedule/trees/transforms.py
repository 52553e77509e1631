"""The transforms of a loop tree's schedule: the list of choices made, and the loops that a list produces.

Loops are numbered in the order in which they begin; the outermost one is 0. Digits are named `axis/step`:
`c/16` and `c/1` are those of channels in blocks of 16, `h/1` is an entire axis that no tensor cuts.

| transform | before -> after |
| --- | --- |
| `split(c, 16)` | `for c/1 64` -> `for c/16 4, c/1 16` |
| `reorder(h/1, c/1)` | `for c/1, h/1` -> `for h/1, c/1`: all digits of a loop, outermost first |
| `fuse(h/1, w/1)` | `for h/1 7, w/1 7` -> `for w/1 49`: digits that are contiguous in all tensors |
| `vectorize(c/1, 16)` | `for c/1 64` -> `for c/1 64 in vectors of 16`: it goes last |
| `unroll()` | `for kh/1 3: f(kh)` -> `f(0), f(1), f(2)`, where no position needs a test |
| `interior(h)` | `for h 9: where 0 <= h + k - 1 < 9: f` -> as before for h 0 and 8, `for h 1 to 7: f` |
| `parallel(n/1, 4)` | steps of 4 positions of `n/1`, or of as many vectors of it, which threads share |
| `prefetch()` | elements that loops read repeatedly, or rows away, are prefetched |
| `stream()` | stores that fill whole lines bypass the caches; targets begin at lines |

Vectors run along both digits of `fuse(g/1, k/1)` if a tensor that is only read is constant along `k/1`. A
loop in one with vectors also has some, along all of it, if adjacent positions of the outer one continue its
fold: they are of several results. Only the last `reorder` of a loop counts, and it precedes its `fuse`s.
Whatever the list, the tree determines what is computed; but sums of f32 and f64 are added in the order of
their loop (docs/numerics.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from typing import NoReturn

from ...errors import refuse
from ...ir.tree import Each, LoopTree
from ..language import Schedule, Transform, check_known, schedule_text
from . import rewrites
from .loops import TreeLoops
from .nibbles import has_whole_bytes
from .padding import with_axes_for_padding
from .plan import (
    AxisLimits,
    EachPlan,
    Grid,
    TreeDigit,
    TreeSchedule,
    decides_inside,
    plans_of,
    repeats_of,
    shared_positions,
)
from .schedule import can_join, schedule_tree, takes_vectors
from .streams import has_streams

_NAMES = ("split", "reorder", "fuse", "vectorize", "unroll", "interior", "parallel", "prefetch", "stream")
_WITHOUT_ARGS = ("unroll", "prefetch", "stream")
_MOST_LANES = 256
MOST_WRITTEN_OUT = 64
"""The most positions of a window that are unrolled: more would be too much code."""
_TORN = "bytes of 4-bit elements would be split: vectors need an even number of adjacent elements"


# --- the list of choices ------------------------------------------------------------------------------------


def transforms_of(schedule: TreeSchedule) -> Schedule:
    """Return the transforms that produce these loops from the tree."""
    plans = enumerate(plans_of(schedule.plan))
    shared = (Transform("parallel", (digit.name, tiles)) for digit, tiles, _ in schedule.grid)
    memory = (("prefetch", schedule.asks_ahead), ("stream", schedule.streams))
    return (
        *(transform for number, plan in plans for transform in _of_loop(number, plan)),
        *shared,
        *(Transform(name) for name, is_done in memory if is_done),
    )


def _of_loop(number: int, plan: EachPlan) -> Iterator[Transform]:
    names = [name for digit in plan.digits for name in (digit.fused or (digit.name,))]
    for axis in plan.each.axes:
        steps = sorted((_step_of(name) for name in names if _axis_of(name) == axis.name), reverse=True)
        if len(steps) > 1:
            yield Transform("split", (axis.name, *steps[:-1]), number)
    if names != _in_tree_order(plan.each, names):
        yield Transform("reorder", tuple(names), number)
    for digit in plan.digits:
        if digit.fused:
            yield Transform("fuse", digit.fused, number)
    if plan.lanes > 1:
        yield Transform("vectorize", (plan.digits[-1].name, plan.lanes), number)
    if plan.is_unrolled:
        yield Transform("unroll", (), number)
    if plan.interior:
        yield Transform("interior", plan.interior, number)


def _axis_of(name: str) -> str:
    return name.rpartition("/")[0]


def _step_of(name: str) -> int:
    return int(name.rpartition("/")[2])


def _in_tree_order(each: Each, names: Sequence[str]) -> list[str]:
    """Return names of digits in the order of the axes, those of one axis outermost first."""
    places = {axis.name: place for place, axis in enumerate(each.axes)}
    return sorted(names, key=lambda name: (places[_axis_of(name)], -_step_of(name)))


# --- the loops of a list ------------------------------------------------------------------------------------


def apply(tree: LoopTree, schedule: Schedule) -> TreeSchedule:
    """Return the loops that transforms produce from a tree with one outermost loop.

    Raises InvalidArguments for transforms that do not fit.
    """
    return _TreeBuilder(tree, schedule).scheduled()


@dataclass
class _LoopTransforms:
    """The transforms of one loop, by name."""

    by_name: dict[str, list[Transform]] = field(default_factory=dict)

    def all(self, name: str) -> list[Transform]:
        """Return those of a name, in order."""
        return self.by_name.get(name, [])

    def last(self, name: str) -> Transform | None:
        """Return the last of a name; only that one counts."""
        return self.all(name)[-1] if self.all(name) else None


class _TreeBuilder:
    """Builds the loops of a tree from a list."""

    def __init__(self, tree: LoopTree, schedule: Schedule) -> None:
        self.tree, self.loops, self.list = tree, TreeLoops(with_axes_for_padding(tree)), schedule
        self.by_loop: dict[int, _LoopTransforms] = {}
        self.numbers = count()
        for transform in schedule:
            check_known(transform, (*rewrites.NAMES, *_NAMES))
            if transform.name in rewrites.NAMES:
                self.fail(transform, "it rewrites the tree, so it must precede the transforms of loops")
            if transform.args and transform.name in _WITHOUT_ARGS:
                self.fail(transform, "it takes no arguments")
            if len(set(transform.args)) < max(len(transform.args), 1) and transform.name == "interior":
                self.fail(transform, "it takes axes of the loop, each at most once")
            own = self.by_loop.setdefault(transform.loop, _LoopTransforms())
            own.by_name.setdefault(transform.name, []).append(transform)

    def fail(self, transform: Transform | str, why: str) -> NoReturn:
        """Reject a transform, or all of them."""
        chosen = schedule_text(transforms_of(schedule_tree(self.tree)))
        raise refuse("RS-V09:no-fit", transform=transform, why=why, chosen=chosen)

    def scheduled(self) -> TreeSchedule:
        """Return the loops of the tree, with the steps that threads share."""
        plan = self.plan(self.loops.tree.items[0], {})
        loops = next(self.numbers)
        for number, own in self.by_loop.items():
            given = [transform for of_name in own.by_name.values() for transform in of_name]
            if number >= loops:
                self.fail(given[0], f"the loops of the tree are numbered 0 to {loops - 1}")
            for name in ("parallel", "prefetch", "stream") if number else ():
                for transform in own.all(name):
                    self.fail(transform, "it applies to the outermost loop, so omit the number")
        own = self.by_loop.get(0, _LoopTransforms())
        prefetch, stream = own.last("prefetch"), own.last("stream")
        schedule = self.loops.scheduled(plan, self.grid(plan))
        if stream is not None and not has_streams(schedule):
            self.fail(stream, "no store fills whole lines of a tensor that is not read")
        if not has_whole_bytes(schedule):
            self.fail(schedule_text(self.list) or "a list of no transforms", _TORN)
        return replace(schedule, asks_ahead=prefetch is not None, streams=stream is not None)

    def plan(self, each: Each, outer: dict[str, int], around: EachPlan | None = None) -> EachPlan:
        """Return a loop with its inner loops; `around`: the next outer one."""
        own = self.by_loop.get(next(self.numbers), _LoopTransforms())
        extents = outer | {axis.name: axis.extent for axis in each.axes}
        digits, limits = self.loops.all_digits(each, extents, self.cuts(each, own))
        order = self.fused(each, own, self.order(each, own, digits, limits), limits)
        vectors, lanes = own.last("vectorize"), 1
        if vectors is not None and each.in_order:
            self.fail(vectors, "the positions of the loop run in order")
        if vectors is not None:
            order, lanes = self.with_vectors(vectors, order)
        stays = next((d for d in order[: len(order) - (lanes > 1)] if repeats_of(d)), None)
        if stays is not None:
            self.fail(
                own.all("fuse")[-1], f"{stays.name} is one digit only if vectors run along it: vectorize it"
            )
        number = each.number or (around.number if around else self.tree.number)
        made = EachPlan(each, order, limits, lanes, (), number=number)
        if vectors is not None and around is not None and not self.may_join(around, made):
            self.fail(
                vectors, "an outer loop has vectors, and its adjacent positions do not continue this one"
            )
        # Of loops with vectors, only the innermost is joined.
        has_lanes = lanes > 1 or (around is not None and around.lanes > 1)
        inside = (item for item in each.items if isinstance(item, Each))
        inner = tuple(self.plan(item, extents, replace(made, lanes=2 if has_lanes else 1)) for item in inside)
        unroll, interior = own.last("unroll"), own.last("interior")
        if unroll is not None and (inner or not each.folds):
            self.fail(unroll, "only a loop that folds and has no inner loop can be unrolled")
        if unroll is not None and each.positions > MOST_WRITTEN_OUT:
            self.fail(unroll, f"it has {each.positions} positions; the limit is {MOST_WRITTEN_OUT}")
        kept = tuple(map(str, interior.args)) if interior else ()
        names = [axis.name for axis in each.axes]
        if interior is not None and not set(kept).issubset(names):
            self.fail(interior, f"the axes of the loop are {', '.join(names)}")
        return replace(made, inner=inner, is_unrolled=unroll is not None, interior=kept)

    def may_join(self, around: EachPlan, plan: EachPlan) -> bool:
        """Return whether a loop can have vectors inside another one."""
        if around.lanes == 1:
            return True
        is_whole = plan.digits[-1].extent == plan.lanes and bool(around.digits)
        return is_whole and can_join(replace(around, inner=(plan,)), around.digits[-1])

    def cuts(self, each: Each, own: _LoopTransforms) -> dict[str, tuple[int, ...]]:
        """Return the numbers of positions at which each axis is split."""
        extents = {axis.name: axis.extent for axis in each.axes}
        found: dict[str, tuple[int, ...]] = {}
        for transform in own.all("split"):
            name, *steps = transform.args or ("",)
            numbers = tuple(step for step in steps if isinstance(step, int))
            if name not in extents:
                self.fail(transform, f"the axes of the loop are {', '.join(extents)}")
            if not numbers or len(numbers) < len(steps) or min(numbers) < 2:
                self.fail(transform, "the numbers of positions must be 2 or more")
            if any(large % small or large == small for large, small in pairwise(numbers)):
                self.fail(transform, "each number must be a multiple of the next one")
            found[str(name)] = numbers
        return found

    def order(
        self,
        each: Each,
        own: _LoopTransforms,
        digits: Sequence[TreeDigit],
        limits: tuple[tuple[str, AxisLimits], ...],
    ) -> tuple[TreeDigit, ...]:
        """Return the digits of a loop in the requested order."""
        by_name = {digit.name: digit for digit in digits}
        for transform in own.all("split"):
            cut = {_step_of(name) for name in by_name if _axis_of(name) == transform.args[0]}
            if not cut.issuperset(step for step in transform.args if isinstance(step, int)):
                self.fail(
                    transform, "it is longer than the axis, or the blocks of a tensor do not nest with it"
                )
        wanted = own.last("reorder")
        if wanted is not None and each.in_order:
            self.fail(wanted, "the positions of the loop run in order")
        if wanted is None:
            return tuple(by_name[name] for name in _in_tree_order(each, list(by_name)))
        if sorted(map(str, wanted.args)) != sorted(by_name):
            self.fail(wanted, f"the digits of the loop are {', '.join(by_name)}")
        order = tuple(by_name[str(name)] for name in wanted.args)
        for axis, _ in limits:
            steps = [_step_of(digit.name) for digit in order if digit.bound == axis]
            if steps != sorted(steps, reverse=True):
                self.fail(wanted, f"the digits of {axis} do not cover it exactly: put the larger one first")
        return order

    def fused(
        self,
        each: Each,
        own: _LoopTransforms,
        order: tuple[TreeDigit, ...],
        limits: tuple[tuple[str, AxisLimits], ...],
    ) -> tuple[TreeDigit, ...]:
        """Return the digits with the requested ones merged."""
        bounded = frozenset(name for name, _ in limits)
        for transform in own.all("fuse"):
            names, wanted = [digit.name for digit in order], list(map(str, transform.args))
            at = names.index(wanted[0]) if wanted and wanted[0] in names else 0
            if len(wanted) < 2 or names[at : at + len(wanted)] != wanted:
                self.fail(transform, f"the order of the loop's digits is {', '.join(names)}")
            plain = self.loops.fused(order[at : at + len(wanted)], bounded)
            whole = self.loops.fused(plain, bounded, each)
            if len(whole) > 1:
                self.fail(transform, "they are not contiguous in all tensors")
            order = (*order[:at], *whole, *order[at + len(wanted) :])
        return order

    def with_vectors(
        self, transform: Transform, order: tuple[TreeDigit, ...]
    ) -> tuple[tuple[TreeDigit, ...], int]:
        """Return the digits with that of the vectors last, and their lanes."""
        name, lanes = transform.args if len(transform.args) == 2 else ("", 0)
        digit = next((digit for digit in order if digit.name == name), None)
        if digit is None or not isinstance(lanes, int):
            self.fail(transform, f"it takes a digit of {', '.join(d.name for d in order)}, and lanes")
        if not takes_vectors(digit):
            self.fail(transform, "the digit is one position, a table, or an outer one of an axis with limits")
        if not 2 <= lanes <= _MOST_LANES or lanes & (lanes - 1):
            self.fail(transform, f"lanes must be a power of two, from 2 to {_MOST_LANES}")
        if any(lanes % times for times in repeats_of(digit)):
            self.fail(transform, f"lanes must be a multiple of {max(repeats_of(digit))}, sharing an element")
        return (*(other for other in order if other != digit), digit), lanes

    def grid(self, plan: EachPlan) -> Grid:
        """Return the digits that threads share."""
        found: list[tuple[TreeDigit, int, int]] = []
        last = -1
        for transform in self.by_loop.get(0, _LoopTransforms()).all("parallel"):
            if plan.each.in_order:
                self.fail(transform, "the positions of the loop run in order")
            name, tiles = transform.args if len(transform.args) == 2 else ("", 0)
            place = next((i for i, digit in enumerate(plan.digits) if digit.name == name), -1)
            if place < 0 or not isinstance(tiles, int) or tiles < 1:
                names = ", ".join(digit.name for digit in plan.digits)
                self.fail(transform, f"it takes a digit of {names}, and the number of positions in a step")
            if place <= last or (found and decides_inside(plan, last)):
                self.fail(transform, "digits are shared from the outermost one down to one that has limits")
            positions = shared_positions(plan, place)
            if positions < 2:
                self.fail(transform, "it has one position, or one vector")
            found.append((plan.digits[place], tiles, -(-positions // tiles)))
            last = place
        return tuple(found)
