"""NumPy's names for the properties of an array, on descriptors and memory objects."""

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
        """The logical extents: NumPy's name for `dims`."""
        return self._described.dims

    @property
    def ndim(self) -> int:
        """Number of axes: NumPy's name for `ndims`."""
        return self._described.ndims

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy or ml_dtypes equivalent of the data type. AttributeError if there is none."""
        data_type = self._described.data_type
        if data_type.numpy is None:
            raise AttributeError(f"{data_type} has no NumPy equivalent: use data_type of the descriptor")
        return data_type.numpy

    @property
    def itemsize(self) -> int:
        """Bytes of an element as in NumPy: 1 for 4-bit types, which memory objects pack two to a byte."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Size of the storage in bytes, padding included."""
        return self._described.size
