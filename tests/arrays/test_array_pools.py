"""Pooling of arrays: edges, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.errors import refused

IMAGES = np.random.default_rng(0).normal(0, 2, (2, 12, 7, 9)).astype(np.float32)
LAYOUTS = ("nchw", "nhwc", "chwn", "nChw8c", "nChw16c")


def test_one_and_three_spatial_dims():
    row = IMAGES[:, :, 0]
    assert rs.pool(row, 3).shape == (2, 12, 3)
    np.testing.assert_array_equal(rs.pool(row, 3), row.reshape(2, 12, 3, 3).max(-1))
    deep = np.stack([IMAGES] * 4, 2)
    assert rs.pool(deep, (4, 7, 9)).shape == (2, 12, 1, 1, 1)


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
    for kernel, padding in ((3, 1), (1, 0)):
        with refused("pool: x and out overlap"):
            rs.pool(out, kernel, stride=1, padding=padding, out=out)
    with pytest.raises(rs.Error):
        rs.pool(IMAGES.astype("c8"), 2)
    assert (out == 7).all()
