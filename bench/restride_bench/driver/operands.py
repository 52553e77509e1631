"""The memories of an execution: what lies in them, and where."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import restride as rs
from restride import DataType
from restride.desc.layout import layout_digits
from restride.desc.tags import Tag
from restride.runtime.result_pool import allocate

from .fill import Array, Bytes, rounded

Values = Mapping[str | int, Array]
"""Elements in logical order, as f64, by the name of the argument; those of attributes by its number."""


def arg_of(name: str | int) -> int:
    """The number of an argument, which may be a name: `src` is `ARG_SRC`, `msrc1` the second of many."""
    if isinstance(name, int):
        return name
    if name.startswith("msrc"):
        return rs.onednn.Arg.MULTIPLE_SRC + int(name.removeprefix("msrc"))
    return int(getattr(rs, f"ARG_{name.upper()}"))


@dataclass(frozen=True, slots=True)
class CaseOperand:
    """A memory of an execution: its argument, by name or number, and its descriptor.

    Inputs have `data`, which fills the storage with so many bytes, or `values`, which are its elements in
    logical order, rounded to the type when they are stored. A descriptor of format "any" is the primitive's
    to choose.
    """

    name: str | int
    md: rs.MemoryDesc
    data: Callable[[int], Bytes] | None = None
    values: Callable[[], Array] | None = None

    @property
    def arg(self) -> int:
        """The number of the argument."""
        return arg_of(self.name)

    @property
    def format(self) -> Any:
        """Tag or strides. What follows strides has gaps, too."""
        inner = self.md.layout.inner
        return Tag(self.md.outer_order, *inner) if inner[0] else self.md.strides

    def chosen(self, pd: Any) -> CaseOperand:
        """The same in the format that a primitive descriptor has chosen."""
        if self.md.format_kind == "blocked":
            return self
        return replace(self, md=pd.query_md("exec_arg_md", self.arg))

    def readable(self, held: Bytes) -> tuple[rs.MemoryDesc, Bytes]:
        """The place where the elements are read; for an opaque format, its source."""
        if self.md.format_kind == "blocked" or self.values is None:
            return self.md, held
        plain = rs.MemoryDesc(self.md.dims, self.md.data_type)
        return plain, stored(plain, self.values())

    def filled(self) -> Bytes:
        """The bytes of an input."""
        if self.values is not None:
            return stored(self.md, self.values())
        assert self.data is not None
        return self.data(self.md.size)


def desc_of(dims: Sequence[int], data_type: str, tag: Any = "any") -> rs.MemoryDesc:
    """The descriptor of a tensor; of the tag undef, which leaves it out, one that is for the primitive."""
    return rs.MemoryDesc(dims, data_type, "any" if tag == "undef" else tag)


def stored(md: rs.MemoryDesc, values: Array) -> Bytes:
    """The storage of a tensor with these elements, rounded to its type."""
    engine, held = rs.Engine("cpu"), allocate(md.size).bytes()
    held[...] = 0
    if not md.nelems:
        return held
    if (
        md.format_kind == "blocked"
        and md.data_type.bits >= 8
        and _fill(md, held, rounded(values, md.data_type))
    ):
        return held
    # An array has no elements of 4 bits.
    kind = md.data_type if md.data_type.bits >= 8 else DataType.f32
    dense = rs.Memory(rs.MemoryDesc(md.dims, kind), engine, rounded(values, kind))
    dst = rs.Memory(md, engine, held)
    rs.onednn.Reorder(dense, dst).execute(rs.onednn.Stream(engine), dense, dst)
    return held


def _fill(md: rs.MemoryDesc, held: Bytes, values: Array) -> bool:
    """Write elements with NumPy, which needs no kernel; False where the storage ends inside a block."""
    # NumPy strides no types that it does not have itself.
    values = values.view(f"u{values.itemsize}")
    digits = sorted(layout_digits(md.layout), key=lambda level: (level.axis, -level.weight))
    shape, strides = [level.extent for level in digits], [level.stride for level in digits]
    reach = md.offset0 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + 1
    if reach * values.itemsize > held.size or min(strides, default=0) < 0:
        return False
    whole = [blocks * block for blocks, block in zip(md.layout.outer_extents, md.layout.blocks, strict=True)]
    padded = np.zeros(whole, values.dtype)
    padded[tuple(slice(n) for n in md.dims)] = values.reshape(md.dims)
    elements = held[: held.size // values.itemsize * values.itemsize].view(values.dtype)[md.offset0 :]
    steps = [step * values.itemsize for step in strides]
    np.lib.stride_tricks.as_strided(elements, shape, steps)[...] = padded.reshape(shape)
    return True
