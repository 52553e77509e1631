"""Recurrent networks that are timed: a cell, its sizes and its type."""

from __future__ import annotations

from typing import NamedTuple

GATES = {"VanillaRNN": 1, "LSTM": 4, "GRU": 3, "LBRGRU": 3}
"""The cells, and how many gates each has."""
CELLS = {"VanillaRNN": "vanilla_rnn", "LSTM": "vanilla_lstm", "GRU": "vanilla_gru", "LBRGRU": "lbr_gru"}
"""What oneDNN calls them."""


class NetworkShape(NamedTuple):
    """A cell, steps of time, sequences, channels of the input and of the states; f32, bf16 or u8."""

    cell: str
    steps: int
    batch: int
    channels: int
    data_type: str = "f32"

    @property
    def flops(self) -> int:
        """Operations of the products: an addition and a product each."""
        return 4 * self.steps * self.batch * GATES[self.cell] * self.channels**2

    def dims(self) -> dict[str, tuple[int, ...]]:
        """The dims of all tensors."""
        state, gates = (1, 1, self.batch, self.channels), GATES[self.cell]
        weights = (1, 1, self.channels, gates, self.channels)
        layer = (self.steps, self.batch, self.channels)
        bias = (1, 1, gates + (self.cell == "LBRGRU"), self.channels)
        found = {"src_layer": layer, "src_iter": state, "weights_layer": weights, "weights_iter": weights}
        found |= {"bias": bias, "dst_layer": layer, "dst_iter": state}
        return found | ({"src_iter_c": state, "dst_iter_c": state} if self.cell == "LSTM" else {})

    def type_of(self, name: str) -> str:
        """The type of a tensor: bias and states c are f32, weights of bytes s8."""
        if name == "bias" or name.endswith("_c"):
            return "f32"
        return "s8" if self.data_type == "u8" and name.startswith("weights") else self.data_type
