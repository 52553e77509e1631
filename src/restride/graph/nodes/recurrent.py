"""Recurrent networks of one layer as operations of a graph: `onednn.LSTMForward` and similar."""

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

# Words of primitives and of other libraries, with those used here.
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
    """One layer of a recurrent network: `cell` is "vanilla_lstm" or similar.

    It reads a source (T, N, I), weights (1, D, I, gates, C) and (1, D, C, gates, C), a bias (1, D, gates, C),
    with one more gate for an "lbr_gru", and optionally initial states (1, D, N, C), for an LSTM h and c. It
    makes the states (T, N, C), or 2 * C for two directions side by side, and the last states (1, D, N, C), h
    and c.

    `direction`: "left2right", "right2left", "concat" or "sum". `activation`: of a "vanilla_rnn", "relu",
    "tanh" or "logistic"; "" for the others. Raises InvalidArguments for any other word.
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
        """1, or 2 for a bidirectional network."""
        return 2 if self.direction in ("concat", "sum") else 1

    @property
    def rnn_cell(self) -> RnnCell:
        """The cell as used in plans."""
        return RnnCell(self.cell, self.activation)

    @property
    def count_of_results(self) -> int:
        """Two, or three for an LSTM."""
        return 2 + self.rnn_cell.has_cell_state

    def results(self, tensors: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Return the states of all steps, and the last ones."""
        return self._results(tensors)


def _check_word(name: str, word: object, words: Iterable[str], others: Mapping[str, str]) -> None:
    """Raise InvalidArguments unless `word` is one of `words`; `others` maps further words to these."""
    if isinstance(word, str) and word in words:
        return
    raise refuse(
        "RS-V04:recurrent-word", name=name, word=short_repr(word), advice=one_of(words, word, others)
    )
