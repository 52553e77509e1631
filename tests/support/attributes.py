"""Expected results of reorders with attributes: N1 in plain NumPy, step by step.

No plan, nest or kernel has a part in it. Where an element lies is asked of `MemoryDesc.offset`; each
step is rounded to f32, or to f64 where a side is f64.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

import restride as rs
from restride.dtypes import DataType
from restride.ir.nest import has_wide
from support.packed import elements_of
from support.rounding import Bits, Reals, bits_of, reals_of

Bytes = npt.NDArray[np.uint8]
Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Factor:
    """Scales or zero points: `bits`, one to a place, row-major over the masked dims.

    `known`: given when the primitive is made; else a memory brings them.
    """

    mask: int
    data_type: DataType
    bits: Bits
    groups: Shape = ()
    known: bool = False

    def values(self) -> npt.NDArray[np.generic]:
        """As f32, or as s32."""
        kind = np.int32 if self.data_type.is_integral else np.float32
        with np.errstate(all="ignore"):
            return reals_of(self.bits, self.data_type, np.float64).astype(kind)


@dataclass(frozen=True, eq=False)
class Sum:
    """The sum post-op."""

    scale: float
    zero_point: int = 0
    data_type: DataType | None = None


@dataclass(frozen=True, eq=False)
class Eltwise:
    """A function of the value; one of EXACT."""

    alg: str
    alpha: float = 0.0
    beta: float = 0.0
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class Binary:
    """Another tensor, in `data` as `desc` says."""

    alg: str
    desc: rs.MemoryDesc
    data: Bytes


@dataclass(frozen=True, eq=False)
class Given:
    """All attributes of a reorder."""

    output: Factor | None = None
    src_scale: Factor | None = None
    src_zero: Factor | None = None
    dst_scale: Factor | None = None
    dst_zero: Factor | None = None
    ops: tuple[Sum | Eltwise | Binary, ...] = field(default=())

    @property
    def is_nothing(self) -> bool:
        """True where values may stay integers, or keep the payload of a NaN: no attribute has a say."""
        factors = (self.output, self.src_scale, self.src_zero, self.dst_scale, self.dst_zero)
        acting = [op for op in self.ops if not (isinstance(op, Sum) and op.scale == 0)]
        return not acting and all(_is_neutral(factor) for factor in factors)


def _is_neutral(factor: Factor | None) -> bool:
    if factor is None:
        return True
    neutral = 0 if factor.data_type.is_integral else 1
    return factor.known and factor.mask == 0 and factor.values()[0] == neutral


def written(src: Bytes, src_md: rs.MemoryDesc, old: Bytes, dst_md: rs.MemoryDesc, given: Given) -> Bits:
    """The elements of the destination's storage after the reorder; `src` and `old` begin at offset 0."""
    result = elements_of(old, dst_md.data_type).copy()
    at = places(dst_md, dst_md.dims)
    read = elements_of(src, src_md.data_type)[places(src_md, src_md.dims)]
    old_bits = result[at].copy()
    result[places(dst_md, dst_md.padded_dims)] = 0
    result[at] = bits_of(value_of(read, src_md, old_bits, dst_md, given), dst_md.data_type)
    return result


@functools.lru_cache(maxsize=512)
def places(md: rs.MemoryDesc, extents: Shape) -> npt.NDArray[np.int64]:
    """The offset of every index below `extents`, last dim fastest: what each dim adds, added up."""
    zero = (0,) * md.ndims
    if 0 in extents:
        return np.zeros(0, np.int64)
    total = np.full(1, md.offset(*zero), np.int64)
    for dim, extent in enumerate(extents):
        added = [md.offset(*zero[:dim], i, *zero[dim + 1 :]) - md.offset(*zero) for i in range(extent)]
        total = np.add.outer(total, np.array(added, np.int64)).reshape(-1)
    _check_some(md, extents, total)
    return total


def _check_some(md: rs.MemoryDesc, extents: Shape, found: npt.NDArray[np.int64]) -> None:
    """Every 37th offset is asked for as a whole."""
    for number in range(0, found.size, 37):
        index = map(int, np.unravel_index(number, extents))
        assert md.offset(*index) == found[number]


