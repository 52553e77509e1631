"""The reference device: programs run by the interpreter, which every other engine must match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..dtypes import DataType
from ..ir.conversion import Array, storage_dtype
from ..ir.interpret_nest import interpret
from ..ir.program import NestStep, Place, Program, RepeatStep, TreeStep
from ..loading import load_whole
from .alloc import Buffer, address_of
from .arguments import NO_KERNELS, Arguments, Executable
from .device import Queue
from .event import COMPLETED, Event
from .host import HostDevice


class ReferenceDevice(HostDevice):
    """The memory of the CPU, with the interpreter."""

    def compile(self, program: Program) -> ReferenceExecutable:
        """Return the program unchanged, except for grids."""
        load_whole("restride.schedule.passes")
        from ..schedule.passes import without_grids

        return ReferenceExecutable(without_grids(program))

    def launch(
        self, executable: Executable, arguments: Arguments, queue: Queue | None, deps: Sequence[object] = ()
    ) -> Event:
        """Run to completion."""
        assert isinstance(executable, ReferenceExecutable)
        executable.run(arguments)
        return COMPLETED


class ReferenceExecutable:
    """A program whose steps are interpreted."""

    name, why = "ref:any", "the interpreter"
    schedule = "# the interpreter has none"
    scratch_bytes, threads = 0, 1
    call = lowered = None
    kernels = NO_KERNELS

    def __init__(self, program: Program) -> None:
        self.program = program

    def prepare(self) -> None:
        """Do nothing: there is nothing to compile."""

    def run(self, arguments: Arguments) -> None:
        """Run on checked memory."""
        temporaries = [_temporary(nbytes) for nbytes in self.program.temporaries]
        memory = _ProgramMemory(arguments.buffers, temporaries)
        for step in self.program.steps:
            if isinstance(step, RepeatStep):
                for turn in step.unrolled():
                    _run_tree(turn, memory, arguments.scalars)
            elif isinstance(step, TreeStep):
                _run_tree(step, memory, arguments.scalars)
            elif isinstance(step, NestStep):
                _run_nest(step, memory, arguments.scalars)


def _temporary(nbytes: int) -> Buffer:
    array = np.zeros(max(nbytes, 1), np.uint8)
    return Buffer(address_of(array), nbytes, False, array)


class _ProgramMemory:
    """The memory of one run: places as flat arrays, from element offset 0 on."""

    def __init__(self, slots: Sequence[Buffer], temporaries: Sequence[Buffer]) -> None:
        self._slots, self._temporaries = slots, temporaries

    def flat(self, place: Place, data_type: DataType) -> tuple[Array, int]:
        """Return the storage of a buffer, and the index of the place in it."""
        buffer = self._slots[place.buffer] if place.buffer >= 0 else self._temporaries[~place.buffer]
        dtype = storage_dtype(data_type)
        raw = buffer.bytes()
        whole = raw[: len(raw) // dtype.itemsize * dtype.itemsize].view(dtype)
        return whole, place.offset * 8 // data_type.bits


def _run_nest(step: NestStep, memory: _ProgramMemory, scalars: Sequence[float]) -> None:
    nest = step.nest
    src, src_at = memory.flat(step.src, nest.src_type)
    dst, dst_at = memory.flat(step.dst, nest.dst_type)
    pairs = [
        memory.flat(*pair) for pair in zip(step.operands, (x.data_type for x in nest.operands), strict=True)
    ]
    operands = (replace(x, base=x.base + at) for x, (_, at) in zip(nest.operands, pairs, strict=True))
    nest = replace(
        nest, src_base=nest.src_base + src_at, dst_base=nest.dst_base + dst_at, operands=tuple(operands)
    )
    first, count = step.scalars
    values = step.constants or scalars[first : first + count]
    interpret(nest, src, dst, values, [tensor for tensor, _ in pairs])


def _run_tree(step: TreeStep, memory: _ProgramMemory, scalars: Sequence[float]) -> None:
    load_whole("restride.ir.interpret_tree")
    from ..ir.interpret_tree import interpret_tree

    pairs = zip(step.tree.tensors, step.places, strict=True)
    flats = [memory.flat(place, tensor.data_type) for tensor, place in pairs]
    first, count = step.scalars
    interpret_tree(step.tree, [flat[at:] for flat, at in flats], scalars[first : first + count])


DEVICE = ReferenceDevice("reference")
"""The only one."""
