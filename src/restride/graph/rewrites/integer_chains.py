"""Steps applied to the integer sums of a node before they are stored, in as few epilogues as possible.

    affine        y * factor + term       each a number, or one number per index of some dims
    function      f(y)
    combination   y + t, y * t, ...       with another tensor

Consecutive AffineSteps are merged; positive factors commute with relu. So a convolution of integers, its
bias, a batch normalization, and the scale of the next integers cost one product and one sum per element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ...dtypes import DataType
from ..graph import Epilogue, Node
from ..nodes.operations import BinaryOperation, EltwiseOperation, Operation
from .affine import AffineStep
from .draft import Array

__all__ = ["ChainStep", "Combination", "IntegerChain", "IntegerType"]

RELU = EltwiseOperation("eltwise_relu")
_ROUND = EltwiseOperation("eltwise_round")


@dataclass(frozen=True, slots=True)
class Combination:
    """A binary operation, with the result on its left and the named tensor on its right."""

    operation: BinaryOperation
    operand: str


ChainStep = AffineStep | Combination | EltwiseOperation


class IntegerType(NamedTuple):
    """The meaning of integers: `(q - zero) * scale`, of `data_type`."""

    scale: float
    zero: int
    data_type: DataType

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest integer."""
        return (0, 255) if self.data_type is DataType.u8 else (-128, 127)

    @property
    def to_real(self) -> AffineStep:
        """The step from integers to their real values."""
        return AffineStep.of(self.scale, -self.zero * self.scale)


@dataclass(frozen=True, slots=True, eq=False)
class IntegerChain:
    """A node that reads or makes integers, and the steps applied to its result.

    `integers`: the stored form of the result; None for floats. `nodes`: the names of all nodes whose work it
    does.
    """

    node: Node
    steps: tuple[ChainStep, ...] = ()
    integers: IntegerType | None = None
    nodes: tuple[str, ...] = ()

    def then(self, step: ChainStep) -> IntegerChain:
        """Return the chain with another step."""
        steps = self.steps
        if isinstance(step, AffineStep):
            is_number = step.factor.size == 1 and not np.any(step.term)
            is_positive = is_number and float(step.factor.reshape(())) > 0
            has_relu = bool(steps) and steps[-1] == RELU and is_positive
            before, behind = (steps[:-1], (RELU,)) if has_relu else (steps, ())
            if before and isinstance(before[-1], AffineStep):
                return replace(self, steps=(*before[:-1], before[-1].then(step), *behind))
            return replace(self, steps=(*before, step, *behind))
        return replace(self, steps=(*steps, step))

    def doing(self, node: Node) -> IntegerChain:
        """Return the chain that makes the output of a node, whose work it takes over."""
        own_node = replace(self.node, outputs=node.outputs)
        return replace(self, node=own_node, nodes=(*self.nodes, node.name))

    def reopened(self) -> IntegerChain:
        """Return the chain with the real values of its integers, rounded and limited, as the result."""
        assert self.integers is not None
        scale, zero, _ = self.integers
        low, high = self.integers.limits
        chain = replace(self._clipped(), integers=None).then(AffineStep.of(1 / scale, 0.0)).then(_ROUND)
        return chain.then(EltwiseOperation("eltwise_clip", low - zero, high - zero)).then(
            AffineStep.of(scale, 0.0)
        )

    def finished(self, new_constant: Callable[[Array, str], str]) -> Node:
        """Return the node with its epilogues; `new_constant` returns the names of arrays."""
        chain = self
        if self.integers is not None:
            chain = self._clipped()._scaled(self.integers)
        node, steps = chain.node, chain.steps
        data_type = DataType.f32 if self.integers is None else self.integers.data_type
        operation: Operation = node.operation
        if isinstance(operation, EltwiseOperation):
            # If the node consists only of steps, the first of them becomes its function.
            operation, steps = _function_of(steps)
        epilogues: list[Epilogue] = []
        operands: list[str] = []
        for step in steps:
            for epilogue, operand in _epilogues(step, node.output, new_constant):
                epilogues.append(Epilogue(epilogue))
                operands += [operand] * bool(operand)
        inputs = (*node.inputs, *operands)
        return Node(node.name, operation, inputs, node.outputs, tuple(epilogues), data_type)

    def _scaled(self, integers: IntegerType) -> IntegerChain:
        """Return the chain to the integers, before rounding; an odd zero point would change ties."""
        if integers.zero % 2 == 0:
            return self.then(AffineStep.of(1 / integers.scale, integers.zero))
        rounded = self.then(AffineStep.of(1 / integers.scale, 0.0)).then(_ROUND)
        return rounded.then(AffineStep.of(1.0, integers.zero))

    def _clipped(self) -> IntegerChain:
        """Remove a final relu if negative values saturate to zero anyway."""
        assert self.integers is not None
        is_idle = (
            bool(self.steps) and self.steps[-1] == RELU and self.integers.zero == self.integers.limits[0]
        )
        return replace(self, steps=self.steps[:-1]) if is_idle else self


def _function_of(steps: tuple[ChainStep, ...]) -> tuple[EltwiseOperation, tuple[ChainStep, ...]]:
    first = steps[0] if steps else None
    if isinstance(first, EltwiseOperation):
        return first, steps[1:]
    if isinstance(first, AffineStep) and first.factor.size == first.term.size == 1:
        return _linear(first), steps[1:]
    return EltwiseOperation("eltwise_linear", 1.0, 0.0), steps


def _linear(step: AffineStep) -> EltwiseOperation:
    return EltwiseOperation("eltwise_linear", float(step.factor.reshape(())), float(step.term.reshape(())))


def _epilogues(
    step: ChainStep, near: str, new_constant: Callable[[Array, str], str]
) -> list[tuple[EltwiseOperation | BinaryOperation, str]]:
    """Return the epilogues of a step: functions and combinations, with the operands of the latter."""
    if isinstance(step, EltwiseOperation):
        return [(step, "")]
    if isinstance(step, Combination):
        return [(step.operation, step.operand)]
    if step.factor.size == step.term.size == 1:
        linear = _linear(step)
        return [] if (linear.alpha, linear.beta) == (1.0, 0.0) else [(linear, "")]
    epilogues: list[tuple[EltwiseOperation | BinaryOperation, str]] = []
    for word, values, idle in (("mul", step.factor, 1.0), ("add", step.term, 0.0)):
        if np.any(values != idle):
            rank = max(step.factor.ndim, step.term.ndim)
            shaped = values.reshape(*(1,) * (rank - values.ndim), *values.shape).astype(np.float32)
            epilogues.append((BinaryOperation(f"binary_{word}"), new_constant(shaped, near)))
    return epilogues
