"""Reductions: sums and ranges of a tensor over some of its dims, as values, and what they mean.

A reduction says: *for every index, read here and fold it in there*. Its grammar::

    reduction := type op shape box*
    box       := base out axis*          offsets of the first element and of its output, in elements
    axis      := extent src out          one loop; `out` 0 is reduced, anything else is kept

Each box is whole: limits of dims that blocks do not cover exactly are peeled off when a reduction is made,
so that nothing but logical elements (and, for sums, padding, which is zero) is ever read. Boxes that
share an output fold into it one after the other; no operation here minds the order.

| op | result for each kept index |
| --- | --- |
| total | the sum of integers, modulo 2**32, as s32; a boolean counts 1 where it is set |
| amax | the largest magnitude among the finite values |
| min_max | the smallest and the largest finite value, in one pass |

Where no value is finite a range is 0. A zero in a result is always positive.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..desc.layout import LayoutDigit, layout_digits
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import short_repr
from ..dtypes import DataType
from ..errors import refuse
from .conversion import Array, to_real

# The magnitude, as bits, from which on a float is not finite.
NOT_FINITE = {
    DataType.f64: 0x7FF0000000000000,
    DataType.f32: 0x7F800000,
    DataType.bf16: 0x7F80,
    DataType.f16: 0x7C00,
    DataType.f8_e5m2: 0x7C,
    DataType.f8_e4m3: 0x7F,
}
_SUMMED = (DataType.s8, DataType.u8, DataType.s32, DataType.boolean)


class Op(enum.Enum):
    """What a reduction folds with."""

    total = "total"
    amax = "amax"
    min_max = "min_max"

    @property
    def results(self) -> int:
        """The number of numbers for each kept index."""
        return 2 if self is Op.min_max else 1

    @property
    def types(self) -> tuple[DataType, ...]:
        """The data types that can be folded."""
        return _SUMMED if self is Op.total else tuple(NOT_FINITE)


@dataclass(frozen=True, slots=True)
class ReductionAxis:
    """One loop: `extent` positions, and how far the source and the output move, in elements."""

    extent: int
    src: int
    out: int

    @property
    def is_kept(self) -> bool:
        """True where each position has an output of its own."""
        return self.out != 0

    def __str__(self) -> str:
        return f"for {self.extent}: src += {self.src}, out += {self.out}"


@dataclass(frozen=True, slots=True)
class ReductionBox:
    """Loops over whole axes, the farthest apart in memory outermost."""

    axes: tuple[ReductionAxis, ...]
    base: int = 0
    out: int = 0

    @property
    def positions(self) -> int:
        """Number of elements read."""
        return prod(a.extent for a in self.axes)

    def __str__(self) -> str:
        lines = [f"src + {self.base}, out + {self.out}", *map(str, self.axes)]
        return "\n".join("  " * depth + line for depth, line in enumerate(lines))


@dataclass(frozen=True, slots=True)
class ReductionNest:
    """A frozen reduction; equal ones share a kernel. `shape` are the kept extents, in logical order."""

    data_type: DataType
    op: Op
    shape: tuple[int, ...]
    boxes: tuple[ReductionBox, ...]

    @property
    def outputs(self) -> int:
        """Number of kept indices."""
        return prod(self.shape)

    @property
    def read_bytes(self) -> int:
        """Bytes read."""
        return sum(box.positions for box in self.boxes) * self.data_type.bits // 8

    @property
    def reach(self) -> int:
        """One past the highest element offset that is read; 0 where nothing is."""
        ends = (box.base + sum((a.extent - 1) * max(a.src, 0) for a in box.axes) + 1 for box in self.boxes)
        return max(ends, default=0)

    def __str__(self) -> str:
        return "\n".join([f"{self.op.value} of {self.data_type} into {self.shape}", *map(str, self.boxes)])


def reduction_of(md: MemoryDesc, keep_mask: int, op: Op) -> ReductionNest:
    """The reduction of a concrete descriptor over the dims whose bits `keep_mask` lacks.

    Sums run over padded dims, and keep padded dims; ranges see logical elements alone. Raises
    InvalidArguments for a mask with other bits, Unimplemented for a type that `op` does not fold.
    """
    _check(md, keep_mask, op)
    extents = md.padded_dims if op is Op.total else md.dims
    shape = tuple(n for d, n in enumerate(extents) if keep_mask >> d & 1)
    if 0 in extents:
        return ReductionNest(md.data_type, op, shape, ())
    steps = _out_strides(extents, keep_mask)
    digits = sorted(layout_digits(md.layout), key=lambda level: -level.weight)
    pieces = [list(_cover([v for v in digits if v.axis == d], n)) for d, n in enumerate(extents)]
    boxes = (_box(md.offset0, sum(piece, ()), steps) for piece in product(*pieces))
    return ReductionNest(md.data_type, op, shape, tuple(_normalise(box, op) for box in boxes))


def _check(md: MemoryDesc, keep_mask: int, op: Op) -> None:
    if not 0 <= keep_mask < 1 << md.ndims:
        raise refuse(
            "RS-N10:bad-mask-kept", keep_mask=short_repr(keep_mask), ndims=md.ndims, mask=(1 << md.ndims) - 1
        )
    if md.data_type not in op.types:
        raise refuse("RS-L02:no-data-type", value=op.value, md=md, types=", ".join(map(str, op.types)))


def _out_strides(extents: tuple[int, ...], keep_mask: int) -> list[int]:
    """Row-major over the kept dims; 0 for the others."""
    steps, step = [0] * len(extents), 1
    for d in reversed(range(len(extents))):
        if keep_mask >> d & 1:
            steps[d] = step
            step *= extents[d]
    return steps


@dataclass(frozen=True, slots=True)
class _DigitRange:
    """`extent` positions of one digit of a dim, from `start` on."""

    level: LayoutDigit
    start: int
    extent: int


def _cover(digits: list[LayoutDigit], size: int) -> Iterator[tuple[_DigitRange, ...]]:
    """Boxes of digits, outermost first, that cover the indices below `size` of one dim.

    17 in blocks of 16  ->  1 block of 16, and of block 1 the first position.
    """
    if not digits:
        yield ()
        return
    first, inner = digits[0], digits[1:]
    full, rest = divmod(size, first.weight)
    if full:
        yield (_DigitRange(first, 0, full), *(_DigitRange(level, 0, level.extent) for level in inner))
    if rest:
        yield from ((_DigitRange(first, full, 1), *piece) for piece in _cover(inner, rest))


def _box(base: int, spans: tuple[_DigitRange, ...], steps: list[int]) -> ReductionBox:
    outs = [span.level.weight * steps[span.level.axis] for span in spans]
    axes = (ReductionAxis(s.extent, s.level.stride, out) for s, out in zip(spans, outs, strict=True))
    return ReductionBox(
        tuple(axes),
        base + sum(s.start * s.level.stride for s in spans),
        sum(s.start * out for s, out in zip(spans, outs, strict=True)),
    )


# --- normal form --------------------------------------------------------------------------------------------


def _normalise(box: ReductionBox, op: Op) -> ReductionBox:
    """The canonical form: forward strides, no axes without effect, contiguous ones fused, in memory order."""
    for index in range(len(box.axes)):
        box = _forward(box, index)
    axes = _fuse_all([a for a in box.axes if a.extent > 1 and not _is_repeat(a, op)])
    return replace(box, axes=tuple(sorted(axes, key=lambda a: (-a.src, -abs(a.out), a.extent))))


def _is_repeat(axis: ReductionAxis, op: Op) -> bool:
    """True for an axis that reads the same elements again, where that changes nothing."""
    return op is not Op.total and axis.src == 0 and not axis.is_kept


def _forward(box: ReductionBox, index: int) -> ReductionBox:
    """Turn an axis that runs backwards: `for 5: src -= 3`  ->  base - 12, `for 5: src += 3`."""
    axis = box.axes[index]
    if axis.src >= 0:
        return box
    last = axis.extent - 1
    turned = ReductionAxis(axis.extent, -axis.src, -axis.out)
    axes = (*box.axes[:index], turned, *box.axes[index + 1 :])
    return ReductionBox(axes, box.base + last * axis.src, box.out + last * axis.out)


def _fuse_all(axes: list[ReductionAxis]) -> list[ReductionAxis]:
    for outer, inner in product(axes, axes):
        if outer is not inner and _continues(outer, inner):
            rest = [a for a in axes if a is not outer and a is not inner]
            return _fuse_all([*rest, replace(inner, extent=outer.extent * inner.extent)])
    return axes


def _continues(outer: ReductionAxis, inner: ReductionAxis) -> bool:
    return outer.src == inner.src * inner.extent and outer.out == inner.out * inner.extent


# --- meaning ------------------------------------------------------------------------------------------------


def interpret(reduction: ReductionNest, src: Array, factor: int = 1) -> tuple[Array, ...]:
    """What a reduction gives for `src`, a flat array of the storage dtype: its definition, in plain NumPy.

    One array of `reduction.shape` for each result: int32, or float32 (float64 of f64). Sums are multiplied by
    `factor`, an s32.
    """
    results = [_start(reduction) for _ in range(reduction.op.results)]
    fold = np.add if reduction.op is Op.total else np.maximum
    for box in reduction.boxes:
        over = tuple(i for i, a in enumerate(box.axes) if not a.is_kept)
        kept = tuple(a for a in box.axes if a.is_kept)
        bits = _strided(src, box.base, [(a.extent, a.src) for a in box.axes]).copy()
        for flat, values in zip(results, _fold_inputs(reduction, bits), strict=True):
            to = _strided(flat, box.out, [(a.extent, a.out) for a in kept])
            fold(to, fold.reduce(values, axis=over), out=to)
    if reduction.op is Op.total:
        results = [flat * factor for flat in results]
    return _final_values(reduction, results)


def real_of(data_type: DataType) -> type[np.floating[Any]]:
    """The type of a range: float64 for f64, else float32."""
    return np.float64 if data_type is DataType.f64 else np.float32


def _start(reduction: ReductionNest) -> Array:
    if reduction.op is Op.total:
        return np.zeros(reduction.outputs, np.int64)
    return np.full(reduction.outputs, -np.inf, real_of(reduction.data_type))


def _strided(flat: Array, start: int, axes: list[tuple[int, int]]) -> Array:
    width = flat.itemsize
    return as_strided(flat[start:], tuple(n for n, _ in axes), tuple(step * width for _, step in axes))


def _fold_inputs(reduction: ReductionNest, bits: Array) -> list[Array]:
    """What is added or, for ranges, of what the largest is found: the smallest is that of the negated."""
    if reduction.op is Op.total:
        return [to_real(bits, reduction.data_type, np.float64).astype(np.int64)]
    values = to_real(bits, reduction.data_type, real_of(reduction.data_type))
    wanted = [np.abs(values)] if reduction.op is Op.amax else [-values, values]
    return [np.where(np.isfinite(values), each, -np.inf).astype(values.dtype) for each in wanted]


def _final_values(reduction: ReductionNest, results: list[Array]) -> tuple[Array, ...]:
    """Final values: sums modulo 2**32; ranges with 0 where nothing was finite, and no negative zero."""
    shaped = [flat.reshape(reduction.shape) for flat in results]
    if reduction.op is Op.total:
        return (shaped[0].astype(np.int32),)
    zero = shaped[0].dtype.type(0)
    ends = [np.asarray(np.where(np.isfinite(each), each, zero) + zero) for each in shaped]
    # What is taken from a positive zero is never a negative one.
    return (ends[0],) if len(ends) == 1 else (np.asarray(zero - ends[0]), ends[1])
