"""The time of a step in given formats, which propagation weighs against the reorders around it.

    sums of products   the longer of products / (what the cores can do * how well formats suit) and bytes
    all others         bytes read and written, as a copy takes, times how well the format suits

The factors are rounded means of what the steps of nine networks took, each in three formats, on the machine
of `machine.RATES`. They say which of two formats is faster, and by how much about; not how long a step
takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from ...desc.memory_desc import MemoryDesc
from ...schedule.cost import KernelWork, predict
from ...schedule.machine import Machine

__all__ = ["EDGES", "CostModel", "order_of_channels"]

# Cycles of a core in a second, and additions and products that a lane does in one of them: two FMAs.
_CYCLES = 4e9
_OPERATIONS = 4

# What share of that convolutions reach: channels apart in the source, beside each other, in blocks.
_SHARES = {"plain": 0.76, "last": 0.93, "blocked": 0.92}
_POINTWISE = {"plain": 0.91, "last": 0.87, "blocked": 0.97}
# Of few channels, which blocks would fill with zeros.
_FEW = {"plain": 0.86, "last": 0.66, "blocked": 0.56}
# Of gradients of weights, by the worse order of both; where channels are few, of source and of result.
_WEIGHTS = {"plain": 0.74, "last": 0.25, "blocked": 0.74}
_FEW_WEIGHTS = (
    {"plain": 0.2, "last": 0.7, "blocked": 0.5},
    {"plain": 0.2, "last": 0.06, "blocked": 0.7},
)
# Of that, where windows are transposed.
_TRANSPOSED = 0.55
# Where groups cut blocks, by the orders of source and result.
_GROUPED = {
    ("plain", "plain"): 0.54,
    ("plain", "last"): 0.52,
    ("plain", "blocked"): 0.45,
    ("last", "plain"): 0.5,
    ("last", "last"): 0.64,
    ("last", "blocked"): 0.43,
    ("blocked", "plain"): 0.47,
    ("blocked", "last"): 0.4,
    ("blocked", "blocked"): 0.34,
}
# Where groups are one channel: channels are in vectors on both sides, or the width is.
_DEPTHWISE, _DEPTHWISE_TO_ROWS, _DEPTHWISE_FROM_ROWS = 0.34, 0.1, 0.14
# A product of matrices whose left one lies by columns, and other formats than row-major on the right.
_PRODUCT = 0.8
_BY_COLUMNS = 0.5

# How many times as long as a copy of their bytes: in row-major, channels last, blocked tensors.
_TIMES = {
    "pooling": {"plain": 3.3, "last": 2.0, "blocked": 1.4},
    "lrn": {"plain": 3.5, "last": 2.4, "blocked": 4.2},
    "softmax": {"plain": 2.2, "last": 5.8, "blocked": 3.5},
    "resampling": {"plain": 1.9, "last": 1.2, "blocked": 1.4},
    "shuffle": {"plain": 0.8, "last": 0.8, "blocked": 0.8},
    "concat": {"plain": 1.0, "last": 1.5, "blocked": 1.0},
    # Of rows each element is loaded alone.
    "interpolation": {"plain": 12.0, "last": 1.0, "blocked": 1.0},
    "layer_normalization": {"plain": 1.5, "last": 3.0, "blocked": 3.0},
}
_LIKE_A_COPY = {"plain": 1.0, "last": 1.0, "blocked": 1.0}
# A part that begins inside a block is moved lane by lane.
_CUTS_A_BLOCK = 3.0
# A reorder between two steps takes so many times as long as one that is run again and again: what it reads
# lies in the cache of the core that wrote it.
EDGES = 1.7


def gains_by_channels(kind: str) -> bool:
    """True where a step of that word is faster with channels last or in blocks than in a row-major tensor."""
    times = _TIMES.get(kind, _LIKE_A_COPY)
    return min(times.values()) < times["plain"]


def order_of_channels(md: MemoryDesc) -> str:
    """The order of channels, the second dim: "blocked", "last" where they are neighbors, else "plain".

    Blocks of which the last axis is the innermost have rows as a plain tensor has them.
    """
    if md.inner_blks:
        return "plain" if md.inner_idxs[-1] == md.ndims - 1 > 1 else "blocked"
    return "last" if md.ndims > 2 and md.strides[1] == 1 and prod(md.dims[2:]) > 1 else "plain"


NOMINAL_THREADS = 2
"""Formats decide the order of sums: they are chosen for this many threads, however many there are."""


@dataclass(frozen=True)
class CostModel:
    """A machine, and how many threads share a step."""

    machine: Machine = field(default_factory=Machine)
    threads: int = 1

    def moving(self, kind: str, inputs: Sequence[MemoryDesc], outputs: Sequence[MemoryDesc]) -> float:
        """Seconds of a step that is bound by memory, of the word `kind`."""
        times = _TIMES.get(kind, _LIKE_A_COPY)[order_of_channels(inputs[0])] if inputs else 1.0
        if kind == "concat" and any(md.inner_blks and md.padded_dims != md.dims for md in inputs):
            times *= _CUTS_A_BLOCK
        return times * self._copying([*inputs, *outputs])

    def convolution(
        self,
        terms: int,
        groups: int,
        source: MemoryDesc,
        weights: MemoryDesc,
        result: MemoryDesc,
        is_transposed: bool = False,
    ) -> float:
        """Seconds of a convolution or deconvolution of so many products."""
        orders = order_of_channels(source), order_of_channels(result)
        operands = (source, weights, result)
        share = self._grouped_share(groups, source, result, orders)
        if share:
            return self._products(terms, share, operands)
        is_pointwise = prod(weights.dims[weights.ndims - source.ndims + 2 :]) == 1
        shares = _POINTWISE if is_pointwise else _SHARES
        shares = _FEW if source.dims[1] // groups < self._lanes else shares
        share = shares[orders[0]] * (_TRANSPOSED if is_transposed else 1.0)
        # Kernels have the channels of a result in vectors; into rows they are brought afterwards.
        return self._products(terms, share, operands) + self._copying([result] * (orders[1] == "plain"))

    def weights_gradient(
        self, terms: int, groups: int, source: MemoryDesc, weights: MemoryDesc, result: MemoryDesc
    ) -> float:
        """Seconds of the gradient of a convolution's weights, which sums over all windows."""
        orders = order_of_channels(source), order_of_channels(result)
        share = self._grouped_share(groups, source, result, orders)
        if not share and source.dims[1] // groups < self._lanes:
            share = min(shares[order] for shares, order in zip(_FEW_WEIGHTS, orders, strict=True))
        share = share or min(_WEIGHTS[order] for order in orders)
        return self._products(terms, share, (source, weights, result))

    def product(
        self, terms: int, left: MemoryDesc, right: MemoryDesc, result: MemoryDesc, is_packed: bool
    ) -> float:
        """Seconds of a product of matrices; `is_packed` where the right one is in blocks already."""
        share = _PRODUCT if left.ndims < 2 or left.strides[-1] <= left.strides[-2] else _BY_COLUMNS
        seconds = self._products(terms, share, (left, right, result))
        return seconds if is_packed else seconds + self._copying([right])

    def strided(self, kind: str, inputs: Sequence[MemoryDesc], outputs: Sequence[MemoryDesc]) -> float:
        """Seconds of a step that reads and writes rows anywhere, and brings others into rows before."""
        # What lies between rows is not read.
        dense = {md: MemoryDesc(md.dims, md.data_type) for md in (*inputs, *outputs)}
        apart = [dense[md] for md in dense if md.strides[-1] != 1 and md.dims[-1] > 1]
        return self.moving(kind, [dense[md] for md in inputs], [dense[md] for md in outputs]) + self._copying(
            apart
        )

    @property
    def _lanes(self) -> int:
        return self.machine.vector_bytes // 4

    def _grouped_share(
        self, groups: int, source: MemoryDesc, result: MemoryDesc, orders: tuple[str, str]
    ) -> float:
        """The share of the speed that is left with groups; 0 where they do not matter."""
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
        nbytes = sum(md.size for md in operands)
        threads = self.threads if nbytes >= self.machine.alone_bytes else 1
        return predict(KernelWork("copy", nbytes, nbytes // 4, threads), self.machine).seconds
