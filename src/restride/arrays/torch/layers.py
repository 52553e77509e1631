"""Softmax, layer normalization and pooling of torch's tensors: operators with gradients.

This module imports torch; nothing does so but `restride.torch`. Results lie as their sources do, dense.
"""

from __future__ import annotations

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
from ...plan.normalization import NormKind
from ...plan.windows import Windows
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ..activations import softmax as softmax_arrays
from ..calls.function import ArrayFunction, with_axis_last
from ..calls.tensors import as_numpy
from ..norms import check_data, numbers_of, parse_epsilon
from ..pools import PooledDims, parse_alg, parse_windows
from .kernels import dense_strides, empty, order_by_stride
from .modes import in_derivative, refuse_second

_CPU = Engine("cpu")
_NORM = ArrayFunction("layer_norm", "forward_training")
_NORM_BACK = ArrayFunction("layer_norm", "backward")
_POOL = ArrayFunction("pool", "forward_training")
_POOL_BACK = ArrayFunction("pool", "backward_data")
# Positions of windows up to so many are bytes.
_MOST_IN_BYTES = 256

_LIBRARY = torch.library.Library("restride", "FRAGMENT")
_LIBRARY.define("softmax(Tensor x, int axis, bool log) -> Tensor")
_LIBRARY.define(
    "layer_norm(Tensor x, Tensor? scale, Tensor? shift, int axis, float epsilon) -> (Tensor, Tensor, Tensor)"
)
_LIBRARY.define(
    "layer_norm_backward(Tensor grad, Tensor x, Tensor mean, Tensor variance, Tensor? scale, bool has_shift,"
    " int axis, float epsilon) -> (Tensor, Tensor, Tensor)"
)
_WINDOWS = "str alg, SymInt[] kernel, SymInt[] strides, SymInt[] dilation, SymInt[] left, SymInt[] right"
_LIBRARY.define(f"pool(Tensor x, {_WINDOWS}) -> (Tensor, Tensor)")
_LIBRARY.define(f"pool_backward(Tensor grad, Tensor workspace, SymInt[] dims, {_WINDOWS}) -> Tensor")


def _memory(function: ArrayFunction, x: Any) -> Memory:
    return function.source(as_numpy(x.detach(), f"{function.name}: a tensor"), _CPU)


def _check_shape(function: ArrayFunction, name: str, x: Any, shape: Any) -> None:
    """Raise InvalidArguments for a tensor of another shape, or of another type where `shape` is a tensor."""
    is_right = tuple(x.shape) == tuple(getattr(shape, "shape", shape))
    if is_right and x.dtype is getattr(shape, "dtype", x.dtype):
        return
    raise refuse("RS-R10:not-fit", call=function.name, name=name, shape=tuple(x.shape), dtype=x.dtype)


def _like(x: Any, shape: Any = None, dtype: Any = None) -> Any:
    """An empty tensor whose axes lie in the order of those of `x`."""
    if shape is None:
        return empty(x, order_by_stride(x), dtype)
    strides = dense_strides(shape, order_by_stride(x))
    return torch.empty_strided(tuple(shape), strides, dtype=dtype or x.dtype, device=x.device)


def _result_type(x: Any) -> Any:
    """The type of fractions of `x`: its own, or float32 where it has integers."""
    return x.dtype if x.is_floating_point() or x.is_complex() else torch.float32


# --- softmax ------------------------------------------------------------------------------------------------


def _softmax(x: Any, axis: int, log: bool) -> Any:
    out = _like(x, dtype=_result_type(x))
    softmax_arrays(as_numpy(x.detach(), "softmax: x"), axis, log=log, out=as_numpy(out, "softmax: out"))
    return out


def _fake_softmax(x: Any, axis: int, log: bool) -> Any:
    return _like(x, dtype=_result_type(x))


def _keep_softmax(ctx: Any, inputs: Any, output: Any) -> None:
    _, ctx.axis, ctx.log = inputs
    ctx.save_for_backward(output)


