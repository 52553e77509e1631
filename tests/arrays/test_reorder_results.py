"""Results of `rs.reorder`: new ones, and those written into `out` (N9, N14)."""

import numpy as np
import pytest

import restride as rs
from restride.runtime.alloc import address_of
from support.errors import refused
from support.images import CPU, DIMS, STRIDES, image


@pytest.fixture
def x():
    return image()


# New results


def test_the_result_is_new_memory_that_owns_itself(x):
    first, second = rs.reorder(x, "nchw"), rs.reorder(x, "nchw")
    assert first is not x
    first[:] = 0
    np.testing.assert_array_equal(second, x)
    assert second.flags.writeable
    assert not np.shares_memory(first, second)
    del first, x
    assert second.sum() == 7140


@pytest.mark.parametrize("n", [1 << 14, 1 << 17, 1 << 20])
def test_large_results_begin_on_a_cache_line(n):
    got = rs.reorder(np.zeros((4, n // 4), np.float32), "ba")
    assert got.ctypes.data % 64 == 0 or n < 1 << 16


# Addresses


def test_addresses_read_from_the_array_itself_are_those_numpy_tells():
    whole = np.zeros((5, 6, 7), np.float32)
    for array in (whole, whole[1:], whole[:, ::-1], whole.T, whole[2, 3, 4:], np.empty(0), np.empty((0, 3))):
        assert address_of(array) == array.ctypes.data


# out


def nan_like(dims, strides=None, dtype="f4"):
    whole = np.full(2000, np.nan).astype(dtype) if np.dtype(dtype).kind == "f" else np.full(2000, -1, dtype)
    if strides is None:
        return whole[: int(np.prod(dims))].reshape(dims)
    return np.lib.stride_tricks.as_strided(whole, dims, [s * whole.itemsize for s in strides])


@pytest.mark.parametrize("strides", [STRIDES["nchw"], STRIDES["nhwc"], (1, 2, 40, 10), (600, 100, 20, 2)])
@pytest.mark.parametrize("dtype", ["f4", "i1", "f2"])
def test_out_is_written_as_it_lies_and_returned(x, strides, dtype):
    out = nan_like(DIMS, strides, dtype)
    assert rs.reorder(x, None, out=out) is out
    np.testing.assert_array_equal(out, np.clip(x, -128, 127) if dtype == "i1" else x)


def test_out_may_run_backwards(x):
    out = nan_like(DIMS)[::-1, :, ::-1]
    rs.reorder(x, None, out=out)
    np.testing.assert_array_equal(out, x)


def test_a_tag_takes_the_type_of_out(x):
    out = nan_like(DIMS, STRIDES["nhwc"], "i1")
    assert rs.reorder(x, "nhwc", out=out) is out
    assert rs.reorder(x, "nhwc", dtype="s8", out=out) is out
    assert rs.reorder(x, rs.MemoryDesc(DIMS, "s8", "nhwc"), out=out) is out
    np.testing.assert_array_equal(out, x)
    memory = rs.Memory(rs.MemoryDesc(DIMS, "s8", "nChw16c"), CPU)
    assert rs.reorder(x, "nChw16c", out=memory) is memory
    np.testing.assert_array_equal(memory.to_numpy(), x)


def test_out_may_be_the_physical_array_of_a_blocked_destination(x):
    for dtype in ("f4", "i1"):
        out = nan_like((2, 1, 3, 4, 16), dtype=dtype)
        assert rs.reorder(x, "nChw16c", out=out) is out
        np.testing.assert_array_equal(out[:, 0, :, :, :5].transpose(0, 3, 1, 2), x)
        assert (out[..., 5:] == 0).all()
        assert rs.reorder(x, rs.MemoryDesc(DIMS, out.dtype, "nChw16c"), out=out) is out


def test_out_may_be_a_memory_of_any_format(x):
    for format in ("nchw", "nhwc", "nChw16c"):
        out = rs.Memory(rs.MemoryDesc(DIMS, "s32", format), CPU)
        assert rs.reorder(x, None, out=out) is out
        assert rs.reorder(x, format, dtype="s32", out=out) is out
        np.testing.assert_array_equal(out.to_numpy(), x)


def check_untouched(out):
    assert (np.asarray(out).view(np.uint8) == 0xFF).all()


def poisoned(dims, dtype="f4"):
    return np.full((*dims[:-1], dims[-1] * np.dtype(dtype).itemsize), 0xFF, np.uint8).view(dtype)


@pytest.mark.parametrize(
    ("dst", "dtype", "made", "why"),
    [
        (None, None, ((2, 5, 3, 3), "f4"), "dim 3 is 4 in src and 3 in dst"),
        (None, None, ((120,), "f4"), "src has 4 dims, dst has 1"),
        (None, "s8", (DIMS, "f4"), "its elements are f32, not s8"),
        ("nchw", "s8", (DIMS, "u1"), "its elements are u8, not s8"),
        ("nhwc", None, (DIMS, "f4"), "its strides are (60, 12, 4, 1) elements, not (60, 1, 20, 5)"),
        ("nchw", None, ((2, 5, 4, 3), "f4"), "its shape is (2, 5, 4, 3), not (2, 5, 3, 4)"),
        ("nChw16c", None, (DIMS, "f4"), "physical array, dense and of shape (2, 1, 3, 4, 16)"),
        ("nChw16c", None, ((2, 1, 3, 4, 8), "f4"), "physical array"),
        (rs.MemoryDesc(DIMS, "f32", "nhwc"), None, (DIMS, "i4"), "its elements are s32, not f32"),
        (rs.MemoryDesc((2, 5, 3, 3), "f32"), None, ((2, 5, 3, 3), "f4"), "dim 3"),
    ],
)
@pytest.mark.parametrize("as_memory", [False, True], ids=["array", "memory"])
def test_an_out_that_does_not_fit_is_refused_and_not_written(x, dst, dtype, made, why, as_memory):
    out = poisoned(*made)
    if as_memory and "physical" in why:
        return
    with refused("out" if "dim" not in why else "shapes", why):
        rs.reorder(x, dst, dtype=dtype, out=rs.Memory.from_numpy(out) if as_memory else out)
    check_untouched(out)


def test_a_read_only_out_is_refused_and_a_read_only_source_is_not(x):
    out = poisoned(DIMS)
    out.flags.writeable = False
    for target in (out, rs.Memory.from_numpy(out), np.frombuffer(b"\xff" * 480, "f4").reshape(DIMS)):
        for source in (x, rs.Memory.from_numpy(x)):
            with refused("read-only"):
                rs.reorder(source, None, out=target)
    check_untouched(out)
    x.flags.writeable = False
    np.testing.assert_array_equal(rs.reorder(x, "nhwc"), x)


def test_a_read_only_file_in_memory_is_refused(x, tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"\xff" * x.nbytes)
    mapped = np.memmap(path, np.float32, "r", shape=DIMS)
    for out in (mapped, np.asarray(mapped), rs.Memory.from_numpy(mapped)):
        with refused("read-only"):
            rs.reorder(x, None, out=out)
    assert (rs.reorder(mapped, "nhwc").view("u4") == 0xFFFFFFFF).all()
    assert path.read_bytes() == b"\xff" * x.nbytes


@pytest.mark.parametrize(
    "out", ["array", 5, [1.0], b"bytes", bytearray(480), object(), np.float32(1), rs.Memory()]
)
def test_an_out_that_is_no_array_is_refused(x, out):
    for source in (x, rs.Memory.from_numpy(x)):
        with refused("out is not an array"):
            rs.reorder(source, None, out=out)


def test_a_broadcast_out_is_refused(x):
    out = np.lib.stride_tricks.as_strided(np.zeros(4, "f4"), DIMS, (0, 0, 0, 4))
    with refused("share memory"):
        rs.reorder(x, None, out=out)


# Overlap (N9)


def test_partial_overlap_is_refused_and_nothing_is_written():
    whole = poisoned((100,))
    windows = [
        (whole[:60], whole[30:90]),
        (whole[1:61], whole[:60]),
        (whole[:-2:2], whole[2::2]),
        (whole, whole[::-1]),
        (whole[:64].reshape(8, 8), whole[:64].reshape(8, 8).T),
        (whole.view("i1")[:100], whole),
        (whole, whole.view("i1")[:100]),
        (whole.view("f2")[:100], whole),
    ]
    for source, out in windows:
        for a in (source, rs.Memory.from_numpy(source)):
            with refused("overlap", "N9"):
                rs.reorder(a, None, out=out)
    check_untouched(whole)


def test_neighbors_are_apart():
    whole = np.arange(100, dtype=np.float32)
    rs.reorder(whole[:50], None, out=whole[50:])
    np.testing.assert_array_equal(whole[50:], np.arange(50))
    rs.reorder(whole[50:], None, scale=2, out=whole[:50])
    np.testing.assert_array_equal(whole[:50], 2 * np.arange(50))


def test_an_array_converts_in_place():
    for step in (1, -1, 2):
        x = (np.arange(99, dtype=np.float32) - 40.25)[::step]
        wanted = np.rint(x).astype(np.int32)
        out = x.view(np.int32) if abs(step) == 1 else x.base.view(np.int32)[::step]
        assert rs.reorder(x, None, out=out) is out
        np.testing.assert_array_equal(out, wanted)
    x = np.arange(99, dtype=np.float32)
    rs.reorder(x, None, scale=0.5, out=x)
    np.testing.assert_array_equal(x, np.arange(99) / 2)
    rs.reorder(x, None, beta=1.0, out=x)
    np.testing.assert_array_equal(x, np.arange(99))
