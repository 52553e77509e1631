"""`Loop` and `Scan`: the sequence of steps, shared by unrolling translation and execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from ....errors import Error, refuse
from ....runtime.alloc import Array
from .model import OnnxBranch, OnnxNode, listed

__all__ = ["LOOPS", "Loop", "LoopSteps"]

LOOPS = frozenset(("Loop", "Scan"))
"""Operators whose body is a graph that is run repeatedly."""

_LAST_BATCHED = 8
_FOREVER = 1 << 63
T = TypeVar("T")


class LoopSteps(Protocol[T]):
    """Executor of a loop's steps: a writer of graphs on names of tensors, or a run on arrays."""

    def step(self, at: int, values: Sequence[T]) -> Sequence[T]:
        """Run the body on its inputs, as step `at`. Raises if that is one step too many."""

    def constant(self, x: Array) -> T:
        """Return an array as a value."""

    def known(self, x: T) -> Array:
        """Return a value as an array. Raises Unimplemented if it is known only in a run."""

    def kind(self, x: T) -> tuple[tuple[int, ...], Any]:
        """Return the dims of a value, and NumPy's type."""

    def part(self, x: T, axis: int, at: int) -> T:
        """Return the part at index `at` of an axis, without the axis."""

    def stacked(self, parts: Sequence[T], axis: int) -> T:
        """Stack one or more parts along a new axis."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of a model.

    `carried`: number of values passed from step to step. `reads`, `makes`: the axes along which tensors are
    split into, or assembled from, one part per step, and whether that goes backwards. `is_counted`: it has a
    count and a condition, as `Loop` has; otherwise there is a step per part. `is_batched`: all tensors are
    batches.
    """

    node: OnnxNode
    body: OnnxBranch
    carried: int
    reads: tuple[tuple[int, bool], ...]
    makes: tuple[tuple[int, bool], ...]
    is_counted: bool
    is_batched: bool

    @classmethod
    def of(cls, node: OnnxNode, opset: int) -> Loop:
        """Return the loop of a node. Raises InvalidArguments if it is malformed."""
        body, named = node.attributes.get("body"), node.attributes
        if not isinstance(body, OnnxBranch):
            raise _error(node, "it has no body")
        if node.operator == "Loop":
            count = len(body.inputs) - 2
            makes = ((0, False),) * (len(body.outputs) - 1 - count)
            loop = cls(node, body, count, (), makes, is_counted=True, is_batched=False)
        else:
            parts = named.get("num_scan_inputs", 0)
            if parts < 1:
                raise _error(node, f"with num_scan_inputs {parts} it would never end")
            count, is_batched = len(body.inputs) - parts, opset <= _LAST_BATCHED
            ways = named.get("directions" if is_batched else "scan_input_directions")
            reads = _axes(parts, named.get("scan_input_axes"), ways)
            made = len(body.outputs) - count
            makes = _axes(made, named.get("scan_output_axes"), named.get("scan_output_directions"))
            loop = cls(node, body, count, reads, makes, is_counted=False, is_batched=is_batched)
        if len(node.inputs) != loop._head + loop.carried + len(loop.reads):
            raise _error(node, f"it has {len(node.inputs)} inputs, and its body {len(body.inputs)}")
        if loop.carried < 0 or len(body.outputs) != loop.is_counted + loop.carried + len(loop.makes):
            raise _error(node, f"its body has {len(body.inputs)} inputs and {len(body.outputs)} outputs")
        return loop

    def run(self, inputs: Sequence[T | None], steps: LoopSteps[T]) -> tuple[T, ...]:
        """Run the loop on the inputs of its node. Raises InvalidArguments for inputs that do not fit."""
        head, rest = inputs[: self._head], [x for x in inputs[self._head :] if x is not None]
        if len(rest) != len(inputs) - len(head):
            raise self.error("an input is missing")
        if not self.is_batched:
            most, condition = head or (None, None)
            return self._steps(most, condition, rest, steps)
        if head[0] is not None:
            raise self.error("its sequences differ in length, which is unsupported")
        samples = replace(self, is_batched=False)
        results = [
            samples.run([steps.part(x, 0, at) for x in rest], steps)
            for at in range(self._extent(rest, [0] * len(rest), steps))
        ]
        return tuple(steps.stacked(parts, 0) for parts in zip(*results, strict=True))

    def once(self, inputs: Sequence[T | None], steps: LoopSteps[T]) -> tuple[T, ...]:
        """Run a single step on the inputs of the node."""
        values = [x for x in inputs[self._head :] if x is not None]
        carried, sources = values[: self.carried], values[self.carried :]
        parts = [steps.part(x, axis, 0) for x, (axis, _) in zip(sources, self.reads, strict=True)]
        results = self._step(0, steps.constant(np.array(True)), [*carried, *parts], steps)[1:]
        made = zip(results[self.carried :], self.makes, strict=True)
        return (*results[: self.carried], *(steps.stacked([x], axis) for x, (axis, _) in made))

    @property
    def _head(self) -> int:
        """Number of inputs before those that the body reads."""
        return 2 * self.is_counted + self.is_batched

    @property
    def sources(self) -> tuple[str, ...]:
        """Inputs of the node that the body reads, whole or in parts."""
        return self.node.inputs[self._head :]

    def _steps(
        self, most: T | None, condition: T | None, values: list[T], steps: LoopSteps[T]
    ) -> tuple[T, ...]:
        carried, sources = values[: self.carried], values[self.carried :]
        going = steps.constant(np.array(True)) if condition is None else condition
        if sources:
            count = self._extent(sources, [axis for axis, _ in self.reads], steps)
        else:
            count = _FOREVER if most is None else int(steps.known(most).item())
        made: list[list[T]] = [[] for _ in self.makes]
        at = 0
        while at < count and (not self.is_counted or steps.known(going).item()):
            pairs = zip(sources, self.reads, strict=True)
            parts = [steps.part(x, axis, count - 1 - at if back else at) for x, (axis, back) in pairs]
            results = self._step(at, going, [*carried, *parts], steps)
            going, carried = results[0], results[1 : 1 + self.carried]
            for column, part in zip(made, results[1 + self.carried :], strict=True):
                column.append(part)
            at += 1
        if made and not at:
            # Without any step, one that is not counted gives the types of the parts.
            kinds = [(steps.kind(x), axis) for x, (axis, _) in zip(sources, self.reads, strict=True)]
            zeros = [np.zeros(_without(dims, axis), kind) for (dims, kind), axis in kinds]
            values = [*carried, *map(steps.constant, zeros)]
            parts = self._step(0, going, values, steps)[1 + self.carried :]
            none = [(steps.kind(x), axis) for x, (axis, _) in zip(parts, self.makes, strict=True)]
            empty = [np.zeros(_with_none(dims, axis), kind) for (dims, kind), axis in none]
            return (*carried, *map(steps.constant, empty))
        ways = zip(made, self.makes, strict=True)
        return (*carried, *(steps.stacked(x[::-1] if back else x, axis) for x, (axis, back) in ways))

    def _step(self, at: int, going: T, values: Sequence[T], steps: LoopSteps[T]) -> list[T]:
        """Return the condition after a step, and everything else it makes."""
        if self.is_counted:
            return list(steps.step(at, (steps.constant(np.array(at)), going, *values)))
        return [going, *steps.step(at, values)]

    def _extent(self, tensors: Sequence[T], axes: Sequence[int], steps: LoopSteps[T]) -> int:
        """Return the number of parts, which all these tensors share."""
        dims = [steps.kind(x)[0] for x in tensors]
        if any(not -len(own) <= axis < len(own) for own, axis in zip(dims, axes, strict=True)):
            raise self.error(f"axes {list(axes)} are out of range for dims {dims}")
        counts = {own[axis] for own, axis in zip(dims, axes, strict=True)}
        if len(counts) != 1:
            raise self.error(f"it reads along axes of {sorted(counts)} elements")
        return counts.pop()

    def error(self, reason: str) -> Error:
        """Return the error of a malformed loop."""
        return _error(self.node, reason)


def _axes(
    count: int, axes: Sequence[int] | None, backwards: Sequence[int] | None
) -> tuple[tuple[int, bool], ...]:
    return tuple(zip(axes or (0,) * count, map(bool, backwards or (0,) * count), strict=True))


def _without(dims: Sequence[int], axis: int) -> tuple[int, ...]:
    return tuple(np.delete(dims, axis).astype(int).tolist())


def _with_none(dims: Sequence[int], axis: int) -> tuple[int, ...]:
    return tuple(np.insert(np.array(dims, np.int64), axis % (len(dims) + 1), 0).tolist())


def _error(node: OnnxNode, reason: str) -> Error:
    inputs, hint = listed(node.inputs), "inputs and attributes must be those of the operator"
    return refuse("RS-G01:node-cannot-translated", node=node, inputs=inputs, why=reason, hint=hint)
