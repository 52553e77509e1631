"""Measure whole networks compared with ONNX Runtime, OpenVINO and torch: time, formats, memory, agreement.

  restride bench --networks                                   all that are installed, at batch 1 and 16
  restride bench --networks resnet50 shufflenet --batch 1
  restride bench --networks vgg19 --out rows.json             add rows to a file; --from rows.json shows it

Each runtime has a process of its own, and they take turns in short bursts, so that what else the machine does
meets all of them. A time is the least of all bursts. The error is the largest difference from ONNX Runtime,
of the largest value. Needs the packages onnx and onnxruntime; openvino and torch where they are installed.
torch runs the same layers by its own functions, eager; it reads no such models itself.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from restride.cli.output import CommandResult, print_result
from restride.cli.progress import Progress
from restride.cli.usage import Parser, wrong_usage
from restride.errors import RuntimeFailure
from restride.runtime.cpu.thread_pool import available_processors

from .measure import geometric_mean
from .network_models import ModelFile, installed
from .network_runner import RUNTIMES
from .pages import table

_RULES = ("optimal", "greedy", "plain")
_BURST_SECONDS = 0.25
_MOST_RUNS = 50
_TITLES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "torch": "torch"}
# The libraries that ratios compare with: those made to run networks.
_BETTER_OF = ("onnxruntime", "openvino")
_MAY_REFUSE = ("openvino", "torch")
Row = dict[str, Any]


def main(arguments: Sequence[str]) -> int:
    """Run the command. Exit status 1 where a result is not ONNX Runtime's."""
    options = _parser().parse_args(arguments)
    rows: list[Row] = json.loads(options.shown.read_text()) if options.shown is not None else []
    if options.shown is None:
        chosen = _chosen(options.names)
        with Progress("running networks", len(chosen) * len(options.batch), "networks") as progress:
            for model in chosen:
                for batch in options.batch:
                    rows.append(_measured(model, batch, options.threads, options.rounds))
                    if options.out is not None:
                        _add(options.out, rows[-1])
                    progress.advance()
    print_result(CommandResult(as_text(rows), {"rows": rows}), options.json)
    return int(any(row["error"] > 1e-4 for row in rows))


def _parser() -> Parser:
    parser = Parser("restride bench --networks", __doc__)
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="parts of names; all networks where there is none")
    add("--batch", type=int, nargs="+", default=[1, 16], metavar="N", help="default 1 16")
    add("--threads", type=int, default=available_processors(), metavar="N", help="default all cores")
    add("--rounds", type=int, default=6, metavar="N", help="turns of each runtime; default 6")
    add("--out", type=Path, metavar="FILE", help="add the rows to this file of JSON")
    add("--from", dest="shown", type=Path, metavar="FILE", help="measure nothing: the table of such a file")
    return parser


def _add(path: Path, row: Row) -> None:
    """Put a row into a file, in the place of an older one; what was measured stays, whatever comes after."""
    before = json.loads(path.read_text()) if path.exists() else []
    others = [each for each in before if (each["network"], each["batch"]) != (row["network"], row["batch"])]
    path.write_text(json.dumps([*others, row], indent=1) + "\n")


def _chosen(names: Sequence[str]) -> list[ModelFile]:
    found = [each for each in installed() if not names or any(name in each.name for name in names)]
    if found:
        return found
    raise wrong_usage(
        "restride bench --networks: there is no such network",
        why=f"{', '.join(each.name for each in installed()) or 'none'} are installed",
        hint="pip install onnx rapidocr-onnxruntime silero-vad",
    )


# --- measuring ----------------------------------------------------------------------------------------------