def value_of(
    read: Bits, src_md: rs.MemoryDesc, old: Bits, dst_md: rs.MemoryDesc, given: Given, real: Any = None
) -> Reals:
    """The results before they are stored (N1), in logical order: f64 where a side needs it, else f32."""
    types, dims = (src_md.data_type, dst_md.data_type), dst_md.dims
    real = real or (np.float64 if has_wide(*types) else np.float32)
    each = functools.partial(each_of, dims=dims, real=real)
    t = reals_of(read, src_md.data_type, real)
    with np.errstate(all="ignore"):
        if given.src_zero:
            t = t - each(given.src_zero)
        for scale in (given.src_scale, given.output):
            t = t * each(scale) if scale else t
        for op in given.ops:
            t = _after(op, t, old, dst_md)
        if given.dst_scale:
            t = t * (real(1) / each(given.dst_scale))
        if given.dst_zero:
            t = t + each(given.dst_zero)
    assert t.dtype == real
    return t


def each_of(factor: Factor, dims: Shape, real: Any) -> Reals:
    """The value of a factor for every index, in logical order."""
    values = reals_of(factor.bits, factor.data_type, real)
    number = np.zeros(prod(dims), np.int64)
    index = np.indices(dims).reshape(len(dims), -1)
    for dim, extent in enumerate(dims):
        if factor.mask >> dim & 1:
            size = group_of(factor.groups, dim, len(dims))
            number = number * (extent // size) + index[dim] // size
    return values[number]


def group_of(groups: Shape, dim: int, ndims: int) -> int:
    """Return the number of elements of a dim that share a value; groups are of the last two dims."""
    return groups[dim - ndims + 2] if groups and dim >= ndims - 2 else 1


def _after(op: Sum | Eltwise | Binary, t: Reals, old: Bits, dst_md: rs.MemoryDesc) -> Reals:
    real = t.dtype.type

    def number(value: float) -> Any:  # the numbers of post-ops are f32 values
        return real(np.float32(value))

    if isinstance(op, Sum):
        if op.scale == 0:
            return t
        kind = op.data_type or dst_md.data_type
        return t + number(op.scale) * (reals_of(old, kind, real) - real(op.zero_point))
    if isinstance(op, Eltwise):
        return number(op.scale) * EXACT[op.alg](t, number(op.alpha), number(op.beta))
    operand = elements_of(op.data, op.desc.data_type)[places(op.desc, op.desc.dims)].reshape(op.desc.dims)
    wide = np.broadcast_to(operand, dst_md.dims).reshape(-1)
    return _COMBINED[op.alg](t, reals_of(np.ascontiguousarray(wide), op.desc.data_type, real)).astype(real)


def _weighed(t: Reals, weight: Reals) -> Reals:
    """A product in which an infinity times 0 is 0, with the sign of the two."""
    return np.where(np.isinf(t) & (weight == 0), np.sign(t) * weight, t * weight)


def _clipped(t: Reals, low: Any, high: Any) -> Reals:
    return np.where(t < low, low, np.where(t > high, high, t))


def _hard(t: Reals, alpha: Any, beta: Any) -> Reals:
    return _clipped(alpha * t + beta, t.dtype.type(0), t.dtype.type(1))


EXACT = {
    "relu": lambda t, a, b: np.where(t > 0, t, _weighed(t, a)),
    "linear": lambda t, a, b: a * t + b,
    "clip": _clipped,
    "clip_v2": _clipped,
    "abs": lambda t, a, b: np.abs(t),
    "sqrt": lambda t, a, b: np.sqrt(t),
    "square": lambda t, a, b: t * t,
    "round": lambda t, a, b: np.rint(t),
    "hardsigmoid": _hard,
    "hardswish": lambda t, a, b: _weighed(t, _hard(t, a, b)),
}
"""The eltwise functions of a few operations each: by IEEE arithmetic there is one right answer."""

_COMBINED = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": lambda t, x: np.where(t < x, t, x),
    "max": lambda t, x: np.where(t > x, t, x),
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
    "eq": np.equal,
    "ne": np.not_equal,
}
BINARY = tuple(_COMBINED)
