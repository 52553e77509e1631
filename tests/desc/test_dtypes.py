"""Data types: the table, every spelling, every pair through the public interface (N1 to N7)."""

import pickle
from itertools import product
from typing import get_args

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from restride.ir.conversion import PROVIDED
from restride.typing import WayName
from support.by_offset import attr_of, check_reorder
from support.errors import refused
from support.packed import bytes_of
from support.values import patterns

CPU, REF = rs.Engine("cpu"), rs.Engine("reference")
INF, NAN = np.inf, np.nan

TABLE = {
    "undef": (0, 0, None),
    "f16": (1, 16, np.float16),
    "bf16": (2, 16, ml_dtypes.bfloat16),
    "f32": (3, 32, np.float32),
    "s32": (4, 32, np.int32),
    "s8": (5, 8, np.int8),
    "u8": (6, 8, np.uint8),
    "f64": (7, 64, np.float64),
    "boolean": (8, 8, np.bool_),
    "f8_e5m2": (9, 8, ml_dtypes.float8_e5m2),
    "f8_e4m3": (10, 8, ml_dtypes.float8_e4m3fn),
    "s4": (11, 4, ml_dtypes.int4),
    "u4": (12, 4, ml_dtypes.uint4),
    "e8m0": (13, 8, ml_dtypes.float8_e8m0fnu),
    "f4_e2m1": (14, 4, ml_dtypes.float4_e2m1fn),
    "f4_e3m0": (15, 4, None),
    "nf4": (21, 4, None),
    "s64": (16, 64, np.int64),
    "u64": (17, 64, np.uint64),
    "u32": (18, 32, np.uint32),
    "s16": (19, 16, np.int16),
    "u16": (20, 16, np.uint16),
}


# The table and its spellings


@pytest.mark.parametrize(("name", "row"), TABLE.items(), ids=TABLE)
def test_each_type_has_the_number_width_and_twin_of_the_documents(name, row):
    number, bits, twin = row
    found = rs.DataType[name]
    assert found is getattr(rs, name)
    assert (found.value, found.bits) == (number, bits)
    assert found.numpy == (None if twin is None else np.dtype(twin))
    assert str(found) == name
    assert repr(found) == f"restride.{name}"
    assert pickle.loads(pickle.dumps(found)) is found


def test_there_are_no_other_types():
    assert set(rs.DataType.__members__) == set(TABLE)


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row[2] is not None])
def test_a_type_is_known_by_name_member_and_numpy_type(name):
    found = rs.DataType[name]
    scalar = TABLE[name][2]
    for spelling in (name, found, scalar, np.dtype(scalar)):
        assert rs.DataType.parse(spelling) is found


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("float32", "f32"),
        ("float16", "f16"),
        ("bfloat16", "bf16"),
        ("float64", "f64"),
        ("int64", "s64"),
        ("int32", "s32"),
        ("uint16", "u16"),
        ("int8", "s8"),
        ("uint8", "u8"),
        ("bool", "boolean"),
        ("float8_e8m0fnu", "e8m0"),
    ],
)
def test_numpys_words_are_known_too(word, name):
    assert rs.DataType.parse(word) is rs.DataType[name]


@pytest.mark.parametrize(
    "stranger",
    [
        "",
        "F32",
        "f33",
        "float",
        "int128",
        "x" * 10_000,
        "😀",
        None,
        3,
        1.5,
        [],
        {},
        np.complex128,
        ">f4",
        object,
        b"f32",
    ],
    ids=lambda value: str(value)[:12],
)
def test_what_is_no_type_is_refused_with_the_list_of_types(stranger):
    with pytest.raises(rs.InvalidArguments) as caught:
        rs.DataType.parse(stranger)
    assert "f8_e4m3" in caught.value.hint
    assert len(caught.value.message) < 600


