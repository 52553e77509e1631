"""Scales and zero points as they are passed: any sequence or array, checked and rounded."""

from __future__ import annotations

import array
import math
import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from restride.desc.attr_value import Factor
from restride.desc.factor_parse import (
    RUNTIME_F32_VAL,
    RUNTIME_S32_VAL,
    parse_operand,
    parse_scales,
    parse_zero_points,
)
from restride.dtypes import DataType
from restride.errors import InvalidArguments, Unimplemented

NAN, INF = math.nan, math.inf


def scales(values: Any, mask: Any = 1, groups: Any = (), data_type: Any = "f32") -> Factor:
    return parse_scales("call", mask, values, groups, data_type)


def shifts(values: Any, mask: Any = 1, groups: Any = (), data_type: Any = "s32") -> Factor:
    return parse_zero_points("call", mask, values, groups, data_type)


# --- forms of values ---------------------------------------------------------------------------------------

HALVES = {
    "list": [0.5, 2.0, -3.0],
    "tuple": (0.5, 2, -3),
    "mixed": [0.5, np.float32(2), np.int8(-3)],
    "half": np.array([0.5, 2, -3], np.float16),
    "double": np.array([0.5, 2, -3]),
    "foreign byte order": np.array([0.5, 2, -3], ">f4"),
    "strided": np.array([0.5, 9, 2, 9, -3])[::2],
    "bf16": np.array([0.5, 2, -3], ml_dtypes.bfloat16),
    "f8": np.array([0.5, 2, -3], ml_dtypes.float8_e4m3fn),
    "scalars of ml_dtypes": [ml_dtypes.bfloat16(0.5), 2.0, -3],
    "objects": np.array([0.5, 2, -3], object),
    "array.array": array.array("d", [0.5, 2, -3]),
    "memoryview": memoryview(np.array([0.5, 2, -3])),
    "read-only": np.frombuffer(np.array([0.5, 2, -3], "f4").tobytes(), "f4"),
}


@pytest.mark.parametrize("values", HALVES.values(), ids=HALVES)
def test_scales_come_as_any_sequence_or_array(values):
    assert scales(values) == Factor(1, DataType.f32, (), np.array([0.5, 2, -3], "<f4").tobytes())


SHIFTS = {
    "list": [3, -1, 200],
    "tuple": (3, np.int8(-1), np.uint64(200)),
    "s64": np.array([3, -1, 200]),
    "s16": np.array([3, -1, 200], np.int16),
    "foreign byte order": np.array([3, -1, 200], ">i4"),
    "objects": np.array([3, -1, 200], object),
    "array.array": array.array("i", [3, -1, 200]),
}


@pytest.mark.parametrize("values", SHIFTS.values(), ids=SHIFTS)
def test_zero_points_come_as_any_sequence_or_array_of_integers(values):
    assert shifts(values) == Factor(1, DataType.s32, (), np.array([3, -1, 200], "<i4").tobytes())


def test_arrays_of_4_bits_are_zero_points():
    assert shifts(np.array([-8, 7], ml_dtypes.int4)).to_numpy().tolist() == [-8, 7]
    assert shifts(range(3)).to_numpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_are_flattened_by_rows_however_they_lie(order):
    table = np.array([[1, 2, 3], [4, 5, 6]], order=order)
    assert scales(table, 3).to_numpy().tolist() == [1, 2, 3, 4, 5, 6]
    assert shifts(table, 3).to_numpy().tolist() == [1, 2, 3, 4, 5, 6]


def test_one_number_is_one_value_and_none_is_fine_for_a_mask():
    for one in (2, 2.0, np.float32(2), np.array(2), [2], np.array([[2]])):
        assert scales(one, 0).to_numpy().tolist() == [2.0]
    assert shifts(np.int64(-5), 0).to_numpy().tolist() == [-5]
    assert scales([], 1).values == shifts([], 1).values == b""


def test_doubles_are_rounded_to_f32_once():
    values = np.array([0.1, 1e300, -1e300, 1e-60, 16777217.0])
    wanted = [13421773 / 2**27, INF, -INF, 0.0, 16777216.0]
    assert scales(values).to_numpy().tolist() == wanted
    assert scales(values.tolist()).to_numpy().tolist() == wanted


def test_all_values_of_f32_are_scales_and_nans_are_one():
    values = np.array([0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0xBF800000, 1], np.uint32)
    assert scales(values.view("f4")).values == values.astype("<u4").tobytes()
    nans = np.array([0x7F800001, 0xFFC12345, 0x7FC00000], np.uint32).view("f4")
    assert scales(nans).values == np.full(3, 0x7FC00000, "<u4").tobytes()
    assert scales([-NAN, NAN]) == scales([NAN, -NAN])


