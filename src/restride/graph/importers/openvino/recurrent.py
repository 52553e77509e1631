"""OpenVINO's sequences of recurrent cells, by way of the operators of ONNX, whose batches come first here.

|  | OpenVINO | ONNX |
| --- | --- | --- |
| inputs | X, H, C of an LSTM, lengths, W, R, B | X, W, R, B, lengths, H, C |
| gates of an LSTM | f, i, c, o | i, o, f, c |
| bias | both in one; of a GRU that is linear before its reset the last gate's apart | one of W, one of R |
| Y | (N, D, T, C) | (N, T, D, C) |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ....runtime.alloc import Array
from ..onnx.context import OnnxContext, Value
from ..onnx.recurrent import gru, lstm, vanilla_rnn

__all__ = ["sequence"]

_GATES = {"RNN": (0,), "LSTM": (1, 3, 0, 2), "GRU": (0, 1, 2)}
_OPERATORS = {"RNN": vanilla_rnn, "LSTM": lstm, "GRU": gru}


def sequence(operator: str) -> Callable[[OnnxContext], tuple[Value, ...]]:
    """What becomes of a sequence of cells: `operator` is the one of ONNX."""

    def run(context: OnnxContext) -> tuple[Value, ...]:
        states = 2 if operator == "LSTM" else 1
        lengths, layer, recurrent, bias = range(1 + states, 5 + states)
        is_linear = str(context.attribute("linear_before_reset", "false")).lower() in ("true", "1")
        w, r, b = (context.needed(at, name) for at, name in ((layer, "W"), (recurrent, "R"), (bias, "B")))
        first = [context.value(at) for at in range(1, 1 + states)]
        values: list[Value | None] = [context.value(0), _ordered(w, operator), _ordered(r, operator)]
        values += [_biases(b, operator, r.shape[-1]), context.value(lengths), *first]
        attributes: dict[str, object] = {
            "direction": context.attribute("direction", "forward"),
            "layout": 1,
            "hidden_size": int(context.attribute("hidden_size", r.shape[-1])),
            "linear_before_reset": int(is_linear),
            "activations": _words(context, "activations"),
        }
        attributes |= {
            name: _words(context, other)
            for name, other in (
                ("activation_alpha", "activations_alpha"),
                ("activation_beta", "activations_beta"),
            )
        }
        if float(context.attribute("clip", 0)):
            attributes["clip"] = float(context.attribute("clip"))
        # Functions are listed once for both directions.
        if attributes["direction"] == "bidirectional":
            attributes["activations"] = _words(context, "activations") * 2
        node = replace(context.node, operator=operator, attributes=attributes)
        y, *lasts = _OPERATORS[operator](replace(context, node=node, values=values))
        assert isinstance(y, str)
        return (context.transposed(y, (0, 2, 1, 3)), *lasts)

    return run


def _words(context: OnnxContext, name: str) -> list[str]:
    return [part.strip() for part in str(context.attribute(name, "")).split(",") if part.strip()]


def _ordered(weights: Array, operator: str) -> Array:
    """Rows of gates in ONNX's order."""
    gates = _GATES[operator]
    runs, rows, *rest = weights.shape
    parts = weights.reshape(runs, len(gates), rows // len(gates), *rest)[:, gates, ...]
    return np.ascontiguousarray(parts).reshape(weights.shape)


def _biases(bias: Array, operator: str, channels: int) -> Array:
    """The biases of the input and of the state, one behind the other; the fourth of a GRU is the state's."""
    rows = bias.shape[1]
    count = min(rows, len(_GATES[operator]) * channels)
    own = _ordered(bias[:, :count], operator)
    other = np.zeros_like(own)
    if count < rows:
        other[:, -(rows - count) :] = bias[:, count:]
    return np.concatenate([own, other], axis=1)
