"""Weights that are constant integers with scales and zero points: moved and read in that form.

    matmul(x, dequantized w)      ->  quantized matmul of x, w, scales and zero points
    gather(dequantized w, rows)   ->  (gather(w, rows) - gather(zeros, rows)) * gather(scales, rows)

Scales and zero points are those of groups of adjacent elements: their extents divide those of the weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from ...desc.attr_value import SCALE_TYPES, ZERO_POINT_TYPES
from ...dtypes import DataType
from ...errors import Error
from ...model.result_dims import Misfit, broadcast
from ..dims import Dims
from ..graph import Constant
from ..nodes.moves import ReshapeOperation, TransposeOperation
from ..nodes.operations import Operation, in_groups
from ..stored_constant import StoredConstant, as_constant
from .constants import moved_values
from .draft import Array

__all__ = ["KnownIntegers"]

_INTEGERS = DataType.s8, DataType.u8, DataType.s4, DataType.u4
_FLOATS = DataType.f8_e4m3, DataType.f8_e5m2, DataType.f4_e2m1


@dataclass(frozen=True, slots=True, eq=False)
class KnownIntegers:
    """Constant integers, and the scales and zero points of their groups, in as many dims.

    `nodes`: the names of the nodes that would have dequantized them.
    """

    stored: Constant
    factor: Constant
    shift: Constant
    nodes: tuple[str, ...] = ()

    @classmethod
    def of(cls, stored: Constant, factor: Array, shift: Array, node: str) -> KnownIntegers:
        """Return integers with scales and zero points of the same rank, or of a lower one."""
        rank = len(stored.type.dims)
        factor, shift = (_of_rank(x, rank) for x in (factor, shift))
        return cls(stored, as_constant(factor), as_constant(shift), (node,))

    @property
    def values(self) -> Array:
        """The integers."""
        return self.stored.values

    @property
    def scale(self) -> Array:
        """The scales, in a shape that broadcasts along the dims."""
        return in_groups(self.factor.values, self.stored.type.dims)

    @property
    def zero(self) -> Array:
        """The zero points, in such a shape."""
        return in_groups(self.shift.values, self.stored.type.dims)

    @property
    def reals(self) -> Array:
        """The real values of the integers, as f32."""
        scale, zero = (x.astype(np.float32) for x in (self.scale, self.zero))
        return ((self.values.astype(np.float32) - zero) * scale).astype(np.float32)

    def moved(self, operation: Operation, node: str) -> KnownIntegers:
        """Apply a reshape, a transpose or a slice of the real values."""
        dims, parts = self.stored.type.dims, []
        for part in (self.factor, self.shift):
            move = _move_of_groups(operation, dims, part.type.dims)
            if move is None:
                # One for each element.
                part, move = as_constant(np.broadcast_to(in_groups(part.values, dims), dims)), operation
            parts.append(_moved(part, move))
        factor, shift = parts
        return KnownIntegers(_moved(self.stored, operation), factor, shift, (*self.nodes, node))

    def scaled(self, values: Array, node: str) -> KnownIntegers | None:
        """Multiply unscaled integers by numbers of groups; None if these are not per group."""
        fits = self._may_have(values) and values.dtype != np.float64
        factor = as_constant(_of_rank(values, len(self.stored.type.dims))) if fits else self.factor
        return replace(self, factor=factor, nodes=(*self.nodes, node)) if fits else None

    def less(self, values: Array, node: str) -> KnownIntegers | None:
        """Subtract numbers of groups, which become zero points."""
        shift = self.shift.values
        fits = self._may_have(values) and not np.any(shift)
        shift = _of_rank(values, len(self.stored.type.dims)) if fits else shift
        return replace(self, shift=as_constant(shift), nodes=(*self.nodes, node)) if fits else None

    def _may_have(self, values: Array) -> bool:
        """True if numbers are per group of the elements, and those are still unscaled."""
        dims, factor = self.stored.type.dims, self.factor.values
        try:
            return factor.size == 1 and bool(np.all(factor == 1)) and broadcast(dims, values.shape) == dims
        except Misfit:
            return False

    def factors(self) -> tuple[Constant, ...] | None:
        """Return scales, and zero points if any, as a product reads them; None if it cannot."""
        kind, shift = self.stored.type.data_type, self.shift
        zeros = shift.values
        if shift.type.data_type not in ZERO_POINT_TYPES:
            fits = (x for kind in ("u1", "i1", "i4") if np.array_equal(x := zeros.astype(kind), zeros))
            with np.errstate(invalid="ignore"):
                whole = next(fits, None)
            if whole is None:
                return None
            shift = as_constant(whole)
        has_zeros = bool(np.any(zeros))
        if self.factor.type.data_type not in SCALE_TYPES or kind not in (*_INTEGERS, *_FLOATS):
            return None
        if has_zeros and kind not in _INTEGERS:
            return None
        return (self.factor, shift) if has_zeros else (self.factor,)


def _of_rank(values: Array, rank: int) -> Array:
    return values.reshape((1,) * (rank - values.ndim) + values.shape)


def _moved(constant: Constant, operation: Operation) -> Constant:
    """Move a constant, which stays packed if a descriptor can express it."""
    if isinstance(constant, StoredConstant):
        if isinstance(operation, TransposeOperation):
            return constant.transposed(operation.order)
        if isinstance(operation, ReshapeOperation):
            try:
                return StoredConstant(constant.content, constant.md.reshape(operation.dims))
            except Error:
                pass
    values = moved_values(operation, [constant.values])
    assert values is not None
    return as_constant(values)


def _move_of_groups(operation: Operation, dims: Dims, own: Dims) -> Operation | None:
    """Return the move of the scales for this move of the tensor; None if they need one per element."""
    if isinstance(operation, ReshapeOperation):
        new_dims = _regrouped(dims, own, operation.dims)
        return None if new_dims is None else ReshapeOperation(new_dims)
    if prod(own) == 1:
        return ReshapeOperation(own)
    return operation if isinstance(operation, TransposeOperation) else None


def _regrouped(dims: Dims, own: Dims, wanted: Dims) -> Dims | None:
    """Return the dims of scales after a reshape of the tensor; None if groups are not preserved.

    Axes that are merged, of which the first have scales per element, one per group, and the last one scale:
    (8, 4, 32) with scales (8, 4, 1) becomes (8, 128) with (8, 4).
    """
    result: list[int] = []
    old, new = 0, 0
    while old < len(dims) or new < len(wanted):
        last, end = min(old + 1, len(dims)), min(new + 1, len(wanted))
        while prod(dims[old:last]) != prod(wanted[new:end]):
            if prod(dims[old:last]) < prod(wanted[new:end]) and last < len(dims):
                last += 1
            elif end < len(wanted):
                end += 1
            else:
                return None
        sizes, parts, to = dims[old:last], own[old:last], wanted[new:end]
        if parts == sizes:
            result += to
        elif prod(parts) == 1:
            result += [1] * len(to)
        elif len(to) == 1 and _are_groups(sizes, parts):
            result.append(prod(parts))
        else:
            return None
        old, new = last, end
    return tuple(result)


def _are_groups(sizes: Dims, parts: Dims) -> bool:
    """True if scales of axes are per run of adjacent elements once the axes are merged."""
    first = next((axis for axis, (n, m) in enumerate(zip(sizes, parts, strict=True)) if n != m), len(sizes))
    return prod(parts[first + 1 :]) == 1
