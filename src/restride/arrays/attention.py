"""Attention of arrays that people hold."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ..desc.arguments import (
    ARG_BIAS,
    ARG_DIFF_DST,
    ARG_DIFF_SRC,
    ARG_DIFF_SRC_1,
    ARG_DIFF_SRC_ITER_C,
    ARG_DST,
    ARG_DST_1,
    ARG_SHIFT,
    ARG_SRC,
    ARG_SRC_1,
    ARG_SRC_2,
    ARG_SRC_3,
)
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_bool
from ..errors import refuse
from ..model.forms import CallArguments
from ..model.parse import check_written
from ..model.prop_kind import PropKind
from ..model.reader import ArgumentReader
from ..ops.attention import AttentionBackwardProblem, AttentionProblem
from ..runtime.memory import Memory
from .calls.binder import CallKey
from .calls.function import ArrayFunction, Parameters, plain_key
from .calls.operands import engine_of
from .calls.product_arguments import operand_of
from .calls.tensors import as_array

__all__ = ["attention"]

_NAMES = {
    ARG_SRC: "q",
    ARG_SRC_1: "k",
    ARG_SRC_2: "v",
    ARG_SHIFT: "mask",
    ARG_SRC_3: "lengths",
    ARG_BIAS: "sinks",
}
_ATTENTION = ArrayFunction("attention", may_be_in_place=False, narrows_lists=False, arguments=_NAMES)
_BACK = ArrayFunction("attention", "backward", may_be_in_place=False, arguments=_NAMES)
# What calls of the primitives' descriptors have, but for the engine.
_arguments, _back_arguments = (
    cast(Callable[..., CallArguments], namedtuple("_Arguments", (*problem.call, "attr")))
    for problem in (AttentionProblem, AttentionBackwardProblem)
)
_ALWAYS = ARG_SRC, ARG_SRC_1, ARG_SRC_2
_WIDE = *_ALWAYS, ARG_DST, ARG_SHIFT
# Arguments in the order in which a problem takes their descriptors.
_ORDER = *_WIDE, ARG_SRC_3, ARG_BIAS, ARG_DST_1
_GRADIENTS = ARG_DIFF_SRC, ARG_DIFF_SRC_1, ARG_DIFF_SRC_ITER_C, ARG_DIFF_DST
_BACK_ORDER = *_ALWAYS, ARG_DST, ARG_DST_1, *_GRADIENTS, ARG_SHIFT, ARG_SRC_3, ARG_BIAS
_CAUSAL = "none", "bottom_right"
# Batch, heads, positions, width.
_NDIMS = 4


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    mask: Any = None,
    lengths: Any = None,
    sinks: Any = None,
    scale: Any = None,
    causal: Any = False,
    window: Any = None,
    soft_cap: Any = 0.0,
    out: Any = None,
) -> Any:
    """Scaled dot-product attention: for each query the values, weighted by how well it fits their keys.

    q         (batch, heads, queries, width); leading dims that are not there are 1: a NumPy array, lists, a
              tensor of torch, what has `__dlpack__`, or a `Memory`, in any layout or format
    k         (batch, key heads, keys, width): each of its heads serves as many neighbors of `q`
    v         (batch, key heads, keys, width of values)
    mask      of the dims of the scores, (batch, heads, queries, keys), or 1 in their place: floats are added
              to the scores, of truth values and bytes 0 hides a key
    lengths   how many keys there are, for each element of the batch or one number for all; what lies behind
              has no share, whatever it is
    sinks     (heads): a score that takes a share and has no value
    scale     of the products; 1 / sqrt(width) where it is None
    causal    True, or "bottom_right": the last query sees every key, one before it one key fewer. "top_left":
              query i sees keys 0 to i, as torch's `is_causal` has it; with as many queries as keys it is the
              same
    window    a pair: how many keys before and behind its place a query sees, -1 for all
    soft_cap  c makes c * tanh(x / c) of scores
    out       where to write, in any layout: an array or `Memory` of (batch, heads, queries, width of values);
              it is returned

    All is read where it lies: heads side by side, as `x.reshape(batch, n, heads, width).swapaxes(1, 2)` has
    them, are not moved. The result has the type and the layout of `q`, dense: NumPy in, NumPy out; a tensor
    in, a tensor out; a `Memory` in, a `Memory` of the same format out. All is computed as f32, as f64 where
    an array is f64. Queries that see no key get zeros.

    Raises InvalidArguments, before anything is written, for dims that do not fit, and an `out` that is
    read-only, of other dims or overlaps what is read; Unimplemented for integers.

    >>> import numpy as np, restride as rs
    >>> x = 4 * np.eye(3, dtype=np.float32)
    >>> rs.attention(x, x, x, causal=True).round(2)
    array([[4., 0., 0.],
           [0., 4., 0.],
           [0., 0., 4.]], dtype=float32)
    """
    causal = parse_causal(causal)
    window = tuple(window) if type(window) is list else window
    parameters = scale, causal, window, soft_cap
    operands = k, v, mask, lengths, sinks
    return _ATTENTION.call(_attention, parameters, plain_key(parameters), q, out, operands)


def parse_causal(causal: Any) -> str:
    """The corner that causality counts from, for True the last one."""
    return causal if isinstance(causal, str) else _CAUSAL[parse_bool("attention: causal", causal)]


def _attention(
    q: Any, out: Any, operands: Sequence[Any], parameters: Parameters, signed: CallKey | None
) -> Memory:
    arrays = dict(zip(_NAMES, (q, *operands), strict=True))
    # Keys and values may lie on a device, and the query come from outside.
    engine = engine_of(next((x for x in arrays.values() if isinstance(x, Memory) and x), q), out, None)
    memories = {
        arg: operand_of("attention", _NAMES[arg], _array(arg, x, arrays), engine)
        for arg, x in arrays.items()
        if x is not None or arg in _ALWAYS
    }
    query, value = memories[ARG_SRC].desc, memories[ARG_SRC_2].desc
    dims = *query.dims[:-1], *value.dims[-1:]
    target = _ATTENTION.target(out, query, dims, engine)
    if target.desc.dims != dims:
        raise refuse("RS-R10:out-other-dims", call="attention", desc=target.desc, dims=dims)
    check_written("attention", "out", target.desc)
    attend({**memories, ARG_DST: target}, parameters, signed if query.ndims == _NDIMS else None)
    return target


def _array(arg: int, x: Any, arrays: Mapping[int, Any]) -> Any:
    """What is passed, but numbers of Python in the type that they are read as."""
    if arg not in (ARG_SRC_3, ARG_BIAS) or isinstance(x, Memory):
        return x
    array = as_array(x, f"attention: {_NAMES[arg]}")
    if not isinstance(array, np.ndarray):
        return array
    if arg == ARG_BIAS:
        return array.astype(np.float32) if array.dtype == np.float64 else array
    if array.ndim:
        return array
    q = arrays[ARG_SRC]
    dims = q.desc.dims if isinstance(q, Memory) else np.shape(q)
    return np.full(dims[0] if len(dims) == _NDIMS else 1, array)


def attend(memories: Mapping[int, Memory], parameters: Parameters, signed: CallKey | None = None) -> None:
    """Run attention of memories by argument. `parameters`: scale, causal, window and soft cap.

    Raises, before anything is written, for what does not fit.
    """
    wide = {arg: _of_four_dims(memory) if arg in _WIDE else memory for arg, memory in memories.items()}
    problem = attention_problem({arg: memory.desc for arg, memory in wide.items()}, parameters)
    _ATTENTION.run(problem, wide[ARG_SRC].engine, wide, signed)


def attention_problem(mds: Mapping[int, MemoryDesc], parameters: Parameters) -> AttentionProblem:
    """The problem of descriptors of four dims, by argument. Raises for what does not fit."""
    descs = (mds.get(arg) for arg in _ORDER)
    call = ArgumentReader("attention", _arguments(*descs, *parameters, None), PropKind.undef, ("", ()))
    return AttentionProblem.read(call)


def attend_backward(memories: Mapping[int, Memory], parameters: Parameters) -> None:
    """Run the gradients of attention of memories of four dims, by argument."""
    descs = (memories[arg].desc if arg in memories else None for arg in _BACK_ORDER)
    arguments = _back_arguments(*descs, *parameters, None)
    problem = AttentionBackwardProblem.read(
        ArgumentReader("attention", arguments, PropKind.backward, ("", ()))
    )
    _BACK.run(problem, memories[ARG_SRC].engine, memories)


def _of_four_dims(memory: Memory) -> Memory:
    """The memory with leading dims of 1, over the same bytes."""
    dims = memory.desc.dims
    if len(dims) >= _NDIMS:
        return memory
    return Memory(memory.desc.reshape((1,) * (_NDIMS - len(dims)) + dims), memory.engine, memory)
