"""Reorder: copy a tensor between memory formats and data types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import NamedTuple, TypeVar

from ..desc.arguments import ARG_DST, ARG_FROM, ARG_SRC, ARG_TO
from ..desc.attr import Attr, Compensation, PrimitiveAttr
from ..desc.attr_check import check_attr
from ..desc.attr_value import structure_of
from ..desc.layout import RUNTIME_DIM
from ..desc.memory_desc import MemoryDesc, stored_desc
from ..dtypes import DataType
from ..errors import Error, refuse
from ..frozen import dataclass
from ..ir.computation import Computation, computation_of
from ..ir.digits import reorder_nest
from ..ir.nest import LoopNest
from ..ir.pointwise import function_bytes, moved_bytes
from ..ir.problem import ProblemBase
from ..ir.program import DST, SRC, NestStep, Place, Program, Slot
from ..loading import load_whole
from ..model.any_format import resolved
from ..model.base import DEFAULT_ATTR, PrimitiveDescBase
from ..model.checks import Names, check_memory
from ..model.forms import Form, signature
from ..model.implementation import Implementation, compiled, find_implementation, named_descs
from ..model.primitive import Memories, Primitive, run
from ..model.runtime_shapes import check_fits, deferred
from ..runtime.arguments import Executable
from ..runtime.device import Waitable
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.stream import Stream, StreamFlags
from ..runtime.transfer import to_engine

__all__ = ["Reorder"]

Value = TypeVar("Value")
_WHAT = "Reorder.PrimitiveDesc"


@dataclass(frozen=True, slots=True)
class ReorderProblem(ProblemBase):
    """A reorder: equal problems share an executable.

    `odd`: the arguments whose first 4-bit value is in the upper half of a byte.
    """

    src: MemoryDesc
    dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)
    odd: frozenset[int] = frozenset()

    def structure(self) -> ReorderProblem:
        """The problem without the values of its attributes: equal for all that share a nest and a kernel."""
        structure = structure_of(self.attr)
        return self if structure is self.attr else replace(self, attr=structure)

    def computation(self) -> Computation:
        """The computation of concrete descriptors and checked attributes."""
        return computation_of(self.attr, self.src, self.dst, self.odd)

    def nest(self) -> LoopNest:
        """The loop nest."""
        computed = self.computation()
        return reorder_nest(self.src, self.dst, computed.compute, computed.tensors)

    def program(self) -> Program:
        """The program: the nest, and the sums of its output if they are requested."""
        if self.dst.format_kind == "opaque":
            return self._opaque_program()
        computed, compensation = self.computation(), self.attr.compensation
        nest = reorder_nest(self.src, self.dst, computed.compute, computed.tensors)
        step = NestStep(
            nest,
            Place(SRC),
            Place(DST),
            self.work_bytes,
            self.src.extent_range(),
            self.dst.extent_range(),
            computed.places(DST + 1),
            (0, computed.compute.scalars),
        )
        slots = (Slot(ARG_SRC), Slot(ARG_DST, is_written=True), *computed.slots())
        program = Program(slots, (step,), scalars=computed.compute.scalars)
        if compensation is None:
            return program
        load_whole("restride.ops.programs.compensation")
        from .programs.compensation import sum_steps

        return sum_steps(program, compensation, self.dst)

    def _opaque_program(self) -> Program:
        """The program that writes an opaque format: from the same format, a copy."""
        if self.src == self.dst:
            return ReorderProblem(stored_desc(self.src), stored_desc(self.dst)).program()
        load_whole("restride.ops.programs.winograd")
        from .programs.winograd import weights_program

        return weights_program(self.src, self.dst)

    def outputs(self) -> dict[int, MemoryDesc]:
        """The outputs other than the destination, by argument."""
        if self.attr.compensation is None:
            return {}
        load_whole("restride.ops.programs.compensation")
        from .programs.compensation import compensation_descs

        # The length of the sums is also known only at execution.
        return compensation_descs(self.attr.compensation, self.dst)

    @property
    def has_runtime(self) -> bool:
        """True if dims or strides are known only at execution."""
        return self.src.layout.has_runtime or self.dst.layout.has_runtime

    @property
    def moved_bytes(self) -> int:
        """The bytes read and written, including padding of the destination but not gaps between elements."""
        return moved_bytes([self.src], self.dst, is_summed=self.attr.reads_dst)

    @property
    def work_bytes(self) -> int:
        """The bytes that could be moved in the time this takes; thread counts and Ctrl-C depend on it."""
        return self.moved_bytes + function_bytes(self.attr) * self.dst.nelems

    def where(self) -> str:
        """Both descriptors, for messages."""
        return f"src {self.src}; dst {self.dst}"


# --- arguments ----------------------------------------------------------------------------------------------


class _OfMds(NamedTuple):
    """The arguments of a primitive descriptor as descriptors, each with an engine."""

    src_engine: object
    src_md: object
    dst_engine: object
    dst_md: object
    attr: object = None
    allow_empty: bool = False
    hint: object = None

    def parsed(self) -> tuple[Engine, Engine, ReorderProblem]:
        """Return both engines and the unchecked problem."""
        src_engine = _checked_as(Engine, "src_engine", self.src_engine)
        dst_engine = _checked_as(Engine, "dst_engine", self.dst_engine)
        src = _checked_as(MemoryDesc, "src_md", self.src_md)
        dst = _resolved_dst(src, _checked_as(MemoryDesc, "dst_md", self.dst_md), self.hint)
        return src_engine, dst_engine, ReorderProblem(src, dst, _frozen(self.attr))


class _OfMemories(NamedTuple):
    """The arguments of a primitive descriptor as memories, which have both."""

    src_mem: object
    dst_mem: object
    attr: object = None
    allow_empty: bool = False

    def parsed(self) -> tuple[Engine, Engine, ReorderProblem]:
        """Return both engines and the unchecked problem."""
        src = _checked_as(Memory, "src_mem", self.src_mem)
        dst = _checked_as(Memory, "dst_mem", self.dst_mem)
        for name, memory in (("src", src), ("dst", dst)):
            if not memory:
                raise _usage(f"the {name} memory is empty")
        return src.engine, dst.engine, ReorderProblem(src.desc, dst.desc, _frozen(self.attr))


def _checked_as(kind: type[Value], name: str, value: object) -> Value:
    if isinstance(value, kind):
        return value
    raise _usage(f"expected an rs.{kind.__name__} as {name}, got {type(value).__name__}")


def _resolved_dst(src: MemoryDesc, dst: MemoryDesc, hint: object) -> MemoryDesc:
    """Return a destination of format "any" in that of the hint, else of the source; others unchanged."""
    if hint is None and dst.format_kind != "any":
        return dst
    if isinstance(hint, PrimitiveDescBase):
        hint = hint.src_desc()
    if hint is not None and not isinstance(hint, MemoryDesc):
        raise _usage(f"expected an rs.MemoryDesc or primitive descriptor as hint, got {type(hint).__name__}")
    like = hint or src
    return resolved(dst, like) if like.format_kind == "blocked" and not like.layout.has_runtime else dst


def _frozen(attr: object) -> Attr:
    if attr is None:
        return DEFAULT_ATTR
    if isinstance(attr, PrimitiveAttr):
        return attr.freeze()
    raise _usage(f"expected an rs.onednn.PrimitiveAttr as attr, got {type(attr).__name__}")


_OF_MDS = Form(
    _WHAT,
    signature("src_engine", "src_md", "dst_engine", "dst_md", attr=None, allow_empty=False, hint=None),
    _OfMds,
)
_OF_MEMORIES = Form(_WHAT, signature("src_mem", "dst_mem", attr=None, allow_empty=False), _OfMemories)


def _usage(why: str) -> Error:
    return refuse(
        "RS-V07:wrong-arguments", why=why, shown=_OF_MDS.shown, of_memories_shown=_OF_MEMORIES.shown
    )


class ReorderPrimitiveDesc(PrimitiveDescBase):
    """Primitive descriptor of a reorder (`dnnl::reorder::primitive_desc`).

    `PrimitiveDesc(src_engine, src_md, dst_engine, dst_md, attr=None, allow_empty=False, hint=None)`, or
    `PrimitiveDesc(src_mem, dst_mem, attr=None, allow_empty=False)`; without arguments it is empty and False.
    A `dst_md` of format "any" takes that of the hint, else of the source. `hint`: a `MemoryDesc`, or the
    descriptor of the primitive that reads the result.
    Attributes are copied. With `allow_empty`, a failure gives an empty descriptor, not an error.

    Raises InvalidArguments for descriptors that cannot be reordered, Unimplemented for unsupported cases.
    """

    kind = "Reorder"
    __signature__ = _OF_MDS.shown

    __slots__ = ()

    def _arguments(self, args: tuple[object, ...], named: dict[str, object]) -> _OfMds | _OfMemories:
        is_of_memories = bool(args and isinstance(args[0], Memory)) or "src" in named or "src_mem" in named
        return (_OF_MEMORIES if is_of_memories else _OF_MDS).of(args, named)

    def _create(self, arguments: _OfMds | _OfMemories) -> None:
        src_engine, dst_engine, problem = arguments.parsed()
        engine = running_engine(src_engine, dst_engine)
        self._impl = find_reorder(problem, engine)
        # The caller's own descriptors, not equal ones of an earlier problem: execute compares by identity.
        self._src, self._dst, self._attr = problem.src, problem.dst, problem.attr
        self._src_engine, self._dst_engine, self._engine = src_engine, dst_engine, engine

    def __reduce__(self) -> tuple[object, ...]:
        if not self:
            return ReorderPrimitiveDesc, ()
        args = (self._src_engine, self._src, self._dst_engine, self._dst, self.get_primitive_attr())
        return ReorderPrimitiveDesc, args

    def get_src_engine(self) -> Engine:
        """Return the engine of the source."""
        self._implementation()
        assert self._src_engine is not None
        return self._src_engine

    def get_dst_engine(self) -> Engine:
        """Return the engine of the destination."""
        self._implementation()
        assert self._dst_engine is not None
        return self._dst_engine

    def _engine_of(self, arg: int) -> Engine:
        return self.get_src_engine() if arg == ARG_FROM else self.get_dst_engine()

    def _describe(self, op: str, impl: Implementation, ms: float) -> list[object]:
        return describe_reorder(op, impl, ms)


def find_reorder(problem: ReorderProblem, engine: Engine) -> Implementation:
    """Return the implementation of a checked problem, from the cache or newly built.

    The executable does not depend on the values of attributes. Raises InvalidArguments, or Unimplemented if
    the problem is not supported (N15).
    """
    if problem.attr.has_shapes:
        # Once checked, shapes are dropped from the key, so that a list of the same values finds it.
        problem = check_reorder(problem)
    return find_implementation(problem, engine, describe_reorder, lambda: _executable_of(problem, engine))


def _executable_of(problem: ReorderProblem, engine: Engine) -> Executable:
    check_reorder(problem)
    return deferred(problem, engine) if problem.has_runtime else compiled(problem, engine)


def running_engine(src: Engine, dst: Engine) -> Engine:
    """Return the engine to run on: a device, preferably the destination's; on the host, the reference one."""
    for engine in (dst, src):
        if not engine.device.is_host:
            return engine
    return src if src.kind == "reference" else dst


