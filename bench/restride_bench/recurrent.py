"""Recurrent networks beside oneDNN and torch: forward inference, each with the weights that it wants.

    python -m restride_bench.recurrent [THREADS [CELL or TYPE...]]

prints the table of docs/performance.md: of all cells and types, or of those that are named, "LSTM bf16".
Networks are those where latency counts, 16 steps of 1 and 16 sequences, and a larger one. The same weights go
into all; every answer is compared with restride's. All take turns, round after round; times are the least of
all rounds. A peer that is not installed, or has no such network, is left out. Words that are neither
exit with 2, and the usage says which there are.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import restride as rs
from restride import Error

from .measure import Timing, alternate, batch_size
from .network_shape import GATES, NetworkShape
from .onednn_networks import OneDNNNetworks
from .recurrent_calls import TORCH_CELLS, onednn_call, restride_call, torch_call, values_of

__all__ = ["ROWS", "NetworkShape", "measure", "parse"]

_ROUNDS = 31
_SMALL = [(16, batch, channels) for batch in (1, 16) for channels in (64, 128, 256, 512)]
_FEW = [(16, 1, 256), (16, 16, 256), (16, 16, 512)]
_LARGE = (32, 64, 1024)
# How far answers may be apart: two steps of quantisation, some places of bf16.
_NEAR = {"f32": 1e-4, "bf16": 5e-2, "u8": 2.5}
ROWS = (
    *(NetworkShape(cell, *sizes) for cell in ("LSTM", "GRU", "LBRGRU") for sizes in [*_SMALL, _LARGE]),
    *(NetworkShape(cell, *sizes, "bf16") for cell in ("LSTM", "GRU", "LBRGRU") for sizes in [*_FEW, _LARGE]),
    *(NetworkShape(cell, *sizes, "u8") for cell in ("LSTM", "GRU") for sizes in [*_FEW, _LARGE]),
)


@dataclass(frozen=True)
class NetworkTimes:
    """A row: the time of each that can do it, and who gave another answer than restride."""

    shape: NetworkShape
    times: dict[str, Timing]
    wrong: tuple[str, ...]

    def over(self, peer: str) -> str:
        """How many times faster than a peer; "" where there is none, or its answer is another."""
        if peer not in self.times or peer in self.wrong:
            return ""
        return f"{self.least(peer) / self.least('restride'):.2f}"

    def least(self, name: str) -> float:
        """The least time in seconds."""
        return min(self.times[name].seconds)


def measure(shape: NetworkShape, library: OneDNNNetworks | None, *, has_torch: bool) -> NetworkTimes:
    """Time a row, and compare the answers."""
    values = values_of(shape)
    calls, results = {}, {}
    calls["restride"], own = restride_call(shape, values)
    if library is not None:
        calls["oneDNN"], results["oneDNN"] = onednn_call(library, shape, values)
    if has_torch and shape.cell in TORCH_CELLS and shape.data_type != "u8":
        calls["torch"], results["torch"] = torch_call(shape, values)
    for call in calls.values():
        call()
    rounds = 9 if (shape.steps, shape.batch, shape.channels) == _LARGE else _ROUNDS
    times = alternate(calls, rounds=rounds, number=batch_size(calls["restride"]))
    right = own.to_numpy().astype(np.float32)
    found = {
        name: each["result"].numpy() if isinstance(each, dict) else each.astype(np.float32)
        for name, each in results.items()
    }
    near = _NEAR[shape.data_type]
    wrong = tuple(name for name, each in found.items() if not np.abs(each - right).max() < near)
    return NetworkTimes(shape, times, wrong)


def main(threads: int, words: Sequence[str]) -> None:
    """Print the table of some cells and types."""
    rs.set_num_threads(threads)
    library = None
    try:
        library = OneDNNNetworks()
        library.set_num_threads(threads)
    except Error as error:
        print(f"without oneDNN: {error.what}\n")
    has_torch = importlib.util.find_spec("torch") is not None
    if has_torch:
        import torch

        torch.set_num_threads(threads)
    print("| cell | steps | sequences | channels | type | time | GFLOP/s | oneDNN | torch |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for shape in _rows(words):
        row = measure(shape, library, has_torch=has_torch)
        seconds = row.least("restride")
        times = [f"{seconds * 1e6:.0f} µs", f"{shape.flops / seconds / 1e9:.0f}"]
        print("|", " | ".join(map(str, [*shape, *times, row.over("oneDNN"), row.over("torch")])), "|")
        for name in row.wrong:
            print(f"\nwrong: {name} of {shape}\n")
        sys.stdout.flush()


def parse(arguments: Sequence[str]) -> tuple[int, list[str]]:
    """The threads, and the cells and types. Exits with 2 for what is neither, with 0 where help is wanted."""
    listed = "; ".join(f"{cell} of {', '.join(types)}" for cell, types in _types().items())
    parser = argparse.ArgumentParser(
        prog="python -m restride_bench.recurrent",
        description="Time recurrent networks beside oneDNN and torch.",
        epilog=f"Rows are {listed}.",
    )
    parser.add_argument("threads", nargs="?", type=_threads, default=rs.get_num_threads(), metavar="THREADS")
    words = [*_types(), *_NEAR]
    parser.add_argument(
        "words", nargs="*", metavar="CELL or TYPE", help=f"what is timed, else all: {', '.join(words)}"
    )
    found = parser.parse_args(arguments)
    unknown = [word for word in found.words if word not in words]
    if unknown:
        parser.error(f"{', '.join(unknown)}: cells and types are {', '.join(words)}")
    if not _rows(found.words):
        parser.error(f"{' '.join(found.words)}: there is no such row; rows are {listed}")
    return found.threads, found.words


def _threads(text: str) -> int:
    if text.isdecimal() and int(text):
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of threads, which is 1 or more")


def _types() -> dict[str, list[str]]:
    """The cells of the rows, and the types of each."""
    found: dict[str, list[str]] = {}
    for row in ROWS:
        types = found.setdefault(row.cell, [])
        types.extend([row.data_type] if row.data_type not in types else [])
    return found


def _rows(words: Sequence[str]) -> list[NetworkShape]:
    """The rows of some cells and types."""
    cells = [word for word in words if word in GATES] or list(GATES)
    types = [word for word in words if word in _NEAR] or list(_NEAR)
    return [row for row in ROWS if row.cell in cells and row.data_type in types]


if __name__ == "__main__":
    main(*parse(sys.argv[1:]))
