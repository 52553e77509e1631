"""Operations of graphs that sum products: what they are, and the dims that they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..dims import Dims
from .operations import Operation, TensorType, broadcast, unfit


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
