"""Steps that are linear in each channel: scales, biases and batch normalizations as a factor and a term."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..nodes.operations import Operation
from ..nodes.products import ConvolutionOperation, MatmulOperation
from .draft import Array

__all__ = ["AffineStep", "channel_axes"]


@dataclass(frozen=True, slots=True, eq=False)
class AffineStep:
    """`y * factor + term`, as doubles."""

    factor: Array
    term: Array

    @classmethod
    def of(cls, factor: Array | float, term: Array | float) -> AffineStep:
        """Return the step of numbers or arrays."""
        return cls(np.asarray(factor, np.float64), np.asarray(term, np.float64))

    @classmethod
    def of_norm(cls, values: Sequence[Array | None], epsilon: float) -> AffineStep | None:
        """Return a batch normalization from scale, shift, mean and variance; None if one is not constant."""
        parameters = [value.astype(np.float64) for value in values if value is not None]
        if len(parameters) < len(values):
            return None
        scale, shift, mean, variance = parameters
        with np.errstate(all="ignore"):
            factor = scale / np.sqrt(variance + epsilon)
            return cls(factor, shift - mean * factor)

    def then(self, other: AffineStep) -> AffineStep:
        """Compose both into one step."""
        return AffineStep(self.factor * other.factor, self.term * other.factor + other.term)

    def reshaped(self, dims: Sequence[int]) -> AffineStep:
        """Return the same numbers with other dims."""
        return AffineStep(self.factor.reshape(dims), self.term.reshape(dims))


def channel_axes(operation: Operation, rank: int) -> tuple[int, ...]:
    """Return the axes of weights of a given rank that correspond to outputs."""
    if isinstance(operation, MatmulOperation):
        return (rank - 1,)
    has_groups = isinstance(operation, ConvolutionOperation) and operation.groups > 1
    return (0, 1) if has_groups else (0,)
