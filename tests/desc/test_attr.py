"""Attributes: what is set is what is read, and what is frozen is a value."""

from __future__ import annotations

import copy
import math
import pickle
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.desc.attr import RUNTIME_F32_VAL, RUNTIME_S32_VAL, Attr, PrimitiveAttr
from restride.desc.attr_value import Factor
from restride.desc.memory_desc import MemoryDesc
from restride.desc.post_op_values import BinaryOp, EltwiseOp, SumOp
from restride.desc.post_ops import PostOps
from restride.dtypes import DataType
from restride.errors import InvalidArguments, Unimplemented
from support.errors import refused

# --- attr --------------------------------------------------------------------

SRC, DST = 1, 17
F32, BF16, S32, U8 = DataType.f32, DataType.bf16, DataType.s32, DataType.u8


def f32s(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def s32s(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}i", *values)


def with_scale(value: Any) -> Attr:
    attr = PrimitiveAttr()
    attr.set_output_scales(0, [value])
    return attr.freeze()


def everything() -> PrimitiveAttr:
    attr, ops = PrimitiveAttr(), PostOps()
    attr.set_scales(DST, 2, [0.5, -0.0, math.nan])
    attr.set_scales(SRC, 3, None, (8, 1), "bf16")
    attr.set_zero_points(DST, 0, [3], (), "u8")
    attr.set_zero_points_mask(SRC, 1)
    ops.append_sum(0.5, 1, "u8")
    ops.append_eltwise("clip", -1.0, 1.0)
    ops.append_binary("add", MemoryDesc((1, 3), "f32", "ab"))
    attr.set_post_ops(ops)
    attr.set_scratchpad_mode("user")
    return attr


EVERYTHING = Attr(
    None,
    ((SRC, Factor(3, BF16, (8, 1))), (DST, Factor(2, F32, (), f32s(0.5, -0.0, math.nan)))),
    ((SRC, Factor(1, S32)), (DST, Factor(0, U8, (), s32s(3)))),
    (
        SumOp(0.5, 1, U8),
        EltwiseOp("clip", -1.0, 1.0, 1.0),
        BinaryOp("add", MemoryDesc((1, 3), "f32", "ab")),
    ),
    "user",
)


# --- the mutable side --------------------------------------------------------------------------------------


def test_default_attributes() -> None:
    attr = PrimitiveAttr()
    assert attr.freeze() == Attr() == Attr(None, (), (), (), "library")
    assert attr.freeze().is_default
    assert attr.get_output_scales() == (0, [1.0])
    assert len(attr.get_post_ops()) == 0
    assert attr.get_scratchpad_mode() == "library"
    assert attr.get_scales(SRC) is attr.get_scales(33) is None
    assert attr.get_zero_points(DST) is attr.get_zero_points(33) is None
    assert attr.freeze().verbose_str() == ""


def test_output_scales_are_read_back_as_rounded() -> None:
    attr = PrimitiveAttr()
    for scales in (0.5, (0.5,), np.array([0.5]), np.float32(0.5)):
        attr.set_output_scales(np.int64(0), scales)  # type: ignore[arg-type]
        assert attr.get_output_scales() == (0, [0.5])
    attr.set_output_scales(5, np.array([[0.1, 2], [3, 4]]))  # type: ignore[arg-type]
    assert attr.get_output_scales() == (5, [13421773 / 2**27, 2.0, 3.0, 4.0])
    assert attr.freeze().output_scales == Factor(5, F32, (), f32s(0.1, 2, 3, 4), (2, 2))


def test_output_scales_at_execution_are_the_placeholder() -> None:
    attr = PrimitiveAttr()
    attr.set_output_scales(2, [RUNTIME_F32_VAL])
    mask, (value,) = attr.get_output_scales()
    assert mask == 2
    assert struct.pack("<f", value) == bytes.fromhex("d000c07f")
    assert attr.freeze().output_scales == Factor(2, F32)
    again = PrimitiveAttr()
    again.set_output_scales(*attr.get_output_scales())
    assert again.freeze() == attr.freeze()
    with pytest.raises(InvalidArguments, match="real number"):
        attr.set_output_scales(0, None)  # type: ignore[arg-type]


def test_scales_are_read_back_with_groups_and_type() -> None:
    attr = everything()
    assert attr.get_scales(SRC) == (3, None, (8, 1), BF16)
    mask, values, groups, data_type = attr.get_scales(DST) or ()
    assert (mask, groups, data_type) == (2, (), F32)
    np.testing.assert_array_equal(values, [0.5, -0.0, math.nan])
    attr.set_scales_mask(DST, 4)
    assert attr.get_scales(DST) == (4, None, (), F32)


def test_zero_points_are_read_back_with_groups_and_type() -> None:
    attr = everything()
    assert attr.get_zero_points(SRC) == (1, None, (), S32)
    assert attr.get_zero_points(DST) == (0, [3], (), U8)
    attr.set_zero_points(SRC, 3, np.array([[1, -2], [3, 4]]), (4, 2))
    assert attr.get_zero_points(SRC) == (3, [1, -2, 3, 4], (4, 2), S32)
    attr.set_zero_points(SRC, 0, RUNTIME_S32_VAL)
    assert attr.get_zero_points(SRC) == (0, None, (), S32)


def test_a_setter_called_again_replaces() -> None:
    attr = PrimitiveAttr()
    attr.set_output_scales(1, [2.0, 3.0])
    attr.set_output_scales(0, 4.0)
    attr.set_zero_points(DST, 1, [1, 2])
    attr.set_zero_points(DST, 0, 5)
    assert attr.freeze() == Attr.common(4.0, 5)


def test_one_scale_of_1_and_one_zero_point_of_0_are_none() -> None:
    attr = PrimitiveAttr()
    attr.set_output_scales(0, [2.0])
    attr.set_zero_points(DST, 0, [7])
    attr.set_output_scales(0, [1.0])
    attr.set_zero_points(DST, 0, [0])
    attr.set_scales(DST, 0, [1.0], (), "bf16")
    assert attr.freeze() == Attr()
    assert attr.get_scales(DST) == (0, [1.0], (), BF16)
    attr.set_scales(DST, 1, [1.0])
    assert not attr.freeze().is_default


def test_the_output_scale_is_the_scale_of_the_source() -> None:
    attr = PrimitiveAttr()
    attr.set_output_scales(0, [2.0])
    with pytest.raises(InvalidArguments, match="the output scale is the scale of the source"):
        attr.set_scales(SRC, 0, [3.0])
    attr.set_scales(SRC, 0, [1.0])
    attr.set_scales(DST, 0, [3.0])
    attr.set_output_scales(0, [1.0])
    attr.set_scales(SRC, 0)
    with pytest.raises(InvalidArguments, match="the output scale is the scale of the source"):
        attr.set_output_scales(0, [2.0])
    assert attr.freeze() == Attr(None, ((SRC, Factor(0, F32)), (DST, Factor(0, F32, (), f32s(3.0)))))


@pytest.mark.parametrize("arg", [3, 18, 34, 41])
def test_other_arguments_have_neither_scales_nor_zero_points(arg: int) -> None:
    attr = PrimitiveAttr()
    calls = (attr.set_scales, attr.set_scales_mask, attr.set_zero_points, attr.set_zero_points_mask)
    for call in calls:
        with pytest.raises(Unimplemented, match=r"Arg.WEIGHTS \(33\) or rs.onednn.Arg.DST \(17\)"):
            call(arg, 0)
    assert attr.freeze() == Attr()


WRONG: dict[str, Any] = {
    "arg 0": lambda attr: attr.set_scales(0, 0),
    "arg text": lambda attr: attr.set_scales("src", 0),
    "group 0": lambda attr: attr.set_scales(1, 0, groups=(0, 1)),
    "groups text": lambda attr: attr.set_scales(1, 0, groups="1"),
    "type": lambda attr: attr.set_scales(1, 0, data_type="f31"),
    "scales text": lambda attr: attr.set_scales(1, 0, ["x"]),
    "scales dict": lambda attr: attr.set_scales(1, 0, {"a": 1}),
    "fraction": lambda attr: attr.set_zero_points(1, 0, [1.5]),
    "negative arg": lambda attr: attr.set_zero_points(-1, 0, [1]),
    "zero point type": lambda attr: attr.set_zero_points(1, 0, [1], (), "f64"),
    "zero point range": lambda attr: attr.set_zero_points(1, 0, [300], (), "u8"),
    "get scales": lambda attr: attr.get_scales(0),
    "get zero points": lambda attr: attr.get_zero_points(None),
    "output text": lambda attr: attr.set_output_scales(0, "1"),
    "mask": lambda attr: attr.set_output_scales(-1, [1.0]),
    "two for mask 0": lambda attr: attr.set_output_scales(0, [1.0, 2.0]),
    "no post-ops": lambda attr: attr.set_post_ops(None),
    "a list of post-ops": lambda attr: attr.set_post_ops([SumOp()]),
    "mode": lambda attr: attr.set_scratchpad_mode("mine"),
    "mode list": lambda attr: attr.set_scratchpad_mode(["user"]),
}


@pytest.mark.parametrize("call", WRONG.values(), ids=WRONG)
def test_a_wrong_argument_is_refused_and_changes_nothing(call: Any) -> None:
    attr = everything()
    with pytest.raises(InvalidArguments):
        call(attr)
    assert attr.freeze() == EVERYTHING


def test_post_ops_are_copied() -> None:
    ops, attr = PostOps(), PrimitiveAttr()
    attr.set_post_ops(ops)
    ops.append_sum(2.0)
    assert not attr.freeze().post_ops
    attr.set_post_ops(ops)
    frozen = attr.freeze()
    attr.get_post_ops().append_eltwise("relu")
    assert attr.get_post_ops() == ops
    attr.set_post_ops(PostOps())
    attr.set_output_scales(0, [3.0])
    assert frozen == Attr(post_ops=(SumOp(2.0),))


# --- the frozen side ---------------------------------------------------------------------------------------


def test_freezing_keeps_everything_sorted_by_argument() -> None:
    assert everything().freeze() == EVERYTHING
    assert hash(everything().freeze()) == hash(EVERYTHING)
    assert not EVERYTHING.is_default


@pytest.mark.parametrize("frozen", [Attr(), EVERYTHING, Attr.common(0.5, 3, -0.0)], ids=["0", "all", "one"])
def test_thawing_and_freezing_again_is_the_identity(frozen: Attr) -> None:
    attr = PrimitiveAttr.of(frozen)
    assert attr.freeze() == frozen
    attr.set_output_scales(0, [1.0])
    attr.set_scales(SRC, 0, [9.0])
    attr.set_scales(DST, 0, [9.0])
    attr.set_zero_points(DST, 0, [9])
    attr.set_post_ops(PostOps())
    assert attr.freeze() != frozen
    assert PrimitiveAttr.of(frozen).freeze() == frozen


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))])
def test_attributes_copy_and_travel(again: Any) -> None:
    assert again(EVERYTHING) == EVERYTHING
    attr = everything()
    other = again(attr)
    assert other.freeze() == EVERYTHING
    other.set_scales(DST, 0, [7.0])
    other.set_zero_points(DST, 0, [7])
    assert attr.freeze() == EVERYTHING


