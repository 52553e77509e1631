"""Attention on arrays."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ..desc.arguments import (
    ARG_ATTR_SCALES,
    ARG_BIAS,
    ARG_DST,
    ARG_MULTIPLE_SRC,
    ARG_SHIFT,
    ARG_SRC,
    ARG_SRC_1,
    ARG_SRC_2,
)
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_bool, short_repr
from ..errors import refuse
from ..model.forms import CallArguments
from ..model.parse import check_written
from ..model.reader import ArgumentReader
from ..ops.attention import PARAMETERS, AttentionBackwardProblem, AttentionProblem
from ..runtime.memory import Memory
from .calls.binder import CallKey
from .calls.function import ArrayFunction, Parameters, plain_key
from .calls.operands import engine_of
from .calls.product_arguments import operand_of
from .calls.tensors import as_array
from .scaling.quantized_tensor import QuantizedTensor

__all__ = ["attention"]

_ALWAYS = ARG_SRC, ARG_SRC_1, ARG_SRC_2
_NAMES = {**AttentionProblem.reads, **dict(zip(_ALWAYS, "qkv", strict=True))}
_ATTENTION = ArrayFunction("attention", may_be_in_place=False, narrows_lists=False, arguments=_NAMES)
_BACK = ArrayFunction("attention", "backward", may_be_in_place=False, arguments=_NAMES)
# Arguments of the primitive descriptors, except the engine.
_CALLS: dict[type, Callable[..., CallArguments]] = {
    problem: cast(Any, namedtuple("_Arguments", (*problem.call, "attr")))
    for problem in (AttentionProblem, AttentionBackwardProblem)
}
_OFFSETS = ARG_MULTIPLE_SRC, ARG_MULTIPLE_SRC + 1
_SCALES = ARG_ATTR_SCALES | ARG_SRC_1, ARG_ATTR_SCALES | ARG_SRC_2
# Arguments that can have fewer dims: leading ones are 1.
_NDIMS = dict.fromkeys((*_ALWAYS, ARG_DST, ARG_SHIFT), 4) | dict.fromkeys(_SCALES, 3)
_CAUSAL = "none", "bottom_right"


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
    offsets: Any = None,
    key_offsets: Any = None,
    key_scales: Any = None,
    value_scales: Any = None,
    out: Any = None,
) -> Any:
    """Scaled dot-product attention: for each query, the values weighted by how well it matches their keys.

    q         (batch, heads, queries, width); missing leading dims are 1: a NumPy array, lists, a torch
              tensor, any object with `__dlpack__`, or a `Memory`, in any layout or format
    k         (batch, key heads, keys, width): each key head serves a group of consecutive heads of `q`
    v         (batch, key heads, keys, width of values)
    mask      dims of the scores, (batch, heads, queries, keys), each possibly 1: floats are added to the
              scores; in booleans and bytes, 0 hides a key
    lengths   the number of valid keys, for each element of the batch or one number for all; keys and values
              beyond it are ignored, whatever they contain
    sinks     (heads): a score that takes part in the softmax but has no value
    scale     factor of the products; None: 1 / sqrt(width)
    causal    True, or "bottom_right": the last query sees every key, the one before it one key fewer, and so
              on. "top_left": query i sees keys 0 to i, as in torch's `is_causal`; equivalent if there are as
              many queries as keys
    window    a pair: how many keys before and after its own position a query sees, -1 for all
    soft_cap  c replaces each score x by c * tanh(x / c)
    offsets   packed sequences, stored without padding, that do not see each other: the start of each and the
              end of the last, in ascending order. Causality and windows apply to each sequence separately
    key_offsets   the same for keys and values, if their lengths differ
    key_scales    (batch, key heads, keys): the factor of each key, if keys are s8 or f8. A `QuantizedTensor`,
                  such as `rs.quantize(k, "s8", group=0)`, has its own
    value_scales  the same for values
    out       destination in any layout: an array or `Memory` of (batch, heads, queries, width of values); it
              is returned

    Everything is read in place: interleaved heads, as in `x.reshape(batch, n, heads, width).swapaxes(1, 2)`,
    are not copied. The result has the type and the layout of `q`, dense: NumPy in, NumPy out; a tensor in, a
    tensor out; a `Memory` in, a `Memory` of the same format out. Computation is in f32, or in f64 if any
    array is f64. Queries that see no key get zeros.

    Raises InvalidArguments, before anything is written, for dims that do not match, and for an `out` that is
    read-only, has other dims or overlaps an input; Unimplemented for integers.

    >>> import numpy as np, restride as rs
    >>> x = 4 * np.eye(3, dtype=np.float32)
    >>> rs.attention(x, x, x, causal=True).round(2)
    array([[4., 0., 0.],
           [0., 4., 0.],
           [0., 0., 4.]], dtype=float32)
    """
    causal = parse_causal(causal)
    window = tuple(window) if type(window) is list else window
    k, key_scales = _apart("k", k, key_scales)
    v, value_scales = _apart("v", v, value_scales)
    for name, starts, of in (("offsets", offsets, q), ("key_offsets", key_offsets, k)):
        if starts is not None:
            _check_offsets(name, starts, _dims(of)[-2:-1])
    parameters = scale, causal, window, soft_cap
    operands = k, v, mask, lengths, sinks, offsets, key_offsets, key_scales, value_scales
    return _ATTENTION.call(_attention, parameters, plain_key(parameters), q, out, operands)


def parse_causal(causal: Any) -> str:
    """Return the corner that causality is aligned with; for True, the bottom right."""
    return causal if isinstance(causal, str) else _CAUSAL[parse_bool("attention: causal", causal)]


def _attention(
    q: Any, out: Any, operands: Sequence[Any], parameters: Parameters, signed: CallKey | None
) -> Memory:
    arrays = dict(zip(_NAMES, (q, *operands), strict=True))
    # Keys and values may be on a device while the query is on the host.
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
    attend({**memories, ARG_DST: target}, parameters, signed if query.ndims == _NDIMS[ARG_SRC] else None)
    return target


def _array(arg: int, x: Any, arrays: Mapping[int, Any]) -> Any:
    """Return an argument as passed; Python numbers in the type that they are read as."""
    if arg in (*_ALWAYS, ARG_SHIFT) or isinstance(x, Memory):
        return x
    array = as_array(x, f"attention: {_NAMES[arg]}")
    if not isinstance(array, np.ndarray):
        return array
    if arg in (ARG_BIAS, *_SCALES):
        return array.astype(np.float32) if array.dtype == np.float64 else array
    if array.ndim or arg in _OFFSETS:
        return array
    dims = _dims(arrays[ARG_SRC])
    return np.full(dims[0] if len(dims) == _NDIMS[ARG_SRC] else 1, array)


def _dims(x: Any) -> tuple[int, ...]:
    return x.desc.dims if isinstance(x, Memory) else np.shape(x)


def _apart(name: str, x: Any, scales: Any) -> tuple[Any, Any]:
    """Return keys or values and their scales, separately, from a tensor quantized by position and head."""
    if not isinstance(x, QuantizedTensor):
        return x, scales
    is_plain = x.zero_point is None and x.minimum is None and x.tensor_scale == 1.0
    if scales is not None or not is_plain or x.scale.desc.dims != (*x.dims[:-1], 1):
        raise refuse("RS-X02:attention-groups", name=name, q=x.values.desc, scale=x.scale.desc)
    return x.values, Memory(x.scale.desc.reshape(x.dims[:-1]), x.scale.engine, x.scale)


def _check_offsets(name: str, offsets: Any, positions: Sequence[int]) -> None:
    """Raise InvalidArguments for offsets in host memory that are not ascending or are out of range."""
    if isinstance(offsets, Memory):
        return
    array = as_array(offsets, f"attention: {name}")
    is_list = isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in "iu"
    if is_list and positions and (np.diff(array, prepend=0, append=positions[0]) < 0).any():
        raise refuse("RS-V05:offsets", name=name, positions=positions[0], offsets=short_repr(offsets))


def attend(memories: Mapping[int, Memory], parameters: Parameters, signed: CallKey | None = None) -> None:
    """Run attention on memory objects by argument. `parameters`: scale, causal, window and soft cap.

    Raises, before anything is written, for invalid arguments.
    """
    wide = {arg: _of_more_dims(memory, _NDIMS.get(arg, 0)) for arg, memory in memories.items()}
    problem = attention_problem({arg: memory.desc for arg, memory in wide.items()}, parameters)
    _ATTENTION.run(problem, wide[ARG_SRC].engine, wide, signed)


def attention_problem(mds: Mapping[int, MemoryDesc], parameters: Parameters) -> AttentionProblem:
    """Return the problem for descriptors of four dims, by argument. Raises for invalid arguments."""
    return AttentionProblem.read(_reader(AttentionProblem, mds, parameters))


def attend_backward(memories: Mapping[int, Memory], parameters: Parameters) -> None:
    """Compute the gradients of attention on memory objects of four dims, by argument."""
    mds = {arg: memory.desc for arg, memory in memories.items()}
    problem = AttentionBackwardProblem.read(_reader(AttentionBackwardProblem, mds, parameters))
    _BACK.run(problem, memories[ARG_SRC].engine, memories)


def _reader(
    problem: type[AttentionProblem | AttentionBackwardProblem],
    mds: Mapping[int, MemoryDesc],
    parameters: Parameters,
) -> ArgumentReader:
    """Return the arguments of a primitive's descriptor."""
    names = {**problem.reads, **problem.also_writes, problem.writes: "diff_query", ARG_DST: "dst"}
    given = dict(zip(PARAMETERS, parameters, strict=True)) | {names[arg]: md for arg, md in mds.items()}
    call = _CALLS[problem](**{**dict.fromkeys((*problem.call, "attr")), **given})
    return ArgumentReader("attention", call, problem.prop_kinds[0], ("", ()))


def _of_more_dims(memory: Memory, ndims: int) -> Memory:
    """Return the memory object with leading dims of 1, over the same bytes."""
    dims = memory.desc.dims
    if len(dims) >= ndims:
        return memory
    return Memory(memory.desc.reshape((1,) * (ndims - len(dims)) + dims), memory.engine, memory)
