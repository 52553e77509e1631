"""Attributes as a computation: the steps, their scalars, and the sources of their operands (N1).

`t = scale_src * (src - zp_src)`, the post-ops in order, `dst = saturate(t * (1 / scale_dst) + zp_dst)`. A
single known number is a scalar; the rest are operands: known values, or memories passed at execution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..desc.arguments import (
    ARG_ATTR_OUTPUT_SCALES,
    ARG_ATTR_SCALES,
    ARG_ATTR_ZERO_POINTS,
    ARG_DST,
    ARG_SRC,
    ARG_SRC_1,
    ARG_WEIGHTS,
    arg_attr_multiple_post_op,
)
from ..desc.attr import Attr
from ..desc.attr_value import Factor
from ..desc.layout import RUNTIME_DIM
from ..desc.memory_desc import MemoryDesc
from ..desc.post_op_values import BinaryOp, EltwiseOp, PostOp, PReLUOp, SumOp
from ..dtypes import DataType
from ..frozen import dataclass
from .digits import TensorOperand
from .nest import SCALAR, Compute, Step, has_wide
from .program import Place, Slot

Array = np.ndarray[Any, np.dtype[Any]]
Origin = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class OperandSource:
    """The source of one operand: known `values`, or else the argument `arg` of an execution.

    `desc` is the required descriptor of that memory; if None, any dense memory of `count` values of
    `data_type` will do that is contiguous, or has `extents`.
    """

    tensor: TensorOperand
    arg: int = 0
    values: Array | None = None
    desc: MemoryDesc | None = None
    count: int = 0
    data_type: DataType = DataType.undef
    extents: tuple[int, ...] = ()

    def memory_desc(self) -> MemoryDesc:
        """Return the plainest descriptor that is accepted."""
        if self.desc is not None:
            return self.desc
        return MemoryDesc((self.count,), self.data_type, "a")

    def slot(self) -> Slot:
        """Return the argument, and the range of elements that is read."""
        span = (
            (self.tensor.base, self.tensor.base + self.count)
            if self.desc is None
            else self.desc.extent_range()
        )
        return Slot(self.arg, span=span)


@dataclass(frozen=True, slots=True, eq=False)
class Computation:
    """The computation between source and destination, its scalars in order, and its operands.

    `origins`: for each scalar the argument whose value it is, and the index into that value.
    """

    compute: Compute
    scalars: tuple[float, ...]
    operands: tuple[OperandSource, ...]
    origins: tuple[Origin, ...] = ()

    @property
    def args(self) -> tuple[int, ...]:
        """The arguments that an execution must pass other than source and destination."""
        return tuple(operand.arg for operand in self.operands if operand.values is None)

    @property
    def tensors(self) -> list[TensorOperand]:
        """The operands as a nest reads them."""
        return [operand.tensor for operand in self.operands]

    def followed_by(self, other: Computation) -> Computation:
        """Return the same steps, with scalars and operands of another computation appended."""
        return replace(
            self,
            scalars=(*self.scalars, *other.scalars),
            operands=(*self.operands, *other.operands),
            origins=(*self.origins, *other.origins),
        )

    def descs(self) -> dict[int, MemoryDesc]:
        """Return the plainest descriptors of the arguments' memories."""
        return {operand.arg: operand.memory_desc() for operand in self.operands if operand.values is None}

    def slots(self) -> tuple[Slot, ...]:
        """Return the operands as arguments of a program."""
        return tuple(operand.slot() for operand in self.operands)

    def places(self, first: int) -> tuple[Place, ...]:
        """Return the places of the operands, whose slots begin with number `first`."""
        return tuple(Place(first + i) for i in range(len(self.operands)))


NOTHING = Computation(Compute(), (), ())
"""A computation that only moves elements."""


