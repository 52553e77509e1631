"""Attributes beside the descriptors of a reorder: what does not fit is named, as is what would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from restride.desc.attr import Attr, PrimitiveAttr
from restride.desc.attr_check import check_attr
from restride.desc.layout import RUNTIME_DIM
from restride.desc.memory_desc import MemoryDesc
from restride.desc.post_ops import PostOps
from restride.errors import Error, InvalidArguments

SRC, DST = 1, 17
DIMS = (2, 17, 5, 3)
S8 = MemoryDesc(DIMS, "s8", "nchw")
U8 = MemoryDesc(DIMS, "u8", "nChw16c")
F32 = MemoryDesc(DIMS, "f32", "nhwc")
MATRIX = MemoryDesc((64, 48), "u8", "ab")
WIDE = MemoryDesc((64, 48), "f32", "ab")


def made(*calls: Any) -> Attr:
    """Attributes after calls of (name, *arguments)."""
    attr = PrimitiveAttr()
    for name, *arguments in calls:
        getattr(attr, name)(*arguments)
    return attr.freeze()


def with_chain(*calls: Any) -> Attr:
    attr, ops = PrimitiveAttr(), PostOps()
    for name, *arguments in calls:
        getattr(ops, f"append_{name}")(*arguments)
    attr.set_post_ops(ops)
    return attr.freeze()


def refused(attr: Attr, src: MemoryDesc, dst: MemoryDesc, kind: type[Error] = InvalidArguments) -> Error:
    with pytest.raises(kind) as caught:
        check_attr(attr, src, dst)
    assert caught.value.where == f"src {src}; dst {dst}"
    assert caught.value.what.startswith("reorder: ")
    assert caught.value.hint
    return caught.value


# --- what fits ---------------------------------------------------------------------------------------------

ONES = np.ones(10000)
FITTING = {
    "nothing": (Attr(), F32, F32),
    "common": (Attr.common(0.5, 3, 0.5), F32, S8),
    "output scales": (made(("set_output_scales", 2, ONES[:17])), F32, F32),
    "each element": (made(("set_output_scales", 15, ONES[: 2 * 17 * 5 * 3])), F32, F32),
    "at execution": (made(("set_output_scales", 15, [np.uint32(0x7FC000D0).view("f4")])), F32, F32),
    "not contiguous": (made(("set_scales", SRC, 5, ONES[:10])), F32, F32),
    "masks that differ": (
        made(("set_scales", SRC, 2, ONES[:17]), ("set_scales", DST, 9, ONES[:6])),
        F32,
        F32,
    ),
    "zero points": (
        made(("set_zero_points", SRC, 2, range(17)), ("set_zero_points", DST, 1, [1, 2])),
        S8,
        U8,
    ),
    "groups": (
        made(
            ("set_scales", SRC, 3, ONES[: 8 * 48], (8, 1)), ("set_zero_points", SRC, 3, None, (1, 16), "u4")
        ),
        MATRIX,
        WIDE,
    ),
    "an empty dim": (
        made(("set_scales", SRC, 3, [], (8, 1))),
        MemoryDesc((0, 48), "u8", "ab"),
        MemoryDesc((0, 48), "f32", "ab"),
    ),
    "sum": (with_chain(("sum", 0.5)), F32, F32),
    "sum of s8 as u8": (with_chain(("sum", 0.5, 3, "u8")), F32, S8),
    "sum of f32 as s32": (with_chain(("sum", 0.5, 3, "s32")), F32, F32),
    "sum with the zero point of dst's type": (with_chain(("sum", 1.0, -3)), F32, U8),
    "chain": (
        with_chain(
            ("eltwise", "relu"),
            ("binary", "add", MemoryDesc((1, 17, 1, 3), "bf16", "nchw")),
            ("binary", "mul", MemoryDesc(DIMS, "f64", "nhwc")),
            ("binary", "max", MemoryDesc((1, 1, 1, 1), "boolean", "nchw")),
            ("binary", "max", MemoryDesc.from_strides((2, 17, 5, 3), "f8_e4m3", (0, 0, 0, 1))),
        ),
        F32,
        S8,
    ),
    "user's scratchpad": (made(("set_scratchpad_mode", "user")), F32, F32),
}


@pytest.mark.parametrize(("attr", "src", "dst"), FITTING.values(), ids=FITTING)
def test_attributes_that_fit_pass(attr: Attr, src: MemoryDesc, dst: MemoryDesc) -> None:
    check_attr(attr, src, dst)


# --- masks and counts --------------------------------------------------------------------------------------

MASKED = {
    "output scales": ("set_output_scales", (), "the output scales"),
    "scales of src": ("set_scales", (SRC,), "the scales of src"),
    "scales of dst": ("set_scales", (DST,), "the scales of dst"),
    "zero points of src": ("set_zero_points", (SRC,), "the zero points of src"),
    "zero points of dst": ("set_zero_points", (DST,), "the zero points of dst"),
}


@pytest.mark.parametrize(("call", "arg", "name"), MASKED.values(), ids=MASKED)
@pytest.mark.parametrize(("mask", "dim"), [(16, 4), (17, 4), (0b100100000, 5), (2048, 11)])
def test_a_mask_bit_beyond_the_dims_is_named(call: str, arg: Any, name: str, mask: int, dim: int) -> None:
    error = refused(made((call, *arg, mask, [2, 3])), S8, U8)
    assert error.what == f"reorder: the mask of {name} is {mask}"
    assert error.why == f"bit {dim} stands for dim {dim}, the tensor has dims 0 to 3 (N10)"


@pytest.mark.parametrize(("call", "arg", "name"), MASKED.values(), ids=MASKED)
def test_a_wrong_count_names_the_right_one_and_the_dims(call: str, arg: Any, name: str) -> None:
    name = name.removeprefix("the ")
    error = refused(made((call, *arg, 2, [2] * 16)), S8, U8)
    assert error.what == f"reorder: wrong number of {name}"
    assert error.why == "mask 2 needs 17 values (dim 1 is 17), there are 16"
    error = refused(made((call, *arg, 5, [2])), S8, U8)
    assert error.why == "mask 5 needs 2 x 5 = 10 values (dim 0 is 2, dim 2 is 5), there are 1"
    assert "there are 0" in refused(made((call, *arg, 1, [])), S8, U8).why


@pytest.mark.parametrize(("call", "arg", "name"), MASKED.values(), ids=MASKED)
def test_an_array_of_other_extents_is_refused_though_its_count_is_right(
    call: str, arg: Any, name: str
) -> None:
    name = name.removeprefix("the ")
    values = np.full((2, 5), 2)
    for fitting in (values, values.reshape(-1), values.reshape(2, 1, 5, 1), values.reshape(-1).tolist()):
        check_attr(made((call, *arg, 5, fitting)), S8, U8)
    for shape, told in (((5, 2), "5 x 2"), ((1, 5, 2), "5 x 2")):
        error = refused(made((call, *arg, 5, values.reshape(shape))), S8, U8)
        assert error.what == f"reorder: wrong shape of the {name}"
        assert error.why.endswith(f"2 x 5 = 10 values (dim 0 is 2, dim 2 is 5), the array is {told}")


def test_arrays_in_groups_have_the_extents_of_the_groups() -> None:
    check_attr(made(("set_scales", SRC, 3, np.ones((8, 3)), (8, 16))), MATRIX, WIDE)
    error = refused(made(("set_scales", SRC, 3, np.ones((3, 8)), (8, 16))), MATRIX, WIDE)
    assert "the array is 3 x 8" in error.why


def test_a_wrong_count_in_groups_names_them() -> None:
    error = refused(made(("set_scales", SRC, 3, np.ones(64 * 48), (8, 16))), MATRIX, WIDE)
    wanted = "8 x 3 = 24 values (dim 0 is 64 in groups of 8, dim 1 is 48 in groups of 16)"
    assert error.why == f"mask 3 needs {wanted}, there are 3072"


def test_one_value_is_not_enough_for_a_dim_of_1() -> None:
    one = MemoryDesc((1, 3), "f32", "ab")
    check_attr(made(("set_scales", DST, 1, [2.0])), one, one)
    why = "mask 1 needs 1 value (dim 0 is 1), there are 3"
    assert refused(made(("set_scales", DST, 1, [2.0] * 3)), one, one).why == why


# --- groups ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["set_scales", "set_zero_points"])
def test_groups_that_do_not_fit_say_why(call: str) -> None:
    vector = MemoryDesc((64,), "u8", "a")
    assert "the tensor has 1" in refused(made((call, SRC, 1, None, (1, 8))), vector, vector).why
    error = refused(made((call, SRC, 3, None, (8, 10))), MATRIX, MATRIX)
    assert error.what.endswith("in groups of 8x10")
    assert error.why == "dim 1 is 48, which 10 does not divide"
    assert "dim 0 is 64, which 7" in refused(made((call, SRC, 3, None, (7, 1))), MATRIX, MATRIX).why
    for mask in (0, 4, 8, 3):
        error = refused(made((call, SRC, mask, None, (1, 1))), S8, S8)
        assert error.why == f"groups divide dims 2 and 3, but mask {mask} does not include all of them"
        assert error.hint == "set both of their bits: 12"


@pytest.mark.parametrize("call", ["set_scales", "set_zero_points"])
def test_groups_of_the_destination_are_of_its_own_dims(call: str) -> None:
    check_attr(made((call, DST, 3, None, (8, 1))), MATRIX, MATRIX)
    error = refused(made((call, DST, 3, None, (8, 10))), MATRIX, MATRIX)
    assert error.what.endswith("of dst in groups of 8x10")


# --- zero points -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["s32", "s8", "u8", "s4", "u4"])
def test_integer_tensors_have_zero_points(name: str) -> None:
    integral = MemoryDesc((4, 4), name, "ab")
    check_attr(made(("set_zero_points", SRC, 0, 3), ("set_zero_points_mask", DST, 1)), integral, integral)


@pytest.mark.parametrize("name", ["f32", "bf16", "f16", "f64", "f8_e4m3", "boolean", "e8m0"])
def test_other_tensors_have_none(name: str) -> None:
    desc, integral = MemoryDesc(DIMS, name, "nchw"), S8
    error = refused(made(("set_zero_points", SRC, 0, 3)), desc, integral)
    assert error.what == f"reorder: zero points of src, which is {name}"
    assert error.why.endswith("have zero points")
    assert "zero points of dst" in refused(made(("set_zero_points_mask", DST, 0)), integral, desc).what


# --- post-ops ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dst", "data_type"), [(S8, "f32"), (F32, "s8"), (F32, "f64"), (U8, "s4"), (S8, "bf16")], ids=str
)
def test_a_sum_reads_a_type_of_the_same_size(dst: MemoryDesc, data_type: str) -> None:
    error = refused(with_chain(("eltwise", "abs"), ("sum", 1.0, 0, data_type)), F32, dst)
    assert error.what == f"reorder: the sum (post-op 1) reads dst as {data_type}"
    assert f"dst is {dst.data_type} of {dst.data_type.bits} bits" in error.why


def test_a_sum_has_a_zero_point_only_where_it_reads_integers() -> None:
    assert "it reads f32" in refused(with_chain(("sum", 1.0, 3)), S8, F32).why
    assert "it reads f8_e4m3" in refused(with_chain(("sum", 1.0, 3, "f8_e4m3")), F32, S8).why


@pytest.mark.parametrize(
    ("dims", "format", "why"),
    [
        ((17,), "a", "it has 1 dims, dst has 4"),
        ((1, 2, 17, 5, 3), "abcde", "it has 5 dims, dst has 4"),
        ((2, 16, 5, 3), "nchw", "dim 1 is 16 in the operand and 17 in dst"),
        ((2, 17, 5, 0), "nchw", "dim 3 is 0 in the operand and 3 in dst"),
    ],
    ids=["rank 1", "rank 5", "dim 1", "empty"],
)
def test_an_operand_has_dst_s_dims_or_1(dims: Any, format: str, why: str) -> None:
    attr = with_chain(("binary", "add", MemoryDesc((1, 1, 1, 1), "f32", "nchw")))
    check_attr(attr, F32, S8)
    attr = with_chain(("sum",), ("binary", "add", MemoryDesc(dims, "f32", format)))
    error = refused(attr, F32, S8)
    assert error.what.startswith("reorder: the operand of post-op 1 (f32 ")
    assert error.why == why


# --- dims at execution -------------------------------------------------------------------------------------


def test_what_needs_a_dim_that_is_not_known_is_not_checked() -> None:
    known = MemoryDesc((64, RUNTIME_DIM), "u8", (RUNTIME_DIM, 1))
    wide = MemoryDesc((64, RUNTIME_DIM), "f32", (RUNTIME_DIM, 1))
    check_attr(made(("set_output_scales", 2, [1.0, 2.0])), known, wide)
    check_attr(made(("set_scales", SRC, 3, None, (8, 5))), known, wide)
    check_attr(with_chain(("binary", "add", MemoryDesc((1, 7), "f32", "ab"))), known, wide)
    assert "17 values" not in refused(made(("set_output_scales", 1, [1.0, 2.0])), known, wide).why
    assert "dim 0 is 64" in refused(made(("set_scales", SRC, 3, None, (7, 5))), known, wide).why
    assert "(N10)" in refused(made(("set_scales", SRC, 4)), known, wide).why
    operand = MemoryDesc((2, 7), "f32", "ab")
    assert "dim 0 is 2" in refused(with_chain(("binary", "add", operand)), known, wide).why
