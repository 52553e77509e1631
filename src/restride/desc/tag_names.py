"""The letters and names of format tags, and suggestions for tags that cannot be read.

Each domain has a canonical order of letters: activations n or b, c, then d, h, w, also without a batch;
videos n, c, t, h, w; sequences n, c, l; weights o, i, then d, h, w; grouped weights g, o, i, then d, h, w;
recurrent data t, n, c; recurrent states and weights l, d, then n, c or i, g, o. The axis of a letter is its
position in the canonical order of the letters present. This rule gives all but six of oneDNN's aliases.

Similarity alone would suggest `hwio` for `hwc`: if the number of axes is known, only tags of that rank are
suggested. A pattern in the style of einops is answered with the tag of that memory order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..dtypes import DataType
from ..errors import InvalidArguments
from ..nearest import equally_near, nearest

LETTERS = "abcdefghijkl"
"""The letter of each axis in a base tag; a descriptor has at most 12 axes."""

ALIAS_LETTERS = "nbctoigldhw"
"""The letters used in aliases."""

_SPATIAL = ("", "w", "hw", "dhw")
# Images and sequences without a batch; videos, with time in place of depth, and sequences; and a batch named
# `b` as in einops, only together with spatial axes, because `b` is the second axis of a base tag.
_WITHOUT_BATCH = ("hw", "dhw", "nhw", *("c" + rest for rest in (*_SPATIAL[1:], "thw", "l")))
_WITH_TIME = ("ncthw", "ncl")
_WITH_B = (*("bc" + rest for rest in (*_SPATIAL[1:], "thw", "l")), "bhw")
CANONICAL = (
    *("nc" + rest for rest in _SPATIAL),
    *("oi" + rest for rest in _SPATIAL),
    *("goi" + rest for rest in _SPATIAL if rest),
    "tn",
    "tnc",
    "ldnc",
    "ldio",
    "ldgo",
    "ldigo",
    *_WITHOUT_BATCH,
    *_WITH_TIME,
    *_WITH_B,
)
"""The letters of each domain in the order of their axes."""
_AXES_BY_LETTERS = {frozenset(order): {letter: i for i, letter in enumerate(order)} for order in CANONICAL}

IRREGULAR = {
    "OhwI24o": "Acdb24a",
    "OhwI32o": "Acdb32a",
    "gOhwI24o": "aBdec24b",
    "gOhwI32o": "aBdec32b",
    "gIOhw2i8o16i2o": "aBCde2c8b16c2b",
    "gIOdhw2i8o16i2o": "aBCdef2c8b16c2b",
}
"""The six aliases whose meaning in oneDNN does not follow from their letters."""

WORDS = {
    "channels_last": "axb",
    "channels_first": "abx",
    "channels_last_3d": "acdeb",
    "contiguous_format": "abx",
}
"""Formats under the names of torch and Keras, as tags."""


def axes_of_letters(letters: str) -> dict[str, int] | None:
    """Return the axis of each lower-case alias letter, or None if the letters are not a known domain.

    `axes_of_letters("nhwc")` → `{"n": 0, "c": 1, "h": 2, "w": 3}`.
    """
    return _AXES_BY_LETTERS.get(frozenset(letters))


# --- well-known names ---------------------------------------------------------------------------------------

PLAIN_ALIASES = (
    *("x", "nc", "cn", "tn", "nt", "oi", "io"),
    *("ncw", "nwc", "oiw", "owi", "wio", "iwo", "tnc", "ntc"),
    *("nchw", "nhwc", "chwn", "oihw", "hwio", "ohwi", "ihwo", "iohw", "goiw", "wigo"),
    *("ldnc", "ldio", "ldoi", "ldgo"),
    *("ncdhw", "ndhwc", "oidhw", "dhwio", "odhwi", "idhwo", "goihw", "hwigo", "giohw", "ldigo", "ldgoi"),
    *("goidhw", "giodhw", "dhwigo"),
)
"""oneDNN's 43 aliases, by name."""

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
_IMAGES = ("hwc", "chw", "nthwc", "ncthw", "ntchw", "nlc", "bchw", "bhwc")
WELL_KNOWN = (*PLAIN_ALIASES, *_IMAGES, *_ACTIVATIONS, *_WEIGHTS, *_BASES, *_GENERIC)
"""Names that a mistyped tag is compared with."""


# --- suggestions --------------------------------------------------------------------------------------------

_LONGEST = 60
_FOLDED = {name.lower(): name for name in WELL_KNOWN}
_SHAPE = "a tag looks like 'nchw', 'acdb', 'nChw16c' or 'aBx16b'"
_SEPARATORS = str.maketrans("", "", " ,_-")
_REST = "..."
_SIZE = re.compile("[1-9][0-9]{0,8}")


