"""ONNX's lists of tensors and optional tensors, whose contents are known during translation."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from ....model.result_dims import Misfit
from ..operator_call import ONNX, Ints, OperatorCall, Value, ValueList
from .known import axis_of

_Place = Annotated[int, "the position in the list"]


LISTS = (
    *("ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement", "SequenceAt"),
    *("SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength"),
    "SplitToSequence",
)
"""Operators that read or make values other than tensors."""


def _items(tensors: object) -> tuple[Value, ...]:
    if isinstance(tensors, ValueList):
        return tensors.items
    raise Misfit("its input is not a list of tensors")


def _place(items: tuple[Value, ...], place: int | None) -> int:
    return axis_of(-1 if place is None else place, len(items), "place")


@ONNX("SequenceEmpty", "SequenceConstruct")
def _construct(call: OperatorCall, *xs: Value, dtype: int = 1) -> Any:
    return ValueList(xs)


@ONNX("SequenceInsert")
def _insert(call: OperatorCall, tensors: Any, x: Value, position: _Place | None = None) -> Any:
    items = _items(tensors)
    at = len(items) if position in (None, len(items)) else _place(items, position)
    return ValueList((*items[:at], x, *items[at:]))


@ONNX("SequenceErase")
def _erase(call: OperatorCall, tensors: Any, position: _Place | None = None) -> Any:
    items = _items(tensors)
    at = _place(items, position)
    return ValueList((*items[:at], *items[at + 1 :]))


@ONNX("SequenceAt")
def _at(call: OperatorCall, tensors: Any, position: _Place) -> Value:
    items = _items(tensors)
    return items[_place(items, position)]


@ONNX("SequenceLength")
def _length(call: OperatorCall, tensors: Any) -> Value:
    return np.array(len(_items(tensors)))


@ONNX("ConcatFromSequence")
def _concat(call: OperatorCall, tensors: Any, *, axis: int, new_axis: bool = False) -> Value:
    items = _items(tensors)
    if not items:
        raise Misfit("it joins an empty list")
    axis = axis_of(axis, len(call.dims(items[0])) + new_axis)
    parts = [call.onnx("Unsqueeze", x, (axis,)) for x in items] if new_axis else items
    return call.onnx("Concat", *parts, axis=axis)


@ONNX("SplitToSequence")
def _split(
    call: OperatorCall,
    x: Value,
    split: Annotated[Ints, "the list of sizes"] | None = None,
    *,
    axis: int = 0,
    keepdims: bool = True,
) -> Any:
    """Without sizes, parts have extent 1; a single size applies to all parts but the last."""
    axis = axis_of(axis, len(call.dims(x)))
    extent, lengths = call.dims(x)[axis], call.values[1] if split is not None else None
    size = split[0] if split else 1
    if split is not None and lengths is not None and call.dims(lengths):
        sizes = split
    elif size > 0:
        sizes = (*(size,) * (extent // size), *((extent % size,) if extent % size else ()))
    else:
        raise Misfit(f"parts of {size} elements are impossible")
    if sum(sizes) != extent or min(sizes, default=0) < 0:
        raise Misfit(f"parts of {list(sizes)} do not add up to {extent} elements")
    starts = np.cumsum((0, *sizes)).tolist()
    parts = [
        call.onnx("Slice", x, (start,), (start + n,), (axis,))
        for start, n in zip(starts, sizes, strict=False)
    ]
    if split is None and not keepdims:
        parts = [call.onnx("Squeeze", part, (axis,)) for part in parts]
    return ValueList(tuple(parts))


@ONNX("Optional")
def _optional(call: OperatorCall, x: Any = None, **attributes: Any) -> Any:
    return x


@ONNX("OptionalHasElement")
def _has_element(call: OperatorCall, x: Any = None) -> Value:
    return np.array(x is not None)


@ONNX("OptionalGetElement")
def _element(call: OperatorCall, x: Any = None) -> Any:
    if x is None:
        raise Misfit("its input is empty")
    return x
