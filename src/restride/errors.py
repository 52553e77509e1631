"""restride's exceptions, one base class, each with a oneDNN status.

Every message has one form: what failed, where (the descriptors involved), why, a hint, and the error code,
which `restride explain` describes in full.
"""

from __future__ import annotations

import enum
import functools
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar

from .deprecation import old_name

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
# The catalog of errors: a Markdown page with an entry for each code, followed by its messages.
CATALOGUE = os.path.join(os.path.dirname(__file__), "refusals.md")


class LookupType(enum.EnumType):
    """Metaclass of enumerations: a value that cannot be compared with the members is treated as unknown."""

    def __call__(cls, value: Any, *more: Any, **named: Any) -> Any:
        """Look up a member by value; with more arguments, behave like any enumeration."""
        if more or named:
            return super().__call__(value, *more, **named)
        try:
            return super().__call__(value)
        except Error:
            raise
        except Exception:  # comparing an array has no truth value; foreign values can raise anything
            raise _no_member(cls.__name__, value) from None


class ValueLookup:
    """Base of enumerations in which looking up an unknown value raises InvalidArguments."""

    @classmethod
    def _missing_(cls, value: object) -> object:
        try:
            member = super()._missing_(value)  # type: ignore[misc]
        except Exception:
            member = None
        if member is not None:
            return member
        raise _no_member(cls.__name__, value)


class Status(ValueLookup, enum.IntEnum, metaclass=LookupType):
    """oneDNN's status values (`dnnl_status_t`)."""

    success = 0
    out_of_memory = 1
    invalid_arguments = 2
    unimplemented = 3
    last_impl_reached = 4
    runtime_error = 5
    not_required = 6
    invalid_graph = 7
    invalid_graph_op = 8
    invalid_shape = 9
    invalid_data_type = 10


class Error(Exception):
    """Base class of all errors that restride raises (`dnnl::error`).

    `what` names the call that failed, `where` the descriptors or arguments, `why` the reason, `hint` the
    remedy. `.code` identifies the kind of error, such as "RS-R10", and stays the same when the wording
    changes; `restride explain RS-R10` describes it. `.status` is the oneDNN status, `.message` the whole
    text.
    """

    status = Status.runtime_error

    def __init__(self, what: str, *, code: str = "", where: str = "", why: str = "", hint: str = "") -> None:
        texts = [part if isinstance(part, str) else _shown(part) for part in (what, code, where, why, hint)]
        self.what, self.code, self.where, self.why, self.hint = texts
        texts.append(self.code and f"restride explain {self.code}")
        parts = zip(("where", "why", "hint", "more"), texts[2:], strict=True)
        self.message = "\n".join([self.what, *(f"  {name}: {text}" for name, text in parts if text)])
        super().__init__(self.message)

    def drop_frames(self) -> None:
        """Discard the traceback, so that raising the error again shows the caller's line."""
        self.__traceback__ = None

    def with_context(self, what: str = "", *, where: str = "", hint: str = "") -> Self:
        """Return the same error in the terms of the calling function; omitted parts are kept."""
        what, where, hint = (
            own if isinstance(new, str) and not new else new
            for new, own in ((what, self.what), (where, self.where), (hint, self.hint))
        )
        return type(self)(what, code=self.code, where=where, why=self.why, hint=hint)

    def retold(self, what: str = "", *, where: str = "", hint: str = "") -> Self:
        """Old name of `with_context`."""
        old_name("Error.retold", "Error.with_context")
        return self.with_context(what, where=where, hint=hint)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.code, self.where, self.why, self.hint)


