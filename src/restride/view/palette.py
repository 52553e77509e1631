"""Colours of elements: the index along one axis, the channels where there are any, is the hue.

An element keeps its colour wherever it lies, so that two layouts of one tensor can be compared by eye.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..desc.memory_desc import MemoryDesc

# Of the 256 colours of terminals: hues around the circle that can be read on black and on white.
_TERMINAL = (27, 33, 37, 35, 70, 136, 172, 166, 160, 162, 129, 99)
_CHANNELS = 1
_CIRCLE = 320
# More positions than this go around the circle again: neighbours would look the same.
_MOST = 64


class Palette(NamedTuple):
    """Colours by the index along `axis`, which has `extent` positions."""

    axis: int
    extent: int

    @classmethod
    def of(cls, md: MemoryDesc) -> Palette:
        """Axis 1, or where it has one position the first that has more."""
        grown = [d for d, n in enumerate(md.dims) if n > 1] or [0]
        axis = _CHANNELS if _CHANNELS in grown else grown[0]
        return cls(axis, md.dims[axis])

    def hue(self, position: Sequence[int]) -> int:
        """The colour of an element in degrees."""
        around = min(self.extent, _MOST)
        return 200 + _CIRCLE * (position[self.axis] % around) // around

    def terminal(self, position: Sequence[int]) -> int:
        """The colour of an element among a terminal's 256."""
        if self.extent <= len(_TERMINAL):
            return _TERMINAL[position[self.axis] * len(_TERMINAL) // self.extent]
        return _TERMINAL[position[self.axis] % len(_TERMINAL)]
