"""The programming model as a whole, rule by rule.

Where a rule has a page of its own: maps of arguments in test_argument_map, scratchpads in test_scratchpad,
queries in test_query, the cache in test_cache, pickles in test_pickling, numbers in test_numbers, post-ops in
test_post_ops, threads and forks in faults/test_shared_primitives.
"""

import itertools
import pickle
import threading

import numpy as np
import pytest

import restride as rs
from restride import settings
from restride.runtime.stream import StreamFlags
from support.errors import refused
from support.primitives import BLOCKED, CPU, NCHW, PD, REF, STREAM, desc, pair

QUERIES = ["src", "dst", "weights", "diff_src", "diff_dst", "diff_weights", "workspace", "scratchpad"]


# --- primitives ------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["library", "user"])
@pytest.mark.parametrize("engine", [CPU, REF], ids=str)
def test_eight_threads_run_one_primitive_in_both_scratchpad_modes(mode, engine):
    attr = rs.PrimitiveAttr()
    attr.set_scratchpad_mode(mode)
    reorder, stream = rs.Reorder(PD(engine, NCHW, engine, BLOCKED, attr)), rs.Stream(engine)
    memories = [pair(engine=engine) for _ in range(8)]
    for i, (src, _) in enumerate(memories):
        src.data[:] = np.arange(src.data.size) + 1000 * i
    workers = [threading.Thread(target=reorder.execute, args=(stream, *both)) for both in memories]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for src, dst in memories:
        np.testing.assert_array_equal(dst.to_numpy(), src.to_numpy())


def test_one_primitive_may_be_shared_by_streams():
    reorder, (src, dst) = rs.Reorder(*pair()), pair()
    src.data[:] = np.arange(src.data.size)
    for stream in (STREAM, rs.Stream(CPU), rs.Stream(CPU, "default_order")):
        dst.data[:] = np.nan
        reorder.execute(stream, src, dst)
        np.testing.assert_array_equal(dst.to_numpy(), src.to_numpy())


def test_one_primitive_runs_on_any_memories_of_its_descriptors():
    """The immutable part is made once; nothing of a run is kept."""
    reorder = rs.Reorder(PD(CPU, NCHW, CPU, BLOCKED))
    pairs = [pair() for _ in range(5)]
    for value, (src, dst) in enumerate(pairs):
        src.data[:] = value
        reorder.execute(STREAM, src, dst)
    assert [float(dst.data[0]) for _, dst in pairs] == [0, 1, 2, 3, 4]


def test_a_primitive_says_what_it_is():
    reorder = rs.Reorder(PD(CPU, NCHW, CPU, BLOCKED))
    assert reorder.get_kind() == reorder.get_primitive_desc().get_kind() == "reorder"
    assert rs.Reorder().get_kind() == "reorder"
    assert reorder.get_primitive_desc().impl_info_str.split(":")[0] == "jit"
    assert PD(REF, NCHW, REF, BLOCKED).impl_info_str == "ref:any"


# --- engines --------------------------------------------------------------------------------------


def test_kinds_of_engines_are_counted_and_an_index_past_the_count_is_refused():
    for kind, number in (("any", 0), ("cpu", 1), ("gpu", 2)):
        count = rs.Engine.get_count(kind)
        assert rs.EngineKind[kind] == number
        assert count == rs.Engine.get_count(rs.EngineKind(number))
        with refused(f"there is no engine {kind}:{count}"):
            rs.Engine(kind, count)
    assert rs.Engine.get_count("cpu") == 1


# --- streams ---------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", [CPU, REF], ids=str)
def test_a_chain_on_one_stream_runs_in_the_order_of_its_calls(engine):
    nhwc = desc(NCHW.dims, "bf16", "nhwc")
    steps = [rs.Memory(md, engine) for md in (NCHW, BLOCKED, nhwc, NCHW)]
    steps[0].data[:] = np.arange(steps[0].data.size) % 256
    stream = rs.Stream(engine)
    for src, dst in itertools.pairwise(steps):
        rs.Reorder(src, dst).execute(stream, src, dst)
    assert stream.wait() is stream
    np.testing.assert_array_equal(steps[-1].data, steps[0].data)


