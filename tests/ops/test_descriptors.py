"""Queries of the descriptor of every operation; a copy returns the same."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import restride as rs
from support.computed import any_like

CPU = rs.Engine("cpu")
TRAINING = "forward_training"
MD, NHWC = (rs.MemoryDesc((2, 17, 5, 3), "f32", tag) for tag in ("abcd", "acdb"))
BLOCKED = rs.MemoryDesc((2, 17, 7, 6), "f32", "aBcd16b")
CHANNEL = rs.MemoryDesc((1, 17, 1, 1), "f32", "abcd")
OPEN = any_like(MD)
WINDOWS = (2, 1), (3, 2), (0, 0), (1, 0), (1, 1)
POOLED = rs.MemoryDesc((2, 17, 4, 6), "f32", "any")
TWICE = rs.MemoryDesc((2, 17, 10, 6), "f32", "any")
WEIGHTS = rs.MemoryDesc((24, 17, 3, 3), "f32", "any")
BIAS = rs.MemoryDesc((24,), "f32", "any")
CONVOLVED = rs.MemoryDesc((2, 24, 5, 3), "f32", "any")
CONVOLUTION = (1, 1), (0, 0), (1, 1), (1, 1)
SCALED = rs.NormalizationFlags.use_scale

_WINDOW_GETTERS = "get_strides", "get_kernel", "get_dilations", "get_padding_l", "get_padding_r"
_POOLING = {"get_algorithm": "pooling_max", **dict(zip(_WINDOW_GETTERS, WINDOWS, strict=True))}
_NORMALIZATION = {"get_flags": SCALED, "get_epsilon": np.float32(1e-3)}
_LRN = {
    "get_algorithm": "lrn_within_channel",
    "get_local_size": 3,
    "get_alpha": 0.5,
    "get_beta": 0.75,
    "get_k": 2,
}
_CONVOLUTION = {"get_algorithm": "convolution_direct", "get_strides": (1, 1), "get_padding_r": (1, 1)}

# The class, its arguments, its kind and kind of propagation, and what else it answers. Behind a forward
# descriptor the arguments of the backward one, which has it as the hint, and in which None stands for it.
Row = tuple[Any, tuple[Any, ...], str, dict[str, Any]]
FORWARD: dict[str, Row] = {
    "eltwise": (
        rs.EltwiseForward,
        (TRAINING, "eltwise_relu", NHWC, OPEN, 0.5, 0.25),
        TRAINING,
        {"get_algorithm": "eltwise_relu", "get_alpha": 0.5, "get_beta": 0.25, "dst_desc": NHWC},
    ),
    "binary": (
        rs.Binary,
        ("binary_max", MD, CHANNEL, OPEN),
        "undef",
        {"get_algorithm": "binary_max", "dst_desc": MD},
    ),
    "prelu": (
        rs.PReLUForward,
        (TRAINING, MD, CHANNEL, OPEN),
        TRAINING,
        {"weights_desc": CHANNEL, "dst_desc": MD},
    ),
    "softmax": (
        rs.SoftmaxForward,
        (TRAINING, "softmax_log", MD, OPEN, 2),
        TRAINING,
        {"get_axis": 2, "get_algorithm": "softmax_log", "dst_desc": MD},
    ),
    "reduction": (
        rs.Reduction,
        ("reduction_norm_lp_sum", BLOCKED, rs.MemoryDesc((2, 1, 7, 6), "f32", "any"), 3.0, 0.25),
        "undef",
        {"get_algorithm": "reduction_norm_lp_sum", "get_p": 3.0, "get_epsilon": 0.25},
    ),
    "lrn": (rs.LRNForward, (TRAINING, "lrn_within_channel", MD, OPEN, 3, 0.5, 0.75, 2.0), TRAINING, _LRN),
    "pooling": (rs.PoolingForward, (TRAINING, "pooling_max", BLOCKED, POOLED, *WINDOWS), TRAINING, _POOLING),
    "resampling": (
        rs.ResamplingForward,
        (TRAINING, "linear", NHWC, TWICE),
        TRAINING,
        {"get_algorithm": "resampling_linear", "dst_desc": rs.MemoryDesc((2, 17, 10, 6), "f32", "acdb")},
    ),
    "batch_normalization": (
        rs.BatchNormalizationForward,
        (TRAINING, MD, OPEN, 1e-3, SCALED),
        TRAINING,
        _NORMALIZATION,
    ),
    "layer_normalization": (
        rs.LayerNormalizationForward,
        (TRAINING, MD, OPEN, None, 1e-3, SCALED),
        TRAINING,
        _NORMALIZATION,
    ),
    "group_normalization": (
        rs.GroupNormalizationForward,
        (TRAINING, MD, OPEN, 17, 1e-3, SCALED),
        TRAINING,
        _NORMALIZATION,
    ),
    "convolution": (
        rs.ConvolutionForward,
        (TRAINING, "convolution_direct", OPEN, WEIGHTS, BIAS, CONVOLVED, *CONVOLUTION),
        TRAINING,
        _CONVOLUTION,
    ),
    "matmul": (
        rs.Matmul,
        (rs.MemoryDesc((8, 32), "f32"), rs.MemoryDesc((32, 64), "f32", "ba"), rs.MemoryDesc((8, 64), "f32")),
        "undef",
        {"weights_desc": rs.MemoryDesc((32, 64), "f32", "ba")},
    ),
    "shuffle": (
        rs.ShuffleForward,
        (TRAINING, NHWC, OPEN, 2, 5),
        TRAINING,
        {"get_axis": 2, "get_group_size": 5, "dst_desc": NHWC},
    ),
}
BACKWARD: dict[str, Row] = {
    "eltwise": (
        rs.EltwiseBackward,
        ("relu", OPEN, OPEN, NHWC, 0.5, 0.25),
        "backward_data",
        {"get_algorithm": "eltwise_relu", "diff_src_desc": NHWC, "diff_dst_desc": NHWC},
    ),
    "prelu": (rs.PReLUBackward, (MD, CHANNEL, MD, CHANNEL, MD), "backward", {"weights_desc": CHANNEL}),
    "softmax": (rs.SoftmaxBackward, ("log", MD, MD, MD, 2), "backward_data", {"get_axis": 2}),
    "lrn": (rs.LRNBackward, ("lrn_within_channel", OPEN, OPEN, MD, 3, 0.5, 0.75, 2.0), "backward_data", _LRN),
    "pooling": (
        rs.PoolingBackward,
        ("max", any_like(BLOCKED), POOLED, *WINDOWS),
        "backward_data",
        {**_POOLING, "diff_src_desc": BLOCKED},
    ),
    "resampling": (
        rs.ResamplingBackward,
        ("linear", OPEN, rs.MemoryDesc(TWICE.dims, "f32", "acdb")),
        "backward_data",
        {"diff_src_desc": NHWC},
    ),
    "batch_normalization": (
        rs.BatchNormalizationBackward,
        ("backward", MD, MD, MD, 1e-3, SCALED),
        "backward",
        _NORMALIZATION,
    ),
    "layer_normalization": (
        rs.LayerNormalizationBackward,
        ("backward", MD, MD, MD, None, 1e-3, SCALED),
        "backward",
        _NORMALIZATION,
    ),
    "group_normalization": (
        rs.GroupNormalizationBackward,
        ("backward", MD, MD, MD, 17, 1e-3, SCALED),
        "backward",
        _NORMALIZATION,
    ),
    "convolution": (
        rs.ConvolutionBackwardWeights,
        ("convolution_direct", OPEN, WEIGHTS, BIAS, CONVOLVED, *CONVOLUTION),
        "backward_weights",
        _CONVOLUTION,
    ),
    "shuffle": (
        rs.ShuffleBackward,
        (OPEN, OPEN, 2, 5),
        "backward",
        {"get_axis": 2, "get_group_size": 5, "diff_src_desc": NHWC, "diff_dst_desc": NHWC},
    ),
}
_DESCS = (
    *("src", "dst", "weights", "mean", "variance", "diff_src", "diff_dst", "diff_weights", "workspace"),
    "scratchpad",
)


def _make(name: str, is_backward: bool) -> tuple[Any, Row]:
    row = FORWARD[name]
    pd = row[0].PrimitiveDesc(CPU, *row[1])
    if not is_backward:
        return pd, row
    row = BACKWARD[name]
    return row[0].PrimitiveDesc(CPU, *row[1], **{"hint_fwd_pd" if name == "shuffle" else "hint_pd": pd}), row


@pytest.mark.parametrize(
    ("name", "is_backward"), [*((name, False) for name in FORWARD), *((name, True) for name in BACKWARD)]
)
def test_a_descriptor_answers_and_a_copy_answers_the_same(name: str, is_backward: bool) -> None:
    pd, (primitive, _, prop_kind, answers) = _make(name, is_backward)
    copy = pickle.loads(pickle.dumps(pd))
    for each in (pd, copy, pickle.loads(pickle.dumps(primitive(pd))).get_primitive_desc()):
        assert (each.get_kind(), each.get_prop_kind()) == (name, rs.PropKind[prop_kind])
        assert each.get_engine() is CPU
        assert {getter: getattr(each, getter)() for getter in answers} == answers
        for what in _DESCS:
            if hasattr(each, f"{what}_desc"):
                assert getattr(each, f"{what}_desc")() == getattr(pd, f"{what}_desc")()
    none = primitive.PrimitiveDesc()
    assert not none
    assert not pickle.loads(pickle.dumps(none))
    assert not primitive.PrimitiveDesc(CPU, *["wrong"] * 5, allow_empty=True)


def test_arguments_that_do_not_matter_are_not_kept() -> None:
    plain = rs.Reduction.PrimitiveDesc(CPU, "sum", MD, rs.MemoryDesc((1, 17, 1, 1), "f32"), 3.0)
    assert plain.get_p() == 0.0


def test_gradients_that_need_no_source_have_none() -> None:
    md = NHWC
    pd = rs.EltwiseBackward.PrimitiveDesc(CPU, "eltwise_tanh_use_dst_for_bwd", OPEN, OPEN, md)
    assert (pd.diff_src_desc(), pd.diff_dst_desc(), pd.dst_desc()) == (md, md, md)
    assert pd.src_desc().is_zero()


def test_a_third_source_is_that_of_select_alone() -> None:
    select = rs.Binary.PrimitiveDesc(CPU, "select", MD, MD, rs.MemoryDesc(MD.dims, "s8"), MD)
    assert pickle.loads(pickle.dumps(select)).src_desc(2).data_type is rs.s8
    assert rs.Binary.PrimitiveDesc(CPU, "add", MD, MD, MD).src_desc(2).is_zero()


def test_a_hint_and_attributes_may_stand_where_they_do_in_c() -> None:
    hint, _ = _make("eltwise", False)
    args = "relu", OPEN, OPEN, NHWC, 0.5, 0.25, hint, rs.PrimitiveAttr()
    assert rs.EltwiseBackward.PrimitiveDesc(CPU, *args).diff_src_desc() == NHWC
    hint, _ = _make("pooling", False)
    args = "max", any_like(BLOCKED), POOLED, *WINDOWS, hint, rs.PrimitiveAttr()
    assert rs.PoolingBackward.PrimitiveDesc(CPU, *args).workspace_desc() == hint.workspace_desc()
