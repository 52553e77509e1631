"""The notation of problems: dims, `2x64x3x3`, and letters, `mb2ic16_ih14oh7kh3sh2ph1_n"name"`.

Letters come in pairs with a number behind each, in any order; underscores mean nothing, and a name begins
with `n`. `ih` stands for `iw` too where there is no `iw`, and `id` for both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .attr_text import wrong

Dims = tuple[int, ...]
_SHAPE = "[0-9]{1,19}(x[0-9]{1,19})*"
_NAME = r"(_?n\"?(?P<name>[^\"]*)\"?)?\Z"
_DIMS = re.compile(f"(?P<dims>{_SHAPE}){_NAME}")
_SEVERAL_DIMS = re.compile(f"(?P<dims>{_SHAPE}(:{_SHAPE})*){_NAME}")
_MOST_DIMS = 12
_SPATIAL = "dhw"
_WINDOWS = ("source", "kernel", "result", "window_strides", "dilation", "padding")
LETTERS_OF_WINDOWS = tuple(f"{kind}{dim}" for kind in "iokspd" for dim in _SPATIAL)
_NAMED = re.compile(r'n"?(?P<name>[^"]*)"?\Z')


def parse_dims(text: str) -> dict[str, Any]:
    """Dims and name of a problem: `2x64x3x3`, `48x64_n"weights"`."""
    (dims,), name = _shapes(text, _DIMS, "write dims as 2x64x3x3")
    return {"dims": dims, "name": name}


def parse_several_dims(text: str) -> dict[str, Any]:
    """Dims of several tensors, and a name: `3x5x6:1x5x6`. Dims that one leaves out at its end are 1."""
    each, name = _shapes(text, _SEVERAL_DIMS, "write dims as 3x5x6:1x5x6")
    ndims = max(map(len, each))
    vdims = tuple((*dims, *(1,) * (ndims - len(dims))) for dims in each)
    return {"dims": tuple(map(max, zip(*vdims, strict=True))), "vdims": vdims, "name": name}


def _shapes(text: str, pattern: re.Pattern[str], hint: str) -> tuple[list[Dims], str]:
    found = pattern.match(text)
    if not found:
        raise wrong("the problem", text, "it is neither a knob nor dims", hint)
    every = [tuple(map(int, part.split("x"))) for part in found["dims"].split(":")]
    if any(len(dims) > _MOST_DIMS for dims in every):
        raise wrong("the problem", text, f"a tensor has at most {_MOST_DIMS} axes", "")
    return every, found["name"] or ""


@dataclass(frozen=True, slots=True)
class LetteredProblem:
    """A parsed problem: its text without the name, the name, numbers by their letters."""

    text: str
    name: str
    numbers: Mapping[str, float]

    @property
    def written(self) -> dict[str, str]:
        """The fields of a case that hold how the problem was written, and its name."""
        return {"problem": self.text, "name": self.name}

    @property
    def ndims(self) -> int:
        """The number of spatial dims, counted from the outermost one that has a number; `pd0` is none."""
        said = [key[1:] for key, number in self.numbers.items() if number != (key[0] == "s")]
        return max((3 - place for place, letter in enumerate(_SPATIAL) if letter in said), default=0)

    def whole(self, key: str, default: int = 0) -> int:
        """One number."""
        return int(self.numbers.get(key, default))

    def each(self, kind: str, default: int | None = None) -> Dims:
        """The numbers of one kind, such as `i`, for each spatial dim; those of an outer dim stand for inner
        ones. An empty tuple where there is none, and no default.
        """
        sizes: list[int] = []
        is_square = all(f"i{letter}" not in self.numbers for letter in _SPATIAL[3 - self.ndims + 1 :])
        for letter in _SPATIAL[3 - self.ndims :]:
            if f"{kind}{letter}" in self.numbers:
                sizes.append(int(self.numbers[f"{kind}{letter}"]))
            elif sizes and is_square:
                sizes.append(sizes[-1])
            elif default is None:
                return ()
            else:
                sizes.append(default)
        return tuple(sizes)

    def windows(self, *needed: str, is_transposed: bool = False) -> dict[str, Dims]:
        """Sizes of windows that slide over a source, or over the result, by field of the case. A result or a
        padding that is left out follows from the others. Raises UsageError where a size is missing, or one of
        the numbers `needed`.
        """
        source, kernel = self.each("i", 0), self.each("k", 0)
        strides, dilation = self.each("s", 1), self.each("d", 0)
        if not source or not all((*source, *kernel, *map(self.whole, needed))):
            what = f"{', '.join((*needed, 'a source'))} and a kernel are needed"
            raise wrong("the problem", self.text, what, "".join(f"{key}16" for key in needed) + "_ih14kh3ph1")
        if not all(strides):
            raise wrong("the problem", self.text, "a stride of 0", "strides count from 1")
        result, padding = list(self.each("o", 0)), list(self.each("p", -1))
        for at, (i, k, s, d) in enumerate(zip(source, kernel, strides, dilation, strict=True)):
            span, o, p = (k - 1) * (d + 1) + 1, result[at], padding[at]
            if not o:
                padding[at] = p = max(p, 0)
                result[at] = (i - 1) * s + span - 2 * p if is_transposed else int((i - span + 2 * p) / s) + 1
            elif p < 0:
                points, sizes = (i, o) if is_transposed else (o, i)
                padding[at] = int(((points - 1) * s - sizes + span) / 2)
            if result[at] < 1:
                raise wrong("the problem", self.text, "no window fits into it", "")
        every = source, kernel, tuple(result), strides, dilation, tuple(padding)
        return dict(zip(_WINDOWS, every, strict=True))


def parse_lettered(text: str, whole: Sequence[str], real: Sequence[str] = ()) -> LetteredProblem:
    """A problem of these letters, with whole numbers and with real ones; of a number that is said twice the
    last counts. Raises UsageError for any other.
    """
    names = sorted((*whole, *real), key=len, reverse=True)
    field = re.compile(rf"({'|'.join(names)})((?:[0-9]{{1,18}}\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?)")
    numbers, at = dict[str, float](), 0
    while at < len(text):
        number, named = field.match(text, at), _NAMED.match(text, at)
        if text[at] == "_":
            at += 1
        elif number and (number[1] in real or number[2].isdigit()):
            numbers[number[1]] = float(number[2])
            at = number.end()
        elif named:
            return LetteredProblem(text[:at].rstrip("_"), named["name"], numbers)
        else:
            why = f"{text[at : at + 20]!r} is no part of it"
            raise wrong("the problem", text, why, f"parts are {', '.join(names)}")
    return LetteredProblem(text, "", numbers)


def padding_behind(*sizes: Dims) -> Dims:
    """The padding behind, which follows from points, sizes of the windowed tensor, kernel, strides, dilation
    and the padding in front.
    """
    parts = zip(*sizes, strict=True)
    return tuple((o - 1) * s - i + (k - 1) * (d + 1) + 1 - p for o, i, k, s, d, p in parts)
