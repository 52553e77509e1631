"""Memory: allocation, wrapping, views, mapping, and every wrong way to make one."""

import array
import copy
import ctypes
import gc
import itertools
import mmap
import pickle
import sys
import weakref

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restride.desc.layout import RUNTIME_DIM
from restride.desc.memory_desc import MemoryDesc
from restride.dtypes import DataType
from restride.errors import InvalidArguments, OutOfMemory, Unimplemented
from restride.runtime.alloc import NO_DATA
from restride.runtime.engine import Engine
from restride.runtime.memory import Memory
from restride.runtime.stream import Stream

CPU = Engine("cpu")
ARRAY_TYPES = [t for t in DataType if t.bits >= 8]
F32_4 = MemoryDesc((4,), "f32", "a")


def desc(dims, format, data_type="s32"):
    return MemoryDesc(dims, data_type, format)


def counted(md):
    """A memory in which every element holds its own offset."""
    mem = Memory(md, CPU)
    mem.data[...] = np.arange(mem.data.size)
    return mem


def offsets(md):
    """The offset of each logical element, straight from the descriptor."""
    every = itertools.product(*map(range, md.dims))
    return np.array([md.offset(*index) for index in every], np.int64).reshape(md.dims)


# Allocation


@pytest.mark.parametrize("nbytes", [1, 3, 63, 64, 65, 4097, 2**20 - 1])
def test_allocation_starts_on_a_cache_line(nbytes):
    mem = Memory(desc((nbytes,), "a", "u8"), CPU)
    assert mem.get_data_handle() % 64 == 0
    assert mem.data.nbytes == nbytes


@pytest.mark.parametrize("nbytes", [2**20, 2**20 + 1, 2**23 + 5])
def test_large_allocations_start_on_a_page(nbytes):
    assert Memory(desc((nbytes,), "a", "u8"), CPU).get_data_handle() % 4096 == 0


def test_the_whole_allocation_can_be_written():
    mem = Memory(desc((2, 17, 3, 3), "nChw16c"), CPU)
    mem.data[...] = 7
    assert mem.data.nbytes == mem.desc.size == 2 * 32 * 9 * 4
    assert not mem.readonly


def test_a_trailing_gap_is_allocated():
    md = MemoryDesc((2, 3), "f32", (6, 1))
    assert Memory(md, CPU).data.nbytes == md.size == 48


def test_offset0_is_allocated():
    part = desc((4, 6), "ab").submemory_desc((2, 3), (1, 2))
    mem = Memory(part, CPU)
    assert mem.data.nbytes >= (8 + 6 + 3) * 4
    mem.data[...] = 1
    assert mem.to_numpy().tolist() == [[1, 1, 1]] * 2


def test_more_than_two_to_the_31_elements_are_addressed():
    mem = Memory(desc((2, 2**30 + 2), "ba", "u8"), CPU)
    mem.data[-1] = 7
    assert mem.physical()[-1, -1] == np.asarray(mem)[1, 2**30 + 1] == 7
    assert mem._hi - mem._lo == 2**31 + 4


@pytest.mark.parametrize("dims", [(2**63 - 1,), (2**62,), (2**31, 2**31), (2**48,)])
def test_more_than_the_system_has_is_out_of_memory(dims):
    with pytest.raises(OutOfMemory, match="cannot allocate") as caught:
        Memory(desc(dims, None, "u8"), CPU)
    assert isinstance(caught.value, MemoryError)
    assert caught.value.hint


def test_a_refusal_of_the_system_is_out_of_memory(monkeypatch):
    def refuse(*_):
        raise MemoryError

    md = desc((16,), "a")
    monkeypatch.setattr(np, "empty", refuse)
    with pytest.raises(OutOfMemory):
        Memory(md, CPU)


@pytest.mark.parametrize(
    ("md", "said"),
    [
        (MemoryDesc(), "zero descriptor"),
        (MemoryDesc((2, 3), "f32", "any"), "placeholder"),
        (MemoryDesc((RUNTIME_DIM, 3), "f32", "ab"), "not known yet"),
        ("nchw", "str is not a descriptor"),
        ((2, 3), "tuple is not a descriptor"),
        (np.zeros(3), "ndarray is not a descriptor"),
    ],
    ids=["zero", "any", "runtime", "str", "tuple", "array"],
)
@pytest.mark.parametrize("data", [None, NO_DATA, b"12345678"], ids=["allocate", "no data", "wrap"])
def test_what_describes_no_memory_is_refused(md, said, data):
    with pytest.raises(InvalidArguments, match=said) as caught:
        Memory(md, CPU, data)
    assert caught.value.hint


@pytest.mark.parametrize("engine", [None, "cpu", 0, Engine, Stream(CPU)])
def test_a_memory_needs_an_engine(engine):
    with pytest.raises(InvalidArguments, match="is not an engine"):
        Memory(F32_4, engine)


def test_a_memory_without_descriptor_takes_neither_engine_nor_data():
    for engine, data in ((CPU, None), (None, b"1234"), (CPU, NO_DATA)):
        with pytest.raises(InvalidArguments, match="there is no descriptor"):
            Memory(None, engine, data)


