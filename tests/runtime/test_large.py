"""Tensors of more than 2**31 elements, and offsets past 2**31 and 2**32 in small ones."""

import numpy as np
import pytest

import restride as rs
from support.sparse import SparseMemory

CPU = rs.Engine("cpu")
STREAM = rs.Stream(CPU)
N = 46_342  # N * N is just above 2**31
PERIOD = 251 * 241


@pytest.fixture(scope="module")
def large():
    """(N, N) bytes whose value tells their place: no period divides a row."""
    pattern = np.arange(PERIOD, dtype=np.uint32)
    pattern = (pattern % 251).astype(np.uint8) ^ (pattern % 241).astype(np.uint8)
    x = np.empty(N * N, np.uint8)
    whole = N * N // PERIOD * PERIOD
    x[:whole].reshape(-1, PERIOD)[:] = pattern
    x[whole:] = pattern[: N * N - whole]
    return x.reshape(N, N)


def samples(count=200_000):
    """Positions all over, and the corners."""
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, N, (2, count))
    edge = np.array([0, 1, 63, 64, N // 2, N - 65, N - 64, N - 2, N - 1])
    corners = [part.ravel() for part in np.meshgrid(edge, edge)]
    return np.concatenate([rows, corners[0]]), np.concatenate([columns, corners[1]])


@pytest.mark.slow
def test_two_gigabytes_are_transposed(large):
    out = rs.reorder(large, "ba")
    assert out.strides == (1, N)
    rows, columns = samples()
    np.testing.assert_array_equal(out[rows, columns], large[rows, columns])
    np.testing.assert_array_equal(out[-1], large[-1])
    np.testing.assert_array_equal(out[:, -1], large[:, -1])
    np.testing.assert_array_equal(np.bincount(out[-3000:].ravel()), np.bincount(large[-3000:].ravel()))


@pytest.mark.slow
def test_two_gigabytes_are_blocked_with_a_padded_end(large):
    memory = rs.Memory(rs.MemoryDesc((N, N), "u8", "aB64b"), CPU)
    assert memory.desc.padded_dims == (N, 46_400)
    memory.data[-(1 << 20) :] = 0xFF
    rs.reorder(large, None, out=memory)
    blocks = memory.physical()
    rows, columns = samples()
    np.testing.assert_array_equal(blocks[rows, columns // 64, columns % 64], large[rows, columns])
    assert (blocks[:, -1, N % 64 :] == 0).all()


@pytest.mark.slow
def test_two_gigabytes_are_copied_and_converted_in_place(large):
    rows, columns = samples()
    before = large[rows, columns]
    out = large.view(np.int8)
    assert rs.reorder(large, None, scale=0.5, out=out) is out
    np.testing.assert_array_equal(out[rows, columns], np.rint(before / np.float32(2)).clip(-128, 127))


# Small tensors in a wide, empty address space


@pytest.fixture
def wide():
    """8 GiB of addresses."""
    made = SparseMemory(8 << 30)
    yield made.mapped
    made.close()


STRIDES = [
    ((2**31 + 4096, 1), "u8"),
    ((64, 2**25), "u8"),
    ((2**29 + 1024, 1), "f32"),
    ((2**30, 2**24), "bf16"),
    ((-(2**31), 1), "u8"),
    ((2**31, -(2**20)), "u8"),
]


@pytest.mark.parametrize(("strides", "data_type"), STRIDES, ids=str)
def test_strides_beyond_31_bits_lead_to_the_right_place(wide, strides, data_type):
    dims = (3, 37)
    start = sum((n - 1) * -s for n, s in zip(dims, strides, strict=True) if s < 0)
    far = rs.MemoryDesc.from_strides(dims, data_type, strides, start)
    near = rs.MemoryDesc(dims, data_type, "ba")
    src, dst = rs.Memory(near, CPU), rs.Memory(far, CPU, wide)
    src.data[:] = np.arange(111)
    rs.Reorder(src, dst).execute(STREAM, src, dst)
    view = np.asarray(dst)
    np.testing.assert_array_equal(view, np.arange(111).reshape(37, 3).T)
    back = rs.Memory(rs.MemoryDesc(dims, "f32", "AB4a4b"), CPU)
    rs.Reorder(dst, back).execute(STREAM, dst, back)
    np.testing.assert_array_equal(back.to_numpy(), np.asarray(src))


def test_an_offset_beyond_32_bits_leads_to_the_right_place(wide):
    whole = rs.MemoryDesc((2**17, 2**15), "u8", "ab")
    window = whole.submemory_desc((20, 33), (2**17 - 25, 2**15 - 40))
    assert window.offset0 > 2**31
    src, dst = rs.Memory(rs.MemoryDesc((20, 33), "u8", "ba"), CPU), rs.Memory(window, CPU, wide)
    src.data[:] = np.arange(660) % 251
    rs.Reorder(src, dst).execute(STREAM, src, dst)
    np.testing.assert_array_equal(np.asarray(dst), np.asarray(src))
