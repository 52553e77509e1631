"""Builder of programs of normalizations: their steps, tensors and temporaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod

from ...desc.arguments import (
    ARG_DIFF_DST,
    ARG_DIFF_SCALE,
    ARG_DIFF_SHIFT,
    ARG_DIFF_SRC,
    ARG_DIFF_SRC_1,
    ARG_DST,
    ARG_MEAN,
    ARG_SCALE,
    ARG_SHIFT,
    ARG_SRC,
    ARG_SRC_1,
    ARG_VARIANCE,
    ARG_WORKSPACE,
)
from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...ir.expression import Const, TreeAxis
from ...ir.program import Place, Program, Slot, TreeStep
from ...ir.tree import Each, TreeTensor
from ...schedule.trees.split_folds import split_folds
from .normalization import dense, step_of

_NAMES = {
    ARG_SRC: "src",
    ARG_DST: "dst",
    ARG_SRC_1: "added",
    ARG_MEAN: "mean",
    ARG_VARIANCE: "variance",
    ARG_SCALE: "scale",
    ARG_SHIFT: "shift",
    ARG_WORKSPACE: "workspace",
    ARG_DIFF_SRC: "diff_src",
    ARG_DIFF_SRC_1: "diff_added",
    ARG_DIFF_DST: "diff_dst",
    ARG_DIFF_SCALE: "diff_scale",
    ARG_DIFF_SHIFT: "diff_shift",
}


class ProgramParts:
    """The steps, tensors and temporaries of a program under construction."""

    def __init__(
        self,
        args: Mapping[int, MemoryDesc],
        written: Sequence[int],
        main: tuple[int, int],
        scalars: int,
        *,
        is_wide: bool = False,
    ) -> None:
        # The first tensor read, the first one written, then the others.
        order = [*main, *(arg for arg in args if arg not in main)]
        self.slots = [Slot(arg, arg in written, args[arg].extent_range()) for arg in order]
        self.tensors = {_NAMES[arg]: TreeTensor.of_desc(_NAMES[arg], args[arg]) for arg in order}
        self.places = {_NAMES[arg]: Place(i) for i, arg in enumerate(order)}
        self.scalars, self.is_wide = scalars, is_wide
        self.temporaries: list[int] = []
        self.steps: list[TreeStep] = []

    def temporary(self, name: str, sizes: Sequence[int]) -> TreeTensor:
        """Return the tensor of that name, or else a new temporary."""
        if name not in self.tensors:
            real = DataType.f64 if self.is_wide else DataType.f32
            self.tensors[name] = tensor = dense(name, sizes, real)
            self.temporaries.append(real.nbytes(max(1, prod(tensor.sizes))))
            self.places[name] = Place(~(len(self.temporaries) - 1))
        return self.tensors[name]

    def operands(self, tensors: Sequence[TreeTensor], slots: Sequence[Slot]) -> None:
        """Add the operands of attributes."""
        for tensor, slot in zip(tensors, slots, strict=True):
            self.tensors[tensor.name], self.places[tensor.name] = tensor, Place(len(self.slots))
            self.slots.append(slot)

    def step(self, each: Each, work_bytes: int, *, backwards: bool = False) -> None:
        """Add a step; `backwards`: over what the previous one has read, in reverse."""
        step = self._step(each, work_bytes)
        self.steps.append(replace(step, tree=replace(step.tree, backwards=backwards)))

    def _step(self, each: Each, work_bytes: int) -> TreeStep:
        return step_of([each], self.tensors, self.places, work_bytes, self.scalars, is_wide=self.is_wide)

    def split_step(self, each: Each, work_bytes: int) -> None:
        """Add a step, in pieces if it folds many elements into few."""
        step = self._step(each, work_bytes)
        steps, more = split_folds(step, len(self.temporaries))
        self.steps += steps
        self.temporaries += more

    def zeros(self, args: Iterable[int]) -> None:
        """Add steps that write zeros: statistics and gradients of empty tensors."""
        for tensor in (self.tensors[_NAMES[arg]] for arg in args):
            axes = tuple(TreeAxis(f"d{dim}", size) for dim, size in enumerate(tensor.sizes))
            if 0 not in tensor.sizes:
                nbytes = tensor.data_type.nbytes(prod(tensor.sizes))
                self.step(Each(axes, (tensor.store(axes, Const(0.0)),)), nbytes)

    def program(self) -> Program:
        """Return the whole program."""
        return Program(tuple(self.slots), tuple(self.steps), tuple(self.temporaries), self.scalars).verify()
