"""The reference device: nests run by the interpreter, the definition that every other engine must match."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..plan.contract import Array, storage_dtype
from ..plan.interpret import interpret
from ..plan.nest import LoopNest
from .memory import Memory


def run_nest(
    nest: LoopNest, src: Memory, dst: Memory, scalars: Sequence[float] = (), tensors: Sequence[Array] = ()
) -> None:
    """Interpret a nest on memories that the caller has checked."""
    interpret(nest, storage(src), storage(dst), scalars, tensors)


def storage(memory: Memory) -> Array:
    """The buffer as elements of the storage dtype; element offset 0 is the first."""
    data = memory.data
    return np.empty(0, np.uint8) if data is None else data.view(storage_dtype(memory.desc.data_type))
