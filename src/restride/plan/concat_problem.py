"""The problem of a concat: sources, each with its window, and the program that fills them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from ..desc.arguments import ARG_DST, ARG_MULTIPLE_SRC
from ..desc.attr import Attr
from ..desc.attr_value import structure_of
from ..desc.memory_desc import MemoryDesc
from .computation import Computation, OperandSource, scaled
from .concat import Window, WindowMove, window_moves
from .nest import Compute
from .problem import ProblemBase
from .program import DST, NestStep, Place, Program, Slot


@dataclass(frozen=True, slots=True)
class ConcatProblem(ProblemBase):
    """Sources, one behind the other along `axis` of `dst`: equal problems share an executable.

    `in_place`: the sources whose bits are where they belong already, so that only padding is written.
    """

    srcs: tuple[MemoryDesc, ...]
    dst: MemoryDesc
    axis: int
    attr: Attr
    in_place: frozenset[int] = frozenset()

    def structure(self) -> ConcatProblem:
        """The problem without the values of its scales: equal for all that share kernels."""
        structure = structure_of(self.attr)
        return self if structure is self.attr else replace(self, attr=structure)

    def starts(self) -> list[int]:
        """The first index of each source."""
        return [sum(md.dims[self.axis] for md in self.srcs[:i]) for i in range(len(self.srcs))]

    def sources(self) -> Iterator[WindowedSource]:
        """The sources that have elements; the last of them is followed by the padding."""
        filled = [i for i, md in enumerate(self.srcs) if md.nelems]
        starts = self.starts()
        for i in filled:
            ends_at = starts[i] + self.srcs[i].dims[self.axis]
            until = self.dst.padded_dims[self.axis] if i == filled[-1] else ends_at
            window = Window(self.dst, self.axis, starts[i], until)
            computed = scaled(
                self.attr.scale_of(ARG_MULTIPLE_SRC + i), ARG_MULTIPLE_SRC + i, self.srcs[i], self.dst
            )
            yield WindowedSource(i, self.srcs[i], window, computed)

    def computation(self) -> Computation:
        """What is computed for all sources, one after the other."""
        parts = [source.computed for source in self.sources()]
        scalars = tuple(scalar for part in parts for scalar in part.scalars)
        operands: tuple[OperandSource, ...] = tuple(each for part in parts for each in part.operands)
        return Computation(Compute(), scalars, operands)

    def program(self) -> Program:
        """The program: the nests of each source, none of which reads what another one writes."""
        count, computed = len(self.srcs), self.computation()
        sources = (Slot(ARG_MULTIPLE_SRC + i) for i in range(count))
        slots = (next(sources), Slot(ARG_DST, is_written=True), *sources, *computed.slots())
        steps: list[NestStep] = []
        operand, scalar = count + 1, 0
        for source in self.sources():
            moves = source.padding() if source.index in self.in_place else source.moves()
            needs = source.computed
            steps += [
                _step(move, source_slot(source.index), needs.places(operand), (scalar, len(needs.scalars)))
                for move in moves
            ]
            operand, scalar = operand + len(needs.operands), scalar + len(needs.scalars)
        return Program(slots, tuple(steps), scalars=scalar).verify()

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written, padding of the destination left out."""
        return sum(md.data_type.nbytes(md.nelems) + self.dst.data_type.nbytes(md.nelems) for md in self.srcs)


def source_slot(index: int) -> int:
    """The slot of source `index`: the first one stands before the destination, the others behind it."""
    return index if index == 0 else index + DST


@dataclass(frozen=True, slots=True)
class WindowedSource:
    """One source: its number, where it goes, and what is done to its values."""

    index: int
    src: MemoryDesc
    window: Window
    computed: Computation

    def moves(self) -> tuple[WindowMove, ...]:
        """The nests that fill the window."""
        return window_moves(self.src, self.window, self.computed.compute, self.computed.tensors)

    def padding(self) -> tuple[WindowMove, ...]:
        """The nests that write its padding alone."""
        return tuple(zeros for move in self.moves() for zeros in move.padding())

    @property
    def is_copy(self) -> bool:
        """True where bits are moved as they are."""
        return self.computed.compute.is_move and self.src.data_type is self.window.dst.data_type


@lru_cache(maxsize=1024)
def bits_to_window(problem: ConcatProblem, index: int) -> int | None:
    """How many bits behind the destination's memory a source's begins where it lies in its window.

    None for a source that cannot lie there.
    """
    source = next((each for each in problem.sources() if each.index == index), None)
    if source is None or not source.window.is_like(source.src):
        return None
    return source.window.origin * problem.dst.data_type.bits - source.src.offset0 * source.src.data_type.bits


def in_place_copies(problem: ConcatProblem, shared: frozenset[int]) -> frozenset[int]:
    """Those of the sources that lie in their window whose bits need not be moved."""
    return frozenset(each.index for each in problem.sources() if each.index in shared and each.is_copy)


def _step(move: WindowMove, src: int, operands: tuple[Place, ...], scalars: tuple[int, int]) -> NestStep:
    """The step of one nest. Sources of the same shape share a kernel, as where they begin is not in it."""
    nest, read, written = move.nest, Place(src), Place(DST)
    if not nest.has_nibbles:
        read = Place(src, nest.src_base * nest.src_type.bits // 8)
        written = Place(DST, nest.dst_base * nest.dst_type.bits // 8)
        nest = replace(nest, src_base=0, dst_base=0)
    return NestStep(nest, read, written, nest.moved_bytes, move.read, move.written, operands, scalars)
