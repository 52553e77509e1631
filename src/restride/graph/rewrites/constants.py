"""Constant folding: nodes that read only constants become constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...runtime.engine import Engine
from ..known import results_of_arrays
from ..nodes.moves import (
    ConcatOperation,
    PadOperation,
    ReorderOperation,
    ReshapeOperation,
    SliceOperation,
    TransposeOperation,
)
from ..nodes.operations import Operation
from .draft import Array, GraphDraft

__all__ = ["fold_constants", "moved_values"]

_MOVES: Mapping[type[Operation], Callable[..., Array]] = {
    ReshapeOperation: lambda move, x: x.reshape(move.dims),
    TransposeOperation: lambda move, x: x.transpose(move.order),
    ConcatOperation: lambda move, *parts: np.concatenate(parts, move.axis),
    SliceOperation: lambda move, x: x[tuple(map(_span, move.starts, move.sizes, move.steps))],
    PadOperation: lambda move, x: np.pad(
        x, list(zip(move.low, move.high, strict=True)), constant_values=move.value
    ),
}
# Limit on the number of elements that are computed before a run.
_MOST_KNOWN = 1 << 20
# By the word of the operation or its algorithm, from its parameters and doubles: results are rounded once.
_ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "sum": lambda op, *parts: np.asarray(sum(s * x for s, x in zip(op.scales, parts, strict=True))),
    "binary_add": lambda op, x, y: x + y,
    "binary_sub": lambda op, x, y: x - y,
    "binary_mul": lambda op, x, y: x * y,
    "binary_div": lambda op, x, y: x / y,
    "binary_max": lambda op, x, y: np.maximum(x, y),
    "binary_min": lambda op, x, y: np.minimum(x, y),
    "eltwise_relu": lambda op, x: np.where(x > 0, x, x * _f32(op.alpha)),
    "eltwise_linear": lambda op, x: x * _f32(op.alpha) + _f32(op.beta),
    "eltwise_sqrt": lambda op, x: np.sqrt(x),
    "eltwise_square": lambda op, x: x * x,
    "eltwise_exp": lambda op, x: np.exp(x),
    "eltwise_log": lambda op, x: np.log(x),
    "eltwise_abs": lambda op, x: np.abs(x),
    "eltwise_tanh": lambda op, x: np.tanh(x),
    "eltwise_clip": lambda op, x: np.clip(x, _f32(op.alpha), _f32(op.beta)),
}


def _span(start: int, size: int, step: int) -> slice:
    end = start + size * step
    return slice(start, None if end < 0 else end, step)


def _f32(value: float) -> float:
    """Return a number as it is in a run."""
    return float(np.float32(value))


def fold_constants(draft: GraphDraft) -> None:
    """Make `y` in `y = f(constant, ...)` a constant: moves, functions of floats, and few elements."""
    for place, node in draft:
        constants = [constant for name in node.sources if (constant := draft.known(name)) is not None]
        is_plain = not (node.epilogues or node.data_type or len(node.outputs) > 1)
        if constants and len(constants) == len(node.sources) and is_plain:
            sources = [constant.values for constant in constants]
            with np.errstate(all="ignore"):
                result = _computed(node.operation, sources)
            if result is not None:
                kind = draft.type(node.output)
                draft.fold(place, np.broadcast_to(result.astype(kind.data_type.numpy), kind.dims))


def _computed(operation: Operation, sources: list[Array]) -> Array | None:
    move_result = moved_values(operation, sources)
    compute = _ARITHMETIC.get(getattr(operation, "algorithm", operation.kind))
    if move_result is not None:
        return move_result
    if compute is None or sources[0].dtype.kind != "f":
        return _run(operation, sources)
    result: Array = compute(operation, *(values.astype(np.float64) for values in sources))
    return result


def _run(operation: Operation, sources: list[Array]) -> Array | None:
    """Run an operation on few elements; None for many, and for quantization."""
    if operation._spec is None or isinstance(operation, ReorderOperation):
        return None
    results = results_of_arrays(operation, sources, Engine("cpu"), _MOST_KNOWN)
    return None if results is None or len(results) > 1 else results[0]


def moved_values(operation: Operation, sources: list[Array]) -> Array | None:
    """Apply a move to arrays; None for operations that are not moves."""
    move = _MOVES.get(type(operation))
    return None if move is None else move(operation, *sources)
