"""The recurrent operators of ONNX: RNN, LSTM and GRU as operations of the graph (G2).

|  | ONNX | here |
| --- | --- | --- |
| weights W | (D, gates * C, I) | (1, D, I, gates, C) |
| weights R | (D, gates * C, C) | (1, D, C, gates, C) |
| bias B | (D, 2 * gates * C) | (1, D, gates, C) |
| gates of an LSTM | i, o, f, c | i, f, c, o |
| gates of a GRU | z, r, h | the same |
| states | (D, N, C) | (1, D, N, C) |
| Y | (T, D, N, C) | (T, N, D * C) |

ONNX has a bias of the input and one of the state, which are added; of a GRU that is linear before its reset
the last gate has both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import Unimplemented
from .onnx_context import OnnxContext, Value
from .onnx_model import Array
from .recurrent import RecurrentOperation

__all__ = ["gru", "lstm", "vanilla_rnn"]

_X, _W, _R, _B, _LENGTHS, _H, _C, _P = range(8)
_DIRECTIONS = {"forward": "left2right", "reverse": "right2left", "bidirectional": "concat"}
_ORDERS = {"vanilla_lstm": (0, 2, 3, 1)}
_FUNCTIONS = {
    "vanilla_lstm": ("Sigmoid", "Tanh", "Tanh"),
    "vanilla_gru": ("Sigmoid", "Tanh"),
    "lbr_gru": ("Sigmoid", "Tanh"),
}
_ACTIVATIONS = {"Tanh": "tanh", "Relu": "relu", "Sigmoid": "logistic"}


def vanilla_rnn(context: OnnxContext) -> tuple[Value, ...]:
    """An `RNN`: Y and Y_h."""
    names = _functions(context)
    if names and names[0] not in _ACTIVATIONS:
        raise _other_functions(context, "Tanh, Relu or Sigmoid, the same in both directions")
    return _recurrent(context, "vanilla_rnn", names[0] if names else "Tanh")


def lstm(context: OnnxContext) -> tuple[Value, ...]:
    """An `LSTM`: Y, Y_h and Y_c."""
    if context.attribute("input_forget", 0):
        raise context.unimplemented("it couples the gates of input and forgetting")
    if context.has(_P):
        peepholes, channels = context.needed(_P, "the weights of peepholes"), context.dims(_R)[-1]
        if peepholes.shape[1:] != (3 * channels,):
            raise ValueError(f"the weights of peepholes are {peepholes.shape} for {channels} channels")
        if peepholes.any():
            raise context.unimplemented("it has peepholes")
    return _recurrent(context, "vanilla_lstm")


def gru(context: OnnxContext) -> tuple[Value, ...]:
    """A `GRU`: Y and Y_h."""
    return _recurrent(context, "lbr_gru" if context.attribute("linear_before_reset", 0) else "vanilla_gru")


def _functions(context: OnnxContext) -> list[str]:
    return [str(name).capitalize() for name in context.attribute("activations") or ()]


def _other_functions(context: OnnxContext, wanted: str) -> Unimplemented:
    return context.unimplemented(
        f"its functions are {', '.join(_functions(context))}", f"they may be {wanted}"
    )


def _recurrent(context: OnnxContext, cell: str, function: str = "") -> tuple[Value, ...]:
    direction = str(context.attribute("direction", "forward"))
    if direction not in _DIRECTIONS:
        raise ValueError(f"there is no direction {direction!r}")
    operation = RecurrentOperation(cell, _DIRECTIONS[direction], _ACTIVATIONS.get(function, ""))
    _check_functions(context, _FUNCTIONS.get(cell, (function,)) * operation.directions)
    _check_forms(context)
    is_batch_first = bool(context.attribute("layout", 0))
    x = context.tensor(_X)
    x = context.transposed(x, (1, 0, 2)) if is_batch_first else x
    writer = _RecurrentWriter(context, operation, is_batch_first)
    inputs = [x, *map(context.placed, writer.weights()), *writer.states(x)]
    name = context.node.outputs[0] if context.node.outputs else ""
    made = context.builder.add_all(operation, *inputs, name=f"{name}.states" if name else "")
    return writer.results(made)


def _check_functions(context: OnnxContext, wanted: tuple[str, ...]) -> None:
    """Raise ValueError for another number of functions than the node needs, Unimplemented for other ones."""
    names = _functions(context)
    if names and len(names) != len(wanted):
        raise ValueError(f"it has {len(names)} functions, {', '.join(names)}, and needs {len(wanted)}")
    if names and tuple(names) != wanted:
        raise _other_functions(context, ", ".join(wanted))


def _check_forms(context: OnnxContext) -> None:
    """Raise ValueError for inputs that do not fit each other, Unimplemented for what primitives have not."""
    size, channels = context.attribute("hidden_size"), context.dims(_R)[-1]
    if size is not None and size != channels:
        raise ValueError(f"its hidden_size is {size}, its weights are for {channels}")
    if any(context.attribute(name) for name in ("activation_alpha", "activation_beta")):
        raise context.unimplemented("its functions have parameters")
    if context.attribute("clip") is not None:
        raise context.unimplemented("it clips what goes into functions")
    if context.has(_LENGTHS):
        lengths = context.needed(_LENGTHS, "the list of lengths")
        steps, sequences = context.dims(_X)[:2][:: -1 if context.attribute("layout", 0) else 1]
        if lengths.shape != (sequences,):
            raise ValueError(f"it has {lengths.size} lengths of {sequences} sequences")
        if np.any(lengths != steps):
            raise context.unimplemented("its sequences have lengths of their own", "run equal ones")


@dataclass(frozen=True, slots=True)
class _RecurrentWriter:
    """What goes into an operation, and what comes out of it, as ONNX has them."""

    context: OnnxContext
    operation: RecurrentOperation
    is_batch_first: bool

    @property
    def _order(self) -> tuple[int, ...]:
        """Where ONNX has each gate."""
        gates = self.operation.rnn_cell.gates
        return _ORDERS.get(self.operation.cell, tuple(range(gates)))

    def weights(self) -> tuple[Array, Array, Array]:
        """Weights of the input and the state, and the bias."""
        layer, states = (self.context.needed(at, "its weights") for at in (_W, _R))
        channels = states.shape[-1]
        return self._by_gate(layer), self._by_gate(states), self._bias(channels)

    def _by_gate(self, weights: Array) -> Array:
        """(D, gates * C, I) as (1, D, I, gates, C)."""
        runs, rows, inputs = weights.shape
        gates = self.operation.rnn_cell.gates
        found = weights.reshape(runs, gates, rows // gates, inputs)[:, self._order]
        return np.ascontiguousarray(found.transpose(0, 3, 1, 2)[None])

    def _bias(self, channels: int) -> Array:
        cell = self.operation.rnn_cell
        runs = self.operation.directions
        if not self.context.has(_B):
            return np.zeros((1, runs, cell.biases, channels), np.float32)
        both = self.context.needed(_B, "its bias").reshape(runs, 2, cell.gates, channels)[:, :, self._order]
        found: Array = both.sum(axis=1)
        if cell.biases > cell.gates:
            found = np.concatenate([found[:, :-1], both[:, 0, -1:], both[:, 1, -1:]], axis=1)
        return found[None]

    def states(self, x: str) -> list[str]:
        """The first states, h and c; none where both begin with zeros."""
        has_c = self.operation.rnn_cell.has_cell_state
        places = (_H, _C)[: 1 + has_c]
        if not any(map(self.context.has, places)):
            return []
        batch = self.context.builder.type(x).dims[1]
        channels = self.context.dims(_R)[-1]
        zeros = np.zeros((self.operation.directions, batch, channels), np.float32)
        found = [self.context.tensor(at) if self.context.has(at) else self._placed(zeros) for at in places]
        if self.is_batch_first:
            found = [self.context.transposed(each, (1, 0, 2)) for each in found]
        return [self.context.reshaped(each, (1, *self.context.builder.type(each).dims)) for each in found]

    def _placed(self, zeros: Array) -> str:
        return self.context.placed(zeros.transpose(1, 0, 2) if self.is_batch_first else zeros)

    def results(self, made: tuple[str, ...]) -> tuple[str, ...]:
        """Y (T, D, N, C), Y_h and Y_c (D, N, C); batches first where the layout says so."""
        context, runs = self.context, self.operation.directions
        steps, batch, wide = context.builder.type(made[0]).dims
        apart = context.reshaped(made[0], (steps, batch, runs, wide // runs))
        first = context.transposed(apart, (1, 0, 2, 3) if self.is_batch_first else (0, 2, 1, 3))
        lasts = [context.reshaped(each, (runs, batch, wide // runs)) for each in made[1:]]
        if self.is_batch_first:
            lasts = [context.transposed(each, (1, 0, 2)) for each in lasts]
        return (first, *lasts)
