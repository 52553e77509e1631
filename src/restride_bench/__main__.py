"""Measure the standing suite, with every peer that is installed, and write the report."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from restride.cli.main import main as command
from restride.cli.output import Answer, say
from restride.cli.usage import Parser
from restride.runtime.pool import available_processors

from . import chart, curves, figures, machine, report, rows, studies
from .array_peers import NumPy
from .driver import main as driver
from .peer import Peer
from .peers import PEERS, open_peers
from .problem import PeerProblem
from .suite import Bench, SuiteRow

_QUICK_BYTES, _LARGEST, _QUICK_LARGEST = 4_000_000, 1_000_000_000, 16_000_000
_GROWTH = "growth"
_DRIVER = (
    "With a driver such as --reorder: oneDNN benchdnn's grammar; restride bench --reorder --help tells more."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Exit status 1 where an answer was wrong, 2 for a usage error."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if driver.is_driver(words):
        return driver.main(words)
    options = _parse(words)
    chosen = rows.select(rows.suite(least=_QUICK_BYTES if options.quick else rows.LARGE), options.rows)
    small = [name for name in (*figures.FIGURES, _GROWTH) if re.search(options.rows, name)]
    inside = [name for name in studies.STUDIES if re.search(options.rows, name)]
    if options.list:
        say(_listed(chosen, small, inside), options.json)
        return 0
    studied = studies.Studies()
    found = _measure(options, chosen, small, inside, studied)
    answers = [_published(found, options.out)] if chosen or small else []
    answers += [] if studied.is_empty else [_published_studies(studied, options.out)]
    values = {name: value for answer in answers for name, value in answer.values.items()}
    say(Answer("\n".join(answer.text for answer in answers), values), options.json)
    return 1 if found.wrong or studied.wrong else 0


def _listed(chosen: Sequence[PeerProblem], small: Sequence[str], inside: Sequence[str]) -> Answer:
    lines = [*(f"{row.label}  ({row.group})" for row in chosen), *small, *inside]
    labels = [{"label": row.label, "group": row.group} for row in chosen]
    return Answer("\n".join(lines), {"rows": labels, "figures": list(small), "studies": list(inside)})


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
    add("--quick", action="store_true", help="small sizes, few rounds: to see that it works, not to quote")
    add(
        "--largest",
        default=0,
        type=_positive,
        metavar="BYTES",
        help="end of the growth series, a quarter of the roofline's; default 1 GB",
    )
    add("--out", default=Path("benchmarks/results"), type=Path, metavar="FOLDER", help="for the report")
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
    spelt = {name.lower(): name for name in PEERS}
    unknown = [name for name in text.split(",") if name.lower() not in spelt]
    if unknown:
        raise argparse.ArgumentTypeError(f"no peer {unknown[0]!r}; there are {', '.join(PEERS)}")
    return [spelt[name.lower()] for name in text.split(",")]


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def _measure(
    options: argparse.Namespace,
    chosen: Sequence[PeerProblem],
    small: Sequence[str],
    inside: Sequence[str],
    studied: studies.Studies,
) -> report.SuiteReport:
    facts = machine.describe()
    peers, missing = open_peers(options.peers, options.threads)
    for name, how in missing.items():
        _say(f"missing: {name} ({how})")
    bench = Bench(peers, _copiers(peers, options.threads), options.rounds, machine.last_level_cache())
    setting = figures.BenchSetup(bench.peers, bench.copiers, options.threads, options.rounds, options.largest)
    measured: list[SuiteRow] = []
    taken: list[figures.Figure] = []
    steps: list[figures.GrowthStep] = []
    notes = _settings(options)
    try:
        _run_rows(bench, chosen, measured)
        _run_figures(setting, small, taken, steps)
        for name in inside:
            _progress(name)
            studied.run(name, setting)
            _say(name)
    except KeyboardInterrupt:
        notes["interrupted"] = f"after {len(measured)} of {len(chosen)} rows"
    versions = {**{peer.name: peer.version for peer in peers}, **machine.versions()}
    studied.about = {"machine": facts, "versions": versions, "settings": notes}
    return report.SuiteReport(facts, versions, notes, missing, measured, taken, steps)


def _copiers(peers: Sequence[Peer], threads: int) -> list[Peer]:
    """Those who copy for the roof: NumPy even when it is not a peer."""
    return [*peers, *([] if any(peer.name == "NumPy" for peer in peers) else [NumPy(threads)])]


def _settings(options: argparse.Namespace) -> dict[str, str]:
    notes = {"threads": str(options.threads), "rounds": str(options.rounds)}
    if machine.is_busy():
        notes["busy"] = "other work was running: repeat on a quiet machine before quoting"
        _say(f"warning: {notes['busy']}")
    if options.quick:
        notes["quick"] = "small sizes and few rounds: these figures are not to be quoted"
    if options.rows:
        notes["rows"] = f"only those that match {options.rows!r}"
    return notes


def _run_rows(bench: Bench, chosen: Sequence[PeerProblem], measured: list[SuiteRow]) -> None:
    for number, problem in enumerate(chosen, 1):
        _progress(f"[{number}/{len(chosen)}] {problem.label}")
        measured.append(bench.run(problem))
        _say(f"[{number}/{len(chosen)}] {problem.label}: {report.line(measured[-1])}")


def _run_figures(
    setting: figures.BenchSetup,
    small: Sequence[str],
    taken: list[figures.Figure],
    steps: list[figures.GrowthStep],
) -> None:
    for name in small:
        _progress(name)
        if name == _GROWTH:
            steps += figures.growth(setting)
            continue
        taken.append(figures.FIGURES[name](setting))
        _say(f"{taken[-1].name}: {taken[-1].spread.median:.3g} {taken[-1].unit}")


def _published(found: report.SuiteReport, folder: Path) -> Answer:
    written = report.write(found, folder)
    try:
        written += chart.draw(found, folder) if found.rows or found.steps else []
    except ImportError:
        _say("no chart: matplotlib is not installed (pip install matplotlib)")
    means = [
        f"{mean.value:8.2f} {mean.name}  (worst {mean.worst:.2f}: {mean.worst_row})"
        for mean in report.means(found.rows)
    ]
    return _written("bench", report.as_json(found), means, found.wrong, written)


def _written(
    name: str, values: dict[str, Any], lines: Sequence[str], wrong: Sequence[str], paths: Sequence[Path]
) -> Answer:
    """What is said of one report, and the report itself for --json."""
    names = [str(path) for path in paths]
    ends = [*(f"WRONG {trouble}" for trouble in wrong), "written: " + ", ".join(names)]
    about = {"wrong": list(wrong), "written": names}
    return Answer("\n".join([*lines, *ends]), {name: {**values, **about}})


def _published_studies(found: studies.Studies, folder: Path) -> Answer:
    written = studies.write(found, folder)
    try:
        written += curves.draw(found, folder)
    except ImportError:
        _say("no charts: matplotlib is not installed (pip install matplotlib)")
    return _written("inside", studies.as_json(found), [], found.wrong, written)


def _progress(text: str) -> None:
    """What is being measured now, on a terminal only: the next line overwrites it."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text} …", end="", file=sys.stderr, flush=True)


def _say(text: str) -> None:
    lead = "\r\x1b[K" if sys.stderr.isatty() else ""
    print(f"{lead}{text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(command(["bench", *sys.argv[1:]]))
