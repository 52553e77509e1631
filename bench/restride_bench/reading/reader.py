"""Reading: where lines of text are, which way up, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from restride.runtime.alloc import Array

from .pictures import TextLine, resized, runs_of

Run = Callable[[Array], Any]
# Networks want the shorter side at least so long, and both as multiples of 32.
_SHORT_SIDE, _MULTIPLE = 736, 32
_IS_TEXT, _IS_LINE, _LEAST_POINTS = 0.3, 0.5, 50
_ROWS, _DIRECTION_COLUMNS, _LEAST_COLUMNS = 48, 192, 320
_IS_TURNED = 0.9


@dataclass(frozen=True, slots=True)
class LineRead:
    """The text of a line, and the average confidence of the network in its characters."""

    text: str
    score: float


@dataclass(frozen=True, slots=True)
class PageReader:
    """The three networks: `PageReader(characters, detect, direct, recognize)(picture)` gives the lines."""

    characters: Sequence[str]
    detect: Run
    direct: Run
    recognize: Run

    def __call__(self, picture: Array) -> list[LineRead]:
        """The lines of a picture (h, w, 3) of u8, from the top down."""
        lines, scale = self.lines(picture)
        return self.read(picture, lines, scale) if lines else []

    def lines(self, picture: Array) -> tuple[list[TextLine], tuple[float, float]]:
        """Find the lines, in pixels of the network's input, and the scale from these to the picture's."""
        factor = max(_SHORT_SIDE / min(picture.shape[:2]), 1.0)
        height, width = (max(round(n * factor / _MULTIPLE), 1) * _MULTIPLE for n in picture.shape[:2])
        chances = self.detect(as_batch([resized(picture, (height, width))]))[0, 0]
        parts = [part for part in runs_of(chances > _IS_TEXT) if len(part) >= _LEAST_POINTS]
        sure = [part for part in parts if chances[tuple(part.T.astype(int))].mean() >= _IS_LINE]
        return [TextLine.around(part) for part in sure], (
            picture.shape[0] / height,
            picture.shape[1] / width,
        )

    def read(self, picture: Array, lines: Sequence[TextLine], scale: tuple[float, float]) -> list[LineRead]:
        """Read the text of the lines."""
        cut = [line.cut(picture, scale, _ROWS) for line in lines]
        squeezed = [line.cut(picture, scale, _ROWS, _DIRECTION_COLUMNS) for line in lines]
        turned = self.direct(as_batch(squeezed, _DIRECTION_COLUMNS))
        # Short lines are taken for turned ones now and then: these are read both ways.
        doubtful = [place for place, chance in enumerate(turned[:, 1]) if chance > _IS_TURNED]
        cut += [lines[place].turned().cut(picture, scale, _ROWS) for place in doubtful]
        widest = max(_LEAST_COLUMNS, *(each.shape[1] for each in cut))
        chances = self.recognize(as_batch(cut, -(-widest // _MULTIPLE) * _MULTIPLE))
        found = [self._decoded(each) for each in chances]
        for place, other in zip(doubtful, found[len(lines) :], strict=True):
            found[place] = max(found[place], other, key=lambda line: line.score)
        return found[: len(lines)]

    def _decoded(self, chances: Array) -> LineRead:
        """The characters of steps (n, classes): a class that is repeated counts once, class 0 is nothing."""
        classes = chances.argmax(1)
        is_new = (classes > 0) & np.r_[True, classes[1:] != classes[:-1]]
        text = "".join(self.characters[each] for each in classes[is_new])
        return LineRead(text, float(chances.max(1)[is_new].mean()) if is_new.any() else 0.0)


def as_batch(pictures: Sequence[Array], columns: int | None = None) -> Array:
    """Pictures (h, w, 3) from 0 to 1 as (n, 3, h, columns) from -1 to 1, blue first, zeros on the right."""
    height, width, channels = pictures[0].shape
    batch = np.zeros((len(pictures), channels, height, columns or width), np.float32)
    for place, picture in enumerate(pictures):
        batch[place, :, :, : picture.shape[1]] = (picture * 2 - 1).transpose(2, 0, 1)[::-1]
    return batch
