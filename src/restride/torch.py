"""restride for PyTorch: operators that autograd and torch.compile know, and a module.

`import restride.torch` imports torch and registers `torch.ops.restride.reorder`, `.shuffle`,
`.shuffle_channels`, `.softmax`, `.layer_norm` and `.pool`. The functions here call the kernels directly where
nothing but the result is wanted, which spares torch's dispatch; where gradients are recorded, and under
torch.compile, they are the operators.
"""

from __future__ import annotations

from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch

from .arrays.activations import softmax as softmax_arrays
from .arrays.calls.formats import tag_text
from .arrays.calls.tensors import check_strided
from .arrays.norms import layer_norm as layer_norm_arrays
from .arrays.norms import parse_epsilon
from .arrays.pools import parse_alg
from .arrays.pools import pool as pool_arrays
from .arrays.torch.gradients import (
    Reordered,
    Shuffled,
    axis_of_all,
    reordered,
    shuffled,
    tag_of_all,
)
from .arrays.torch.kernels import (
    dtype_of,
    empty,
    order_by_stride,
    order_of,
    parse_counts,
    parse_scale,
    reorder_new,
    shuffle_new,
    tag_of,
)
from .arrays.torch.layers import pool_with_gradient, refuse_transform
from .arrays.torch.modes import NO_KEYS, is_only_data, is_plain, refuse_derivative
from .arrays.torch.modules import Conv2d, Linear, conv2d, linear
from .arrays.torch.rnn import RNNWeights, rnn_weights, set_rnn_weights
from .desc.parse import parse_bool, parse_int
from .errors import Error, refuse
from .foreign import plain_text
from .graph.importers.torch.module import CompiledModule, compile_module

if TYPE_CHECKING:
    from .typing import FormatLike, TypeLike

__all__ = [
    "ChannelShuffle",
    "CompiledModule",
    "Conv2d",
    "Linear",
    "RNNWeights",
    "channel_shuffle",
    "compile_module",
    "conv2d",
    "layer_norm",
    "linear",
    "pool",
    "reorder",
    "rnn_weights",
    "set_rnn_weights",
    "shuffle",
    "shuffle_channels",
    "softmax",
]

_TAKES_KEYS = "with_keyset" in signature(torch.library.Library.impl).parameters
_LIBRARY = torch.library.Library("restride", "DEF")
_LIBRARY.define("reorder(Tensor x, str dst, *, ScalarType? dtype=None, float? scale=None) -> Tensor")
_LIBRARY.define(
    "reorder.order(Tensor x, int[] order, *, ScalarType? dtype=None, float? scale=None) -> Tensor"
)
_LIBRARY.define("shuffle(Tensor x, int group_size, int axis=1) -> Tensor")
_LIBRARY.define("shuffle_channels(Tensor x, int group=1, int axis=1) -> Tensor")


# --- kernels, and what they make of fake tensors --------------------------------------------------------


def _reorder(x: Any, dst: str, *, dtype: Any = None, scale: float | None = None) -> Any:
    return reorder_new(x, dst, dtype, scale)


def _reorder_by_order(x: Any, order: list[int], *, dtype: Any = None, scale: float | None = None) -> Any:
    return reorder_new(x, tag_of(order), dtype, scale)


def _shuffle(x: Any, group_size: int, axis: int = 1) -> Any:
    return shuffle_new("shuffle", x, group_size, axis)


def _shuffle_channels(x: Any, group: int = 1, axis: int = 1) -> Any:
    return shuffle_new("shuffle_channels", x, group, axis)


def _fake_reorder(x: Any, dst: str, *, dtype: Any = None, scale: float | None = None) -> Any:
    return empty(x, order_of(dst, x.dim()), dtype)


def _fake_by_order(x: Any, order: list[int], *, dtype: Any = None, scale: float | None = None) -> Any:
    return empty(x, order_of(tag_of(order), x.dim()), dtype)


def _fake_shuffle(x: Any, *_: int) -> Any:
    return torch.empty_like(x)


# --- what autograd calls: the kernel itself where no derivative is wanted, which spares half of torch's cost


def _graded_reorder(keys: Any, x: Any, dst: str, *, dtype: Any = None, scale: float | None = None) -> Any:
    if is_only_data(keys, x):
        return reorder_new(x, dst, dtype, scale)
    refuse_derivative("reorder")
    return Reordered.apply(x, dst, dtype, scale)


def _graded_by_order(
    keys: Any, x: Any, order: list[int], *, dtype: Any = None, scale: float | None = None
) -> Any:
    return _graded_reorder(keys, x, tag_of(order), dtype=dtype, scale=scale)


