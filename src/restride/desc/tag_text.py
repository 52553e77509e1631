"""Splits a tag string into letters and blocks, with errors that point into it (reliability row 1)."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import Error, refuse
from .tag_names import tag_hint

_WINDOW = 60
_WHERE_INDENT = len("  where: ")
_DIGITS = frozenset("0123456789")
_AT = "@"


class Block(NamedTuple):
    """One inner block: lower-case axis letter, size, position of the letter in the text, and the step if one
    is written.
    """

    letter: str
    size: int
    at: int
    step: int | None = None


class Scan(NamedTuple):
    """The parts of a tag: outer letters as written, then inner blocks from outer to inner."""

    outer: str
    blocks: tuple[Block, ...]


def scan(text: str) -> Scan:
    """Split `text` into outer letters and inner blocks, without interpreting the letters."""
    split = next((i for i, char in enumerate(text) if char in _DIGITS), len(text))
    for i, char in enumerate(text):
        if not (char.isascii() and char.isalnum()) and (char != _AT or i < split):
            raise bad_tag(text, i, "a tag consists of letters, block sizes and steps")
    if split == 0:
        raise bad_tag(text, 0, "a tag starts with the letters of its axes" if text else "the tag is empty")
    return Scan(text[:split], tuple(_blocks(text, split)))


def _blocks(text: str, start: int) -> list[Block]:
    blocks = []
    at = start
    for i in range(start, len(text)):
        if text[i] in _DIGITS or text[i] == _AT:
            continue
        if i == at:
            raise bad_tag(
                text, i, "an outer letter cannot follow a block; every block is a size and then a letter"
            )
        size, has_step, step = text[at:i].partition(_AT)
        if not size or (has_step and not step) or _AT in step:
            raise bad_tag(text, at, "a block is a size, optionally @ and a step, and then a letter: 32@1b")
        blocks.append(Block(text[i].lower(), int(size), i, int(step) if has_step else None))
        at = i + 1
    if at < len(text):
        raise bad_tag(text, len(text), f"block size {text[at : at + 12]} lacks its axis letter")
    return blocks


def bad_tag(text: str, at: int, why: str) -> Error:
    """Return the error for an invalid tag: text, caret under character `at`, reason, nearest tag."""
    first = max(0, at - _WINDOW // 2) if len(text) > _WINDOW else 0
    excerpt = "".join(c if c.isascii() and c.isprintable() else "?" for c in text[first : first + _WINDOW])
    caret = " " * (_WHERE_INDENT + at - first) + "^"
    return refuse(
        "RS-M11:bad-format-tag",
        shown=excerpt,
        count=f" of {len(text)} characters" if len(text) > _WINDOW else "",
        shown2=f"{excerpt}\n{caret}",
        why=why,
        advice=tag_hint(text),
    )