# Empty, and without a buffer


def test_an_empty_memory_is_false_and_unusable():
    mem = Memory()
    assert not mem
    assert mem.desc.is_zero()
    assert mem.data is None
    assert mem.get_data_handle() == 0
    assert mem.map_data() is None
    assert repr(mem) == "restride.Memory()"
    for use in (
        mem.physical,
        mem.to_numpy,
        mem.__array__,
        mem.__dlpack__,
        lambda: mem.engine,
        lambda: mem.set_data_handle(b"1234"),
        lambda: Memory(F32_4, CPU, mem),
    ):
        with pytest.raises(InvalidArguments):
            use()


def test_no_data_leaves_the_buffer_for_later():
    mem = Memory(F32_4, CPU, NO_DATA)
    assert mem
    assert (mem.data, mem.get_data_handle(), mem._lo, mem._hi) == (None, 0, 0, 0)
    assert "no data" in repr(mem)
    for use in (mem.physical, mem.to_numpy, mem.__array__, mem.__dlpack__):
        with pytest.raises(InvalidArguments, match="there is no data"):
            use()
    mem.set_data_handle(np.arange(4, dtype=np.float32))
    assert mem.to_numpy().tolist() == [0, 1, 2, 3]
    mem.set_data_handle(NO_DATA)
    assert mem.data is None
    assert (mem._address, mem._nbytes, mem._lo, mem._hi) == (0, 0, 0, 0)


def test_no_data_has_a_name():
    assert repr(NO_DATA) == "restride.NO_DATA"
    assert pickle.loads(pickle.dumps(NO_DATA)) is NO_DATA


# Wrapping


def _mapped_file():
    held = mmap.mmap(-1, 16)
    held[:] = np.arange(4, dtype=np.float32).tobytes()
    return held


FOUR = np.arange(4, dtype=np.float32)
LENDERS = {
    "ndarray": lambda: FOUR.copy(),
    "bytes of an ndarray": lambda: FOUR.copy().view(np.uint8),
    "signed bytes": lambda: FOUR.copy().view(np.int8),
    "unsigned of the same width": lambda: FOUR.copy().view(np.uint32),
    "void": lambda: FOUR.copy().view("V1"),
    "bytearray": lambda: bytearray(FOUR.tobytes()),
    "memoryview": lambda: memoryview(bytearray(FOUR.tobytes())),
    "memoryview of floats": lambda: memoryview(FOUR.copy()),
    "mmap": _mapped_file,
    "array.array": lambda: array.array("f", FOUR.tolist()),
    "ctypes": lambda: (ctypes.c_float * 4)(*FOUR.tolist()),
    "square": lambda: FOUR.copy().reshape(2, 2),
    "longer": lambda: np.concatenate([FOUR, FOUR]),
    "memory": lambda: Memory(F32_4, CPU, FOUR.copy()),
}


@pytest.mark.parametrize("lender", LENDERS)
def test_what_lends_bytes_is_wrapped_without_a_copy(lender):
    held = LENDERS[lender]()
    mem = Memory(F32_4, CPU, held)
    assert mem.to_numpy().tolist() == [0, 1, 2, 3]
    assert not mem.readonly
    mem.data[1] = 42
    again = Memory(F32_4, CPU, held)
    assert again.to_numpy().tolist() == [0, 42, 2, 3]
    assert again.get_data_handle() == mem.get_data_handle()


def _frozen(x):
    x.flags.writeable = False
    return x


@pytest.mark.parametrize(
    "held",
    [FOUR.tobytes(), memoryview(FOUR.tobytes()), _frozen(FOUR.copy()), memoryview(FOUR.copy()).toreadonly()],
    ids=["bytes", "memoryview", "array", "toreadonly"],
)
def test_read_only_buffers_stay_read_only(held):
    mem = Memory(F32_4, CPU, held)
    assert mem.readonly
    assert "read-only" in repr(mem)
    for view in (mem.data, mem.physical(), np.asarray(mem), mem.map_data()):
        assert not view.flags.writeable
    copied = mem.to_numpy()
    assert copied.flags.writeable
    assert copied.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("order", ["C", "F", (0, 2, 3, 1), (3, 1, 0, 2)])
def test_dense_arrays_of_any_order_are_one_stretch_of_bytes(order):
    x = np.arange(120, dtype=np.int32).reshape(2, 3, 4, 5)
    held = np.asarray(x, order=order) if isinstance(order, str) else x.transpose(order)
    mem = Memory(desc((120,), "a"), CPU, held)
    assert mem.data.tolist() == held.ravel(order="K").tolist()
    assert np.shares_memory(mem.data, held)


@pytest.mark.parametrize(
    "held",
    [
        np.zeros((4, 6), np.float32)[:, :3],
        np.zeros(16, np.float32)[::2],
        np.zeros(16, np.float32)[::-1],
        np.zeros((4, 4), np.float32)[:, ::-1],
        np.broadcast_to(np.float32(1), (16,)),
        memoryview(bytearray(64))[::2],
        memoryview(bytearray(64))[::-1],
    ],
    ids=["gap", "step", "reversed", "reversed axis", "broadcast", "memoryview step", "memoryview reversed"],
)
def test_arrays_that_are_not_one_stretch_of_bytes_are_refused(held):
    with pytest.raises(InvalidArguments, match="not contiguous") as caught:
        Memory(F32_4, CPU, held)
    assert "from_numpy" in caught.value.hint


