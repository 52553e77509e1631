"""A study is a table of rows, whose sides are timed in turns with memcpy, and the page that shows them.

`race` is the only runner: of the standing suite, of every study, of recurrent networks and of tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .array_peers import Torch
from .measure import SETTLE, Call, Quartiles, Timing, alternate, batch_size
from .peer import Peer, PreparedCall
from .peers import OneDNNPeer, Restride
from .problem import Bytes, storage

OWN, MEMCPY = "restride", "memcpy"
WARM = 16 << 20  # bytes moved up to which a row is measured warm: many calls to a sample


@dataclass(frozen=True)
class BenchSetup:
    """The settings of all rows: peers, who copies for the roof, threads, rounds, and the largest size."""

    peers: Sequence[Peer]
    copiers: Sequence[Peer]
    threads: int
    rounds: int
    largest: int

    @property
    def restride(self) -> Restride:
        """The restride peer, opened if it was not asked for."""
        own = [peer for peer in self.peers if isinstance(peer, Restride)]
        return own[0] if own else Restride(self.threads)

    @property
    def onednn(self) -> OneDNNPeer | None:
        """The peer oneDNN, where it is one."""
        return next((peer for peer in self.peers if isinstance(peer, OneDNNPeer)), None)

    @property
    def torch(self) -> Torch | None:
        """The peer torch, where it is one."""
        return next((peer for peer in self.peers if isinstance(peer, Torch)), None)

    def on(self, threads: int) -> BenchSetup:
        """The same on so many threads, for every side, from now on."""
        Restride(threads)
        opened = {peer.name: type(peer)(threads) for peer in (*self.peers, *self.copiers)}  # type: ignore[call-arg]
        peers, copiers = ([opened[peer.name] for peer in each] for each in (self.peers, self.copiers))
        return replace(self, peers=peers, copiers=copiers, threads=threads)


@dataclass(frozen=True)
class RowPlan:
    """A row before it is measured: bytes that must be moved, operations, and how each side is called.

    `check`, called after the timing, names the sides whose answer is wrong. `about`: what else the row says.
    """

    name: str
    moved: int
    sides: Mapping[str, PreparedCall]
    check: Callable[[], dict[str, str]] = dict
    operations: int = 0
    refused: Mapping[str, str] = field(default_factory=dict)
    about: Any = None
    is_by_least: bool = False


@dataclass(frozen=True)
class BenchRow:
    """A measured row: the times of each side, and of memcpy where there are copies of as many bytes.

    `wrong` names the sides whose answer is wrong, `refused` those that could not, or are no comparison.
    Speeds are by the median, or by the least time of all rounds. `copier` has made the fastest copy.
    """

    name: str
    moved: int
    times: Mapping[str, Timing]
    operations: int = 0
    kernels: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    wrong: Mapping[str, str] = field(default_factory=dict)
    about: Any = None
    copier: str = ""
    is_by_least: bool = False

    def seconds(self, side: str = OWN) -> float:
        """Of one call."""
        return self.times[side].least if self.is_by_least else self.times[side].spread.median

    def rate(self, side: str = OWN) -> float:
        """Bytes read and written per second."""
        return self.moved / self.seconds(side)

    def over(self, other: str, side: str = OWN) -> Quartiles | None:
        """Return the speedup over `other`; None if one of the two has no right answer."""
        if any(each not in self.times or each in self.wrong for each in (other, side)):
            return None
        if self.is_by_least:
            return Quartiles.of([self.seconds(other) / self.seconds(side)])
        return self.times[side].times_faster_than(self.times[other])

    def values(self) -> dict[str, Any]:
        """Plain values for JSON: quartiles as [low, median, high]."""
        return {
            "name": self.name,
            "moved": self.moved,
            "operations": self.operations,
            "seconds": {side: timing.spread.values() for side, timing in self.times.items()},
            "least": {side: timing.least for side, timing in self.times.items()} if self.is_by_least else {},
            "rounds": {side: len(timing.seconds) for side, timing in self.times.items()},
            "memcpy by": self.copier,
            "kernels": dict(self.kernels),
            "refused": dict(self.refused),
            "wrong": dict(self.wrong),
            **(self.about if isinstance(self.about, dict) else {}),
        }


def race(
    work: RowPlan,
    setting: BenchSetup,
    *,
    number: int = 0,
    settle: float = SETTLE,
    untimed: int = 0,
    buffers: tuple[Bytes, Bytes] | None = None,
) -> BenchRow:
    """Time all sides of a row in turns with the copiers, and check the answers.

    A sample is of `number` calls; unless that is given, of one, or of many where the row is warm. `untimed`
    calls come ahead of it. Copies are between `buffers`, or others of half the bytes that the row moves.
    """
    calls = {side: made.call for side, made in work.sides.items()}
    copies: dict[str, Call] = {}
    if setting.copiers:
        half = work.moved // 2
        source, target = buffers or (storage(half), storage(half))
        if buffers is None:
            # Pages that nobody has written are one page of zeros, and stay in the caches.
            source[...], target[...] = np.resize(np.arange(251, dtype=np.uint8), half), 1
        ways = [way for peer in setting.copiers for way in peer.copies(source, target).items()]
        copies = {f"copy by {name}": call for name, call in ways}
    if not number:
        number = batch_size(next(iter(calls.values()))) if calls and work.moved <= WARM else 1
    every = {**calls, **copies}
    times = alternate(every, rounds=setting.rounds, number=number, settle=settle, untimed=untimed)
    copier = min(copies, key=lambda name: times[name].spread.median, default="")
    return BenchRow(
        *(work.name, work.moved),
        {**{side: times[side] for side in calls}, **({MEMCPY: times[copier]} if copier else {})},
        work.operations,
        {side: made.kernel for side, made in work.sides.items() if made.kernel},
        work.refused,
        work.check(),
        work.about,
        copier,
        work.is_by_least,
    )


@dataclass(frozen=True)
class Study:
    """Rows under a title of the page: how they are measured, and the table that shows them."""

    title: str
    measure: Callable[[BenchSetup], list[BenchRow]]
    page: Callable[[Sequence[BenchRow]], str]
