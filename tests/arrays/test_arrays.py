"""`rs.reorder` on whatever array or memory there is, and on what is none."""

import warnings

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restride as rs
from restride.ir.conversion import PROVIDED
from support.effort import examples
from support.errors import refused
from support.images import CPU, DIMS, REF, check_nhwc, image


@pytest.fixture
def x():
    return image()


def test_engines_meet_on_the_host(x):
    for held, out, engine in (
        (rs.Memory.from_numpy(x, None, REF), rs.Memory(rs.MemoryDesc(DIMS, "f32"), CPU), None),
        (x, rs.Memory(rs.MemoryDesc(DIMS, "f32"), REF), None),
        (rs.Memory.from_numpy(x), np.zeros(DIMS, "f4"), REF),
        (rs.Memory.from_numpy(x, None, REF), np.zeros(DIMS, "f4"), CPU),
    ):
        assert rs.reorder(held, None, out=out, engine=engine) is out
        np.testing.assert_array_equal(np.asarray(out), x)
    assert rs.reorder(rs.Memory.from_numpy(x, None, REF), "nChw16c").engine is REF


def test_a_memory_goes_in_and_an_array_comes_out(x):
    got = rs.reorder(rs.Memory.from_numpy(x), "nhwc")
    check_nhwc(got, x)
    np.testing.assert_array_equal(rs.reorder(rs.reorder(x, "nChw16c"), "nhwc"), x)


# x

