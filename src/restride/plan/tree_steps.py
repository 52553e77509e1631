"""The chain of attributes on a value of a loop tree: scales, zero points and post-ops (N1).

`plan/computation.py` makes the chain; here its steps become operations of an expression. `plan/conversion.py`
is the definition of both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..dtypes import DataType
from .expression import Affine, Expr, Load, Scalar, TreeAxis, apply
from .nest import Compute, Step
from .reorder import TensorOperand
from .tree import TreeTensor

Old = Callable[[DataType | None], Expr]
"""The old element of the destination, read as a data type; None stands for its own."""


def with_steps(
    value: Expr, compute: Compute, operands: Sequence[Expr], old: Old | None = None, first_scalar: int = 0
) -> Expr:
    """A value through every step of a chain.

    `operands`: the elements of the operands of the chain, in their order; `first_scalar`: which of the tree's
    scalars is the first of the chain's.
    """
    for step, first in compute.steps_with_scalars():
        scalars = [Scalar(first_scalar + first + i) for i in range(step.scalars)]
        other = operands[step.operand] if step.operand >= 0 else None
        value = _applied(step, value, scalars, other, old)
    return value


def _applied(step: Step, value: Expr, scalars: list[Scalar], other: Expr | None, old: Old | None) -> Expr:
    if step.is_sum:
        before = old(step.data_type) if other is None and old is not None else other
        if before is None:
            raise ValueError(f"{step} has no old destination")
        return value + scalars[0] * (before - scalars[1] if len(scalars) > 1 else before)
    if step.is_eltwise:
        alpha, beta, scale = scalars
        return scale * apply(step.name, value, alpha, beta)
    if step.name == "accumulate" and other is not None:
        return value + scalars[0] * other
    if step.name == "rescale" and other is not None:
        return value * apply("div", 1.0, other)
    return apply(step.name, value, other if other is not None else scalars[0])


def operand_tensors(tensors: Sequence[TensorOperand], dims: tuple[int, ...]) -> tuple[TreeTensor, ...]:
    """The operands of a chain on a tensor of `dims`, as tensors `x0`, `x1`, ... of a tree."""
    return tuple(TreeTensor.of_operand(f"x{i}", tensor, dims) for i, tensor in enumerate(tensors))


def operand_loads(tensors: Sequence[TreeTensor], index: Sequence[Affine | TreeAxis | int]) -> list[Load]:
    """The elements of these for one index of the tensor that the chain is on."""
    return [tensor.load(*index) for tensor in tensors]
