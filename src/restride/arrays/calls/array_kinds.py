"""Arrays and memories of a call as keys of caches: all that a kernel depends on but addresses."""

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
"""Shape, strides and type of an array; with a format where its strides do not say it; or a descriptor."""

ArrayOperand = tuple[Kind, int, object]
"""The kind; the address of an array's first element, or of a memory's first byte; what keeps the bytes alive.

A bare tuple, as naming its parts would take as long as all else that a warm call does with them.
"""

_CPU = Engine("cpu")
# A name of this module: a look-up in NumPy's is a tenth of what is done here.
_ndarray = np.ndarray
# What surely has a hash, and may say how an array lies.
_CONFIRMING = (str, MemoryDesc, FormatTag, Tag, GenericTag)


def read_from(x: Any, format: Any = None) -> ArrayOperand | None:
    """The operand that is read; None for what takes a closer look. `format`: of a physical array."""
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
    """The operand that is written; None for what takes a closer look, or must not be written."""
    if type(out) is _ndarray:
        return read_from(out) if out.flags.writeable else None
    operand = _memory(out) if type(out) is Memory else None
    return None if operand is None or operand[2].readonly else operand


def _memory(x: Memory) -> tuple[MemoryDesc, int, Buffer] | None:
    # The buffer is held by name: another thread may give the memory another meanwhile.
    buffer = x._buffer
    if buffer is None or x._engine is not _CPU or x._mapped:
        return None
    return x._desc, buffer[0], buffer


def described(kind: Kind, subject: Subject = SOURCE) -> Described:
    """The descriptor of a kind, and how many bytes before its address element offset 0 lies.

    Raises InvalidArguments, under the name of `subject`, for arrays that no descriptor can say.
    """
    return Described(kind, 0) if isinstance(kind, MemoryDesc) else describe_kind(*kind, subject=subject)


def kind_of(x: Array) -> ArrayKind:
    """The kind of an array whose strides say how it lies."""
    return x.shape, x.strides, x.dtype
