"""How far one axis moves one operand, by a stride or by a table."""

from __future__ import annotations

import pytest

from restride.plan.stride import as_int, highest, lowest


@pytest.mark.parametrize(
    ("stride", "extent", "ends"),
    [
        (3, 4, (0, 9)),
        (-3, 4, (-9, 0)),
        (0, 7, (0, 0)),
        (5, 1, (0, 0)),
        ((0, 4, -2), 3, (-2, 4)),
        ((7,), 1, (7, 7)),
    ],
    ids=["forwards", "backwards", "still", "one position", "a table", "a table of one"],
)
def test_an_axis_reaches_from_its_lowest_to_its_highest_offset(
    stride: int | tuple[int, ...], extent: int, ends: tuple[int, int]
) -> None:
    assert (lowest(stride, extent), highest(stride, extent)) == ends


def test_only_a_stride_is_an_integer() -> None:
    assert as_int(-4) == -4
    with pytest.raises(AssertionError):
        as_int((0, 1))
