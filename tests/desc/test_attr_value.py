"""The parts of attributes that a kernel depends on."""

from __future__ import annotations

import math
import pickle
import struct

import numpy as np
import pytest

import restride as rs
from restride.desc.attr_value import Factor, common_scale, common_zero_point, is_neutral, structure_of
from restride.dtypes import DataType

# --- attr structure ----------------------------------------------------------


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


# --- factor ------------------------------------------------------------------
# Factors: how many values a mask stands for, and what they are.

F32, S32, BF16 = DataType.f32, DataType.s32, DataType.bf16

# mask, groups, dims, extents of the values
EXTENTS = {
    "common": (0, (), (2, 17, 5), (1, 1, 1)),
    "one dim": (2, (), (2, 17, 5), (1, 17, 1)),
    "not contiguous": (5, (), (2, 17, 5), (2, 1, 5)),
    "all": (7, (), (2, 17, 5), (2, 17, 5)),
    "an empty dim": (3, (), (0, 17), (0, 17)),
    "an empty dim that is not masked": (2, (), (0, 17), (1, 17)),
    "groups of rows": (3, (8, 1), (64, 48), (8, 48)),
    "groups of columns": (3, (1, 16), (64, 48), (64, 3)),
    "blocks": (7, (8, 16), (3, 64, 48), (3, 8, 3)),
    "blocks alike in all of dim 0": (6, (8, 16), (3, 64, 48), (1, 8, 3)),
    "one group": (3, (64, 48), (64, 48), (1, 1)),
    "no dims": (0, (), (), ()),
}


@pytest.mark.parametrize(("mask", "groups", "dims", "extents"), EXTENTS.values(), ids=EXTENTS)
def test_there_is_a_value_for_each_index_of_masked_dims_and_each_group(mask, groups, dims, extents):
    factor = Factor(mask, F32, groups)
    assert factor.extents(dims) == extents
    assert factor.count(dims) == math.prod(extents)


def test_values_are_little_endian_f32_or_s32():
    scales = Factor(1, BF16, values=struct.pack("<3f", 0.5, -0.0, math.inf)).to_numpy()
    assert scales.dtype == np.float32
    assert scales.tolist() == [0.5, 0.0, math.inf]
    shifts = Factor(1, DataType.u8, values=struct.pack("<2i", 3, 255)).to_numpy()
    assert shifts.dtype == np.int32
    assert shifts.tolist() == [3, 255]
    assert not shifts.flags.writeable
    assert Factor(1, S32).to_numpy() is None


def test_only_one_scale_of_one_and_one_zero_point_of_zero_are_neutral():
    assert is_neutral(None)
    assert is_neutral(common_scale(1.0))
    assert is_neutral(common_zero_point(0))
    for value in (-1.0, 0.0, math.nan, math.inf, 1.0000001):
        assert not is_neutral(common_scale(value))
    assert not is_neutral(common_zero_point(1))
    assert not is_neutral(Factor(1, F32, values=struct.pack("<f", 1.0)))
    assert not is_neutral(Factor(0, F32))
    assert not is_neutral(Factor(0, S32))


def test_equality_is_of_bits_with_one_nan():
    assert common_scale(math.nan) == common_scale(-math.nan)
    assert common_scale(0.0) != common_scale(-0.0)
    assert hash(common_scale(0.5)) == hash(common_scale(0.5))
    parts = [common_scale(2.0), Factor(0, BF16, values=common_scale(2.0).values), Factor(0, F32)]
    assert len({*parts, Factor(1, F32), Factor(3, F32, (1, 2)), common_zero_point(2)}) == 6


def test_factors_are_frozen_and_travel():
    factor = Factor(3, BF16, (8, 1), b"\0" * 8)
    assert pickle.loads(pickle.dumps(factor)) == factor
    with pytest.raises(AttributeError):
        factor.mask = 1


def test_verbose_text_has_mask_type_and_groups():
    assert Factor(2, F32).verbose_str() == "2:f32"
    assert Factor(3, DataType.e8m0, (8, 1)).verbose_str() == "3:e8m0:8x1"
