"""Functions on arrays where an engine has memory of its own: arrays of the host are brought there."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.runtime.transfer import from_host, share_with, to_host
from support.engines import from_numpy, run
from support.errors import refused
from support.sycl import on_device, sycl_engine

DIMS = (2, 17, 5, 3)
X = np.random.default_rng(3).standard_normal(DIMS).astype(np.float32)
SCALE = np.linspace(0.5, 20, 17, dtype=np.float32)
SHIFT = np.arange(17)
WANTED = np.clip(np.rint(X * SCALE[:, None, None] + SHIFT[:, None, None]), -128, 127).astype(np.int8)
QUANTIZED = {"dtype": "s8", "scale": SCALE, "zero_point": SHIFT, "axis": 1}


@pytest.fixture(scope="module")
def device():
    return sycl_engine()


def values(made):
    """The elements of a result, an array or a memory of any engine."""
    return made.to_numpy() if isinstance(made, rs.Memory) else made


# --- every engine -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dst", ["nhwc", "nChw16c", None, (255, 15, 3, 1)], ids=str)
def test_an_array_is_reordered_on_any_engine(engine, dst):
    for named in (engine, str(engine).rpartition(":")[0]):
        made = rs.reorder(X, dst, engine=named)
        np.testing.assert_array_equal(values(made), X)
        assert not isinstance(made, rs.Memory) or made.engine is engine


def test_scales_and_zero_points_are_brought_to_any_engine(engine):
    np.testing.assert_array_equal(values(rs.reorder(X, "nChw16c", engine=engine, **QUANTIZED)), WANTED)


def test_operands_are_brought_to_any_engine(engine):
    bias = np.arange(17, dtype=np.float32).reshape(17, 1, 1)
    made = rs.reorder(X, "nhwc", engine=engine, post_ops=[("add", bias), ("clip", 0, 9)])
    np.testing.assert_array_equal(values(made), np.clip(X + bias, 0, 9))


def test_an_out_of_the_host_is_written_by_any_engine(engine):
    out = np.full(DIMS, 7, np.int8)
    assert rs.reorder(X, None, out=out, engine=engine, **QUANTIZED) is out
    np.testing.assert_array_equal(out, WANTED)
    total = np.full(DIMS, 2.0, np.float32)
    rs.reorder(X, None, out=total, beta=3.0, engine=engine)
    np.testing.assert_array_equal(total, X + np.float32(6))


def test_a_read_only_array_is_brought_to_any_engine(engine):
    frozen = X.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(values(rs.reorder(frozen[:, ::-1], "nhwc", engine=engine)), X[:, ::-1])


def test_a_plan_is_of_any_engine(engine):
    plan = rs.plan(X, "nhwc", engine=engine, **QUANTIZED)
    assert plan.bytes_moved == X.size * 5
    text = str(plan)
    assert ("work-items" in text) is not engine.device.is_host
    measured = plan.measure(rounds=2)
    assert measured.seconds > 0
    assert plan.measured is measured


def test_a_memory_stays_on_its_engine(engine):
    memory = from_numpy(X, engine)
    for made in (
        rs.reorder(memory, "nChw16c"),
        memory.to("nChw16c"),
        rs.reorder(memory, "nChw16c", dtype="f64"),
    ):
        assert made.engine is engine
        np.testing.assert_array_equal(made.to_numpy(), X)


def test_quantize_finds_the_range_of_a_memory_anywhere(engine):
    q, scale, zero = rs.quantize(from_numpy(X, engine), axis=1)
    wanted = rs.quantize(X, axis=1)
    for made, right in zip((values(q), scale, zero), wanted, strict=True):
        np.testing.assert_array_equal(made, right)
    back = rs.dequantize(q, scale, axis=1)
    np.testing.assert_array_equal(values(back), rs.dequantize(wanted[0], scale, axis=1))


def test_memories_are_shuffled_and_joined_where_they_are(engine):
    memory = from_numpy(X[:, :16].copy(), engine)
    shuffled = values(rs.shuffle(memory, axis=1, group_size=4))
    np.testing.assert_array_equal(
        shuffled, X[:, :16].reshape(2, 4, 4, 5, 3).swapaxes(1, 2).reshape(2, 16, 5, 3)
    )
    joined = rs.concat([memory, X], 1)
    assert joined.engine is engine
    np.testing.assert_array_equal(values(joined), np.concatenate([X[:, :16], X], 1))
    np.testing.assert_array_equal(values(rs.add_n([memory, X[:, 1:]])), X[:, :16] + X[:, 1:])


# --- devices ------------------------------------------------------------------------------------------------


@pytest.mark.sycl
def test_results_of_a_device_are_memories_there(device):
    for made in (
        rs.reorder(X, "nhwc", engine=device),
        rs.concat([on_device(rs.Memory.from_numpy(X), device)], 0),
    ):
        assert isinstance(made, rs.Memory)
        assert made.engine is device


@pytest.mark.sycl
def test_a_memory_of_a_device_is_read_into_an_array(device):
    out = np.zeros(DIMS, np.float32)
    rs.reorder(on_device(rs.Memory.from_numpy(X), device), None, out=out)
    np.testing.assert_array_equal(out, X)
    there = rs.Memory(rs.MemoryDesc(DIMS, "f32", "nhwc"), device)
    assert rs.reorder(X, None, out=there) is there
    np.testing.assert_array_equal(there.to_numpy(), X)


@pytest.mark.sycl
def test_calls_wait_for_what_a_queue_still_does(device):
    md = rs.MemoryDesc((64, 64, 56, 56), "f32", "nchw")
    src, dst = rs.Memory(md, device), rs.Memory(md.as_type("f32"), device)
    mapped = src.map_data()
    mapped[...] = 1.5
    src.unmap_data(mapped)
    primitive = rs.Reorder(src, dst)
    primitive.execute(rs.Stream(device, "out_of_order"), src, dst)
    assert (rs.reorder(dst, "nhwc").to_numpy() == 1.5).all()


@pytest.mark.sycl
def test_an_out_of_the_host_is_refused_where_nothing_would_write_it(device):
    memory = on_device(rs.Memory.from_numpy(X[:, :16].copy()), device)
    out = np.zeros((2, 16, 5, 3), np.float32)
    for call in (
        lambda: rs.shuffle(memory, axis=1, group_size=4, out=out),
        lambda: rs.concat([memory], 0, out=out),
        lambda: rs.add_n([memory, memory], out=out),
    ):
        with refused("host memory", "to_numpy()"):
            call()
    assert (out == 0).all()


@pytest.mark.sycl
def test_a_copy_near_python_waits(device):
    memory = on_device(rs.Memory.from_numpy(X), device)
    held = to_host(memory)
    assert held.engine is rs.Engine("cpu")
    np.testing.assert_array_equal(held.to_numpy(), X)
    assert share_with(memory, rs.Engine("cpu")) is memory


def test_bytes_of_the_host_are_not_copied_for_the_host():
    cpu = rs.Engine("cpu")
    memory = from_host(rs.MemoryDesc((510,), "f32", "a"), cpu, X.reshape(-1))
    assert memory.get_data_handle() == X.ctypes.data
    assert to_host(memory) is memory
    assert share_with(memory, rs.Engine("reference")).get_data_handle() == X.ctypes.data


def test_a_name_of_no_engine_is_refused():
    with refused("unknown kind 'tpu'"):
        rs.reorder(X, "nhwc", engine="tpu")
    with refused("engine is not an engine"):
        rs.reorder(X, "nhwc", engine=3)


def test_a_device_that_is_not_there_says_what_to_install():
    with refused("there is no engine sycl:nothing:0", "0 engines"):
        rs.reorder(X, "nhwc", engine="sycl:nothing")


@pytest.mark.sycl
def test_what_runs_on_a_device_is_compared_with_a_primitive(device):
    src, dst = (
        on_device(rs.Memory.from_numpy(X), device),
        rs.Memory(rs.MemoryDesc(DIMS, "bf16", "nChw8c"), device),
    )
    run(rs.Reorder(src, dst), device, src, dst)
    made = rs.reorder(X, "nChw8c", dtype="bf16", engine=device)
    assert (made.to_numpy().view(np.uint16) == dst.to_numpy().view(np.uint16)).all()
