"""Constructors that take arguments in several forms: what `help` shows, and what a wrong call is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import update_wrapper
from inspect import Parameter, Signature
from types import FunctionType
from typing import Any, Generic, NamedTuple, TypeVar

from ..errors import InvalidArguments

Given = TypeVar("Given")


class WrongCall(InvalidArguments, TypeError):
    """Too few or too many arguments, or unknown names: a TypeError, as Python itself would raise."""


def signature(*required: str, **optional: object) -> Signature:
    """A signature of arguments by place or by name.

    >>> signature("engine", "axis", attr=None)
    <Signature (engine, axis, attr=None)>
    """
    kind = Parameter.POSITIONAL_OR_KEYWORD
    needed = [Parameter(name, kind) for name in required]
    return Signature([*needed, *(Parameter(name, kind, default=value) for name, value in optional.items())])


# Parameters by the names that the documents give them.
_SEED_WORDS = {
    "adesc": "desc",
    "aengine": "engine",
    "aprop_kind": "prop_kind",
    "src": "src_mem",
    "dst": "dst_mem",
}


class Form(NamedTuple, Generic[Given]):
    """One form of a call: what is called, how it is shown, and what makes a value of the arguments."""

    what: str
    shown: Signature
    make: Callable[..., Given]

    def of(self, args: Sequence[Any], named: Mapping[str, Any]) -> Given:
        """`make` of the arguments. Raises WrongCall, in words of the signature, where they do not fit it.

        Names are those of the signature, or of the documents: `adesc` is `desc`.
        """
        try:
            return self.make(*args, **(named and self._own(named)))
        except TypeError:
            raise self._wrong(args, named) from None

    def _own(self, named: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments by the names of the signature; those of the document too where one has both."""
        if _SEED_WORDS.keys().isdisjoint(named):
            return named
        ours = {self._own_name(name): value for name, value in named.items()}
        return ours if len(ours) == len(named) else named

    def _own_name(self, name: str) -> str:
        ours = _SEED_WORDS.get(name, name)
        return ours if name not in self.shown.parameters and ours in self.shown.parameters else name

    def _wrong(self, args: Sequence[Any], named: Mapping[str, Any]) -> WrongCall:
        try:
            self.shown.bind(*args, **named)
            why = "they do not fit"
        except TypeError as error:
            why = str(error)
        return WrongCall(
            f"{self.what}: wrong arguments", code="RS-V07", why=why, hint=f"call {self.what}{self.shown}"
        )


def own(cls: type, name: str, shown: str) -> None:
    """Give a class its own copy of an inherited method, called `shown` in Python's errors about its call."""
    of = getattr(cls, name)
    copy = FunctionType(of.__code__, of.__globals__, name, of.__defaults__, of.__closure__)
    update_wrapper(copy, of).__qualname__ = shown
    copy.__kwdefaults__ = of.__kwdefaults__
    del copy.__dict__["__wrapped__"]
    setattr(cls, name, copy)
