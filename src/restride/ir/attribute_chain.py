"""The chain of attributes on a value of a loop tree: scales, zero points and post-ops (N1).

`ir/computation.py` builds the chain; here its steps become operations of an expression. `ir/conversion.py`
defines the meaning of both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from .computation import Computation
from .digits import TensorOperand, reorder_nest
from .expression import Affine, Const, Expr, Load, Scalar, TreeAxis, apply
from .nest import SCALAR, Compute, Step
from .program import NestStep, Place
from .tree import Store, TreeTensor

Old = Callable[[DataType | None], Expr]
"""The old element of the destination, read as a data type; None means its own."""


def with_steps(
    value: Expr, compute: Compute, operands: Sequence[Expr], old: Old | None = None, first_scalar: int = 0
) -> Expr:
    """Return a value with every step of a chain applied.

    `operands`: the elements of the operands of the chain, in order; `first_scalar`: the index of the chain's
    first scalar among the tree's.
    """
    for step, first in compute.steps_with_scalars():
        scalars = [Scalar(first_scalar + first + i) for i in range(step.scalars)]
        other = _operand(step, operands, scalars)
        if step.name == "select" and other is not None:
            value = apply("select", operands[step.condition], value, other)
        else:
            value = _applied(step, value, scalars, other, old)
    return value


def _operand(step: Step, operands: Sequence[Expr], scalars: Sequence[Scalar]) -> Expr | None:
    if step.operand < 0:
        return None
    other = operands[step.operand]
    if step.factor == SCALAR:
        return scalars[0] * other
    return other if step.factor < 0 else operands[step.factor] * other


def _applied(step: Step, value: Expr, scalars: list[Scalar], other: Expr | None, old: Old | None) -> Expr:
    if step.is_sum:
        before = old(step.data_type) if other is None and old is not None else other
        if before is None:
            raise ValueError(f"{step} needs an old destination")
        return value + scalars[0] * (before - scalars[1] if len(scalars) > 1 else before)
    if step.is_eltwise:
        alpha, beta, scale = scalars
        return scale * apply(step.name, value, alpha, beta)
    if step.name == "rescale" and other is not None:
        return value * apply("div", 1.0, other)
    if step.name in ("prelu", "prelu_slope") and other is not None:
        above, below = (value, value * other) if step.name == "prelu" else (Const(1.0), other)
        return apply("select", apply("gt", value, 0.0), above, below)
    return apply(step.name, value, other if other is not None else scalars[0])


class AttributeChain:
    """A chain of attributes on the elements of `dst`, for a tree that stores them.

    `tensors`: the tensors it reads, to be the last of the tree: operands `x0`, `x1`, ..., and the old
    destination `old` if a sum reads that as another type.
    """

    def __init__(self, computed: Computation, dst: TreeTensor, dims: tuple[int, ...], first: int = 0) -> None:
        self._compute, self._dst, self._first = computed.compute, dst, first
        self.operands = operand_tensors(computed.tensors, dims)
        self._old = old_tensors(computed.compute, dst)
        self.tensors = (*self.operands, *self._old)
        self.scalars = first + computed.compute.scalars

    def store(self, index: tuple[Affine | TreeAxis | int, ...], value: Expr) -> Store:
        """Return the store of a value, through the chain, at an index of the destination."""
        old = old_element(self._old, self._dst, index)
        loads = operand_loads(self.operands, index)
        return self._dst.store(index, with_steps(value, self._compute, loads, old, self._first))


def operand_tensors(tensors: Sequence[TensorOperand], dims: tuple[int, ...]) -> tuple[TreeTensor, ...]:
    """Return the operands of a chain on a tensor of `dims`, as tensors `x0`, `x1`, ... of a tree."""
    return tuple(TreeTensor.of_operand(f"x{i}", tensor, dims) for i, tensor in enumerate(tensors))


def operand_loads(tensors: Sequence[TreeTensor], index: Sequence[Affine | TreeAxis | int]) -> list[Load]:
    """Return the elements of these for one index of the tensor that the chain is on."""
    return [tensor.load(*index) for tensor in tensors]


def old_tensors(compute: Compute, dst: TreeTensor) -> tuple[TreeTensor, ...]:
    """Return the old destination as a tensor `old`, if a sum reads it as another type than it is written."""
    kinds = (step.data_type for step in compute.steps if step.is_sum and step.operand < 0)
    other = next((kind for kind in kinds if kind not in (None, dst.data_type)), None)
    return () if other is None else (replace(dst, name="old", data_type=other),)


def old_element(
    tensors: Sequence[TreeTensor], dst: TreeTensor, index: Sequence[Affine | TreeAxis | int]
) -> Old:
    """Return what a sum reads at an index of the destination; `tensors` are those of `old_tensors`."""
    (old,) = tensors or (dst,)
    return lambda _: old.load(*index)


def move_step(src: MemoryDesc, dst: MemoryDesc, at: Place, to: Place) -> NestStep:
    """Return the step that moves a tensor into another format, before or after a tree."""
    nest = reorder_nest(src, dst, Compute())
    return NestStep(nest, at, to, nest.moved_bytes, src.extent_range(), dst.extent_range())
