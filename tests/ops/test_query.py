"""Queries of primitive descriptors: members, words, and the zero descriptor for all else."""

from __future__ import annotations

import pickle

import pytest

import restride as rs
from support.errors import refused
from support.primitives import BLOCKED, CPU, NCHW, PD, desc

MD = PD(CPU, NCHW, CPU, BLOCKED)
OF_MD = {
    "src": 129,
    "diff_src": 130,
    "weights": 131,
    "diff_weights": 132,
    "dst": 133,
    "diff_dst": 134,
    "workspace": 135,
    "scratchpad": 136,
}
OF_INTEGERS = {
    "num_of_inputs_s32": 3,
    "num_of_outputs_s32": 4,
    "memory_consumption_s64": 6,
    "cache_blob_id_size_s64": 12,
    "axis_s32": 23,
    "local_size_s64": 24,
    "group_size_s64": 32,
}
THERE = {"src": NCHW, "dst": BLOCKED}


@pytest.mark.parametrize(("name", "number"), OF_MD.items(), ids=OF_MD)
def test_a_descriptor_is_asked_for_by_member_word_and_method(name, number):
    member = rs.Query[f"{name}_md"]
    assert member == number
    wanted = THERE.get(name, rs.MemoryDesc())
    for what in (member, f"{name}_md", name):
        assert MD.query_md(what) == MD.query_md(what, 0) == wanted
        assert MD.query_md(what, 1).is_zero()
        assert PD().query_md(what).is_zero()
    assert getattr(MD, f"{name}_desc")() == wanted
    assert getattr(PD(), f"{name}_desc")().is_zero()


@pytest.mark.parametrize("name", [name for name in OF_MD if name not in ("workspace", "scratchpad")])
@pytest.mark.parametrize("index", [-1, 1, 2**40])
def test_another_index_gives_the_zero_descriptor(name, index):
    assert getattr(MD, f"{name}_desc")(0) == THERE.get(name, rs.MemoryDesc())
    assert getattr(MD, f"{name}_desc")(index).is_zero()
    with refused("index"):
        getattr(MD, f"{name}_desc")("0")


def test_arguments_are_asked_for_by_their_number():
    for what in (rs.Query.exec_arg_md, "exec_arg_md"):
        assert MD.query_md(what, rs.ARG_FROM) == NCHW
        assert MD.query_md(what, rs.ARG_TO) == BLOCKED
        assert MD.query_md(what, rs.ARG_SCRATCHPAD).is_zero()
        assert MD.query_md(what).is_zero()


@pytest.mark.parametrize(("name", "number"), OF_INTEGERS.items(), ids=OF_INTEGERS)
def test_an_integer_is_asked_for_by_member_and_word_and_is_0_where_there_is_none(name, number):
    member = rs.Query[name]
    assert member == number
    wanted = {"num_of_inputs_s32": 1, "num_of_outputs_s32": 1}.get(name, 0)
    assert MD.query_s64(member) == MD.query_s64(name) == wanted
    assert PD().query_s64(member) == 0


def test_inputs_count_what_an_execution_must_bring():
    attr, ops = rs.PrimitiveAttr(), rs.PostOps()
    attr.set_scales(rs.ARG_SRC, 0)
    ops.append_binary("add", NCHW)
    attr.set_post_ops(ops)
    pd = PD(CPU, NCHW, CPU, BLOCKED, attr)
    assert pd.query_s64(rs.Query.num_of_inputs_s32) == 3
    assert pd.query_md("exec_arg_md", rs.ARG_ATTR_SCALES | rs.ARG_SRC) == desc((1,), "f32", "a")
    operand = rs.arg_attr_multiple_post_op(0) | rs.ARG_SRC_1
    assert pd.query_md("exec_arg_md", operand) == NCHW


@pytest.mark.parametrize(
    "what",
    [rs.Query.undef, rs.Query.some_md, rs.Query.engine, "some_md", "exec_arg", "SRC", 129, 133.0, True],
)
def test_what_is_no_query_of_a_descriptor_is_refused(what):
    with refused("unknown query"):
        MD.query_md(what)


@pytest.mark.parametrize("what", [rs.Query.src_md, rs.Query.epsilon_f32, "axis", 6, 6.0, True])
def test_what_is_no_query_of_an_integer_is_refused(what):
    with refused("unknown query", "memory_consumption_s64"):
        MD.query_s64(what)


def test_members_travel():
    assert all(pickle.loads(pickle.dumps(query)) is query for query in rs.Query)
