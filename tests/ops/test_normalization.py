"""Batch, layer and group normalization, forward and backward, with every flag, in every format; refusals."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import restride as rs
from support.computed import any_like, computed, elements, memory_of, padding_is_zero, random
from support.engines import run
from support.errors import refused

DIMS = (3, 12, 5, 4)
KINDS = ("batch", "layer", "group")
GROUPS = 3
EPS = 1e-3
FORWARD = {
    "batch": rs.BatchNormalizationForward,
    "layer": rs.LayerNormalizationForward,
    "group": rs.GroupNormalizationForward,
}
BACKWARD = {
    "batch": rs.BatchNormalizationBackward,
    "layer": rs.LayerNormalizationBackward,
    "group": rs.GroupNormalizationBackward,
}


def _md(dims=DIMS, format="abcd", data_type="f32"):
    return rs.MemoryDesc(dims, data_type, format)


def forward_pd(kind, engine, src, dst, flags, prop="forward_training", attr=None, eps=EPS, groups=GROUPS):
    own = {"batch": (), "layer": (None,), "group": (groups,)}[kind]
    return FORWARD[kind].PrimitiveDesc(engine, prop, src, dst, *own, eps, flags, attr)


def backward_pd(kind, engine, diff_src, diff_dst, src, flags, prop="backward", hint=None):
    own = {"batch": (), "layer": (None,), "group": (GROUPS,)}[kind]
    return BACKWARD[kind].PrimitiveDesc(engine, prop, diff_src, diff_dst, src, *own, EPS, flags, hint_pd=hint)


# --- the formulas, in f64 -----------------------------------------------------------------------------------


def grouped(x, kind):
    """Data as (outer, inner), and how to go back."""
    if kind == "batch":
        moved = np.moveaxis(x, 1, 0)
        return moved.reshape(x.shape[1], -1), lambda y: np.moveaxis(y.reshape(moved.shape), 0, 1)
    rows = x.shape[0] * GROUPS if kind == "group" else x.size // x.shape[-1]
    return x.reshape(rows, -1), lambda y: y.reshape(x.shape)


def normal(x, kind, mean=None, variance=None, rms=False):
    """Normalized data, mean and variance."""
    rows, back = grouped(x.astype(np.float64), kind)
    m = (np.zeros(len(rows)) if rms else rows.mean(1)) if mean is None else mean.astype(np.float64).ravel()
    v = ((rows - m[:, None]) ** 2).mean(1) if variance is None else variance.astype(np.float64).ravel()
    return back((rows - m[:, None]) / np.sqrt(v + EPS)[:, None]), m, v


def weights(kind, seed):
    return random((DIMS[-1] if kind == "layer" else DIMS[1],), seed)


# --- forward ------------------------------------------------------------------------------------------------


def test_variance_far_from_zero_and_of_many_pieces(engine):
    x = (random((4, 3, 50, 60)) + 1e4).astype(np.float32)
    pd = forward_pd("batch", engine, _md(x.shape), _md(x.shape), "none")
    made = computed(FORWARD["batch"], pd, engine, {rs.ARG_SRC: x}, rs.ARG_MEAN, rs.ARG_VARIANCE, rs.ARG_DST)
    np.testing.assert_allclose(
        elements(made[rs.ARG_VARIANCE]), x.astype(np.float64).var((0, 2, 3)), rtol=2e-3
    )
    np.testing.assert_allclose(elements(made[rs.ARG_MEAN]), x.mean((0, 2, 3), dtype=np.float64), rtol=1e-6)


@pytest.mark.parametrize("flags", ["none", "rms_norm"])
@pytest.mark.parametrize("extent", [4096, 20_000, 4099])
def test_statistics_of_long_columns_lose_little(engine, extent, flags):
    """Rows whose neighbors are of other rows: elements are added one after the other, piece by piece."""
    x = random((8, extent)) + 100
    pd = forward_pd("layer", engine, _md(x.shape, "ba"), _md(x.shape, "ba"), flags)
    is_rms = flags == "rms_norm"
    written = (rs.ARG_DST, rs.ARG_VARIANCE, *(() if is_rms else (rs.ARG_MEAN,)))
    made = computed(FORWARD["layer"], pd, engine, {rs.ARG_SRC: x}, *written)
    y, mean, variance = normal(x, "layer", rms=is_rms)
    # No divisor of a prime makes pieces.
    near = 1e-4 if extent == 4099 else 3e-6
    np.testing.assert_allclose(elements(made[rs.ARG_VARIANCE]).ravel(), variance, rtol=near)
    np.testing.assert_allclose(elements(made[rs.ARG_DST]), y, atol=100 * near)
    if not is_rms:
        np.testing.assert_allclose(elements(made[rs.ARG_MEAN]).ravel(), mean, rtol=near / 3)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_computed_of_no_elements(engine, kind):
    md = _md((0, 12, 5, 4))
    pd = forward_pd(kind, engine, md, md, "none", "forward_inference")
    FORWARD[kind](pd).execute(rs.Stream(engine), rs.Memory(md, engine), rs.Memory(md, engine))


@pytest.mark.parametrize("flags", ["none", "rms_norm"])
@pytest.mark.parametrize(
    ("kind", "dims"), [("batch", (0, 12, 5, 4)), ("layer", (2, 3, 0)), ("group", (2, 12, 0, 4))]
)
def test_statistics_of_no_elements_are_zero(engine, kind, dims, flags):
    flags, md = "none" if kind == "batch" else flags, rs.MemoryDesc(dims, "f32")
    pd = forward_pd(kind, engine, md, md, flags)
    written = [rs.ARG_VARIANCE] if flags == "rms_norm" else [rs.ARG_MEAN, rs.ARG_VARIANCE]
    made = computed(FORWARD[kind], pd, engine, {rs.ARG_SRC: np.zeros(dims)}, rs.ARG_DST, *written)
    for arg in written:
        assert elements(made[arg]).size
        assert not elements(made[arg]).any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dims", [(0, 12, 5, 4), (2, 12, 0, 4)])
def test_gradients_of_scales_of_no_elements_are_zero(engine, kind, dims):
    flags, md = "use_scale|use_shift", _md(dims)
    hint = forward_pd(kind, engine, md, md, flags)
    pd = backward_pd(kind, engine, md, md, md, flags, hint=hint)
    names = (rs.ARG_SRC, rs.ARG_DIFF_DST, rs.ARG_MEAN, rs.ARG_VARIANCE, rs.ARG_SCALE, rs.ARG_DIFF_SRC)
    descs = (md, md, pd.mean_desc(), pd.variance_desc(), pd.weights_desc(), md)
    memories = {arg: rs.Memory(desc, engine) for arg, desc in zip(names, descs, strict=True)}
    written = (rs.ARG_DIFF_SCALE, rs.ARG_DIFF_SHIFT)
    for arg in written:
        count = pd.weights_desc().dims[0]
        memories[arg] = memory_of(pd.diff_weights_desc(), np.full(count, 7.0, np.float32), engine)
    run(BACKWARD[kind](pd), engine, memories)
    for arg in written:
        assert not elements(memories[arg]).any()


@pytest.mark.parametrize("kind", KINDS)
def test_a_sum_may_read_the_old_bytes_as_another_type(engine, kind):
    attr, ops = rs.PrimitiveAttr(), rs.PostOps()
    ops.append_sum(2.0, 0, "s8")
    attr.set_post_ops(ops)
    x, old = random(DIMS), np.full(DIMS, 200, np.uint8)
    pd = forward_pd(kind, engine, _md(), _md(data_type="u8"), "none", "forward_inference", attr)
    src, dst = memory_of(_md(), x, engine), memory_of(_md(data_type="u8"), old, engine)
    run(FORWARD[kind](pd), engine, {rs.ARG_SRC: src, rs.ARG_DST: dst})
    # 200 as an s8 is -56.
    assert (elements(dst) == 0).all()


@pytest.mark.sweep(1)
@pytest.mark.parametrize("format", ["acdb", "aBcd16b", "aBcd8b"])
@pytest.mark.parametrize("flags", ["use_scale|use_shift", "use_global_stats|use_scale", "rms_norm|use_scale"])
def test_groups_of_many_images_are_those_of_few(engine, format, flags):
    """Of many images one after the other is worked on, of few a step at a time: the bits are the same."""
    dims, shape = (17, 12, 3, 2), (17, GROUPS)
    x, dy, scale, shift = random(dims) + 1, random(dims, 1), random((12,), 2), random((12,), 3)
    mean, variance = random(shape, 4), np.abs(random(shape, 5))
    values = {rs.ARG_SRC: x, rs.ARG_SCALE: scale}
    values |= {rs.ARG_SHIFT: shift} if "use_shift" in flags else {}
    given = {rs.ARG_VARIANCE: variance} | ({} if "rms" in flags else {rs.ARG_MEAN: mean})
    results = []
    for images in (slice(0, 17), slice(0, 5)):
        part = (len(range(17)[images]), *dims[1:])
        md = _md(part, format)
        pd = forward_pd("group", engine, md, md, flags, "forward_inference")
        read = values | {rs.ARG_SRC: x[images]}
        read |= {arg: each[images] for arg, each in given.items()} if "global" in flags else {}
        made = computed(rs.GroupNormalizationForward, pd, engine, read, rs.ARG_DST)[rs.ARG_DST]
        back = backward_pd("group", engine, md, md, md, flags)
        read = {rs.ARG_SRC: x[images], rs.ARG_SCALE: scale, rs.ARG_DIFF_DST: dy[images]}
        read |= {arg: each[images] for arg, each in given.items()}
        written = [rs.ARG_DIFF_SRC, rs.ARG_DIFF_SCALE, *([rs.ARG_DIFF_SHIFT] if "use_shift" in flags else [])]
        gradient = computed(rs.GroupNormalizationBackward, back, engine, read, *written)[rs.ARG_DIFF_SRC]
        assert padding_is_zero(made)
        assert padding_is_zero(gradient)
        results.append((elements(made)[:5], elements(gradient)[:5]))
    for many, few in zip(*results, strict=True):
        np.testing.assert_array_equal(many, few)


# --- backward -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["abcd", "acdb", "aBcd16b"])
def test_gradients_of_scales_of_batches_lose_nothing_where_terms_cancel(engine, format):
    """Of whole numbers the sum is exact: only the deviation, and its product with the sum, are rounded."""
    dims = (2, 33, 28, 28)
    rng = np.random.default_rng(3)
    x, dy = (rng.integers(-8, 9, dims).astype(np.float32) for _ in range(2))
    mean, variance = rng.integers(-2, 3, 33), rng.integers(1, 8, 33)
    md = _md(dims, format)
    pd = backward_pd("batch", engine, md, md, md, "use_global_stats|use_scale")
    values = {rs.ARG_SRC: x, rs.ARG_DIFF_DST: dy, rs.ARG_SCALE: np.ones(33, np.float32)}
    values |= {rs.ARG_MEAN: mean.astype(np.float32), rs.ARG_VARIANCE: variance.astype(np.float32)}
    made = computed(BACKWARD["batch"], pd, engine, values, rs.ARG_DIFF_SRC, rs.ARG_DIFF_SCALE)
    total = (dy.astype(np.float64) * (x - mean.reshape(-1, 1, 1))).sum((0, 2, 3))
    wanted = total / np.sqrt(variance + float(np.float32(EPS)))
    np.testing.assert_allclose(elements(made[rs.ARG_DIFF_SCALE]), wanted, rtol=4e-7)


def test_statistics_of_layers_lie_as_their_descriptor_says():
    engine, make = rs.Engine("cpu"), rs.LayerNormalizationForward.PrimitiveDesc
    for stat, wanted in ((_md(DIMS[:-1], "any"), _md(DIMS[:-1], "abc")), (_md(DIMS[:-1], "acb"),) * 2):
        pd = make(engine, "forward_training", _md(), _md(), stat, EPS, "none")
        assert pd.mean_desc() == wanted
    # As C++ has it, the descriptor may be left out.
    assert make(engine, "forward_training", _md(), _md(), EPS, "none").mean_desc() == _md(DIMS[:-1], "abc")


@pytest.mark.parametrize("stat", [None, _md(DIMS[:-1], "any")])
def test_statistics_of_gradients_lie_as_those_of_the_hint(stat):
    engine, wanted = rs.Engine("cpu"), _md(DIMS[:-1], "cab")
    make = rs.LayerNormalizationForward.PrimitiveDesc, rs.LayerNormalizationBackward.PrimitiveDesc
    hint = make[0](engine, "forward_training", _md(), _md(), wanted, EPS, "none")
    back = make[1](engine, "backward", _md(), _md(), _md(), stat, EPS, "none", hint_pd=hint)
    assert back.mean_desc() == back.variance_desc() == wanted
    assert pickle.loads(pickle.dumps(back)).mean_desc() == wanted
    plain = _md(DIMS[:-1], "abc")
    own = make[1](engine, "backward", _md(), _md(), _md(), plain, EPS, "none", hint_pd=hint)
    assert own.mean_desc() == plain


# --- descriptors --------------------------------------------------------------------------------------------


def test_what_makes_no_sense_is_refused():
    engine = rs.Engine("cpu")
    with refused("epsilon is -1"):
        forward_pd("batch", engine, _md(), _md(), "none", eps=-1)
    with refused("epsilon is nan"):
        forward_pd("batch", engine, _md(), _md(), "none", eps=float("nan"))
    with refused("flags are 'use_all'"):
        forward_pd("layer", engine, _md(), _md(), "use_all")
    with refused("flags are 64"):
        forward_pd("layer", engine, _md(), _md(), 64)
    with refused("groups is 5"):
        forward_pd("group", engine, _md(), _md(), "none", groups=5)
    with refused("a tensor has too few dims"):
        forward_pd("batch", engine, _md((4,), "a"), _md((4,), "a"), "none")
    with refused("cannot be normalized", kind=rs.Unimplemented):
        forward_pd("batch", engine, _md(data_type="f64"), _md(data_type="f64"), "none")
    with refused("a fused relu", kind=rs.Unimplemented):
        forward_pd("layer", engine, _md(), _md(), "fuse_norm_relu")
    with refused("rms_norm", kind=rs.Unimplemented):
        forward_pd("batch", engine, _md(), _md(), "rms_norm")
    with refused("two fused functions"):
        forward_pd("batch", engine, _md(), _md(), "fuse_norm_relu|fuse_norm_add_relu")
    with refused("stat does not fit src"):
        rs.LayerNormalizationForward.PrimitiveDesc(
            engine, "forward_training", _md(), _md(), _md((3, 12), "ab"), EPS, "none"
        )
    with refused("prop_kind is forward"):
        backward_pd("batch", engine, _md(), _md(), _md(), "none", "forward_training")
    hint = forward_pd("batch", engine, _md(), _md(), "use_scale")
    with refused("the hint is for another problem"):
        backward_pd("batch", engine, _md(), _md(), _md(), "none", hint=hint)
    hint = forward_pd("batch", engine, _md(), _md(), "none", eps=0.5)
    with refused("the hint is for another problem", "its epsilon is 0.5"):
        backward_pd("batch", engine, _md(), _md(), _md(), "none", hint=hint)
    flag, blocked = "fuse_norm_relu", _md(format="nChw8c")
    hint = forward_pd("batch", engine, blocked, _md(), flag)
    with refused("the workspace of the hint is not valid", "another format"):
        backward_pd("batch", engine, any_like(blocked), any_like(blocked), blocked, flag, hint=hint)
    assert backward_pd("batch", engine, any_like(blocked), _md(), blocked, flag, hint=hint)
