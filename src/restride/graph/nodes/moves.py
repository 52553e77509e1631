"""Operations of graphs that move elements, and compute nothing."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from ...dtypes import DataType
from ..dims import Dims, by
from .operations import Operation, TensorType, check_axis, unfit


@dataclass(frozen=True, slots=True)
class ConcatOperation(Operation):
    """`rs.Concat` of any number of tensors along `axis`."""

    axis: int

    kind: ClassVar[str] = "concat"
    inputs: ClassVar[tuple[int, int]] = (1, 1024)

    def result(self, *tensors: TensorType) -> TensorType:
        """The dims of the first; along the axis the sum of all."""
        check_axis(self.axis, tensors)
        axis = self.axis
        others = {(*each.dims[:axis], *each.dims[axis + 1 :], each.data_type) for each in tensors}
        if len(others) > 1 or len({len(each.dims) for each in tensors}) > 1:
            raise unfit(f"all but the dims of axis {axis}, and the types, are equal", tensors)
        dims = list(tensors[0].dims)
        dims[axis] = sum(each.dims[axis] for each in tensors)
        return TensorType(tuple(dims), tensors[0].data_type)


@dataclass(frozen=True, slots=True)
class ShuffleOperation(Operation):
    """`rs.shuffle_channels`: the dim `axis` as (groups, rest), transposed."""

    axis: int
    groups: int

    kind: ClassVar[str] = "shuffle"

    def result(self, *tensors: TensorType) -> TensorType:
        """The type of the source."""
        check_axis(self.axis, tensors)
        if self.groups < 1 or tensors[0].dims[self.axis] % self.groups:
            raise unfit(f"{self.groups} groups do not divide {tensors[0].dims[self.axis]} channels", tensors)
        return tensors[0]


@dataclass(frozen=True, slots=True)
class ReshapeOperation(Operation):
    """The same elements in row-major order, in other dims."""

    dims: Dims

    kind: ClassVar[str] = "reshape"

    def result(self, *tensors: TensorType) -> TensorType:
        """The new dims."""
        if min(self.dims, default=0) < 0 or prod(self.dims) != tensors[0].elements:
            raise unfit(f"{by(self.dims)} has another number of elements", tensors)
        return TensorType(self.dims, tensors[0].data_type)


@dataclass(frozen=True, slots=True)
class TransposeOperation(Operation):
    """Dim i of the result is dim `order[i]` of the source."""

    order: Dims

    kind: ClassVar[str] = "transpose"

    def result(self, *tensors: TensorType) -> TensorType:
        """The dims in another order."""
        (source,) = tensors
        if sorted(self.order) != list(range(len(source.dims))):
            raise unfit(f"{self.order} is no order of the dims", tensors)
        return TensorType(tuple(source.dims[i] for i in self.order), source.data_type)


@dataclass(frozen=True, slots=True)
class SliceOperation(Operation):
    """`sizes` elements from `starts` on, every `steps`-th, of each dim; backwards of negative steps."""

    starts: Dims
    sizes: Dims
    steps: Dims

    kind: ClassVar[str] = "slice"

    def result(self, *tensors: TensorType) -> TensorType:
        """The dims `sizes`."""
        (source,) = tensors
        if not len(self.starts) == len(self.sizes) == len(self.steps) == len(source.dims):
            raise unfit("starts, sizes and steps are for other dims", tensors)
        for n, start, size, step in zip(source.dims, self.starts, self.sizes, self.steps, strict=True):
            ends = start, start + (size - 1) * step
            if size < 0 or step == 0 or start < 0 or (size and not 0 <= min(ends) <= max(ends) < n):
                raise unfit(f"{size} elements from {start} by {step} do not lie in {n}", tensors)
        return TensorType(self.sizes, source.data_type)


@dataclass(frozen=True, slots=True)
class PadOperation(Operation):
    """`low` elements of `value` in front of each dim, `high` behind."""

    low: Dims
    high: Dims
    value: float = 0.0

    kind: ClassVar[str] = "pad"

    def result(self, *tensors: TensorType) -> TensorType:
        """The larger dims."""
        (source,) = tensors
        if not len(self.low) == len(self.high) == len(source.dims) or min((*self.low, *self.high)) < 0:
            raise unfit("pads are for other dims, or negative", tensors)
        dims = tuple(a + n + b for a, n, b in zip(self.low, source.dims, self.high, strict=True))
        return TensorType(dims, source.data_type)


@dataclass(frozen=True, slots=True)
class ReorderOperation(Operation):
    """`rs.Reorder`: the same values in another type, or in another format that the plan names."""

    data_type: DataType

    kind: ClassVar[str] = "reorder"

    def result(self, *tensors: TensorType) -> TensorType:
        """The same dims in the type."""
        return TensorType(tensors[0].dims, self.data_type)
