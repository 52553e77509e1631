"""Attributes and post-ops: what is set is what is read, what is missing says so (R08, R22–R33, P06)."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from restride.desc.attr import RUNTIME_F32_VAL, Attr, PrimitiveAttr
from restride.desc.memory_desc import MemoryDesc
from restride.desc.post_ops import PostOps, SumOp
from restride.errors import InvalidArguments, Unimplemented


def with_scale(value: Any) -> Attr:
    attr = PrimitiveAttr()
    attr.set_output_scales(0, [value])
    return attr.freeze()


def with_sum(value: Any) -> Attr:
    attr, ops = PrimitiveAttr(), PostOps()
    ops.append_sum(value)
    attr.set_post_ops(ops)
    return attr.freeze()


def test_default_attributes() -> None:
    attr = PrimitiveAttr()
    assert attr.freeze() == Attr() == Attr(1.0, None, "library")
    assert attr.freeze().is_default
    assert attr.get_output_scales() == (0, [1.0])
    assert len(attr.get_post_ops()) == 0
    assert attr.get_scratchpad_mode() == "library"
    assert attr.get_scales(1) is None
    assert attr.get_zero_points(1) is None
    assert attr.freeze().verbose_str() == ""


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        (2, 2.0),
        (0.1, float(np.float32(0.1))),
        (-0.5, -0.5),
        (np.float64(1e300), math.inf),
        (-1e300, -math.inf),
        (1e-60, 0.0),
        (math.inf, math.inf),
        (np.int8(-3), -3.0),
        (16777217, 16777216.0),
        (ml_dtypes.bfloat16(1.5), 1.5),
        (np.array(0.25), 0.25),
    ],
)
def test_scales_are_rounded_to_f32(value: Any, rounded: float) -> None:
    assert with_scale(value).alpha == rounded
    op = with_sum(value).sum
    assert op is not None
    assert op.scale == rounded


def test_a_plain_number_or_an_array_is_a_scale() -> None:
    attr = PrimitiveAttr()
    for scales in (0.5, (0.5,), np.array([0.5]), np.float32(0.5)):
        attr.set_output_scales(np.int64(0), scales)  # type: ignore[arg-type]
        assert attr.get_output_scales() == (0, [0.5])


def test_equality_is_of_bits() -> None:
    assert with_scale(math.nan) == with_scale(-math.nan)
    assert hash(with_scale(math.nan)) == hash(with_scale(math.nan))
    assert with_scale(0.0) != with_scale(-0.0)
    assert with_sum(math.nan) == with_sum(math.nan)
    assert with_sum(0.0) != with_sum(-0.0)
    assert len({with_scale(1.0), with_sum(1.0), with_sum(2.0), with_scale(2.0)}) == 4
    assert with_scale(0.1) == with_scale(np.float32(0.1))


def test_frozen_attributes_copy_and_pickle() -> None:
    attr = Attr(0.5, SumOp(-0.0), "user")
    for other in (copy.deepcopy(attr), pickle.loads(pickle.dumps(attr))):
        assert other == attr
        assert math.copysign(1, other.sum.scale) == -1
    with pytest.raises(AttributeError):
        attr.alpha = 2.0  # type: ignore[misc]
    assert not attr.is_default
    assert Attr(scratchpad="user").is_default


@pytest.mark.parametrize(
    "value", ["2", b"2", True, np.bool_(True), 1j, np.complex64(1), None, [1.0], object(), 10**400]
)
def test_scale_that_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArguments, match="real number"):
        with_scale(value)
    with pytest.raises(InvalidArguments, match="real number"):
        with_sum(value)


@pytest.mark.parametrize("scales", [[], [1.0, 2.0], np.ones(3)])
def test_wrong_number_of_scales_names_the_right_one(scales: Any) -> None:
    with pytest.raises(InvalidArguments, match=f"mask 0 stands for 1 scale, there are {len(scales)}"):
        PrimitiveAttr().set_output_scales(0, scales)


@pytest.mark.parametrize("mask", [-1, 1 << 12, 0.0, True, "0", None])
def test_bad_mask_is_refused(mask: Any) -> None:
    attr = PrimitiveAttr()
    for call in (
        lambda: attr.set_output_scales(mask, [1.0]),
        lambda: attr.set_scales(1, mask),
        lambda: attr.set_zero_points(1, mask),
    ):
        with pytest.raises(InvalidArguments, match="mask"):
            call()


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda attr: attr.set_output_scales(2, [1.0] * 4), "output scales per dimension are"),
        (
            lambda attr: attr.set_output_scales(0, [RUNTIME_F32_VAL]),
            "scales that are passed at execution are",
        ),
        (lambda attr: attr.set_scales(1, 0, [2.0]), "per-argument scales are"),
        (lambda attr: attr.set_scales(17, 2, np.ones(4), (1, 2), "bf16"), "per-argument scales are"),
        (lambda attr: attr.set_zero_points(1, 0, [3]), "zero points are"),
        (lambda attr: attr.set_zero_points(17, 0, 3), "zero points are"),
    ],
)
def test_missing_attribute_says_what_is_missing(call: Any, what: str) -> None:
    attr = PrimitiveAttr()
    with pytest.raises(Unimplemented, match=f"^{what} not provided by this version"):
        call(attr)
    assert attr.freeze().is_default


@pytest.mark.parametrize(
    "call",
    [
        lambda attr: attr.set_scales(0, 0),
        lambda attr: attr.set_scales("src", 0),
        lambda attr: attr.set_scales(1, 0, groups=(0,)),
        lambda attr: attr.set_scales(1, 0, groups="1"),
        lambda attr: attr.set_scales(1, 0, data_type="f31"),
        lambda attr: attr.set_scales(1, 0, ["x"]),
        lambda attr: attr.set_scales(1, 0, {"a": 1}),
        lambda attr: attr.set_zero_points(1, 0, [1.5]),
        lambda attr: attr.set_zero_points(-1, 0, [1]),
        lambda attr: attr.get_scales(0),
        lambda attr: attr.get_zero_points(None),
        lambda attr: attr.set_output_scales(0, "1"),
        lambda attr: attr.set_post_ops(None),
        lambda attr: attr.set_post_ops([SumOp()]),
        lambda attr: attr.set_scratchpad_mode("mine"),
        lambda attr: attr.set_scratchpad_mode(["user"]),
    ],
)
def test_bad_argument_is_refused_before_what_is_missing(call: Any) -> None:
    attr = PrimitiveAttr()
    with pytest.raises(InvalidArguments):
        call(attr)
    assert attr.freeze() == Attr()


def test_sum_is_read_back() -> None:
    ops = PostOps()
    ops.append_sum(0.5)
    assert (len(ops), ops.kind(0), ops.get_params_sum(0)) == (1, "sum", (0.5, 0, None))
    default = PostOps()
    default.append_sum()
    assert default.get_params_sum(0) == (1.0, 0, None)
    assert ops != default
    for index in (1, -1, 0.0, True, None):
        with pytest.raises(InvalidArguments, match="index"):
            ops.kind(index)  # type: ignore[arg-type]
    for getter in (ops.get_params_eltwise, ops.get_params_binary):
        with pytest.raises(InvalidArguments, match="is no"):
            getter(0)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda ops: ops.append_sum(1.0, 3), "a zero point of the sum post-op is"),
        (lambda ops: ops.append_sum(1.0, 0, "u8"), "a data type of the sum post-op is"),
        (lambda ops: (ops.append_sum(), ops.append_sum()), "more than one sum post-op is"),
        (lambda ops: ops.append_eltwise("relu"), "eltwise post-ops are"),
        (lambda ops: ops.append_eltwise("eltwise_linear", 2.0, 1.0, scale=0.5), "eltwise post-ops are"),
        (lambda ops: ops.append_binary("add", MemoryDesc((1,), "f32", "a")), "binary post-ops are"),
    ],
)
def test_missing_post_op_says_what_is_missing(call: Any, what: str) -> None:
    with pytest.raises(Unimplemented, match=f"^{what} not provided by this version"):
        call(PostOps())


@pytest.mark.parametrize(
    "call",
    [
        lambda ops: ops.append_sum(1.0, 0.5),
        lambda ops: ops.append_sum(1.0, 0, "f31"),
        lambda ops: ops.append_eltwise("relu6"),
        lambda ops: ops.append_eltwise(None),
        lambda ops: ops.append_eltwise("relu", "x"),
        lambda ops: ops.append_binary("plus", MemoryDesc((1,), "f32", "a")),
        lambda ops: ops.append_binary("add", MemoryDesc()),
        lambda ops: ops.append_binary("add", "f32"),
    ],
)
def test_bad_post_op_is_refused(call: Any) -> None:
    ops = PostOps()
    with pytest.raises(InvalidArguments):
        call(ops)
    assert len(ops) == 0


def test_post_ops_are_copied() -> None:
    ops, attr = PostOps(), PrimitiveAttr()
    attr.set_post_ops(ops)
    ops.append_sum(2.0)
    assert attr.freeze().sum is None
    attr.set_post_ops(ops)
    frozen = attr.freeze()
    attr.set_post_ops(PostOps())
    attr.set_output_scales(0, [3.0])
    assert frozen == Attr(1.0, SumOp(2.0))


def test_verbose_text() -> None:
    assert (
        Attr(0.5, SumOp(), "user").verbose_str() == "attr-oscale:0:0.5 attr-post-ops:sum attr-scratchpad:user"
    )
    assert Attr(1.0, SumOp(0.25)).verbose_str() == "attr-post-ops:sum:0.25"
    attr = PrimitiveAttr()
    attr.set_scratchpad_mode("user")
    assert attr.get_scratchpad_mode() == "user"
    assert repr(attr) == "<PrimitiveAttr attr-scratchpad:user>"
