"""Descriptors of a shuffle, their checks and their JSON form.

As JSON a descriptor is one object, whose keys are the arguments of `Desc`:

    {"prop_kind": "forward_training", "data_desc": {"format_kind": ...}, "axis": 1, "group_size": 4}

All of them are needed; others are passed over.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isqrt
from typing import Any, ClassVar, NamedTuple, Self

from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_int, short_repr
from ..desc.text_forms import bad_stored, read_text
from ..errors import Error, InvalidArguments, Unimplemented
from .forms import Form, signature
from .parse import check_described, parse_attr
from .prop_kind import PropKind


def check_formats(kind: str, src: MemoryDesc, dst: MemoryDesc) -> None:
    """Raise Unimplemented for one tensor in two formats; other dims and types are found later."""
    if src == dst or src.dims != dst.dims or src.data_type is not dst.data_type:
        return
    raise Unimplemented(
        f"{kind}: two formats",
        code="RS-S11",
        where=f"src {src}; dst {dst}",
        why="a shuffle keeps the format",
        hint="reorder before or after, or let rs.shuffle write into an array of the other format, its out",
    )


def checked_attr(kind: str, attr: object) -> Attr:
    """The attributes as a value; raise Unimplemented for any but the scratchpad mode."""
    frozen = parse_attr(f"{kind}.PrimitiveDesc", attr)
    if frozen.is_default:
        return frozen
    raise Unimplemented(
        f"{kind}: unsupported attribute",
        code="RS-S14",
        where=f"attr {frozen.verbose_str()}",
        why="a shuffle moves bits: there is nothing to scale, shift or add",
        hint="leave the attributes out, and let a reorder before or after have them",
    )


def no_desc(kind: str, desc: object) -> InvalidArguments:
    """The error for what is no descriptor of this kind of shuffle."""
    return InvalidArguments(
        f"{kind}.PrimitiveDesc: no descriptor",
        code="RS-V08",
        why=f"{type(desc).__name__} is no rs.{kind}.Desc",
        hint=f"pass rs.{kind}.Desc(...) and an engine, or an engine first, as version 3 of oneDNN has it",
    )


# Descriptors of shuffles as plain values, as JSON has them, and back with every value checked.


class JsonDesc:
    """A frozen descriptor whose fields are words, integers and descriptors of tensors."""

    __slots__ = ()
    name: ClassVar[str]
    fields: ClassVar[tuple[str, ...]]

    def to_dict(self) -> dict[str, Any]:
        """The descriptor as strings, integers, lists and a dict, named after its fields."""
        return {field: _value(getattr(self, field)) for field in self.fields}

    def to_json(self) -> str:
        """`to_dict` as JSON, in one line."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, values: object) -> Self:
        """The descriptor of a `to_dict`. Raises InvalidArguments naming the value that is wrong."""
        if not isinstance(values, dict):
            raise bad_stored(
                f"{cls.name}: a stored descriptor must be a dict",
                f"this is {type(values).__name__}",
            )
        missing = [field for field in cls.fields if field not in values]
        if missing:
            raise bad_stored(
                f"{cls.name}: a stored descriptor lacks {missing}",
                "every field of to_dict is needed",
            )
        return cls(**{field: _parsed(cls.name, field, values[field]) for field in cls.fields})

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The descriptor of a `to_json`. Raises InvalidArguments naming the value that is wrong."""
        return read_text(cls.name, text, cls.from_dict)


def _value(field: object) -> object:
    if isinstance(field, MemoryDesc):
        return field.to_dict()
    return str(field) if isinstance(field, PropKind) else field


def _parsed(name: str, field: str, value: object) -> Any:
    if not field.endswith("_desc"):
        if isinstance(value, str | int):
            return value
        raise bad_stored(f"{name}: {field} is {short_repr(value)}", "it is a word or an integer")
    try:
        return MemoryDesc.from_dict(value)
    except Error as error:
        what = f"{name}: {field}: {error.what}"
        raise error.retold(what) from None


# --- shuffle desc ------------------------------------------------------------
# What a shuffle is asked to do, checked: descriptors, axis and group size.

_FORWARD = (PropKind.forward_training, PropKind.forward_inference)
# Divisors are looked for up to this number, and so many of them are shown.
_MOST_TRIED, _MOST_SHOWN = 1 << 16, 24


class _ForwardSplit(NamedTuple):
    """The arguments of a forward descriptor."""

    prop_kind: object
    data_desc: object
    axis: object
    group_size: object


_OF_FORWARD = Form(
    "ShuffleForward.Desc", signature("prop_kind", "data_desc", "axis", "group_size"), _ForwardSplit
)


@dataclass(frozen=True, init=False)
class ShuffleForwardDesc(JsonDesc):
    """A forward shuffle (`dnnl::shuffle_forward::desc`): `Desc(prop_kind, data_desc, axis, group_size)`.

    `prop_kind`: "forward_training" or "forward_inference", which do the same. `data_desc`: source and
    destination, in a format other than "any". Raises InvalidArguments for an axis that `data_desc` has not,
    and for a `group_size` that does not divide it.
    """

    name = "ShuffleForward.Desc"
    fields = ("prop_kind", "data_desc", "axis", "group_size")
    __signature__: ClassVar = _OF_FORWARD.shown

    prop_kind: PropKind
    data_desc: MemoryDesc
    axis: int
    group_size: int

    def __init__(self, *args: object, **named: object) -> None:
        given, what = _OF_FORWARD.of(args, named), self.name
        store = object.__setattr__
        store(self, "prop_kind", parse_forward(what, given.prop_kind))
        store(self, "data_desc", check_concrete(what, "data_desc", given.data_desc))
        number, size = check_split(what, self.data_desc.dims, given.axis, given.group_size)
        store(self, "axis", number)
        store(self, "group_size", size)


@dataclass(frozen=True, init=False)
class ShuffleBackwardDesc(JsonDesc):
    """A backward shuffle (`dnnl::shuffle_backward::desc`): `Desc(diff_data_desc, axis, group_size)`.

    `diff_data_desc`: both gradients; its format may be "any". `axis` and `group_size` as they were forward.
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


