"""Primitives as oneDNN has them: making them, and asking them."""

import numpy as np
import pytest

import restride as rs
from support.by_offset import attr_of
from support.errors import refused
from support.primitives import BLOCKED, CPU, NCHW, PD, REF, STREAM, desc, pair

# The surface


def test_every_way_to_make_a_primitive_gives_the_same_one():
    src, dst = pair()
    src.data[:] = np.arange(src.data.size)
    made = [
        rs.Reorder(src, dst),
        rs.Reorder(src, dst, rs.PrimitiveAttr()),
        rs.Reorder(src, dst, attr=rs.PrimitiveAttr()),
        rs.Reorder(PD(src, dst)),
        rs.Reorder(PD(src, dst, rs.PrimitiveAttr(), False)),
        rs.Reorder(PD(CPU, NCHW, CPU, BLOCKED)),
        rs.Reorder(PD(CPU, NCHW, CPU, BLOCKED, rs.PrimitiveAttr(), True)),
        rs.Reorder(PD(CPU, NCHW, CPU, BLOCKED, attr=None, allow_empty=True)),
    ]
    wanted = None
    for r in made:
        assert r
        dst.data[:] = np.nan
        r.execute(STREAM, src, dst)
        wanted = dst.data.copy() if wanted is None else wanted
        np.testing.assert_array_equal(dst.data, wanted)
        assert r.get_primitive_desc().src_desc() == NCHW


def test_queries_answer_what_was_asked_for():
    pd = PD(CPU, NCHW, CPU, BLOCKED, attr_of(0.5, 2.0))
    assert pd
    assert (pd.src_desc(), pd.dst_desc()) == (NCHW, BLOCKED)
    assert pd.get_engine() is pd.get_src_engine() is pd.get_dst_engine() is pd.scratchpad_engine() is CPU
    assert pd.get_kind() == "reorder"
    assert pd.impl_info_str.startswith("jit:")
    assert pd.scratchpad_desc().is_zero()
    assert pd.query_s64("memory_consumption_s64") == 0
    attr = pd.get_primitive_attr()
    assert attr.get_output_scales() == (0, [0.5])
    assert attr.get_post_ops().get_params_sum(0)[0] == 2.0
    assert PD(REF, NCHW, REF, BLOCKED).impl_info_str == "ref:any"


def test_each_query_of_a_descriptor_has_a_name_that_begins_with_get():
    user = rs.PrimitiveAttr()
    user.set_scratchpad_mode("user")
    concat = rs.Concat.PrimitiveDesc(CPU, 1, [NCHW, NCHW], attr=user)
    for pd in (PD(CPU, NCHW, CPU, BLOCKED), PD(), concat):
        for name in ("src", "dst", "weights", "diff_src", "diff_dst", "diff_weights"):
            for index in (0, 1, 7, -1):
                assert getattr(pd, f"get_{name}_desc")(index) == getattr(pd, f"{name}_desc")(index)
            assert getattr(pd, f"get_{name}_desc")() == getattr(pd, f"{name}_desc")()
        assert (pd.get_workspace_desc(), pd.get_scratchpad_desc()) == (
            pd.workspace_desc(),
            pd.scratchpad_desc(),
        )
    assert concat.get_src_desc(1) == NCHW


def test_descriptors_are_found_by_name_and_by_argument():
    pd = PD(CPU, NCHW, CPU, BLOCKED)
    assert pd.query_md("src") == pd.query_md("src", 0) == pd.query_md("exec_arg_md", rs.ARG_FROM) == NCHW
    assert pd.query_md("dst") == pd.query_md("exec_arg_md", rs.ARG_TO) == BLOCKED


