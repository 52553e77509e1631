"""What a concat is on every engine: its parts, what it checks, and how it is told of."""

from __future__ import annotations

from ..desc.memory_desc import MemoryDesc
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from .concat_problem import ConcatProblem
from .feeding import Extras, check_feeds


class ConcatBase:
    """What all engines share."""

    in_place_hint = "use another buffer; a source may lie in the destination in its own place alone"

    def __init__(self, problem: ConcatProblem) -> None:
        self.problem = problem
        self.parts = tuple(problem.parts())
        self._by_index = {part.index: part for part in self.parts}
        self.extra_args = tuple(arg for part in self.parts for arg in part.chain.args)
        self.name, self.why = "", ""

    def extra_descs(self) -> dict[int, MemoryDesc]:
        """What the memories of scales may look like."""
        return {arg: md for part in self.parts for arg, md in part.chain.descs().items()}

    def check_extras(self, call: str, extras: Extras, engine: Engine, dst: Memory) -> None:
        """Raise InvalidArguments for scales that will not do."""
        for part in self.parts:
            check_feeds(call, part.chain, extras, engine, dst)

    def is_in_place(self, index: int, src: Memory, dst: Memory) -> bool:
        """True where a source lies in its window."""
        return index in self._by_index and self._by_index[index].is_in_place(src, dst)

    def verbose_fields(self, op: str, engine: Engine, ms: float) -> list[object]:
        """The fields of one verbose line (spec 1.6)."""
        problem = self.problem
        mds = [md.verbose_str("src") for md in problem.srcs] + [problem.dst.verbose_str("dst")]
        dims = ":".join("x".join(map(str, md.dims)) for md in problem.srcs)
        aux = f"axis:{problem.axis} why:{self.why}"
        head = [op, engine.kind, "concat", self.name, "undef"]
        return [*head, " ".join(mds), problem.attr.verbose_str(), aux, dims, ms]
