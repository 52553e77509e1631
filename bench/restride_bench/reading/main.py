"""Three trained networks read the text in a photograph; and what the formats of their tensors saved.

The networks come from the rapidocr-onnxruntime wheel, which is read, not installed, the page from
scikit-image (`make demo-network` gets both). Where ONNX Runtime is installed, it reads the same page, and the
texts are compared.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import restride as rs
from restride.cli.output import CommandResult
from restride.cli.progress import Progress
from restride.cli.usage import Parser
from restride.runtime.alloc import Array
from restride.view.names import aligned

from ..onnx_runtime import session_of
from .models import Models, as_colors, models_in, page
from .reader import LineRead, PageReader

RULES = ("plain", "greedy", "optimal")
_NETWORKS = ("detection", "direction", "recognition")
_ROUNDS = 5


def add_arguments(parser: Parser) -> None:
    """Parse the path of the wheel, and another picture."""
    parser.add_argument(
        "--data", type=Path, default=Path(".demo"), metavar="FOLDER", help="where the wheel of rapidocr lies"
    )
    parser.add_argument(
        "--picture", type=Path, metavar="FILE.npy", help="another picture: (height, width, 3) of u8"
    )


@dataclass(frozen=True, slots=True)
class RuleRow:
    """The result of the networks under one rule: reorders of a run, bytes that they move, and seconds."""

    rule: str
    reorders: int
    nbytes: int
    seconds: float


def run(options: argparse.Namespace) -> CommandResult:
    """Status 1 where ONNX Runtime reads something else."""
    models = models_in(options.data)
    picture, origin = _picture(options.picture)
    with Progress("compiling and reading", len(RULES) + 1, "runs") as progress:
        rows: list[RuleRow] = []
        lines: list[LineRead] = []
        for rule in RULES:
            row, lines = _measured(models, rule, picture)
            rows.append(row)
            progress.advance()
        other = _by_onnx_runtime(models, picture)
        progress.advance()
    is_wrong = other is not None and [each.text for each in other] != [each.text for each in lines]
    origins = (("picture", f"{origin}, {picture.shape[1]} x {picture.shape[0]}"), ("networks", models.origin))
    values: dict[str, Any] = {
        "data": dict(origins),
        "lines": [{"text": line.text, "score": line.score} for line in lines],
        "rules": [
            {"rule": r.rule, "reorders": r.reorders, "bytes": r.nbytes, "seconds": r.seconds} for r in rows
        ],
        "onnx_runtime": None if other is None else not is_wrong,
    }
    return CommandResult(_text(dict(origins), lines, rows, other), values, int(is_wrong))


def _picture(path: Path | None) -> tuple[Array, str]:
    return page() if path is None else (as_colors(np.load(path, allow_pickle=False)), path.name)


def _measured(models: Models, rule: str, picture: Array) -> tuple[RuleRow, list[LineRead]]:
    """The networks under a rule: the least time of a few readings, of the networks alone."""
    networks = {name: models.network(name, rule) for name in _NETWORKS}
    times = dict.fromkeys(_NETWORKS, 0.0)
    dims: dict[str, tuple[int, ...]] = {}

    def timed(name: str) -> Callable[[Array], Any]:
        def call(x: Array) -> Any:
            dims[name] = x.shape
            start = time.perf_counter()
            y = networks[name](x)
            times[name] += time.perf_counter() - start
            return y

        return call

    reader = PageReader(models.characters, *map(timed, _NETWORKS))
    lines, best = reader(picture), float("inf")
    for _ in range(_ROUNDS):
        times.update(dict.fromkeys(_NETWORKS, 0.0))
        reader(picture)
        best = min(best, sum(times.values()))
    plans = [networks[name].plan(extents) for name, extents in dims.items()]
    reorders = [each for plan in plans for each in plan.formats.reorders if not each.is_constant]
    return RuleRow(rule, len(reorders), sum(each.cost.bytes_moved for each in reorders), best), lines


def _by_onnx_runtime(models: Models, picture: Array) -> list[LineRead] | None:
    """Return the text that ONNX Runtime reads; None if it is not installed."""
    sessions = [session_of(getattr(models, name)) for name in _NETWORKS]
    if None in sessions:
        return None

    def call(session: Any) -> Callable[[Array], Any]:
        name_in = session.get_inputs()[0].name
        return lambda x: session.run(None, {name_in: x})[0]

    return PageReader(models.characters, *map(call, sessions))(picture)


# --- what is said -------------------------------------------------------------------------------------------


def _text(
    origins: Mapping[str, str], lines: list[LineRead], rows: list[RuleRow], other: list[LineRead] | None
) -> str:
    titles = ("formats by the rule", "reorders", "MB reordered", "ms", "of plain")
    cells = [
        (
            row.rule,
            str(row.reorders),
            f"{row.nbytes / 1e6:.1f}",
            f"{row.seconds * 1e3:.1f}",
            f"{row.seconds / rows[0].seconds:.2f}",
        )
        for row in rows
    ]
    said = [f"  {line.score:.2f}  {line.text}" for line in lines] or ["  nothing: there is no text in it"]
    return "\n".join(
        [
            "Data",
            *(f"  {line}" for line in aligned(list(origins.items()), "<<")),
            "",
            "What it says (how sure the network is, and the text)",
            *said,
            "",
            *aligned([titles, *cells], "<>>>>"),
            "",
            _verdict(lines, rows, other),
        ]
    )


def _verdict(lines: list[LineRead], rows: list[RuleRow], other: list[LineRead] | None) -> str:
    plain, best = rows[0], min(rows, key=lambda row: row.seconds)
    told = (
        f"What this showed: three trained networks found and read {len(lines)} lines, with "
        f"{rs.get_num_threads()} threads in {best.seconds * 1e3:.0f} ms;\n"
        f"with every tensor row-major they take {plain.seconds / best.seconds:.1f} times as long."
    )
    if other is None:
        return f"{told}\nONNX Runtime is not installed: what it reads was not compared."
    theirs, ours = ([each.text for each in found] for found in (other, lines))
    if theirs == ours:
        return f"{told}\nONNX Runtime reads the same, character by character."
    wrong = [
        f"  {mine!r}, and ONNX Runtime {its!r}"
        for mine, its in zip(ours, theirs, strict=False)
        if mine != its
    ]
    return "\n".join([f"WRONG: ONNX Runtime reads {len(theirs)} lines, and not the same.", *wrong])
