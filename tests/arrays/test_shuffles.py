"""Shuffles of arrays: OpenVINO's reference values, element types, `out`, memories, what is refused."""

from __future__ import annotations

import inspect

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from support.errors import refused
from support.shuffles import shuffled

CPU = rs.Engine("cpu")
# O06: twelve element types; then those that OpenVINO has not, and NumPy's others of 1, 2, 4 and 8 bytes.
_INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
TYPES = [*_INTEGERS, "bfloat16", "float16", "float32", "float64"]
OTHERS = [
    "bool",
    "complex64",
    "float8_e5m2",
    "float8_e4m3fn",
    "float8_e8m0fnu",
    "int4",
    "uint4",
]
_FIFTEEN = [0, 3, 6, 9, 12, 1, 4, 7, 10, 13, 2, 5, 8, 11, 14]
_SIX = [0, 3, 1, 4, 2, 5]
# The shape, the axis, the number of groups, and the channels as they come out.
REFERENCE = [
    ((15,), 0, 5, _FIFTEEN),
    ((6, 1, 1, 1), 0, 2, _SIX),
    ((1, 15, 2, 2), 1, 5, _FIFTEEN),
    ((15, 2, 1, 2), -4, 5, _FIFTEEN),
    ((15, 4), 0, 5, _FIFTEEN),
    ((15, 2, 2), 0, 5, _FIFTEEN),
    ((2, 2, 15, 2, 2), 2, 5, _FIFTEEN),
    ((2, 2, 15, 2, 2), -3, 5, _FIFTEEN),
]