def _softmax_back(ctx: Any, grad: Any) -> Any:
    """By torch's own functions: so it has every derivative, and a compiler fuses it."""
    (y,) = ctx.saved_tensors
    if ctx.log:
        return grad - y.exp() * grad.sum(ctx.axis, keepdim=True), None, None
    return y * (grad - (y * grad).sum(ctx.axis, keepdim=True)), None, None


# --- layer normalization ------------------------------------------------------------------------------------


def _flags(scale: Any, has_shift: bool) -> NormFlags:
    return NormFlags(use_scale=scale is not None, use_shift=has_shift)


def _real(x: Any) -> Any:
    """The type of statistics and of gradients of scale and shift."""
    return torch.float64 if x.dtype is torch.float64 else torch.float32


def _stats(x: Any, axis: int) -> tuple[Any, Any]:
    shape = [n for d, n in enumerate(x.shape) if d != axis % x.dim()]
    return x.new_empty(shape, dtype=_real(x)), x.new_empty(shape, dtype=_real(x))


def _weights(scale: Any, shift: Any, own: MemoryDesc) -> dict[int, Memory]:
    """Scale and shift as `own`, where there are some."""
    operands = {ARG_SCALE: scale, ARG_SHIFT: shift}
    kind = torch.float64 if own.data_type is DataType.f64 else torch.float32
    found = {
        # Complex numbers stay, and are refused.
        arg: as_numpy(each.detach() if each.is_complex() else each.detach().to(kind), "layer_norm: a tensor")
        for arg, each in operands.items()
        if each is not None
    }
    numbers = numbers_of(_NORM, found, own.dims[0], own.data_type)
    return {arg: _NORM.source(each, _CPU) for arg, each in numbers.items()}


def _layer_norm(x: Any, scale: Any, shift: Any, axis: int, epsilon: float) -> tuple[Any, Any, Any]:
    source = _memory(_NORM, x)
    at = _NORM.axis(axis, x.dim(), f"x {source.desc}")
    source = with_axis_last(source, at)
    check_data(_NORM, check_known("layer_norm", "x", source.desc))
    out, (mean, variance) = _like(x, dtype=_result_type(x)), _stats(x, at)
    target, count = with_axis_last(_memory(_NORM, out), at), source.desc.dims[-1]
    stats = {ARG_MEAN: _memory(_NORM, mean), ARG_VARIANCE: _memory(_NORM, variance)}
    own = MemoryDesc((count,), stats[ARG_MEAN].desc.data_type, "a")
    problem = LayerNormalizationProblem(
        NormKind.layer,
        source.desc,
        target.desc,
        stats[ARG_MEAN].desc,
        own,
        _flags(scale, shift is not None),
        True,
        1,
        parse_epsilon("layer_norm", epsilon),
    )
    memories = {ARG_SRC: source, ARG_DST: target, **_weights(scale, shift, own), **stats}
    _NORM.run(problem, _CPU, memories)
    return out, mean, variance


def _fake_layer_norm(x: Any, scale: Any, shift: Any, axis: int, epsilon: float) -> tuple[Any, Any, Any]:
    return (_like(x, dtype=_result_type(x)), *_stats(x, axis))


