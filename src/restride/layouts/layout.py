"""CuTe's layouts and their algebra: hierarchical shapes and strides as frozen values.

The definitions are those of CuTe and of "Categorical Foundations for CuTe Layouts": `compose` is the layout R
with R(c) = A(B(c)), nested as B is; `complement` is the ordered layout whose offsets are disjoint from those
of A. Cases that their divisibility rules miss are found from the function itself; results that are not
layouts are rejected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from ..desc.parse import parse_word, short_repr
from ..errors import raises_at_the_call, refuse
from ..frozen import dataclass
from .functions import (
    MOST_OFFSETS,
    IntTuple,
    LayoutFunction,
    flatten,
    parse_int_tuple,
    size_of,
    to_text,
    unflatten,
)

Modes = list[tuple[int, int]]
"""Extents and strides of a flat layout."""

LayoutLike = Union["Layout", str, int]
Tiler = LayoutLike | Sequence["Tiler | None"]
"""A layout, or one for each of the first modes; None leaves a mode unchanged."""

_LETTERS = re.compile(r"[\d\s(),:_-]*")
_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class Layout(LayoutFunction):
    """A layout `shape:stride`: the offset of a coordinate is the sum of its digits times their strides.

    `Layout("((4,2),8):((1,16),2)")` parses CuTe's notation, `Layout((4, 8), (8, 1))` takes tuples; without
    strides the first mode is the fastest. `names` are labels of modes, which comparisons ignore. `layout[0]`
    is a mode, `layout[1, 0]` two of them in that order, `layout["c"]` one by name. Raises InvalidArguments
    for anything that is not a layout.
    """

    shape: IntTuple
    stride: IntTuple
    names: tuple[str, ...] = field(default=(), compare=False)

    @raises_at_the_call
    def __init__(self, shape: Any, stride: Any = None, names: Sequence[str] = ()) -> None:
        if isinstance(shape, str):
            shape, stride = _read(shape, stride)
        shape = parse_int_tuple(shape, "shape", 1)
        stride = parse_int_tuple(_compact(shape) if stride is None else stride, "stride", -(2**63))
        if _profile(shape) != _profile(stride):
            raise refuse("RS-A18:profile", shape=to_text(shape)[:120], stride=to_text(stride)[:120])
        words = tuple(map(str, names)) if isinstance(names, tuple | list) else ("",)
        for name, value in (("shape", shape), ("stride", stride), ("names", words)):
            object.__setattr__(self, name, value)
        if words and (len(words) != self.rank or not all(word and word.isprintable() for word in words)):
            raise refuse("RS-A18:names", names=short_repr(names), rank=self.rank)

    @classmethod
    def of(cls, *modes: LayoutLike) -> Layout:
        """Return the layout of these modes."""
        parts = list(map(as_layout, modes))
        return cls(tuple(part.shape for part in parts), tuple(part.stride for part in parts))

    def __str__(self) -> str:
        return f"{to_text(self.shape)}:{to_text(self.stride)}"

    def __repr__(self) -> str:
        return f"Layout({str(self)!r})"

    @property
    def modes(self) -> tuple[Layout, ...]:
        """The modes as layouts."""
        if isinstance(self.shape, int):
            return (self,)
        return tuple(map(Layout, self.shape, self.stride))  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Layout]:
        return iter(self.modes)

    def __getitem__(self, which: int | str | tuple[int | str, ...]) -> Layout:
        """Return a mode by number or name, or several of them as a layout."""
        numbers = [self._number(each) for each in (which if isinstance(which, tuple) else (which,))]
        modes = [self.modes[number] for number in numbers]
        names = tuple(self.names[number] for number in numbers if self.names)
        return replace(Layout.of(*modes), names=names) if isinstance(which, tuple) else modes[0]

    def _number(self, which: int | str) -> int:
        number = self.names.index(which) if isinstance(which, str) and which in self.names else which
        if not isinstance(number, int) or not 0 <= number < self.rank:
            raise refuse("RS-A18:mode", which=short_repr(which), layout=self, rank=self.rank)
        return number

    @property
    def cosize(self) -> int:
        """The number of offsets from the lowest to the highest; from 0 if no stride is negative."""
        return 1 + sum((n - 1) * abs(d) for n, d in self._flat())

    def flatten(self) -> Layout:
        """Return the same function without nesting."""
        return Layout(flatten(self.shape), flatten(self.stride))

    def _flat(self) -> Modes:
        return list(zip(flatten(self.shape), flatten(self.stride), strict=True))

    def offsets(self) -> NDArray[np.int64]:
        """Return all offsets by index. Raises InvalidArguments for over four million, or beyond 64 bits."""
        if self.cosize >= 2**63:
            raise refuse("RS-A18:past-64-bits", layout=self)
        return LayoutFunction.offsets(self)

    def _map(self, index: Any) -> Any:
        total = index * 0
        modes = self._flat()
        for extent, stride in modes[:-1]:
            total = total + index % extent * stride
            index = index // extent
        return total + index * modes[-1][1] if modes else total

    # --- coalesce, compose, complement ---------------------------------------

    def coalesce(self, *, by_mode: bool = False) -> Layout:
        """Return the same function in as few modes as possible; with `by_mode`, each mode separately."""
        return Layout.of(*(mode.coalesce() for mode in self.modes)) if by_mode else _of(_merged(self._flat()))

    @raises_at_the_call
    def compose(self, other: Tiler) -> Layout:
        """Return the layout R with R(c) = self(other(c)), nested as `other` is. A tuple composes mode by
        mode.

        Raises InvalidArguments if `other` leaves the domain, or if R is not a layout.
        """
        return _by_mode(self, other, lambda a, b: _composed(a, b, is_bounded=True))

    @raises_at_the_call
    def complement(self, size: int | None = None) -> Layout:
        """Return the ordered layout that reaches the offsets missing from this one.

        Together they fill multiples of `cosize` up to `size`, rounded up; without `size` only the gaps.
        Raises InvalidArguments if strides do not nest.
        """
        reach = 1 if size is None else size_of(parse_int_tuple(size, "size", 1))
        rest, end = [], 1
        for stride, extent in sorted((d, n) for n, d in self._flat() if n > 1 and d):
            if stride < 0 or stride % end:
                raise refuse("RS-A18:complement", layout=self)
            rest.append((stride // end, end))
            end = stride * extent
        return _of(_merged([*rest, (-(-reach // end), end)]))

    # --- inverses ------------------------------------------------------------

    def right_inverse(self) -> Layout:
        """Return the layout R with self(R(k)) = k for each k below its size, which ends at the first gap."""
        steps, end, begin = [], 1, 1
        modes = []
        for extent, stride in self._flat():
            modes.append((stride, extent, begin))
            begin *= extent
        for stride, extent, begin in sorted(modes):
            if extent > 1 and stride == end:
                steps.append((extent, begin))
                end *= extent
        return _of(_merged(steps))

    @raises_at_the_call
    def left_inverse(self) -> Layout:
        """Return the layout L with L(self(k)) = k for every index k. Raises InvalidArguments if offsets
        repeat or strides do not nest.
        """
        if any(n > 1 and not d for n, d in self._flat()):
            raise refuse("RS-A18:not-injective", layout=self)
        return Layout.of(self, self.complement()).right_inverse()

    @raises_at_the_call
    def inverse(self) -> Layout:
        """Return the inverse of a layout whose offsets are 0 to size - 1, each once. Raises InvalidArguments
        for others.
        """
        inverse = self.right_inverse()
        if inverse.size != self.size or self.cosize != self.size:
            raise refuse("RS-A18:not-bijective", layout=self, size=self.size)
        return inverse

    # --- divide and product --------------------------------------------------

    @raises_at_the_call
    def divide(self, tiler: Tiler, form: str = "logical") -> Layout:
        """Return the layout split into tiles and the rest. A tuple of tilers splits mode by mode.

        `form` for modes M, N, L and tilers of M and N: "logical" ((TileM,RestM),(TileN,RestN),L), "zipped"
        ((TileM,TileN),(RestM,RestN,L)), "tiled" ((TileM,TileN),RestM,RestN,L), "flat"
        (TileM,TileN,RestM,RestN,L). If a tile does not divide, the result is rounded up: the last mode
        continues, and the caller must omit coordinates past the end.
        """
        return _arranged(self, tiler, form, ("logical", "zipped", "tiled", "flat"), _divided)

    @raises_at_the_call
    def product(self, tiler: Tiler, form: str = "logical") -> Layout:
        """Return this layout repeated over `tiler`: each coordinate of the tiler is a copy, at its offset.

        `form` is one of those of `divide`, or "blocked": each mode is (own, tiler's), so that copies are
        adjacent, or "raked": (tiler's, own), so that they interleave.
        """
        parse_word("product: form", form, (*_FORMS, "blocked", "raked"))
        if form not in ("blocked", "raked"):
            return _arranged(self, tiler, form, _FORMS, _repeated)
        other = as_layout(tiler)
        rank = max(self.rank, other.rank)
        own, copies = _repeated(_ranked(self, rank), _ranked(other, rank)).modes
        pairs = zip(own.modes, copies.modes, strict=True)
        return Layout.of(*(Layout.of(*(pair if form == "blocked" else pair[::-1])) for pair in pairs))


_FORMS = ("logical", "zipped", "tiled", "flat")


def as_layout(value: object) -> Layout:
    """Return a layout, its text, or an extent as a layout."""
    return value if isinstance(value, Layout) else Layout(value)


def nested_as(shape: IntTuple, leaves: Sequence[Layout]) -> Layout:
    """Return the layouts in place of the extents of a shape."""
    shapes, strides = ([getattr(leaf, name) for leaf in leaves] for name in ("shape", "stride"))
    return Layout(unflatten(shape, iter(shapes)), unflatten(shape, iter(strides)))


@raises_at_the_call
def from_offsets(offsets: Sequence[int] | NDArray[Any]) -> Layout:
    """Return the coalesced layout with these offsets, by index. Raises InvalidArguments if there is none."""
    array = np.asarray(offsets)
    is_vector = array.ndim == 1 and 0 < array.size <= MOST_OFFSETS and array.dtype.kind in "iu"
    modes = _fitted(array.astype(np.int64)) if is_vector and abs(array).max() < 2**62 else None
    if modes is None:
        raise refuse("RS-A18:offsets", value=short_repr(offsets))
    return _of(modes)


# --- text --------------------------------------------------------------------


def _read(text: str, stride: object) -> tuple[Any, Any]:
    """Return shape and stride from CuTe's notation, in which static numbers may have an underscore."""
    try:
        if stride is not None or len(text) > _LONGEST or not _LETTERS.fullmatch(text):
            raise ValueError
        parts = [json.loads(_to_json(part)) for part in text.split(":")]
        shape, strides = parts if len(parts) == 2 else (*parts, None)
    except (ValueError, RecursionError):
        raise refuse("RS-A18:text", text=short_repr(text)) from None
    return shape, strides


def _to_json(text: str) -> str:
    return re.sub(r",\s*\)", ")", re.sub(r"\b_(?=-?\d)", "", text)).replace("(", "[").replace(")", "]")


def _compact(shape: IntTuple) -> IntTuple:
    """Return the strides of a dense layout whose first mode is the fastest."""
    steps, step = [], 1
    for extent in flatten(shape):
        steps.append(step)
        step *= extent
    nested: IntTuple = unflatten(shape, iter(steps))
    return nested


def _profile(value: IntTuple) -> str:
    """Return the nesting only."""
    return re.sub(r"-?\d+", "", to_text(value))


# --- flat modes --------------------------------------------------------------


def _of(modes: Modes) -> Layout:
    """Return the layout of flat modes: 1:0 for none, and a single one without a tuple."""
    if len(modes) < 2:
        return Layout(*(modes or [(1, 0)])[0])
    return Layout(*zip(*modes, strict=True))


def _merged(modes: Modes) -> Modes:
    """Return modes of more than one element, merging neighbors that are contiguous."""
    merged: Modes = []
    for extent, stride in modes:
        if extent == 1:
            continue
        if merged and merged[-1][0] * merged[-1][1] == stride:
            merged[-1] = (merged[-1][0] * extent, merged[-1][1])
        else:
            merged.append((extent, stride))
    return merged


def _fitted(offsets: NDArray[np.int64]) -> Modes | None:
    """Return the modes of the coalesced layout with these offsets, the first 0, or None."""
    modes: Modes = []
    rest = offsets
    if rest[0]:
        return None
    while len(rest) > 1:
        runs = np.diff(rest) == rest[1]
        extent = len(rest) if runs.all() else int(runs.argmin()) + 1
        if len(rest) % extent:
            return None
        rows = rest.reshape(-1, extent)
        if (rows - rows[:, :1] != rows[0]).any():
            return None
        modes.append((extent, int(rest[1])))
        rest = rows[:, 0]
    return modes


# --- composition -------------------------------------------------------------


def _composed(a: Layout, b: Layout, *, is_bounded: bool) -> Layout:
    """Return A(B(c)), leaf by leaf of B. The last mode of A continues past its end unless `is_bounded`."""
    if is_bounded and (b.cosize > a.size or any(n > 1 and d < 0 for n, d in b._flat())):
        raise refuse("RS-A18:outside", other=b, cosize=b.cosize, layout=a, size=a.size)
    outer = _merged(a._flat()) or [(1, 0)]
    digits = [0] * len(outer)
    leaves = [_leaf(outer, extent, stride, digits) for extent, stride in b._flat()]
    # The sum over leaves is exact if no digit of A carries into the next.
    carries = any(most >= extent for most, (extent, _) in zip(digits[:-1], outer[:-1], strict=True))
    if carries or None in leaves:
        leaves = _leaves_by_value(_of(outer), b)
    if None in leaves:
        raise refuse("RS-A18:no-layout", layout=a, other=b)
    return nested_as(b.shape, [_of(leaf) for leaf in leaves if leaf is not None])


def _leaf(outer: Modes, extent: int, stride: int, digits: list[int]) -> Modes | None:
    """Return the modes of A(k * stride) for k below `extent`, by the divisibility rule; None if it fails.

    `digits` accumulates the largest digit of each mode of A.
    """
    if extent == 1 or stride == 0:
        return [(extent, 0)]
    modes: Modes = []
    for i, (n, step) in enumerate(outer):
        if i == len(outer) - 1 or (extent - 1) * stride < n:
            digits[i] += (extent - 1) * stride
            return [*modes, (extent, stride * step)]
        if stride % n == 0:
            stride //= n
        elif n % stride == 0 and extent % (n // stride) == 0:
            modes.append((n // stride, stride * step))
            digits[i] += n - stride
            extent, stride = extent // (n // stride), 1
        else:
            return None
    return modes


def _leaves_by_value(a: Layout, b: Layout) -> list[Modes | None]:
    """Return each leaf's modes from the values of the function; [None] if these are not a layout."""
    if b.size > MOST_OFFSETS or a.cosize + b.cosize * abs(a._flat()[-1][1]) >= 2**63:
        return [None]
    values, begin = a._map(b.offsets()), 1
    leaves: list[Modes | None] = []
    total = np.zeros(b.size, np.int64)
    for extent in flatten(b.shape):
        own = values[: begin * extent : begin]
        leaves.append(_fitted(own) if extent > 1 else [(1, 0)])
        total += own[np.arange(b.size) // begin % extent]
        begin *= extent
    return leaves if (total == values).all() else [None]


# --- tilers ------------------------------------------------------------------

_Step = Callable[[Layout, Layout], Layout]


def _by_mode(layout: Layout, tiler: Tiler | None, step: _Step) -> Layout:
    """Apply `step` to a layout and a tiler, mode by mode for a tuple."""
    if tiler is None:
        return layout
    if not isinstance(tiler, tuple | list):
        return step(layout, as_layout(tiler))
    pairs = _paired(layout, tiler)
    return Layout.of(*(_by_mode(mode, each, step) for mode, each in pairs))


def _paired(layout: Layout, tiler: Sequence[Tiler | None]) -> list[tuple[Layout, Tiler | None]]:
    """Return modes and their tilers, None for modes without one."""
    is_deep = isinstance(layout.shape, int) and any(isinstance(each, tuple | list) for each in tiler)
    if len(tiler) > layout.rank or is_deep:
        raise refuse("RS-A18:tiler", count=len(tiler), layout=layout, rank=layout.rank)
    return list(zip(layout.modes, [*tiler, *[None] * (layout.rank - len(tiler))], strict=True))


def _arranged(layout: Layout, tiler: Tiler, form: str, forms: tuple[str, ...], step: _Step) -> Layout:
    """Return the result of `step`, whose modes are a tile and a rest, in one of the forms."""
    if parse_word("form", form, forms) == "logical":
        return _by_mode(layout, tiler, step)
    tile, rest = _unzipped(layout, tiler, step)
    if form == "zipped":
        return Layout.of(tile, rest)
    return Layout.of(*((tile,) if form == "tiled" else tile.modes), *rest.modes)


def _unzipped(layout: Layout, tiler: Tiler | None, step: _Step) -> tuple[Layout, Layout]:
    """Return all tiles, and all rests, which include modes without a tiler."""
    if tiler is None:
        return Layout(1, 0), layout
    if not isinstance(tiler, tuple | list):
        tile, rest = step(layout, as_layout(tiler)).modes
        return tile, rest
    pairs = _paired(layout, tiler)
    split = [_unzipped(mode, each, step) for mode, each in pairs[: len(tiler)]]
    others = [mode for mode, _ in pairs[len(tiler) :]]
    return Layout.of(*(tile for tile, _ in split)), Layout.of(*(rest for _, rest in split), *others)


def _divided(layout: Layout, tiler: Layout) -> Layout:
    whole = Layout.of(tiler, tiler.complement(layout.size))
    return _composed(layout, whole, is_bounded=False)


def _repeated(layout: Layout, tiler: Layout) -> Layout:
    rest = layout.complement(layout.size * tiler.cosize)
    return Layout.of(layout, _composed(rest, tiler, is_bounded=True))


def _ranked(layout: Layout, rank: int) -> Layout:
    """Return the layout with modes 1:0 appended, up to `rank`."""
    return Layout.of(*layout.modes, *[Layout(1, 0)] * (rank - layout.rank))