@pytest.mark.parametrize(
    ("what", "index"),
    [
        ("src", 1),
        ("dst", -1),
        ("weights", 0),
        ("diff_src", 0),
        ("diff_dst", 0),
        ("diff_weights", 0),
        ("workspace", 0),
        ("scratchpad", 0),
        ("exec_arg_md", 0),
        ("exec_arg_md", rs.ARG_WEIGHTS),
        ("exec_arg_md", rs.ARG_SCRATCHPAD),
    ],
)
def test_what_a_reorder_has_not_is_the_zero_descriptor(what, index):
    assert PD(CPU, NCHW, CPU, BLOCKED).query_md(what, index).is_zero()


@pytest.mark.parametrize("what", ["", "sources", None, 3, ["src"], {}])
def test_queries_that_do_not_exist_are_refused(what):
    pd = PD(CPU, NCHW, CPU, BLOCKED)
    with pytest.raises(rs.InvalidArguments, match="unknown query"):
        pd.query_md(what)
    with pytest.raises(rs.InvalidArguments, match="unknown query"):
        pd.query_s64(what)


@pytest.mark.parametrize("index", ["0", None, 0.0, [0], True])
def test_an_index_that_is_no_integer_is_refused(index):
    with pytest.raises(rs.InvalidArguments, match="index"):
        PD(CPU, NCHW, CPU, BLOCKED).query_md("src", index)


def test_attributes_are_copied_when_the_descriptor_is_made():
    attr = attr_of(0.5, 0.0)
    pd = PD(CPU, NCHW, CPU, NCHW, attr)
    attr.set_output_scales(0, [100.0])
    ops = rs.PostOps()
    ops.append_sum(9.0)
    attr.set_post_ops(ops)
    pd.get_primitive_attr().set_output_scales(0, [7.0])
    src, dst = pair(NCHW, NCHW)
    src.data[:], dst.data[:] = 2.0, 1000.0
    rs.Reorder(pd).execute(STREAM, src, dst)
    assert (dst.data == 1.0).all()
    assert pd.get_primitive_attr().get_output_scales() == (0, [0.5])


def test_post_ops_are_copied_when_attributes_take_them():
    ops, attr = rs.PostOps(), rs.PrimitiveAttr()
    attr.set_post_ops(ops)
    ops.append_sum(5.0)
    assert len(PD(CPU, NCHW, CPU, NCHW, attr).get_primitive_attr().get_post_ops()) == 0


def test_user_scratchpads_need_no_memory():
    attr = rs.PrimitiveAttr()
    attr.set_scratchpad_mode("user")
    src, dst = pair()
    pd = PD(src, dst, attr)
    assert pd.query_s64("memory_consumption_s64") == 0
    r = rs.Reorder(pd)
    pad = rs.Memory(desc((1,), "u8", "a"), CPU)
    r.execute(STREAM, {rs.ARG_FROM: src, rs.ARG_TO: dst, rs.ARG_SCRATCHPAD: pad})
    r.execute(STREAM, {rs.ARG_FROM: src, rs.ARG_TO: dst, rs.ARG_SCRATCHPAD: None})


def test_reorders_between_the_host_engines_work():
    for src_engine, dst_engine in ((CPU, REF), (REF, CPU)):
        src, dst = rs.Memory(NCHW, src_engine), rs.Memory(BLOCKED, dst_engine)
        src.data[:] = np.arange(src.data.size)
        pd = PD(src, dst)
        assert (pd.get_src_engine(), pd.get_dst_engine()) == (src_engine, dst_engine)
        rs.Reorder(pd).execute(rs.Stream(pd.get_engine()), src, dst)
        np.testing.assert_array_equal(dst.to_numpy(), src.to_numpy())


def test_only_sycl_streams_have_events():
    src, dst = pair()
    with refused("execute_sycl", "SYCL"):
        rs.Reorder(src, dst).execute_sycl(STREAM, src, dst)


def test_printing_tells_what_it_is():
    assert repr(PD()) == "restride.Reorder.PrimitiveDesc()"
    shown = repr(rs.Reorder(PD(CPU, NCHW, CPU, BLOCKED)))
    assert str(NCHW) in shown
    assert str(BLOCKED) in shown


