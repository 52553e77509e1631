"""Functions from coordinates to offsets: the base class of all layouts.

Coordinates are colexicographic as in CuTe: the first mode is the lowest digit of an integer index.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..desc.parse import parse_int, short_repr
from ..desc.viewer import viewer
from ..errors import raises_at_the_call, refuse

IntTuple = int | tuple["IntTuple", ...]
"""An integer, or a tuple of such tuples."""

MOST_OFFSETS = 2**22
_MOST_ENTRIES, _MOST_LEVELS = 64, 16


def flatten(value: IntTuple) -> tuple[int, ...]:
    """Return the integers of an int tuple in order."""
    return (value,) if isinstance(value, int) else tuple(n for part in value for n in flatten(part))


def size_of(shape: IntTuple) -> int:
    """Return the product of all extents."""
    return prod(flatten(shape))


def unflatten(shape: IntTuple, values: Iterator[Any]) -> Any:
    """Return the next values, nested as `shape` is."""
    return next(values) if isinstance(shape, int) else tuple(unflatten(part, values) for part in shape)


def to_text(value: IntTuple) -> str:
    """Return the tuple in CuTe's notation: no spaces, no comma after a single entry."""
    return str(value) if isinstance(value, int) else f"({','.join(map(to_text, value))})"


def parse_int_tuple(value: object, name: str, least: int) -> IntTuple:
    """Return an int tuple of 64-bit integers, at least `least`, from integers, tuples and lists."""
    try:
        result = _parse(value, name, least, _MOST_LEVELS)
    except RecursionError:
        raise refuse("RS-A18:tuple", name=name, value=short_repr(value)) from None
    if len(flatten(result)) > _MOST_ENTRIES:
        raise refuse("RS-A18:tuple", name=name, value=short_repr(value))
    return result


def _parse(value: object, name: str, least: int, levels: int) -> IntTuple:
    if isinstance(value, tuple | list):
        if not levels or len(value) > _MOST_ENTRIES:
            raise refuse("RS-A18:tuple", name=name, value=short_repr(value))
        return tuple(_parse(part, name, least, levels - 1) for part in value)
    number = parse_int(value, name, "pass an integer, or nested tuples of integers")
    if not least <= number < 2**63:
        raise refuse("RS-A18:extent", name=name, n=short_repr(number), least=least)
    return number


def index_in(shape: IntTuple, coordinate: object) -> int:
    """Return the colexicographic index of a coordinate, which is an integer or nested as `shape` is."""
    if isinstance(coordinate, tuple | list):
        if isinstance(shape, int) or len(coordinate) != len(shape):
            raise refuse("RS-A18:coordinate", value=short_repr(coordinate), shape=to_text(shape))
        index, step = 0, 1
        for part, at in zip(shape, coordinate, strict=True):
            index += index_in(part, at) * step
            step *= size_of(part)
        return index
    number = parse_int(coordinate, "a coordinate")
    if not 0 <= number < size_of(shape):
        raise refuse("RS-A18:coordinate", value=short_repr(coordinate), shape=to_text(shape))
    return number


class LayoutFunction:
    """A function from the coordinates of a shape to offsets.

    `f(5)` takes an index, `f(1, 2)` a coordinate of each mode, `f((1, 0), 2)` a nested one. In notebooks it
    is shown as a picture; `show()` prints the grid of its offsets and `svg()` returns the picture.
    """

    __slots__ = ()
    shape: IntTuple

    def _map(self, index: Any) -> Any:
        """Return the offset of an index, or of each of an array of indices."""
        raise NotImplementedError

    @raises_at_the_call
    def __call__(self, *coordinate: Any) -> int:
        """Return the offset at an index or coordinate. Raises InvalidArguments for one outside the shape."""
        at = coordinate[0] if len(coordinate) == 1 else coordinate
        return int(self._map(index_in(self.shape, at)))

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return size_of(self.shape)

    @property
    def cosize(self) -> int:
        """One more than the largest offset."""
        return int(self.offsets().max()) + 1

    @property
    def rank(self) -> int:
        """The number of modes."""
        return 1 if isinstance(self.shape, int) else len(self.shape)

    def coordinate(self, index: int) -> IntTuple:
        """Return the coordinate of an index, nested as the shape is."""
        rest = index_in(self.shape, index)
        digits = []
        for extent in flatten(self.shape):
            digits.append(rest % extent)
            rest //= extent
        nested: IntTuple = unflatten(self.shape, iter(digits))
        return nested

    def offsets(self) -> NDArray[np.int64]:
        """Return all offsets by index. Raises InvalidArguments for more than four million."""
        if self.size > MOST_OFFSETS:
            raise refuse("RS-A18:too-large", layout=self, size=self.size, most=MOST_OFFSETS)
        return np.asarray(self._map(np.arange(self.size)), np.int64)

    @raises_at_the_call
    def show(self) -> None:
        """Print the offsets as a grid: first mode down, the others across."""
        if sys.stdout is not None:
            print(viewer().grid_text(self))

    @raises_at_the_call
    def svg(self) -> str:
        """Return the grid as SVG; the color of a cell is its offset."""
        return viewer().grid_svg(self)

    def _repr_svg_(self) -> str:
        return self.svg()