class ComputationWriter:
    """A computation under construction, for a destination of `dims`.

    `sources`: the number of operands of the nest that precede those of the attributes.
    """

    def __init__(
        self,
        dims: Sequence[int],
        *,
        is_wide: bool,
        odd: frozenset[int] = frozenset(),
        sources: int = 0,
    ) -> None:
        self.dims, self.is_wide, self.odd, self.sources = tuple(dims), is_wide, odd, sources
        self.steps: list[Step] = []
        self.scalars: list[float] = []
        self.origins: list[Origin] = []
        self.operands: list[OperandSource] = []

    def computation(self) -> Computation:
        """Return the finished computation."""
        compute = Compute(tuple(self.steps), wide=self.is_wide and self.sources > 0)
        operands = tuple(self.operands)
        return Computation(compute, tuple(self.scalars), operands, tuple(self.origins))

    def step(self, name: str, arg: int, *scalars: float, data_type: DataType | None = None) -> None:
        """Add a step whose scalars are the numbers of an argument."""
        self.own_step(Step(name, data_type=data_type), arg, *scalars)

    def own_step(self, step: Step, arg: int, *scalars: float) -> None:
        """Add an existing step; its scalars are the numbers of an argument."""
        self.steps.append(step)
        self.scalars += scalars
        self.origins += [(arg, number) for number in range(len(scalars))]

    def operand(self, name: str, source: OperandSource) -> None:
        """Add a step with an operand."""
        self.steps.append(Step(name, operand=self._new_operand(source)))

    def _new_operand(self, source: OperandSource) -> int:
        self.operands.append(source)
        return self.sources + len(self.operands) - 1

    def factor(self, name: str, factor: Factor | None, arg: int, dims: tuple[int, ...] | None = None) -> None:
        """Add a scale or zero point; `name` is the step that applies it. `dims`: of its tensor, if others."""
        if factor is None:
            return
        one = _common_value(factor)
        if one is None:
            self.operand(name, self._values_of(factor, arg, dims or self.dims))
        elif name == "rescale":
            real = np.float64 if self.is_wide else np.float32
            with np.errstate(all="ignore"):
                self.step("mul", arg, float(real(1) / real(one)))
        else:
            self.step(name, arg, one)

    def combine(self, step: Step, scale: Factor | None, arg: int, dims: tuple[int, ...]) -> None:
        """Add a step with a further source, of `dims` and times its scale."""
        one = None if scale is None else _common_value(scale)
        if scale is None:
            self.own_step(step, arg)
        elif one is not None:
            self.own_step(replace(step, factor=SCALAR), arg, one)
        else:
            factor = self._new_operand(self._values_of(scale, arg, dims))
            self.own_step(replace(step, factor=factor), arg)

    def _values_of(self, factor: Factor, arg: int, dims: tuple[int, ...]) -> OperandSource:
        """Return the values of a factor of a tensor of `dims`, which can be 1 where dst's are not."""
        values = factor.to_numpy()
        kind = factor.data_type if values is None else DataType.parse(values.dtype)
        extents = factor.extents(dims)
        tensor = TensorOperand.of_groups(kind, extents, self.dims, base=int(arg in self.odd))
        is_open = any(n == RUNTIME_DIM and factor.mask >> i & 1 for i, n in enumerate(dims))
        count, data_type = RUNTIME_DIM if is_open else factor.count(dims), factor.data_type
        return OperandSource(tensor, arg, values, None, count, data_type, extents)

    def unread(self, factor: Factor, arg: int) -> tuple[int, int]:
        """Add a factor that no step reads; return the number of its scalar or operand, -1 for the other.

        No steps may follow: scalars of steps come before those of others.
        """
        one = _common_value(factor)
        if one is None:
            return -1, self._new_operand(self._values_of(factor, arg, self.dims))
        self.scalars.append(one)
        self.origins.append((arg, 0))
        return len(self.scalars) - 1, -1

    def finish(self, attr: Attr) -> None:
        """Add the post-ops, then scale and zero point of the destination."""
        for index, op in enumerate(attr.post_ops):
            self.post_op(index, op)
        self.factor("rescale", attr.scale_of(ARG_DST), ARG_ATTR_SCALES | ARG_DST)
        self.factor("add", attr.zero_point_of(ARG_DST), ARG_ATTR_ZERO_POINTS | ARG_DST)

    def post_op(self, index: int, op: PostOp) -> None:
        """Add one post-op."""
        arg = arg_attr_multiple_post_op(index)
        if isinstance(op, EltwiseOp):
            self.step(op.function, arg, op.alpha, op.beta, op.scale)
        elif isinstance(op, BinaryOp):
            arg |= ARG_SRC_1
            self.operand(op.alg, OperandSource(TensorOperand.of_desc(op.desc), arg, desc=op.desc))
        elif isinstance(op, PReLUOp):
            weights = Factor(op.mask, DataType.f32)
            self.operand("prelu", self._values_of(weights, arg | ARG_WEIGHTS, self.dims))
        elif isinstance(op, SumOp):
            self._sum(op, arg)
        else:
            raise TypeError(f"{op} is not a step")  # ops/programs/depthwise_fusion.py handles it

    def _sum(self, op: SumOp, arg: int) -> None:
        if op.scale == 0.0:
            return  # dst is not read, so its content, even NaN, does not affect the result
        if op.zero_point:
            self.step("sum_shifted", arg, op.scale, float(op.zero_point), data_type=op.data_type)
        else:
            self.step("sum", arg, op.scale, data_type=op.data_type)


def scaled(scale: Factor | None, arg: int, src: MemoryDesc, dst: MemoryDesc) -> Computation:
    """Return the computation that multiplies argument `arg` by its scale, if it has one."""
    writer = ComputationWriter(src.dims, is_wide=has_wide(src.data_type, dst.data_type))
    writer.factor("mul", scale, ARG_ATTR_SCALES | arg)
    return writer.computation()


def _common_value(factor: Factor) -> float | None:
    """Return the single value of a factor, if it is known."""
    values = factor.to_numpy()
    return None if values is None or factor.mask else float(values[0])


def computation_of(
    attr: Attr, src: MemoryDesc, dst: MemoryDesc, odd: frozenset[int] = frozenset()
) -> Computation:
    """Return the computation of checked attributes for concrete descriptors of the same dims.

    `odd`: the arguments whose first 4-bit value is in the upper half of a byte.
    """
    is_wide = has_wide(src.data_type, dst.data_type)
    writer = ComputationWriter(dst.dims, is_wide=is_wide, odd=odd)
    writer.factor("sub", attr.zero_point_of(ARG_SRC), ARG_ATTR_ZERO_POINTS | ARG_SRC)
    writer.factor("mul", attr.scale_of(ARG_SRC), ARG_ATTR_SCALES | ARG_SRC)
    writer.factor("mul", attr.output_scales, ARG_ATTR_OUTPUT_SCALES)
    writer.finish(attr)
    return writer.computation()
