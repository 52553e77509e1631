"""A row of the standing suite: every peer that can do it, and the check of every answer."""

from __future__ import annotations

from functools import partial

from restride import Error

from .peer import PeerRefusal, PreparedCall
from .problem import Bytes, PeerProblem
from .study import OWN, BenchRow, BenchSetup, RowPlan, race

_REFERENCE = ("ref", "simple")  # how oneDNN names the kernels it falls to where it has no other


def measure(problem: PeerProblem, setting: BenchSetup) -> BenchRow:
    """Time the row, then check every answer. Its `about` is the problem."""
    source, results = problem.source(), {peer.name: problem.destination() for peer in setting.peers}
    ready: dict[str, PreparedCall] = {}
    refused: dict[str, str] = {}
    for peer in sorted(setting.peers, key=lambda peer: peer.name != OWN):
        try:
            ready[peer.name] = peer.prepare(problem, source, results[peer.name])
        except (PeerRefusal, Error) as reason:
            refused[peer.name] = str(reason)
    check = partial(_check, problem, source, results, ready)
    return race(RowPlan(problem.label, problem.moved, ready, check, refused=refused, about=problem), setting)


def _check(
    problem: PeerProblem, source: Bytes, results: dict[str, Bytes], ready: dict[str, PreparedCall]
) -> dict[str, str]:
    for name, made in ready.items():
        if problem.arithmetic.beta:
            problem.poison(results[name])
            made.call()
        made.finish()
    found = {name: problem.wrong(source, results[name]) for name in ready}
    return {name: why for name, why in found.items() if why}


def is_reference(row: BenchRow) -> bool:
    """True if oneDNN ran its element-by-element reference."""
    return row.kernels.get("oneDNN", "").startswith(_REFERENCE)
