"""The alternatives with the least total, as variables and tables of costs.

Every step is a variable, its alternatives the states. A tensor with one reader is a table over its writer and
its reader. A tensor with several readers would be a table over all of them; instead it is a variable itself:
its format, and the set of formats in which copies of it are made. The table over writer and tensor holds the
costs of the copies; the table over tensor and reader marks which alternatives find their format. So every
table has two variables, whatever the number of readers, and a copy is counted once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, fsum, inf

import numpy as np

from ...desc.memory_desc import MemoryDesc
from .elimination import MOST_COSTS, CostTable, LeastCost, least_cost
from .problem import FormatProblem

__all__ = ["optimal_choices"]

# Limit on the sets of copies of a tensor; beyond it only those of the known solution are tried.
_MOST_SETS = 1 << 10


@dataclass(frozen=True)
class _TensorState:
    """A format, and the formats of the copies."""

    home: MemoryDesc
    copies: frozenset[MemoryDesc]

    def has(self, formats: frozenset[MemoryDesc]) -> bool:
        return formats <= self.copies | {self.home}


@dataclass(frozen=True)
class _FormatReader:
    """A step that reads a tensor, or the edge of the network: the formats it needs in each of its states."""

    variable: int | None
    needs: tuple[frozenset[MemoryDesc], ...]


def optimal_choices(problem: FormatProblem, start: Sequence[int], most_costs: int = MOST_COSTS) -> LeastCost:
    """Return each step's alternative in the best solution found; `start` is a known solution."""
    search = _FormatSearch(problem, start)
    optimum = least_cost(search.sizes, search.tables, search.start, most_costs)
    return LeastCost(optimum.states[: len(problem.steps)], optimum.is_exact and search.is_whole)


class _FormatSearch:
    """The variables and tables of a problem: one variable for each step, then one for each shared tensor."""

    def __init__(self, problem: FormatProblem, start: Sequence[int]) -> None:
        self._problem = problem
        self.sizes = [len(step.alternatives) for step in problem.steps]
        self.start = list(start)
        self.tables = [
            _table((v,), [way.seconds for way in step.alternatives]) for v, step in enumerate(problem.steps)
        ]
        self.is_whole = True
        self._readers = problem.readers()
        for tensor, md in problem.inputs:
            self._add_tensor(tensor, None, (md,))
        for place, step in enumerate(problem.steps):
            for i, tensor in enumerate(step.outputs):
                self._add_tensor(tensor, place, tuple(way.outputs[i] for way in step.alternatives))

    def _add_tensor(self, tensor: str, writer: int | None, homes: tuple[MemoryDesc, ...]) -> None:
        readers = list(self._readers_of(tensor))
        if not readers or tensor in self._problem.constants:
            return
        if len(readers) > 1:
            self._add_shared(tensor, writer, homes, readers)
            return
        (reader,) = readers
        costs = [[self._copying(tensor, home, needs) for needs in reader.needs] for home in homes]
        self._add_table(writer, reader.variable, costs)

    def _readers_of(self, tensor: str) -> Iterator[_FormatReader]:
        for place in self._readers.get(tensor, ()):
            step = self._problem.steps[place]
            inputs = [i for i, name in enumerate(step.inputs) if name == tensor]
            needs = tuple(frozenset(way.inputs[i] for i in inputs) for way in step.alternatives)
            yield _FormatReader(place, needs)
        given_away = frozenset(md for name, md in self._problem.outputs if name == tensor)
        if given_away:
            yield _FormatReader(None, (given_away,))

    def _add_shared(
        self, tensor: str, writer: int | None, homes: tuple[MemoryDesc, ...], readers: list[_FormatReader]
    ) -> None:
        states = self._states(homes, readers)
        variable = len(self.sizes)
        self.sizes.append(len(states))
        self.start.append(states.index(self._start_state(writer, homes, readers)))
        self._add_table(
            writer,
            variable,
            [
                [self._copying(tensor, home, s.copies) if s.home == home else inf for s in states]
                for home in homes
            ],
        )
        for reader in readers:
            costs = [[0.0 if s.has(needs) else inf for needs in reader.needs] for s in states]
            self._add_table(variable, reader.variable, costs)

    def _states(self, homes: tuple[MemoryDesc, ...], readers: list[_FormatReader]) -> list[_TensorState]:
        """Return all homes, each with all useful sets of copies; with fewer if those are too many."""
        formats = list(dict.fromkeys(md for reader in readers for needs in reader.needs for md in needs))
        most = min(len(formats), sum(max(map(len, reader.needs)) for reader in readers))
        if len(set(homes)) * sum(comb(len(formats), n) for n in range(most + 1)) > _MOST_SETS:
            self.is_whole, most = False, 1
        states = [
            _TensorState(home, frozenset(copies))
            for home in dict.fromkeys(homes)
            for count in range(most + 1)
            for copies in combinations([md for md in formats if md != home], count)
        ]
        started = [self._start_state(None, (home,), readers) for home in dict.fromkeys(homes)]
        return list(dict.fromkeys([*states, *started]))

    def _start_state(
        self, writer: int | None, homes: tuple[MemoryDesc, ...], readers: list[_FormatReader]
    ) -> _TensorState:
        home = homes[self.start[writer] if writer is not None else 0]
        states = [0 if reader.variable is None else self.start[reader.variable] for reader in readers]
        formats = {md for reader, state in zip(readers, states, strict=True) for md in reader.needs[state]}
        return _TensorState(home, frozenset(formats - {home}))

    def _copying(self, tensor: str, home: MemoryDesc, copies: frozenset[MemoryDesc]) -> float:
        # fsum rounds once, so the result does not depend on the iteration order of the set.
        return fsum(self._problem.reorder_cost(tensor, home, md).seconds for md in copies)

    def _add_table(self, first: int | None, second: int | None, costs: list[list[float]]) -> None:
        """Add a table over two variables; None stands for a constant with one state."""
        table = np.asarray(costs, np.float64)
        if first is not None and second is not None and first > second:
            first, second, table = second, first, table.T
        variables = tuple(v for v in (first, second) if v is not None)
        self.tables.append(_table(variables, table.reshape([self.sizes[v] for v in variables])))


def _table(variables: tuple[int, ...], costs: object) -> CostTable:
    return CostTable(variables, np.asarray(costs, np.float64))
