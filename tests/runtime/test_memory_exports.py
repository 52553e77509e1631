"""Memories and arrays of other libraries: NumPy's interfaces, DLPack clause by clause of the Array API."""

from __future__ import annotations

import contextlib
import gc
import mmap

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from support import dlpack
from support.errors import refused

_CPU = rs.Engine("cpu")


@contextlib.contextmanager
def not_exported(*texts, kind=rs.InvalidArguments):
    """The block raises an error of restride's that DLPack's consumers know too."""
    with pytest.raises(BufferError) as caught:
        yield
    assert isinstance(caught.value, kind)
    for text in texts:
        assert text in str(caught.value)


def plain(kind="f32", format="nhwc", data=None):
    return rs.Memory(rs.MemoryDesc((2, 3, 2, 2), kind, format), _CPU, data)


def filled(format="nhwc"):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2)
    return x, plain(format=format, data=np.ascontiguousarray(x.transpose(0, 2, 3, 1)))


# --- DLPack, out ----------------------------------------------------------------------------------------


def test_capsules_are_versioned_where_the_consumer_knows_versions():
    memory = plain()
    assert dlpack.name_of(memory.__dlpack__()) == dlpack.UNVERSIONED
    assert dlpack.name_of(memory.__dlpack__(max_version=(0, 8))) == dlpack.UNVERSIONED
    versioned = memory.__dlpack__(max_version=(1, 0))
    assert dlpack.name_of(versioned) == dlpack.VERSIONED
    assert dlpack.flags_of(versioned) == 0


def test_read_only_data_is_flagged_or_refused():
    memory = plain(data=bytes(96))
    assert dlpack.flags_of(memory.__dlpack__(max_version=(1, 0))) & dlpack.READ_ONLY
    with pytest.raises(BufferError):
        memory.__dlpack__()
    assert not np.from_dlpack(memory).flags.writeable


def test_copy_is_what_the_consumer_asks_for():
    x, memory = filled()
    shared, copied = np.from_dlpack(memory), np.from_dlpack(memory, copy=True)
    np.testing.assert_array_equal(shared, x)
    np.testing.assert_array_equal(copied, x)
    assert np.shares_memory(shared, memory.data)
    assert not np.shares_memory(copied, memory.data)
    assert np.shares_memory(np.from_dlpack(memory, copy=False), memory.data)
    assert dlpack.flags_of(memory.__dlpack__(max_version=(1, 0), copy=True)) & dlpack.COPIED


def test_the_device_is_the_cpu():
    memory = plain()
    assert memory.__dlpack_device__() == (1, 0)
    assert np.from_dlpack(memory, device="cpu").shape == (2, 3, 2, 2)
    with not_exported("Memory.__dlpack__: another device", "(2, 0)"):
        memory.__dlpack__(dl_device=(2, 0))


def test_an_export_outlives_its_memory():
    x, memory = filled()
    shared = np.from_dlpack(memory)
    del memory
    gc.collect()
    np.testing.assert_array_equal(shared, x)


@pytest.mark.parametrize("dims", [(1, 17, 2, 2), (1, 17), (1, 17, 2)], ids=str)
def test_blocked_memory_is_refused_with_the_ways_out(dims):
    memory = rs.Memory(rs.MemoryDesc(dims, "f32", "aBx16b" if len(dims) > 2 else "aB16b"), _CPU)
    usual = {4: "nchw", 3: "ncw", 2: "ab"}[len(dims)]
    for export in (memory.__dlpack__, lambda: np.asarray(memory), lambda: np.from_dlpack(memory)):
        with not_exported("is not possible", "mem.physical()", f'mem.to("{usual}")'):
            export()
    assert not hasattr(memory, "__array_interface__")
    assert np.from_dlpack(memory.to(usual)).shape == dims


@pytest.mark.parametrize("kind", ["s4", "u4"])
def test_elements_that_share_a_byte_are_refused_with_the_ways_out(kind):
    memory = plain(kind)
    wider = {"s4": "s8", "u4": "u8"}[kind]
    with not_exported("Memory.__dlpack__", f'mem.to(None, "{wider}")', "mem.data", kind=rs.Unimplemented):
        memory.__dlpack__()
    assert np.from_dlpack(memory.to(None, wider)).shape == (2, 3, 2, 2)


# --- NumPy, out -----------------------------------------------------------------------------------------