def _graded_shuffle(keys: Any, x: Any, group_size: int, axis: int = 1) -> Any:
    if is_only_data(keys, x):
        return shuffle_new("shuffle", x, group_size, axis)
    refuse_derivative("shuffle")
    return Shuffled.apply(x, "shuffle", group_size, axis)


def _graded_shuffle_channels(keys: Any, x: Any, group: int = 1, axis: int = 1) -> Any:
    if is_only_data(keys, x):
        return shuffle_new("shuffle_channels", x, group, axis)
    refuse_derivative("shuffle_channels")
    return Shuffled.apply(x, "shuffle_channels", group, axis)


# --- what torch.vmap calls ------------------------------------------------------------------------------


def _many_reorders(
    info: Any, in_dims: Any, x: Any, dst: str, *, dtype: Any = None, scale: float | None = None
) -> Any:
    whole = x.movedim(in_dims[0], 0)
    return torch.ops.restride.reorder(whole, tag_of_all(whole, dst), dtype=dtype, scale=scale), 0


def _many_by_order(info: Any, in_dims: Any, x: Any, order: list[int], **options: Any) -> Any:
    return _many_reorders(info, in_dims, x, tag_of(order), **options)


def _many_shuffles(info: Any, in_dims: Any, x: Any, group_size: int, axis: int = 1) -> Any:
    whole = x.movedim(in_dims[0], 0)
    at = axis_of_all("shuffle", whole, group_size, axis)
    return torch.ops.restride.shuffle(whole, group_size, at), 0


def _many_shuffles_of_channels(info: Any, in_dims: Any, x: Any, group: int = 1, axis: int = 1) -> Any:
    whole = x.movedim(in_dims[0], 0)
    at = axis_of_all("shuffle_channels", whole, group, axis)
    return torch.ops.restride.shuffle_channels(whole, group, at), 0


def _register(name: str, kernel: Any, fake: Any, graded: Any, many: Any) -> None:
    _LIBRARY.impl(name, kernel, "CPU")
    if _TAKES_KEYS:
        _LIBRARY.impl(name, graded, "Autograd", with_keyset=True)
    else:  # without keys all calls go through autograd: right, and slower
        _LIBRARY.impl(name, partial(graded, NO_KEYS), "Autograd")
    torch.library.register_fake(f"restride::{name}", fake, lib=_LIBRARY)
    register_vmap = getattr(torch.library, "register_vmap", None)
    if register_vmap is not None:  # torch 2.5; before, vmap calls the operator for each part
        register_vmap(f"restride::{name}", many, lib=_LIBRARY)


_register("reorder", _reorder, _fake_reorder, _graded_reorder, _many_reorders)
_register("reorder.order", _reorder_by_order, _fake_by_order, _graded_by_order, _many_by_order)
_register("shuffle", _shuffle, _fake_shuffle, _graded_shuffle, _many_shuffles)
_register(
    "shuffle_channels",
    _shuffle_channels,
    _fake_shuffle,
    _graded_shuffle_channels,
    _many_shuffles_of_channels,
)


# --- functions ------------------------------------------------------------------------------------------


def reorder(
    x: torch.Tensor,
    dst: FormatLike | torch.memory_format = None,
    *,
    dtype: TypeLike | None = None,
    scale: float | None = None,
) -> torch.Tensor:
    """Copy a tensor into another memory format and type: `scale * x`, saturated and rounded once (N1).

    `dst`: a plain format, as "nhwc" or `torch.channels_last`; None keeps the order of the axes. `dtype`: of
    torch, or by its name; that of `x` unless given. The gradient has the layout and the type of `x`.

    Raises InvalidArguments for a blocked format, for which `rs.reorder` makes a `rs.Memory`.
    """
    try:
        kind = None if dtype is None else dtype_of(dtype)
        tag = dst if type(dst) is str else _tag(dst, x)
        if is_plain(x):
            return reorder_new(x, tag, kind, scale)
        return reordered(_tensor(x), tag, kind, parse_scale(scale))
    except Error as error:
        error.drop_frames()
        raise


def shuffle(x: torch.Tensor, *, group_size: int, axis: int = 1) -> torch.Tensor:
    """oneDNN's shuffle of a tensor, in the layout of `x`; as `rs.shuffle`."""
    if type(group_size) is not int or type(axis) is not int:
        group_size, axis = parse_counts("shuffle", group_size, axis)
    if is_plain(x):
        return shuffle_new("shuffle", x, group_size, axis)
    return shuffled("shuffle", _tensor(x), group_size, axis)


