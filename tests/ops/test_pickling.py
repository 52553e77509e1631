"""Pickle and copy: frozen values stay equal, mutable ones are on their own, primitives are made anew."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.desc.attr import Attr
from restride.desc.layout import RUNTIME_DIM
from restride.desc.post_op_values import SumOp
from restride.desc.tags import parse_tag
from support.by_offset import attr_of
from support.primitives import BLOCKED, CPU, NCHW, PD, REF, STREAM, desc, pair

_PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)
WAYS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {n}": lambda value, n=n: pickle.loads(pickle.dumps(value, n)) for n in _PROTOCOLS},
}
every_way = pytest.mark.parametrize("again", WAYS.values(), ids=WAYS)

DESCRIPTORS = [
    rs.MemoryDesc(),
    desc((2, 3), "f32", "any"),
    desc((2, 17, 7, 7), "bf16", "nChw16c"),
    desc((2, 3), "s4", (8, 1)),
    desc((2, RUNTIME_DIM), "u8", "ba"),
    rs.MemoryDesc.from_strides((4, 2), "s8", (-2, 1), 6),
    desc((2, 40), "f32", "aB16b").submemory_desc((1, 8), (1, 32)),
    desc((2, 40), "f32", "aB16b").submemory_desc((1, 3), (1, 16)),
]


# --- values ---------------------------------------------------------------------------------------------


@every_way
@pytest.mark.parametrize("md", DESCRIPTORS, ids=range(len(DESCRIPTORS)))
def test_descriptors_stay_equal(md, again):
    other = again(md)
    assert other == md
    assert hash(other) == hash(md)
    assert (other.strides, other.size, str(other)) == (md.strides, md.size, str(md))
    with pytest.raises(AttributeError):
        other.note = 1


@every_way
@pytest.mark.parametrize(
    "value",
    [
        NCHW.layout,
        BLOCKED.layout,
        parse_tag("OIhw4i16o4i"),
        parse_tag("aBx16b"),
        Attr(),
        replace(Attr.common(0.5, 3, -0.0), scratchpad="user"),
        Attr.common(float("nan")),
        SumOp(2.0),
    ],
    ids=range(8),
)
def test_frozen_values_stay_equal(value, again):
    other = again(value)
    assert other == value
    assert hash(other) == hash(value)
    assert repr(other) == repr(value)


@every_way
@pytest.mark.parametrize(
    "value",
    [
        *rs.DataType,
        rs.FormatTag.nhwc,
        rs.FormatTag.any,
        CPU,
        REF,
        *rs.EngineKind,
        *rs.StreamFlags,
        rs.Status(3),
    ],
    ids=str,
)
def test_what_there_is_one_of_stays_the_one(value, again):
    assert again(value) is value


@every_way
def test_streams_stay_on_their_engine(again):
    other = again(STREAM)
    assert (other.engine, other.flags) == (CPU, rs.StreamFlags.in_order)
    assert other.engine is CPU


# --- what can change ------------------------------------------------------------------------------------


@every_way
def test_attributes_are_on_their_own(again):
    attr = attr_of(0.5, 2.0)
    attr.set_scratchpad_mode("user")
    other = again(attr)
    assert other.freeze() == attr.freeze()
    attr.set_output_scales(0, [9.0])
    attr.set_post_ops(rs.PostOps())
    assert other.get_output_scales() == (0, [0.5])
    assert other.get_post_ops().get_params_sum(0)[0] == 2.0
    assert other.get_scratchpad_mode() == "user"


@every_way
def test_post_ops_are_on_their_own(again):
    ops = rs.PostOps()
    other = again(ops)
    ops.append_sum(3.0)
    assert len(other) == 0
    assert again(ops) == ops


# --- primitives -----------------------------------------------------------------------------------------


@every_way
@pytest.mark.parametrize("engine", [CPU, REF], ids=str)
def test_descriptors_of_primitives_are_solved_anew(again, engine):
    pd = PD(engine, NCHW, engine, BLOCKED, attr_of(0.5, 1.0))
    made = again(pd)
    assert made
    assert (made.src_desc(), made.dst_desc()) == (NCHW, BLOCKED)
    assert made.get_engine() is made.get_src_engine() is engine
    assert made.get_primitive_attr().freeze() == pd.get_primitive_attr().freeze()
    assert made.impl_info_str == pd.impl_info_str
    assert not again(PD())


@every_way
@pytest.mark.parametrize("engine", [CPU, REF], ids=str)
def test_primitives_run_as_the_first_one_did(again, engine):
    src, dst = pair(engine=engine)
    src.data[:], dst.data[:] = np.arange(src.data.size), 1.0
    wanted = rs.Memory(BLOCKED, engine)
    wanted.data[:] = 1.0
    reorder = rs.Reorder(PD(engine, NCHW, engine, BLOCKED, attr_of(0.5, 1.0)))
    made = again(reorder)
    assert type(made) is rs.Reorder
    assert made
    reorder.execute(rs.Stream(engine), src, wanted)
    made.execute(rs.Stream(engine), src, dst)
    np.testing.assert_array_equal(dst.data, wanted.data)
    assert made.get_primitive_desc().src_desc() == NCHW


@every_way
def test_an_empty_primitive_stays_empty(again):
    assert not again(rs.Reorder())


_OTHER_PROCESS = """
import pickle, sys
import numpy as np
import restride as rs
reorder, src, dst = pickle.load(sys.stdin.buffer)
reorder.execute(rs.onednn.Stream(rs.Engine("cpu")), src, dst)
sys.stdout.buffer.write(dst.data.tobytes())
"""


def test_a_primitive_travels_to_another_process():
    src, dst = pair()
    src.data[:] = np.arange(src.data.size)
    reorder = rs.Reorder(src, dst)
    sent = pickle.dumps((reorder, src, dst))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _OTHER_PROCESS], input=sent, capture_output=True, timeout=600
    )
    assert done.returncode == 0, done.stderr.decode()
    reorder.execute(STREAM, src, dst)
    assert done.stdout == dst.data.tobytes()


def test_machine_code_does_not_travel():
    assert len(pickle.dumps(rs.Reorder(*pair()))) < 2000


def _attributes():
    plain, set_all = rs.PrimitiveAttr(), rs.PrimitiveAttr()
    set_all.set_scales(rs.ARG_SRC, 2, [0.5, float("nan")])
    set_all.set_zero_points(rs.ARG_DST, 0)
    ops = rs.PostOps()
    ops.append_sum(0.5)
    set_all.set_post_ops(ops)
    set_all.set_scratchpad_mode("user")
    set_all.set_fpmath_mode("bf16")
    set_all.set_compensation(1)
    return plain, set_all


@every_way
def test_attributes_that_travel_are_equal(again):
    for attr in _attributes():
        other = again(attr)
        assert other == attr
        assert other is not attr
        other.set_scales(rs.ARG_DST, 0, [3.0])
        assert other != attr


def test_attributes_are_equal_where_all_that_is_set_is():
    plain, set_all = _attributes()
    assert plain == rs.PrimitiveAttr()
    assert set_all == _attributes()[1]
    assert plain != set_all
    assert plain != "plain"
    neutral, moded = rs.PrimitiveAttr(), rs.PrimitiveAttr()
    neutral.set_scales(rs.ARG_SRC, 0, [1.0])
    assert neutral == plain
    moded.set_deterministic(True)
    assert moded != plain
    with pytest.raises(TypeError, match="unhashable"):
        hash(plain)


@pytest.mark.parametrize(
    "copied", [lambda pd: pickle.loads(pickle.dumps(pd)), copy.deepcopy], ids=["pickle", "copy"]
)
def test_copies_keep_tensors_that_differ(copied: Any) -> None:
    """Each argument has a type and a format of its own, so that none stands in for another."""
    engine = rs.Engine("cpu")
    first, second = rs.MemoryDesc((2, 3, 4), "f32", "abc"), rs.MemoryDesc((2, 3, 4), "f32", "cba")
    third = rs.MemoryDesc((2, 3, 4), "f16", "acb")
    pds = [
        rs.SoftmaxBackward.PrimitiveDesc(engine, "softmax_accurate", third, first, second, 1),
        rs.EltwiseBackward.PrimitiveDesc(engine, "eltwise_relu", third, first, second),
        rs.LRNBackward.PrimitiveDesc(engine, "lrn_across_channels", third, first, second, 3, 1.0, 0.75),
    ]
    for pd in pds:
        other = copied(pd)
        for what in ("src", "dst", "diff_src", "diff_dst"):
            assert other.query_md(what) == pd.query_md(what), (pd.kind, what)


def test_descriptors_do_not_keep_what_callers_may_change() -> None:
    engine, md = rs.Engine("cpu"), rs.MemoryDesc((2, 3), "f32", "ab")
    sources, scales = [md, md], [1.0, 2.0]
    joined, added = rs.Concat.PrimitiveDesc(engine, 0, sources), rs.Sum.PrimitiveDesc(engine, scales, sources)
    sources.append(md)
    scales[0] = 7.0
    assert pickle.loads(pickle.dumps(joined)).dst_desc().dims == (4, 3)
    assert pickle.loads(pickle.dumps(added)).get_scales() == [1.0, 2.0]
    assert pickle.loads(
        pickle.dumps(rs.Concat.PrimitiveDesc(engine, 0, (each for each in [md, md])))
    ).dst_desc()
