"""Of one axis and one operand: how far it goes, by a stride or by a table of offsets."""

from __future__ import annotations

from .nest import Stride


def as_int(stride: Stride) -> int:
    """The stride of an axis that `is_linear`, which has no table."""
    assert isinstance(stride, int)
    return stride


def lowest(stride: Stride, extent: int) -> int:
    """The least offset of `extent` positions, in elements; the first position of a stride is at 0."""
    return min(0, stride * (extent - 1)) if isinstance(stride, int) else min(stride)


def highest(stride: Stride, extent: int) -> int:
    """The largest offset of `extent` positions."""
    return max(0, stride * (extent - 1)) if isinstance(stride, int) else max(stride)


def multiplied(stride: Stride, by: int) -> Stride:
    """A stride of so many times the elements."""
    return stride * by if isinstance(stride, int) else tuple(offset * by for offset in stride)
