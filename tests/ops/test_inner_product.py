"""Inner product: every direction, with and without spatial dims, and what is refused."""

from __future__ import annotations

import pytest

import restride as rs
from support.errors import refused

CPU = rs.Engine("cpu")


def md(dims, format=None, data_type="f32"):
    return rs.MemoryDesc(dims, data_type, format)


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        (((4, 5), (6, 7), (4, 6)), "dims after the first must be equal"),
        (((4, 5), (6, 5), (4, 7)), "must be (4, 6)"),
        (((4, 5, 2), (6, 5), (4, 6)), "ranks are 3, 2 and 2"),
    ],
    ids=str,
)
def test_dims_that_do_not_fit_are_refused(dims, words):
    with refused(words):
        rs.InnerProductForward.PrimitiveDesc(CPU, "forward_inference", *map(md, dims))


def test_a_bias_or_a_hint_that_does_not_fit_is_refused():
    with refused("the bias is (9,)"):
        rs.InnerProductForward.PrimitiveDesc(CPU, "forward", md((4, 5)), md((6, 5)), md((9,)), md((4, 6)))
    pd = rs.InnerProductForward.PrimitiveDesc(CPU, "forward", md((4, 5)), md((6, 5)), md((4, 6)))
    with refused("hint is for another problem"):
        rs.InnerProductBackwardData.PrimitiveDesc(CPU, md((3, 5)), md((6, 5)), md((3, 6)), pd)
