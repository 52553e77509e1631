"""Programs: the work of a primitive, as engine-independent values.

A program lists *its arguments, its temporaries, and its steps in order*. The grammar::

    program   := slot* temporary* step*
    slot      := arg [written]             an argument of an execution, by its number
    temporary := bytes                     memory that lives as long as an execution
    step      := nest | tree | repeat | grid
    nest      := loops src dst operand* scalar*
    tree      := loop-tree place* scalar*          a place for each of its tensors
    repeat    := turns tree* stride*               trees in turn, repeatedly; places move by strides
    grid      := extents bytes call*               positions that threads share, each with memory of its own
    call      := tree stride* condition*           a tree at each position where all conditions hold
    place     := slot | temporary | own memory, and the byte offset of element offset 0

Slot 0 is the first tensor read and slot 1 the tensor written; then come operands and further sources, then
further outputs. A program contains only the number of its scalars: an execution passes them as f64.

`schedule/passes.py` rewrites programs for engines that cannot run every step directly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import field, replace
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from ..frozen import dataclass
from .nest import LoopNest
from .nest_rewrites import Span

if TYPE_CHECKING:
    from .staged_nest import StagedNest
    from .tree import LoopTree

SRC, DST = 0, 1
"""The slots of the first tensor read, and of the tensor written."""


OWN = -(1 << 30)
"""The buffer number of a grid position's own memory."""


class Place(NamedTuple):
    """The location of a step's tensor: slot `buffer`, or temporary `~buffer` if that is negative, or `OWN`.

    `offset`: the bytes from the address of the buffer to element offset 0 of the step.
    """

    buffer: int
    offset: int = 0

    def __str__(self) -> str:
        name = f"slot {self.buffer}" if self.buffer >= 0 else f"temporary {~self.buffer}"
        name = "own memory" if self.buffer == OWN else name
        return f"{name} + {self.offset}" if self.offset else name


class Slot(NamedTuple):
    """An argument: its number, and whether it is written. `span`: the elements [low, high) of an operand."""

    arg: int
    is_written: bool = False
    span: Span = (0, 0)


@dataclass(frozen=True, slots=True)
class NestStep:
    """A nest from `src` to `dst`. `read` and `written`: the elements [low, high) that it can access there.

    `scalars`: the first of the execution's scalars that it reads, and how many; `constants` replace them if
    they are known. `work_bytes`: the bytes that could be moved in the time that it takes. `staged`: the same
    nest in stages, for engines that gain from it; unless it `finds_stages`, there are no others. A step that
    is not `is_named` only prepares another one; `note` is text for reports about it.
    """

    nest: LoopNest
    src: Place
    dst: Place
    work_bytes: int
    read: Span
    written: Span
    operands: tuple[Place, ...] = ()
    scalars: tuple[int, int] = (0, 0)
    constants: tuple[float, ...] = ()
    staged: StagedNest | None = field(default=None, compare=False)
    finds_stages: bool = True
    is_named: bool = True
    note: str = ""

    @property
    def sources(self) -> tuple[Place, ...]:
        """The places that it reads, including the destination if the nest adds to it."""
        own = (self.dst,) if self.nest.compute.reads_destination else ()
        return (self.src, *self.operands, *own)

    @property
    def targets(self) -> tuple[Place, ...]:
        """The places that it writes."""
        return (self.dst,)

    def __str__(self) -> str:
        operands = "".join(f", x{i} {place}" for i, place in enumerate(self.operands))
        scalars = "".join(f", scalar {number}" for number in range(*_span_of(self.scalars)))
        return f"src {self.src}, dst {self.dst}{operands}{scalars}\n{_indented(str(self.nest))}"


@dataclass(frozen=True, slots=True)
class TreeStep:
    """A loop tree on the tensors at `places`, one for each that it names.

    `scalars`, `work_bytes` and `is_named` are as for a nest; `note` is text for reports about the step.
    `rewrites`: the transforms that produced the tree, as text; `source`: the tree before them, if it became
    only this step.
    `kind`: the name of the step, if it does not follow from its loops.
    """

    tree: LoopTree
    places: tuple[Place, ...]
    work_bytes: int
    scalars: tuple[int, int] = (0, 0)
    note: str = ""
    is_named: bool = True
    rewrites: str = field(default="", compare=False)
    source: LoopTree | None = field(default=None, compare=False)
    kind: str = ""

    @property
    def sources(self) -> tuple[Place, ...]:
        """All places that it reads."""
        read = {load.tensor for load in self.tree.loads}
        return self.places_of(read)

    @property
    def targets(self) -> tuple[Place, ...]:
        """The places that it writes."""
        return self.places_of(set(self.tree.written))

    def places_of(self, names: Collection[str]) -> tuple[Place, ...]:
        """Return the places of some tensors."""
        pairs = zip(self.tree.tensors, self.places, strict=True)
        return tuple(place for tensor, place in pairs if tensor.name in names)

    def __str__(self) -> str:
        pairs = zip(self.tree.tensors, self.places, strict=True)
        places = ", ".join(f"{tensor.name} {place}" for tensor, place in pairs)
        scalars = "".join(f", scalar {number}" for number in range(*_span_of(self.scalars)))
        return f"{places}{scalars}\n{_indented(str(self.tree))}"


