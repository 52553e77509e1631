"""Checking at the door: dims, strides, types and stored descriptors into plain tuples of Python integers (M04–M09)."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..dtypes import DataType
from ..errors import InvalidArguments
from .layout import RUNTIME_DIM, Layout, extent_range, storage_elements
from .tags import MAX_NDIMS

_LIMIT = 2**63
_SHOWN = 80


def _fail(what: str, why: str, hint: str = "", where: str = "") -> InvalidArguments:
    return InvalidArguments(what, where=where, why=why, hint=hint)


def short_repr(value: object) -> str:
    """`repr` of a caller's value, cut: it may be long, or fail."""
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def parse_int(value: object, name: str) -> int:
    """A Python or NumPy integer as `int`; bool, float and str raise InvalidArguments naming `name`."""
    if type(value) is int:
        return value
    if not isinstance(value, bool | np.bool_ | np.ndarray):
        try:
            return operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            pass
    raise _fail(f"{name} is {short_repr(value)}", f"it must be an integer, not {type(value).__name__}")


def parse_ints(values: object, name: str) -> tuple[int, ...]:
    """A sequence of integers as a tuple; errors name the index."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        hint = f"write {name}=({values},)" if isinstance(values, int) else ""
        raise _fail(f"{name} is {short_repr(values)}", "it must be a sequence of integers", hint)
    return tuple(parse_int(value, f"{name}[{i}]") for i, value in enumerate(values))


def parse_dims(dims: object, name: str = "dims") -> tuple[int, ...]:
    """Up to 12 extents, each 0 or more, or RUNTIME_DIM (M04)."""
    shape = parse_ints(dims, name)
    if len(shape) > MAX_NDIMS:
        raise _fail(f"{name} has {len(shape)} axes", f"a tensor has at most {MAX_NDIMS} axes")
    for i, n in enumerate(shape):
        if n != RUNTIME_DIM and not 0 <= n < _LIMIT:
            why = "a dim must be 0 or more" if n < 0 else "a dim must be below 2**63"
            raise _fail(f"{name}[{i}] is {n}", why, where=f"{name} {shape}")
    return shape


def parse_strides(strides: object, ndims: int, name: str = "strides") -> tuple[int, ...]:
    """One stride in elements for each axis, of any sign."""
    steps = parse_ints(strides, name)
    if len(steps) != ndims:
        raise _fail(f"{name} has {len(steps)} entries, the dims have {ndims}", "each axis needs one stride")
    for i, step in enumerate(steps):
        if not -_LIMIT <= step < _LIMIT:
            raise _fail(f"{name}[{i}] is {step}", "a stride must fit in 64 bits")
    return steps


def parse_type(value: Any) -> DataType:
    """A data type other than undef (M04)."""
    dtype = DataType.parse(value)
    if dtype is DataType.undef:
        raise _fail("the data type is undef", "a tensor's elements need a type", "for example 'f32'")
    return dtype


def parse_index(index: Sequence[object], padded_dims: tuple[int, ...]) -> tuple[int, ...]:
    """A position inside the padded dims."""
    position = parse_ints(index, "index")
    if len(position) != len(padded_dims):
        raise _fail(f"index has {len(position)} entries", f"the descriptor has {len(padded_dims)} axes")
    for i, (at, padded) in enumerate(zip(position, padded_dims, strict=True)):
        if not 0 <= at < padded:
            raise _fail(f"index[{i}] is {at}", f"positions on axis {i} are 0..{padded - 1}, padding included")
    return position


def parse_offset(offset: object) -> int:
    """An element offset."""
    return parse_int(offset, "offset")


def check_range(layout: Layout, dtype: DataType) -> None:
    """All bytes, offset0 included, lie in 0 .. 2**63 - 1. Checked in Python integers, before any allocation."""
    if layout.has_runtime:
        return
    low, high = extent_range(layout)
    if low < 0:
        raise _fail(
            f"the lowest element offset is {low}",
            "offsets count from the start of the buffer and cannot be negative",
            f"give offset0={layout.offset0 - low}, the offset of element (0, ..., 0)",
            f"dims {layout.dims} strides {layout.strides} offset0 {layout.offset0}",
        )
    last = max(high, layout.offset0 + storage_elements(layout), *(abs(step) for step in layout.strides))
    if dtype.nbytes(last) >= _LIMIT:
        raise _fail(
            f"the tensor needs {dtype.nbytes(last)} bytes",
            "sizes, padding included, must be below 2**63 bytes",
            where=f"{dtype} dims {layout.dims} strides {layout.strides}",
        )


def check_strides(layout: Layout, strict: bool) -> None:
    """The strides of a plain layout nest without overlap: the relaxed rule (M09), or the literal one (M08).

    Raises InvalidArguments naming the two axes that clash.
    """
    steps = [step for step in layout.strides if step != RUNTIME_DIM]
    if any(step < 0 for step in steps):
        axis = next(i for i, step in enumerate(layout.strides) if step < 0 and step != RUNTIME_DIM)
        hint = "for a reversed source use MemoryDesc.from_strides(dims, data_type, strides, offset0)"
        raise _fail(f"strides[{axis}] is {layout.strides[axis]}", "strides must not be negative (M08)", hint)
    if layout.has_runtime:
        return
    clash = _literal_clash(layout) if strict else _relaxed_clash(layout)
    if clash is not None:
        raise _clash_error(layout, *clash)


def _relaxed_clash(layout: Layout) -> tuple[int, int] | None:
    """Two axes (outer, inner) that overlap; stride 0, size-1 dims and empty tensors are free (M09)."""
    dims, strides = layout.dims, layout.strides
    if 0 in dims:
        return None
    order = sorted(
        (d for d in range(len(dims)) if strides[d] and dims[d] > 1), key=lambda d: (strides[d], dims[d])
    )
    pairs = zip(order, order[1:], strict=False)
    return next(((j, i) for i, j in pairs if strides[j] < strides[i] * dims[i]), None)


def _literal_clash(layout: Layout) -> tuple[int, int] | None:
    """Two axes that break the seed's formula: strides[i] >= strides[j] * dims[j] for i sorted before j (M08).

    Equal strides may sort either way; the larger dim first is the order that can satisfy the formula.
    """
    dims, strides = layout.dims, layout.strides
    order = sorted(range(len(dims)), key=lambda d: (-strides[d], -dims[d]))
    pairs = ((i, j) for n, i in enumerate(order) for j in order[n + 1 :])
    return next(((i, j) for i, j in pairs if strides[i] < strides[j] * dims[j]), None)


def _clash_error(layout: Layout, outer: int, inner: int) -> InvalidArguments:
    need = layout.strides[inner] * layout.dims[inner]
    return _fail(
        f"axes {outer} and {inner} overlap",
        f"strides[{outer}] is {layout.strides[outer]}, but axis {inner} spans {need} elements (M08)",
        f"use a stride of at least {need}; overlapping sources need MemoryDesc.from_strides",
        f"dims {layout.dims} strides {layout.strides}",
    )


def read_json(data: object) -> tuple[str, DataType, Layout]:
    """Kind, type and layout of a stored descriptor, each value checked as if a stranger wrote it."""
    if not isinstance(data, dict):
        raise _fail("a stored descriptor must be a dict", f"this is {type(data).__name__}")
    missing = {
        "kind",
        "data_type",
        "dims",
        "padded_dims",
        "strides",
        "inner_blks",
        "inner_idxs",
        "offset0",
    } - data.keys()
    if missing:
        raise _fail(f"a stored descriptor lacks {sorted(missing)}", "every field of to_json is needed")
    kind = data["kind"]
    if kind == "undef":
        return "undef", DataType.undef, Layout((), (), ())
    dtype, dims = parse_type(data["data_type"]), parse_dims(data["dims"])
    if kind == "any" and dims:
        return "any", dtype, Layout(dims, dims, ())
    if kind != "blocked" or not dims:
        raise _fail(
            f"kind is {short_repr(kind)} with {len(dims)} dims", "it must be undef, any or blocked, with dims"
        )
    layout = _read_layout(data, dims)
    check_range(layout, dtype)
    return "blocked", dtype, layout


def _read_layout(data: dict[str, Any], dims: tuple[int, ...]) -> Layout:
    padded = parse_dims(data["padded_dims"], "padded_dims")
    strides = parse_strides(data["strides"], len(dims))
    blks = parse_ints(data["inner_blks"], "inner_blks")
    idxs = parse_ints(data["inner_idxs"], "inner_idxs")
    if len(padded) != len(dims) or any(p < n for p, n in zip(padded, dims, strict=True)):
        raise _fail(f"padded_dims {padded} do not hold dims {dims}", "padding only adds")
    if len(blks) != len(idxs) or not all(0 <= i < len(dims) for i in idxs) or any(b < 2 for b in blks):
        raise _fail(
            f"inner blocks {blks} of axes {idxs}", "each block needs a size above 1 and an axis of the dims"
        )
    if blks and min(strides) < 0 and RUNTIME_DIM not in strides:
        raise _fail(f"strides {strides} of a blocked layout", "only plain layouts may have negative strides")
    return Layout(dims, padded, strides, blks, idxs, parse_int(data["offset0"], "offset0"))
