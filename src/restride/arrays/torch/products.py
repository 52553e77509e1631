"""Products of torch's tensors: operators with gradients, which compilers know, and what modules keep packed.

`torch.ops.restride.matmul` and `.convolution` run restride's kernels on the CPU; so do their gradients. This
module imports torch; nothing does so but `restride.torch`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ...errors import refuse
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ..calls.product_arguments import operand_of
from ..calls.product_calls import SlidingWindow, source_gradient, weights_gradient
from ..calls.tensors import as_numpy, to_torch
from ..products import convolution as convolution_arrays
from ..products import matmul as matmul_arrays
from ..products import pack_weights
from .kernels import dense_strides, order_by_stride
from .modes import refuse_second

_CPU = Engine("cpu")
_Ints = list[int]
_WINDOW = "int[] stride, int[] padding, int[] dilation, int groups"


def _operator(name: str, schema: str) -> Callable[[Callable[..., Any]], Any]:
    """What makes a function of tensors of the CPU an operator of torch."""

    def made(kernel: Callable[..., Any]) -> Any:
        full = f"restride::{name}"
        return torch.library.custom_op(full, kernel, mutates_args=(), device_types="cpu", schema=schema)

    return made


def _array(x: Any) -> Any:
    """The numbers of a tensor, whatever is recorded of it."""
    held = x.detach().resolve_conj().resolve_neg()
    return as_numpy(held, "restride.torch")


def same_types(call: str, x: Any, weight: Any, bias: Any) -> None:
    """Raise InvalidArguments for tensors of different types, which torch would refuse too."""
    kinds = {each.dtype for each in (x, weight, bias) if each is not None}
    if len(kinds) > 1:
        raise refuse("RS-A17:tensors-different-types", call=call, kinds=", ".join(sorted(map(str, kinds))))


# --- matmul -------------------------------------------------------------------------------------------------


@_operator("matmul", "(Tensor x, Tensor weights, Tensor? bias) -> Tensor")
def matmul(x: Any, weights: Any, bias: Any) -> Any:
    """The product of matrices."""
    shift = None if bias is None else _array(bias)
    return to_torch(np.ascontiguousarray(matmul_arrays(_array(x), _array(weights), shift)))


def _fake_matmul(x: Any, weights: Any, bias: Any) -> Any:
    return x.new_empty((*x.shape[:-1], weights.shape[-1]))


def _save_matmul(ctx: Any, inputs: Any, output: Any) -> None:
    x, weights, ctx.bias = inputs
    ctx.save_for_backward(x, weights)
    ctx.bias = None if ctx.bias is None else ctx.bias.dim()


def _matmul_back(ctx: Any, grad: Any) -> Any:
    x, weights = ctx.saved_tensors
    to_x, to_weights, to_bias = ctx.needs_input_grad
    rows = grad.reshape(-1, grad.shape[-1])
    of_x = matmul(grad, weights.mT, None) if to_x else None
    if x.dim() > weights.dim():
        x, grad = x.reshape(-1, x.shape[-1]), rows
    of_weights = matmul(x.mT, grad, None) if to_weights else None
    if of_weights is not None and of_weights.shape != weights.shape:
        of_weights = of_weights.sum_to_size(weights.shape)
    return of_x, of_weights, rows.sum(0) if ctx.bias and to_bias else None


matmul.register_fake(_fake_matmul)
matmul.register_autograd(_matmul_back, setup_context=_save_matmul)


# --- convolution --------------------------------------------------------------------------------------------


@_operator("convolution", f"(Tensor x, Tensor weight, Tensor? bias, {_WINDOW}) -> Tensor")
def convolution(
    x: Any,
    weight: Any,
    bias: Any,
    stride: _Ints,
    padding: _Ints,
    dilation: _Ints,
    groups: int,
) -> Any:
    """The convolution, in the layout of `x`."""
    return convolved(x, _array(weight), bias, tuple(weight.shape), stride, padding, dilation, groups)


def convolved(
    x: Any,
    weights: Any,
    bias: Any,
    shape: tuple[int, ...],
    stride: _Ints,
    padding: _Ints,
    dilation: _Ints,
    groups: int,
) -> Any:
    """The same for weights that are an array, or packed; `shape` is that of torch's weights."""
    out = _empty_result(x, shape, stride, padding, dilation)
    convolution_arrays(
        _array(x),
        weights,
        None if bias is None else _array(bias),
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        out=_array(out),
    )
    return out


