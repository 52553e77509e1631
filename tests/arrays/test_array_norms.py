"""Layer, group and batch normalization of arrays: edges, and what is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import restride as rs
from support.errors import refused

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(3, 2, (2, 12, 5, 3)).astype(np.float32)
SCALE, SHIFT = RNG.normal(1, 1, 12).astype(np.float32), RNG.normal(0, 1, 12).astype(np.float32)


def along(values, axis=1, ndim=4):
    return np.reshape(values, [-1 if i == axis % ndim else 1 for i in range(ndim)])


def normal(x, axes, epsilon=1e-5):
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


@pytest.mark.parametrize("axis", [0, -1])
def test_the_only_axis_of_a_row_is_normalized_wherever_it_goes(axis):
    row = IMAGES[0, :, 0, 0].copy()
    wanted = normal(row, 0) * SCALE
    np.testing.assert_allclose(rs.layer_norm(row, SCALE, axis=axis), wanted, rtol=1e-5, atol=1e-5)
    out = np.full(24, 7, np.float32)
    target = out[::2]
    assert rs.layer_norm(row, SCALE, axis=axis, out=target) is target
    np.testing.assert_allclose(target, wanted, rtol=1e-5, atol=1e-5)
    assert (out[1::2] == 7).all()
    memory = rs.Memory.from_numpy(row)
    made = rs.layer_norm(memory, SCALE, axis=axis)
    assert made.desc == memory.desc
    np.testing.assert_allclose(made.to_numpy(), wanted, rtol=1e-5, atol=1e-5)
    with refused("axis is 1", "x has 1 axes"):
        rs.layer_norm(row, axis=1)
    with refused("different shapes"):
        rs.layer_norm(row, out=np.empty((1, 12), np.float32))


def test_weights_may_be_of_any_numbers():
    x = IMAGES[:, :, 0, 0]
    wanted = normal(x, 1) * np.arange(12) + 1
    for scale, shift in (
        (np.arange(12), np.ones(12)),
        (list(range(12)), [1] * 12),
        (np.arange(12, dtype=np.float16), np.ones(12, np.float16)),
        (np.arange(12, dtype=np.float32)[::1], np.ones(24, np.float32)[::2]),
        (rs.Memory.from_numpy(np.arange(12, dtype=np.float32)), np.ones(12, np.float16)),
    ):
        np.testing.assert_allclose(rs.layer_norm(x, scale, shift), wanted, rtol=1e-5, atol=1e-5)


def test_threads_may_call_at_once():
    arrays = [IMAGES + i for i in range(4)]
    calls = (
        lambda x: rs.layer_norm(x, SCALE, SHIFT, axis=1),
        lambda x: rs.group_norm(x, 4),
        lambda x: rs.softmax(x, 1),
        lambda x: rs.pool(x, 3, stride=2, padding=1),
    )
    wanted = [[call(x).tobytes() for x in arrays] for call in calls]
    jobs = [(i, j) for i in range(len(calls)) for j in range(len(arrays))] * 10
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda job: calls[job[0]](arrays[job[1]]).tobytes(), jobs))
    assert found == [wanted[i][j] for i, j in jobs]


def test_what_does_not_fit_is_refused_before_anything_is_written():
    x, out = IMAGES, np.full(IMAGES.shape, 7, np.float32)
    with refused("axis is 4", "x has 4 axes"):
        rs.layer_norm(x, axis=4, out=out)
    with refused("scale is", "12 numbers"):
        rs.layer_norm(x, SCALE[:3], axis=1, out=out)
    with refused("scale is", "12 numbers"):
        rs.layer_norm(x, np.ma.masked_array(SCALE, SCALE > 0), axis=1, out=out)
    with refused("shift is"):
        rs.group_norm(x, 3, None, SHIFT[None], out=out)
    with refused("mean is 'x'"):
        rs.batch_norm(x, "x", SHIFT, out=out)
    with refused("variance is None"):
        rs.batch_norm(x, SHIFT, None, out=out)
    with refused("groups is 5", "12 channels"):
        rs.group_norm(x, 5, out=out)
    with refused("groups is 0"):
        rs.group_norm(x, 0, out=out)
    with refused("epsilon is -1"):
        rs.layer_norm(x, epsilon=-1, out=out)
    with refused("epsilon is nan"):
        rs.layer_norm(x, epsilon=np.nan, out=out)
    with refused("s32 cannot be normalized", kind=rs.Unimplemented):
        rs.layer_norm(x.astype(np.int32), out=out)
    x = out.copy()
    for axis in (0, 1, 2, 3):
        with refused("overlap"):
            rs.layer_norm(out[:, ::-1], axis=axis, out=out)
    with refused("scale and out overlap"):
        rs.layer_norm(x, out[0, 0, 0], out=out)
    with pytest.raises(rs.Error):
        rs.batch_norm(np.ones(3, np.float32), [1, 1, 1], [1, 1, 1])
    assert (out == 7).all()
