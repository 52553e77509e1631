"""Operations of graphs on windows and axes: poolings, normalizations, reductions, resampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..dims import Dims, by
from .operations import Operation, TensorType, check_axis, unfit


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
    """Source, then scale, shift, mean and variance, one f32 for each channel."""

    epsilon: float

    kind: ClassVar[str] = "batch_normalization"
    inputs: ClassVar[tuple[int, int]] = (5, 5)

    def result(self, *tensors: TensorType) -> TensorType:
        """The type of the source."""
        source, *others = tensors
        if len(source.dims) < 2 or any(other != TensorType(source.dims[1:2]) for other in others):
            raise unfit("each of the others has an f32 for each channel of the source", tensors)
        return source


@dataclass(frozen=True, slots=True)
class LayerNormalizationOperation(Operation):
    """Source, then scale and shift, one f32 for each place of the last dim, over which statistics go."""

    epsilon: float

    kind: ClassVar[str] = "layer_normalization"
    inputs: ClassVar[tuple[int, int]] = (3, 3)

    def result(self, *tensors: TensorType) -> TensorType:
        """The type of the source."""
        source, *others = tensors
        if len(source.dims) < 2 or any(other != TensorType(source.dims[-1:]) for other in others):
            raise unfit("each of the others has an f32 for each place of the last dim", tensors)
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
