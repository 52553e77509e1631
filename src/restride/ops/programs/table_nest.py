"""Nests that look elements up along a dim by tables of positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...ir.computation import Array
from ...ir.digits import IndexDigits, TensorOperand, axes_of_digits, digits_of, index_digits, offset_at
from ...ir.nest import Axis, Bound, Compute, LoopNest, Operand, Stride

# Longer runs of one source element are not tiled.
_LONGEST_PERIOD = 16
# The periods of a table that are checked before the whole table is.
_BEGIN = 4


@dataclass(frozen=True, slots=True)
class TableOperand:
    """An operand of a nest: its type, base and digits, and tables for the dims along which it is looked up.

    `values`: those of weights, over the spatial dims.
    """

    data_type: DataType
    base: int
    digits: tuple[IndexDigits, ...]
    tables: dict[int, Array] = field(default_factory=dict)
    values: Array | None = None

    @classmethod
    def of_desc(cls, md: MemoryDesc, tables: dict[int, Array] | None = None) -> TableOperand:
        """Return the operand of a tensor."""
        digits = tuple(index_digits(md, dim) for dim in range(md.ndims))
        return cls(md.data_type, md.offset0, digits, tables or {})

    @classmethod
    def of_operand(cls, operand: TensorOperand, values: Array | None = None) -> TableOperand:
        """Return an operand of a computation."""
        return cls(operand.data_type, operand.base, operand.dims, values=values)

    def offsets(self, dim: int, padded: int) -> Array:
        """Return its offset for each index of a dim; past the end of a table any offset will do."""
        table = self.tables.get(dim)
        if table is None:
            return offset_at(self.digits[dim], np.arange(padded))
        behind = np.full(padded - len(table), table[-1] if len(table) else 0)
        return offset_at(self.digits[dim], np.concatenate([table, behind]))

    def offsets_in(self, part: DimPart, size: int, padded: int) -> Array:
        """Return the same for a part of a dim, of a whole dim with its padding. Where values repeat, the
        first of them are read each time: that is a broadcast.
        """
        offsets = self.offsets(part.dim, padded)
        if part.extent < size:
            offsets = offsets[part.first : part.first + part.extent]
        if self.values is None or part.period == 1:
            return offsets
        values = np.moveaxis(self.values, part.dim - 2, 0)[part.first : part.first + part.extent]
        rows = values.reshape(-1, part.period, *values.shape[1:])
        if (rows != rows[:1]).any():
            return offsets
        return offsets[np.arange(len(offsets)) % part.period]


class DimPart(NamedTuple):
    """The `extent` indices of one dim from `first` on, which tables split into two digits: the second has
    `period` positions.
    """

    dim: int
    first: int
    extent: int
    period: int = 1


def parts_of(dst: MemoryDesc, readers: Sequence[TableOperand]) -> tuple[DimPart, ...]:
    """Split the innermost dim: a middle in which tables are periodic, and the rest at its ends.

    A table such as 0 0 0 1 1 2 2 2 has two digits in its middle, which are tiled like any others. There is
    one part if no table is on that dim, if it is padded, or if nothing repeats.
    """
    dim = dst.layout.outer_order[-1]
    size = dst.dims[dim]
    if size == dst.padded_dims[dim] and any(dim in reader.tables for reader in readers):
        tables = [reader.offsets(dim, size) for reader in readers]
        for period in range(1, min(size // 2, _LONGEST_PERIOD) + 1):
            for first, left_out in product(range(period + 1), repeat=2):
                count = (size - first - left_out) // period * period
                if all(_repeats(table[first : first + count], period) for table in tables):
                    behind = first + count
                    middle = DimPart(dim, first, count, period)
                    parts = (DimPart(dim, 0, first), middle, DimPart(dim, behind, size - behind))
                    return tuple(part for part in parts if part.extent)
    return (DimPart(dim, 0, size),)


def _repeats(table: Array, period: int) -> bool:
    """Return whether a table has two digits that move by a stride. The beginning rules out most others."""
    if len(table) < 2 * period:
        return False
    begin = table[: _BEGIN * period]
    for part in (begin, table) if len(begin) < len(table) else (table,):
        if isinstance(_stride(part[:period]), tuple) or np.ptp(part[period:] - part[:-period]):
            return False
    return True


def _stride(table: Array) -> Stride:
    """Return how far a table moves from its first offset on, as a stride if it is one."""
    if len(table) < 2:
        return 0
    steps = np.diff(table)
    return tuple((table - table[0]).tolist()) if np.ptp(steps) else int(steps[0])


def _table_digits(tables: Sequence[Array], period: int) -> list[Axis]:
    """Return the axes of a dim from the offsets of its operands: two if there is a period, else one."""
    size = len(tables[0])
    levels = [(size, 1, list(tables))]
    if period > 1:
        outer = [table[::period] for table in tables]
        levels = [(size // period, period, outer), (period, 1, [table[:period] for table in tables])]
    axes: list[Axis] = []
    for extent, step, steps in levels:
        src, dst, *more = map(_stride, steps)
        axes.append(Axis(extent, src, dst, step=step, more=tuple(more)))
    return axes


def table_nest(dst: MemoryDesc, readers: Sequence[TableOperand], compute: Compute, part: DimPart) -> LoopNest:
    """Return the nest that computes a part of `dst` from readers; the value starts with the first."""
    sides = (readers[0], TableOperand.of_desc(dst), *readers[1:])
    bases = [side.base for side in sides]
    axes: list[Axis] = []
    bounds: list[Bound] = []
    for dim, (size, padded) in enumerate(zip(dst.dims, dst.padded_dims, strict=True)):
        if padded and any(dim in side.tables for side in sides):
            own = part if dim == part.dim else DimPart(dim, 0, size)
            tables = [side.offsets_in(own, size, padded) for side in sides]
            bases = [base + int(table[0]) for base, table in zip(bases, tables, strict=True)]
            digits = _table_digits(tables, own.period)
            if own.extent < size:
                axes += [replace(axis, step=0) for axis in digits]
                continue
        else:
            digits = digits_of([side.digits[dim] for side in sides], padded)
        axes += axes_of_digits(digits, size, padded, bounds)
    operands = tuple(Operand(side.data_type, base) for side, base in zip(sides[2:], bases[2:], strict=True))
    return LoopNest(
        src_type=sides[0].data_type,
        dst_type=dst.data_type,
        axes=tuple(axes),
        src_base=bases[0],
        dst_base=bases[1],
        compute=compute,
        bounds=tuple(bounds),
        operands=operands,
    ).verify()
