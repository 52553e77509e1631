"""Bad inputs and faults, a test for each: what must happen, and that nothing else does.

The numbers are those of the list of thirty that restride promises to stand.
"""

import time

import numpy as np
import pytest

import restride as rs
from restride.runtime.cpu import kernel
from support.engines import allocated, from_numpy, memory_over, run, storage
from support.errors import refused

CPU, REF = rs.Engine("cpu"), rs.Engine("reference")
STREAM = rs.Stream(CPU)
DIMS = (2, 17, 3, 5)
X = np.arange(510, dtype=np.float32).reshape(DIMS)
POISON = 0xFF


def poisoned(dims, dtype="f4"):
    return np.full((*dims[:-1], dims[-1] * np.dtype(dtype).itemsize), POISON, np.uint8).view(dtype)


def check_untouched(*arrays):
    for array in arrays:
        assert (array.view(np.uint8) == POISON).all()


def fastest(ask, times=7):
    """Seconds of the fastest call; other programs may slow some."""
    best = 60.0
    for _ in range(times):
        start = time.thread_time()
        ask()
        best = min(best, time.thread_time() - start)
    return best


@pytest.fixture
def nothing_compiles(monkeypatch):
    def fail(*_):
        raise AssertionError("compiled")

    monkeypatch.setattr(kernel, "Kernel", fail)


# 1: tags

TAGS = {
    "nChw8": "^",
    "nnchw": "^",
    "": "",
    "n" * 10_240: "at most",
    "nch\N{GRINNING FACE}w": "^",
    "nchw\0": "^",
    "aBcd0b": "^",
    "aBcd99999999999999999999b": "^",
    "aBcd-8b": "^",
    "nhwx": "^",
}


@pytest.mark.parametrize("tag", TAGS, ids=lambda tag: tag[:12].encode("unicode_escape").decode())
def test_01_bad_tags_get_a_caret_and_a_hint_in_a_millisecond_and_compile_nothing(tag, nothing_compiles):
    for ask in (lambda: rs.reorder(X, tag), lambda: rs.plan(X, tag), lambda: rs.MemoryDesc(DIMS, "f32", tag)):
        with refused(TAGS[tag]):
            ask()

        def asked(ask=ask):
            with pytest.raises(rs.Error):
                ask()

        assert fastest(asked, 20) < 2e-3


def test_01_a_blocked_axis_in_lower_case_is_unambiguous():
    np.testing.assert_array_equal(rs.reorder(X, "nchw8c").physical(), rs.reorder(X, "nChw8c").physical())


# 2, 3, 4: dims


@pytest.mark.parametrize("dims", [(0,), (3, 0), (0, 5, 8, 8), (2, 0, 3, 3)])
def test_02_dims_of_zero_read_and_write_nothing(engine, dims):
    md = rs.MemoryDesc(dims, "f32")
    assert md.size == 0
    bytes_ = storage(np.full(64, POISON, np.uint8), engine)
    src, dst = memory_over(md, engine, bytes_), memory_over(md, engine, bytes_)
    run(rs.Reorder(src, dst), engine, src, dst)
    assert rs.reorder(np.empty(dims, np.float32), None).shape == dims
    check_untouched(bytes_)


@pytest.mark.parametrize("wrong", [-1, -(2**40), True, 1.0, "3", None, [3], 2**63, np.float32(3), np.True_])
@pytest.mark.parametrize("index", [0, 2])
def test_03_dims_that_are_no_counts_are_refused_by_their_index(wrong, index):
    dims = [2, 3, 4]
    dims[index] = wrong
    with refused(f"dims[{index}]"):
        rs.MemoryDesc(dims, "f32")


def test_03_numpys_integers_are_counts():
    dims = (np.int64(2), np.uint8(3), np.int16(4))
    assert rs.MemoryDesc(dims, "f32") == rs.MemoryDesc((2, 3, 4), "f32")
    assert rs.MemoryDesc(np.array([2, 3, 4]), "f32").dims == (2, 3, 4)


SIZES = [((2**40, 2**40), "ab"), ((2**62, 2), "ab"), ((2**61, 1, 1), "aBc64b"), ((2**63 - 1, 8), "ba")]


@pytest.mark.parametrize(("dims", "format"), SIZES)
def test_04_sizes_past_2_to_the_63_are_refused_before_anything_is_allocated(dims, format, nothing_compiles):
    for data_type in ("f32", "u8"):
        with refused("2**63"):
            rs.MemoryDesc(dims, data_type, format)


