"""All operators of ATen that there are: rows of the operations in `ops/`, and what modules here enter."""

from __future__ import annotations

from ....ops.binary import BinaryProblem
from ....ops.elementwise import ElementwiseProblem
from ..onnx import operators
from ..onnx.rows import enter_rows, specifications
from ..operator_call import ATEN
from .call import of_one_type

# A row of an operation comes first, so that what takes more than a row has the last word.
for _specification in specifications():
    _rows = _specification.aten
    if _specification in (BinaryProblem, ElementwiseProblem):
        _rows = {name: of_one_type(row) for name, row in _rows.items()}
    enter_rows(ATEN, _rows)

from . import elements, layers, moves  # noqa: E402

__all__ = ["TORCH_OPERATORS", "elements", "layers", "moves", "operators"]

TORCH_OPERATORS = frozenset(ATEN)
"""The operators that an exported program may have, by their names without overloads."""
