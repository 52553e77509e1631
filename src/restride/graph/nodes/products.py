"""Operations of graphs that sum products."""

from __future__ import annotations

from dataclasses import dataclass

from ...ops.convolution import ConvolutionProblem, DeconvolutionProblem
from ...ops.inner_product import InnerProductProblem
from ...ops.matmul import MatmulProblem
from ..dims import Dims
from .operations import Operation


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

    _spec = ConvolutionProblem


@dataclass(frozen=True, slots=True)
class DeconvolutionOperation(ConvolutionOperation):
    """The same for a window that slides over the result: `rs.DeconvolutionForward`."""

    _spec = DeconvolutionProblem


@dataclass(frozen=True, slots=True)
class InnerProductOperation(Operation):
    """Source (N, C, ...), weights (O, C, ...), and a bias (O) where there is one."""

    _spec = InnerProductProblem


@dataclass(frozen=True, slots=True)
class MatmulOperation(Operation):
    """(..., M, K) times (..., K, N), and a bias that is repeated along its dims of 1; batch dims are too."""

    _spec = MatmulProblem
