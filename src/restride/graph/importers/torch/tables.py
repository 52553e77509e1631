"""ATen's searches in sorted tables, and reductions of bags of rows, translated through ONNX's operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.alloc import Array
from ..operator_call import ATEN, Made, OperatorCall, Value
from .call import cast_to, promoted, result_of

# --- searches -----------------------------------------------------------------------------------------------


@ATEN("bucketize")
def _bucketize(
    call: OperatorCall, x: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False
) -> Made:
    return _searched(call, boundaries, x, right)


@ATEN("searchsorted")
def _search(
    call: OperatorCall,
    table: Any,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: Any = None,
    sorter: Any = None,
) -> Made:
    if sorter is not None:
        table = call.onnx("GatherElements", table, sorter, axis=-1)
    return _searched(call, table, x, right or side == "right")


def _searched(call: OperatorCall, table: Any, x: Any, is_right: bool) -> Value:
    """Count the numbers of a sorted row that are below, or not above, each value; NaN sorts last.

    Each value is compared with its whole row: tables of models are short.
    """
    table, x = promoted(call, table, x)
    if len(call.dims(table)) > 1:
        table = call.onnx("Unsqueeze", table, (-2,))
    x = call.reshaped(x, (*call.dims(x), 1))
    is_before = call.onnx("Not", call.elements("gt" if is_right else "ge", table, x))
    return call.onnx("ReduceSum", cast_to(call, is_before, result_of(call)[1]), (-1,), keepdims=False)


# --- bags ---------------------------------------------------------------------------------------------------

_SUM, _MEAN, _MAX = range(3)


@ATEN("_embedding_bag", "_embedding_bag_forward_only")
def _bags(
    call: OperatorCall,
    weight: Any,
    indices: Any,
    offsets: Any,
    *,
    mode: int = _SUM,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Made:
    """Reduce rows of a table by bags: `offsets` gives the start of each bag among the indices.

    Rows at `padding_idx` are skipped. An empty bag is 0.
    """
    (count,), kind = call.dims(indices), call.numpy_type(weight)
    bags = call.dims(offsets)[0]  # if the end is given, the rest is a last bag, which is dropped
    rows = call.onnx("Gather", weight, indices, axis=0)
    if per_sample_weights is not None:
        rows = call.onnx("Mul", rows, call.reshaped(per_sample_weights, (count, 1)))
    start = -np.inf if mode == _MAX else 0.0
    ones: Value = np.ones((count, 1), kind)
    if padding_idx >= 0:
        is_there = call.reshaped(call.elements("ne", *promoted(call, indices, padding_idx)), (count, 1))
        rows = call.onnx("Where", is_there, rows, np.array(start, kind))
        ones = cast_to(call, is_there, kind)
    at = _bag_of_rows(call, offsets, count)

    def put_together(values: Value, first: float, reduction: str) -> Value:
        empty = call.placed(np.full((bags, *call.dims(values)[1:]), first, kind))
        made = call.primitive(
            *("Scatter", empty, at, call.placed(values)), algorithm="axis", axis=0, reduction=reduction
        )
        assert not isinstance(made, tuple)
        left = bags - include_last_offset
        return call.onnx("Slice", made, (0,), (left,), (0,), (1,)) if left < bags else made

    if mode == _MAX:
        found = put_together(rows, start, "max")
        is_empty = call.elements("eq", found, np.array(start, kind))
        return call.onnx("Where", is_empty, np.zeros((), kind), found)
    total = put_together(rows, start, "add")
    if mode == _SUM:
        return total
    return call.onnx("Div", total, call.onnx("Max", put_together(ones, 0.0, "add"), np.ones((), kind)))


def _bag_of_rows(call: OperatorCall, offsets: Any, count: int) -> Value:
    places: Array = np.arange(count)
    if isinstance(offsets, np.ndarray):
        return np.asarray(np.searchsorted(offsets, places, "right") - 1)
    starts = call.reshaped(offsets, (1, *call.dims(offsets)))
    is_begun = call.elements("le", *promoted(call, starts, places[:, None]))
    begun = call.onnx("ReduceSum", cast_to(call, is_begun, np.dtype(np.int64)), (-1,), keepdims=False)
    return call.elements("sub", begun, np.array(1))
