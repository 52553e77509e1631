"""The group trap: oneDNN's group size and everyone else's number of groups, for all divisors (1.4)."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.shuffles import backward, forward

CPU = rs.Engine("cpu")
LAYOUTS = ("nchw", "nhwc", "nChw4c", "nChw8c", "nChw16c")
# Few and many divisors, whole blocks of 4, 8 and 16 and cut ones; the slow tests take every number up to 64.
FEW = (1, 2, 3, 4, 6, 8, 12, 15, 16, 17, 36, 64)
each_count = pytest.mark.parametrize(
    "counts",
    [
        pytest.param(FEW, id="few"),
        pytest.param(tuple(n for n in range(1, 65) if n not in FEW), id="others", marks=pytest.mark.slow),
    ],
)


def _openvino(x, group):
    """O04 as it is written."""
    n, c = x.shape[:2]
    return x.reshape(n, group, c // group, -1).transpose(0, 2, 1, 3).reshape(x.shape)


@each_count
@pytest.mark.parametrize("layout", LAYOUTS)
def test_groups_are_the_size_forward_and_the_size_of_the_other_factor_backward(layout, counts):
    """ov(x, g) == fwd(x, C/g) == bwd(x, g), for all g that divide C, C from 1 to 64."""
    for channels in counts:
        x = np.arange(channels * 2, dtype=np.uint8).reshape(1, channels, 2, 1)
        source = rs.Memory(rs.MemoryDesc(x.shape, "u8", layout), CPU)
        rs.reorder(x, None, out=source)
        for group in (g for g in range(1, channels + 1) if channels % g == 0):
            wanted = _openvino(x, group)
            size = channels // group
            found = {
                "shuffle_channels": rs.shuffle_channels(source, group=group),
                "shuffle": rs.shuffle(source, group_size=size),
                "forward": _executed(forward(source.desc, 1, size, CPU), source),
                "backward": _executed(backward(source.desc, 1, group, CPU), source),
            }
            for name, memory in found.items():
                assert (memory.to_numpy() == wanted).all(), (name, channels, group)


def _executed(primitive, source):
    target = rs.Memory(source.desc, CPU)
    primitive.execute(rs.Stream(CPU), source, target)
    return target


@each_count
def test_the_two_counts_agree_only_where_they_are_equal_or_move_nothing(counts):
    for channels in counts:
        x = np.arange(channels, dtype=np.int32).reshape(1, channels)
        for group in (g for g in range(1, channels + 1) if channels % g == 0):
            by_count, by_size = rs.shuffle_channels(x, group=group), rs.shuffle(x, group_size=group)
            is_same = group * group == channels or group in (1, channels)
            assert (by_count == by_size).all() == is_same, (channels, group)
            assert (rs.shuffle_channels(by_size, group=group) == x).all()


def test_the_worked_example():
    x = np.arange(12).reshape(1, 12)
    there = [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]
    inverse = [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]
    assert rs.shuffle_channels(x, group=3).ravel().tolist() == there
    assert rs.channel_shuffle(x, 3).ravel().tolist() == there
    assert rs.shuffle(x, group_size=4).ravel().tolist() == there
    assert rs.shuffle(x, group_size=3).ravel().tolist() == inverse
    assert rs.shuffle_channels(x, group=4).ravel().tolist() == inverse
