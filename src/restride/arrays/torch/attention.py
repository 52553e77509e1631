"""Attention on torch tensors: an operator with gradients, known to torch's compiler.

Only `restride.torch` may import this module, because it imports torch. Results have the layout of their
queries, dense.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from ...desc.arguments import (
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
)
from ...desc.parse import parse_bool, to_f64
from ...errors import Error, refuse
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ..attention import attend, attend_backward
from ..attention import attention as attention_of_arrays
from ..calls.product_arguments import operand_of
from .kernels import array_of, new_like
from .modes import is_plain, refuse_derivative, refuse_second
from .operators import Operator, tensor_of

_CPU = Engine("cpu")
_NAME = "scaled_dot_product_attention"
_INFINITY = float("inf")
# Batch, heads, positions, width.
_NDIMS, _MATRIX = 4, 2


def _new_attention(query: Any, key: Any, value: Any, *_: Any) -> tuple[Any, Any]:
    dims = *query.shape[:-1], value.shape[-1]
    return new_like(query, shape=dims), query.new_empty(query.shape[:-1], dtype=torch.float32)


def _attention(
    query: Any, key: Any, value: Any, mask: Any, scale: float | None, is_causal: bool
) -> tuple[Any, Any]:
    """Return the result, and the logarithm of the sum of the powers for each row of scores."""
    if not query.dim() == key.dim() == value.dim() == _NDIMS:
        raise _misfit((query, key, value), "the operator requires four dims: batch, heads, positions, width")
    results = _new_attention(query, key, value)
    tensors = {ARG_SRC: query, ARG_SRC_1: key, ARG_SRC_2: value, ARG_SHIFT: mask}
    tensors |= {ARG_DST: results[0], ARG_DST_1: results[1]}
    attend(_memories(tensors), (scale, _causal(is_causal), None, 0.0))
    return results


def _memories(tensors: Mapping[int, Any]) -> dict[int, Memory]:
    pairs = ((arg, x) for arg, x in tensors.items() if x is not None)
    return {arg: operand_of(_NAME, "a tensor", array_of(x), _CPU) for arg, x in pairs}


def _causal(is_causal: bool) -> str:
    """Return the corner for causality: torch aligns the first query with the first key."""
    return "top_left" if is_causal else "none"


def _keep_attention(ctx: Any, inputs: Any, output: Any) -> None:
    query, key, value, mask, ctx.scale, ctx.is_causal = inputs
    ctx.save_for_backward(query, key, value, mask, *output)
    ctx.mark_non_differentiable(output[1])


def _attention_gradient(ctx: Any, grad: Any, *_: Any) -> Any:
    query, key, value, mask, *results = ctx.saved_tensors
    refuse_second(_NAME, grad, query, key, value)
    to_mask = mask is not None and ctx.needs_input_grad[3]
    *gradients, of_mask = torch.ops.restride.attention_backward(
        grad, query, key, value, mask, *results, ctx.scale, ctx.is_causal, to_mask
    )
    return *gradients, of_mask if to_mask else None, None, None


def _many_attentions(
    info: Any, in_dims: Any, query: Any, key: Any, value: Any, mask: Any, *how: Any
) -> tuple[Any, tuple[int, int]]:
    """Run one call for all parts, merged into the batch."""
    size, tensors = info.batch_size, []
    for x, at in zip((query, key, value, mask), in_dims[:4], strict=True):
        part = x if x is None or at is None else x.movedim(at, 0)
        if part is not None and at is None:
            part = part.expand(size, *part.shape)
        tensors.append(part)
    batch = tensors[0].shape[1]
    if tensors[3] is not None and tensors[3].shape[1] != batch:
        tensors[3] = tensors[3].expand(size, batch, *tensors[3].shape[2:])
    joined = [None if x is None else x.flatten(0, 1) for x in tensors]
    results = torch.ops.restride.attention(*joined, *how)
    return tuple(x.unflatten(0, (size, batch)) for x in results), (0, 0)


# --- gradients ----------------------------------------------------------------------------------------------


def _new_gradients(
    grad: Any, query: Any, key: Any, value: Any, mask: Any, *more: Any
) -> tuple[Any, Any, Any, Any]:
    """Return empty gradients; that of a mask has no elements unless `to_mask`, the last argument."""
    of_mask = new_like(mask) if more[-1] else query.new_empty(0)
    return new_like(query), new_like(key), new_like(value), of_mask


def _attention_back(
    grad: Any,
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    out: Any,
    stats: Any,
    scale: float | None,
    is_causal: bool,
    to_mask: bool,
) -> tuple[Any, Any, Any, Any]:
    """Use the kernel, or torch's functions if a mask has a gradient and for f64, as statistics are f32."""
    gradients = _new_gradients(grad, query, key, value, mask, to_mask)
    if to_mask or torch.float64 in (query.dtype, key.dtype, value.dtype):
        made = _by_formula((grad, query, key, value, mask, out, stats), scale, is_causal)
        for into, x in zip(gradients[: 3 + to_mask], made, strict=False):
            into.copy_(x.sum_to_size(into.shape))
        return gradients
    tensors = {ARG_SRC: query, ARG_SRC_1: key, ARG_SRC_2: value, ARG_SHIFT: mask, ARG_DIFF_DST: grad}
    tensors |= {ARG_DST: out, ARG_DST_1: stats, ARG_DIFF_SRC: gradients[0]}
    tensors |= {ARG_DIFF_SRC_1: gradients[1], ARG_DIFF_SRC_ITER_C: gradients[2]}
    attend_backward(_memories(tensors), (scale, _causal(is_causal), None, 0.0))
    return gradients


