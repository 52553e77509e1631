"""Constructors with several forms of arguments: signatures for `help`, and errors for wrong calls."""

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
    """The arguments of a call by name, as passed by the caller, unchecked."""

    def __getattr__(self, name: str) -> object:
        """Return an argument."""

    def __iter__(self) -> Iterator[object]:
        """Iterate over all of them in the order of the signature."""

    def _replace(self, **changes: object) -> CallArguments:
        """Return the same with some of them replaced."""


class WrongCall(InvalidArguments, TypeError):
    """Too few or too many arguments, or unknown names: a TypeError, as Python itself would raise."""


def signature(*required: str, **optional: object) -> Signature:
    """Return a signature of positional-or-keyword arguments.

    >>> signature("engine", "axis", attr=None)
    <Signature (engine, axis, attr=None)>
    """
    kind = Parameter.POSITIONAL_OR_KEYWORD
    head = [Parameter(name, kind) for name in required]
    return Signature([*head, *(Parameter(name, kind, default=value) for name, value in optional.items())])


# oneDNN's names for parameters.
_SEED_WORDS = {
    "adesc": "desc",
    "aengine": "engine",
    "aprop_kind": "prop_kind",
    "src": "src_mem",
    "dst": "dst_mem",
}


class Form(NamedTuple, Generic[Made]):
    """One form of a call: its function's name, its signature, and a function that converts the arguments."""

    what: str
    shown: Signature
    make: Callable[..., Made]

    def of(self, args: Sequence[object], named: Mapping[str, object]) -> Made:
        """Call `make` with the arguments. Raises WrongCall, in terms of the signature, if they do not match
        it.

        Names are those of the signature, or oneDNN's: `adesc` is `desc`.
        """
        try:
            return self.make(*args, **(named and self._own(named)))
        except TypeError:
            raise self._wrong(args, named) from None

    def _own(self, named: Mapping[str, object]) -> Mapping[str, object]:
        """Return the arguments under the signature's names; oneDNN's names are kept where it has both."""
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
            why = "they do not match"
        except TypeError as error:
            why = str(error)
        return refuse("RS-V07:wrong-arguments-call", error=WrongCall, owner=self, why=why)


def form_of(what: str, *required: str, **optional: object) -> Form[CallArguments]:
    """Return the form of a call whose arguments are stored by name.

    >>> form_of("f", "engine", "axis", attr=None).of((1,), {"axis": 2})
    CallArguments(engine=1, axis=2, attr=None)
    """
    shown = signature(*required, **optional)
    arguments_type = namedtuple("CallArguments", shown.parameters, defaults=tuple(optional.values()))  # type: ignore[misc]
    return Form(what, shown, cast("Callable[..., CallArguments]", arguments_type))


def own(cls: type, name: str, shown: str) -> None:
    """Give a class its own copy of an inherited method, named `shown` in Python's errors about its call."""
    of = getattr(cls, name)
    copy = FunctionType(of.__code__, of.__globals__, name, of.__defaults__, of.__closure__)
    update_wrapper(copy, of).__qualname__ = shown
    copy.__kwdefaults__ = of.__kwdefaults__
    del copy.__dict__["__wrapped__"]
    setattr(cls, name, copy)