def _empty_result(x: Any, shape: tuple[int, ...], stride: _Ints, padding: _Ints, dilation: _Ints) -> Any:
    rows = zip(x.shape[2:], shape[2:], stride, padding, dilation, strict=True)
    points = ((n + 2 * p - (k - 1) * d - 1) // s + 1 for n, k, s, p, d in rows)
    dims = (x.shape[0], shape[0], *points)
    return torch.empty_strided(dims, dense_strides(dims, order_by_stride(x)), dtype=x.dtype, device=x.device)


def _fake_convolution(
    x: Any, weight: Any, bias: Any, stride: _Ints, padding: _Ints, dilation: _Ints, groups: int
) -> Any:
    return _empty_result(x, tuple(weight.shape), stride, padding, dilation)


@_operator("convolution_source_gradient", f"(Tensor grad, Tensor weight, Tensor like, {_WINDOW}) -> Tensor")
def convolution_source_gradient(
    grad: Any,
    weight: Any,
    like: Any,
    stride: _Ints,
    padding: _Ints,
    dilation: _Ints,
    groups: int,
) -> Any:
    """The gradient of a convolution's source, which is `like` it in shape and layout."""
    out = torch.empty_strided(like.shape, dense_strides(like.shape, order_by_stride(like)), dtype=like.dtype)
    window = _window(stride, padding, dilation)
    source_gradient(_memory(out), _grouped(weight, groups), _memory(grad), window)
    return out


def _fake_source_gradient(grad: Any, weight: Any, like: Any, *_: Any) -> Any:
    strides = dense_strides(like.shape, order_by_stride(like))
    return torch.empty_strided(like.shape, strides, dtype=like.dtype, device=like.device)


@_operator("convolution_weights_gradient", f"(Tensor x, Tensor grad, Tensor like, {_WINDOW}) -> Tensor")
def convolution_weights_gradient(
    x: Any,
    grad: Any,
    like: Any,
    stride: _Ints,
    padding: _Ints,
    dilation: _Ints,
    groups: int,
) -> Any:
    """The gradient of a convolution's weights, row-major."""
    out = torch.empty(like.shape, dtype=like.dtype)
    window = _window(stride, padding, dilation)
    weights_gradient(_memory(x), _grouped(out, groups), None, _memory(grad), window)
    return out


def _fake_weights_gradient(x: Any, grad: Any, like: Any, *_: Any) -> Any:
    return torch.empty(like.shape, dtype=like.dtype, device=like.device)


def _save_convolution(ctx: Any, inputs: Any, output: Any) -> None:
    x, weight, bias, *ctx.window = inputs
    ctx.save_for_backward(x, weight)
    ctx.has_bias = bias is not None


def _convolution_back(ctx: Any, grad: Any) -> Any:
    x, weight = ctx.saved_tensors
    to_x, to_weight, to_bias, *_ = ctx.needs_input_grad
    refuse_second("conv2d", grad, *((weight,) if to_x else ()), *((x,) if to_weight else ()))
    of_x = convolution_source_gradient(grad, weight, x, *ctx.window) if to_x else None
    of_weight = convolution_weights_gradient(x, grad, weight, *ctx.window) if to_weight else None
    of_bias = grad.sum((0, *range(2, grad.dim()))) if ctx.has_bias and to_bias else None
    return of_x, of_weight, of_bias, None, None, None, None


convolution.register_fake(_fake_convolution)
convolution_source_gradient.register_fake(_fake_source_gradient)
convolution_weights_gradient.register_fake(_fake_weights_gradient)
convolution.register_autograd(_convolution_back, setup_context=_save_convolution)


def _window(stride: _Ints, padding: _Ints, dilation: _Ints) -> SlidingWindow:
    return SlidingWindow(tuple(stride), tuple(each - 1 for each in dilation), tuple(padding))


def _memory(x: Any) -> Memory:
    held = _array(x)
    return operand_of("restride.torch", "a tensor", held, _CPU)


def _grouped(weight: Any, groups: int) -> Memory:
    """Weights with a dim of groups where there are more than one, over the same bytes."""
    if groups == 1:
        return _memory(weight)
    return _memory(weight.unflatten(0, (groups, weight.shape[0] // groups)))


# --- what modules keep --------------------------------------------------------------------------------------


class PackedWeights:
    """The packed weights of a module, and of which state of its parameter they are."""

    def __init__(self) -> None:
        self._of: tuple[object, ...] = ()
        self._packed: Memory | None = None

    def of(self, weight: Any, primitive: str, groups: int = 1) -> Memory:
        """The weights, packed anew where the parameter has changed since."""
        version = -1 if weight.is_inference() else weight._version
        state = (weight.data_ptr(), version, weight.dtype, weight.shape, weight.stride())
        if self._packed is None or state != self._of:
            held = _array(weight.mT if primitive == "matmul" else weight)
            self._packed, self._of = pack_weights(held, primitive, groups=groups), state
        return self._packed


def packed_matmul(x: Any, packed: Memory, bias: Any) -> Any:
    """The product with packed weights, of which nothing is recorded."""
    return to_torch(
        np.ascontiguousarray(matmul_arrays(_array(x), packed, None if bias is None else _array(bias)))
    )
