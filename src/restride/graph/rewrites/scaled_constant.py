"""Weights times a factor, multiplied only when somebody wants them: runs read what was packed of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...files.mapped_file import release_pages
from ..graph import Constant, FloatArray
from ..nodes.operations import TensorType

__all__ = ["ScaledConstant"]


class ScaledConstant(Constant):
    """Weights times a factor that broadcasts to them, in doubles, rounded once to f32.

    `values` are made whenever they are asked for, and live as long as their reader: nothing is held beside
    the weights, which may be a part of a mapped file.
    """

    __slots__ = ("factor", "weights")

    weights: Constant
    factor: FloatArray

    def __init__(self, weights: Constant, factor: FloatArray) -> None:
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "factor", factor)

    @property
    def values(self) -> FloatArray:
        """The products, in new memory; no array of doubles is made."""
        weights = self.weights.values
        products = np.empty(weights.shape, np.float32)
        np.multiply(weights, self.factor, out=products, dtype=np.float64, casting="same_kind")
        # That may be the last that anybody reads of them.
        release_pages(weights)
        products.flags.writeable = False
        return products

    @property
    def type(self) -> TensorType:
        """The dims of the weights, as f32."""
        return TensorType(self.weights.type.dims)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ScaledConstant):
            # Products are compared by what they are made of: to make them takes longer.
            return np.array_equal(self.factor, other.factor) and self.weights == other.weights
        return Constant.__eq__(self, other)

    def __hash__(self) -> int:
        return hash(self.type)

    def __reduce__(self) -> tuple[Any, ...]:
        return ScaledConstant, (self.weights, self.factor)