def tag_hint(text: str, ndims: int | None = None) -> str:
    """Suggest the tag to write instead of `text`: for a tensor of `ndims` axes, only tags of that rank."""
    if "->" in text:
        return _pattern_hint(text)
    kind = _type_of_name(text)
    if kind is not None:
        return f"{str(kind)!r} is a data type: pass it as dtype"
    names = _cut_short(text) or _nearest_names(text, ndims) if len(text) <= _LONGEST else ()
    return f"did you mean {' or '.join(map(repr, names))}?" if names else _SHAPE


def suggest_format(error: InvalidArguments, value: object, place: str) -> InvalidArguments:
    """Add to the error about a data type, if it is the name of a format, which argument takes that."""
    is_format = isinstance(value, str) and value.lower().translate(_SEPARATORS) in _FOLDED
    return error.with_context(hint=f"{value!r} is a format: pass it as {place}") if is_format else error


def _type_of_name(text: str) -> DataType | None:
    """Return the data type that was passed in place of a format."""
    try:
        return DataType.parse(text)
    except InvalidArguments:
        return None


def _cut_short(text: str) -> Sequence[str]:
    """The tag whose last letter is left out, where one axis alone is blocked and has no block: `OIhw16o4`."""
    blocked = [c.lower() for c in text if c.isupper()]
    missing = [letter for letter in blocked if not re.search(rf"\d{letter}", text)]
    return (text + missing[0],) if re.fullmatch(r"[A-Za-z]+\w*\d", text) and len(missing) == 1 else ()


def _nearest_names(text: str, ndims: int | None) -> Sequence[str]:
    """Return the word or the well-known tags most similar to `text`; two if they are equally similar."""
    words = [word for word in WORDS if ndims in (None, 5) or word != "channels_last_3d"]
    if word := nearest(text.lower(), words, cutoff=0.7):
        return (word,)
    folded = text.lower().translate(_SEPARATORS)
    near = [name for name in _FOLDED if _is_near(name, folded, ndims)]
    return [_FOLDED[name] for name in equally_near(folded, near, cutoff=0.5)[:2]]


def _is_near(name: str, word: str, ndims: int | None) -> bool:
    if abs(len(name) - len(word)) > 2 or ("b" in name and "b" not in word):
        return False
    letters = set(name)
    return len(letters & set(word)) * 2 >= len(letters) and ndims in (None, _rank(name))


def _rank(name: str) -> int:
    """Return the number of axes of a lower-case tag; 0 for rank-generic ones."""
    outer = next((i for i, char in enumerate(name) if char.isdigit()), len(name))
    return 0 if "x" in name[:outer] or name == "any" else outer


def _pattern_hint(text: str) -> str:
    """Suggest the tag for a pattern of axes such as "n c h w -> n h w c"."""
    left, right = _spread(*(side.strip() for side in text.split("->", 1)))
    axes, after = list(_groups(left)), right.split()
    outer = [parts[0] for parts in axes]
    blocked = {parts[1]: d for d, parts in enumerate(axes) if len(parts) == 2}
    inner = after[len(outer) :]
    is_order = sorted(after[: len(outer)]) == sorted(outer) and sorted(inner) == sorted(blocked)
    # Axes that are not named come after all others, like those of the `x` in a tag.
    is_open = _REST in after
    is_told = not is_open or (outer[-1:] == [_REST] and len(outer) > 1)
    if not (is_order and is_told) or len(set(after)) < len(after) or not 1 <= len(axes) <= len(LETTERS):
        return f"dims stay as they are: name the axes outermost first, as memory holds them. {_SHAPE}"
    order = [outer.index(name) for name in after[: len(outer)]]
    places = axes_of_letters("".join(outer))
    if not blocked and places is not None and [places.get(name) for name in after] == order:
        return f"write {''.join(after)!r}"
    letters = [*LETTERS[: len(outer) - is_open], *("x" if is_open else "")]
    upper = [letters[d].upper() if d in blocked.values() else letters[d] for d in order]
    sizes = "".join(f"{name if _SIZE.fullmatch(name) else 16}{letters[blocked[name]]}" for name in inner)
    names = [name for name in inner if not _SIZE.fullmatch(name)]
    sized = "size" if len(names) == 1 else "sizes"
    more = f", with the {sized} of {' and '.join(names)} in place of 16" if names else ""
    return f"write {''.join(upper) + sizes!r}{more}"


def _spread(left: str, right: str) -> tuple[str, str]:
    """Insert spaces between the axes of both sides if each is a word of the same letters: "nchw->nhwc"."""
    if left.isalpha() and len(left) > 1 and sorted(left) == sorted(right):
        return " ".join(left), " ".join(right)
    return left, right


def _groups(text: str) -> Iterator[list[str]]:
    """Yield the axes of one side of a pattern: each a name, or the names in a pair of parentheses."""
    for part in re.findall(r"\(([^()]*)\)|([^\s()]+)", text[:_LONGEST]):
        yield part[0].split() or [part[1]]
