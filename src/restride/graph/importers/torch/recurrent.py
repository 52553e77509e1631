"""ATen's recurrent networks as operations of the graph, one per layer.

|  | ATen | here |
| --- | --- | --- |
| weights of inputs | (gates * C, I), of each direction | (1, D, I, gates, C) |
| weights of states | (gates * C, C) | (1, D, C, gates, C) |
| bias | two of (gates * C) | (1, D, gates, C), their sum |
| gates of an LSTM | i, f, g, o | the same |
| gates of a GRU | r, z, n | z, r, n; n has both biases, as it is linear before its reset |
| states | (layers * D, N, C) | (1, D, N, C), of each layer |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...nodes.operations import AS_F32
from ...nodes.recurrent import RecurrentOperation
from ..operator_call import ATEN, Made, OperatorCall, Value
from .call import CALL, cast_to

_CELLS = {"gru": ("lbr_gru", ""), "lstm": ("vanilla_lstm", ""), "rnn_relu": ("vanilla_rnn", "relu")}
_CELLS |= {"rnn_tanh": ("vanilla_rnn", "tanh")}
_F32 = np.dtype(np.float32)


@ATEN(*_CELLS)
def _recurrent(call: OperatorCall, x: Any, states: Any, parameters: Any, *numbers: Any) -> Made:
    """Return the states of all steps of the last layer, and the last states of each layer."""
    if "batch_sizes" in call.node.attributes[CALL].positional:
        raise call.unimplemented("its sequences are packed, with different lengths", "pad them")
    has_biases, layers, dropout, is_trained, is_bidirectional, is_batch_first = numbers
    if dropout and is_trained:
        raise call.unimplemented("it drops states at random", "call eval() of the module")
    cell, activation = _CELLS[call.node.operator.removeprefix("aten.")]
    operation = RecurrentOperation(cell, "concat" if is_bidirectional else "left2right", activation)
    runs, own = operation.directions, 4 if has_biases else 2
    if len(parameters) != layers * runs * own:
        raise call.unimplemented("it projects its states", "use a network without proj_size")
    if call.type_of(x) not in AS_F32:
        raise call.unimplemented(f"it computes with {call.type_of(x)}", "use f32, bf16 or f16")
    states = states if isinstance(states, tuple) else (states,)
    apart, lasts = call.with_outputs(0), []
    x = call.transposed(call.placed(x), (1, 0, 2) if is_batch_first else (0, 1, 2))
    for layer in range(layers):
        first = layer * runs
        parts = [parameters[at * own : (at + 1) * own] for at in range(first, first + runs)]
        gates = operation.rnn_cell.gates
        joined = [
            apart.onnx("Concat", *(_by_gate(apart, part[place], gates) for part in parts), axis=1)
            for place in (0, 1)
        ]
        joined.append(apart.onnx("Concat", *(_bias(apart, part, operation) for part in parts), axis=1))
        begins = [apart.onnx("Slice", each, (first,), (first + runs,), (0,), (1,)) for each in states]
        begins = [apart.reshaped(each, (1, *call.dims(each))) for each in begins]
        x, *last = apart.builder.add_all(operation, x, *map(call.placed, (*joined, *begins)))
        lasts.append([apart.reshaped(each, call.dims(each)[1:]) for each in last])
    ends = [apart.onnx("Concat", *each, axis=0) for each in zip(*lasts, strict=True)]
    return (call.transposed(x, (1, 0, 2)) if is_batch_first else x, *ends)


def _by_gate(call: OperatorCall, weights: Any, gates: int) -> Value:
    """Reshape weights (gates * C, I) to (1, 1, I, gates, C)."""
    rows, inputs = call.dims(weights)
    apart = _in_order(call, call.reshaped(weights, (1, 1, gates, rows // gates, inputs)), gates)
    return call.transposed(apart, (0, 1, 4, 2, 3))


def _in_order(call: OperatorCall, gates_apart: Value, gates: int) -> Value:
    """Sort gates along axis 2 into the order used here."""
    return call.onnx("Gather", gates_apart, np.array([1, 0, 2]), axis=2) if gates == 3 else gates_apart


def _bias(call: OperatorCall, part: Sequence[Any], operation: RecurrentOperation) -> Value:
    """Return the biases of one direction as (1, 1, gates, C), summed in f32 to avoid another rounding."""
    cell, channels = operation.rnn_cell, call.dims(part[1])[1]
    if len(part) < 4:
        return np.zeros((1, 1, cell.biases, channels), np.float32)
    both = [
        _in_order(call, call.reshaped(cast_to(call, each, _F32), (1, 1, cell.gates, channels)), cell.gates)
        for each in part[2:]
    ]
    total = call.onnx("Add", *both)
    if cell.biases == cell.gates:
        return total
    end = cell.gates - 1
    own = [call.onnx("Slice", each, (end,), (end + 1,), (2,), (1,)) for each in both]
    return call.onnx("Concat", call.onnx("Slice", total, (0,), (end,), (2,), (1,)), *own, axis=2)
