"""Problems of batch, channels and spatial dims in letters: `mb2ic16_ih14oh7kh3sh2ph1_n"name"` (spec 3.1).

Each is a letter pair and a number, in any order; underscores mean nothing. `ih` stands for `iw` too where
there is no `iw`, and `id` for both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .attr_text import wrong
from .cases import Case

_SPATIAL = "dhw"
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
        """How many spatial dims there are: from the outermost that is named on."""
        named = [i for i, letter in enumerate(_SPATIAL) if any(key[1:] == letter for key in self.numbers)]
        return 3 - min(named) if named else 0

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


def parse_lettered(text: str, whole: Sequence[str], real: Sequence[str] = ()) -> LetteredProblem:
    """A problem of these letters, with whole numbers and with real ones. Raises UsageError for any other."""
    names = sorted((*whole, *real), key=len, reverse=True)
    field = re.compile(rf"({'|'.join(names)})([0-9]{{1,18}}(\.[0-9]+)?(e-?[0-9]+)?)")
    numbers, at = dict[str, float](), 0
    while at < len(text):
        found, named = field.match(text, at), _NAME.match(text, at)
        if text[at] == "_":
            at += 1
        elif found and found[1] in numbers:
            raise wrong("the problem", text, f"{found[1]} is in it twice", "say each number once")
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
