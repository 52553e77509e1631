"""All supported operators of ATen: rows of the operations in `ops/`, and those of the modules here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....ops.binary import BinaryProblem
from ....ops.elementwise import ElementwiseProblem
from ....ops.eltwise import EltwiseProblem
from ..onnx import operators
from ..onnx.rows import enter_rows, specifications
from ..operator_call import ATEN
from .call import of_one_type

# Rows of operations are registered first, so that functions here override them.
for _specification in specifications():
    _rows: Mapping[str, Any] = _specification.aten
    for _name, _row in _rows.items():
        _is_of_elements = _specification is ElementwiseProblem or isinstance(_row, str)
        _is_of_elements &= _specification in (BinaryProblem, ElementwiseProblem, EltwiseProblem)
        enter_rows(ATEN, {_name: of_one_type(_row) if _is_of_elements else _row})

from . import elements, gradients, layers, moves, quantized, recurrent, tables  # noqa: E402

__all__ = [
    "TORCH_OPERATORS",
    "elements",
    "gradients",
    "layers",
    "moves",
    "operators",
    "quantized",
    "recurrent",
    "tables",
]

TORCH_OPERATORS = frozenset(ATEN)
"""The operators that an exported program can have, by their names without overloads."""
