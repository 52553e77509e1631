"""restride for JAX: functions for programs, with every derivative, and for arrays at hand.

`import restride.jax` imports jax. Inside `jit` XLA calls the kernels itself, from its own threads, through
handlers of its foreign function interface; `grad`, `jvp`, `vmap` and their like work, as all of these
functions are linear, products in each factor. `restride.reorder` and the others take arrays of JAX too,
outside of programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .arrays.calls.formats import parse_type, plain_order, tag_text
from .arrays.calls.product_arguments import numbers_of_dims
from .arrays.calls.product_calls import SlidingWindow
from .arrays.groups import CHANNEL_SHUFFLE, SHUFFLE, SHUFFLE_CHANNELS, Rule
from .arrays.jax.arrays import check_width
from .arrays.jax.kernels import check_type, factor_of, reorder_p, shuffle_p
from .arrays.jax.products import ConvolutionKind, Kind, MatmulKind, check_product, product_p
from .arrays.products import outputs_and_kernel
from .arrays.reorders import reorder as reorder_array
from .desc.memory_desc import MemoryDesc
from .desc.parse import parse_int
from .desc.tag_names import LETTERS
from .dtypes import DataType
from .errors import Error, refuse

if TYPE_CHECKING:
    from .typing import FormatLike, TypeLike

__all__ = [
    "channel_shuffle",
    "convolution",
    "linear",
    "matmul",
    "reorder",
    "shuffle",
    "shuffle_channels",
]

_MATRIX = 2


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
    array = _array("reorder", x)
    try:
        order = tuple(range(array.ndim)) if dst is None else _order(dst, array.ndim)
        kind = np.dtype(array.dtype) if dtype is None else _type(dtype)
        factor = factor_of(scale)
        for each in (array.dtype, kind):
            check_type("reorder", each)
            DataType.parse(each)
    except Error as error:
        error.drop_frames()
        raise
    if _is_at_hand(array):
        return reorder_array(array, "".join(LETTERS[d] for d in order), dtype=kind, scale=scale)
    return reorder_p.bind(_differentiable(array, kind), order=order, dtype=kind, factor=factor)


def shuffle(x: jax.Array | np.ndarray[Any, Any], *, group_size: int, axis: int = 1) -> jax.Array:
    """oneDNN's shuffle of an array; as `rs.shuffle`, of any type of 1, 2, 4 or 8 bytes."""
    return _shuffled(SHUFFLE, x, axis, group_size)


def shuffle_channels(x: jax.Array | np.ndarray[Any, Any], *, group: int = 1, axis: int = 1) -> jax.Array:
    """OpenVINO's ShuffleChannels of an array; as `rs.shuffle_channels`."""
    return _shuffled(SHUFFLE_CHANNELS, x, axis, group)


def channel_shuffle(x: jax.Array | np.ndarray[Any, Any], groups: int) -> jax.Array:
    """`torch.nn.functional.channel_shuffle` of an array."""
    return _shuffled(CHANNEL_SHUFFLE, x, 1, groups)


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
    return _multiplied("matmul", x, weights, bias, dtype, turns_right=False)


def linear(
    x: jax.Array | np.ndarray[Any, Any],
    weights: jax.Array | np.ndarray[Any, Any],
    bias: jax.Array | np.ndarray[Any, Any] | None = None,
    *,
    dtype: TypeLike | None = None,
) -> jax.Array:
    """The product with weights of (outputs, inputs), `x @ weights.T + bias`; the rest as in `matmul`."""
    return _multiplied("linear", x, weights, bias, dtype, turns_right=True)


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
) -> jax.Array:
    """The convolution of a batch of one to three spatial dims; as `rs.convolution`, of arrays of JAX.

    `x`: (N, C, ...). `weights`: (O, C / groups, ...). `bias`: (O). `stride`, `padding`, `dilation`: one
    number, or one for each spatial dim; a dilation of 1 is dense. `dtype`: as in `matmul`, as are gradients.

    Raises InvalidArguments for dims that do not fit, Unimplemented for types that do not go together.
    """
    source, table, shifts = _factors("convolution", x, weights, bias)
    count = source.ndim - 2
    window = SlidingWindow(
        numbers_of_dims("stride", stride, count),
        tuple(each - 1 for each in numbers_of_dims("dilation", dilation, count)),
        numbers_of_dims("padding", padding, count),
    )
    table = _grouped(table, groups)
    outputs, kernel = outputs_and_kernel(_desc(table), source.ndim)
    dims = (source.shape[0], outputs, *window.points(source.shape[2:], kernel))
    kind = ConvolutionKind(dims, _product_type(source, dtype), window)
    return _bound(kind, source, table, shifts)


