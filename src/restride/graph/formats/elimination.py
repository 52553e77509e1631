"""Minimum of a sum of tables: exact elimination of variables, within a memory bound.

Each variable has a few states, and each table a cost for every combination of states of its variables.
Variables are eliminated in sequence: the tables of a variable become one table over its neighbors, which
holds the minimum over its states.

1. Variables of one state are fixed, and disappear from all tables.
2. The variable whose table over its neighbors would be smallest is next.
3. If even that table exceeds the bound, the variable with most neighbors is fixed to its state in a
   known solution, and the result is no longer proved optimal.
4. Finally every variable reads its best state off the states of those that were eliminated later.

On a tree no table has more than two variables. Since variables are only fixed to states of the known
solution, the result is never worse than that.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

__all__ = ["CostTable", "LeastCost", "least_cost"]

# Size limit of a table in costs: 8 MB.
MOST_COSTS = 1 << 20


@dataclass(frozen=True, eq=False)
class CostTable:
    """A cost for each combination of states: axis i of `costs` is the state of `variables[i]`.

    `variables` ascend without repetition. Infinite costs mark impossible combinations.
    """

    variables: tuple[int, ...]
    costs: NDArray[np.float64]


@dataclass(frozen=True)
class LeastCost:
    """The state of each variable, and whether no combination of states has a lower sum."""

    states: tuple[int, ...]
    is_exact: bool


def least_cost(
    sizes: Sequence[int], tables: Sequence[CostTable], start: Sequence[int], most_costs: int = MOST_COSTS
) -> LeastCost:
    """Return the states with the least sum of all tables; `start` is a solution with a finite sum.

    `sizes`: the number of states of each variable. Where a table would exceed `most_costs` costs, some
    variables keep their state in `start`.
    """
    return _Elimination(sizes, tables, start, most_costs).run()


class _Elimination:
    """The remaining tables by number, and the numbers of the tables of each variable."""

    def __init__(
        self, sizes: Sequence[int], tables: Sequence[CostTable], start: Sequence[int], most_costs: int
    ) -> None:
        self._sizes, self._start, self._most = sizes, start, most_costs
        self._tables: dict[int, CostTable] = {}
        self._users: list[set[int]] = [set() for _ in sizes]
        self._count = 0
        self._fixed = {v: 0 for v, size in enumerate(sizes) if size == 1}
        for table in tables:
            self._add(_sliced(table, self._fixed))

    def run(self) -> LeastCost:
        is_exact, done = True, []
        left = {v for v, size in enumerate(self._sizes) if size > 1}
        queue = [(self._table_size(v), v) for v in left]
        heapq.heapify(queue)
        while queue:
            size, variable = heapq.heappop(queue)
            if variable not in left or size != self._table_size(variable):
                continue
            if size > self._most:
                variable = max(left, key=lambda v: (len(self._neighbors(v)), -v))
                is_exact = False
            left.discard(variable)
            neighbors = self._neighbors(variable)
            if size > self._most:
                self._fix(variable)
                queue.extend((self._table_size(v), v) for v in left)
                heapq.heapify(queue)
                continue
            done.append(self._eliminate(variable))
            for other in neighbors:
                heapq.heappush(queue, (self._table_size(other), other))
        return LeastCost(self._read_back(done), is_exact)

    def _add(self, table: CostTable) -> None:
        self._tables[self._count] = table
        for variable in table.variables:
            self._users[variable].add(self._count)
        self._count += 1

    def _take(self, variable: int) -> list[CostTable]:
        """Remove and return the tables of a variable, in order."""
        tables = []
        for number in sorted(self._users[variable]):
            table = self._tables.pop(number)
            for other in table.variables:
                self._users[other].discard(number)
            tables.append(table)
        return tables

    def _neighbors(self, variable: int) -> set[int]:
        variables = {v for number in self._users[variable] for v in self._tables[number].variables}
        return variables - {variable}

    def _table_size(self, variable: int) -> int:
        return self._sizes[variable] * prod(self._sizes[v] for v in self._neighbors(variable))

    def _eliminate(self, variable: int) -> tuple[int, CostTable]:
        """Return the variable, and its table with its remaining neighbors."""
        whole = _summed(self._take(variable), variable, self._sizes)
        axis = whole.variables.index(variable)
        rest = tuple(v for v in whole.variables if v != variable)
        self._add(CostTable(rest, whole.costs.min(axis=axis)))
        return variable, whole

    def _fix(self, variable: int) -> None:
        self._fixed[variable] = self._start[variable]
        for table in self._take(variable):
            self._add(_sliced(table, self._fixed))

    def _read_back(self, done: list[tuple[int, CostTable]]) -> tuple[int, ...]:
        states = dict(self._fixed)
        for variable, table in reversed(done):
            others = {v: states[v] for v in table.variables if v != variable}
            states[variable] = int(_sliced(table, others).costs.argmin())
        return tuple(states[v] for v in range(len(self._sizes)))


def _sliced(table: CostTable, states: dict[int, int]) -> CostTable:
    """Return the table at the given states of some of its variables."""
    index = tuple(states.get(v, slice(None)) for v in table.variables)
    return CostTable(tuple(v for v in table.variables if v not in states), np.asarray(table.costs[index]))


def _summed(tables: list[CostTable], variable: int, sizes: Sequence[int]) -> CostTable:
    """Sum tables into one over all their variables, and at least over `variable`."""
    scope = tuple(sorted({variable, *(v for table in tables for v in table.variables)}))
    costs = np.zeros([sizes[v] for v in scope])
    for table in tables:
        costs += table.costs.reshape([sizes[v] if v in table.variables else 1 for v in scope])
    return CostTable(scope, costs)
