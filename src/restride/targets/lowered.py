"""Lowered work: code to be compiled, for any target, and everything a launch needs to know about it.

The differences between kinds of work are data: the schedule, and the function that writes the text, which is
called only if no store has the code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from ..frozen import dataclass
from ..ir.nest import LoopNest
from ..schedule.language import BY_SCHEDULE, Schedule, schedule_text
from .isa import Isa

if TYPE_CHECKING:
    from ..schedule.search import Neighbors


@dataclass(frozen=True, slots=True)
class ScheduleChoice:
    """The transforms applied to the loops of `work`, and alternatives to them.

    `neighbors`: the variations for a search. `fits`: whether transforms fit, and change no bits. `lower`: the
    same work by other transforms; raises InvalidArguments if they do not fit. `text`: the transforms as text,
    if that has more than a line.
    """

    work: object
    transforms: Schedule
    neighbors: Callable[[], Sequence[Neighbors]]
    fits: Callable[[Schedule], bool]
    lower: Callable[[Schedule], Lowered]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Lowered:
    """Work scheduled for one instruction set: the code to be compiled, and the reasons for it.

    `plan`: the schedule, or several. `write`: a function from `code` and `isa` to the LLVM IR text; `code` is
    everything that the text depends on, and is the plan if omitted. `kind` and `why`: the name of such
    kernels, and the reason for this one. `steps`: the finest pieces that threads can share; on a device, the
    work-items. `numbers`: what a launch passes to code of several sizes. `nests`: those that write the
    destination out of order, from which its pages are known; none if it is written in order. `unaligned`: the
    same for destinations that do not begin at a cache line, if streaming stores require that; `streamed`: the
    tensors of a tree that these write. `choice`: its transforms, and the alternatives; None if transforms do
    not describe it.
    """

    plan: Any
    write: Callable[[Any, Isa], str] = field(compare=False, repr=False)
    isa: Isa
    kind: str
    why: str
    steps: int
    code: Any = None
    numbers: tuple[int, ...] = ()
    nests: tuple[LoopNest, ...] = ()
    streamed: frozenset[str] = frozenset()
    unaligned: Callable[[], Lowered] | None = field(default=None, compare=False, repr=False)
    choice: Callable[[], ScheduleChoice] | None = field(default=None, compare=False, repr=False)

    @property
    def streams(self) -> bool:
        """True if it writes past the caches."""
        return self.unaligned is not None

    @property
    def key(self) -> tuple[Any, Isa]:
        """The values that the code depends on, other than the compiler."""
        return (self.plan if self.code is None else self.code, self.isa)

    def as_measured(self) -> Lowered:
        """The same by a schedule that nobody gave: a search has found it."""

        def say(text: str) -> str:
            return text.replace(BY_SCHEDULE, "the fastest schedule that was measured on this machine")

        choose = self.choice
        choice = choose and (lambda: replace(found := choose(), text=say(found.text)))
        return replace(self, why=say(self.why), choice=choice)

    def ir(self) -> str:
        """The kernel as LLVM IR text."""
        return self.write(*self.key)

    def __str__(self) -> str:
        if self.choice is not None:
            choice = self.choice()
            return choice.text or schedule_text(choice.transforms)
        plans = self.plan if isinstance(self.plan, tuple) else (self.plan,)
        return "\n".join(map(str, plans)) or f"{self.kind} ({self.why})"
