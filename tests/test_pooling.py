"""Pooling: maxima and averages beside the plainest loops, gradients, workspaces; what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import restride as rs
from support.computed import any_like, computed, elements, padding_is_zero, random
from support.errors import refused
from support.pooled import gradient_of, pooled, pooled_dims

CPU = rs.Engine("cpu")
ALGORITHMS = ("max", "avg_include_padding", "avg_exclude_padding")
# dims of the source, then strides, kernel, dilation, padding in front and behind.
CASES = {
    "1d": ((2, 5, 13), ((2,), (3,), (0,), (1,), (1,))),
    "2d": ((2, 17, 7, 6), ((2, 1), (3, 2), (0, 0), (1, 0), (1, 1))),
    "dilated": ((1, 3, 9, 8), ((1, 2), (2, 3), (2, 1), (0, 1), (1, 0))),
    "3d": ((1, 4, 5, 4, 3), ((1, 2, 1), (2, 2, 3), (0, 0, 0), (0, 0, 1), (0, 0, 1))),
    "global": ((2, 3, 4, 5), ((1, 1), (4, 5), (0, 0), (0, 0), (0, 0))),
    "strided": ((1, 3, 9, 37), ((2, 2), (3, 3), (0, 0), (1, 1), (1, 0))),
    "even": ((1, 3, 4, 38), ((2, 2), (3, 3), (0, 0), (1, 1), (0, 0))),
    "apart": ((1, 3, 9, 11), ((3, 4), (2, 2), (0, 0), (0, 1), (0, 1))),
    "far apart": ((1, 3, 17, 14), ((5, 6), (3, 7), (0, 0), (1, 0), (1, 0))),
    "in step": ((1, 3, 13, 12), ((4, 2), (3, 2), (1, 3), (2, 1), (2, 1))),
    "short rows": ((2, 3, 8, 6), ((2, 2), (3, 3), (0, 0), (1, 1), (0, 0))),
    "short odd rows": ((1, 2, 5, 7, 7), ((2, 2, 2), (3, 3, 3), (0, 0, 0), (1, 1, 1), (1, 1, 1))),
    "neighbours": ((1, 3, 5, 7), ((1, 1), (3, 3), (0, 0), (1, 1), (1, 1))),
    "large": ((1, 1, 66, 64), ((1, 2), (2, 3), (0, 0), (1, 1), (0, 1))),
    "cropped": ((1, 3, 10, 10), ((2, 2), (3, 3), (0, 0), (0, 0), (-1, -1))),
}
FORMATS = ("abx", "axb", "aBx16b")


def _forward(engine, alg, dims, windows, kind="forward_training", format="abx", data_type="f32"):
    src = rs.MemoryDesc(dims, data_type, format)
    dst = rs.MemoryDesc(pooled_dims(dims, windows), data_type, "any")
    return rs.PoolingForward.PrimitiveDesc(engine, kind, f"pooling_{alg}", src, dst, *windows)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("alg", ALGORITHMS)
@pytest.mark.parametrize("case", CASES)
def test_pooling_and_its_gradient_are_those_of_the_loops(engine, case, alg, format):
    dims, windows = CASES[case]
    x = np.rint(random(dims))
    pd = _forward(engine, alg, dims, windows, format=format)
    written = (rs.ARG_DST, rs.ARG_WORKSPACE) if alg == "max" else (rs.ARG_DST,)
    made = computed(rs.PoolingForward, pd, engine, {rs.ARG_SRC: x}, *written)
    wanted, places = pooled(alg, x, windows)
    np.testing.assert_allclose(elements(made[rs.ARG_DST]), wanted, rtol=1e-6, atol=1e-6)
    assert padding_is_zero(made[rs.ARG_DST])
    gradient = random(wanted.shape, 1)
    values = {rs.ARG_DIFF_DST: gradient}
    if alg == "max":
        np.testing.assert_array_equal(elements(made[rs.ARG_WORKSPACE]), places)
        values[rs.ARG_WORKSPACE] = places
    open_src, open_dst = any_like(pd.src_desc()), any_like(pd.dst_desc())
    back = rs.PoolingBackward.PrimitiveDesc(engine, alg, open_src, open_dst, *windows, hint_pd=pd)
    assert (back.diff_src_desc(), back.diff_dst_desc()) == (pd.src_desc(), pd.dst_desc())
    out = computed(rs.PoolingBackward, back, engine, values, rs.ARG_DIFF_SRC)[rs.ARG_DIFF_SRC]
    wanted = gradient_of(alg, gradient, places, dims, windows)
    np.testing.assert_allclose(elements(out), wanted, rtol=1e-5, atol=1e-5)
    assert padding_is_zero(out)


@pytest.mark.parametrize(
    ("case", "tag"),
    [
        ("1d", "aBc32b"),
        ("1d", "ABc16b16a"),
        ("1d", "aBC8b4c"),
        ("strided", "aBcd32b"),
        ("strided", "ABcd16b16a"),
        ("strided", "aBCd8b4c"),
        ("apart", "aBcd32b"),
        ("in step", "ABcd16b16a"),
    ],
)
def test_gradients_write_zeros_to_the_padding_and_nothing_beside_it(engine, case, tag):
    """Blocks of which whole vectors are padding; positions that the last phase of a stride has not."""
    (n, _, *sizes), windows = CASES[case]
    dims = (n, 5, *sizes)
    pd = _forward(engine, "avg_include_padding", dims, windows, format=tag)
    back = rs.PoolingBackward.PrimitiveDesc(
        engine, "avg_include_padding", any_like(pd.src_desc()), any_like(pd.dst_desc()), *windows, hint_pd=pd
    )
    gradient = random(pooled_dims(dims, windows))
    made = computed(rs.PoolingBackward, back, engine, {rs.ARG_DIFF_DST: gradient}, rs.ARG_DIFF_SRC)
    out = made[rs.ARG_DIFF_SRC]
    wanted = gradient_of("avg_include_padding", gradient, None, dims, windows)
    np.testing.assert_allclose(elements(out), wanted, rtol=1e-5, atol=1e-5)
    assert padding_is_zero(out)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("data_type", ["f32", "bf16", "f64", "s32"])
@pytest.mark.parametrize("case", ["short rows", "short odd rows", "neighbours"])
def test_gradients_of_short_rows_have_every_type_and_gaps(engine, case, data_type):
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


@pytest.mark.sweep(1)
@pytest.mark.parametrize("data_type", ["f32", "bf16", "s8"])
@pytest.mark.parametrize("format", ["abC16c", "aBC8b4c", "abc"])
def test_zeros_behind_a_phase_are_not_written_over_another(engine, format, data_type):
    """A phase of a stride that ends with the dim: behind it is padding, of which another phase has a part."""
    dims, windows = (3, 5, 10), ((2,), (4,), (0,), (1,), (1,))
    pd = _forward(engine, "avg_include_padding", dims, windows, format=format, data_type=data_type)
    back = rs.PoolingBackward.PrimitiveDesc(
        engine, "avg_include_padding", any_like(pd.src_desc()), any_like(pd.dst_desc()), *windows, hint_pd=pd
    )
    gradient = np.rint(random(pooled_dims(dims, windows), 1))
    made = computed(rs.PoolingBackward, back, engine, {rs.ARG_DIFF_DST: gradient}, rs.ARG_DIFF_SRC)
    out = made[rs.ARG_DIFF_SRC]
    wanted = gradient_of("avg_include_padding", gradient, None, dims, windows)
    wanted = wanted if data_type != "s8" else np.rint(wanted)
    np.testing.assert_array_equal(elements(out).astype(np.float64), wanted)
    assert padding_is_zero(out)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("data_type", ["bf16", "f16", "s8", "u8", "s32", "f64"])
@pytest.mark.parametrize("alg", ["max", "avg_exclude_padding"])
def test_every_type_is_pooled_and_rounded_once(engine, alg, data_type):
    dims, windows = CASES["2d"]
    x = random(dims, 3, data_type)
    pd = _forward(engine, alg, dims, windows, "forward_inference", "axb", data_type)
    assert pd.workspace_desc().is_zero()
    got = elements(computed(rs.PoolingForward, pd, engine, {rs.ARG_SRC: x}, rs.ARG_DST)[rs.ARG_DST])
    wanted = pooled(alg, x.astype(np.float64), windows)[0]
    if rs.DataType.parse(data_type).is_integral:
        near = np.abs(got.astype(np.float64) - wanted) <= 0.5 + 1e-6
        assert near.all()
    else:
        np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=2.0**-7, atol=1e-6)


def test_large_integers_are_not_rounded(engine):
    x = np.array([[[2**31 - 1, 2**24 + 1, 3, 2**24 + 3]]], np.int32)
    pd = _forward(engine, "max", x.shape, ((2,), (2,), (0,), (0,), (0,)), "forward_inference", "abc", "s32")
    made = computed(rs.PoolingForward, pd, engine, {rs.ARG_SRC: x}, rs.ARG_DST)
    assert elements(made[rs.ARG_DST]).tolist() == [[[2**31 - 1, 2**24 + 3]]]


@pytest.mark.parametrize(("data_type", "least"), [("f32", np.finfo(np.float32).min), ("s8", -128), ("u8", 0)])
def test_a_window_in_the_padding_has_the_least_value(engine, data_type, least):
    windows = ((1,), (2,), (0,), (2,), (0,))
    pd = _forward(engine, "max", (1, 1, 3), windows, data_type=data_type, format="abc")
    made = computed(
        rs.PoolingForward, pd, engine, {rs.ARG_SRC: np.array([[[5, 7, 6]]])}, rs.ARG_DST, rs.ARG_WORKSPACE
    )
    assert elements(made[rs.ARG_DST]).tolist() == [[[least, 5, 7, 7]]]
    assert elements(made[rs.ARG_WORKSPACE]).tolist() == [[[255, 1, 1, 0]]]


def test_the_first_of_equal_values_and_the_first_nan_are_chosen(engine):
    nan = np.nan
    x = np.array([[[1, 1, 1, nan, 2, nan, nan, 5]]], np.float32)
    pd = _forward(engine, "max", x.shape, ((4,), (4,), (0,), (0,), (0,)), format="abc")
    made = computed(rs.PoolingForward, pd, engine, {rs.ARG_SRC: x}, rs.ARG_DST, rs.ARG_WORKSPACE)
    assert np.isnan(elements(made[rs.ARG_DST])).all()
    assert elements(made[rs.ARG_WORKSPACE]).tolist() == [[[3, 1]]]


def test_windows_of_more_positions_than_a_byte_holds(engine):
    dims, windows = (1, 2, 300), ((1,), (299,), (0,), (0,), (0,))
    x = np.arange(600, dtype=np.float32).reshape(dims)
    pd = _forward(engine, "max", dims, windows)
    assert pd.workspace_desc().data_type is rs.s32
    made = computed(rs.PoolingForward, pd, engine, {rs.ARG_SRC: x}, rs.ARG_DST, rs.ARG_WORKSPACE)
    assert (
        elements(made[rs.ARG_WORKSPACE]).tolist() == [[[298, 298]] * 2]
        or (elements(made[rs.ARG_WORKSPACE]) == 298).all()
    )


def test_post_ops_follow_the_result(engine):
    dims, windows = CASES["2d"]
    x, more = random(dims), random((1, 17, 1, 1), 2)
    post_ops, attr = rs.PostOps(), rs.PrimitiveAttr()
    post_ops.append_binary("add", rs.MemoryDesc((1, 17, 1, 1), "f32", "abcd"))
    post_ops.append_eltwise("linear", 0.5, -1.0)
    attr.set_post_ops(post_ops)
    src, dst = rs.MemoryDesc(dims, "f32", "axb"), rs.MemoryDesc(pooled_dims(dims, windows), "f32", "any")
    operand = rs.arg_attr_multiple_post_op(0) | rs.ARG_SRC_1
    for alg in ("max", "avg_exclude_padding"):
        pd = rs.PoolingForward.PrimitiveDesc(engine, "forward_inference", alg, src, dst, *windows, attr)
        made = computed(rs.PoolingForward, pd, engine, {rs.ARG_SRC: x, operand: more}, rs.ARG_DST)
        wanted = (pooled(alg, x, windows)[0] + more) * 0.5 - 1
        np.testing.assert_allclose(elements(made[rs.ARG_DST]), wanted, rtol=1e-5, atol=1e-6)


def test_an_empty_batch_is_pooled(engine):
    windows = CASES["2d"][1]
    pd = _forward(engine, "avg_include_padding", (0, 17, 7, 6), windows)
    made = computed(rs.PoolingForward, pd, engine, {rs.ARG_SRC: np.zeros((0, 17, 7, 6))}, rs.ARG_DST)
    assert elements(made[rs.ARG_DST]).shape == pooled_dims((0, 17, 7, 6), windows)


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


# --- descriptors --------------------------------------------------------------------------------------------


def test_a_descriptor_answers_and_is_copied():
    dims, windows = CASES["2d"]
    pd = _forward(CPU, "max", dims, windows, format="aBx16b")
    assert (pd.get_kind(), pd.get_algorithm(), pd.workspace_desc().data_type) == (
        "pooling",
        "pooling_max",
        rs.u8,
    )
    found = pd.get_strides(), pd.get_kernel(), pd.get_dilations(), pd.get_padding_l(), pd.get_padding_r()
    assert found == windows
    assert pickle.loads(pickle.dumps(pd)).workspace_desc() == pd.workspace_desc()
    back = rs.PoolingBackward.PrimitiveDesc(
        CPU, "max", any_like(pd.src_desc()), any_like(pd.dst_desc()), *windows, pd, rs.PrimitiveAttr()
    )
    assert back.workspace_desc() == pd.workspace_desc()
    assert pickle.loads(pickle.dumps(back)).diff_src_desc() == pd.src_desc()


_SRC, _DST = rs.MemoryDesc((2, 3, 8, 8), "f32", "nchw"), rs.MemoryDesc((2, 3, 4, 4), "f32", "nchw")
_FIT = ((2, 2), (2, 2), (0, 0), (0, 0), (0, 0))


@pytest.mark.parametrize(
    ("dst", "windows", "texts"),
    [
        (rs.MemoryDesc((2, 3, 5, 4), "f32"), _FIT, ("another size", "there are 4 windows, and 5")),
        (rs.MemoryDesc((2, 4, 4, 4), "f32"), _FIT, ("do not fit",)),
        (rs.MemoryDesc((2, 3, 16), "f32"), _FIT, ("do not fit",)),
        (_DST, ((0, 2), *_FIT[1:]), ("strides is (0, 2)", "of 1 or more")),
        (_DST, ((2,), *_FIT[1:]), ("strides is (2,)", "it is 2 whole numbers")),
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
    with refused("the workspace of the hint will not do", "leaves none"):
        back(forward("forward_inference"))
    with refused("the workspace of the hint will not do", "another format"):
        back(forward(), diff_dst=rs.MemoryDesc(_DST.dims, "f32", "nhwc"))
    with refused("hint_pd is no hint"):
        back(rs.Sum.PrimitiveDesc(CPU, [1.0], [_SRC]))


def test_a_workspace_that_is_missing_is_refused():
    pd = rs.PoolingForward.PrimitiveDesc(CPU, "forward_training", "max", _SRC, _DST, *_FIT)
    with refused("ARG_WORKSPACE"):
        rs.PoolingForward(pd).execute(
            rs.Stream(CPU), {rs.ARG_SRC: rs.Memory(_SRC, CPU), rs.ARG_DST: rs.Memory(_DST, CPU)}
        )
