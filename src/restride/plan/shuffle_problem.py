"""The problem of a shuffle: two descriptors, an axis and a group size, and the program that does it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..desc.arguments import ARG_DST, ARG_SRC
from ..desc.memory_desc import MemoryDesc
from .nest import LoopNest
from .problem import ProblemBase
from .program import DST, SRC, NestStep, Place, Program, Slot
from .shuffle import shuffle_in_stages, shuffle_nest, widen


@dataclass(frozen=True, slots=True)
class ShuffleProblem(ProblemBase):
    """What to shuffle, as a forward shuffle: equal problems share an executable, whatever they are for.

    `axis` is one of the dims, and `group_size` divides it: the caller has checked both.
    """

    src: MemoryDesc
    dst: MemoryDesc
    axis: int
    group_size: int

    def nest(self) -> LoopNest:
        """The loop nest."""
        return shuffle_nest(self.src, self.dst, self.axis, self.group_size)

    def program(self) -> Program:
        """The program: one nest, of elements as wide as those that always move together."""
        src, dst = self.src, self.dst
        is_whole = src.data_type.bits >= 8
        if is_whole:
            src, dst = widen(src, dst, self.axis)
        step = NestStep(
            shuffle_nest(src, dst, self.axis, self.group_size),
            Place(SRC),
            Place(DST),
            self.moved_bytes,
            src.extent_range(),
            dst.extent_range(),
            staged=shuffle_in_stages(src, dst, self.axis, self.group_size) if is_whole else None,
            finds_stages=not is_whole,
        )
        return Program((Slot(ARG_SRC), Slot(ARG_DST, is_written=True)), (step,))

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written, padding of the destination included, gaps between elements not."""
        written = self.dst.data_type.nbytes(prod(self.dst.padded_dims))
        return written + self.src.data_type.nbytes(self.src.nelems)

    def where(self) -> str:
        """Both descriptors, for messages."""
        return f"src {self.src}; dst {self.dst}"