def describe_reorder(op: str, impl: Implementation, ms: float) -> list[object]:
    """Return the fields of a verbose line about a reorder."""
    problem = impl.problem
    assert isinstance(problem, ReorderProblem)
    mds = named_descs(("src", "dst"), (problem.src, problem.dst))
    dims = "x".join(map(str, problem.dst.dims))
    head = [op, impl.engine.kind, "reorder", impl.name, "undef"]
    return [*head, mds, problem.attr.verbose_str(), f"why:{impl.why}", dims, ms]


# --- checks -------------------------------------------------------------------------------------------------

_SUMMED = (DataType.s8, DataType.u8, DataType.s32, DataType.s4, DataType.u4)


def check_reorder(problem: ReorderProblem) -> ReorderProblem:
    """Return the problem, without the shapes of arrays, which have been checked.

    Raises InvalidArguments, or Unimplemented if it is not supported (N15).
    """
    for name, md in (("src", problem.src), ("dst", problem.dst)):
        _check_concrete(name, md, problem)
    _check_dims(problem)
    if "opaque" in (problem.src.format_kind, problem.dst.format_kind):
        return _check_opaque(problem)
    check_attr(problem.attr, problem.src, problem.dst)
    if problem.attr.compensation is not None:
        _check_compensation(problem.attr.compensation, problem.dst, problem.where())
    if problem.has_runtime:
        return problem
    if not problem.dst.is_injective():
        raise refuse("RS-N08:stride-0-strides-whose", where=problem.where())
    return replace(problem, attr=problem.attr.without_shapes()) if problem.attr.has_shapes else problem


