"""Recurrent networks of one layer as operations of a graph: `onednn.LSTMForward` and its like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...desc.parse import one_of, short_repr
from ...errors import refuse
from ...ops.programs.rnn_cells import GATES, RnnCell
from ...ops.programs.rnn_descs import DIRECTIONS
from ...ops.rnn import RnnProblem
from ...ops.rnn_checks import ACTIVATIONS
from ...ops.rnn_checks import DIRECTIONS as PRIMITIVE_DIRECTIONS
from .operations import Operation, TensorType

__all__ = ["RecurrentOperation"]

# Words of primitives and of others, and what they are called here.
_OTHER_CELLS = {"rnn": "vanilla_rnn", "lstm": "vanilla_lstm", "gru": "vanilla_gru", "lbrgru": "lbr_gru"}
_OTHER_DIRECTIONS = {
    **PRIMITIVE_DIRECTIONS,
    "unidirectional": "left2right",
    "forward": "left2right",
    "reverse": "right2left",
    "bidirectional": "concat",
}
_OTHER_ACTIVATIONS = {**{f"eltwise_{name}": name for name in ACTIVATIONS}, "sigmoid": "logistic"}


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

    _spec = RnnProblem

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

    @property
    def count_of_results(self) -> int:
        """Two; of an LSTM three."""
        return 2 + self.rnn_cell.has_cell_state

    def results(self, tensors: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The states of all steps, and the last ones."""
        return self._results(tensors)


def _check_word(name: str, word: object, words: Iterable[str], others: Mapping[str, str]) -> None:
    """Raise InvalidArguments unless it is one of the words; `others` are those that mean one of them."""
    if isinstance(word, str) and word in words:
        return
    raise refuse(
        "RS-V04:recurrent-word", name=name, word=short_repr(word), advice=one_of(words, word, others)
    )
