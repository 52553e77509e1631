"""A convolution with a depthwise post-op: beside two convolutions by their definition."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.computed import computed, elements, padding_is_zero
from support.convolved import Case, forward
from support.errors import refused

CPU = rs.Engine("cpu")
DW = rs.ARG_ATTR_POST_OP_DW


def _numbers(dims, kind, seed):
    low, high = (0, 6) if kind == "u8" else (-3, 4)
    return np.random.default_rng(seed).integers(low, high, dims).astype(np.float64)


def _described(attr, *, kind=rs.ConvolutionForward, algorithm="convolution_direct", spatial=2):
    dims = (1, 8, *[5] * spatial), (8, 8, *[1] * spatial), (1, 8, *[5] * spatial)
    mds = [rs.MemoryDesc(each, "f32", "any") for each in dims]
    window = [1] * spatial, [0] * spatial, [0] * spatial
    return kind.PrimitiveDesc(CPU, "forward_inference", algorithm, *mds, *window, attr=attr)


def _chain(*types):
    attr, ops = rs.PrimitiveAttr(), rs.PostOps()
    ops.append_dw(*types, 3, 1, 1)
    attr.set_post_ops(ops)
    return attr


def test_what_it_is_no_part_of_is_refused():
    attr = _chain("f32", "undef", "f32")
    with refused("depthwise post-op in 1 spatial dims", kind=rs.Unimplemented):
        _described(attr, spatial=1)
    with refused("a depthwise convolution (post-op 0)", kind=rs.Unimplemented):
        _described(attr, kind=rs.DeconvolutionForward, algorithm="deconvolution_direct")
    md = rs.MemoryDesc((2, 3), "f32")
    with refused("a depthwise convolution (post-op 0)", kind=rs.Unimplemented):
        rs.Reorder.PrimitiveDesc(CPU, md, CPU, md, attr)
    with refused("s8 into f32", kind=rs.Unimplemented):
        _described(_chain("s8", "undef", "f32"))
    attr = _chain("f32", "undef", "f32")
    attr.set_scales(DW | rs.ARG_WEIGHTS, 3, np.ones(7))
    with refused("wrong number of scales"):
        _described(attr)
    ops = rs.PostOps()
    ops.append_sum(1.0)
    ops.append_dw("f32", "undef", "f32", 3, 1, 1)
    attr = rs.PrimitiveAttr()
    attr.set_post_ops(ops)
    with refused("a sum before a depthwise post-op", kind=rs.Unimplemented):
        _described(attr)


def test_a_chain_says_what_it_holds():
    ops = rs.PostOps()
    ops.append_dw("s8", "f32", "u8", 3, 2, 1)
    assert ops.kind(0) == "convolution"
    kinds = rs.DataType.s8, rs.DataType.f32, rs.DataType.u8
    assert ops.get_params_dw(0) == (*kinds, 3, 2, 1)
    with refused("already has a depthwise convolution"):
        ops.append_dw("s8", "f32", "u8", 3, 2, 1)
    for sizes in ((0, 1, 0), (3, 0, 1), (3, 1, 3), (3, 1, -1)):
        with refused("every window needs an element"):
            rs.PostOps().append_dw("f32", "f32", "f32", *sizes)
    with refused("only the bias may be left out"):
        rs.PostOps().append_dw("undef", "f32", "f32", 3, 1, 1)


def test_what_is_between_is_dense_whatever_the_result_would_be_a_part_of():
    case = Case(1, 1, 8, 16, (6, 5), (1, 1), (1, 1), (0, 0), (0, 0))
    attr = _chain("f32", "undef", "f32")
    part = rs.MemoryDesc((1, 32, 6, 5), "f32", "nchw").submemory_desc(case.dims[2], (0, 16, 0, 0))
    mds = [*case.descs(("any", "any", "any"))[:2], part]
    pd = rs.ConvolutionForward.PrimitiveDesc(
        CPU, "forward_inference", "convolution_direct", *mds, *case.window, attr=attr
    )
    assert pd.dst_desc().offset0 == 0
    x, w, v = _numbers(case.dims[0], "f32", 1), _numbers(case.dims[1], "f32", 2), np.ones((16, 1, 1, 3, 3))
    values = {rs.ARG_SRC: x, rs.ARG_WEIGHTS: w, DW | rs.ARG_WEIGHTS: v}
    made = computed(rs.ConvolutionForward, pd, CPU, values, rs.ARG_DST)
    second = Case(1, 16, 1, 1, (6, 5), (3, 3), (1, 1), (0, 0), (1, 1))
    np.testing.assert_array_equal(elements(made[rs.ARG_DST]), forward(second, forward(case, x, w), v))


@pytest.mark.parametrize("format", ["nChw32c", "nChw16c", "nhwc", "nchw"])
@pytest.mark.parametrize("scaled", [0, rs.ARG_WEIGHTS, DW | rs.ARG_WEIGHTS])
def test_wide_blocks_and_scales_of_channels(format, scaled):
    case = Case(2, 1, 8, 48, (9, 7), (1, 1), (1, 1), (0, 0), (0, 0))
    attr, scales = _chain("f32", "undef", "f32"), 1.0 + np.arange(48.0) % 3
    if scaled:
        attr.set_scales(scaled, 1 if scaled == rs.ARG_WEIGHTS else 3, scales.astype(np.float32))
    pd = rs.ConvolutionForward.PrimitiveDesc(
        *(CPU, "forward_inference", "convolution_direct"), *case.descs((format, "any", format)), *case.window,
        attr=attr,
    )  # fmt: skip
    x, w = (_numbers(dims, "f32", seed) for seed, dims in enumerate(case.dims[:2]))
    v = _numbers((48, 1, 1, 3, 3), "f32", 2)
    values = {rs.ARG_SRC: x, rs.ARG_WEIGHTS: w, DW | rs.ARG_WEIGHTS: v}
    made = computed(rs.ConvolutionForward, pd, CPU, values, rs.ARG_DST)
    second = Case(2, 48, 1, 1, (9, 7), (3, 3), (1, 1), (0, 0), (1, 1))
    wanted = forward(second, forward(case, x, w), v) * (scales[:, None, None] if scaled else 1.0)
    np.testing.assert_array_equal(elements(made[rs.ARG_DST]), wanted)
    assert padding_is_zero(made[rs.ARG_DST])


@pytest.mark.parametrize("dims", [(0, 8, 5, 5), (1, 8, 0, 5)], ids=str)
def test_a_result_of_nothing_is_nothing_to_do(dims):
    attr = _chain("f32", "undef", "f32")
    mds = [rs.MemoryDesc(each, "f32", "any") for each in (dims, (8, 8, 1, 1), dims)]
    pd = rs.ConvolutionForward.PrimitiveDesc(
        CPU, "forward_inference", "convolution_direct", *mds, [1, 1], [0, 0], [0, 0], attr=attr
    )
    assert pd.dst_desc().dims == dims
    rs.ConvolutionForward(pd)


def test_a_wrong_mask_names_the_depthwise_weights():
    attr = _chain("f32", "undef", "f32")
    attr.set_scales(DW | rs.ARG_WEIGHTS, 1)
    assert "attr-scales:attr_post_op_dw_wei:1:f32" in attr.freeze().verbose_str()