@pytest.mark.parametrize(
    "flags", ["default_order", StreamFlags.default_order, StreamFlags.default_flags | StreamFlags.in_order]
)
def test_the_default_order_of_either_version_is_in_order(flags):
    assert rs.Stream(CPU, flags).flags is StreamFlags.in_order
    assert StreamFlags.default_order == 1


@pytest.mark.parametrize("make", [rs.Engine, rs.Stream])
def test_engines_and_streams_are_never_empty(make):
    """Engines and streams cannot be constructed without arguments."""
    with pytest.raises(TypeError):
        make()


@pytest.mark.parametrize("engine", [CPU, REF], ids=str)
@pytest.mark.parametrize("flags", [rs.StreamFlags.out_of_order, rs.StreamFlags(3), "in_order|out_of_order"])
def test_native_streams_refuse_out_of_order(engine, flags):
    with refused("executes in order"):
        rs.Stream(engine, flags)


# --- events and SYCL -----------------------------------------------------------------------


@pytest.mark.parametrize("engine", [CPU, REF], ids=str)
def test_an_engine_that_is_no_sycl_device_has_no_events(engine):
    src, dst = pair(engine=engine)
    with refused("execute_sycl", "not a SYCL device"):
        rs.Reorder(src, dst).execute_sycl(rs.Stream(engine), src, dst)


# --- nothing instead of an error -------------------------------------------------------------

EMPTY = {
    "descriptor by tag": lambda: rs.MemoryDesc((2, 3), "f32", "nchw", allow_empty=True),
    "descriptor by strides": lambda: rs.MemoryDesc((2, 3), "f32", (1, 1), allow_empty=True),
    "submemory": lambda: NCHW.submemory_desc((2, 17, 3, 5), (1, 0, 0, 0), allow_empty=True),
    "reshape": lambda: NCHW.reshape((7,), allow_empty=True),
    "permuted axes": lambda: NCHW.permute_axes((0, 0, 1, 2), allow_empty=True),
    "primitive descriptor": lambda: PD(CPU, NCHW, CPU, desc((5,), "f32", "a"), allow_empty=True),
    "by place": lambda: PD(CPU, NCHW, CPU, desc((5,), "f32", "a"), None, True),
    "of memories": lambda: PD(*pair(dst=desc((5,), "f32", "a")), allow_empty=True),
    "of memories, by place": lambda: PD(*pair(dst=desc((5,), "f32", "a")), None, True),
}


EMPTY |= {
    f"no arguments for {kind.kind}": lambda kind=kind: kind.PrimitiveDesc(allow_empty=True)
    for kind in (rs.Reorder, rs.Concat, rs.Sum, rs.ShuffleForward, rs.ShuffleBackward)
}


@pytest.mark.parametrize("make", EMPTY.values(), ids=EMPTY)
def test_allow_empty_gives_an_empty_object_for_every_failure(make):
    assert not make()


# --- post-ops -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "append",
    [
        lambda ops: ops.append_sum(0.5),
        lambda ops: ops.append_eltwise("relu"),
        lambda ops: ops.append_binary("add", NCHW),
    ],
    ids=["sum", "eltwise", "binary"],
)
def test_the_33rd_post_op_is_refused(append):
    ops = rs.PostOps()
    for _ in range(32):
        ops.append_eltwise("abs")
    with refused("32", kind=rs.OutOfMemory):
        append(ops)
    assert len(ops) == 32


def test_post_ops_run_in_the_order_in_which_they_were_appended():
    def after(*appends):
        ops, attr = rs.PostOps(), rs.PrimitiveAttr()
        for append in appends:
            append(ops)
        attr.set_post_ops(ops)
        src, dst = pair(NCHW, NCHW)
        src.data[:], dst.data[:] = -3.0, 10.0
        rs.Reorder(PD(src, dst, attr)).execute(STREAM, src, dst)
        return float(dst.data[0])

    def square(ops):
        ops.append_eltwise("square")

    def double(ops):
        ops.append_eltwise("linear", 2.0)

    assert after(square, double) == 18.0
    assert after(double, square) == 36.0
    assert after(lambda ops: ops.append_sum(1.0), square) == 49.0
    assert after(square, lambda ops: ops.append_sum(1.0)) == 19.0


# --- formats -------------------------------------------------------------------------------


