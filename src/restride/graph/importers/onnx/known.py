"""ONNX operators on known values, by NumPy: what shapes are computed with, and constants.

Each function has the inputs as arrays, None for one that is left out, and the node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....runtime.alloc import Array
from ....runtime.free_memory import check_room
from .model import OnnxNode
from .tensors import ELEMENTS

Known = Callable[[OnnxNode, Sequence[Array | None]], Array]


def _of(inputs: Sequence[Array | None], at: int) -> Array:
    found = inputs[at] if at < len(inputs) else None
    if found is None:
        raise ValueError(f"input {at} is missing")
    return found


def listed_input(node: OnnxNode, inputs: Sequence[Array | None], at: int, name: str) -> list[int] | None:
    """Integers that older versions have as an attribute, newer ones as an input; None for none."""
    if at < len(inputs) and inputs[at] is not None:
        return [int(n) for n in _of(inputs, at).reshape(-1)]
    found = node.attributes.get(name)
    return None if found is None else [int(n) for n in found]


def axis_of(number: object, rank: int, what: str = "axis") -> int:
    """An axis from 0 on; negative numbers count from the end. Raises ValueError for one that is not there."""
    axis = int(str(number))
    if not -rank <= axis < rank:
        raise ValueError(f"there is no {what} {axis} of {rank}")
    return axis % rank


def _elementwise(function: Callable[..., Any]) -> Known:
    def run(node: OnnxNode, inputs: Sequence[Array | None]) -> Array:
        values = [_of(inputs, at) for at in range(len(inputs))]
        made = np.asarray(function(*values))
        return made if made.dtype == np.bool_ else made.astype(values[-1].dtype, copy=False)

    return run


def _divided(left: Array, right: Array) -> Array:
    if left.dtype.kind not in "iu":
        return np.asarray(left / right)
    return np.asarray(np.trunc(left / right) if np.any(left < 0) or np.any(right < 0) else left // right)


def _cast(node: OnnxNode, inputs: Sequence[Array | None]) -> Array:
    return _of(inputs, 0).astype(ELEMENTS[int(node.attributes["to"])])


def _filled(node: OnnxNode, inputs: Sequence[Array | None]) -> Array:
    value = node.attributes.get("value")
    value = np.zeros(1, np.float32) if value is None else value
    return np.broadcast_to(value.reshape(-1)[0], tuple(int(n) for n in _of(inputs, 0).reshape(-1)))


def _constant(node: OnnxNode, inputs: Sequence[Array | None]) -> Array:
    ((name, value),) = node.attributes.items()
    if value is None or name.startswith(("sparse", "value_string")):
        raise ValueError(f"a constant of {name} is not read")
    kinds = {
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
    }
    return np.asarray(value, kinds.get(name))


def _reshaped(node: OnnxNode, inputs: Sequence[Array | None]) -> Array:
    source = _of(inputs, 0)
    return source.reshape(new_dims(source.shape, listed_input(node, inputs, 1, "shape") or [], node))


def new_dims(dims: Sequence[int], wanted: Sequence[int], node: OnnxNode) -> tuple[int, ...]:
    """The dims of a Reshape: 0 is the dim of the source, -1 what is left."""
    keeps = not node.attributes.get("allowzero", 0)
    made = [dims[i] if n == 0 and keeps else n for i, n in enumerate(wanted)]
    if made.count(-1) > 1 or any(n < -1 for n in made):
        raise ValueError(f"the new dims are {tuple(wanted)}")
    rest = int(np.prod([n for n in made if n != -1], dtype=object))
    return tuple((int(np.prod(dims, dtype=object)) // max(rest, 1) if n == -1 else n) for n in made)


def squeezed(dims: Sequence[int], axes: Sequence[int] | None) -> tuple[int, ...]:
    """Dims without those of `axes`, or without all that are 1."""
    if axes is None:
        return tuple(n for n in dims if n != 1)
    gone = {axis_of(axis, len(dims)) for axis in axes}
    if any(dims[axis] != 1 for axis in gone):
        raise ValueError(f"dims {sorted(gone)} of {tuple(dims)} are not all 1")
    return tuple(n for i, n in enumerate(dims) if i not in gone)


def unsqueezed(dims: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """Dims with a 1 at each of `axes`, which count in the result."""
    rank = len(dims) + len(axes)
    new = {axis_of(axis, rank) for axis in axes}
    if len(new) < len(axes):
        raise ValueError(f"an axis is there twice in {tuple(axes)}")
    rest = iter(dims)
    return tuple(1 if i in new else next(rest) for i in range(rank))


def _squeezed(node: OnnxNode, inputs: Sequence[Array | None]) -> Array:
    source = _of(inputs, 0)
    return source.reshape(squeezed(source.shape, listed_input(node, inputs, 1, "axes")))


def _unsqueezed(node: OnnxNode, inputs: Sequence[Array | None]) -> Array:
    source = _of(inputs, 0)
    return source.reshape(unsqueezed(source.shape, listed_input(node, inputs, 1, "axes") or []))


def _concat(node: OnnxNode, inputs: Sequence[Array | None]) -> Array:
    return np.concatenate([each for each in inputs if each is not None], int(node.attributes["axis"]))


def slices(node: OnnxNode, inputs: Sequence[Array | None], dims: Sequence[int]) -> list[range]:
    """The places that a Slice takes of each dim."""
    starts, ends = (listed_input(node, inputs, at, name) for at, name in ((1, "starts"), (2, "ends")))
    if starts is None or ends is None:
        raise ValueError("starts or ends are missing")
    axes = listed_input(node, inputs, 3, "axes") or list(range(len(starts)))
    steps = listed_input(node, inputs, 4, "steps") or [1] * len(starts)
    made = [range(n) for n in dims]
    if len({axis_of(axis, len(dims)) for axis in axes}) < len(axes):
        raise ValueError(f"an axis is there twice in {tuple(axes)}")
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        n = dims[axis]
        # A walk backwards begins at an element, and ends before the first one at most.
        low, high = (0, n) if step > 0 else (-1, n - 1)
        first, last = (min(max(at + n if at < 0 else at, low), high) for at in (start, end))
        made[axis] = range(first if step > 0 else max(first, min(0, high)), last, step)
    return made


def _sliced(node: OnnxNode, inputs: Sequence[Array | None]) -> Array:
    source = _of(inputs, 0)
    spans = slices(node, inputs, source.shape)
    # What Python calls -1 is the last element, not the end of a walk backwards.
    parts = [slice(each.start, None if each.stop < 0 else each.stop, each.step) for each in spans]
    return source[tuple(parts)]


def _gathered(node: OnnxNode, inputs: Sequence[Array | None]) -> Array:
    return np.take(_of(inputs, 0), _of(inputs, 1), int(node.attributes.get("axis", 0)))


def _transposed(node: OnnxNode, inputs: Sequence[Array | None]) -> Array:
    return np.transpose(_of(inputs, 0), node.attributes.get("perm"))


def _reduced(function: Callable[..., Any]) -> Known:
    def run(node: OnnxNode, inputs: Sequence[Array | None]) -> Array:
        source = _of(inputs, 0)
        axes = listed_input(node, inputs, 1, "axes")
        if not axes and node.attributes.get("noop_with_empty_axes", 0):
            return source
        keeps = bool(node.attributes.get("keepdims", 1))
        made = function(source, axis=tuple(axes) if axes else None, keepdims=keeps)
        return np.asarray(made).astype(source.dtype, copy=False)

    return run


def _expanded(node: OnnxNode, inputs: Sequence[Array | None]) -> Array:
    source, dims = _of(inputs, 0), tuple(int(n) for n in _of(inputs, 1))
    return np.broadcast_to(source, np.broadcast_shapes(source.shape, dims))


def _where(node: OnnxNode, inputs: Sequence[Array | None]) -> Array:
    return np.where(*(_of(inputs, at) for at in range(3)))


def _range(node: OnnxNode, inputs: Sequence[Array | None]) -> Array:
    start, end, step = (_of(inputs, at).item() for at in range(3))
    check_room(8 * int(max((end - start) / step, 0)))
    return np.asarray(np.arange(start, end, step), _of(inputs, 0).dtype)


def _same(node: OnnxNode, inputs: Sequence[Array | None]) -> Array:
    return _of(inputs, 0)


_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "Abs": np.abs, "Add": np.add, "And": np.logical_and, "Ceil": np.ceil, "Div": _divided,
    "Equal": np.equal, "Exp": np.exp, "Floor": np.floor, "Greater": np.greater, "Less": np.less,
    "Log": np.log, "Mul": np.multiply, "Neg": np.negative, "Not": np.logical_not, "Or": np.logical_or,
    "Reciprocal": np.reciprocal, "Sqrt": np.sqrt, "Sub": np.subtract,
}  # fmt: skip

KNOWN: dict[str, Known] = {
    **{name: _elementwise(function) for name, function in _ELEMENTWISE.items()},
    "Cast": _cast,
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _filled,
    "Expand": _expanded,
    "Gather": _gathered,
    "Identity": _same,
    "Max": _elementwise(lambda *values: np.maximum.reduce(np.broadcast_arrays(*values))),
    "Min": _elementwise(lambda *values: np.minimum.reduce(np.broadcast_arrays(*values))),
    "Pow": lambda node, inputs: np.power(_of(inputs, 0), _of(inputs, 1)).astype(_of(inputs, 0).dtype),
    "Range": _range,
    "ReduceMax": _reduced(np.max),
    "ReduceMin": _reduced(np.min),
    "ReduceProd": _reduced(np.prod),
    "ReduceSum": _reduced(np.sum),
    "Reshape": _reshaped,
    "Slice": _sliced,
    "Squeeze": _squeezed,
    "Transpose": _transposed,
    "Unsqueeze": _unsqueezed,
    "Where": _where,
}
