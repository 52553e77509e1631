"""Argument numbers are those of the documents, and messages name them."""

import pytest

import restride as rs
from restride.desc.arguments import NAMES, name_of

NUMBERS = {
    "ARG_SRC": 1,
    "ARG_SRC_0": 1,
    "ARG_FROM": 1,
    "ARG_SRC_1": 2,
    "ARG_SRC_2": 3,
    "ARG_SRC_3": 4,
    "ARG_DST": 17,
    "ARG_DST_0": 17,
    "ARG_TO": 17,
    "ARG_DST_1": 18,
    "ARG_DST_2": 19,
    "ARG_WEIGHTS": 33,
    "ARG_BIAS": 41,
    "ARG_MEAN": 49,
    "ARG_VARIANCE": 50,
    "ARG_SCALE": 51,
    "ARG_SHIFT": 52,
    "ARG_WORKSPACE": 64,
    "ARG_SCRATCHPAD": 80,
    "ARG_DIFF_SRC": 129,
    "ARG_DIFF_SRC_1": 130,
    "ARG_DIFF_DST": 145,
    "ARG_DIFF_WEIGHTS": 161,
    "ARG_DIFF_BIAS": 169,
    "ARG_DIFF_SCALE": 255,
    "ARG_DIFF_SHIFT": 256,
    "ARG_ATTR_ROUNDING_SEED": 508,
    "ARG_ATTR_OUTPUT_SCALES": 513,
    "ARG_MULTIPLE_SRC": 1024,
    "ARG_MULTIPLE_DST": 2048,
    "ARG_ATTR_SCALES": 4096,
    "ARG_ATTR_ZERO_POINTS": 8192,
    "ARG_ATTR_POST_OP_DW": 16384,
    "ARG_SRC_LAYER": 1,
    "ARG_SRC_ITER": 2,
    "ARG_SRC_ITER_C": 3,
    "ARG_DST_LAYER": 17,
    "ARG_DST_ITER": 18,
    "ARG_DST_ITER_C": 19,
    "ARG_WEIGHTS_LAYER": 33,
    "ARG_WEIGHTS_ITER": 34,
    "ARG_DIFF_SRC_LAYER": 129,
    "ARG_DIFF_SRC_ITER": 130,
    "ARG_DIFF_SRC_ITER_C": 131,
    "ARG_DIFF_DST_LAYER": 145,
    "ARG_DIFF_DST_ITER": 146,
    "ARG_DIFF_DST_ITER_C": 147,
    "ARG_DIFF_WEIGHTS_LAYER": 161,
    "ARG_DIFF_WEIGHTS_ITER": 162,
}


@pytest.mark.parametrize(("name", "number"), NUMBERS.items(), ids=NUMBERS)
def test_each_argument_has_the_number_of_the_documents(name, number):
    assert getattr(rs, name) == number


def test_no_argument_number_is_left_untested():
    assert {f"ARG_{name}" for name in rs.onednn.Arg.__members__} == set(NUMBERS)


def test_operands_of_post_ops_count_from_32768():
    assert [rs.arg_attr_multiple_post_op(i) for i in range(3)] == [32768, 65536, 98304]


def test_flags_combine_with_the_argument_they_are_about():
    assert rs.ARG_ATTR_SCALES | rs.ARG_SRC == 4097
    assert rs.ARG_ATTR_SCALES | rs.ARG_DST == 4113
    assert rs.ARG_ATTR_ZERO_POINTS | rs.ARG_SRC == 8193
    assert rs.ARG_ATTR_ZERO_POINTS | rs.ARG_DST == 8209


def test_messages_name_numbers_by_the_first_name_of_the_documents():
    assert name_of(1) == "1 (ARG_SRC)"
    assert name_of(17) == "17 (ARG_DST)"
    assert name_of(513) == "513 (ARG_ATTR_OUTPUT_SCALES)"
    assert set(NAMES) == set(NUMBERS.values())


@pytest.mark.parametrize("stranger", [0, -1, 99, 10**400, "17", None, 1.5, b"x"])
def test_messages_show_what_is_no_argument_number(stranger):
    assert len(name_of(stranger)) < 100


def test_messages_show_values_that_cannot_be_printed():
    class Unprintable:
        def __repr__(self):
            raise ValueError("no text")

    assert name_of(Unprintable()) == "<Unprintable>"
