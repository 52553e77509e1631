"""Choice of formats for a network: how each step runs, and where reorders are inserted.

A **problem** (`problem.py`) has steps in execution order. Each step has **alternatives**: the formats in
which it can read its inputs and write its outputs, and its own time. Choosers, such as convolutions, have a
few; followers, such as poolings, have one for each incoming format. Where a step reads a format other than
that of the tensor, there is a **reorder**, one per format, shared by all readers of that format. The total is
the time of all steps and all reorders.

| rule | how alternatives are chosen |
| --- | --- |
| `plain` | row-major wherever a step supports it |
| `greedy` | step by step: choosers take their first alternative, followers the incoming format |
| `optimal` | the least total |

`greedy` is the behavior of the format "any" in primitives. `optimal` is exact on trees, and on all networks
with narrow joins (`elimination.py`); on others some steps stay as in `greedy`, and the result says so. Its
total never exceeds that of `greedy`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from types import MappingProxyType

from ...desc.memory_desc import MemoryDesc
from ...desc.parse import one_of, short_repr
from ...errors import refuse
from .elimination import MOST_COSTS
from .problem import Alternative, EdgeCost, FormatProblem, FormatStep
from .search import optimal_choices

__all__ = ["RULES", "InsertedReorder", "Propagation", "format_name", "priced", "propagate"]

RULES = ("plain", "greedy", "optimal")


@dataclass(frozen=True)
class InsertedReorder:
    """A reorder between a tensor's format and another: its cost, its readers and the reason for it.

    `readers`: names of steps; "" is the edge of the network. `is_constant`: runs once, at no cost.
    """

    tensor: str
    src: MemoryDesc
    dst: MemoryDesc
    cost: EdgeCost
    writer: str
    readers: tuple[str, ...]
    is_constant: bool = False

    @property
    def why(self) -> str:
        """The writer of one format, and the readers that need the other."""
        names = ", ".join(reader for reader in self.readers if reader)
        uses = [f"{names} read{'s' if names.count(',') == 0 else ''}"] * bool(names)
        uses += ["the network outputs"] * ("" in self.readers)
        writer = f"{self.writer} writes" if self.writer else "the network receives"
        return f"{writer} {format_name(self.src)}, {' and '.join(uses)} {format_name(self.dst)}"

    def __str__(self) -> str:
        cost = (
            "once" if self.is_constant else f"{self.cost.bytes_moved} bytes, {self.cost.seconds * 1e6:.3g} us"
        )
        return f"{self.tensor}: {format_name(self.src)} to {format_name(self.dst)} ({cost}): {self.why}"


@dataclass(frozen=True)
class Propagation:
    """The decisions of a rule: the format of every tensor, the reorders, and the total cost.

    `choices`: the index of each step's alternative, `steps`: these alternatives. `formats`: the format in
    which each tensor is written. `reorders`: in the order in which their tensors are written. `seconds`: of
    all steps and reorders. `is_exact`: no other choice has a lower total.
    """

    rule: str
    choices: tuple[int, ...]
    steps: tuple[Alternative, ...] = field(repr=False)
    formats: Mapping[str, MemoryDesc]
    reorders: tuple[InsertedReorder, ...]
    seconds: float
    is_exact: bool = False

    @property
    def reorder_seconds(self) -> float:
        """Time of all reorders except those of constants."""
        return fsum(reorder.cost.seconds for reorder in self.reorders)

    @property
    def bytes_moved(self) -> int:
        """Bytes read and written by all reorders except those of constants."""
        return sum(reorder.cost.bytes_moved for reorder in self.reorders)

    def __str__(self) -> str:
        moving = [reorder for reorder in self.reorders if not reorder.is_constant]
        head = (
            f"{self.rule}: {len(moving)} reorders of {self.bytes_moved} bytes, "
            f"{self.reorder_seconds * 1e3:.3g} ms of {self.seconds * 1e3:.3g} ms"
        )
        return "\n".join([head, *(f"  {reorder}" for reorder in moving)])


def propagate(problem: FormatProblem, rule: str = "optimal", *, most_costs: int = MOST_COSTS) -> Propagation:
    """Choose the formats of a problem by `rule`; `most_costs` bounds the tables of the search.

    Raises InvalidArguments for a rule other than plain, greedy and optimal.
    """
    if rule not in RULES:
        raise refuse("RS-V04:rule", rule=short_repr(rule), advice=one_of(RULES, rule))
    if rule == "plain":
        return priced(problem, [_plainest(step.alternatives) for step in problem.steps], "plain")
    greedy = priced(problem, _eager(problem), "greedy")
    if rule == "greedy":
        return greedy
    optimum = optimal_choices(problem, greedy.choices, most_costs)
    best = priced(problem, optimum.states, "optimal", optimum.is_exact)
    # Sums rounded in another order can differ in the last place.
    is_better = best.seconds <= greedy.seconds
    return best if is_better else priced(problem, greedy.choices, "optimal", optimum.is_exact)


def priced(problem: FormatProblem, choices: Sequence[int], rule: str, is_exact: bool = False) -> Propagation:
    """Return the formats, reorders and costs that follow from these choices."""
    writers = {name: "" for name, _ in problem.inputs}
    formats = dict(problem.inputs)
    uses: dict[tuple[str, MemoryDesc], dict[str, None]] = {}
    steps = tuple(step.alternatives[place] for step, place in zip(problem.steps, choices, strict=True))
    for step, way in zip(problem.steps, steps, strict=True):
        for tensor, md in zip(step.inputs, way.inputs, strict=True):
            uses.setdefault((tensor, md), {})[step.name] = None
        formats.update(zip(step.outputs, way.outputs, strict=True))
        writers.update(dict.fromkeys(step.outputs, step.name))
    for tensor, md in problem.outputs:
        uses.setdefault((tensor, md), {})[""] = None
    places = {tensor: place for place, tensor in enumerate(formats)}
    reorders = tuple(
        InsertedReorder(
            tensor,
            formats[tensor],
            md,
            problem.reorder_cost(tensor, formats[tensor], md),
            writers[tensor],
            tuple(readers),
            tensor in problem.constants,
        )
        for (tensor, md), readers in sorted(uses.items(), key=lambda item: places[item[0][0]])
        if md != formats[tensor]
        and (tensor in problem.constants or problem.reorder_cost(tensor, formats[tensor], md).bytes_moved > 0)
    )
    seconds = fsum([*(way.seconds for way in steps), *(reorder.cost.seconds for reorder in reorders)])
    return Propagation(rule, tuple(choices), steps, MappingProxyType(formats), reorders, seconds, is_exact)


def _plainest(alternatives: tuple[Alternative, ...]) -> int:
    """Return the alternative with the fewest formats that are not row-major, counting inputs first."""
    odd = [
        [sum(md != MemoryDesc(md.dims, md.data_type) for md in mds) for mds in (way.inputs, way.outputs)]
        for way in alternatives
    ]
    counts = [(sum(pair), pair[0]) for pair in odd]
    return counts.index(min(counts))


def _eager(problem: FormatProblem) -> list[int]:
    formats = dict(problem.inputs)
    places = []
    for step in problem.steps:
        place = _what_comes(step, formats, problem.constants) if step.follows else 0
        formats.update(zip(step.outputs, step.alternatives[place].outputs, strict=True))
        places.append(place)
    return places


def _what_comes(step: FormatStep, formats: Mapping[str, MemoryDesc], constants: frozenset[str]) -> int:
    """Return the alternative that reads its first input, then most others, as they come; else the first."""
    moving = [i for i, name in enumerate(step.inputs) if name not in constants]
    if not moving:
        return 0
    fits = [[way.inputs[i] == formats[step.inputs[i]] for i in moving] for way in step.alternatives]
    ranks = [(fit[0], sum(fit)) for fit in fits]
    return ranks.index(max(ranks)) if any(fit[0] for fit in fits) else 0


def format_name(md: MemoryDesc) -> str:
    """Describe a format: its tag or name, or else its strides."""
    if md.format_kind == "opaque":
        return str(md).rpartition(" ")[2]
    return md.tag or f"strides {'x'.join(map(str, md.strides))}"
