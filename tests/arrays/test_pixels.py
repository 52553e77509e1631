"""Batches of images as networks read them: values, layouts, kinds of arrays, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.errors import refused

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PHOTOS = np.random.default_rng(0).integers(0, 256, (2, 5, 7, 3)).astype(np.uint8)
WANTED = ((PHOTOS.astype(np.float64) / 255 - MEAN) / STD).transpose(0, 3, 1, 2)


@pytest.mark.parametrize("dst", [None, "nchw", "nhwc", "chwn", (105, 35, 1, 5), "nChw16c", "nChw8c"], ids=str)
@pytest.mark.parametrize(("dtype", "bound"), [("f32", 1e-6), ("bf16", 2**-7), ("f16", 2**-9), ("f64", 1e-13)])
def test_values_are_those_of_the_formula_in_every_format_and_type(dst, dtype, bound):
    made = rs.normalize(PHOTOS, MEAN, STD, dst, dtype=dtype)
    assert isinstance(made, rs.Memory) == (dst in ("nChw16c", "nChw8c"))
    got = made.to_numpy() if isinstance(made, rs.Memory) else made
    np.testing.assert_allclose(got.astype(np.float64), WANTED, rtol=bound, atol=bound)
    if isinstance(made, rs.Memory):
        assert not made.physical()[..., 3:].any()
    if dst in (None, "nchw"):
        assert got.flags.c_contiguous


@pytest.mark.parametrize("dims", [(7, 3), (5, 7, 3), (2, 5, 7, 3), (2, 2, 5, 7, 3)], ids=str)
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_the_channels_may_be_in_any_axis(dims, axis):
    x = np.random.default_rng(1).normal(size=dims).astype(np.float32)
    count = x.shape[axis]
    mean, std = np.arange(count) / 4, np.arange(count) + 1.0
    moved = np.moveaxis(x, axis, 0 if x.ndim == 3 else 1)
    shape = (-1, *[1] * (moved.ndim - 1 - (x.ndim != 3)))
    wanted = (moved - mean.reshape(shape)) / std.reshape(shape)
    np.testing.assert_allclose(rs.normalize(x, mean, std, axis=axis), wanted, rtol=2e-6, atol=1e-6)


def test_numbers_may_be_one_for_all_lists_arrays_and_tuples():
    wanted = (np.moveaxis(PHOTOS, -1, 1) / 255.0 - 0.5) / 0.25
    for mean, std in ((0.5, 0.25), ([0.5] * 3, np.full(3, 0.25)), ((0.5,), np.float32(0.25)), (0.5, [0.25])):
        np.testing.assert_allclose(rs.normalize(PHOTOS, mean, std), wanted, rtol=2e-6, atol=1e-6)


def test_what_stands_for_one_may_be_told():
    np.testing.assert_array_equal(rs.normalize(PHOTOS, 0, 1, unit=1), np.moveaxis(PHOTOS, -1, 1))
    floats = PHOTOS.astype(np.float32)
    np.testing.assert_array_equal(rs.normalize(floats, 0, 1), np.moveaxis(floats, -1, 1))
    np.testing.assert_allclose(rs.normalize(floats, MEAN, STD, unit=255), WANTED, rtol=1e-6, atol=1e-6)


def test_integers_are_rounded_and_saturated():
    got = rs.normalize(PHOTOS, 0.5, 1 / 300, dtype="s8")
    wanted = np.clip(np.rint((PHOTOS.transpose(0, 3, 1, 2) - 127.5) * (300 / 255)), -128, 127)
    assert np.abs(got - wanted).max() <= 1
    assert (got.min(), got.max()) == (-128, 127)


def test_a_memory_of_any_format_is_read():
    for tag in ("nchw", "nhwc", "nChw16c"):
        images = np.ascontiguousarray(np.moveaxis(PHOTOS, -1, 1))
        memory = rs.reorder(images, rs.MemoryDesc(images.shape, "u8", tag))
        memory = memory if isinstance(memory, rs.Memory) else rs.Memory.from_numpy(memory)
        np.testing.assert_allclose(rs.normalize(memory, MEAN, STD, axis=1), WANTED, rtol=1e-6, atol=1e-6)
    lists = rs.normalize(PHOTOS.astype(float).tolist(), MEAN, STD, unit=255.0)
    np.testing.assert_allclose(lists, WANTED, rtol=1e-6, atol=1e-6)


def test_a_result_may_be_written_where_it_is_told():
    out = np.full((2, 3, 5, 7), np.nan, np.float32)
    assert rs.normalize(PHOTOS, MEAN, STD, out=out) is out
    np.testing.assert_allclose(out, WANTED, rtol=1e-6, atol=1e-6)


def test_a_batch_of_none_is_none():
    assert rs.normalize(PHOTOS[:0], MEAN, STD).shape == (0, 3, 5, 7)


def test_warm_calls_take_other_numbers():
    for i in range(1, 5):
        got = rs.normalize(PHOTOS, [i, 0.5, 0.25], i)
        wanted = (np.moveaxis(PHOTOS, -1, 1) / 255.0 - np.reshape([i, 0.5, 0.25], (3, 1, 1))) / i
        np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (((0.5, 0.5), 1), "mean is (0.5, 0.5)"),
        ((0.5, (1, 1, 1, 1)), "std is (1, 1, 1, 1)"),
        ((0.5, (1, 0, 1)), "it is a divisor"),
        ((np.nan, 1), "mean is nan"),
        ((0.5, np.inf), "std is inf"),
        (("x", 1), "mean is 'x'"),
        (({}, 1), "mean is {}"),
        ((None, 1), "mean is None"),
        (([[0.5]], 1), "mean is"),
        (([0.5, [1]], 1), "mean is"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_numbers_that_are_not_one_for_each_channel_are_refused(arguments, text):
    with refused(text):
        rs.normalize(PHOTOS, *arguments)


@pytest.mark.parametrize("x", [None, "x", {}, 3.0, rs.Memory(), rs.MemoryDesc((2, 3), "f32", "ab")], ids=str)
def test_what_is_no_array_is_refused(x):
    with refused("normalize: x cannot be read"):
        rs.normalize(x, 0.5, 0.5)


@pytest.mark.parametrize(
    ("name", "value"), [("mean", 1e39), ("std", 1e-39), ("std", 1e-320), ("mean", "3"), ("mean", 1j)]
)
def test_numbers_that_become_infinite_or_are_none_are_refused(name, value):
    out = np.full((1, 3, 2, 2), 7, np.float32)
    with refused(f"normalize: {name} is"):
        rs.normalize(np.ones((1, 2, 2, 3), np.float32), **{"mean": 0.5, "std": 0.5, name: value}, out=out)
    assert (out == 7).all()


def test_what_does_not_fit_is_refused():
    with refused("axis is 4", "there is no such axis"):
        rs.normalize(PHOTOS, 0, 1, axis=4)
    with refused("axis is -1"):
        rs.normalize(np.zeros(3, np.uint8), 0, 1)
    with refused("unit is 0"):
        rs.normalize(PHOTOS, 0, 1, unit=0)
    with refused("axis"):
        rs.normalize(PHOTOS, 0, 1, axis=1.5)
    with pytest.raises(rs.Error):
        rs.normalize(None, 0, 1)
    with pytest.raises(rs.Error):
        rs.normalize(PHOTOS, 0, 1, "nchwx")
    with pytest.raises(rs.Error):
        rs.normalize(PHOTOS, 0, 1, out=np.zeros((2, 3, 5, 6), np.float32))
    with pytest.raises(rs.Error):
        rs.normalize(PHOTOS.astype("c8"), 0, 1)


@pytest.mark.peer
def test_tensors_of_torch_give_tensors():
    torch = pytest.importorskip("torch")
    images = torch.from_numpy(PHOTOS)
    made = rs.normalize(images, MEAN, torch.tensor(STD))
    assert type(made) is torch.Tensor
    assert made.dtype is torch.float32
    np.testing.assert_allclose(made.numpy(), WANTED, rtol=1e-6, atol=1e-6)
    half = rs.normalize(images.permute(0, 3, 1, 2), MEAN, STD, "nhwc", axis=1, dtype="bf16")
    assert half.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_allclose(half.float().numpy(), WANTED, rtol=2**-7, atol=2**-7)
    assert isinstance(rs.normalize(images, MEAN, STD, "nChw16c"), rs.Memory)
