"""ONNX operators that move elements: slices, concatenations, reshapes, transpositions, padding."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Annotated, Any

import numpy as np

from ....model.result_dims import Misfit
from ....runtime.alloc import Array
from ....runtime.free_memory import check_room
from ...dims import Dims
from ...nodes.moves import ConcatOperation, PadOperation, SliceOperation
from ..operator_call import ONNX, TRAINS, Ints, Made, Moved, OperatorCall, Value
from .known import axis_of, check_countable, new_dims, span, squeezed, unsqueezed

_Axes = Annotated[Ints, "the list of axes"]
_Taken = Annotated[Ints, "the indices"]


@ONNX("Identity")
def _identity(call: OperatorCall, x: Any) -> Any:
    return x


@ONNX("Dropout")
def _dropout(
    call: OperatorCall,
    x: Value,
    ratio: Value | None = None,
    training_mode: Annotated[bool, "whether it trains"] = False,
    *,
    seed: int = 0,
) -> Made:
    if training_mode and not (isinstance(ratio, np.ndarray) and not ratio.any()):
        raise call.unimplemented(*TRAINS)
    return x, np.broadcast_to(np.True_, call.dims(x))


@ONNX("Shape")
def _shape(call: OperatorCall, x: Value, *, start: int = 0, end: int | None = None) -> Value:
    return np.array(call.dims(x)[start:end], np.int64)


@ONNX("Size")
def _size(call: OperatorCall, x: Value) -> Value:
    return np.array(prod(call.dims(x)), np.int64)


@ONNX("Reshape")
def _reshape(
    call: OperatorCall, x: Value, shape: Annotated[Ints, "the new shape"] = (), *, allowzero: bool = False
) -> Value:
    return call.reshaped(x, new_dims(call.dims(x), shape, allowzero))


@ONNX("Flatten")
def _flatten(call: OperatorCall, x: Value, *, axis: int = 1) -> Value:
    # The axis can be equal to the rank.
    dims = call.dims(x)
    axis = axis if axis == len(dims) else axis_of(axis, len(dims))
    return call.reshaped(x, (prod(dims[:axis]), prod(dims[axis:])))


@ONNX("Squeeze")
def _squeeze(call: OperatorCall, x: Value, axes: _Axes | None = None) -> Value:
    return call.reshaped(x, squeezed(call.dims(x), axes))


@ONNX("Unsqueeze")
def _unsqueeze(call: OperatorCall, x: Value, axes: _Axes = ()) -> Value:
    return call.reshaped(x, unsqueezed(call.dims(x), axes))


@ONNX("Transpose")
def _transpose(call: OperatorCall, x: Value, *, perm: Ints = ()) -> Value:
    return call.transposed(x, perm or range(len(call.dims(x)))[::-1])


@ONNX("Expand")
def _expand(call: OperatorCall, x: Value, shape: Annotated[Ints, "the new shape"]) -> Value:
    """Dims of 1 are broadcast in both directions."""
    dims = call.dims(x)
    full = np.broadcast_shapes(dims, shape)
    if not isinstance(x, str):
        return np.broadcast_to(x, full)
    dims = (1,) * (len(full) - len(dims)) + dims
    repeats = tuple(after // max(before, 1) for before, after in zip(dims, full, strict=True))
    return call.onnx("Tile", call.reshaped(x, dims), repeats)


@ONNX("DepthToSpace")
def _depth_to_space(call: OperatorCall, x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    batch, channels, *sizes = call.dims(x)
    count, block = len(sizes), (blocksize,) * len(sizes)
    left = channels // max(blocksize, 1) ** count
    if mode not in _BLOCKS_FIRST or blocksize < 1 or left * blocksize**count != channels:
        raise Misfit(f"blocksize {blocksize} does not fit {channels} channels in mode {mode!r}")
    digits = (batch, *block, left, *sizes) if _BLOCKS_FIRST[mode] else (batch, left, *block, *sizes)
    first, own = (1, count + 1) if _BLOCKS_FIRST[mode] else (2, 1)
    order = [0, own, *(axis for i in range(count) for axis in (count + 2 + i, first + i))]
    mixed = call.transposed(call.reshaped(x, digits), order)
    return call.reshaped(mixed, (batch, left, *(n * blocksize for n in sizes)))


@ONNX("SpaceToDepth")
def _space_to_depth(call: OperatorCall, x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    batch, channels, *sizes = call.dims(x)
    if mode not in _BLOCKS_FIRST or blocksize < 1 or any(n % blocksize for n in sizes):
        raise Misfit(f"blocksize {blocksize} does not fit {sizes} in mode {mode!r}")
    digits = (batch, channels, *(part for n in sizes for part in (n // blocksize, blocksize)))
    places, blocks = range(2, len(digits), 2), range(3, len(digits), 2)
    order = (0, *blocks, 1, *places) if _BLOCKS_FIRST[mode] else (0, 1, *blocks, *places)
    mixed = call.transposed(call.reshaped(x, digits), order)
    return call.reshaped(
        mixed, (batch, channels * blocksize ** len(sizes), *(digits[axis] for axis in places))
    )


# Whether the positions in a block come before the channels.
_BLOCKS_FIRST = {"DCR": True, "CRD": False}

# --- joins and parts ----------------------------------------------------------------------------------------


@ONNX("Concat")
def _concat(call: OperatorCall, *xs: Value, axis: int) -> Value:
    arrays = [x for x in xs if not isinstance(x, str)]
    axis = axis_of(axis, len(call.dims(xs[0])))
    if len(arrays) == len(xs):
        return np.concatenate(arrays, axis)
    return xs[0] if len(xs) == 1 else call.add(ConcatOperation(axis), *xs)


@ONNX("Split")
def _split(
    call: OperatorCall,
    x: Value,
    split: Annotated[Ints, "the list of sizes"] | None = None,
    *,
    axis: int = 0,
    num_outputs: int = 0,
) -> Made:
    dims, parts = call.dims(x), len(call.node.outputs)
    axis = axis_of(axis, len(dims))
    part_size = -(-dims[axis] // parts)
    sizes = (*(part_size,) * (parts - 1), dims[axis] - part_size * (parts - 1)) if split is None else split
    if sum(sizes) != dims[axis] or len(sizes) != parts or min(sizes) < 0:
        raise Misfit(f"parts of {list(sizes)} do not fit {dims[axis]} elements and {parts} outputs")
    if not isinstance(x, str):
        return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))
    return tuple(_part(call, x, axis, sum(sizes[:at]), size) for at, size in enumerate(sizes))


def _part(call: OperatorCall, x: str, axis: int, start: int, size: int, step: int = 1) -> str:
    dims = call.dims(x)
    starts, sizes, steps = [0] * len(dims), list(dims), [1] * len(dims)
    starts[axis], sizes[axis], steps[axis] = start, size, step
    return call.builder.add(SliceOperation(tuple(starts), tuple(sizes), tuple(steps)), x)


@ONNX("Slice")
def _slice(
    call: OperatorCall,
    x: Value,
    starts: _Taken,
    ends: _Taken,
    axes: _Taken | None = None,
    steps: _Taken | None = None,
) -> Value:
    dims = call.dims(x)
    axes, steps = axes or tuple(range(len(starts))), steps or (1,) * len(starts)
    if len({axis_of(axis, len(dims)) for axis in axes}) < len(axes):
        raise Misfit(f"{axes} contains an axis twice")
    spans = [range(n) for n in dims]
    for axis, *ends_and_step in zip(axes, starts, ends, steps, strict=True):
        spans[axis] = span(dims[axis], *ends_and_step)
    if not isinstance(x, str):
        # In Python, -1 is the last element, not the end of a backward walk.
        return x[tuple(slice(walk.start, None if walk.stop < 0 else walk.stop, walk.step) for walk in spans)]
    sizes = tuple(map(len, spans))
    # With a single element or none, the step has no effect.
    strides = tuple(walk.step if len(walk) > 1 else 1 for walk in spans)
    if sizes == dims and min(strides, default=1) > 0:
        return x
    return call.add(SliceOperation(tuple(walk.start if walk else 0 for walk in spans), sizes, strides), x)


@ONNX("Compress")
def _compress(
    call: OperatorCall,
    x: Value,
    condition: Annotated[Array, "which elements it takes"],
    *,
    axis: int | None = None,
) -> Value:
    """Select elements, or slices, by a known condition."""
    if axis is None:
        x, axis = call.reshaped(x, (prod(call.dims(x)),)), 0
    return call.onnx("Gather", x, np.flatnonzero(condition), axis=axis)


# --- padding ------------------------------------------------------------------------------------------------


_PAD_MODES = ("edge", "reflect", "wrap")


@ONNX("Pad")
def _pad(
    call: OperatorCall,
    x: Moved,
    pads: Annotated[Ints, "the padding"] = (),
    value: Value | None = None,
    axes: _Axes | None = None,
    *,
    mode: str = "constant",
) -> Value:
    rank, apart = len(call.dims(x)), call.with_outputs(0)
    if axes is not None:
        own = [axis_of(axis, rank) for axis in axes]
        ends = dict(zip(own, zip(pads[: len(own)], pads[len(own) :], strict=True), strict=True))
        pads = tuple(ends.get(axis, (0, 0))[side] for side in (0, 1) for axis in range(rank))
    if len(pads) != 2 * rank:
        raise Misfit(f"{len(pads)} pads for {rank} dims")
    x, low, high = _cropped(call, x, pads[:rank], pads[rank:])
    sizes = zip(low, call.dims(x), high, strict=True)
    check_countable([sum(parts) for parts in sizes], call.type_of(x))
    if mode == "constant" and not isinstance(value, str):
        return call.add(PadOperation(low, high, 0.0 if value is None else float(value.reshape(()))), x)
    if mode not in ("constant", *_PAD_MODES):
        raise Misfit(f"its mode is {mode!r}")
    check_room(call.type_of(x).nbytes(prod(map(sum, zip(low, call.dims(x), high, strict=True)))))
    how = str(value) if mode == "constant" else mode
    for axis, sides in enumerate(zip(low, high, strict=True)):
        x = _padded(apart, x, axis, sides, how) if any(sides) else x
    return x


def _padded(call: OperatorCall, x: str, axis: int, sides: tuple[int, int], how: str) -> str:
    """Extend a tensor along an axis: with its own elements, or with a tensor known only in a run."""
    dims = call.dims(x)
    n, rank = dims[axis], len(dims)
    if how in _PAD_MODES:
        if not n or (how == "reflect" and max(sides) >= n):
            raise Misfit(f"cannot pad {n} elements by {sides[0]} and {sides[1]} along axis {axis}")
        return str(call.onnx("Gather", x, _padded_places(n, sides, how), axis=axis))
    low, high = (tuple(size if i == axis else 0 for i in range(rank)) for size in sides)
    is_inside = np.pad(np.ones(n, np.bool_), sides).reshape(-1, *(1,) * (rank - axis - 1))
    padded = call.add(PadOperation(low, high), x)
    return str(call.onnx("Where", is_inside, padded, call.reshaped(how, ())))


def _padded_places(n: int, sides: tuple[int, int], mode: str) -> Array:
    """Return the indices of n elements, with the padding of a mode on both sides."""
    check_room(4 * (n + sum(sides)))
    options: Any = mode
    return np.pad(np.arange(n, dtype=np.int32), sides, options)


def _cropped(call: OperatorCall, x: str, low: Sequence[int], high: Sequence[int]) -> tuple[str, Dims, Dims]:
    """Crop the source by negative pads, and return it with the remaining pads."""
    dims, starts, sizes, before, behind = call.dims(x), [], [], [], []
    for n, front, back in zip(dims, low, high, strict=True):
        total = n + front + back
        if total < 0:
            raise Misfit(f"pads of {front} and {back} remove more than {n} elements")
        starts.append(min(max(-front, 0), n))
        sizes.append(max(min(n, n + back) - starts[-1], 0))
        before.append(min(max(front, 0), total))
        behind.append(total - before[-1] - sizes[-1])
    if tuple(sizes) != dims:
        x = call.builder.add(SliceOperation(tuple(starts), tuple(sizes), (1,) * len(dims)), x)
    return x, tuple(before), tuple(behind)