# Empty ones

ANY = desc((2, 17, 3, 5), "f32", "any")
IMPOSSIBLE = [
    (CPU, NCHW, CPU, desc((2, 17, 3), "f32", "abc")),
    (CPU, NCHW, CPU, desc((2, 16, 3, 5), "f32", "nchw")),
    (CPU, ANY, CPU, NCHW),
    (CPU, rs.MemoryDesc(), CPU, NCHW),
    (CPU, NCHW, CPU, rs.MemoryDesc()),
    (CPU, NCHW, CPU, rs.MemoryDesc.from_strides(NCHW.dims, "f32", (0, 15, 5, 1))),
    (CPU, desc((rs.RUNTIME_DIM, 16, 3, 5), "f32", "nchw"), CPU, NCHW),
    (CPU, NCHW, CPU, NCHW, "no attributes"),
    (CPU, NCHW),
    ("cpu", NCHW, CPU, NCHW),
    (CPU, NCHW, CPU, (2, 17, 3, 5)),
    (CPU, NCHW, CPU, None),
    (None, None, None, None),
    (1, 2, 3, 4, 5, False, 7),
    (rs.Memory(), rs.Memory()),
    (rs.Memory(NCHW, CPU), NCHW),
    (rs.Memory(NCHW, CPU),),
]


@pytest.mark.parametrize("args", IMPOSSIBLE, ids=range(len(IMPOSSIBLE)))
def test_allow_empty_gives_an_empty_descriptor_for_every_failure(args):
    with pytest.raises(rs.Error) as caught:
        PD(*args)
    assert caught.value.why
    pd = PD(*args, allow_empty=True)
    assert not pd
    assert pd.src_desc().is_zero()
    assert pd.dst_desc().is_zero()
    with refused("empty"):
        rs.Reorder(pd)


@pytest.mark.parametrize("value", ["banana", 2, None])
@pytest.mark.parametrize("fits", [True, False])
def test_allow_empty_that_is_neither_yes_nor_no_is_refused_whatever_the_problem(value, fits):
    md = NCHW if fits else desc((1,), "f32", "a")
    for make in (
        lambda: PD(CPU, NCHW, CPU, md, None, value),
        lambda: PD(CPU, NCHW, CPU, md, allow_empty=value),
    ):
        with pytest.raises(rs.InvalidArguments, match="allow_empty"):
            make()


def test_allow_empty_may_be_given_by_position():
    assert not PD(CPU, ANY, CPU, NCHW, None, True)
    assert not PD(rs.Memory(NCHW, CPU), rs.Memory(desc((3,), "f32", "a"), CPU), None, True)


def test_an_empty_descriptor_has_no_engine_no_attributes_and_no_implementation():
    pd = PD()
    assert not pd
    assert pd.src_desc() == pd.dst_desc() == pd.query_md("src") == pd.scratchpad_desc() == rs.MemoryDesc()
    for ask in (
        lambda: pd.impl_info_str,
        pd.get_engine,
        pd.get_src_engine,
        pd.get_dst_engine,
        pd.get_primitive_attr,
    ):
        with refused("empty"):
            ask()


def test_an_empty_primitive_executes_nothing():
    r = rs.Reorder()
    src, dst = pair()
    assert not r
    for args in ((src, dst), ({rs.ARG_FROM: src, rs.ARG_TO: dst},), (None, None), ({},)):
        with refused("the primitive is empty"):
            r.execute(STREAM, *args)
    with refused("empty"):
        r.execute_sycl(STREAM, src, dst)


def test_attributes_given_twice_are_refused():
    attr, (src, dst) = attr_of(0.5, 0.0), pair()
    for make in (
        lambda: PD(CPU, NCHW, CPU, NCHW, attr, attr=attr),
        lambda: PD(src, dst, attr, attr=attr),
        lambda: rs.Reorder(PD(src, dst), attr=attr),
    ):
        with refused("attr"):
            make()