def test_offsets_are_those_of_the_formulas():
    _, c, h, w = dims = (2, 17, 3, 5)
    whole = -(-c // 8) * 8
    nhwc, nchw, blocked = (desc(dims, "f32", tag) for tag in ("nhwc", "nchw", "nChw8c"))
    for i, j, k, m in itertools.product(*map(range, dims)):
        assert nhwc.offset(i, j, k, m) == i * h * w * c + k * w * c + m * c + j
        assert nchw.offset(i, j, k, m) == i * c * h * w + j * h * w + k * w + m
        in_block = i * whole * h * w + (j // 8) * h * w * 8 + k * w * 8 + m * 8 + j % 8
        assert blocked.offset(i, j, k, m) == in_block


def test_channels_are_rounded_up_to_blocks_and_the_tail_is_zero():
    md = desc((1, 17, 2, 2), "f32", "nChw16c")
    assert (md.padded_dims, md.size) == ((1, 32, 2, 2), 32 * 4 * 4)
    src, dst = rs.Memory(desc((1, 17, 2, 2), "f32", "nchw"), CPU), rs.Memory(md, CPU)
    src.data[:], dst.data[:] = 1.0, np.nan
    rs.Reorder(src, dst).execute(STREAM, src, dst)
    assert dst.data.sum() == src.data.sum() == 68.0


def test_the_recommended_format_is_one_of_the_machines_blocks():
    assert str(rs.recommended_desc(NCHW).tag) in ("aBcd8b", "aBcd16b")


# --- numbers -------------------------------------------------------------------------------

STATUS = (
    *("success", "out_of_memory", "invalid_arguments", "unimplemented", "last_impl_reached", "runtime_error"),
    *("not_required", "invalid_graph", "invalid_graph_op", "invalid_shape", "invalid_data_type"),
)
TYPES = (
    *("undef", "f16", "bf16", "f32", "s32", "s8", "u8", "f64", "boolean", "f8_e5m2", "f8_e4m3"),
    *("s4", "u4", "e8m0", "f4_e2m1", "f4_e3m0"),
)


def test_status_values_and_types_are_numbered_from_0_as_in_the_documents():
    assert [(status.name, status.value) for status in rs.Status] == [(n, i) for i, n in enumerate(STATUS)]
    kinds = [(kind.name, kind.value) for kind in rs.DataType]
    # Types of our own come behind those of the documents; tests/desc/test_dtypes.py has all of them.
    assert kinds[: len(TYPES)] == [(n, i) for i, n in enumerate(TYPES)]


def test_limits_and_placeholders_are_those_of_the_documents():
    assert rs.MAX_NDIMS == 12
    assert rs.RUNTIME_DIM == -(2**63)
    assert desc((1,) * 12, "f32", "abcdefghijkl").ndims == 12
    with refused("12"):
        desc((1,) * 13, "f32", None)


def test_an_error_carries_its_status_and_its_message():
    with pytest.raises(rs.Error) as caught:
        rs.Engine("gpu")
    assert caught.value.status is rs.Status.invalid_arguments
    assert caught.value.message == str(caught.value)


@pytest.mark.parametrize("name", ["f4_e2m1", "f4_e3m0"])
def test_small_floats_share_a_byte_by_two(name):
    md = desc((3, 5), name, "ab")
    assert (md.size, rs.MemoryDesc.from_json(md.to_json())) == (8, md)
    memory = rs.Memory(md, CPU, bytes(8))
    assert memory.data.dtype == np.uint8
    assert memory.data.size == 8


def test_small_floats_are_read_where_numpy_has_them():
    memory = rs.Memory(desc((3,), "f4_e2m1", "a"), CPU, bytes([0x21, 0x0F]))
    assert memory.to_numpy().astype("f4").tolist() == [0.5, 1.0, -6.0]
    with refused("f4_e3m0", kind=rs.Unimplemented):
        rs.Memory(desc((3,), "f4_e3m0", "a"), CPU).to_numpy()


# --- queries ---------------------------------------------------------------------------------


@pytest.mark.parametrize("what", QUERIES)
@pytest.mark.parametrize("index", [-1, 0, 1, 17, 2**70])
def test_only_the_first_source_and_destination_are_there(what, index):
    there = {"src": NCHW, "dst": BLOCKED} if index == 0 else {}
    assert PD(CPU, NCHW, CPU, BLOCKED).query_md(what, index) == there.get(what, rs.MemoryDesc())
    assert PD().query_md(what, index).is_zero()


def test_memories_by_argument_are_those_that_execute_takes():
    pd = PD(CPU, NCHW, CPU, BLOCKED)
    names = [f"ARG_{name}" for name in rs.onednn.Arg.__members__]
    there = {name: pd.query_md("exec_arg_md", getattr(rs, name)) for name in names}
    wanted = dict.fromkeys(("ARG_FROM", "ARG_SRC", "ARG_SRC_0", "ARG_SRC_LAYER"), NCHW)
    wanted |= dict.fromkeys(("ARG_TO", "ARG_DST", "ARG_DST_0", "ARG_DST_LAYER"), BLOCKED)
    assert {name: md for name, md in there.items() if md} == wanted


def test_the_descriptor_of_a_primitive_tells_whether_a_reorder_is_needed():
    """A user compares what a primitive wants with what there is."""
    pd = PD(CPU, NCHW, CPU, BLOCKED)
    assert pd.src_desc() != pd.dst_desc()
    assert pd.dst_desc() == desc(NCHW.dims, rs.f32, "aBcd16b")


# --- the environment ------------------------------------------------------------------------------


NAMES = (
    *("VERBOSE", "VERBOSE_TIMESTAMP", "PRIMITIVE_CACHE_CAPACITY"),
    *("MAX_CPU_ISA", "JIT_DUMP", "JIT_PROFILE"),
)


@pytest.mark.parametrize("name", NAMES)
def test_variables_of_onednn_are_read_by_both_of_its_prefixes(monkeypatch, name):
    for prefix in ("RESTRIDE_", "ONEDNN_", "DNNL_"):
        monkeypatch.delenv(prefix + name, raising=False)
    monkeypatch.setenv(f"DNNL_{name}", "1")
    assert settings.lookup(name) == "1"
    monkeypatch.setenv(f"ONEDNN_{name}", "2")
    assert settings.lookup(name) == "2"


# --- what travels ---------------------------------------------------------------------------------------


def test_everything_that_describes_work_travels_and_the_work_is_the_same():
    attr, ops = rs.PrimitiveAttr(), rs.PostOps()
    attr.set_scales(rs.ARG_SRC, 2, [0.5] * 17)
    attr.set_zero_points(rs.ARG_DST, 0, [3])
    attr.set_scratchpad_mode("user")
    ops.append_eltwise("relu")
    ops.append_binary("add", desc((1, 17, 1, 1), "f32", "nchw"))
    attr.set_post_ops(ops)
    dst = desc(NCHW.dims, "s8", "nChw16c")
    pd = PD(CPU, NCHW, CPU, dst, attr)
    memories = {rs.ARG_FROM: rs.Memory(NCHW, CPU), rs.ARG_TO: rs.Memory(dst, CPU)}
    memories[rs.arg_attr_multiple_post_op(1) | rs.ARG_SRC_1] = rs.Memory(ops.get_params_binary(1)[1], CPU)
    for memory in memories.values():
        memory.data[:] = np.arange(memory.data.size) % 100
    rs.Reorder(pd).execute(STREAM, memories)
    wanted = memories[rs.ARG_TO].data.copy()
    for value in (pd, attr, ops, rs.Reorder(pd), STREAM):
        again = pickle.loads(pickle.dumps(value))
        assert type(again) is type(value)
    again, attr_again = (pickle.loads(pickle.dumps(value)) for value in (rs.Reorder(pd), attr))
    assert attr_again.freeze() == attr.freeze()
    assert again.get_primitive_desc().get_primitive_attr().freeze() == attr.freeze()
    memories[rs.ARG_TO].data[:] = 0
    again.execute(STREAM, memories)
    np.testing.assert_array_equal(memories[rs.ARG_TO].data, wanted)


def test_a_primitive_that_travels_is_made_anew_here(capsys):
    sent = pickle.dumps(rs.Reorder(PD(CPU, NCHW, CPU, BLOCKED)))
    before = rs.cache_info()["primitives"]
    assert pickle.loads(sent)
    after = rs.cache_info()["primitives"]
    assert after.hits + after.misses - before.hits - before.misses == 1