def _check_concrete(name: str, md: MemoryDesc, problem: ReorderProblem) -> None:
    if md.is_zero():
        hint = "specify dims, a type and a format"
        raise refuse("RS-M03:no-concrete-descriptor", name=name, where=problem.where(), hint=hint)
    if md.format_kind == "any":
        hint = "specify a tag or strides; 'any' is for primitives that choose a format"
        raise refuse("RS-N15:no-concrete-descriptor", name=name, where=problem.where(), hint=hint)


def _check_opaque(problem: ReorderProblem) -> ReorderProblem:
    """Return a problem whose source or destination is opaque; both must be weights of a convolution."""
    src, dst = problem.src, problem.dst
    if src.format_kind == "opaque" and src != dst:
        raise refuse("RS-R11:from-opaque", where=problem.where())
    if problem.attr != DEFAULT_ATTR or problem.has_runtime:
        raise refuse("RS-R11:to-opaque", where=problem.where())
    return problem


def _check_dims(problem: ReorderProblem) -> None:
    src, dst = problem.src.dims, problem.dst.dims
    if len(src) == len(dst) and all(RUNTIME_DIM in (a, b) or a == b for a, b in zip(src, dst, strict=True)):
        return
    if len(src) != len(dst):
        why = f"src has {len(src)} dims, dst has {len(dst)}"
    else:
        pairs = enumerate(zip(src, dst, strict=True))
        index = next(i for i, (a, b) in pairs if a != b and RUNTIME_DIM not in (a, b))
        why = f"dim {index} is {src[index]} in src and {dst[index]} in dst"
    raise refuse("RS-R10:src-dst-different", where=problem.where(), why=why)


