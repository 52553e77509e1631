"""A device that is not the host and not SYCL: memory, queues and engines ask the device, never its kind."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import restride as rs
from restride.runtime.alloc import extent
from restride.runtime.transfer import from_host, refuse_host_out, share_with, synchronize, to_host
from support.engines import memory_over, storage
from support.errors import refused
from support.second_device import SECOND

CPU = rs.Engine("cpu")
X = np.random.default_rng(5).standard_normal((2, 17, 3, 5)).astype(np.float32)
# Blocks that are not full, gaps, an offset, elements that share a byte, no elements, no dims that matter.
DESCS = [
    rs.MemoryDesc((2, 17, 3, 5), "f32", "nchw"),
    rs.MemoryDesc((2, 17, 3, 5), "bf16", "nChw16c"),
    rs.MemoryDesc((2, 17, 3, 5), "f8_e4m3", "nhwc"),
    rs.MemoryDesc((3, 5), "s4", "ab"),
    rs.MemoryDesc((4, 3), "f64", (10, 2)),
    rs.MemoryDesc((4, 6), "s8", "ab").submemory_desc((2, 3), (1, 2)),
    rs.MemoryDesc((0, 3), "f32", "ab"),
]


@pytest.fixture
def second():
    return rs.Engine("second")


def filled(md, engine, seed=0):
    """A memory of an engine with any bytes, and those bytes."""
    memory = rs.Memory(md, engine)
    mapped = memory.map_data()
    said = np.random.default_rng(seed).integers(0, 256, mapped.nbytes, dtype=np.uint8)
    mapped.view(np.uint8)[...] = said
    memory.unmap_data(mapped)
    return memory, said


def bits(memory):
    """All bytes of a memory, wherever it is."""
    mapped = memory.map_data()
    copied = np.array(mapped).view(np.uint8)
    memory.unmap_data(mapped)
    return copied


def pickled(memory):
    return pickle.loads(pickle.dumps(memory))


# --- engines ------------------------------------------------------------------------------------------------


def test_the_engine_is_found_by_the_name_of_its_device(second):
    assert second is rs.Engine("second", 0)
    assert second is rs.Engine("SECOND")
    assert second.device is SECOND
    assert (second.kind, second.name, second.index, str(second)) == ("any", "second", 0, "second:0")
    assert rs.Engine.get_count("second") == 1
    assert not second.is_sycl
    for again in (copy.copy(second), copy.deepcopy(second), pickled(second)):
        assert again is second


def test_an_engine_that_is_not_there_is_refused():
    with refused("there is no engine second:1", "offers 1 engine of kind 'second'", 'rs.Engine("second", 0)'):
        rs.Engine("second", 1)
    with refused("unknown kind 'second:gpu'"):
        rs.Engine("second:gpu")


@pytest.mark.parametrize("kind", ["cpu", "reference"])
def test_every_engine_has_a_device(kind):
    device = rs.Engine(kind).device
    assert device.is_host
    assert (device.name, device.kind, device.index) == (kind, kind, 0)


# --- memory -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("md", DESCS, ids=str)
def test_what_is_mapped_and_written_is_there(second, md):
    memory, said = filled(md, second)
    np.testing.assert_array_equal(bits(memory), said)
    host = rs.Memory(md, CPU, said)
    np.testing.assert_array_equal(memory.to_numpy().view(np.uint8), host.to_numpy().view(np.uint8))
    assert repr(memory) == f"restride.Memory({md}, second:0, {extent(md).needed} bytes)"
    assert (memory.engine, memory.desc, memory.readonly) == (second, md, False)


def test_a_mapped_copy_is_written_back_when_it_is_unmapped(second):
    memory, said = filled(DESCS[0], second)
    mapped = memory.map_data()
    mapped[...] = 3
    np.testing.assert_array_equal(SECOND.memory(memory._buffer), said)
    with refused("already mapped"):
        memory.map_data()
    with refused("not returned by map_data"):
        memory.unmap_data(np.zeros(3))
    memory.unmap_data(mapped)
    assert (memory.to_numpy() == 3).all()


@pytest.mark.parametrize("md", DESCS, ids=str)
@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda memory: pickle.loads(pickle.dumps(memory))]
)
def test_copies_hold_the_same_bytes_elsewhere(second, md, again):
    memory, said = filled(md, second)
    made = again(memory)
    assert (made.desc, made.engine) == (md, second)
    assert made.get_data_handle() != memory.get_data_handle()
    np.testing.assert_array_equal(bits(made), said)
    without = again(rs.Memory(md, second, rs.NO_DATA))
    assert (without.get_data_handle(), without.map_data()) == (0, None)


def test_the_half_byte_behind_an_odd_number_of_elements_is_zero(second):
    assert bits(rs.Memory(rs.MemoryDesc((3, 5), "u4", "ab"), second))[-1] == 0


@pytest.mark.parametrize(
    "look",
    [
        lambda memory: memory.data,
        lambda memory: memory.physical(),
        lambda memory: memory.__array__(),
        lambda memory: memory.__array_interface__,
        lambda memory: memory.__dlpack__(),
    ],
    ids=["data", "physical", "array", "array interface", "dlpack"],
)
def test_memory_is_not_seen_in_place(second, look):
    with refused("the bytes are on the device", "to_numpy() or map_data()"):
        look(filled(DESCS[0], second)[0])


def test_memory_is_no_usm(second):
    with pytest.raises(AttributeError, match="not USM with strides"):
        _ = rs.Memory(DESCS[0], second).__sycl_usm_array_interface__


@pytest.mark.parametrize(
    "make",
    [
        lambda engine: rs.Memory(DESCS[0], engine, X),
        lambda engine: rs.Memory(DESCS[0], engine, bytes(DESCS[0].size)),
        lambda engine: rs.Memory(DESCS[0], engine, rs.Memory.from_numpy(X)),
        lambda engine: rs.Memory(DESCS[0], engine).set_data_handle(X),
        lambda engine: rs.Memory.from_numpy(X, None, engine),
        lambda engine: rs.Memory.from_dlpack(X, engine),
        lambda engine: rs.Memory.from_pointer(X.ctypes.data, X.nbytes, DESCS[0], engine, owner=X),
    ],
    ids=["array", "bytes", "memory", "set_data_handle", "from_numpy", "from_dlpack", "from_pointer"],
)
def test_memory_of_the_host_is_refused(second, make):
    with refused("the data is in host memory"):
        make(second)


def test_memory_of_the_device_is_refused_by_the_host(second):
    for engine in (CPU, rs.Engine("reference")):
        with refused("the data is on another device", "data on second:0, memory on"):
            rs.Memory(DESCS[0], engine, rs.Memory(DESCS[0], second))


def test_memories_share_a_buffer_on_the_device(second):
    memory, _ = filled(DESCS[0], second)
    shared = rs.Memory(DESCS[0], second, memory)
    mapped = memory.map_data()
    mapped[...] = 4
    memory.unmap_data(mapped)
    assert (shared.to_numpy() == 4).all()
    other = rs.Memory(DESCS[0], second, rs.NO_DATA)
    other.set_data_handle(memory)
    assert other.get_data_handle() == memory.get_data_handle()
    with refused("the data is too short"):
        rs.Memory(rs.MemoryDesc((3, 17, 3, 5), "f32", "nchw"), second, memory)


def test_what_cannot_be_allocated_says_for_which_descriptor(second):
    md = rs.MemoryDesc((2**60,), "f32", "a")
    with refused("cannot allocate", kind=rs.OutOfMemory, where=(md,)):
        rs.Memory(md, second)


def test_a_memory_is_reordered_on_its_engine(second):
    made = from_host(DESCS[0], second, X).to("nChw16c")
    assert made.engine is second
    np.testing.assert_array_equal(made.to_numpy(), X)


def test_parts_of_one_array_overlap_as_their_memory_does(second):
    whole = storage(X.reshape(-1), second)
    md = rs.MemoryDesc((100,), "f32", "a")
    one, same, other = (memory_over(md, second, whole[start : start + 100]) for start in (0, 50, 100))
    assert one._lo < same._hi
    assert same._lo < one._hi
    assert one._hi <= other._lo
    np.testing.assert_array_equal(same.to_numpy(), whole[50:150])


# --- between the host and the device ------------------------------------------------------------------------


def test_arrays_go_there_and_back(second):
    there = from_host(DESCS[0], second, X)
    assert there.engine is second
    back = to_host(there)
    assert back.engine is CPU
    np.testing.assert_array_equal(back.data, X.reshape(-1))
    assert share_with(there, CPU) is there
    assert share_with(back, second) is back
    with refused("wrong out", "host memory", "second:0 runs the call"):
        refuse_host_out("wrong out", X, second)


# --- queues -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", ["in_order", "out_of_order"])
@pytest.mark.parametrize(
    "look",
    [
        lambda memory, _: memory.to_numpy(),
        lambda memory, _: memory.map_data(),
        lambda memory, _: pickled(memory).to_numpy(),
        lambda memory, _: to_host(memory).data,
        lambda memory, _: synchronize(memory) or memory._buffer.owner,
        lambda memory, stream: stream.wait() and memory._buffer.owner,
    ],
    ids=["to_numpy", "map_data", "pickle", "to_host", "synchronize", "stream"],
)
def test_what_is_submitted_is_waited_for(second, flags, look):
    memory, stream = filled(DESCS[0], second)[0], rs.Stream(second, flags)
    held = memory._buffer.owner
    event = stream._queue.submit(lambda: held.fill(0x40), [memory._buffer])
    assert not (held == 0x40).all()
    assert (np.asarray(look(memory, stream)).view(np.uint8) == 0x40).all()
    assert event.work is None


def test_a_write_waits_for_what_was_submitted_before_it(second):
    memory, stream = filled(DESCS[0], second)[0], rs.Stream(second)
    mapped = memory.map_data()
    mapped[...] = 1
    stream._queue.submit(lambda: memory._buffer.owner.fill(0), [memory._buffer])
    memory.unmap_data(mapped)
    stream.wait()
    assert (memory.to_numpy() == 1).all()


def test_streams_are_in_order_or_not(second):
    assert rs.Stream(second).flags == rs.StreamFlags.in_order
    assert rs.Stream(second, "out_of_order").flags == rs.StreamFlags.out_of_order
    with refused("executes in order"):
        rs.Stream(second, "in_order|out_of_order")
    assert rs.Stream(CPU)._queue is None
