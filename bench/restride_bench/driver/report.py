"""The lines of a run: one for each test, the failed ones again, the totals; or one value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .common import CommonKnobs
from .expand import Test
from .result import STAGES, Outcome, PeerTime, Result
from .template import render
from .tokens import full

_SHOWN_FAILURES = 10
_ALWAYS = ("create_pd", "create_prim", "fill", "execute")
_SUCCEEDED = (Outcome.PASSED, Outcome.INITIALIZED, Outcome.EXECUTED)


def status_line(index: int, test: Test, result: Result) -> str:
    """`12:FAILED (errors:3 total:64) __REPRO: --reorder ...`."""
    parts = [f"{index}:{result.status.name}"]
    parts += [f"({result.reason})"] if result.reason else []
    parts += [f"(errors:{result.errors} total:{result.total})"] if result.errors else []
    return " ".join((*parts, f"__REPRO: {test.repro}"))


def peer_line(peer: PeerTime) -> str:
    """`peer,onednn,jit:uni,0.012,0.013,1.85 [1.80 1.91]`; a ratio above 1 means that restride is faster."""
    if peer.refused:
        return f"peer,{peer.name},,,,refused: {peer.refused}"
    middle, low, high = peer.ratio
    times = f"{peer.least:.6g},{peer.median:.6g}"
    note = ",other bits" if peer.other_answer else ""
    return f"peer,{peer.name},{peer.kernel},{times},x{middle:.2f} [{low:.2f} {high:.2f}]{note}"


@dataclass
class DriverReport:
    """The results so far. `keeps_cases` is for --json; `processes` is the number that share the work,
    `planned` how many tests there are; `notices` is what is to be said of them all.
    """

    keeps_cases: bool = False
    processes: int = 1
    planned: int = 0
    notices: Sequence[str] = ()
    counts: Counter[Outcome] = field(default_factory=Counter)
    stages: Counter[str] = field(default_factory=Counter)
    impls: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    least: float = 0.0
    mean: float = 0.0
    is_timed: bool = False
    cases: list[dict[str, Any]] = field(default_factory=list)
    _templates: set[str] = field(default_factory=set)

    def add(self, index: int, test: Test, result: Result) -> Iterator[str]:
        """Count one result; its lines."""
        self.counts[result.status] += 1
        self.stages.update(dict(result.stages))
        if result.impl and result.status is not Outcome.SKIPPED:
            self.impls[result.impl] += 1
        line = status_line(index, test, result)
        if result.status.is_failure:
            self.failures.append(line)
        if self.keeps_cases:
            self.cases.append(_values(index, test, result))
        return self._lines(index, test, result, line)

    def _lines(self, index: int, test: Test, result: Result, line: str) -> Iterator[str]:
        common = test.common
        if common.verbose >= 5 and result.impl:
            yield f"implementation: {result.impl}"
        yield from result.lines
        if result.perf is None:
            yield line
            return
        self.is_timed = True
        self.least += result.perf.least
        self.mean += result.perf.mean
        if common.checks:
            yield line
        text = full(common.perf_template, test.case.template)
        if text not in self._templates:
            self._templates.add(text)
            yield f"Output template: {text}"
        yield render(text, index, test, result)
        yield from map(peer_line, result.peers)

    def totals(self) -> dict[str, int]:
        """The counters by name; what was refused counts among the failed."""
        counts = self.counts
        return {
            "tests": sum(counts.values()),
            "passed": sum(counts[status] for status in _SUCCEEDED),
            "skipped": counts[Outcome.SKIPPED],
            "mistrusted": counts[Outcome.MISTRUSTED],
            "unimplemented": counts[Outcome.UNIMPLEMENTED],
            "invalid_arguments": counts[Outcome.INVALID_ARGUMENTS],
            "failed": sum(counts[status] for status in Outcome if status.is_failure),
            "listed": counts[Outcome.LISTED],
        }

    @property
    def is_complete(self) -> bool:
        """False where the run ended before its last test."""
        return self.counts.total() >= self.planned

    @property
    def exit_status(self) -> int:
        """1 where anything failed or was refused, else 0."""
        return int(self.totals()["failed"] > 0)

    def closing(self, common: CommonKnobs, seconds: float) -> Iterator[str]:
        """The lines at the end."""
        if not self.is_complete:
            yield f"incomplete: {self.counts.total()} of {self.planned} tests were run"
        if self.failures and common.summarizes("failures"):
            yield from _summary(self.failures)
        if self.impls and common.summarizes("impl-csv"):
            yield ",".join(
                ("benchdnn_summary,impl_names", *(f"{n}:{c}" for n, c in self.impls.most_common()))
            )
        if common.summarizes("impl"):
            for name, count in self.impls.most_common():
                yield f"| {name} : {count} ({100 * count // max(sum(self.impls.values()), 1)}%) |"
        yield " ".join(f"{name}:{count}" for name, count in self.totals().items())
        if self.is_timed:
            yield f"total perf: min(ms):{self.least:.6g} avg(ms):{self.mean:.6g}"
        yield f"total: {seconds:.2f}s; " + " ".join(self._shares(seconds))

    def _shares(self, seconds: float) -> Iterator[str]:
        for stage in STAGES:
            spent = self.stages[stage]
            share = spent / max(seconds * self.processes, 1e-9)
            if spent or stage in _ALWAYS:
                yield f"{stage}: {spent:.2f}s ({100 * share:.0f}%);"

    def values(self, seconds: float) -> dict[str, Any]:
        """Everything, for --json. There is no status of a run that was interrupted."""
        perf = {"min_ms": self.least, "avg_ms": self.mean} if self.is_timed else None
        return {
            "totals": self.totals(),
            "complete": self.is_complete,
            "status": self.exit_status if self.is_complete else None,
            "notices": list(self.notices),
            "perf": perf,
            "seconds": {"total": seconds, **{stage: self.stages[stage] for stage in STAGES}},
            "implementations": dict(self.impls.most_common()),
            "cases": self.cases,
        }


def _summary(failures: list[str]) -> Iterator[str]:
    title = "= Failed cases summary (--summary=no-failures to disable) ="
    yield "=" * len(title)
    yield title
    yield "=" * len(title)
    yield from failures[:_SHOWN_FAILURES]
    if len(failures) > _SHOWN_FAILURES:
        yield f"... and {len(failures) - _SHOWN_FAILURES} more"
    yield "=" * len(title)


def _values(index: int, test: Test, result: Result) -> dict[str, Any]:
    values: dict[str, Any] = {
        "index": index,
        "status": result.status.name,
        "reason": result.reason,
        "errors": result.errors,
        "total": result.total,
        "implementation": result.impl,
        "repro": test.repro,
    }
    if result.lines:
        values["mismatches"] = list(result.lines)
    if result.perf is not None:
        values["perf"] = asdict(result.perf)
    if result.peers:
        values["peers"] = [asdict(peer) for peer in result.peers]
    return values
