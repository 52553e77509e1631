"""Products of torch tensors: operators with gradients, known to torch's compiler, and packed weights of
modules.

`torch.ops.restride.matmul` and `.convolution` run restride's kernels on the CPU, and so do their gradients.
Only `restride.torch` may import this module, because it imports torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ..calls.product_arguments import operand_of
from ..calls.product_calls import SlidingWindow, source_gradient, weights_gradient
from ..calls.tensors import to_torch
from ..products import convolution as convolution_arrays
from ..products import matmul as matmul_arrays
from ..products import pack_weights
from .kernels import array_of, new_like
from .modes import refuse_second
from .operators import Operator

_CPU = Engine("cpu")


def _array(x: Any) -> Any:
    return None if x is None else array_of(x)


# --- matmul -------------------------------------------------------------------------------------------------


def _matmul(x: Any, weights: Any, bias: Any) -> Any:
    return to_torch(np.ascontiguousarray(matmul_arrays(array_of(x), array_of(weights), _array(bias))))


def _new_matmul(x: Any, weights: Any, bias: Any) -> Any:
    return x.new_empty((*x.shape[:-1], weights.shape[-1]))


def _keep_matmul(ctx: Any, inputs: Any, output: Any) -> None:
    x, weights, bias = inputs
    ctx.save_for_backward(x, weights)
    ctx.has_bias = bias is not None and bias.dim() > 0


def _matmul_gradient(ctx: Any, grad: Any) -> Any:
    x, weights = ctx.saved_tensors
    to_x, to_weights, to_bias = ctx.needs_input_grad
    rows = grad.reshape(-1, grad.shape[-1])
    of_x = torch.ops.restride.matmul(grad, weights.mT, None) if to_x else None
    if x.dim() > weights.dim():
        x, grad = x.reshape(-1, x.shape[-1]), rows
    of_weights = torch.ops.restride.matmul(x.mT, grad, None) if to_weights else None
    if of_weights is not None and of_weights.shape != weights.shape:
        of_weights = of_weights.sum_to_size(weights.shape)
    return of_x, of_weights, rows.sum(0) if ctx.has_bias and to_bias else None


# --- convolution --------------------------------------------------------------------------------------------


def _convolution(x: Any, weight: Any, bias: Any, *window: Any) -> Any:
    """Return the convolution, in the layout of `x`."""
    return convolved(x, array_of(weight), bias, weight.shape, *window)


def convolved(x: Any, weights: Any, bias: Any, shape: Any, *window: Any) -> Any:
    """Return the same for weights that are an array, or packed; `shape` is that of torch's weights."""
    out = _empty_result(x, shape, *window)
    options = dict(zip(("stride", "padding", "dilation", "groups"), window, strict=True))
    convolution_arrays(array_of(x), weights, _array(bias), **options, out=array_of(out))
    return out


def _new_convolution(x: Any, weight: Any, bias: Any, *window: Any) -> Any:
    return _empty_result(x, weight.shape, *window)


def _empty_result(x: Any, shape: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    rows = zip(x.shape[2:], shape[2:], stride, padding, dilation, strict=True)
    points = ((n + 2 * p - (k - 1) * d - 1) // s + 1 for n, k, s, p, d in rows)
    return new_like(x, shape=(x.shape[0], shape[0], *points))


def _source_gradient(grad: Any, weight: Any, like: Any, *window: Any) -> Any:
    out = new_like(like)
    source_gradient(_memory(out), _grouped(weight, window[3]), _memory(grad), _sliding(*window))
    return out


def _weights_gradient(x: Any, grad: Any, like: Any, *window: Any) -> Any:
    out = _new_weights(x, grad, like)
    weights_gradient(_memory(x), _grouped(out, window[3]), None, _memory(grad), _sliding(*window))
    return out


def _new_weights(x: Any, grad: Any, like: Any, *_: Any) -> Any:
    """Return uninitialized row-major weights, as packing requires."""
    return torch.empty(like.shape, dtype=like.dtype, device=like.device)


def _keep_convolution(ctx: Any, inputs: Any, output: Any) -> None:
    x, weight, bias, *ctx.window = inputs
    ctx.save_for_backward(x, weight)
    ctx.has_bias = bias is not None


def _convolution_gradient(ctx: Any, grad: Any) -> Any:
    x, weight = ctx.saved_tensors
    to_x, to_weight, to_bias, *_ = ctx.needs_input_grad
    refuse_second("conv2d", grad, *((weight,) if to_x else ()), *((x,) if to_weight else ()))
    ops = torch.ops.restride
    of_x = ops.convolution_source_gradient(grad, weight, x, *ctx.window) if to_x else None
    of_weight = ops.convolution_weights_gradient(x, grad, weight, *ctx.window) if to_weight else None
    of_bias = grad.sum((0, *range(2, grad.dim()))) if ctx.has_bias and to_bias else None
    return of_x, of_weight, of_bias, None, None, None, None


def _sliding(stride: Any, padding: Any, dilation: Any, groups: int) -> SlidingWindow:
    return SlidingWindow(tuple(stride), tuple(n - 1 for n in dilation), tuple(padding))


def _memory(x: Any) -> Memory:
    return operand_of("restride.torch", "a tensor", array_of(x), _CPU)


def _grouped(weight: Any, groups: int) -> Memory:
    """Return weights with a group dim if there are several groups, over the same bytes."""
    return _memory(weight if groups == 1 else weight.unflatten(0, (groups, weight.shape[0] // groups)))


_WINDOW = "int[] stride, int[] padding, int[] dilation, int groups"
for _operator in (
    Operator(
        "matmul",
        "(Tensor x, Tensor weights, Tensor? bias) -> Tensor",
        *(_matmul, _new_matmul, _keep_matmul, _matmul_gradient),
    ),
    Operator(
        "convolution",
        f"(Tensor x, Tensor weight, Tensor? bias, {_WINDOW}) -> Tensor",
        *(_convolution, _new_convolution, _keep_convolution, _convolution_gradient),
    ),
    Operator(
        "convolution_source_gradient",
        f"(Tensor grad, Tensor weight, Tensor like, {_WINDOW}) -> Tensor",
        *(_source_gradient, lambda grad, weight, like, *_: new_like(like)),
    ),
    Operator(
        "convolution_weights_gradient",
        f"(Tensor x, Tensor grad, Tensor like, {_WINDOW}) -> Tensor",
        *(_weights_gradient, _new_weights),
    ),
):
    _operator.register()


# --- packed weights of modules ------------------------------------------------------------------------------


class PackedWeights:
    """The packed weights of a module, and the version of the parameter that they were packed from."""

    def __init__(self) -> None:
        self._of: tuple[object, ...] = ()
        self._packed: Memory | None = None

    def of(self, weight: Any, primitive: str, groups: int = 1) -> Memory:
        """Return the weights, packed again if the parameter has changed."""
        version = -1 if weight.is_inference() else weight._version
        state = (weight.data_ptr(), version, weight.dtype, weight.shape, weight.stride())
        if self._packed is None or state != self._of:
            array = array_of(weight.mT if primitive == "matmul" else weight)
            self._packed, self._of = pack_weights(array, primitive, groups=groups), state
        return self._packed


def packed_matmul(x: Any, packed: Memory, bias: Any) -> Any:
    """Return the product with packed weights, without recording it."""
    return to_torch(np.ascontiguousarray(matmul_arrays(array_of(x), packed, _array(bias))))
