"""Scales and zero points shared by groups of elements, as arguments of calls.

They have as many axes as the tensor, at least two, and along each axis one value for each group. Memory
objects can have any layout: they are copied to a row-major one, which is small compared with the tensor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...desc.attr_value import SCALE_TYPES, ZERO_POINT_TYPES
from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...errors import refuse
from ...foreign import attribute_of, is_masked
from ...runtime.describe import Subject, describe
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ...runtime.transfer import from_host, to_engine
from ..calls.carriers import is_nibbles
from ..calls.tensors import as_numpy, is_foreign
from .factors import row_major

_SUBJECT = Subject(
    "reorder: the values of groups cannot be read", "reorder: the values of groups do not match"
)


def are_of_groups(value: Any, md: MemoryDesc) -> bool:
    """Return True for a value with as many axes as the tensor, at least two."""
    rank = value.desc.ndims if isinstance(value, Memory) and value else attribute_of(value, "ndim")
    return type(rank) is int and rank > 1 and rank == md.ndims


def levels_of(value: Any, md: MemoryDesc) -> tuple[Any, Any]:
    """Return the scales of groups, and the scale of the whole tensor or None, from (groups, number)."""
    # Operations on a list subclass can do anything.
    is_pair = type(value) in (list, tuple) and len(value) == 2 and are_of_groups(value[0], md)
    return (value[0], value[1]) if is_pair else (value, None)


def group_sizes(name: str, counts: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return the group size along each axis. Raises InvalidArguments if groups do not divide the dims."""
    if all((m and n % m == 0) or m == n for n, m in zip(dims, counts, strict=True)):
        return tuple(n // m if m else 1 for n, m in zip(dims, counts, strict=True))
    axis = next(i for i, (n, m) in enumerate(zip(dims, counts, strict=True)) if not m or n % m)
    raise refuse(
        "RS-R25:not-divided",
        name=name,
        found="x".join(map(str, counts)),
        dims=dims,
        axis=axis,
        dims2=dims[axis],
        found2=counts[axis],
    )


def scale_memory(value: Any, engine: Engine) -> Memory:
    """Return group scales, row-major, of a valid type."""
    return to_engine(row_major(_memory_of(value, np.dtype(np.float32), SCALE_TYPES, "scale", engine)), engine)


def zero_point_memory(value: Any, engine: Engine) -> Memory:
    """Return group zero points, row-major, of a valid type."""
    found = _memory_of(value, np.dtype(np.int32), ZERO_POINT_TYPES, "zero_point", engine)
    return to_engine(row_major(found), engine)


def _memory_of(
    value: Any, kind: np.dtype[Any], allowed: tuple[DataType, ...], name: str, engine: Engine
) -> Memory:
    if isinstance(value, Memory):
        if value.desc.data_type in allowed:
            return value
        raise refuse(
            "RS-V04:groups", name=name, data_type=value.desc.data_type, allowed=", ".join(map(str, allowed))
        )
    array = as_numpy(value, f"reorder: {name}") if is_foreign(value) else np.asarray(value)
    is_real = kind.kind == "f"
    if is_nibbles(array):
        array = array.astype(np.float32 if is_real else np.int8)
    is_array = not is_masked(value)
    if not is_array or not any(array.dtype == item.numpy for item in allowed if item.numpy is not None):
        exact = array
        if is_number := is_array and array.dtype.kind in ("iuf" if is_real else "iu"):
            with np.errstate(all="ignore"):
                exact = array.astype(kind)
        if not is_number or not (is_real or bool((exact == array).all())):
            raise refuse(
                "RS-V04:groups", name=name, data_type=array.dtype, allowed=", ".join(map(str, allowed))
            )
        array = exact
    described = describe(array, None, _SUBJECT)
    return from_host(described.desc, engine, described.buffer_of(array))
