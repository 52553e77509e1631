"""A concat problem solved for an engine: the moves of each source in turn, compiled or interpreted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..kept import kept_property
from ..plan.concat import Move
from ..runtime.joined import JoinedProgram, joined_program
from ..runtime.memory import Memory
from ..runtime.reference import run_nest
from ..runtime.spread import Runner, make_program
from .concat_problem import ConcatProblem, Part
from .concat_shared import ConcatBase
from .execution import share_bytes
from .feeding import Extras, fill_params, operand_arrays
from .scratchpad import scratch_address


class ReferenceConcat(ConcatBase):
    """A concat on the reference engine: the interpreter."""

    def __init__(self, problem: ConcatProblem) -> None:
        super().__init__(problem)
        self.name, self.why = "ref:any", "the interpreter"

    def prepare(self) -> None:
        """Nothing to compile."""

    def run(self, srcs: Sequence[Memory], dst: Memory, extras: Extras) -> None:
        """Run on checked memories."""
        for part in self.parts:
            src = srcs[part.index]
            arrays = operand_arrays(part.chain.feeds, extras)
            for move in part.padding if part.is_there(src, dst) else part.moves:
                run_nest(move.nest, src, dst, part.chain.scalars, arrays)


class CpuConcat(ConcatBase):
    """A concat solved for the CPU: the compiled moves of each source in turn."""

    def __init__(self, problem: ConcatProblem) -> None:
        super().__init__(problem)
        self._solved = tuple(_Solved(part) for part in self.parts)
        runners = [each.runner for solved in self._solved for each in solved.moves]
        self.name, self.why = _named(runners)
        self.scratch_bytes = max((runner.scratch_bytes for runner in runners), default=0)
        self._calls: tuple[_Call, ...] | None = None
        self._joined = _joined(self.parts)
        if self._joined is not None:
            self.name, self.why = self._joined.name, self._joined.why

    def prepare(self) -> None:
        """Compile."""
        if self._joined is not None:
            self._joined.prepare()
        elif self._calls is None:
            self._calls = tuple(call for solved in self._solved for call in solved.calls())

    def run_apart(self, srcs: Sequence[int], dst: int) -> None:
        """Run, once prepared, on addresses of memories that share no byte, where no scale is to be passed."""
        if self._joined is not None:
            self._joined.run(srcs, dst)
            return
        for number, call, src_at, dst_at, params in self._calls or ():
            call(srcs[number] + src_at, dst + dst_at, params)

    def run(self, srcs: Sequence[Memory], dst: Memory, extras: Extras) -> None:
        """Run on checked memories."""
        # The buffers are held by name: another thread may give the memories others meanwhile.
        written = dst._buffer
        held: list[object] = []
        if self._joined is not None and not any(share_bytes(src, dst) for src in srcs):
            read_all = [src._buffer for src in srcs]
            if written is not None and None not in read_all:
                self._joined.run([buffer.address for buffer in read_all if buffer], written.address)
            return
        scratch = scratch_address(extras, held)
        for solved in self._solved:
            src = srcs[solved.part.index]
            read = src._buffer
            if read is None or written is None:
                return
            params = solved.params or fill_params(solved.part.chain, extras, held)
            for each in solved.padding if solved.part.is_there(src, dst) else solved.moves:
                each.run(read.address, written.address, params.address, scratch)


class _Solved:
    """A part with its programs; those of the padding alone are made when they are first needed."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.moves = tuple(map(_compiled, part.moves))
        self._held: list[object] = []
        self.params = None if part.chain.args else fill_params(part.chain, {}, self._held)

    @kept_property
    def padding(self) -> tuple[_Compiled, ...]:
        """The programs that write the padding."""
        return tuple(map(_compiled, self.part.padding))

    def calls(self) -> Iterator[_Call]:
        """Compile; what a run of all moves calls."""
        params = self.params.address if self.params else 0
        for each in self.moves:
            call = each.runner.direct_call() or each.runner.run
            yield _Call(self.part.index, call, each.src, each.dst, params)


class _Call(NamedTuple):
    """A move of source `number`: what is called, and where its elements of offset 0 lie in both memories."""

    number: int
    call: Callable[[int, int, int], None]
    src: int
    dst: int
    params: int


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A program, and how many bytes its elements of offset 0 lie behind those of the memories."""

    runner: Runner
    src: int = 0
    dst: int = 0

    def run(self, src: int, dst: int, params: int, scratch: int) -> None:
        self.runner.run(src + self.src, dst + self.dst, params, scratch)


def _compiled(move: Move) -> _Compiled:
    nest = move.nest
    if nest.has_nibbles:
        return _Compiled(make_program(nest, nest.moved_bytes, move.read, move.written))
    # Sources of the same shape share a kernel, as where they begin is not in it.
    src, dst = nest.src_base * nest.src_type.bits // 8, nest.dst_base * nest.dst_type.bits // 8
    moved = replace(nest, src_base=0, dst_base=0)
    return _Compiled(make_program(moved, nest.moved_bytes, move.read, move.written), src, dst)


class _InStep:
    """All moves in step: the program, and where the elements of offset 0 lie in the source of each."""

    def __init__(self, program: JoinedProgram, places: Sequence[tuple[int, int]]) -> None:
        self.name, self.why, self.prepare = program.name, program.why, program.prepare
        self._program, self._places = program, tuple(places)

    def run(self, srcs: Sequence[int], dst: int) -> None:
        """Run, once prepared, on addresses of memories that share no byte."""
        self._program.run([srcs[number] + at for number, at in self._places], dst)


def _joined(parts: Sequence[Part]) -> _InStep | None:
    """The moves in step; None where each is better run on its own, or a scale is passed at execution."""
    if any(part.chain.args for part in parts):
        return None
    moves = [(part.index, move.nest) for part in parts for move in part.moves]
    nests = [replace(nest, src_base=0) for _, nest in moves]
    program = joined_program(nests, sum(nest.moved_bytes for nest in nests))
    places = [(number, nest.src_base * nest.src_type.bits // 8) for number, nest in moves]
    return None if program is None else _InStep(program, places)


def _named(runners: Sequence[Any]) -> tuple[str, str]:
    """A name and a reason for all: `jit:avx512:copy+transpose`."""
    if not runners:
        return "jit:nothing", "there are no elements"
    first = dict.fromkeys(runner.name.rpartition(":")[2] for runner in runners)
    head = runners[0].name.rpartition(":")[0]
    whys = dict.fromkeys(runner.why for runner in runners)
    return f"{head}:{'+'.join(first)}", "; ".join(whys)
