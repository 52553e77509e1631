"""Colors of elements: the hue is the index along one axis, the channels if there are any.

An element keeps its color in every layout, so that two layouts of one tensor can be compared by eye.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..desc.memory_desc import MemoryDesc

# Of a terminal's 256 colors: hues around the circle that are legible on black and on white.
_TERMINAL = (27, 33, 37, 35, 70, 136, 172, 166, 160, 162, 129, 99)
_CHANNELS = 1
_CIRCLE = 320
# More positions than this repeat the circle, since neighbors would look the same.
_MOST = 64


class Palette(NamedTuple):
    """Colors by the index along `axis`, which has `extent` positions."""

    axis: int
    extent: int

    @classmethod
    def of(cls, md: MemoryDesc) -> Palette:
        """Choose axis 1, or, if it has only one position, the first axis with more."""
        grown = [d for d, n in enumerate(md.dims) if n > 1] or [0]
        axis = _CHANNELS if _CHANNELS in grown else grown[0]
        return cls(axis, md.dims[axis])

    def hue(self, position: Sequence[int]) -> int:
        """Return the color of an element in degrees."""
        around = min(self.extent, _MOST)
        return 200 + _CIRCLE * (position[self.axis] % around) // around

    def terminal(self, position: Sequence[int]) -> int:
        """Return the color of an element among a terminal's 256."""
        if self.extent <= len(_TERMINAL):
            return _TERMINAL[position[self.axis] * len(_TERMINAL) // self.extent]
        return _TERMINAL[position[self.axis] % len(_TERMINAL)]