def _check_compensation(compensation: Compensation, dst: MemoryDesc, where: str) -> None:
    """Raise InvalidArguments for a destination that cannot be summed, or a mask beyond its dims (N10)."""
    if dst.data_type not in _SUMMED:
        raise refuse("RS-R27:compensation", data_type=dst.data_type, where=where)
    if compensation.mask >> dst.ndims:
        raise refuse("RS-N10:mask-compensation", mask=compensation.mask, where=where, last=dst.ndims - 1)


# --- the primitive ------------------------------------------------------------------------------------------


class Reorder(Primitive):
    """The reorder primitive (`dnnl::reorder`): `dst(x) = saturate(alpha * src(x) + beta * dst(x))`.

    `Reorder(pd)`, or `Reorder(src_mem, dst_mem, attr=None)`; without arguments it is empty, and executing it
    is an error. A primitive keeps no state between executions: any number of threads can execute it (N12).
    """

    PrimitiveDesc = ReorderPrimitiveDesc
    kind = "Reorder"
    usage = "rs.onednn.Reorder(pd) or rs.onednn.Reorder(src, dst)"
    _may_be_in_place = True

    __slots__ = ()

    def __init__(
        self, *args: object, src: object = None, dst: object = None, attr: object = None, pd: object = None
    ) -> None:
        args = args if pd is None else (pd, *args)
        argument = args[0] if len(args) == 1 else None
        is_alone = src is dst is attr is None
        if isinstance(argument, ReorderPrimitiveDesc):
            if not is_alone:
                raise _usage("a primitive descriptor already has its attributes")
            self._take(argument, is_empty=False)
            return
        ends = {} if is_alone else {"src_mem": src, "dst_mem": dst, "attr": attr}
        arguments = {name: value for name, value in ends.items() if value is not None}
        self._take(ReorderPrimitiveDesc(*args, **arguments), is_empty=not (args or arguments))

    def _check_tensors(self, impl: Implementation, names: Names, memories: Memories) -> Implementation:
        problem = impl.problem
        assert isinstance(problem, ReorderProblem)
        if not problem.has_runtime:
            return super()._check_tensors(impl, names, memories)
        for arg, md in self._pd._tensors().items():
            name, memory = self._name_of(arg), memories[arg]
            check_memory(names.call, name, memory, getattr(memory, "desc", md), self._pd._engine_of(arg))
            check_fits(names.call, name, memory, md)
        src, dst = memories[ARG_FROM].desc, memories[ARG_TO].desc
        return find_reorder(replace(problem, src=src, dst=dst), impl.engine)

    def _adapted(self, impl: Implementation, memories: Memories) -> Implementation:
        return adapted(impl, memories)

    def _launched(
        self, impl: Implementation, memories: Memories, stream: Stream, deps: Sequence[Waitable]
    ) -> Waitable:
        if self._pd._src_engine is self._pd._dst_engine or impl.engine.device.is_host:
            return super()._launched(impl, memories, stream, deps)
        return run_across(impl, memories, stream, deps)


