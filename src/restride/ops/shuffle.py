"""Shuffle, forward and backward: channels exchanged between groups, and put back.

    dst[u + v * C/G] = src[u * G + v]    along an axis of C channels, G the group size

In JSON, the descriptor of a shuffle is one object, whose keys are the arguments of `Desc`:

    {"prop_kind": "forward_training", "data_desc": {"format_kind": ...}, "axis": 1, "group_size": 4}

All of them are required; others are ignored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import isqrt
from typing import Any, ClassVar, NoReturn, Self

from ..desc.arguments import ARG_DIFF_DST, ARG_DIFF_SRC
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_int, short_repr
from ..desc.text_forms import read_text
from ..errors import Error, refuse
from ..ir.nest import LoopNest
from ..ir.program import DST, SRC, NestStep, Place, Program, Slot
from ..model import result_dims
from ..model.any_format import resolved
from ..model.derived import DerivedPrimitiveDesc, describe_operation, make_primitive
from ..model.forms import Args, CallArguments, Form, NamedArgs, form_of
from ..model.implementation import Implementation, compiled, find_implementation
from ..model.operation import OperationProblem
from ..model.parse import WrongHint, check_described
from ..model.primitive import Primitive
from ..model.prop_kind import PropKind
from ..model.reader import ArgumentReader
from ..model.result_dims import Shaped
from ..runtime.arguments import Executable
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from .programs.shuffle import shuffle_in_stages, shuffle_nest, widen

# The largest divisor that is tried, and the number of divisors shown.
_MOST_TRIED, _MOST_SHOWN = 1 << 16, 24
_FORWARD = (PropKind.forward_training, PropKind.forward_inference)


# --- descriptors, as in version 0.9 -------------------------------------------------------------------------


class JsonDesc:
    """A frozen descriptor whose fields are words, integers and descriptors of tensors."""

    __slots__ = ()
    name: ClassVar[str]
    fields: ClassVar[tuple[str, ...]]

    def to_dict(self) -> dict[str, Any]:
        """Return the descriptor as strings, integers, lists and a dict, named after its fields."""
        return {field: _value(getattr(self, field)) for field in self.fields}

    def to_json(self) -> str:
        """Return `to_dict` as JSON, in one line."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, values: object) -> Self:
        """Build the descriptor from a `to_dict`. Raises InvalidArguments naming the invalid value."""
        if not isinstance(values, dict):
            raise refuse("RS-F05:no-dict", name=cls.name, type=type(values).__name__)
        missing = [field for field in cls.fields if field not in values]
        if missing:
            raise refuse("RS-F05:stored-descriptor-lacks-every", name=cls.name, missing=missing)
        return cls(**{field: _parsed(cls.name, field, values[field]) for field in cls.fields})

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Build the descriptor from a `to_json`. Raises InvalidArguments naming the invalid value."""
        return read_text(cls.name, text, cls.from_dict)


def _value(field: object) -> object:
    if isinstance(field, MemoryDesc):
        return field.to_dict()
    return str(field) if isinstance(field, PropKind) else field


def _parsed(name: str, field: str, value: object) -> Any:
    if not field.endswith("_desc"):
        if isinstance(value, str | int):
            return value
        raise refuse("RS-F05:no-word-or-integer", name=name, field=field, value=short_repr(value))
    try:
        return MemoryDesc.from_dict(value)
    except Error as error:
        what = f"{name}: {field}: {error.what}"
        raise error.with_context(what) from None


_OF_FORWARD = form_of("ShuffleForward.Desc", "prop_kind", "data_desc", "axis", "group_size")


@dataclass(frozen=True, init=False)
class ShuffleForwardDesc(JsonDesc):
    """A forward shuffle (`dnnl::shuffle_forward::desc`): `Desc(prop_kind, data_desc, axis, group_size)`.

    `prop_kind`: "forward_training" or "forward_inference", which do the same. `data_desc`: source and
    destination, in a format other than "any". Raises InvalidArguments for an axis outside `data_desc`, and
    for a `group_size` that does not divide it.
    """

    name = "ShuffleForward.Desc"
    fields = ("prop_kind", "data_desc", "axis", "group_size")

    __signature__: ClassVar = _OF_FORWARD.shown

    prop_kind: PropKind
    data_desc: MemoryDesc
    axis: int
    group_size: int

    def __init__(self, *args: object, **named: object) -> None:
        values, what = _OF_FORWARD.of(args, named), self.name
        store = object.__setattr__
        store(self, "prop_kind", _parse_forward(what, values.prop_kind))
        store(self, "data_desc", _check_concrete(what, "data_desc", values.data_desc))
        number, size = check_split(what, self.data_desc.dims, values.axis, values.group_size)
        store(self, "axis", number)
        store(self, "group_size", size)


@dataclass(frozen=True, init=False)
class ShuffleBackwardDesc(JsonDesc):
    """A backward shuffle (`dnnl::shuffle_backward::desc`): `Desc(diff_data_desc, axis, group_size)`.

    `diff_data_desc`: both gradients; its format can be "any". `axis` and `group_size`: as in forward.
    Raises InvalidArguments as `ShuffleForward.Desc` does.
    """

    name = "ShuffleBackward.Desc"
    fields = ("diff_data_desc", "axis", "group_size")

    diff_data_desc: MemoryDesc
    axis: int
    group_size: int

    def __init__(self, diff_data_desc: MemoryDesc, axis: int, group_size: int) -> None:
        what = self.name
        store = object.__setattr__
        store(self, "diff_data_desc", check_described(what, "diff_data_desc", diff_data_desc))
        number, size = check_split(what, diff_data_desc.dims, axis, group_size)
        store(self, "axis", number)
        store(self, "group_size", size)


def check_split(what: str, dims: tuple[int, ...], axis: object, group_size: object) -> tuple[int, int]:
    """Return the axis and the group size as integers that fit the dims."""
    number = check_axis(what, axis, dims)
    return number, check_group_size(what, group_size, dims, number)


def check_axis(what: str, axis: object, dims: tuple[int, ...]) -> int:
    """Return the axis as an integer from 0 to the last. Raises InvalidArguments for anything else."""
    number = parse_int(axis, f"{what}: axis")
    if 0 <= number < len(dims):
        return number
    from_end = number + len(dims)
    raise refuse(
        "RS-S07:bad-axis",
        what=what,
        number=short_repr(number),
        dims=dims,
        count=len(dims),
        last=len(dims) - 1,
        from_end=f"axis {from_end}" if 0 <= from_end < len(dims) else f"an axis from 0 to {len(dims) - 1}",
    )


def check_group_size(what: str, group_size: object, dims: tuple[int, ...], axis: int) -> int:
    """Return the group size as an integer that divides the axis. Raises InvalidArguments otherwise."""
    number, size = parse_int(group_size, f"{what}: group_size"), dims[axis]
    if 1 <= number <= size and size % number == 0:
        return number
    text = short_repr(number)
    raise refuse(
        "RS-S07:bad-param-group",
        what=what,
        size=size,
        axis=axis,
        shown=text,
        advice=legal_factors("group_size", size),
    )


def legal_factors(name: str, size: int) -> str:
    """Return a hint with the divisors of `size`; for large ones, with those found soon."""
    if size < 1:
        return f"an axis without channels has no {name}: leave the shuffle out"
    low = [n for n in range(1, min(isqrt(size), _MOST_TRIED) + 1) if size % n == 0]
    divisors = sorted({*low, *(size // n for n in low)})
    half = _MOST_SHOWN // 2
    choices = [*divisors[:half], "...", *divisors[-half:]] if len(divisors) > _MOST_SHOWN else divisors
    rest = ", and possibly others" if isqrt(size) > _MOST_TRIED else ""
    return f"valid values of {name}: {', '.join(map(str, choices))}{rest}"


def _check_concrete(what: str, name: str, md: object) -> MemoryDesc:
    """Return a descriptor whose format is known. Raises InvalidArguments for "any"."""
    desc = check_described(what, name, md)
    if desc.format_kind != "any":
        return desc
    raise refuse("RS-M30:format-any", what=what, name=name, desc=desc)


def _parse_forward(what: str, prop_kind: object) -> PropKind:
    """Return the propagation kind of a forward shuffle. Raises InvalidArguments for any other."""
    kind = PropKind.parse(prop_kind, what)
    if kind in _FORWARD:
        return kind
    raise refuse("RS-S05:forward-shuffle-kind", what=what, kind=kind)


# --- problems -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShuffleProblem(OperationProblem):
    """The forward shuffle (`dnnl::shuffle_forward`): `dst[u + v * C/G] = src[u * G + v]` on an axis.

    G is the group size; torch and OpenVINO count the groups instead, C / G. Executed with `ARG_SRC` and
    `ARG_DST`.
    """

    operation = "shuffle"
    primitive = "ShuffleForward"
    call = "prop_kind", "src_md", "dst_md", "axis", "group_size"
    node_reads, node_writes = ("src_md",), ("dst_md",)
    node_values: ClassVar = {"group_size": lambda node, dst: dst.dims[node.axis] // node.groups}
    in_place = False
    arguments = """
    Or, as in version 0.9, `PrimitiveDesc(desc, engine, attr=None, allow_empty=False)`. `dst_md` can be "any":
    it takes that of the source, which must be known. `attr`: the scratchpad mode."""

    src: MemoryDesc
    dst: MemoryDesc
    axis: int
    group_size: int
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def other_form(cls, args: Args, named: NamedArgs) -> Form[CallArguments] | None:
        is_v3 = bool(args and isinstance(args[0], Engine)) or "src_md" in named
        return None if is_v3 else _FORWARD_OF_DESC

    @classmethod
    def read(cls, call: ArgumentReader) -> ShuffleProblem:
        what, arguments = call.what, call.arguments
        if hasattr(arguments, "desc"):
            desc = arguments.desc
            if not isinstance(desc, ShuffleForwardDesc):
                raise refuse("RS-V08:no-rs-shuffleforward", type=type(desc).__name__)
            return cls._checked(call, desc.data_desc, desc.data_desc, (desc.axis, desc.group_size))
        src = _check_concrete(what, "src_md", arguments.src_md)
        split = check_split(what, src.dims, arguments.axis, arguments.group_size)
        return cls._checked(
            call, src, resolved(check_described(what, "dst_md", arguments.dst_md), src), split
        )

    @classmethod
    def _checked(cls, call: ArgumentReader, src: MemoryDesc, dst: MemoryDesc, split: tuple[int, int]) -> Self:
        """Return the problem. Raises Unimplemented for two different formats, and for attributes."""
        if src != dst and src.dims == dst.dims and src.data_type is dst.data_type:
            raise refuse("RS-S11:two-formats", primitive=cls.primitive, src=src, dst=dst)
        attr = call.frozen_attr()
        if not attr.is_default:
            raise refuse("RS-S14", primitive=cls.primitive, attr=attr.verbose_str())
        return cls(src, dst, *split, attr)

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> tuple[int, ...]:
        dims = tensors[0].dims
        result_dims.check_axis(node.axis, tensors[0])
        if node.groups < 1 or dims[node.axis] % node.groups:
            raise result_dims.Misfit(f"{dims[node.axis]} channels are not a multiple of {node.groups} groups")
        return dims

    @property
    def verbose_aux(self) -> str:
        return f"axis:{self.axis} group:{self.group_size}"

    @property
    def verbose_tensors(self) -> list[tuple[str, MemoryDesc]]:
        return [("data", self.src)]

    @property
    def forward_size(self) -> int:
        """The group size of the forward shuffle that moves elements the same way."""
        return self.group_size

    def nest(self) -> LoopNest:
        """The loop nest."""
        return shuffle_nest(self.src, self.dst, self.axis, self.forward_size)

    def program(self) -> Program:
        # Elements that always move together are merged into wider ones.
        src, dst, size = self.src, self.dst, self.forward_size
        is_whole = src.data_type.bits >= 8
        if is_whole:
            src, dst = widen(src, dst, self.axis)
        step = NestStep(
            shuffle_nest(src, dst, self.axis, size),
            Place(SRC),
            Place(DST),
            self.moved_bytes,
            src.extent_range(),
            dst.extent_range(),
            staged=shuffle_in_stages(src, dst, self.axis, size) if is_whole else None,
            finds_stages=not is_whole,
        )
        (first,) = self.reads
        return Program((Slot(first), Slot(self.writes, is_written=True)), (step,))

    def where(self) -> str:
        """Both descriptors, for messages."""
        return f"src {self.src}; dst {self.dst}"


class ShuffleBackwardProblem(ShuffleProblem):
    """The backward shuffle (`dnnl::shuffle_backward`): the gradient of the source from the destination's.

    It undoes the forward shuffle of the same group size. Executed with `ARG_DIFF_DST` (read) and
    `ARG_DIFF_SRC` (written).
    """

    primitive = "ShuffleBackward"
    call = "diff_src_md", "diff_dst_md", "axis", "group_size", "hint_fwd_pd"
    reads = {ARG_DIFF_DST: "src"}
    writes = ARG_DIFF_SRC
    prop_kinds = (PropKind.backward,)
    arguments = """
    Or, as in version 0.9, `PrimitiveDesc(desc, engine, hint_fwd_pd, attr=None, allow_empty=False)`. Gradients
    of format "any" take the format of the hint, a forward primitive descriptor, and are row-major if it is
    empty or None. `attr`: the scratchpad mode."""

    __slots__ = ()

    @classmethod
    def other_form(cls, args: Args, named: NamedArgs) -> Form[CallArguments] | None:
        is_v3 = bool(args and isinstance(args[0], Engine)) or "diff_src_md" in named
        return None if is_v3 else _BACKWARD_OF_DESC

    @classmethod
    def read(cls, call: ArgumentReader) -> ShuffleBackwardProblem:
        what, arguments = call.what, call.arguments
        if hasattr(arguments, "desc"):
            desc = arguments.desc
            if not isinstance(desc, ShuffleBackwardDesc):
                raise refuse("RS-V08:no-rs-shufflebackward", type=type(desc).__name__)
            mds, split = (desc.diff_data_desc, desc.diff_data_desc), (desc.axis, desc.group_size)
        else:
            diff_src = check_described(what, "diff_src_md", arguments.diff_src_md)
            split = check_split(what, diff_src.dims, arguments.axis, arguments.group_size)
            mds = diff_src, check_described(what, "diff_dst_md", arguments.diff_dst_md)
        hint = arguments.hint_fwd_pd
        if not isinstance(hint, ShuffleForward.PrimitiveDesc | None):
            raise refuse("RS-S16:hint-fwd-pd", error=WrongHint, type=type(hint).__name__)
        concrete = next((md for md in mds if md.format_kind != "any"), None) or (hint and hint.dst_desc())
        diff_src, diff_dst = (resolved(md, concrete or MemoryDesc(md.dims, md.data_type)) for md in mds)
        return cls._checked(call, diff_dst, diff_src, split)

    @property
    def forward_size(self) -> int:
        return self.src.dims[self.axis] // self.group_size


def check_shuffle(what: str, problem: ShuffleProblem) -> None:
    """Raise InvalidArguments or Unimplemented for unsupported descriptors."""
    src, dst = problem.src, problem.dst
    if src.dims != dst.dims:
        why = f"their dims are {src.dims} and {dst.dims}"
        hint = "a shuffle keeps the dims"
        raise refuse("RS-S11:inconsistent-src-dst", what=what, where=problem.where(), why=why, hint=hint)
    if src.data_type is not dst.data_type:
        why, hint = "a shuffle moves bits, and does not convert", "reorder into the other type first"
        raise refuse("RS-S11:two-data-types", what=what, where=problem.where(), why=why, hint=hint)
    if not dst.is_injective():
        raise refuse("RS-N08:stride-0-strides", what=what, where=problem.where())


def find_shuffle(call: str, problem: ShuffleProblem, engine: Engine) -> Implementation:
    """Return the implementation of a problem on arrays; errors name the call."""

    def make() -> Executable:
        check_shuffle(call, problem)
        return compiled(problem, engine)

    return find_implementation(problem, engine, describe_operation, make)


# --- primitives ---------------------------------------------------------------------------------------------

_FORWARD_OF_DESC = form_of("ShuffleForward.PrimitiveDesc", "desc", "engine", attr=None, allow_empty=False)
_BACKWARD_OF_DESC = form_of(
    "ShuffleBackward.PrimitiveDesc", "desc", "engine", "hint_fwd_pd", attr=None, allow_empty=False
)


class ShufflePrimitiveDesc(DerivedPrimitiveDesc):
    """A primitive descriptor of a shuffle."""

    __slots__ = ()

    def _executable(self, problem: OperationProblem, engine: Engine) -> Executable:
        assert isinstance(problem, ShuffleProblem)
        check_shuffle(self.kind, problem)
        return compiled(problem, engine)

    def _parsed_kind(self, arguments: CallArguments) -> PropKind:
        if PropKind.backward in self._operation.prop_kinds:
            return PropKind.backward
        if not hasattr(arguments, "desc"):
            return _parse_forward(self.form.what, arguments.prop_kind)
        return arguments.desc.prop_kind if isinstance(arguments.desc, ShuffleForwardDesc) else PropKind.undef

    def _copied(self, **chosen: object) -> Args:
        attr, split = self.get_primitive_attr(), (self._parameter("axis"), self._parameter("group_size"))
        if self._prop_kind is PropKind.backward:
            return (self._engine, self._dst, self._src, *split, None, attr)
        return (self._engine, self._prop_kind, self._src, self._dst, *split, attr)


class ShufflePrimitive(Primitive):
    """A shuffle."""

    __slots__ = ()

    def _check_overlap(self, src: Memory, dst: Memory) -> NoReturn:
        raise refuse("RS-S18:source-destination-overlap", kind=self.kind, desc=src.desc, dst_desc=dst.desc)


ShuffleForward: Any = make_primitive(ShuffleProblem, None, ShufflePrimitiveDesc, ShufflePrimitive)
ShuffleBackward: Any = make_primitive(ShuffleBackwardProblem, None, ShufflePrimitiveDesc, ShufflePrimitive)
ShuffleForward.Desc, ShuffleForward.usage = ShuffleForwardDesc, "rs.onednn.ShuffleForward(pd)"
ShuffleBackward.Desc, ShuffleBackward.usage = ShuffleBackwardDesc, "rs.onednn.ShuffleBackward(pd)"
ShuffleForward.PrimitiveDesc.__signature__ = _FORWARD_OF_DESC.shown
ShuffleBackward.PrimitiveDesc.__signature__ = _BACKWARD_OF_DESC.shown