def shuffle_channels(x: torch.Tensor, *, group: int = 1, axis: int = 1) -> torch.Tensor:
    """OpenVINO's ShuffleChannels of a tensor, in the layout of `x`; as `rs.shuffle_channels`."""
    if type(group) is not int or type(axis) is not int:
        group, axis = parse_counts("shuffle_channels", group, axis)
    if is_plain(x):
        return shuffle_new("shuffle_channels", x, group, axis)
    return shuffled("shuffle_channels", _tensor(x), group, axis)


def channel_shuffle(x: torch.Tensor, groups: int) -> torch.Tensor:
    """`torch.nn.functional.channel_shuffle`, in the layout of `x`."""
    if type(groups) is not int:
        groups, _ = parse_counts("channel_shuffle", groups, 1)
    if is_plain(x):
        return shuffle_new("channel_shuffle", x, groups, 1)
    return shuffled("shuffle_channels", _tensor(x), groups, 1)


def softmax(x: torch.Tensor, axis: int = -1, *, log: bool = False) -> torch.Tensor:
    """`e**(x - m) / s` along an axis, or the logarithm of that, in the layout of `x`; as `rs.softmax`."""
    if is_plain(_tensor(x)):
        return softmax_arrays(x.detach(), axis, log=log)
    refuse_transform("softmax")
    if not torch.compiler.is_compiling():
        axis, log = parse_int(axis, "softmax: axis"), parse_bool("log", log)
    return torch.ops.restride.softmax(x, axis, log)


def layer_norm(
    x: torch.Tensor,
    scale: torch.Tensor | None = None,
    shift: torch.Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
) -> torch.Tensor:
    """`(x - mean) / sqrt(variance + epsilon) * scale + shift` along an axis, in the layout of `x`; as
    `rs.layer_norm`. `axis=1` normalizes the channels of images, where torch's own needs a transpose.
    """
    operands = [_tensor(x), *(_tensor(each) for each in (scale, shift) if each is not None)]
    if all(map(is_plain, operands)):
        weights = (None if each is None else each.detach() for each in (scale, shift))
        return layer_norm_arrays(x.detach(), *weights, axis=axis, epsilon=epsilon)
    refuse_transform("layer_norm")
    if not torch.compiler.is_compiling():
        axis, epsilon = parse_int(axis, "layer_norm: axis"), parse_epsilon("layer_norm", epsilon)
    if x.dim() == 1 and axis in (0, -1):  # a row alone
        return torch.ops.restride.layer_norm(x[None], scale, shift, -1, epsilon)[0][0]
    return torch.ops.restride.layer_norm(x, scale, shift, axis, epsilon)[0]


def pool(
    x: torch.Tensor,
    kernel: Any = None,
    *,
    alg: str = "max",
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
) -> torch.Tensor:
    """The largest element of each window, or their average, in the layout of `x`; as `rs.pool`."""
    if is_plain(_tensor(x)):
        how = {"alg": alg, "stride": stride, "padding": padding, "dilation": dilation}
        return pool_arrays(x.detach(), kernel, **how)
    return pool_with_gradient(x, parse_alg(alg), kernel, stride, padding, dilation)


class ChannelShuffle(torch.nn.Module):  # type: ignore[misc]
    """A drop-in for `torch.nn.ChannelShuffle(groups)`: the channels, axis 1, in `groups` groups.

    Raises InvalidArguments when called with channels that `groups` does not divide.
    """

    __constants__ = ("groups",)
    groups: int

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The shuffled tensor, in the layout of `x`."""
        if torch.jit.is_scripting():
            return torch.ops.restride.shuffle_channels(x, self.groups, 1)
        return channel_shuffle(x, self.groups)

    def extra_repr(self) -> str:
        """What stands in the module's repr, as in torch's."""
        return f"groups={self.groups}"


def _tag(dst: Any, x: Any) -> str:
    """A format that is no str as the text of its tag."""
    key = plain_text(dst)
    return tag_of(order_by_stride(_tensor(x))) if key in (None, "preserve_format") else tag_text(key)


def _tensor(x: Any) -> Any:
    """`x`, if an operator can take it: a tensor with strides, or what torch.fx traces with."""
    if isinstance(x, torch.Tensor):
        check_strided(x, "restride.torch: x")
        return x
    if hasattr(type(x), "__torch_function__"):
        return x
    raise refuse("RS-A17:no-tensor", type=type(x).__name__)


def __dir__() -> list[str]:
    """The public names, and nothing else."""
    return sorted(__all__)
