"""Measure the standing suite compared with every peer that is installed.

  restride bench --quick                       a dozen rows in half a minute: to see that it works
  restride bench --rows 'u8 .*nhwc' --peers restride,torch
  restride bench --out results                 everything, a quarter of an hour; with the reports as files
  restride bench --networks                    whole networks compared with ONNX Runtime and OpenVINO

A row tells bytes read and written per second, in GB/s, of each side and of memcpy; a ratio is the quotient of
two of them. Files are written only with --out.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from restride.cli.main import main as command
from restride.cli.output import CommandResult, print_result, print_stderr
from restride.cli.progress import Progress
from restride.cli.usage import Parser, wrong_usage
from restride.runtime.cpu.thread_pool import available_processors

from . import chart, curves, figures, machine, networks, report, rows, studies, suite
from .array_peers import NumPy
from .driver import main as driver
from .peers import PEERS, open_peers
from .problem import PeerProblem
from .study import BenchRow, BenchSetup

_QUICK_BYTES, _LARGEST, _QUICK_LARGEST = 4_000_000, 1_000_000_000, 16_000_000
# A quick run begins nothing new after so many seconds.
_QUICK_SECONDS = 20.0
_QUICK_FIGURES = ("execute", "array", "memory")
_GROWTH = "growth"
_DRIVER = (
    "With a driver such as --reorder: oneDNN benchdnn's grammar; restride bench --reorder --help tells more."
)


class Work(NamedTuple):
    """The measurements: rows compared with their peers, and figures and studies by name."""

    rows: list[PeerProblem]
    figures: list[str]
    studies: list[str]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Exit status 1 where an answer was wrong, 2 for a usage error."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if driver.is_driver(words):
        return driver.main(words)
    if words[:1] == ["--networks"]:
        return networks.main(words[1:])
    options = _parse(words)
    chosen, small, inside = work = _chosen(options)
    if options.list:
        print_result(_listed(chosen, small, inside), options.json)
        return 0
    studied = studies.Studies()
    found = _measure(options, work, studied)
    answers = [_published(found, options.out)] if chosen or small else []
    answers += [_published_studies(studied, options.out)] if studied.rows else []
    values = {name: value for answer in answers for name, value in answer.values.items()}
    print_result(CommandResult("\n".join(answer.text for answer in answers), values), options.json)
    return 1 if found.wrong or studied.wrong else 0


def _chosen(options: argparse.Namespace) -> Work:
    """Return the requested measurements. Raises UsageError if --rows finds nothing."""
    every = rows.suite(least=_QUICK_BYTES if options.quick else rows.LARGE)
    if options.quick and not options.rows:
        return Work(rows.quick(every), list(_QUICK_FIGURES), [])
    found = Work(
        rows.select(every, options.rows),
        [name for name in (*figures.FIGURES, _GROWTH) if re.search(options.rows, name)],
        [name for name in studies.STUDIES if re.search(options.rows, name)],
    )
    if not any(found):
        raise wrong_usage(
            f"restride bench: --rows {options.rows!r} finds nothing",
            why="it is a regular expression, for parts of the names that --list prints",
            hint="see restride bench --list",
        )
    return found


def _listed(chosen: Sequence[PeerProblem], small: Sequence[str], inside: Sequence[str]) -> CommandResult:
    lines = [*(f"{row.label}  ({row.group})" for row in chosen), *small, *inside]
    labels = [{"label": row.label, "group": row.group} for row in chosen]
    return CommandResult("\n".join(lines), {"rows": labels, "figures": list(small), "studies": list(inside)})


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = Parser("restride bench", __doc__, _DRIVER)
    cores = available_processors()
    add = parser.add_argument
    add(
        "--rows", default="", type=_pattern, metavar="REGEX", help="only the rows and figures that this finds"
    )
    add(
        "--peers", default=list(PEERS), type=_peers, metavar="A,B", help=f"of {', '.join(PEERS)}; default all"
    )
    add("--threads", default=cores, type=_positive, metavar="N", help="for every side; default all cores")
    add("--rounds", default=0, type=_positive, metavar="N", help="samples of each; default 15, quick 5")
    add("--quick", action="store_true", help="a dozen small rows in half a minute: not to quote")
    add(
        "--largest",
        default=0,
        type=_positive,
        metavar="BYTES",
        help="end of the growth series, a quarter of the roofline's; default 1 GB",
    )
    add("--out", type=Path, metavar="FOLDER", help="write the reports there; without it no file is written")
    add("--list", action="store_true", help="print the rows and figures and measure nothing")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (5 if options.quick else 15)
    options.largest = options.largest or (_QUICK_LARGEST if options.quick else _LARGEST)
    return options


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None
    return text


def _peers(text: str) -> list[str]:
    spelled = {name.lower(): name for name in PEERS}
    unknown = [name for name in text.split(",") if name.lower() not in spelled]
    if unknown:
        raise argparse.ArgumentTypeError(f"no peer {unknown[0]!r}; there are {', '.join(PEERS)}")
    return [spelled[name.lower()] for name in text.split(",")]


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def _measure(options: argparse.Namespace, work: Work, studied: studies.Studies) -> report.SuiteReport:
    facts = machine.describe()
    peers, missing = open_peers(options.peers, options.threads)
    for name, how in missing.items():
        print_stderr(f"missing: {name} ({how})")
    # NumPy copies for the roof even when it is not a peer.
    copiers = [*peers, *([] if any(peer.name == "NumPy" for peer in peers) else [NumPy(options.threads)])]
    setting = BenchSetup(peers, copiers, options.threads, options.rounds, options.largest)
    measured: list[BenchRow] = []
    taken: list[figures.Figure] = []
    steps: list[BenchRow] = []
    notes = _settings(options)
    until = time.monotonic() + _QUICK_SECONDS if options.quick else None

    def row(problem: PeerProblem) -> str:
        measured.append(suite.measure(problem, setting))
        return f"[{len(measured)}/{len(work.rows)}] {problem.label}: {report.line(measured[-1])}"

    def figure(name: str) -> str:
        if name == _GROWTH:
            steps.extend(figures.growth(setting))
            return name
        taken.append(figures.FIGURES[name](setting))
        return f"{taken[-1].name}: {report.amount(taken[-1].spread.median, taken[-1].unit)}"

    def study(name: str) -> str:
        studied.run(name, setting)
        return name

    tasks: list[tuple[str, Callable[[], str]]] = [
        *((problem.label, partial(row, problem)) for problem in work.rows),
        *((name, partial(figure, name)) for name in work.figures),
        *((name, partial(study, name)) for name in work.studies),
    ]
    total = len(tasks)
    try:
        with Progress("measuring", total, "rows") as progress:
            for label, task in tasks:
                if until is not None and time.monotonic() > until:
                    break
                progress.label = label
                _say(progress, task())
            if progress.done < total:
                notes["left out"] = f"{total - progress.done} of {total}, so that a quick run stays quick"
                _say(progress, f"left out: {notes['left out']}", 0)
    except KeyboardInterrupt:
        notes["interrupted"] = f"after {len(measured)} of {len(work.rows)} rows"
    versions = {**{peer.name: peer.version for peer in peers if peer.version}, **machine.versions()}
    studied.about = {"machine": facts, "versions": versions, "settings": notes}
    cache = machine.last_level_cache()
    return report.SuiteReport(facts, versions, notes, missing, measured, taken, steps, cache)


def _settings(options: argparse.Namespace) -> dict[str, str]:
    notes = {"threads": str(options.threads), "rounds": str(options.rounds)}
    if machine.is_busy():
        notes["busy"] = "other work was running: repeat on a quiet machine before quoting"
        print_stderr(f"warning: {notes['busy']}")
    if options.quick:
        notes["quick"] = "small sizes and few rounds: these figures are not to be quoted"
    if options.rows:
        notes["rows"] = f"only those that match {options.rows!r}"
    return notes


def _published(found: report.SuiteReport, folder: Path | None) -> CommandResult:
    means = [
        f"{mean.value:8.2f} {mean.name}  (worst {mean.worst:.2f}: {mean.worst_row})"
        for mean in report.means(found.rows)
    ]
    drawn = chart.draw if found.rows or found.steps else None
    return _written("bench", (report, drawn), found, folder, means)


def _published_studies(found: studies.Studies, folder: Path | None) -> CommandResult:
    page = [studies.as_markdown(found)] if folder is None else []
    return _written("inside", (studies, curves.draw), found, folder, page)


def _written(
    name: str, writers: tuple[Any, Any], found: Any, folder: Path | None, lines: Sequence[str]
) -> CommandResult:
    """Write a report and draw it, where there is a folder; what is said of it, and its values for --json."""
    module, draw = writers
    paths: list[Path] = [] if folder is None else module.write(found, folder)
    try:
        paths += draw(found, folder) if draw and folder else []
    except ImportError:
        print_stderr("no chart: matplotlib is not installed (pip install matplotlib)")
    names = [str(path) for path in paths]
    ends = [f"WRONG {trouble}" for trouble in found.wrong]
    ends += ["written: " + ", ".join(names)] if names else []
    values = {**module.as_json(found), "wrong": list(found.wrong), "written": names}
    return CommandResult("\n".join([*lines, *ends]), {name: values})


def _say(progress: Progress, text: str, done: int = 1) -> None:
    """A line on stderr above the bar, which goes on by `done`."""
    progress.clear()
    print_stderr(text)
    progress.advance(done)


if __name__ == "__main__":
    sys.exit(command(["bench", *sys.argv[1:]]))
