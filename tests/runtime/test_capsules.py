"""DLPack capsules: types that NumPy cannot name, out and in, and lifetimes, whoever lets go first."""

from __future__ import annotations

import ctypes
import datetime
import gc
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from restride.runtime.capsules import Exported, imported
from support import dlpack
from support.errors import refused

_CPU = rs.Engine("cpu")
# The codes of DLPack 1.1.
_CODES = {
    "bfloat16": (4, 16),
    "float8_e3m4": (7, 8),
    "float8_e4m3": (8, 8),
    "float8_e4m3b11fnuz": (9, 8),
    "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8),
    "float32": (2, 32),
    "int8": (0, 8),
    "bool": (6, 8),
}


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def array(name):
    return np.arange(24).reshape(2, 3, 4).astype(np.float32).astype(dtype_of(name)).transpose(0, 2, 1)


@pytest.mark.parametrize("name", _CODES)
def test_types_go_out_by_their_codes_and_come_back(name):
    x = array(name)
    for options in ({}, {"max_version": (1, 0)}, {"max_version": (1, 1), "copy": True}):
        assert dlpack.type_of(Exported(x).__dlpack__(**options)) == (*_CODES[name], 1)
    back = imported(Exported(x))
    assert back.dtype == x.dtype
    assert back.strides == x.strides
    assert np.shares_memory(back.view("u1") if x.itemsize == 1 else back.view(f"u{x.itemsize}"), x)
    assert back.tobytes() == x.tobytes()


def test_a_memory_of_bf16_and_f8_is_exported_and_the_version_knows_the_code():
    for kind in ("bf16", "f8_e4m3", "f8_e5m2"):
        memory = rs.reorder(np.arange(16, dtype=np.float32).reshape(1, 16), "nC16c", dtype=kind).to("ab")
        versioned = memory.__dlpack__(max_version=(1, 1))
        assert dlpack.version_of(versioned) >= (1, 1)
        back = rs.Memory.from_dlpack(memory)
        assert back.desc == memory.desc
        assert back.get_data_handle() == memory.get_data_handle()
        assert not back.readonly


def test_read_only_data_of_such_types_is_flagged_or_refused():
    x = array("bfloat16")
    x.flags.writeable = False
    assert dlpack.flags_of(Exported(x).__dlpack__(max_version=(1, 0))) == dlpack.READ_ONLY
    with pytest.raises(BufferError):
        Exported(x).__dlpack__()
    assert not imported(Exported(x)).flags.writeable
    assert rs.Memory.from_dlpack(Exported(x)).readonly


def test_a_producers_structure_is_left_as_it_was():
    producer = dlpack.Producer(version=(1, 1), kind=(4, 16))
    found = imported(producer)
    assert found.dtype == ml_dtypes.bfloat16
    assert (producer.managed.tensor.code, producer.managed.tensor.bits) == (4, 16)
    assert producer.deleted == 0
    del found
    gc.collect()
    assert producer.deleted == 1


def test_types_without_a_twin_name_the_producer():
    for kind in ((4, 32), (17, 4), (200, 8)):
        with refused("Memory.from_dlpack: x cannot be read", "Producer.__dlpack__"):
            rs.Memory.from_dlpack(dlpack.Producer(kind=kind))
    with refused("int has no __dlpack__"):
        rs.Memory.from_dlpack(3)


# --- lifetimes ------------------------------------------------------------------------------------------


class Owned(np.ndarray):
    """An array that tells when it goes."""


def owned():
    x = np.zeros(1024, np.uint16).view(Owned)
    return x, weakref.ref(x)


@pytest.mark.parametrize("version", [None, (1, 1)], ids=["unversioned", "versioned"])
@pytest.mark.parametrize("kind", ["u2", "bfloat16"])
def test_a_capsule_that_nobody_takes_lets_go(kind, version):
    x, gone = owned()
    options = {} if version is None else {"max_version": version}
    memory = rs.Memory(rs.MemoryDesc((512, 2), "bf16"), _CPU, x)
    capsule = memory.__dlpack__(**options)
    del x, memory
    gc.collect()
    assert gone() is not None
    del capsule
    gc.collect()
    assert gone() is None


def test_a_capsule_that_is_taken_holds_until_its_array_goes():
    x, gone = owned()
    memory = rs.Memory(rs.MemoryDesc((512, 2), "bf16"), _CPU, x)
    found = imported(memory)
    del x, memory
    gc.collect()
    part = found[3:4]
    del found
    gc.collect()
    assert gone() is not None
    assert float(part[0, 0]) == 0.0
    del part
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("kind", [(2, 32), (4, 16)], ids=["f32", "bf16"])
def test_a_capsule_is_taken_once(kind):
    producer = dlpack.Producer(version=(1, 1), kind=kind)
    first = imported(producer)
    with refused("Memory.from_dlpack: x cannot be read", "Producer.__dlpack__"):
        rs.Memory.from_dlpack(producer)
    del first
    gc.collect()
    assert producer.deleted == 1


def test_many_threads_take_and_let_go_while_garbage_is_collected():
    memory = rs.Memory(rs.MemoryDesc((4, 4), "bf16"), _CPU)
    memory.data[...] = 1
    wrong = []

    def work():
        for _ in range(200):
            held = [imported(memory) for _ in range(4)]
            memory.__dlpack__(max_version=(1, 1))
            if any(float(x.astype(np.float32).sum()) != 16.0 for x in held):
                wrong.append(held)

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.set_threshold(*before)
    assert not wrong
    del threads
    gc.collect()
    assert sys.getrefcount(memory._buffer.owner) < 10


