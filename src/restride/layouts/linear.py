"""Layouts that are linear over F2, the field of bits: matrices that can be composed and inverted, and
swizzles.

Each bit of an index has a basis, an integer; an offset is the XOR of the bases of the set bits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from ..desc.parse import parse_int, short_repr
from ..errors import raises_at_the_call, refuse
from ..frozen import dataclass
from .functions import IntTuple, LayoutFunction, flatten, parse_int_tuple, size_of, to_text
from .layout import Layout, Tiler, as_layout, nested_as

_MOST_BITS = 62
_COMPOSED = re.compile(r"\s*Sw<(\d{1,2}),(\d{1,2}),(-?\d{1,2})>\s*o\s*0\s*o\s*([^<>]{1,4096})", re.ASCII)

LinearLike = Union["LinearLayout", "ComposedLayout", "Swizzle", Layout, str]


@dataclass(frozen=True, slots=True)
class LinearLayout(LayoutFunction):
    """A linear layout: `bases[i]` is the offset of bit i of the index. `shape` has extents of powers of 2.

    `LinearLayout([1, 2, 5])` maps index 6, bits 1 and 2, to 2 ^ 5. Raises InvalidArguments for an invalid
    basis or one that does not match the shape.
    """

    bases: tuple[int, ...]
    shape: IntTuple

    @raises_at_the_call
    def __init__(self, bases: Sequence[int], shape: Any = None) -> None:
        wrong = not isinstance(bases, list | tuple) or len(bases) > _MOST_BITS
        numbers = () if wrong else tuple(parse_int(basis, f"bases[{i}]") for i, basis in enumerate(bases))
        if wrong or any(not 0 <= basis < 2**_MOST_BITS for basis in numbers):
            raise refuse("RS-A18:bases", value=short_repr(bases), most=_MOST_BITS)
        extents = 2 ** len(numbers) if shape is None else parse_int_tuple(shape, "shape", 1)
        if any(n & (n - 1) for n in flatten(extents)) or size_of(extents) != 2 ** len(numbers):
            raise refuse("RS-A18:bits", shape=to_text(extents), count=len(numbers))
        object.__setattr__(self, "bases", numbers)
        object.__setattr__(self, "shape", extents)

    @classmethod
    @raises_at_the_call
    def from_layout(cls, layout: LinearLike) -> LinearLayout:
        """Return the bases of a layout, possibly after a swizzle. Raises InvalidArguments unless it is
        linear: extents must be powers of 2, and offsets of two bits must not share a bit, or their sum is not
        an XOR.
        """
        if isinstance(layout, LinearLayout):
            return layout
        if isinstance(layout, Swizzle):
            count = layout.bits + layout.base + abs(layout.shift)
            return cls([layout._map(1 << i) for i in range(count)])
        if isinstance(layout, ComposedLayout):
            return cls([int(layout.outer._map(b)) for b in cls.from_layout(layout.inner).bases], layout.shape)
        layout = as_layout(layout)
        bases = [int(layout._map(1 << i)) for i in range(layout.size.bit_length() - 1)]
        is_linear = not any(n & (n - 1) for n in flatten(layout.shape)) and min(bases, default=0) >= 0
        if not is_linear or sum(bases) != reduce(or_, bases, 0):
            raise refuse("RS-A18:not-linear", layout=layout)
        return cls(bases, layout.shape)

    @classmethod
    @raises_at_the_call
    def from_matrix(cls, matrix: Any, shape: Any = None) -> LinearLayout:
        """Return the layout of a matrix of bits: a row for each bit of the offset, a column for each of the
        index, the lowest bits first.
        """
        bits = np.asarray(matrix)
        if bits.ndim != 2 or max(bits.shape) > _MOST_BITS or not np.isin(bits, (0, 1)).all():
            raise refuse("RS-A18:matrix", most=_MOST_BITS, shape=bits.shape)
        columns = bits.astype(np.uint8).T.tolist()
        return cls([sum(bit << row for row, bit in enumerate(column)) for column in columns], shape)

    @property
    def matrix(self) -> NDArray[np.uint8]:
        """Return the bits of the bases: a row for each bit of the offset, a column for each of the index."""
        rows = [[basis >> row & 1 for basis in self.bases] for row in range(self._rows)]
        return np.array(rows, np.uint8).reshape(self._rows, len(self.bases))

    @property
    def _rows(self) -> int:
        return max(self.bases, default=0).bit_length()

    @property
    def cosize(self) -> int:
        """The smallest power of 2 above all offsets."""
        return 1 << self._rows

    @property
    def bit_rank(self) -> int:
        """The rank of the matrix: there are 2**bit_rank distinct offsets."""
        return len(_ReducedBases(self.bases).rows)

    def _map(self, index: Any) -> Any:
        total = index * 0
        for i, basis in enumerate(self.bases):
            total = total ^ (index >> i & 1) * basis
        return total

    def __repr__(self) -> str:
        return f"LinearLayout({list(self.bases)}, {to_text(self.shape)!r})".replace("'", "")

    @raises_at_the_call
    def compose(self, other: LinearLike) -> LinearLayout:
        """Return self(other(c)), also linear. Raises InvalidArguments if `other` is not linear, or leaves the
        domain.
        """
        inner = LinearLayout.from_layout(other)
        if inner.cosize > self.size:
            raise refuse("RS-A18:outside", other=other, cosize=inner.cosize, layout=self, size=self.size)
        return LinearLayout([int(self._map(basis)) for basis in inner.bases], inner.shape)

    @raises_at_the_call
    def right_inverse(self) -> LinearLayout:
        """Return the layout R with self(R(k)) = k for k below `cosize`. Raises InvalidArguments if an offset
        is missing.
        """
        span = _ReducedBases(self.bases)
        found = [span.solve(1 << row) for row in range(self._rows)]
        if None in found:
            raise refuse("RS-A18:not-onto", layout=self, cosize=self.cosize)
        return LinearLayout([combination for combination in found if combination is not None])

    @raises_at_the_call
    def left_inverse(self) -> LinearLayout:
        """Return the layout L with L(self(k)) = k for every k. Raises InvalidArguments if offsets repeat."""
        if self.bit_rank < len(self.bases):
            raise refuse("RS-A18:not-injective", layout=self)
        # L A = 1 is equivalent to A' L' = 1. A' reaches all of its bits, including the highest.
        inverse = LinearLayout.from_matrix(self.matrix.T).right_inverse()
        bits = np.zeros((self._rows, len(self.bases)), np.uint8)
        bits[: inverse.matrix.shape[0]] = inverse.matrix
        return LinearLayout.from_matrix(bits.T)

    @raises_at_the_call
    def inverse(self) -> LinearLayout:
        """Return the inverse of a layout whose offsets are 0 to size - 1, each once. Raises InvalidArguments
        for others.
        """
        if not self.bit_rank == len(self.bases) == self._rows:
            raise refuse("RS-A18:not-bijective", layout=self, size=self.size)
        return self.right_inverse()

    @raises_at_the_call
    def to_layout(self) -> Layout:
        """Return the same function as shape and stride. Raises InvalidArguments if two bases share a bit."""
        if sum(self.bases) != reduce(or_, self.bases, 0):
            raise refuse("RS-A18:no-strides", layout=self)
        bits = iter(self.bases)
        leaves = []
        for count in (n.bit_length() - 1 for n in flatten(self.shape)):
            leaves.append(Layout((2,) * count, [next(bits) for _ in range(count)]).coalesce())
        return nested_as(self.shape, leaves)


class _ReducedBases:
    """Reduced rows of a set of bases, and which bases each is the XOR of."""

    def __init__(self, bases: Sequence[int]) -> None:
        self.rows: dict[int, tuple[int, int]] = {}
        for i, basis in enumerate(bases):
            rest, combination = self._reduced(basis, 1 << i)
            if rest:
                self.rows[rest.bit_length()] = rest, combination

    def _reduced(self, value: int, combination: int) -> tuple[int, int]:
        while value and value.bit_length() in self.rows:
            row, bases = self.rows[value.bit_length()]
            value, combination = value ^ row, combination ^ bases
        return value, combination

    def solve(self, value: int) -> int | None:
        """Return the bases whose XOR is `value`, as bits of an index, or None."""
        rest, combination = self._reduced(value, 0)
        return None if rest else combination


@dataclass(frozen=True, slots=True)
class Swizzle:
    """CuTe's `Swizzle<bits, base, shift>`: bits of the offset that are XORed to lower ones.

    The `bits` bits from `base + shift` on are XORed to those from `base` on; with a negative shift the lower
    ones to the higher. It is its own inverse.
    """

    bits: int
    base: int
    shift: int

    @raises_at_the_call
    def __init__(self, bits: int, base: int, shift: int) -> None:
        numbers = [parse_int(n, name) for n, name in ((bits, "bits"), (base, "base"), (shift, "shift"))]
        bits, base, shift = numbers
        if bits < 0 or base < 0 or abs(shift) < bits or bits + base + abs(shift) > _MOST_BITS:
            raise refuse("RS-A18:swizzle", value=short_repr(tuple(numbers)), most=_MOST_BITS)
        for name, number in zip(("bits", "base", "shift"), numbers, strict=True):
            object.__setattr__(self, name, number)

    def _map(self, offset: Any) -> Any:
        low, high = self.base, self.base + abs(self.shift)
        source, target = (high, low) if self.shift > 0 else (low, high)
        return offset ^ (offset >> source & (1 << self.bits) - 1) << target

    @raises_at_the_call
    def __call__(self, offset: int) -> int:
        """Return the swizzled offset. Raises InvalidArguments for a negative one."""
        number = parse_int(offset, "offset")
        if number < 0:
            raise refuse("RS-A18:extent", name="offset", n=short_repr(number), least=0)
        return int(self._map(number))

    def __str__(self) -> str:
        return f"Sw<{self.bits},{self.base},{self.shift}>"

    def inverse(self) -> Swizzle:
        """Return the swizzle itself."""
        return self

    @raises_at_the_call
    def compose(self, layout: Layout | str) -> ComposedLayout:
        """Return the layout with swizzled offsets. Raises InvalidArguments if some are negative."""
        return ComposedLayout(self, as_layout(layout))


@dataclass(frozen=True, slots=True)
class ComposedLayout(LayoutFunction):
    """A layout with swizzled offsets: `Swizzle(3, 4, 3).compose("(8,64):(64,1)")`.

    `LinearLayout.from_layout` converts it to a matrix, which has an inverse.
    """

    outer: Swizzle
    inner: Layout

    @classmethod
    @raises_at_the_call
    def parse(cls, text: str) -> ComposedLayout:
        """Parse the output of `str`: `Sw<3,3,3> o 0 o (8,64):(64,1)`. Raises InvalidArguments on error."""
        match = _COMPOSED.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise refuse("RS-A18:composed", text=short_repr(text))
        *numbers, inner = match.groups()
        return Swizzle(*map(int, numbers)).compose(inner)

    @raises_at_the_call
    def divide(self, tiler: Tiler, form: str = "logical") -> ComposedLayout:
        """The layout split into tiles and the rest, as by `Layout.divide`; offsets are swizzled as before."""
        return ComposedLayout(self.outer, self.inner.divide(tiler, form))

    def __post_init__(self) -> None:
        outer, inner, most = self.outer, self.inner, 2**_MOST_BITS
        for part, kind in ((outer, Swizzle), (inner, Layout)):
            if not isinstance(part, kind):
                raise refuse("RS-A18:parts", part=short_repr(part))
        if any(n > 1 and d < 0 for n, d in inner._flat()) or inner.cosize > most:
            raise refuse("RS-A18:outside", other=inner, cosize=inner.cosize, layout=outer, size=most)

    @property
    def shape(self) -> IntTuple:  # type: ignore[override]
        """The shape of the inner layout."""
        return self.inner.shape

    def _map(self, index: Any) -> Any:
        return self.outer._map(self.inner._map(index))

    def __str__(self) -> str:
        return f"{self.outer} o 0 o {self.inner}"

    __repr__ = __str__
