"""Attributes as a computation: the steps, their scalars, and where their operands come from (N1).

`t = scale_src * (src - zp_src)`, the post-ops in order, `dst = saturate(t * (1 / scale_dst) + zp_dst)`. What
is one known number is a scalar; the rest are operands, known values or memories that an execution brings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..desc.arguments import (
    ARG_ATTR_OUTPUT_SCALES,
    ARG_ATTR_SCALES,
    ARG_ATTR_ZERO_POINTS,
    ARG_DST,
    ARG_SRC,
    ARG_SRC_1,
    arg_attr_multiple_post_op,
)
from ..desc.attr import Attr
from ..desc.attr_value import Factor
from ..desc.layout import RUNTIME_DIM
from ..desc.memory_desc import MemoryDesc
from ..desc.post_ops import BinaryOp, EltwiseOp, PostOp, SumOp
from ..dtypes import DataType
from .nest import Compute, Step
from .program import Place, Slot
from .reorder import TensorOperand

Array = np.ndarray[Any, np.dtype[Any]]
Origin = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class OperandSource:
    """Where one operand comes from: `values` where they are known, else the argument `arg` of an execution.

    `desc` is what that memory must be; None where any dense memory of `count` values of `data_type` will do
    that is one run of them, or has `extents`.
    """

    tensor: TensorOperand
    arg: int = 0
    values: Array | None = None
    desc: MemoryDesc | None = None
    count: int = 0
    data_type: DataType = DataType.undef
    extents: tuple[int, ...] = ()

    def memory_desc(self) -> MemoryDesc:
        """The plainest memory that will do."""
        if self.desc is not None:
            return self.desc
        return MemoryDesc((self.count,), self.data_type, "a")

    def slot(self) -> Slot:
        """The argument, and which elements are read of it."""
        span = (
            (self.tensor.base, self.tensor.base + self.count)
            if self.desc is None
            else self.desc.extent_range()
        )
        return Slot(self.arg, span=span)


@dataclass(frozen=True, slots=True, eq=False)
class Computation:
    """What is computed between source and destination, its scalars in order, and its operands.

    `origins`: for each scalar the argument whose value it is, and which number of it.
    """

    compute: Compute
    scalars: tuple[float, ...]
    operands: tuple[OperandSource, ...]
    origins: tuple[Origin, ...] = ()

    @property
    def args(self) -> tuple[int, ...]:
        """The arguments that an execution must bring beside source and destination."""
        return tuple(operand.arg for operand in self.operands if operand.values is None)

    @property
    def tensors(self) -> list[TensorOperand]:
        """The operands as a nest reads them."""
        return [operand.tensor for operand in self.operands]

    def descs(self) -> dict[int, MemoryDesc]:
        """What the memories of the arguments may look like."""
        return {each.arg: each.memory_desc() for each in self.operands if each.values is None}

    def slots(self) -> tuple[Slot, ...]:
        """The operands as arguments of a program."""
        return tuple(operand.slot() for operand in self.operands)

    def places(self, first: int) -> tuple[Place, ...]:
        """Where the operands are, whose slots begin with number `first`."""
        return tuple(Place(first + i) for i in range(len(self.operands)))


NOTHING = Computation(Compute(), (), ())
"""What is only moved."""


class _ComputationWriter:
    """A computation while it is written."""

    def __init__(
        self, dims: Sequence[int], real: type[np.floating[Any]], odd: frozenset[int] = frozenset()
    ) -> None:
        self.dims, self.real, self.odd = tuple(dims), real, odd
        self.steps: list[Step] = []
        self.scalars: list[float] = []
        self.origins: list[Origin] = []
        self.operands: list[OperandSource] = []

    def computation(self) -> Computation:
        compute, operands = Compute(tuple(self.steps)), tuple(self.operands)
        return Computation(compute, tuple(self.scalars), operands, tuple(self.origins))

    def step(self, name: str, arg: int, *scalars: float, data_type: DataType | None = None) -> None:
        """A step whose scalars are the numbers of an argument."""
        self.steps.append(Step(name, data_type=data_type))
        self.scalars += scalars
        self.origins += [(arg, number) for number in range(len(scalars))]

    def operand(self, name: str, source: OperandSource) -> None:
        self.steps.append(Step(name, operand=len(self.operands)))
        self.operands.append(source)

    def factor(self, name: str, factor: Factor | None, arg: int) -> None:
        """A scale or zero point; `name` is the step that applies it."""
        if factor is None:
            return
        values = factor.to_numpy()
        if values is not None and factor.mask == 0:
            one = float(values[0])
            if name == "rescale":
                with np.errstate(all="ignore"):
                    self.step("mul", arg, float(self.real(1) / self.real(one)))
            else:
                self.step(name, arg, one)
            return
        kind = factor.data_type if values is None else DataType.parse(values.dtype)
        extents = factor.extents(self.dims)
        tensor = TensorOperand.of_groups(kind, extents, self.dims, base=int(arg in self.odd))
        is_open = any(n == RUNTIME_DIM and factor.mask >> i & 1 for i, n in enumerate(self.dims))
        count, data_type = RUNTIME_DIM if is_open else factor.count(self.dims), factor.data_type
        self.operand(name, OperandSource(tensor, arg, values, None, count, data_type, extents))

    def post_op(self, index: int, op: PostOp) -> None:
        arg = arg_attr_multiple_post_op(index)
        if isinstance(op, EltwiseOp):
            self.step(op.alg, arg, op.alpha, op.beta, op.scale)
        elif isinstance(op, BinaryOp):
            arg |= ARG_SRC_1
            self.operand(op.alg, OperandSource(TensorOperand.of_desc(op.desc), arg, desc=op.desc))
        else:
            self._sum(op, arg)

    def _sum(self, op: SumOp, arg: int) -> None:
        if op.scale == 0.0:
            return  # dst is not read, so that what it holds, even NaN, has no part in it (R29)
        if op.zero_point:
            self.step("sum_shifted", arg, op.scale, float(op.zero_point), data_type=op.data_type)
        else:
            self.step("sum", arg, op.scale, data_type=op.data_type)


def scaled(scale: Factor | None, arg: int, src: MemoryDesc, dst: MemoryDesc) -> Computation:
    """The computation that multiplies argument `arg` by its scale, if it has one."""
    writer = _ComputationWriter(src.dims, _real_of(src, dst))
    writer.factor("mul", scale, ARG_ATTR_SCALES | arg)
    return writer.computation()


def _real_of(src: MemoryDesc, dst: MemoryDesc) -> type[np.floating[Any]]:
    return np.float64 if DataType.f64 in (src.data_type, dst.data_type) else np.float32


def computation_of(
    attr: Attr, src: MemoryDesc, dst: MemoryDesc, odd: frozenset[int] = frozenset()
) -> Computation:
    """The computation of checked attributes for concrete descriptors of the same dims.

    `odd`: the arguments whose first 4-bit value lies in the upper half of a byte.
    """
    writer = _ComputationWriter(dst.dims, _real_of(src, dst), odd)
    writer.factor("sub", attr.zero_point_of(ARG_SRC), ARG_ATTR_ZERO_POINTS | ARG_SRC)
    writer.factor("mul", attr.scale_of(ARG_SRC), ARG_ATTR_SCALES | ARG_SRC)
    writer.factor("mul", attr.output_scales, ARG_ATTR_OUTPUT_SCALES)
    for index, op in enumerate(attr.post_ops):
        writer.post_op(index, op)
    writer.factor("rescale", attr.scale_of(ARG_DST), ARG_ATTR_SCALES | ARG_DST)
    writer.factor("add", attr.zero_point_of(ARG_DST), ARG_ATTR_ZERO_POINTS | ARG_DST)
    return writer.computation()
