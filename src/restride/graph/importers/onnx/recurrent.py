"""The recurrent operators of ONNX: RNN, LSTM and GRU as operations of the graph.

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
the last gate has both. All that a node reads is f32, all bf16 or all f16.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....runtime.alloc import Array
from ...nodes.operations import AS_F32
from ...nodes.recurrent import RecurrentOperation
from .context import OnnxContext, Value

__all__ = ["gru", "lstm", "vanilla_rnn"]

_X, _W, _R, _B, _LENGTHS, _H, _C, _P = range(8)
_NAMES = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")
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
    function = next((each for each in _ACTIVATIONS if names and each.lower() == names[0].lower()), "Tanh")
    return _recurrent(context, "vanilla_rnn", function)


def lstm(context: OnnxContext) -> tuple[Value, ...]:
    """An `LSTM`: Y, Y_h and Y_c."""
    if context.attribute("input_forget", 0):
        raise context.unimplemented("it couples the gates of input and forgetting")
    return _recurrent(context, "vanilla_lstm")


def gru(context: OnnxContext) -> tuple[Value, ...]:
    """A `GRU`: Y and Y_h."""
    return _recurrent(context, "lbr_gru" if context.attribute("linear_before_reset", 0) else "vanilla_gru")


def _functions(context: OnnxContext) -> list[str]:
    return [str(name) for name in context.attribute("activations") or ()]


def _recurrent(context: OnnxContext, cell: str, function: str = "") -> tuple[Value, ...]:
    direction = str(context.attribute("direction", "forward"))
    if direction not in _DIRECTIONS:
        raise ValueError(f"there is no direction {direction!r}, there are {', '.join(_DIRECTIONS)}")
    operation = RecurrentOperation(cell, _DIRECTIONS[direction], _ACTIVATIONS.get(function, ""))
    _check_functions(context, operation, _FUNCTIONS.get(cell, (function,)))
    layout = context.attribute("layout", 0)
    if layout not in (0, 1):
        raise ValueError(f"its layout is {layout}, there are 0 and 1")
    _check_dims(context, operation, is_batch_first=bool(layout))
    _check_types(context)
    _check_forms(context, is_batch_first=bool(layout))
    writer = _RecurrentWriter(context, operation, bool(layout))
    x = writer.placed(context.value(_X))
    x = context.transposed(x, (1, 0, 2)) if layout else x
    inputs = [x, *map(context.builder.constant, writer.weights()), *writer.states(x)]
    name = context.node.outputs[0] if context.node.outputs else ""
    made = context.builder.add_all(operation, *inputs, name=f"{name}.states" if name else "")
    return writer.results(made)


def _check_functions(context: OnnxContext, operation: RecurrentOperation, wanted: tuple[str, ...]) -> None:
    """Raise ValueError for another number of functions than the node needs, Unimplemented for other ones."""
    names, wanted = _functions(context), wanted * operation.directions
    if names and len(names) != len(wanted):
        raise ValueError(f"it has {len(names)} functions, {', '.join(names)}, and needs {len(wanted)}")
    if not names or [each.lower() for each in names] == [each.lower() for each in wanted]:
        return
    choices = [wanted]
    if operation.activation:
        choices = [(each,) * operation.directions for each in _ACTIVATIONS]
    hint = f"they may be {'; or '.join(map(', '.join, choices))}"
    raise context.unimplemented(f"its functions are {', '.join(names)}", hint)


def _check_dims(context: OnnxContext, operation: RecurrentOperation, *, is_batch_first: bool) -> None:
    """Raise ValueError, which names the input, for dims that do not fit each other."""
    dims, size = context.dims(_X), context.attribute("hidden_size")
    if len(dims) != 3:
        raise ValueError(f"X is {dims}, it should have 3 dims: steps, sequences and inputs")
    if size is None:
        raise ValueError("its hidden_size is missing, how many channels states have")
    recurrent, runs, gates = context.dims(_R), operation.directions, operation.rnn_cell.gates
    if len(recurrent) == 3 and recurrent[1:] == (gates * recurrent[2], recurrent[2]) and recurrent[2] != size:
        raise ValueError(f"its hidden_size is {size}, R is for {recurrent[2]}: {recurrent}")
    state = (dims[0], runs, size) if is_batch_first else (runs, dims[1], size)
    wanted = {
        _W: (runs, gates * size, dims[2]),
        _R: (runs, gates * size, size),
        _B: (runs, 2 * gates * size),
        _H: state,
        _C: state,
        _P: (runs, 3 * size),
    }
    for at, each in wanted.items():
        if context.has(at) and context.dims(at) != each:
            raise ValueError(
                f"{_NAMES[at]} is {context.dims(at)}, it should be {each}: X is {dims}, "
                f"directions: {runs}, gates: {gates}, hidden_size: {size}"
            )


def _check_types(context: OnnxContext) -> None:
    """Raise ValueError for inputs of several types, Unimplemented for one that is not computed with."""
    first, *others = (at for at in (_X, _W, _R, _B, _H, _C, _P) if context.has(at))
    kind = context.type_of(context.value(first))
    for at in others:
        found = context.type_of(context.value(at))
        if found is not kind:
            raise ValueError(f"{_NAMES[at]} is {found}, X is {kind}: they are of one type")
    if kind not in AS_F32:
        raise context.unimplemented(f"it computes with {kind}", "save the model with f32, bf16 or f16")


def _check_forms(context: OnnxContext, *, is_batch_first: bool) -> None:
    """Raise ValueError for lengths that cannot be, Unimplemented for what primitives have not."""
    if context.has(_P) and context.needed(_P, "P").any():
        raise context.unimplemented("it has peepholes")
    if any(context.attribute(name) for name in ("activation_alpha", "activation_beta")):
        raise context.unimplemented("its functions have parameters")
    if context.attribute("clip") is not None:
        raise context.unimplemented("it clips what goes into functions")
    if not context.has(_LENGTHS):
        return
    lengths = context.needed(_LENGTHS, "sequence_lens")
    steps, sequences = context.dims(_X)[:2][:: -1 if is_batch_first else 1]
    if lengths.shape != (sequences,) or lengths.dtype.kind not in "iu":
        raise ValueError(f"sequence_lens is {lengths.dtype} {lengths.shape}, of {sequences} sequences")
    wrong = lengths[(lengths < 0) | (lengths > steps)]
    if wrong.size:
        raise ValueError(f"sequence_lens has {wrong[0]}, of {steps} steps")
    if not np.any(lengths != steps):
        return
    if np.all(lengths == lengths[0]):
        hint = f"pass the first {lengths[0]} steps of X, and leave sequence_lens out"
        raise context.unimplemented(f"all its sequences have {lengths[0]} of {steps} steps", hint)
    raise context.unimplemented(
        "its sequences have lengths of their own",
        "run those of one length together, each time with as many steps of X, and leave sequence_lens out",
    )


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
        layer, states = (self.context.needed(at, _NAMES[at]) for at in (_W, _R))
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
        # A bias may be f32 beside all types: the sum is not rounded once more.
        rows = self.context.needed(_B, _NAMES[_B]).astype(np.float32)
        both = rows.reshape(runs, 2, cell.gates, channels)[:, :, self._order]
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
        kind, channels = self.context.builder.type(x), self.context.dims(_R)[-1]
        dims = (kind.dims[1], self.operation.directions, channels)
        zeros = np.zeros(dims if self.is_batch_first else (dims[1], dims[0], dims[2]), kind.data_type.numpy)
        values = [self.context.value(at) if self.context.has(at) else zeros for at in places]
        found = [self.placed(each) for each in values]
        if self.is_batch_first:
            found = [self.context.transposed(each, (1, 0, 2)) for each in found]
        return [self.context.reshaped(each, (1, *self.context.builder.type(each).dims)) for each in found]

    def placed(self, value: Value) -> str:
        """A value as a tensor of the graph, of its own type."""
        return value if isinstance(value, str) else self.context.builder.constant(value)

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
