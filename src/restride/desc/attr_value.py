"""Attributes as frozen values: scales and zero points, all attributes, and the structure of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from ..dtypes import DataType
from ..frozen import dataclass
from .arguments import ARG_ATTR_POST_OP_DW, ARG_DST, ARG_MULTIPLE_SRC, ARG_SRC, ARG_SRC_1, ARG_WEIGHTS
from .post_op_values import BinaryOp, DepthwiseOp, EltwiseOp, PostOp, PReLUOp, SumOp, chain_str

# --- one argument's scales or zero points ------------------------------------

Array = np.ndarray[Any, np.dtype[Any]]

MOST_SOURCES = 1024
"""Source i of a concat or a sum is argument `ARG_MULTIPLE_SRC + i`; those of a concat can have scales."""

SCALE_TYPES = (
    DataType.f32,
    DataType.bf16,
    DataType.f16,
    DataType.e8m0,
    DataType.f8_e5m2,
    DataType.f8_e4m3,
)
ZERO_POINT_TYPES = (
    *(DataType.s32, DataType.s8, DataType.u8, DataType.s4, DataType.u4),
    *(DataType.f32, DataType.bf16, DataType.f16),
)


@dataclass(frozen=True, slots=True)
class Factor:
    """The scales or the zero points of one argument: one value for each index of the masked dims.

    `mask`: bit i stands for dim i; 0 is one value for the whole tensor. `data_type`: of the memory that holds
    the values, one of SCALE_TYPES or ZERO_POINT_TYPES. `groups`: empty, or how many elements along each of
    the last dims share a value. `values`: None if a memory is passed at execution; else little-endian f32
    (scales) or s32 (zero points), row-major over the masked dims in logical order. `shape`: if the values
    came from an array of several dims, its extents above 1, which must be those of the masked dims; empty for
    flat sequences of values, and once it has been checked.
    """

    mask: int
    data_type: DataType
    groups: tuple[int, ...] = ()
    values: bytes | None = None
    shape: tuple[int, ...] = ()

    def extents(self, dims: Sequence[int]) -> tuple[int, ...]:
        """Return the number of values along each dim of a tensor of `dims`; 1 along dims not masked."""
        shared = (1,) * (len(dims) - len(self.groups)) + self.groups
        pairs = enumerate(zip(dims, shared, strict=True))
        return tuple(n // size if self.mask >> i & 1 else 1 for i, (n, size) in pairs)

    def count(self, dims: Sequence[int]) -> int:
        """Return the number of values for a tensor of `dims`."""
        return prod(self.extents(dims))

    def to_numpy(self) -> Array | None:
        """Return the values as a flat read-only array of f32 or s32; None if they are passed at execution."""
        kind = "<i4" if self.data_type.is_integral else "<f4"
        return None if self.values is None else np.frombuffer(self.values, kind)

    def verbose_str(self) -> str:
        """Return mask, type and groups for a verbose line: `2:f32`, `3:bf16:8x1`."""
        shared = f":{'x'.join(map(str, self.groups))}" if self.groups else ""
        return f"{self.mask}:{self.data_type}{shared}"


def fits_extents(shape: Sequence[int], extents: Sequence[int]) -> bool:
    """Return True for flat values, and for a shape with these extents; an extent of 1 has no order."""
    large = above_one(shape)
    return len(large) < 2 or large == above_one(extents)


def above_one(extents: Sequence[int]) -> tuple[int, ...]:
    """Return the extents that are not 1."""
    return tuple(n for n in extents if n != 1)


def common_scale(value: float) -> Factor:
    """Return one scale, an f32 value, for the whole tensor."""
    # All NaNs are made identical, so that equal attributes are equal values.
    return Factor(0, DataType.f32, values=np.array(value if value == value else np.nan, "<f4").tobytes())


def common_zero_point(value: int) -> Factor:
    """Return one 32-bit zero point for the whole tensor."""
    return Factor(0, DataType.s32, values=np.array(value, "<i4").tobytes())


_NEUTRAL = (common_scale(1.0).values, common_zero_point(0).values)


def is_neutral(factor: Factor | None) -> bool:
    """Return True if it has no effect: no factor, one scale of exactly 1, one zero point of 0."""
    if factor is None:
        return True
    return factor.mask == 0 and factor.values == _NEUTRAL[factor.data_type.is_integral]


# --- all attributes ----------------------------------------------------------

Factors = tuple[tuple[int, Factor], ...]
_NAMES = {
    ARG_SRC: "src0",
    ARG_SRC_1: "src1",
    ARG_WEIGHTS: "wei",
    ARG_DST: "dst",
    ARG_ATTR_POST_OP_DW | ARG_WEIGHTS: "attr_post_op_dw_wei",
    ARG_ATTR_POST_OP_DW | ARG_DST: "attr_post_op_dw_dst",
}
"""As oneDNN's verbose lines name them."""


