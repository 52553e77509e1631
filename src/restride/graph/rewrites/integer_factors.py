"""Integer weights: the factor of an integer product, and the scales applied to its sums."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ..nodes.operations import Operation
from ..nodes.products import ConvolutionOperation, MatmulOperation
from .affine import AffineStep, channel_axes
from .draft import Array
from .integer_chains import IntegerType
from .quantized_weights import KnownIntegers

__all__ = ["ProductFactors", "product_factors"]


@dataclass(frozen=True, slots=True, eq=False)
class ProductFactors:
    """Weights as s8 without zero points, and a scale for each channel of the result of `operation`."""

    operation: Operation
    values: Array
    scale: Array

    def scales_of(self, source: IntegerType, bias: Array) -> AffineStep:
        """Return the step from sums to real values: both scales, the zero point of the source, and a bias."""
        scale, term = self.scale * source.scale, bias.reshape(-1)
        if source.zero:
            summed = self.values.astype(np.float64).sum(_summed_axes(self.operation, self.values.ndim))
            term = term - source.zero * scale * summed.reshape(-1)
        # In the rank of the result.
        behind = self.operation.strides if isinstance(self.operation, ConvolutionOperation) else ()
        before = self.values.ndim - 1 if isinstance(self.operation, MatmulOperation) else 1
        shape = (*(1,) * before, -1, *(1,) * len(behind))
        step = AffineStep.of(scale, np.broadcast_to(term, scale.shape))
        return step.reshaped(shape)


def product_factors(weights: KnownIntegers, operation: Operation) -> ProductFactors | None:
    """Return weights in the form for an integer product; None if they are not bytes, or have other scales."""
    values = weights.values
    if values.dtype.itemsize != 1 or not weights.stored.type.data_type.is_integral:
        return None
    integers = values.astype(np.int32) - weights.zero.astype(np.int32)
    if integers.size and (integers.min() < -128 or integers.max() > 127):
        return None
    if isinstance(operation, MatmulOperation) and prod(integers.shape[:-2]) != 1:
        return None
    summed = _summed_axes(operation, integers.ndim)
    scale = np.broadcast_to(np.asarray(weights.scale, np.float64), integers.shape)
    first = scale[tuple(slice(0, 1) if axis in summed else slice(None) for axis in range(scale.ndim))]
    if not np.array_equal(np.broadcast_to(first, scale.shape), scale):
        return None
    return ProductFactors(operation, integers.astype(np.int8), first.reshape(-1))


def _summed_axes(operation: Operation, rank: int) -> tuple[int, ...]:
    """Return the axes of weights along which products are summed."""
    channels = channel_axes(operation, rank)
    return tuple(axis for axis in range(rank) if axis not in channels)
