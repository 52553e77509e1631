"""torch operators: their registration, and the linear operators with all derivatives.

Only `restride.torch` may import this module, because it imports torch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import torch

from ...errors import refuse
from ...foreign import plain_text
from ..calls.arithmetic import to_factor
from ..calls.formats import tag_text
from ..calls.tensors import check_strided
from .kernels import RULES, new_like, order_by_stride, order_of, reorder_new, shuffle_new, tag_of
from .modes import (
    NO_KEYS,
    below_autograd,
    check_device,
    in_transform,
    is_only_data,
    is_plain,
    is_symbol,
    refuse_derivative,
)

_LIBRARY = torch.library.Library("restride", "DEF")
_TAKES_KEYS = "with_keyset" in signature(torch.library.Library.impl).parameters
_TAGS = (torch.Tag.pt2_compliant_tag,)


class Operator(NamedTuple):
    """An operator `torch.ops.restride.<name>`.

    kernel    implementation for CPU tensors
    new       uninitialized results for the same arguments, including fake tensors
    keep      saves what autograd needs from a call
    gradient  computes the gradient from that; None for an operator without derivatives
    batched   implementation for `torch.vmap`, which by default calls the operator for each part
    """

    name: str
    schema: str
    kernel: Callable[..., Any]
    new: Callable[..., Any]
    keep: Callable[..., None] | None = None
    gradient: Callable[..., Any] | None = None
    batched: Callable[..., Any] | None = None

    def register(self) -> None:
        """Register it with torch."""
        full = f"restride::{self.name}"
        _LIBRARY.define(f"{self.name}{self.schema}", tags=_TAGS)
        _LIBRARY.impl(self.name, self.kernel, "CPU")
        torch.library.register_fake(full, self.new, lib=_LIBRARY)
        if self.gradient is not None:
            torch.library.register_autograd(full, self.gradient, setup_context=self.keep, lib=_LIBRARY)
        if self.batched is not None and hasattr(torch.library, "register_vmap"):  # torch 2.5
            torch.library.register_vmap(full, self.batched, lib=_LIBRARY)


# --- linear operators ---------------------------------------------------------------------------------------


class LinearRule(NamedTuple):
    """The rules of an operator that moves elements, as functions of a tensor and arguments.

    `new`: the uninitialized result; `back`: the arguments that convert a gradient to the layout and the type
    of the source; `batched`: the arguments for a tensor whose axis 0 is the batch axis of vmap.
    """

    new: Callable[..., Any]
    back: Callable[..., tuple[Any, ...]]
    batched: Callable[..., tuple[Any, ...]]


def _shuffle_rule(call: str) -> LinearRule:
    """Return the rule of a shuffle; in its inverse, group size and number of groups are exchanged."""

    def batched(whole: Any, number: int, axis: int) -> tuple[Any, ...]:
        return number, RULES[call].split(tuple(whole.shape[1:]), axis, number)[0] + 1

    return LinearRule(
        lambda x, *_: torch.empty_like(x),
        lambda x, number, axis: (x.shape[axis] // number, axis),
        batched,
    )


_RULES = {
    "reorder": LinearRule(
        lambda x, dst, dtype, scale: new_like(x, dtype, order=order_of(dst, x.dim())),
        lambda x, dst, dtype, scale: (tag_of(order_by_stride(x)), x.dtype, scale),
        lambda x, dst, *more: (tag_of([0, *(d + 1 for d in order_of(dst, x.dim() - 1))]), *more),
    ),
    "shuffle": _shuffle_rule("shuffle"),
    "shuffle_channels": _shuffle_rule("shuffle_channels"),
}


def apply_linear(name: str, x: Any, *args: Any) -> Any:
    """Apply `torch.ops.restride.<name>` with all derivatives: torch.func can differentiate a function, but
    not an operator.
    """
    return _LinearFunction.apply(x, name, *args) if in_transform() else _operator(name, x, *args)


def _operator(name: str, x: Any, *args: Any) -> Any:
    if name == "reorder":
        return torch.ops.restride.reorder(x, args[0], dtype=args[1], scale=args[2])
    return getattr(torch.ops.restride, name)(x, *args)


class _LinearFunction(torch.autograd.Function):  # type: ignore[misc]
    """A linear operator, applied by autograd's kernel and by transforms of torch.func."""

    @staticmethod
    def forward(x: Any, name: str, *args: Any) -> Any:
        with below_autograd():
            return _operator(name, x, *args)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, ctx.name, *ctx.args = inputs
        ctx.back = _RULES[ctx.name].back(x, *ctx.args)
        ctx.is_real = output.is_floating_point() or output.is_complex()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return apply_linear(ctx.name, grad, *ctx.back), *[None] * (1 + len(ctx.args))

    @staticmethod
    def jvp(ctx: Any, tangent: Any, *_: Any) -> Any:
        """Apply it to the tangent; integers have none."""
        return apply_linear(ctx.name, tangent, *ctx.args) if ctx.is_real else None

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, name: str, *args: Any) -> Any:
        """Run one call for all parts, which are contiguous in memory."""
        whole = x.movedim(in_dims[0], 0)
        return apply_linear(name, whole, *_RULES[name].batched(whole, *args)), 0


