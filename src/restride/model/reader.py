"""Reads and checks the arguments of a primitive descriptor, with errors in terms of the call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from ..desc.attr import Attr
from ..desc.attr_check import check_attr_of
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_bool, parse_int, to_f32, to_f64
from ..errors import refuse
from .any_format import resolved
from .forms import CallArguments
from .parse import check_written, parse_attr
from .pointwise import (
    check_attributes,
    check_hint,
    check_known,
    check_open,
    check_same_dims,
    parse_algorithm,
    parse_hint,
)
from .prop_kind import PropKind
from .result_dims import Misfit

if TYPE_CHECKING:
    from .base import PrimitiveDescBase

Forward = TypeVar("Forward")


class ArgumentReader:
    """The arguments of one call. `what` names it in errors.

    `algorithms`: their common prefix, and the names without it. `hint_kind`: the kind of the hint.
    """

    def __init__(
        self,
        what: str,
        arguments: CallArguments,
        prop_kind: PropKind,
        algorithms: tuple[str, Sequence[str]],
        hint_kind: type[PrimitiveDescBase] | None = None,
    ) -> None:
        self.what, self.arguments, self.prop_kind = what, arguments, prop_kind
        self._algorithms, self._hint_kind = algorithms, hint_kind

    def __getattr__(self, name: str) -> object:
        return getattr(self.arguments, name)

    def algorithm(self) -> str:
        """Return the algorithm without the operation's name as prefix."""
        prefix, words = self._algorithms
        return parse_algorithm(self.what, self.arguments.algorithm, prefix, words)

    def axis(self, md: MemoryDesc, name: str = "axis") -> int:
        """Return the axis, if the tensor has it."""
        number = self.integer(name)
        if 0 <= number < md.ndims:
            return number
        raise refuse("RS-S05:axis", what=self.what, name=name, number=number, md=md, last=md.ndims - 1)

    def integer(self, name: str) -> int:
        """Return an integer."""
        return parse_int(getattr(self.arguments, name), f"{self.what}: {name}")

    def number(self, name: str, *, is_wide: bool = False) -> float:
        """Return a number, rounded to f32, or to f64."""
        convert = to_f64 if is_wide else to_f32
        return convert(getattr(self.arguments, name), f"{self.what}: {name}")

    def known(self, name: str) -> MemoryDesc:
        """Return a tensor whose format is known."""
        return check_known(self.what, name, getattr(self.arguments, name))

    def open(self, name: str, like: MemoryDesc | None = None, *, is_known: bool = True) -> MemoryDesc:
        """Return a tensor of any format; "any" becomes the format of `like`, if passed. `is_known`: its dims
        must be known.
        """
        md = check_open(self.what, name, getattr(self.arguments, name), is_known=is_known)
        return md if like is None else resolved(md, like)

    def written(self, name: str, like: MemoryDesc) -> MemoryDesc:
        """Return an output tensor."""
        md = self.open(name, like)
        self.check_written(name, md)
        return md

    def check_written(self, name: str, md: MemoryDesc) -> None:
        """Raise InvalidArguments for an output tensor whose elements share memory."""
        check_written(self.what, name, md)

    def same_dims(self, **mds: MemoryDesc) -> None:
        """Raise InvalidArguments for tensors of different dims."""
        check_same_dims(self.what, list(mds.items()))

    def same_types(self, **mds: MemoryDesc) -> None:
        """Raise InvalidArguments for tensors of different types."""
        (first, wanted), *others = mds.items()
        for name, md in others:
            if md.data_type is not wanted.data_type:
                raise refuse(
                    "RS-L02:other-type", what=self.what, first=first, wanted=wanted, name=name, md=md
                )

    def flag(self, name: str) -> bool:
        """Return True or False."""
        return parse_bool(f"{self.what}: {name}", getattr(self.arguments, name))

    def word(self, name: str, *words: str) -> str:
        """Return one of some words."""
        return parse_algorithm(self.what, getattr(self.arguments, name), "", words, name)

    def check_dims(
        self, md: MemoryDesc, rule: Callable[[], tuple[int, ...]], *of: MemoryDesc, name: str = "dst"
    ) -> None:
        """Raise InvalidArguments unless a tensor has the dims that a rule derives from the inputs."""
        where = ", ".join(map(str, of))
        try:
            wanted = rule()
        except Misfit as misfit:
            hint = misfit.hint or "the dims of tensors and parameters must agree"
            raise refuse("RS-R10:misfit", what=self.what, where=where, why=misfit.why, hint=hint) from None
        if md.dims != wanted:
            raise refuse("RS-R10:wanted-dims", what=self.what, name=name, md=md, where=where, wanted=wanted)

    def forward(self) -> tuple[MemoryDesc, MemoryDesc]:
        """Return source and destination of the same dims; "any" for the latter means the source's format."""
        src = self.known("src")
        dst = self.open("dst", src)
        self.same_dims(src=src, dst=dst)
        self.check_written("dst", dst)
        return src, dst

    def gradients(self, **data: MemoryDesc) -> tuple[MemoryDesc, MemoryDesc]:
        """Return the gradients of source and destination, with the dims and, for "any", format of `data`."""
        (md,) = data.values()
        diff_src, diff_dst = self.open("diff_src", md), self.open("diff_dst", md)
        self.same_dims(**data, diff_src=diff_src, diff_dst=diff_dst)
        self.check_written("diff_src", diff_src)
        return diff_src, diff_dst

    def attr(self, *allowed: str, of: Mapping[int, MemoryDesc] | None = None) -> Attr:
        """Return the attributes: only `allowed` ones, which match the tensors `of`, by argument."""
        attr = check_attributes(self.what, self.frozen_attr(), *allowed)
        if of is not None:
            check_attr_of(self.what, attr, of)
        return attr

    def frozen_attr(self) -> Attr:
        """Return the attributes, unchecked."""
        return parse_attr(self.what, self.arguments.attr)

    def hint(self, kind: type[Forward]) -> Forward | None:
        """Return the problem of the hint, the forward step; None without one."""
        if self._hint_kind is None:
            return None
        pd = parse_hint(self.what, self.arguments.hint_pd, self._hint_kind)
        problem = None if pd is None else pd._implementation().problem
        return problem if isinstance(problem, kind) else None

    def check_hint(self, **pairs: tuple[object, object]) -> None:
        """Raise InvalidArguments for a hint of another problem: actual and expected values, by name."""
        check_hint(self.what, pairs)