def test_04_sizes_that_the_system_has_not_are_out_of_memory(engine, nothing_compiles):
    md = rs.MemoryDesc((2**46, 2**10), "u8")
    with refused("cannot allocate", kind=rs.OutOfMemory):
        rs.Memory(md, engine)
    with refused("cannot allocate", kind=rs.OutOfMemory):
        rs.reorder(np.broadcast_to(np.zeros(1, np.uint8), md.dims), "ba")


# 5 is in test_large.py. 6: channels


def test_06_17_channels_become_32_with_zeros_and_come_back_as_17():
    out = poisoned((2, 2, 3, 5, 16))
    rs.reorder(X, "nChw16c", out=out)
    assert (out[:, 1, :, :, 1:].view(np.uint32) == 0).all()
    np.testing.assert_array_equal(rs.reorder(rs.reorder(X, "nChw16c"), "nchw"), X)


# 7 to 10: out


def test_07_an_out_one_byte_short_is_refused():
    short = np.full(X.nbytes - 1, POISON, np.uint8)
    with refused(f"needs {X.nbytes} bytes", f"has {X.nbytes - 1}"):
        rs.Memory(rs.MemoryDesc(DIMS, "f32"), CPU, short)
    dst = rs.Memory(rs.MemoryDesc(DIMS, "f32"), CPU, rs.NO_DATA)
    with refused(f"needs {X.nbytes} bytes"):
        dst.set_data_handle(short)
    with refused("no buffer"):
        rs.reorder(X, None, out=dst)
    check_untouched(short)


@pytest.mark.parametrize(
    ("dims", "dtype", "options"),
    [
        ((2, 17, 3, 4), "f4", {}),
        ((2, 17, 5, 3), "f4", {}),
        ((510,), "f4", {}),
        (DIMS, "i4", {"dtype": "f32"}),
        (DIMS, "u1", {"dtype": "s8"}),
        (DIMS, "f8", {"dtype": "f32"}),
    ],
)
def test_07_an_out_of_other_dims_or_type_is_refused_and_not_written(dims, dtype, options):
    out = poisoned(dims, dtype)
    for target in (out, rs.Memory.from_numpy(out)):
        with pytest.raises(rs.Error) as caught:
            rs.reorder(X, None, out=target, **options)
        assert caught.value.where
        assert caught.value.hint
    check_untouched(out)


def test_08_a_read_only_out_is_refused_and_a_read_only_source_is_fine(tmp_path):
    frozen = poisoned(DIMS)
    frozen.flags.writeable = False
    mapped = np.memmap(tmp_path / "file", np.float32, "w+", shape=DIMS)
    mapped[:] = poisoned(DIMS)
    mapped.flush()
    outs = [frozen, np.frombuffer(b"\xff" * X.nbytes, np.float32).reshape(DIMS)]
    outs.append(np.memmap(tmp_path / "file", np.float32, "r", shape=DIMS))
    for out in outs:
        for target in (out, rs.Memory.from_numpy(out), rs.Memory(rs.MemoryDesc(DIMS, "f32"), CPU, out)):
            with refused("read-only"):
                rs.reorder(X, None, out=target)
        check_untouched(np.asarray(out))
        assert rs.reorder(out, "nhwc").shape == DIMS
    with refused("read-only"):
        rs.reorder(X, None, out=rs.Memory(rs.MemoryDesc(DIMS, "f32"), CPU, bytes(X.nbytes)))


def test_09_an_out_that_overlaps_by_part_is_refused_and_not_written():
    whole = poisoned((600,))
    for shift in (1, 3, 64, 89):
        source, out = whole[:510].reshape(DIMS), whole[shift : 510 + shift].reshape(DIMS)
        for a, b in ((source, out), (out, source)):
            with refused("overlap", "N9"):
                rs.reorder(a, None, out=b)
            with refused("overlap", "N9"):
                rs.reorder(rs.Memory.from_numpy(a), None, out=rs.Memory.from_numpy(b))
    check_untouched(whole)


def test_09_the_same_array_converts_in_place():
    x = X.copy()
    rs.reorder(x, None, out=x.view(np.int32))
    np.testing.assert_array_equal(x.view(np.int32), X)


SHARED = [(0, 15, 5, 1), (255, 0, 5, 1), (15, 5, 3, 1), (255, 15, 5, 0), (1, 1, 1, 1)]


@pytest.mark.parametrize("strides", SHARED)
def test_10_destinations_that_share_memory_are_refused(strides):
    out = np.lib.stride_tricks.as_strided(poisoned((600,)), DIMS, [4 * s for s in strides])
    with refused("share memory", "N8"):
        rs.reorder(X, None, out=out)
    with refused("share memory", "N8"):
        rs.Reorder.PrimitiveDesc(
            CPU, rs.MemoryDesc(DIMS, "f32"), CPU, rs.MemoryDesc.from_strides(DIMS, "f32", strides)
        )
    check_untouched(np.ascontiguousarray(out))


