"""Rules for the dims of results, shared by descriptors and nodes of graphs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from ..dtypes import DataType

__all__ = ["Misfit", "Shaped", "broadcast", "broadcast_extent", "check_axis", "check_indices", "from_end"]

Dims = tuple[int, ...]


class Shaped(Protocol):
    """A value with dims and a data type: a descriptor, or a tensor without a format."""

    @property
    def dims(self) -> Dims:
        """The extents."""

    @property
    def data_type(self) -> DataType:
        """The type of an element."""


class Misfit(ValueError):
    """Tensors that do not match an operation: the reason, and optionally a hint."""

    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.why, self.hint = why, hint


def broadcast_extent(extents: Collection[int]) -> int | None:
    """Return the extent along one dim of tensors broadcast where they have 1; None if others differ."""
    sizes = set(extents) - {1}
    return next(iter(sizes), 1) if len(sizes) < 2 else None


def broadcast(*dims: Dims) -> Dims:
    """Return the common dims of tensors of equal rank, whose dims of 1 are broadcast. Raises Misfit."""
    if len(set(map(len, dims))) != 1:
        raise Misfit("the ranks differ", "reshape the smaller one: dims of 1 are broadcast")
    extents = [broadcast_extent(row) for row in zip(*dims, strict=True)]
    joint = tuple(extent for extent in extents if extent is not None)
    if len(joint) < len(extents):
        raise Misfit("dims that differ are not 1")
    return joint


def from_end(axis: int, rank: int) -> int:
    """Return an axis counted from 0, for one that counts from the end if negative. Raises Misfit."""
    if -rank <= axis < rank:
        return axis % rank
    raise Misfit(f"axis {axis} is out of range for {rank} axes")


def check_axis(axis: int, tensor: Shaped) -> None:
    """Raise Misfit for an axis that a tensor does not have."""
    if not 0 <= axis < len(tensor.dims):
        raise Misfit(f"there is no axis {axis}", "axes count from 0")


def check_indices(tensor: Shaped) -> None:
    """Raise Misfit for a tensor that cannot contain indices."""
    if not tensor.data_type.is_integral or tensor.data_type.bits < 8:
        raise Misfit(
            f"{tensor.data_type} is not a type of indices", "indices are integers of at least 8 bits"
        )