@pytest.mark.parametrize(
    ("data_type", "held"),
    [
        ("f32", np.zeros(8, np.float64)),
        ("f32", np.zeros(8, np.int32)),
        ("f32", np.zeros(8, ">f4")),
        ("f32", np.zeros(8, bool)),
        ("s32", np.zeros(8, np.int64)),
        ("u8", np.zeros(8, np.uint16)),
        ("f16", np.zeros(8, ml_dtypes.bfloat16)),
        ("f32", np.zeros(8, object)),
        ("f32", np.zeros(8, "U4")),
        ("f32", np.zeros(8, "c8")),
        ("f32", np.zeros(8, "M8[s]")),
        ("f32", np.zeros(8, [("x", "f4")])),
        ("f32", array.array("d", [0] * 8)),
        ("s4", np.zeros(8, ml_dtypes.int4)),
    ],
    ids=str,
)
def test_data_of_another_type_is_refused(data_type, held):
    with pytest.raises(InvalidArguments, match="another type") as caught:
        Memory(desc((4,), "a", data_type), CPU, held)
    assert data_type in caught.value.why
    assert "np.uint8" in caught.value.hint


def test_bits_of_a_narrow_float_may_come_as_unsigned_integers():
    bits = FOUR.astype(ml_dtypes.bfloat16).view(np.uint16)
    assert Memory(desc((4,), "a", "bf16"), CPU, bits).to_numpy().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("held", "hint"),
    [
        (0, "from_pointer"),
        (139_000_000_000_000, "from_pointer"),
        (True, "from_pointer"),
        (1.5, "pass an array"),
        ("1234567890123456", "pass an array"),
        ([0, 1, 2, 3], "pass an array"),
        (FOUR.tolist, "pass an array"),
        (F32_4, "pass an array"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_lends_no_bytes_is_refused(held, hint):
    for call in (lambda: Memory(F32_4, CPU, held), lambda: Memory(F32_4, CPU).set_data_handle(held)):
        with pytest.raises(InvalidArguments, match="not a buffer") as caught:
            call()
        assert hint in caught.value.hint


def test_arrays_of_other_libraries_are_sent_through_dlpack():
    class Tensor:
        def __dlpack__(self):
            raise AssertionError

    with pytest.raises(InvalidArguments) as caught:
        Memory(F32_4, CPU, Tensor())
    assert "rs.Memory.from_dlpack" in caught.value.hint


def test_released_and_closed_buffers_are_refused():
    released = memoryview(bytearray(16))
    released.release()
    closed = mmap.mmap(-1, 16)
    closed.close()
    for held in (released, closed):
        with pytest.raises(InvalidArguments, match="not a buffer"):
            Memory(F32_4, CPU, held)


def test_a_masked_array_is_refused():
    masked = np.ma.masked_array(FOUR.copy(), mask=[0, 1, 0, 0])
    with pytest.raises(InvalidArguments, match="masked"):
        Memory(F32_4, CPU, masked)
    with pytest.raises(InvalidArguments, match="mask"):
        Memory.from_numpy(masked)


def test_a_wrapped_bytearray_cannot_be_resized_until_it_is_let_go():
    held = bytearray(16)
    mem = Memory(F32_4, CPU, held)
    with pytest.raises(BufferError):
        held.append(0)
    mem.set_data_handle(NO_DATA)
    held.append(0)


def test_the_lender_lives_as_long_as_a_view():
    held = np.arange(4, dtype=np.float32)
    gone = weakref.ref(held)
    mem = Memory(F32_4, CPU, held)
    view = mem.physical()
    del held, mem
    gc.collect()
    assert gone() is not None
    assert view.tolist() == [0, 1, 2, 3]
    del view
    gc.collect()
    assert gone() is None


# Lengths


SIZED = [
    (desc((4,), "a"), 16),
    (desc((1, 17, 2, 2), "nChw16c"), 32 * 4 * 4),
    (MemoryDesc((2, 3), "s32", (6, 1)), 9 * 4),
    (desc((4, 6), "ab").submemory_desc((2, 3), (1, 2)), (8 + 6 + 3) * 4),
    (MemoryDesc.from_strides((3, 2), "s32", (-2, 1), 4), 6 * 4),
    (MemoryDesc.from_strides((5, 2), "s32", (0, 1)), 2 * 4),
    (desc((5,), "a", "s4"), 3),
    (desc((3,), "a", "u8"), 3),
]


@pytest.mark.parametrize(("md", "nbytes"), SIZED, ids=lambda value: str(value))
def test_the_length_of_data_is_checked_to_the_byte(md, nbytes):
    mem = Memory(md, CPU, bytearray(nbytes))
    address = mem.get_data_handle()
    assert address <= mem._lo < mem._hi == address + nbytes
    with pytest.raises(InvalidArguments, match="too short") as caught:
        Memory(md, CPU, bytearray(nbytes - 1))
    assert f"needs {nbytes} bytes" in caught.value.why
    assert f"has {nbytes - 1}" in caught.value.why
    assert caught.value.where == str(md)


def test_the_lowest_byte_touched_is_behind_offset0():
    part = desc((4, 6), "ab").submemory_desc((2, 3), (1, 2))
    mem = Memory(part, CPU, bytearray(24 * 4))
    assert (mem._lo - mem._address, mem._hi - mem._address) == (8 * 4, 17 * 4)
    assert mem._nbytes == 96


# Bare addresses


def test_a_bare_address_comes_with_its_length():
    held = np.arange(4, dtype=np.float32)
    mem = Memory.from_pointer(held.ctypes.data, held.nbytes, F32_4, CPU, owner=held)
    mem.data[0] = 9
    assert held[0] == 9
    gone = weakref.ref(held)
    del held
    gc.collect()
    assert gone() is not None
    assert Memory.from_pointer(mem.get_data_handle(), 16, F32_4, CPU, readonly=True).readonly


@pytest.mark.parametrize(
    ("address", "nbytes"),
    [
        (0, 16),
        (-8, 16),
        (4096, -1),
        (4096, 15),
        (2**64, 16),
        (2**63 - 8, 16),
        (4096, 2**63),
        (4096.0, 16),
        ("4096", 16),
        (True, 16),
        (None, 16),
        (4096, None),
        (4096, "16"),
    ],
)
def test_an_impossible_address_or_length_is_refused(address, nbytes):
    with pytest.raises(InvalidArguments):
        Memory.from_pointer(address, nbytes, F32_4, CPU)


# Handles and mapping


def test_a_handle_can_be_exchanged():
    one, two = np.zeros(4, np.float32), np.ones(8, np.float32)
    mem = Memory(F32_4, CPU, one)
    assert mem.set_data_handle(two, Stream(CPU)) is None
    assert mem.get_data_handle() == mem._address == two.ctypes.data
    assert (mem._lo, mem._hi, mem._nbytes) == (two.ctypes.data, two.ctypes.data + 16, 32)
    mem.set_data_handle(FOUR.tobytes())
    assert mem.readonly
    mem.set_data_handle(one)
    assert not mem.readonly


def test_a_refused_handle_leaves_the_memory_as_it_was():
    mem = Memory(F32_4, CPU, FOUR.copy())
    address = mem.get_data_handle()
    for bad in (bytearray(15), address, np.zeros(4), None):
        with pytest.raises(InvalidArguments):
            mem.set_data_handle(bad)
    assert mem.get_data_handle() == address
    assert mem.to_numpy().tolist() == [0, 1, 2, 3]


def test_mapped_data_is_the_memory():
    mem = Memory(F32_4, CPU, FOUR.copy())
    mapped = mem.map_data()
    assert mem._mapped
    assert "mapped" in repr(mem)
    mapped[...] = 5
    mem.unmap_data(mapped)
    assert not mem._mapped
    assert mem.to_numpy().tolist() == [5] * 4


def test_mapping_is_exclusive():
    mem = Memory(F32_4, CPU)
    mem.map_data()
    with pytest.raises(InvalidArguments, match="already mapped"):
        mem.map_data()
    with pytest.raises(InvalidArguments, match="is mapped"):
        mem.set_data_handle(bytearray(16))
    mem.unmap_data()
    with pytest.raises(InvalidArguments, match="not mapped"):
        mem.unmap_data()
    mem.map_data()


@pytest.mark.parametrize(
    "foreign", [np.zeros(4, np.float32), b"", 0, "x"], ids=["array", "bytes", "int", "str"]
)
def test_only_the_mapped_array_unmaps(foreign):
    mem = Memory(F32_4, CPU)
    mem.map_data()
    with pytest.raises(InvalidArguments, match="not returned by map_data"):
        mem.unmap_data(foreign)
    assert mem._mapped


def test_mapping_without_a_buffer_gives_nothing():
    mem = Memory(F32_4, CPU, NO_DATA)
    assert mem.map_data() is None
    assert mem.map_data() is None
    mem.unmap_data()
    mem.set_data_handle(FOUR.tobytes())


# Arrays as they lie


def check_wrapped(x, mem):
    """Every logical element is where the descriptor says, inside the bytes of `x`, without a copy."""
    assert mem.desc.dims == x.shape
    assert mem.desc.data_type is DataType.parse(x.dtype)
    assert mem._address <= mem._lo <= mem._hi <= mem._address + mem._nbytes
    if x.size:
        reach = [(n - 1) * stride for n, stride in zip(x.shape, x.strides, strict=True)]
        low = x.ctypes.data + sum(min(0, step) for step in reach)
        high = x.ctypes.data + sum(max(0, step) for step in reach) + x.itemsize
        assert (mem._lo, mem._hi) == (low, high)
        assert mem._address + mem.desc.offset(*(0,) * x.ndim) * x.itemsize == x.ctypes.data
        np.testing.assert_array_equal(mem.data[offsets(mem.desc)], x)
    np.testing.assert_array_equal(mem.to_numpy(), x)
    np.testing.assert_array_equal(np.asarray(mem), x)
    np.testing.assert_array_equal(mem.physical(), x.transpose(mem.desc.outer_order))


BASE = np.arange(2 * 3 * 4 * 5, dtype=np.int32).reshape(2, 3, 4, 5)
ARRAYS = {
    "rows": BASE,
    "channels last": BASE.transpose(0, 3, 1, 2),
    "columns": np.asfortranarray(BASE),
    "gap": BASE[:, 1:, :2, 1:4],
    "steps": BASE[:, ::2, ::3],
    "reversed": BASE[::-1],
    "all reversed": BASE[::-1, ::-1, ::-1, ::-1],
    "some reversed": BASE[:, ::-2, 1:, ::-1],
    "new axes": BASE[None, :, None, 1, :, :, None],
    "broadcast": np.broadcast_to(BASE[0, :, :1], (7, 3, 6, 5)),
    "scalar spread": np.broadcast_to(np.int32(7), (3, 4)),
    "one element": np.array([5], np.int32),
    "one reversed": np.array([5], np.int32)[::-1],
    "windows": np.lib.stride_tricks.sliding_window_view(np.arange(9, dtype=np.int32), 4),
    "frozen": _frozen(BASE.copy()),
    "twelve axes": BASE.reshape(2, 1, 3, 1, 2, 1, 2, 1, 5, 1, 1, 1),
    "no rows": BASE[:0],
    "no columns": BASE[:, :, :, :0],
    "none reversed": BASE[:, 5:, ::-1],
    "memmap-like": np.frombuffer(bytearray(40), np.int32),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_is_wrapped_as_it_lies(name):
    x = ARRAYS[name]
    mem = Memory.from_numpy(x)
    check_wrapped(x, mem)
    assert mem.engine is CPU
    assert mem.readonly is not x.flags.writeable


@pytest.mark.parametrize("data_type", ARRAY_TYPES, ids=str)
def test_every_array_type_is_wrapped(data_type):
    other = 2 if data_type is DataType.e8m0 else 0  # e8m0 has no zero
    x = np.array([[1, other, 1], [other, 1, 1]]).astype(data_type.numpy)
    mem = Memory.from_numpy(x[:, ::-1])
    check_wrapped(x[:, ::-1], mem)
    assert mem.data.dtype == data_type.numpy


@st.composite
def _lying_about(draw):
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    x = np.arange(np.prod(shape), dtype=np.int16 if draw(st.booleans()) else np.int32).astype(np.int32)
    x = x.reshape(shape).transpose(draw(st.permutations(range(len(shape)))))
    steps = st.sampled_from(
        [slice(None), slice(None, None, -1), slice(1, None, 2), slice(None, None, -2), None]
    )
    picks = draw(st.lists(steps, min_size=0, max_size=len(shape)))
    x = x[tuple(picks)]
    return np.broadcast_to(x, (draw(st.integers(1, 3)), *x.shape)) if draw(st.booleans()) else x


@given(_lying_about())
def test_any_strides_are_wrapped_as_they_lie(x):
    check_wrapped(x, Memory.from_numpy(x))


def test_what_is_written_through_a_wrapped_array_is_seen_in_it():
    x = np.zeros((2, 3, 4), np.float32)
    mem = Memory.from_numpy(x[:, ::-1].transpose(0, 2, 1))
    np.asarray(mem)[1, 3, 0] = 8
    assert x[1, 2, 3] == 8


def test_a_pointer_off_by_one_byte_is_fine():
    raw = bytearray(33)
    x = np.frombuffer(raw, np.float32, count=8, offset=1)
    assert not x.flags.aligned
    x[...] = np.arange(8)
    check_wrapped(x, Memory.from_numpy(x))
    assert Memory(desc((8,), "a", "f32"), CPU, x).to_numpy().tolist() == list(range(8))


def test_an_engine_can_be_named():
    assert Memory.from_numpy(FOUR, engine=Engine("reference")).engine is Engine("reference")
    for engine in ("cpu", "", 0, False):
        with pytest.raises(InvalidArguments, match="is not an engine"):
            Memory.from_numpy(FOUR, engine=engine)


def test_strides_of_axes_of_one_element_do_not_matter():
    packed = np.zeros(3, [("x", "f4"), ("y", "u1")])["x"]
    assert packed.strides == (5,)
    check_wrapped(packed[:1], Memory.from_numpy(packed[:1]))
    assert Memory.from_numpy(BASE[None, 0]).desc == desc((1, 3, 4, 5), "abcd")
    assert Memory.from_numpy(BASE[None, 0]).desc.tag == "abcd"


@pytest.mark.parametrize(
    ("x", "hint"),
    [
        (np.zeros(3, [("x", "f4"), ("y", "u1")])["x"], "np.ascontiguousarray(x)"),
        (np.zeros(3, [("x", "f4"), ("y", "u1")])["x"][::-1], "np.ascontiguousarray(x)"),
        (np.array(1.0, np.float32), "x.reshape(1)"),
        (np.zeros(3, ">f4"), 'x.astype(x.dtype.newbyteorder("="))'),
        (np.zeros(3, ">i8"), 'x.astype(x.dtype.newbyteorder("="))'),
        (np.zeros(3, object), "x.astype(np.float32)"),
        (np.zeros(3, "U3"), "x.astype(np.float32)"),
        (np.zeros(3, "S3"), "x.view(np.uint8)"),
        (np.zeros(3, "M8[s]"), "astype(np.int64)"),
        (np.zeros(3, "m8[s]"), "astype(np.int64)"),
        (np.zeros(3, np.complex64), "x.real"),
        (np.zeros(3, [("x", "f4"), ("y", "f4")]), "x['x']"),
        (np.zeros(3, np.longdouble), "x.astype(np.float32)"),
        (np.zeros(3, ml_dtypes.float8_e4m3b11fnuz), "x.astype(np.float32)"),
        (np.zeros(3, "V4"), "x.astype(np.float32)"),
        (np.zeros((0,), np.longdouble), "x.astype(np.float32)"),
        ([1.0, 2.0], "np.asarray(x)"),
        (np.float32(1), "np.asarray(x)"),
        (1.0, "np.asarray(x)"),
        (None, "pass an array"),
        ("abc", "rs.load(path)"),
        (memoryview(b"abc"), "np.asarray(x)"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(getattr(value, "dtype", type(value).__name__)),
)
def test_arrays_that_no_descriptor_can_say_are_refused_with_the_way_out(x, hint):
    with pytest.raises(InvalidArguments, match="cannot be wrapped") as caught:
        Memory.from_numpy(x)
    assert hint in caught.value.hint


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 1 has no StringDType")
def test_text_of_any_length_is_refused_with_the_way_out():
    with pytest.raises(InvalidArguments, match="cannot be wrapped") as caught:
        Memory.from_numpy(np.zeros(3, np.dtypes.StringDType()))
    assert "x.astype(np.float32)" in caught.value.hint


def test_more_than_twelve_axes_are_refused():
    with pytest.raises(InvalidArguments, match="at most 12"):
        Memory.from_numpy(np.zeros((1,) * 13, np.float32))


def test_four_bit_arrays_of_numpy_are_refused():
    with pytest.raises(Unimplemented, match="s4 arrays"):
        Memory.from_numpy(np.zeros(4, ml_dtypes.int4))


# Formats that confirm


@pytest.mark.parametrize("format", ["nchw", "abcd", "abx", (60, 20, 5, 1), desc((2, 3, 4, 5), "nchw")])
def test_a_plain_format_confirms_the_strides(format):
    assert Memory.from_numpy(BASE, format).desc == desc((2, 3, 4, 5), "nchw")


def test_a_format_of_reversed_strides_confirms_too():
    own = Memory.from_numpy(BASE[::-1]).desc
    check_wrapped(BASE[::-1], Memory.from_numpy(BASE[::-1], own))


@pytest.mark.parametrize(
    "format",
    [
        "nhwc",
        "acdb",
        "axb",
        (1, 2, 3, 4),
        (60, 20, 5, 2),
        desc((2, 3, 4, 5), "nhwc"),
        desc((2, 3, 4, 5), "nchw", "f32"),
        desc((2, 3, 20), "abc"),
        desc((4, 3, 4, 5), "nchw").submemory_desc((2, 3, 4, 5), (1, 0, 0, 0)),
        "any",
        "undef",
        MemoryDesc(),
        MemoryDesc((2, 3, 4, 5), "s32", "any"),
        "nChw16c",
        "nc",
        "ncdhw",
        "bogus",
        "🦉",
        "",
        5,
        (1, 2),
    ],
    ids=str,
)
def test_a_format_that_contradicts_the_array_is_refused(format):
    with pytest.raises(InvalidArguments):
        Memory.from_numpy(BASE, format)


@pytest.mark.parametrize(
    ("format", "shape", "dims"),
    [
        ("nChw16c", (2, 3, 4, 5, 16), (2, 48, 4, 5)),
        ("Acdb16a", (2, 4, 5, 3, 16), (32, 3, 4, 5)),
        ("OIhw4i16o4i", (2, 3, 1, 1, 4, 16, 4), (32, 48, 1, 1)),
        ("aBx8b", (2, 3, 4, 8), (2, 24, 4)),
        ("nChw16c", (0, 3, 4, 5, 16), (0, 48, 4, 5)),
    ],
)
def test_a_blocked_format_takes_the_physical_array(format, shape, dims):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    mem = Memory.from_numpy(x, format)
    assert mem.desc == MemoryDesc(dims, "f32", format)
    assert mem.get_data_handle() == x.ctypes.data
    np.testing.assert_array_equal(mem.physical(), x)


def test_a_descriptor_names_the_padding_of_a_physical_array():
    filled = counted(desc((2, 17, 3, 3), "nChw16c"))
    again = Memory.from_numpy(filled.physical(), filled.desc)
    assert again.desc == filled.desc
    np.testing.assert_array_equal(again.to_numpy(), filled.to_numpy())


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((2, 3, 4, 5, 8), np.float32),
        np.zeros((2, 48, 4, 5), np.float32),
        np.zeros((16,), np.float32),
        np.zeros((2, 3, 4, 16), np.float32),
        np.zeros((2, 3, 4, 5, 16, 1), np.float32),
        np.zeros((2, 3, 4, 5, 32), np.float32)[..., :16],
        np.zeros((2, 3, 4, 5, 16), np.float32)[::-1],
        np.zeros((3, 2, 4, 5, 16), np.float32).transpose(1, 0, 2, 3, 4),
    ],
    ids=lambda x: f"{x.shape}-{x.strides}",
)
def test_what_is_no_physical_array_of_a_blocked_format_is_refused(x):
    with pytest.raises(InvalidArguments):
        Memory.from_numpy(x, "nChw16c")


# Views


LAYOUTS = [
    desc((5,), "a"),
    desc((2, 3, 4, 5), "nchw"),
    desc((2, 3, 4, 5), "nhwc"),
    desc((2, 3, 4, 5), "cdba"),
    desc((2, 17, 3, 3), "nChw16c"),
    desc((2, 32, 1, 1), "nChw16c"),
    desc((1, 1, 1, 1), "nChw16c"),
    desc((17, 23, 2, 3), "ABcd16b16a2b"),
    desc((20, 9, 1, 2), "OIhw4i16o4i"),
    desc((20, 9, 2, 2), "Acdb16a"),
    desc((5, 7), "BA4b4a"),
    desc((3, 10, 2), "aBc4b"),
    desc((7, 5, 6), "ABc2a4b3a"),
    desc((2, 3, 5, 7, 3, 2), "gOIdhw8i8o"),
    MemoryDesc((3, 4), "s32", (10, 2)),
    MemoryDesc.from_strides((3, 4), "s32", (-4, 1), 8),
    MemoryDesc.from_strides((3, 4), "s32", (0, 1)),
    desc((4, 6), "ab").submemory_desc((2, 3), (1, 2)),
    desc((2, 48, 3), "aBc16b").submemory_desc((1, 32, 2), (1, 16, 1)),
    desc((2, 40, 3), "aBc16b").submemory_desc((1, 24, 2), (1, 16, 1)),
    desc((2, 48, 3), "aBc16b").submemory_desc((1, 5, 2), (1, 16, 1)),
]


@pytest.mark.parametrize("md", LAYOUTS, ids=str)
def test_the_logical_copy_holds_each_element_of_the_descriptor(md):
    mem = counted(md)
    copied = mem.to_numpy()
    np.testing.assert_array_equal(copied, offsets(md))
    assert copied.flags.c_contiguous
    assert not np.shares_memory(copied, mem.data)


@pytest.mark.parametrize("md", [md for md in LAYOUTS if "submemory" not in str(md)], ids=str)
def test_the_physical_view_is_the_storage(md):
    mem = Memory(md, CPU, np.arange(7000, dtype=np.int32))
    view = mem.physical()
    assert view.shape == md.physical_shape
    assert np.shares_memory(view, mem.data)
    order, blocks = md.outer_order, md.inner_blks
    for index in itertools.product(*map(range, md.dims)):
        position, digits = list(index), []
        for blk, axis in zip(reversed(blocks), reversed(md.inner_idxs), strict=True):
            position[axis], digit = divmod(position[axis], blk)
            digits.insert(0, digit)
        assert view[(*(position[d] for d in order), *digits)] == md.offset(*index)


def test_the_physical_view_of_a_dense_layout_is_contiguous():
    for md in (desc((2, 17, 3, 3), "nChw16c"), desc((2, 3, 4, 5), "nhwc"), desc((20, 9, 2, 2), "Acdb16a")):
        view = Memory(md, CPU).physical()
        assert view.flags.c_contiguous
        assert view.nbytes == md.size


def test_what_is_written_to_the_physical_view_is_in_the_memory():
    mem = Memory(desc((1, 17, 1, 1), "nChw16c"), CPU)
    mem.physical()[...] = 0
    mem.physical()[0, 1, 0, 0, 0] = 5
    assert mem.to_numpy().ravel().tolist() == [0] * 16 + [5]


def test_a_submemory_inside_a_block_that_ends_the_buffer_is_copied_but_not_viewed():
    part = desc((1, 32), "aB16b").submemory_desc((1, 5), (0, 16))
    mem = Memory(part, CPU, np.arange(21, dtype=np.int32))
    assert mem.to_numpy().tolist() == [[16, 17, 18, 19, 20]]
    with pytest.raises(InvalidArguments, match="cut off") as caught:
        mem.physical()
    assert "to_numpy()" in caught.value.hint


def test_the_flat_array_leaves_out_bytes_that_are_no_whole_element():
    assert Memory(F32_4, CPU, bytearray(19)).data.size == 4


def test_two_submemories_of_one_buffer_are_a_concatenation():
    whole = desc((3, 2), "ab")
    buffer = Memory(whole, CPU)
    for dims, start, value in (((1, 2), (0, 0), 1), ((2, 2), (1, 0), 2)):
        np.asarray(Memory(whole.submemory_desc(dims, start), CPU, buffer))[...] = value
    assert buffer.to_numpy().tolist() == [[1, 1], [2, 2], [2, 2]]


# Protocols


def test_a_plain_memory_is_an_array():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    mem = Memory.from_numpy(x.T)
    assert np.shares_memory(np.asarray(mem), x)
    assert np.array(mem).base is None
    assert np.asarray(mem, dtype=np.int32).tolist() == x.T.tolist()
    assert np.asarray(mem, dtype="f4").ctypes.data == x.ctypes.data
    assert not np.shares_memory(mem.__array__(copy=True), x)
    with pytest.raises(ValueError, match="needs a copy"):
        mem.__array__(np.float64, copy=False)


def test_a_blocked_memory_is_no_array_and_says_what_to_do():
    mem = Memory(desc((2, 17, 3, 3), "nChw16c"), CPU)
    for use in (lambda: np.asarray(mem), lambda: np.from_dlpack(mem), mem.__dlpack__):
        with pytest.raises(InvalidArguments, match="blocked layout") as caught:
            use()
        assert "mem.physical()" in caught.value.hint
        assert 'mem.to("nchw")' in caught.value.hint


@pytest.mark.parametrize("name", ["f32", "f16", "f64", "s32", "s8", "u8", "boolean"])
def test_dlpack_shares_the_memory(name):
    md = MemoryDesc((2, 3), name, "ba")
    mem = Memory(md, CPU)
    mem.data[...] = 1
    taken = np.from_dlpack(mem)
    assert taken.shape == (2, 3)
    assert np.shares_memory(taken, mem.data)
    assert mem.__dlpack_device__() == (1, 0)


def test_dlpack_keeps_the_buffer_after_the_memory():
    mem = Memory(F32_4, CPU)
    mem.data[...] = 3
    taken = np.from_dlpack(mem)
    del mem
    gc.collect()
    assert taken.tolist() == [3] * 4


@pytest.mark.parametrize("name", ["s4", "u4"])
def test_dlpack_of_elements_that_share_a_byte_is_unimplemented(name):
    mem = Memory(MemoryDesc((4,), name, "a"), CPU)
    with pytest.raises(Unimplemented) as caught:
        mem.__dlpack__(stream=None)
    assert "mem.data" in caught.value.hint


# Nothing to hold


@pytest.mark.parametrize("format", ["nchw", "nhwc", "nChw16c"])
@pytest.mark.parametrize("data", [None, NO_DATA, b"", bytearray(3)], ids=["own", "no data", "empty", "some"])
def test_a_memory_of_no_elements_reads_no_buffer(format, data):
    mem = Memory(desc((2, 0, 3, 3), format), CPU, data)
    assert mem.to_numpy().shape == (2, 0, 3, 3)
    assert mem.physical().size == 0
    assert mem._lo == mem._hi
    if format != "nChw16c":
        assert np.asarray(mem).shape == (2, 0, 3, 3)
        assert np.from_dlpack(mem).shape == (2, 0, 3, 3)


def test_no_elements_allocate_nothing_however_far_out():
    part = desc((2**40, 4), "ab", "u8").submemory_desc((0, 4), (2**39, 0))
    assert Memory(part, CPU).data.size == 0
    mapped = Memory(part, CPU)
    mapped.unmap_data(mapped.map_data())


# Four bits


@pytest.mark.parametrize("name", ["s4", "u4"])
def test_four_bit_types_are_packed_bytes(name):
    mem = Memory(desc((3, 3), "ab", name), CPU)
    assert (mem.data.dtype, mem.data.nbytes) == (np.uint8, 5)
    assert Memory(desc((3, 3), "ab", name), CPU, bytes(5)).readonly
    for use in (mem.physical, mem.__dlpack__):
        with pytest.raises(Unimplemented, match="share a byte"):
            use()


# Values


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda mem: pickle.loads(pickle.dumps(mem))])
def test_copies_have_their_own_bytes(again):
    mem = counted(desc((2, 17, 3, 3), "nChw16c"))
    other = again(mem)
    assert other.desc == mem.desc
    assert other.engine is mem.engine
    np.testing.assert_array_equal(other.data, mem.data)
    assert not np.shares_memory(other.data, mem.data)
    assert other.get_data_handle() % 64 == 0
    assert not again(Memory())
    assert again(Memory(mem.desc, CPU, NO_DATA)).data is None
    assert not again(Memory(F32_4, CPU, FOUR.tobytes())).readonly


def test_the_text_is_short_and_says_what_it_is():
    mem = Memory(desc((2, 17, 7, 7), "nChw16c", "f32"), CPU)
    assert repr(mem) == "restride.Memory(f32 2x17x7x7 aBcd16b, cpu:0, 12544 bytes)"


def test_a_memory_takes_no_new_attributes_and_can_be_referred_to_weakly():
    mem = Memory(F32_4, CPU)
    with pytest.raises(AttributeError):
        mem.note = 1
    with pytest.raises(AttributeError):
        mem.desc = F32_4
    assert weakref.ref(mem)() is mem


def test_wrapping_leaks_nothing():
    held = bytearray(16)
    before = sys.getrefcount(held)
    for _ in range(50):
        Memory(F32_4, CPU, held).data[0] = 1
    gc.collect()
    assert sys.getrefcount(held) == before
