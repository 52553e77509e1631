"""Run problems as oneDNN's benchdnn does, on restride: `restride bench --DRIVER [KNOBS] PROBLEMS`.

A knob holds for the problems behind it; lists are separated by commas, and all combinations are run:

  restride bench --reorder --sdt=f32,bf16 --dtag=nChw16c 2x64x56x56
  restride bench --mode=P --perf-template=%prb%,%-Gbw% --reorder --dtag=axb 8x64x112x112
  restride bench --shuffle --batch=FILE

Drivers and knobs are listed in docs/bench.md.
Exit status: 0, 1 where a test failed or was refused, 2 for a wrong command.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from restride.cli.output import CommandResult, print_result, print_stderr
from restride.cli.progress import Progress

from .expand import Expansion, Test, expand
from .jobs import processes, results
from .operations import ABSENT, OPERATIONS
from .report import DriverReport


def is_driver(arguments: Sequence[str]) -> bool:
    """True for a command line of the driver."""
    return any(word == f"--{name}" for word in arguments for name in (*OPERATIONS, *ABSENT))


def main(arguments: Sequence[str]) -> int:
    """Run a command line; the exit status. Raises UsageError where it cannot be read."""
    if "--help" in arguments or "-h" in arguments:
        print_result(CommandResult(str(__doc__).rstrip()), as_json=False)
        return 0
    expansion = expand(arguments)
    return _run(expansion)


def _run(expansion: Expansion) -> int:
    tests, common = expansion.tests, expansion.common
    count = processes(tests, common.jobs)
    report, start = DriverReport(common.json, count, len(tests), unused_peers(tests)), time.perf_counter()
    for notice in report.notices:
        print_stderr(f"notice: {notice}")
    try:
        _report_all(tests, count, report, common.json)
    finally:
        # Also of a run that was interrupted: what is known by then.
        seconds = time.perf_counter() - start
        closing = "\n".join(report.closing(common, seconds))
        print_result(CommandResult(closing, report.values(seconds)), common.json)
    return report.exit_status


def unused_peers(tests: Sequence[Test]) -> list[str]:
    """Return notices about peers that are named although nothing is measured."""
    unused = dict.fromkeys((t.common.mode, t.common.peers) for t in tests if not t.common.times)
    return [
        f"--peers={','.join(peers)} is SKIPPED in mode {mode}, which measures nothing"
        for mode, peers in unused
        if peers
    ]


def _report_all(tests: Sequence[Test], count: int, report: DriverReport, is_json: bool) -> None:
    found = results(tests, count)
    with Progress("running", len(tests), "cases") as progress:
        for index, test in enumerate(tests):
            if test.common.verbose and not is_json:
                progress.clear()
                # Before it runs, so that it is known should it bring the process down.
                print_result(CommandResult(f"run: {test.repro}"), as_json=False)
            lines = list(report.add(index, test, next(found)))
            progress.clear()
            if not is_json:
                print_result(CommandResult("\n".join(lines)), as_json=False)
            progress.advance()
