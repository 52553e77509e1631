"""Graph operations that only move elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from ...dtypes import DataType
from ...model.result_dims import Misfit
from ...ops.concat import ConcatProblem
from ...ops.shuffle import ShuffleProblem
from ..dims import Dims, by
from .operations import Operation, TensorType


@dataclass(frozen=True, slots=True)
class ConcatOperation(Operation):
    """`onednn.Concat` of any number of tensors along `axis`."""

    axis: int

    _spec = ConcatProblem


@dataclass(frozen=True, slots=True)
class ShuffleOperation(Operation):
    """`rs.shuffle_channels`: the dim `axis` as (groups, rest), transposed."""

    axis: int
    groups: int

    _spec = ShuffleProblem


@dataclass(frozen=True, slots=True)
class ReshapeOperation(Operation):
    """The same elements in row-major order, with other dims."""

    dims: Dims

    kind: ClassVar[str] = "reshape"

    def _dims(self, tensors: Sequence[TensorType]) -> tuple[Dims, ...]:
        if min(self.dims, default=0) < 0 or prod(self.dims) != tensors[0].elements:
            raise Misfit(f"{by(self.dims)} has a different number of elements")
        return (self.dims,)


@dataclass(frozen=True, slots=True)
class TransposeOperation(Operation):
    """Dim i of the result is dim `order[i]` of the source."""

    order: Dims

    kind: ClassVar[str] = "transpose"

    def _dims(self, tensors: Sequence[TensorType]) -> tuple[Dims, ...]:
        source = tensors[0].dims
        if sorted(self.order) != list(range(len(source))):
            raise Misfit(f"{self.order} is not a permutation of the dims")
        return (tuple(source[i] for i in self.order),)


@dataclass(frozen=True, slots=True)
class SliceOperation(Operation):
    """`sizes` elements of each dim from `starts` on, every `steps`-th; negative steps go backwards."""

    starts: Dims
    sizes: Dims
    steps: Dims

    kind: ClassVar[str] = "slice"

    def _dims(self, tensors: Sequence[TensorType]) -> tuple[Dims, ...]:
        source = tensors[0].dims
        if not len(self.starts) == len(self.sizes) == len(self.steps) == len(source):
            raise Misfit("starts, sizes and steps do not match the number of dims")
        for n, start, size, step in zip(source, self.starts, self.sizes, self.steps, strict=True):
            ends = start, start + (size - 1) * step
            if size < 0 or step == 0 or start < 0 or (size and not 0 <= min(ends) <= max(ends) < n):
                raise Misfit(f"{size} elements from {start} in steps of {step} are out of range for {n}")
        return (self.sizes,)


@dataclass(frozen=True, slots=True)
class PadOperation(Operation):
    """`low` elements of `value` before each dim, `high` after it."""

    low: Dims
    high: Dims
    value: float = 0.0

    kind: ClassVar[str] = "pad"

    def _dims(self, tensors: Sequence[TensorType]) -> tuple[Dims, ...]:
        source = tensors[0].dims
        if not len(self.low) == len(self.high) == len(source) or min((*self.low, *self.high)) < 0:
            raise Misfit("pads do not match the number of dims, or are negative")
        return (tuple(a + n + b for a, n, b in zip(self.low, source, self.high, strict=True)),)


@dataclass(frozen=True, slots=True)
class ReorderOperation(Operation):
    """`onednn.Reorder`: the same values in another type, or in another format that the plan chooses."""

    data_type: DataType

    kind: ClassVar[str] = "reorder"

    def _result_types(self, tensors: Sequence[TensorType]) -> tuple[TensorType, ...]:
        return (TensorType(tensors[0].dims, self.data_type),)
