"""The rows of the standing suite: what is measured for every version."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from .problem import PeerArithmetic, PeerProblem

LARGE = 64_000_000  # bytes moved from which a row counts as large

_TYPES = ("f32", "bf16", "f16", "s8", "u8")
_TAGS = {
    "nchw": "abcd",
    "nhwc": "acdb",
    "nChw16c": "aBcd16b",
    "nChw8c": "aBcd8b",
    "OIhw": "abcd",
    "OIhw16i16o": "ABcd16b16a",
    "OIhw8i16o2i": "ABcd8b16a2b",
    "OIhw4i16o4i": "ABcd4b16a4b",
}
_ACTIVATIONS = ((8, 64, 112, 112), (8, 256, 56, 56))
_LAYOUTS = (
    ("nchw", "nhwc"),
    ("nhwc", "nchw"),
    ("nchw", "nChw16c"),
    ("nhwc", "nChw16c"),
    ("nChw16c", "nChw8c"),
    ("nChw16c", "nchw"),
    ("nChw8c", "nhwc"),
)
_WEIGHTS = (("f32", "OIhw16i16o"), ("bf16", "OIhw8i16o2i"), ("s8", "OIhw4i16o4i"))
_MATMUL = (("f32", "BA16a64b"), ("bf16", "BA16a64b2a"), ("s8", "BA16a64b4a"))
_IMAGES = (("u8", "nhwc", "f32", "nchw"), ("f32", "nchw", "u8", "nhwc"), ("u8", "nhwc", "u8", "nchw"))
_CONVERSIONS = (
    ("f32", "nchw", "s8", "nchw", 0.75),
    ("f32", "nchw", "s8", "nhwc", 0.75),
    ("f32", "nchw", "u8", "nChw16c", 0.75),
    ("s8", "nchw", "f32", "nchw", 0.125),
    ("s8", "nhwc", "f32", "nchw", 0.125),
    ("f32", "nchw", "bf16", "nchw", None),
    ("f32", "nchw", "bf16", "nChw16c", None),
    ("bf16", "nChw16c", "f32", "nchw", None),
    ("f32", "nchw", "f16", "nhwc", None),
    ("f32", "nchw", "f8_e4m3", "nchw", None),
    ("f8_e4m3", "nhwc", "bf16", "nchw", None),
)
# Types of 8 and of 64 bits, which peers convert through others, or element by element.
_UNCOMMON = (
    ("f64", "nchw", "f32", "nhwc"),
    ("f64", "nchw", "bf16", "nhwc"),
    ("f64", "nchw", "s8", "nhwc"),
    ("f32", "nchw", "f8_e5m2", "nhwc"),
    ("bf16", "nhwc", "f8_e4m3", "nchw"),
    ("f8_e4m3", "nhwc", "f32", "nchw"),
    ("f8_e5m2", "nchw", "f8_e4m3", "nhwc"),
    ("s8", "nchw", "f8_e4m3", "nhwc"),
)
# With a layout change; and without, which is a copy that computes.
_QUANTISED = (
    ("f32", "nchw", "s8", "nhwc", 0.75, 0),
    ("f32", "nchw", "u8", "nChw16c", 0.75, 128),
    ("bf16", "nhwc", "s8", "nchw", 0.75, 0),
    ("s8", "nhwc", "f32", "nchw", 0.125, 0),
    ("u8", "nchw", "f32", "nhwc", 0.125, 128),
)
_QUANTISED_AS_IT_LIES = (
    ("f32", "nchw", "s8", "nchw", 0.75, 0),
    ("f32", "nhwc", "u8", "nhwc", 0.75, 128),
    ("u8", "nhwc", "bf16", "nhwc", 0.125, 128),
)
_APART = (
    ("f32", "nchw", "f32", "nhwc", PeerArithmetic(beta=0.5)),
    ("f32", "nchw", "s8", "nhwc", PeerArithmetic(0.75, 1, dst_axis=0)),
    ("u8", "nchw", "u8", "nhwc", PeerArithmetic(zero_point=3)),
    ("f16", "nchw", "s8", "nhwc", PeerArithmetic(0.75)),
)
_TAILS = (
    ("f32", "nchw", "nChw16c"),
    ("f32", "nChw16c", "nchw"),
    ("f32", "nchw", "nhwc"),
    ("bf16", "nchw", "nChw16c"),
    ("u8", "nchw", "nChw16c"),
    ("u8", "nhwc", "nchw"),
)
# Channels and spatial extents of networks that shuffle; the group size, which cuts blocks or does not.
_SHUFFLES = (
    ((64, 244, 28, 28), 2),
    ((128, 352, 14, 14), 8),
    ((256, 464, 7, 7), 2),
    ((64, 48, 28, 28), 16),
    ((64, 246, 28, 28), 3),
)
# One row of each: patterns of labels.
_QUICK = (
    "^f32 nchw→nhwc .*x56x56 layout",
    "^f32 nhwc→nchw .*x56x56 layout",
    "^f32 nchw→nChw16c .*x56x56 layout",
    "^bf16 ab→BA.* small weights",
    "^u8 nchw→nhwc .*x56x56 layout",
    "^bf16 nhwc→nChw16c .*x56x56 layout",
    "^f32→bf16 nchw→nChw16c ",
    "^f32→s8 nchw→nhwc .* quantise",
    "^s8→f32 nhwc→nchw ",
    "^s8 OIhw→OIhw4i16o4i .* weights",
    "^f32 nchw→nChw16c .* tails",
    "^shuffle f32 nchw ",
)
# Where networks live: 64 KB to 16 MB moved.
_CACHED = ((1, 256, 14, 14), (4, 64, 56, 56))
_CACHED_SHUFFLES = (((4, 144, 56, 56), 12), ((8, 244, 14, 14), 2))
_SHUFFLED_TYPES = ("f32", "bf16", "u8")
_SHUFFLED = ("nchw", "nhwc", "nChw16c", "nChw8c")


def suite(*, least: int = LARGE) -> list[PeerProblem]:
    """Every row, its first extent doubled until it moves `least` bytes; those in the caches as they are."""
    computed = [*_conversions(), *_uncommon(), *_quantised(), *_apart()]
    grown = [*_moves(), *computed, *_tails(), *_weights("weights"), *_shuffles()]
    return [*(row.of_at_least(least) for row in grown), *_in_caches(), *_weights("small weights")]


def quick(rows: Sequence[PeerProblem]) -> list[PeerProblem]:
    """A dozen of the rows: each group, and what a network does most."""
    return list(dict.fromkeys(row for pattern in _QUICK for row in select(rows, pattern)[:1]))


def select(rows: Sequence[PeerProblem], pattern: str) -> list[PeerProblem]:
    """The rows whose label, group or name the regular expression finds."""
    wanted = re.compile(pattern)
    return [row for row in rows if wanted.search(f"{row.label} {row.group}")]


def _moves() -> list[PeerProblem]:
    activations = [
        _problem("layout", data_type, src, data_type, dst, dims)
        for data_type in _TYPES
        for dims in _ACTIVATIONS
        for src, dst in _LAYOUTS
    ]
    doubles = _problem("layout", "f64", "nchw", "f64", "nhwc", _ACTIVATIONS[0])
    return [*activations, doubles, *(_problem("layout", t, "ab", t, "ba", (4096, 4096)) for t in _TYPES)]


def _weights(group: str) -> list[PeerProblem]:
    convolution = [_problem(group, t, "OIhw", t, tag, (512, 512, 3, 3)) for t, tag in _WEIGHTS]
    return [*convolution, *(_problem(group, t, "ab", t, tag, (1024, 1024)) for t, tag in _MATMUL)]


def _in_caches() -> list[PeerProblem]:
    moves = [
        _problem("in the caches", data_type, src, data_type, dst, dims)
        for data_type in _TYPES
        for dims in _CACHED
        for src, dst in _LAYOUTS
    ]
    shuffles = [
        _shuffle("shuffles in the caches", data_type, dims, group_size, tag)
        for data_type in _SHUFFLED_TYPES
        for dims, group_size in _CACHED_SHUFFLES
        for tag in _SHUFFLED
    ]
    images, activations = (4, 3, 224, 224), (4, 64, 56, 56)
    return [*moves, *_conversions("types in the caches", images, activations), *shuffles]


def _conversions(
    group: str = "convert",
    pictures: tuple[int, ...] = (8, 3, 224, 224),
    activations: tuple[int, ...] = (8, 256, 56, 56),
) -> list[PeerProblem]:
    images = [_problem(group, *row, pictures) for row in _IMAGES]
    return images + [
        replace(_problem(group, s, src, d, dst, activations), arithmetic=PeerArithmetic(scale))
        for s, src, d, dst, scale in _CONVERSIONS
    ]


def _uncommon() -> list[PeerProblem]:
    return [_problem("uncommon types", *row, (8, 256, 56, 56)) for row in _UNCOMMON]


def _quantised() -> list[PeerProblem]:
    """One scale for all and one per channel, along the vectorised dim and along another, zero points, weights
    per output.
    """
    dims, weights, blocked = (8, 256, 56, 56), (512, 512, 3, 3), "OIhw4i16o4i"
    moved = [
        _computed("quantise", s, src, d, dst, dims, PeerArithmetic(scale, axis, zero_point))
        for axis in (None, 1)
        for s, src, d, dst, scale, zero_point in _QUANTISED
    ]
    moved += [
        _computed("quantise", "f32", "OIhw", "s8", blocked, weights, PeerArithmetic(0.75, axis))
        for axis in (None, 0)
    ]
    lying = [
        _computed("quantise as it lies", s, src, d, dst, dims, PeerArithmetic(scale, axis, zero_point))
        for axis in (None, 1)
        for s, src, d, dst, scale, zero_point in _QUANTISED_AS_IT_LIES
    ]
    return [*moved, *lying]


def _apart() -> list[PeerProblem]:
    """What oneDNN does element by element."""
    made = [_computed("apart", s, src, d, dst, (8, 256, 56, 56), given) for s, src, d, dst, given in _APART]
    window = _computed("apart", "f32", "nchw", "f32", "nhwc", (8, 256, 56, 56), PeerArithmetic())
    blocks = _problem("apart", "f32", "aBcd32b", "f32", "aBcd48b", (8, 288, 56, 56))
    return [*made, blocks, replace(window, name=f"{window.name} of a window", margin=(0, 4, 1, 3))]


def _computed(
    group: str, s: str, src: str, d: str, dst: str, dims: tuple[int, ...], given: PeerArithmetic
) -> PeerProblem:
    row = replace(_problem(group, s, src, d, dst, dims), arithmetic=given)
    return replace(row, name=f"{row.name} {given}".strip())


def _tails() -> list[PeerProblem]:
    return [_problem("tails", t, src, t, dst, (512, 17, 7, 7)) for t, src, dst in _TAILS]


def _shuffles() -> list[PeerProblem]:
    return [
        _shuffle("shuffle", t, dims, group_size, tag)
        for t in _SHUFFLED_TYPES
        for dims, group_size in _SHUFFLES
        for tag in _SHUFFLED
    ]


def _shuffle(group: str, t: str, dims: tuple[int, ...], group_size: int, tag: str) -> PeerProblem:
    row = _problem(group, t, tag, t, tag, dims)
    return replace(row, name=f"shuffle {t} {tag} g{group_size}", group_size=group_size)


def _problem(
    group: str, src_type: str, src: str, dst_type: str, dst: str, dims: tuple[int, ...]
) -> PeerProblem:
    types = src_type if src_type == dst_type else f"{src_type}→{dst_type}"
    return PeerProblem(
        f"{types} {src}→{dst}",
        dims,
        src_type,
        _TAGS.get(src, src),
        dst_type,
        _TAGS.get(dst, dst),
        group=group,
    )