def _layer_norm_back(
    grad: Any, x: Any, mean: Any, variance: Any, scale: Any, has_shift: bool, axis: int, epsilon: float
) -> tuple[Any, Any, Any]:
    at = _NORM_BACK.axis(axis, x.dim(), f"x {tuple(x.shape)}")
    _check_shape(_NORM_BACK, "the gradient", grad, x.shape)
    for name, stat, like in zip(("mean", "variance"), (mean, variance), _stats(x, at), strict=True):
        _check_shape(_NORM_BACK, name, stat, like)
    found, count = _like(x), x.shape[at]
    weights = [x.new_zeros(count, dtype=_real(x)) for _ in range(2)]
    source, diff_dst, diff_src = (with_axis_last(_memory(_NORM_BACK, each), at) for each in (x, grad, found))
    stats = {ARG_MEAN: _memory(_NORM_BACK, mean), ARG_VARIANCE: _memory(_NORM_BACK, variance)}
    own = MemoryDesc((count,), stats[ARG_MEAN].desc.data_type, "a")
    check_data(_NORM_BACK, source.desc)
    flags = _flags(scale, has_shift)
    problem = LayerNormalizationBackwardProblem(
        NormKind.layer,
        source.desc,
        diff_src.desc,
        diff_dst.desc,
        stats[ARG_MEAN].desc,
        own,
        own,
        flags,
        True,
        1,
        parse_epsilon("layer_norm", epsilon),
    )
    memories = {ARG_SRC: source, ARG_DIFF_SRC: diff_src, ARG_DIFF_DST: diff_dst, **stats}
    memories |= _weights(scale, None, own)
    for arg, each, is_written in (
        (ARG_DIFF_SCALE, weights[0], flags.use_scale),
        (ARG_DIFF_SHIFT, weights[1], flags.use_shift),
    ):
        if is_written:
            memories[arg] = _memory(_NORM_BACK, each)
    _NORM_BACK.run(problem, _CPU, memories)
    return found, *weights


def _fake_layer_norm_back(grad: Any, x: Any, *more: Any) -> tuple[Any, Any, Any]:
    count = x.shape[more[4]]
    return _like(x), *(x.new_zeros(count, dtype=_real(x)) for _ in range(2))


def _keep_layer_norm(ctx: Any, inputs: Any, output: Any) -> None:
    x, scale, shift, ctx.axis, ctx.epsilon = inputs
    ctx.types = [None if each is None else each.dtype for each in (scale, shift)]
    ctx.save_for_backward(x, output[1], output[2], scale)
    ctx.mark_non_differentiable(output[1], output[2])


def _layer_norm_gradient(ctx: Any, grad: Any, *_: Any) -> Any:
    refuse_second("layer_norm", grad)
    x, mean, variance, scale = ctx.saved_tensors
    found, *weights = torch.ops.restride.layer_norm_backward(
        grad, x, mean, variance, scale, ctx.types[1] is not None, ctx.axis, ctx.epsilon
    )
    typed = (None if kind is None else each.to(kind) for kind, each in zip(ctx.types, weights, strict=True))
    return found, *typed, None, None


# --- pooling ------------------------------------------------------------------------------------------------


def _positions(made: Any, windows: Windows, alg: str) -> Any:
    """Where the positions of maxima are kept: nothing for an average."""
    if alg != MAX:
        return made.new_empty(0, dtype=torch.uint8)
    kind = torch.uint8 if windows.positions < _MOST_IN_BYTES else torch.int32
    return torch.empty_strided(made.shape, made.stride(), dtype=kind, device=made.device)


def _parts(
    dims: Any, kernel: list[int], strides: list[int], dilation: list[int], left: list[int], right: list[int]
) -> PooledDims:
    windows = Windows(*map(tuple, (strides, kernel, dilation, left, right)))
    return PooledDims(windows, (*dims[:2], *(windows.output(d, n) for d, n in enumerate(dims[2:]))))


def _checked_parts(
    dims: Any, kernel: list[int], strides: list[int], dilation: list[int], left: list[int], right: list[int]
) -> PooledDims:
    """The same of numbers that nobody has looked at. Raises InvalidArguments for those that do not fit."""
    apart = [each + 1 for each in dilation]
    return parse_windows(tuple(dims), kernel, strides, list(zip_longest(left, right)), apart)


def _pool(x: Any, alg: str, *windows: list[int]) -> tuple[Any, Any]:
    alg, found = parse_alg(alg), _checked_parts(x.shape, *windows)
    out = _like(x, found.dims)
    places = _positions(out, found.windows, alg)
    source, target = _memory(_POOL, x), _memory(_POOL, out)
    problem = PoolingProblem(alg, found.windows, source.desc, target.desc, alg == MAX)
    memories = {ARG_SRC: source, ARG_DST: target}
    if alg == MAX:
        memories[ARG_WORKSPACE] = _memory(_POOL, places)
    _POOL.run(problem, _CPU, memories)
    return out, places


