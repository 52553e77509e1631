"""The rules that dims and strides obey together: nesting, range, size (M08, M09; reliability 6)."""

from __future__ import annotations

from itertools import pairwise

from ..dtypes import DataType
from ..errors import InvalidArguments
from .layout import RUNTIME_DIM, Layout, extent_range, storage_elements
from .parse import fail

_LIMIT = 2**63
_SHOWN = 200


def check_range(layout: Layout, dtype: DataType) -> None:
    """All bytes, offset0 included, lie in 0 .. 2**63 - 1: checked in Python integers, before allocation."""
    low, high = (0, 0) if layout.has_runtime else extent_range(layout)
    low = min(low, layout.offset0)
    if low < 0:
        raise fail(
            "RS-M10",
            f"the lowest element offset is {low}",
            "offsets count from the start of the buffer and cannot be negative",
            f"give offset0={layout.offset0 - low}, the offset of element (0, ..., 0)",
            f"dims {layout.dims} strides {layout.strides} offset0 {layout.offset0}",
        )
    size = 0 if layout.has_runtime else storage_elements(layout)
    reach = (abs(step) for step in layout.strides if step != RUNTIME_DIM)
    last = max(high, layout.offset0 + size, *reach)
    if dtype.nbytes(last) >= _LIMIT:
        raise fail(
            "RS-L03",
            f"the tensor needs {_size_text(dtype.nbytes(last))} bytes",
            "sizes, padding included, must be below 2**63 bytes",
            "look at the dims, and at the strides, which count elements, not bytes",
            where=_cut(f"{dtype} dims {layout.dims} strides {layout.strides}"),
        )


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _size_text(nbytes: int) -> str:
    return str(nbytes) if nbytes < 1 << 100 else f"over 2**{nbytes.bit_length() - 1}"


def check_strides(layout: Layout, strict: bool) -> None:
    """The strides of a plain layout nest without overlap: the relaxed rule (M09), or the literal one (M08).

    Raises InvalidArguments naming the two axes that clash. An empty tensor has no elements to lie anywhere:
    by the relaxed rule any strides will do.
    """
    if 0 in layout.dims and not strict:
        return
    steps = [step for step in layout.strides if step != RUNTIME_DIM]
    if any(step < 0 for step in steps):
        axis = next(i for i, step in enumerate(layout.strides) if step < 0 and step != RUNTIME_DIM)
        hint = "for a reversed source use MemoryDesc.from_strides(dims, data_type, strides, offset0)"
        raise fail(
            "RS-M08", f"strides[{axis}] is {layout.strides[axis]}", "strides must not be negative (M08)", hint
        )
    if layout.has_runtime:
        return
    clash = _literal_clash(layout) if strict else _relaxed_clash(layout)
    if clash is not None:
        raise _clash_error(layout, *clash)


def _relaxed_clash(layout: Layout) -> tuple[int, int] | None:
    """Two axes (outer, inner) that overlap; stride 0 and size-1 dims are free (M09)."""
    dims, strides = layout.dims, layout.strides
    order = sorted(
        (d for d in range(len(dims)) if strides[d] and dims[d] > 1), key=lambda d: (strides[d], dims[d])
    )
    pairs = pairwise(order)
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
    return fail(
        "RS-M08",
        f"axes {outer} and {inner} overlap",
        f"strides[{outer}] is {layout.strides[outer]}, but axis {inner} spans {need} elements (M08)",
        f"use a stride of at least {need}; overlapping sources need MemoryDesc.from_strides",
        f"dims {layout.dims} strides {layout.strides}",
    )
