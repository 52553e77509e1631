"""The arrays of a call that takes several: how many there are, and on which engine."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

from ...desc.attr_value import MOST_SOURCES
from ...errors import refuse
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ..jax.arrays import is_jax
from .tensors import is_torch


def array_list(call: str, arrays: Any) -> list[Any]:
    """The arrays of a call. One array is no list of its rows."""
    if isinstance(arrays, np.ndarray | Memory | str | bytes) or not isinstance(arrays, Iterable):
        is_array = isinstance(arrays, np.ndarray | Memory)
        hint = "write [x]" if is_array else "pass a list of arrays"
        raise refuse("RS-A13:no-list", call=call, type=type(arrays).__name__, hint=hint)
    if is_torch(arrays) or is_jax(arrays):
        why = "it is one tensor" if is_torch(arrays) else "it is one array"
        raise refuse("RS-A13:one-array", call=call, why=why)
    try:
        found = list(islice(arrays, MOST_SOURCES + 1))
    except Exception as error:  # a foreign iterator may raise anything
        why = f"{type(arrays).__name__} cannot be gone through: {str(error)[:200] or type(error).__name__}"
        raise refuse("RS-A13:text", call=call, why=why) from None
    if 1 <= len(found) <= MOST_SOURCES:
        return found
    why, hint = (
        ("there are more", "join some of them first")
        if found
        else ("there is none", "pass at least one array")
    )
    raise refuse("RS-A13:1-arrays", call=call, most_sources=MOST_SOURCES, why=why, hint=hint)


def on_engine(memory: Memory, engine: Engine, name: str) -> Memory:
    """The memory, if it is one of a tensor on the engine that runs the call: the first memory's."""
    if not memory:
        why, hint = "it has no descriptor", "give it a descriptor and an engine"
        raise refuse("RS-M36:empty-memory", name=name, why=why, hint=hint)
    if memory.engine is engine:
        return memory
    raise refuse("RS-R05:another-engine", name=name, memory=memory, engine=engine)
