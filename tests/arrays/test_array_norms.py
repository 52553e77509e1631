"""Layer, group and batch normalization of arrays: values in every layout, kinds of arrays, refusals."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import restride as rs
from support.errors import refused

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(3, 2, (2, 12, 5, 3)).astype(np.float32)
SCALE, SHIFT = RNG.normal(1, 1, 12).astype(np.float32), RNG.normal(0, 1, 12).astype(np.float32)
LAYOUTS = ("nchw", "nhwc", "chwn", "nChw8c", "nChw16c")


def along(values, axis=1, ndim=4):
    return np.reshape(values, [-1 if i == axis % ndim else 1 for i in range(ndim)])


def normal(x, axes, epsilon=1e-5):
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def laid_out(x, layout):
    return rs.reorder(x, layout)


def elements(made):
    return made.to_numpy() if isinstance(made, rs.Memory) else made


def check(made, wanted, like, bound=1e-5):
    assert type(made) is type(like)
    if isinstance(made, rs.Memory):
        assert made.desc == like.desc
        rest = made.physical()[:, -1, ..., 12 % made.desc.inner_blks[0] or 99 :]
        assert not rest.any()
    else:
        assert (made.dtype, made.strides) == (like.dtype, like.strides)
    np.testing.assert_allclose(elements(made), wanted, rtol=bound, atol=bound)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("axis", [1, -1])
def test_layers_are_normalized_along_any_axis_in_any_layout(layout, axis):
    x = laid_out(IMAGES, layout)
    scale, shift = (SCALE, SHIFT) if axis == 1 else (SCALE[:3], SHIFT[:3])
    wanted = normal(IMAGES, axis) * along(scale, axis) + along(shift, axis)
    check(rs.layer_norm(x, scale, shift, axis=axis), wanted, x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_groups_of_channels_are_normalized(layout):
    x = laid_out(IMAGES, layout)
    wanted = normal(IMAGES.reshape(2, 4, -1), 2).reshape(IMAGES.shape) * along(SCALE)
    check(rs.group_norm(x, 4, SCALE), wanted, x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_are_normalized_by_statistics_that_are_known(layout):
    x, mean, variance = laid_out(IMAGES, layout), IMAGES.mean((0, 2, 3)), IMAGES.var((0, 2, 3))
    wanted = normal(IMAGES, (0, 2, 3)) * along(SCALE) + along(SHIFT)
    check(rs.batch_norm(x, mean, variance, SCALE, SHIFT), wanted, x)


@pytest.mark.parametrize(("kind", "bound"), [("bf16", 2**-7), ("f16", 2**-9)])
def test_types_of_half_width_have_sums_of_f32(kind, bound):
    x = rs.reorder(IMAGES, None, dtype=kind)
    made = rs.layer_norm(x, axis=1)
    assert made.dtype == x.dtype
    np.testing.assert_allclose(
        made.astype(np.float64), normal(x.astype(np.float32), 1), rtol=bound, atol=bound
    )


def test_bytes_give_floats_where_it_is_told():
    x = RNG.integers(0, 256, (4, 50)).astype(np.uint8)
    out = np.empty((4, 50), np.float32)
    assert rs.layer_norm(x, out=out) is out
    np.testing.assert_allclose(out, normal(x, 1), rtol=1e-5, atol=1e-5)


def test_integers_are_normalized_to_fractions():
    x = RNG.integers(-100, 100, (4, 6, 5, 5)).astype(np.int8)
    for made, like in ((rs.layer_norm(x), x.reshape(-1, 5)), (rs.group_norm(x, 6), x.reshape(-1, 25))):
        assert made.dtype == np.float32
        exact = like.astype(np.float64)
        exact = (exact - exact.mean(1, keepdims=True)) / np.sqrt(exact.var(1, keepdims=True) + 1e-5)
        np.testing.assert_allclose(made.reshape(like.shape), exact, atol=3e-6)


def test_a_row_alone_and_a_result_in_place():
    row = IMAGES[0, :, 0, 0].copy()
    np.testing.assert_allclose(rs.layer_norm(row), normal(row, 0), rtol=1e-5, atol=1e-6)
    x = IMAGES.copy()
    assert rs.layer_norm(x, axis=1, out=x) is x
    np.testing.assert_allclose(x, normal(IMAGES, 1), rtol=1e-5, atol=1e-5)


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


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_doubles_are_computed_as_doubles(engine):
    wide = IMAGES.astype(np.float64) + 100
    scale, shift = SCALE.astype(np.float64) / 3, SHIFT.astype(np.float64) / 7
    x = rs.Memory(rs.MemoryDesc(wide.shape, "f64", "nChw8c"), rs.Engine(engine))
    rs.reorder(wide, None, out=x)
    epsilon = float(np.float32(1e-5))
    rows = normal(wide, 1, epsilon) * along(scale) + along(shift)
    groups = normal(wide.reshape(2, 4, -1), 2, epsilon).reshape(wide.shape) * along(scale)
    channels = normal(wide, (0, 2, 3), epsilon) * along(scale) + along(shift)
    found = wide.mean((0, 2, 3)), wide.var((0, 2, 3))
    for made, wanted in (
        (rs.layer_norm(x, scale, shift, axis=1), rows),
        (rs.group_norm(x, 4, scale), groups),
        (rs.batch_norm(x, *found, scale, shift), channels),
    ):
        assert made.desc == x.desc
        np.testing.assert_allclose(made.to_numpy(), wanted, rtol=1e-12, atol=1e-12)
    single = rs.layer_norm(wide, axis=1, out=np.empty(wide.shape, np.float32))
    np.testing.assert_allclose(single, normal(wide, 1), rtol=1e-6, atol=1e-6)


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


def test_nothing_is_made_of_nothing():
    assert rs.layer_norm(np.ones((0, 3), np.float32)).shape == (0, 3)
    assert rs.group_norm(IMAGES[:0], 3).shape == (0, 12, 5, 3)


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
    with refused("s32 is not normalized", kind=rs.Unimplemented):
        rs.layer_norm(x.astype(np.int32), out=out)
    with refused("different shapes"):
        rs.layer_norm(x, out=out[..., 0])
    with refused("different shapes"):
        rs.layer_norm(x[:1], out=out)
    with refused("read-only"):
        rs.layer_norm(x, out=np.broadcast_to(out, out.shape))
    with refused("overlap"):
        rs.layer_norm(out[:1], out=out[:, ::-1][:1])
    with refused("empty"):
        rs.layer_norm(rs.Memory())
    for x in (None, "x", {}, 3.0, rs.MemoryDesc((2, 3), "f32", "ab")):
        with refused("layer_norm: x cannot be read"):
            rs.layer_norm(x, out=out)
    for axis in (0, 1, -1):
        with refused("layer_norm: out cannot be written", "list is no NumPy array"):
            rs.layer_norm(IMAGES, axis=axis, out=[[1.0]])
    x = out.copy()
    for axis in (0, 1, 2, 3):
        with refused("overlap"):
            rs.layer_norm(out[:, ::-1], axis=axis, out=out)
    with refused("scale and out overlap"):
        rs.layer_norm(x, out[0, 0, 0], out=out)
    with pytest.raises(rs.Error):
        rs.batch_norm(np.ones(3, np.float32), [1, 1, 1], [1, 1, 1])
    assert (out == 7).all()


@pytest.mark.peer
def test_tensors_of_torch_give_tensors():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(IMAGES).to(memory_format=torch.channels_last)
    scale, shift = torch.from_numpy(SCALE), torch.from_numpy(SHIFT)
    made = rs.group_norm(x, 3, scale, shift)
    assert made.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(made, torch.nn.functional.group_norm(x, 3, scale, shift))
    rows = torch.from_numpy(IMAGES[0, :, :, 0].T.copy())
    wanted = torch.nn.functional.layer_norm(rows, (12,), scale, shift)
    torch.testing.assert_close(rs.layer_norm(rows, scale, shift), wanted)


@pytest.mark.peer
def test_arrays_of_jax_give_arrays_of_jax():
    jax = pytest.importorskip("jax")
    x = jax.numpy.asarray(IMAGES)
    made = rs.layer_norm(x, jax.numpy.asarray(SCALE), axis=1)
    assert isinstance(made, jax.Array)
    np.testing.assert_allclose(made, normal(IMAGES, 1) * along(SCALE), rtol=1e-5, atol=1e-5)
