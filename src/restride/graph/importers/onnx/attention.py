"""Attention of com.microsoft, as optimized models have it: products, a softmax, a product.

    softmax(scale * query * keys' + mask) * values        for each head of each row of the batch

ONNX's own operators of these names are others, which it defines by bodies. What was computed in a call
before, such as keys of a past, is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ....model.result_dims import Misfit
from ..operator_call import ONNX, Ints, Operand, OperatorCall, Tensor, Value

_MICROSOFT = "com.microsoft"
_F32 = 1
_FEWER = "a network computes all of a sequence in one call: save the model without a past"


@dataclass(frozen=True, slots=True)
class _Scores:
    """What becomes of products of queries and keys: a factor, a mask, whether later keys count."""

    num_heads: int
    scale: float = 0.0
    mask_filter_value: float = -10000.0
    unidirectional: bool = False


def _heads(call: OperatorCall, x: Value, heads: int) -> Value:
    """(batch, length, channels) as (batch, heads, length, channels of a head)."""
    batch, length, channels = call.dims(x)
    if heads < 1 or channels % heads:
        raise Misfit(f"{heads} heads do not divide {channels} channels")
    return call.transposed(call.reshaped(x, (batch, length, heads, channels // heads)), (0, 2, 1, 3))


def _mask_of_keys(
    call: OperatorCall, mask: Value | None, form: _Scores, lengths: tuple[int, int, int]
) -> Value | None:
    """What is added to scores (batch, heads, queries, keys): a mask of 0 and 1, or how many keys count."""
    if mask is None:
        return None
    batch, queries, keys = lengths
    dims = call.dims(mask)
    places = np.arange(keys, dtype=np.int64)
    if dims in ((batch,), (2 * batch,)):
        whole = call.onnx("Cast", mask, to=7)
        ends = call.reshaped(call.onnx("Slice", whole, (0,), (batch,), (0,)), (batch, 1))
        counts = call.onnx("Less", places, ends)
        if dims == (2 * batch,):
            starts = call.reshaped(call.onnx("Slice", whole, (batch,), (2 * batch,), (0,)), (batch, 1))
            counts = call.onnx("And", counts, call.onnx("Not", call.onnx("Less", places, starts)))
    elif dims in ((batch, keys), (batch, queries, keys)):
        counts = call.onnx("Greater", call.onnx("Cast", mask, to=7), np.array(0))
    else:
        raise call.unimplemented(f"its mask is {dims} for {batch} rows of {queries} queries and {keys} keys")
    shape = (batch, 1, 1, keys) if len(call.dims(counts)) == 2 else (batch, 1, queries, keys)
    return call.reshaped(call.onnx("Where", counts, 0.0, form.mask_filter_value), shape)


def _attended(
    call: OperatorCall, parts: tuple[Value, Value, Value], masks: list[Value | None], form: _Scores
) -> Value:
    """Queries, keys and values of heads: the result as (batch, length, channels)."""
    apart, (query, key, value) = call.with_outputs(0), parts
    queries, size, keys = *call.dims(query)[2:], call.dims(key)[2]
    scores = apart.onnx("MatMul", query, call.matrices_transposed(key))
    scores = apart.onnx("Mul", scores, form.scale or float(size**-0.5))
    if form.unidirectional:
        behind = np.arange(keys)[None] > np.arange(queries)[:, None] + (keys - queries)
        masks = [*masks, np.where(behind, np.float32(-3e38), np.float32(0))[None, None]]
    for mask in masks:
        if mask is not None:
            scores = apart.onnx("Add", scores, apart.onnx("CastLike", mask, scores))
    joined = apart.transposed(
        apart.onnx("MatMul", apart.onnx("Softmax", scores, axis=-1), value), (0, 2, 1, 3)
    )
    batch, length, *rest = call.dims(joined)
    return call.reshaped(joined, (batch, length, prod(rest)))


def _check_alone(call: OperatorCall, *past: Value | None) -> None:
    if any(each is not None for each in past) or any(call.node.outputs[1:]):
        raise call.unimplemented("it has keys and values of a past", _FEWER)


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
) -> Value:
    """Queries, keys and values are one product of the source, side by side."""
    _check_alone(call, past)
    apart = call.with_outputs(0)
    product = apart.onnx("MatMul", x, weights)
    if bias is not None:
        product = apart.onnx("Add", product, bias)
    batch, length, channels = call.dims(product)
    sizes = qkv_hidden_sizes or (channels // 3,) * 3
    ends = np.cumsum((0, *sizes))
    if len(sizes) != 3 or ends[-1] != channels:
        raise Misfit(f"{sizes} are not three parts of {channels} channels")
    parts = [
        _heads(
            apart, apart.onnx("Slice", product, (int(ends[i]),), (int(ends[i + 1]),), (2,)), form.num_heads
        )
        for i in range(3)
    ]
    masks = [_mask_of_keys(apart, mask, form, (batch, length, length)), added]
    return _attended(call, (parts[0], parts[1], parts[2]), masks, form)


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
) -> Value:
    """Each of them alone, or packed: (batch, length, heads, 3, channels), and 2 of keys and values."""
    _check_alone(call, past_key, past_value)
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
        raise Misfit(f"there are {len(parts)} of query, key and value")
    if bias is not None:
        parts = _with_bias(apart, parts, bias)
    ranked = [each if len(call.dims(each)) == 4 else _heads(apart, each, heads) for each in parts]
    batch, _, queries, _ = call.dims(ranked[0])
    masks = [_mask_of_keys(apart, mask, form, (batch, queries, call.dims(ranked[1])[2])), added]
    return _attended(call, (ranked[0], ranked[1], ranked[2]), masks, form)


def _with_bias(call: OperatorCall, parts: list[Value], bias: Value) -> list[Value]:
    """Each part plus its share of the bias, which has all side by side."""
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
    """Pairs of channels of each head are turned by the angle of their position."""
    if is_packed_batching:
        raise call.unimplemented("its batch is packed")
    apart, dims = call.with_outputs(0), call.dims(x)
    table = call.dims(cosines)[1]
    size = dims[3] if len(dims) == 4 else dims[2] // num_heads if num_heads else 2 * table
    turned = rotary_embedding_dim or size
    whole = x if len(dims) == 4 else _heads(apart, x, dims[2] // size)
    batch, heads, length, _ = call.dims(whole)
    if prod(call.dims(positions)) == 1 and (batch, length) != (1, 1):
        start = apart.reshaped(apart.onnx("Cast", positions, to=7), (1, 1))
        positions = apart.onnx("Add", start, np.arange(length, dtype=np.int64)[None])
    positions = apart.reshaped(positions, (prod(call.dims(positions)) // length, length))
    cos, sin = (
        apart.reshaped(
            rows := apart.onnx("Gather", part, positions), (call.dims(rows)[0], 1, *call.dims(rows)[1:])
        )
        for part in (cosines, sines)
    )
    half = turned // 2
    head = apart.onnx("Slice", whole, (0,), (turned,), (3,))
    if interleaved:
        pairs = apart.reshaped(head, (batch, heads, length, half, 2))
        first, second = (
            apart.reshaped(apart.onnx("Slice", pairs, (i,), (i + 1,), (4,)), (batch, heads, length, half))
            for i in range(2)
        )
    else:
        first, second = (apart.onnx("Slice", head, (i * half,), (i * half + half,), (3,)) for i in range(2))
    left = apart.onnx("Sub", apart.onnx("Mul", first, cos), apart.onnx("Mul", second, sin))
    right = apart.onnx("Add", apart.onnx("Mul", second, cos), apart.onnx("Mul", first, sin))
    if interleaved:
        ends = [apart.reshaped(part, (batch, heads, length, half, 1)) for part in (left, right)]
        result = apart.reshaped(apart.onnx("Concat", *ends, axis=4), (batch, heads, length, turned))
    else:
        result = apart.onnx("Concat", left, right, axis=3)
    if turned < size:
        result = apart.onnx("Concat", result, apart.onnx("Slice", whole, (turned,), (size,), (3,)), axis=3)
    result = apart.onnx("Mul", result, scale) if scale != 1 else result
    if len(dims) == 4:
        return result
    return call.reshaped(apart.transposed(result, (0, 2, 1, 3)), dims)