class _RuntimeProcess:
    """A process that runs one network in one runtime."""

    def __init__(self, runtime: str, model: Path, settings: Row, folder: Path) -> None:
        self.result = folder / f"{runtime}-{settings['rule']}.npy"
        told = folder / f"{runtime}-{settings['rule']}.json"
        told.write_text(json.dumps({**settings, "result": str(self.result)}))
        words = [sys.executable, "-m", "restride_bench.network_runner", runtime, str(model), str(told)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.first: Row = {}
        self.best, self.peak, self._runs = float("inf"), 0, 1

    def wait(self) -> None:
        """Until the first result is there, or a refusal."""
        self.first = self._heard()

    def burst(self) -> None:
        """Run for about a quarter of a second."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{self._runs}\n")
        self._process.stdin.flush()
        found = self._heard()
        self.best, self.peak = min(self.best, found["seconds"]), found["peak_bytes"]
        self._runs = max(1, min(_MOST_RUNS, int(_BURST_SECONDS / self.best)))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def _heard(self) -> Row:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a runtime ended before it told anything; what it said is above")
        found: Row = json.loads(line)
        return found


def _measured(model: ModelFile, batch: int, threads: int, rounds: int) -> Row:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        path = model.write(batch, folder)
        settings = {"dims": model.dims_of(batch), "values": model.values, "threads": threads}
        there = [each for each in RUNTIMES if importlib.util.find_spec(each) is not None]
        wanted = [("restride", rule) for rule in _RULES] + [
            (each, "") for each in there if each != "restride"
        ]
        begun: list[tuple[str, str, _RuntimeProcess]] = []
        for runtime, rule in wanted:
            made = _RuntimeProcess(runtime, path, {**settings, "rule": rule}, folder)
            stack.callback(made.close)
            begun.append((runtime, rule or runtime, made))
        runners: dict[str, _RuntimeProcess] = {}
        for runtime, name_of, made in begun:
            made.wait()
            if "refused" not in made.first:
                runners[name_of] = made
            elif runtime not in _MAY_REFUSE:
                raise RuntimeFailure(
                    f"restride bench --networks: {runtime} cannot run {model.name}",
                    code="RS-C04",
                    why=str(made.first["refused"])[:500],
                    hint="see whether the model is whole",
                )
        for _ in range(rounds):
            for each in runners.values():
                each.burst()
                # Threads of a runtime may spin for a while after its last run.
                time.sleep(0.02)
        own, theirs = (np.load(runners[each].result) for each in ("optimal", "onnxruntime"))
        return {
            "network": model.name,
            "batch": batch,
            "threads": threads,
            "error": float(np.abs(own - theirs).max() / max(np.abs(theirs).max(), 1e-30)),
            "seconds": {each: made.best for each, made in runners.items()},
            "peak_bytes": {each: made.peak for each, made in runners.items()},
            "formats": {rule: runners[rule].first for rule in _RULES},
        }


# --- what is said -------------------------------------------------------------------------------------------


def _ratio(row: Row) -> float:
    """Return the speedup over the faster of the others."""
    theirs = (row["seconds"][each] for each in _BETTER_OF if each in row["seconds"])
    return float(min(theirs) / row["seconds"]["optimal"])


def as_text(rows: Sequence[Row]) -> str:
    """The table of times, that of formats, and the means."""
    memories = [f"{_TITLES[each]} MB" for each in _BETTER_OF]
    times = [("network", "batch", "ms", *_TITLES.values(), "ratio", "error", "peak MB", *memories)]
    formats = [("network", "batch", *(f"{rule}: ms, reorders, MB" for rule in reversed(_RULES)))]
    for row in rows:
        seconds, peak = row["seconds"], row["peak_bytes"]
        others = (f"{seconds[each] * 1e3:.2f}" if each in seconds else "-" for each in _TITLES)
        memory = (f"{peak[each] / 1e6:.0f}" if each in peak else "-" for each in ("optimal", *_BETTER_OF))
        name = row["network"], str(row["batch"])
        own = f"{seconds['optimal'] * 1e3:.2f}"
        times.append((*name, own, *others, f"{_ratio(row):.2f}", f"{row['error']:.0e}", *memory))
        cells = []
        for rule in reversed(_RULES):
            told = row["formats"][rule]
            cells.append(f"{seconds[rule] * 1e3:.2f}, {told['reorders']}, {told['moved_bytes'] / 1e6:.1f}")
        formats.append((*name, *cells))
    ratios = [_ratio(row) for row in rows]
    if not ratios:
        return "no rows"
    mean = f"geometric mean of the ratios {geometric_mean(ratios) or 0:.2f}, least {min(ratios):.2f}"
    return "\n\n".join([_markdown(times), _markdown(formats), mean])


def _markdown(lines: Sequence[tuple[str, ...]]) -> str:
    return table(list(lines[0]), [list(line) for line in lines[1:]])