# --- producers that do it wrong -------------------------------------------------------------------------


def wrong(version=(1, 0), **fields):
    producer = dlpack.Producer(version=version)
    for name, value in fields.items():
        setattr(producer.managed.tensor, name, value)
    return producer


def dims(*extents):
    return (ctypes.c_int64 * len(extents))(*extents)


_TENSORS = {
    "no data": {"data": None},
    "no shape": {"shape": None},
    "negative extent": {"shape": dims(-4)},
    "too many elements": {"shape": dims(2**62)},
    "more than 2**63 bytes": {"ndim": 2, "shape": dims(2**40, 2**40)},
    "rank -1": {"ndim": -1},
    "rank 65": {"ndim": 65, "shape": dims(*[1] * 65)},
    "12 bits": {"bits": 12},
    "no bits": {"bits": 0},
    "bf16 of 32 bits": {"code": 4},
    "two lanes of bf16": {"code": 4, "bits": 16, "lanes": 2},
    "no lanes": {"lanes": 0},
    "opaque": {"code": 3, "bits": 64},
    "on a GPU": {"device": (ctypes.c_int32 * 2)(2, 0)},
    "major version 99": {"version": (99, 0)},
    "bf16 of major version 99": {"version": (99, 0), "code": 4, "bits": 16},
}


_SHORT_SHAPE = """
import ctypes
import restride as rs
from support import dlpack
from support.guarded import Guarded

for ndim in (100, 2**31 - 1, -(2**31)):
    room = Guarded(16, at_end=True)
    room.write((1).to_bytes(8, "little") * 2)
    producer = dlpack.Producer(version=(1, 0))
    producer.managed.tensor.ndim = ndim
    producer.managed.tensor.shape = ctypes.cast(room.address, ctypes.POINTER(ctypes.c_int64))
    try:
        rs.Memory.from_dlpack(producer)
    except rs.InvalidArguments as error:
        assert f"{ndim} axes" in error.why, error
        print(ndim)
"""


def test_no_shape_is_read_of_a_rank_that_no_tensor_has():
    ran = subprocess.run(
        [sys.executable, "-c", _SHORT_SHAPE], capture_output=True, text=True, cwd=Path(__file__).parents[1]
    )
    assert (ran.returncode, ran.stdout.split()) == (0, ["100", str(2**31 - 1), str(-(2**31))]), ran.stderr


class Exporting:
    """A producer that does what it is told to."""

    def __init__(self, export):
        self._export = export

    def __dlpack__(self, **options):
        return self._export()

    def __dlpack_device__(self):
        return 1, 0


def failing(error):
    def fail():
        raise error

    return Exporting(fail)


_PRODUCERS = {
    "RuntimeError": lambda: failing(RuntimeError("no more")),
    "MemoryError": lambda: failing(MemoryError()),
    "StopIteration": lambda: failing(StopIteration()),
    "None": lambda: Exporting(lambda: None),
    "a number": lambda: Exporting(lambda: 3),
    "another capsule": lambda: Exporting(lambda: datetime.datetime_CAPI),
    **{name: lambda fields=fields: wrong(**fields) for name, fields in _TENSORS.items()},
}
X = np.ones(4, np.float32)
_CONSUMERS = {
    "reorder": lambda x: rs.reorder(x, "a"),
    "out of reorder": lambda x: rs.reorder(X, None, out=x),
    "operand of a post-op": lambda x: rs.reorder(X, None, post_ops=[("add", x)]),
    "shuffle": lambda x: rs.shuffle(x, group_size=1, axis=0),
    "concat": lambda x: rs.concat([x]),
    "add_n": lambda x: rs.add_n([x]),
    "quantize": lambda x: rs.quantize(x),
    "plan": lambda x: rs.plan(x, "a"),
    "from_dlpack": rs.Memory.from_dlpack,
}


@pytest.mark.parametrize("consumer", _CONSUMERS)
@pytest.mark.parametrize("producer", _PRODUCERS)
def test_every_function_names_a_producer_that_fails(producer, consumer):
    x = _PRODUCERS[producer]()
    with refused("cannot be ", f"{type(x).__name__}.__dlpack__"):
        _CONSUMERS[consumer](x)
    assert getattr(x, "deleted", 0) <= 1


@pytest.mark.parametrize("consumer", _CONSUMERS)
def test_every_function_names_the_device_of_an_array_that_is_not_on_the_host(consumer):
    class OnDevice(Exporting):
        def __dlpack_device__(self):
            return 2, 1

    def fail():
        raise BufferError("Unsupported device in DLTensor.")

    with refused("cannot be ", "it is on cuda:1", "x.get() of CuPy"):
        _CONSUMERS[consumer](OnDevice(fail))


def test_what_python_itself_raises_passes():
    with pytest.raises(KeyboardInterrupt):
        rs.reorder(failing(KeyboardInterrupt()), "a")


def test_objects_that_raise_when_they_are_asked_are_no_arrays():
    class Strange:
        def __getattr__(self, name):
            raise RuntimeError("anything")

    for call in (lambda: rs.reorder(Strange(), "a"), lambda: rs.shuffle(Strange(), group_size=1)):
        with refused("Strange is not a NumPy array"):
            call()