def _multiplied(call: str, x: Any, weights: Any, bias: Any, dtype: Any, *, turns_right: bool) -> Any:
    source, table, shifts = _factors(call, x, weights, bias)
    if source.ndim < _MATRIX or table.ndim < _MATRIX or table.ndim not in (_MATRIX, source.ndim):
        raise refuse(
            "RS-X01:dims-weights",
            call=call,
            desc=_desc(source),
            desc2=_desc(table),
            ndim=source.ndim,
            table_ndim=table.ndim,
        )
    # One product of all rows: kernels see one long matrix.
    rows = source.reshape(-1, source.shape[-1]) if table.ndim == _MATRIX else source
    columns = table.shape[-2 if turns_right else -1]
    batch = (b if a == 1 else a for a, b in zip(rows.shape[:-2], table.shape[:-2], strict=True))
    kind = MatmulKind(
        (*batch, rows.shape[-2], columns), _product_type(source, dtype), turns_right=turns_right
    )
    made = _bound(kind, rows, table, shifts)
    return made.reshape(*source.shape[:-1], columns) if table.ndim == _MATRIX else made


def _factors(call: str, *operands: Any) -> list[Any]:
    """Factors and bias as arrays of types that kernels see; None where there is no bias."""
    found = [None if x is None else _array(call, x) for x in operands]
    for x in found:
        if x is not None:
            check_type(call, x.dtype)
    if found[0] is None or found[1] is None:
        raise refuse("RS-A17:none-no-array", call=call)
    if found[2] is not None and found[2].ndim != 1:
        raise refuse("RS-X01:bias-dims", call=call, ndims=found[2].ndim, desc=_desc(found[2]))
    return found


def _desc(x: Any) -> MemoryDesc:
    return MemoryDesc(tuple(x.shape), DataType.parse(x.dtype))


def _product_type(x: Any, dtype: Any) -> np.dtype[Any]:
    if dtype is not None:
        return _type(dtype)
    return np.dtype(x.dtype) if _is_real(x.dtype) else np.dtype(np.int32)


def _grouped(weights: Any, groups: Any) -> Any:
    """Weights with a dim of groups where there are more than one."""
    number = parse_int(groups, "convolution: groups")
    if number == 1:
        return weights
    if number < 1 or not weights.ndim or weights.shape[0] % number:
        raise refuse("RS-X01:every-group-many-outputs", number=number, shape=weights.shape)
    return weights.reshape(number, weights.shape[0] // number, *weights.shape[1:])


def _bound(kind: Kind, *operands: Any) -> Any:
    """A product of arrays, checked as its primitive checks it."""
    found = [_differentiable(x, kind.dtype) for x in operands if x is not None]
    check_product(kind, *found)
    return product_p.bind(*found, kind=kind)


def _shuffled(rule: Rule, x: Any, axis: Any, number: Any) -> Any:
    array = _array(rule.call, x)
    at, group_size = rule.split(array.shape, *rule.parse(axis, number))
    return shuffle_p.bind(_differentiable(array, array.dtype), axis=at, group_size=group_size)


def _differentiable(x: Any, dtype: Any) -> Any:
    """`x`, cut off from gradients where it or what is made of it has none."""
    return x if _is_real(x.dtype) and _is_real(dtype) else jax.lax.stop_gradient(x)


@lru_cache(maxsize=64)
def _is_real(dtype: Any) -> bool:
    return bool(jax.numpy.issubdtype(dtype, jax.numpy.inexact))


def _array(call: str, x: Any) -> Any:
    """`x` as an array of JAX, of elements that kernels see as XLA keeps them."""
    if isinstance(x, jax.Array | np.ndarray | np.generic):
        # Before JAX looks at it: of objects and texts it makes nothing.
        check_type(call, x.dtype)
        return x if isinstance(x, jax.Array) else jax.numpy.asarray(x)
    raise refuse("RS-A17:no-array", type=type(x).__name__)


def _order(dst: Any, ndims: int) -> tuple[int, ...]:
    return plain_order("restride.jax.reorder", tag_text(dst), ndims)


def _type(dtype: Any) -> np.dtype[Any]:
    twin = parse_type(dtype).numpy
    found = np.dtype(np.void) if twin is None else twin
    check_width(found)
    return found


def _is_at_hand(x: Any) -> bool:
    """True for an array whose bytes are there, on one CPU device."""
    if isinstance(x, jax.core.Tracer) or len(x.devices()) != 1:
        return False
    return bool(next(iter(x.devices())).platform == "cpu")


def __dir__() -> list[str]:
    """The public names, and nothing else."""
    return sorted(__all__)