def test_frozen_attributes_are_frozen() -> None:
    with pytest.raises(AttributeError):
        EVERYTHING.scratchpad = "library"  # type: ignore[misc]


def test_factors_are_found_by_argument() -> None:
    assert EVERYTHING.scale_of(SRC) == Factor(3, BF16, (8, 1))
    assert EVERYTHING.zero_point_of(DST) == Factor(0, U8, (), s32s(3))
    assert EVERYTHING.scale_of(33) is EVERYTHING.zero_point_of(33) is None
    assert EVERYTHING.reads_dst
    assert not Attr(post_ops=(SumOp(0.0),)).reads_dst
    assert with_scale(2.0).scale_of(SRC) is None


def test_common_attributes_leave_out_what_changes_nothing() -> None:
    assert Attr.common() == Attr.common(1.0, 0) == Attr()
    assert Attr.common(0.5).output_scales == Factor(0, F32, (), f32s(0.5))
    assert Attr.common(zero_point=-3) == Attr(zero_points=((DST, Factor(0, S32, (), s32s(-3))),))
    assert Attr.common(beta=0.25) == Attr(post_ops=(SumOp(0.25),))
    assert Attr.common(0.5) == with_scale(0.5)


def test_alpha_is_the_one_known_output_scale() -> None:
    assert Attr().alpha == Attr(output_scales=Factor(0, F32)).alpha == 1.0
    assert Attr(output_scales=Factor(1, F32, (), f32s(3.0))).alpha == 1.0
    assert Attr.common(0.5).alpha == 0.5
    assert math.isnan(Attr.common(math.nan).alpha)