@pytest.mark.parametrize(
    ("stranger", "why", "near"),
    [
        ("float33", "no data type of that name", "f32"),
        ("BF16", "no data type of that name", "bf16"),
        ("f4", "no data type of that name", "f32' or 'f4_e2m1' or 'f4_e3m0' or 'nf4"),
        ("f8", "no data type of that name", "f64' or 'f8_e4m3' or 'f8_e5m2"),
        ("fp8", "no data type of that name", "f8_e4m3' or 'f8_e5m2"),
        ("FP8", "no data type of that name", "f8_e4m3' or 'f8_e5m2"),
        ("torch.float8", "no data type of that name", "f8_e4m3' or 'f8_e5m2"),
        ("e5m2", "no data type of that name", "f8_e5m2"),
        ("fp4", "no data type of that name", "f4_e2m1' or 'f4_e3m0"),
        (">f4", "byte order is not native", "f32"),
        ("i8", "no data type of that name", "s64"),
        (">i8", "byte order is not native", "s64"),
        (np.complex64, "NumPy's complex64", None),
        ("qqq", "no data type of that name", None),
        ("float", "no data type of that name", "f32' or 'f64"),
        ("floaty", "no data type of that name", "f64' or 'f32' or 'f16"),
        ("i16", "no data type of that name", "s16"),
        ("i32", "no data type of that name", "s32"),
        ("s128", "no data type of that name", None),
    ],
    ids=str,
)
def test_the_refusal_of_a_type_says_why_and_what_is_near(stranger, why, near):
    with pytest.raises(rs.InvalidArguments) as caught:
        rs.DataType.parse(stranger)
    assert why in caught.value.why
    assert caught.value.hint.startswith(f"did you mean '{near}'? use" if near else "use one of f16")


def test_a_type_is_named_without_its_class():
    with pytest.raises(rs.InvalidArguments, match=r"^unknown data type 'complex64'"):
        rs.DataType.parse(np.complex64)


@pytest.mark.parametrize(
    ("name", "count", "nbytes"), [("f32", 3, 12), ("u8", 0, 0), ("s4", 3, 2), ("u4", 4, 2)]
)
def test_bytes_are_counted_with_two_four_bit_elements_in_one(name, count, nbytes):
    assert rs.DataType[name].nbytes(count) == nbytes


# Conversions: each number of the documents


def converted(values, src, dst, engine=CPU, alpha=1.0, beta=0.0, old=0):
    """`values` of type `src` as a list of Python numbers of type `dst`."""
    array = (
        np.array(values, np.float64).astype(src.numpy) if src.kind == "float" else np.array(values, src.numpy)
    )
    held, target = rs.Memory.from_numpy(array), rs.Memory(rs.MemoryDesc(array.shape, dst), CPU)
    target.data[:] = old
    held, target = (rs.Memory(m.desc, engine, m) for m in (held, target))
    rs.Reorder(held, target, attr_of(alpha, beta)).execute(rs.Stream(engine), held, target)
    return target.to_numpy()


