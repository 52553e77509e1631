"""Hypothesis strategies for the outside oracle: cases in words that restride and oneDNN share."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from restride_bench.onednn import OneDNN
from support.onednn_oracle import Case, Side

TYPES = ("f32", "bf16", "f16", "s32", "s8", "u8", "f8_e5m2", "f8_e4m3")
_MEETS_TINY_FLOATS = {"f32", "bf16", "f16"}
_EXTENTS = (1, 2, 3, 4, 5, 7, 8, 13, 15, 16, 17, 24, 31, 32, 33, 47, 48, 64, 65, 100)
_ELEMENTS = (4_000,) * 7 + (250_000,)  # one case in eight is large enough for several threads
_MOST_STORED = 500_000
_ALPHAS = (0.5, 2.0, -1.0, 0.1, 3.7, 1e-3, -0.37, 4294967295.0)
_BETAS = (1.0, 0.5, 2.0, -1.0)


@st.composite
def cases(draw: st.DrawFn, library: OneDNN) -> Case:
    """Cases over every tag that oneDNN knows up to six axes, gapped strides, windows and both attributes."""
    dims = draw(_dims())
    types = draw(st.tuples(st.sampled_from(TYPES), st.sampled_from(TYPES)).filter(_provided))
    source, target = (draw(_sides(library, dims, data_type)) for data_type in types)
    alpha = draw(st.one_of(st.none(), st.sampled_from(_ALPHAS)))
    beta = draw(st.one_of(st.none(), st.none(), st.sampled_from(_BETAS)))
    return Case(dims, source, target, alpha, beta, draw(st.integers(0, 2**32 - 1)))


def _provided(types: tuple[str, str]) -> bool:
    """Not the pairs that oneDNN refuses outright (2.3): bf16 and f16 with s32, f8 but with floats."""
    tiny = {kind for kind in types if kind.startswith("f8")}
    if tiny:
        return set(types) <= tiny | _MEETS_TINY_FLOATS and len(tiny) == 1
    return not ("s32" in types and {"bf16", "f16"} & set(types))


@st.composite
def _dims(draw: st.DrawFn) -> tuple[int, ...]:
    most, dims = draw(st.sampled_from(_ELEMENTS)), [1]
    for _ in range(draw(st.integers(1, 6))):
        room = most // math.prod(dims)
        dims.append(draw(st.sampled_from([extent for extent in _EXTENTS if extent <= room])))
    return tuple(draw(st.permutations(dims[1:])))


@st.composite
def _sides(draw: st.DrawFn, library: OneDNN, dims: tuple[int, ...], data_type: str) -> Side:
    if draw(st.integers(0, 4)) == 0:
        parent, window = draw(_windows(dims, (1,) * len(dims)))
        return Side(data_type, parent, draw(_strides(parent)), window)
    tags = _tags(library, dims)
    plain = [tag for tag in tags if tag.isalpha()]
    tag = draw(st.sampled_from(plain if draw(st.integers(0, 2)) == 0 else tags))
    parent, window = draw(_windows(dims, _blocks(tag, len(dims))))
    return Side(data_type, parent, tag, window)


def _tags(library: OneDNN, dims: tuple[int, ...]) -> list[str]:
    """Tags of that rank which do not pad the dims beyond measure."""
    last = chr(ord("a") + len(dims) - 1)
    ranked = [tag for tag in library.tags if max(filter(str.isalpha, tag.lower())) == last]
    return [tag for tag in ranked if _stored(dims, _blocks(tag, len(dims))) <= _MOST_STORED]


def _stored(dims: tuple[int, ...], blocks: tuple[int, ...]) -> int:
    return math.prod(-(-extent // block) * block for extent, block in zip(dims, blocks, strict=True))


def _blocks(tag: str, ndims: int) -> tuple[int, ...]:
    blocks, size = [1] * ndims, ""
    for letter in tag:
        if letter.isdigit():
            size += letter
        elif size:
            blocks[ord(letter) - ord("a")] *= int(size)
            size = ""
    return tuple(blocks)


@st.composite
def _windows(
    draw: st.DrawFn, dims: tuple[int, ...], blocks: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """A parent's dims and where the window of `dims` begins: on a block, ending on one or at the end."""
    if draw(st.integers(0, 3)):
        return dims, None
    before = [draw(st.integers(0, 2)) * block for block in blocks]
    after = [
        0 if extent % block else draw(st.integers(0, 3)) for extent, block in zip(dims, blocks, strict=True)
    ]
    parent = tuple(map(sum, zip(before, dims, after, strict=True)))
    return (parent, tuple(before)) if _stored(parent, blocks) <= _MOST_STORED else (dims, None)


@st.composite
def _strides(draw: st.DrawFn, dims: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of any axis order, some with gaps."""
    strides, step = [0] * len(dims), 1
    for axis in draw(st.permutations(range(len(dims)))):
        strides[axis] = step
        step = step * dims[axis] + (draw(st.integers(1, 5)) if draw(st.integers(0, 4)) == 0 else 0)
    return tuple(strides)
