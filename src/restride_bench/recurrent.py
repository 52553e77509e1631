"""Recurrent networks beside oneDNN and torch: forward inference, each with the weights that it wants.

    python -m restride_bench.recurrent [THREADS [CELL or TYPE...]]

prints the table of docs/performance.md: of all cells and types, or of those that are named, "LSTM bf16".
Networks are those where latency counts, 16 steps of 1 and 16 sequences, and a larger one. The same weights go
into all; every answer is compared with restride's. All take turns, round after round; times are the least of
all rounds. A peer that is not installed, or has no such network, is left out.
"""

from __future__ import annotations

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

__all__ = ["ROWS", "NetworkShape", "measure"]

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
    cells = [word for word in words if word in GATES] or list(GATES)
    types = [word for word in words if word in _NEAR] or list(_NEAR)
    for shape in (row for row in ROWS if row.cell in cells and row.data_type in types):
        row = measure(shape, library, has_torch=has_torch)
        seconds = row.least("restride")
        times = [f"{seconds * 1e6:.0f} µs", f"{shape.flops / seconds / 1e9:.0f}"]
        print("|", " | ".join(map(str, [*shape, *times, row.over("oneDNN"), row.over("torch")])), "|")
        for name in row.wrong:
            print(f"\nwrong: {name} of {shape}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else rs.get_num_threads(), sys.argv[2:])
