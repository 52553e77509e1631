"""Functions of arrays: each in every layout and of every kind of array beside NumPy, into `out`, refusals.

A line of `FUNCTIONS` is a function. What is its own, parameters and their errors above all, is in a file of
its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from support.errors import refused

_RNG = np.random.default_rng(0)
IMAGES = _RNG.normal(3, 2, (2, 12, 7, 9)).astype(np.float32)
SCALE, SHIFT = _RNG.normal(1, 1, 12).astype(np.float32), _RNG.normal(0, 1, 12).astype(np.float32)
MEAN, VARIANCE = (made.astype(np.float64) for made in (IMAGES.mean((0, 2, 3)), IMAGES.var((0, 2, 3))))
_CHANNELS = (-1, 1, 1)
LAYOUTS = ("nchw", "nhwc", "chwn", "nChw8c", "nChw16c")
_WIDTHS = {"f64": 1e-12, "f32": 1e-5, "bf16": 2**-7, "f16": 2**-9}


def _softmax(x, axis):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def _normal(x, axes):
    epsilon = float(np.float32(1e-5))
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def _in_groups(x, groups):
    return _normal(x.reshape(len(x), groups, -1), 2).reshape(x.shape)


def _windows(x, kernel, strides, padding, dilation, fill):
    """Windows along two last axes of their own."""
    size = [(k - 1) * (d + 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    x = np.pad(x, [(0, 0), (0, 0), *padding], constant_values=fill)
    found = np.lib.stride_tricks.sliding_window_view(x, size, (2, 3))
    (sh, sw), (dh, dw) = strides, dilation
    return found[:, :, ::sh, ::sw, :: dh + 1, :: dw + 1]


@dataclass(frozen=True)
class Function:
    """A function, what NumPy makes of doubles, and how messages call its first array."""

    call: Callable[..., Any]
    wanted: Callable[[Any], Any]
    array: str = "x"
    # Of integers it makes fractions; it may be written over what it reads.
    makes_fractions: bool = True
    in_place: bool = True
    moves_bits: bool = False

    @property
    def name(self) -> str:
        return self.call.__code__.co_names[1]


def _pool(how, **call):
    """Maxima, averages, and averages of what is no padding, one beside the other."""

    def maximum(x):
        return _windows(x, *how, -np.inf).max((-2, -1))

    def average(x):
        return _windows(x, *how, 0).sum((-2, -1)) / np.prod(how[0])

    def within(x):
        return _windows(x, *how, 0).sum((-2, -1)) / _windows(np.ones_like(x), *how, 0).sum((-2, -1))

    names = {"max": maximum, "avg": average, "pooling_avg_exclude_padding": within}
    return {
        f"pool {alg} {call}": Function(
            lambda x, alg=alg, **more: rs.pool(x, alg=alg, **call, **more), wanted, "x", False, False
        )
        for alg, wanted in names.items()
    }


FUNCTIONS = {
    "softmax": Function(lambda x, **more: rs.softmax(x, 1, **more), lambda x: _softmax(x, 1)),
    "softmax of the batch": Function(lambda x, **more: rs.softmax(x, 0, **more), lambda x: _softmax(x, 0)),
    "log softmax": Function(
        lambda x, **more: rs.softmax(x, -1, log=True, **more), lambda x: np.log(_softmax(x, -1))
    ),
    "layer_norm of channels": Function(
        lambda x, **more: rs.layer_norm(x, SCALE, SHIFT, axis=1, **more),
        lambda x: _normal(x, 1) * SCALE.reshape(_CHANNELS) + SHIFT.reshape(_CHANNELS),
    ),
    "layer_norm": Function(
        lambda x, **more: rs.layer_norm(x, SCALE[:9], SHIFT[:9], **more),
        lambda x: _normal(x, -1) * SCALE[:9] + SHIFT[:9],
    ),
    "group_norm": Function(
        lambda x, **more: rs.group_norm(x, 4, SCALE, **more),
        lambda x: _in_groups(x, 4) * SCALE.reshape(_CHANNELS),
    ),
    "batch_norm": Function(
        lambda x, **more: rs.batch_norm(x, MEAN, VARIANCE, SCALE, SHIFT, **more),
        lambda x: (
            ((x - MEAN.reshape(_CHANNELS)) / np.sqrt(VARIANCE.reshape(_CHANNELS) + float(np.float32(1e-5))))
            * SCALE.reshape(_CHANNELS)
            + SHIFT.reshape(_CHANNELS)
        ),
    ),
    **_pool(((2, 2), (2, 2), ((0, 0), (0, 0)), (0, 0)), kernel=2),
    **_pool(((3, 2), (2, 1), ((1, 1), (0, 0)), (0, 0)), kernel=(3, 2), stride=(2, 1), padding=(1, 0)),
    **_pool(((3, 3), (1, 1), ((0, 1), (1, 1)), (0, 0)), kernel=3, stride=1, padding=((0, 1), 1)),
    **_pool(((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 2)), kernel=2, dilation=(2, 3)),
    **_pool(((7, 9), (7, 9), ((0, 0), (0, 0)), (0, 0))),
    "shuffle": Function(
        lambda x, **more: rs.shuffle(x, group_size=4, **more),
        lambda x: x.reshape(2, 3, 4, 7, 9).swapaxes(1, 2).reshape(x.shape),
        "x",
        False,
        False,
        True,
    ),
    "concat": Function(
        lambda x, **more: rs.concat([x, x], 0, **more),
        lambda x: np.concatenate([x, x]),
        "array 0",
        False,
        False,
        True,
    ),
    "add_n": Function(
        lambda x, **more: rs.add_n([x, x], [1, -0.5], **more), lambda x: x - x / 2, "array 0", False
    ),
}
# A function with one set of parameters stands for it where parameters do not matter.
ONE_OF_EACH = {function.name: function for function in reversed(FUNCTIONS.values())}
each_function = pytest.mark.parametrize("function", ONE_OF_EACH.values(), ids=ONE_OF_EACH)


def elements(made):
    return np.asarray(made.to_numpy() if isinstance(made, rs.Memory) else made)


def _order(x):
    return sorted(range(x.ndim), key=lambda axis: -x.strides[axis])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_values_are_those_of_numpy_in_the_layout_of_the_source(function, layout):
    x = rs.reorder(IMAGES, layout)
    made, wanted = function.call(x), function.wanted(IMAGES.astype(np.float64))
    assert type(made) is type(x)
    if isinstance(made, rs.Memory):
        assert made.desc.tag == x.desc.tag
        block = made.desc.inner_blks[0]
        assert not made.physical()[:, -1, ..., (wanted.shape[1] - 1) % block + 1 :].any()
    else:
        assert made.dtype == x.dtype
        assert made.transpose(_order(x)).flags.c_contiguous
    np.testing.assert_allclose(elements(made), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", _WIDTHS)
@pytest.mark.parametrize("engine", ["cpu", "reference"])
@each_function
def test_every_width_is_computed_as_wide_as_it_is(function, engine, kind):
    bound = _WIDTHS[kind]
    x = rs.Memory(rs.MemoryDesc(IMAGES.shape, kind, "nChw8c"), rs.Engine(engine))
    rs.reorder(IMAGES, None, out=x)
    made, wide = function.call(x), x.to_numpy().astype(np.float64)
    assert (made.desc.data_type, made.engine) == (x.desc.data_type, x.engine)
    limit = 0 if function.moves_bits else bound
    found, wanted = elements(made).astype(np.float64), function.wanted(wide)
    np.testing.assert_allclose(found, wanted, rtol=limit, atol=8 * limit)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@each_function
def test_integers_give_fractions_or_integers(function, kind):
    x = (IMAGES * 10).clip(0, 100).astype(kind)
    made = function.call(x)
    assert made.dtype == (np.float32 if function.makes_fractions else kind)
    wanted = function.wanted(x.astype(np.float64))
    tolerance = 1e-5 if function.makes_fractions else 0
    np.testing.assert_allclose(
        made, wanted if tolerance else np.rint(wanted), rtol=tolerance, atol=5 * tolerance
    )


@each_function
def test_results_go_where_it_is_told(function):
    wanted = function.call(IMAGES)
    wide = np.full((*wanted.shape[:-1], 2 * wanted.shape[-1]), 7, np.float32)
    gaps = wide[..., ::2]
    assert function.call(IMAGES, out=gaps) is gaps
    np.testing.assert_array_equal(gaps, wanted)
    assert (wide[..., 1::2] == 7).all()
    into = rs.Memory(rs.MemoryDesc(wanted.shape, "f32", "nChw8c"), rs.Engine("cpu"))
    assert function.call(IMAGES, out=into) is into
    np.testing.assert_allclose(into.to_numpy(), wanted, rtol=1e-4, atol=1e-6)
    if function.in_place:
        x = IMAGES.copy()
        assert function.call(x, out=x) is x
        np.testing.assert_array_equal(x, wanted)
    if not function.moves_bits:
        double = np.empty(wanted.shape, np.float64)
        assert function.call(IMAGES, out=double) is double
        np.testing.assert_allclose(double, wanted, rtol=1e-5, atol=1e-5)


@each_function
def test_what_does_not_fit_is_refused_before_anything_is_written(function):
    made = function.call(IMAGES)
    room = np.full((3, *made.shape), 7, np.float32)
    out, frozen = room[0], np.zeros(made.shape, np.float32)
    frozen.flags.writeable = False
    name, array, call = function.name, function.array, function.call
    for x in (None, "x", {}, 3.0, rs.MemoryDesc((2, 3), "f32", "ab")):
        with refused(f"{name}: ", "cannot be read"):
            call(x, out=out)
    with refused("empty"):
        call(rs.Memory(), out=out)
    with refused("a mask would be lost"):
        call(np.ma.masked_array(IMAGES, IMAGES > 0), out=out)
    with refused("out is read-only"):
        call(IMAGES, out=frozen)
    with refused(f"{name}: out cannot be written", "list is not a NumPy array"):
        call(IMAGES, out=[[1.0]])
    with refused(f"{name}: "):
        call(IMAGES, out=out[..., :-1])
    source = np.lib.stride_tricks.as_strided(room.reshape(-1)[1:], IMAGES.shape, IMAGES.strides)
    with refused(f"{name}: {array} and out overlap"):
        call(source[:, ::-1], out=out)
    assert (room == 7).all()


@each_function
def test_a_call_that_goes_well_writes_no_descriptor_as_text(function, monkeypatch):
    function.call(IMAGES)
    monkeypatch.setattr(rs.MemoryDesc, "__str__", lambda md: pytest.fail("a text that nobody reads"))
    function.call(IMAGES)


@each_function
def test_nothing_is_made_of_nothing(function):
    if function.name in ("softmax", "layer_norm", "group_norm", "batch_norm", "pool"):
        assert len(function.call(IMAGES[:0])) == 0


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int32, np.bool_])
@pytest.mark.parametrize("layout", ["ab", "AB4a4b"])
def test_softmax_takes_every_integer_and_lists(kind, layout):
    x = np.arange(20).reshape(4, 5).astype(kind)
    wanted = _softmax(x.astype(np.float64), 1)
    made = rs.softmax(rs.reorder(x, layout), 1)
    assert made.dtype == np.float32
    np.testing.assert_allclose(rs.reorder(made, "ab"), wanted, rtol=3e-6)
    if kind is not np.bool_:
        np.testing.assert_allclose(rs.softmax(x.tolist()), wanted, rtol=3e-6)


def test_numbers_of_softmax_that_do_not_fit_are_refused():
    with refused("axis is 4", "x has 4 axes"):
        rs.softmax(IMAGES, 4)
    with refused("axis"):
        rs.softmax(IMAGES, 1.5)
    with refused("log"):
        rs.softmax(IMAGES, 1, log="no")


@pytest.mark.peer
@each_function
def test_arrays_of_other_libraries_come_back_as_theirs(function):
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    wanted = function.call(IMAGES)
    last = torch.from_numpy(IMAGES).to(memory_format=torch.channels_last)
    made = function.call(last)
    assert isinstance(made, torch.Tensor)
    assert made.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_allclose(made.numpy(), wanted, rtol=1e-5, atol=1e-5)
    assert function.call(last.bfloat16()).dtype is torch.bfloat16
    made = function.call(jax.numpy.asarray(IMAGES))
    assert isinstance(made, jax.Array)
    np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-5)
    assert function.call(IMAGES.astype(ml_dtypes.bfloat16)).dtype == ml_dtypes.bfloat16
