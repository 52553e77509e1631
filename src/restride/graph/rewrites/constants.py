"""What is known before a run: nodes of constants alone become constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..graph import Node
from ..nodes.moves import (
    ConcatOperation,
    PadOperation,
    ReorderOperation,
    ReshapeOperation,
    SliceOperation,
    TransposeOperation,
)
from ..nodes.operations import BinaryOperation, EltwiseOperation, Operation, SumOperation
from .draft import Array, GraphDraft

__all__ = ["fold_constants", "moved_values"]

_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "binary_add": np.add,
    "binary_sub": np.subtract,
    "binary_mul": np.multiply,
    "binary_div": np.divide,
    "binary_max": np.maximum,
    "binary_min": np.minimum,
}
_ELTWISE: dict[str, Callable[[Array, float, float], Array]] = {
    "eltwise_relu": lambda x, alpha, _: np.where(x > 0, x, x * alpha),
    "eltwise_linear": lambda x, alpha, beta: x * alpha + beta,
    "eltwise_sqrt": lambda x, *_: np.sqrt(x),
    "eltwise_square": lambda x, *_: x * x,
    "eltwise_exp": lambda x, *_: np.exp(x),
    "eltwise_log": lambda x, *_: np.log(x),
    "eltwise_abs": lambda x, *_: np.abs(x),
    "eltwise_tanh": lambda x, *_: np.tanh(x),
    "eltwise_clip": lambda x, alpha, beta: np.clip(x, alpha, beta),
}


def fold_constants(draft: GraphDraft) -> None:
    """`y = f(constant, ...)`  ->  `y` is a constant, for moves and functions of elements of floats."""
    for place, node in draft:
        sources = [draft.known(name) for name in node.sources]
        if any(each is None for each in sources) or node.epilogues or node.data_type or len(node.outputs) > 1:
            continue
        known = [each.values for each in sources if each is not None]
        with np.errstate(all="ignore"):
            made = _computed(node.operation, known)
        if made is not None:
            draft.fold(place, _as_made(made, draft, node))


def _as_made(values: Array, draft: GraphDraft, node: Node) -> Array:
    made, dtype = draft.type(node.output), draft.constant(node.inputs[0])
    assert dtype is not None
    return np.broadcast_to(values.astype(dtype.dtype), made.dims)


def _computed(operation: Operation, sources: list[Array]) -> Array | None:
    moved = moved_values(operation, sources) if sources else None
    if moved is not None or not sources or sources[0].dtype.kind != "f":
        return moved
    if isinstance(operation, ReorderOperation):
        return None
    return _arithmetic(operation, [values.astype(np.float64) for values in sources])


def moved_values(operation: Operation, sources: list[Array]) -> Array | None:
    """What a move makes of arrays; None for what is no move."""
    first = sources[0]
    if isinstance(operation, ReshapeOperation):
        return first.reshape(operation.dims)
    if isinstance(operation, TransposeOperation):
        return first.transpose(operation.order)
    if isinstance(operation, ConcatOperation):
        return np.concatenate(sources, operation.axis)
    if isinstance(operation, SliceOperation):
        spans = zip(operation.starts, operation.sizes, operation.steps, strict=True)
        ends = [(at, at + size * step, step) for at, size, step in spans]
        return first[tuple(slice(at, None if end < 0 else end, step) for at, end, step in ends)]
    if isinstance(operation, PadOperation):
        pads = list(zip(operation.low, operation.high, strict=True))
        return np.pad(first, pads, constant_values=operation.value)
    return None


def _arithmetic(operation: Operation, sources: list[np.ndarray[Any, np.dtype[np.float64]]]) -> Array | None:
    """Computed in doubles, so that what is rounded to floats is rounded once."""
    if isinstance(operation, SumOperation):
        return np.asarray(sum(s * x for s, x in zip(operation.scales, sources, strict=True)))
    if isinstance(operation, BinaryOperation) and operation.algorithm in _BINARY:
        return _BINARY[operation.algorithm](*sources[:2])
    if isinstance(operation, EltwiseOperation) and operation.algorithm in _ELTWISE:
        # A run has these numbers as f32.
        numbers = (float(np.float32(each)) for each in (operation.alpha, operation.beta))
        return _ELTWISE[operation.algorithm](sources[0], *numbers)
    return None
