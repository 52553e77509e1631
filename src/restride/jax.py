"""restride for JAX: functions for programs, with every derivative, and for arrays at hand.

`import restride.jax` imports jax. Inside `jit` XLA calls the kernels itself, from its own threads, through
handlers of its foreign function interface; `grad`, `jvp`, `vmap` and their like work, as all of these
functions are linear. `restride.reorder` and the others take arrays of JAX too, outside of programs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .arrays import reorder as reorder_array
from .desc.tag_names import LETTERS
from .dtypes import DataType
from .errors import Error, InvalidArguments
from .frontend.formats import parse_type, plain_order, tag_text
from .frontend.groups import CHANNEL_SHUFFLE, SHUFFLE, SHUFFLE_CHANNELS, Rule
from .frontend.jax_arrays import check_width
from .frontend.jax_kernels import check_type, factor_of, reorder_p, shuffle_p

if TYPE_CHECKING:
    from .typing import FormatLike, TypeLike

__all__ = ["channel_shuffle", "reorder", "shuffle", "shuffle_channels"]


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
    """oneDNN's shuffle of an array (S04); as `rs.shuffle`, of any type of 1, 2, 4 or 8 bytes."""
    return _shuffled(SHUFFLE, x, axis, group_size)


def shuffle_channels(x: jax.Array | np.ndarray[Any, Any], *, group: int = 1, axis: int = 1) -> jax.Array:
    """OpenVINO's ShuffleChannels of an array; as `rs.shuffle_channels`."""
    return _shuffled(SHUFFLE_CHANNELS, x, axis, group)


def channel_shuffle(x: jax.Array | np.ndarray[Any, Any], groups: int) -> jax.Array:
    """`torch.nn.functional.channel_shuffle` of an array."""
    return _shuffled(CHANNEL_SHUFFLE, x, 1, groups)


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
    raise InvalidArguments(
        f"restride.jax: {type(x).__name__} is no array",
        code="RS-A17",
        why="these functions take arrays of JAX and of NumPy",
        hint="use the function of the same name in restride, which takes any array",
    )


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
