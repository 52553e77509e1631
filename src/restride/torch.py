"""restride for PyTorch: operators that autograd and torch.compile know, and a module.

`import restride.torch` imports torch and registers `torch.ops.restride.reorder`, `.shuffle`,
`.shuffle_channels`, `.softmax`, `.layer_norm`, `.pool` and `.attention`. The functions here call the kernels
directly where nothing but the result is wanted, which spares torch's dispatch; where gradients are recorded,
and under torch.compile, they are the operators.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import TYPE_CHECKING, Any

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
    """Copy a tensor into another memory format and type: `scale * x`, saturated and rounded once (N1).

    `dst`: a plain format, as "nhwc" or `torch.channels_last`; None keeps the order of the axes. `dtype`: of
    torch, or by its name; that of `x` unless given. The gradient has the layout and the type of `x`.

    Raises InvalidArguments for a blocked format, for which `rs.reorder` makes a `rs.Memory`.
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
    """oneDNN's shuffle of a tensor, in the layout of `x`; as `rs.shuffle`."""
    return shuffled("shuffle", x, group_size, axis)


def shuffle_channels(x: torch.Tensor, *, group: int = 1, axis: int = 1) -> torch.Tensor:
    """OpenVINO's ShuffleChannels of a tensor, in the layout of `x`; as `rs.shuffle_channels`."""
    return shuffled("shuffle_channels", x, group, axis)


def channel_shuffle(x: torch.Tensor, groups: int) -> torch.Tensor:
    """`torch.nn.functional.channel_shuffle`, in the layout of `x`."""
    return shuffled("channel_shuffle", x, groups, 1)


def softmax(x: torch.Tensor, axis: int = -1, *, log: bool = False) -> torch.Tensor:
    """`e**(x - m) / s` along an axis, or the logarithm of that, in the layout of `x`; as `rs.softmax`."""
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
    """`(x - mean) / sqrt(variance + epsilon) * scale + shift` along an axis, in the layout of `x`; as
    `rs.layer_norm`. `axis=1` normalizes the channels of images, where torch's own needs a transpose.
    """
    operands = [tensor_of(x), *(tensor_of(tensor) for tensor in (scale, shift) if tensor is not None)]
    if all(map(is_plain, operands)):
        weights = (None if tensor is None else tensor.detach() for tensor in (scale, shift))
        return layer_norm_arrays(x.detach(), *weights, axis=axis, epsilon=epsilon)
    refuse_derivative("layer_norm")
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
    """`torch.nn.functional.scaled_dot_product_attention`, in the layout of `query`: heads that lie side by
    side are read so. `is_causal` counts from the first query and the first key; `rs.attention` has more.
    Queries that see no key get zeros.

    Raises Unimplemented for a `dropout_p` that is not 0, InvalidArguments for dims that do not fit.
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
) -> None:
    """Quantize the weights of a model's linear layers in place, after torchao: `QuantizedLinear` each then.

    dtype      as `rs.quantize` takes it: "int4", "u4", "int8", "f8_e4m3", "mxfp4", "nvfp4", "q4_k" and others
    filter_fn  of an `nn.Linear` and its name in the model: True for those that are quantized. All of class
               `nn.Linear` and `Linear` are, unless it is given
    group      how many inputs share a scale; all of an output, unless it is given or the type has its own
    symmetric, scale_type  as `rs.quantize` takes them
    fpmath_mode  as `rs.matmul` takes it: "any" multiplies bytes by bytes

    Weights of the meta device become bytes of that device, for `load_state_dict(..., assign=True)`.

    Raises InvalidArguments, and changes nothing, for groups that do not divide the inputs of a layer, and for
    a choice of layers of other classes, or whose weights are computed.
    """
    how = {"group": group, "symmetric": symmetric, "scale_type": scale_type}
    quantize_layers(model, dtype, filter_fn, how, fpmath_mode)


@raises_at_the_call
def explain(compiled: Callable[..., Any]) -> Explanation:
    """What runs where, of a module or a function that `torch.compile(..., backend="restride")` made; of what
    `compile_module` made, the plan for its example.

    Its graphs, with the sizes that they were called with; the operators, steps and reorders of each network,
    and the bytes that go in and out; the operators that torch runs, with the lines that call them, and why.

    Raises InvalidArguments for what neither made.
    """
    if isinstance(compiled, CompiledModule):
        return compiled.network.explain()
    load_whole("restride.graph.importers.torch.explaining")
    from .graph.importers.torch.explaining import explained

    return explained(compiled)


@raises_at_the_call
def refresh(compiled: Callable[..., Any]) -> None:
    """Pack the weights of a compiled module anew at its next call.

    For changes that torch does not count: through `.data`, or an array of NumPy over the same bytes. Raises
    InvalidArguments for what torch.compile did not make.
    """
    load_whole("restride.graph.importers.torch.explaining")
    from .graph.importers.torch.explaining import graphs_of

    for graph in graphs_of(compiled):
        graph.refresh()


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
        """The text in the module's repr, as in torch's."""
        return f"groups={self.groups}"


def __dir__() -> list[str]:
    """The public names, and nothing else."""
    return sorted(__all__)


def _register_backend() -> None:
    """Tell torch of the backend where no installed package does: its entry point may be younger than that."""
    try:
        entries = metadata.distribution("restride").entry_points
    except metadata.PackageNotFoundError:
        entries = metadata.EntryPoints()
    if not entries.select(group="torch_dynamo_backends"):
        load_whole("restride.graph.importers.torch.backend")
        from .graph.importers.torch.backend import compile_graph

        torch._dynamo.register_backend(compile_graph, "restride")


_register_backend()
