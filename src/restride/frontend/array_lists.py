"""The arrays of a call that takes several: how many there are, and on which engine."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

from ..desc.attr_value import MOST_SOURCES
from ..errors import InvalidArguments
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from .jax_arrays import is_jax
from .tensors import is_torch


def array_list(call: str, arrays: Any) -> list[Any]:
    """The arrays of a call. One array is no list of its rows."""
    if isinstance(arrays, np.ndarray | Memory | str | bytes) or not isinstance(arrays, Iterable):
        is_array = isinstance(arrays, np.ndarray | Memory)
        hint = "write [x]" if is_array else "pass a list of arrays"
        raise InvalidArguments(
            f"{call}: arrays is no list", code="RS-A13", why=f"it is {type(arrays).__name__}", hint=hint
        )
    if is_torch(arrays) or is_jax(arrays):
        why = "it is one tensor" if is_torch(arrays) else "it is one array"
        raise InvalidArguments(f"{call}: arrays is no list", code="RS-A13", why=why, hint="write [x]")
    try:
        found = list(islice(arrays, MOST_SOURCES + 1))
    except Exception as error:  # a foreign iterator may raise anything
        why = f"{type(arrays).__name__} cannot be gone through: {str(error)[:200] or type(error).__name__}"
        raise InvalidArguments(
            f"{call}: arrays is no list", code="RS-A13", why=why, hint="pass a list of arrays"
        ) from None
    if 1 <= len(found) <= MOST_SOURCES:
        return found
    why, hint = (
        ("there are more", "join some of them first")
        if found
        else ("there is none", "pass at least one array")
    )
    raise InvalidArguments(f"{call}: from 1 to {MOST_SOURCES} arrays", code="RS-A13", why=why, hint=hint)


def on_engine(memory: Memory, engine: Engine, name: str) -> Memory:
    """The memory, if it is one of a tensor on the engine that runs the call: the first memory's."""
    if not memory:
        why, hint = "it has no descriptor", "give it a descriptor and an engine"
        raise InvalidArguments(f"{name} is an empty memory", code="RS-M36", why=why, hint=hint)
    if memory.engine is engine:
        return memory
    raise InvalidArguments(
        f"{name} is on another engine",
        code="RS-R05",
        where=f"{memory.desc} on {memory.engine}",
        why=f"the first memory is on {engine}, which runs the call",
        hint="make all memories on one engine",
    )
