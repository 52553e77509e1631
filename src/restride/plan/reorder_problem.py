"""The problem of a reorder: two descriptors and attributes, and the program that does it (N1)."""

from __future__ import annotations

from dataclasses import field, replace
from math import prod

from ..desc.arguments import ARG_DST, ARG_SRC
from ..desc.attr import Attr
from ..desc.attr_value import structure_of
from ..desc.memory_desc import MemoryDesc
from ..desc.post_op_values import FIXED_POWERS, EltwiseOp
from ..frozen import dataclass
from ..loading import load_whole
from .computation import Computation, computation_of
from .nest import LoopNest
from .problem import ProblemBase
from .program import DST, SRC, NestStep, Place, Program, Slot
from .reorder import reorder_nest

# A function of one element takes as long as to move so many bytes (measured: 1 to 5 ns, at 10 bytes a ns).
_FUNCTION_BYTES = 32
_CHEAP_BYTES = 2
_CHEAP = frozenset(
    (
        *("abs", "clip", "clip_v2", "hardsigmoid", "hardswish", "linear", "relu", "round", "sqrt", "square"),
        *FIXED_POWERS.values(),
    )
)


def function_bytes(attr: Attr, *more: str) -> int:
    """How many bytes could be moved in the time that the functions of one element take, `more` among them."""
    functions = (*more, *(op.function for op in attr.post_ops if isinstance(op, EltwiseOp)))
    return sum(_CHEAP_BYTES if alg in _CHEAP else _FUNCTION_BYTES for alg in functions)


@dataclass(frozen=True, slots=True)
class ReorderProblem(ProblemBase):
    """What to reorder: equal problems share an executable.

    `odd`: the arguments whose first 4-bit value lies in the upper half of a byte.
    """

    src: MemoryDesc
    dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)
    odd: frozenset[int] = frozenset()

    def structure(self) -> ReorderProblem:
        """The problem without the values of its attributes: equal for all that share a nest and a kernel."""
        structure = structure_of(self.attr)
        return self if structure is self.attr else replace(self, attr=structure)

    def computation(self) -> Computation:
        """What is computed; of concrete descriptors and checked attributes."""
        return computation_of(self.attr, self.src, self.dst, self.odd)

    def nest(self) -> LoopNest:
        """The loop nest."""
        computed = self.computation()
        return reorder_nest(self.src, self.dst, computed.compute, computed.tensors)

    def program(self) -> Program:
        """The program: the nest, and the sums of what it writes where they are asked for."""
        computed, wanted = self.computation(), self.attr.compensation
        nest = reorder_nest(self.src, self.dst, computed.compute, computed.tensors)
        step = NestStep(
            nest,
            Place(SRC),
            Place(DST),
            self.work_bytes,
            self.src.extent_range(),
            self.dst.extent_range(),
            computed.places(DST + 1),
            (0, computed.compute.scalars),
        )
        slots = (Slot(ARG_SRC), Slot(ARG_DST, is_written=True), *computed.slots())
        program = Program(slots, (step,), scalars=computed.compute.scalars)
        if wanted is None:
            return program
        load_whole("restride.plan.compensation")
        from .compensation import sum_steps

        return sum_steps(program, wanted, self.dst)

    def outputs(self) -> dict[int, MemoryDesc]:
        """What is written beside the destination, by argument."""
        if self.attr.compensation is None:
            return {}
        load_whole("restride.plan.compensation")
        from .compensation import compensation_descs

        # How long the sums are is known at execution as well.
        return compensation_descs(self.attr.compensation, self.dst)

    @property
    def has_runtime(self) -> bool:
        """True where dims or strides are known only at execution."""
        return self.src.layout.has_runtime or self.dst.layout.has_runtime

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written, padding of the destination included, gaps between elements not."""
        written = self.dst.data_type.nbytes(prod(self.dst.padded_dims))
        return self.src.data_type.nbytes(self.src.nelems) + (1 + self.attr.reads_dst) * written

    @property
    def work_bytes(self) -> int:
        """How many bytes could be moved in the time that this takes: what threads and Ctrl-C go by."""
        return self.moved_bytes + function_bytes(self.attr) * self.dst.nelems

    def where(self) -> str:
        """Both descriptors, for messages."""
        return f"src {self.src}; dst {self.dst}"