def _register_linear(
    name: str, schema: str, arguments: Callable[..., tuple[Any, ...]], run: Callable[..., Any]
) -> None:
    """Register an operator with torch. `arguments`: converts those of the schema to those of its rule."""
    call = name.partition(".")[0]
    rule = _RULES[call]

    def new(x: Any, *args: Any, **kwargs: Any) -> Any:
        return rule.new(x, *arguments(*args, **kwargs))

    def recorded(keys: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel directly if no derivative is needed, which saves half of torch's overhead."""
        if is_only_data(keys, x):
            return run(x, *args, **kwargs)
        refuse_derivative(call, is_operator=True)
        return _LinearFunction.apply(x, call, *arguments(*args, **kwargs))

    def batched(info: Any, in_dims: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        whole = x.movedim(in_dims[0], 0)
        return _operator(call, whole, *rule.batched(whole, *arguments(*args, **kwargs))), 0

    Operator(name, schema, run, new, batched=batched).register()
    if _TAKES_KEYS:
        _LIBRARY.impl(name, recorded, "Autograd", with_keyset=True)
    else:  # without keys all calls go through autograd: correct but slower
        _LIBRARY.impl(name, partial(recorded, NO_KEYS), "Autograd")


_OPTIONS = "*, ScalarType? dtype=None, float? scale=None) -> Tensor"
for _row in (
    (
        "reorder",
        f"(Tensor x, str dst, {_OPTIONS}",
        lambda dst, dtype=None, scale=None: (dst, dtype, scale),
        reorder_new,
    ),
    (
        "reorder.order",
        f"(Tensor x, int[] order, {_OPTIONS}",
        lambda order, dtype=None, scale=None: (tag_of(order), dtype, scale),
        lambda x, order, **options: reorder_new(x, tag_of(order), **options),
    ),
    (
        "shuffle",
        "(Tensor x, int group_size, int axis=1) -> Tensor",
        lambda group_size, axis=1: (group_size, axis),
        partial(shuffle_new, "shuffle"),
    ),
    (
        "shuffle_channels",
        "(Tensor x, int group=1, int axis=1) -> Tensor",
        lambda group=1, axis=1: (group, axis),
        partial(shuffle_new, "shuffle_channels"),
    ),
):
    _register_linear(*_row)


# --- entry points -------------------------------------------------------------------------------------------


def tensor_of(x: Any) -> Any:
    """Return `x` if an operator accepts it: a tensor with strides, or a proxy of torch.fx."""
    if isinstance(x, torch.Tensor):
        check_device(x)
        check_strided(x, "restride.torch: x")
        return x
    if hasattr(type(x), "__torch_function__"):
        return x
    raise refuse("RS-A17:no-tensor", type=type(x).__name__)


def tag_text_of(dst: Any, x: Any) -> str:
    """Return the tag of a format that is not a str."""
    key = plain_text(dst)
    return tag_of(order_by_stride(tensor_of(x))) if key in (None, "preserve_format") else tag_text(key)


def parse_scale(scale: Any) -> Any:
    """Return a scale for operators. Raises InvalidArguments for anything but a number."""
    if scale is None or type(scale) is float or is_symbol(scale):
        return scale
    return to_factor(scale, "scale")


def shuffled(call: str, x: Any, number: Any, axis: Any) -> Any:
    """Apply a shuffle whose groups are counted as in `call`, with all derivatives.

    Raises InvalidArguments for an invalid count; symbols of a compiler or a tracer are passed through.
    """
    if type(number) is not int or type(axis) is not int:
        rule = RULES[call]
        number = number if is_symbol(number) else rule.parse(0, number)[1]
        axis = axis if is_symbol(axis) else rule.parse(axis, 1)[0]
    if is_plain(x):
        return shuffle_new(call, x, number, axis)
    return apply_linear("shuffle" if call == "shuffle" else "shuffle_channels", tensor_of(x), number, axis)
