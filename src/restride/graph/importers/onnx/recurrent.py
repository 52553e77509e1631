"""The recurrent operators of ONNX, RNN, LSTM and GRU, as operations of the graph.

|  | ONNX | here |
| --- | --- | --- |
| weights W | (D, gates * C, I) | (1, D, I, gates, C) |
| weights R | (D, gates * C, C) | (1, D, C, gates, C) |
| bias B | (D, 2 * gates * C) | (1, D, gates, C) |
| gates of an LSTM | i, o, f, c | i, f, c, o |
| gates of a GRU | z, r, h | the same |
| states | (D, N, C) | (1, D, N, C) |
| Y | (T, D, N, C) | (T, N, D * C) |

ONNX has a bias of the input and one of the state, which are added; in a GRU that is linear before its reset
the last gate has both. All inputs of a node are f32, all bf16 or all f16.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from ....model.result_dims import Misfit
from ....runtime.alloc import Array
from ...nodes.operations import AS_F32
from ...nodes.recurrent import RecurrentOperation
from ..operator_call import ONNX, Floats, Made, OperatorCall, Usual, Value, Words

_F32 = 1
_NAMES = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")
_DIRECTIONS = {"forward": "left2right", "reverse": "right2left", "bidirectional": "concat"}
_FUNCTIONS = {
    "vanilla_lstm": ("Sigmoid", "Tanh", "Tanh"),
    "vanilla_gru": ("Sigmoid", "Tanh"),
    "lbr_gru": ("Sigmoid", "Tanh"),
}
_OF_FUNCTIONS = Usual("its activation functions have parameters")
_COUPLED = Usual("it couples the input and forget gates")
_ACTIVATIONS = {"Tanh": "tanh", "Relu": "relu", "Sigmoid": "logistic"}


@dataclass(frozen=True, slots=True)
class _RecurrentForm:
    hidden_size: int = 0
    direction: str = "forward"
    layout: int = 0
    activations: Words = ()
    activation_alpha: Annotated[Floats, _OF_FUNCTIONS] = ()
    activation_beta: Annotated[Floats, _OF_FUNCTIONS] = ()
    clip: Annotated[float, Usual("it clips the inputs of its functions")] | None = None


@ONNX("RNN")
def _rnn(call: OperatorCall, *inputs: Value | None, form: _RecurrentForm) -> Made:
    words = {activation.lower(): activation for activation in _ACTIVATIONS}
    function = words.get(form.activations[0].lower() if form.activations else "", "Tanh")
    return _Recurrent.of(call, inputs, form, "vanilla_rnn", function).results()


@ONNX("LSTM")
def _lstm(
    call: OperatorCall,
    *inputs: Value | None,
    form: _RecurrentForm,
    input_forget: Annotated[bool, _COUPLED] = False,
) -> Made:
    return _Recurrent.of(call, inputs, form, "vanilla_lstm").results()


@ONNX("GRU")
def _gru(
    call: OperatorCall, *inputs: Value | None, form: _RecurrentForm, linear_before_reset: bool = False
) -> Made:
    return _Recurrent.of(call, inputs, form, "lbr_gru" if linear_before_reset else "vanilla_gru").results()


@dataclass(frozen=True, slots=True)
class _Recurrent:
    """A node with its inputs by name, and its translation."""

    call: OperatorCall
    inputs: Mapping[str, Value]
    form: _RecurrentForm
    operation: RecurrentOperation

    @staticmethod
    def of(
        call: OperatorCall,
        inputs: tuple[Value | None, ...],
        form: _RecurrentForm,
        cell: str,
        function: str = "",
    ) -> _Recurrent:
        """Check a node: ValueError for what does not fit, Unimplemented for what is not supported."""
        if form.direction not in _DIRECTIONS:
            raise Misfit(f"direction {form.direction!r} is not one of {', '.join(_DIRECTIONS)}")
        operation = RecurrentOperation(cell, _DIRECTIONS[form.direction], _ACTIVATIONS.get(function, ""))
        values = {name: value for name, value in zip(_NAMES, inputs, strict=False) if value is not None}
        recurrent = _Recurrent(call, values, form, operation)
        for at, name in enumerate(_NAMES[:3]):
            if name not in values:
                raise Misfit(f"input {at} is missing")
        recurrent._check_functions(_FUNCTIONS.get(cell, (function,)) * operation.directions)
        if form.layout not in (0, 1):
            raise Misfit(f"its layout is {form.layout}, not 0 or 1")
        recurrent._check_dims()
        recurrent._check_types()
        recurrent._check_forms()
        return recurrent

    def _check_functions(self, functions: tuple[str, ...]) -> None:
        names = self.form.activations
        if names and len(names) != len(functions):
            raise Misfit(f"it has {len(names)} functions, {', '.join(names)}, but needs {len(functions)}")
        if not names or [name.lower() for name in names] == [function.lower() for function in functions]:
            return
        choices = [functions]
        if self.operation.activation:
            choices = [(activation,) * len(functions) for activation in _ACTIVATIONS]
        hint = f"supported are {'; or '.join(map(', '.join, choices))}"
        raise self.call.unimplemented(f"its functions are {', '.join(names)}", hint)

    def _check_dims(self) -> None:
        dims, size = self._dims("X"), self.form.hidden_size
        if len(dims) != 3:
            raise Misfit(f"X is {dims}, but should have 3 dims: steps, sequences and inputs")
        if not size:
            raise Misfit("its hidden_size, the number of channels of states, is missing")
        recurrent, runs, gates = self._dims("R"), self.operation.directions, self.operation.rnn_cell.gates
        if (
            len(recurrent) == 3
            and recurrent[1:] == (gates * recurrent[2], recurrent[2])
            and recurrent[2] != size
        ):
            raise Misfit(f"its hidden_size is {size}, but R {recurrent} is for {recurrent[2]}")
        state = (dims[0], runs, size) if self.form.layout else (runs, dims[1], size)
        expected = {
            "W": (runs, gates * size, dims[2]),
            "R": (runs, gates * size, size),
            "B": (runs, 2 * gates * size),
            "initial_h": state,
            "initial_c": state,
            "P": (runs, 3 * size),
        }
        for name, expected_dims in expected.items():
            if name in self.inputs and self._dims(name) != expected_dims:
                raise Misfit(
                    f"{name} is {self._dims(name)}, but should be {expected_dims}: X is {dims}, "
                    f"directions: {runs}, gates: {gates}, hidden_size: {size}"
                )

    def _check_types(self) -> None:
        kinds = {
            name: self.call.type_of(value) for name, value in self.inputs.items() if name != "sequence_lens"
        }
        for name, kind in kinds.items():
            if kind is not kinds["X"]:
                raise Misfit(f"{name} is {kind}, but X is {kinds['X']}: the types must be equal")
        if kinds["X"] not in AS_F32:
            raise self.call.unimplemented(
                f"it computes with {kinds['X']}", "save the model with f32, bf16 or f16"
            )

    def _check_forms(self) -> None:
        call = self.call
        if "P" in self.inputs and self._constant("P").any():
            raise call.unimplemented("it has peepholes")
        if "sequence_lens" not in self.inputs:
            return
        lengths = self._constant("sequence_lens")
        steps, sequences = self._dims("X")[:2][:: -1 if self.form.layout else 1]
        if lengths.shape != (sequences,) or lengths.dtype.kind not in "iu":
            raise Misfit(f"sequence_lens is {lengths.dtype} {lengths.shape}, for {sequences} sequences")
        wrong = lengths[(lengths < 0) | (lengths > steps)]
        if wrong.size:
            raise Misfit(f"sequence_lens has {wrong[0]}, for {steps} steps")
        if not np.any(lengths != steps):
            return
        if np.all(lengths == lengths[0]):
            hint = f"pass the first {lengths[0]} steps of X, and omit sequence_lens"
            raise call.unimplemented(f"all its sequences have {lengths[0]} of {steps} steps", hint)
        raise call.unimplemented(
            "its sequences differ in length",
            "run sequences of equal length together, with that many steps of X, and omit sequence_lens",
        )

    def _dims(self, name: str) -> tuple[int, ...]:
        return self.call.dims(self.inputs[name])

    def _constant(self, name: str) -> Array:
        value = self.inputs[name]
        if isinstance(value, str):
            raise self.call.known_in_run(name)
        return value

    def _placed(self, value: Value) -> str:
        return value if isinstance(value, str) else self.call.builder.constant(value)

    def results(self) -> tuple[str, ...]:
        """Return Y (T, D, N, C), Y_h and Y_c (D, N, C); batch first if the layout says so."""
        call, runs, is_batch_first = self.call, self.operation.directions, bool(self.form.layout)
        x = self._placed(self.inputs["X"])
        x = call.transposed(x, (1, 0, 2)) if is_batch_first else x
        weights = self._by_gate("W"), self._by_gate("R"), self._bias()
        inputs = [x, *map(self._placed, weights), *self._states(x)]
        name = call.node.outputs[0] if call.node.outputs else ""
        outputs = call.builder.add_all(self.operation, *inputs, name=f"{name}.states" if name else "")
        steps, batch, wide = call.dims(outputs[0])
        apart = call.reshaped(outputs[0], (steps, batch, runs, wide // runs))
        first = call.transposed(apart, (1, 0, 2, 3) if is_batch_first else (0, 2, 1, 3))
        lasts = [call.reshaped(state, (runs, batch, wide // runs)) for state in outputs[1:]]
        if is_batch_first:
            lasts = [call.transposed(state, (1, 0, 2)) for state in lasts]
        return (first, *lasts)

    @property
    def _order(self) -> tuple[int, ...]:
        """Index of each gate in ONNX."""
        return (
            (0, 2, 3, 1)
            if self.operation.cell == "vanilla_lstm"
            else tuple(range(self.operation.rnn_cell.gates))
        )

    def _by_gate(self, name: str) -> Value:
        """Reshape weights (D, gates * C, I) to (1, D, I, gates, C)."""
        call, weights, gates = self.call.with_outputs(0), self.inputs[name], self.operation.rnn_cell.gates
        runs, rows, inputs = call.dims(weights)
        apart = call.reshaped(weights, (runs, gates, rows // gates, inputs))
        turned = call.transposed(call.onnx("Gather", apart, self._order, axis=1), (0, 3, 1, 2))
        return call.reshaped(turned, (1, *call.dims(turned)))

    def _bias(self) -> Value:
        cell, runs, channels = self.operation.rnn_cell, self.operation.directions, self._dims("R")[-1]
        if "B" not in self.inputs:
            return np.zeros((1, runs, cell.biases, channels), np.float32)
        call = self.call.with_outputs(0)
        # The bias can be f32 with any type, so that the sum is not rounded again.
        rows = call.reshaped(call.onnx("Cast", self.inputs["B"], to=_F32), (runs, 2, cell.gates, channels))
        both = call.onnx("Gather", rows, self._order, axis=2)
        bias = call.onnx("ReduceSum", both, (1,), keepdims=False)
        if cell.biases > cell.gates:
            last, first = (cell.gates - 1,), (0,)
            parts = [call.onnx("Slice", bias, first, last, (1,), (1,))]
            for row in (0, 1):
                own = call.onnx("Slice", both, (row, *last), (row + 1, cell.gates), (1, 2), (1, 1))
                parts.append(call.reshaped(own, (runs, 1, channels)))
            bias = call.onnx("Concat", *parts, axis=1)
        return call.reshaped(bias, (1, *call.dims(bias)))

    def _states(self, x: str) -> list[str]:
        """Return the initial states, h and c; none if both are zero."""
        names = ("initial_h", "initial_c")[: 1 + self.operation.rnn_cell.has_cell_state]
        if not any(name in self.inputs for name in names):
            return []
        call, kind = self.call, self.call.builder.type(x)
        dims = (kind.dims[1], self.operation.directions, self._dims("R")[-1])
        zeros = np.zeros(dims if self.form.layout else (dims[1], dims[0], dims[2]), kind.data_type.numpy)
        states = [self._placed(self.inputs.get(name, zeros)) for name in names]
        if self.form.layout:
            states = [call.transposed(state, (1, 0, 2)) for state in states]
        return [call.reshaped(state, (1, *call.dims(state))) for state in states]
