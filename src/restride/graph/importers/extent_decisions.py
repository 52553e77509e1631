"""Decisions of a model based on extents, which can differ between batches.

Extents, and sums and selections of them, are linear in the batch. All other operators on such numbers
(remainders, comparisons, minima) record a note of what they saw. If the notes of several batches agree, so do
those of all batches between, and only extents differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...runtime.alloc import Array

Note = Mapping[str, bytes]
"""One or more descriptions of what an operator saw; it is enough that one of them stays the same."""

# Operators of ONNX, and layers of OpenVINO.
EXTENTS = frozenset(("Shape", "ShapeOf", "Size"))
_SUMS = frozenset(("Add", "Concat", "Identity", "Neg", "Negative", "Sub", "Subtract"))
_MOVES = frozenset(("Gather", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"))
_WIDE = frozenset(map(np.dtype, ("i4", "i8")))


def note_of(operator: str, inputs: Sequence[Array], result: Array) -> Note | None:
    """Return the note of an operator with a known result, or None if it is linear for linear inputs."""
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
    """True if the notes of all these batches agree. Two of the batches are consecutive."""
    if len({len(batch) for batch in batches}) > 1:
        return False
    return all(
        any(all(other.get(way) == value for other in notes) for way, value in notes[0].items())
        for notes in zip(*batches, strict=True)
    )


def _bytes(*arrays: Array) -> bytes:
    return b"".join(repr((array.dtype.str, array.shape)).encode() + array.tobytes() for array in arrays)
