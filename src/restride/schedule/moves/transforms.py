"""The transforms of moves: functions of a schedule that tile, order and share the loops of a box.

A nest splits into boxes without bounds (`ir/nest_rewrites.py`), which transforms name by number. The axes of
a box are `a0`, `a1`, ... from the outermost one on. Initially every axis is a loop that moves an element in
each iteration:

    for a0: for a1: for a2: move                                            (nothing)
    for a0: for a1 in tiles of 16: for a2 in tiles of 4: move 16 x 4        tile(a1, 16) · tile(a2, 4)
    for a0: for a2 in ...: for a1 in ...: move 16 x 4                       reorder(a0, a2, a1)
    parallel for a0: for a2 in ...: for a1 in ...: move 16 x 4              parallel(a0)

Every accepted schedule writes the same bytes: others are rejected before any code is generated.
`Schedule.transforms` is the inverse, from a schedule to its transforms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod

from ...errors import Error, refuse
from ...ir.nest import LoopNest
from ...ir.nest_rewrites import split_read
from ..language import BY_SCHEDULE, Argument, Transform, check_known, schedule_text
from ..machine import LIMITS, Machine
from .loop_order import Grid
from .schedule import Schedule, converts_after_permute, moves_whole_bytes, schedule, writes_whole_lines
from .tiling import Tile, choose_tile, contiguous

# Steps are multiplied by parts, of which there are at most this many, in 64 bits.
_MOST_STEPS = 1 << 31
# Prefetching further ahead has no effect.
_FURTHEST = 1 << 40
# The chosen schedule is quoted in messages up to this length.
_QUOTED = 400


class NoFitError(Exception):
    """The reason why a transform does not fit."""


# --- the transforms -----------------------------------------------------------------------------------------


def tile(plan: Schedule, axis: int, positions: int) -> Schedule:
    """Move this many positions of an axis at once, through registers.

    `for a0 in 256: for a1 in 64: move`  ->  `for a0 in 256: for a1 in 4: move 16`, by `tile(a1, 16)`. An axis
    that is in one tile has no loop.
    """
    of_axis, name = plan.nest.axes[axis], f"a{axis}"
    largest = 1 << (max(of_axis.extent, 1) - 1).bit_length()
    if plan.chunks[axis] > 1:
        raise NoFitError(f"{name} is already in tiles")
    if any(grid.axis == axis for grid in plan.grid):
        raise NoFitError(f"{name} is already cut into steps: apply tile first")
    if positions < 1 or (positions > of_axis.extent and positions != largest):
        raise NoFitError(f"{name} has {of_axis.extent} positions; a tile has 1 to {largest} of them")
    if not of_axis.is_linear and positions not in (1, of_axis.extent):
        raise NoFitError(f"{name} moves by a table: a tile must have 1 position or all {of_axis.extent}")
    chunks = (*plan.chunks[:axis], positions, *plan.chunks[axis + 1 :])
    tiled = replace(plan, chunks=chunks)
    return replace(tiled, inner=tuple(i for i in plan.inner if i != axis or tiled.tiles(i) > 1))


def reorder(plan: Schedule, *axes: int) -> Schedule:
    """Run the loops in another order, outermost first.

    `for a0: for a1: move`  ->  `for a1: for a0: move`, by `reorder(a1, a0)`.
    """
    if sorted(axes) != sorted(plan.inner):
        raise NoFitError(f"it must name each of these loops once: {', '.join(f'a{i}' for i in plan.inner)}")
    return replace(plan, inner=axes)


def parallel(plan: Schedule, axis: int, tiles: int = 0) -> Schedule:
    """Cut a loop into steps that threads share; steps are outermost, in the order of the transforms.

    `for a0 in 64: move`  ->  `parallel for 16 steps: for a0 in 4 of the step: move`, by `parallel(a0, 4)`;
    ->  `parallel for a0 in 64: move`, by `parallel(a0)`, which leaves no loop within the step.
    """
    name, count = f"a{axis}", plan.tiles(axis)
    if axis not in plan.inner or any(grid.axis == axis for grid in plan.grid):
        raise NoFitError(f"{name} has no loop that can be cut")
    if not tiles:
        inner = tuple(i for i in plan.inner if i != axis)
        return replace(plan, grid=(*plan.grid, Grid(axis, 1)), inner=inner)
    if tiles > count:
        raise NoFitError(f"{name} has {count} tiles")
    return replace(plan, grid=(*plan.grid, Grid(axis, tiles)))


def permute_source(plan: Schedule) -> Schedule:
    """Permute tiles as source values, and convert them when they are stored.

    `load, finish, permute, store`  ->  `load, permute, finish, store`.
    """
    return replace(plan, late=True, mid_type=plan.nest.src_type)


def stream(plan: Schedule) -> Schedule:
    """Store past the caches.

    `store`  ->  `store, bypassing the caches`, if the destination begins at a line.
    """
    return replace(plan, streams=True)


def prefetch(plan: Schedule, nbytes: int) -> Schedule:
    """Prefetch the source `nbytes` ahead of each row that a tile reads.

    `load row`  ->  `prefetch row + 128; load row`, by `prefetch(128)`.
    """
    if not 1 <= nbytes < _FURTHEST:
        raise NoFitError(f"prefetch takes 1 to {_FURTHEST - 1} bytes")
    return replace(plan, prefetch=nbytes)


def peel(plan: Schedule, axis: int) -> tuple[Schedule, Schedule]:
    """Split a box along a partly read axis.

    `for a0 in 32: read below 17, else zero`  ->  `for a0 in 17: read`  and  `for a0 in 15: zero`, which is
    the next box; the numbers of the boxes after it grow by 1.
    """
    if plan != _as_it_is(plan.nest):
        raise NoFitError("peel must come before all other transforms of a box")
    if plan.nest.axes[axis].is_whole or plan.nest.is_zero:
        raise NoFitError(f"a{axis} is read entirely, or not at all")
    read, zeros = split_read(plan.nest, axis)
    return _as_it_is(read), _as_it_is(zeros)


def _as_it_is(nest: LoopNest) -> Schedule:
    """Return the schedule without transforms: loops over elements in the order of the nest."""
    loops = tuple(i for i, axis in enumerate(nest.axes) if axis.extent > 1)
    return Schedule(nest, (1,) * len(nest.axes), (), loops, nest.dst_type, "", "")


# The arguments of each: an axis ("a"), a count ("n"), any number of axes ("a*"); optional at the end ("?").
_TRANSFORMS: dict[str, tuple[str, Callable[..., Schedule | tuple[Schedule, ...]]]] = {
    "tile": ("an", tile),
    "reorder": ("a*", reorder),
    "parallel": ("an?", parallel),
    "permute_source": ("", permute_source),
    "stream": ("", stream),
    "prefetch": ("n", prefetch),
    "peel": ("a", peel),
}
WHOLE = ("block", "stage")
"""The transforms of a whole nest: `whole_nest.py`."""
_TAKES = {
    "": "no arguments",
    "a": "an axis",
    "n": "a number",
    "an": "an axis and a number",
    "an?": "an axis, and optionally a number",
    "a*": "axes",
}


# --- a whole nest -------------------------------------------------------------------------------------------


Chosen = Callable[[], Iterable[Transform]]
"""Returns the chosen schedule, for messages to quote."""


def apply(
    boxes: Sequence[LoopNest], transforms: Iterable[Transform], machine: Machine, chosen: Chosen | None = None
) -> tuple[Schedule, ...]:
    """Return the schedules that the transforms produce for boxes; `chosen` is of these boxes if omitted.

    Raises InvalidArguments for a transform that is unknown, or does not fit, before any is applied.
    """
    plans, transforms = list(map(_as_it_is, boxes)), tuple(transforms)

    def chosen_for_boxes() -> tuple[Transform, ...]:
        return transforms_of(boxes, [plan for box in boxes for plan in schedule(box, machine)])

    chosen = chosen or chosen_for_boxes
    for transform in transforms:
        check_known(transform, (*_TRANSFORMS, *WHOLE))
        try:
            made = _transformed(plans, transform)
        except NoFitError as error:
            raise no_fit(transform, str(error), chosen) from None
        plans[transform.loop : transform.loop + 1] = made
    for loop, plan in enumerate(plans):
        of_loop = {transform.name: transform for transform in transforms if transform.loop == loop}
        name, why = _misfit(plan, machine)
        if why:
            raise no_fit(of_loop.get(name, f"box {loop}"), why, chosen)
    return tuple(_with_kind(plan, machine) for plan in plans)


def _transformed(plans: list[Schedule], transform: Transform) -> Sequence[Schedule]:
    """Apply one transform to the box that it names."""
    if transform.name in WHOLE:
        raise NoFitError("it applies to the whole nest, so it must be the first transform, and the only one")
    takes, function = _TRANSFORMS[transform.name]
    if transform.loop >= len(plans):
        raise NoFitError(f"there are boxes 0 to {len(plans) - 1}")
    plan = plans[transform.loop]
    given = "".join("n" if isinstance(argument, int) else "a" for argument in transform.args)
    fitting = (takes.rstrip("?"), takes[:-2]) if "?" in takes else (takes,)
    if given not in fitting and not (takes == "a*" and "n" not in given):
        raise NoFitError(f"{transform.name} takes {_TAKES[takes]}")
    arguments = [_axis(plan, each) if isinstance(each, str) else each for each in transform.args]
    if takes == "an?" and arguments[1:] == [0]:
        raise NoFitError("a step must have at least 1 tile")
    made = function(plan, *arguments)
    return made if isinstance(made, tuple) else (made,)


def _axis(plan: Schedule, word: Argument) -> int:
    """Return the number of an axis by its name."""
    names = [f"a{index}" for index in range(len(plan.nest.axes))]
    if word not in names:
        raise NoFitError(f"there is no axis {word}, only {', '.join(names) or 'one element'}")
    return names.index(str(word))


def no_fit(where: Transform | str, why: str, chosen: Chosen) -> Error:
    """Return the error for a schedule that does not fit, with the chosen one."""
    text = schedule_text(chosen())
    text = text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."
    return refuse("RS-V09:no-fit", transform=where, why=why, chosen=text or "no transforms")


def _misfit(plan: Schedule, machine: Machine) -> tuple[str, str]:
    """Return the transform that does not fit with the others of its box, and why; empty if all do."""
    nest, kind = plan.nest, _kind(plan, machine)
    sizes = list(zip(nest.axes, plan.chunks, strict=True))
    in_part = [i for i, (axis, chunk) in enumerate(sizes) if not axis.is_whole and chunk == 1 < axis.extent]
    if in_part and not nest.is_zero:
        return "", f"a{in_part[0]} is partly read: tile it, or peel it"
    if plan.chunks != _chosen_tile(nest, machine).chunks:
        elements = prod(plan.chunks)
        copies = prod((1 + (axis.extent % chunk > 0)) * (2 - axis.is_whole) for axis, chunk in sizes)
        registers = LIMITS.gathered * machine.vector_bytes * 8 // max(plan.mid_type.bits, 8)
        is_exchanged = all(
            chunk & (chunk - 1) == 0 and (axis.is_linear or chunk == 1) for axis, chunk in sizes
        )
        if elements > LIMITS.tile or elements * copies > LIMITS.copied:
            return "tile", f"{elements} elements in {copies} forms are too much code for a tile"
        if elements > registers and not is_exchanged:
            return "tile", f"tiles of {elements} elements are exchanged in registers only as powers of two"
    if plan.steps() >= _MOST_STEPS:
        return "parallel", f"{plan.steps()} steps are too many"
    if not moves_whole_bytes([plan]):
        return "tile", "4-bit elements that share a byte would be separated"
    is_cut = kind.kind == "gather" and any(not axis.is_linear and chunk == 1 for axis, chunk in sizes)
    if plan.streams and (is_cut or not writes_whole_lines(replace(plan, kind=kind.kind), machine)):
        return "stream", "tiles do not write whole cache lines, or the old destination is read"
    if plan.prefetch and nest.is_zero:
        return "prefetch", "zeros read nothing"
    return "", ""


def _chosen_tile(nest: LoopNest, machine: Machine) -> Tile:
    return choose_tile(nest, nest.src_type if converts_after_permute(nest) else nest.dst_type, machine)


def _with_kind(plan: Schedule, machine: Machine) -> Schedule:
    kind = _kind(plan, machine)
    return replace(plan, kind=kind.kind, why=kind.why)


def _kind(plan: Schedule, machine: Machine) -> Tile:
    """Return the kind of kernel that a tile makes, and why: those of the chosen tile, if it is that one."""
    nest, chosen = plan.nest, _chosen_tile(plan.nest, machine)
    if plan.chunks == chosen.chunks:
        return chosen
    along_dst, along_src = contiguous(nest, "dst"), contiguous(nest, "src")
    kind = "transpose"
    if nest.is_zero:
        kind = "zero"
    elif any(not axis.is_linear and chunk > 1 for axis, chunk in zip(nest.axes, plan.chunks, strict=True)):
        kind = "gather"
    elif not along_dst or not along_src:
        kind = "strided"
    elif along_dst[0] == along_src[0]:
        kind = "copy"
    return Tile(plan.chunks, kind, BY_SCHEDULE)


# --- the inverse --------------------------------------------------------------------------------------------


def transforms_of(boxes: Sequence[LoopNest], plans: Sequence[Schedule]) -> tuple[Transform, ...]:
    """Return the transforms that produce these schedules from these boxes: the inverse of `apply`."""
    found = list[Transform]()
    for loop, (plan, peeled) in enumerate(zip(plans, _peeled(boxes, plans), strict=True)):
        found += [Transform("peel", (f"a{axis}",), loop) for axis in peeled]
        found += plan.transforms(loop)
    return tuple(found)


def text_of(boxes: Sequence[LoopNest], plans: Sequence[Schedule]) -> str:
    """Return the same as text, a line for each box, with a line above it that gives the reason."""
    lines = list[str]()
    for loop, (plan, peeled) in enumerate(zip(plans, _peeled(boxes, plans), strict=True)):
        if peeled:
            lines.append(schedule_text(Transform("peel", (f"a{axis}",), loop) for axis in peeled))
        lines.append(plan.text(loop))
    return "\n".join(lines)


def _peeled(boxes: Sequence[LoopNest], plans: Sequence[Schedule]) -> list[list[int]]:
    """Return, for each schedule, the axes along which its box is first split; for parts, at the first one."""
    found, left = list[list[int]](), list(plans)
    for box in boxes:
        axes = list[int]()
        while box != left[0].nest:
            partial = (i for i, axis in enumerate(box.axes) if not axis.is_whole)
            zeros = {split_read(box, i)[1]: i for i in partial}
            axes.append(next(zeros[plan.nest] for plan in left if plan.nest in zeros))
            box, _ = split_read(box, axes[-1])
        found += [axes, *([[]] * len(axes))]
        del left[: 1 + len(axes)]
    return found
