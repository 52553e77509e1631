"""Recurrent networks of restride, oneDNN and torch, to be called: the same weights and values in each."""

from __future__ import annotations

from typing import Any

import numpy as np

import restride as rs

from .measure import Call
from .network_shape import CELLS, GATES, NetworkShape
from .onednn_networks import OneDNNNetworks

# The GRU of torch is linear before its reset.
TORCH_CELLS = {"VanillaRNN": "RNN", "LSTM": "LSTM", "LBRGRU": "GRU"}
# Of bytes: data are value * scale + shift, weights value * scale; states stay in (-1, 1).
_SCALE, _SHIFT, _WEIGHTS_SCALE = 63.0, 128.0, 1000.0


def values_of(shape: NetworkShape) -> dict[str, Any]:
    """What is read, and room for what is written, in f32."""
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
    stream = rs.Stream(engine)
    descs: dict[str, Any] = {
        f"{name}_desc": rs.MemoryDesc(
            dims, shape.type_of(name), "any" if name.startswith("weights") else None
        )
        for name, dims in shape.dims().items()
    }
    if shape.cell == "VanillaRNN":
        descs["activation"] = "eltwise_tanh"
    attr = rs.PrimitiveAttr()
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
        rs.Reorder(plain, memory).execute(stream, plain, memory)
        memories[getattr(rs, f"ARG_{name.upper()}")] = memory
    network = kind(pd)
    return lambda: network.execute(stream, memories), memories[rs.ARG_DST_LAYER]


def onednn_call(library: OneDNNNetworks, shape: NetworkShape, values: dict[str, Any]) -> tuple[Call, Any]:
    """A call of oneDNN, and the array of its result."""
    letters = "abcdefgh"
    arrays = {name: _stored(shape, name, value) for name, value in values.items()}
    plain = {
        name: library.desc(value.shape, shape.type_of(name), letters[: value.ndim])
        for name, value in values.items()
    }
    weights = ("weights_layer", "weights_iter")
    wanted = {name: library.desc(values[name].shape, shape.type_of(name), "any") for name in weights}
    attr = library.quantised(_SCALE, _SHIFT, _WEIGHTS_SCALE) if shape.data_type == "u8" else None
    primitive, chosen = library.recurrent(CELLS[shape.cell], plain | wanted, attr)
    memories = {}
    for name, array in arrays.items():
        memory = library.memory(plain[name], array)
        if name in chosen:
            # Bytes are packed with sums of their own, which oneDNN finds as it quantises.
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
    module = getattr(torch.nn, TORCH_CELLS[shape.cell])(shape.channels, shape.channels).eval()
    # The GRU of torch has the reset first, and two biases.
    order = [1, 0, 2] if shape.cell == "LBRGRU" else list(range(GATES[shape.cell]))
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
