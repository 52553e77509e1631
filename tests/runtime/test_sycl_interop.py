"""Engines, streams, memories and events of SYCL objects, and what they refuse."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import pytest

import restride as rs
from restride import sycl_interop as interop
from restride.errors import InvalidArguments
from support.sycl import on_device, sycl_engine

pytestmark = pytest.mark.sycl
MD = rs.MemoryDesc((64, 48), "f32", "ab")
TURNED = rs.MemoryDesc((64, 48), "f32", "ba")


@pytest.fixture(scope="module")
def engine():
    return sycl_engine()


@pytest.fixture(scope="module")
def dpctl(engine):
    return pytest.importorskip("dpctl")


@pytest.fixture(scope="module")
def other(dpctl, engine):
    """The same device in a context of its own."""
    device = interop.get_device(engine)
    return interop.make_engine(device, dpctl.SyclContext([device]))


def values(seed=0):
    return np.random.default_rng(seed).random((64, 48), np.float32)


def test_an_engine_is_a_device_and_a_context(engine):
    assert interop.make_engine(interop.get_device(engine), interop.get_context(engine)) is engine
    assert rs.Engine(engine.name, engine.index) is engine
    assert pickle.loads(pickle.dumps(engine)) is engine
    assert engine.is_sycl
    assert rs.Engine.get_count("sycl") >= 1
    assert str(engine).startswith("sycl:")


def test_another_context_is_another_engine(engine, other):
    assert other is not engine
    assert interop.get_context(other) != interop.get_context(engine)
    with pytest.raises(InvalidArguments, match="cannot be copied or pickled"):
        pickle.dumps(other)


def test_a_part_of_a_device_is_an_engine(engine, dpctl):
    try:
        parts = interop.get_device(engine).create_sub_devices(partition=1)
    except dpctl.SyclSubDeviceCreationError as error:
        pytest.skip(str(error))
    part = interop.make_engine(parts[0], dpctl.SyclContext(parts[0]))
    x, stream = values(8), rs.Stream(part)
    a, b = on_device(rs.Memory.from_numpy(x), part), rs.Memory(TURNED, part)
    rs.Reorder(a, b).execute_sycl(stream, a, b).wait()
    assert (b.to_numpy() == x).all()
    with pytest.raises(InvalidArguments, match="the device is not in the context"):
        interop.make_engine(parts[0], interop.get_context(engine))


@pytest.mark.parametrize("order", ["in_order", "out_of_order"])
def test_a_stream_has_the_order_of_its_queue(engine, dpctl, order):
    wanted = {"property": "in_order"} if order == "in_order" else {}
    queue = dpctl.SyclQueue(interop.get_context(engine), interop.get_device(engine), **wanted)
    stream = interop.make_stream(engine, queue)
    assert stream.flags.name == order
    assert interop.get_queue(stream) is queue
    assert rs.Stream(engine, order).flags.name == order
    assert stream.wait() is stream


def test_a_queue_of_another_context_is_refused(engine, other):
    with pytest.raises(InvalidArguments, match="the queue does not belong to the engine"):
        interop.make_stream(engine, interop.get_queue(rs.Stream(other)))


@pytest.mark.parametrize("kind", ["device", "shared", "host"])
def test_memory_of_every_kind(engine, kind):
    x = values()
    memory = interop.make_memory(MD, engine, kind)
    mapped = memory.map_data()
    mapped[:] = x.reshape(-1)
    with pytest.raises(InvalidArguments, match="already mapped"):
        memory.map_data()
    memory.unmap_data(mapped)
    assert (memory.to_numpy() == x).all()
    assert interop.get_memory_kind(memory) == "usm"
    if kind == "device":
        for read in (lambda: memory.data, memory.physical, lambda: np.asarray(memory)):
            with pytest.raises(InvalidArguments, match="are on the device"):
                read()
    else:
        assert (np.asarray(memory) == x).all()
    assert (pickle.loads(pickle.dumps(memory)).to_numpy() == x).all()


def test_usm_of_dpctl_is_wrapped_without_a_copy(engine, dpctl):
    usm = pytest.importorskip("dpctl.memory").MemoryUSMShared(
        MD.size, queue=interop.get_queue(rs.Stream(engine))
    )
    memory = rs.Memory(MD, engine, usm)
    np.ndarray(MD.dims, np.float32, buffer=usm)[...] = 3
    assert (memory.to_numpy() == 3).all()
    assert memory.get_data_handle() == usm._pointer
    with pytest.raises(InvalidArguments, match="too short"):
        rs.Memory(rs.MemoryDesc((65, 48), "f32", "ab"), engine, usm)


def test_dpctl_takes_a_memory_as_usm(engine, dpctl):
    memory = on_device(rs.Memory.from_numpy(values(6)), engine)
    usm = pytest.importorskip("dpctl.memory").as_usm_memory(memory)
    assert (usm._pointer, usm.nbytes) == (memory.get_data_handle(), MD.size)
    assert (usm.copy_to_host().view(np.float32).reshape(MD.dims) == values(6)).all()
    again = rs.Memory(MD, engine, usm)
    assert (again.to_numpy() == values(6)).all()
    for none in (rs.Memory(rs.MemoryDesc((4, 4), "f32", "aB8b"), engine), rs.Memory.from_numpy(values())):
        assert not hasattr(none, "__sycl_usm_array_interface__")


@pytest.mark.parametrize("data", [np.zeros(64 * 48, np.float32), bytearray(MD.size)], ids=["array", "bytes"])
def test_memory_of_the_host_is_refused(engine, data):
    with pytest.raises(InvalidArguments, match="host memory") as caught:
        rs.Memory(MD, engine, data)
    assert "reorder into it" in caught.value.hint


def test_memory_of_another_context_is_refused(engine, other):
    memory = rs.Memory(MD, other)
    with pytest.raises(InvalidArguments, match=r"another device|not USM of this engine"):
        rs.Memory(MD, engine, memory)
    with pytest.raises(InvalidArguments, match="another device"):
        rs.Memory(MD, rs.Engine("cpu"), memory)
    with pytest.raises(InvalidArguments, match="it is on engine"):
        rs.Reorder(rs.Reorder.PrimitiveDesc(engine, MD, engine, TURNED)).execute(
            rs.Stream(engine), memory, rs.Memory(TURNED, engine)
        )


class Freed:
    """Exports a pointer that is no USM any more."""

    def __init__(self, usm):
        self.__sycl_usm_array_interface__ = dict(usm.__sycl_usm_array_interface__)


def test_freed_memory_is_refused(engine, dpctl):
    usm = pytest.importorskip("dpctl.memory").MemoryUSMDevice(
        MD.size, queue=interop.get_queue(rs.Stream(engine))
    )
    freed = Freed(usm)
    memory, target = rs.Memory(MD, engine, freed), rs.Memory(TURNED, engine)
    del usm
    gc.collect()
    with pytest.raises(InvalidArguments, match="not USM of this engine"):
        rs.Memory(MD, engine, freed)
    primitive = rs.Reorder(rs.Reorder.PrimitiveDesc(engine, MD, engine, TURNED))
    with pytest.raises(InvalidArguments, match="its USM was freed"):
        primitive.execute(rs.Stream(engine), memory, target)
    with pytest.raises(InvalidArguments, match="its USM was freed"):
        memory.to_numpy()


def test_events_order_an_out_of_order_stream(engine):
    stream, x = rs.Stream(engine, "out_of_order"), values()
    a = on_device(rs.Memory.from_numpy(x), engine)
    b, c = rs.Memory(TURNED, engine), rs.Memory(MD, engine)
    there, back = rs.Reorder(a, b), rs.Reorder(b, c)
    event = None
    for _ in range(20):
        event = there.execute_sycl(stream, a, b, deps=[] if event is None else [event])
        event = interop.execute(back, stream, {rs.ARG_FROM: b, rs.ARG_TO: c}, deps=[event])
    event.wait()
    assert (c.to_numpy() == x).all()


def test_memory_lives_until_its_event_is_done(engine):
    stream, x = rs.Stream(engine, "out_of_order"), values(2)
    out = rs.Memory(MD, engine)
    event = None
    for _ in range(10):
        a, b = on_device(rs.Memory.from_numpy(x), engine), rs.Memory(TURNED, engine)
        first = rs.Reorder(a, b).execute_sycl(stream, a, b, deps=[event] if event else [])
        event = rs.Reorder(b, out).execute_sycl(stream, b, out, deps=[first])
        del a, b, first
        gc.collect()
    event.wait()
    assert (out.to_numpy() == x).all()


def test_an_event_of_another_library_is_a_dependency(engine):
    stream, x = rs.Stream(engine, "out_of_order"), values(3)
    a, b = rs.Memory(MD, engine), rs.Memory(TURNED, engine)
    copied = interop.get_queue(stream).memcpy_async(a._buffer.owner, x, x.nbytes)
    rs.Reorder(a, b).execute_sycl(stream, a, b, deps=[copied]).wait()
    assert (b.to_numpy() == x).all()


@pytest.mark.parametrize("deps", [[1], "event", 5, [None], [object()]])
def test_what_is_no_event_is_refused(engine, deps):
    a, b = rs.Memory(MD, engine), rs.Memory(TURNED, engine)
    with pytest.raises(InvalidArguments, match="deps are not events"):
        rs.Reorder(a, b).execute_sycl(rs.Stream(engine), a, b, deps=deps)


def test_the_stream_must_be_the_engines(engine, other):
    a, b = rs.Memory(MD, engine), rs.Memory(TURNED, engine)
    for stream in (rs.Stream(other), rs.Stream(rs.Engine("cpu"))):
        with pytest.raises(InvalidArguments, match="the stream belongs to another engine"):
            rs.Reorder(a, b).execute_sycl(stream, a, b)


def test_a_reorder_between_two_contexts(engine, other):
    x = values(4)
    a, b = on_device(rs.Memory.from_numpy(x), other), rs.Memory(TURNED, engine)
    rs.Reorder(a, b).execute_sycl(rs.Stream(engine), a, b).wait()
    assert (b.to_numpy() == x).all()


def test_a_device_must_be_in_its_context(engine):
    for args in ((1, 2), (interop.get_device(engine), None)):
        with pytest.raises(InvalidArguments, match="wrong argument"):
            interop.make_engine(*args)


def test_wrong_arguments_are_refused(engine):
    for call in (
        lambda: interop.make_stream(engine, 1),
        lambda: interop.make_memory(MD, engine, "usm"),
        lambda: interop.get_memory_kind(1),
        lambda: interop.get_queue(1),
        lambda: interop.execute(1, rs.Stream(engine), {}),
    ):
        with pytest.raises(InvalidArguments, match="wrong argument"):
            call()


def test_a_source_in_another_context_is_read_after_the_dependencies(engine, other, dpctl):
    queue = dpctl.SyclQueue(interop.get_context(other), interop.get_device(other))
    one, two = (dpctl.memory.MemoryUSMDevice(1 << 27, queue=queue) for _ in range(2))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    usm = dpctl.memory.MemoryUSMDevice(x.nbytes, queue=queue)
    usm.memset(0)
    src = interop.make_memory(rs.MemoryDesc((3, 4), "f32", "ab"), other, usm)
    dst = rs.Memory(rs.MemoryDesc((3, 4), "f32", "ba"), engine)
    stream, primitive = rs.Stream(engine, "out_of_order"), rs.Reorder(src, dst)
    filled = queue.memcpy_async(usm, x, x.nbytes, [queue.memcpy_async(one, two, one.nbytes)])
    primitive.execute_sycl(stream, src, dst, deps=[filled]).wait()
    assert dst.to_numpy().tolist() == x.tolist()


@pytest.mark.parametrize("kind", ["device", "shared", "host"])
def test_a_tensor_without_elements_is_mapped_and_unmapped(engine, kind):
    memory = interop.make_memory(rs.MemoryDesc((3, 0), "f32", "ab"), engine, kind)
    memory.unmap_data(memory.map_data())
    assert "mapped" not in repr(memory)


def test_one_event_for_deps_is_refused_with_the_way_out(engine, dpctl):
    md = rs.MemoryDesc((3, 4), "f32", "ab")
    src, dst = rs.Memory(md, engine), rs.Memory(md, engine)
    with pytest.raises(InvalidArguments, match="SyclEvent is not a list"):
        rs.Reorder(src, dst).execute_sycl(rs.Stream(engine), src, dst, deps=dpctl.SyclEvent())


def test_the_constructors_and_getters_of_the_first_version_do_the_same(engine):
    device, context = engine.get_sycl_device(), engine.get_sycl_context()
    assert (device, context) == (interop.get_device(engine), interop.get_context(engine))
    assert rs.Engine("sycl", device, context) is rs.Engine(engine.kind, device, context) is engine
    queue = rs.Stream(engine, "out_of_order").get_sycl_queue()
    stream = rs.Stream(engine, queue)
    assert stream.get_sycl_queue() == queue
    assert stream.flags is rs.StreamFlags.out_of_order
    for wrong in (lambda: rs.Engine("sycl", 0, context), lambda: rs.Stream(rs.Engine("cpu"), queue)):
        with pytest.raises(rs.InvalidArguments):
            wrong()
