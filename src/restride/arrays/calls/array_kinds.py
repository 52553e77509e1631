"""Arrays and memory objects of a call as cache keys: everything that a kernel depends on except addresses."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...desc.tags import FormatTag, GenericTag, Tag
from ...runtime.alloc import Array, Buffer, address_of
from ...runtime.describe import SOURCE, Described, Shape, Subject, describe_kind
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from .carriers import NIBBLES, NumpyType

ArrayKind = tuple[Shape, Shape, NumpyType]
PhysicalKind = tuple[Shape, Shape, NumpyType, Any]
Kind = ArrayKind | PhysicalKind | MemoryDesc
"""Shape, strides and type of an array, with a format if its strides do not determine it; or a descriptor."""

ArrayOperand = tuple[Kind, int, object]
"""The kind; the address of an array's first element, or of a memory's first byte; the owner of the bytes.

A bare tuple, because a named tuple would double the time that a warm call spends on it.
"""

_CPU = Engine("cpu")
# Bound to a name here: looking it up in NumPy would take a tenth of this module's time.
_ndarray = np.ndarray
# Types that are certainly hashable and can describe a layout.
_CONFIRMING = (str, MemoryDesc, FormatTag, Tag, GenericTag)


def read_from(x: Any, format: Any = None) -> ArrayOperand | None:
    """Return the operand to read, or None if it needs a closer look. `format`: of a physical array."""
    if type(x) is _ndarray:
        dtype = x.dtype
        if dtype.num in NIBBLES:
            return None
        if format is None:
            return (x.shape, x.strides, dtype), address_of(x), x
        return (
            ((x.shape, x.strides, dtype, format), address_of(x), x) if type(format) in _CONFIRMING else None
        )
    return _memory(x) if type(x) is Memory and format is None else None


def write_to(out: Any) -> ArrayOperand | None:
    """Return the operand to write, or None if it needs a closer look or must not be written."""
    if type(out) is _ndarray:
        return read_from(out) if out.flags.writeable else None
    operand = _memory(out) if type(out) is Memory else None
    return None if operand is None or operand[2].readonly else operand


def _memory(x: Memory) -> tuple[MemoryDesc, int, Buffer] | None:
    # The buffer is referenced by name, because another thread can give the memory another one meanwhile.
    buffer = x._buffer
    if buffer is None or x._engine is not _CPU or x._mapped:
        return None
    return x._desc, buffer[0], buffer


def described(kind: Kind, subject: Subject = SOURCE) -> Described:
    """Return the descriptor of a kind, and how many bytes element offset 0 is before its address.

    Raises InvalidArguments, under the name of `subject`, for arrays that no descriptor can express.
    """
    return Described(kind, 0) if isinstance(kind, MemoryDesc) else describe_kind(*kind, subject=subject)


def kind_of(x: Array) -> ArrayKind:
    """Return the kind of an array whose strides determine its layout."""
    return x.shape, x.strides, x.dtype