def _dtype(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def _counted(shape, dtype):
    """Numbers in order, as many of them distinct as the type has."""
    return np.arange(int(np.prod(shape))).reshape(shape).astype(_dtype(dtype))


def _bits(x):
    return np.ascontiguousarray(x).view(np.uint8)


def check(got, wanted):
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    np.testing.assert_array_equal(_bits(got), _bits(wanted))


@pytest.mark.parametrize("dtype", [*TYPES, *OTHERS])
@pytest.mark.parametrize(
    ("shape", "axis", "group", "channels"), REFERENCE, ids=[f"{s} axis {a}" for s, a, *_ in REFERENCE]
)
def test_openvino_reference_values(shape, axis, group, channels, dtype):
    x = _counted(shape, dtype)
    made = rs.shuffle_channels(x, group=group, axis=axis)
    check(made, np.take(x, channels, axis))
    check(rs.shuffle(x, group_size=shape[axis] // group, axis=axis % len(shape)), made)


def test_defaults_are_one_group_and_axis_1():
    x = _counted((2, 6, 3), "int32")
    check(rs.shuffle_channels(x), x)
    check(rs.shuffle(x, group_size=2), shuffled(x, 1, 2))
    check(rs.channel_shuffle(x, 2), rs.shuffle_channels(x, group=2, axis=1))


def test_factors_are_passed_by_name():
    for call, names in (
        (rs.shuffle, ("group_size", "axis", "out")),
        (rs.shuffle_channels, ("group", "axis", "out")),
    ):
        kinds = {name: p.kind for name, p in inspect.signature(call).parameters.items()}
        assert tuple(name for name, kind in kinds.items() if kind is inspect.Parameter.KEYWORD_ONLY) == names
    with pytest.raises(TypeError):
        rs.shuffle(_counted((2, 6), "int8"), 2)


def _layouts(x):
    """The same values in memory of several layouts."""
    yield "row-major", np.ascontiguousarray(x)
    yield "channels last", np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    yield "reversed", np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x
    yield "every other", wide[..., ::2]
    moved = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    moved[...] = x
    yield "unaligned", moved


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
def test_arrays_lie_as_they_like_and_so_may_out(dtype):
    x = _counted((3, 12, 5, 7), dtype)
    wanted = shuffled(x, 1, 4)
    for source_name, source in _layouts(x):
        assert (source == x).all(), source_name
        made = rs.shuffle(source, group_size=4)
        np.testing.assert_array_equal(made, wanted, err_msg=source_name)
        for _, out in _layouts(np.zeros_like(x)):
            assert rs.shuffle(source, group_size=4, out=out) is out
            np.testing.assert_array_equal(out, wanted, err_msg=source_name)


def test_a_broadcast_source_is_read_and_what_is_beside_out_is_kept():
    x = np.broadcast_to(np.arange(6, dtype=np.int16)[:, None], (2, 6, 5))
    room = np.full((2, 6, 9), 77, np.int16)
    assert rs.shuffle_channels(x, group=3, out=room[..., 2:7]) is not None
    np.testing.assert_array_equal(room[..., 2:7], shuffled(x, 1, 2))
    assert (room[..., :2] == 77).all()
    assert (room[..., 7:] == 77).all()


@pytest.mark.parametrize("shape", [(0, 12, 3), (2, 12, 0), (2, 0, 3), (0,), (0, 0)])
def test_zero_extents_are_shuffled_by_any_groups(shape):
    axis = min(1, len(shape) - 1)
    x = np.zeros(shape, np.uint16)
    groups = (1, 3, 5) if shape[axis] == 0 else (1, 3)
    for group in groups:
        made = rs.shuffle_channels(x, group=group, axis=axis)
        assert (made.shape, made.dtype) == (x.shape, x.dtype)
        out = np.zeros(shape, np.uint16)
        assert rs.shuffle_channels(x, group=group, axis=axis, out=out) is out
    with refused("group"):
        rs.shuffle_channels(x, group=0, axis=axis)


def test_onednn_has_no_group_size_for_an_axis_without_channels():
    with refused("bad param group_size", "C = 0"):
        rs.shuffle(np.zeros((2, 0)), group_size=1)


@pytest.mark.parametrize("rank", [2, 6, 12])
def test_ranks_up_to_twelve(rank):
    x = _counted((2, 6, *(1 + (d % 2) for d in range(rank - 2))), "float64")
    for axis in range(rank):
        check(rs.shuffle_channels(x, group=1, axis=axis - rank), x)
    check(rs.shuffle_channels(x, group=2, axis=1 - rank), shuffled(x, 1, 3))


def test_subclasses_of_arrays_are_arrays():
    class Named(np.ndarray):
        pass

    x = _counted((2, 6), "int32").view(Named)
    np.testing.assert_array_equal(rs.shuffle(x, group_size=2), shuffled(np.asarray(x), 1, 2))


# --- memories ---------------------------------------------------------------------------------------------


def test_memories_of_4_bit_elements():
    x = np.arange(48).reshape(2, 12, 2).astype(ml_dtypes.uint4)
    packed = rs.reorder(x, None)
    made = rs.shuffle_channels(packed, group=3)
    assert made.desc == packed.desc
    np.testing.assert_array_equal(made.to_numpy().astype(np.uint8), shuffled(x.astype(np.uint8), 1, 4))


# --- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, -1, 5, 13, 24, 2**70])
def test_groups_that_do_not_divide_are_told_both_numbers_and_what_does(number):
    x = np.zeros((1, 12), np.float32)
    divisors = "1, 2, 3, 4, 6, 12"
    with refused(
        "shuffle: bad param group_size", "C = 12", "group_size = ", "group = C / group_size", divisors
    ):
        rs.shuffle(x, group_size=number)
    with refused("shuffle_channels: bad group", "C = 12", "group = ", "group_size = C / group", divisors):
        rs.shuffle_channels(x, group=number)
    with refused("channel_shuffle: bad groups", "C = 12", "groups = ", "group_size = C / groups", divisors):
        rs.channel_shuffle(x, number)


def test_axes_outside_of_the_tensor_are_refused():
    x = np.zeros((2, 6, 3, 3), np.float32)
    for axis in (-5, 4, 2**70):
        with refused("shuffle_channels: axis", "from -4 to 3"):
            rs.shuffle_channels(x, group=2, axis=axis)
    for axis in (-1, 4):
        with refused("shuffle: bad axis"):
            rs.shuffle(x, group_size=2, axis=axis)
    with refused("axis 1 is out of range", "from -1 to 0"):
        rs.shuffle_channels(np.zeros(6), group=2)
    for call in (rs.shuffle_channels, lambda x: rs.shuffle(x, group_size=1)):
        with refused("without axes"):
            call(np.ones(()))


@pytest.mark.parametrize("value", [1.0, "2", None, True, [2]])
def test_factors_are_integers(value):
    x = np.zeros((2, 6), np.float32)
    for call in (
        lambda: rs.shuffle(x, group_size=value),
        lambda: rs.shuffle_channels(x, group=value),
        lambda: rs.channel_shuffle(x, value),
        lambda: rs.shuffle_channels(x, group=2, axis=value),
    ):
        with pytest.raises(rs.InvalidArguments):
            call()


def test_integers_of_numpy_are_integers():
    x = _counted((2, 6), "int32")
    check(rs.shuffle(x, group_size=np.int64(2), axis=np.uint8(1)), shuffled(x, 1, 2))


@pytest.mark.parametrize(
    "x",
    [
        np.array([[None] * 4]),
        np.array([["a", "b"]]),
        np.zeros((2, 4), "M8[s]"),
        np.zeros((2, 4), "m8[s]"),
        np.zeros((2, 4), [("a", "i4")]),
        np.zeros((2, 4), "V4"),
        np.zeros((2, 4), np.clongdouble),
        "text",
        None,
        7,
    ],
    ids=[
        "object",
        "str",
        "datetime",
        "timedelta",
        "structured",
        "void",
        "clongdouble",
        "text",
        "None",
        "int",
    ],
)
def test_what_holds_no_numbers_is_refused(x):
    for call in (lambda: rs.shuffle(x, group_size=2), lambda: rs.shuffle_channels(x, group=2)):
        with pytest.raises(rs.InvalidArguments) as caught:
            call()
        assert caught.value.hint


def test_an_out_that_will_not_do_is_refused_before_it_is_written():
    x = _counted((2, 6, 4), "float32")
    with refused("have different types"):
        rs.shuffle(x, group_size=2, out=np.zeros(x.shape, np.int32))
    with refused("dims"):
        rs.shuffle(x, group_size=2, out=np.zeros((2, 6, 5), np.float32))
    for out in (x, x[:, :, ::-1]):
        with refused("x and out overlap"):
            rs.shuffle(x, group_size=2, out=out)
    repeated = np.lib.stride_tricks.as_strided(np.zeros(4, np.float32), x.shape, (0, 0, 4))
    with refused():
        rs.shuffle(x, group_size=2, out=repeated)
    np.testing.assert_array_equal(x, _counted((2, 6, 4), "float32"))


def test_memories_that_will_not_do_are_refused():
    md = rs.MemoryDesc((2, 6), "f32", "ab")
    memory = rs.Memory(md, CPU)
    with refused("overlap"):
        rs.shuffle(memory, group_size=2, out=memory)
    with refused("different data types", kind=rs.Unimplemented):
        rs.shuffle(memory, group_size=2, out=rs.Memory(rs.MemoryDesc((2, 6), "s32", "ab"), CPU))


def test_verbose_lines_tell_creation_and_execution(capfd):
    x = np.zeros((3, 12, 7, 11), np.float32)
    with rs.set_verbose("profile"):
        rs.shuffle_channels(x, group=3)
        rs.shuffle_channels(x, group=3)
    said = capfd.readouterr().err.splitlines()
    lines = [line.split(",") for line in said if ",info," not in line and ",cache:evict," not in line]
    assert [line[3] for line in lines] == ["create:cache_miss", "exec", "create:cache_hit", "exec"]
    assert lines[1][5] == "shuffle"
    assert lines[1][10].startswith("axis:1 group:4 ")


# --- torch -------------------------------------------------------------------------------------------------


@pytest.mark.peer
def test_arrays_are_counted_in_the_primitive_cache_that_memories_share():
    x = np.zeros((1, 12, 4, 1213), np.float32)
    before = rs.cache_info()["primitives"]
    rs.shuffle_channels(x, group=3)
    made = rs.cache_info()["primitives"]
    assert (made.misses - before.misses, made.hits - before.hits) == (1, 0)
    desc = rs.ShuffleForward.Desc("forward", rs.MemoryDesc(x.shape, "f32", "nchw"), 1, 4)
    rs.ShuffleForward.PrimitiveDesc(desc, rs.Engine("cpu"))
    found = rs.cache_info()["primitives"]
    assert (found.misses - made.misses, found.hits - made.hits) == (0, 1)


def test_torch_shuffles_alike():
    torch = pytest.importorskip("torch")
    for dtype in ("float32", "float16", "uint8", "int64", "float64", "int16"):
        for shape in ((2, 12, 5, 7), (1, 30, 4), (3, 64, 2, 3, 2)):
            x = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
            for groups in (n for n in range(1, shape[1] + 1) if shape[1] % n == 0):
                wanted = torch.nn.functional.channel_shuffle(torch.from_numpy(x), groups).numpy()
                np.testing.assert_array_equal(rs.channel_shuffle(x, groups), wanted)
    last = torch.arange(2 * 12 * 3 * 3, dtype=torch.float32).reshape(2, 12, 3, 3)
    last = last.to(memory_format=torch.channels_last)
    wanted = torch.nn.functional.channel_shuffle(last, 3).numpy()
    np.testing.assert_array_equal(rs.channel_shuffle(last.numpy(), 3), wanted)


@pytest.mark.parametrize(
    ("channels", "shown"),
    [
        (12, "valid values of group: 1, 2, 3, 4, 6, 12"),
        (100_003**2, "valid values of group: 1, 10000600009, and possibly others"),
        (65_537 * 65_521, "valid values of group: 1, 65521, 65537, 4294049777"),
    ],
)
def test_a_list_of_factors_says_where_it_is_not_whole(channels, shown):
    x = np.broadcast_to(np.zeros((), np.int8), (1, channels))
    with pytest.raises(rs.InvalidArguments) as caught:
        rs.shuffle_channels(x, group=5)
    assert caught.value.hint == shown
