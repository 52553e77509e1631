"""Constructors that take arguments in several forms: what `help` shows, and what a wrong call is."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import update_wrapper
from inspect import Parameter, Signature
from types import FunctionType
from typing import Generic, NamedTuple, Protocol, TypeVar, cast

from ..errors import Error, InvalidArguments, refuse

Made = TypeVar("Made")
Args = tuple[object, ...]
NamedArgs = dict[str, object]


class CallArguments(Protocol):
    """The arguments of a call by their names, as the caller has passed them: nothing is checked yet."""

    def __getattr__(self, name: str) -> object:
        """An argument."""

    def __iter__(self) -> Iterator[object]:
        """All of them in the order of the signature."""

    def _replace(self, **changes: object) -> CallArguments:
        """The same with others in the place of some."""


class WrongCall(InvalidArguments, TypeError):
    """Too few or too many arguments, or unknown names: a TypeError, as Python itself would raise."""


def signature(*required: str, **optional: object) -> Signature:
    """A signature of arguments by place or by name.

    >>> signature("engine", "axis", attr=None)
    <Signature (engine, axis, attr=None)>
    """
    kind = Parameter.POSITIONAL_OR_KEYWORD
    head = [Parameter(name, kind) for name in required]
    return Signature([*head, *(Parameter(name, kind, default=value) for name, value in optional.items())])


# Parameters by the names that the documents give them.
_SEED_WORDS = {
    "adesc": "desc",
    "aengine": "engine",
    "aprop_kind": "prop_kind",
    "src": "src_mem",
    "dst": "dst_mem",
}


class Form(NamedTuple, Generic[Made]):
    """One form of a call: what is called, how it is shown, and what makes a value of the arguments."""

    what: str
    shown: Signature
    make: Callable[..., Made]

    def of(self, args: Sequence[object], named: Mapping[str, object]) -> Made:
        """`make` of the arguments. Raises WrongCall, in words of the signature, where they do not fit it.

        Names are those of the signature, or of the documents: `adesc` is `desc`.
        """
        try:
            return self.make(*args, **(named and self._own(named)))
        except TypeError:
            raise self._wrong(args, named) from None

    def _own(self, named: Mapping[str, object]) -> Mapping[str, object]:
        """The arguments by the names of the signature; those of the document too where one has both."""
        if _SEED_WORDS.keys().isdisjoint(named):
            return named
        ours = {self._own_name(name): value for name, value in named.items()}
        return ours if len(ours) == len(named) else named

    def _own_name(self, name: str) -> str:
        ours = _SEED_WORDS.get(name, name)
        return ours if name not in self.shown.parameters and ours in self.shown.parameters else name

    def _wrong(self, args: Sequence[object], named: Mapping[str, object]) -> Error:
        try:
            self.shown.bind(*args, **named)
            why = "they do not fit"
        except TypeError as error:
            why = str(error)
        return refuse("RS-V07:wrong-arguments-call", error=WrongCall, owner=self, why=why)


def form_of(what: str, *required: str, **optional: object) -> Form[CallArguments]:
    """The form of a call whose arguments are kept by name.

    >>> form_of("f", "engine", "axis", attr=None).of((1,), {"axis": 2})
    CallArguments(engine=1, axis=2, attr=None)
    """
    shown = signature(*required, **optional)
    arguments_type = namedtuple("CallArguments", shown.parameters, defaults=tuple(optional.values()))  # type: ignore[misc]
    return Form(what, shown, cast("Callable[..., CallArguments]", arguments_type))


def own(cls: type, name: str, shown: str) -> None:
    """Give a class its own copy of an inherited method, called `shown` in Python's errors about its call."""
    of = getattr(cls, name)
    copy = FunctionType(of.__code__, of.__globals__, name, of.__defaults__, of.__closure__)
    update_wrapper(copy, of).__qualname__ = shown
    copy.__kwdefaults__ = of.__kwdefaults__
    del copy.__dict__["__wrapped__"]
    setattr(cls, name, copy)
