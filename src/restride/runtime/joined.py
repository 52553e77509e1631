"""Nests of one destination and several sources, run in step by one kernel."""

from __future__ import annotations

from collections.abc import Sequence

from ..plan.nest import LoopNest
from ..targets.isa import host_caches, host_isa
from ..targets.joined import LoweredJoin, lower_joined
from .cpu import Kernel, Params, kernel_of


class JoinedProgram:
    """Nests in step, planned for this CPU; compiled when first wanted."""

    def __init__(self, lowered: LoweredJoin, moved_bytes: int) -> None:
        self._lowered, self._moved_bytes = lowered, moved_bytes
        self._kernel: Kernel | None = None
        self.name = f"jit:{lowered.isa.name}:{lowered.kind}"
        self.why = f"sources share cache lines: {lowered.steps} blocks, each from all of them"

    def prepare(self) -> None:
        """Compile."""
        self._kernel = self._kernel or kernel_of(self._lowered, self._moved_bytes)

    def run(self, sources: Sequence[int], dst: int) -> None:
        """Run, once prepared, on checked addresses of element offset 0: a source for each nest."""
        assert self._kernel is not None
        params = Params((), sources)
        self._kernel.run(0, dst, params.address)


def joined_program(nests: Sequence[LoopNest], moved_bytes: int) -> JoinedProgram | None:
    """The program of nests that write one destination; None where each is better run on its own."""
    lowered = lower_joined(nests, host_isa(), host_caches())
    return None if lowered is None else JoinedProgram(lowered, moved_bytes)
