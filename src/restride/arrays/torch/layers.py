"""Softmax, layer normalization and pooling on torch tensors: operators with gradients.

Only `restride.torch` may import this module, because it imports torch. Results have the layout of their
sources, dense.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import torch

from ...desc.arguments import (
    ARG_DIFF_DST,
    ARG_DIFF_SCALE,
    ARG_DIFF_SHIFT,
    ARG_DIFF_SRC,
    ARG_DST,
    ARG_MEAN,
    ARG_SCALE,
    ARG_SHIFT,
    ARG_SRC,
    ARG_VARIANCE,
    ARG_WORKSPACE,
)
from ...desc.memory_desc import MemoryDesc
from ...desc.parse import parse_dims
from ...dtypes import DataType
from ...errors import refuse
from ...model.pointwise import check_known
from ...ops.layer_normalization import LayerNormalizationBackwardProblem, LayerNormalizationProblem
from ...ops.normalization import NormFlags
from ...ops.pooling import MAX, PoolingBackwardProblem, PoolingProblem
from ...ops.programs.normalization import NormKind
from ...ops.programs.windows import Windows
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ..activations import softmax as softmax_arrays
from ..calls.function import ArrayFunction, with_axis_last
from ..calls.tensors import as_numpy
from ..norms import check_data, numbers_of, parse_epsilon
from ..pools import PooledDims, parse_alg, parse_windows
from .kernels import new_like
from .modes import refuse_derivative, refuse_second
from .operators import Operator

_CPU = Engine("cpu")
_NORM = ArrayFunction("layer_norm", "forward_training")
_NORM_BACK = ArrayFunction("layer_norm", "backward")
_POOL = ArrayFunction("pool", "forward_training")
_POOL_BACK = ArrayFunction("pool", "backward_data")
# Positions in windows of up to this size are bytes.
_MOST_IN_BYTES = 256


def _memory(function: ArrayFunction, x: Any) -> Memory:
    return function.source(as_numpy(x.detach(), f"{function.name}: a tensor"), _CPU)


def _check_shape(function: ArrayFunction, name: str, x: Any, shape: Any) -> None:
    """Raise InvalidArguments for a tensor of another shape, or of another type if `shape` is a tensor."""
    is_right = tuple(x.shape) == tuple(getattr(shape, "shape", shape))
    if not is_right or x.dtype is not getattr(shape, "dtype", x.dtype):
        raise refuse("RS-R10:not-fit", call=function.name, name=name, shape=tuple(x.shape), dtype=x.dtype)


def _new_fractions(x: Any, *_: Any) -> Any:
    """Return a result like `x`, of its own type, or of float32 if it has integers."""
    return new_like(x, x.dtype if x.is_floating_point() or x.is_complex() else torch.float32)


# --- softmax ------------------------------------------------------------------------------------------------


def _softmax(x: Any, axis: int, log: bool) -> Any:
    out = _new_fractions(x)
    softmax_arrays(as_numpy(x.detach(), "softmax: x"), axis, log=log, out=as_numpy(out, "softmax: out"))
    return out


def _keep_softmax(ctx: Any, inputs: Any, output: Any) -> None:
    _, ctx.axis, ctx.log = inputs
    ctx.save_for_backward(output)


def _softmax_gradient(ctx: Any, grad: Any) -> Any:
    """Use torch's own functions, so that all derivatives exist and a compiler can fuse it."""
    (y,) = ctx.saved_tensors
    if ctx.log:
        return grad - y.exp() * grad.sum(ctx.axis, keepdim=True), None, None
    return y * (grad - (y * grad).sum(ctx.axis, keepdim=True)), None, None


def _many_softmaxes(info: Any, in_dims: Any, x: Any, axis: int, log: bool) -> Any:
    """Run one softmax for all parts: the batch axis is moved to the front."""
    whole = x.movedim(in_dims[0], 0)
    return torch.ops.restride.softmax(whole, axis if axis < 0 else axis + 1, log), 0


# --- layer normalization ------------------------------------------------------------------------------------


def _real(x: Any) -> Any:
    """Return the type of statistics and of gradients of scale and shift."""
    return torch.float64 if x.dtype is torch.float64 else torch.float32


def _new_stats(x: Any, axis: int) -> tuple[Any, Any]:
    shape = [n for d, n in enumerate(x.shape) if d != axis % x.dim()]
    return x.new_empty(shape, dtype=_real(x)), x.new_empty(shape, dtype=_real(x))


def _new_layer_norm(x: Any, scale: Any, shift: Any, axis: int, epsilon: float) -> tuple[Any, Any, Any]:
    return (_new_fractions(x), *_new_stats(x, axis))


def _new_layer_norm_back(grad: Any, x: Any, *more: Any) -> tuple[Any, Any, Any]:
    return new_like(x), *(x.new_zeros(x.shape[more[4]], dtype=_real(x)) for _ in range(2))


