"""All operators of ATen that there are: rows of the operations in `ops/`, and what modules here enter."""

from __future__ import annotations

from ..onnx import operators
from ..onnx.rows import enter_rows, specifications
from ..operator_call import ATEN

# A row of an operation comes first, so that what takes more than a row has the last word.
for _specification in specifications():
    enter_rows(ATEN, _specification.aten)

from . import elements, layers, moves  # noqa: E402

__all__ = ["TORCH_OPERATORS", "elements", "layers", "moves", "operators"]

TORCH_OPERATORS = frozenset(ATEN)
"""The operators that an exported program may have, by their names without overloads."""