def test_array_takes_a_type_and_a_copy():
    x, memory = filled()
    assert np.shares_memory(np.asarray(memory), memory.data)
    assert np.shares_memory(memory.__array__(), memory.data)
    assert not np.shares_memory(memory.__array__(copy=True), memory.data)
    assert memory.__array__(np.float64).dtype == np.float64
    np.testing.assert_array_equal(np.array(memory, np.int32), x.astype(np.int32))
    np.testing.assert_array_equal(np.array(memory), x)
    with pytest.raises(ValueError, match="needs a copy"):
        memory.__array__(np.float64, copy=False)


def test_the_array_interface_is_the_same_array():
    class Only:
        __array_interface__ = filled()[1].__array_interface__

    np.testing.assert_array_equal(np.asarray(Only()), filled()[0])
    found = filled()[1].__array_interface__
    assert (found["version"], found["typestr"], found["shape"]) == (3, "<f4", (2, 3, 2, 2))
    assert found["strides"] == (48, 4, 24, 12)


def test_arrays_keep_their_bytes_when_the_memory_takes_another_buffer():
    x, memory = filled()
    before = np.asarray(memory)
    memory.set_data_handle(np.zeros(24, np.float32))
    gc.collect()
    np.testing.assert_array_equal(before, x)
    assert not np.asarray(memory).any()


def test_the_array_interface_of_a_window_starts_inside_the_buffer():
    whole = rs.MemoryDesc((4, 6), "s32")
    memory = rs.Memory(whole.submemory_desc((2, 3), (1, 2)), _CPU, np.arange(24, dtype=np.int32))
    np.testing.assert_array_equal(np.asarray(memory), [[8, 9, 10], [14, 15, 16]])


def test_read_only_memories_give_read_only_arrays():
    assert not np.asarray(plain(data=bytes(96))).flags.writeable


def test_types_without_a_name_in_the_interface_go_by_array():
    memory = plain("bf16")
    assert not hasattr(memory, "__array_interface__")
    assert np.asarray(memory).dtype == ml_dtypes.bfloat16
    assert not hasattr(rs.Memory(), "__array_interface__")
    empty = rs.Memory(rs.MemoryDesc((0, 3), "f32"), _CPU)
    assert np.asarray(empty).shape == (0, 3)


# --- Memory.to ------------------------------------------------------------------------------------------


def test_to_moves_into_another_format_and_type():
    x, memory = filled()
    blocked = memory.to("nChw16c", "s8")
    assert blocked.desc == rs.MemoryDesc((2, 3, 2, 2), "s8", "nChw16c")
    assert blocked.engine is memory.engine
    np.testing.assert_array_equal(blocked.to("nchw").to_numpy(), x.astype(np.int8))
    np.testing.assert_array_equal(np.asarray(blocked.to("nhwc", "f32")), x)
    same = memory.to(None)
    assert same.desc == memory.desc
    assert not np.shares_memory(same.data, memory.data)
    with refused("Memory.to is not possible"):
        rs.Memory().to("nchw")


# --- arrays of other libraries, in ----------------------------------------------------------------------