def _layer_norm(x: Any, scale: Any, shift: Any, axis: int, epsilon: float) -> tuple[Any, Any, Any]:
    at = _NORM.axis(axis, x.dim(), f"x {_memory(_NORM, x).desc}")
    results = out, mean, variance = _new_layer_norm(x, scale, shift, at, epsilon)
    tensors = {ARG_SRC: x, ARG_DST: out, ARG_SCALE: scale, ARG_SHIFT: shift}
    _run_norm(_NORM, tensors | {ARG_MEAN: mean, ARG_VARIANCE: variance}, at, shift is not None, epsilon)
    return results


def _layer_norm_back(
    grad: Any, x: Any, mean: Any, variance: Any, scale: Any, has_shift: bool, axis: int, epsilon: float
) -> tuple[Any, Any, Any]:
    at = _NORM_BACK.axis(axis, x.dim(), f"x {tuple(x.shape)}")
    _check_shape(_NORM_BACK, "the gradient", grad, x.shape)
    for name, stat, like in zip(("mean", "variance"), (mean, variance), _new_stats(x, at), strict=True):
        _check_shape(_NORM_BACK, name, stat, like)
    gradients = diff_src, diff_scale, diff_shift = _new_layer_norm_back(
        grad, x, mean, variance, scale, has_shift, at
    )
    tensors = {ARG_SRC: x, ARG_DIFF_SRC: diff_src, ARG_DIFF_DST: grad, ARG_MEAN: mean, ARG_VARIANCE: variance}
    tensors |= {ARG_SCALE: scale, ARG_DIFF_SCALE: None if scale is None else diff_scale}
    _run_norm(
        _NORM_BACK, tensors | ({ARG_DIFF_SHIFT: diff_shift} if has_shift else {}), at, has_shift, epsilon
    )
    return gradients


def _run_norm(
    function: ArrayFunction, tensors: Mapping[int, Any], at: int, has_shift: bool, epsilon: float
) -> None:
    """Normalize along axis `at`, or compute the gradients."""
    source = with_axis_last(_memory(function, tensors[ARG_SRC]), at).desc
    check_data(function, check_known("layer_norm", "x", source))
    real = tensors[ARG_MEAN].dtype
    own = MemoryDesc((source.dims[-1],), DataType.f64 if real is torch.float64 else DataType.f32, "a")
    weights = {
        # Complex numbers stay and are rejected.
        arg: as_numpy(x.detach() if x.is_complex() else x.detach().to(real), "layer_norm: a tensor")
        for arg, x in tensors.items()
        if arg in (ARG_SCALE, ARG_SHIFT) and x is not None
    }
    numbers = numbers_of(_NORM, weights, own.dims[0], own.data_type)
    memories = {
        arg: _NORM.source(numbers[arg], _CPU) if arg in numbers else _memory(function, tensor)
        for arg, tensor in tensors.items()
        if tensor is not None
    }
    data = [arg for arg in (ARG_SRC, ARG_DST, ARG_DIFF_SRC, ARG_DIFF_DST) if arg in memories]
    memories |= {arg: with_axis_last(memories[arg], at) for arg in data}
    is_back = function is _NORM_BACK
    kind: Any = LayerNormalizationBackwardProblem if is_back else LayerNormalizationProblem
    descs = *(memories[arg].desc for arg in data), memories[ARG_MEAN].desc, *[own] * (1 + is_back)
    flags = NormFlags(use_scale=ARG_SCALE in weights, use_shift=has_shift)
    problem = kind(NormKind.layer, *descs, flags, True, 1, parse_epsilon("layer_norm", epsilon))
    function.run(problem, _CPU, memories)


def _keep_layer_norm(ctx: Any, inputs: Any, output: Any) -> None:
    x, scale, shift, ctx.axis, ctx.epsilon = inputs
    ctx.types = [None if tensor is None else tensor.dtype for tensor in (scale, shift)]
    ctx.save_for_backward(x, output[1], output[2], scale)
    ctx.mark_non_differentiable(output[1], output[2])


def _layer_norm_gradient(ctx: Any, grad: Any, *_: Any) -> Any:
    refuse_second("layer_norm", grad)
    diff_src, *weights = torch.ops.restride.layer_norm_backward(
        grad, *ctx.saved_tensors, ctx.types[1] is not None, ctx.axis, ctx.epsilon
    )
    typed = (None if kind is None else x.to(kind) for kind, x in zip(ctx.types, weights, strict=True))
    return diff_src, *typed, None, None


# --- pooling ------------------------------------------------------------------------------------------------


def _new_positions(result: Any, windows: Windows, alg: str) -> Any:
    """Return the tensor for the positions of maxima: empty for an average."""
    if alg != MAX:
        return result.new_empty(0, dtype=torch.uint8)
    kind = torch.uint8 if windows.positions < _MOST_IN_BYTES else torch.int32
    return torch.empty_strided(result.shape, result.stride(), dtype=kind, device=result.device)


def _new_pool(x: Any, alg: str, *numbers: list[int]) -> tuple[Any, Any]:
    """Return new tensors; `numbers`: kernel, strides, dilation, where 0 is dense, left and right padding."""
    kernel, strides, *more = map(tuple, numbers)
    windows = Windows(strides, kernel, *more)
    out = new_like(x, shape=(*x.shape[:2], *(windows.output(d, n) for d, n in enumerate(x.shape[2:]))))
    return out, _new_positions(out, windows, alg)


