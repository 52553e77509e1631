"""Recurrent networks of one layer as operations of a graph: `rs.LSTMForward` and its like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...desc.arguments import (
    ARG_BIAS,
    ARG_DST_ITER,
    ARG_DST_ITER_C,
    ARG_DST_LAYER,
    ARG_SRC_ITER,
    ARG_SRC_ITER_C,
    ARG_SRC_LAYER,
    ARG_WEIGHTS_ITER,
    ARG_WEIGHTS_LAYER,
)
from ...desc.memory_desc import MemoryDesc
from ...desc.parse import one_of, short_repr
from ...errors import refuse
from ...ops.product import kernel_block
from ...ops.rnn import RnnProblem
from ...ops.rnn_checks import ACTIVATIONS
from ...ops.rnn_checks import DIRECTIONS as PRIMITIVE_DIRECTIONS
from ...plan.rnn_cells import GATES, RnnCell
from ...plan.rnn_descs import DIRECTIONS, RnnTensors
from ..dims import by
from .operations import Operation, TensorType, unfit

__all__ = ["RNN_READS", "RNN_WRITES", "RecurrentOperation", "preferred_weights"]

RNN_READS = (
    ARG_SRC_LAYER,
    ARG_WEIGHTS_LAYER,
    ARG_WEIGHTS_ITER,
    ARG_BIAS,
    ARG_SRC_ITER,
    ARG_SRC_ITER_C,
)
RNN_WRITES = (ARG_DST_LAYER, ARG_DST_ITER, ARG_DST_ITER_C)
"""The arguments of what the operation reads and writes, in order."""
_RANK = 3
# Words of primitives and of others, and what they are called here.
_OTHER_CELLS = {"rnn": "vanilla_rnn", "lstm": "vanilla_lstm", "gru": "vanilla_gru", "lbrgru": "lbr_gru"}
_OTHER_DIRECTIONS = {
    **PRIMITIVE_DIRECTIONS,
    "unidirectional": "left2right",
    "forward": "left2right",
    "reverse": "right2left",
    "bidirectional": "concat",
}
_OTHER_ACTIVATIONS = {**{f"eltwise_{each}": each for each in ACTIVATIONS}, "sigmoid": "logistic"}


@dataclass(frozen=True, slots=True)
class RecurrentOperation(Operation):
    """One layer of a recurrent network: `cell` is "vanilla_lstm" or its like.

    It reads a source (T, N, I), weights (1, D, I, gates, C) and (1, D, C, gates, C), a bias (1, D, gates, C),
    of an "lbr_gru" one gate more, and perhaps first states (1, D, N, C), of an LSTM h and c. It makes the
    states (T, N, C), or 2 * C of two directions side by side, and the last states (1, D, N, C), h and c.

    `direction`: "left2right", "right2left", "concat" or "sum". `activation`: that of a "vanilla_rnn", "relu",
    "tanh" or "logistic"; "" of the others. Raises InvalidArguments for any other word.
    """

    cell: str
    direction: str = "left2right"
    activation: str = ""

    kind: ClassVar[str] = "rnn"
    inputs: ClassVar[tuple[int, int]] = (4, 6)

    def __post_init__(self) -> None:
        _check_word("cell", self.cell, GATES, _OTHER_CELLS)
        _check_word("direction", self.direction, DIRECTIONS, _OTHER_DIRECTIONS)
        if self.cell == "vanilla_rnn":
            _check_word("activation", self.activation, ACTIVATIONS, _OTHER_ACTIVATIONS)
        elif not isinstance(self.activation, str) or self.activation:
            raise refuse("RS-V04:activation", activation=short_repr(self.activation), cell=self.cell)

    @property
    def directions(self) -> int:
        """1, or 2 for a network that reads both ways."""
        return 2 if self.direction in ("concat", "sum") else 1

    @property
    def rnn_cell(self) -> RnnCell:
        """The cell as plans have it."""
        return RnnCell(self.cell, self.activation)

    def result(self, *tensors: TensorType) -> TensorType:
        """The states of all steps."""
        source, weights = tensors[0], tensors[1]
        steps, batch, _ = source.dims
        wide = weights.dims[-1] * (2 if self.direction == "concat" else 1)
        return TensorType((steps, batch, wide), source.data_type)

    def results(self, tensors: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The states of all steps, and the last ones."""
        self._check(tensors)
        source, weights = tensors[0], tensors[1]
        last = TensorType((1, self.directions, source.dims[1], weights.dims[-1]), source.data_type)
        return (self.result(*tensors), *[last] * self._states)

    @property
    def count_of_results(self) -> int:
        """Two; of an LSTM three."""
        return 1 + self._states

    @property
    def _states(self) -> int:
        return 1 + self.rnn_cell.has_cell_state

    def _check(self, tensors: Sequence[TensorType]) -> None:
        if len(tensors) not in (4, 4 + self._states):
            raise unfit(f"{self.cell} reads 4 tensors, and perhaps {self._states} states", tensors)
        source, weights = tensors[0].dims, tensors[1].dims
        if len(source) != _RANK or len(weights) != _RANK + 2:
            raise unfit("a source is (T, N, I), weights are (1, D, I, gates, C)", tensors)
        if 0 in (*source, *weights):
            raise unfit("a network without steps, sequences or channels has no states to give", tensors)
        cell, channels, runs = self.rnn_cell, weights[-1], (1, self.directions)
        state = (*runs, source[1], channels)
        wanted = [
            source,
            (*runs, source[2], cell.gates, channels),
            (*runs, channels, cell.gates, channels),
            (*runs, cell.biases, channels),
            state,
            state,
        ]
        for number, (each, dims) in enumerate(zip(tensors, wanted, strict=False)):
            if each.dims != dims:
                raise unfit(f"tensor {number} is {by(each.dims)}, it should be {by(dims)}", tensors)


def _check_word(name: str, word: object, words: Iterable[str], others: Mapping[str, str]) -> None:
    """Raise InvalidArguments unless it is one of the words; `others` are those that mean one of them."""
    if isinstance(word, str) and word in words:
        return
    raise refuse(
        "RS-V04:recurrent-word", name=name, word=short_repr(word), advice=one_of(words, word, others)
    )


def preferred_weights(
    operation: RecurrentOperation, sources: Sequence[MemoryDesc], results: Sequence[MemoryDesc]
) -> tuple[MemoryDesc, MemoryDesc]:
    """The formats of both weights that kernels want, for row-major sources and results."""
    none = MemoryDesc()
    x, layer, states, bias, h, c = (*sources, none, none)[:6]
    dst, last, last_c = (*results, none)[:3]
    tensors = RnnTensors(x, h, c, layer, states, bias, dst, last, last_c)
    problem = RnnProblem(operation.rnn_cell, operation.direction, False, tensors, kernel_block())
    found = problem.preferred()
    return found["weights_layer"], found["weights_iter"]
