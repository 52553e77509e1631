"""All supported ONNX operators: those that the sibling modules register, and control flow."""

from __future__ import annotations

from ..operator_call import ONNX
from . import (  # noqa: F401
    attention,
    contrib,
    einsum,
    elements,
    known,
    layers,
    moves,
    normalizations,
    quantized,
    quantized_operators,
    recurrent,
    resizing,
    rows,
    sampling,
    sequences,
    spectra,
    windows,
)
from .gradients import GRADIENT
from .loops import LOOPS

CONDITIONAL = "If"
"""Operator whose branches are graphs; the branch of a known condition replaces it."""

CONTROLS = frozenset((CONDITIONAL, *LOOPS))
"""Operators with graphs as attributes, which may be decided only in a run."""

OPERATORS = frozenset((*ONNX, *CONTROLS, GRADIENT))
"""All operators that a model can have; some only on known values."""
