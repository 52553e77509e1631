"""Pooling: maxima and averages beside the plainest loops, gradients, workspaces; what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.computed import any_like, computed, elements, random
from support.errors import refused
from support.pooled import gradient_of, pooled, pooled_dims
from support.sycl import skip_where_the_compiler_crashes

CPU = rs.Engine("cpu")
ALGORITHMS = ("max", "avg_include_padding", "avg_exclude_padding")
# dims of the source, then strides, kernel, dilation, padding before and after.
CASES = {
    "short rows": ((2, 3, 8, 6), ((2, 2), (3, 3), (0, 0), (1, 1), (0, 0))),
    "short odd rows": ((1, 2, 5, 7, 7), ((2, 2, 2), (3, 3, 3), (0, 0, 0), (1, 1, 1), (1, 1, 1))),
    "neighbors": ((1, 3, 5, 7), ((1, 1), (3, 3), (0, 0), (1, 1), (1, 1))),
}


def _forward(engine, alg, dims, windows, kind="forward_training", format="abx", data_type="f32"):
    src = rs.MemoryDesc(dims, data_type, format)
    dst = rs.MemoryDesc(pooled_dims(dims, windows), data_type, "any")
    return rs.PoolingForward.PrimitiveDesc(engine, kind, f"pooling_{alg}", src, dst, *windows)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("data_type", ["f32", "bf16", "f64", "s32"])
@pytest.mark.parametrize("case", ["short rows", "short odd rows", "neighbors"])
def test_gradients_of_short_rows_have_every_type_and_gaps(engine, case, data_type):
    skip_where_the_compiler_crashes(engine)
    dims, windows = CASES[case]
    x = np.rint(random(dims))
    wanted, places = pooled("max", x, windows)
    gradient = np.rint(random(wanted.shape, 1))
    # Planes of windows lie behind each other with gaps, rows of the source too.
    src, dst = (
        rs.MemoryDesc(each, data_type, _gaps(each, rows)) for each, rows in ((dims, 3), (wanted.shape, 0))
    )
    hint = rs.PoolingForward.PrimitiveDesc(engine, "forward_training", "pooling_max", src, dst, *windows)
    back = rs.PoolingBackward.PrimitiveDesc(engine, "max", src, dst, *windows, hint_pd=hint)
    values = {rs.ARG_DIFF_DST: gradient, rs.ARG_WORKSPACE: places}
    out = computed(rs.PoolingBackward, back, engine, values, rs.ARG_DIFF_SRC)[rs.ARG_DIFF_SRC]
    right = gradient_of("max", gradient, places, dims, windows)
    np.testing.assert_array_equal(elements(out).astype(np.float64), right)


def _gaps(dims, rows):
    """Strides of row-major planes with a gap behind each, and `rows` elements behind each row."""
    strides = [1, dims[-1] + rows]
    for extent in reversed(dims[1:-1]):
        strides.append(strides[-1] * extent + (5 if len(strides) == 2 else 0))
    return tuple(reversed(strides))


def test_large_integers_are_not_rounded(engine):
    skip_where_the_compiler_crashes(engine)
    x = np.array([[[2**31 - 1, 2**24 + 1, 3, 2**24 + 3]]], np.int32)
    pd = _forward(engine, "max", x.shape, ((2,), (2,), (0,), (0,), (0,)), "forward_inference", "abc", "s32")
    made = computed(rs.PoolingForward, pd, engine, {rs.ARG_SRC: x}, rs.ARG_DST)
    assert elements(made[rs.ARG_DST]).tolist() == [[[2**31 - 1, 2**24 + 3]]]


@pytest.mark.parametrize(("data_type", "least"), [("f32", np.finfo(np.float32).min), ("s8", -128), ("u8", 0)])
def test_a_window_in_the_padding_has_the_least_value(engine, data_type, least):
    skip_where_the_compiler_crashes(engine)
    windows = ((1,), (2,), (0,), (2,), (0,))
    pd = _forward(engine, "max", (1, 1, 3), windows, data_type=data_type, format="abc")
    made = computed(
        rs.PoolingForward, pd, engine, {rs.ARG_SRC: np.array([[[5, 7, 6]]])}, rs.ARG_DST, rs.ARG_WORKSPACE
    )
    assert elements(made[rs.ARG_DST]).tolist() == [[[least, 5, 7, 7]]]
    assert elements(made[rs.ARG_WORKSPACE]).tolist() == [[[255, 1, 1, 0]]]


def test_the_first_of_equal_values_and_the_first_nan_are_chosen(engine):
    skip_where_the_compiler_crashes(engine)
    nan = np.nan
    x = np.array([[[1, 1, 1, nan, 2, nan, nan, 5]]], np.float32)
    pd = _forward(engine, "max", x.shape, ((4,), (4,), (0,), (0,), (0,)), format="abc")
    made = computed(rs.PoolingForward, pd, engine, {rs.ARG_SRC: x}, rs.ARG_DST, rs.ARG_WORKSPACE)
    assert np.isnan(elements(made[rs.ARG_DST])).all()
    assert elements(made[rs.ARG_WORKSPACE]).tolist() == [[[3, 1]]]


@pytest.mark.parametrize("alg", ALGORITHMS)
@pytest.mark.parametrize("dims", [(0, 17, 7, 6), (2, 3, 0, 6), (2, 3, 0, 0)])
def test_what_has_no_elements_has_a_gradient_without_elements(engine, dims, alg):
    windows = ((2, 1), (1, 2), (0, 0), (0, 1), (0, 1))
    kind = "forward_training" if alg == "max" else "forward_inference"
    pd = _forward(engine, alg, dims, windows, kind)
    open_src, open_dst = any_like(pd.src_desc()), any_like(pd.dst_desc())
    back = rs.PoolingBackward.PrimitiveDesc(engine, alg, open_src, open_dst, *windows, hint_pd=pd)
    values = {rs.ARG_DIFF_DST: random(pd.dst_desc().dims)}
    if alg == "max":
        values[rs.ARG_WORKSPACE] = np.zeros(pd.dst_desc().dims)
    made = computed(rs.PoolingBackward, back, engine, values, rs.ARG_DIFF_SRC)
    assert elements(made[rs.ARG_DIFF_SRC]).shape == dims


@pytest.mark.parametrize("alg", ALGORITHMS)
@pytest.mark.parametrize(
    "windows",
    [
        ((1, 1), (13, 3), (0, 0), (9, 1), (9, 1)),
        ((3, 2), (9, 7), (1, 0), (14, 3), (13, 5)),
        ((5, 4), (9, 7), (1, 2), (12, 15), (14, 14)),
    ],
)
def test_windows_longer_than_the_image(engine, alg, windows):
    skip_where_the_compiler_crashes(engine)
    dims = (1, 2, 5, 4)
    x = random(dims)
    wanted, places = pooled(alg, x, windows)
    kind = "forward_training" if alg == "max" else "forward_inference"
    pd = _forward(engine, alg, dims, windows, kind)
    outputs = (rs.ARG_DST, rs.ARG_WORKSPACE) if alg == "max" else (rs.ARG_DST,)
    made = computed(rs.PoolingForward, pd, engine, {rs.ARG_SRC: x}, *outputs)
    np.testing.assert_allclose(elements(made[rs.ARG_DST]), wanted, 1e-5, 1e-6)
    if alg == "max":
        np.testing.assert_array_equal(elements(made[rs.ARG_WORKSPACE]), places)
    gradient, own = random(wanted.shape, 1), places if alg == "max" else None
    open_src, open_dst = any_like(pd.src_desc()), any_like(pd.dst_desc())
    back = rs.PoolingBackward.PrimitiveDesc(engine, alg, open_src, open_dst, *windows, hint_pd=pd)
    values = {rs.ARG_DIFF_DST: gradient} | ({rs.ARG_WORKSPACE: places} if alg == "max" else {})
    diff = computed(rs.PoolingBackward, back, engine, values, rs.ARG_DIFF_SRC)[rs.ARG_DIFF_SRC]
    np.testing.assert_allclose(elements(diff), gradient_of(alg, gradient, own, dims, windows), 1e-4, 1e-5)


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_windows_that_are_padding_for_the_most_part(alg):
    far = 1 << 28
    windows = ((1, 1), (2 * far, 3), (0, 0), (far, 1), (far - 1, 1))
    x = random((1, 2, 4, 4))
    pd = _forward(CPU, alg, x.shape, windows, "forward_inference")
    made = computed(rs.PoolingForward, pd, CPU, {rs.ARG_SRC: x}, rs.ARG_DST)
    columns = ((1, 1), (4, 3), (0, 0), (0, 1), (0, 1))
    wanted = np.repeat(pooled(alg, x, columns)[0], 4, 2)
    if alg == "avg_include_padding":
        wanted *= 4 / (2 * far)
    np.testing.assert_allclose(elements(made[rs.ARG_DST]), wanted, 1e-5)
    with refused("nearly all of them are padding", kind=rs.Unimplemented):
        _forward(CPU, alg, x.shape, ((far, 1), *windows[1:3], (far, 1), (2 * far, 1)))


# --- descriptors --------------------------------------------------------------------------------------------


_SRC, _DST = rs.MemoryDesc((2, 3, 8, 8), "f32", "nchw"), rs.MemoryDesc((2, 3, 4, 4), "f32", "nchw")
_FIT = ((2, 2), (2, 2), (0, 0), (0, 0), (0, 0))


@pytest.mark.parametrize(
    ("dst", "windows", "texts"),
    [
        (rs.MemoryDesc((2, 3, 5, 4), "f32"), _FIT, ("another size", "there are 4 windows, but 5")),
        (rs.MemoryDesc((2, 4, 4, 4), "f32"), _FIT, ("do not fit",)),
        (rs.MemoryDesc((2, 3, 16), "f32"), _FIT, ("do not fit",)),
        (_DST, ((0, 2), *_FIT[1:]), ("strides is (0, 2)", "of 1 or more")),
        (_DST, ((2,), *_FIT[1:]), ("strides is (2,)", "it must be 2 whole numbers")),
        (_DST, (2, *_FIT[1:]), ("strides is 2",)),
        (_DST, (_FIT[0], (0, 2), *_FIT[2:]), ("kernel is (0, 2)",)),
        (_DST, (*_FIT[:2], (-1, 0), *_FIT[3:]), ("dilation is (-1, 0)",)),
        (_DST, (*_FIT[:3], (-1, 0), (0, 0)), ("padding_l is (-1, 0)",)),
        (_DST, (*_FIT[:4], (0, 2.5)), ("padding_r",)),
    ],
)
def test_windows_that_do_not_fit_are_refused(dst, windows, texts):
    with refused(*texts):
        rs.PoolingForward.PrimitiveDesc(CPU, "forward_training", "max", _SRC, dst, *windows)


def test_hints_that_do_not_fit_are_refused():
    def back(hint, diff_dst=None):
        dst = diff_dst or any_like(_DST)
        return rs.PoolingBackward.PrimitiveDesc(CPU, "max", any_like(_SRC), dst, *_FIT, hint_pd=hint)

    def forward(kind="forward_training", alg="max"):
        return rs.PoolingForward.PrimitiveDesc(CPU, kind, alg, _SRC, _DST, *_FIT)

    assert back(None).workspace_desc() == forward().workspace_desc()
    with refused("its algorithm is avg_include_padding"):
        back(forward(alg="avg_include_padding"))
    with refused("the workspace of the hint is not valid", "has no workspace"):
        back(forward("forward_inference"))
    with refused("the workspace of the hint is not valid", "another format"):
        back(forward(), diff_dst=rs.MemoryDesc(_DST.dims, "f32", "nhwc"))