def test_the_callers_array_is_neither_changed_nor_kept():
    values = np.array([1.0, -NAN], np.float32)
    before = values.tobytes()
    factor = scales(values)
    assert values.tobytes() == before
    values[0] = 7.0
    assert factor.to_numpy()[0] == 1.0


def test_a_million_values_are_converted_as_a_whole():
    """A thousandth of a second for each of the loops would be a hundred times too slow."""
    many = np.linspace(-1, 1, 10**6)
    start = time.process_time()
    for _ in range(3):
        assert len(scales(many).values) == 4 * 10**6
        assert len(shifts((many * 1000).astype(int)).values) == 4 * 10**6
    assert time.process_time() - start < 1.5


# --- values at execution -----------------------------------------------------------------------------------


def test_none_and_the_lone_placeholder_leave_values_to_execution():
    for values in (None, RUNTIME_F32_VAL, [RUNTIME_F32_VAL], np.array([RUNTIME_F32_VAL], "f4")):
        assert scales(values, 2, (), "bf16") == Factor(2, DataType.bf16)
    for values in (None, RUNTIME_S32_VAL, [RUNTIME_S32_VAL], np.array([-(2**31)])):
        assert shifts(values, 2, (), "u8") == Factor(2, DataType.u8)


def test_any_other_nan_is_a_scale():
    for bits in (0x7FC00000, 0x7FC000D1, 0xFFC000D0):
        value = np.array([bits], np.uint32).view("f4")
        assert scales(value, 0).values == np.array([0x7FC00000], "<u4").tobytes()


def test_the_placeholder_among_others_is_refused_by_its_index():
    with pytest.raises(InvalidArguments, match=r"scales\[1\] is rs.onednn.RUNTIME_F32_VAL"):
        scales([1.0, RUNTIME_F32_VAL])
    with pytest.raises(InvalidArguments, match=r"zero_points\[0\] is rs.onednn.RUNTIME_S32_VAL"):
        shifts([RUNTIME_S32_VAL, 1])


# --- data types --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["f32", "bf16", "f16", "f8_e5m2", "f8_e4m3", "e8m0"])
def test_a_type_of_scales_is_kept(name):
    assert scales(None, 2, (), name) == Factor(2, DataType[name])
    assert scales([0.5, 2.0], 2, (), name).to_numpy().tolist() == [0.5, 2.0]


@pytest.mark.parametrize(
    ("name", "value", "rounded"),
    [
        ("bf16", 1.00390625, 1.0),
        ("bf16", 1.01171875, 1.015625),
        ("bf16", NAN, NAN),
        ("bf16", -INF, -INF),
        ("f16", 65519.0, 65504.0),
        ("f16", 2.0**-26, 0.0),
        ("f8_e5m2", INF, INF),
        ("f8_e4m3", 449.0, 448.0),
        ("f8_e4m3", NAN, NAN),
        ("e8m0", 2.0**-127, 2.0**-127),
        ("e8m0", 2.0**127, 2.0**127),
        ("e8m0", NAN, NAN),
    ],
)
def test_given_scales_are_rounded_to_their_type(name, value, rounded):
    (got,) = scales([value], 0, (), name).to_numpy()
    np.testing.assert_array_equal(got, rounded)


@pytest.mark.parametrize(
    ("name", "value", "held"),
    [
        ("bf16", 3.4e38, "values up to 3.39e38"),
        ("f16", 65520.0, "values up to 65504"),
        ("f8_e5m2", -61440.0, "values up to 57344"),
        ("f8_e4m3", 500.0, "values up to 448"),
        ("f8_e4m3", INF, "no infinity"),
        ("e8m0", 3.0, "powers of two"),
        ("e8m0", 0.0, "powers of two"),
        ("e8m0", -1.0, "powers of two"),
        ("e8m0", INF, "powers of two"),
    ],
)
def test_a_scale_that_its_type_cannot_hold_is_refused_by_its_index(name, value, held):
    with pytest.raises(InvalidArguments, match=rf"scales\[1\] is (?s:.*){name} holds .*{held}"):
        scales([1.0, value, value], 1, (), name)


LIMITS = {"s32": (-(2**31), 2**31 - 1), "s8": (-128, 127), "u8": (0, 255), "s4": (-8, 7), "u4": (0, 15)}


@pytest.mark.parametrize(("name", "limits"), LIMITS.items(), ids=LIMITS)
def test_zero_points_are_those_that_their_type_holds(name, limits):
    assert shifts(None, 2, (), name) == Factor(2, DataType[name])
    # RUNTIME_S32_VAL is the lowest s32: beside others it is refused.
    low, high = max(limits[0], -(2**31) + 1), limits[1]
    kept = shifts([low, high], 1, (), name)
    assert kept.to_numpy().tolist() == [low, high]
    assert kept.data_type is DataType[name]
    for beyond in (limits[1] + 1, limits[0] - 2, 2**63, 2**100):
        with pytest.raises(InvalidArguments, match=rf"zero_points\[1\] is {beyond}\n  why: \w+ holds"):
            shifts([0, beyond], 1, (), name)
    with pytest.raises(InvalidArguments, match=rf"{2**64 - 1}\n  why: {name} holds {limits[0]} to"):
        shifts(np.array([2**64 - 1], np.uint64), 1, (), name)


