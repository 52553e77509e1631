"""The arguments of an execution of an executable, on any device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from ..frozen import dataclass
from .alloc import Buffer

if TYPE_CHECKING:
    from ..ir.program import Program
    from ..targets.lowered import Lowered


@dataclass(frozen=True, slots=True)
class Arguments:
    """Buffers for the slots of a program, with addresses of element offset 0, and its scalars.

    `scratch`: memory for the program's temporaries, if the caller provides it.
    """

    buffers: tuple[Buffer, ...]
    scalars: tuple[float, ...] = ()
    scratch: Buffer | None = None


NO_KERNELS: Mapping[str, Lowered] = MappingProxyType({})
"""The kernels of an executable that compiles none."""


class Executable(Protocol):
    """A program compiled for a device. Threads can share it.

    `name` and `why` say which kernels run and for what reason; `scratch_bytes` is the size of its
    temporaries; `threads` is the number of threads that can share a run, or of work-items on a device.
    """

    @property
    def program(self) -> Program:
        """The program, in steps that the device supports."""

    @property
    def name(self) -> str:
        """`jit:<instruction set>:<kind of kernel>`, or `ref:any`."""

    @property
    def why(self) -> str:
        """The reason for these kernels."""

    @property
    def schedule(self) -> str:
        """The transforms of each kernel, one line each; after a `#`, its purpose and the reason."""

    @property
    def scratch_bytes(self) -> int:
        """Bytes of temporaries that an execution needs."""

    @property
    def threads(self) -> int:
        """The number of threads, or work-items, that can share a run."""

    @property
    def call(self) -> Callable[[int, int, int], None] | None:
        """A function that runs in this process on the addresses of slots 0 and 1, and of words that hold
        those of the other slots, then the scalars as doubles. None if executables are launched differently.
        """

    @property
    def lowered(self) -> Lowered | None:
        """The lowered kernel of the nest that does the work, or None."""

    @property
    def kernels(self) -> Mapping[str, Lowered]:
        """All kernels in the order of launches, by names as in schedules, `kernel(n)`."""

    def prepare(self) -> object:
        """Compile."""


def name_and_reason(isa: str, work: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Return the name of an executable, and why, from the kinds of its kernels and their reasons."""
    if not work:
        return "jit:nothing", "there are no elements"
    kinds, whys = (dict.fromkeys(words) for words in zip(*work, strict=True))
    return f"jit:{isa}:{'+'.join(kinds)}", "; ".join(whys)
