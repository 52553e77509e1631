"""Recurrent networks for tests: shapes, descriptors, values, and the formulas in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import restride as rs

Array = npt.NDArray[Any]
CELLS = {"VanillaRNN": 1, "LSTM": 4, "GRU": 3, "LBRGRU": 3}
"""The cells and how many gates each has."""
DIRECTIONS = {
    "unidirectional_left2right": 1,
    "unidirectional_right2left": 1,
    "bidirectional_concat": 2,
    "bidirectional_sum": 2,
}
"""The directions and how many networks each is."""


class Shape(NamedTuple):
    """Steps, sequences, channels of the input and of the state, layers."""

    steps: int
    batch: int
    inputs: int
    channels: int
    layers: int


def dims_of(shape: Shape, cell: str, direction: str) -> dict[str, tuple[int, ...]]:
    """The dims of every tensor."""
    runs = shape.layers, DIRECTIONS.get(direction, 1)
    wide = shape.channels * (2 if direction == "bidirectional_concat" else 1)
    states = (*runs, shape.batch, shape.channels)
    found = {
        "src_layer": (shape.steps, shape.batch, shape.inputs),
        "src_iter": states,
        "src_iter_c": states,
        "weights_layer": (*runs, shape.inputs, CELLS[cell], shape.channels),
        "weights_iter": (*runs, shape.channels, CELLS[cell], shape.channels),
        "bias": (*runs, CELLS[cell] + (cell == "LBRGRU"), shape.channels),
        "dst_layer": (shape.steps, shape.batch, wide),
        "dst_iter": states,
        "dst_iter_c": states,
    }
    return {name: dims for name, dims in found.items() if cell == "LSTM" or not name.endswith("_c")}


def forward(
    engine: rs.Engine,
    shape: Shape,
    cell: str,
    direction: str,
    prop_kind: str = "forward_inference",
    /,
    *,
    layer: str = "tnc",
    weights: str = "ldigo",
    states: str | None = "ldnc",
    bias: str | None = "ldgo",
    data_type: str = "f32",
    **changes: Any,
) -> Any:
    """A forward descriptor; `changes` are arguments in the place of others."""
    formats = {"src_layer": layer, "dst_layer": layer, "weights_layer": weights, "weights_iter": weights}
    formats |= {"bias": bias, "src_iter": states, "src_iter_c": states}
    named: dict[str, Any] = {"prop_kind": prop_kind, "direction": direction}
    if cell == "VanillaRNN":
        named["activation"] = "eltwise_tanh"
    for name, dims in dims_of(shape, cell, direction).items():
        format = formats.get(name, "ldnc")
        kind = "f32" if name in ("bias", "src_iter_c", "dst_iter_c") else data_type
        named[f"{name}_desc"] = None if format is None else rs.MemoryDesc(dims, kind, format)
    return getattr(rs, f"{cell}Forward").PrimitiveDesc(engine, **{**named, **changes})


_NAMES = {
    "src_layer": rs.ARG_SRC_LAYER,
    "src_iter": rs.ARG_SRC_ITER,
    "src_iter_c": rs.ARG_SRC_ITER_C,
    "weights_layer": rs.ARG_WEIGHTS_LAYER,
    "weights_iter": rs.ARG_WEIGHTS_ITER,
    "bias": rs.ARG_BIAS,
}


def arguments(shape: Shape, cell: str, direction: str, seed: int) -> dict[int, Array]:
    """Values of what is read, by argument; weights so small that states do not become chaotic."""
    rng, dims = np.random.default_rng(seed), dims_of(shape, cell, direction)
    found = {}
    for name, arg in _NAMES.items():
        if name in dims:
            scale = 1.5 / np.sqrt(shape.channels) if name.startswith("weights") else 1.0
            found[arg] = (scale * rng.uniform(-1, 1, dims[name])).astype(np.float32)
    return found


def _logistic(x: Array) -> Array:
    made: Array = 1 / (1 + np.exp(-x))
    return made


def _gates_of(cell: str, given: Array, h: Array, states: Array, bias: Array) -> Array:
    """The gates of a step as they are before the state; `given`: what the input makes of them."""
    sums = np.einsum("ni,igo->ngo", h, states)
    if cell == "VanillaRNN":
        return np.tanh(given + sums)
    gates = _logistic(given + sums)
    if cell == "LSTM":
        gates[:, 2] = np.tanh(given[:, 2] + sums[:, 2])
    elif cell == "GRU":
        gates[:, 2] = np.tanh(given[:, 2] + (gates[:, 1] * h) @ states[:, 2])
    else:
        gates[:, 2] = np.tanh(given[:, 2] + gates[:, 1] * (sums[:, 2] + bias[3]))
    return gates


def _layer(cell: str, x: Array, weights: Array, states: Array, bias: Array, h: Array, c: Array) -> Any:
    """The states of all steps of one layer, and the last ones."""
    every, count = [], weights.shape[1]
    for step in x:
        given = np.einsum("ni,igo->ngo", step, weights) + bias[:count]
        gates = _gates_of(cell, given, h, states, bias)
        if cell == "LSTM":
            c = gates[:, 1] * c + gates[:, 0] * gates[:, 2]
            h = gates[:, 3] * np.tanh(c)
        elif cell == "VanillaRNN":
            h = gates[:, 0]
        else:
            h = gates[:, 0] * h + (1 - gates[:, 0]) * gates[:, 2]
        every.append(h)
    return np.stack(every), h, c


def reference(cell: str, direction: str, values: Mapping[int, Array]) -> dict[int, Array]:
    """Return the results of an execution, by argument, in doubles."""
    wide = {arg: value.astype(np.float64) for arg, value in values.items()}
    source, weights, states = (wide[arg] for arg in (1, rs.ARG_WEIGHTS_LAYER, rs.ARG_WEIGHTS_ITER))
    layers, runs, _, gates, channels = weights.shape
    zeros = np.zeros((layers, runs, source.shape[1], channels))
    first_h, first_c = wide.get(rs.ARG_SRC_ITER, zeros), wide.get(rs.ARG_SRC_ITER_C, zeros)
    bias = wide.get(rs.ARG_BIAS, np.zeros((layers, runs, gates + 1, channels)))
    last_h, last_c, results = zeros.copy(), zeros.copy(), []
    for d in range(runs):
        is_back = direction == "unidirectional_right2left" or d == 1
        x = source[::-1] if is_back else source
        for k in range(layers):
            x, last_h[k, d], last_c[k, d] = _layer(
                cell, x, weights[k, d], states[k, d], bias[k, d], first_h[k, d], first_c[k, d]
            )
        results.append(x[::-1] if is_back else x)
    result = np.concatenate(results, -1) if direction == "bidirectional_concat" else sum(results)
    return {rs.ARG_DST_LAYER: np.asarray(result), rs.ARG_DST_ITER: last_h, rs.ARG_DST_ITER_C: last_c}


def backward(engine: rs.Engine, hint: Any, shape: Shape, cell: str, direction: str, /, **changes: Any) -> Any:
    """The backward descriptor of a forward one; `changes` are arguments in the place of others."""
    named: dict[str, Any] = {"prop_kind": "backward", "direction": direction, "hint_pd": hint}
    if cell == "VanillaRNN":
        named |= {"activation": hint.get_activation_kind(), "alpha": hint.get_alpha()}
    for name, dims in dims_of(shape, cell, direction).items():
        md = getattr(hint, f"{name}_desc")()
        is_there = not md.is_zero()
        named[f"{name}_desc"] = md if is_there else None
        named[f"diff_{name}_desc"] = rs.MemoryDesc(dims, "f32") if is_there else None
    return getattr(rs, f"{cell}Backward").PrimitiveDesc(engine, **{**named, **changes})
