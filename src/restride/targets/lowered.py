"""Lowered work: what would be compiled, for any target, and all that a launch has to know of it.

What differs from one kind of work to the next is data: how it is scheduled, and the function that writes its
text, which is called where no store has the code.
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
    """The transforms that the loops of `work` went through, and how these would be by others.

    `neighbors`: what a search varies. `fits`: whether transforms fit, and change no bit. `lower`: the same
    work by other transforms; raises InvalidArguments where they do not fit. `text`: the transforms as text,
    where that has more than a line.
    """

    work: object
    transforms: Schedule
    neighbors: Callable[[], Sequence[Neighbors]]
    fits: Callable[[Schedule], bool]
    lower: Callable[[Schedule], Lowered]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Lowered:
    """Work scheduled for one instruction set: what would be compiled, and why it looks as it does.

    `plan`: the schedule, or several. `write`: a function from `code` and `isa` to the text as LLVM IR; `code`
    is all that the text depends on, the plan where it is left out. `kind` and `why`: the name of such
    kernels, and the reason for this one. `steps`: the finest pieces that threads can share; on a device, the
    work-items. `numbers`: what a launch passes to code of several sizes. `nests`: those that write the
    destination here and there, so that its pages are known; none where it is written in order. `unaligned`:
    the same for destinations that do not begin at a cache line, where streaming stores ask for that;
    `streamed`: the tensors of a tree that these write.
    `choice`: its transforms, and those that there are beside them; None where no transform says how it runs.
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
        """True where it writes past the caches."""
        return self.unaligned is not None

    @property
    def key(self) -> tuple[Any, Isa]:
        """The values that the code depends on besides the compiler."""
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
