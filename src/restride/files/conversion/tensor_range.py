"""The smallest and the largest value of a tensor that is larger than a tile: its scale depends on both."""

from __future__ import annotations

import threading

from ...desc.memory_desc import MemoryDesc
from ...runtime.cpu.reduction import min_max
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ..places import TensorPlace, Workspace
from .tiles import TileGrid, compact

_CPU = Engine("cpu")


class TensorRange:
    """The ends of a tensor, which all threads find together when the first one needs them, box by box.

    Who comes when no box is left waits for those that are still being read.
    """

    def __init__(self, src: MemoryDesc, grid: TileGrid) -> None:
        self._src, self._grid = src, grid
        self._turn = threading.Condition()
        self._taken, self._left = 0, len(grid)
        self._low = self._high = 0.0
        self._error: BaseException | None = None

    def find(self, source: TensorPlace, space: Workspace) -> tuple[float, float]:
        """The smallest and the largest finite value, and 0 among them.

        Raises what reading raises, in each thread.
        """
        try:
            while (box := self._take()) is not None:
                self._count(*self._ends_of(box, source, space))
        except BaseException as error:
            self._fail(error)
            raise
        with self._turn:
            self._turn.wait_for(lambda: not self._left or self._error is not None)
            if self._error is not None:
                raise self._error
            return self._low, self._high

    def _take(self) -> int | None:
        """The next box; None where there is none, or none is needed any more."""
        with self._turn:
            if self._error is not None or self._taken >= len(self._grid):
                return None
            self._taken += 1
            return self._taken - 1

    def _ends_of(self, box: int, source: TensorPlace, space: Workspace) -> tuple[float, float]:
        start = self._grid.start(box)
        size = self._grid.size(start)
        desc = compact(self._src, size)
        read = space.bytes("source", desc.size)
        source.read(self._src, start, size, read)
        low, high = min_max(desc, Memory(desc, _CPU, read).get_data_handle(), 0)
        return float(low), float(high)

    def _count(self, low: float, high: float) -> None:
        with self._turn:
            self._low, self._high = min(self._low, low), max(self._high, high)
            self._left -= 1
            if not self._left:
                self._turn.notify_all()

    def _fail(self, error: BaseException) -> None:
        with self._turn:
            self._error = self._error or error
            self._turn.notify_all()
