"""Lazily computed weights times a factor, or converted: runs only read their packed copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dtypes import DataType
from ...files.mapped_file import release_pages
from ..graph import Constant, FloatArray
from ..nodes.operations import TensorType

__all__ = ["ScaledConstant"]


class ScaledConstant(Constant):
    """Weights times a factor that broadcasts to them, in doubles, rounded once to f32, and then to a type.

    `values` are computed on each access, and not kept: only the weights are stored, which can be part of a
    mapped file.
    """

    __slots__ = ("data_type", "factor", "weights")

    weights: Constant
    factor: FloatArray
    data_type: DataType

    def __init__(self, weights: Constant, factor: FloatArray, data_type: DataType = DataType.f32) -> None:
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "factor", factor)
        object.__setattr__(self, "data_type", data_type)

    @property
    def values(self) -> FloatArray:
        """The products, in new memory; no array of doubles is made."""
        weights = self.weights.values
        products: FloatArray = np.empty(weights.shape, np.float32)
        np.multiply(weights, self.factor, out=products, dtype=np.float64, casting="same_kind")
        products = products.astype(self.data_type.numpy, copy=False)
        # This may be the last access to them.
        release_pages(weights)
        products.flags.writeable = False
        return products

    @property
    def type(self) -> TensorType:
        """The dims of the weights, with the converted type."""
        return TensorType(self.weights.type.dims, self.data_type)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ScaledConstant) and self.data_type is other.data_type:
            # Products are compared by their operands: computing them takes longer.
            return np.array_equal(self.factor, other.factor) and self.weights == other.weights
        return Constant.__eq__(self, other)

    def __hash__(self) -> int:
        return hash(self.type)

    def __reduce__(self) -> tuple[Any, ...]:
        return ScaledConstant, (self.weights, self.factor, self.data_type)
