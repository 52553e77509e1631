"""One shuffle problem: checked descriptors, and the implementation that solves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments, Unimplemented
from ..loading import load_whole
from ..plan.nest import LoopNest
from ..plan.shuffle import shuffle_chain, shuffle_nest, widened
from ..runtime.cpu import Program
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.reference import run_nest
from ..runtime.spread import Runner, make_program
from .chain import NOTHING
from .feeding import Entry

if TYPE_CHECKING:
    from .sycl_reorder import SyclMove


@dataclass(frozen=True, slots=True)
class ShuffleProblem:
    """What to shuffle, as a forward shuffle: equal problems share an implementation, whatever they are for.

    `axis` is one of the dims, and `group_size` divides it: the caller has checked both.
    """

    src: MemoryDesc
    dst: MemoryDesc
    axis: int
    group_size: int

    def nest(self) -> LoopNest:
        """The loop nest."""
        return shuffle_nest(self.src, self.dst, self.axis, self.group_size)

    def program(self) -> Runner:
        """The nest planned for this CPU."""
        if self.src.data_type.bits < 8:
            spans = self.src.extent_range(), self.dst.extent_range()
            return make_program(self.nest(), self.moved_bytes, *spans)
        moved = *widened(self.src, self.dst, self.axis), self.axis, self.group_size
        return Program(shuffle_nest(*moved), self.moved_bytes, shuffle_chain(*moved))

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written, padding of the destination included, gaps between elements not."""
        written = self.dst.data_type.nbytes(prod(self.dst.padded_dims))
        return written + self.src.data_type.nbytes(self.src.nelems)

    def where(self) -> str:
        """Both descriptors, for messages."""
        return f"src {self.src}; dst {self.dst}"


def check_shuffle(what: str, problem: ShuffleProblem) -> ShuffleProblem:
    """Return the problem; raise InvalidArguments, Unimplemented where its descriptors have no answer."""
    src, dst = problem.src, problem.dst
    if src.dims != dst.dims:
        why = f"their dims are {src.dims} and {dst.dims}"
        hint = "a shuffle keeps the dims (S11)"
        raise InvalidArguments(
            f"{what}: inconsistent src and dst mds", code="RS-S11", where=problem.where(), why=why, hint=hint
        )
    if src.data_type is not dst.data_type:
        why, hint = "a shuffle moves bits, and converts nothing (S11)", "reorder into the other type first"
        raise Unimplemented(
            f"{what}: two data types", code="RS-S11", where=problem.where(), why=why, hint=hint
        )
    if not dst.is_injective():
        raise InvalidArguments(
            f"{what}: elements of the destination share memory",
            code="RS-N08",
            where=problem.where(),
            why="a stride of 0, or strides whose windows overlap, write one place twice (N8)",
            hint="give it dense strides or a tag",
        )
    return problem


class CpuShuffle:
    """A shuffle solved for the CPU."""

    # Nothing is multiplied: the kernel reads no factors.
    params = 0

    def __init__(self, problem: ShuffleProblem) -> None:
        self.problem = problem
        self.program = problem.program()
        self.name, self.why = self.program.name, self.program.why

    def prepare(self) -> Callable[[int, int, int], None] | None:
        """Compile; the kernel's direct call where nothing has to be decided at execution."""
        return self.program.direct_call()

    def entry(self) -> Entry:
        """What a run on addresses needs."""
        return Entry(self.program.direct_call() or self.program.run, NOTHING, self.params)

    def run(self, src: Memory, dst: Memory, extras: Mapping[int, Memory]) -> None:
        """Run on checked memories."""
        # The buffers are held by name: another thread may give the memories others meanwhile.
        read, written = src._buffer, dst._buffer
        if read is not None and written is not None:
            self.program.run(read.address, written.address, self.params)


class ReferenceShuffle:
    """A shuffle on the reference engine: the interpreter."""

    name = "ref:any"
    why = "the interpreter"

    def __init__(self, problem: ShuffleProblem) -> None:
        self._nest = problem.nest()

    def prepare(self) -> None:
        """Nothing to compile."""

    def entry(self) -> None:
        """There is nothing to call."""

    def run(self, src: Memory, dst: Memory, extras: Mapping[int, Memory]) -> None:
        """Run on checked memories."""
        run_nest(self._nest, src, dst)


def solve_shuffle(problem: ShuffleProblem, engine: Engine) -> CpuShuffle | ReferenceShuffle | SyclMove:
    """The implementation of a checked problem on an engine."""
    if engine._device is not None:
        load_whole("restride.primitives.sycl_reorder")
        from .sycl_reorder import SyclMove

        return SyclMove(problem, problem.nest(), NOTHING, engine._device)
    return ReferenceShuffle(problem) if engine.kind == "reference" else CpuShuffle(problem)


def shuffle_fields(
    head: tuple[str, str, str], impl: Any, data: MemoryDesc, how: tuple[Attr, str], ms: float
) -> list[object]:
    """The fields of one verbose line: `head` is operation, engine and prop kind (spec 1.6)."""
    (op, engine, prop_kind), (attr, factors) = head, how
    dims = "x".join(map(str, data.dims))
    attrs, aux = attr.verbose_str(), f"{factors} why:{impl.why}"
    return [op, engine, "shuffle", impl.name, prop_kind, data.verbose_str("data"), attrs, aux, dims, ms]
