"""What of attributes a kernel depends on."""

import numpy as np
import pytest

import restride as rs
from restride.desc.attr_structure import structure_of


def made(scale=2.0, row=(1.0, 2.0), zero=3, beta=0.5, clip=(0.0, 6.0)):
    attr, ops = rs.PrimitiveAttr(), rs.PostOps()
    attr.set_scales(rs.ARG_SRC, 2, np.float32(row))
    attr.set_scales(rs.ARG_DST, 0, [scale])
    attr.set_zero_points(rs.ARG_DST, 0, [zero])
    ops.append_sum(beta, zero_point=zero)
    ops.append_eltwise("clip", *clip)
    attr.set_post_ops(ops)
    return attr.freeze()


@pytest.mark.parametrize(
    "other",
    [
        {"scale": -0.25},
        {"scale": float("nan")},
        {"row": (0.0, 1.0)},
        {"zero": -7},
        {"beta": 3.0},
        {"clip": (-1.0, 1.0)},
    ],
    ids=str,
)
def test_other_values_are_of_the_same_structure(other):
    assert made(**other) != made()
    assert structure_of(made(**other)) == structure_of(made())


@pytest.mark.parametrize(
    "other", [{"scale": 1.0}, {"row": (1.0, 2.0, 3.0)}, {"zero": 0}, {"beta": 0.0}], ids=str
)
def test_what_is_neutral_and_how_many_there_are_is_structure(other):
    assert structure_of(made(**other)) != structure_of(made())


def test_attributes_without_effect_are_their_own_structure():
    assert structure_of(rs.PrimitiveAttr().freeze()) == rs.PrimitiveAttr().freeze()
