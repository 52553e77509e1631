"""Problems of batch, channels and spatial dims in letters: `mb2ic16_ih14oh7kh3sh2ph1_n"name"`.

Each is a letter pair and a number, in any order; underscores mean nothing, and a name begins with `n`. `ih`
stands for `iw` too where there is no `iw`, and `id` for both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .attr_text import wrong
from .cases import Case

_SPATIAL = "dhw"
_WINDOWS = ("source", "kernel", "result", "window_strides", "dilation", "padding")
_NAME = re.compile(r'n"?(?P<name>[^"]*)"?\Z')


@dataclass(frozen=True, slots=True, kw_only=True)
class SpatialCase(Case):
    """A case whose problem is written in letters; `problem` is how it was written."""

    problem: str = ""

    @property
    def shape(self) -> str:
        """The problem as it was written."""
        return self.problem


@dataclass(frozen=True, slots=True)
class LetteredProblem:
    """What a problem says: its text without the name, the name, numbers by their letters."""

    text: str
    name: str
    numbers: Mapping[str, float]

    @property
    def ndims(self) -> int:
        """How many spatial dims there are: from the outermost on that has a number; `pd0` is none."""
        said = [key[1:] for key, number in self.numbers.items() if number != (key[0] == "s")]
        return max((3 - place for place, letter in enumerate(_SPATIAL) if letter in said), default=0)

    def whole(self, key: str, default: int = 0) -> int:
        """One number."""
        return int(self.numbers.get(key, default))

    def each(self, kind: str, default: int | None = None) -> tuple[int, ...]:
        """The numbers of one kind, such as `i`, for each spatial dim; those of an outer dim stand for inner
        ones. An empty tuple where there is none, and no default.
        """
        found: list[int] = []
        is_square = all(f"i{letter}" not in self.numbers for letter in _SPATIAL[3 - self.ndims + 1 :])
        for letter in _SPATIAL[3 - self.ndims :]:
            if f"{kind}{letter}" in self.numbers:
                found.append(int(self.numbers[f"{kind}{letter}"]))
            elif found and is_square:
                found.append(found[-1])
            elif default is None:
                return ()
            else:
                found.append(default)
        return tuple(found)

    def windows(self, *needed: str, is_transposed: bool = False) -> dict[str, tuple[int, ...]]:
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
        found = source, kernel, tuple(result), strides, dilation, tuple(padding)
        return dict(zip(_WINDOWS, found, strict=True))


def parse_lettered(text: str, whole: Sequence[str], real: Sequence[str] = ()) -> LetteredProblem:
    """A problem of these letters, with whole numbers and with real ones; of a number that is said twice the
    last counts. Raises UsageError for any other.
    """
    names = sorted((*whole, *real), key=len, reverse=True)
    field = re.compile(rf"({'|'.join(names)})((?:[0-9]{{1,18}}\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?)")
    numbers, at = dict[str, float](), 0
    while at < len(text):
        found, named = field.match(text, at), _NAME.match(text, at)
        if text[at] == "_":
            at += 1
        elif found and (found[1] in real or found[2].isdigit()):
            numbers[found[1]] = float(found[2])
            at = found.end()
        elif named:
            return LetteredProblem(text[:at].rstrip("_"), named["name"], numbers)
        else:
            raise wrong(
                "the problem",
                text,
                f"{text[at : at + 20]!r} is no part of it",
                f"parts are {', '.join(names)}",
            )
    return LetteredProblem(text, "", numbers)
