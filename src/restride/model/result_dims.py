"""The dims of what operations make of tensors: rules that descriptors and nodes of graphs share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from ..dtypes import DataType

__all__ = ["Misfit", "Shaped", "broadcast", "broadcast_extent", "check_axis", "check_indices", "from_end"]

Dims = tuple[int, ...]


class Shaped(Protocol):
    """A value with dims and a data type: a descriptor, or a tensor that has no format yet."""

    @property
    def dims(self) -> Dims:
        """The extents."""

    @property
    def data_type(self) -> DataType:
        """The type of an element."""


class Misfit(ValueError):
    """Tensors that an operation cannot take: why, and perhaps what to do."""

    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.why, self.hint = why, hint


def broadcast_extent(extents: Collection[int]) -> int | None:
    """The extent along one dim of tensors that are repeated where they have 1; None where others differ."""
    sizes = set(extents) - {1}
    return next(iter(sizes), 1) if len(sizes) < 2 else None


def broadcast(*dims: Dims) -> Dims:
    """The common dims of tensors of equal rank, whose dims of 1 are repeated. Raises Misfit."""
    if len(set(map(len, dims))) != 1:
        raise Misfit("the ranks differ", "reshape the smaller one: dims of 1 are repeated")
    extents = [broadcast_extent(row) for row in zip(*dims, strict=True)]
    joint = tuple(extent for extent in extents if extent is not None)
    if len(joint) < len(extents):
        raise Misfit("dims that differ are not 1")
    return joint


def from_end(axis: int, rank: int) -> int:
    """An axis from 0 on, of one that counts from the end where it is negative. Raises Misfit."""
    if -rank <= axis < rank:
        return axis % rank
    raise Misfit(f"there is no axis {axis} of {rank}")


def check_axis(axis: int, tensor: Shaped) -> None:
    """Raise Misfit for an axis that a tensor has not."""
    if not 0 <= axis < len(tensor.dims):
        raise Misfit(f"there is no axis {axis}", "axes count from 0")


def check_indices(tensor: Shaped) -> None:
    """Raise Misfit for a tensor whose elements cannot say where others are."""
    if not tensor.data_type.is_integral or tensor.data_type.bits < 8:
        raise Misfit(f"{tensor.data_type} is no type of indices", "indices are integers of 8 bits and more")
