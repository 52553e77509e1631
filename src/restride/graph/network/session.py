"""What one run of a network needs at a time: a block of memory, and the row of addresses that tables read."""

from __future__ import annotations

from collections.abc import Sequence

from ...runtime.alloc import Array, Buffer, address_of
from ...runtime.cpu.launch_image import LinkedTable

__all__ = ["Session"]


class Session:
    """Runs tables, one run at a time. `threads`: how many the tables are made for.

    `row`: the address of the block, then those of inputs and outputs, `ends` of them, which each run brings,
    then of all else; behind them the scalars.
    """

    __slots__ = ("_address", "_block", "_ends", "_row", "_tables", "threads")

    def __init__(
        self, block: Buffer, row: Array, ends: int, tables: Sequence[LinkedTable], threads: int
    ) -> None:
        self._block, self._row, self._ends, self._tables = block, row, slice(1, 1 + ends), tables
        self._address, self.threads = address_of(row), threads

    def run(self, brought: Sequence[int]) -> None:
        """Execute all, with the addresses of inputs and outputs in their order."""
        self._row[self._ends] = brought
        for table in self._tables:
            table.run(self._address)
