"""Pooling of arrays: values in every layout, kinds of arrays, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.errors import refused

IMAGES = np.random.default_rng(0).normal(0, 2, (2, 12, 7, 9)).astype(np.float32)
LAYOUTS = ("nchw", "nhwc", "chwn", "nChw8c", "nChw16c")


def windows(x, kernel, strides, padding, dilation, fill):
    """Windows along two last axes of their own."""
    size = [(k - 1) * (d + 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *padding], constant_values=fill)
    found = np.lib.stride_tricks.sliding_window_view(x, size, (2, 3))
    (sh, sw), (dh, dw) = strides, dilation
    return found[:, :, ::sh, ::sw, :: dh + 1, :: dw + 1]


CALLS = [
    ({"kernel": 2}, ((2, 2), (2, 2), ((0, 0), (0, 0)), (0, 0))),
    ({"kernel": (3, 2), "stride": (2, 1), "padding": (1, 0)}, ((3, 2), (2, 1), ((1, 1), (0, 0)), (0, 0))),
    ({"kernel": 3, "stride": 1, "padding": ((0, 1), 1)}, ((3, 3), (1, 1), ((0, 1), (1, 1)), (0, 0))),
    ({"kernel": 2, "dilation": (2, 3)}, ((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 2))),
    ({}, ((7, 9), (7, 9), ((0, 0), (0, 0)), (0, 0))),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("call", "how"), CALLS, ids=[str(call) for call, _ in CALLS])
def test_values_are_those_of_windows_in_every_layout(layout, call, how):
    x = rs.reorder(IMAGES, layout)
    largest = windows(IMAGES, *how, -np.inf).max((-2, -1))
    total = windows(IMAGES, *how, 0).sum((-2, -1))
    count = windows(np.ones_like(IMAGES), *how, 0).sum((-2, -1))
    for alg, wanted in (
        ("max", largest),
        ("avg", total / np.prod(how[0])),
        ("pooling_avg_exclude_padding", total / count),
    ):
        made = rs.pool(x, alg=alg, **call)
        assert type(made) is type(x)
        got = made.to_numpy() if isinstance(made, rs.Memory) else made
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
        if isinstance(made, rs.Memory):
            assert made.desc.tag == x.desc.tag
        elif layout == "nhwc":
            assert made.transpose(0, 2, 3, 1).flags.c_contiguous


def test_one_and_three_spatial_dims():
    row = IMAGES[:, :, 0]
    assert rs.pool(row, 3).shape == (2, 12, 3)
    np.testing.assert_array_equal(rs.pool(row, 3), row.reshape(2, 12, 3, 3).max(-1))
    deep = np.stack([IMAGES] * 4, 2)
    assert rs.pool(deep, (4, 7, 9)).shape == (2, 12, 1, 1, 1)


def test_bytes_stay_bytes_and_results_go_where_it_is_told():
    x = np.arange(64, dtype=np.uint8).reshape(1, 1, 8, 8)
    assert rs.pool(x, 4).tolist() == [[[[27, 31], [59, 63]]]]
    out = np.empty((1, 1, 2, 2), np.float32)
    assert rs.pool(x, 4, alg="avg", out=out) is out
    assert out.ravel().tolist() == [13.5, 17.5, 45.5, 49.5]


def test_nothing_is_made_of_nothing():
    assert rs.pool(IMAGES[:0], 2).shape == (0, 12, 3, 4)
    assert rs.pool(IMAGES[:, :, :0], (2, 1), stride=1).shape == (2, 12, 0, 9)
    for x in (IMAGES[:0], IMAGES[:, :, :0], IMAGES[:, :0]):
        with refused("a window is larger than the image"):
            rs.pool(x, 10, stride=1)
    for x in (IMAGES[:, :, :0], IMAGES[..., :0]):
        with refused("pool: x has no positions"):
            rs.pool(x, alg="avg")
    # Windows that lie in the padding alone.
    assert (
        rs.pool(IMAGES[:, :, :0], 1, alg="avg", stride=1, padding=1).tolist()
        == np.zeros((2, 12, 2, 11)).tolist()
    )


def test_numbers_may_be_arrays():
    wanted = rs.pool(IMAGES, (3, 2), padding=((1, 0), (0, 1)))
    made = rs.pool(IMAGES, np.array([3, 2]), padding=np.array([[1, 0], [0, 1]]))
    np.testing.assert_array_equal(made, wanted)
    np.testing.assert_array_equal(rs.pool(IMAGES, np.array(2)), rs.pool(IMAGES, 2))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "f64"])
def test_what_is_no_number_and_infinities(layout, kind):
    x = IMAGES.copy()
    x[0, 0, 0, :6] = np.nan, 1, np.inf, np.nan, -np.inf, -np.inf
    x[0, 0, 1, 4:6] = -np.inf
    given = rs.reorder(x, layout, dtype=kind)
    made, mean = (rs.pool(given, 2, alg=alg) for alg in ("max", "avg"))
    first, average = (
        np.asarray(each.to_numpy() if isinstance(each, rs.Memory) else each, np.float64)[0, 0, 0, :3]
        for each in (made, mean)
    )
    # A maximum begins with the least finite value.
    least = {"f32": np.float32, "f16": np.float16, "f64": np.float64}.get(kind)
    lowest = float(np.finfo(least).min) if least else -3.3895313892515355e38
    np.testing.assert_array_equal(first, [np.nan, np.nan, lowest])
    np.testing.assert_array_equal(average, [np.nan, np.nan, -np.inf])


def test_windows_that_do_not_fit_are_refused_before_anything_is_written():
    out = np.full((2, 12, 3, 4), 7, np.float32)
    with refused("alg", "no such algorithm"):
        rs.pool(IMAGES, 2, alg="mean", out=out)
    with refused("alg"):
        rs.pool(IMAGES, 2, alg=3, out=out)
    for name, value in (
        ("padding", ((1, 1), (None, 0))),
        ("kernel", np.array([2.0, 2.0])),
        ("kernel", 0),
        ("kernel", (2, 2, 2)),
        ("stride", (1, -1)),
        ("padding", -1),
        ("padding", ((1, 2), (1, 2, 3))),
        ("dilation", 0),
        ("dilation", -1),
    ):
        with refused(f"{name} is"):
            rs.pool(IMAGES, **{"kernel": 2, name: value}, out=out)
    with refused("kernel"):
        rs.pool(IMAGES, "2", out=out)
    with refused("a window is larger than the image"):
        rs.pool(IMAGES, 8, out=out)
    with refused("no spatial dims"):
        rs.pool(IMAGES[0, 0], 2)
    with refused("another size"):
        rs.pool(IMAGES, 2, out=out[..., :3])
    with refused("do not fit"):
        rs.pool(IMAGES[:1], 2, out=out)
    with refused("overlap"):
        rs.pool(out, 1, out=out[:, ::-1])
    for kernel, padding in ((3, 1), (1, 0)):
        with refused("pool: x and out overlap"):
            rs.pool(out, kernel, stride=1, padding=padding, out=out)
    with pytest.raises(rs.Error):
        rs.pool(None, 2)
    with pytest.raises(rs.Error):
        rs.pool(IMAGES.astype("c8"), 2)
    assert (out == 7).all()


@pytest.mark.peer
def test_tensors_of_torch_give_tensors():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(IMAGES)
    functional = torch.nn.functional
    torch.testing.assert_close(rs.pool(x, 3, stride=2, padding=1), functional.max_pool2d(x, 3, 2, 1))
    made = rs.pool(x, 3, alg="avg", stride=2, padding=1)
    torch.testing.assert_close(made, functional.avg_pool2d(x, 3, 2, 1))


@pytest.mark.peer
def test_arrays_of_jax_give_arrays_of_jax():
    jax = pytest.importorskip("jax")
    made = rs.pool(jax.numpy.asarray(IMAGES), alg="avg")
    assert isinstance(made, jax.Array)
    np.testing.assert_allclose(made[..., 0, 0], IMAGES.mean((2, 3)), rtol=1e-5, atol=1e-6)
