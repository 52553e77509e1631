"""What the problems of primitives are where they say nothing else: nothing is computed or written beside."""

from __future__ import annotations

from typing import Self

from ..desc.memory_desc import MemoryDesc
from .computation import NOTHING, Computation


class ProblemBase:
    """The methods of a problem that most problems have alike. A problem is a frozen dataclass."""

    __slots__ = ()

    def structure(self) -> Self:
        """The problem without its values, which no kernel depends on: itself, as it has none."""
        return self

    def computation(self) -> Computation:
        """What attributes compute: nothing, as there are none."""
        return NOTHING

    def outputs(self) -> dict[int, MemoryDesc]:
        """What is written beside the destination, by argument: nothing."""
        return {}
