"""Accepted values for a format and a type; all others are refused."""

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from support.errors import refused
from support.images import CPU, DIMS, REF, check_nhwc, image, strides_of


@pytest.fixture
def x():
    return image()


# dst

NHWC = [
    "nhwc",
    "acdb",
    "axb",
    np.str_("nhwc"),
    rs.FormatTag.nhwc,
    rs.FormatTag.parse("axb"),
    rs.MemoryDesc(DIMS, "f32", "nhwc"),
    (60, 1, 20, 5),
    [60, 1, 20, 5],
    np.array([60, 1, 20, 5]),
    tuple(np.array([60, 1, 20, 5], np.int32)),
]


@pytest.mark.parametrize("dst", NHWC, ids=str)
def test_a_destination_may_be_said_in_many_ways(x, dst):
    check_nhwc(rs.reorder(x, dst), x)
    check_nhwc(rs.reorder(rs.Memory.from_numpy(x), dst), x)
    check_nhwc(rs.reorder(x, dst, engine=REF), x)


@pytest.mark.parametrize("start", ["nchw", "nhwc", "chwn", "cdba"])
def test_no_destination_keeps_the_layout(x, start):
    held = rs.reorder(x, start)
    kept = rs.reorder(held, None, dtype="s32")
    assert strides_of(kept) == strides_of(held)
    np.testing.assert_array_equal(kept, x)
    kept = rs.reorder(held[:, 1:4, ::2], None)
    np.testing.assert_array_equal(kept, x[:, 1:4, ::2])
    order = sorted(range(4), key=lambda d: -held.strides[d])
    assert sorted(range(4), key=lambda d: -kept.strides[d]) == order


def test_a_blocked_destination_gives_a_memory(x):
    got = rs.reorder(x, "nChw16c")
    assert isinstance(got, rs.Memory)
    assert got.desc == rs.MemoryDesc(DIMS, "f32", "nChw16c")
    assert got.physical().shape == (2, 1, 3, 4, 16)
    assert (got.physical()[..., 5:] == 0).all()
    np.testing.assert_array_equal(got.to_numpy(), x)
    np.testing.assert_array_equal(rs.reorder(got, "nchw"), x)
    assert rs.reorder(got, None, dtype="s8").desc == rs.MemoryDesc(DIMS, "s8", "nChw16c")


def test_17_channels_are_padded_to_32_and_come_back_as_17():
    x = np.random.default_rng(0).standard_normal((1, 17, 2, 2)).astype("f4")
    blocked = rs.reorder(x, "nChw16c")
    assert blocked.desc.padded_dims == (1, 32, 2, 2)
    assert (blocked.physical()[:, 1, :, :, 1:] == 0).all()
    np.testing.assert_array_equal(rs.reorder(blocked, "nchw"), x)


def test_strides_with_gaps_and_shifted_descriptors_are_made_as_asked(x):
    gapped = rs.reorder(x, (600, 100, 20, 2))
    assert strides_of(gapped) == (600, 100, 20, 2)
    np.testing.assert_array_equal(gapped, x)
    window = rs.MemoryDesc((2, 7, 5, 4), "f32", "nhwc").submemory_desc(DIMS, (0, 2, 1, 0))
    shifted = rs.reorder(x, window)
    assert strides_of(shifted) == window.strides
    np.testing.assert_array_equal(shifted, x)


# src

PHYSICAL = rs.MemoryDesc(DIMS, "f32", "nChw16c")


def test_src_names_what_strides_cannot_say(x):
    physical = rs.reorder(x, "nChw16c").physical()
    np.testing.assert_array_equal(rs.reorder(physical, "nchw", src=PHYSICAL), x)
    padded = rs.reorder(physical, "nchw", src="nChw16c")
    assert padded.shape == (2, 16, 3, 4)
    np.testing.assert_array_equal(padded[:, :5], x)
    np.testing.assert_array_equal(rs.reorder(x, "nhwc", src="nchw"), x)


@pytest.mark.parametrize(
    "src", ["nhwc", "nChw16c", "nc", "any", (1, 2, 3, 4), rs.MemoryDesc((3,), "f32"), 5, object()]
)
def test_a_src_that_is_not_how_the_array_lies_is_refused(x, src):
    with pytest.raises(rs.InvalidArguments) as caught:
        rs.reorder(x, "nchw", src=src)
    assert caught.value.why


def test_a_memory_needs_no_src(x):
    with refused("src with a Memory"):
        rs.reorder(rs.Memory.from_numpy(x), "nhwc", src="nchw")


# dtype