def _fake_pool(x: Any, alg: str, *windows: Any) -> tuple[Any, Any]:
    found = _parts(tuple(x.shape), *windows)
    out = _like(x, found.dims)
    return out, _positions(out, found.windows, alg)


def _pool_back(grad: Any, workspace: Any, dims: list[int], alg: str, *windows: list[int]) -> Any:
    alg, found = parse_alg(alg), _checked_parts(parse_dims(dims), *windows)
    _check_shape(_POOL_BACK, "the gradient", grad, found.dims)
    if alg == MAX:
        _check_shape(_POOL_BACK, "the workspace", workspace, _positions(grad, found.windows, alg))
    if alg == MAX and grad.stride() != workspace.stride():  # positions lie as gradients do
        moved = torch.empty_strided(grad.shape, workspace.stride(), dtype=grad.dtype)
        grad = moved.copy_(grad)
    made = _like(grad, dims)
    diff_dst, diff_src = _memory(_POOL_BACK, grad), _memory(_POOL_BACK, made)
    problem = PoolingBackwardProblem(alg, found.windows, diff_src.desc, diff_dst.desc)
    memories = {ARG_DIFF_DST: diff_dst, ARG_DIFF_SRC: diff_src}
    if alg == MAX:
        memories[ARG_WORKSPACE] = _memory(_POOL_BACK, workspace)
    _POOL_BACK.run(problem, _CPU, memories)
    return made


def _fake_pool_back(grad: Any, workspace: Any, dims: Any, alg: str, *windows: Any) -> Any:
    return _like(workspace if alg == MAX else grad, dims, grad.dtype)


def _keep_pool(ctx: Any, inputs: Any, output: Any) -> None:
    x, *ctx.how = inputs
    ctx.dims = x.shape
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])


def _pool_gradient(ctx: Any, grad: Any, *_: Any) -> Any:
    refuse_second("pool", grad)
    (workspace,) = ctx.saved_tensors
    found = torch.ops.restride.pool_backward(grad, workspace, ctx.dims, *ctx.how)
    return found, *[None] * len(ctx.how)


def refuse_transform(call: str) -> None:
    """Raise Unimplemented inside a derivative of torch.func: no operator from Python can take part."""
    if in_derivative():
        raise refuse("RS-A17:derivative", call=call)


def _register(name: str, kernel: Any, fake: Any, gradient: Any = None, keep: Any = None) -> None:
    _LIBRARY.impl(name, kernel, "CPU")
    torch.library.register_fake(f"restride::{name}", fake, lib=_LIBRARY)
    if gradient is not None:
        torch.library.register_autograd(f"restride::{name}", gradient, setup_context=keep, lib=_LIBRARY)


def _many_softmaxes(info: Any, in_dims: Any, x: Any, axis: int, log: bool) -> Any:
    """One softmax of all parts: the axis of the parts goes first."""
    whole = x.movedim(in_dims[0], 0)
    return torch.ops.restride.softmax(whole, axis if axis < 0 else axis + 1, log), 0


_register("softmax", _softmax, _fake_softmax, _softmax_back, _keep_softmax)
if hasattr(torch.library, "register_vmap"):  # torch 2.5; before, vmap calls the operator for each part
    torch.library.register_vmap("restride::softmax", _many_softmaxes, lib=_LIBRARY)
_register("layer_norm", _layer_norm, _fake_layer_norm, _layer_norm_gradient, _keep_layer_norm)
_register("layer_norm_backward", _layer_norm_back, _fake_layer_norm_back)
_register("pool", _pool, _fake_pool, _pool_gradient, _keep_pool)
_register("pool_backward", _pool_back, _fake_pool_back)


def pool_with_gradient(x: Any, alg: str, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    """`torch.ops.restride.pool` of the numbers of a call."""
    refuse_transform("pool")
    found = parse_windows(tuple(x.shape), kernel, stride, padding, dilation).windows
    numbers = (found.kernel, found.strides, found.dilation, found.padding_l, found.padding_r)
    return torch.ops.restride.pool(x, alg, *map(list, numbers))[0]