@dataclass(frozen=True, slots=True)
class RepeatStep:
    """Trees that run in turn, `turns` times: time steps, each of which depends on the one before.

    `strides`: for each tree and each of its places, the bytes it moves from one turn to the next.
    """

    turns: int
    steps: tuple[TreeStep, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def sources(self) -> tuple[Place, ...]:
        """The places that it reads, in the first turn."""
        return tuple(place for step in self.steps for place in step.sources)

    @property
    def targets(self) -> tuple[Place, ...]:
        """The places that it writes, in the first turn."""
        return tuple(place for step in self.steps for place in step.targets)

    def unrolled(self) -> Iterator[TreeStep]:
        """Yield the steps of all turns, in order."""
        for turn in range(self.turns):
            for step, strides in zip(self.steps, self.strides, strict=True):
                yield replace(step, places=moved_places(step.places, strides, turn))

    def __str__(self) -> str:
        lines = [f"repeat {self.turns}:"]
        for step, strides in zip(self.steps, self.strides, strict=True):
            lines += [f"  moved by {', '.join(map(str, strides))} bytes", _indented(str(step))]
        return "\n".join(lines)


def moved_places(places: Sequence[Place], strides: Sequence[int], turns: int) -> tuple[Place, ...]:
    """Return places after some turns of a `RepeatStep`."""
    pairs = zip(places, strides, strict=True)
    return tuple(Place(place.buffer, place.offset + turns * stride) for place, stride in pairs)


@dataclass(frozen=True, slots=True)
class GridCondition:
    """A condition on grid positions: `constant + sum of factor * position` is not negative.

    `added`: the place of an s64, such as a length known only at execution, that is added `sign` times;
    `strides`: the bytes that it moves between positions, for each axis. None adds nothing.
    """

    constant: int
    factors: tuple[int, ...]
    added: Place | None = None
    strides: tuple[int, ...] = ()
    sign: int = 1

    def __str__(self) -> str:
        terms = "".join(f" + {factor} * {i}" for i, factor in enumerate(self.factors) if factor)
        added = f" + {self.sign} * {self.added} moved by {self.strides} bytes" if self.added else ""
        return f"0 <= {self.constant}{terms}{added}"


@dataclass(frozen=True, slots=True)
class GridCall:
    """A tree of a grid, run where all conditions hold. `strides`: for each place, the bytes that it moves
    between positions, for each axis.
    """

    step: TreeStep
    strides: tuple[tuple[int, ...], ...]
    conditions: tuple[GridCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class GridStep:
    """Trees at the positions of a grid: at each position in order, where their conditions hold.

    Positions along all axes but the last run in any order, each with `own_bytes` of separate memory; those
    along the last axis run in order and share it. `whole`: an equivalent program over the same slots in whole
    steps, for engines without grids; `kind` and `note` are text for reports.
    """

    extents: tuple[int, ...]
    own_bytes: int
    calls: tuple[GridCall, ...]
    work_bytes: int
    whole: Program
    kind: str
    note: str = ""

    @property
    def sources(self) -> tuple[Place, ...]:
        """The places that it reads, at the first position."""
        added = [each.added for call in self.calls for each in call.conditions if each.added]
        read = [place for call in self.calls for place in call.step.sources if place.buffer != OWN]
        return tuple(dict.fromkeys([*read, *added]))

    @property
    def targets(self) -> tuple[Place, ...]:
        """The places that it writes, at the first position."""
        written = (place for call in self.calls for place in call.step.targets if place.buffer != OWN)
        return tuple(dict.fromkeys(written))

    @property
    def positions(self) -> int:
        """The number of positions that threads share."""
        return prod(self.extents[:-1])

    def __str__(self) -> str:
        lines = [f"grid {'x'.join(map(str, self.extents))}, {self.own_bytes} bytes each:"]
        for call in self.calls:
            lines += [f"  where {condition}" for condition in call.conditions]
            lines += [f"  moved by {call.strides} bytes", _indented(str(call.step))]
        return "\n".join(lines)


Step = NestStep | TreeStep | RepeatStep | GridStep


@dataclass(frozen=True, slots=True)
class Program:
    """A frozen program. `temporaries` are sizes in bytes; `scalars` is the number passed at execution.

    `is_aliased`: a source may share bytes with the destination, whose contents are undefined until the end.
    """

    slots: tuple[Slot, ...]
    steps: tuple[Step, ...]
    temporaries: tuple[int, ...] = ()
    scalars: int = 0
    is_aliased: bool = False

    @property
    def nests(self) -> tuple[NestStep, ...]:
        """The steps that are nests."""
        return tuple(step for step in self.steps if isinstance(step, NestStep))

    def with_steps(self, steps: Iterable[Step], temporaries: Iterable[int] = ()) -> Program:
        """Return the same arguments with other steps, and with further temporaries appended."""
        return replace(self, steps=tuple(steps), temporaries=(*self.temporaries, *temporaries))

    def verify(self) -> Program:
        """Return self if every place exists; else raise ValueError: a bug of the planner, never of a user."""
        for step in self.steps:
            for place in (*step.sources, *step.targets):
                if not -len(self.temporaries) <= place.buffer < len(self.slots):
                    raise ValueError(f"{place} does not exist in\n{self}")
            for place in step.targets:
                if place.buffer >= 0 and not self.slots[place.buffer].is_written:
                    raise ValueError(f"{place} is written, but is not an output, in\n{self}")
        return self

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def are_independent(steps: Iterable[Step]) -> bool:
    """Return whether no step reads what another one writes, so that their order does not matter."""
    sequence = list(steps)
    written = {place.buffer for step in sequence for place in step.targets}
    return not any(place.buffer in written for step in sequence for place in step.sources)


def _lines(program: Program) -> Iterator[str]:
    for i, slot in enumerate(program.slots):
        yield f"slot {i}: argument {slot.arg}{', written' if slot.is_written else ''}"
    for i, nbytes in enumerate(program.temporaries):
        yield f"temporary {i}: {nbytes} bytes"
    yield from map(str, program.steps)


def _span_of(scalars: tuple[int, int]) -> tuple[int, int]:
    first, count = scalars
    return first, first + count


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.splitlines())
