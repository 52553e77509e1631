"""restride for JAX: functions with all derivatives, inside `jit` and on concrete arrays.

`import restride.jax` imports jax. Inside `jit`, XLA calls the kernels itself, from its own threads, through
handlers of its foreign function interface. `grad`, `jvp`, `vmap` and so on work: the functions are linear,
products are linear in each factor, and attention is differentiated through its formula in JAX. Outside `jit`,
`restride.reorder` and the others accept JAX arrays too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

try:
    import jax
except ModuleNotFoundError as error:
    if error.name != "jax":
        raise
    raise ModuleNotFoundError("restride.jax needs JAX: pip install 'restride[jax]'", name="jax") from None
import numpy as np

from .arrays.calls.formats import plain_order, tag_text
from .arrays.groups import CHANNEL_SHUFFLE, SHUFFLE, SHUFFLE_CHANNELS
from .arrays.jax.attention import attended
from .arrays.jax.kernels import (
    ReorderKind,
    array_of,
    check_type,
    differentiable,
    factor_of,
    is_at_hand,
    parse_dtype,
    reorder_p,
    shuffled,
)
from .arrays.jax.products import convolved, multiplied
from .arrays.reorders import reorder as reorder_array
from .desc.tag_names import LETTERS
from .dtypes import DataType
from .errors import Error

if TYPE_CHECKING:
    from .typing import FormatLike, TypeLike

__all__ = [
    "attention",
    "channel_shuffle",
    "convolution",
    "deconvolution",
    "linear",
    "matmul",
    "reorder",
    "shuffle",
    "shuffle_channels",
]


def reorder(
    x: jax.Array | np.ndarray[Any, Any],
    dst: FormatLike = None,
    *,
    dtype: TypeLike | None = None,
    scale: float | None = None,
) -> jax.Array:
    """Convert to another type and layout: `scale * x`, saturated and rounded once (N1).

    `dst`: a plain format, such as "nhwc"; None: row-major. Dims are logical and do not change. Outside `jit`
    the result has the layout `dst`; inside `jit` the kernel writes that layout, and XLA may move it again.
    `dtype`: a type of NumPy or JAX, or its name; by default that of `x`. `scale`: a number known when the
    program is traced. The gradient has the type of `x`; integers have none.

    Raises InvalidArguments for a blocked format, for which `rs.reorder` returns a `rs.Memory`; Unimplemented
    for 4-bit types, and for 64-bit ones unless JAX enables them.
    """
    array = array_of("reorder", x)
    try:
        tag = LETTERS[: array.ndim] if dst is None else tag_text(dst)
        order = plain_order("restride.jax.reorder", tag, array.ndim)
        kind = np.dtype(array.dtype) if dtype is None else parse_dtype(dtype)
        factor = factor_of(scale)
        for element_type in (array.dtype, kind):
            check_type("reorder", element_type)
            DataType.parse(element_type)
    except Error as error:
        error.drop_frames()
        raise
    if is_at_hand(array):
        return reorder_array(array, "".join(LETTERS[d] for d in order), dtype=kind, scale=scale)
    return reorder_p.bind(differentiable(array, kind), kind=ReorderKind(order, kind, factor))


def shuffle(x: jax.Array | np.ndarray[Any, Any], *, group_size: int, axis: int = 1) -> jax.Array:
    """Apply oneDNN's shuffle to an array, as `rs.shuffle`; any type of 1, 2, 4 or 8 bytes."""
    return shuffled(SHUFFLE, x, axis, group_size)


def shuffle_channels(x: jax.Array | np.ndarray[Any, Any], *, group: int = 1, axis: int = 1) -> jax.Array:
    """Apply OpenVINO's ShuffleChannels to an array, as `rs.shuffle_channels`."""
    return shuffled(SHUFFLE_CHANNELS, x, axis, group)


def channel_shuffle(x: jax.Array | np.ndarray[Any, Any], groups: int) -> jax.Array:
    """Apply `torch.nn.functional.channel_shuffle` to an array."""
    return shuffled(CHANNEL_SHUFFLE, x, 1, groups)


