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


def test_the_layout_of_the_first_array_is_kept():
    nhwc = [ramp(2, 5, 3, 4).transpose(0, 3, 1, 2) for _ in range(2)]
    made = rs.concat([*nhwc, ramp(2, 4, 5, 3)], 1)
    assert made.shape == (2, 12, 5, 3)
    assert made.transpose(0, 2, 3, 1).flags.c_contiguous


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
    with refused("concat: no type for the result", "f32, s8", "dtype='f32'"):
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
    with refused("concat.execute: source 0 and the destination overlap", "(N9)"):
        rs.concat([whole[1:4], rest], out=whole)


@pytest.mark.parametrize(
    ("call", "texts"),
    [
        (lambda x: rs.concat(x), ("concat: arrays is no list", "write [x]")),
        (lambda x: rs.concat(rs.Memory.from_numpy(x)), ("concat: arrays is no list", "write [x]")),
        (lambda x: rs.concat(5), ("concat: arrays is no list", "it is int")),
        (lambda x: rs.concat([]), ("concat: from 1 to 1024 sources",)),
        (lambda x: rs.concat([x, "x"]), ("concat: array 1 cannot be read", "str is no NumPy array")),
        (lambda x: rs.concat([x, x.astype(np.int64)]), ("concat: array 1 cannot be read", "int64")),
        (lambda x: rs.concat([x, rs.Memory()]), ("concat: array 1 is an empty memory",)),
        (lambda x: rs.concat([x, x[0]]), ("source 0 has 2 dims, source 1 has 1",)),
        (lambda x: rs.concat([x, x[:, 1:]]), ("dim 1 is 3 in source 0 and 2 in source 1",)),
        (lambda x: rs.concat([x], 2), ("concat: bad axis", "from 0 to 1, or from the end by -1 to -2")),
        (lambda x: rs.concat([x], 0.5), ("concat: axis is 0.5",)),
        (lambda x: rs.concat([x], 0, "abc"), ("abc",)),
        (lambda x: rs.concat([x], 0, 5.5), ("concat: layout is no format",)),
        (lambda x: rs.concat([x], 0, None, "f33"), ("concat: dtype is no data type",)),
        (lambda x: rs.concat([x], 0, (0, 1)), ("share memory", "(N8)")),
        (lambda x: rs.concat([x], out=x[:1]), ("dst is of another shape",)),
        (lambda x: rs.concat([x], out=[0]), ("concat: out cannot be written",)),
        (lambda x: rs.concat([x], layout="ba", out=x.copy()), ("out does not lie as layout says",)),
        (lambda x: rs.concat([x], dtype="s8", out=x.copy()), ("concat: dtype is s8", "leave dtype out")),
        (lambda x: rs.concat([x], layout=rs.MemoryDesc((2, 3), "s8"), dtype="f32"), ("dtype is f32",)),
        (lambda x: rs.concat([x], out=np.broadcast_to(x, x.shape)), ("read-only",)),
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


def test_add_n_of_many():
    arrays = [ramp(3, 7, start=i) for i in range(100)]
    np.testing.assert_array_equal(rs.add_n(arrays), np.sum(arrays, 0))


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
    with refused("add_n.execute: source 1 and the destination overlap"):
        square = ramp(3, 3)
        rs.add_n([square, square.T], out=square)


def test_add_n_of_memories_and_of_mixed_types():
    x = rs.reorder(ramp(2, 5, 3), "aBc8b")
    made = rs.add_n([x, x, ramp(2, 5, 3)])
    assert made.desc.tag == "aBc8b"
    np.testing.assert_array_equal(made.to_numpy(), 3 * ramp(2, 5, 3))
    with refused("add_n: no type for the result"):
        rs.add_n([ramp(2), ramp(2, dtype=np.int8)])
    assert rs.add_n([ramp(2), ramp(2, dtype=np.int8)], dtype=np.float64).dtype == np.float64


@pytest.mark.parametrize(
    ("call", "texts"),
    [
        (lambda x: rs.add_n(x), ("add_n: arrays is no list",)),
        (lambda x: rs.add_n([x, x], [1]), ("wrong number of scales",)),
        (lambda x: rs.add_n([x, x], ["1", 1]), ("add_n: scales[0] is '1'",)),
        (lambda x: rs.add_n([x, x[:1]]), ("different shapes", "a sum never broadcasts")),
        (lambda x: rs.add_n([x], out=x[:1]), ("different shapes",)),
    ],
    ids=range(5),
)
def test_what_cannot_be_added_is_refused(call, texts):
    with refused(*texts):
        call(ramp(2, 3))


def test_verbose_lines_of_arrays(capfd):
    x = ramp(3, 1019)
    with rs.verbose("profile"):
        for _ in range(2):
            rs.concat([x, x])
            rs.add_n([x, x])
    lines = [line.split(",") for line in capfd.readouterr().err.splitlines() if ",undef," in line]
    assert [line[5] for line in lines] == ["concat", "concat", "sum", "sum"] * 2
    operations = [["create:cache_miss", "exec"], ["create:cache_hit", "exec"]]
    assert [line[3] for line in lines] == [*operations[0] * 2, *operations[1] * 2]
