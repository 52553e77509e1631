"""The arguments that an execution passes to an executable, on any device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from ..frozen import dataclass
from .alloc import Buffer

if TYPE_CHECKING:
    from ..ir.program import Program
    from ..targets.lowered import Lowered


@dataclass(frozen=True, slots=True)
class Arguments:
    """Buffers for the slots of a program, whose addresses are those of element offset 0, and its scalars.

    `scratch`: memory for the program's temporaries, where the caller brings it.
    """

    buffers: tuple[Buffer, ...]
    scalars: tuple[float, ...] = ()
    scratch: Buffer | None = None


class Executable(Protocol):
    """A program compiled for a device. Threads may share it.

    `name` and `why` say which kernels run and for what reason; `scratch_bytes` is how much memory its
    temporaries take; `threads` how many may share a run, on a device the work-items.
    """

    @property
    def program(self) -> Program:
        """The program, in the steps that the device does."""

    @property
    def name(self) -> str:
        """`jit:<instruction set>:<kind of kernel>`, or `ref:any`."""

    @property
    def why(self) -> str:
        """The reason for these kernels."""

    @property
    def schedule(self) -> str:
        """The transforms of each kernel, a line for each; behind a `#` what it is for and why it is so."""

    @property
    def scratch_bytes(self) -> int:
        """Bytes of temporaries that an execution takes."""

    @property
    def threads(self) -> int:
        """The number of threads, or work-items, that may share a run."""

    @property
    def call(self) -> Callable[[int, int, int], None] | None:
        """A function that runs in this process on the addresses of slots 0 and 1, and of words that hold
        those of the other slots, then the scalars as doubles. None where executables are launched otherwise.
        """

    @property
    def lowered(self) -> Lowered | None:
        """The lowered kernel of the nest that does the work; None where there is none."""

    def prepare(self) -> object:
        """Compile."""


def name_and_reason(isa: str, work: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """The name of an executable, and why, for the kinds of its kernels and the reasons for them."""
    if not work:
        return "jit:nothing", "there are no elements"
    kinds, whys = (dict.fromkeys(words) for words in zip(*work, strict=True))
    return f"jit:{isa}:{'+'.join(kinds)}", "; ".join(whys)
