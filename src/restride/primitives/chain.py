"""Attributes as a computation: the steps, their scalars, and where their operands come from (N1).

`t = scale_src * (src - zp_src)`, the post-ops in order, `dst = saturate(t * (1 / scale_dst) + zp_dst)`. What
is one known number is a scalar; the rest are operands, known values or memories that an execution brings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..desc.attr import Attr
from ..desc.factor import Factor
from ..desc.layout import RUNTIME_DIM
from ..desc.memory_desc import MemoryDesc
from ..desc.post_ops import BinaryOp, EltwiseOp, PostOp, SumOp
from ..dtypes import DataType
from ..plan.compute import Compute, Step
from ..plan.reorder import Tensor
from .args import (
    ARG_ATTR_OUTPUT_SCALES,
    ARG_ATTR_SCALES,
    ARG_ATTR_ZERO_POINTS,
    ARG_DST,
    ARG_SRC,
    ARG_SRC_1,
    arg_attr_multiple_post_op,
)

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Feed:
    """One operand: `values` where they are known, else the argument `arg` of an execution.

    `desc` is what that memory must be; None where any dense memory of `count` values of `data_type` will do
    that is one run of them, or has `extents`.
    """

    tensor: Tensor
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


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """The computation of a problem, its scalars in order, and its operands."""

    compute: Compute
    scalars: tuple[float, ...]
    feeds: tuple[Feed, ...]

    @property
    def args(self) -> tuple[int, ...]:
        """The arguments that an execution must bring beside source and destination."""
        return tuple(feed.arg for feed in self.feeds if feed.values is None)

    def descs(self) -> dict[int, MemoryDesc]:
        """What the memories of these arguments may look like."""
        return {feed.arg: feed.memory_desc() for feed in self.feeds if feed.values is None}


NOTHING = Chain(Compute(), (), ())
"""The chain of what is only moved."""


class _Writer:
    """A chain while it is written."""

    def __init__(self, dims: Sequence[int], real: type[np.floating[Any]]) -> None:
        self.dims, self.real = tuple(dims), real
        self.steps: list[Step] = []
        self.scalars: list[float] = []
        self.feeds: list[Feed] = []

    def chain(self) -> Chain:
        return Chain(Compute(tuple(self.steps)), tuple(self.scalars), tuple(self.feeds))

    def step(self, name: str, *scalars: float, data_type: DataType | None = None) -> None:
        self.steps.append(Step(name, data_type=data_type))
        self.scalars += scalars

    def tensor(self, name: str, feed: Feed) -> None:
        self.steps.append(Step(name, operand=len(self.feeds)))
        self.feeds.append(feed)

    def factor(self, name: str, factor: Factor | None, arg: int) -> None:
        """A scale or zero point; `name` is the step that applies it."""
        if factor is None:
            return
        values = factor.to_numpy()
        if values is not None and factor.mask == 0:
            one = float(values[0])
            if name == "rescale":
                with np.errstate(all="ignore"):
                    self.step("mul", float(self.real(1) / self.real(one)))
            else:
                self.step(name, one)
            return
        kind = factor.data_type if values is None else DataType.parse(values.dtype)
        extents = factor.extents(self.dims)
        tensor = Tensor.of_groups(kind, extents, self.dims)
        is_open = any(n == RUNTIME_DIM and factor.mask >> i & 1 for i, n in enumerate(self.dims))
        count, data_type = RUNTIME_DIM if is_open else factor.count(self.dims), factor.data_type
        self.tensor(name, Feed(tensor, arg, values, None, count, data_type, extents))

    def post_op(self, index: int, op: PostOp) -> None:
        if isinstance(op, EltwiseOp):
            self.step(op.alg, op.alpha, op.beta, op.scale)
        elif isinstance(op, BinaryOp):
            arg = arg_attr_multiple_post_op(index) | ARG_SRC_1
            self.tensor(op.alg, Feed(Tensor.of_desc(op.desc), arg, desc=op.desc))
        else:
            self._sum(op)

    def _sum(self, op: SumOp) -> None:
        if op.scale == 0.0:
            return  # dst is not read, so that what it holds, even NaN, has no part in it (R29)
        if op.zero_point:
            self.step("sum_shifted", op.scale, float(op.zero_point), data_type=op.data_type)
        else:
            self.step("sum", op.scale, data_type=op.data_type)


def scaled_chain(scale: Factor | None, arg: int, src: MemoryDesc, dst: MemoryDesc) -> Chain:
    """The chain that multiplies argument `arg` by its scale, if it has one."""
    writer = _Writer(src.dims, _real_of(src, dst))
    writer.factor("mul", scale, ARG_ATTR_SCALES | arg)
    return writer.chain()


def _real_of(src: MemoryDesc, dst: MemoryDesc) -> type[np.floating[Any]]:
    return np.float64 if DataType.f64 in (src.data_type, dst.data_type) else np.float32


def chain_of(attr: Attr, src: MemoryDesc, dst: MemoryDesc) -> Chain:
    """The chain of checked attributes for concrete descriptors of the same dims."""
    writer = _Writer(dst.dims, _real_of(src, dst))
    writer.factor("sub", attr.zero_point_of(ARG_SRC), ARG_ATTR_ZERO_POINTS | ARG_SRC)
    writer.factor("mul", attr.scale_of(ARG_SRC), ARG_ATTR_SCALES | ARG_SRC)
    writer.factor("mul", attr.output_scales, ARG_ATTR_OUTPUT_SCALES)
    for index, op in enumerate(attr.post_ops):
        writer.post_op(index, op)
    writer.factor("rescale", attr.scale_of(ARG_DST), ARG_ATTR_SCALES | ARG_DST)
    writer.factor("add", attr.zero_point_of(ARG_DST), ARG_ATTR_ZERO_POINTS | ARG_DST)
    return writer.chain()
