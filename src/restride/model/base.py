"""The common part of primitive descriptors: empty descriptors, queries, checks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from copy import copy
from inspect import Signature
from typing import TYPE_CHECKING, Any, ClassVar, Self, SupportsIndex

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

if TYPE_CHECKING:
    from ..runtime.timing import Measured

set_header(header)

_NO_DESC = MemoryDesc()
DEFAULT_ATTR = Attr()


class PrimitiveDescBase(DescGetters):
    """A primitive descriptor (`dnnl::primitive_desc_base`): empty and False, or a checked, solved problem."""

    kind: ClassVar[str]
    # The argument names of a call, if it has only one form.
    form: ClassVar[Form[CallArguments]]
    __signature__: ClassVar[Signature]
    # The constants for arguments in errors, and inputs that some descriptors of the kind read.
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
    # The schedule passed by the user, or empty.
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
        """Return the arguments by name, including `allow_empty`. Raises WrongCall if they do not match."""
        return self.form.of(args, named)

    def _create(self, arguments: Any) -> None:
        """Check the arguments, find an implementation, and store everything that queries need."""
        raise NotImplementedError

    def _set(self, impl: Implementation, src: MemoryDesc, dst: MemoryDesc, attr: Attr) -> None:
        """Represent an implementation whose memory objects are all on its engine."""
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
        """Return `jit:<instruction set>:<kind of kernel>`, or `ref:any` for the reference implementation."""
        return self._implementation().name

    @property
    def why(self) -> str:
        """The reason for these kernels."""
        return self._implementation().why

    @property
    def ir(self) -> str:
        """The kernels as LLVM IR, several after comments with their numbers; empty if none is compiled."""
        return self._kernel_text(is_assembly=False)

    @property
    def asm(self) -> str:
        """The kernels as assembly, as in `ir`; empty for SYCL, where drivers compile them."""
        return self._kernel_text(is_assembly=True)

    def _kernel_text(self, *, is_assembly: bool) -> str:
        load_whole("restride.model.scheduling")
        from .scheduling import kernel_text

        return kernel_text(self._implementation(), is_assembly=is_assembly)

    def measure(self, *, rounds: int = 15) -> Measured:
        """Run it on temporary memory objects and return how long it took.

        `rounds`: samples after a warm-up. Caches are warm: work that fits in a cache is measured in the
        cache. Raises OutOfMemory if the memory objects cannot be allocated, Unimplemented for dims known only
        at execution, InvalidArguments unless the number of rounds is positive.
        """
        load_whole("restride.model.scheduling")
        from .scheduling import launching, made_memories, measured

        impl = self._implementation()
        memories = made_memories(impl, self._exec_args())
        return measured(impl, launching(impl, impl.executable, memories), rounds)

    @property
    def schedule(self) -> str:
        """The transforms applied to each kernel's loops, a line for each.

        Text after a `#` describes the kernel and the reason for it.
        """
        return self._implementation().schedule

    def scheduled(self, schedule: str | None = None, *, effort: str = "model") -> Self:
        """Return the same descriptor with another schedule, as in `rs.plan`.

        `schedule`: an edited copy of the text of `schedule`; if there are several kernels, only those that it
        names, `kernel(n)`, change. For sums of f32 and f64 it can change the last bits, if it changes the
        loop that sums.

        `effort`: "model" uses the schedule chosen by the model, or found before; "measure" the fastest of at
        most 30 for each kernel, all of which write the same bits. The search takes about a second, more if
        one execution is long, and uses temporary memory objects. The result is stored with the kernels on
        disk, and used for the same work from then on, by this and later processes.

        Raises InvalidArguments for a text that is not a valid schedule, OutOfMemory if there is no room to
        measure.
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
            # Complete, because kernels may have had other transforms before.
            made._schedule = made.schedule
        return made

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        reduced = super().__reduce_ex__(protocol)
        return (_by_schedule, (*reduced[:2], self._schedule)) if self._schedule else reduced

    def src_desc(self, index: int = 0) -> MemoryDesc:
        """Return the descriptor of a source, or the zero descriptor."""
        return self.query_md(Query.src_md, index)

    def dst_desc(self, index: int = 0) -> MemoryDesc:
        """Return the descriptor of a destination, or the zero descriptor."""
        return self.query_md(Query.dst_md, index)

    def weights_desc(self, index: int = 0) -> MemoryDesc:
        """Return the descriptor of weights, or the zero descriptor."""
        return self.query_md(Query.weights_md, index)

    def diff_src_desc(self, index: int = 0) -> MemoryDesc:
        """Return the descriptor of a source's gradient, or the zero descriptor."""
        return self.query_md(Query.diff_src_md, index)

    def diff_dst_desc(self, index: int = 0) -> MemoryDesc:
        """Return the descriptor of a destination's gradient, or the zero descriptor."""
        return self.query_md(Query.diff_dst_md, index)

    def diff_weights_desc(self, index: int = 0) -> MemoryDesc:
        """Return the descriptor of the gradient of weights, or the zero descriptor."""
        return self.query_md(Query.diff_weights_md, index)

    def workspace_desc(self) -> MemoryDesc:
        """Return the descriptor of the workspace passed from forward to backward, or the zero descriptor."""
        return self.query_md(Query.workspace_md)

    def scratchpad_desc(self) -> MemoryDesc:
        """Return the memory for `rs.onednn.Arg.SCRATCHPAD` in user mode, or the zero descriptor."""
        return self.query_md(Query.scratchpad_md)

    def get_engine(self) -> Engine:
        """Return the engine that runs the primitive."""
        self._implementation()
        assert self._engine is not None
        return self._engine

    def scratchpad_engine(self) -> Engine:
        """Return the engine that a scratchpad would be on."""
        return self.get_engine()

    def get_primitive_attr(self) -> PrimitiveAttr:
        """Return a copy of the attributes; changing it has no effect here."""
        self._implementation()
        return PrimitiveAttr.of(self._attr)

    def get_kind(self) -> str:
        """Return the primitive kind, such as `PrimitiveKind.reorder`, which equals its name."""
        word = self.kind.lower()
        return PrimitiveKind.__members__.get(word, word)

    def query_md(self, what: Query | str, index: int = 0) -> MemoryDesc:
        """Return a descriptor: `Query.src_md`, "src_md", "src", ...; exec_arg_md uses argument numbers.

        Descriptors that the primitive does not have, and other indices, give the zero descriptor. Raises
        InvalidArguments for anything but a descriptor query.
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
        """Return an integer: `Query.memory_consumption_s64` or its name, ...; 0 if the primitive does not
        have it.

        Memory consumption is the size of the scratchpad that each execution allocates in bytes: none in user
        mode. Raises InvalidArguments for anything but an integer query.
        """
        return self._integers().get(parse_integer_query(what), 0)

    def _descs_by_name(self) -> Mapping[str, MemoryDesc | tuple[MemoryDesc, ...]]:
        """Return the descriptors of the primitive, by their names in queries."""
        return {"src": self._src, "dst": self._dst}

    def _integers(self) -> dict[Query, int]:
        """Return the integers that the primitive has."""
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
        """Return the scratchpad's number if an execution must pass one."""
        is_needed = self._attr.scratchpad == "user" and self._scratch_bytes()
        return (ARG_SCRATCHPAD,) if is_needed else ()

    def _exec_args(self) -> dict[int, MemoryDesc]:
        """Return the descriptors that an execution must pass, by argument number, without the scratchpad."""
        return {**self._tensors(), **(self._impl.more_descs() if self._impl else {})}

    def _describe(self, op: str, impl: Implementation, ms: float) -> list[object]:
        """Return the fields of a verbose line."""
        raise NotImplementedError

    # Outputs other than the destination that can be written exactly where another argument is read.
    _in_place: ClassVar[Mapping[int, int]] = {}

    def _tensors(self) -> dict[int, MemoryDesc]:
        """Return the tensors of an execution by argument: inputs in order, then the destination."""
        return {ARG_SRC: self._src, ARG_DST: self._dst}

    def _reads(self) -> tuple[int, ...]:
        """Return the arguments of the inputs, in order."""
        return tuple(self._tensors())[:-1]

    def _writes(self) -> int:
        """Return the argument of the destination."""
        return tuple(self._tensors())[-1]

    def _engine_of(self, arg: int) -> Engine:
        """Return the engine that the memory of an argument must be on."""
        return self.get_engine()


def _by_schedule(make: Callable[..., PrimitiveDescBase], args: Args, schedule: str) -> PrimitiveDescBase:
    """Create a copy with a user's schedule; if it does not work on this machine, with the chosen one."""
    pd = make(*args)
    try:
        return pd.scheduled(schedule)
    except InvalidArguments:
        return pd
