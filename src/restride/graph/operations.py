"""What a node of a graph computes: frozen values, and the shapes that follow from those of the inputs (G1).

Operations are the primitives, with their parameters and words, and moves: reshape, transpose, slice, pad.
None knows a memory format. Tensors are in logical dims: activations (N, C, ...), weights (O, I, ...) or with
groups (G, O, I, ...).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from ..dtypes import DataType
from ..errors import InvalidArguments
from .dims import Dims, by

_LEAST_DIVISOR = 2.0**-126


@dataclass(frozen=True, slots=True)
class TensorType:
    """What is known of a tensor before it has a format: its dims and its data type."""

    dims: Dims
    data_type: DataType = DataType.f32

    @property
    def desc_dims(self) -> Dims:
        """The dims of its descriptors, which have one at least: a scalar is of one element there."""
        return self.dims or (1,)

    @property
    def elements(self) -> int:
        """How many elements there are."""
        return prod(self.dims)

    @property
    def nbytes(self) -> int:
        """How many bytes the elements take without padding."""
        return self.data_type.nbytes(self.elements)

    def __str__(self) -> str:
        return f"{self.data_type} {by(self.dims)}"


@dataclass(frozen=True, slots=True)
class Operation:
    """What all operations share.

    `kind` is the word of the operation. `inputs` is how many tensors it reads at least and at most.
    """

    kind: ClassVar[str] = ""
    inputs: ClassVar[tuple[int, int]] = (1, 1)

    @property
    def count_of_results(self) -> int:
        """How many tensors it makes."""
        return 1

    def result(self, *tensors: TensorType) -> TensorType:
        """The first tensor that it makes of these. Raises InvalidArguments where they do not fit."""
        raise NotImplementedError

    def results(self, tensors: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """All that it makes, after the number of inputs has been checked: one tensor, for most."""
        least, most = self.inputs
        if not least <= len(tensors) <= most:
            wanted = f"{least}" if least == most else f"{least} to {most}"
            raise unfit(f"{self.kind} reads {wanted} tensors, not {len(tensors)}", tensors)
        return (self.result(*tensors),)


def unfit(why: str, tensors: Sequence[TensorType], hint: str = "") -> InvalidArguments:
    """The error of tensors that an operation cannot take."""
    where = ", ".join(map(str, tensors))
    hint = hint or "the dims of inputs and attributes must agree"
    return InvalidArguments(
        "tensors do not fit the operation", code="RS-G01", where=where, why=why, hint=hint
    )


# --- sums of products ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConvolutionOperation(Operation):
    """Source, weights and, where there is one, a bias of as many values as there are outputs.

    The numbers are those of `rs.ConvolutionForward`: a dilation of 0 is dense.
    """

    strides: Dims
    dilates: Dims
    padding_l: Dims
    padding_r: Dims
    groups: int = 1

    kind: ClassVar[str] = "convolution"
    inputs: ClassVar[tuple[int, int]] = (2, 3)

    def result(self, *tensors: TensorType) -> TensorType:
        """(N, O, ...): one spatial extent for each place of the window."""
        source, weights = tensors[:2]
        outputs = self._checked_outputs(tensors)
        kernel = weights.dims[-len(self.strides) :]
        spatial = tuple(map(self._extent, range(len(kernel)), source.dims[2:], kernel))
        if min(spatial, default=0) < 0:
            raise unfit("the window is larger than the padded source", tensors)
        return TensorType((source.dims[0], outputs, *spatial), source.data_type)

    def _extent(self, dim: int, n: int, kernel: int) -> int:
        window = (kernel - 1) * (self.dilates[dim] + 1) + 1
        padded = n + self.padding_l[dim] + self.padding_r[dim]
        return -1 if padded < window else (padded - window) // self.strides[dim] + 1

    def _checked_outputs(self, tensors: Sequence[TensorType]) -> int:
        source, weights = tensors[:2]
        rank = len(self.strides)
        if len(source.dims) != rank + 2 or len(weights.dims) != rank + 2 + (self.groups > 1):
            raise unfit(f"there are {rank} spatial dims and {self.groups} groups", tensors)
        if not len(self.dilates) == len(self.padding_l) == len(self.padding_r) == rank:
            raise unfit("strides, dilates and paddings are for different numbers of dims", tensors)
        if min(self.strides) < 1 or min(self.dilates) < 0:
            raise unfit("a stride is at least 1, a dilation at least 0", tensors)
        outputs, channels = weights.dims[-rank - 2 : -rank]
        if channels * self.groups != source.dims[1]:
            raise unfit(f"weights read {channels * self.groups} channels of {source.dims[1]}", tensors)
        if tensors[2:] and tensors[2].dims != (outputs * self.groups,):
            raise unfit(f"a bias has {outputs * self.groups} values", tensors)
        return outputs * self.groups


@dataclass(frozen=True, slots=True)
class DeconvolutionOperation(ConvolutionOperation):
    """The same for a window that slides over the result: `rs.DeconvolutionForward`."""

    kind: ClassVar[str] = "deconvolution"

    def _extent(self, dim: int, n: int, kernel: int) -> int:
        window = (kernel - 1) * (self.dilates[dim] + 1) + 1
        return (n - 1) * self.strides[dim] + window - self.padding_l[dim] - self.padding_r[dim]


@dataclass(frozen=True, slots=True)
class InnerProductOperation(Operation):
    """Source (N, C, ...), weights (O, C, ...), and a bias (O) where there is one."""

    kind: ClassVar[str] = "inner_product"
    inputs: ClassVar[tuple[int, int]] = (2, 3)

    def result(self, *tensors: TensorType) -> TensorType:
        """(N, O)."""
        source, weights = tensors[:2]
        if not 2 <= len(source.dims) == len(weights.dims) or source.dims[1:] != weights.dims[1:]:
            raise unfit("all dims of the weights but the first are those of the source", tensors)
        if tensors[2:] and tensors[2].dims != weights.dims[:1]:
            raise unfit(f"a bias has {weights.dims[0]} values", tensors)
        return TensorType((source.dims[0], weights.dims[0]), source.data_type)


@dataclass(frozen=True, slots=True)
class MatmulOperation(Operation):
    """(..., M, K) times (..., K, N), and a bias that is repeated along its dims of 1; batch dims are too."""

    kind: ClassVar[str] = "matmul"
    inputs: ClassVar[tuple[int, int]] = (2, 3)

    def result(self, *tensors: TensorType) -> TensorType:
        """(..., M, N)."""
        left, right = tensors[:2]
        if not 2 <= len(left.dims) == len(right.dims) or left.dims[-1] != right.dims[-2]:
            raise unfit("ranks are equal, and rows of the right one as many as columns of the left", tensors)
        batch = broadcast((left.dims[:-2], right.dims[:-2]), tensors)
        dims = (*batch, left.dims[-2], right.dims[-1])
        if tensors[2:] and broadcast((dims, tensors[2].dims), tensors) != dims:
            raise unfit("the bias is larger than the result", tensors)
        return TensorType(dims, left.data_type)


# --- windows and normalizations -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PoolingOperation(Operation):
    """`rs.PoolingForward`: `algorithm` is "pooling_max" or one of the averages; a dilation of 0 is dense."""

    algorithm: str
    kernel: Dims
    strides: Dims
    dilates: Dims
    padding_l: Dims
    padding_r: Dims

    kind: ClassVar[str] = "pooling"

    def result(self, *tensors: TensorType) -> TensorType:
        """(N, C, ...): one spatial extent for each place of the window."""
        (source,) = tensors
        ranks = {
            len(self.kernel),
            len(self.strides),
            len(self.dilates),
            len(self.padding_l),
            len(self.padding_r),
        }
        if ranks != {len(source.dims) - 2} or len(source.dims) < 3:
            raise unfit(f"the window has {len(self.kernel)} spatial dims", tensors)
        if min((*self.kernel, *self.strides)) < 1 or min(self.dilates) < 0:
            raise unfit("a kernel and a stride are at least 1, a dilation at least 0", tensors)
        spatial = tuple(map(self._extent, range(len(self.kernel)), source.dims[2:]))
        if min(spatial) < 0:
            raise unfit("the window is larger than the padded source", tensors)
        return TensorType((*source.dims[:2], *spatial), source.data_type)

    def _extent(self, dim: int, n: int) -> int:
        window = (self.kernel[dim] - 1) * (self.dilates[dim] + 1) + 1
        padded = n + self.padding_l[dim] + self.padding_r[dim]
        return -1 if padded < window else (padded - window) // self.strides[dim] + 1


@dataclass(frozen=True, slots=True)
class BatchNormalizationOperation(Operation):
    """Source, then scale, shift, mean and variance, one value for each channel."""

    epsilon: float

    kind: ClassVar[str] = "batch_normalization"
    inputs: ClassVar[tuple[int, int]] = (5, 5)

    def result(self, *tensors: TensorType) -> TensorType:
        """The type of the source."""
        source, *others = tensors
        if len(source.dims) < 2 or any(other.dims != source.dims[1:2] for other in others):
            raise unfit("each of the others has a value for each channel of the source", tensors)
        return source


@dataclass(frozen=True, slots=True)
class LayerNormalizationOperation(Operation):
    """Source, then scale and shift, one value for each place of the last dim, over which statistics go."""

    epsilon: float

    kind: ClassVar[str] = "layer_normalization"
    inputs: ClassVar[tuple[int, int]] = (3, 3)

    def result(self, *tensors: TensorType) -> TensorType:
        """The type of the source."""
        source, *others = tensors
        if len(source.dims) < 2 or any(other.dims != source.dims[-1:] for other in others):
            raise unfit("each of the others has a value for each place of the last dim", tensors)
        return source


@dataclass(frozen=True, slots=True)
class LrnOperation(Operation):
    """`rs.LRNForward`: `algorithm` is "lrn_across_channels" or "lrn_within_channel"."""

    algorithm: str
    local_size: int
    alpha: float
    beta: float
    k: float

    kind: ClassVar[str] = "lrn"

    def result(self, *tensors: TensorType) -> TensorType:
        """The type of the source."""
        if len(tensors[0].dims) < 3:
            raise unfit("the source has channels and spatial dims", tensors)
        return tensors[0]


@dataclass(frozen=True, slots=True)
class SoftmaxOperation(Operation):
    """`rs.SoftmaxForward`: `algorithm` is "softmax_accurate" or "softmax_log"; the axis counts from 0."""

    algorithm: str
    axis: int

    kind: ClassVar[str] = "softmax"

    def result(self, *tensors: TensorType) -> TensorType:
        """The type of the source."""
        check_axis(self.axis, tensors)
        return tensors[0]


@dataclass(frozen=True, slots=True)
class ReductionOperation(Operation):
    """`rs.Reduction` over `axes`, which become 1: `algorithm` is "reduction_mean" or its like."""

    algorithm: str
    axes: Dims
    p: float = 0.0
    epsilon: float = 0.0

    kind: ClassVar[str] = "reduction"

    def result(self, *tensors: TensorType) -> TensorType:
        """The dims of the source, 1 where they are reduced."""
        (source,) = tensors
        for axis in self.axes:
            check_axis(axis, tensors)
        dims = tuple(1 if i in self.axes else n for i, n in enumerate(source.dims))
        return TensorType(dims, source.data_type)


@dataclass(frozen=True, slots=True)
class ResamplingOperation(Operation):
    """`rs.ResamplingForward` to spatial extents `sizes`: "resampling_nearest" or "resampling_linear"."""

    algorithm: str
    sizes: Dims

    kind: ClassVar[str] = "resampling"

    def result(self, *tensors: TensorType) -> TensorType:
        """N and C of the source, and `sizes`."""
        (source,) = tensors
        if len(source.dims) != len(self.sizes) + 2 or not self.sizes or min(self.sizes) < 1:
            raise unfit(f"the result has spatial dims {by(self.sizes)}", tensors)
        return TensorType((*source.dims[:2], *self.sizes), source.data_type)


# --- elements -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EltwiseOperation(Operation):
    """`rs.EltwiseForward`: `algorithm` is "eltwise_relu" or its like."""

    algorithm: str
    alpha: float = 0.0
    beta: float = 0.0

    kind: ClassVar[str] = "eltwise"

    def result(self, *tensors: TensorType) -> TensorType:
        """The type of the source."""
        return tensors[0]


@dataclass(frozen=True, slots=True)
class BinaryOperation(Operation):
    """`rs.Binary` of two tensors of equal rank, repeated along dims of 1; "binary_select" has a condition.

    The condition of a select comes last, as `rs.Binary` has it.
    """

    algorithm: str

    kind: ClassVar[str] = "binary"
    inputs: ClassVar[tuple[int, int]] = (2, 3)

    def result(self, *tensors: TensorType) -> TensorType:
        """The dims of both, the larger where one is 1."""
        if len(tensors) != 2 + (self.algorithm == "binary_select"):
            raise unfit(f"{self.algorithm} reads another number of tensors", tensors)
        return TensorType(broadcast([each.dims for each in tensors], tensors), tensors[0].data_type)


@dataclass(frozen=True, slots=True)
class PReluOperation(Operation):
    """`rs.PReLUForward`: a source and slopes of its rank, repeated along their dims of 1."""

    kind: ClassVar[str] = "prelu"
    inputs: ClassVar[tuple[int, int]] = (2, 2)

    def result(self, *tensors: TensorType) -> TensorType:
        """The type of the source."""
        if broadcast([each.dims for each in tensors], tensors) != tensors[0].dims:
            raise unfit("the slopes are larger than the source", tensors)
        return tensors[0]


@dataclass(frozen=True, slots=True)
class SumOperation(Operation):
    """`rs.Sum`: any number of tensors of equal dims, each times its scale."""

    scales: tuple[float, ...]

    kind: ClassVar[str] = "sum"
    inputs: ClassVar[tuple[int, int]] = (1, 1024)

    def result(self, *tensors: TensorType) -> TensorType:
        """The type of the first."""
        if len(self.scales) != len(tensors) or len({each.dims for each in tensors}) > 1:
            raise unfit("all have equal dims, and a scale each", tensors)
        return tensors[0]


# --- moves --------------------------------------------------------------------------------------------------


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


# --- integers that stand for numbers ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QuantizeOperation(Operation):
    """`saturate(round(x / scale) + zero)` of x, scale and zero point, which are repeated along dims of x."""

    data_type: DataType

    kind: ClassVar[str] = "quantize"
    inputs: ClassVar[tuple[int, int]] = (3, 3)

    def result(self, *tensors: TensorType) -> TensorType:
        """The dims of the source, in the type."""
        return TensorType(_scaled_dims(tensors), self.data_type)


@dataclass(frozen=True, slots=True)
class DequantizeOperation(Operation):
    """`(q - zero) * scale` of q, scale and zero point, which are repeated along dims of q."""

    kind: ClassVar[str] = "dequantize"
    inputs: ClassVar[tuple[int, int]] = (3, 3)

    def result(self, *tensors: TensorType) -> TensorType:
        """The dims of the source, as f32."""
        return TensorType(_scaled_dims(tensors), DataType.f32)


def _scaled_dims(tensors: Sequence[TensorType]) -> Dims:
    if broadcast([each.dims for each in tensors], tensors) != tensors[0].dims:
        raise unfit("scales and zero points are larger than the source", tensors)
    return tensors[0].dims


# --- dims ---------------------------------------------------------------------------------------------------


def check_axis(axis: int, tensors: Sequence[TensorType]) -> None:
    """Raise InvalidArguments for an axis that the first tensor has not."""
    if not 0 <= axis < len(tensors[0].dims):
        raise unfit(f"there is no axis {axis}", tensors, "axes count from 0")


def broadcast(dims: Sequence[Dims], tensors: Sequence[TensorType]) -> Dims:
    """The common dims of tensors of equal rank, whose dims of 1 are repeated."""
    if len({len(each) for each in dims}) != 1:
        raise unfit("the ranks differ", tensors, "reshape the smaller one: dims of 1 are repeated")
    sizes = [set(each) - {1} for each in zip(*dims, strict=True)]
    if any(len(each) > 1 for each in sizes):
        raise unfit("dims that differ are not 1", tensors)
    return tuple(next(iter(each), 1) for each in sizes)


def reciprocal_of(value: float) -> float | None:
    """The factor that divides by a number; None for one so close to 0 that the factor is no f32."""
    return 1.0 / value if abs(value) >= _LEAST_DIVISOR else None
