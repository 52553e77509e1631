"""restride for JAX: functions for programs, with every derivative, and for arrays at hand.

`import restride.jax` imports jax. Inside `jit` XLA calls the kernels itself, from its own threads, through
handlers of its foreign function interface; `grad`, `jvp`, `vmap` and their like work: the functions are
linear, products in each factor, and attention has its formula in JAX beside it. `restride.reorder` and the
others take arrays of JAX too, outside of programs.
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
    """Convert into another type and layout: `scale * x`, saturated and rounded once (N1).

    `dst`: a plain format, as "nhwc"; None: row-major. Dims are logical and do not change. At hand the result
    lies as `dst` says; inside `jit` the kernel writes it so, and XLA may move it on. `dtype`: of NumPy, of
    JAX, or by its name; that of `x` unless given. `scale`: a number, known when the program is traced. The
    gradient has the type of `x`; integers have none.

    Raises InvalidArguments for a blocked format, for which `rs.reorder` makes a `rs.Memory`, Unimplemented
    for 4-bit types, and for 64-bit ones unless JAX keeps them.
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
    """oneDNN's shuffle of an array; as `rs.shuffle`, of any type of 1, 2, 4 or 8 bytes."""
    return shuffled(SHUFFLE, x, axis, group_size)


def shuffle_channels(x: jax.Array | np.ndarray[Any, Any], *, group: int = 1, axis: int = 1) -> jax.Array:
    """OpenVINO's ShuffleChannels of an array; as `rs.shuffle_channels`."""
    return shuffled(SHUFFLE_CHANNELS, x, axis, group)


def channel_shuffle(x: jax.Array | np.ndarray[Any, Any], groups: int) -> jax.Array:
    """`torch.nn.functional.channel_shuffle` of an array."""
    return shuffled(CHANNEL_SHUFFLE, x, 1, groups)


def matmul(
    x: jax.Array | np.ndarray[Any, Any],
    weights: jax.Array | np.ndarray[Any, Any],
    bias: jax.Array | np.ndarray[Any, Any] | None = None,
    *,
    dtype: TypeLike | None = None,
) -> jax.Array:
    """The product of matrices, `x @ weights + bias`; as `rs.matmul`, of arrays of JAX, row-major.

    `x`: (..., M, K). `weights`: (K, N), or (..., K, N) with as many dims as `x`, of which those of 1 are
    repeated. `bias`: (N). `dtype`: of the result, that of `x`, and s32 where `x` is of integers, unless it is
    named. Gradients have the types of what they are of; integers have none.

    Raises InvalidArguments for dims that do not fit, Unimplemented for types that do not go together.
    """
    return multiplied("matmul", x, weights, bias, dtype, turns_right=False)


def linear(
    x: jax.Array | np.ndarray[Any, Any],
    weights: jax.Array | np.ndarray[Any, Any],
    bias: jax.Array | np.ndarray[Any, Any] | None = None,
    *,
    dtype: TypeLike | None = None,
) -> jax.Array:
    """The product with weights of (outputs, inputs), `x @ weights.T + bias`; the rest as in `matmul`."""
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
    """The convolution of a batch of one to three spatial dims; as `rs.convolution`, of arrays of JAX.

    `x`: (N, C, ...). `weights`: (O, C / groups, ...). `bias`: (O). `stride`, `padding`, `dilation`: one
    number, or one for each spatial dim; a dilation of 1 is dense. `dtype`: as in `matmul`, as are gradients.
    `channels_last`: the result and `x` are (N, ..., C), and weights (..., C / groups, O), as in Flax.

    Raises InvalidArguments for dims that do not fit, Unimplemented for types that do not go together.
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
    """The transposed convolution, of arrays of JAX: what the gradient of a convolution's source is.

    `x`: (N, C, ...). `weights`: (C, O / groups, ...). `bias`: (O). `stride`, `padding`, `dilation`: those of
    that convolution. `output_padding`: points more at the end of each spatial dim, less than its stride.
    `dtype`: as in `matmul`. `channels_last`: as in `convolution`; weights are (..., O / groups, C) then, as
    JAX and Flax take them with `transpose_kernel=True`.

    Raises InvalidArguments for dims that do not fit, Unimplemented for types that do not go together.
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
    """Scaled dot-product attention; as `rs.attention`, of arrays of JAX, row-major.

    `q`: (batch, heads, queries, width), where JAX's own has positions before heads. `lengths` may be known in
    the run alone; `scale`, `causal`, `window` and `soft_cap` are known when the program is traced.
    Derivatives of every order are by JAX's functions, of all scores once more.

    Raises InvalidArguments for dims that do not fit, Unimplemented for integers.
    """
    operands = q, k, v, mask, lengths, sinks
    return attended(operands, (scale, causal, window, soft_cap))


def __dir__() -> list[str]:
    """The public names, and nothing else."""
    return sorted(__all__)
