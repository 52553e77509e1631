"""Decisions of a model on numbers that follow from extents: for other batches they may differ.

Extents, and what is added to them or taken out of them, lie on a line over the batch. All other operators
on such numbers (remainders, comparisons, minima) leave a note of what they saw. Where the notes of several
batches are alike, so are those of all batches between them, and extents alone differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...runtime.alloc import Array

Note = Mapping[str, bytes]
"""What an operator saw, in one way or more: one of them that stays the same is enough."""

# Operators of ONNX, and layers of OpenVINO.
EXTENTS = frozenset(("Shape", "ShapeOf", "Size"))
_SUMS = frozenset(("Add", "Concat", "Identity", "Neg", "Negative", "Sub", "Subtract"))
_MOVES = frozenset(("Gather", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"))
_WIDE = frozenset(map(np.dtype, ("i4", "i8")))


def note_of(operator: str, inputs: Sequence[Array], result: Array) -> Note | None:
    """The note of an operator with a known result; None where that lies on a line if its inputs do."""
    if operator in EXTENTS:
        return {"extents": _bytes(result)}
    input_bytes = _bytes(*inputs)
    numbers = [array for array in inputs if array.dtype.kind != "b"]
    if not {array.dtype for array in numbers} <= _WIDE or not inputs:
        return {"inputs": input_bytes}
    if operator in _SUMS or (operator in ("Cast", "Convert") and result.dtype in _WIDE):
        return None
    left, right = inputs[0], inputs[-1]
    if operator in _MOVES:
        return {"where": _bytes(*inputs[1:])}
    if operator in ("Mul", "Multiply"):
        return {"left": _bytes(left), "right": _bytes(right)}
    if operator in ("Div", "Divide") and right.all() and not (left % right).any():
        return {"divisor": _bytes(right)}
    if operator in ("Equal", "Greater", "Less"):
        return {"order": _bytes(np.sign(left - right))}
    if operator in ("Select", "Where"):
        return {"condition": _bytes(left)}
    return {"inputs": input_bytes}


def are_alike(batches: Sequence[Sequence[Note]]) -> bool:
    """True where the notes of all these batches say the same. Two of the batches follow one another."""
    if len({len(batch) for batch in batches}) > 1:
        return False
    return all(
        any(all(other.get(way) == value for other in notes) for way, value in notes[0].items())
        for notes in zip(*batches, strict=True)
    )


def _bytes(*arrays: Array) -> bytes:
    return b"".join(repr((array.dtype.str, array.shape)).encode() + array.tobytes() for array in arrays)
