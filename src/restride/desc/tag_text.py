"""The letters of format tags: what aliases mean, and reading a tag string (spec 2.1; M11, M12).

Domain names order their letters canonically: activations n, c, then d, h, w; weights o, i, then d, h, w;
grouped weights g, o, i, then d, h, w; recurrent data t, n, c; recurrent states and weights l, d, then n, c or
i, g, o. The axis of a letter is its place in the canonical order of the letters present. This rule gives
every alias of oneDNN but six.
"""

from __future__ import annotations

from typing import NamedTuple

from ..errors import InvalidArguments
from ..nearest import nearest

# --- aliases -----------------------------------------------------------------
# Alias letters and what they mean: `nChw16c` → `aBcd16b` (spec 2.1; M11, M12).

LETTERS = "abcdefghijkl"
"""The letter of each axis in a base tag; a descriptor has at most 12 axes."""

_SPATIAL = ("", "w", "hw", "dhw")
_CANONICAL = (
    *("nc" + rest for rest in _SPATIAL),
    *("oi" + rest for rest in _SPATIAL),
    *("goi" + rest for rest in _SPATIAL if rest),
    "tn",
    "tnc",
    "ldnc",
    "ldio",
    "ldgo",
    "ldigo",
)
_AXES_BY_LETTERS = {frozenset(order): {letter: i for i, letter in enumerate(order)} for order in _CANONICAL}

IRREGULAR = {
    "OhwI24o": "Acdb24a",
    "OhwI32o": "Acdb32a",
    "gOhwI24o": "aBdec24b",
    "gOhwI32o": "aBdec32b",
    "gIOhw2i8o16i2o": "aBCde2c8b16c2b",
    "gIOdhw2i8o16i2o": "aBCdef2c8b16c2b",
}
"""The six aliases whose oneDNN meaning is not what their letters say."""

PLAIN_ALIASES = (
    *("x", "nc", "cn", "tn", "nt", "oi", "io"),
    *("ncw", "nwc", "oiw", "owi", "wio", "iwo", "tnc", "ntc"),
    *("nchw", "nhwc", "chwn", "oihw", "hwio", "ohwi", "ihwo", "iohw", "goiw", "wigo"),
    *("ldnc", "ldio", "ldoi", "ldgo"),
    *("ncdhw", "ndhwc", "oidhw", "dhwio", "odhwi", "idhwo", "goihw", "hwigo", "giohw", "ldigo", "ldgoi"),
    *("goidhw", "giodhw", "dhwigo"),
)
"""The 43 aliases of the seed document, by name."""

_ACTIVATIONS = tuple(f"nC{rest}{block}c" for rest in ("w", "hw", "dhw") for block in (4, 8, 16, 32))
_WEIGHTS = ("OIhw8i8o", "OIhw16i16o", "OIhw16o16i", "OIhw4i16o4i", "Ohwi8o", "Ohwi16o", "Oihw16o", "Goihw16g")
_BASES = (
    "abcd",
    "acdb",
    "bcda",
    "aBc16b",
    "aBcd4b",
    "aBcd8b",
    "aBcd16b",
    "aBcde16b",
    "ABcd16b16a",
    "ABcd16a16b",
)
_GENERIC = ("abx", "axb", "xba", "aBx8b", "aBx16b", "abxc", "xcab", "any")
WELL_KNOWN = (*PLAIN_ALIASES, *_ACTIVATIONS, *_WEIGHTS, *_BASES, *_GENERIC)
"""Names that a mistyped tag is compared with."""


def axes_of_letters(letters: str) -> dict[str, int] | None:
    """Axis of each lower-case alias letter, or None where the set of letters is no known domain.

    `axes_of_letters("nhwc")` → `{"n": 0, "c": 1, "h": 2, "w": 3}`.
    """
    return _AXES_BY_LETTERS.get(frozenset(letters))


# --- reading a tag -----------------------------------------------------------
# Reading a tag string into letters and blocks, and the error that points into it (reliability row 1).

_WINDOW = 60
_WHERE_INDENT = len("  where: ")
_DIGITS = frozenset("0123456789")
_FOLDED = {name.lower(): name for name in WELL_KNOWN}


class Block(NamedTuple):
    """One inner block: lower-case axis letter, size, place of the letter in the text."""

    letter: str
    size: int
    at: int


class Scan(NamedTuple):
    """The parts of a tag: outer letters as written, then inner blocks from outer to inner."""

    outer: str
    blocks: tuple[Block, ...]


def scan(text: str) -> Scan:
    """Split `text` into outer letters and inner blocks, whatever the letters mean."""
    split = next((i for i, char in enumerate(text) if char in _DIGITS), len(text))
    for i, char in enumerate(text):
        if not (char.isascii() and char.isalnum()):
            raise bad_tag(text, i, "a tag has only letters and block sizes")
    if split == 0:
        raise bad_tag(text, 0, "a tag starts with the letters of its axes" if text else "the tag is empty")
    return Scan(text[:split], tuple(_blocks(text, split)))


def _blocks(text: str, start: int) -> list[Block]:
    blocks = []
    at = start
    for i in range(start, len(text)):
        if text[i] in _DIGITS:
            continue
        if i == at:
            raise bad_tag(
                text, i, "an outer letter cannot follow a block; every block is a size and then a letter"
            )
        blocks.append(Block(text[i].lower(), int(text[at:i]), i))
        at = i + 1
    if at < len(text):
        raise bad_tag(text, len(text), f"block size {text[at : at + 12]} lacks its axis letter")
    return blocks


def bad_tag(text: str, at: int, why: str) -> InvalidArguments:
    """The error for a bad tag: its text, a caret under character `at`, the reason, the nearest tag."""
    first = max(0, at - _WINDOW // 2) if len(text) > _WINDOW else 0
    shown = "".join(c if c.isascii() and c.isprintable() else "?" for c in text[first : first + _WINDOW])
    size = f" of {len(text)} characters" if len(text) > _WINDOW else ""
    caret = " " * (_WHERE_INDENT + at - first) + "^"
    return InvalidArguments(
        f"bad format tag {shown!r}{size}", code="RS-M11", where=f"{shown}\n{caret}", why=why, hint=_hint(text)
    )


def _hint(text: str) -> str:
    """The well-known tag nearest to `text`, or the shape of a tag where nothing is near."""
    folded = text[:_WINDOW].lower()
    near = [name for name in _FOLDED if abs(len(name) - len(folded)) <= 2 and name[0] in folded]
    match = nearest(folded, near, cutoff=0.5) if len(text) <= _WINDOW else ""
    if match:
        return f"did you mean '{_FOLDED[match]}'?"
    return "a tag looks like 'nchw', 'acdb', 'nChw16c' or 'aBx16b'"
