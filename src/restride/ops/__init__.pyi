"""Operators, as tests/support/onednn_stub.py writes them (pytest --update-golden)."""

from collections.abc import Mapping, Sequence
from typing import Any

PRIMITIVES: Mapping[str, str]

def Abs(x: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Acos(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Acosh(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Add(
    *xs: Any, axis: Any = ..., broadcast: int = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def And(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def ArgMax(
    x: Any,
    /,
    *,
    axis: int = ...,
    keepdims: bool = ...,
    select_last_index: bool = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def ArgMin(
    x: Any,
    /,
    *,
    axis: int = ...,
    keepdims: bool = ...,
    select_last_index: bool = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def Asin(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Asinh(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Atan(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Atanh(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = ...,
    past_key: Any = ...,
    past_value: Any = ...,
    lengths: Any = ...,
    /,
    *,
    scale: Any = ...,
    softcap: float = ...,
    is_causal: bool = ...,
    q_num_heads: int = ...,
    kv_num_heads: int = ...,
    left_window_size: int = ...,
    right_window_size: int = ...,
    softmax_precision: int = ...,
    qk_matmul_output_mode: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def AveragePool(
    x: Any,
    /,
    *,
    kernel_shape: Sequence[Any] = ...,
    strides: Sequence[Any] = ...,
    dilations: Sequence[Any] = ...,
    pads: Sequence[Any] = ...,
    auto_pad: str = ...,
    ceil_mode: bool = ...,
    count_include_pad: bool = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def BatchNormalization(
    x: Any,
    scale: Any,
    shift: Any,
    mean: Any,
    variance: Any,
    /,
    *,
    epsilon: float = ...,
    momentum: float = ...,
    training_mode: bool = ...,
    spatial: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def BitShift(*xs: Any, direction: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def BitwiseAnd(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def BitwiseNot(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def BitwiseOr(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def BitwiseXor(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Cast(
    x: Any,
    /,
    *,
    to: Any,
    saturate: bool = ...,
    round_mode: str = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def CastLike(
    x: Any,
    like: Any,
    /,
    *,
    saturate: bool = ...,
    round_mode: str = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def Ceil(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Celu(*xs: Any, alpha: float = ..., out: Any = ..., outputs: int | None = ...) -> Any: ...
def Clip(x: Any, min: Any = ..., max: Any = ..., /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Compress(
    x: Any, condition: Any, /, *, axis: Any = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def Concat(*xs: Any, axis: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Conv(
    x: Any,
    weights: Any,
    bias: Any = ...,
    /,
    *,
    kernel_shape: Sequence[Any] = ...,
    strides: Sequence[Any] = ...,
    dilations: Sequence[Any] = ...,
    pads: Sequence[Any] = ...,
    auto_pad: str = ...,
    group: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def ConvInteger(
    x: Any,
    weights: Any,
    x_zero: Any = ...,
    weights_zero: Any = ...,
    /,
    *,
    kernel_shape: Sequence[Any] = ...,
    strides: Sequence[Any] = ...,
    dilations: Sequence[Any] = ...,
    pads: Sequence[Any] = ...,
    auto_pad: str = ...,
    group: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def ConvTranspose(
    x: Any,
    weights: Any,
    bias: Any = ...,
    /,
    *,
    kernel_shape: Sequence[Any] = ...,
    strides: Sequence[Any] = ...,
    dilations: Sequence[Any] = ...,
    pads: Sequence[Any] = ...,
    auto_pad: str = ...,
    output_padding: Sequence[Any] = ...,
    output_shape: Sequence[Any] = ...,
    group: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def Cos(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Cosh(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def CumProd(
    x: Any,
    axis: Any,
    /,
    *,
    exclusive: bool = ...,
    reverse: bool = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def CumSum(
    x: Any,
    axis: Any,
    /,
    *,
    exclusive: bool = ...,
    reverse: bool = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def DFT(
    x: Any,
    dft_length: Any = ...,
    axis: Any = ...,
    /,
    *,
    inverse: bool = ...,
    onesided: bool = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def DepthToSpace(
    x: Any, /, *, blocksize: Any, mode: str = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def DequantizeLinear(
    x: Any,
    scale: Any,
    zero: Any = ...,
    /,
    *,
    axis: int = ...,
    block_size: int = ...,
    output_dtype: int = ...,
    precision: int = ...,
    saturate: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def Div(
    *xs: Any, axis: Any = ..., broadcast: int = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def Dropout(
    x: Any,
    ratio: Any = ...,
    training_mode: Any = ...,
    /,
    *,
    seed: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def DynamicQuantizeLinear(x: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Einsum(*xs: Any, equation: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Elu(x: Any, /, *, alpha: float = ..., out: Any = ..., outputs: int | None = ...) -> Any: ...
def Equal(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Erf(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Exp(x: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Expand(x: Any, shape: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def EyeLike(
    x: Any, /, *, dtype: int = ..., k: int = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def Flatten(x: Any, /, *, axis: int = ..., out: Any = ..., outputs: int | None = ...) -> Any: ...
def Floor(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Gather(x: Any, indices: Any, /, *, axis: int = ..., out: Any = ..., outputs: int | None = ...) -> Any: ...
def GatherElements(
    x: Any, indices: Any, /, *, axis: int = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def GatherND(
    x: Any, indices: Any, /, *, batch_dims: int = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def Gelu(x: Any, /, *, approximate: str = ..., out: Any = ..., outputs: int | None = ...) -> Any: ...
def Gemm(
    left: Any,
    right: Any,
    added: Any = ...,
    /,
    *,
    alpha: float = ...,
    beta: float = ...,
    transA: bool = ...,
    transB: bool = ...,
    broadcast: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def GlobalAveragePool(x: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def GlobalLpPool(x: Any, /, *, p: float = ..., out: Any = ..., outputs: int | None = ...) -> Any: ...
def GlobalMaxPool(x: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Greater(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def GreaterOrEqual(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def GridSample(
    x: Any,
    grid: Any,
    /,
    *,
    mode: str = ...,
    padding_mode: str = ...,
    align_corners: bool = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def GroupNormalization(
    x: Any,
    scale: Any,
    shift: Any,
    /,
    *,
    num_groups: Any,
    epsilon: float = ...,
    stash_type: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def HardSigmoid(
    x: Any, /, *, alpha: float = ..., beta: float = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def HardSwish(x: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Hardmax(x: Any, /, *, axis: int = ..., out: Any = ..., outputs: int | None = ...) -> Any: ...
def Identity(x: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def InstanceNormalization(
    x: Any, scale: Any, shift: Any, /, *, epsilon: float = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def IsInf(
    *xs: Any,
    detect_negative: int = ...,
    detect_positive: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def IsNaN(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def LRN(
    x: Any,
    /,
    *,
    size: Any,
    alpha: float = ...,
    beta: float = ...,
    bias: float = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def LayerNormalization(
    x: Any,
    scale: Any,
    shift: Any = ...,
    /,
    *,
    axis: int = ...,
    epsilon: float = ...,
    stash_type: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def LeakyRelu(x: Any, /, *, alpha: float = ..., out: Any = ..., outputs: int | None = ...) -> Any: ...
def Less(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def LessOrEqual(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Log(x: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def LogSoftmax(x: Any, /, *, axis: int = ..., out: Any = ..., outputs: int | None = ...) -> Any: ...
def LpNormalization(
    x: Any, /, *, axis: int = ..., p: int = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def LpPool(
    x: Any,
    /,
    *,
    kernel_shape: Sequence[Any] = ...,
    strides: Sequence[Any] = ...,
    dilations: Sequence[Any] = ...,
    pads: Sequence[Any] = ...,
    auto_pad: str = ...,
    p: float = ...,
    ceil_mode: bool = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def MatMul(left: Any, right: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def MatMulInteger(
    left: Any,
    right: Any,
    left_zero: Any = ...,
    right_zero: Any = ...,
    /,
    *,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def Max(
    *xs: Any, axis: Any = ..., broadcast: int = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def MaxPool(
    x: Any,
    /,
    *,
    kernel_shape: Sequence[Any] = ...,
    strides: Sequence[Any] = ...,
    dilations: Sequence[Any] = ...,
    pads: Sequence[Any] = ...,
    auto_pad: str = ...,
    ceil_mode: bool = ...,
    storage_order: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def MaxUnpool(
    x: Any,
    indices: Any,
    output_shape: Any = ...,
    /,
    *,
    kernel_shape: Sequence[Any] = ...,
    strides: Sequence[Any] = ...,
    dilations: Sequence[Any] = ...,
    pads: Sequence[Any] = ...,
    auto_pad: str = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def Mean(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def MeanVarianceNormalization(
    x: Any, /, *, axes: Sequence[Any] = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def Min(
    *xs: Any, axis: Any = ..., broadcast: int = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def Mish(x: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Mod(*xs: Any, fmod: int = ..., out: Any = ..., outputs: int | None = ...) -> Any: ...
def Mul(
    *xs: Any, axis: Any = ..., broadcast: int = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def Neg(x: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Not(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def OneHot(
    indices: Any, depth: Any, values: Any, /, *, axis: int = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def Or(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def PRelu(x: Any, slope: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Pad(
    x: Any,
    pads: Sequence[Any] = ...,
    value: Any = ...,
    axes: Any = ...,
    /,
    *,
    mode: str = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def Pow(
    x: Any,
    exponent: Any,
    /,
    *,
    axis: Any = ...,
    broadcast: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def QLinearConv(
    x: Any,
    x_scale: Any,
    x_zero: Any,
    weights: Any,
    weights_scale: Any,
    weights_zero: Any,
    scale: Any,
    zero: Any,
    bias: Any = ...,
    /,
    *,
    kernel_shape: Sequence[Any] = ...,
    strides: Sequence[Any] = ...,
    dilations: Sequence[Any] = ...,
    pads: Sequence[Any] = ...,
    auto_pad: str = ...,
    group: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def QLinearMatMul(
    left: Any,
    left_scale: Any,
    left_zero: Any,
    right: Any,
    right_scale: Any,
    right_zero: Any,
    scale: Any,
    zero: Any,
    /,
    *,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def QuantizeLinear(
    x: Any,
    scale: Any,
    zero: Any = ...,
    /,
    *,
    axis: int = ...,
    block_size: int = ...,
    output_dtype: int = ...,
    precision: int = ...,
    saturate: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def RMSNormalization(
    x: Any,
    scale: Any,
    /,
    *,
    axis: int = ...,
    epsilon: float = ...,
    stash_type: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def Reciprocal(x: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def ReduceL1(
    x: Any,
    axes: Any = ...,
    /,
    *,
    keepdims: bool = ...,
    noop_with_empty_axes: bool = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def ReduceL2(
    x: Any,
    axes: Any = ...,
    /,
    *,
    keepdims: bool = ...,
    noop_with_empty_axes: bool = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def ReduceLogSum(
    x: Any,
    axes: Any = ...,
    /,
    *,
    keepdims: int = ...,
    noop_with_empty_axes: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def ReduceLogSumExp(
    x: Any,
    axes: Any = ...,
    /,
    *,
    keepdims: int = ...,
    noop_with_empty_axes: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def ReduceMax(
    x: Any,
    axes: Any = ...,
    /,
    *,
    keepdims: bool = ...,
    noop_with_empty_axes: bool = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def ReduceMean(
    x: Any,
    axes: Any = ...,
    /,
    *,
    keepdims: bool = ...,
    noop_with_empty_axes: bool = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def ReduceMin(
    x: Any,
    axes: Any = ...,
    /,
    *,
    keepdims: bool = ...,
    noop_with_empty_axes: bool = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def ReduceProd(
    x: Any,
    axes: Any = ...,
    /,
    *,
    keepdims: bool = ...,
    noop_with_empty_axes: bool = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def ReduceSum(
    x: Any,
    axes: Any = ...,
    /,
    *,
    keepdims: bool = ...,
    noop_with_empty_axes: bool = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def ReduceSumSquare(
    x: Any,
    axes: Any = ...,
    /,
    *,
    keepdims: bool = ...,
    noop_with_empty_axes: bool = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def Relu(x: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Reshape(
    x: Any, shape: Sequence[Any] = ..., /, *, allowzero: bool = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def Resize(
    x: Any,
    roi: Any = ...,
    scales: Any = ...,
    sizes: Sequence[Any] = ...,
    /,
    *,
    mode: str = ...,
    coordinate_transformation_mode: str = ...,
    nearest_mode: str = ...,
    cubic_coeff_a: float = ...,
    extrapolation_value: float = ...,
    antialias: bool = ...,
    exclude_outside: bool = ...,
    axes: Sequence[Any] = ...,
    keep_aspect_ratio_policy: str = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def ReverseSequence(
    x: Any,
    lengths: Any,
    /,
    *,
    batch_axis: int = ...,
    time_axis: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def RotaryEmbedding(
    x: Any,
    cosines: Any,
    sines: Any,
    positions: Any = ...,
    /,
    *,
    interleaved: int = ...,
    num_heads: int = ...,
    rotary_embedding_dim: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def Round(x: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def STFT(
    signal: Any,
    frame_step: Any,
    window: Any = ...,
    frame_length: Any = ...,
    /,
    *,
    onesided: bool = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def Scatter(
    x: Any,
    indices: Any,
    updates: Any,
    /,
    *,
    axis: int = ...,
    reduction: str = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def ScatterElements(
    x: Any,
    indices: Any,
    updates: Any,
    /,
    *,
    axis: int = ...,
    reduction: str = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def ScatterND(
    x: Any, indices: Any, updates: Any, /, *, reduction: str = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def Selu(
    x: Any, /, *, alpha: float = ..., gamma: float = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def Shrink(
    *xs: Any, bias: float = ..., lambd: float = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def Sigmoid(x: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Sign(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def SimplifiedLayerNormalization(
    x: Any,
    scale: Any,
    /,
    *,
    axis: int = ...,
    epsilon: float = ...,
    stash_type: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def Sin(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Sinh(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Slice(
    x: Any,
    starts: Any,
    ends: Any,
    axes: Any = ...,
    steps: Any = ...,
    /,
    *,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def Softmax(x: Any, /, *, axis: int = ..., out: Any = ..., outputs: int | None = ...) -> Any: ...
def Softplus(x: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Softsign(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def SpaceToDepth(
    x: Any, /, *, blocksize: Any, mode: str = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def Split(
    x: Any,
    split: Any = ...,
    /,
    *,
    axis: int = ...,
    num_outputs: int = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def Sqrt(x: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Squeeze(x: Any, axes: Any = ..., /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Sub(
    *xs: Any, axis: Any = ..., broadcast: int = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def Sum(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Swish(x: Any, /, *, alpha: float = ..., out: Any = ..., outputs: int | None = ...) -> Any: ...
def Tan(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Tanh(x: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def ThresholdedRelu(*xs: Any, alpha: float = ..., out: Any = ..., outputs: int | None = ...) -> Any: ...
def Tile(x: Any, repeats: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def TopK(
    x: Any,
    k: Any,
    /,
    *,
    axis: int = ...,
    largest: bool = ...,
    sorted: bool = ...,
    out: Any = ...,
    outputs: int | None = ...,
) -> Any: ...
def Transpose(x: Any, /, *, perm: Sequence[Any] = ..., out: Any = ..., outputs: int | None = ...) -> Any: ...
def Trilu(
    x: Any, k: Any = ..., /, *, upper: bool = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def Unsqueeze(x: Any, axes: Sequence[Any] = ..., /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Upsample(
    x: Any, scales: Any, /, *, mode: str = ..., out: Any = ..., outputs: int | None = ...
) -> Any: ...
def Where(condition: Any, x: Any, y: Any, /, *, out: Any = ..., outputs: int | None = ...) -> Any: ...
def Xor(*xs: Any, out: Any = ..., outputs: int | None = ...) -> Any: ...
