"""How long a step takes in given formats: what propagation weighs against the reorders around it.

    sums of products   the longer of products / (what the cores can do * how well formats suit) and bytes
    all others         bytes read and written, as a copy takes, times how well the format suits

The factors are rounded means of what kernels of layers of ResNet-50, ShuffleNet and VGG took on the machine
of `plan/cost.py`. They say which of two formats is faster, and by how much about; not how long a step takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from ..desc.memory_desc import MemoryDesc
from ..plan.cost import KernelWork, predict
from ..plan.machine import Machine

__all__ = ["CostModel", "order_of_channels"]

# Cycles of a core in a second, and additions and products that a lane does in one of them: two FMAs.
_CYCLES = 4e9
_OPERATIONS = 4

# What share of that convolutions reach: channels apart in the source, beside each other, in blocks.
_SHARES = {"plain": 0.5, "last": 0.93, "blocked": 0.95}
# Of few channels, which blocks would fill with zeros.
_FEW = {"plain": 0.85, "last": 0.5, "blocked": 0.45}
# Where groups cut blocks, by the orders of source and result.
_GROUPED = {
    ("plain", "plain"): 0.3,
    ("plain", "last"): 0.35,
    ("plain", "blocked"): 0.3,
    ("last", "plain"): 0.42,
    ("last", "last"): 0.54,
    ("last", "blocked"): 0.43,
    ("blocked", "plain"): 0.34,
    ("blocked", "last"): 0.4,
    ("blocked", "blocked"): 0.33,
}
# Where groups are one channel: channels are in vectors on both sides, or the width is.
_DEPTHWISE, _DEPTHWISE_TO_ROWS, _DEPTHWISE_FROM_ROWS = 0.22, 0.08, 0.035
# A product of matrices whose left one lies by columns, and other formats than row-major on the right.
_PRODUCT = 0.8
_BY_COLUMNS = 0.5

# How many times as long as a copy of their bytes: in row-major, channels last, blocked tensors.
_TIMES = {
    "pooling": {"plain": 4.0, "last": 1.0, "blocked": 3.0},
    "lrn": {"plain": 2.0, "last": 4.5, "blocked": 12.0},
    "softmax": {"plain": 2.5, "last": 2.5, "blocked": 6.0},
    "resampling": {"plain": 5.0, "last": 1.2, "blocked": 2.5},
    "shuffle": {"plain": 1.0, "last": 1.8, "blocked": 1.8},
    "concat": {"plain": 1.0, "last": 1.3, "blocked": 1.0},
    "layer_normalization": {"plain": 1.5, "last": 3.0, "blocked": 3.0},
}
_LIKE_A_COPY = {"plain": 1.0, "last": 1.0, "blocked": 1.0}
# A part that begins inside a block is moved lane by lane.
_CUTS_A_BLOCK = 3.0


def order_of_channels(md: MemoryDesc) -> str:
    """How channels, the second dim, lie: "blocked", "last" where they are neighbours, else "plain"."""
    if md.inner_blks:
        return "blocked"
    return "last" if md.ndims > 2 and md.strides[1] == 1 and prod(md.dims[2:]) > 1 else "plain"


@dataclass(frozen=True)
class CostModel:
    """A machine, and how many threads share a step."""

    machine: Machine = field(default_factory=Machine)
    threads: int = 1

    def moving(self, kind: str, inputs: Sequence[MemoryDesc], outputs: Sequence[MemoryDesc]) -> float:
        """Seconds of a step that is bound by memory, of the word `kind`."""
        times = _TIMES.get(kind, _LIKE_A_COPY)[order_of_channels(inputs[0])] if inputs else 1.0
        if kind == "concat" and _cuts_blocks(inputs):
            times *= _CUTS_A_BLOCK
        return times * self._copying([*inputs, *outputs])

    def convolution(
        self, terms: int, groups: int, source: MemoryDesc, weights: MemoryDesc, result: MemoryDesc
    ) -> float:
        """Seconds of a convolution or deconvolution of so many products."""
        orders = order_of_channels(source), order_of_channels(result)
        operands = (source, weights, result)
        share = self._grouped_share(groups, source, result, orders)
        if share:
            return self._products(terms, share, operands)
        shares = _FEW if source.dims[1] // groups < self._lanes else _SHARES
        is_pointwise = shares is _SHARES and _is_pointwise(weights, source)
        share = _SHARES["last"] if is_pointwise else shares[orders[0]]
        # Kernels have the channels of a result in vectors; into rows they are brought afterwards.
        return self._products(terms, share, operands) + self._copying([result] * (orders[1] == "plain"))

    def product(
        self, terms: int, left: MemoryDesc, right: MemoryDesc, result: MemoryDesc, is_packed: bool
    ) -> float:
        """Seconds of a product of matrices; `is_packed` where the right one is in blocks already."""
        share = _PRODUCT if left.ndims < 2 or left.strides[-1] <= left.strides[-2] else _BY_COLUMNS
        seconds = self._products(terms, share, (left, right, result))
        return seconds if is_packed else seconds + self._copying([right])

    @property
    def _lanes(self) -> int:
        return self.machine.vector_bytes // 4

    def _grouped_share(
        self, groups: int, source: MemoryDesc, result: MemoryDesc, orders: tuple[str, str]
    ) -> float:
        """What groups leave of the speed; 0 where they do not matter."""
        if groups < 2:
            return 0.0
        if groups == source.dims[1] == result.dims[1]:
            other = _DEPTHWISE if orders[1] != "plain" else _DEPTHWISE_TO_ROWS
            return other if orders[0] != "plain" else _DEPTHWISE_FROM_ROWS
        cuts_blocks = any(md.dims[1] // groups % self._lanes for md in (source, result))
        return _GROUPED[orders] if cuts_blocks else 0.0

    def _products(self, terms: int, share: float, operands: Sequence[MemoryDesc]) -> float:
        rate = _CYCLES * _OPERATIONS * self._lanes * self.threads / operands[0].data_type.nbytes(1) * 4
        return max(2 * terms / (rate * share), self._copying(operands))

    def _copying(self, operands: Sequence[MemoryDesc]) -> float:
        if not operands:
            return 0.0
        moved = sum(md.size for md in operands)
        return predict(KernelWork("copy", moved, moved // 4, self.threads), self.machine).seconds


def _cuts_blocks(inputs: Sequence[MemoryDesc]) -> bool:
    return any(md.inner_blks and md.padded_dims != md.dims for md in inputs)


def _is_pointwise(weights: MemoryDesc, source: MemoryDesc) -> bool:
    return prod(weights.dims[weights.ndims - source.ndims + 2 :]) == 1