# 11, 12, 13: values


def test_11_negative_strides_are_read_right():
    np.testing.assert_array_equal(rs.reorder(X[::-1, :, ::-1, ::-1], "nhwc"), X[::-1, :, ::-1, ::-1])


OF_ONE_ARRAY = {
    "reorder": lambda x, **more: rs.reorder(x, "nhwc", **more),
    "concat": lambda x, **more: rs.concat([x[:, :2], x[:, 2:]], 1, **more),
    "add_n": lambda x, **more: rs.add_n([x], **more),
    "shuffle": lambda x, **more: rs.shuffle(x, group_size=1, **more),
    "shuffle_channels": lambda x, **more: rs.shuffle_channels(x, group=1, **more),
    "channel_shuffle": lambda x: rs.channel_shuffle(x, 1),
    "quantize": lambda x: rs.dequantize(*rs.quantize(x)),
    "dequantize": lambda x: rs.dequantize(x, 1.0),
    "Memory.from_numpy": lambda x: rs.Memory.from_numpy(x).to_numpy(),
}


_MOVES = ("reorder", "concat", "shuffle", "shuffle_channels", "channel_shuffle")


@pytest.mark.parametrize("name", _MOVES)
def test_11_foreign_byte_order_is_kept_where_nothing_is_computed(name):
    for order in (">f4", ">f2", ">i4"):
        moved = OF_ONE_ARRAY[name](X.astype(order))
        assert moved.dtype == np.dtype(order)
        np.testing.assert_array_equal(moved, X)


@pytest.mark.parametrize("name", [name for name in OF_ONE_ARRAY if name not in _MOVES])
def test_11_foreign_byte_order_is_refused_with_the_way_out(name):
    call, small = OF_ONE_ARRAY[name], X % 100
    for order in (">f4", ">f2", ">i4"):
        big = small.astype(order)
        with refused(name, "its elements are >", 'x.astype(x.dtype.newbyteorder("="))'):
            call(big)
    big = small.astype(">f4")
    np.testing.assert_allclose(call(big.astype(big.dtype.newbyteorder("="))), small, atol=0.5)


@pytest.mark.parametrize("name", ["reorder", "concat", "add_n", "shuffle", "shuffle_channels"])
def test_11_an_out_of_foreign_byte_order_is_refused_and_stays_as_it_is(name):
    out = np.full(X.shape, 7, ">f4")
    what = "x and out have different types" if name.startswith("shuffle") else "out cannot be written"
    with refused(f"{name}: {what}", ">f4"):
        OF_ONE_ARRAY[name](X, out=out)
    assert (out == 7).all()


@pytest.mark.parametrize("at", [1, 2, 3, 5])
def test_12_pointers_off_by_some_bytes_are_right(at):
    for dst, dtype in (("nhwc", None), ("nchw", None), ("nhwc", "f16"), ("nhwc", "s32")):
        source = np.frombuffer(b"x" * at + X.tobytes(), np.uint8)[at:].view(np.float32).reshape(DIMS)
        np.testing.assert_array_equal(rs.reorder(source, dst, dtype=dtype), X)
        plain = rs.reorder(X, dst, dtype=dtype)
        whole = np.full(plain.nbytes + 16, 0xA5, np.uint8)
        strides = [s * plain.itemsize for s in rs.MemoryDesc(DIMS, "u8", dst).strides]
        inside = whole[at : at + plain.nbytes].view(plain.dtype)
        out = np.lib.stride_tricks.as_strided(inside, DIMS, strides)
        rs.reorder(source, None, out=out)
        np.testing.assert_array_equal(out, X)
        assert (whole[:at] == 0xA5).all()
        assert (whole[at + plain.nbytes :] == 0xA5).all()


VALUES = [np.nan, np.inf, -np.inf, 1e30, -1e30, -0.0, 1e-45, -1e-40, 16777217.0, 2147483648.0, -2147483648.0]
LARGEST = 2147483520
BECOME = {
    "s32": [0, LARGEST, -(2**31), LARGEST, -(2**31), 0, 0, 0, 16777216, LARGEST, -(2**31)],
    "s8": [0, 127, -128, 127, -128, 0, 0, 0, 127, 127, -128],
    "u8": [0, 255, 0, 255, 0, 0, 0, 0, 255, 255, 0],
}


