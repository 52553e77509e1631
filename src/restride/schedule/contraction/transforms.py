"""The transforms of a contraction's schedule: the list of choices made, and the plan that a list produces.

Loops are named like the digits of trees: `oc/16` is over blocks of 16 channels, `ow/1` over an axis.

| transform | before -> after |
| --- | --- |
| `pack(ic/1, 4)` | `sum ic/1 4: a * b` -> one multiplication of 4 neighbors, whose products are added |
| `tile(ow/1, 6, 2)` | `for ow, oc` -> `for ow by 6, oc by 2 vectors`, with the sums of a tile in registers |
| `reorder(n/1, oh/1, columns)` | the loops around tiles, outermost first; `columns` are their groups |
| `unroll(ic/1, 4)` | `sum ic/1 64: f` -> `sum ic/1 16: f, f, f, f`: the innermost summed loop |
| `strip(ow/1, 8)` | `for columns: for ow` -> `for ow by 8: for columns: for 8 tiles` |
| `split(ic/8, 2)` | `for tiles: sum ic/8 16: f` -> `for ic/8 by 2: for tiles: sum 2: f`, for a row of tiles |
| `prefetch(0)` | no prefetch; `prefetch(2)`: 2 lines of the next columns in each iteration |

Packs follow from formats and machine: a list can state them, but not change them. No list changes any bits:
each sum is accumulated in the order of the summed loops.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from ...errors import refuse
from ..language import Schedule, Transform, check_known, schedule_text
from ..machine import Machine
from .prefetch import Prefetch
from .schedule import ContractionDraft, ContractionPlan, draft_of, schedule_contraction, unrolled_turns
from .strides import FIRST, Contraction, ContractionLoop

_NAMES = ("pack", "tile", "reorder", "unroll", "strip", "split", "prefetch")
_COLUMNS = "columns"


def transforms_of(plan: ContractionPlan) -> Schedule:
    """Return the transforms that produce this plan from its contraction."""
    rows = max(kind.rows for kind in plan.tiling.kinds)
    around = [name_of(loop) for loop in plan.grid]
    around.insert(plan.columns_at, _COLUMNS)
    found = [Transform("pack", (name_of(plan.pack.loop), plan.pack.count))] if plan.pack else []
    found.append(Transform("tile", (name_of(plan.row), rows, plan.vectors)))
    if len(around) > 1:
        found.append(Transform("reorder", tuple(around)))
    if plan.loops:
        found.append(Transform("unroll", (name_of(plan.loops[-1]), plan.unroll)))
    if plan.strip:
        found.append(Transform("strip", (name_of(plan.row), plan.strip)))
    if plan.split and plan.split_loop is not None:
        found.append(Transform("split", (name_of(plan.split_loop), plan.split)))
    found.append(Transform("prefetch", (plan.prefetch.lines, *plan.prefetch.operands)))
    return tuple(found)


def name_of(loop: ContractionLoop) -> str:
    """Return the name of a loop in a schedule."""
    return f"{loop.axis or 'one'}/{loop.step}"


def apply(contraction: Contraction, machine: Machine, schedule: Schedule) -> ContractionPlan:
    """Return the plan that transforms produce for a contraction that has vectors on a machine; omitted ones
    are chosen. Raises InvalidArguments for transforms that do not fit.
    """
    return _PlanBuilder(contraction, machine, schedule).plan()


class _PlanBuilder:
    """Builds a plan from a list."""

    def __init__(self, contraction: Contraction, machine: Machine, schedule: Schedule) -> None:
        draft = draft_of(contraction, machine)
        if draft is None:
            raise ValueError(f"no vectors are possible in\n{contraction}")
        self.draft: ContractionDraft = draft
        self.wanted: dict[str, Transform] = {}
        for transform in schedule:
            check_known(transform, _NAMES)
            if transform.loop:
                self.fail(transform, "a contraction is a single loop, so omit the loop number")
            self.wanted[transform.name] = transform

    def fail(self, transform: Transform, why: str) -> NoReturn:
        """Reject a transform."""
        chosen = schedule_contraction(self.draft.contraction, self.draft.machine)
        text = schedule_text(transforms_of(chosen)) if chosen else "none, as it is not a contraction here"
        raise refuse("RS-V09:no-fit", transform=transform, why=why, chosen=text)

    def plan(self) -> ContractionPlan:
        """Return the plan."""
        draft = self.draft
        self.check_pack()
        shape = self.shape()
        plan = draft.plan(shape, self.order())
        if not plan.has_few_kinds:
            self.fail(self.wanted["tile"], "windows make too many kinds of such tiles at their edges")
        plan = replace(plan, unroll=self.unroll(plan))
        plan = replace(plan, strip=self.strip(plan))
        plan = replace(plan, split=self.split(plan))
        return replace(plan, prefetch=self.prefetch(plan))

    def check_pack(self) -> None:
        """Reject a pack other than the actual one."""
        wanted, pack = self.wanted.get("pack"), self.draft.pack
        own = () if pack is None else (name_of(pack.loop), pack.count)
        if wanted is not None and wanted.args != own:
            told = f"it is pack({own[0]}, {own[1]})" if own else "there is none"
            self.fail(wanted, f"the pack follows from formats and machine: {told}")

    def shape(self) -> tuple[int, int]:
        """Return rows and vectors of tiles."""
        wanted, shapes = self.wanted.get("tile"), self.draft.shapes
        if wanted is None:
            return shapes[0]
        row = name_of(self.draft.row)
        if len(wanted.args) != 3 or wanted.args[0] != row:
            self.fail(wanted, f"it takes {row}, the number of rows, and the number of vectors")
        shape = next((shape for shape in shapes if shape == wanted.args[1:]), None)
        if shape is None:
            fitting = ", ".join(f"{rows} x {vectors}" for rows, vectors in shapes[:8])
            self.fail(wanted, f"tiles that fit the registers and divide the rows evenly are: {fitting}, ...")
        return shape

    def order(self) -> tuple[tuple[ContractionLoop, ...], int] | None:
        """Return the loops around tiles, and how many are outside the columns; None if not specified."""
        wanted = self.wanted.get("reorder")
        if wanted is None:
            return None
        by_name = {name_of(loop): loop for loop in self.draft.around}
        names = list(map(str, wanted.args))
        if sorted(names) != sorted((*by_name, _COLUMNS)):
            self.fail(wanted, f"the loops around tiles are {', '.join((*by_name, _COLUMNS))}")
        steps: dict[str, int] = {}
        for loop in (by_name[name] for name in names if name != _COLUMNS):
            if steps.setdefault(loop.axis, loop.step) < loop.step:
                self.fail(wanted, "the blocks of an axis must precede the positions in them")
        at = names.index(_COLUMNS)
        return tuple(by_name[name] for name in names if name != _COLUMNS), at

    def unroll(self, plan: ContractionPlan) -> int:
        """Return the unrolling of the innermost summed loop."""
        wanted, cost = self.wanted.get("unroll"), self.draft.cost
        counts = unrolled_turns(plan, cost.operations * cost.parts)
        if wanted is None:
            return self.draft.unroll_of(plan)
        inner = name_of(plan.loops[-1]) if plan.loops else ""
        if len(wanted.args) != 2 or wanted.args[0] != inner or wanted.args[1] not in counts:
            self.fail(wanted, f"it takes {inner}, and one of {', '.join(map(str, counts))}")
        return int(wanted.args[1])

    def strip(self, plan: ContractionPlan) -> int:
        """Return how many tiles of the row loop meet all columns before the next ones do."""
        wanted, row, tiles = self.wanted.get("strip"), name_of(plan.row), plan.tiling.count
        if wanted is None:
            return self.draft.strip_of(plan)
        if plan.is_by_lanes or plan.columns_at < len(plan.grid):
            self.fail(wanted, "columns must be the loop directly around the tiles")
        count = wanted.args[1] if len(wanted.args) == 2 and wanted.args[0] == row else None
        if not isinstance(count, int) or not 0 < count <= tiles:
            self.fail(wanted, f"it takes {row}, and a number of its {tiles} tiles")
        return count

    def split(self, plan: ContractionPlan) -> int:
        """Return how many iterations of the outermost summed loop are summed at a time."""
        wanted, loop = self.wanted.get("split"), plan.split_loop
        if wanted is None:
            return self.draft.split_of(plan)
        if loop is None:
            self.fail(wanted, "the outermost summed loop cannot be split")
        turns = wanted.args[1] if len(wanted.args) == 2 and wanted.args[0] == name_of(loop) else None
        if not isinstance(turns, int) or not 0 < turns <= plan.split_turns:
            self.fail(wanted, f"it takes {name_of(loop)}, and a number of its {plan.split_turns} iterations")
        return turns

    def prefetch(self, plan: ContractionPlan) -> Prefetch:
        """Return what is prefetched."""
        chosen, wanted = self.draft.prefetch_of(plan), self.wanted.get("prefetch")
        if wanted is None:
            return chosen
        lines, *operands = [arg for arg in wanted.args if isinstance(arg, int)] or [-1]
        accesses = len(self.draft.contraction.accesses)
        if len(operands) + 1 != len(wanted.args) or lines not in (0, chosen.lines):
            self.fail(wanted, f"it takes the number of lines, 0 or {chosen.lines}, and operand numbers")
        if any(number != FIRST and not 2 < number < accesses for number in operands):
            self.fail(wanted, f"operands are numbered 0 and 3 to {accesses - 1}")
        return replace(chosen, operands=tuple(operands), lines=lines)
