"""Graph operations on windows and axes: poolings, normalizations, reductions, resampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...ops.batch_normalization import BatchNormalizationProblem
from ...ops.layer_normalization import LayerNormalizationProblem
from ...ops.lrn import LrnProblem
from ...ops.pooling import PoolingProblem
from ...ops.reduction import ReductionProblem
from ...ops.resampling import ResamplingProblem
from ...ops.softmax import SoftmaxProblem
from ..dims import Dims
from .operations import Operation


@dataclass(frozen=True, slots=True)
class PoolingOperation(Operation):
    """`onednn.PoolingForward`: `algorithm` is "pooling_max" or an average; a dilation of 0 is dense."""

    algorithm: str
    kernel: Dims
    strides: Dims
    dilates: Dims
    padding_l: Dims
    padding_r: Dims

    _spec = PoolingProblem


@dataclass(frozen=True, slots=True)
class BatchNormalizationOperation(Operation):
    """Source, then scale, shift, mean and variance, with one f32 per channel."""

    epsilon: float

    inputs: ClassVar[tuple[int, int]] = (5, 5)
    _spec = BatchNormalizationProblem


@dataclass(frozen=True, slots=True)
class LayerNormalizationOperation(Operation):
    """Source, then scale and shift, with one f32 per index of the last dim, which is normalized."""

    epsilon: float

    _spec = LayerNormalizationProblem


@dataclass(frozen=True, slots=True)
class LrnOperation(Operation):
    """`onednn.LRNForward`: `algorithm` is "lrn_across_channels" or "lrn_within_channel"."""

    algorithm: str
    local_size: int
    alpha: float
    beta: float
    k: float

    _spec = LrnProblem


@dataclass(frozen=True, slots=True)
class SoftmaxOperation(Operation):
    """`onednn.SoftmaxForward`: `algorithm` is "softmax_accurate" or "softmax_log"; the axis counts from 0."""

    algorithm: str
    axis: int

    _spec = SoftmaxProblem


@dataclass(frozen=True, slots=True)
class ReductionOperation(Operation):
    """`onednn.Reduction` over `axes`, which become 1: `algorithm` is "reduction_mean" or similar."""

    algorithm: str
    axes: Dims
    p: float = 0.0
    epsilon: float = 0.0

    _spec = ReductionProblem


@dataclass(frozen=True, slots=True)
class ResamplingOperation(Operation):
    """`onednn.ResamplingForward` to spatial extents `sizes`: "resampling_nearest" or "resampling_linear"."""

    algorithm: str
    sizes: Dims

    _spec = ResamplingProblem
