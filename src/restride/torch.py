"""restride for PyTorch: operators for autograd and torch.compile, and a module.

`import restride.torch` imports torch and registers `torch.ops.restride.reorder`, `.shuffle`,
`.shuffle_channels`, `.softmax`, `.layer_norm`, `.pool` and `.attention`. Where no gradient is recorded, the
functions here call the kernels directly, which avoids torch's dispatch; otherwise, and under torch.compile,
they call the operators.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import TYPE_CHECKING, Any, Never

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(
        "restride.torch needs PyTorch: pip install 'restride[torch]'", name="torch"
    ) from None

from .arrays.activations import softmax as softmax_arrays
from .arrays.norms import layer_norm as layer_norm_arrays
from .arrays.norms import parse_epsilon
from .arrays.pools import parse_alg
from .arrays.pools import pool as pool_arrays
from .arrays.torch.attention import attended
from .arrays.torch.kernels import dtype_of, reorder_new
from .arrays.torch.layers import pool_recorded
from .arrays.torch.modes import is_plain, refuse_derivative
from .arrays.torch.modules import Conv2d, Linear, conv2d, linear
from .arrays.torch.operators import apply_linear, parse_scale, shuffled, tag_text_of, tensor_of
from .arrays.torch.quantized import QuantizedLinear, quantize_layers
from .arrays.torch.rnn import RNNWeights, rnn_weights, set_rnn_weights
from .desc.parse import parse_bool, parse_int, short_repr
from .errors import Error, raises_at_the_call, refuse
from .graph.importers.torch.module import CompiledModule, compile_module
from .loading import load_whole

if TYPE_CHECKING:
    from .desc.viewer import Explanation
    from .typing import FormatLike, TypeLike

__all__ = [
    "ChannelShuffle",
    "CompiledModule",
    "Conv2d",
    "Linear",
    "QuantizedLinear",
    "RNNWeights",
    "channel_shuffle",
    "compile_module",
    "conv2d",
    "explain",
    "layer_norm",
    "linear",
    "pool",
    "quantize_",
    "refresh",
    "reorder",
    "rnn_weights",
    "scaled_dot_product_attention",
    "set_rnn_weights",
    "shuffle",
    "shuffle_channels",
    "softmax",
]


def reorder(
    x: torch.Tensor,
    dst: FormatLike | torch.memory_format = None,
    *,
    dtype: TypeLike | None = None,
    scale: float | None = None,
) -> torch.Tensor:
    """Copy a tensor to another memory format and type: `scale * x`, saturated and rounded once (N1).

    `dst`: a plain format, such as "nhwc" or `torch.channels_last`; None keeps the order of the axes. `dtype`:
    a torch type or its name; by default that of `x`. The gradient has the layout and the type of `x`.

    Raises InvalidArguments for a blocked format, for which `rs.reorder` returns a `rs.Memory`.
    """
    try:
        if isinstance(x, torch.Tensor) and not x.dim() and dst in (None, torch.preserve_format):
            return reorder(x[None], dtype=dtype, scale=scale)[0]
        kind = None if dtype is None else dtype_of(dtype)
        tag = dst if type(dst) is str else tag_text_of(dst, x)
        if is_plain(x):
            return reorder_new(x, tag, kind, scale)
        return apply_linear("reorder", tensor_of(x), tag, kind, parse_scale(scale))
    except Error as error:
        error.drop_frames()
        raise


def shuffle(x: torch.Tensor, *, group_size: int, axis: int = 1) -> torch.Tensor:
    """Apply oneDNN's shuffle to a tensor, keeping the layout of `x`, as `rs.shuffle`."""
    return shuffled("shuffle", x, group_size, axis)


def shuffle_channels(x: torch.Tensor, *, group: int = 1, axis: int = 1) -> torch.Tensor:
    """Apply OpenVINO's ShuffleChannels to a tensor, keeping the layout of `x`, as `rs.shuffle_channels`."""
    return shuffled("shuffle_channels", x, group, axis)


def channel_shuffle(x: torch.Tensor, groups: int) -> torch.Tensor:
    """`torch.nn.functional.channel_shuffle`, keeping the layout of `x`."""
    return shuffled("channel_shuffle", x, groups, 1)