@dataclass(frozen=True, slots=True)
class Compensation:
    """Sums of the quantized destination to be written with it, over the dims not in `mask`.

    `s8s8`: -128 times the sum; `zero_point`: -1 times it.
    """

    mask: int
    s8s8: bool = True
    zero_point: bool = False


@dataclass(frozen=True, slots=True)
class RnnQparams:
    """The quantization of a recurrent network: data are `x * data_scale + data_shift`, weights are `w *
    scale`, with one scale, or with one for each gate and output (`weights_mask` 24), row-major.
    """

    data_scale: float = 1.0
    data_shift: float = 0.0
    weights_mask: int = 0
    weights_scales: tuple[float, ...] = (1.0,)


@dataclass(frozen=True, slots=True)
class Attr:
    """Attributes as a frozen value (N1). `scales` and `zero_points` are sorted by argument number.

    `output_scales` are the scales of the source under their old name; the two are never combined. `fpmath`:
    "bf16" or "any" if f32 factors may be rounded to bf16; with `fpmath_int` so may floats that are multiplied
    by quantized weights, which "any" also allows to be quantized.
    """

    output_scales: Factor | None = None
    scales: Factors = ()
    zero_points: Factors = ()
    post_ops: tuple[PostOp, ...] = ()
    scratchpad: str = "library"
    compensation: Compensation | None = None
    rnn: RnnQparams | None = None
    fpmath: str = "strict"
    fpmath_int: bool = False

    @classmethod
    def common(
        cls, alpha: float | None = None, zero_point: int | None = None, beta: float | None = None
    ) -> Attr:
        """Return attributes with one source scale, one destination zero point, one sum; None omits it.

        `alpha` and `beta` are f32 values. A scale of 1 and a zero point of 0 are omitted as well.
        """
        scale = None if alpha is None else common_scale(alpha)
        shift = None if zero_point is None else common_zero_point(zero_point)
        return cls(
            None if is_neutral(scale) else scale,
            (),
            () if shift is None else without_neutral({ARG_DST: shift}),
            () if beta is None else (SumOp(beta),),
        )

    @property
    def alpha(self) -> float:
        """The output scale if there is one with a known value, else 1."""
        factor = self.output_scales
        values = None if factor is None or factor.mask else factor.to_numpy()
        return 1.0 if values is None else float(values[0])

    @property
    def is_default(self) -> bool:
        """True if values are unchanged; the scratchpad mode does not matter."""
        has_factors = self.output_scales is not None or self.scales or self.zero_points
        return not (has_factors or self.post_ops or self.compensation or self.rnn)

    @property
    def has_shapes(self) -> bool:
        """True if values came from an array of several dims, whose shape has not been checked."""
        if self.output_scales is None and not (self.scales or self.zero_points):
            return False
        own = () if self.output_scales is None else (self.output_scales,)
        return any(
            factor.shape for factor in (*own, *_factor_values(self.scales), *_factor_values(self.zero_points))
        )

    def without_shapes(self) -> Attr:
        """Return the same as flat values: equal for arrays of any shape once that has been checked."""
        own = self.output_scales
        return replace(
            self,
            output_scales=None if own is None else replace(own, shape=()),
            scales=tuple((arg, replace(factor, shape=())) for arg, factor in self.scales),
            zero_points=tuple((arg, replace(factor, shape=())) for arg, factor in self.zero_points),
        )

    @property
    def reads_dst(self) -> bool:
        """True if a sum reads the previous content of the destination; one with scale 0 does not."""
        return any(isinstance(op, SumOp) and op.scale != 0.0 for op in self.post_ops)

    def scale_of(self, arg: int) -> Factor | None:
        """Return the factor of `scales` for an argument. Output scales are not included."""
        return next((factor for number, factor in self.scales if number == arg), None)

    def without_factors_of(self, *args: int) -> Attr:
        """Return the attributes without scales and zero points of some arguments."""
        scales, zeros = (
            tuple(f for f in operand if f[0] not in args) for operand in (self.scales, self.zero_points)
        )
        return replace(self, scales=scales, zero_points=zeros)

    def zero_point_of(self, arg: int) -> Factor | None:
        """Return the factor of `zero_points` for an argument."""
        return next((factor for number, factor in self.zero_points if number == arg), None)

    def verbose_str(self) -> str:
        """Return the attributes field of a verbose line: `attr-oscale:0:2 attr-post-ops:sum:0.5`."""
        parts = [f"attr-oscale:{_output_text(self.output_scales)}"] if self.output_scales else []
        parts += [f"attr-scales:{_factors_text(self.scales)}"] if self.scales else []
        parts += [f"attr-zero-points:{_factors_text(self.zero_points)}"] if self.zero_points else []
        parts += [f"attr-post-ops:{chain_str(self.post_ops)}"] if self.post_ops else []
        parts += [_compensation_text(self.compensation)] if self.compensation else []
        parts += ["attr-rnn-qparams"] if self.rnn else []
        parts += [f"attr-fpmath:{self.fpmath}{':true' * self.fpmath_int}"] if self.fpmath != "strict" else []
        parts += ["attr-scratchpad:user"] if self.scratchpad == "user" else []
        return " ".join(parts)


