"""Recurrent networks beside oneDNN and torch: forward inference of f32, each with the weights that it wants.

    python -m restride_bench.recurrent [THREADS [CELL...]]

prints the table of docs/primitives/rnn.md. Networks are those where latency counts, 16 steps of 1 and 16
sequences, and a larger one. The same weights go into all; every answer is compared with restride's. All take
turns, round after round; times are the least of all rounds. A peer that is not installed is left out.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import restride as rs
from restride import Error

from .measure import Call, Timing, alternate, batch_size
from .onednn_networks import OneDNNNetworks

__all__ = ["ROWS", "NetworkShape", "measure"]

_ROUNDS = 9
_SMALL = [(16, batch, channels) for batch in (1, 16) for channels in (64, 128, 256, 512)]
_GATES = {"VanillaRNN": 1, "LSTM": 4, "GRU": 3, "LBRGRU": 3}
_CELLS = {"VanillaRNN": "vanilla_rnn", "LSTM": "vanilla_lstm", "GRU": "vanilla_gru", "LBRGRU": "lbr_gru"}
# The GRU of torch is linear before its reset.
_OF_TORCH = {"VanillaRNN": "RNN", "LSTM": "LSTM", "LBRGRU": "GRU"}
_NEAR = 1e-4


class NetworkShape(NamedTuple):
    """A cell, steps of time, sequences, and channels of the input and of the states."""

    cell: str
    steps: int
    batch: int
    channels: int

    @property
    def flops(self) -> int:
        """Operations of the products: an addition and a product each."""
        return 4 * self.steps * self.batch * _GATES[self.cell] * self.channels**2

    def dims(self) -> dict[str, tuple[int, ...]]:
        """The dims of all tensors."""
        state, gates = (1, 1, self.batch, self.channels), _GATES[self.cell]
        weights = (1, 1, self.channels, gates, self.channels)
        layer = (self.steps, self.batch, self.channels)
        bias = (1, 1, gates + (self.cell == "LBRGRU"), self.channels)
        found = {"src_layer": layer, "src_iter": state, "weights_layer": weights, "weights_iter": weights}
        found |= {"bias": bias, "dst_layer": layer, "dst_iter": state}
        return found | ({"src_iter_c": state, "dst_iter_c": state} if self.cell == "LSTM" else {})


ROWS = tuple(
    NetworkShape(cell, *sizes) for cell in ("LSTM", "GRU", "LBRGRU") for sizes in [*_SMALL, (32, 64, 1024)]
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


def _values(shape: NetworkShape) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    scale = {"weights_layer": 1 / shape.channels**0.5, "weights_iter": 1 / shape.channels**0.5}
    return {
        name: (scale.get(name, 1.0) * rng.uniform(-1, 1, dims)).astype(np.float32)
        for name, dims in shape.dims().items()
    }


def _ours(shape: NetworkShape, values: dict[str, Any]) -> tuple[Call, Any]:
    engine = rs.Engine("cpu")
    stream = rs.Stream(engine)
    descs: dict[str, Any] = {
        f"{name}_desc": rs.MemoryDesc(dims, "f32", "any" if name.startswith("weights") else None)
        for name, dims in shape.dims().items()
    }
    if shape.cell == "VanillaRNN":
        descs["activation"] = "eltwise_tanh"
    kind = getattr(rs, f"{shape.cell}Forward")
    pd = kind.PrimitiveDesc(
        engine, prop_kind="forward_inference", direction="unidirectional_left2right", **descs
    )
    memories = {}
    for name, value in values.items():
        md = getattr(pd, f"{name}_desc")()
        held = rs.Memory(md, engine)
        plain = rs.Memory(rs.MemoryDesc(value.shape, "f32"), engine, value)
        rs.Reorder(plain, held).execute(stream, plain, held)
        memories[getattr(rs, f"ARG_{name.upper()}")] = held
    network = kind(pd)
    return lambda: network.execute(stream, memories), memories[rs.ARG_DST_LAYER]


def _onednn(library: OneDNNNetworks, shape: NetworkShape, values: dict[str, Any]) -> tuple[Call, Any]:
    letters = "abcdefgh"
    plain = {name: library.desc(value.shape, "f32", letters[: value.ndim]) for name, value in values.items()}
    descs = plain | {name: library.any_desc(values[name].shape) for name in ("weights_layer", "weights_iter")}
    primitive, chosen = library.recurrent(_CELLS[shape.cell], descs)
    memories = {}
    for name, value in values.items():
        source = library.memory(plain[name], value)
        held = source
        if name in chosen:
            held = library.memory(chosen[name])
            library.reorder(plain[name], chosen[name]).bind(source, held)()
        memories[getattr(rs, f"ARG_{name.upper()}")] = held
    return primitive.bind_all(memories), values["dst_layer"]


def _torch(shape: NetworkShape, values: dict[str, Any]) -> tuple[Call, Any]:
    import torch

    module = getattr(torch.nn, _OF_TORCH[shape.cell])(shape.channels, shape.channels).eval()
    # The GRU of torch has the reset first, and two biases.
    order = [1, 0, 2] if shape.cell == "LBRGRU" else list(range(_GATES[shape.cell]))
    bias = values["bias"][0, 0]
    states = np.zeros((len(order), shape.channels), np.float32)
    states[-1] = bias[-1] if shape.cell == "LBRGRU" else 0
    parts = [values[name][0, 0].transpose(1, 2, 0)[order] for name in ("weights_layer", "weights_iter")]
    with torch.no_grad():
        for target, part in zip(module.parameters(), [*parts, bias[order], states], strict=True):
            target.copy_(torch.from_numpy(np.ascontiguousarray(part)).reshape(target.shape))
    given = [torch.from_numpy(values[name][0]) for name in ("src_iter", "src_iter_c") if name in values]
    first = given[0] if len(given) == 1 else tuple(given)
    x, found = torch.from_numpy(values["src_layer"]), {}

    def run() -> None:
        with torch.inference_mode():
            found["result"] = module(x, first)[0]

    return run, found


def measure(shape: NetworkShape, library: OneDNNNetworks | None, *, has_torch: bool) -> NetworkTimes:
    """Time a row, and compare the answers."""
    values = _values(shape)
    calls, results = {}, {}
    calls["restride"], own = _ours(shape, values)
    if library is not None:
        calls["oneDNN"], results["oneDNN"] = _onednn(library, shape, values)
    if has_torch and shape.cell in _OF_TORCH:
        calls["torch"], results["torch"] = _torch(shape, values)
    for call in calls.values():
        call()
    times = alternate(calls, rounds=_ROUNDS, number=batch_size(calls["restride"]))
    right = own.to_numpy()
    found = {
        name: each["result"].numpy() if isinstance(each, dict) else each for name, each in results.items()
    }
    wrong = tuple(name for name, each in found.items() if not np.abs(each - right).max() < _NEAR)
    return NetworkTimes(shape, times, wrong)


def main(threads: int, cells: Sequence[str]) -> None:
    """Print the table of some cells."""
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
    print("| cell | steps | sequences | channels | time | GFLOP/s | oneDNN | torch |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for shape in (shape for shape in ROWS if shape.cell in cells):
        row = measure(shape, library, has_torch=has_torch)
        seconds = row.least("restride")
        words = [*shape, f"{seconds * 1e6:.0f} µs", f"{shape.flops / seconds / 1e9:.0f}"]
        print("|", " | ".join(map(str, [*words, row.over("oneDNN"), row.over("torch")])), "|", flush=True)
        for name in row.wrong:
            print(f"\nwrong: {name} of {shape}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else rs.get_num_threads(), sys.argv[2:] or tuple(_GATES))
