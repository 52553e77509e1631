"""Random layouts, and what they mean: the offsets of every index, enumerated."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from restride.layouts import Layout

_EXTENTS = st.sampled_from([1, 2, 2, 3, 4, 4, 6, 8])
_SHAPES = st.recursive(_EXTENTS, lambda part: st.lists(part, min_size=1, max_size=3).map(tuple), max_leaves=5)


def flat(value: Any) -> list[int]:
    """The integers of nested tuples."""
    return [n for part in value for n in flat(part)] if isinstance(value, tuple) else [value]


def nested(shape: Any, values: Iterator[int]) -> Any:
    """Values in the nesting of a shape."""
    return tuple(nested(part, values) for part in shape) if isinstance(shape, tuple) else next(values)


def offsets(layout: Layout) -> list[int]:
    """The definition: for each index the sum of its digits, the first mode's lowest, times their strides."""
    found = np.zeros(1, np.int64)
    for extent, stride in zip(flat(layout.shape), flat(layout.stride), strict=True):
        found = (np.arange(extent)[:, None] * stride + found).reshape(-1)
    return [int(offset) for offset in found]


@st.composite
def layouts(draw: st.DrawFn, most: int = 256, *, is_nested: bool | None = None) -> Layout:
    """Layouts of up to `most` elements: of any strides, or of ones that nest."""
    shape = draw(_SHAPES.filter(lambda shape: prod(flat(shape)) <= most))
    extents = flat(shape)
    if draw(st.booleans()) if is_nested is None else is_nested:
        strides, step = [0] * len(extents), 1
        for i in draw(st.permutations(range(len(extents)))):
            step *= draw(st.sampled_from([1, 1, 1, 2, 3]))
            strides[i] = step
            step *= extents[i]
    else:
        strides = draw(st.lists(st.integers(0, 24), min_size=len(extents), max_size=len(extents)))
    return Layout(shape, nested(shape, iter(strides)))


def is_layout(values: list[int]) -> bool:
    """True where some flat layout has these offsets: the first mode is tried with every extent."""
    if values[0]:
        return False
    return len(values) == 1 or any(
        len(values) % n == 0
        and all(v == values[i // n * n] + values[1] * (i % n) for i, v in enumerate(values))
        and is_layout(values[::n])
        for n in range(2, len(values) + 1)
    )