def test_equality_is_of_bits() -> None:
    assert with_scale(math.nan) == with_scale(-math.nan) == Attr.common(-math.nan)
    assert hash(with_scale(math.nan)) == hash(with_scale(math.nan))
    assert with_scale(0.0) != with_scale(-0.0)
    assert with_scale(0.1) == with_scale(np.float32(0.1))
    assert Attr.common(beta=math.nan) == Attr.common(beta=math.nan)
    assert Attr.common(beta=0.0) != Attr.common(beta=-0.0)
    assert len({with_scale(1.0), Attr.common(beta=1.0), Attr.common(beta=2.0), with_scale(2.0)}) == 4


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.set_scales(DST, 2, [0.5, 0.0, math.nan]),
        lambda a: a.set_scales(DST, 4, [0.5, -0.0, math.nan]),
        lambda a: a.set_scales(SRC, 3, None, (8, 2), "bf16"),
        lambda a: a.set_scales(SRC, 3, None, (8, 1), "f16"),
        lambda a: a.set_zero_points(DST, 0, [4], (), "u8"),
        lambda a: a.set_zero_points(SRC, 0),
        lambda a: a.set_post_ops(PostOps()),
        lambda a: a.set_scratchpad_mode("library"),
    ],
    ids=["value", "mask", "groups", "type", "zero point", "zero mask", "post-ops", "scratchpad"],
)
def test_every_part_counts_in_equality(change: Any) -> None:
    attr = everything()
    change(attr)
    assert attr.freeze() != EVERYTHING