def adapted(impl: Implementation, memories: Memories) -> Implementation:
    """Return the implementation for the operands: 4-bit values can begin in the upper half of a byte."""
    odd = frozenset(
        operand.arg
        for operand in impl.computation.operands
        if operand.values is None and operand.desc is None and _begins_in_a_byte(memories[operand.arg].desc)
    )
    problem = impl.problem
    assert isinstance(problem, ReorderProblem)
    return find_reorder(replace(problem, odd=odd), impl.engine) if odd != problem.odd else impl


def _begins_in_a_byte(md: MemoryDesc) -> bool:
    return md.offset0 * md.data_type.bits % 8 != 0


def run_across(
    impl: Implementation, memories: Memories, stream: Stream | None, deps: Sequence[Waitable]
) -> Waitable:
    """Execute on memories of two engines, one of them a device.

    A source elsewhere is copied to the device unchanged. If the destination is on the host, the host does the
    work: everything that is read is copied there, and the work is done before the call returns.
    """
    for event in deps:
        event.wait()
    source, target = memories[ARG_FROM], memories[ARG_TO]
    if not target.engine.device.is_host:
        return run(impl, {**memories, ARG_FROM: to_engine(source, impl.engine)}, stream)
    if stream is not None and stream.flags == StreamFlags.in_order:
        # Copies to the host do not wait for other work on the queue.
        stream.wait()
    there = {arg: to_engine(memory, target.engine) for arg, memory in memories.items()}
    assert isinstance(impl.problem, ReorderProblem)
    event = run(find_reorder(impl.problem, target.engine), there)
    return event if stream is None else impl.engine.device.mark(stream._queue)
