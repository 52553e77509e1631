"""Algorithms and modes under oneDNN's names (`dnnl::algorithm`, `dnnl::scratchpad_mode`)."""

from __future__ import annotations

import enum

from ..errors import LookupType, ValueLookup


class Algorithm(ValueLookup, enum.StrEnum, metaclass=LookupType):
    """The algorithm of a primitive or a post-op (`dnnl::algorithm`). Members equal their names as strings.

    `eltwise_gelu` is the old name of `eltwise_gelu_tanh`. `eltwise_bounded_relu` is `eltwise_clip` from 0 to
    alpha, `eltwise_logsigmoid` is `eltwise_soft_relu` with an alpha of -1: a chain stores the latter.
    """

    undef = "undef"
    eltwise_abs = "eltwise_abs"
    eltwise_clip = "eltwise_clip"
    eltwise_clip_v2 = "eltwise_clip_v2"
    eltwise_elu = "eltwise_elu"
    eltwise_exp = "eltwise_exp"
    eltwise_gelu_erf = "eltwise_gelu_erf"
    eltwise_gelu_tanh = "eltwise_gelu_tanh"
    eltwise_gelu = "eltwise_gelu_tanh"
    eltwise_hardsigmoid = "eltwise_hardsigmoid"
    eltwise_hardswish = "eltwise_hardswish"
    eltwise_linear = "eltwise_linear"
    eltwise_log = "eltwise_log"
    eltwise_logistic = "eltwise_logistic"
    eltwise_mish = "eltwise_mish"
    eltwise_pow = "eltwise_pow"
    eltwise_relu = "eltwise_relu"
    eltwise_round = "eltwise_round"
    eltwise_soft_relu = "eltwise_soft_relu"
    eltwise_sqrt = "eltwise_sqrt"
    eltwise_square = "eltwise_square"
    eltwise_swish = "eltwise_swish"
    eltwise_tanh = "eltwise_tanh"
    eltwise_clip_v2_use_dst_for_bwd = "eltwise_clip_v2_use_dst_for_bwd"
    eltwise_elu_use_dst_for_bwd = "eltwise_elu_use_dst_for_bwd"
    eltwise_exp_use_dst_for_bwd = "eltwise_exp_use_dst_for_bwd"
    eltwise_logistic_use_dst_for_bwd = "eltwise_logistic_use_dst_for_bwd"
    eltwise_relu_use_dst_for_bwd = "eltwise_relu_use_dst_for_bwd"
    eltwise_sqrt_use_dst_for_bwd = "eltwise_sqrt_use_dst_for_bwd"
    eltwise_tanh_use_dst_for_bwd = "eltwise_tanh_use_dst_for_bwd"
    eltwise_bounded_relu = "eltwise_bounded_relu"
    eltwise_logsigmoid = "eltwise_logsigmoid"
    binary_add = "binary_add"
    binary_sub = "binary_sub"
    binary_mul = "binary_mul"
    binary_div = "binary_div"
    binary_min = "binary_min"
    binary_max = "binary_max"
    binary_ge = "binary_ge"
    binary_gt = "binary_gt"
    binary_le = "binary_le"
    binary_lt = "binary_lt"
    binary_eq = "binary_eq"
    binary_ne = "binary_ne"
    binary_select = "binary_select"
    convolution_auto = "convolution_auto"
    convolution_direct = "convolution_direct"
    deconvolution_auto = "deconvolution_auto"
    deconvolution_direct = "deconvolution_direct"
    lrn_across_channels = "lrn_across_channels"
    lrn_within_channel = "lrn_within_channel"
    pooling_max = "pooling_max"
    pooling_avg_include_padding = "pooling_avg_include_padding"
    pooling_avg_exclude_padding = "pooling_avg_exclude_padding"
    resampling_nearest = "resampling_nearest"
    resampling_linear = "resampling_linear"
    reduction_max = "reduction_max"
    reduction_min = "reduction_min"
    reduction_sum = "reduction_sum"
    reduction_mul = "reduction_mul"
    reduction_mean = "reduction_mean"
    reduction_norm_lp_max = "reduction_norm_lp_max"
    reduction_norm_lp_sum = "reduction_norm_lp_sum"
    reduction_norm_lp_power_p_max = "reduction_norm_lp_power_p_max"
    reduction_norm_lp_power_p_sum = "reduction_norm_lp_power_p_sum"
    softmax_accurate = "softmax_accurate"
    softmax_log = "softmax_log"
    vanilla_rnn = "vanilla_rnn"
    vanilla_lstm = "vanilla_lstm"
    vanilla_gru = "vanilla_gru"
    lbr_gru = "lbr_gru"


class ScratchpadMode(ValueLookup, enum.StrEnum, metaclass=LookupType):
    """The owner of a primitive's scratchpad (`dnnl::scratchpad_mode`). Members equal their names."""

    library = "library"
    user = "user"
