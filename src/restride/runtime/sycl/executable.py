"""A program compiled for a SYCL device: launches in sequence on a queue.

Passes turn the program into steps that work-items can do. A nest is one kernel, loop trees take one for each
outermost loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

from ...ir.nest import LoopNest
from ...ir.program import NestStep, Program, RepeatStep, TreeStep
from ...ir.tree import LoopTree
from ...schedule.machine import NOMINAL, DeviceFacts
from ...schedule.passes import (
    split_integer_folds,
    split_sums,
    spread_bytes,
    unpack_operands,
    widen_trees,
    without_grids,
)
from ...schedule.trees.padding import padding_nests
from ...schedule.work_items import plan_items
from ...schedule.work_trees import move_rows, plan_trees
from ...targets.lowered import Lowered
from ...targets.spirv import SPIRV
from ..arguments import name_and_reason
from .launch import DeviceLaunch, SyclKernel, nest_launch, tree_launch

if TYPE_CHECKING:
    from .device import SyclDevice


class SyclExecutable:
    """A program for one device. Immutable except for kernels, compiled at first use: threads can share it.

    `name` and `why` say which kernels run and for what reason; without elements there are none. Work outlasts
    its call, so every run has its own temporaries and ignores a scratchpad. Raises Unimplemented for
    computations in f64 on a device that does not support it.
    """

    __slots__ = ("launches", "name", "program", "why")
    scratch_bytes = 0
    call = None

    def __init__(self, program: Program, device: SyclDevice) -> None:
        self.program = _passed(program, device.facts)
        self.launches = tuple(_launches(self.program, device))
        work = [(launch.kernel.lowered.kind, launch.why) for launch in self._work()]
        self.name, self.why = name_and_reason(SPIRV.name, work)

    @property
    def threads(self) -> int:
        """The number of work-items."""
        return max((launch.kernel.lowered.steps for launch in self._work()), default=1)

    @property
    def schedule(self) -> str:
        """The plan of each kernel; after a `#`, its purpose and the reason."""
        kernels = ((launch.kernel.lowered, launch.why) for launch in self.launches)
        lines = (f"# {lowered.kind}: {why}\n{lowered}" for lowered, why in kernels)
        return "\n".join(lines) or "# nothing to do"

    @property
    def lowered(self) -> Lowered | None:
        """The kernel of the step that does the work, or None."""
        return next((launch.kernel.lowered for launch in self._work()), None)

    @property
    def kernels(self) -> dict[str, Lowered]:
        """All kernels in the order of launches."""
        return {f"kernel({n})": launch.kernel.lowered for n, launch in enumerate(self.launches)}

    def prepare(self) -> None:
        """Compile."""
        for launch in self.launches:
            launch.prepare()

    def _work(self) -> list[DeviceLaunch]:
        """Return the launches that do the work, not those that serve others."""
        return [launch for launch in self.launches if launch.is_named]


# --- from programs to launches ------------------------------------------------------------------------------


def _passed(program: Program, facts: DeviceFacts) -> Program:
    """Return the program in steps that work-items can do."""

    def splits_bytes(step: NestStep) -> bool:
        return not step.nest.is_empty and plan_items(step.nest, facts).splits_bytes

    program = without_grids(program)
    sums = split_sums(unpack_operands(widen_trees(program), lambda _step, _operand: True), NOMINAL.sources)
    folds = split_integer_folds(spread_bytes(sums, splits_bytes), lambda _step, _fold: False)
    return move_rows(folds, facts)


def _launches(program: Program, device: SyclDevice) -> Iterator[DeviceLaunch]:
    for step in program.steps:
        if isinstance(step, RepeatStep):
            yield from _repeated(step, device)
        elif isinstance(step, TreeStep):
            yield from _tree_launches(step, _tree_kernels(step.tree, device))
        elif isinstance(step, NestStep) and not step.nest.is_empty:
            yield nest_launch(step, device)


@dataclass(frozen=True, slots=True)
class _TreeKernels:
    """Kernels of a tree: those that clear padding no loop reaches, by tensor, then one per outermost loop."""

    device: SyclDevice
    cleared: tuple[tuple[str, LoopNest], ...]
    loops: tuple[SyclKernel, ...]


def _tree_kernels(tree: LoopTree, device: SyclDevice) -> _TreeKernels:
    plans = () if tree.is_empty else plan_trees(tree, device.facts)
    names = dict.fromkeys(name for plan in plans for name in plan.schedule.uncovered)
    cleared = tuple((name, nest) for name in names for nest in padding_nests(tree.tensor(name)))
    loops = (SyclKernel(plan, device, needs_double=plan.needs_double) for plan in plans)
    return _TreeKernels(device, cleared, tuple(loops))


def _tree_launches(step: TreeStep, kernels: _TreeKernels) -> Iterator[DeviceLaunch]:
    places = {tensor.name: place for tensor, place in zip(step.tree.tensors, step.places, strict=True)}
    for name, nest in kernels.cleared:
        clears = NestStep(nest, places[name], places[name], 0, (0, 0), (0, 0), is_named=False)
        yield nest_launch(clears, kernels.device)
    for kernel in kernels.loops:
        yield tree_launch(step, kernel)


def _repeated(step: RepeatStep, device: SyclDevice) -> Iterator[DeviceLaunch]:
    """Yield the launches of all turns, which share their kernels."""
    kernels = [_tree_kernels(inner.tree, device) for inner in step.steps]
    for inner, of_tree in zip(step.unrolled(), cycle(kernels)):
        yield from _tree_launches(inner, of_tree)