@pytest.mark.parametrize("dtype", BECOME)
@pytest.mark.parametrize("engine", [CPU, REF], ids=str)
def test_13_strange_values_become_the_integers_of_the_contract(dtype, engine):
    x = np.array(VALUES * 9, np.float32)
    for scale in (1.0, np.float32(1)):
        assert rs.reorder(x, None, dtype=dtype, scale=scale, engine=engine).tolist() == BECOME[dtype] * 9
    assert rs.reorder(x.reshape(9, -1), "ba", dtype=dtype, engine=engine).tolist() == [BECOME[dtype]] * 9


def test_14_strange_scales_follow_f32_arithmetic_and_a_wrong_length_is_refused():
    x = np.array([1.0, -1.0, 0.0, np.inf], np.float32)
    assert rs.reorder(x, None, dtype="s8", scale=0.0).tolist() == [0, 0, 0, 0]
    assert rs.reorder(x, None, dtype="s8", scale=np.inf).tolist() == [127, -128, 0, 127]
    assert rs.reorder(x, None, dtype="s8", scale=np.nan).tolist() == [0, 0, 0, 0]
    scales = np.array([0.0, np.inf, np.nan, 0.1])
    y = np.full((3, 4), 5.0, np.float32)
    assert rs.reorder(y, "ba", dtype="s8", scale=scales, axis=1).tolist() == [[0, 127, 0, 0]] * 3
    for wrong in (3, 5):
        with refused("scale is", "4 real numbers", where=("(3, 4)", "axis 1")):
            rs.reorder(y, "ba", dtype="s8", scale=np.ones(wrong), axis=1)
    with refused("several scale values without axis", where=("(4,)",)):
        rs.reorder(x, None, scale=np.ones(4))


# 16: what is no array of numbers


NO_NUMBERS = ["O", "U3", "S3", "M8[s]", "m8[s]", "c8", "c16", ">i8", ">u4", "G", [("a", "f4")], "V5"]


@pytest.mark.parametrize("dtype", NO_NUMBERS, ids=str)
def test_16_elements_that_are_no_numbers_of_ours_are_refused_with_what_to_do(dtype, nothing_compiles):
    with pytest.raises(rs.InvalidArguments) as caught:
        rs.reorder(np.zeros((2, 3), dtype), "ba", dtype="f32")
    assert caught.value.hint


# 24, 25, 26: the wrong partner


def make(engine):
    src, dst = from_numpy(X, engine), allocated(rs.MemoryDesc(DIMS, "f32", "nhwc"), engine)
    dst.data.view(np.uint8)[:] = POISON
    return rs.Reorder(src, dst), src, dst


def test_24_memories_streams_and_descriptors_of_others_are_refused_before_anything_runs(engine):
    r, src, dst = make(engine)
    stream, other = rs.Stream(engine), REF if engine is CPU else CPU
    wrong = [
        (rs.Stream(other), src, dst),
        (stream, rs.Memory.from_numpy(X, None, other), dst),
        (stream, src, rs.Memory(dst.desc, other)),
        (stream, dst, dst),
        (stream, src, src),
        (stream, from_numpy(X.view(np.int32), engine), dst),
        (stream, from_numpy(X[:1].copy(), engine), dst),
    ]
    for args in wrong:
        with refused():
            r.execute(*args)
        with refused():
            r.execute(args[0], {rs.ARG_FROM: args[1], rs.ARG_TO: args[2]})
    check_untouched(dst.data)
    np.testing.assert_array_equal(src.to_numpy(), X)


def test_25_missing_extra_and_repeated_arguments_are_refused(engine):
    r, src, dst = make(engine)
    for args in (
        {},
        {rs.ARG_FROM: src},
        {rs.ARG_TO: dst},
        {rs.ARG_FROM: src, rs.ARG_TO: dst, rs.ARG_DST_1: dst},
        [(rs.ARG_FROM, src), (rs.ARG_TO, dst), (rs.ARG_TO, dst)],
    ):
        with refused("Reorder.execute"):
            r.execute(rs.Stream(engine), args)
    check_untouched(dst.data)


def test_26_empty_things_and_any_are_refused_by_what_is_missing(engine):
    r, src, dst = make(engine)
    stream = rs.Stream(engine)
    with refused("the primitive is empty"):
        rs.Reorder().execute(stream, src, dst)
    with refused("descriptor is empty"):
        rs.Reorder(rs.Reorder.PrimitiveDesc())
    with refused("the memory is empty"):
        r.execute(stream, rs.Memory(), dst)
    with refused("format 'any' is a placeholder"):
        rs.Memory(rs.MemoryDesc(DIMS, "f32", "any"), engine)
    with refused("'any'"):
        rs.Reorder.PrimitiveDesc(engine, rs.MemoryDesc(DIMS, "f32", "any"), engine, src.desc)
    with refused("zero descriptor"):
        rs.Memory(rs.MemoryDesc(), engine)
    check_untouched(dst.data)
