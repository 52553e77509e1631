"""ATen's operators that move elements: views, parts, joins, padding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..onnx.context import Made, OnnxContext, Translator, Value
from ..onnx.known import axis_of
from .arguments import (
    F32,
    argument_at,
    by_onnx,
    dims_of,
    integers,
    value_at,
)


def _view(context: OnnxContext) -> Made:
    return by_onnx(context, "Reshape", value_at(context, 0), integers(*argument_at(context, 1)), allowzero=1)


def _permute(context: OnnxContext) -> Made:
    orders = [axis_of(axis, len(argument_at(context, 1))) for axis in argument_at(context, 1)]
    return by_onnx(context, "Transpose", value_at(context, 0), perm=orders)


def _squeeze(context: OnnxContext) -> Made:
    source, axes = value_at(context, 0), argument_at(context, 1)
    dims = dims_of(context, source)
    axes = [axes] if isinstance(axes, int) else axes
    ones = [axis_of(axis, len(dims)) for axis in axes if dims[axis_of(axis, len(dims))] == 1]
    return by_onnx(context, "Squeeze", source, integers(*ones)) if ones else source


def _unsqueeze(context: OnnxContext) -> Made:
    return by_onnx(context, "Unsqueeze", value_at(context, 0), integers(argument_at(context, 1)))


def _expand(context: OnnxContext) -> Made:
    source, wanted = value_at(context, 0), argument_at(context, 1)
    dims = dims_of(context, source)
    fits = zip((1,) * (len(wanted) - len(dims)) + dims, wanted, strict=True)
    if not all(size in (-1, n) for n, size in fits):
        raise context.unimplemented("it repeats elements", "operators repeat dims of 1 by themselves")
    return by_onnx(context, "Reshape", source, integers(*(1,) * (len(wanted) - len(dims)), *dims))


def _repeat(context: OnnxContext) -> Made:
    source, counts = value_at(context, 0), argument_at(context, "repeats")
    if not isinstance(source, np.ndarray):
        raise context.unimplemented("it repeats elements", "operators repeat dims of 1 by themselves")
    return np.tile(source, counts)


def _concat(context: OnnxContext) -> Made:
    values = [context.value(each.place) for each in argument_at(context, 0)]
    return by_onnx(context, "Concat", *values, axis=int(argument_at(context, "dim", 0)))


def _split(context: OnnxContext) -> Made:
    source, sizes = value_at(context, 0), argument_at(context, 1)
    axis = axis_of(int(argument_at(context, "dim", 0)), len(dims_of(context, source)))
    parts, start = [], 0
    for size in sizes:
        parts.append(_part(context, source, axis, start, start + size))
        start += size
    return tuple(parts)


def _part(context: OnnxContext, source: Value, axis: int, start: int, end: int, step: int = 1) -> Value:
    # Each part is a node of its own, whose name the builder makes.
    apart = replace(context, node=replace(context.node, outputs=()))
    return by_onnx(apart, "Slice", source, integers(start), integers(end), integers(axis), integers(step))


def _slice(context: OnnxContext) -> Made:
    source, axis = value_at(context, 0), int(argument_at(context, "dim", 0))
    start, end, step = (argument_at(context, at) for at in (2, 3, 4))
    size = dims_of(context, source)[axis]
    return by_onnx(
        context,
        "Slice",
        *(
            source,
            integers(start or 0),
            integers(size if end is None else min(end, size)),
            integers(axis),
            integers(step or 1),
        ),
    )


def _select(context: OnnxContext) -> Made:
    axis, index = int(argument_at(context, 1)), int(argument_at(context, 2))
    return by_onnx(context, "Gather", value_at(context, 0), np.array(index, np.int64), axis=axis)


def _pad(context: OnnxContext) -> Made:
    source, pairs = value_at(context, 0), argument_at(context, 1)
    rank = len(dims_of(context, source))
    low, high = [0] * rank, [0] * rank
    # Pairs of torch begin with the last dim.
    for place in range(len(pairs) // 2):
        low[rank - 1 - place], high[rank - 1 - place] = pairs[2 * place], pairs[2 * place + 1]
    return by_onnx(
        context, "Pad", source, integers(*low, *high), np.array(argument_at(context, "value", 0.0), F32)
    )


def _shuffle(context: OnnxContext) -> Made:
    source, groups = value_at(context, 0), int(argument_at(context, 1))
    batch, channels, *rest = dims_of(context, source)
    digits = by_onnx(context, "Reshape", source, integers(batch, groups, channels // groups, *rest))
    mixed = by_onnx(context, "Transpose", digits, perm=[0, 2, 1, *range(3, len(rest) + 3)])
    return by_onnx(context, "Reshape", mixed, integers(batch, channels, *rest))


MOVE_TRANSLATORS: Mapping[str, Translator] = {
    "aten._unsafe_view": _view,
    "aten.cat": _concat,
    "aten.channel_shuffle": _shuffle,
    "aten.constant_pad_nd": _pad,
    "aten.expand": _expand,
    "aten.permute": _permute,
    "aten.repeat": _repeat,
    "aten.reshape": _view,
    "aten.select": _select,
    "aten.slice": _slice,
    "aten.split_with_sizes": _split,
    "aten.squeeze": _squeeze,
    "aten.unsqueeze": _unsqueeze,
    "aten.view": _view,
}
"""By the name of the operator."""
