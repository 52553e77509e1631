"""restride for PyTorch: operators that autograd and torch.compile know, and a module.

`import restride.torch` imports torch and registers `torch.ops.restride.reorder`, `.shuffle` and
`.shuffle_channels`. The functions here call the kernels directly where nothing but the result is wanted,
which spares torch's dispatch; where gradients are recorded, and under torch.compile, they are the operators.
"""

from __future__ import annotations

from typing import Any

import torch

from .errors import InvalidArguments, Unimplemented
from .frameworks.groups import SHUFFLE, SHUFFLE_CHANNELS
from .frameworks.torch_kernels import (
    dtype_of,
    empty,
    order_by_stride,
    order_of,
    reorder_into,
    reorder_new,
    shuffle_into,
)

__all__ = ["ChannelShuffle", "channel_shuffle", "reorder", "shuffle", "shuffle_channels"]

_LIBRARY = torch.library.Library("restride", "DEF")
_LIBRARY.define("reorder(Tensor x, str dst, *, ScalarType? dtype=None, float? scale=None) -> Tensor")
_LIBRARY.define(
    "reorder.order(Tensor x, int[] order, *, ScalarType? dtype=None, float? scale=None) -> Tensor"
)
_LIBRARY.define("shuffle(Tensor x, int group_size, int axis=1) -> Tensor")
_LIBRARY.define("shuffle_channels(Tensor x, int group=1, int axis=1) -> Tensor")


# --- kernels and what they make of fake tensors ---------------------------------------------------------


def _refuse_tangents(x: Any) -> None:
    """Raise where forward-mode derivatives are wanted: torch would take them for zero without a word."""
    if torch.autograd.forward_ad._current_level < 0:
        return
    if torch.autograd.forward_ad.unpack_dual(x).tangent is not None:
        raise _no_tangents()


def _no_tangents() -> Unimplemented:
    return Unimplemented(
        "restride.torch: forward-mode derivatives",
        code="RS-A17",
        why="the operators have gradients, but no tangents",
        hint="use backward(), or shuffle and reorder the tangent: both are linear",
    )


def _reorder(x: Any, dst: str, *, dtype: Any = None, scale: float | None = None) -> Any:
    _refuse_tangents(x)
    return reorder_new(x, dst, dtype, scale)


def _reorder_by_order(x: Any, order: list[int], *, dtype: Any = None, scale: float | None = None) -> Any:
    _refuse_tangents(x)
    return reorder_into(x, empty(x, order, dtype), scale)


def _shuffle(x: Any, group_size: int, axis: int = 1) -> Any:
    _refuse_tangents(x)
    return shuffle_into(x, torch.empty_like(x), SHUFFLE, axis, group_size)


def _shuffle_channels(x: Any, group: int = 1, axis: int = 1) -> Any:
    _refuse_tangents(x)
    return shuffle_into(x, torch.empty_like(x), SHUFFLE_CHANNELS, axis, group)


def _fake_reorder(x: Any, dst: str, *, dtype: Any = None, scale: float | None = None) -> Any:
    return empty(x, order_of(dst, x.dim()), dtype)


def _fake_by_order(x: Any, order: list[int], *, dtype: Any = None, scale: float | None = None) -> Any:
    return empty(x, order, dtype)


def _fake_shuffle(x: Any, *_: int) -> Any:
    return torch.empty_like(x)


# --- gradients ------------------------------------------------------------------------------------------


