"""A peer: one side of a comparison.

All of them read the same source and write storage that the harness allocated in one way, on the same number
of threads (NumPy has one only). `prepare` returns a function of no arguments to be timed; where the peer
cannot do the work it raises `PeerRefusal` with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from .problem import Bytes, PeerProblem

Call = Callable[[], object]


class PeerRefusal(Exception):
    """The peer cannot do this work; the text says why."""


class PeerMissing(Exception):
    """The peer is not installed; the text says how to get it."""


def nothing() -> None:
    """Do nothing."""


class PreparedCall(NamedTuple):
    """A function to be timed, and the name of the kernel behind it ("" where the peer has no names).

    `finish`, untimed, moves the last answer to where answers are checked.
    """

    call: Call
    kernel: str = ""
    finish: Call = nothing


class Peer(Protocol):
    """One side of a comparison."""

    name: str
    version: str

    def prepare(self, problem: PeerProblem, src: Bytes, dst: Bytes) -> PreparedCall:
        """A function that does the work from `src` into `dst`."""

    def copies(self, src: Bytes, dst: Bytes) -> dict[str, Call]:
        """The ways in which this peer copies bytes, by name: candidates for the memory roof."""
