"""The propagation problem: steps with alternatives, formats at the edge, and costs of reorders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

from ...desc.memory_desc import MemoryDesc
from ...errors import refuse

__all__ = ["Alternative", "EdgeCost", "FormatProblem", "FormatStep"]


@dataclass(frozen=True)
class Alternative:
    """One way to run a step: the format of each input and output, and the seconds it takes by itself."""

    inputs: tuple[MemoryDesc, ...]
    outputs: tuple[MemoryDesc, ...]
    seconds: float = 0.0


@dataclass(frozen=True)
class FormatStep:
    """A step of a network: the tensors that it reads and writes, and its alternatives.

    The first alternative of a chooser is what the format "any" gives. Under the eager rule a follower takes
    the format of its first non-constant input.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    alternatives: tuple[Alternative, ...]
    follows: bool = False


@dataclass(frozen=True, slots=True)
class EdgeCost:
    """The cost of a reorder: seconds, and bytes read and written."""

    seconds: float
    bytes_moved: int


@dataclass(frozen=True, eq=False)
class FormatProblem:
    """Steps in execution order, and the formats that are fixed.

    `inputs`: tensors that no step writes, constants among them, with their formats. `outputs`: the outputs of
    the network, with the required formats. `constants`: inputs whose reorders cost nothing, since they run
    once. `edge_cost`: pure function giving the cost of a reorder between two descriptors; where no byte
    moves, the reorder is only another descriptor of the same memory.

    Raises InvalidArguments for a step that does not fit its alternatives, or reads a tensor before it exists.
    """

    steps: tuple[FormatStep, ...]
    inputs: tuple[tuple[str, MemoryDesc], ...]
    outputs: tuple[tuple[str, MemoryDesc], ...]
    edge_cost: Callable[[MemoryDesc, MemoryDesc], EdgeCost]
    constants: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        available = {name for name, _ in self.inputs}
        for step in self.steps:
            _check_step(step, available)
            available.update(step.outputs)
        _check_there("the network", "gives", [name for name, _ in self.outputs], available)

    def reorder_cost(self, tensor: str, src: MemoryDesc, dst: MemoryDesc) -> EdgeCost:
        """Return the cost of converting `tensor`; zero for constants and for equal formats."""
        if src == dst or tensor in self.constants:
            return EdgeCost(0.0, 0)
        return self.edge_cost(src, dst)

    def readers(self) -> dict[str, tuple[int, ...]]:
        """Map each tensor to the indices of the steps that read it, without repetition."""
        readers: dict[str, dict[int, None]] = {}
        for place, step in enumerate(self.steps):
            for tensor in step.inputs:
                readers.setdefault(tensor, {})[place] = None
        return {tensor: tuple(places) for tensor, places in readers.items()}


def _check_step(step: FormatStep, available: set[str]) -> None:
    where = f"step {step.name}"
    _check_there(where, "reads", step.inputs, available)
    twice = [name for name in step.outputs if name in available or step.outputs.count(name) > 1]
    if twice:
        raise refuse("RS-G10:writes-second-time", where=where, twice=twice[0])
    if not step.alternatives:
        raise refuse("RS-G10:no-alternatives", where=where)
    for alternative in step.alternatives:
        counts = len(alternative.inputs), len(alternative.outputs)
        if counts != (len(step.inputs), len(step.outputs)):
            raise refuse(
                "RS-G10:alternative-inputs-outputs",
                where=where,
                counts=counts[0],
                counts2=counts[1],
                count=len(step.inputs),
                count2=len(step.outputs),
            )
        if not (isfinite(alternative.seconds) and alternative.seconds >= 0):
            raise refuse("RS-G10:alternative-seconds", where=where, seconds=alternative.seconds)


def _check_there(where: str, verb: str, names: tuple[str, ...] | list[str], available: set[str]) -> None:
    for missing in (name for name in names if name not in available):
        raise refuse("RS-G10:nothing-before-writes", where=where, verb=verb, missing=missing)