def matmul(
    x: jax.Array | np.ndarray[Any, Any],
    weights: jax.Array | np.ndarray[Any, Any],
    bias: jax.Array | np.ndarray[Any, Any] | None = None,
    *,
    dtype: TypeLike | None = None,
) -> jax.Array:
    """Return the matrix product `x @ weights + bias`, as `rs.matmul`, of row-major JAX arrays.

    `x`: (..., M, K). `weights`: (K, N), or (..., K, N) with as many dims as `x`, where dims of 1 are
    broadcast. `bias`: (N). `dtype`: the type of the result, by default that of `x`, or s32 if `x` has an
    integer type. Gradients have the types of their inputs; integers have none.

    Raises InvalidArguments for dims that do not match, Unimplemented for unsupported combinations of types.
    """
    return multiplied("matmul", x, weights, bias, dtype, turns_right=False)


def linear(
    x: jax.Array | np.ndarray[Any, Any],
    weights: jax.Array | np.ndarray[Any, Any],
    bias: jax.Array | np.ndarray[Any, Any] | None = None,
    *,
    dtype: TypeLike | None = None,
) -> jax.Array:
    """Multiply by weights of shape (outputs, inputs): `x @ weights.T + bias`; otherwise as `matmul`."""
    return multiplied("linear", x, weights, bias, dtype, turns_right=True)


def convolution(
    x: jax.Array | np.ndarray[Any, Any],
    weights: jax.Array | np.ndarray[Any, Any],
    bias: jax.Array | np.ndarray[Any, Any] | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    dtype: TypeLike | None = None,
    channels_last: bool = False,
) -> jax.Array:
    """Convolve a batch over one to three spatial dims, as `rs.convolution`, on JAX arrays.

    `x`: (N, C, ...). `weights`: (O, C / groups, ...). `bias`: (O). `stride`, `padding`, `dilation`: one
    number, or one for each spatial dim; a dilation of 1 is dense. `dtype` and gradients: as in `matmul`.
    `channels_last`: `x` and the result are (N, ..., C), and weights (..., C / groups, O), as in Flax.

    Raises InvalidArguments for dims that do not match, Unimplemented for unsupported combinations of types.
    """
    rules = stride, padding, dilation, groups
    return convolved("convolution", (x, weights, bias), rules, dtype, is_last=channels_last)


def deconvolution(
    x: jax.Array | np.ndarray[Any, Any],
    weights: jax.Array | np.ndarray[Any, Any],
    bias: jax.Array | np.ndarray[Any, Any] | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    dtype: TypeLike | None = None,
    channels_last: bool = False,
) -> jax.Array:
    """Transposed convolution of JAX arrays: the gradient of a convolution with respect to its source.

    `x`: (N, C, ...). `weights`: (C, O / groups, ...). `bias`: (O). `stride`, `padding`, `dilation`: those of
    that convolution. `output_padding`: extra points at the end of each spatial dim, fewer than its stride.
    `dtype`: as in `matmul`. `channels_last`: as in `convolution`, but weights are (..., O / groups, C), as
    JAX and Flax take them with `transpose_kernel=True`.
    Raises InvalidArguments for dims that do not match, Unimplemented for unsupported combinations of types.
    """
    rules = stride, padding, dilation, groups, output_padding
    return convolved("deconvolution", (x, weights, bias), rules, dtype, is_last=channels_last)


def attention(
    q: jax.Array | np.ndarray[Any, Any],
    k: jax.Array | np.ndarray[Any, Any],
    v: jax.Array | np.ndarray[Any, Any],
    *,
    mask: jax.Array | np.ndarray[Any, Any] | None = None,
    lengths: jax.Array | np.ndarray[Any, Any] | int | None = None,
    sinks: jax.Array | np.ndarray[Any, Any] | None = None,
    scale: float | None = None,
    causal: bool | str = False,
    window: Sequence[int] | None = None,
    soft_cap: float = 0.0,
) -> jax.Array:
    """Scaled dot-product attention, as `rs.attention`, of row-major JAX arrays.

    `q`: (batch, heads, queries, width), whereas JAX's own function puts positions before heads. `lengths` can
    be traced; `scale`, `causal`, `window` and `soft_cap` must be known when the program is traced.
    Derivatives of all orders use JAX's functions, which compute all scores again.

    Raises InvalidArguments for dims that do not match, Unimplemented for integers.
    """
    operands = q, k, v, mask, lengths, sinks
    return attended(operands, (scale, causal, window, soft_cap))


def __dir__() -> list[str]:
    return sorted(__all__)
