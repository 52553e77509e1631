"""Graph operations that sum products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from ...desc.arguments import ARG_ATTR_SCALES, ARG_ATTR_ZERO_POINTS, ARG_WEIGHTS
from ...desc.attr import PrimitiveAttr
from ...desc.memory_desc import MemoryDesc
from ...ops.convolution import ConvolutionProblem, DeconvolutionProblem
from ...ops.inner_product import InnerProductProblem
from ...ops.matmul import MatmulProblem
from ..dims import Dims
from .operations import Operation, TensorType, check_groups


@dataclass(frozen=True, slots=True)
class ConvolutionOperation(Operation):
    """Source, weights and optionally a bias with one value per output.

    The numbers are those of `onednn.ConvolutionForward`: a dilation of 0 is dense.
    """

    strides: Dims
    dilates: Dims
    padding_l: Dims
    padding_r: Dims
    groups: int = 1

    _spec = ConvolutionProblem


@dataclass(frozen=True, slots=True)
class WinogradConvolutionOperation(ConvolutionOperation):
    """The same by Winograd's algorithm: strides and tap distances are 1, kernels have 3 or 5 taps."""

    kind: ClassVar[str] = "winograd_convolution"
    algorithm: ClassVar[str] = "winograd"


@dataclass(frozen=True, slots=True)
class DeconvolutionOperation(ConvolutionOperation):
    """The same with a window that slides over the result: `onednn.DeconvolutionForward`."""

    _spec = DeconvolutionProblem


@dataclass(frozen=True, slots=True)
class InnerProductOperation(Operation):
    """Source (N, C, ...), weights (O, C, ...), and optionally a bias (O)."""

    _spec = InnerProductProblem


@dataclass(frozen=True, slots=True)
class MatmulOperation(Operation):
    """(..., M, K) times (..., K, N), and a bias; bias and batch dims are broadcast along dims of 1.

    `fpmath_mode` is for quantized weights: products of floats by floats keep their type in any mode.
    """

    fpmath_mode: str = field(default="strict", kw_only=True)

    _spec = MatmulProblem


@dataclass(frozen=True, slots=True)
class QuantizedMatmulOperation(MatmulOperation):
    """A matmul by quantized weights, read as `(weights - zero) * scale` without storing that.

    After the inputs of a matmul it reads the scales and, with `has_zero_points`, the zero points: each is for
    a group of adjacent weights, whose extents are those of the weights divided by its own.
    """

    has_zero_points: bool = False

    kind: ClassVar[str] = "quantized_matmul"
    inputs: ClassVar[tuple[int, int]] = (3, 5)

    @property
    def factors(self) -> tuple[int, ...]:
        """The arguments of the last inputs."""
        every = ARG_ATTR_SCALES | ARG_WEIGHTS, ARG_ATTR_ZERO_POINTS | ARG_WEIGHTS
        return every[: 1 + self.has_zero_points]

    def set_factors(self, attr: PrimitiveAttr, weights: MemoryDesc, factors: Sequence[MemoryDesc]) -> None:
        """Set the mode, and the scales and zero points of these descriptors, in an attribute."""
        if self.fpmath_mode != "strict":
            attr.set_fpmath_mode(self.fpmath_mode, apply_to_int=True)
        for own, setter in zip(factors, (attr.set_scales, attr.set_zero_points), strict=False):
            masked = [axis for axis, n in enumerate(own.dims) if n > 1]
            groups = tuple(n // m for n, m in zip(weights.dims, own.dims, strict=True))
            if all(groups[axis] == 1 for axis in masked):
                setter(ARG_WEIGHTS, sum(1 << axis for axis in masked), None, (), own.data_type)
            else:
                setter(ARG_WEIGHTS, (1 << weights.ndims) - 1, None, groups, own.data_type)

    def _result_types(self, tensors: Sequence[TensorType]) -> tuple[TensorType, ...]:
        count = len(self.factors)
        check_groups(tensors[1], *tensors[-count:])
        return Operation._result_types(self, tensors[:-count])
