"""The common part of primitives: descriptors that may be empty, queries, checks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from copy import copy
from inspect import Signature
from typing import Any, ClassVar, Self, SupportsIndex

from ..desc.arguments import ARG_DST, ARG_SCRATCHPAD, ARG_SRC, NAMES, is_output
from ..desc.attr import Attr, PrimitiveAttr
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_bool, parse_int
from ..errors import Error, InvalidArguments, check_unmade, refuse
from ..loading import load_whole
from ..runtime.engine import Engine
from ..runtime.facts import header
from ..verbose import set_header
from .forms import Args, CallArguments, Form, NamedArgs
from .getters import DescGetters
from .implementation import Implementation
from .prop_kind import PrimitiveKind
from .query import Query, parse_integer_query, parse_md_query

set_header(header)

_NO_DESC = MemoryDesc()
DEFAULT_ATTR = Attr()


class PrimitiveDescBase(DescGetters):
    """A primitive descriptor (`dnnl::primitive_desc_base`): empty and False, or a checked, solved problem."""

    kind: ClassVar[str]
    # The arguments of a call, where there is one form of it.
    form: ClassVar[Form[CallArguments]]
    __signature__: ClassVar[Signature]
    # The constants that arguments go by in errors, and what some descriptors of the kind read.
    _arg_names: ClassVar[Mapping[object, str]] = NAMES
    _optional_args: ClassVar[Collection[int]] = ()

    __slots__ = ("_attr", "_dst", "_dst_engine", "_engine", "_impl", "_schedule", "_src", "_src_engine")
    _attr: Attr
    _src: MemoryDesc
    _dst: MemoryDesc
    _src_engine: Engine | None
    _dst_engine: Engine | None
    _engine: Engine | None
    _impl: Implementation | None
    # The schedule that a person passed; empty without.
    _schedule: str

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "form" in vars(cls):
            cls.__signature__ = cls.form.shown

    def __init__(self, *args: object, **named: object) -> None:
        check_unmade(self, "_impl")
        self._empty()
        if not (args or named):
            return
        is_empty_allowed = named.get("allow_empty", False)
        try:
            arguments = self._arguments(args, named)
            is_empty_allowed = parse_bool("allow_empty", arguments.allow_empty)
            self._create(arguments)
        except Error as error:
            if not parse_bool("allow_empty", is_empty_allowed):
                error.drop_frames()
                raise
            self._empty()

    def _arguments(self, args: Args, named: NamedArgs) -> Any:
        """The arguments by their names, `allow_empty` among them. Raises WrongCall where they do not fit."""
        return self.form.of(args, named)

    def _create(self, arguments: Any) -> None:
        """Check the arguments, find what solves the problem, and keep all that is asked for."""
        raise NotImplementedError

    def _set(self, impl: Implementation, src: MemoryDesc, dst: MemoryDesc, attr: Attr) -> None:
        """Stand for an implementation whose memories are all on its engine."""
        self._impl, self._src, self._dst, self._attr = impl, src, dst, attr
        self._src_engine = self._dst_engine = self._engine = impl.engine

    def _empty(self) -> None:
        self._src = self._dst = _NO_DESC
        self._src_engine = self._dst_engine = self._engine = None
        self._attr, self._impl, self._schedule = DEFAULT_ATTR, None, ""

    def __bool__(self) -> bool:
        return self._impl is not None

    def __repr__(self) -> str:
        if not self:
            return f"restride.{self.kind}.PrimitiveDesc()"
        return f"<{self.kind} {self.impl_info_str}: {self._src} -> {self._dst}>"

    def _implementation(self) -> Implementation:
        if self._impl is None:
            raise refuse("RS-R04:primitive-descriptor-empty", kind=self.kind)
        return self._impl

    @property
    def impl_info_str(self) -> str:
        """The implementation: `jit:<instruction set>:<kind of kernel>`, or `ref:any` of the reference."""
        return self._implementation().name

    @property
    def schedule(self) -> str:
        """How it runs: the transforms that each kernel's loops went through, a line for each.

        What stands behind a `#` says what the kernel is and why it is so.
        """
        return self._implementation().schedule

    def scheduled(self, schedule: str | None = None, *, effort: str = "model") -> Self:
        """The same descriptor by another schedule, as `rs.plan` has it.

        `schedule`: the text of `schedule`, changed; of several kernels those that are named, `kernel(n)`. Of
        sums of f32 and f64 it may change the last bits, where it changes the loop that sums.

        `effort`: "model" takes what is chosen, or was found before, "measure" the fastest of at most 30 for
        each kernel, all of which write the same bits. They are tried for about a second, longer where one
        execution takes long, on memories made for it. What was found is kept beside the kernels on disk, and
        used for the same work from then on, by this and later processes.

        Raises InvalidArguments for a text that is none, or does not fit, OutOfMemory for no room to measure.
        """
        load_whole("restride.model.scheduling")
        from .scheduling import by_schedule, parse_wanted, search_for

        impl, what = self._implementation(), f"{self.kind}.PrimitiveDesc.scheduled"
        transforms, is_searched = parse_wanted(what, schedule, effort)
        if is_searched:
            search_for(impl, self._exec_args())
        made = copy(self)
        if transforms is not None:
            made._impl = by_schedule(what, impl, transforms)
            # All of it: kernels may have had other transforms before.
            made._schedule = made.schedule
        return made

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        reduced = super().__reduce_ex__(protocol)
        return (_by_schedule, (*reduced[:2], self._schedule)) if self._schedule else reduced

    def src_desc(self, index: int = 0) -> MemoryDesc:
        """The descriptor of a source; the zero descriptor where there is none."""
        return self.query_md(Query.src_md, index)

    def dst_desc(self, index: int = 0) -> MemoryDesc:
        """The descriptor of a destination; the zero descriptor where there is none."""
        return self.query_md(Query.dst_md, index)

    def weights_desc(self, index: int = 0) -> MemoryDesc:
        """The descriptor of weights; the zero descriptor where there are none."""
        return self.query_md(Query.weights_md, index)

    def diff_src_desc(self, index: int = 0) -> MemoryDesc:
        """The descriptor of a source's gradient; the zero descriptor where there is none."""
        return self.query_md(Query.diff_src_md, index)

    def diff_dst_desc(self, index: int = 0) -> MemoryDesc:
        """The descriptor of a destination's gradient; the zero descriptor where there is none."""
        return self.query_md(Query.diff_dst_md, index)

    def diff_weights_desc(self, index: int = 0) -> MemoryDesc:
        """The descriptor of the gradient of weights; the zero descriptor where there is none."""
        return self.query_md(Query.diff_weights_md, index)

    def workspace_desc(self) -> MemoryDesc:
        """The descriptor of what forward leaves to backward; the zero descriptor where there is none."""
        return self.query_md(Query.workspace_md)

    def scratchpad_desc(self) -> MemoryDesc:
        """The memory for `rs.onednn.Arg.SCRATCHPAD` in user mode; the zero descriptor where none is."""
        return self.query_md(Query.scratchpad_md)

    def get_engine(self) -> Engine:
        """The engine that runs the primitive."""
        self._implementation()
        assert self._engine is not None
        return self._engine

    def scratchpad_engine(self) -> Engine:
        """The engine a scratchpad would be on."""
        return self.get_engine()

    def get_primitive_attr(self) -> PrimitiveAttr:
        """A copy of the attributes; changing it changes nothing here."""
        self._implementation()
        return PrimitiveAttr.of(self._attr)

    def get_kind(self) -> str:
        """The primitive kind, such as `PrimitiveKind.reorder`, which equals its word."""
        word = self.kind.lower()
        return PrimitiveKind.__members__.get(word, word)

    def query_md(self, what: Query | str, index: int = 0) -> MemoryDesc:
        """A descriptor: `Query.src_md`, "src_md", "src", ...; exec_arg_md goes by argument number.

        What the primitive has not, and any other index, gives the zero descriptor. Raises InvalidArguments
        for what is no query of a descriptor.
        """
        query, number = parse_md_query(what), parse_int(index, "query_md: index")
        if query is Query.exec_arg_md:
            return self._exec_args().get(number, self._scratchpad(number == ARG_SCRATCHPAD))
        if query is Query.scratchpad_md:
            return self._scratchpad(number == 0)
        entry = self._descs_by_name().get(query.name.removesuffix("_md"), ())
        descs = (entry,) if isinstance(entry, MemoryDesc) else entry
        return descs[number] if 0 <= number < len(descs) else _NO_DESC

    def query_s64(self, what: Query | str) -> int:
        """An integer: `Query.memory_consumption_s64` or its word, ...; 0 for what the primitive has not.

        Memory consumption is the bytes of scratchpad that each execution allocates: none in user mode.
        Raises InvalidArguments for what is no query of an integer.
        """
        return self._integers().get(parse_integer_query(what), 0)

    def _descs_by_name(self) -> Mapping[str, MemoryDesc | tuple[MemoryDesc, ...]]:
        """The descriptors that the primitive has, by their names in queries."""
        return {"src": self._src, "dst": self._dst}

    def _integers(self) -> dict[Query, int]:
        """The integers that the primitive has."""
        args = self._exec_args() if self else ()
        outputs = sum(map(is_output, args))
        return {
            Query.memory_consumption_s64: 0 if self._attr.scratchpad == "user" else self._scratch_bytes(),
            Query.num_of_inputs_s32: len(args) - outputs,
            Query.num_of_outputs_s32: outputs,
        }

    def _scratch_bytes(self) -> int:
        return self._impl.scratch_bytes if self._impl else 0

    def _scratchpad(self, is_asked: bool) -> MemoryDesc:
        is_needed = is_asked and self._attr.scratchpad == "user" and self._scratch_bytes()
        return MemoryDesc((self._scratch_bytes(),), "u8", "a") if is_needed else _NO_DESC

    def _scratch_args(self) -> tuple[int, ...]:
        """The scratchpad's number where an execution must bring one."""
        is_needed = self._attr.scratchpad == "user" and self._scratch_bytes()
        return (ARG_SCRATCHPAD,) if is_needed else ()

    def _exec_args(self) -> dict[int, MemoryDesc]:
        """The descriptors of what an execution must bring, by argument number, without the scratchpad."""
        return {**self._tensors(), **(self._impl.more_descs() if self._impl else {})}

    def _describe(self, op: str, impl: Implementation, ms: float) -> list[object]:
        """The fields of a verbose line."""
        raise NotImplementedError

    # What may be written beside the destination exactly where another argument is read.
    _in_place: ClassVar[Mapping[int, int]] = {}

    def _tensors(self) -> dict[int, MemoryDesc]:
        """The tensors of an execution by argument: those that are read in their order, then the one that is
        written.
        """
        return {ARG_SRC: self._src, ARG_DST: self._dst}

    def _reads(self) -> tuple[int, ...]:
        """The arguments of the tensors that are read, in order."""
        return tuple(self._tensors())[:-1]

    def _writes(self) -> int:
        """The argument of the tensor that is written."""
        return tuple(self._tensors())[-1]

    def _engine_of(self, arg: int) -> Engine:
        """The engine that the memory of an argument must be on."""
        return self.get_engine()


def _by_schedule(make: Callable[..., PrimitiveDescBase], args: Args, schedule: str) -> PrimitiveDescBase:
    """A copy by a schedule that a person passed: where it does not fit this machine, by the chosen one."""
    pd = make(*args)
    try:
        return pd.scheduled(schedule)
    except InvalidArguments:
        return pd
