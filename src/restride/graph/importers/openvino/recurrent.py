"""OpenVINO's sequences of recurrent cells, through the operators of ONNX; the batch comes first here.

|  | OpenVINO | ONNX |
| --- | --- | --- |
| inputs | X, H, C of an LSTM, lengths, W, R, B | X, W, R, B, lengths, H, C |
| gates of an LSTM | f, i, c, o | i, o, f, c |
| bias | sum of both; separate in the last gate of a GRU linear before its reset | one of W, one of R |
| Y | (N, D, T, C) | (N, T, D, C) |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....runtime.alloc import Array
from ..operator_call import OPENVINO, Floats, Made, OperatorCall, Value, Words

_GATES = {"RNN": (0,), "LSTM": (1, 3, 0, 2), "GRU": (0, 1, 2)}


@dataclass(frozen=True, slots=True)
class _SequenceForm:
    """The attributes of a sequence. Activation functions are listed once for both directions."""

    hidden_size: int = 0
    direction: str = "forward"
    activations: Words = ()
    activations_alpha: Floats = ()
    activations_beta: Floats = ()
    clip: float = 0.0
    linear_before_reset: bool = False


@OPENVINO("RNNSequence", "LSTMSequence", "GRUSequence")
def _sequence(call: OperatorCall, x: Value, *inputs: Value, form: _SequenceForm) -> Made:
    operator = call.node.operator.removesuffix("Sequence")
    *states, lengths = inputs[: 3 if operator == "LSTM" else 2]
    weights = []
    for name, weight in zip("WRB", inputs[len(states) + 1 :], strict=False):
        if isinstance(weight, str):
            raise call.known_in_run(name)
        weights.append(weight)
    w, r, b = weights
    extra: dict[str, object] = {"linear_before_reset": form.linear_before_reset} if operator == "GRU" else {}
    outputs = call.onnx(
        operator,
        *(
            x,
            _ordered(w, operator),
            _ordered(r, operator),
            _biases(b, operator, r.shape[-1]),
            lengths,
            *states,
        ),
        direction=form.direction,
        layout=1,
        hidden_size=form.hidden_size or r.shape[-1],
        activations=form.activations * (2 if form.direction == "bidirectional" else 1),
        activation_alpha=form.activations_alpha,
        activation_beta=form.activations_beta,
        clip=form.clip or None,
        **extra,
    )
    return (call.transposed(outputs[0], (0, 2, 1, 3)), *outputs[1:])


def _ordered(weights: Array, operator: str) -> Array:
    gates = _GATES[operator]
    runs, rows, *rest = weights.shape
    parts = weights.reshape(runs, len(gates), rows // len(gates), *rest)[:, gates, ...]
    return np.ascontiguousarray(parts).reshape(weights.shape)


def _biases(bias: Array, operator: str, channels: int) -> Array:
    """Return the biases of input and state, concatenated; the fourth of a GRU belongs to the state."""
    rows = bias.shape[1]
    count = min(rows, len(_GATES[operator]) * channels)
    own = _ordered(bias[:, :count], operator)
    other = np.zeros_like(own)
    if count < rows:
        other[:, -(rows - count) :] = bias[:, count:]
    return np.concatenate([own, other], axis=1)
