"""Time of a step in given formats, weighed by propagation against the reorders around it.

    sums of products   the longer of products / (peak of the cores * efficiency of the formats) and bytes
    all others         bytes read and written, at the speed of a copy, times a factor of the format

The factors are rounded means over the steps of nine networks, each in three formats, measured on the machine
of `machine.RATES`. They rank two formats, with a rough ratio; they do not predict absolute times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from ...desc.memory_desc import MemoryDesc
from ...schedule.cost import KernelWork, predict
from ...schedule.machine import Machine

__all__ = ["EDGES", "CostModel", "order_of_channels"]

# Cycles per second of a core, and additions and products of a lane per cycle: two FMAs.
_CYCLES = 4e9
_OPERATIONS = 4

# Share of that peak that convolutions reach: source channels strided, adjacent, in blocks.
_SHARES = {"plain": 0.76, "last": 0.93, "blocked": 0.92}
_POINTWISE = {"plain": 0.91, "last": 0.87, "blocked": 0.97}
# With few channels, where blocks would be filled with zeros.
_FEW = {"plain": 0.86, "last": 0.66, "blocked": 0.56}
# For gradients of weights, by the worse order of both; with few channels, by source and by result.
_WEIGHTS = {"plain": 0.74, "last": 0.25, "blocked": 0.74}
_FEW_WEIGHTS = (
    {"plain": 0.2, "last": 0.7, "blocked": 0.5},
    {"plain": 0.2, "last": 0.06, "blocked": 0.7},
)
# Factor on that for transposed windows.
_TRANSPOSED = 0.55
# For groups that cut blocks, by the orders of source and result.
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
# For groups of one channel: vectors hold channels on both sides, or the width.
_DEPTHWISE, _DEPTHWISE_TO_ROWS, _DEPTHWISE_FROM_ROWS = 0.34, 0.1, 0.14
# For matrix products, and for those with a column-major matrix on the left.
_PRODUCT = 0.8
_BY_COLUMNS = 0.5

# Time relative to a copy of the same bytes: row-major, channels last, blocked.
_TIMES = {
    "pooling": {"plain": 3.3, "last": 2.0, "blocked": 1.4},
    "lrn": {"plain": 3.5, "last": 2.4, "blocked": 4.2},
    "softmax": {"plain": 2.2, "last": 5.8, "blocked": 3.5},
    "resampling": {"plain": 1.9, "last": 1.2, "blocked": 1.4},
    "shuffle": {"plain": 0.8, "last": 0.8, "blocked": 0.8},
    "concat": {"plain": 1.0, "last": 1.5, "blocked": 1.0},
    # Each element of a row is loaded separately.
    "interpolation": {"plain": 12.0, "last": 1.0, "blocked": 1.0},
    "layer_normalization": {"plain": 1.5, "last": 3.0, "blocked": 3.0},
}
_LIKE_A_COPY = {"plain": 1.0, "last": 1.0, "blocked": 1.0}
# A part that begins inside a block is moved lane by lane.
_CUTS_A_BLOCK = 3.0
# Factor on a reorder run in a loop: one between two steps reads from the cache of the writing core.
EDGES = 1.7


def gains_by_channels(kind: str) -> bool:
    """True if a step of this kind is faster with channels last or blocked than row-major."""
    times = _TIMES.get(kind, _LIKE_A_COPY)
    return min(times.values()) < times["plain"]


def order_of_channels(md: MemoryDesc) -> str:
    """Return the order of channels, the second dim: "blocked", "last" if they are adjacent, else "plain".

    Blocks whose innermost axis is the last have rows like those of a plain tensor.
    """
    if md.inner_blks:
        return "plain" if md.inner_idxs[-1] == md.ndims - 1 > 1 else "blocked"
    return "last" if md.ndims > 2 and md.strides[1] == 1 and prod(md.dims[2:]) > 1 else "plain"


NOMINAL_THREADS = 2
"""Formats decide the order of sums: they are chosen for this many threads, however many there are."""


@dataclass(frozen=True)
class CostModel:
    """A machine, and the number of threads that share a step."""

    machine: Machine = field(default_factory=Machine)
    threads: int = 1

    def moving(self, kind: str, inputs: Sequence[MemoryDesc], outputs: Sequence[MemoryDesc]) -> float:
        """Return the seconds of a memory-bound step of this `kind`."""
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
        """Return the seconds of a convolution or deconvolution with this many products."""
        orders = order_of_channels(source), order_of_channels(result)
        operands = (source, weights, result)
        share = self._grouped_share(groups, source, result, orders)
        if share:
            return self._products(terms, share, operands)
        is_pointwise = prod(weights.dims[weights.ndims - source.ndims + 2 :]) == 1
        shares = _POINTWISE if is_pointwise else _SHARES
        shares = _FEW if source.dims[1] // groups < self._lanes else shares
        share = shares[orders[0]] * (_TRANSPOSED if is_transposed else 1.0)
        # Kernels keep result channels in vectors; converting those to rows is an extra step.
        return self._products(terms, share, operands) + self._copying([result] * (orders[1] == "plain"))

    def weights_gradient(
        self, terms: int, groups: int, source: MemoryDesc, weights: MemoryDesc, result: MemoryDesc
    ) -> float:
        """Return the seconds of the gradient of a convolution's weights, which sums over all windows."""
        orders = order_of_channels(source), order_of_channels(result)
        share = self._grouped_share(groups, source, result, orders)
        if not share and source.dims[1] // groups < self._lanes:
            share = min(shares[order] for shares, order in zip(_FEW_WEIGHTS, orders, strict=True))
        share = share or min(_WEIGHTS[order] for order in orders)
        return self._products(terms, share, (source, weights, result))

    def product(
        self, terms: int, left: MemoryDesc, right: MemoryDesc, result: MemoryDesc, is_packed: bool
    ) -> float:
        """Return the seconds of a matrix product; `is_packed` if the right side is already blocked."""
        share = _PRODUCT if left.ndims < 2 or left.strides[-1] <= left.strides[-2] else _BY_COLUMNS
        seconds = self._products(terms, share, (left, right, result))
        return seconds if is_packed else seconds + self._copying([right])

    def strided(self, kind: str, inputs: Sequence[MemoryDesc], outputs: Sequence[MemoryDesc]) -> float:
        """Return the seconds of a step on rows at any strides; other formats are converted to rows first."""
        # Gaps between rows are not read.
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
        """Return the relative speed with groups; 0 if they do not matter."""
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
