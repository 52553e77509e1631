"""Schedules as values: the transforms applied to loops, in order.

    schedule  := transform (separator transform)*       separator: " · ", ";" or a new line
    transform := [loop "."] name "(" [argument ("," argument)*] ")"
    argument  := integer | word                         word: letters, digits, "_", ".", "/", "@"

`split(c, 16) · reorder(n, h, w, c/16, c/1) · vectorize(c/1, 16)` is such a text. `loop` is the number of the
loop that a transform applies to, counted from 0 in the order in which loops begin; 0 is not written. In a
program of several kernels, `kernel(n)` precedes the transforms of kernel number n; kernels that are not named
keep the default choices. Text after a `#` is a comment. The transforms are documented where loops of that
kind are scheduled: `trees/transforms.py`, `moves/transforms.py`.

A text is parsed, never executed, in one pass, however long it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NoReturn

from ..errors import refuse

Argument = int | str

BY_SCHEDULE = "as the schedule says"
"""Why a kernel has tiles that were not chosen."""

_SEPARATORS = "·;\n"
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./@")
# Longer texts are rejected.
_MOST_CHARACTERS = 1 << 16


@dataclass(frozen=True, slots=True)
class Transform:
    """One transform: its name, its arguments, and the number of the loop that it applies to."""

    name: str
    args: tuple[Argument, ...] = ()
    loop: int = 0

    def __str__(self) -> str:
        loop = f"{self.loop}." if self.loop else ""
        return f"{loop}{self.name}({', '.join(map(str, self.args))})"


Schedule = tuple[Transform, ...]
"""The transforms of a schedule, in order."""


def schedule_text(schedule: Iterable[Transform]) -> str:
    """Return a schedule as one line, which `parse_schedule` reads."""
    return " · ".join(map(str, schedule))


def check_known(transform: Transform, names: Iterable[str]) -> None:
    """Raise InvalidArguments for an unknown transform."""
    known = tuple(names)
    if transform.name not in known:
        raise refuse("RS-V09:no-transform", transform=transform, name=transform.name, names=", ".join(known))


def parse_schedule(text: str) -> Schedule:
    """Parse a schedule. Raises InvalidArguments, with the position, for invalid text."""
    if len(text) > _MOST_CHARACTERS:
        raise refuse("RS-V09:schedule-too-long", length=len(text), most=_MOST_CHARACTERS)
    reader = _TransformReader(text)
    found: list[Transform] = []
    while reader.skip(_is_between).skip_comment().skip(_is_between).peek():
        if reader.peek() == "#":
            continue
        found.append(reader.transform())
        if reader.skip(_is_space).peek() and reader.peek() not in f"#{_SEPARATORS}":
            reader.fail("a separator (·, ; or a new line)")
    return tuple(found)


def _is_space(character: str) -> bool:
    return character.isspace() and character != "\n"


def _is_between(character: str) -> bool:
    return character.isspace() or character in _SEPARATORS


class _TransformReader:
    """A text and the position up to which it has been read."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def peek(self) -> str:
        """Return the next character; empty at the end."""
        return self.text[self.at : self.at + 1]

    def skip(self, is_skipped: Callable[[str], bool]) -> _TransformReader:
        """Advance to the next character of another kind."""
        while self.peek() and is_skipped(self.peek()):
            self.at += 1
        return self

    def skip_comment(self) -> _TransformReader:
        """Advance past a comment to the end of the line."""
        return self.skip(lambda character: character != "\n") if self.peek() == "#" else self

    def word(self, expected: str) -> str:
        """Read the characters of a word; rejects anything else."""
        begin = self.skip(_is_space).at
        while self.peek() and self.peek() in _WORD:
            self.at += 1
        if self.at == begin:
            self.fail(expected)
        return self.text[begin : self.at]

    def take(self, character: str) -> None:
        """Read this character, which must follow."""
        if self.skip(_is_space).peek() != character:
            self.fail(f"{character!r}")
        self.at += 1

    def transform(self) -> Transform:
        """Read a transform, from its first character on."""
        loop, dot, name = self.word("the name of a transform").rpartition(".")
        if not name.isidentifier() or (dot and not _is_number(loop)):
            self.fail("the name of a transform, or a loop's number, a dot and the name")
        self.take("(")
        args: list[Argument] = []
        while self.skip(_is_space).peek() != ")":
            if args:
                self.take(",")
            word = self.word("an argument or ')'")
            args.append(int(word) if _is_number(word) else word)
        self.take(")")
        return Transform(name, tuple(args), int(loop) if dot else 0)

    def fail(self, expected: str) -> NoReturn:
        """Reject the text, with the position."""
        line = self.text.count("\n", 0, self.at) + 1
        begin = self.text.rfind("\n", 0, self.at) + 1
        shown = self.text[begin:].partition("\n")[0]
        raise refuse(
            "RS-V09:bad-schedule",
            expected=expected,
            line=line,
            column=self.at - begin + 1,
            text=shown if len(shown) <= 80 else shown[:77] + "...",
            found=repr(self.peek()) if self.peek() else "the end",
        )


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 19
