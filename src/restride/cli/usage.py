"""The command line as typed: options, dims and names, and the errors for wrong ones (exit status 2)."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from ..desc.parse import parse_dims
from ..desc.tags import FormatTag
from ..dtypes import DataType
from ..errors import Error, InvalidArguments, refuse

_T = TypeVar("_T")
_MAX_SHAPE = 300
_WHERE_INDENT = len("  where: ")


class UsageError(Exception):
    """The command line itself is wrong, regardless of file contents; `.error` has the reason and a hint."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.message)
        self.error = error


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors have restride's form, and which accepts no abbreviations."""

    def __init__(self, prog: str, description: str | None, epilog: str = "") -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.add_argument("--json", action="store_true", help="print one JSON object instead of text")

    def error(self, message: str) -> NoReturn:
        """Raise UsageError instead of printing and exiting."""
        usage = " ".join(self.format_usage().removeprefix("usage: ").split())
        raise wrong_usage(f"{self.prog}: {message}", why=f"usage: {usage}", hint=f"see {self.prog} --help")


def wrong_usage(what: str, *, where: str = "", why: str = "", hint: str = "") -> UsageError:
    """Return the usage error with these parts."""
    return UsageError(InvalidArguments(what, code="RS-C01", where=where, why=why, hint=hint))


def checked(parse: Callable[[str], _T]) -> Callable[[str], _T]:
    """Turn `parse` into an argument type: its errors become UsageError and keep their text."""

    def parse_argument(text: str) -> _T:
        return typed(parse, text)

    return parse_argument


def typed(parse: Callable[..., _T], *args: Any) -> _T:
    """Return `parse(*args)`; its errors are those of the command line."""
    try:
        return parse(*args)
    except Error as error:
        raise UsageError(error) from None


def parse_format(text: str) -> str:
    """Parse a format tag or alias. Raises InvalidArguments with a caret under the error."""
    if FormatTag.parse(text) in (FormatTag.any, FormatTag.undef):
        raise refuse("RS-M30:format", text=text)
    return text


def parse_data_type(text: str) -> DataType:
    """Parse the name of a data type that has elements."""
    data_type = DataType.parse(text)
    if data_type is not DataType.undef:
        return data_type
    raise refuse("RS-M04:elements-need-type")


def parse_shape(text: str) -> tuple[int, ...]:
    """Parse dims such as `1x17x2x2`. Raises InvalidArguments with a caret under the error."""
    if len(text) > _MAX_SHAPE:
        raise refuse("RS-C01:dims-characters", count=len(text), max_shape=_MAX_SHAPE)
    at = 0
    sizes = []
    for part in text.split("x"):
        if not (part.isascii() and part.isdecimal()):
            raise _bad_shape(text, at + _first_strange(part), part)
        sizes.append(int(part))
        at += len(part) + 1
    return parse_dims(sizes)


def _first_strange(part: str) -> int:
    return next((i for i, char in enumerate(part) if not (char.isascii() and char.isdecimal())), len(part))


def _bad_shape(text: str, at: int, part: str) -> Error:
    printable = "".join(char if char.isascii() and char.isprintable() else "?" for char in text)
    return refuse(
        "RS-C01:dim-missing" if not part else "RS-C01:dim-whole-number",
        shown=printable,
        shown2=f"{printable}\n{' ' * (_WHERE_INDENT + at)}^",
    )