def _new_pool_back(grad: Any, workspace: Any, dims: Any, alg: str, *_: Any) -> Any:
    """Return a new gradient; positions have its layout."""
    return new_like(workspace if alg == MAX else grad, grad.dtype, dims)


def _parse_numbers(
    dims: Any, kernel: list[int], strides: list[int], dilation: list[int], left: list[int], right: list[int]
) -> PooledDims:
    """Return the windows of unchecked numbers. Raises InvalidArguments if they do not fit."""
    apart = [n + 1 for n in dilation]
    return parse_windows(tuple(dims), kernel, strides, list(zip_longest(left, right)), apart)


def _pool(x: Any, alg: str, *numbers: list[int]) -> tuple[Any, Any]:
    alg, windows = parse_alg(alg), _parse_numbers(x.shape, *numbers).windows
    out, positions = _new_pool(x, alg, *numbers)
    memories = {ARG_SRC: _memory(_POOL, x), ARG_DST: _memory(_POOL, out)}
    if alg == MAX:
        memories[ARG_WORKSPACE] = _memory(_POOL, positions)
    descs = memories[ARG_SRC].desc, memories[ARG_DST].desc
    _POOL.run(PoolingProblem(alg, windows, *descs, alg == MAX), _CPU, memories)
    return out, positions


def _pool_back(grad: Any, workspace: Any, dims: list[int], alg: str, *numbers: list[int]) -> Any:
    alg, pooled_dims = parse_alg(alg), _parse_numbers(parse_dims(dims), *numbers)
    _check_shape(_POOL_BACK, "the gradient", grad, pooled_dims.dims)
    if alg == MAX:
        _check_shape(_POOL_BACK, "the workspace", workspace, _new_positions(grad, pooled_dims.windows, alg))
        if grad.stride() != workspace.stride():
            grad = torch.empty_strided(grad.shape, workspace.stride(), dtype=grad.dtype).copy_(grad)
    diff_src = _new_pool_back(grad, workspace, dims, alg)
    memories = {ARG_DIFF_DST: _memory(_POOL_BACK, grad), ARG_DIFF_SRC: _memory(_POOL_BACK, diff_src)}
    if alg == MAX:
        memories[ARG_WORKSPACE] = _memory(_POOL_BACK, workspace)
    descs = memories[ARG_DIFF_SRC].desc, memories[ARG_DIFF_DST].desc
    _POOL_BACK.run(PoolingBackwardProblem(alg, pooled_dims.windows, *descs), _CPU, memories)
    return diff_src


def _keep_pool(ctx: Any, inputs: Any, output: Any) -> None:
    x, *ctx.how = inputs
    ctx.dims = x.shape
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])


def _pool_gradient(ctx: Any, grad: Any, *_: Any) -> Any:
    refuse_second("pool", grad)
    diff_src = torch.ops.restride.pool_backward(grad, *ctx.saved_tensors, ctx.dims, *ctx.how)
    return diff_src, *[None] * len(ctx.how)


def pool_recorded(x: Any, alg: str, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    """Return `torch.ops.restride.pool` for the arguments of a call."""
    refuse_derivative("pool")
    windows = parse_windows(tuple(x.shape), kernel, stride, padding, dilation).windows
    numbers = (windows.kernel, windows.strides, windows.dilation, windows.padding_l, windows.padding_r)
    return torch.ops.restride.pool(x, alg, *map(list, numbers))[0]


_WINDOWS = "str alg, SymInt[] kernel, SymInt[] strides, SymInt[] dilation, SymInt[] left, SymInt[] right"
for _operator in (
    Operator(
        "softmax",
        "(Tensor x, int axis, bool log) -> Tensor",
        *(_softmax, _new_fractions, _keep_softmax, _softmax_gradient, _many_softmaxes),
    ),
    Operator(
        "layer_norm",
        "(Tensor x, Tensor? scale, Tensor? shift, int axis, float epsilon) -> (Tensor, Tensor, Tensor)",
        *(_layer_norm, _new_layer_norm, _keep_layer_norm, _layer_norm_gradient),
    ),
    Operator(
        "layer_norm_backward",
        "(Tensor grad, Tensor x, Tensor mean, Tensor variance, Tensor? scale, bool has_shift, int axis, "
        "float epsilon) -> (Tensor, Tensor, Tensor)",
        *(_layer_norm_back, _new_layer_norm_back),
    ),
    Operator(
        "pool",
        f"(Tensor x, {_WINDOWS}) -> (Tensor, Tensor)",
        *(_pool, _new_pool, _keep_pool, _pool_gradient),
    ),
    Operator(
        "pool_backward",
        f"(Tensor grad, Tensor workspace, SymInt[] dims, {_WINDOWS}) -> Tensor",
        *(_pool_back, _new_pool_back),
    ),
):
    _operator.register()
