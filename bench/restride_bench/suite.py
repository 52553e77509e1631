"""Measuring one row: every peer that can do it, the roof, and the check of every answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from restride import Error

from .measure import Call, Quartiles, Timing, alternate, batch_size
from .peer import Peer, PeerRefusal, PreparedCall
from .problem import Bytes, PeerProblem, storage

WARM = 16 << 20  # bytes moved up to which a row is measured warm


@dataclass(frozen=True)
class SuiteRow:
    """One measured row. `wrong` names the peers whose answer was wrong, `refused` those that could not."""

    problem: PeerProblem
    in_cache: bool
    times: dict[str, Timing]
    roof: str
    roof_time: Timing
    kernels: dict[str, str]
    refused: dict[str, str]
    wrong: dict[str, str]

    def rate(self, peer: str) -> float:
        """Bytes read and written per second, by the median time."""
        return self.problem.moved / self.times[peer].spread.median

    def of_roof(self, peer: str = "restride") -> Quartiles | None:
        """Part of memcpy's bytes per second, round by round; None where the peer has no right answer."""
        return self.times[peer].times_faster_than(self.roof_time) if self._right(peer) else None

    def over(self, other: str, peer: str = "restride") -> Quartiles | None:
        """How many times faster than `other`, round by round; None where either has no right answer."""
        if not (self._right(peer) and self._right(other)):
            return None
        return self.times[peer].times_faster_than(self.times[other])

    def _right(self, peer: str) -> bool:
        return peer in self.times and peer not in self.wrong


@dataclass(frozen=True)
class Bench:
    """What all rows share: the peers, who copies for the roof, rounds, and the last-level cache in bytes."""

    peers: Sequence[Peer]
    copiers: Sequence[Peer]
    rounds: int
    cache: int | None

    def run(self, problem: PeerProblem) -> SuiteRow:
        """Time the row, then check every answer."""
        source, results = problem.source(), {peer.name: problem.destination() for peer in self.peers}
        prepared, refused = self._prepare(problem, source, results)
        copies = self._roofs(problem.moved // 2)
        calls = {name: ready.call for name, ready in prepared.items()}
        # What the caches hold is warm in a program, too: many calls to a sample.
        number = batch_size(calls["restride"]) if problem.moved <= WARM and "restride" in calls else 1
        times = alternate({**calls, **copies}, rounds=self.rounds, number=number)
        best = min(copies, key=lambda name: times[name].spread.median)
        if problem.arithmetic.beta:
            for name, call in calls.items():
                problem.poison(results[name])
                call()
        for ready in prepared.values():
            ready.finish()
        wrong = {name: problem.wrong(source, results[name]) for name in calls}
        return SuiteRow(
            problem,
            self.cache is not None and problem.moved <= self.cache,
            {name: times[name] for name in calls},
            best,
            times[best],
            {name: ready.kernel for name, ready in prepared.items() if ready.kernel},
            refused,
            {name: reason for name, reason in wrong.items() if reason},
        )

    def _prepare(
        self, problem: PeerProblem, source: Bytes, results: dict[str, Bytes]
    ) -> tuple[dict[str, PreparedCall], dict[str, str]]:
        ready, refused = {}, {}
        for peer in self.peers:
            try:
                ready[peer.name] = peer.prepare(problem, source, results[peer.name])
            except (PeerRefusal, Error) as reason:
                refused[peer.name] = str(reason)
        return ready, refused

    def _roofs(self, nbytes: int) -> dict[str, Call]:
        source, target = storage(nbytes), storage(nbytes)
        source[...] = np.resize(np.arange(251, dtype=np.uint8), nbytes)
        target[...] = 1
        copies = {name: call for peer in self.copiers for name, call in peer.copies(source, target).items()}
        return {f"copy by {name}": call for name, call in copies.items()}
