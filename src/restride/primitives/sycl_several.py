"""Concats and sums on a SYCL device: a chain of kernels on one queue, whose last event is that of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..kept import kept_property
from ..plan.compute import Compute
from ..plan.concat import Move
from ..plan.reorder import reorder_nest
from ..runtime.alloc import extent
from ..runtime.memory import Memory
from ..runtime.sycl import Place, Run, SyclDevice
from ..runtime.sycl_program import Given, SyclProgram
from .concat_problem import Part
from .concat_shared import ConcatBase
from .feeding import Extras
from .sum_problem import MOST_AT_ONCE, SumBase, SumProblem, dense, sum_nest
from .sycl_reorder import Feeder, place_of


class SyclConcat(ConcatBase):
    """A concat solved for a device: the moves of each source in turn."""

    is_on_device: ClassVar[bool] = True

    def __init__(self, problem: Any, device: SyclDevice) -> None:
        super().__init__(problem)
        self._solved = tuple(_Part(part, device) for part in self.parts)
        programs = [program for solved in self._solved for program in solved.moves]
        names = dict.fromkeys(program.name.rpartition(":")[2] for program in programs)
        self.name = f"jit:spirv:{'+'.join(names)}" if programs else "jit:nothing"
        self.why = "; ".join(dict.fromkeys(program.why for program in programs)) or "there are no elements"

    def prepare(self) -> None:
        """Compile."""
        for solved in self._solved:
            for program in solved.moves:
                program.prepare()

    def submit(self, run: Run, srcs: Sequence[Memory], dst: Memory, extras: Extras) -> Any:
        """Submit on checked memories; the event."""
        target = place_of(run, dst)
        for solved in self._solved:
            src = srcs[solved.part.index]
            source = place_of(run, src)
            if source is None or target is None:
                continue
            given = solved.feeder.given(run, extras)
            for program in solved.padding if solved.part.is_there(src, dst) else solved.moves:
                program.submit(run, source, target, given)
        return run.end()


class _Part:
    """A part with its programs; those of the padding alone are made when they are first needed."""

    def __init__(self, part: Part, device: SyclDevice) -> None:
        self.part, self._device = part, device
        self.moves = tuple(map(self._program, part.moves))
        self.feeder = Feeder(part.chain, device)

    @kept_property
    def padding(self) -> tuple[SyclProgram, ...]:
        """The programs that write the padding."""
        return tuple(map(self._program, self.part.padding))

    def _program(self, move: Move) -> SyclProgram:
        return SyclProgram(move.nest, self._device, move.read, move.written)


class SyclSum(SumBase):
    """A sum solved for a device: one kernel for every 16 sources.

    Between kernels the sum is kept in the type in which it is added, so that the bits are those of one.
    """

    is_on_device: ClassVar[bool] = True

    def __init__(self, problem: SumProblem, device: SyclDevice) -> None:
        super().__init__(problem)
        self._device = device
        self._unpacked = {
            i: _Unpacked(md, device) for i, md in enumerate(problem.srcs) if i and md.data_type.bits < 8
        }
        self._kept = dense(problem.dst, problem.real)
        starts = range(0, len(problem.srcs), MOST_AT_ONCE)
        self._passes = [(start, self._program(start)) for start in starts]
        program = self._passes[0][1]
        passes = f"; {len(starts)} passes for {len(problem.srcs)} sources" if len(starts) > 1 else ""
        self.name, self.why = program.name, program.why + passes

    def _program(self, start: int) -> SyclProgram:
        """The sources from `start` on, and before them the sum so far."""
        problem, stop = self.problem, min(start + MOST_AT_ONCE, len(self.problem.srcs))
        read = [
            self._unpacked[i].desc if i in self._unpacked else problem.srcs[i] for i in range(start, stop)
        ]
        src, more = (self._kept, read) if start else (read[0], read[1:])
        dst = problem.dst if stop == len(problem.srcs) else self._kept
        compute = Compute(self.steps(is_first=not start, added=len(more)), problem.is_wide)
        nest = sum_nest(src, dst, compute, more)
        return SyclProgram(nest, self._device, src.extent_range(), dst.extent_range())

    def prepare(self) -> None:
        """Compile."""
        for _, program in self._passes:
            program.prepare()
        for unpacked in self._unpacked.values():
            unpacked.program.prepare()

    def submit(self, run: Run, srcs: Sequence[Memory], dst: Memory, extras: Extras) -> Any:
        """Submit on checked memories; the event."""
        found, target = [place_of(run, src) for src in srcs], place_of(run, dst)
        places = [place for place in found if place is not None]
        if target is None or len(places) < len(found):
            return run.end()
        for i, unpacked in self._unpacked.items():
            places[i] = unpacked.run(run, places[i])
        kept = run.room(extent(self._kept).needed) if len(self._passes) > 1 else target
        for start, program in self._passes:
            stop = min(start + MOST_AT_ONCE, len(places))
            first, *more = ([kept] if start else []) + places[start:stop]
            scalars = () if self.is_move else self.scales[start:stop]
            program.submit(run, first, target if stop == len(places) else kept, Given(tuple(more), scalars))
        return run.end()


class _Unpacked:
    """A source of 4-bit elements in bytes of their own, as operands are read."""

    def __init__(self, src: Any, device: SyclDevice) -> None:
        self.desc = dense(src)
        spans = src.extent_range(), self.desc.extent_range()
        self.program = SyclProgram(reorder_nest(src, self.desc, Compute()), device, *spans)

    def run(self, run: Run, src: Place) -> Place:
        """Where the unpacked elements will be."""
        room = run.room(extent(self.desc).needed)
        self.program.submit(run, src, room, Given())
        return room