def softmax(x: torch.Tensor, axis: int = -1, *, log: bool = False) -> torch.Tensor:
    """Return `e**(x - m) / s` along an axis, or its logarithm, in the layout of `x`, as `rs.softmax`."""
    if isinstance(x, torch.Tensor) and not x.dim():
        return softmax(x[None], axis, log=log)[0]
    if is_plain(tensor_of(x)):
        return softmax_arrays(x.detach(), axis, log=log)
    refuse_derivative("softmax")
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
    """Return `(x - mean) / sqrt(variance + epsilon) * scale + shift` along an axis, in the layout of `x`, as
    `rs.layer_norm`. `axis=1` normalizes the channels of images, for which torch's own needs a transpose.
    """
    operands = [tensor_of(x), *(tensor_of(tensor) for tensor in (scale, shift) if tensor is not None)]
    if all(map(is_plain, operands)):
        weights = (None if tensor is None else tensor.detach() for tensor in (scale, shift))
        return layer_norm_arrays(x.detach(), *weights, axis=axis, epsilon=epsilon)
    refuse_derivative("layer_norm")
    if not torch.compiler.is_compiling():
        axis, epsilon = parse_int(axis, "layer_norm: axis"), parse_epsilon("layer_norm", epsilon)
    if x.dim() == 1 and axis in (0, -1):  # a single row
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
    """Return the maximum or the average of each window, in the layout of `x`, as `rs.pool`."""
    if is_plain(tensor_of(x)):
        how = {"alg": alg, "stride": stride, "padding": padding, "dilation": dilation}
        return pool_arrays(x.detach(), kernel, **how)
    return pool_recorded(x, parse_alg(alg), kernel, stride, padding, dilation)


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """`torch.nn.functional.scaled_dot_product_attention`, in the layout of `query`: interleaved heads are
    read in place. `is_causal` aligns the first query with the first key; `rs.attention` has more options.
    Queries without any visible key get zeros.

    Raises Unimplemented for a nonzero `dropout_p`, InvalidArguments for dims that do not match.
    """
    if dropout_p != 0:
        raise refuse("RS-A17:dropout", dropout_p=short_repr(dropout_p))
    return attended((query, key, value), attn_mask, scale, is_causal=is_causal, in_groups=enable_gqa)


@raises_at_the_call
def quantize_(
    model: torch.nn.Module,
    dtype: TypeLike,
    filter_fn: Callable[[torch.nn.Module, str], bool] | None = None,
    *,
    group: Any = None,
    symmetric: bool = True,
    scale_type: TypeLike = "f32",
    fpmath_mode: str = "strict",
    **other: Never,
) -> None:
    """Quantize a model's linear layers in place, after torchao: each becomes a `QuantizedLinear`.

    dtype      as in `rs.quantize`: "int4", "u4", "int8", "f8_e4m3", "mxfp4", "nvfp4", "q4_k" and others
    filter_fn  called with each `nn.Linear` and its name in the model: True for those to quantize. By default
               all of class `nn.Linear` and `Linear`
    group      number of inputs that share a scale; by default all of an output, or the group size of the type
    symmetric, scale_type  as in `rs.quantize`
    fpmath_mode  as in `rs.matmul`: "any" multiplies bytes by bytes

    Weights on the meta device become meta tensors of bytes, for `load_state_dict(..., assign=True)`.

    Raises InvalidArguments, and changes nothing, for groups that do not divide a layer's inputs, and if the
    filter selects layers of other classes or layers whose weights are computed.
    """
    if other:
        raise refuse("RS-A17:torchao", name=f"{next(iter(other))}=")
    how = {"group": group, "symmetric": symmetric, "scale_type": scale_type}
    quantize_layers(model, dtype, filter_fn, how, fpmath_mode)


@raises_at_the_call
def explain(compiled: Callable[..., Any]) -> Explanation:
    """Report where each part of a module or function compiled with the restride backend runs.

    It lists the graphs with the sizes that they were called with; the operators, steps and reorders of each
    network, and the bytes of its inputs and outputs; and the operators left to torch, with the lines that
    call them and the reasons. `compiled` is the result of `torch.compile(..., backend="restride")`, or of
    `compile_module`, whose plan for its example is returned.
    Raises InvalidArguments for anything else.
    """
    if isinstance(compiled, CompiledModule):
        return compiled.network.explain()
    load_whole("restride.graph.importers.torch.explaining")
    from .graph.importers.torch.explaining import explained

    return explained(compiled)


@raises_at_the_call
def refresh(compiled: Callable[..., Any]) -> None:
    """Pack the weights of a compiled module again at its next call.

    Needed after changes that torch does not track: through `.data`, or a NumPy array that shares the memory.
    Raises InvalidArguments for anything that torch.compile did not create.
    """
    load_whole("restride.graph.importers.torch.explaining")
    from .graph.importers.torch.explaining import graphs_of

    for graph in graphs_of(compiled):
        graph.refresh()


class ChannelShuffle(torch.nn.Module):  # type: ignore[misc]
    """Drop-in replacement for `torch.nn.ChannelShuffle(groups)`: shuffles the channels, axis 1.

    Raises InvalidArguments if `groups` does not divide the number of channels.
    """

    __constants__ = ("groups",)
    groups: int

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the shuffled tensor, in the layout of `x`."""
        if torch.jit.is_scripting():
            return torch.ops.restride.shuffle_channels(x, self.groups, 1)
        return channel_shuffle(x, self.groups)

    def extra_repr(self) -> str:
        """Return the text in the module's repr, as torch does."""
        return f"groups={self.groups}"


def __dir__() -> list[str]:
    return sorted(__all__)


def _register_backend() -> None:
    """Register the backend with torch if an older installed package has no entry point for it."""
    try:
        entries = metadata.distribution("restride").entry_points
    except metadata.PackageNotFoundError:
        entries = metadata.EntryPoints()
    if not entries.select(group="torch_dynamo_backends"):
        load_whole("restride.graph.importers.torch.backend")
        from .graph.importers.torch.backend import compile_graph

        torch._dynamo.register_backend(compile_graph, "restride")


_register_backend()
