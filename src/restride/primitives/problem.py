"""One reorder problem: checked descriptors and attributes, and the implementation that solves it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, ClassVar

from ..desc.attr import Attr
from ..desc.attr_check import check_attr
from ..desc.attr_structure import structure_of
from ..desc.layout import RUNTIME_DIM
from ..desc.memory_desc import MemoryDesc
from ..desc.post_ops import EltwiseOp
from ..errors import InvalidArguments, Unimplemented
from ..loading import load_whole
from ..plan.contract import PROVIDED
from ..plan.nest import LoopNest
from ..plan.reorder import reorder_nest
from ..runtime.cpu import Params
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.reference import run_nest
from ..runtime.spread import Runner, make_program
from .chain import Chain, chain_of
from .compensation import check_compensation
from .feeding import Entry, Extras, fill_params, operand_arrays
from .scratchpad import scratch_address

if TYPE_CHECKING:
    from .compensated import Compensated
    from .sycl_reorder import SyclReorder

# A function of one element takes as long as to move so many bytes (measured: 1 to 5 ns, at 10 bytes a ns).
_FUNCTION_BYTES = 32
_CHEAP_BYTES = 2
_CHEAP = frozenset(
    ("abs", "clip", "clip_v2", "hardsigmoid", "hardswish", "linear", "relu", "round", "sqrt", "square")
)


@dataclass(frozen=True, slots=True)
class Problem:
    """What to reorder: equal problems share an implementation."""

    src: MemoryDesc
    dst: MemoryDesc
    attr: Attr

    def structure(self) -> Problem:
        """The problem without the values of its attributes: equal for all that share a nest and a kernel."""
        structure = structure_of(self.attr)
        return self if structure is self.attr else Problem(self.src, self.dst, structure)

    def chain(self) -> Chain:
        """What is computed; of concrete descriptors and checked attributes."""
        return chain_of(self.attr, self.src, self.dst)

    def nest(self, chain: Chain | None = None) -> LoopNest:
        """The loop nest."""
        chain = chain or self.chain()
        return reorder_nest(self.src, self.dst, chain.compute, [feed.tensor for feed in chain.feeds])

    def make_program(self, chain: Chain | None = None) -> Runner:
        """The compiled nest."""
        spans = self.src.extent_range(), self.dst.extent_range()
        is_summed = self.attr.compensation is not None
        return make_program(self.nest(chain), self.work_bytes, *spans, is_read_next=is_summed)

    @property
    def has_runtime(self) -> bool:
        """True where dims or strides are known only at execution."""
        return self.src.layout.has_runtime or self.dst.layout.has_runtime

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written, padding of the destination included, gaps between elements not."""
        written = self.dst.data_type.nbytes(prod(self.dst.padded_dims))
        is_summed = self.attr.sum is not None and self.attr.sum.scale != 0.0
        return self.src.data_type.nbytes(self.src.nelems) + (2 * written if is_summed else written)

    @property
    def work_bytes(self) -> int:
        """How many bytes could be moved in the time that this takes: what threads and Ctrl-C go by."""
        functions = (op.alg for op in self.attr.post_ops if isinstance(op, EltwiseOp))
        weight = sum(_CHEAP_BYTES if alg in _CHEAP else _FUNCTION_BYTES for alg in functions)
        return self.moved_bytes + weight * self.dst.nelems

    def where(self) -> str:
        """Both descriptors, for messages."""
        return f"src {self.src}; dst {self.dst}"


def check_problem(problem: Problem) -> Problem:
    """Return the problem, without the shapes of arrays that have been found to fit.

    Raises InvalidArguments, Unimplemented where it has no answer (R10, R38, N15).
    """
    for name, md in (("src", problem.src), ("dst", problem.dst)):
        _check_concrete(name, md, problem)
    _check_dims(problem)
    _check_types(problem)
    check_attr(problem.attr, problem.src, problem.dst)
    if problem.attr.compensation is not None:
        check_compensation(problem.attr.compensation, problem.dst, problem.where())
    if problem.has_runtime:
        return problem
    if not problem.dst.is_injective():
        raise InvalidArguments(
            "reorder: elements of the destination share memory",
            code="RS-N08",
            where=problem.where(),
            why="a stride of 0, or strides whose windows overlap, write one place twice (N8)",
            hint="give the destination dense strides or a tag; a source may overlap itself",
        )
    return replace(problem, attr=problem.attr.without_shapes()) if problem.attr.has_shapes else problem


def _check_concrete(name: str, md: MemoryDesc, problem: Problem) -> None:
    what = f"reorder: {name} is no concrete descriptor"
    if md.is_zero():
        hint = "give it dims, a type and a format"
        raise InvalidArguments(what, code="RS-M03", where=problem.where(), why="it is empty", hint=hint)
    if md.format_kind == "any":
        hint = "name a tag or strides; 'any' is for primitives that choose a format"
        why = "format 'any' is a placeholder (N15)"
        raise InvalidArguments(what, code="RS-N15", where=problem.where(), why=why, hint=hint)


