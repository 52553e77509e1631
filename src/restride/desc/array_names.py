"""The names by which NumPy's users know an array, for descriptors and memories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .memory_desc import MemoryDesc


class ArrayNames:
    """`shape`, `ndim`, `dtype`, `itemsize` and `nbytes`, of the descriptor `_described`."""

    __slots__ = ()

    @property
    def _described(self) -> MemoryDesc:
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        """The logical extents: NumPy's name of `dims`."""
        return self._described.dims

    @property
    def ndim(self) -> int:
        """Number of axes: NumPy's name of `ndims`."""
        return self._described.ndims

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy or ml_dtypes twin of the data type. AttributeError for the types that have none."""
        data_type = self._described.data_type
        if data_type.numpy is None:
            raise AttributeError(f"there is no NumPy type of {data_type}: see data_type of the descriptor")
        return data_type.numpy

    @property
    def itemsize(self) -> int:
        """Bytes of an element as NumPy keeps it: 1 for 4-bit types, of which memories keep two in a byte."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of storage, padding included."""
        return self._described.size