ROUNDING = [
    # f32 -> s8: saturated, then half to even
    ("f32", "s8", 1024.0, 127),
    ("f32", "s8", -1024.0, -128),
    ("f32", "s8", 0.5, 0),
    ("f32", "s8", 1.5, 2),
    ("f32", "s8", 2.5, 2),
    ("f32", "s8", -0.5, 0),
    ("f32", "s8", -1.5, -2),
    ("f32", "s8", 126.5, 126),
    ("f32", "s8", 127.5, 127),
    ("f32", "s8", -128.5, -128),
    ("f32", "u8", -124.0, 0),
    ("f32", "u8", 254.5, 254),
    ("f32", "u8", 255.5, 255),
    ("f32", "u8", 0.49999997, 0),
    ("f32", "u8", 0.50000006, 1),
    # f32 -> s32
    ("f32", "s32", 2147483648.0, 2147483520),
    ("f32", "s32", 2147483520.0, 2147483520),
    ("f32", "s32", 1e30, 2147483520),
    ("f32", "s32", -2147483648.0, -2147483648),
    ("f32", "s32", -1e30, -2147483648),
    ("f32", "s32", 8388607.5, 8388608),
    ("f32", "s32", 16777216.0, 16777216),
    # infinities and NaN (N3, N4)
    ("f32", "s32", INF, 2147483520),
    ("f32", "s32", -INF, -2147483648),
    ("f32", "s32", NAN, 0),
    ("f32", "s8", INF, 127),
    ("f32", "s8", -INF, -128),
    ("f32", "s8", NAN, 0),
    ("f32", "u8", INF, 255),
    ("f32", "u8", -INF, 0),
    ("f32", "u8", NAN, 0),
    ("bf16", "s8", NAN, 0),
    ("f16", "u8", NAN, 0),
    ("f16", "s32", INF, 2147483520),
    ("bf16", "s32", 1e38, 2147483520),
    # integers
    ("s32", "f32", 16777217, 16777216.0),
    ("s32", "f32", 16777219, 16777220.0),
    ("s32", "f32", 2147483647, 2147483648.0),
    ("s32", "s32", 16777217, 16777217),
    ("s32", "s32", -2147483648, -2147483648),
    ("s32", "s8", 300, 127),
    ("s32", "s8", -2147483648, -128),
    ("s32", "u8", -1, 0),
    ("s32", "u8", 2147483647, 255),
    ("u8", "s8", 200, 127),
    ("s8", "u8", -5, 0),
    ("s8", "s32", -128, -128),
    ("u8", "s32", 255, 255),
    ("u8", "f16", 255, 255.0),
    ("s32", "bf16", 257, 256.0),
    ("s32", "bf16", 259, 260.0),
    ("s32", "f16", 70000, INF),
    # narrower floats (N5)
    ("f32", "bf16", 1.00390625, 1.0),
    ("f32", "bf16", 1.01171875, 1.015625),
    ("f32", "bf16", 3.4e38, INF),
    ("f32", "bf16", 1e-40, 1e-40),
    ("f32", "f16", 65519.0, 65504.0),
    ("f32", "f16", 65520.0, INF),
    ("f32", "f16", 6e-8, 6e-8),
    ("f32", "f16", 1.00048828125, 1.0),
    ("bf16", "f16", 1e38, INF),
    ("f16", "bf16", 65504.0, 65536.0),
]


@pytest.mark.parametrize("engine", [CPU, REF], ids=str)
def test_each_number_of_the_documents_becomes_what_they_say(engine):
    pairs = sorted({(src, dst) for src, dst, _, _ in ROUNDING})
    for names in pairs:
        src, dst = (rs.DataType[name] for name in names)
        values = [(value, wanted) for a, b, value, wanted in ROUNDING if (a, b) == names]
        # Many copies, so that vectors and tails alike see each value.
        got = converted([value for value, _ in values] * 40, src, dst, engine)
        wanted = np.array([wanted for _, wanted in values] * 40).astype(dst.numpy)
        np.testing.assert_array_equal(got, wanted, err_msg=f"{names} {values}")


def test_copies_keep_every_bit_of_nan_and_minus_zero():
    for name in ("f32", "bf16", "f16", "f64", "f8_e5m2", "f8_e4m3"):
        data_type = rs.DataType[name]
        bits = np.random.default_rng(1).integers(0, 256, 8 * 500, np.uint8)
        x = bits.view(data_type.numpy).reshape(50, -1)
        np.testing.assert_array_equal(rs.reorder(x, "ba").copy().view(np.uint8), x.copy().view(np.uint8))


def test_nan_to_a_float_is_quiet_and_keeps_its_sign():
    x = np.array([0x7FC00001, 0xFFC00001, 0x7F800001, 0xFF800001] * 8, np.uint32).view(np.float32)
    for name, shift in (("bf16", 16), ("f16", 13)):
        got = rs.reorder(x, None, dtype=name).view(np.uint16)
        signs = (got >> 15).reshape(8, 4)
        assert np.isnan(got.view(rs.DataType[name].numpy).astype("f4")).all(), shift
        assert (signs == [0, 1, 0, 1]).all()
        assert (got & (0x40 if name == "bf16" else 0x200)).all()


def test_minus_zero_stays_minus_zero_in_every_float():
    x = np.full(40, -0.0, np.float32)
    for name in ("bf16", "f16", "f32"):
        assert np.signbit(rs.reorder(x, None, dtype=name).astype(np.float32)).all()


