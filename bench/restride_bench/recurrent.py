"""Recurrent networks compared with oneDNN and torch: forward inference, each with the weights that it wants.

    python -m restride_bench.recurrent [THREADS [CELL or TYPE...]]

prints a table: of all cells and types, or of those that are named, "LSTM bf16".
Networks are those where latency counts, 16 steps of 1 and 16 sequences, and a larger one. The same weights go
into all; every answer is compared with restride's. All take turns, round after round; times are the least of
all rounds. A peer that is not installed, or has no such network, is left out. Words that are neither
exit with 2, and the usage says which there are.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import restride as rs

from .measure import Call
from .onednn import OneDNN, OneDNNAttributes, OneDNNDesc, OneDNNPrimitive
from .onednn_library import OneDNNError, why_not
from .pages import Columns, cells, ratio, table
from .peer import PreparedCall
from .peers import open_peers
from .study import OWN, BenchRow, BenchSetup, RowPlan, race


class CellKind(NamedTuple):
    """The number of gates, and the names in oneDNN and torch (whose GRU is linear before its reset)."""

    gates: int
    onednn: str
    torch: str = ""


CELLS = {
    "VanillaRNN": CellKind(1, "vanilla_rnn", "RNN"),
    "LSTM": CellKind(4, "lstm", "LSTM"),
    "GRU": CellKind(3, "gru"),
    "LBRGRU": CellKind(3, "lbr_gru", "GRU"),
}
# Of bytes: data are value * scale + shift, weights value * scale; states stay in (-1, 1).
_SCALE, _SHIFT, _WEIGHTS_SCALE = 63.0, 128.0, 1000.0


class NetworkShape(NamedTuple):
    """A cell, steps of time, sequences, channels of the input and of the states; f32, bf16 or u8."""

    cell: str
    steps: int
    batch: int
    channels: int
    data_type: str = "f32"

    @property
    def flops(self) -> int:
        """Operations of the products: an addition and a product each."""
        return 4 * self.steps * self.batch * CELLS[self.cell].gates * self.channels**2

    def dims(self) -> dict[str, tuple[int, ...]]:
        """The dims of all tensors."""
        state, gates = (1, 1, self.batch, self.channels), CELLS[self.cell].gates
        weights = (1, 1, self.channels, gates, self.channels)
        layer = (self.steps, self.batch, self.channels)
        bias = (1, 1, gates + (self.cell == "LBRGRU"), self.channels)
        found = {"src_layer": layer, "src_iter": state, "weights_layer": weights, "weights_iter": weights}
        found |= {"bias": bias, "dst_layer": layer, "dst_iter": state}
        return found | ({"src_iter_c": state, "dst_iter_c": state} if self.cell == "LSTM" else {})

    def type_of(self, name: str) -> str:
        """The type of a tensor: bias and states c are f32, weights of bytes s8."""
        if name == "bias" or name.endswith("_c"):
            return "f32"
        return "s8" if self.data_type == "u8" and name.startswith("weights") else self.data_type


_ROUNDS = 31
_SMALL = [(16, batch, channels) for batch in (1, 16) for channels in (64, 128, 256, 512)]
_FEW = [(16, 1, 256), (16, 16, 256), (16, 16, 512)]
_LARGE = (32, 64, 1024)
# How far answers may be apart: two steps of quantization, some places of bf16.
_NEAR = {"f32": 1e-4, "bf16": 5e-2, "u8": 2.5}
ROWS = (
    *(NetworkShape(cell, *sizes) for cell in ("LSTM", "GRU", "LBRGRU") for sizes in [*_SMALL, _LARGE]),
    *(NetworkShape(cell, *sizes, "bf16") for cell in ("LSTM", "GRU", "LBRGRU") for sizes in [*_FEW, _LARGE]),
    *(NetworkShape(cell, *sizes, "u8") for cell in ("LSTM", "GRU") for sizes in [*_FEW, _LARGE]),
)


# --- the calls ----------------------------------------------------------------------------------------------

_INFERENCE, _LEFT_TO_RIGHT, _TANH, _NO_FLAGS = 96, 1, 0x21, 0
_QUERY_WEIGHTS = 131


def quantized(library: OneDNN, scale: float, shift: float, weights_scale: float) -> OneDNNAttributes:
    """Attributes of a network of bytes: how data and weights were quantized."""
    made = OneDNNAttributes.new(library)
    data = ctypes.c_float(scale), ctypes.c_float(shift)
    library.library.check("dnnl_primitive_attr_set_rnn_data_qparams", made.pointer, *data)
    weights = ctypes.c_int64(1), 0, (ctypes.c_float * 1)(weights_scale)
    library.library.check("dnnl_primitive_attr_set_rnn_weights_qparams", made.pointer, *weights)
    return made


def onednn_network(
    library: OneDNN, cell: str, descs: Mapping[str, OneDNNDesc], attr: OneDNNAttributes | None = None
) -> tuple[OneDNNPrimitive, dict[str, OneDNNDesc]]:
    """A network of one direction, and the formats that it has chosen for weights.

    `descs`: of all tensors, by their names in restride.
    """
    is_lstm, is_vanilla = cell == "LSTM", cell == "VanillaRNN"
    weights = ["weights_layer", "weights_iter"]
    # An LSTM has peepholes and a projection too.
    names = ["src_layer", "src_iter", *["src_iter_c"] * is_lstm, *weights, *[""] * (2 * is_lstm)]
    names += ["bias", "dst_layer", "dst_iter", *["dst_iter_c"] * is_lstm]
    chosen = library._chosen(
        f"dnnl_{CELLS[cell].onednn}_forward_primitive_desc_create",
        *(library.engine, _INFERENCE, *[_TANH] * is_vanilla, _LEFT_TO_RIGHT),
        *(descs[name].pointer if name else None for name in names),
        *(_NO_FLAGS, *[ctypes.c_float(0)] * (2 * is_vanilla), attr and attr.pointer),
    )
    formats = {name: library._desc_of(chosen, _QUERY_WEIGHTS, at) for at, name in enumerate(weights)}
    return library._primitive(OneDNNPrimitive, chosen), formats


def values_of(shape: NetworkShape) -> dict[str, Any]:
    """Return inputs, and room for outputs, in f32."""
    rng = np.random.default_rng(0)
    scale = {"weights_layer": 1 / shape.channels**0.5, "weights_iter": 1 / shape.channels**0.5}
    return {
        name: (scale.get(name, 1.0) * rng.uniform(-1, 1, dims)).astype(np.float32)
        for name, dims in shape.dims().items()
    }


def _stored(shape: NetworkShape, name: str, value: Any) -> Any:
    """Values in the type of their tensor."""
    kind = shape.type_of(name)
    if kind == "u8":
        value = np.rint(value * _SCALE + _SHIFT)
    if kind == "s8":
        value = np.clip(np.rint(value * _WEIGHTS_SCALE), -128, 127)
    return np.ascontiguousarray(value.astype(rs.DataType.parse(kind).numpy))


def restride_call(shape: NetworkShape, values: dict[str, Any]) -> tuple[Call, Any]:
    """A call of restride, and the memory of its result."""
    engine = rs.Engine("cpu")
    stream = rs.onednn.Stream(engine)
    descs: dict[str, Any] = {
        f"{name}_desc": rs.MemoryDesc(
            dims, shape.type_of(name), "any" if name.startswith("weights") else None
        )
        for name, dims in shape.dims().items()
    }
    if shape.cell == "VanillaRNN":
        descs["activation"] = "eltwise_tanh"
    attr = rs.onednn.PrimitiveAttr()
    if shape.data_type == "u8":
        attr.set_rnn_data_qparams(_SCALE, _SHIFT)
        attr.set_rnn_weights_qparams(0, [_WEIGHTS_SCALE])
    kind = getattr(rs, f"{shape.cell}Forward")
    how = {"prop_kind": "forward_inference", "direction": "unidirectional_left2right", "attr": attr}
    pd = kind.PrimitiveDesc(engine, **how, **descs)
    memories = {}
    for name, value in values.items():
        memory = rs.Memory(getattr(pd, f"{name}_desc")(), engine)
        desc = rs.MemoryDesc(value.shape, shape.type_of(name))
        plain = rs.Memory(desc, engine, _stored(shape, name, value))
        rs.onednn.Reorder(plain, memory).execute(stream, plain, memory)
        memories[getattr(rs, f"ARG_{name.upper()}")] = memory
    network = kind(pd)
    return lambda: network.execute(stream, memories), memories[rs.onednn.Arg.DST_LAYER]


def onednn_call(library: OneDNN, shape: NetworkShape, values: dict[str, Any]) -> tuple[Call, Any]:
    """A call of oneDNN, and the array of its result."""
    letters = "abcdefgh"
    arrays = {name: _stored(shape, name, value) for name, value in values.items()}
    plain = {
        name: library.desc(value.shape, shape.type_of(name), letters[: value.ndim])
        for name, value in values.items()
    }
    weights = ("weights_layer", "weights_iter")
    wanted = {name: library.desc(values[name].shape, shape.type_of(name), "any") for name in weights}
    attr = quantized(library, _SCALE, _SHIFT, _WEIGHTS_SCALE) if shape.data_type == "u8" else None
    primitive, chosen = onednn_network(library, shape.cell, plain | wanted, attr)
    memories = {}
    for name, array in arrays.items():
        memory = library.memory(plain[name], array)
        if name in chosen:
            # Bytes are packed with sums of their own, which oneDNN finds as it quantizes.
            source = library.desc(array.shape, "f32", letters[: array.ndim]) if attr else plain[name]
            read = library.memory(source, values[name] if attr else array)
            memory = library.memory(chosen[name])
            library.reorder(source, chosen[name], attr=attr).bind_all({1: read, 17: memory})()
        memories[getattr(rs, f"ARG_{name.upper()}")] = memory
    return primitive.bind_all(memories), arrays["dst_layer"]


def torch_call(shape: NetworkShape, values: dict[str, Any]) -> tuple[Call, Any]:
    """A call of torch, and where it puts its result."""
    import torch

    kind = torch.bfloat16 if shape.data_type == "bf16" else torch.float32
    module = getattr(torch.nn, CELLS[shape.cell].torch)(shape.channels, shape.channels).eval()
    # The GRU of torch has the reset first, and two biases.
    order = [1, 0, 2] if shape.cell == "LBRGRU" else list(range(CELLS[shape.cell].gates))
    bias = values["bias"][0, 0]
    states = np.zeros((len(order), shape.channels), np.float32)
    states[-1] = bias[-1] if shape.cell == "LBRGRU" else 0
    parts = [values[name][0, 0].transpose(1, 2, 0)[order] for name in ("weights_layer", "weights_iter")]
    with torch.no_grad():
        for target, part in zip(module.parameters(), [*parts, bias[order], states], strict=True):
            target.copy_(torch.from_numpy(np.ascontiguousarray(part)).reshape(target.shape))
    module = module.to(kind)
    read = [
        torch.from_numpy(values[name][0]).to(kind) for name in ("src_iter", "src_iter_c") if name in values
    ]
    first = read[0] if len(read) == 1 else tuple(read)
    x, found = torch.from_numpy(values["src_layer"]).to(kind), {}

    def run() -> None:
        with torch.inference_mode():
            found["result"] = module(x, first)[0].float()

    return run, found


# --- the rows -----------------------------------------------------------------------------------------------


def measure(shape: NetworkShape, setting: BenchSetup) -> BenchRow:
    """Time a row, and compare the answers."""
    values, results, refused = values_of(shape), dict[str, Any](), dict[str, str]()
    call, own = restride_call(shape, values)
    calls = {OWN: call}
    if setting.onednn is not None:
        try:
            calls["oneDNN"], results["oneDNN"] = onednn_call(setting.onednn.library, shape, values)
        except OneDNNError as error:
            refused["oneDNN"] = why_not(error)
    if setting.torch is not None and CELLS[shape.cell].torch and shape.data_type != "u8":
        calls["torch"], results["torch"] = torch_call(shape, values)

    def check() -> dict[str, str]:
        right, near = own.to_numpy().astype(np.float32), _NEAR[shape.data_type]
        found = {
            name: each["result"].numpy() if isinstance(each, dict) else each.astype(np.float32)
            for name, each in results.items()
        }
        far = {name: float(np.abs(each - right).max()) for name, each in found.items()}
        return {name: f"off by {off:.3g}" for name, off in far.items() if not off < near}

    sides = {name: PreparedCall(call) for name, call in calls.items()}
    work = RowPlan(shape.cell, 0, sides, check, shape.flops, refused, about=shape, is_by_least=True)
    return race(work, setting)


_COLUMNS: Columns = {
    **{
        name: lambda row, at=at: str(row.about[at])  # type: ignore[misc]
        for at, name in enumerate(("cell", "steps", "sequences", "channels", "type"))
    },
    "time": lambda row: f"{row.seconds() * 1e6:.0f} µs",
    "GFLOP/s": lambda row: f"{row.operations / row.seconds() / 1e9:.0f}",
    "oneDNN": lambda row: ratio(row.over("oneDNN")),
    "torch": lambda row: ratio(row.over("torch")),
}


def main(threads: int, words: Sequence[str]) -> None:
    """Print the table of some cells and types."""
    peers, missing = open_peers(["restride", "oneDNN", "torch"], threads)
    for name, why in missing.items():
        print(f"without {name}: {why}\n")
    print(table([*_COLUMNS], [[""]]).rpartition("\n")[0])
    for shape in _rows(words):
        rounds = 9 if (shape.steps, shape.batch, shape.channels) == _LARGE else _ROUNDS
        row = measure(shape, BenchSetup(peers, (), threads, rounds, 0))
        print(table([*_COLUMNS], cells([row], _COLUMNS)).rpartition("\n")[2])
        for name, why in row.wrong.items():
            print(f"\nwrong: {name} of {shape}: {why}\n")
        sys.stdout.flush()


def parse(arguments: Sequence[str]) -> tuple[int, list[str]]:
    """The threads, and the cells and types. Exits with 2 for what is neither, with 0 where help is wanted."""
    listed = "; ".join(f"{cell} of {', '.join(types)}" for cell, types in _types().items())
    parser = argparse.ArgumentParser(
        prog="python -m restride_bench.recurrent",
        description="Time recurrent networks compared with oneDNN and torch.",
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
    cells = [word for word in words if word in CELLS] or list(CELLS)
    types = [word for word in words if word in _NEAR] or list(_NEAR)
    return [row for row in ROWS if row.cell in cells and row.data_type in types]


if __name__ == "__main__":
    main(*parse(sys.argv[1:]))