def check_concrete(what: str, name: str, md: object) -> MemoryDesc:
    """The descriptor of a tensor whose format is known; raise InvalidArguments for "any"."""
    desc = check_described(what, name, md)
    if desc.format_kind != "any":
        return desc
    raise InvalidArguments(
        f"{what}: {name} has format 'any'",
        code="RS-M30",
        where=str(desc),
        why="a shuffle keeps the format of its source, which must be known",
        hint="pass the format that the primitive before it chose",
    )


def check_split(what: str, dims: tuple[int, ...], axis: object, group_size: object) -> tuple[int, int]:
    """The axis and the group size as integers that fit the dims."""
    number = check_axis(what, axis, dims)
    return number, check_group_size(what, group_size, dims, number)


def check_axis(what: str, axis: object, dims: tuple[int, ...]) -> int:
    """The axis as an integer from 0 to the last; raise InvalidArguments for anything else."""
    number = parse_int(axis, f"{what}: axis")
    if 0 <= number < len(dims):
        return number
    from_end = number + len(dims)
    legal = f"axis {from_end}" if 0 <= from_end < len(dims) else f"an axis from 0 to {len(dims) - 1}"
    raise InvalidArguments(
        f"{what}: bad axis",
        code="RS-S07",
        where=f"axis {short_repr(number)}, dims {dims}",
        why=f"axes are numbered from 0, and the last of {len(dims)} is {len(dims) - 1}",
        hint=f"use {legal}; only rs.shuffle_channels counts negative axes from the end",
    )


def check_group_size(what: str, group_size: object, dims: tuple[int, ...], axis: int) -> int:
    """The group size as an integer that divides the axis; raise InvalidArguments for anything else."""
    number, size = parse_int(group_size, f"{what}: group_size"), dims[axis]
    if 1 <= number <= size and size % number == 0:
        return number
    shown = short_repr(number)
    raise InvalidArguments(
        f"{what}: bad param group_size",
        code="RS-S07",
        where=f"C = {size} (axis {axis}), group_size = {shown}, group = C / group_size = {size} / {shown}",
        why=f"group_size must be from 1 to {size}, and divide it",
        hint=legal_factors("group_size", size),
    )


def legal_factors(name: str, size: int) -> str:
    """A hint with what divides `size`; of what is large, with what is found soon."""
    if size < 1:
        return f"an axis without channels has no {name}: leave the shuffle out"
    low = [n for n in range(1, min(isqrt(size), _MOST_TRIED) + 1) if size % n == 0]
    found = sorted({*low, *(size // n for n in low)})
    half = _MOST_SHOWN // 2
    shown = [*found[:half], "...", *found[-half:]] if len(found) > _MOST_SHOWN else found
    rest = ", and perhaps others" if isqrt(size) > _MOST_TRIED else ""
    return f"legal for {name}: {', '.join(map(str, shown))}{rest}"


def parse_forward(what: str, prop_kind: object) -> PropKind:
    """The propagation kind of a forward shuffle; raise InvalidArguments for any other."""
    kind = PropKind.parse(prop_kind, what)
    if kind in _FORWARD:
        return kind
    raise InvalidArguments(
        f"{what}: prop_kind is {kind}",
        code="RS-S05",
        why="a forward shuffle is forward_training or forward_inference",
        hint="use rs.ShuffleBackward for gradients",
    )