TYPES = {
    "s8": ("s8", rs.s8, np.int8, np.dtype("i1"), "int8"),
    "bf16": ("bf16", rs.bf16, ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16), "bfloat16"),
    "f16": ("f16", rs.f16, np.float16, np.dtype("f2"), "float16"),
    "s32": ("s32", rs.s32, np.int32, np.dtype("i4"), "int32"),
    "u8": ("u8", rs.u8, np.uint8, np.dtype("u1"), "uint8"),
}


@pytest.mark.parametrize("name", TYPES)
def test_a_type_may_be_said_in_many_ways(x, name):
    wanted = np.clip(x, 0, 127).astype(rs.DataType[name].numpy)
    for spelling in TYPES[name]:
        for got in (
            rs.reorder(np.clip(x, 0, 127), "nhwc", dtype=spelling),
            rs.reorder(np.clip(x, 0, 127), None, dtype=spelling, engine=CPU),
        ):
            assert got.dtype == rs.DataType[name].numpy
            np.testing.assert_array_equal(got, wanted)


def test_a_descriptor_brings_its_type(x):
    got = rs.reorder(x, rs.MemoryDesc(DIMS, "s32", "nhwc"))
    assert got.dtype == np.int32
    assert rs.reorder(x, rs.MemoryDesc(DIMS, "s32", "nhwc"), dtype="s32").dtype == np.int32
    md = rs.MemoryDesc(DIMS, "s32", "nhwc")
    with refused("dtype and dst disagree", "dtype is s8", where=(md,)):
        rs.reorder(x, md, dtype="s8")


# Anything at all


class Unprintable:
    def __repr__(self):
        raise ValueError("no text")


class Unhashable:
    __hash__ = None


class Incomparable:
    def __hash__(self):
        return hash("nhwc")

    def __eq__(self, other):
        raise ValueError("no comparison")


JUNK = [
    [[1, 2], [3]],
    [[[]]],
    {},
    {1: 2},
    set(),
    object(),
    b"nhwc",
    bytearray(b"nhwc"),
    memoryview(b"nhwc"),
    "\N{GRINNING FACE}",
    "n" * 10_000,
    "",
    " nhwc",
    "nhwc\0",
    "nnhwc",
    "nChw8",
    "undef",
    rs.FormatTag.undef,
    rs.s4,
    0,
    1.5,
    True,
    float("nan"),
    1j,
    (1, 2),
    (1, 2, 3, 4, 5),
    (60, 1, 20, 5.0),
    (True, 1, 20, 5),
    ("60", "1", "20", "5"),
    (None,) * 4,
    (-60, 1, 20, 5),
    (0, 0, 0, 0),
    (10**30,) * 4,
    range(100),
    slice(1),
    np.zeros((2, 2), int),
    np.array(4),
    lambda: None,
    iter(()),
    type,
    np,
    Unprintable(),
    Unhashable(),
    Incomparable(),
    rs.MemoryDesc(),
    rs.Memory(),
    rs.PrimitiveAttr(),
]


@pytest.mark.parametrize("number", range(len(JUNK)), ids=lambda i: f"{i}-{type(JUNK[i]).__name__}")
def test_junk_is_refused_as_an_error_of_ours_wherever_it_is_put(x, number):
    rs.reorder(x, (60, 1, 20, 5))  # equal strides in the cache must not let (60, 1, 20, 5.0) through
    junk, out = JUNK[number], np.zeros(DIMS, np.float32)
    held = rs.Memory.from_numpy(x)
    is_type = number == JUNK.index(rs.s4)
    for source in (x, held):
        asks = [
            lambda source=source: rs.reorder(source, junk),
            lambda source=source: rs.reorder(source, junk, out=out),
            lambda source=source: rs.reorder(source, junk, out=rs.Memory.from_numpy(out)),
            lambda source=source: rs.reorder(source, None, engine=junk),
            lambda source=source: rs.reorder(source, None, out=junk),
            lambda: rs.reorder(junk, "nhwc", engine=CPU),
        ]
        is_read = isinstance(junk, list | tuple | int | float | complex | np.ndarray)
        asks += [] if is_read else [lambda: rs.reorder(junk, None)]
        asks += [] if is_type else [lambda source=source: rs.reorder(source, "nhwc", dtype=junk)]
        asks += [] if is_type else [lambda source=source: rs.reorder(source, None, dtype=junk, out=out)]
        for ask in asks:
            with pytest.raises(rs.Error):
                ask()


def test_strides_that_no_memory_can_hold_are_refused_before_anything_is_allocated(x):
    with refused("cannot allocate", kind=rs.OutOfMemory):
        rs.reorder(x, (1 << 45, 1 << 40, 1 << 20, 1))
    with refused("2**63"):
        rs.reorder(x, (1 << 62, 1 << 40, 1 << 20, 1))
    with refused("cannot allocate", kind=rs.OutOfMemory):
        rs.reorder(np.broadcast_to(np.zeros(1, np.uint8), (1 << 62,)), None)
