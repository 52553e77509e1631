"""Attention: ONNX's own operator, and those of com.microsoft, which optimized models use.

    softmax(scale * query * keys' + mask) * values        for each head of each batch element

All of them become `onednn.ScaledDotProductAttention`. Past keys and values precede those of the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Annotated, Any

import numpy as np

from ....dtypes import DataType
from ....model.result_dims import Misfit
from ....runtime.alloc import Array
from ..operator_call import ONNX, Ints, Made, Operand, OperatorCall, Tensor, Value

__all__ = ["AttentionForm", "attended_of_any_rank", "attention_parameters"]

_MICROSOFT = "com.microsoft"
_S64 = 7


@dataclass(frozen=True, slots=True)
class AttentionForm:
    """The parameters of `onednn.ScaledDotProductAttention`; a scale of None is the default for the width."""

    scale: float | None = None
    causal: str = "none"
    window: tuple[int, int] = (-1, -1)
    soft_cap: float = 0.0


def attended(
    call: OperatorCall,
    parts: Sequence[Value],
    form: AttentionForm,
    mask: Value | None = None,
    lengths: Value | None = None,
    sinks: Value | None = None,
) -> Value:
    """Return the attention of queries, keys and values (batch, heads, positions, width).

    A mask of any rank is broadcast along missing dims.
    """
    if mask is not None:
        mask = _whole_mask(call, mask)
    if mask is None and (lengths is not None or sinks is not None):
        mask = np.ones((1, 1, 1, 1), np.bool_)
    operands = [mask, lengths, sinks]
    if lengths is None and sinks is not None:
        batch, keys = call.dims(parts[1])[0], call.dims(parts[1])[2]
        operands[1] = np.full(batch, keys, np.int64)
    made = call.primitive("ScaledDotProductAttention", *parts, *operands, **attention_parameters(form))
    assert not isinstance(made, tuple)
    return made


def attention_parameters(form: AttentionForm) -> dict[str, Any]:
    """Return the parameters of the primitive."""
    scale = {} if form.scale is None else {"scale": float(form.scale)}
    return {"causal": form.causal, "window": form.window, "soft_cap": float(form.soft_cap), **scale}


def attended_of_any_rank(
    call: OperatorCall,
    parts: Sequence[Value],
    form: AttentionForm,
    mask: Value | None = None,
    *,
    is_grouped: bool = False,
) -> Value:
    """Return the attention of tensors with any leading dims, the last of which is heads. Dims are broadcast
    where they differ, except those of heads if `is_grouped`.
    """
    apart, dims = call.with_outputs(0), call.dims(parts[0])
    batch, whole = dims[:-3], list[Value]()
    for x in parts:
        *outer, length, width = call.dims(x)
        heads = outer[-1:] if is_grouped else dims[-3:-2]
        if tuple(outer) != (*batch, *heads):
            x = apart.onnx("Expand", x, (*batch, *heads, length, width))
        whole.append(apart.reshaped(x, (prod(batch), *(heads or (1,)), length, width)))
    if mask is not None and len(dims) != 4 and len(call.dims(mask)) > 2:
        places = call.dims(mask)[-2:]
        mask = apart.onnx("Expand", mask, (*dims[:-2], *places))
        mask = apart.reshaped(mask, (prod(batch), *dims[-3:-2], *places))
    result = attended(call if len(dims) == 4 else apart, whole, form, mask)
    return call.reshaped(result, (*dims[:-1], call.dims(parts[2])[-1]))


def _whole_mask(call: OperatorCall, mask: Value) -> Value | None:
    """Return a mask of four dims, or None for one that hides nothing."""
    dims = call.dims(mask)
    if isinstance(mask, np.ndarray) and bool(mask.all() if mask.dtype == np.bool_ else not mask.any()):
        return None
    if len(dims) > 4:
        raise Misfit(f"its mask has {len(dims)} dims")
    return call.with_outputs(0).reshaped(mask, (*(1,) * (4 - len(dims)), *dims))


def _shorter_mask(call: OperatorCall, mask: Value | None, keys: int) -> Value | None:
    """Extend a mask of fewer keys so that it hides the remaining ones."""
    if mask is None or not call.dims(mask) or call.dims(mask)[-1] >= keys:
        return mask
    dims = call.dims(mask)
    is_truth = call.type_of(mask) is DataType.boolean
    rest = np.full((*dims[:-1], keys - dims[-1]), False if is_truth else -np.inf, call.numpy_type(mask))
    return call.with_outputs(0).onnx("Concat", mask, rest, axis=len(dims) - 1)


def _heads(call: OperatorCall, x: Value, heads: int) -> Value:
    """Reshape (batch, length, channels) to (batch, heads, length, channels of a head)."""
    batch, length, channels = call.dims(x)
    if heads < 1 or channels % heads:
        raise Misfit(f"{heads} heads do not divide {channels} channels")
    return call.transposed(call.reshaped(x, (batch, length, heads, channels // heads)), (0, 2, 1, 3))


def _joined(call: OperatorCall, x: Value) -> Value:
    """Reshape (batch, heads, length, width) to (batch, length, channels)."""
    batch, heads, length, width = call.dims(x)
    return call.reshaped(call.with_outputs(0).transposed(x, (0, 2, 1, 3)), (batch, length, heads * width))


def _with_past(call: OperatorCall, past: Value | None, new: Value) -> Value:
    return new if past is None else call.with_outputs(0).onnx("Concat", past, new, axis=2)


# --- ONNX ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Attributes:
    scale: float | None = None
    softcap: float = 0.0
    is_causal: bool = False
    q_num_heads: int = 0
    kv_num_heads: int = 0
    left_window_size: int = -1
    right_window_size: int = -1


@ONNX("Attention")
def _attention_of_onnx(
    call: OperatorCall,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Value | None = None,
    past_key: Operand | None = None,
    past_value: Operand | None = None,
    lengths: Value | None = None,
    *,
    own: _Attributes,
    softmax_precision: int = 1,
    qk_matmul_output_mode: int = 0,
) -> Made:
    """Causality and windows count from the last key of a past, or from the last of `lengths`."""
    if any(call.node.outputs[3:]):
        raise call.unimplemented("it outputs its scores")
    if softmax_precision == 11 and call.type_of(query) is not DataType.f64:
        raise call.unimplemented("its softmax is of f64")
    apart, is_joint = call.with_outputs(0), len(call.dims(query)) == 3
    parts: list[Value] = [query, key, value]
    if is_joint:
        heads = own.q_num_heads, own.kv_num_heads, own.kv_num_heads
        parts = [_heads(apart, x, n) for x, n in zip(parts, heads, strict=True)]
    parts[1:] = (
        _with_past(apart, past, x) for past, x in zip((past_key, past_value), parts[1:], strict=True)
    )
    queries, keys, before = call.dims(parts[0])[2], call.dims(parts[1])[2], 0
    if past_key is not None:
        before = call.dims(past_key)[2]
    mask, causal = _shorter_mask(call, mask, keys), "none"
    window = own.left_window_size, own.right_window_size
    if lengths is not None and window != (-1, -1) and not own.is_causal:
        raise call.unimplemented("its window counts from lengths and includes later keys")
    if own.is_causal and (lengths is not None or before == keys - queries):
        causal = "bottom_right"
    elif own.is_causal and not before:
        causal = "top_left"
    elif before and (own.is_causal or window != (-1, -1)):
        places = np.arange(keys)[None] - np.arange(before, before + queries)[:, None]
        low, high = (np.inf if n < 0 else n for n in window)
        seen = (places >= -low) & (places <= min(high, 0 if own.is_causal else np.inf))
        mask, window = _hidden(apart, mask, seen), (-1, -1)
    form = AttentionForm(own.scale, causal, window, own.softcap)
    if is_joint:
        result = _joined(call, attended(apart, parts, form, mask, lengths))
    else:
        result = attended(call, parts, form, mask, lengths)
    return (result, *parts[1:]) if call.count_of_outputs > 1 else result


def _hidden(call: OperatorCall, mask: Value | None, seen: Array) -> Value:
    """Combine two masks: hide what either hides."""
    if mask is None:
        return seen
    if call.type_of(mask) is DataType.boolean:
        return call.onnx("And", mask, seen)
    return call.onnx("Where", seen, mask, np.array(-np.inf, call.numpy_type(mask)))


# --- com.microsoft ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Scores:
    """Scores from products of queries and keys: a factor, a mask, and whether later keys count."""

    num_heads: int
    scale: float = 0.0
    mask_filter_value: float = -10000.0
    unidirectional: bool = False

    @property
    def form(self) -> AttentionForm:
        return AttentionForm(self.scale or None, "bottom_right" if self.unidirectional else "none")


def _mask_of_keys(
    call: OperatorCall, mask: Value | None, form: _Scores, lengths: tuple[int, int, int]
) -> Value | None:
    """Return the mask added to scores (batch, heads, queries, keys), from one of 0 and 1 or a key count."""
    if mask is None:
        return None
    batch, queries, keys = lengths
    dims = call.dims(mask)
    places = np.arange(keys, dtype=np.int64)
    if dims in ((batch,), (2 * batch,)):
        whole = call.onnx("Cast", mask, to=_S64)
        ends = call.reshaped(call.onnx("Slice", whole, (0,), (batch,), (0,)), (batch, 1))
        counts = call.onnx("Less", places, ends)
        if dims == (2 * batch,):
            starts = call.reshaped(call.onnx("Slice", whole, (batch,), (2 * batch,), (0,)), (batch, 1))
            counts = call.onnx("And", counts, call.onnx("Not", call.onnx("Less", places, starts)))
    elif dims in ((batch, keys), (batch, queries, keys)):
        counts = call.onnx("Greater", call.onnx("Cast", mask, to=_S64), np.array(0))
    else:
        raise call.unimplemented(f"its mask is {dims} for {batch} rows of {queries} queries and {keys} keys")
    shape = (batch, 1, 1, keys) if len(call.dims(counts)) == 2 else (batch, 1, queries, keys)
    return call.reshaped(call.onnx("Where", counts, 0.0, form.mask_filter_value), shape)


def _sum(call: OperatorCall, *masks: Value | None) -> Value | None:
    there = [mask for mask in masks if mask is not None]
    if len(there) < 2:
        return there[0] if there else None
    left, right = there
    return call.onnx("Add", left, call.onnx("CastLike", right, left))


@ONNX(f"{_MICROSOFT}.Attention")
def _attention(
    call: OperatorCall,
    x: Tensor,
    weights: Operand,
    bias: Operand | None = None,
    mask: Value | None = None,
    past: Value | None = None,
    added: Operand | None = None,
    past_length: Value | None = None,
    *,
    form: _Scores,
    qkv_hidden_sizes: Ints = (),
) -> Made:
    """Queries, keys and values are one product of the source, side by side; a past has keys, then values."""
    apart = call.with_outputs(0)
    product = apart.onnx("MatMul", x, weights)
    if bias is not None:
        product = apart.onnx("Add", product, bias)
    _, _, channels = call.dims(product)
    sizes = qkv_hidden_sizes or (channels // 3,) * 3
    ends = np.cumsum((0, *sizes))
    if len(sizes) != 3 or ends[-1] != channels:
        raise Misfit(f"{sizes} are not the sizes of three parts of {channels} channels")
    parts = [
        _heads(
            apart, apart.onnx("Slice", product, (int(ends[i]),), (int(ends[i + 1]),), (2,)), form.num_heads
        )
        for i in range(3)
    ]
    pasts: list[Value | None] = [None, None]
    if past is not None:
        pasts = [
            apart.reshaped(apart.onnx("Slice", past, (i,), (i + 1,), (0,)), call.dims(past)[1:])
            for i in range(2)
        ]
    result, key, value = _of_heads(call, parts, pasts, [mask, added], form)
    if not any(call.node.outputs[1:]):
        return result
    both = (apart.reshaped(x, (1, *call.dims(x))) for x in (key, value))
    return result, apart.onnx("Concat", *both, axis=0)


def _of_heads(
    call: OperatorCall,
    parts: Sequence[Value],
    pasts: Sequence[Value | None],
    masks: Sequence[Value | None],
    form: _Scores,
) -> tuple[Value, Value, Value]:
    """Return the result as (batch, length, channels), and all keys and values."""
    apart, query = call.with_outputs(0), parts[0]
    key, value = (_with_past(apart, past, x) for past, x in zip(pasts, parts[1:], strict=True))
    batch, _, queries, _ = call.dims(query)
    of_keys = _mask_of_keys(apart, masks[0], form, (batch, queries, call.dims(key)[2]))
    mask = _sum(apart, of_keys, masks[1])
    return _joined(call, attended(apart, (query, key, value), form.form, mask)), key, value


@ONNX(f"{_MICROSOFT}.MultiHeadAttention")
def _attention_of_heads(
    call: OperatorCall,
    query: Tensor,
    key: Operand | None = None,
    value: Operand | None = None,
    bias: Operand | None = None,
    mask: Value | None = None,
    added: Operand | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    past_length: Value | None = None,
    *,
    form: _Scores,
) -> Made:
    """The three are separate, or packed: (batch, length, heads, 3, channels), with 2 for keys and values."""
    if past_length is not None:
        raise call.unimplemented("it writes into a past with spare room")
    apart, heads = call.with_outputs(0), form.num_heads
    parts: list[Value] = []
    for each in (query, key, value):
        rank = 0 if each is None else len(call.dims(each))
        if rank == 5:
            assert each is not None
            for i in range(call.dims(each)[3]):
                one = apart.onnx("Slice", each, (i,), (i + 1,), (3,))
                batch, length, _, _, size = call.dims(one)
                parts.append(apart.reshaped(one, (batch, length, heads * size)))
        elif each is not None:
            parts.append(each)
    if len(parts) != 3:
        raise Misfit(f"{len(parts)} of query, key and value are given")
    if bias is not None:
        parts = _with_bias(apart, parts, bias)
    ranked = [each if len(call.dims(each)) == 4 else _heads(apart, each, heads) for each in parts]
    return _of_heads(call, ranked, (past_key, past_value), (mask, added), form)


def _with_bias(call: OperatorCall, parts: list[Value], bias: Value) -> list[Value]:
    """Add to each part its share of the bias, which has them side by side."""
    start, results = 0, list[Value]()
    for part in parts:
        dims = call.dims(part)
        is_of_heads = len(dims) == 4
        size = dims[1] * dims[3] if is_of_heads else dims[2]
        own = call.onnx("Slice", bias, (start,), (start + size,), (0,))
        own = call.reshaped(own, (dims[1], 1, dims[3])) if is_of_heads else own
        results.append(call.onnx("Add", part, own))
        start += size
    return results


@dataclass(frozen=True, slots=True)
class _SharedHeads:
    """Attributes of attention in which each head of keys serves several heads of queries."""

    num_heads: int
    kv_num_heads: int
    scale: float = 0.0
    softcap: float = 0.0
    local_window_size: int = -1
    do_rotary: bool = False
    rotary_interleaved: bool = False
    smooth_softmax: bool = False


@ONNX(f"{_MICROSOFT}.GroupQueryAttention")
def _attention_of_groups(
    call: OperatorCall,
    query: Tensor,
    key: Operand | None,
    value: Operand | None,
    past_key: Operand | None,
    past_value: Operand | None,
    last: Value,
    total: Annotated[int, "the total length"],
    cosines: Operand | None = None,
    sines: Operand | None = None,
    positions: Value | None = None,
    added: Operand | None = None,
    sinks: Operand | None = None,
    *,
    own: _SharedHeads,
) -> Made:
    """Causal attention that appends keys and values to a past; `last` has their last positions by row.

    Without a past, or if `total` is the length of the call, the call begins the sequences.
    """
    apart, (heads, groups) = call.with_outputs(0), (own.num_heads, own.kv_num_heads)
    parts: list[Value] = [query]
    if key is None or value is None:
        size = call.dims(query)[2] // (heads + 2 * groups)
        ends = np.cumsum((0, heads * size, groups * size, groups * size))
        parts = [apart.onnx("Slice", query, (int(a),), (int(b),), (2,)) for a, b in pairwise(ends)]
    else:
        parts += [key, value]
    pairs = zip(parts, (heads, groups, groups), strict=True)
    parts = [x if len(call.dims(x)) == 4 else _heads(apart, x, n) for x, n in pairs]
    batch, _, length, _ = call.dims(parts[0])
    begins = total == length or past_key is None
    behind = apart.onnx("Add", apart.reshaped(apart.onnx("Cast", last, to=_S64), (batch, 1)), np.array([[1]]))
    starts: Value = (
        np.zeros((batch, 1), np.int64) if begins else apart.onnx("Sub", behind, np.array([[length]]))
    )
    if own.do_rotary:
        assert cosines is not None
        assert sines is not None
        places: Value = apart.onnx("Add", starts, np.arange(length, dtype=np.int64)[None])
        places = places if positions is None else positions
        rotary = {"interleaved": int(own.rotary_interleaved)}
        parts[:2] = (_rotated(apart, x, places, cosines, sines, **rotary) for x in parts[:2])
    present = [
        x if past is None else _behind(apart, past, x, starts, max(total, call.dims(past)[2]))
        for past, x in zip((past_key, past_value), parts[1:], strict=True)
    ]
    lengths = None
    if not begins:
        parts[1:], lengths = present, apart.reshaped(behind, (batch,))
    window = (own.local_window_size - 1 if own.local_window_size > 0 else -1), -1
    causal = "bottom_right" if lengths is not None else "top_left"
    sinks = np.zeros(heads, np.float32) if own.smooth_softmax and sinks is None else sinks
    form = AttentionForm(own.scale or None, causal, window, own.softcap)
    if added is not None:
        keys = call.dims(parts[1])[2]
        added = apart.onnx("Slice", added, (0,), (keys,), (3,)) if call.dims(added)[3] > keys else added
        added = _shorter_mask(apart, added, keys)
    result = attended(apart, parts, form, added, lengths, sinks)
    return _joined(call, result), *present


def _behind(call: OperatorCall, past: Value, new: Value, starts: Value, count: int) -> Value:
    """Append new rows to a past, starting at a position per batch element."""
    batch, heads, room, _ = call.dims(past)
    length = call.dims(new)[2]
    if isinstance(starts, np.ndarray) and np.all(starts == 0) and length == count:
        return new
    places = np.arange(count, dtype=np.int64)[None]
    from_start = call.onnx("Sub", places, starts)
    from_start = call.onnx("Min", call.onnx("Max", from_start, np.array(0)), np.array(length - 1))
    is_new = call.onnx("GreaterOrEqual", places, starts)
    is_new = call.onnx("And", is_new, call.onnx("Less", places, call.onnx("Add", starts, np.array(length))))
    kept = np.minimum(places, max(room - 1, 0))
    rows = call.onnx("Where", is_new, call.onnx("Add", from_start, np.array(room)), kept)
    rows = call.onnx("Expand", call.reshaped(rows, (batch, 1, count, 1)), (batch, heads, count, 1))
    return call.onnx("GatherND", call.onnx("Concat", past, new, axis=2), rows, batch_dims=2)


# --- rotary embeddings --------------------------------------------------------------------------------------


@ONNX(f"{_MICROSOFT}.RotaryEmbedding")
def _rotary(
    call: OperatorCall,
    x: Tensor,
    positions: Value,
    cosines: Operand,
    sines: Operand,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
    is_packed_batching: int = 0,
) -> Value:
    """Rotate pairs of channels of each head by the angle of their position."""
    if is_packed_batching:
        raise call.unimplemented("its batch is packed")
    apart, dims = call.with_outputs(0), call.dims(x)
    table = call.dims(cosines)[1]
    size = dims[3] if len(dims) == 4 else dims[2] // num_heads if num_heads else 2 * table
    whole = x if len(dims) == 4 else _heads(apart, x, dims[2] // size)
    batch, _, length, _ = call.dims(whole)
    if prod(call.dims(positions)) == 1 and (batch, length) != (1, 1):
        start = apart.reshaped(apart.onnx("Cast", positions, to=_S64), (1, 1))
        positions = apart.onnx("Add", start, np.arange(length, dtype=np.int64)[None])
    positions = apart.reshaped(positions, (prod(call.dims(positions)) // length, length))
    turned = rotary_embedding_dim or size
    result = _rotated(apart, whole, positions, cosines, sines, interleaved=interleaved, turned=turned)
    result = apart.onnx("Mul", result, scale) if scale != 1 else result
    return result if len(dims) == 4 else _joined(call, result)


@ONNX("RotaryEmbedding")
def _rotary_of_onnx(
    call: OperatorCall,
    x: Tensor,
    cosines: Operand,
    sines: Operand,
    positions: Value | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Value:
    """Without positions, the tables have a row for each position of each batch element."""
    apart, is_joint = call.with_outputs(0), len(call.dims(x)) == 3
    whole = _heads(apart, x, num_heads) if is_joint else x
    turned = rotary_embedding_dim or call.dims(whole)[3]
    result = _rotated(apart, whole, positions, cosines, sines, interleaved=interleaved, turned=turned)
    return _joined(call, result) if is_joint else result


def _rotated(
    call: OperatorCall,
    whole: Value,
    positions: Value | None,
    cosines: Value,
    sines: Value,
    *,
    interleaved: int,
    turned: int = 0,
) -> Value:
    """Rotate pairs of the first `turned` channels of (batch, heads, length, width): halves, or neighbors."""
    batch, heads, length, size = call.dims(whole)
    turned = turned or 2 * call.dims(cosines)[-1]
    cos, sin = (
        call.reshaped(
            rows := part if positions is None else call.onnx("Gather", part, positions),
            (call.dims(rows)[0], 1, *call.dims(rows)[1:]),
        )
        for part in (cosines, sines)
    )
    half = turned // 2
    head = call.onnx("Slice", whole, (0,), (turned,), (3,)) if turned < size else whole
    if interleaved:
        pairs = call.reshaped(head, (batch, heads, length, half, 2))
        first, second = (
            call.reshaped(call.onnx("Slice", pairs, (i,), (i + 1,), (4,)), (batch, heads, length, half))
            for i in range(2)
        )
    else:
        first, second = (call.onnx("Slice", head, (i * half,), (i * half + half,), (3,)) for i in range(2))
    left = call.onnx("Sub", call.onnx("Mul", first, cos), call.onnx("Mul", second, sin))
    right = call.onnx("Add", call.onnx("Mul", second, cos), call.onnx("Mul", first, sin))
    if interleaved:
        ends = [call.reshaped(part, (batch, heads, length, half, 1)) for part in (left, right)]
        result = call.reshaped(call.onnx("Concat", *ends, axis=4), (batch, heads, length, turned))
    else:
        result = call.onnx("Concat", left, right, axis=3)
    if turned < size:
        result = call.onnx("Concat", result, call.onnx("Slice", whole, (turned,), (size,), (3,)), axis=3)
    return result
