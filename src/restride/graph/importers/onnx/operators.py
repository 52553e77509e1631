"""All operators of ONNX that there are: what the modules beside this one enter, and branches."""

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
    quantised,
    quantised_operators,
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
"""The operator whose branches are graphs: the one that a known condition takes is translated in its place."""

CONTROLS = frozenset((CONDITIONAL, *LOOPS))
"""The operators that are graphs in a graph: which of them run, and how often, may be known only in a run."""

OPERATORS = frozenset((*ONNX, *CONTROLS, GRADIENT))
"""All operators that a model may have; some only on known values."""