def _keep_layout(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    x = inputs[0]
    ctx.order, ctx.dtype, ctx.scale = order_by_stride(x), x.dtype, keyword_only_inputs["scale"]


def _reorder_back(ctx: Any, grad: Any) -> Any:
    """The gradient in the layout and the type of `x`."""
    back = torch.ops.restride.reorder.order(grad, ctx.order, dtype=ctx.dtype, scale=ctx.scale)
    return back, None


def _keep_groups(ctx: Any, inputs: Any, output: Any) -> None:
    x, number, axis = inputs
    ctx.groups, ctx.axis = x.shape[axis] // number, axis


def _shuffle_back(ctx: Any, grad: Any) -> Any:
    """A shuffle undoes a shuffle: the group size and the number of groups change places."""
    return torch.ops.restride.shuffle(grad, ctx.groups, ctx.axis), None, None


def _shuffle_channels_back(ctx: Any, grad: Any) -> Any:
    return torch.ops.restride.shuffle_channels(grad, ctx.groups, ctx.axis), None, None


def _register(name: str, kernel: Any, fake: Any, backward: Any, setup: Any) -> None:
    _LIBRARY.impl(name, kernel, "CPU")
    torch.library.register_fake(f"restride::{name}", fake, lib=_LIBRARY)
    torch.library.register_autograd(f"restride::{name}", backward, setup_context=setup, lib=_LIBRARY)


_register("reorder", _reorder, _fake_reorder, _reorder_back, _keep_layout)
_register("reorder.order", _reorder_by_order, _fake_by_order, _reorder_back, _keep_layout)
_register("shuffle", _shuffle, _fake_shuffle, _shuffle_back, _keep_groups)
_register("shuffle_channels", _shuffle_channels, _fake_shuffle, _shuffle_channels_back, _keep_groups)


# --- functions ------------------------------------------------------------------------------------------


def reorder(x: Any, dst: str, *, dtype: Any = None, scale: float | None = None) -> Any:
    """Copy a tensor into another memory format and type: `scale * x`, saturated and rounded once (N1).

    `dst`: a plain format, as "nhwc", which is torch's channels_last. `dtype`: of torch, or by its name; that
    of `x` unless given. The gradient has the layout and the type of `x`.

    Raises InvalidArguments for a blocked format, for which `rs.reorder` makes a `rs.Memory`.
    """
    kind = None if dtype is None else dtype_of(dtype)
    if _is_plain(x):
        return _reorder(x, dst, dtype=kind, scale=scale)
    return torch.ops.restride.reorder(_tensor(x), dst, dtype=kind, scale=scale)


def shuffle(x: Any, *, group_size: int, axis: int = 1) -> Any:
    """oneDNN's shuffle of a tensor, in the layout of `x` (S04); as `rs.shuffle`."""
    if _is_plain(x):
        return _shuffle(x, group_size, axis)
    return torch.ops.restride.shuffle(_tensor(x), group_size, axis)


def shuffle_channels(x: Any, *, group: int = 1, axis: int = 1) -> Any:
    """OpenVINO's ShuffleChannels of a tensor, in the layout of `x`; as `rs.shuffle_channels`."""
    if _is_plain(x):
        return _shuffle_channels(x, group, axis)
    return torch.ops.restride.shuffle_channels(_tensor(x), group, axis)


def channel_shuffle(x: Any, groups: int) -> Any:
    """`torch.nn.functional.channel_shuffle`, in the layout of `x`."""
    return shuffle_channels(x, group=groups)


class ChannelShuffle(torch.nn.Module):  # type: ignore[misc]
    """A drop-in for `torch.nn.ChannelShuffle(groups)`: the channels, axis 1, in `groups` groups.

    Raises InvalidArguments when called with channels that `groups` does not divide.
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, x: Any) -> Any:
        """The shuffled tensor, in the layout of `x`."""
        return channel_shuffle(x, self.groups)

    def extra_repr(self) -> str:
        """What stands in the module's repr, as in torch's."""
        return f"groups={self.groups}"


# Every private name of torch that is used, in one place; where one is missing, calls go by the operators.
_c = torch._C
_modes = getattr(_c, "_len_torch_dispatch_stack", lambda: 1)
_transforms = getattr(getattr(_c, "_functorch", None), "peek_interpreter_stack", lambda: True)
_is_tracing = getattr(_c, "_is_tracing", lambda: True)


def _is_plain(x: Any) -> bool:
    """True where the result is all that is wanted: no gradient, compiler, tracer, mode or transform."""
    if torch.compiler.is_compiling() or type(x) is not torch.Tensor or not x.is_cpu:
        return False
    if x.requires_grad and torch.is_grad_enabled():
        return False
    if x.layout is not torch.strided or x.is_conj() or x.is_neg() or x.is_quantized:
        return False
    return not (
        _modes()
        or _transforms() is not None
        or _is_tracing()
        or torch.autograd.forward_ad._current_level >= 0
    )


def _transform() -> str:
    """The transform of torch.func that is going on, by its name."""
    innermost = _transforms()
    return str(innermost.key()) if hasattr(innermost, "key") else ""


def _tensor(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        # The kernels do not see the tangents of this transform.
        if not torch.compiler.is_compiling() and "Jvp" in _transform():
            raise _no_tangents()
        return x
    raise InvalidArguments(
        f"restride.torch: {type(x).__name__} is no tensor",
        code="RS-A17",
        why="these functions take tensors of torch",
        hint="use the function of the same name in restride, which takes any array",
    )
