"""ONNX operators that move elements: parts, joins, other dims, another order, padding."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ....runtime.alloc import Array
from ...dims import Dims
from ...nodes.moves import ConcatOperation, PadOperation, SliceOperation
from ...nodes.operations import BinaryOperation
from .context import Made, OnnxContext, Translator, Value
from .known import axis_of, listed_input, new_dims, slices, squeezed, unsqueezed


def _concat(context: OnnxContext) -> Value:
    axis = axis_of(context.attribute("axis"), len(context.dims(0)))
    names = [context.tensor(at) for at in range(len(context.values))]
    return names[0] if len(names) == 1 else context.add(ConcatOperation(axis), *names)


def _split(context: OnnxContext) -> Made:
    dims = context.dims(0)
    axis, parts = axis_of(context.attribute("axis", 0), len(dims)), len(context.node.outputs)
    if context.has(1):
        context.needed(1, "the list of sizes")
    sizes = listed_input(context.node, [None, context.known(1)], 1, "split")
    if sizes is None:
        each = -(-dims[axis] // parts)
        sizes = [each] * (parts - 1) + [dims[axis] - each * (parts - 1)]
    if sum(sizes) != dims[axis] or len(sizes) != parts or min(sizes) < 0:
        raise ValueError(f"parts of {sizes} of {dims[axis]} elements, and {parts} outputs")
    starts = [sum(sizes[:i]) for i in range(parts)]
    return tuple(_part(context, axis, start, size) for start, size in zip(starts, sizes, strict=True))


def _part(context: OnnxContext, axis: int, start: int, size: int) -> Value:
    dims = context.dims(0)
    starts, sizes = [0] * len(dims), list(dims)
    starts[axis], sizes[axis] = start, size
    operation = SliceOperation(tuple(starts), tuple(sizes), (1,) * len(dims))
    return context.builder.add(operation, context.tensor(0))


def _slice(context: OnnxContext) -> Value:
    for at in range(1, len(context.values)):
        if context.has(at):
            context.needed(at, "what it takes")
    dims = context.dims(0)
    known: list[Array | None] = [None, *(context.known(at) for at in range(1, len(context.values)))]
    spans = slices(context.node, known, dims)
    sizes = tuple(map(len, spans))
    starts = tuple(each.start if each else 0 for each in spans)
    # Of one element, or none, there is no next one.
    steps = tuple(each.step if len(each) > 1 else 1 for each in spans)
    if sizes == dims and min(steps, default=1) > 0:
        return context.tensor(0)
    return context.add(SliceOperation(starts, sizes, steps), context.tensor(0))


def _gather(context: OnnxContext) -> Value:
    indices = context.needed(1, "the list of indices")
    dims = context.dims(0)
    axis = axis_of(context.attribute("axis", 0), len(dims))
    if indices.dtype.kind not in "iu":
        raise ValueError(f"its indices are {indices.dtype}")
    flat = [axis_of(n, dims[axis], "element") for n in indices.reshape(-1)]
    if not flat or flat != list(range(flat[0], flat[0] + len(flat))):
        raise context.unimplemented("its indices do not follow each other", "use Slice and Concat")
    part = _part(context, axis, flat[0], len(flat))
    assert isinstance(part, str)
    return context.reshaped(part, (*dims[:axis], *indices.shape, *dims[axis + 1 :]))


def _transpose(context: OnnxContext) -> Value:
    rank = len(context.dims(0))
    return context.transposed(context.tensor(0), context.attribute("perm") or range(rank)[::-1])


def _reshape(context: OnnxContext) -> Value:
    if context.has(1):
        context.needed(1, "the new shape")
    wanted = listed_input(context.node, [None, context.known(1)], 1, "shape")
    return context.reshaped(context.tensor(0), new_dims(context.dims(0), wanted or [], context.node))


def _flatten(context: OnnxContext) -> Value:
    # As many dims as there are may be in front.
    dims, axis = context.dims(0), int(context.attribute("axis", 1))
    axis = axis if axis == len(dims) else axis_of(axis, len(dims))
    return context.reshaped(context.tensor(0), (prod(dims[:axis]), prod(dims[axis:])))


def _squeeze(context: OnnxContext) -> Value:
    axes = listed_input(context.node, [None, context.known(1)], 1, "axes")
    return context.reshaped(context.tensor(0), squeezed(context.dims(0), axes))


def _unsqueeze(context: OnnxContext) -> Value:
    axes = listed_input(context.node, [None, context.known(1)], 1, "axes")
    return context.reshaped(context.tensor(0), unsqueezed(context.dims(0), axes or []))


def _pad(context: OnnxContext) -> Value:
    mode = context.attribute("mode", "constant")
    if context.has(1):
        context.needed(1, "the padding")
    pads = listed_input(context.node, [None, context.known(1)], 1, "pads") or []
    rank = len(context.dims(0))
    if context.has(3):
        axes = [axis_of(axis, rank) for axis in context.needed(3, "the list of axes").reshape(-1)]
        ends = dict(zip(axes, zip(pads[: len(axes)], pads[len(axes) :], strict=True), strict=True))
        pads = [ends.get(axis, (0, 0))[side] for side in (0, 1) for axis in range(rank)]
    name, low, high = _cropped(context, pads[:rank], pads[rank:])
    if mode == "reflect":
        return _reflected(context, name, low, high)
    if mode != "constant":
        raise context.unimplemented("it pads with other than a constant or a reflection")
    value = context.needed(2, "the value") if context.has(2) else np.array(context.attribute("value", 0.0))
    return context.add(PadOperation(low, high, float(value.reshape(()))), name)


def _cropped(context: OnnxContext, low: Sequence[int], high: Sequence[int]) -> tuple[str, Dims, Dims]:
    """The source without what negative pads cut off, and what is left to pad."""
    dims, starts, sizes, before, behind = context.dims(0), [], [], [], []
    for n, front, back in zip(dims, low, high, strict=True):
        total = n + front + back
        if total < 0:
            raise ValueError(f"pads of {front} and {back} cut more than {n} elements")
        starts.append(min(max(-front, 0), n))
        sizes.append(max(min(n, n + back) - starts[-1], 0))
        before.append(min(max(front, 0), total))
        behind.append(total - before[-1] - sizes[-1])
    name = context.tensor(0)
    if tuple(sizes) != dims:
        name = context.builder.add(SliceOperation(tuple(starts), tuple(sizes), (1,) * len(dims)), name)
    return name, tuple(before), tuple(behind)


def _reflected(context: OnnxContext, name: str, low: Dims, high: Dims) -> Value:
    """Dim by dim the elements beside the first one and the last one, backwards, around the tensor."""
    for axis, (before, behind) in enumerate(zip(low, high, strict=True)):
        dims = context.builder.type(name).dims
        if not 0 <= min(before, behind) <= max(before, behind) < max(dims[axis], 1):
            raise ValueError(f"{before} and {behind} elements are reflected of {dims[axis]}")
        parts = [
            _backwards(context, name, axis, before, before),
            name,
            _backwards(context, name, axis, dims[axis] - 2, behind),
        ]
        found = [part for part in parts if part]
        if len(found) > 1:
            name = context.builder.add(ConcatOperation(axis), *found)
    return name


def _backwards(context: OnnxContext, name: str, axis: int, start: int, size: int) -> str:
    """`size` elements of an axis from `start` on, one after the other towards the first; "" of none."""
    if not size:
        return ""
    dims = context.builder.type(name).dims
    starts, sizes, steps = [0] * len(dims), list(dims), [1] * len(dims)
    starts[axis], sizes[axis], steps[axis] = start, size, -1
    return context.builder.add(SliceOperation(tuple(starts), tuple(sizes), tuple(steps)), name)


def _shape(context: OnnxContext) -> Value:
    dims = context.dims(0)[context.attribute("start", 0) : context.attribute("end")]
    return np.array(dims, np.int64)


def _size(context: OnnxContext) -> Value:
    return np.array(prod(context.dims(0)), np.int64)


def _same(context: OnnxContext) -> Value:
    return context.value(0)


def _dropout(context: OnnxContext) -> Value:
    """Nothing: it is for training."""
    if context.has(2) and context.needed(2, "whether it trains").any():
        raise context.unimplemented("it trains", "save the model for inference")
    return context.value(0)


def _where(context: OnnxContext) -> Value:
    values = [context.value(at) for at in (1, 2, 0)]
    rank = max(len(context.dims(at)) for at in range(3))
    return context.add(BinaryOperation("binary_select"), *(context.of_rank(each, rank) for each in values))


MOVE_TRANSLATORS: dict[str, Translator] = {
    "Concat": _concat,
    "Dropout": _dropout,
    "Flatten": _flatten,
    "Gather": _gather,
    "Identity": _same,
    "Pad": _pad,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}
"""By the name of the operator."""
