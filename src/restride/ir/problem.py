"""Defaults for problems of primitives: no computation, and no further outputs."""

from __future__ import annotations

from typing import Self

from ..desc.memory_desc import MemoryDesc
from .computation import NOTHING, Computation


class ProblemBase:
    """Methods that most problems share. A problem is a frozen dataclass."""

    __slots__ = ()

    def structure(self) -> Self:
        """The problem without values that kernels do not depend on: itself, as it has none."""
        return self

    def computation(self) -> Computation:
        """The computation of the attributes: none."""
        return NOTHING

    def outputs(self) -> dict[int, MemoryDesc]:
        """The outputs other than the destination, by argument: none."""
        return {}
