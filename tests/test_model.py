"""The programming model as a whole: primitives, memories, threads, streams (P01 to P05, P17, R02, R03)."""

import itertools
import threading

import numpy as np
import pytest

import restride as rs
from restride import settings
from restride.runtime.stream import StreamFlags
from support.primitives import BLOCKED, CPU, NCHW, PD, REF, STREAM, desc, pair

QUERIES = ["src", "dst", "weights", "diff_src", "diff_dst", "diff_weights", "workspace", "scratchpad"]


# --- primitives (P01, P02) ------------------------------------------------------------------------------


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


# --- streams (P04, P05) ---------------------------------------------------------------------------------


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
    """What an empty one could not do, it cannot be asked for."""
    with pytest.raises(TypeError):
        make()


# --- queries (R02, R03) ---------------------------------------------------------------------------------


@pytest.mark.parametrize("what", QUERIES)
@pytest.mark.parametrize("index", [-1, 0, 1, 17, 2**70])
def test_only_the_first_source_and_destination_are_there(what, index):
    there = {"src": NCHW, "dst": BLOCKED} if index == 0 else {}
    assert PD(CPU, NCHW, CPU, BLOCKED).query_md(what, index) == there.get(what, rs.MemoryDesc())
    assert PD().query_md(what, index).is_zero()


def test_memories_by_argument_are_those_that_execute_takes():
    pd = PD(CPU, NCHW, CPU, BLOCKED)
    names = [name for name in rs.__all__ if name.startswith("ARG_")]
    there = {name: pd.query_md("exec_arg_md", getattr(rs, name)) for name in names}
    wanted = dict.fromkeys(("ARG_FROM", "ARG_SRC", "ARG_SRC_0"), NCHW)
    wanted |= dict.fromkeys(("ARG_TO", "ARG_DST", "ARG_DST_0"), BLOCKED)
    assert {name: md for name, md in there.items() if md} == wanted


def test_the_descriptor_of_a_primitive_tells_whether_a_reorder_is_needed():
    """A user compares what a primitive wants with what there is (M31)."""
    pd = PD(CPU, NCHW, CPU, BLOCKED)
    assert pd.src_desc() != pd.dst_desc()
    assert pd.dst_desc() == desc(NCHW.dims, rs.f32, "aBcd16b")


# --- the environment (P17) ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["VERBOSE", "VERBOSE_TIMESTAMP", "PRIMITIVE_CACHE_CAPACITY", "MAX_CPU_ISA"])
def test_variables_of_onednn_are_read_by_both_of_its_prefixes(monkeypatch, name):
    for prefix in ("RESTRIDE_", "ONEDNN_", "DNNL_"):
        monkeypatch.delenv(prefix + name, raising=False)
    monkeypatch.setenv(f"DNNL_{name}", "1")
    assert settings.lookup(name) == "1"
    monkeypatch.setenv(f"ONEDNN_{name}", "2")
    assert settings.lookup(name) == "2"