def _by_formula(tensors: Sequence[Any], scale: float | None, is_causal: bool) -> Iterator[Any]:
    """Return the gradients of query, key, value and scores, computing all scores again in memory."""
    grad, query, key, value, mask, out, stats = tensors
    factor = max(query.shape[-1], 1) ** -0.5 if scale is None else scale
    real = torch.float64 if torch.float64 in (query.dtype, key.dtype, value.dtype) else torch.float32
    # Heads of queries are grouped by the key head that they share.
    groups = key.shape[1], query.shape[1] // max(key.shape[1], 1)
    q, y, dy = (x.detach().to(real).unflatten(1, groups) for x in (query, out, grad))
    k, v = (x.detach().to(real).unsqueeze(2) for x in (key, value))
    scores = _masked(q @ k.mT * factor, mask, is_causal)
    sums = scores.logsumexp(-1) if real is torch.float64 else stats.unflatten(1, groups)
    powers = (scores - sums.unsqueeze(-1)).exp().masked_fill(scores == -_INFINITY, 0.0)
    of_scores = powers * (dy @ v.mT - (dy * y).sum(-1, keepdim=True))
    yield (of_scores @ k * factor).flatten(1, 2)
    yield (of_scores.mT @ q * factor).sum(2)
    yield (powers.mT @ dy).sum(2)
    yield of_scores.flatten(1, 2)


def _masked(scores: Any, mask: Any, is_causal: bool) -> Any:
    """Return scores (batch, key heads, heads of each, queries, keys) with mask and causality applied."""
    batch, key_heads, group, *places = scores.shape
    if mask is not None:
        wide = mask.detach().expand(batch, key_heads * group, *places).unflatten(1, (key_heads, group))
        scores = scores + wide if mask.is_floating_point() else scores.masked_fill(wide == 0, -_INFINITY)
    if is_causal:
        seen = torch.ones(places, dtype=torch.bool).tril()
        scores = scores.masked_fill(~seen, -_INFINITY)
    return scores