def _check_dims(problem: Problem) -> None:
    src, dst = problem.src.dims, problem.dst.dims
    if len(src) == len(dst) and all(RUNTIME_DIM in (a, b) or a == b for a, b in zip(src, dst, strict=True)):
        return
    if len(src) != len(dst):
        why = f"src has {len(src)} dims, dst has {len(dst)}"
    else:
        pairs = enumerate(zip(src, dst, strict=True))
        index = next(i for i, (a, b) in pairs if a != b and RUNTIME_DIM not in (a, b))
        why = f"dim {index} is {src[index]} in src and {dst[index]} in dst"
    raise InvalidArguments(
        "reorder: src and dst are of different shapes",
        code="RS-R10",
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
            code="RS-L02",
            where=problem.where(),
            why=f"conversions and attributes are provided among {names}",
            hint="convert with NumPy or ml_dtypes first",
        )


class CpuReorder:
    """A reorder solved for the CPU. `program`: that of a problem of the same structure."""

    outputs: ClassVar[dict[int, MemoryDesc]] = {}

    def __init__(self, problem: Problem, program: Runner | None = None) -> None:
        self.problem, self.chain = problem, problem.chain()
        self.program = program or problem.make_program(self.chain)
        self.name, self.why = self.program.name, self.program.why
        self.scratch_bytes = self.program.scratch_bytes
        self._held: list[object] = []
        self._params = None if self.chain.args else fill_params(self.chain, {}, self._held)
        self.params = self._params.address if self._params else 0

    def with_values(self, problem: Problem) -> CpuReorder:
        """The same program for the values of a problem of the same structure."""
        return CpuReorder(problem, self.program)

    def prepare(self) -> Callable[[int, int, int], None] | None:
        """Compile; the kernel's direct call where nothing has to be decided at execution."""
        call = self.program.direct_call()
        return None if self.chain.args else call

    def params_of(self, extras: Extras, held: list[object]) -> Params:
        """What kernels read of these memories; `held` keeps alive what has been made for this run."""
        return self._params or fill_params(self.chain, extras, held)

    def entry(self) -> Entry | None:
        """What a run on addresses needs."""
        call = self.program.direct_call() or self.program.run
        return Entry(call, self.chain, self.params, owner=self)

    def run(self, src: Memory, dst: Memory, extras: Extras) -> None:
        """Run on checked memories."""
        # The buffers are held by name: another thread may give the memories others meanwhile.
        read, written = src._buffer, dst._buffer
        held: list[object] = []
        if read is None or written is None:
            return
        params = self.params_of(extras, held)
        scratch = scratch_address(extras, held)
        self.program.run(read.address, written.address, params.address, scratch)


class ReferenceReorder:
    """A reorder on the reference engine: the interpreter."""

    name = "ref:any"
    why = "the interpreter"
    outputs: ClassVar[dict[int, MemoryDesc]] = {}

    def __init__(self, problem: Problem, nest: LoopNest | None = None) -> None:
        self.problem, self.chain = problem, problem.chain()
        self._nest = nest or problem.nest(self.chain)

    def with_values(self, problem: Problem) -> ReferenceReorder:
        """The same nest for the values of a problem of the same structure."""
        return ReferenceReorder(problem, self._nest)

    def prepare(self) -> None:
        """Nothing to compile."""

    def entry(self) -> None:
        """There is nothing to call."""

    def run(self, src: Memory, dst: Memory, extras: Extras) -> None:
        """Run on checked memories."""
        run_nest(self._nest, src, dst, self.chain.scalars, operand_arrays(self.chain.feeds, extras))


def solve(problem: Problem, engine: Engine) -> CpuReorder | ReferenceReorder | SyclReorder | Compensated:
    """The implementation of a checked, concrete problem on an engine."""
    if engine._device is not None:
        return _on_device(problem, engine)
    try:
        made = ReferenceReorder(problem) if engine.kind == "reference" else CpuReorder(problem)
    except Unimplemented as error:
        raise error.retold(where=error.where or problem.where()) from None
    return made if problem.attr.compensation is None else _compensated(made, engine)


def _on_device(problem: Problem, engine: Engine) -> SyclReorder:
    load_whole("restride.primitives.sycl_reorder")
    from .sycl_reorder import SyclCompensated, SyclReorder

    kind = SyclReorder if problem.attr.compensation is None else SyclCompensated
    return kind(problem, engine, solve)


def _compensated(made: ReferenceReorder | CpuReorder, engine: Engine) -> Compensated:
    load_whole("restride.primitives.compensated")
    from .compensated import Compensated, Sums

    problem = made.problem
    assert problem.attr.compensation is not None
    sums = Sums(problem.attr.compensation, problem.dst, engine)
    fused = sums.fused(problem.nest(made.chain), problem.work_bytes) if isinstance(made, CpuReorder) else None
    return Compensated(made, sums, fused)
