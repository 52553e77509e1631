"""One reorder problem: checked descriptors and attributes, and the implementation that solves it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from ..desc.attr import Attr
from ..desc.attr_check import check_attr
from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments, Unimplemented
from ..plan.compute import Compute, linear
from ..plan.contract import PROVIDED
from ..plan.nest import LoopNest
from ..plan.reorder import reorder_nest
from ..runtime.cpu import Params
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.reference import run_nest
from ..runtime.spread import Runner, make_program


@dataclass(frozen=True, slots=True)
class Problem:
    """What to reorder: equal problems share an implementation."""

    src: MemoryDesc
    dst: MemoryDesc
    attr: Attr

    def nest(self) -> LoopNest:
        """The loop nest."""
        return reorder_nest(self.src, self.dst, self.compute)

    def make_program(self) -> Runner:
        """The compiled nest."""
        spans = self.src.extent_range(), self.dst.extent_range()
        return make_program(self.nest(), self.moved_bytes, *spans)

    @property
    def compute(self) -> Compute:
        """Which arithmetic is asked for; factors that change nothing are left out (N1)."""
        return linear(self.alpha != 1.0, self.beta != 0.0)

    @property
    def alpha(self) -> float:
        """The factor of the source."""
        return self.attr.alpha

    @property
    def beta(self) -> float:
        """The factor of the old destination; 0 without a sum."""
        return 0.0 if self.attr.sum is None else self.attr.sum.scale

    @property
    def scalars(self) -> list[float]:
        """What the computation reads, in its order."""
        return [factor for factor, none in ((self.alpha, 1.0), (self.beta, 0.0)) if factor != none]

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written, padding of the destination included, gaps between elements not."""
        written = self.dst.data_type.nbytes(prod(self.dst.padded_dims))
        read = self.src.data_type.nbytes(self.src.nelems) + (written if self.compute.summed else 0)
        return read + written

    def where(self) -> str:
        """Both descriptors, for messages."""
        return f"src {self.src}; dst {self.dst}"


def check_problem(problem: Problem) -> Problem:
    """Return the problem; raise InvalidArguments, Unimplemented where it has no answer (R10, R38, N15)."""
    for name, md in (("src", problem.src), ("dst", problem.dst)):
        _check_concrete(name, md, problem)
    _check_dims(problem)
    _check_types(problem)
    _check_attr(problem)
    if not problem.dst.is_injective():
        raise InvalidArguments(
            "reorder: elements of the destination share memory",
            where=problem.where(),
            why="a stride of 0, or strides whose windows overlap, write one place twice (N8)",
            hint="give the destination dense strides or a tag; a source may overlap itself",
        )
    return problem


def _check_concrete(name: str, md: MemoryDesc, problem: Problem) -> None:
    what = f"reorder: {name} is no concrete descriptor"
    if md.is_zero():
        hint = "give it dims, a type and a format"
        raise InvalidArguments(what, where=problem.where(), why="it is empty", hint=hint)
    if md.format_kind == "any":
        hint = "name a tag or strides; 'any' is for primitives that choose a format"
        why = "format 'any' is a placeholder (N15)"
        raise InvalidArguments(what, where=problem.where(), why=why, hint=hint)
    if md.layout.has_runtime:
        why = "dims or strides known only at execution are not provided by this version"
        hint = "make a primitive for each concrete shape"
        raise Unimplemented(what, where=problem.where(), why=why, hint=hint)


def _check_dims(problem: Problem) -> None:
    src, dst = problem.src.dims, problem.dst.dims
    if src == dst:
        return
    if len(src) != len(dst):
        why = f"src has {len(src)} dims, dst has {len(dst)}"
    else:
        index = next(i for i, (a, b) in enumerate(zip(src, dst, strict=True)) if a != b)
        why = f"dim {index} is {src[index]} in src and {dst[index]} in dst"
    raise InvalidArguments(
        "reorder: src and dst are of different shapes",
        where=problem.where(),
        why=why,
        hint="a reorder never broadcasts; describe a source with stride 0 to repeat it (R10)",
    )


def _check_types(problem: Problem) -> None:
    absent = [md.data_type for md in (problem.src, problem.dst) if md.data_type not in PROVIDED]
    if absent:
        names = ", ".join(t.name for t in PROVIDED)
        raise Unimplemented(
            f"reorder: {absent[0]} is not provided by this version",
            where=problem.where(),
            why=f"conversions and attributes are provided among {names}",
            hint="convert with NumPy or ml_dtypes first",
        )


def _check_attr(problem: Problem) -> None:
    attr = problem.attr
    check_attr(attr, problem.src, problem.dst)
    common = Attr.common(attr.alpha, beta=None if attr.sum is None else attr.sum.scale)
    if replace(attr, scratchpad=common.scratchpad) != common:
        raise Unimplemented(
            f"reorder: {attr.verbose_str()} is not provided by this version",
            where=problem.where(),
            why="reorder takes one known output scale and one sum without zero point and type",
            hint="leave the rest out, or apply it as a separate step",
        )


class CpuReorder:
    """A reorder solved for the CPU."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.program = problem.make_program()
        self.name, self.why = self.program.name, self.program.why
        self._params = Params(problem.scalars)
        self.params = self._params.address

    def prepare(self) -> Callable[[int, int, int], None] | None:
        """Compile; the kernel's direct call where nothing has to be decided at execution."""
        return self.program.direct_call()

    def run(self, src: Memory, dst: Memory) -> None:
        """Run on checked memories."""
        # The buffers are held by name: another thread may give the memories others meanwhile.
        read, written = src._buffer, dst._buffer
        if read is not None and written is not None:
            self.program.run(read.address, written.address, self.params)


class ReferenceReorder:
    """A reorder on the reference engine: the interpreter."""

    name = "ref:any"
    why = "the interpreter"

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._nest = problem.nest()

    def prepare(self) -> None:
        """Nothing to compile."""

    def run(self, src: Memory, dst: Memory) -> None:
        """Run on checked memories."""
        run_nest(self._nest, src, dst, self.problem.scalars)


def solve(problem: Problem, engine: Engine) -> CpuReorder | ReferenceReorder:
    """The implementation of a checked problem on an engine."""
    return ReferenceReorder(problem) if engine.kind == "reference" else CpuReorder(problem)
