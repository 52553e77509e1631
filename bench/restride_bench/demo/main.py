"""The main job on real data: photographs and a model's weights into other formats and types, and back.

Photographs come from scikit-image (pip install 'restride[demo]'), weights from the silero-vad wheel, which is
read, not installed (pip download --no-deps silero-vad -d .demo; `make demo` does both). What is missing is
replaced by generated data, and reported. Every answer is checked element by element; speed is in 1e9 bytes
read and written per second, the best of a few rounds, compared with NumPy's best way and memcpy: the fastest
plain copy of as many bytes in as many pieces, or copy and fill if more is written than read.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from restride import get_num_threads
from restride.cli.output import CommandResult
from restride.cli.progress import Progress
from restride.cli.usage import Parser
from restride.view.names import aligned

from ..measure import geometric_mean
from .data import Data, convolutions, photograph
from .jobs import TripRow, measure_trip, photo_trips, weight_trips

_VIEWS, _ROUNDS = 8, 7
_QUICK_VIEWS, _QUICK_ROUNDS = 1, 3
_NEXT = """\
What to try next:
  restride show nChw16c 1x17x2x2         what a blocked layout looks like in memory
  restride explain OIhw4i16o4i 64x64x3x3 its strides, padding and offset formula
  restride reorder in.npy out.npy --dst nhwc --dtype s8 --scale 127
  python -c "import numpy as np, restride as rs; print(rs.reorder(np.ones((1, 3, 4, 4), 'f4'), 'nChw16c'))"
  make demo-network                      trained networks read the text in a photograph
  make bench                             the whole comparison, with torch and oneDNN"""


def add_arguments(parser: Parser) -> None:
    """Parse the path of the wheel, and options for less work."""
    parser.add_argument(
        "--data", type=Path, default=Path(".demo"), metavar="FOLDER", help="where the silero_vad wheel lies"
    )
    parser.add_argument("--quick", action="store_true", help="one picture, few rounds: figures not to quote")


def run(options: argparse.Namespace) -> CommandResult:
    """Status 1 where an answer was wrong."""
    sources = {
        "photo": photograph("astronaut", (512, 512)),
        "photo / 255": photograph("chelsea", (300, 451)),
        "weights": convolutions(options.data),
    }
    views, rounds = (_QUICK_VIEWS, _QUICK_ROUNDS) if options.quick else (_VIEWS, _ROUNDS)
    trips = [*photo_trips(sources["photo"], sources["photo / 255"], views), *weight_trips(sources["weights"])]
    rows: list[TripRow] = []
    with Progress("measuring", 2 * len(trips), "rows") as progress:
        for trip in trips:
            progress.label = trip.name
            for row in measure_trip(trip, get_num_threads(), rounds):
                rows.append(row)
                progress.advance()
    values = {
        "data": {name: {"origin": data.origin, "real": data.is_real} for name, data in sources.items()},
        "threads": get_num_threads(),
        "quick": options.quick,
        "rows": [row.values() for row in rows],
    }
    return CommandResult(_text(sources, rows), values, int(any(row.wrong for row in rows)))


def _text(sources: Mapping[str, Data], rows: list[TripRow]) -> str:
    titles = ("", "tensor", "MB moved", "restride", "NumPy", "memcpy", "x NumPy", "of memcpy", "checked")
    table = aligned([titles, *map(_cells, rows)], "<<>>>>>><")
    origins = aligned([(name, data.origin) for name, data in sources.items()], "<<")
    return "\n".join(
        ["Data", *(f"  {line}" for line in origins), "", *table, "", _verdict(sources, rows), "", _NEXT]
    )


def _cells(row: TripRow) -> tuple[str, ...]:
    rates = (f"{rate:.1f}" for rate in (row.restride, row.numpy, row.memcpy))
    ratios = (f"{row.restride / row.numpy:.1f}", f"{row.restride / row.memcpy:.0%}")
    return (
        row.name,
        row.tensors,
        f"{row.moved / 1e6:.1f}",
        *rates,
        *ratios,
        row.wrong or f"right: {row.check}",
    )


def _verdict(sources: Mapping[str, Data], rows: list[TripRow]) -> str:
    wrong = [row for row in rows if row.wrong]
    if wrong:
        return f"WRONG: {len(wrong)} of {len(rows)} rows. Please report this."
    made = [name for name, data in sources.items() if not data.is_real]
    note = f"\nGenerated data stood in for {', '.join(made)}." if made else ""
    if max(_ratios(rows)[1]) > 1:
        note = f"\nMore than 100% of memcpy: to read or to write alone can be faster than to copy.{note}"
    over, of = (geometric_mean(values) or 0 for values in _ratios(rows))
    return (
        f"Speed is in GB/s: bytes read and written, padding included.{note}\n\n"
        "What this showed: restride put photographs and a model's weights into the memory layouts\n"
        "and number types that fast kernels want, and took them back. Every element of all "
        f"{len(rows)} results\n"
        f"was right; it was {over:.1f} times as fast as NumPy, at {of:.0%} of the speed of copying the bytes "
        "unchanged."
    )


def _ratios(rows: list[TripRow]) -> tuple[list[float], list[float]]:
    """Return the speedup of each row over NumPy, and its fraction of the speed of a copy."""
    return [row.restride / row.numpy for row in rows], [row.restride / row.memcpy for row in rows]
