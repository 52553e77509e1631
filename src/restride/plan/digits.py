"""The digits of an index along one dimension: how far each moves in one operand (spec 2.1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..desc.memory_desc import MemoryDesc
from .nest import Stride
from .rewrites import linear_table


@dataclass(frozen=True, slots=True)
class Level:
    """One digit of a dimension in one operand: `step` of the index is `stride` of the offset."""

    step: int
    stride: int


Levels = tuple[Level, ...]


def levels(md: MemoryDesc, dim: int) -> Levels:
    """The digits of one dimension, innermost first."""
    found: list[Level] = []
    step, stride = 1, 1
    for block, axis in reversed(tuple(zip(md.inner_blks, md.inner_idxs, strict=True))):
        if axis == dim:
            found.append(Level(step, stride))
            step *= block
        stride *= block
    return (*found, Level(step, md.strides[dim]))


def stride_at(of: Levels, step: int) -> int:
    """How far the offset moves for `step` of the index, while no digit above is reached."""
    level = max((level for level in of if level.step <= step), key=lambda level: level.step)
    return level.stride * (step // level.step)


def offset_at(of: Levels, index: int) -> int:
    """The offset of an index."""
    offset = 0
    for level in reversed(of):
        offset += index // level.step * level.stride
        index %= level.step
    return offset


def offsets(of: Levels, indices: Iterable[int]) -> Stride:
    """The offsets of some indices: a stride where they are evenly spaced from 0, else a table."""
    return linear_table(tuple(offset_at(of, index) for index in indices))