@pytest.mark.parametrize(
    ("alpha", "value", "wanted"),
    [
        (0.0, 5.0, 0),
        (INF, 5.0, 127),
        (-INF, 5.0, -128),
        (INF, 0.0, 0),
        (NAN, 5.0, 0),
        (0.0, INF, 0),
        (4294967295.0, 1.0, 127),
        (-4294967295.0, 1.0, -128),
        (1e-30, 1e30, 1),
        (0.1, 5.0, 0),
        (0.5, 3.0, 2),
    ],
)
@pytest.mark.parametrize("engine", [CPU, REF], ids=str)
def test_strange_scales_follow_f32_arithmetic(alpha, value, wanted, engine):
    """R36: the product is rounded to f32, then saturated and rounded; 0.1f * 5 is 0.5, half to even."""
    assert (converted([value] * 33, rs.f32, rs.s8, engine, alpha) == wanted).all()


def test_arithmetic_on_large_integers_is_in_f32():
    """R21: with a scale, s32 above 2**24 loses bits."""
    assert converted([16777217, -16777217], rs.s32, rs.s32, alpha=2.0).tolist() == [33554432, -33554432]
    assert converted([16777217], rs.s32, rs.s32).tolist() == [16777217]


def test_sums_saturate_once_at_the_end():
    assert converted([200.0], rs.f32, rs.s8, alpha=1.0, beta=1.0, old=-100).tolist() == [100]
    assert converted([1.0], rs.f32, rs.u8, alpha=1.0, beta=-1.0, old=255).tolist() == [0]
    assert converted([0.25], rs.f32, rs.s8, alpha=2.0, beta=0.5, old=3).tolist() == [2]


# Every pair, two engines, one answer

WAYS = {"moved": ("ab", 1.0, 0.0), "turned": ("ba", 0.3, 0.0), "added": ("ab", -1.5, 0.75)}


@pytest.mark.sweep(1)
@pytest.mark.parametrize("dst", PROVIDED, ids=str)
@pytest.mark.parametrize(("src", "way"), list(product(PROVIDED, WAYS)), ids=str)
def test_every_pair_of_types_gives_the_same_bits_on_both_engines(src, dst, way):
    """Every pattern of the narrow types, the borders of the wide ones; with and without alpha and beta."""
    format, alpha, beta = WAYS[way]
    bits = patterns(src)
    dims = (max(-(-len(bits) // 7), 15), 7)
    x = np.resize(bits, dims)
    x = x.view(src.numpy) if src.bits > 4 else None
    held = bytes_of(np.resize(bits, dims[0] * dims[1]), src)
    size = rs.MemoryDesc(dims, dst, "ab").size
    old = np.random.default_rng(5).integers(0, 256, size, np.uint8)
    outs = []
    for engine in (CPU, REF):
        out = rs.Memory(rs.MemoryDesc(dims, dst, format), engine, old.copy())
        given = rs.Memory(rs.MemoryDesc(dims, src, "ab"), engine, held.copy()) if x is None else x
        rs.reorder(given, None, scale=alpha, beta=beta, out=out, engine=engine)
        outs.append(out.data.view(np.uint8))
    np.testing.assert_array_equal(*outs)


BLOCKED = {
    "into blocks": ("nchw", "nChw16c", 1.0, 0.0),
    "out of blocks": ("nChw16c", "nhwc", 0.25, 0.0),
    "into double blocks": ("nhwc", "OIhw4i16o4i", 2.0, 1.0),
}


@pytest.mark.sweep(1)
@pytest.mark.parametrize("dst", PROVIDED, ids=str)
@pytest.mark.parametrize(("src", "way"), list(product(PROVIDED, BLOCKED)), ids=str)
def test_conversions_into_and_out_of_blocks_land_in_their_places(src, dst, way):
    src_format, dst_format, alpha, beta = BLOCKED[way]
    dims = (18, 19, 3, 4)
    src_md, dst_md = rs.MemoryDesc(dims, src, src_format), rs.MemoryDesc(dims, dst, dst_format)
    check_reorder(src_md, dst_md, CPU, alpha=alpha, beta=beta, seed=list(BLOCKED).index(way))


@pytest.mark.parametrize("way", [*get_args(WayName), "MXFP4"])
def test_a_way_of_quantizing_is_no_type_and_is_told_where_it_goes(way):
    with refused("unknown data type", f"rs.quantize(x, '{way.lower()}')"):
        rs.reorder(np.ones((1, 32), np.float32), dtype=way)