def _factor_values(factors: Factors) -> tuple[Factor, ...]:
    return tuple(factor for _, factor in factors)


def _compensation_text(sums: Compensation) -> str:
    kinds = (("s8s8", sums.s8s8), ("zp", sums.zero_point))
    return "attr-compensation:" + "+".join(f"{name}:{sums.mask}" for name, is_wanted in kinds if is_wanted)


def _output_text(factor: Factor) -> str:
    """Return the mask and the value of a common scale; `*` for scales passed at execution."""
    if factor.values is None:
        return f"{factor.mask}:*"
    values = factor.to_numpy()
    return str(factor.mask) if values is None or factor.mask else f"0:{float(values[0]):g}"


def _factors_text(factors: Factors) -> str:
    return "+".join(f"{argument_name(arg)}:{factor.verbose_str()}" for arg, factor in factors)


def argument_name(arg: int) -> str:
    """Return the name of an argument in a verbose line: `wei`, `attr_post_op_dw_wei`, `msrc2`."""
    return _NAMES.get(arg) or f"msrc{arg - ARG_MULTIPLE_SRC}"


def without_neutral(factors: dict[int, Factor]) -> Factors:
    """Return the factors by argument number, without those that have no effect."""
    if not factors:
        return ()
    return tuple(sorted((arg, factor) for arg, factor in factors.items() if not is_neutral(factor)))


# --- what a kernel depends on ------------------------------------------------
# The structure of attributes: everything that a kernel depends on. Values are read at each run.

# Placeholders that have an effect, because neutral values are omitted from a computation.
_SCALE, _ZERO_POINT = common_scale(0.5).values, common_zero_point(1).values


def structure_of(attr: Attr) -> Attr:
    """Return the attributes with placeholders for their values: equal for all that one kernel computes.

    Masks, types, groups, the number of values, algorithms and operands stay; for a sum, also whether it reads
    the destination and whether it has a zero point.
    """
    if attr.is_default:
        return attr
    return Attr(
        attr.output_scales and _placeholder(attr.output_scales),
        tuple((arg, _placeholder(factor)) for arg, factor in attr.scales),
        tuple((arg, _placeholder(factor)) for arg, factor in attr.zero_points),
        tuple(map(_post_op_structure, attr.post_ops)),
        attr.scratchpad,
        attr.compensation,
        None if attr.rnn is None else RnnQparams(weights_mask=attr.rnn.weights_mask),
        attr.fpmath,
        attr.fpmath_int,
    )


def _placeholder(factor: Factor) -> Factor:
    if factor.values is None:
        return factor
    if factor.mask:
        return replace(factor, values=bytes(len(factor.values)))
    return replace(factor, values=_ZERO_POINT if factor.data_type.is_integral else _SCALE)


def _post_op_structure(op: PostOp) -> PostOp:
    if isinstance(op, BinaryOp | PReLUOp | DepthwiseOp):
        return op
    if isinstance(op, EltwiseOp):
        return op.structure()
    return SumOp(0.5 if op.scale else 0.0, int(op.zero_point != 0), op.data_type)