class Foreign:
    """An array that knows DLPack and, with a namespace, the Array API."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Following(Foreign):
    def __array_namespace__(self):
        class Space:
            from_dlpack = staticmethod(lambda x: Following(np.from_dlpack(x)))

        return Space


def test_what_exports_dlpack_is_reordered_and_shuffled():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2)
    made = rs.reorder(Foreign(x), "nhwc")
    assert type(made) is np.ndarray
    np.testing.assert_array_equal(made, x)
    assert made.strides == (48, 4, 24, 12)
    assert isinstance(rs.reorder(Foreign(x), "nChw16c"), rs.Memory)
    following = rs.reorder(Following(x), "nhwc")
    assert isinstance(following, Following)
    np.testing.assert_array_equal(following.array, x)
    np.testing.assert_array_equal(rs.shuffle(Following(x), group_size=3).array, rs.shuffle(x, group_size=3))


def test_foreign_outputs_are_written_in_place():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2)
    out = Foreign(np.zeros_like(x))
    assert rs.reorder(x, None, out=out) is out
    np.testing.assert_array_equal(out.array, x)
    assert rs.shuffle(x, group_size=3, out=out) is out
    np.testing.assert_array_equal(out.array, rs.shuffle(x, group_size=3))


def test_read_only_exports_are_sources_but_no_outputs():
    x = np.arange(4, dtype=np.float32)
    producer = dlpack.Producer(version=(1, 0), flags=dlpack.READ_ONLY)
    np.testing.assert_array_equal(rs.reorder(producer, "a"), x)
    producer = dlpack.Producer(version=(1, 0), flags=dlpack.READ_ONLY)
    with refused("read-only"):
        rs.reorder(x, None, out=producer)
    assert list(producer.data) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "out",
    [bytes(16), mmap.mmap(-1, 16, access=mmap.ACCESS_READ)],
    ids=["bytes", "mmap"],
)
def test_read_only_buffers_are_no_outputs(out):
    x = np.arange(4, dtype=np.float32)
    with refused("out is read-only"):
        rs.reorder(x, None, out=np.frombuffer(out, np.float32))
    memory = rs.Memory(rs.MemoryDesc((4,), "f32"), _CPU, out)
    with refused("read-only"):
        rs.reorder(x, None, out=memory)


# --- producers that do it wrong (each is refused, and its data given back once at most) -----------------


@pytest.mark.parametrize(
    "options", [{"lanes": 2}, {"version": (99, 0)}], ids=["two lanes", "major version 99"]
)
def test_capsules_that_cannot_be_read_are_given_back_once_at_most(options):
    producer = dlpack.Producer(**options)
    with refused("reorder: x cannot be read", "Producer.__dlpack__"):
        rs.reorder(producer, "a")
    producer.capsule = None
    gc.collect()
    assert producer.deleted <= 1


def test_a_capsule_is_used_once():
    producer = dlpack.Producer()
    np.testing.assert_array_equal(rs.reorder(producer, "a"), [0, 1, 2, 3])
    gc.collect()
    assert producer.deleted == 1
    with refused("reorder: x cannot be read", "Producer.__dlpack__"):
        rs.reorder(producer, "a")
    assert producer.deleted == 1


def test_producers_that_raise_or_return_nothing_are_named():
    class Raising(Foreign):
        def __dlpack__(self, **options):
            raise RuntimeError("no more tensors")

    class Nothing(Foreign):
        def __dlpack__(self, **options):
            return None

    x = np.zeros(4, np.float32)
    with refused("reorder: x cannot be read", "Raising.__dlpack__: no more tensors"):
        rs.reorder(Raising(x), "a")
    for call in (lambda: rs.reorder(Nothing(x), "a"), lambda: rs.shuffle(Nothing(x[None]), group_size=2)):
        with refused("x cannot be read", "Nothing.__dlpack__"):
            call()


def test_an_exporter_does_not_resize_while_it_is_held():
    held = bytearray(16)
    memory = rs.Memory(rs.MemoryDesc((4,), "f32"), _CPU, held)
    with pytest.raises(BufferError):
        held.extend(b"more")
    assert not memory.readonly


@pytest.mark.parametrize(
    ("x", "hint"),
    [
        (np.array([object()]), "x.astype(np.float32)"),
        (np.array(["text"]), "x.astype(np.float32)"),
        (np.array(["2020-01-01"], "M8[D]"), "x.astype(np.int64)"),
        (np.array([1j]), "np.stack([x.real, x.imag], axis=-1)"),
        (np.zeros(2, [("a", "f4")]), "x['a']"),
        (np.zeros(2, ">f4"), "swap the bytes"),
    ],
    ids=["object", "text", "date", "complex", "fields", "big-endian"],
)
def test_elements_that_are_no_numbers_of_ours_say_what_to_do(x, hint):
    with refused("reorder: x cannot be read", hint):
        rs.reorder(x, "a", dtype="s8")


def test_negative_strides_are_read_as_they_are():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)[::-1, ::-2]
    np.testing.assert_array_equal(rs.reorder(x, "ba"), x)


@pytest.mark.parametrize(
    "kind", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"], ids=lambda kind: kind
)
def test_arrays_of_ml_dtypes_go_in_and_out(kind):
    x = np.arange(12).reshape(3, 4).astype(np.float32).astype(getattr(ml_dtypes, kind))
    made = rs.reorder(x, "ba")
    back = made.to_numpy() if isinstance(made, rs.Memory) else made
    assert back.dtype == x.dtype
    np.testing.assert_array_equal(back.astype(np.float32), x.astype(np.float32))


@pytest.mark.parametrize("stream", [1, -1, "a"])
def test_dlpack_of_a_stream_is_refused_as_the_cpu_has_none(stream):
    with not_exported("Memory.__dlpack__: a stream", "leave stream out"):
        plain().__dlpack__(stream=stream)


def test_dlpack_takes_a_device_as_a_list_and_no_word_for_yes():
    memory = plain()
    assert memory.__dlpack__(dl_device=[1, 0]) is not None
    with refused("Memory.__dlpack__: copy is 'yes'"):
        memory.__dlpack__(copy="yes")
    with refused("Memory.from_dlpack: copy is 'yes'"):
        rs.Memory.from_dlpack(np.zeros(3, np.float32), copy="yes")
