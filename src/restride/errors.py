"""The one error root, with a oneDNN status each (programming model, status values).

Every message has one form: what failed, where (the descriptors at hand), why, a hint at what to do, and the
code of the refusal, of which `restride explain` tells more.
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
# The catalogue of refusals: a page of Markdown, with an entry for each code and the messages below it.
CATALOGUE = os.path.join(os.path.dirname(__file__), "refusals.md")


class LookupType(enum.EnumType):
    """The type of enumerations that are called with a value: what no member can be compared with is none."""

    def __call__(cls, value: Any, *more: Any, **named: Any) -> Any:
        """The member with a value; with more arguments what every enumeration does with them."""
        if more or named:
            return super().__call__(value, *more, **named)
        try:
            return super().__call__(value)
        except Error:
            raise
        except Exception:  # an array's comparison has no truth value, and foreign values raise anything
            raise _no_member(cls.__name__, value) from None


class ValueLookup:
    """The base of enumerations that are called with a value: one that no member has is a wrong argument."""

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
    """The status values of oneDNN (`dnnl_status_t`)."""

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
    """Root of all errors that restride raises (`dnnl::error`).

    `what` names the call that failed, `where` the descriptors or arguments, `why` the reason, `hint` the way
    out. `.code` names the kind of refusal, such as "RS-R10", and stays when the wording changes: `restride
    explain RS-R10` tells more. `.status` is the oneDNN status, `.message` the whole text.
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
        """Forget the frames that the error came through: raised again, it shows the caller's line."""
        self.__traceback__ = None

    def with_context(self, what: str = "", *, where: str = "", hint: str = "") -> Self:
        """The same refusal in the words of the call that met it; what is left out stays."""
        what, where, hint = (
            own if isinstance(new, str) and not new else new
            for new, own in ((what, self.what), (where, self.where), (hint, self.hint))
        )
        return type(self)(what, code=self.code, where=where, why=self.why, hint=hint)

    def retold(self, what: str = "", *, where: str = "", hint: str = "") -> Self:
        """The old name of `with_context`."""
        old_name("Error.retold", "Error.with_context")
        return self.with_context(what, where=where, hint=hint)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.code, self.where, self.why, self.hint)


def raises_at_the_call(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """`function`, whose errors show the line that called it, and not the way to where they were raised."""

    @functools.wraps(function)
    def called(*args: Parameters.args, **named: Parameters.kwargs) -> Result:
        try:
            return function(*args, **named)
        except Error as error:
            error.drop_frames()
            raise

    return called


class RefusalMessage(NamedTuple):
    """One message of the catalogue: the name of its class, and its parts, with fields of `str.format`."""

    kind: str
    what: str
    where: str = ""
    why: str = ""
    hint: str = ""


def refuse(key: str, /, *, error: type[Error] | None = None, **values: object) -> Error:
    """The error that the catalogue has under `key`, its fields filled with `values`; the caller raises it.

    A key is a code, `RS-S05`, or a code and a word where it has several messages, `RS-S05:groups`. `error` is
    a subclass where callers tell this refusal from others by its class. The caller's own error is not hidden
    by another: what cannot be formatted, or read from the catalogue, is told as well as it can be.
    """
    code = key.partition(":")[0]
    try:
        message = _message(key)
    except (OSError, MemoryError, KeyError):  # as where no more files can be opened
        why = ", ".join(f"{name} {_shown(value)}" for name, value in values.items())
        kind = error or RuntimeFailure
        return kind(
            f"refused: {key}", code=code, why=why, hint=f"its text could not be read from {CATALOGUE}"
        )
    kind = error or _KINDS[message.kind]
    what, where, why, hint = (_filled(part, values) for part in message[1:])
    return kind(what, code=code, where=where, why=why, hint=hint)


@functools.cache
def _catalogue() -> str:
    """The text of the catalogue, read when the first error is made."""
    with open(CATALOGUE, encoding="utf-8") as file:
        return file.read()


@functools.cache
def _message(key: str) -> RefusalMessage:
    """The message of a key. Raises KeyError where there is none.

    A message is a line of its key, and of its class where that is not InvalidArguments; then what it says,
    in the form that it has for a reader; then an empty line, or the end of the block.
    """
    text = _catalogue()
    at = max(text.find(f"\n{key}{end}") for end in ("\n", " "))
    if at < 0:
        raise KeyError(key)
    head, what, *rest = text[at + 1 :].partition("\n\n")[0].partition("\n```")[0].split("\n")
    parts = dict(line.strip().split(": ", 1) for line in rest)
    return RefusalMessage(head.partition(" ")[2] or "InvalidArguments", what, **parts)


def messages() -> Mapping[str, RefusalMessage]:
    """All messages of the catalogue by key."""
    blocks = (block.partition("```")[0] for block in _catalogue().split("```text\n")[1:])
    heads = (text.split("\n")[0] for text in "\n".join(blocks).strip().split("\n\n"))
    return {key: _message(key) for key in (head.partition(" ")[0] for head in heads)}


def _filled(template: str, values: Mapping[str, object]) -> str:
    try:
        return template.format_map(values)
    except Exception:
        return template.format_map(_Fields((name, _Field(value)) for name, value in values.items()))


class _Fields(dict[str, "_Field"]):
    """Values by field; a field without one stands for itself."""

    def __missing__(self, name: str) -> _Field:
        return _Field(f"{{{name}}}")


class _Field:
    """A value that is formatted as well as it can be: its `__format__`, or what it is, may raise anything."""

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
    """Raise InvalidArguments where a constructor is called on a value that is made, as its slot says.

    Such a value stands in keys of caches and in what has been compiled: it must not become another.
    """
    if not hasattr(value, slot):
        return
    raise InvalidArguments(
        f"{type(value).__name__}: made already",
        code="RS-V07",
        why="others may hold it, and it must stay what it is",
        hint="make another one",
    )


def _no_member(name: str, value: object) -> InvalidArguments:
    return InvalidArguments(
        f"{name}: there is no member {_shown(value)[:80]!r}",
        code="RS-V04",
        why="no member has this value",
        hint=f"list(rs.onednn.{name}) has all of them",
    )


def _shown(value: object) -> str:
    """A part of a message that is no text: an error tells what is wrong, whatever it was made of."""
    try:
        return "" if value is None else str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _rebuild(cls: type[Error], what: str, code: str, where: str, why: str, hint: str) -> Error:
    return cls(what, code=code, where=where, why=why, hint=hint)


class InvalidArguments(Error, ValueError):
    """An argument is wrong; nothing was run (`invalid_arguments`)."""

    status = Status.invalid_arguments


class Unimplemented(Error, NotImplementedError):
    """The arguments are legal but this combination is not provided (`unimplemented`)."""

    status = Status.unimplemented


class OutOfMemory(Error, MemoryError):
    """The system refused the memory (`out_of_memory`)."""

    status = Status.out_of_memory


class RuntimeFailure(Error, RuntimeError):
    """Something outside the arguments failed: a file, a device, a compiler (`runtime_error`)."""

    status = Status.runtime_error


_KINDS = {
    kind.__name__: kind for kind in (Error, InvalidArguments, Unimplemented, OutOfMemory, RuntimeFailure)
}
