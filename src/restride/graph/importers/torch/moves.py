"""ATen's operators that move elements: slices, concatenations, reshapes, transpositions, padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ....runtime.alloc import Array
from ..onnx.known import axis_of
from ..onnx.rows import enter_rows
from ..operator_call import ATEN, Function, Made, OperatorCall, Value
from .call import cast_to, result_of

# --- other dims ---------------------------------------------------------------------------------------------


@ATEN("squeeze")
def _squeeze(call: OperatorCall, x: Any, axes: Any = None) -> Made:
    dims = call.dims(x)
    axes = range(len(dims)) if axes is None else (axes,) if isinstance(axes, int) else axes
    ones = [axis for axis in (axis_of(axis, len(dims)) for axis in axes if dims) if dims[axis] == 1]
    return call.onnx("Squeeze", x, ones) if ones else x


@ATEN("expand")
def _expand(call: OperatorCall, x: Any, extents: Any) -> Made:
    dims = call.dims(x)
    full = (1,) * (len(extents) - len(dims)) + dims
    sizes = [n if size == -1 else size for n, size in zip(full, extents, strict=True)]
    return call.onnx("Reshape" if list(full) == sizes else "Expand", x, sizes)


@ATEN("as_strided")
def _as_strided(call: OperatorCall, x: Any, sizes: Any, strides: Any, offset: Any = 0) -> Made:
    """Reorder a part of the elements of the row-major source; overlapping windows are gathered."""
    flat = call.onnx("Reshape", x, (-1,))
    order = sorted(range(len(sizes)), key=lambda axis: (-strides[axis], -sizes[axis]))
    steps = [strides[axis] for axis in order if sizes[axis] != 1]
    extents = [sizes[axis] for axis in order if sizes[axis] != 1]
    dense = [prod(extents[at + 1 :]) for at in range(len(extents))]
    start = offset or 0
    if steps != dense:
        return call.onnx("Gather", flat, _places(sizes, strides, start), axis=0)
    part = call.onnx("Slice", flat, (start,), (start + prod(sizes),), (0,), (1,))
    mixed = call.onnx("Reshape", part, [sizes[axis] for axis in order])
    return call.onnx("Transpose", mixed, perm=[order.index(axis) for axis in range(len(sizes))])


@ATEN("diagonal")
def _diagonal(call: OperatorCall, x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Made:
    """Take elements a fixed distance apart in a row of both axes, as a new last dim."""
    rank = len(call.dims(x))
    pair = axis_of(dim1, rank), axis_of(dim2, rank)
    first = call.onnx("Transpose", x, perm=[*(axis for axis in range(rank) if axis not in pair), *pair])
    *rest, rows, columns = call.dims(first)
    flat = call.onnx("Reshape", first, (*rest, rows * columns), allowzero=1)
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    start = max(offset, 0) - min(offset, 0) * columns
    end = start + max(count - 1, 0) * (columns + 1) + (count > 0)
    return call.onnx("Slice", flat, (start,), (end,), (len(rest),), (columns + 1,))


@ATEN("diagonal_scatter")
def _of_diagonal(
    call: OperatorCall, x: Any, part: Any, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Made:
    dims = call.dims(x)
    return _written(call, x, part, np.arange(prod(dims)).reshape(dims).diagonal(offset, dim1, dim2))


@ATEN("as_strided_scatter")
def _of_strides(call: OperatorCall, x: Any, part: Any, sizes: Any, strides: Any, offset: Any = 0) -> Made:
    return _written(call, x, part, _places(sizes, strides, offset or 0))


def _written(call: OperatorCall, x: Any, part: Any, places: Array) -> Made:
    """Replace elements of a tensor, given by row-major index."""
    dims, count = call.dims(x), places.size
    if not count:
        return call.placed(x)
    flat, values = (call.placed(call.reshaped(each, (prod(call.dims(each)),))) for each in (x, part))
    found = call.onnx("ScatterElements", flat, places.reshape(count), values)
    return call.reshaped(found, dims)


def _places(sizes: Sequence[int], strides: Sequence[int], start: int) -> Array:
    """Return the offsets of elements, by strides."""
    places = np.full(sizes, start, np.int64)
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        places += (np.arange(size) * stride).reshape(-1, *(1,) * (len(sizes) - axis - 1))
    return places


@ATEN("unfold")
def _windows(call: OperatorCall, x: Any, axis: int, size: int, step: int) -> Made:
    """Return windows of an axis, with their elements as a last dim."""
    dims = call.dims(x)
    axis = axis_of(axis, len(dims))
    starts = np.arange(0, dims[axis] - size + 1, step)
    parts = call.onnx("Gather", x, starts[:, None] + np.arange(size), axis=axis)
    rank = len(dims) + 1
    return call.onnx("Transpose", parts, perm=[*(i for i in range(rank) if i != axis + 1), axis + 1])


# --- parts and joins ----------------------------------------------------------------------------------------


def _part(call: OperatorCall, x: Any, axis: int, start: int, end: int, step: int = 1) -> Any:
    return call.with_outputs(0).onnx("Slice", x, (start,), (end,), (axis,), (step,))


@ATEN("split_with_sizes")
def _split(call: OperatorCall, x: Any, sizes: Any, dim: int = 0) -> Made:
    axis, ends = axis_of(dim, len(call.dims(x))), np.cumsum(sizes).tolist()
    return tuple(_part(call, x, axis, end - size, end) for size, end in zip(sizes, ends, strict=True))


@ATEN("slice")
def _slice(
    call: OperatorCall, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Made:
    size = call.dims(x)[dim]
    return call.onnx(
        "Slice", x, (start or 0,), (size if end is None else min(end, size),), (dim,), (step or 1,)
    )


@ATEN("slice_scatter")
def slice_scatter(
    call: OperatorCall, x: Any, part: Any, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Made:
    """Replace a slice of a tensor by another tensor."""
    axis = axis_of(dim, len(call.dims(x)))
    size = call.dims(x)[axis]
    low, high, step = slice(start, end, step).indices(size)
    if step == 1:
        ends = _part(call, x, axis, 0, low), part, _part(call, x, axis, max(low, high), size)
        return call.onnx("Concat", *(each for each in ends if call.dims(each)[axis]), axis=axis)
    source, places = np.zeros(size, np.int64), np.arange(low, high, step)
    source[places] = np.arange(len(places))
    is_part = np.isin(np.arange(size), places).reshape(-1, *(1,) * (len(call.dims(x)) - axis - 1))
    return call.onnx("Where", is_part, call.onnx("Gather", part, source, axis=axis), x)


@ATEN("cat")
def _join(call: OperatorCall, xs: Any, dim: int = 0) -> Made:
    """Tensors with a single empty dim can be joined with any others."""
    there = [x for x in xs if call.dims(x) != (0,)] or xs[:1]
    return call.onnx("Concat", *(cast_to(call, x, result_of(call)[1]) for x in there), axis=dim)


@ATEN("unbind")
def _unbound(call: OperatorCall, x: Any, dim: int = 0) -> Made:
    apart = call.with_outputs(0)
    return tuple(apart.onnx("Gather", x, np.array(at, np.int64), axis=dim) for at in range(call.dims(x)[dim]))


@ATEN("roll")
def _roll(call: OperatorCall, x: Any, shifts: Any, axes: Any = ()) -> Made:
    """Move the last elements of an axis to the front; without an axis, of the flattened tensor."""
    dims = call.dims(x)
    if not axes:
        flat = _rolled(call, call.onnx("Reshape", x, (-1,)), shifts, (0,))
        return call.onnx("Reshape", flat, dims)
    return _rolled(call, x, shifts, axes)


def _rolled(call: OperatorCall, x: Value, shifts: Sequence[int], axes: Sequence[int]) -> Value:
    for shift, axis in zip(shifts, axes, strict=True):
        size = call.dims(x)[axis]
        start = -shift % max(size, 1)
        if start:
            x = call.onnx(
                "Concat", _part(call, x, axis, start, size), _part(call, x, axis, 0, start), axis=axis
            )
    return x


@ATEN("flip")
def _backwards(call: OperatorCall, x: Any, axes: Any) -> Made:
    count, least = len(axes), -(2**62)
    return call.onnx("Slice", x, (-1,) * count, (least,) * count, axes, (-1,) * count) if axes else x


# --- squares of pixels --------------------------------------------------------------------------------------


@ATEN("pixel_shuffle")
def _pixels_of_channels(call: OperatorCall, x: Any, factor: int) -> Made:
    *batch, channels, height, width = call.dims(x)
    rank, rest = len(batch), channels // factor**2
    digits = call.onnx("Reshape", x, (*batch, rest, factor, factor, height, width))
    order = [*range(rank + 1), rank + 3, rank + 1, rank + 4, rank + 2]
    return call.onnx(
        "Reshape", call.onnx("Transpose", digits, perm=order), (*batch, rest, height * factor, width * factor)
    )


@ATEN("pixel_unshuffle")
def _channels_of_pixels(call: OperatorCall, x: Any, factor: int) -> Made:
    *batch, channels, height, width = call.dims(x)
    rank, high, wide = len(batch), height // factor, width // factor
    digits = call.onnx("Reshape", x, (*batch, channels, high, factor, wide, factor))
    order = [*range(rank + 1), rank + 2, rank + 4, rank + 1, rank + 3]
    return call.onnx(
        "Reshape", call.onnx("Transpose", digits, perm=order), (*batch, channels * factor**2, high, wide)
    )


@ATEN("channel_shuffle")
def _shuffle(call: OperatorCall, x: Any, groups: int) -> Made:
    batch, channels, *rest = call.dims(x)
    digits = call.onnx("Reshape", x, (batch, groups, channels // groups, *rest))
    mixed = call.onnx("Transpose", digits, perm=[0, 2, 1, *range(3, len(rest) + 3)])
    return call.onnx("Reshape", mixed, (batch, channels, *rest))


# --- padding ------------------------------------------------------------------------------------------------

_PADDINGS = {"reflection": "reflect", "replication": "edge"}


@ATEN("constant_pad_nd", *(f"{word}_pad{rank}d" for word in _PADDINGS for rank in (1, 2, 3)))
def _pad(call: OperatorCall, x: Any, pairs: Any, value: float = 0.0) -> Made:
    rank = len(call.dims(x))
    low, high = [0] * rank, [0] * rank
    # Torch's pairs begin with the last dim.
    for place in range(len(pairs) // 2):
        low[rank - 1 - place], high[rank - 1 - place] = pairs[2 * place], pairs[2 * place + 1]
    mode = _PADDINGS.get(call.node.operator.removeprefix("aten.").split("_")[0])
    if mode:
        return call.onnx("Pad", x, (*low, *high), mode=mode)
    return call.onnx("Pad", x, (*low, *high), cast_to(call, value, result_of(call)[1]))


_ROWS: Mapping[str, Function | str] = {
    **dict.fromkeys(("alias", "clone", "contiguous", "detach", "lift_fresh_copy"), lambda call, x: x),
    **dict.fromkeys(
        ("_unsafe_view", "reshape", "view"), lambda call, x, size: call.onnx("Reshape", x, size, allowzero=1)
    ),
    "permute": lambda call, x, dims: call.onnx(
        "Transpose", x, perm=[axis_of(axis, len(dims)) for axis in dims]
    ),
    "select": lambda call, x, dim, index: call.onnx("Gather", x, np.array(index, np.int64), axis=dim),
    "unsqueeze": lambda call, x, axis: call.onnx("Unsqueeze", x, (axis,)),
}
enter_rows(ATEN, _ROWS)
