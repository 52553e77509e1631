"""The queries of a descriptor under the names of oneDNN's methods (`dnnl::memory::desc`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .array_names import ArrayNames

if TYPE_CHECKING:
    from ..dtypes import DataType


class Accessors(ArrayNames):
    """The properties of a `MemoryDesc` as methods."""

    __slots__ = ()

    def get_ndims(self) -> int:
        """`ndims`."""
        return self._described.ndims

    def get_dims(self) -> tuple[int, ...]:
        """`dims`."""
        return self._described.dims

    def get_data_type(self) -> DataType:
        """`data_type`."""
        return self._described.data_type

    def get_format_kind(self) -> str:
        """`format_kind`."""
        return self._described.format_kind

    def get_padded_dims(self) -> tuple[int, ...]:
        """`padded_dims`."""
        return self._described.padded_dims

    def get_padded_offsets(self) -> tuple[int, ...]:
        """`padded_offsets`."""
        return self._described.padded_offsets

    def get_strides(self) -> tuple[int, ...]:
        """`strides`."""
        return self._described.strides

    def get_inner_nblks(self) -> int:
        """Number of inner blocks."""
        return len(self._described.inner_blks)

    def get_inner_blks(self) -> tuple[int, ...]:
        """`inner_blks`."""
        return self._described.inner_blks

    def get_inner_idxs(self) -> tuple[int, ...]:
        """`inner_idxs`."""
        return self._described.inner_idxs

    def get_submemory_offset(self) -> int:
        """`offset0`."""
        return self._described.offset0
