"""`concat` and `add_n` on arrays: NumPy, torch and memories alike; expected values from NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from support.errors import refused

CPU, REF = rs.Engine("cpu"), rs.Engine("reference")


def ramp(*shape, dtype=np.float32, start=0):
    """Whole numbers, row by row."""
    return (np.arange(np.prod(shape)) + start).reshape(shape).astype(dtype)


# --- concat -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64, ml_dtypes.bfloat16, np.bool_])
def test_concat_is_what_numpy_makes(axis, dtype):
    arrays = [ramp(2, 3, 4, dtype=dtype, start=i) for i in range(3)]
    made = rs.concat(arrays, axis)
    np.testing.assert_array_equal(made, np.concatenate(arrays, axis))
    assert made.dtype == dtype


def test_strides_of_any_kind():
    x = ramp(6, 8, 10)
    arrays = [x[::2, ::-1, 3:9], x[1:4, :, ::-1][:, :, :6], np.broadcast_to(x[0, 0, :6], (3, 8, 6))]
    np.testing.assert_array_equal(rs.concat(arrays, 1), np.concatenate(arrays, 1))


def test_a_layout_by_name():
    x, y = ramp(2, 3, 5, 7), ramp(2, 14, 5, 7, start=1000)
    whole = np.concatenate([x, y], 1)
    assert rs.concat([x, y], 1, "nhwc").transpose(0, 2, 3, 1).flags.c_contiguous
    blocked = rs.concat([x, y], 1, "nChw16c")
    assert (blocked.desc.tag, blocked.desc.dims) == ("aBcd16b", whole.shape)
    np.testing.assert_array_equal(blocked.to_numpy(), whole)
    assert not blocked.data[blocked.desc.offset(0, 17, 0, 0) :][:15].any()
    desc = rs.MemoryDesc(whole.shape, "s8", "abdc")
    np.testing.assert_array_equal(rs.concat([x, y], 1, desc), np.clip(whole, -128, 127))
    np.testing.assert_array_equal(rs.concat([x, y], 1, (700, 1, 119, 17)), whole)


def test_types_may_differ_where_the_result_has_one():
    x, y = ramp(2, 3) * 100, ramp(2, 2, dtype=np.int8)
    assert rs.concat([x, y], 1, dtype="s8").tolist() == [[0, 100, 127, 0, 1], [127, 127, 127, 2, 3]]
    with refused("concat: the type of the result is ambiguous", "f32, s8", "dtype='f32'"):
        rs.concat([x, y], 1)


def test_memories_in_a_memory_out():
    x, y = rs.reorder(ramp(2, 16, 3), "aBc16b"), rs.reorder(ramp(2, 5, 3), "aBc16b")
    made = rs.concat([x, y], 1)
    assert isinstance(made, rs.Memory)
    assert made.desc.tag == "aBc16b"
    np.testing.assert_array_equal(made.to_numpy(), np.concatenate([x.to_numpy(), y.to_numpy()], 1))
    plain = rs.concat([rs.Memory.from_numpy(ramp(2, 3))] * 2)
    assert isinstance(plain, rs.Memory)
    assert isinstance(rs.concat([ramp(2, 3), plain]), np.ndarray)


def test_the_engine_of_a_memory_runs_it():
    x = rs.Memory.from_numpy(ramp(2, 3), engine=REF)
    made = rs.concat([x, ramp(2, 3)], 0)
    assert made.engine is REF
    np.testing.assert_array_equal(np.asarray(made), np.concatenate([ramp(2, 3)] * 2))


def test_nibbles():
    x = ramp(2, 3, dtype=ml_dtypes.int4)
    made = rs.concat([x, x], 1)
    assert made.desc.data_type is rs.s4
    np.testing.assert_array_equal(made.to_numpy().astype(np.int8), np.concatenate([x, x], 1).astype(np.int8))
    assert rs.concat([x, x], 1, dtype="s8").dtype == np.int8


def test_into_an_array():
    x, y = ramp(2, 3), ramp(2, 4, start=50)
    out = np.zeros((7, 2), np.int16).view(np.float16).T
    assert rs.concat([x, y], 1, out=out) is out
    np.testing.assert_array_equal(out, np.concatenate([x, y], 1))
    memory = rs.Memory(rs.MemoryDesc((2, 7), "s8", "aB4b"), CPU)
    assert rs.concat([x, y], 1, out=memory) is memory
    np.testing.assert_array_equal(memory.to_numpy(), np.concatenate([x, y], 1))


def test_what_is_in_its_place_stays_there():
    whole = ramp(5, 6)
    rest = ramp(2, 6, start=100)
    wanted = np.concatenate([whole[:3], rest])
    assert rs.concat([whole[:3], rest], out=whole) is whole
    np.testing.assert_array_equal(whole, wanted)
    with refused("concat: array 0 and out overlap", "(N9)"):
        rs.concat([whole[1:4], rest], out=whole)


@pytest.mark.parametrize(
    "dtype",
    [
        *("int64", "uint64", "int16", "uint16", "uint32", "complex64", "complex128", ">f4", ">i2", ">c16"),
        ml_dtypes.float8_e4m3b11fnuz,
    ],
)
def test_any_one_type_of_numbers_is_moved_where_nothing_is_converted(dtype):
    bits = np.random.default_rng(1).integers(0, 256, (2, 5, 6 * np.dtype(dtype).itemsize), np.uint8)
    x = bits.view(dtype)
    parts, wanted = [x[:, :2], x[:, 2:]], bits
    for made in (rs.concat(parts, 1), rs.concat(parts, 1)):
        assert made.dtype == np.dtype(dtype)
        assert (made.view(np.uint8) == wanted).all()
    turned = rs.concat(parts, 1, dst="cab")
    assert turned.transpose(2, 0, 1).flags.c_contiguous
    assert (np.ascontiguousarray(turned).view(np.uint8) == wanted).all()
    out = np.empty_like(x)
    assert rs.concat(parts, 1, out=out) is out
    assert (out.view(np.uint8) == wanted).all()


@pytest.mark.parametrize(
    ("call", "texts"),
    [
        (
            lambda x: rs.concat([x, x], 0, "aB2b"),
            ("concat: no blocks of complex64", "no data type is complex"),
        ),
        (lambda x: rs.concat([x, x], dtype="s8"), ("concat: array 0 cannot be read", "complex64")),
        (lambda x: rs.concat([x, x.astype("c16")]), ("concat: array 0 cannot be read",)),
        (lambda x: rs.concat([x], out=x.real.astype("f8")), ("concat: array 0 cannot be read",)),
        (lambda x: rs.concat([x], 0, rs.MemoryDesc((2, 3), "f64")), ("concat: array 0 cannot be read",)),
        (lambda x: rs.concat([x.astype("c16")], 2), ("concat: bad axis",)),
        (lambda x: rs.concat([x.astype("c32")]), ("concat: array 0 cannot be read", "complex256")),
    ],
    ids=range(7),
)
def test_other_types_are_not_converted(call, texts):
    with refused(*texts):
        call(np.arange(6, dtype=np.complex64).reshape(2, 3))


def _memory(engine, data=None):
    return rs.Memory(rs.MemoryDesc((2, 3), "f32", "ab"), engine, data)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: rs.concat([_memory(CPU), _memory(REF)], 1), "concat: array 1"),
        (lambda: rs.add_n([ramp(2, 3), _memory(REF), _memory(CPU)]), "add_n: array 2"),
        (lambda: rs.add_n([_memory(CPU)], out=_memory(REF)), "add_n: out"),
        (lambda: rs.concat([_memory(REF)], out=_memory(CPU)), "concat: out"),
    ],
    ids=range(4),
)
def test_memories_of_two_engines_are_refused(call, name):
    with refused(f"{name} is on another engine", "make all memories on one engine"):
        call()


@pytest.mark.parametrize(
    ("call", "texts"),
    [
        (lambda x, out: rs.shuffle_channels(x, group=3, out=out(REF)), ("out is not valid", "reference:0")),
        (lambda x, out: rs.shuffle_channels(x, group=3, out=out(CPU, bytes(24))), ("out is read-only",)),
        (
            lambda x, out: rs.shuffle_channels(out(CPU, rs.NO_DATA), group=3),
            ("x is not valid", "no buffer"),
        ),
    ],
    ids=range(3),
)
def test_errors_of_shuffles_name_the_call_and_its_argument(call, texts):
    with pytest.raises(rs.InvalidArguments) as caught:
        call(_memory(CPU), _memory)
    assert caught.value.what == f"shuffle_channels: {texts[0]}"
    assert all(text in caught.value.message for text in texts)


@pytest.mark.parametrize(
    ("call", "texts"),
    [
        (lambda x: rs.concat(x), ("concat: arrays is not a list", "write [x]")),
        (lambda x: rs.concat(rs.Memory.from_numpy(x)), ("concat: arrays is not a list", "write [x]")),
        (lambda x: rs.concat(5), ("concat: arrays is not a list", "it is int")),
        (
            lambda x: rs.concat([]),
            ("concat: the number of arrays must be from 1 to 1024", "pass at least one array"),
        ),
        (lambda x: rs.concat([x, x.astype("c8")]), ("concat: array 1 cannot be read", "complex64")),
        (lambda x: rs.concat([x, rs.Memory()]), ("concat: array 1 is an empty memory",)),
        (lambda x: rs.concat([x, x[0]]), ("array 0 has 2 dims, array 1 has 1",)),
        (lambda x: rs.concat([x, x[:, 1:]]), ("dim 1 is 3 in array 0 and 2 in array 1",)),
        (lambda x: rs.concat([x], 2), ("concat: bad axis", "from 0 to 1, or from the end by -1 to -2")),
        (lambda x: rs.concat([x], 0.5), ("concat: axis is 0.5",)),
        (lambda x: rs.concat([x], 0, "abc"), ("concat: dst: format tag 'abc'",)),
        (lambda x: rs.concat([x], 0, 5.5), ("concat: dst is not a memory format",)),
        (lambda x: rs.concat([x], 0, None, "f33"), ("concat: dtype is not a data type",)),
        (lambda x: rs.concat([x], 0, (0, 1)), ("share memory", "(N8)")),
        (lambda x: rs.concat([x], out=x[:1]), ("concat: out has another shape", "omit out")),
        (lambda x: rs.concat([x], dst="ba", out=x.copy()), ("out does not match dst",)),
        (lambda x: rs.concat([x], dtype="s8", out=x.copy()), ("concat: dtype is s8", "leave dtype out")),
        (lambda x: rs.concat([x], dst=rs.MemoryDesc((2, 3), "s8"), dtype="f32"), ("dtype is f32",)),
        (lambda x: rs.concat([x], 0, "qq"), ("concat: dst: bad format tag 'qq'",)),
        (lambda x: rs.concat([x], 0, "qq", out=x.copy()), ("concat: dst: bad format tag 'qq'",)),
        (lambda x: rs.concat([x], 0, rs.MemoryDesc((2, 4), "f32")), ("concat: dst has another shape",)),
    ],
    ids=range(21),
)
def test_what_cannot_be_joined_is_refused(call, texts):
    with refused(*texts):
        call(ramp(2, 3))


# --- add_n --------------------------------------------------------------------------------------------------


def test_add_n_adds_with_scales():
    x, y, z = ramp(2, 3, 4), ramp(2, 3, 4, start=5), ramp(4, 3, 2).T
    np.testing.assert_array_equal(rs.add_n([x, y, z]), x + y + z)
    np.testing.assert_array_equal(rs.add_n([x, y, z], [2, -0.5, 0.25]), 2 * x - y / 2 + z / 4)
    np.testing.assert_array_equal(rs.add_n(x for x in (x, y)), x + y)


def test_add_n_of_integers_is_exact_and_saturates():
    x = np.array([2**31 - 1, -(2**31), 2**24 + 1], np.int32)
    assert rs.add_n([x, np.array([1, -1, 2], np.int32)]).tolist() == [2**31 - 1, -(2**31), 2**24 + 3]
    bytes_ = [np.full(4, 100, np.uint8)] * 3
    assert rs.add_n(bytes_).tolist() == [255] * 4
    assert rs.add_n(bytes_, dtype="s32").tolist() == [300] * 4


def test_add_n_into_an_array_that_may_be_one_of_them():
    x, y = ramp(2, 3), ramp(2, 3, start=9)
    wanted = x + 2 * y
    assert rs.add_n([x, y], [1, 2], out=y) is y
    np.testing.assert_array_equal(y, wanted)
    with refused("add_n: array 1 and out overlap"):
        square = ramp(3, 3)
        rs.add_n([square, square.T], out=square)


def test_add_n_of_memories_and_of_mixed_types():
    x = rs.reorder(ramp(2, 5, 3), "aBc8b")
    made = rs.add_n([x, x, ramp(2, 5, 3)])
    assert made.desc.tag == "aBc8b"
    np.testing.assert_array_equal(made.to_numpy(), 3 * ramp(2, 5, 3))
    with refused("add_n: the type of the result is ambiguous"):
        rs.add_n([ramp(2), ramp(2, dtype=np.int8)])
    assert rs.add_n([ramp(2), ramp(2, dtype=np.int8)], dtype=np.float64).dtype == np.float64


@pytest.mark.parametrize(
    ("call", "texts"),
    [
        (lambda x: rs.add_n(x), ("add_n: arrays is not a list",)),
        (lambda x: rs.add_n([x, x], [1]), ("add_n: wrong number of scales", "2 arrays and 1 scales")),
        (lambda x: rs.add_n([x, x], ["1", 1]), ("add_n: scales[0] is '1'",)),
        (lambda x: rs.add_n([x, x[:1]]), ("add_n: tensors have different shapes", "array 1 (1, 3)")),
        (lambda x: rs.add_n([]), ("add_n: the number of arrays must be from 1 to 1024",)),
        (lambda x: rs.add_n([x.astype("c8")] * 2), ("add_n: array 0 cannot be read", "complex64")),
        (lambda x: rs.add_n([x], out=x[:1]), ("different shapes",)),
    ],
    ids=range(7),
)
def test_what_cannot_be_added_is_refused(call, texts):
    with refused(*texts):
        call(ramp(2, 3))


def test_verbose_lines_of_arrays(capfd):
    x = ramp(3, 1019)
    with rs.set_verbose("profile"):
        for _ in range(2):
            rs.concat([x, x])
            rs.add_n([x, x])
    lines = [line.split(",") for line in capfd.readouterr().err.splitlines() if ",undef," in line]
    # What leaves a cache that other tests have filled is no concern of this.
    lines = [line for line in lines if line[3] != "cache:evict"]
    assert [line[5] for line in lines] == ["concat", "concat", "sum", "sum"] * 2
    operations = [["create:cache_miss", "exec"], ["create:cache_hit", "exec"]]
    assert [line[3] for line in lines] == [*operations[0] * 2, *operations[1] * 2]