@pytest.mark.parametrize("name", ["f64", "s32", "u8", "boolean", "undef", "f31", None])
def test_scales_of_other_types_are_refused(name):
    with pytest.raises(InvalidArguments, match=r"data.type"):
        scales(None, 0, (), name)


@pytest.mark.parametrize("name", ["f64", "e8m0", "boolean", "undef", "s31"])
def test_zero_points_of_other_types_are_refused(name):
    with pytest.raises(InvalidArguments, match=r"data.type"):
        shifts(None, 0, (), name)


# --- what is refused ---------------------------------------------------------------------------------------


class _Hostile:
    def __float__(self):
        raise KeyError("no number")

    def __array__(self, dtype=None, copy=None):
        raise KeyError("no array")


STRANGERS = {
    "text": "1",
    "bytes": b"1",
    "bytearray": bytearray(b"11"),
    "dict": {"a": 1},
    "set": {1},
    "generator": (x for x in (1,)),
    "masked": np.ma.array([1.0, 2.0], mask=[0, 1]),
    "list of text": ["x"],
    "list of bool": [True],
    "list of none": [None],
    "nested": [[1.0]],
    "ragged": [[1.0], [1.0, 2.0]],
    "booleans": np.array([True]),
    "texts": np.array(["1"]),
    "complex": np.array([1j]),
    "dates": np.array([1], "M8[s]"),
    "records": np.zeros(1, [("a", "f4")]),
    "objects": np.array([None]),
    "hostile": _Hostile(),
    "hostile in a list": [_Hostile()],
}


@pytest.mark.parametrize("values", STRANGERS.values(), ids=STRANGERS)
def test_what_holds_no_numbers_is_refused(values):
    with pytest.raises(InvalidArguments, match=r"^call: scales"):
        scales(values)
    with pytest.raises(InvalidArguments, match=r"^call: zero_points"):
        shifts(values)


@pytest.mark.parametrize(
    "values", [[1.5], [1.0], np.array([1.0]), [1, 2.0], np.ones(2, ml_dtypes.bfloat16)], ids=repr
)
def test_zero_points_that_are_no_integers_are_refused(values):
    with pytest.raises(InvalidArguments, match="integer"):
        shifts(values)


def test_an_element_that_is_wrong_is_named_by_its_index():
    for values in ([1.0, 2.0, "x"], (1, 2, 10**400), np.array([1, 2, None])):
        with pytest.raises(InvalidArguments, match=r"^call: scales\[2\] is "):
            scales(values)
    with pytest.raises(InvalidArguments, match=r"^call: zero_points\[1\] is 2.5"):
        shifts([1, 2.5])


@pytest.mark.parametrize("values", [[], [1, 2], np.ones(3, int)], ids=["0", "2", "3"])
def test_mask_0_stands_for_one_value(values):
    with pytest.raises(InvalidArguments, match=f"mask 0 needs 1 scale, there are {len(values)}"):
        scales(values, 0)
    with pytest.raises(InvalidArguments, match=f"mask 0 needs 1 zero point, there are {len(values)}"):
        shifts(values, 0)


@pytest.mark.parametrize("mask", [-1, 1 << 12, 0.0, True, "0", None], ids=repr)
def test_a_mask_is_an_integer_of_12_bits(mask):
    for parse in (scales, shifts):
        with pytest.raises(InvalidArguments, match=r"^call: mask"):
            parse(None, mask)
    assert scales(None, np.int64((1 << 12) - 1)).mask == 4095


@pytest.mark.parametrize("groups", [(0, 1), (1, -2), (1,) * 13, "11", 4, (1.0, 2), None], ids=repr)
def test_groups_are_positive_integers_or_none(groups):
    for parse in (scales, shifts):
        with pytest.raises(InvalidArguments, match=r"^call: groups"):
            parse(None, 3, groups)
    assert scales(None, 3, [np.int8(8), 1]).groups == (8, 1)
    assert scales(None, 7, (4, 2, 3)).groups == (4, 2, 3)


def test_only_source_and_destination_have_factors():
    assert (parse_operand("call", 1), parse_operand("call", np.int32(17))) == (1, 17)
    for arg in (2, 18, 33, 41, 10**30):
        with pytest.raises(Unimplemented, match=r"(?s:.*)Arg.WEIGHTS \(33\) or rs.onednn.Arg.DST \(17\)"):
            parse_operand("call", arg)
    for stranger in (0, -1, "src", None, True, 1.0):
        with pytest.raises(InvalidArguments, match=r"^call: arg is"):
            parse_operand("call", stranger)
