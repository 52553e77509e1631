"""The rows of the standing suite: what is measured for every version."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from .problem import PLAIN, PeerArithmetic, PeerProblem

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
_IMAGES, _WIDE, _FILTERS = (8, 3, 224, 224), (8, 256, 56, 56), (512, 512, 3, 3)
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
_OF_IMAGES = ("u8 nhwc f32 nchw", "f32 nchw u8 nhwc", "u8 nhwc u8 nchw")
# With a layout change and without; the scale where there is one.
_CONVERSIONS = {
    "f32 nchw s8 nchw": 0.75,
    "f32 nchw s8 nhwc": 0.75,
    "f32 nchw u8 nChw16c": 0.75,
    "s8 nchw f32 nchw": 0.125,
    "s8 nhwc f32 nchw": 0.125,
    "f32 nchw bf16 nchw": None,
    "f32 nchw bf16 nChw16c": None,
    "bf16 nChw16c f32 nchw": None,
    "f32 nchw f16 nhwc": None,
    "f32 nchw f8_e4m3 nchw": None,
    "f8_e4m3 nhwc bf16 nchw": None,
}
# Types of 8 and of 64 bits, which peers convert through others, or element by element.
_UNCOMMON = (
    *("f64 nchw f32 nhwc", "f64 nchw bf16 nhwc", "f64 nchw s8 nhwc", "f32 nchw f8_e5m2 nhwc"),
    *("bf16 nhwc f8_e4m3 nchw", "f8_e4m3 nhwc f32 nchw", "f8_e5m2 nchw f8_e4m3 nhwc", "s8 nchw f8_e4m3 nhwc"),
)
# Scales and zero points; the scale is one for all, or one for each channel, along the vectorized dim or not.
_QUANTIZED = {
    "f32 nchw s8 nhwc": (0.75, 0),
    "f32 nchw u8 nChw16c": (0.75, 128),
    "bf16 nhwc s8 nchw": (0.75, 0),
    "s8 nhwc f32 nchw": (0.125, 0),
    "u8 nchw f32 nhwc": (0.125, 128),
}
_QUANTIZED_AS_IT_LIES = {
    "f32 nchw s8 nchw": (0.75, 0),
    "f32 nhwc u8 nhwc": (0.75, 128),
    "u8 nhwc bf16 nhwc": (0.125, 128),
}
# What oneDNN does element by element.
_APART = {
    "f32 nchw f32 nhwc": PeerArithmetic(beta=0.5),
    "f32 nchw s8 nhwc": PeerArithmetic(0.75, 1, dst_axis=0),
    "u8 nchw u8 nhwc": PeerArithmetic(zero_point=3),
    "f16 nchw s8 nhwc": PeerArithmetic(0.75),
}
_TAILS = (
    *("f32 nchw f32 nChw16c", "f32 nChw16c f32 nchw", "f32 nchw f32 nhwc"),
    *("bf16 nchw bf16 nChw16c", "u8 nchw u8 nChw16c", "u8 nhwc u8 nchw"),
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
    "^f32→s8 nchw→nhwc .* quantize",
    "^s8→f32 nhwc→nchw ",
    "^s8 OIhw→OIhw4i16o4i .* weights",
    "^f32 nchw→nChw16c .* tails",
    "^shuffle f32 nchw ",
)
# Where networks live: 64 KB to 16 MB moved.
_CACHED = ((1, 256, 14, 14), (4, 64, 56, 56))
_CACHED_SHUFFLES = (((4, 144, 56, 56), 12), ((8, 244, 14, 14), 2))


def suite(*, least: int = LARGE) -> list[PeerProblem]:
    """Every row, its first extent doubled until it moves `least` bytes; those in the caches as they are."""
    return [
        *(row.of_at_least(least) for row in _grown()),
        *_moves("in the caches", _CACHED),
        *_conversions("types in the caches", (4, 3, 224, 224), (4, 64, 56, 56)),
        *_shuffles("shuffles in the caches", _CACHED_SHUFFLES),
        *_weights("small weights"),
    ]


def quick(rows: Sequence[PeerProblem]) -> list[PeerProblem]:
    """A dozen of the rows: each group, and what a network does most."""
    return list(dict.fromkeys(row for pattern in _QUICK for row in select(rows, pattern)[:1]))


def select(rows: Sequence[PeerProblem], pattern: str) -> list[PeerProblem]:
    """The rows whose label, group or name the regular expression finds."""
    wanted = re.compile(pattern)
    return [row for row in rows if wanted.search(f"{row.label} {row.group}")]


def kernels(dims: tuple[int, ...]) -> list[PeerProblem]:
    """The rows of the studies: a copy, a transpose, a blocked format, a conversion with scales, bytes."""
    scaled = row_of("layout", "f32 nchw s8 nhwc", dims, PeerArithmetic(0.75, 1))
    moves = [f"f32 nchw f32 {tag}" for tag in ("nchw", "nhwc", "nChw16c")]
    return [
        *(row_of("layout", words, dims) for words in moves),
        replace(scaled, name=f"{scaled.name}, scale per channel"),
        row_of("layout", "u8 nchw u8 nhwc", dims),
    ]


def _grown() -> Iterator[PeerProblem]:
    yield from _moves("layout", _ACTIVATIONS)
    yield row_of("layout", "f64 nchw f64 nhwc", _ACTIVATIONS[0])
    yield from (row_of("layout", f"{t} ab {t} ba", (4096, 4096)) for t in _TYPES)
    yield from _conversions("convert", _IMAGES, _WIDE)
    yield from (row_of("uncommon types", words, _WIDE) for words in _UNCOMMON)
    yield from _quantized("quantize", _QUANTIZED)
    for axis in (None, 0):
        yield _computed("quantize", "f32 OIhw s8 OIhw4i16o4i", PeerArithmetic(0.75, axis), _FILTERS)
    yield from _quantized("quantize as it lies", _QUANTIZED_AS_IT_LIES)
    yield from (_computed("apart", words, given) for words, given in _APART.items())
    yield row_of("apart", "f32 aBcd32b f32 aBcd48b", (8, 288, 56, 56))
    window = row_of("apart", "f32 nchw f32 nhwc", _WIDE)
    yield replace(window, name=f"{window.name} of a window", margin=(0, 4, 1, 3))
    yield from (row_of("tails", words, (512, 17, 7, 7)) for words in _TAILS)
    yield from _weights("weights")
    yield from _shuffles("shuffle", _SHUFFLES)


def _moves(group: str, dims: Sequence[tuple[int, ...]]) -> Iterator[PeerProblem]:
    for t in _TYPES:
        for each in dims:
            yield from (row_of(group, f"{t} {src} {t} {dst}", each) for src, dst in _LAYOUTS)


def _weights(group: str) -> Iterator[PeerProblem]:
    yield from (row_of(group, f"{t} OIhw {t} {tag}", _FILTERS) for t, tag in _WEIGHTS)
    yield from (row_of(group, f"{t} ab {t} {tag}", (1024, 1024)) for t, tag in _MATMUL)


def _conversions(group: str, images: tuple[int, ...], others: tuple[int, ...]) -> Iterator[PeerProblem]:
    yield from (row_of(group, words, images) for words in _OF_IMAGES)
    for words, scale in _CONVERSIONS.items():
        yield row_of(group, words, others, PeerArithmetic(scale))


def _quantized(group: str, rows: dict[str, tuple[float, int]]) -> Iterator[PeerProblem]:
    for axis in (None, 1):
        for words, (scale, zero_point) in rows.items():
            yield _computed(group, words, PeerArithmetic(scale, axis, zero_point))


def _shuffles(group: str, rows: Sequence[tuple[tuple[int, ...], int]]) -> Iterator[PeerProblem]:
    for t in ("f32", "bf16", "u8"):
        for dims, size in rows:
            for tag in ("nchw", "nhwc", "nChw16c", "nChw8c"):
                row = row_of(group, f"{t} {tag} {t} {tag}", dims)
                yield replace(row, name=f"shuffle {t} {tag} g{size}", group_size=size)


def _computed(group: str, words: str, given: PeerArithmetic, dims: tuple[int, ...] = _WIDE) -> PeerProblem:
    """A row whose name says its arithmetic."""
    row = row_of(group, words, dims, given)
    return replace(row, name=f"{row.name} {given}".strip())


def row_of(group: str, words: str, dims: tuple[int, ...], given: PeerArithmetic = PLAIN) -> PeerProblem:
    """A row of the words "SRC_TYPE SRC_FORMAT DST_TYPE DST_FORMAT"."""
    s, src, d, dst = words.split()
    name = f"{s if s == d else f'{s}→{d}'} {src}→{dst}"
    return PeerProblem(name, dims, s, _TAGS.get(src, src), d, _TAGS.get(dst, dst), given, group)
