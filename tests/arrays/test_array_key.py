"""Warm calls with memories and physical arrays: the bytes and the refusals of a call that checks all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from restride.arrays import reorders as arrays
from restride.arrays.calls import function
from restride.arrays.calls.array_kinds import read_from, write_to

CPU = rs.Engine("cpu")
DIMS = (2, 19, 3, 5)
MD = rs.MemoryDesc(DIMS, "f32", "nhwc")


def numbers(dtype: str = "f4", seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-90, 90, DIMS).astype(dtype)


def memory(x: np.ndarray, format: str) -> rs.Memory:
    """A memory whose bytes are put there one by one, as its descriptor says where."""
    md = rs.MemoryDesc(x.shape, x.dtype, format)
    storage = np.zeros(md.size // x.itemsize, x.dtype)
    for index in np.ndindex(x.shape):
        storage[md.offset(*index)] = x[index]
    return rs.Memory(md, CPU, storage)


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], Any]:
    """Call it twice: the second time with the paths shut on which everything is checked."""

    def shut(*_: object, **__: object) -> None:
        raise AssertionError("this call checks everything")

    def call(work: Callable[[], Any]) -> Any:
        work()
        with monkeypatch.context() as patch:
            patch.setattr(arrays, "_general", shut)
            patch.setattr(function, "is_foreign", shut)
            return work()

    return call


# Results


@pytest.mark.parametrize("format", ["nchw", "nhwc", "nChw16c", "nChw8c", "NChw2n8c"])
@pytest.mark.parametrize(
    ("dst", "dtype"), [("nchw", None), ("nhwc", "s8"), (None, "f16"), ((1, 2, 38, 114), None)]
)
def test_a_memory_of_the_cpu_is_read_warm(warm, format, dst, dtype):
    x = numbers()
    source = memory(x, format)
    got = warm(lambda: rs.reorder(source, dst, dtype=dtype))
    again = warm(lambda: rs.reorder(memory(x + 1, format), dst, dtype=dtype))
    if isinstance(got, rs.Memory):
        assert dst is None
        assert source.desc.inner_blks
        got, again = got.to_numpy(), again.to_numpy()
    np.testing.assert_array_equal(got, x)
    np.testing.assert_array_equal(again, x + 1)


@pytest.mark.parametrize(("of_memory", "to_memory"), [(True, True), (True, False), (False, True)])
def test_out_may_be_either(warm, of_memory, to_memory):
    x = numbers()
    source = memory(x, "nChw8c") if of_memory else x
    out = memory(np.full(DIMS, -1, np.int8), "nChw4c") if to_memory else np.full(DIMS, -1, np.int8)
    assert warm(lambda: rs.reorder(source, None, out=out)) is out
    np.testing.assert_array_equal(out.to_numpy() if to_memory else out, x)
    if to_memory:
        assert not out.physical()[:, -1, :, :, 3:].any(), "padding is zero"


@pytest.mark.parametrize("src", ["nChw16c", rs.MemoryDesc(DIMS, "f32", "nChw16c")])
def test_a_physical_array_is_read_warm(warm, src):
    x = numbers()
    physical = memory(x, "nChw16c").physical()
    want = x if isinstance(src, rs.MemoryDesc) else np.pad(x, ((0, 0), (0, 13), (0, 0), (0, 0)))
    np.testing.assert_array_equal(warm(lambda: rs.reorder(physical, "nhwc", src=src)), want)


def test_a_format_that_only_confirms_is_no_detour(warm):
    x = numbers()
    turned = x[:, :, ::-1].transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(warm(lambda: rs.reorder(x, "nhwc", src="nchw")), x)
    with pytest.raises(rs.Error, match="strides of the array differ"):
        rs.reorder(turned, "nhwc", src="nchw")


@pytest.mark.parametrize("format", ["nhwc", "nChw16c"])
def test_memories_are_computed_warm(warm, format):
    x, scale = numbers(), np.linspace(0.5, 2, 19).astype(np.float32)
    named = {"scale": scale, "axis": 1, "post_ops": ["relu"], "dtype": "s32"}
    got = warm(lambda: rs.reorder(memory(x, format), "nchw", **named))
    want = np.rint(np.maximum(x * scale[:, None, None], 0)).astype(np.int32)
    np.testing.assert_array_equal(got, want)
    out = memory(np.zeros(DIMS, np.int32), "nChw4c")
    named.pop("dtype")
    assert warm(lambda: rs.reorder(memory(x, format), None, out=out, **named)) is out
    np.testing.assert_array_equal(out.to_numpy(), want)


@pytest.mark.parametrize("format", ["nchw", "nhwc", "nChw16c"])
def test_a_memory_is_shuffled_warm_into_its_own_format(warm, format):
    x = numbers()
    source = memory(x, format)
    got = warm(lambda: rs.shuffle(source, group_size=19))
    assert got.desc == source.desc
    np.testing.assert_array_equal(got.to_numpy(), x)
    got = warm(lambda: rs.shuffle_channels(source, group=5, axis=3))
    np.testing.assert_array_equal(got.to_numpy(), x.reshape(2, 19, 3, 5, 1)[..., 0])
    out = np.empty(DIMS, np.float32)
    assert warm(lambda: rs.shuffle_channels(source, group=3, axis=2, out=out)) is out
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize("first", [True, False])
def test_memories_are_joined_and_added_warm(warm, first):
    x, y = numbers(), numbers(seed=2)
    both = [memory(x, "nChw8c"), y] if first else [y, memory(x, "nhwc")]
    joined, added = np.concatenate([x, y] if first else [y, x], 1), x + y
    for work, want in ((lambda: rs.concat(both, 1), joined), (lambda: rs.add_n(both), added)):
        for got in (work(), warm(work)):
            assert type(got) is (rs.Memory if first else np.ndarray)
            np.testing.assert_array_equal(got.to_numpy() if first else got, want)


def test_the_moved_result_of_a_warm_call_is_a_memory_of_its_own(warm):
    x = numbers()
    source = memory(x, "nChw16c")
    first, second = source.to("nhwc"), warm(lambda: source.to("nhwc"))
    first.data[:] = 0
    np.testing.assert_array_equal(second.to_numpy(), x)


@pytest.mark.parametrize("to_memory", [True, False])
def test_factors_reach_what_is_written(warm, to_memory):
    x = numbers("f4")
    source = memory(x, "nChw16c")
    for scale, beta in ((2.0, 0.0), (None, 0.5), (3.0, -1.0)):
        old = numbers(seed=7)
        out = memory(old, "nhwc") if to_memory else old.copy()
        warm(lambda out=out, s=scale, b=beta: rs.reorder(source, None, scale=s, beta=b, out=out))
        factor = 1.0 if scale is None else scale
        # It is called twice.
        want = x * factor + beta * (x * factor + beta * old)
        np.testing.assert_array_equal(out.to_numpy() if to_memory else out, want)


@pytest.mark.parametrize("computed", [{"scale": np.float32([2, 3]), "axis": 0}, {"post_ops": ["relu"]}])
def test_arrays_that_run_backwards_are_computed_and_written_where_they_lie(warm, computed):
    x, frame = numbers()[:, ::-1, :, ::-1], np.full((2, 21, 3, 7), 7, np.float32)
    factor = computed.get("scale", np.float32([1, 1]))[:, None, None, None]
    want = np.maximum(x, 0) if "post_ops" in computed else x * factor
    np.testing.assert_array_equal(warm(lambda: rs.reorder(x, "nhwc", **computed)), want)
    out = frame[:, 19:0:-1, :, 5:0:-1]
    assert warm(lambda: rs.reorder(x, None, out=out, **computed)) is out
    np.testing.assert_array_equal(out, want)
    out[...] = 7
    assert (frame == 7).all(), "nothing beside it is written"


def test_an_out_that_runs_backwards_is_joined_where_it_lies(warm):
    x, y = memory(numbers(), "nhwc"), numbers(seed=2)[:, ::-1]
    frame = np.full((2, 40, 3, 5), 7, np.float32)
    out = frame[:, 38:0:-1]
    for call in (lambda work: work(), warm):
        assert call(lambda: rs.concat([x, y], 1, out=out)) is out
        np.testing.assert_array_equal(out, np.concatenate([x.to_numpy(), y], 1))
    out[...] = 7
    assert (frame == 7).all()


def test_strides_that_nothing_depends_on_are_those_asked_for():
    single = memory(np.arange(6, dtype=np.float32).reshape(2, 1, 3), "abc")
    for x in (single, np.asarray(single)):
        for _ in range(2):
            assert rs.reorder(x, (3, 77, 1)).strides == (12, 308, 4)
    empty = np.zeros((0, 2, 1, 3), np.float32)
    for x in (rs.Memory.from_numpy(empty), empty):
        for _ in range(2):
            assert rs.reorder(x, "chwn").strides == (4, 12, 12, 4)
            assert rs.concat([x if isinstance(x, np.ndarray) else np.asarray(x), x]).strides == (
                24,
                12,
                12,
                4,
            )


@pytest.mark.parametrize("engine", ["cpu", CPU])
def test_the_cpu_by_name_is_no_detour(warm, engine):
    x = numbers()
    for source in (x, memory(x, "nChw16c")):
        for named in ({}, {"scale": 0.5}, {"post_ops": ["relu"]}):
            got = warm(lambda s=source, n=named: rs.reorder(s, "nhwc", engine=engine, **n))
            want = np.maximum(x, 0) if "post_ops" in named else x * named.get("scale", 1)
            np.testing.assert_array_equal(got, want)


def test_another_engine_takes_the_checked_path():
    x = numbers()
    source = memory(x, "nChw16c")
    for engine in ("reference", rs.Engine("reference")):
        np.testing.assert_array_equal(rs.reorder(source, "nhwc", engine=engine), x)
    with pytest.raises(rs.Error):
        rs.reorder(source, "nhwc", engine="gpu0")


def test_another_buffer_is_read_from_then_on():
    x = numbers()
    source = memory(x, "nhwc")
    rs.reorder(source, "nchw")
    source.set_data_handle(memory(x + 1, "nhwc").data)
    np.testing.assert_array_equal(rs.reorder(source, "nchw"), x + 1)


# What takes a closer look


def test_what_takes_a_closer_look_has_no_end():
    md = rs.MemoryDesc(DIMS, "f32", "nhwc")
    mapped = rs.Memory(md, CPU)
    mapped.map_data()
    held = rs.Memory(md, CPU)
    masked = np.ma.masked_array(numbers())
    nibbles = np.zeros(4, ml_dtypes.int4)
    others = [mapped, rs.Memory(), rs.Memory(md, CPU, rs.NO_DATA), rs.Memory(md, rs.Engine("reference"))]
    for x in (*others, masked, nibbles, [1.0], 3.0, None):
        assert read_from(x) is None
        assert write_to(x) is None
    assert read_from(held, "nhwc") is None, "a memory has its own descriptor"
    assert read_from(numbers(), ["nchw"]) is None
    assert read_from(held) is not None


def test_what_must_not_be_written_is_no_end_to_write_to():
    x = numbers()
    x.flags.writeable = False
    source = rs.Memory.from_numpy(x)
    assert read_from(x)
    assert read_from(source)
    assert write_to(x) is None
    assert write_to(source) is None


def test_what_is_written_is_the_buffer_that_was_looked_at():
    md = rs.MemoryDesc(DIMS, "f32", "nhwc")
    out = rs.Memory(md, CPU)
    found = write_to(out)
    frozen = np.zeros(md.size // 4, np.float32)
    frozen.flags.writeable = False
    out.set_data_handle(frozen)
    assert found is not None
    assert found[1] != frozen.ctypes.data
    assert write_to(out) is None


@pytest.mark.parametrize("named", [{}, {"post_ops": ["relu"]}])
@pytest.mark.parametrize("dst", [rs.MemoryDesc(DIMS, "f32", "nchw"), (285, 1, 95, 19)])
def test_a_known_kind_does_not_hide_that_out_lies_otherwise(dst, named):
    source, right, wrong = (
        memory(numbers(), "nChw8c"),
        np.empty(DIMS, np.float32),
        memory(numbers(), "nChw8c"),
    )
    like = rs.MemoryDesc(DIMS, "f32", dst) if isinstance(dst, tuple) else dst
    held = rs.Memory(like, CPU)
    for _ in range(2):
        assert rs.reorder(source, dst, out=held, **named) is held
        assert rs.reorder(source, None, out=wrong, **named) is wrong
        assert rs.reorder(source, None, out=right, **named) is right
        assert "RS-A07" in refusal(lambda: rs.reorder(source, dst, out=wrong, **named))
    other = np.empty((2, 5, 19, 3), np.float32).transpose(0, 2, 3, 1)
    assert "RS-A07" in refusal(lambda: rs.reorder(source, dst, out=other, **named))


def refusal(work: Callable[[], Any]) -> str:
    with pytest.raises(rs.Error) as caught:
        work()
    return str(caught.value)


@pytest.mark.parametrize(
    ("named", "code"),
    [
        ({"dst": "abc"}, "RS-M06"),
        ({"dst": "nope"}, "RS-M11"),
        ({"dst": "nchw", "dtype": "f31"}, "RS-P15"),
        ({"dst": "nchw", "beta": 1.0}, "RS-A09"),
        ({"dst": None, "src": "nhwc"}, "RS-A14"),
        ({"dst": None, "out": np.zeros((2, 2), np.float32)}, "RS-R10"),
        ({"dst": "nchw", "out": rs.Memory(MD, CPU)}, "RS-A07"),
        ({"dst": "nchw", "dtype": "s8", "out": rs.Memory(rs.MemoryDesc(DIMS, "f32", "nchw"), CPU)}, "RS-A07"),
        ({"dst": "nchw", "scale": [1.0, 2.0], "axis": 1}, "RS-A11"),
    ],
)
def test_a_refusal_is_that_of_the_checked_call(monkeypatch, named, code):
    source = memory(numbers(), "nhwc")
    told = refusal(lambda: rs.reorder(source, **named))
    assert code in told
    monkeypatch.setattr(arrays, "find_call", lambda *_: None)
    assert refusal(lambda: rs.reorder(source, **named)) == told


def test_overlaps_and_read_only_outs_are_refused_and_nothing_is_written():
    whole = np.arange(600, dtype=np.float32)
    md = rs.MemoryDesc((2, 10, 5, 5), "f32", "nchw")
    turned = rs.MemoryDesc((2, 10, 5, 5), "f32", "nhwc")
    source = rs.Memory(md, CPU, whole[:500])
    for out in (rs.Memory(turned, CPU, whole[99:599]), rs.Memory(turned, CPU, whole[:500])):
        assert "overlap" in refusal(lambda out=out: rs.reorder(source, None, out=out))
    assert "overlap" in refusal(lambda: rs.shuffle(source, group_size=5, out=source))
    frozen = whole[:500].copy()
    frozen.flags.writeable = False
    for work in (rs.reorder, lambda x, _, out: rs.shuffle(x, group_size=5, out=out)):
        assert "read-only" in refusal(lambda work=work: work(source, None, out=rs.Memory(md, CPU, frozen)))
    np.testing.assert_array_equal(whole, np.arange(600))
    np.testing.assert_array_equal(frozen, np.arange(500))


def test_bits_of_a_type_that_memories_have_not_stay_out_of_them():
    x = np.arange(6, dtype=np.complex64).reshape(1, 6)
    out = rs.Memory(rs.MemoryDesc((1, 6), "f64", "ab"), CPU)
    for _ in range(2):
        assert "complex64" in refusal(lambda: rs.shuffle(x, group_size=2, out=out))


def test_a_warm_call_with_a_memory_has_its_verbose_lines(capfd):
    source = memory(numbers(), "nChw16c")
    rs.reorder(source, "nchw")
    with rs.set_verbose("profile"):
        rs.reorder(source, "nchw")
        rs.shuffle(source, group_size=19)
        rs.reorder(source, "nchw", scale=np.ones(19, np.float32), axis=1)
    lines = [line.split(",") for line in capfd.readouterr().err.splitlines()]
    ran = [line[5] for line in lines if line[3] == "exec"]
    assert ran == ["reorder", "shuffle", "reorder"]
