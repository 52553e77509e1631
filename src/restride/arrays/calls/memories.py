"""Arrays of any library as readable memory objects."""

from __future__ import annotations

from typing import Any

from ...runtime.describe import Subject, describe
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ..reorders import reorder
from .carriers import is_nibbles
from .tensors import as_array, as_numpy, is_foreign


def memory_of(x: Any, what: str) -> Memory:
    """Wrap an array; return a memory as is. Errors name the argument `what`, as "quantize: scale"."""
    if isinstance(x, Memory):
        return x
    array = as_array(as_numpy(x, what) if is_foreign(x) else x, what)
    if is_nibbles(array):
        array = reorder(array, None)
    return array if isinstance(array, Memory) else wrapped(array, Subject.source(*what.split(": ", 1)))


def wrapped(x: Any, subject: Subject) -> Memory:
    """Wrap a NumPy array as a memory object; errors name the subject."""
    described = describe(x, None, subject)
    return Memory(described.desc, Engine("cpu"), described.buffer_of(x))
