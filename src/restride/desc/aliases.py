"""Alias letters and what they mean: `nChw16c` → `aBcd16b` (spec 2.1; M11, M12).

Domain names order their letters canonically: activations n, c, then d, h, w; weights o, i, then d, h, w;
grouped weights g, o, i, then d, h, w; recurrent data t, n, c; recurrent states and weights l, d, then n, c or
i, g, o. The axis of a letter is its place in the canonical order of the letters present. This rule gives
every alias of oneDNN but six.
"""

from __future__ import annotations

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
