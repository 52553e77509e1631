"""Execution-argument maps: every wrong use has an error of its own, before anything is written."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.by_offset import POISON
from support.errors import refused
from support.primitives import BLOCKED, CPU, NCHW, PD, STREAM, desc, pair

FROM, TO = rs.ARG_FROM, rs.ARG_TO


def poisoned(attr=None):
    src, dst = pair()
    dst.data.view(np.uint8)[:] = POISON
    return rs.Reorder(PD(CPU, NCHW, CPU, BLOCKED, attr)), src, dst


def check_refused(args, *texts, attr=None):
    """`args(src, dst)` is refused, and the destination untouched."""
    primitive, src, dst = poisoned(attr)
    with refused("Reorder.execute", *texts):
        primitive.execute(STREAM, args(src, dst))
    assert (dst.data.view(np.uint8) == POISON).all()


# Missing


@pytest.mark.parametrize(
    ("args", "texts"),
    [
        (lambda s, d: {}, ("bad number of inputs (expected 1 got 0)", "1 (ARG_SRC) is missing")),
        (lambda s, d: {TO: d}, ("bad number of inputs (expected 1 got 0)", "1 (ARG_SRC) is missing")),
        (lambda s, d: {FROM: s}, ("bad number of outputs (expected 1 got 0)", "17 (ARG_DST) is missing")),
        (lambda s, d: {rs.ARG_DIFF_DST: s, TO: d}, ("bad number of inputs (expected 1 got 0)",)),
    ],
    ids=["all", "the input", "the output", "the input under another number"],
)
def test_what_is_missing_is_named(args, texts):
    check_refused(args, *texts)


def test_what_an_attribute_asks_for_is_named_by_its_flags():
    attr, ops = rs.PrimitiveAttr(), rs.PostOps()
    attr.set_scales(rs.ARG_SRC, 0)
    ops.append_sum(1.0)
    ops.append_binary("add", NCHW)
    attr.set_post_ops(ops)
    scale = rs.Memory(desc((1,), "f32", "a"), CPU)
    scale.data[:] = 1.0
    scales = rs.ARG_ATTR_SCALES | rs.ARG_SRC
    both = "bad number of inputs (expected 3 got 1)"
    check_refused(lambda s, d: {FROM: s, TO: d}, both, "4097 (ARG_ATTR_SCALES | ARG_SRC)", attr=attr)
    one = "bad number of inputs (expected 3 got 2)"
    operand = "65538 (arg_attr_multiple_post_op(1) | ARG_SRC_1) is missing"
    check_refused(lambda s, d: {FROM: s, TO: d, scales: scale}, one, operand, attr=attr)
    scale_name = "rs.onednn.Arg.ATTR_SCALES | rs.onednn.Arg.SRC"
    hint = f"{scale_name}: ..., rs.onednn.arg_attr_multiple_post_op(1) | rs.onednn.Arg.SRC_1: ..."
    check_refused(lambda s, d: {FROM: s, TO: d}, hint, attr=attr)


# Too many

OUTPUTS = {
    "a second destination": rs.ARG_DST_1,
    "a third": rs.ARG_DST_2,
    "the last of them": 32,
    "a gradient": rs.ARG_DIFF_SRC,
    "of weights": rs.ARG_DIFF_WEIGHTS,
    "of a bias": rs.ARG_DIFF_BIAS,
    "of a scale": 255,
    "of a shift": 256,
    "one of many": rs.ARG_MULTIPLE_DST,
    "another of many": rs.ARG_MULTIPLE_DST + 7,
}


@pytest.mark.parametrize("number", OUTPUTS.values(), ids=OUTPUTS)
def test_an_output_that_the_primitive_has_not_is_refused(number):
    texts = "bad number of outputs (expected 1 got 2)", f"{number}", "this primitive has no output"
    check_refused(lambda s, d: {FROM: s, TO: d, number: d}, *texts)


INPUTS = (
    *(rs.ARG_SRC_1, rs.ARG_WEIGHTS, rs.ARG_BIAS, rs.ARG_WORKSPACE, rs.ARG_SCRATCHPAD, rs.ARG_DIFF_DST),
    *(rs.ARG_MULTIPLE_SRC, rs.ARG_ATTR_SCALES | rs.ARG_SRC, rs.ARG_ATTR_SCALES | rs.ARG_DST),
    *(rs.ARG_ATTR_ZERO_POINTS | rs.ARG_DST, rs.ARG_ATTR_OUTPUT_SCALES, rs.ARG_ATTR_ROUNDING_SEED),
    *(rs.arg_attr_multiple_post_op(0) | rs.ARG_SRC_1, 99, 2**31 - 1),
)


@pytest.mark.parametrize("number", INPUTS)
@pytest.mark.parametrize("what", [None, "no memory"])
def test_an_input_that_the_primitive_has_not_is_ignored(number, what):
    primitive, src, dst = poisoned()
    src.data[:] = 1.0
    primitive.execute(STREAM, {FROM: src, TO: dst, number: what})
    assert dst.data[0] == 1.0


def test_what_is_ignored_is_noted_by_its_name(capsys):
    primitive, src, dst = poisoned()
    with rs.set_verbose("check"):
        primitive.execute(STREAM, {FROM: src, rs.ARG_ATTR_SCALES | rs.ARG_DST: src, TO: dst, 99: src})
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("restride_verbose,v1,primitive,exec:check,")
    assert "ignored arguments 4113 (ARG_ATTR_SCALES | ARG_DST) 99" in line


def test_the_note_names_engine_and_kind(capsys):
    md = desc((2, 12), "f32", "ab")
    src, dst = rs.Memory(md, CPU), rs.Memory(md, CPU)
    shuffle = rs.ShuffleForward(rs.ShuffleForward.PrimitiveDesc(CPU, "forward", md, md, 1, 4))
    adding = rs.Sum(rs.Sum.PrimitiveDesc(CPU, None, [md]))
    with rs.set_verbose("check"):
        shuffle.execute(STREAM, {rs.ARG_SRC: src, rs.ARG_DST: dst, rs.ARG_SRC_1: src})
        adding.execute(STREAM, {rs.ARG_MULTIPLE_SRC: src, rs.ARG_DST: dst, 99: src})
    lines = [line for line in capsys.readouterr().err.splitlines() if ",exec:check," in line]
    assert [line.split(",")[3:6] for line in lines] == [
        ["exec:check", "cpu", "shuffle"],
        ["exec:check", "cpu", "sum"],
    ]


# Twice, and what is no number


@pytest.mark.parametrize("number", [FROM, TO, rs.ARG_WEIGHTS])
@pytest.mark.parametrize("other", ["the same", None])
def test_an_argument_given_twice_is_refused(number, other):
    def args(src, dst):
        again = src if other else None
        return [(FROM, src), (TO, dst), (rs.ARG_WEIGHTS, src), (number, again)]

    check_refused(args, f"The same argument kind {number} is passed multiple times")


def test_names_of_one_number_are_one_argument():
    check_refused(lambda s, d: [(FROM, s), (rs.ARG_SRC_0, s), (TO, d)], "kind 1 is passed multiple times")


@pytest.mark.parametrize("number", [0, -1, -17, -(2**70)])
def test_numbers_that_name_nothing_are_refused(number):
    check_refused(lambda s, d: {FROM: s, TO: d, number: s}, "argument numbers start at 1")


@pytest.mark.parametrize("number", ["1", 1.0, True, None, b"1", (1,), rs.DataType.f16], ids=repr)
def test_what_is_no_number_is_refused(number):
    check_refused(lambda s, d: {number: s, TO: d}, "argument number")


@pytest.mark.parametrize("args", [None, 5, "FROM", [1, 2], [(1,)], {1}, NCHW], ids=lambda a: type(a).__name__)
def test_what_is_no_map_is_refused(args):
    check_refused(lambda s, d: args)


# Wrong memories, named by their arguments


@pytest.mark.parametrize("argument", [FROM, TO])
@pytest.mark.parametrize(
    "wrong", [None, 7, "memory", np.zeros(510, "f4"), NCHW], ids=lambda w: type(w).__name__
)
def test_what_is_no_memory_is_refused_by_the_name_of_its_argument(argument, wrong):
    name = "src" if argument == FROM else "dst"
    check_refused(lambda s, d: {FROM: s, TO: d, argument: wrong}, f"{name} is not valid", "an rs.Memory")


def test_an_input_that_shares_bytes_with_the_destination_is_refused():
    attr = rs.PrimitiveAttr()
    attr.set_scales(rs.ARG_SRC, 0)
    primitive, src, _ = poisoned(attr)
    room = np.full(BLOCKED.size, POISON, np.uint8)
    dst = rs.Memory(BLOCKED, CPU, room)
    scale = rs.Memory(desc((1,), "f32", "a"), CPU, room[-4:])
    with refused("4097 (ARG_ATTR_SCALES | ARG_SRC) overlaps the destination", "(N9)"):
        primitive.execute(STREAM, {FROM: src, TO: dst, rs.ARG_ATTR_SCALES | rs.ARG_SRC: scale})
    assert (room == POISON).all()


def test_memories_that_are_exchanged_are_refused():
    check_refused(lambda s, d: {FROM: d, TO: s}, "src is not valid", "its descriptor is not the primitive's")