SOURCES = {
    "fortran": lambda x: np.asfortranarray(x),
    "reversed": lambda x: x[::-1, :, ::-1],
    "every second": lambda x: x[:, ::2],
    "broadcast": lambda x: np.broadcast_to(x[:1], DIMS),
    "one repeated": lambda x: np.broadcast_to(np.float32(3), DIMS),
    "window": lambda x: x[:, 1:4, 1:, :2],
    "sliding": lambda x: np.lib.stride_tricks.sliding_window_view(x[0, 0, 0], 2),
    "one element": lambda x: x[:1, :1, :1, :1],
    "unaligned": lambda x: np.frombuffer(b"x" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(DIMS),
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("dtype", [None, "u8"])
def test_arrays_are_read_as_they_lie(x, name, dtype):
    source = SOURCES[name](x)
    tag = "ba" if source.ndim == 2 else "nhwc"
    got = rs.reorder(source, tag, dtype=dtype)
    np.testing.assert_array_equal(got, source)
    np.testing.assert_array_equal(rs.reorder(source, None, dtype=dtype), source)
    np.testing.assert_array_equal(rs.reorder(source, tag, dtype=dtype, engine=REF), source)


def test_an_unaligned_out_is_written(x):
    whole = np.full(1 + x.nbytes + 7, 0xA5, np.uint8)
    out = whole[1 : 1 + x.nbytes].view(np.float32).reshape(DIMS)
    rs.reorder(x, None, out=out)
    np.testing.assert_array_equal(out, x)
    assert whole[0] == 0xA5
    assert (whole[1 + x.nbytes :] == 0xA5).all()


@pytest.mark.parametrize("dims", [(0,), (3, 0), (0, 5, 8, 8), (2, 0, 3, 3), (1, 0, 0, 0)])
def test_nothing_becomes_nothing(dims):
    x = np.empty(dims, np.float32)
    tags = ["a", "ba", None, "nhwc"][len(dims) - 1]
    got = rs.reorder(x, tags, dtype="u8")
    assert (got.shape, got.dtype) == (dims, np.uint8)
    out = np.empty(dims, np.float32)
    assert rs.reorder(x, tags, out=out) is out
    assert rs.reorder(x, None, out=x) is x
    if len(dims) == 4:
        assert rs.reorder(x, "nChw16c").desc.size == 0


def test_twelve_axes_have_letters_and_thirteen_are_moved_but_not_converted():
    x = np.arange(2**12, dtype=np.float32).reshape((2,) * 12)
    np.testing.assert_array_equal(rs.reorder(x, "lkjihgfedcba"), x)
    for ndim in (13, 32):
        many = x.reshape((2,) * 12 + (1,) * (ndim - 12))
        np.testing.assert_array_equal(rs.reorder(many), many)
        with refused(f"{many.ndim} axes"):
            rs.reorder(many, None, dtype="bf16")
        with refused(f"{many.ndim} axes"):
            rs.reorder(many, None, scale=2.0)
        with refused("beyond 12 axes"):
            rs.reorder(many, out=np.empty(many.shape, np.float64))
        dense = tuple(stride // 4 for stride in many.strides)
        for strides, why in (
            (dense[1:], "entries"),
            ((-1, *dense[1:]), "not a format"),
            ((0, *dense[1:]), "stride"),
        ):
            with refused(why):
                rs.reorder(many, strides)
        np.testing.assert_array_equal(rs.reorder(many, dense, engine="reference"), many)


@st.composite
def permuted_arrays(draw):
    """An array of 13 to 32 axes whose axes are permuted, some of them backwards, and how its copy lies."""
    ndim = draw(st.integers(13, 32))
    extents = draw(st.permutations([2] * draw(st.integers(0, 13)) + [3] * draw(st.integers(0, 3))))[:ndim]
    shape = draw(st.permutations([*extents, *[1] * (ndim - len(extents))]))
    kind = draw(st.sampled_from(["f4", "u1", "f2", ">f8", "i8", "c16"]))
    bits = np.random.default_rng(ndim).integers(
        0, 256, (int(np.prod(shape)), np.dtype(kind).itemsize), np.uint8
    )
    array = bits.view(kind).reshape(shape).transpose(draw(st.permutations(range(ndim))))
    turned = draw(st.sets(st.integers(0, ndim - 1), max_size=3))
    return array[tuple(slice(None, None, -1 if d in turned else 1) for d in range(ndim))]


@given(permuted_arrays(), st.data())
def test_arrays_of_many_axes_are_moved_as_numpy_moves_them(x, data):
    order = data.draw(st.permutations(range(x.ndim)))
    out = np.empty([x.shape[d] for d in order], x.dtype).transpose(np.argsort(order))
    strides = tuple(stride // x.itemsize for stride in out.strides)
    for _ in range(2):  # the second call finds the first
        out[...] = 0
        assert rs.reorder(x, out=out) is out
        assert out.tobytes() == x.tobytes()
    for result in (rs.reorder(x), rs.reorder(x, strides)):
        assert (result.shape, result.dtype) == (x.shape, x.dtype)
        assert result.tobytes() == x.tobytes()
    assert all(a == b for n, a, b in zip(x.shape, result.strides, out.strides, strict=True) if n > 1)


def test_many_axes_have_a_verbose_line_and_may_not_overlap(capfd):
    x = np.arange(2**14, dtype=np.float32).reshape((2,) * 14)
    rs.set_verbose(1)
    try:
        rs.reorder(x.T, out=np.empty_like(x))
    finally:
        rs.set_verbose(0)
    assert "blocked:...:" in capfd.readouterr().err
    with refused("overlap"):
        rs.reorder(x.transpose(*range(1, 14), 0), out=x)


STRANGE = {
    "big-endian": (np.zeros(3, ">f4"), "newbyteorder"),
    "objects": (np.array([1, None]), "astype"),
    "text": (np.array(["a"]), "astype"),
    "bytes": (np.array([b"a"]), "view"),
    "dates": (np.array(["2020-01-01"], "M8[D]"), "astype"),
    "durations": (np.array([1], "m8[s]"), "astype"),
    "complex": (np.zeros(3, "c8"), "np.stack"),
    "records": (np.zeros(3, [("a", "f4")]), "x['a']"),
    "raw": (np.zeros(3, "V3"), "astype"),
    "raw of nothing": (np.zeros(3, "V0"), "astype"),
    "strings": (np.array(["a"], np.dtypes.StringDType()), "astype"),
    "big-endian integers": (np.zeros(3, ">i8"), "newbyteorder"),
    "longdouble": (np.zeros(3, np.longdouble), "astype"),
    "odd strides": (np.zeros(4, [("a", "u1"), ("b", "f4")])["b"], "ascontiguousarray"),
    "masked": (np.ma.zeros(3, "f4"), "filled"),
    "rows of two lengths": ([[1.0], [1.0, 2.0]], "equal lengths"),
    "nothing": (None, "pass an array"),
}


@pytest.mark.parametrize("name", STRANGE)
def test_arrays_that_have_no_descriptor_are_refused_with_the_way_out(name):
    array, hint = STRANGE[name]
    for ask in (
        lambda: rs.reorder(array, None, dtype="s8"),
        lambda: rs.reorder(array, None, scale=2.0, engine=CPU),
    ):
        with pytest.raises(rs.InvalidArguments) as caught:
            ask()
        assert hint in caught.value.hint, caught.value.message


@pytest.mark.parametrize("name", ["int4", "uint4"])
def test_four_bit_arrays_are_read_and_results_of_four_bits_are_memory(name):
    x = np.arange(15).reshape(3, 5).astype(getattr(ml_dtypes, name))
    packed = rs.reorder(x, "ba")
    assert isinstance(packed, rs.Memory)
    assert packed.desc == rs.MemoryDesc((3, 5), f"{'u' if name == 'uint4' else 's'}4", "ba")
    np.testing.assert_array_equal(rs.reorder(packed, "ab", dtype="f32"), x.astype(np.float32))
    np.testing.assert_array_equal(rs.reorder(x, None, dtype="s8"), x.astype(np.int8))


def test_subclasses_go_in_and_plain_arrays_come_out(x, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        matrix = np.matrix(x[0, 0])
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=DIMS)
    mapped[:] = x

    class Mine(np.ndarray):
        """An array of somebody else's kind."""

    for source, tag in ((matrix, "ba"), (mapped, "nhwc"), (x.view(Mine), "nhwc")):
        got = rs.reorder(source, tag)
        assert type(got) is np.ndarray
        np.testing.assert_array_equal(got, source)
    assert rs.reorder(x, None, out=mapped) is mapped


# Any view of any array


@st.composite
def views(draw, data_type):
    """A view of random bits: axes exchanged, sliced, reversed, repeated and added."""
    dims = draw(st.lists(st.sampled_from((1, 2, 3, 5, 8, 16, 17, 33)), min_size=1, max_size=4))
    # NumPy keeps 4-bit integers one to a byte.
    count = int(np.prod(dims)) * data_type.numpy.itemsize
    bits = np.random.default_rng(draw(st.integers(0, 9))).integers(0, 256, count, np.uint8)
    view = bits.view(data_type.numpy).reshape(dims)
    for step in draw(st.lists(st.sampled_from(("permute", "slice", "reverse", "repeat", "add")), max_size=3)):
        axis = draw(st.integers(0, view.ndim - 1))
        if step == "permute":
            view = view.transpose(draw(st.permutations(range(view.ndim))))
        elif step == "slice":
            piece = slice(draw(st.integers(0, view.shape[axis] // 3)), None, draw(st.integers(1, 3)))
            view = view[(slice(None),) * axis + (piece,)]
        elif step == "reverse":
            view = np.flip(view, axis)
        elif step == "repeat":
            view = np.broadcast_to(view, (2, *view.shape))
        else:
            view = np.expand_dims(view, axis)
    return view


@st.composite
def outs(draw, dims, data_type):
    """An array of any order, with gaps, maybe reversed, in a buffer of random bits."""
    strides, stride = [0] * len(dims), draw(st.sampled_from((1, 1, 2)))
    for axis in draw(st.permutations(range(len(dims)))):
        strides[axis] = stride
        stride = stride * dims[axis] + draw(st.sampled_from((0, 0, 3)))
    nbytes = (stride + 5) * data_type.numpy.itemsize
    whole = np.random.default_rng(4).integers(0, 256, nbytes, np.uint8).view(data_type.numpy)
    flipped = draw(st.sampled_from((None, *range(len(dims)))))

    def window(bits):
        steps = [s * bits.itemsize for s in strides]
        view = np.ndarray(dims, bits.dtype, bits.view(np.uint8), strides=steps)
        return view if flipped is None else np.flip(view, flipped)

    return whole, window


_OF_NUMPY = [kind for kind in PROVIDED if kind.numpy is not None]


@given(data=st.data())
@settings(max_examples=examples(60))
def test_any_view_goes_anywhere_as_the_reference_engine_says(data):
    src_type, dst_type = data.draw(st.sampled_from(_OF_NUMPY)), data.draw(st.sampled_from(_OF_NUMPY))
    view = data.draw(views(src_type))
    whole, window = data.draw(outs(view.shape, dst_type))
    factors = {
        "scale": data.draw(st.sampled_from((None, 0.5, -3.0))),
        "beta": data.draw(st.sampled_from((0.0, 1.0, -0.25))),
    }
    results = []
    for engine in (CPU, REF, None):
        bits = whole.copy()
        rs.reorder(view, None, out=window(bits), engine=engine, **factors)
        results.append(bits.tobytes())
    assert results[0] == results[1] == results[2]


# What errors call the arguments

NO_TENSORS = {
    "13 axes": np.zeros((1,) * 13, np.float32),
    "objects": np.array([None, 1]),
    "foreign byte order": np.zeros((2, 3), ">f4"),
    "long": np.zeros((2, 3), np.longdouble),
    "complex": np.zeros((2, 3), np.complex64),
    "two bits": np.zeros((2, 3), ml_dtypes.int2),
    "a mask": np.ma.array([[1.0]]),
    "half a stride": np.zeros(4, [("a", "u1"), ("b", "f4")])["b"],
}


@pytest.mark.parametrize("bad", NO_TENSORS.values(), ids=NO_TENSORS)
@pytest.mark.parametrize("engine", [None, CPU])
def test_errors_name_reorder_and_the_argument_that_is_no_tensor(bad, engine):
    good = np.zeros((2, 3), np.float32)
    for what, x, out in (("x cannot be read", bad, None), ("out cannot be written", good, bad)):
        with pytest.raises(rs.Error) as caught:
            rs.reorder(x, None, dtype="f32", out=out, engine=engine)
        error = caught.value
        assert error.what == f"reorder: {what}"
        assert error.why
        assert error.hint


def test_errors_name_reorder_and_x_where_it_is_no_array(x):
    for bad in (None, "x", b"x", memoryview(b"x"), {1.0}):
        with refused("reorder: x cannot be read", "is not a NumPy array"):
            rs.reorder(bad, "nhwc")
        if bad is not None:
            with refused("reorder: out is not an array"):
                rs.reorder(x, "nhwc", out=bad)


@pytest.mark.parametrize(
    ("bad", "hint"),
    [
        ("x.npy", "rs.load"),
        (None, "pass an array"),
        (b"xxxx", "np.frombuffer"),
        ({}, "separately"),
        ({1}, "asarray"),
    ],
    ids=["text", "none", "bytes", "dict", "set"],
)
def test_the_hint_at_what_is_no_array_leads_to_one(bad, hint):
    with refused("reorder: x cannot be read", hint):
        rs.reorder(bad, "nhwc")


def test_the_hint_at_a_quantized_tensor_leads_to_its_numbers():
    quantized = rs.quantize(np.ones((2, 32), np.float32), "s8", group=32)
    with refused("reorder: x cannot be read", "x.dequantize()"):
        rs.reorder(quantized, "ba")


def test_a_src_that_does_not_fit_is_named(x):
    for src in ("nhwc", (1, 2, 3, 4), rs.MemoryDesc((3,), "f32"), rs.MemoryDesc(DIMS, "s8"), "nChw16c"):
        with pytest.raises(rs.InvalidArguments) as caught:
            rs.reorder(x, "nhwc", src=src)
        assert "Memory.from_numpy" not in caught.value.message
    with refused("reorder: src does not fit x", where=(rs.MemoryDesc(DIMS, "f32"),)):
        rs.reorder(x, "nchw", src=rs.MemoryDesc(DIMS, "f32", "nhwc"))


def test_a_layout_that_stays_need_not_be_named():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(0, 2, 1)
    made = rs.reorder(x, dtype="bf16")
    assert made.strides == tuple(stride // 2 for stride in x.strides)
    assert (made == x).all()
    assert rs.plan(x, dtype="bf16").dst == rs.plan(x, None, dtype="bf16").dst