_PROBLEM = "Tensor query, Tensor key, Tensor value, Tensor? mask"
for _operator in (
    Operator(
        "attention",
        f"({_PROBLEM}, float? scale, bool is_causal) -> (Tensor, Tensor)",
        *(_attention, _new_attention, _keep_attention, _attention_gradient, _many_attentions),
    ),
    Operator(
        "attention_backward",
        f"(Tensor grad, {_PROBLEM}, Tensor out, Tensor stats, float? scale, bool is_causal, bool to_mask)"
        " -> (Tensor, Tensor, Tensor, Tensor)",
        *(_attention_back, _new_gradients),
    ),
):
    _operator.register()


# --- entry points -------------------------------------------------------------------------------------------


def attended(tensors: Sequence[Any], mask: Any, scale: Any, *, is_causal: bool, in_groups: bool) -> Any:
    """Return the attention of query, key and value as in torch's function: leading dims of 1 are broadcast.

    `in_groups`: a key head can serve several query heads. Raises InvalidArguments for arguments that do not
    match.
    """
    operands = [tensor_of(x) for x in tensors]
    if not torch.compiler.is_compiling():
        is_causal = parse_bool(f"{_NAME}: is_causal", is_causal)
    if any(x.dim() < _MATRIX for x in operands):
        raise _misfit(operands, "each must have at least two dims: positions and width")
    is_usual = all(x.dim() == _NDIMS and x.shape[0] == operands[0].shape[0] for x in operands)
    is_usual = is_usual and (
        in_groups or operands[0].shape[1] == operands[1].shape[1] == operands[2].shape[1]
    )
    if is_usual and mask is None:  # nothing below would change it
        return _of_four_dims((*operands, None), scale, is_causal)
    ndims = max(_NDIMS, *(x.dim() for x in operands))
    wide = [x[(None,) * (ndims - x.dim())] for x in operands]
    try:
        batch = torch.broadcast_shapes(*(x.shape[:-3] for x in wide))
        heads = None if in_groups else torch.broadcast_shapes(*(x.shape[-3:-2] for x in wide))[0]
    except RuntimeError:
        why = (
            "leading dims must be equal or 1; with enable_gqa=True, a key head can serve several query heads"
        )
        raise _misfit(operands, why) from None
    for i, x in enumerate(wide):
        # A key head already serves all query heads.
        is_one = i > 0 and wide[1].shape[-3] == wide[2].shape[-3] == 1
        own = x.shape[-3] if heads is None or is_one else heads
        wide[i] = x.expand(*batch, own, *x.shape[-2:]).flatten(0, ndims - _NDIMS)
    if mask is not None:
        mask = tensor_of(mask)[(None,) * (ndims - mask.dim())]
        # Dims of 1 are kept, unless several are merged.
        dims = mask.shape[:-3] if ndims == _NDIMS else batch
        if mask.dim() != ndims or any(n not in (1, m) for n, m in zip(mask.shape, dims, strict=False)):
            raise _misfit([*operands, mask], "each dim of the mask must be that of the scores, or 1")
        mask = mask.expand(*dims, *mask.shape[-3:]).flatten(0, ndims - _NDIMS)
    result = _of_four_dims((*wide, mask), scale, is_causal)
    if ndims > _NDIMS:
        return result.unflatten(0, batch)
    for _ in range(_NDIMS - max(x.dim() for x in operands)):
        result = result[0]
    return result


def _of_four_dims(tensors: Sequence[Any], scale: Any, is_causal: bool) -> Any:
    if all(x is None or is_plain(x) for x in tensors):
        query, key, value, mask = (None if x is None else x.detach() for x in tensors)
        causal = _causal(is_causal)
        return attention_of_arrays(query, key, value, mask=mask, scale=scale, causal=causal)
    refuse_derivative(_NAME)
    if not torch.compiler.is_compiling():
        scale = None if scale is None else to_f64(scale, f"{_NAME}: scale")
    return torch.ops.restride.attention(*tensors, scale, is_causal)[0]


def _misfit(operands: Sequence[Any], why: str) -> Error:
    where = ", ".join(str(tuple(x.shape)) for x in operands)
    hint = "pass query, key and value as for torch's function"
    return refuse("RS-R10:misfit", what=f"restride.torch.{_NAME}", where=where, why=why, hint=hint)
