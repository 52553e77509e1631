"""The result of a test: its status, time and speed."""

from __future__ import annotations

import contextlib
import enum
import time
from collections.abc import Iterator
from dataclasses import dataclass


class Outcome(enum.Enum):
    """The statuses of a test."""

    LISTED = "listed"
    SKIPPED = "skipped"
    INVALID_ARGUMENTS = "invalid_arguments"
    UNIMPLEMENTED = "unimplemented"
    INITIALIZED = "initialized"
    EXECUTED = "executed"
    PASSED = "passed"
    MISTRUSTED = "mistrusted"
    FAILED = "failed"
    UNTESTED = "untested"

    @property
    def is_failure(self) -> bool:
        """True for what makes the exit status 1."""
        return self in (
            Outcome.FAILED,
            Outcome.UNTESTED,
            Outcome.UNIMPLEMENTED,
            Outcome.INVALID_ARGUMENTS,
        )


@dataclass(frozen=True, slots=True)
class Perf:
    """Times of one execution in ms, and how many there were; what creation took; bytes of both tensors."""

    least: float
    mean: float
    most: float
    rounds: int
    create_desc: float
    create_primitive: float
    read: int
    written: int


@dataclass(frozen=True, slots=True)
class PeerTime:
    """One peer of restride: least and median ms, and how many times longer it took, with quartiles.

    `refused` says why it could not do the work; then there are no times. `other_answer`: its bits differ.
    """

    name: str
    kernel: str = ""
    least: float = 0.0
    median: float = 0.0
    ratio: tuple[float, float, float] = (0.0, 0.0, 0.0)
    refused: str = ""
    other_answer: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one test. `stages`: the seconds of each stage."""

    status: Outcome
    reason: str = ""
    errors: int = 0
    total: int = 0
    lines: tuple[str, ...] = ()
    impl: str = ""
    stages: tuple[tuple[str, float], ...] = ()
    perf: Perf | None = None
    peers: tuple[PeerTime, ...] = ()


STAGES = ("create_pd", "create_prim", "fill", "execute", "compute_ref", "compare")


class Stages:
    """The seconds of each stage while a test runs."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)

    @contextlib.contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time of the block to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] += time.perf_counter() - start

    def items(self) -> tuple[tuple[str, float], ...]:
        """Stages and seconds, in order."""
        return tuple(self.seconds.items())