def raises_at_the_call(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Wrap `function` so that the traceback of its errors ends at the line that called it."""

    @functools.wraps(function)
    def called(*args: Parameters.args, **named: Parameters.kwargs) -> Result:
        try:
            return function(*args, **named)
        except Error as error:
            error.drop_frames()
            raise

    return called


class RefusalMessage(NamedTuple):
    """One message of the catalog: the name of its class and its parts, with `str.format` fields."""

    kind: str
    what: str
    where: str = ""
    why: str = ""
    hint: str = ""


def refuse(key: str, /, *, error: type[Error] | None = None, **values: object) -> Error:
    """Return the error stored under `key` in the catalog, with its fields filled in; the caller raises it.

    A key is a code, `RS-S05`, or a code and a word where it has several messages, `RS-S05:groups`. `error` is
    a subclass, for callers that tell this error from others by its class. A value that cannot be formatted,
    or a catalog that cannot be read, never replaces the error with another one.
    """
    code = key.partition(":")[0]
    try:
        message = _message(key)
    except (OSError, MemoryError, KeyError):  # for example, too many open files
        why = ", ".join(f"{name} {_shown(value)}" for name, value in values.items())
        kind = error or RuntimeFailure
        return kind(
            f"refused: {key}", code=code, why=why, hint=f"its text could not be read from {CATALOGUE}"
        )
    kind = error or _KINDS[message.kind]
    what, where, why, hint = (_filled(part, values) for part in message[1:])
    return kind(what, code=code, where=where, why=why, hint=hint)


@functools.cache
def _catalog() -> str:
    """Return the text of the catalog, read when the first error is created."""
    with open(CATALOGUE, encoding="utf-8") as file:
        return file.read()


@functools.cache
def _message(key: str) -> RefusalMessage:
    """Return the message stored under a key. Raises KeyError if there is none.

    A message starts with a line for its key, and its class unless that is InvalidArguments; the text follows
    in the form in which a reader sees it; an empty line or the end of the block ends it.
    """
    text = _catalog()
    at = max(text.find(f"\n{key}{end}") for end in ("\n", " "))
    if at < 0:
        raise KeyError(key)
    head, what, *rest = text[at + 1 :].partition("\n\n")[0].partition("\n```")[0].split("\n")
    parts = dict(line.strip().split(": ", 1) for line in rest)
    return RefusalMessage(head.partition(" ")[2] or "InvalidArguments", what, **parts)


def messages() -> Mapping[str, RefusalMessage]:
    """Return all messages of the catalog by key."""
    blocks = (block.partition("```")[0] for block in _catalog().split("```text\n")[1:])
    heads = (text.split("\n")[0] for text in "\n".join(blocks).strip().split("\n\n"))
    return {key: _message(key) for key in (head.partition(" ")[0] for head in heads)}


def _filled(template: str, values: Mapping[str, object]) -> str:
    try:
        return template.format_map(values)
    except Exception:
        return template.format_map(_Fields((name, _Field(value)) for name, value in values.items()))


class _Fields(dict[str, "_Field"]):
    """Values by field; a field without a value stands for itself."""

    def __missing__(self, name: str) -> _Field:
        return _Field(f"{{{name}}}")


class _Field:
    """A value formatted as well as possible: its `__format__`, or reading its class, can raise anything."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __getattr__(self, name: str) -> _Field:
        try:
            return _Field(getattr(self._value, name))
        except Exception:
            return _Field(f"{{{name}}}")

    def __format__(self, spec: str) -> str:
        try:
            return format(self._value, spec)
        except Exception:
            return _shown(self._value)

    def __repr__(self) -> str:
        try:
            return repr(self._value)
        except Exception:
            return _shown(self._value)


def check_unmade(value: object, slot: str) -> None:
    """Raise InvalidArguments if `__init__` is called on a finished value, recognized by its slot.

    Such a value is part of cache keys and of compiled code, so it must not change.
    """
    if not hasattr(value, slot):
        return
    raise InvalidArguments(
        f"{type(value).__name__}: made already",
        code="RS-V07",
        why="it is immutable, and other objects may share it",
        hint="create a new one",
    )


def _no_member(name: str, value: object) -> InvalidArguments:
    return InvalidArguments(
        f"{name}: there is no member {_shown(value)[:80]!r}",
        code="RS-V04",
        why="no member has this value",
        hint=f"list(rs.onednn.{name}) has all of them",
    )


def _shown(value: object) -> str:
    """Return a part of a message as text, whatever object it is."""
    try:
        return "" if value is None else str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _rebuild(cls: type[Error], what: str, code: str, where: str, why: str, hint: str) -> Error:
    return cls(what, code=code, where=where, why=why, hint=hint)


class InvalidArguments(Error, ValueError):
    """An argument is wrong; nothing was executed (`invalid_arguments`)."""

    status = Status.invalid_arguments


class Unimplemented(Error, NotImplementedError):
    """The arguments are valid, but this combination is not implemented (`unimplemented`)."""

    status = Status.unimplemented


class OutOfMemory(Error, MemoryError):
    """Memory could not be allocated (`out_of_memory`)."""

    status = Status.out_of_memory


class RuntimeFailure(Error, RuntimeError):
    """Something outside the arguments failed: a file, a device, a compiler (`runtime_error`)."""

    status = Status.runtime_error


_KINDS = {
    kind.__name__: kind for kind in (Error, InvalidArguments, Unimplemented, OutOfMemory, RuntimeFailure)
}
