"""Derivatives of the operators, and what `torch.vmap` makes of them: reorders and shuffles are linear.

Autograd's kernel of an operator applies one of these functions; inside of a transform of torch.func they are
applied themselves, as torch can look into a function but not into an operator.
"""

from __future__ import annotations

from typing import Any

import torch

from .kernels import RULES, order_by_stride, order_of, tag_of
from .modes import below_autograd, in_transform


def shuffled(call: str, x: Any, number: int, axis: int) -> Any:
    """`torch.ops.restride.shuffle` or `shuffle_channels`, with every derivative."""
    if in_transform():
        return Shuffled.apply(x, call, number, axis)
    return getattr(torch.ops.restride, call)(x, number, axis)


def reordered(x: Any, dst: str, dtype: Any, scale: float | None) -> Any:
    """`torch.ops.restride.reorder`, with every derivative."""
    if in_transform():
        return Reordered.apply(x, dst, dtype, scale)
    return torch.ops.restride.reorder(x, dst, dtype=dtype, scale=scale)


def axis_of_all(call: str, whole: Any, number: int, axis: int) -> int:
    """Where the axis of a shuffle is in a tensor whose axis 0 counts parts, each to be shuffled.

    Raises InvalidArguments for what does not split the parts.
    """
    return RULES[call].split(tuple(whole.shape[1:]), axis, number)[0] + 1


def tag_of_all(whole: Any, dst: str) -> str:
    """The format of a tensor whose axis 0 counts parts of format `dst`."""
    return tag_of([0, *(d + 1 for d in order_of(dst, whole.dim() - 1))])


class Shuffled(torch.autograd.Function):  # type: ignore[misc]
    """A shuffle undoes a shuffle: the group size and the number of groups change places."""

    @staticmethod
    def forward(x: Any, call: str, number: int, axis: int) -> Any:
        """The kernel alone."""
        with below_autograd():
            return getattr(torch.ops.restride, call)(x, number, axis)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Keep both factors."""
        x, ctx.call, ctx.number, ctx.axis = inputs
        ctx.other = x.shape[ctx.axis] // ctx.number

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """The other shuffle."""
        return shuffled(ctx.call, grad, ctx.other, ctx.axis), None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Any, *_: Any) -> Any:
        """The same shuffle, of the tangent."""
        return shuffled(ctx.call, tangent, ctx.number, ctx.axis)

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, call: str, number: int, axis: int) -> Any:
        """One shuffle of all parts: the axis of the parts goes first."""
        whole = x.movedim(in_dims[0], 0)
        return shuffled(call, whole, number, axis_of_all(call, whole, number, axis)), 0


class Reordered(torch.autograd.Function):  # type: ignore[misc]
    """The gradient is reordered into the layout and the type of the source, times the scale."""

    @staticmethod
    def forward(x: Any, dst: str, dtype: Any, scale: float | None) -> Any:
        """The kernel alone."""
        with below_autograd():
            return torch.ops.restride.reorder(x, dst, dtype=dtype, scale=scale)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Keep how the source lies, and its type."""
        x, ctx.dst, ctx.to, ctx.scale = inputs
        ctx.back, ctx.dtype = tag_of(order_by_stride(x)), x.dtype
        ctx.is_real = output.is_floating_point() or output.is_complex()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """The way back."""
        return reordered(grad, ctx.back, ctx.dtype, ctx.scale), None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Any, *_: Any) -> Any:
        """The same reorder, of the tangent; integers have none."""
        return reordered(tangent, ctx.dst, ctx.to, ctx.scale) if ctx.is_real else None

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, dst: str, dtype: Any, scale: float | None) -> Any:
        """One reorder of all parts, which follow each other in memory."""
        whole = x.movedim(in_dims[0], 0)
        return reordered(whole, tag_of_all(whole, dst), dtype, scale), 0
