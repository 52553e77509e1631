"""Execution-argument maps: numbers to memory objects, and errors for every misuse."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import ClassVar, Protocol

from ..desc.arguments import is_output, name_of, spelled
from ..desc.parse import parse_int, short_repr
from ..errors import Error, refuse
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..verbose import Line, flags, report

Args = dict[int, Memory]
_MOST_ARGS = 4096


class HasKind(Protocol):
    """Properties of a primitive descriptor that the checks need."""

    kind: ClassVar[str]
    # The constants for its arguments, and inputs that some descriptors of its kind read.
    _arg_names: ClassVar[Mapping[object, str]]
    _optional_args: ClassVar[Collection[int]]

    def get_kind(self) -> str:
        """Return the primitive kind as in verbose lines: "shuffle"."""

    def get_engine(self) -> Engine:
        """Return the engine that runs the primitive."""


def parse_args(pd: HasKind, args: object, inputs: Iterable[int], outputs: Iterable[int]) -> list[Memory]:
    """Return the memory objects of an execution-argument map in the order inputs, outputs.

    `args` is a dict, or an iterable of (number, memory) pairs, in which a repeated number is an error.
    Missing arguments and unknown outputs are errors, and so are inputs of the primitive that this descriptor
    does not use; other unknown inputs are ignored.
    """
    kind = pd.kind
    memories = _distinct(kind, args)
    wanted_in, wanted_out = list(inputs), list(outputs)
    for role, args_of_role in (("inputs", wanted_in), ("outputs", wanted_out)):
        if any(arg not in memories for arg in args_of_role):
            raise _missing(pd, role, [arg for arg in args_of_role if arg not in memories], args_of_role)
    unknown = [arg for arg in memories if arg not in wanted_in and arg not in wanted_out]
    if extra := [arg for arg in unknown if is_output(arg)]:
        got, names = len(wanted_out) + len(extra), _names(pd, extra)
        raise refuse("RS-R06:no-output", kind=kind, expected=len(wanted_out), got=got, listed=names)
    if extra := [arg for arg in unknown if arg in pd._optional_args]:
        got, names = len(wanted_in) + len(extra), _names(pd, extra)
        raise refuse("RS-R06:no-input", kind=kind, expected=len(wanted_in), got=got, listed=names)
    if unknown and flags.check:
        names = " ".join(name_of(arg, pd._arg_names) for arg in unknown)
        head = "exec:check", pd.get_engine().kind, pd.get_kind(), ""
        report(Line(*head, auxiliary=f"ignored arguments {names}"))
    return [memories[arg] for arg in (*wanted_in, *wanted_out)]


def _missing(pd: HasKind, role: str, absent: list[int], expected: list[int]) -> Error:
    usage = ", ".join(f"{spelled(arg, 'rs.onednn.Arg.', pd._arg_names)}: ..." for arg in expected)
    return refuse(
        "RS-R06:bad-number-expected",
        kind=pd.kind,
        role=role,
        expected=len(expected),
        got=len(expected) - len(absent),
        listed=_names(pd, absent),
        usage=usage,
    )


def _names(pd: HasKind, args: list[int]) -> str:
    return ", ".join(name_of(arg, pd._arg_names) for arg in args)


def _distinct(kind: str, args: object) -> Args:
    memories: Args = {}
    for arg, memory in _pairs(kind, args):
        number = parse_int(arg, f"{kind}.execute: argument number")
        if number < 1:
            raise refuse("RS-P14:argument-number", kind=kind, number=short_repr(number))
        if number in memories:
            raise refuse("RS-R06:same-argument-kind", kind=kind, number=number, name_of=name_of(number))
        memories[number] = memory
    return memories


def _pairs(kind: str, args: object) -> Iterator[tuple[object, Memory]]:
    """Yield argument numbers and memory objects; never more than an argument map can have."""
    try:
        items = args.items() if isinstance(args, Mapping) else args
        for pair in islice(items, _MOST_ARGS):  # type: ignore[call-overload]
            arg, memory = pair
            yield arg, memory
    except Exception:  # a foreign mapping can raise anything
        raise refuse("RS-R06:no-argument-map", kind=kind, type=type(args).__name__) from None