# --- text --------------------------------------------------------------------------------------------------


def test_verbose_text() -> None:
    common = Attr(Factor(0, F32, (), f32s(0.5)), post_ops=(SumOp(),), scratchpad="user")
    assert common.verbose_str() == "attr-oscale:0:0.5 attr-post-ops:sum attr-scratchpad:user"
    assert Attr.common(2.0).verbose_str() == "attr-oscale:0:2"
    assert Attr.common(beta=0.25).verbose_str() == "attr-post-ops:sum:0.25"
    assert Attr(Factor(2, F32, (), f32s(1, 2))).verbose_str() == "attr-oscale:2"
    assert Attr(Factor(2, F32)).verbose_str() == "attr-oscale:2:*"
    assert Attr(Factor(0, F32)).verbose_str() == "attr-oscale:0:*"
    assert EVERYTHING.verbose_str() == (
        "attr-scales:src0:3:bf16:8x1+dst:2:f32 attr-zero-points:src0:1:s32+dst:0:u8 "
        "attr-post-ops:sum:0.5:1:u8+eltwise_clip:-1:1+binary_add:f32:2:ab attr-scratchpad:user"
    )


def test_repr_is_the_verbose_text() -> None:
    attr = PrimitiveAttr()
    assert repr(attr) == "<PrimitiveAttr default>"
    attr.set_scratchpad_mode("user")
    assert attr.get_scratchpad_mode() == "user"
    assert repr(attr) == "<PrimitiveAttr attr-scratchpad:user>"


# --- attr modes --------------------------------------------------------------
# Modes of arithmetic: what allows less than the contract changes nothing, the rest is refused.


def test_modes_are_held_and_those_of_bf16_alone_change_something():
    attr = rs.PrimitiveAttr()
    assert attr.get_fpmath_mode() == ("strict", False)
    assert (attr.get_accumulation_mode(), attr.get_deterministic()) == ("strict", False)
    plain = attr.freeze()
    attr.set_fpmath_mode("tf32", True)
    assert attr.freeze() == plain
    attr.set_fpmath_mode("bf16")
    assert attr.freeze() == replace(plain, fpmath="bf16") == rs.PrimitiveAttr.of(attr.freeze()).freeze()
    attr.set_fpmath_mode("bf16", True)
    attr.set_accumulation_mode("relaxed")
    attr.set_deterministic(np.True_)
    attr.set_rounding_mode(rs.ARG_DST, "environment")
    assert attr.get_fpmath_mode() == ("bf16", True)
    assert (attr.get_accumulation_mode(), attr.get_deterministic()) == ("relaxed", True)
    assert attr.get_rounding_mode(rs.ARG_DST) == "environment"
    assert attr.freeze() == replace(plain, fpmath="bf16", fpmath_int=True)


@pytest.mark.parametrize("name", ["set_fpmath_mode", "set_accumulation_mode"])
@pytest.mark.parametrize("mode", ["", "Strict", 0, None, b"strict"])
def test_modes_that_are_not_there_are_refused_by_name(name, mode):
    with refused(f"{name}: mode is", "use one of strict"):
        getattr(rs.PrimitiveAttr(), name)(mode)


def test_what_would_change_results_is_refused():
    attr = rs.PrimitiveAttr()
    with refused("stochastic rounding", "(N2)", kind=rs.Unimplemented):
        attr.set_rounding_mode(rs.ARG_DST, "stochastic")
    with refused("dropout is not supported", kind=rs.Unimplemented):
        attr.set_dropout(rs.MemoryDesc((2,), "f32"))
    for value in (1, "yes", None):
        with refused("set_deterministic is"):
            attr.set_deterministic(value)
