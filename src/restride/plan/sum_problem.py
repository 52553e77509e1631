"""The problem of a sum: descriptors and scales, and the program that adds all sources (N1).

    t = scale[0] * src[0];  t = t + scale[i] * src[i], in order;  dst = saturate(t)

All in f32; in f64 where a tensor is f64, and where integers that f32 does not hold, s32, are added as they
are, so that their sum is exact (N1).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ..desc.arguments import ARG_DST, ARG_MULTIPLE_SRC
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from .computation import Computation
from .concat_problem import source_slot
from .nest import SCALAR, Compute, Step
from .problem import ProblemBase
from .program import DST, SRC, NestStep, Place, Program, Slot
from .reorder import TensorOperand, reorder_nest

# Bits of integers that f32 holds.
_FLOAT_BITS = 24


@dataclass(frozen=True, slots=True)
class SumProblem(ProblemBase):
    """What to add: equal problems share an executable. `factors` are the scales as f32 bytes.

    `is_aliased`: a source may share bytes with the destination.
    """

    srcs: tuple[MemoryDesc, ...]
    dst: MemoryDesc
    factors: bytes
    attr: Attr
    is_aliased: bool = False

    @property
    def scales(self) -> tuple[float, ...]:
        """The scales, f32 values."""
        return tuple(map(float, np.frombuffer(self.factors, "<f4")))

    @property
    def is_wide(self) -> bool:
        """True where all is added as doubles."""
        types = {md.data_type for md in (*self.srcs, self.dst)}
        is_whole = all(t.is_integral or t is DataType.boolean for t in types)
        is_exact = is_whole and set(self.scales) == {1.0} and len(self.srcs) > 1
        read = {md.data_type for md in self.srcs}
        return DataType.f64 in types or (is_exact and any(t.bits > _FLOAT_BITS for t in read))

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written, padding of the destination included."""
        read = sum(md.data_type.nbytes(md.nelems) for md in self.srcs)
        return read + self.dst.data_type.nbytes(prod(self.dst.padded_dims))

    def computation(self) -> Computation:
        """What is computed: a single source of scale 1 is only moved."""
        scales = self.scales
        if scales == (1.0,):
            return Computation(Compute((), self.is_wide), (), ())
        added = (Step("add", operand=i, factor=SCALAR) for i in range(len(self.srcs) - 1))
        return Computation(Compute((Step("mul"), *added), self.is_wide), scales, ())

    def program(self) -> Program:
        """The program: one nest, whose operands are the other sources."""
        first, *more = self.srcs
        computed = self.computation()
        nest = reorder_nest(first, self.dst, computed.compute, [TensorOperand.of_desc(md) for md in more])
        step = NestStep(
            nest,
            Place(SRC),
            Place(DST),
            self.moved_bytes,
            first.extent_range(),
            self.dst.extent_range(),
            tuple(Place(source_slot(i)) for i in range(1, len(self.srcs))),
            (0, len(computed.scalars)),
        )
        sources = [Slot(ARG_MULTIPLE_SRC + i, span=md.extent_range()) for i, md in enumerate(self.srcs)]
        slots = (sources[0], Slot(ARG_DST, is_written=True), *sources[1:])
        return Program(slots, (step,), scalars=len(computed.scalars), is_aliased=self.is_aliased).verify()
