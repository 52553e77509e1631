"""Attention inside JAX programs: a primitive whose derivatives are those of its formula in JAX.

Only `restride.jax` may import this module, because it imports jax.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import numpy as jnp
from jax.interpreters import ad

from ...desc.arguments import ARG_BIAS, ARG_DST, ARG_SHIFT, ARG_SRC, ARG_SRC_1, ARG_SRC_2, ARG_SRC_3
from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...errors import refuse
from ...runtime.alloc import Buffer
from ...runtime.cpu.xla_handlers import XlaWork
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ..attention import attend, attention_problem, parse_causal
from .kernels import PrimitiveRules, Shape, array_of, check_type, differentiable, new_primitive, shape_of

_CPU = Engine("cpu")
_ARGS = ARG_SRC, ARG_SRC_1, ARG_SRC_2, ARG_SHIFT, ARG_SRC_3, ARG_BIAS
_OF_ONE_DIM = ARG_SRC_3, ARG_BIAS
# Batch, heads, positions, width.
_NDIMS = 4
_MOST_KEYS = (1 << 31) - 1
_LEAST = -3.4028234663852886e38


class AttentionKind(NamedTuple):
    """An attention: dims and type of the result, the arguments present, and the modifications of scores."""

    dims: tuple[int, ...]
    dtype: np.dtype[Any]
    args: tuple[int, ...]
    scale: float
    causal: str
    window: tuple[int, int]
    soft_cap: float

    def descs(self, shapes: Sequence[Shape]) -> dict[int, MemoryDesc]:
        """Return the descriptors of inputs and output, by argument."""
        mds = {arg: MemoryDesc(x.dims, x.dtype) for arg, x in zip(self.args, shapes, strict=True)}
        return {**mds, ARG_DST: MemoryDesc(self.dims, self.dtype)}


# --- execution ----------------------------------------------------------------------------------------------


def _work(kind: AttentionKind, sources: tuple[Shape, ...], result: Shape) -> XlaWork:
    return XlaWork(0, 0, partial(_run, kind, kind.descs(sources)), None)


def _run(kind: AttentionKind, mds: dict[int, MemoryDesc], *addresses: int) -> None:
    memories = {
        arg: Memory(md, _CPU, Buffer(address, md.size, arg != ARG_DST, None).bytes())
        for (arg, md), address in zip(mds.items(), addresses, strict=True)
    }
    attend(memories, kind[3:])


def _on_arrays(kind: AttentionKind, *operands: Any) -> Any:
    arrays = [np.ascontiguousarray(x) for x in operands]
    out = np.empty(kind.dims, kind.dtype)
    mds = kind.descs([shape_of("attention", x) for x in arrays])
    _run(kind, mds, *(x.ctypes.data for x in (*arrays, out)))
    return out


def _batched(kind: AttentionKind, args: Any, axes: Any) -> Any:
    """Run one call whose batch contains all parts, or a call for each part if each has its own sinks."""
    size = next(x.shape[at] for x, at in zip(args, axes, strict=True) if at is not None)
    parts = [x if at is None else jnp.moveaxis(x, at, 0) for x, at in zip(args, axes, strict=True)]
    places = dict(zip(kind.args, axes, strict=True))
    if places.get(ARG_BIAS) is not None:

        def one(index: Any) -> Any:
            picked = (x if at is None else x[index] for x, at in zip(parts, axes, strict=True))
            return attention_p.bind(*picked, kind=kind)

        return jax.lax.map(one, jnp.arange(size))
    batch, joined = kind.dims[0], []
    for arg, x in zip(kind.args, parts, strict=True):
        if arg == ARG_BIAS:
            joined.append(x)
            continue
        own = x.shape[int(places[arg] is not None) :]
        if places[arg] is None and own[0] != batch:
            joined.append(x)  # a mask broadcast along the batch
            continue
        whole = x if places[arg] is not None else x[None]
        whole = jnp.broadcast_to(whole, (size, batch, *own[1:]))
        joined.append(whole.reshape(size * batch, *own[1:]))
    whole = attention_p.bind(*joined, kind=kind._replace(dims=(size * batch, *kind.dims[1:])))
    return whole.reshape(size, *kind.dims)


# --- derivatives --------------------------------------------------------------------------------------------


def _pushed(primals: Any, tangents: Any, *, kind: AttentionKind) -> tuple[Any, Any]:
    """Return the tangent of the formula, with respect to the operands that have one."""
    out = attention_p.bind(*primals, kind=kind)
    moving = [i for i, tangent in enumerate(tangents) if type(tangent) is not ad.Zero]
    if not moving:
        return out, ad.Zero.from_primal_value(out)

    def formula(*moved: Any) -> Any:
        operands = dict(enumerate(primals)) | dict(zip(moving, moved, strict=True))
        return _formula(kind, dict(zip(kind.args, operands.values(), strict=True)))

    along = [tangents[i] for i in moving]
    return out, jax.jvp(formula, [primals[i] for i in moving], along)[1]


def _formula(kind: AttentionKind, operands: dict[int, Any]) -> Any:
    """Compute the result with JAX's functions."""
    q, k, v = (operands[arg] for arg in _ARGS[:3])
    real = jnp.float64 if jnp.float64 in (q.dtype, k.dtype, v.dtype) else jnp.float32
    (batch, heads, queries, _), keys = q.shape, k.shape[2]
    q, k, v = (x.astype(real) for x in (q, k, v))
    hidden = _hidden(kind, operands.get(ARG_SRC_3), (batch, queries, keys))
    if ARG_SRC_3 in operands:  # values beyond the lengths are arbitrary
        is_there = jnp.arange(keys) < operands[ARG_SRC_3][:, None]
        k, v = (jnp.where(is_there[:, None, :, None], x, 0) for x in (k, v))
    k, v = (jnp.repeat(x, heads // max(x.shape[1], 1), 1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) * kind.scale
    if kind.soft_cap:
        scores = jnp.tanh(scores / kind.soft_cap) * kind.soft_cap
    mask = operands.get(ARG_SHIFT)
    if mask is not None and jnp.issubdtype(mask.dtype, jnp.floating):
        scores = scores + mask.astype(real)
    elif mask is not None:
        hidden = hidden | (mask == 0)
    scores = jnp.where(hidden, -jnp.inf, scores)
    sinks = operands.get(ARG_BIAS, jnp.full(heads, -jnp.inf))[:, None, None].astype(real)
    top = jnp.maximum(scores.max(-1, keepdims=True, initial=_LEAST), sinks)
    top = jax.lax.stop_gradient(top)
    powers = jnp.exp(scores - top)
    total = powers.sum(-1, keepdims=True) + jnp.exp(sinks - top)
    return (powers @ v / jnp.where(total > 0, total, 1)).astype(kind.dtype)


def _hidden(kind: AttentionKind, lengths: Any, sizes: tuple[int, int, int]) -> Any:
    """Return which keys are hidden by their positions: (batch, 1, queries, keys)."""
    batch, queries, keys = sizes
    i, j = jnp.arange(queries)[:, None], jnp.arange(keys)
    count = jnp.full(batch, keys) if lengths is None else jnp.clip(lengths, 0, keys)
    count = count[:, None, None, None]
    place = i + (count - queries if kind.causal == "bottom_right" else 0)
    (before, behind), hidden = kind.window, j >= count
    if kind.causal != "none":
        hidden = hidden | (j > place)
    if before >= 0:
        hidden = hidden | (j < place - before)
    return hidden | (j > place + behind) if behind >= 0 else hidden


attention_p = new_primitive(
    "attention",
    PrimitiveRules(
        lambda kind, aval: aval.update(shape=kind.dims, dtype=kind.dtype, weak_type=False),
        *(_work, _on_arrays, _batched),
    ),
)
ad.primitive_jvps[attention_p] = _pushed


# --- entry points -------------------------------------------------------------------------------------------


def attended(operands: Sequence[Any], parameters: Sequence[Any]) -> Any:
    """Return the attention of q, k, v, mask, lengths and sinks; `parameters`: scale, causal, window, soft
    cap.

    Raises for invalid arguments.
    """
    scale, causal, window, soft_cap = parameters
    for name, number in (("scale", scale), ("soft_cap", soft_cap)):
        if isinstance(number, jax.core.Tracer):
            raise refuse("RS-A17:scale-traced", call="attention", name=name)
    arrays: dict[int, Any] = {}
    for arg, x in zip(_ARGS, operands, strict=True):
        if arg == ARG_SRC_3 and isinstance(x, int):
            x = jnp.asarray(min(max(x, 0), _MOST_KEYS), jnp.int32)
        if x is None and arg not in _ARGS[:3]:
            continue
        array = array_of("attention", x)
        check_type("attention", array.dtype)
        if arg == ARG_SRC_3 and not array.ndim:
            array = jnp.full(arrays[ARG_SRC].shape[0], array)
        if arg not in _OF_ONE_DIM:
            array = array.reshape((1,) * (_NDIMS - array.ndim) + array.shape)
        arrays[arg] = differentiable(array, array.dtype)
    mds = {arg: MemoryDesc(x.shape, DataType.parse(x.dtype)) for arg, x in arrays.items()}
    query, value = arrays[ARG_SRC], arrays[ARG_SRC_2]
    dims, dtype = (*query.shape[:-1], value.shape[-1]), np.dtype(query.dtype)
    mds[ARG_DST] = MemoryDesc(dims, DataType.parse(dtype))
    problem = attention_problem(mds, (scale, parse_causal(causal), window, soft_cap))
    how = problem.scale, problem.causal, problem.window, problem.soft_cap
    result = attention_p.bind(*arrays.values(), kind=AttentionKind(dims, dtype, tuple(arrays), *how))
    return result.reshape(*operands[0].shape[:-1], dims[-1])
