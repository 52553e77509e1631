"""Sum: several tensors of the same dims, each with its scale, added in one pass (N1).

    t = scale[0] * src[0];  t = t + scale[i] * src[i], in order;  dst = saturate(t)

Computed in f32; in f64 if a tensor is f64, u32, s64 or u64, or if integers such as s32, whose sum may exceed
f32's precision, are added with scales of 1: so the sum of integers of up to 32 bits is exact (N1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np

from ..desc.arguments import ARG_DST, ARG_MULTIPLE_SRC
from ..desc.attr import Attr
from ..desc.attr_value import MOST_SOURCES
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import is_scalar, short_repr, to_f32
from ..dtypes import DataType
from ..errors import refuse
from ..ir.computation import Computation
from ..ir.digits import TensorOperand, reorder_nest
from ..ir.nest import SCALAR, Compute, Step, has_wide
from ..ir.program import DST, SRC, NestStep, Place, Program, Slot
from ..model.checks import Names, overlaps
from ..model.derived import make_primitive
from ..model.parse import check_described, check_written
from ..model.reader import ArgumentReader
from ..model.result_dims import Misfit, Shaped
from ..model.several import (
    SeveralPrimitive,
    SeveralPrimitiveDesc,
    SeveralProblem,
    check_sources,
    chosen_desc,
    parse_descs,
    parse_target,
    source_slot,
)
from ..runtime.memory import Memory

# The bits of integers that f32 represents exactly.
_FLOAT_BITS = 24


@dataclass(frozen=True, slots=True)
class SumProblem(SeveralProblem):
    """The sum primitive (`dnnl::sum`): `dst = saturate(scales[0] * src[0] + scales[1] * src[1] + ...)`.

    Sources are added in order, in f32; in f64 if a tensor is f64, u32, s64 or u64, or if integers whose sum
    might exceed f32's precision are added with scales of 1; the result is rounded once (N1). A source can be
    the destination.
    """

    operation = "sum"
    primitive = "Sum"
    call = "scales", "srcs", "dst"
    defaults = {"dst": None}
    overlap_hint = "use another buffer; in place, layout, element size and address must be the same"
    arguments = """
    Or, as in version 3 of oneDNN, `PrimitiveDesc(engine, dst, scales, srcs, ...)`. `scales`: one number for
    each source, rounded to f32, or None if all are 1. `srcs`: 1 to 1024 descriptors of equal dims; formats
    and types may differ. `dst`: if left out, it has the type of the first source; if left out or of format
    "any", it has the format of the first blocked source, else of the first source, dense. `attr`: the
    scratchpad mode."""

    srcs: tuple[MemoryDesc, ...]
    dst: MemoryDesc
    # The scales as f32 bytes: 0.0 and -0.0 are equal, but their sums are not.
    factors: bytes
    attr: Attr
    # Whether a source may share bytes with the destination.
    is_aliased: bool = False

    @classmethod
    def read(cls, call: ArgumentReader) -> SumProblem:
        srcs, dst = parse_descs(call.what, call.srcs), parse_target(call.what, call.dst)
        scales = parse_scales(call.what, call.scales, len(srcs))
        return sum_problem(scales, srcs, dst, call.frozen_attr()).of_descs(srcs, dst)

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> tuple[int, ...]:
        if len(node.scales) != len(tensors) or len({tensor.dims for tensor in tensors}) > 1:
            raise Misfit("all tensors must have equal dims, and a scale each")
        return tensors[0].dims

    def own_arguments(self) -> dict[str, object]:
        return {"scales": self.scales, "srcs": self.srcs}

    @property
    def verbose_aux(self) -> str:
        return f"scales:{':'.join(f'{scale:g}' for scale in self.scales)}"

    def is_in_place(self, index: int, src: Memory, dst: Memory) -> bool:
        return not overlaps(src, dst)

    def sharing(self, shared: frozenset[int]) -> SumProblem:
        return replace(self, is_aliased=True)

    @property
    def scales(self) -> tuple[float, ...]:
        """The scales, as f32 values."""
        return tuple(map(float, np.frombuffer(self.factors, "<f4")))

    @property
    def is_wide(self) -> bool:
        """True if everything is added in f64."""
        types = {md.data_type for md in (*self.srcs, self.dst)}
        is_whole = all(t.is_integral or t is DataType.boolean for t in types)
        is_exact = is_whole and set(self.scales) == {1.0} and len(self.srcs) > 1
        read, more_bits = {md.data_type for md in self.srcs}, (len(self.srcs) - 1).bit_length()
        if is_exact and any(t.bits + more_bits > _FLOAT_BITS for t in read):
            return True
        return has_wide(*types) if self.scales != (1.0,) else DataType.f64 in types

    def computation(self) -> Computation:
        """The computation: a single source of scale 1 is only moved."""
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


def parse_scales(what: str, scales: object, count: int) -> tuple[float, ...]:
    """Return one f32 value for each source; None means ones. Raises InvalidArguments for non-numbers."""
    if scales is None:
        return (1.0,) * count
    items = _items(scales)
    if items is None:
        raise refuse("RS-V02:scales", what=what, scales=short_repr(scales), count=count)
    return tuple(to_f32(value, f"{what}: scales[{i}]") for i, value in enumerate(items))


def _items(scales: object) -> list[object] | None:
    """Return the items of a sequence, cut one past the most allowed; None if it is not a sequence."""
    try:
        if is_scalar(scales) or not isinstance(scales, Iterable):
            return None
        return list(islice(scales, MOST_SOURCES + 1))
    except Exception:
        return None


# --- checks -------------------------------------------------------------------------------------------------

_NAMES = Names("sum")


def sum_problem(
    scales: tuple[float, ...],
    srcs: tuple[MemoryDesc, ...],
    dst: MemoryDesc | None,
    attr: Attr,
    names: Names = _NAMES,
) -> SumProblem:
    """Return the checked problem; a missing destination, or one of format "any", follows the sources.

    `names` is for messages. Raises InvalidArguments, or Unimplemented for sources that cannot be added.
    """
    return _problem_of(np.array(scales, "<f4").tobytes(), srcs, dst, attr, names)


@lru_cache(maxsize=1024)
def _problem_of(
    factors: bytes, srcs: tuple[MemoryDesc, ...], dst: MemoryDesc | None, attr: Attr, names: Names
) -> SumProblem:
    """Return the problem by the bytes of its scales: 0.0 and -0.0 are equal, but their sums are not."""
    check_sources(names, srcs)
    count = len(factors) // 4
    if count != len(srcs):
        what, hint = f"{names.call}: wrong number of scales", f"give one for each {names.one}"
        raise refuse("RS-R22:scales", what=what, count=len(srcs), one=names.one, count2=count, hint=hint)
    tensors = [(names.source(i), md) for i, md in enumerate(srcs)]
    if dst is not None:
        check_described(names.call, names.dst, dst)
        tensors.append((names.dst, dst))
    for name, md in tensors[1:]:
        _check_dims(names, (name, md), srcs[0])
    if dst is None or dst.format_kind == "any":
        dst = chosen_desc(srcs, srcs[0].dims, srcs[0].data_type if dst is None else dst.data_type)
    check_written(names.call, names.written, dst)
    if not replace(attr, scratchpad="library").is_default:
        raise refuse("RS-R26:sum-attributes", call=_NAMES.call, attr=attr.verbose_str())
    # A user's scratchpad must be large enough for any execution.
    return SumProblem(srcs, dst, factors, attr, is_aliased=attr.scratchpad == "user")


def _check_dims(names: Names, tensor: tuple[str, MemoryDesc], first: MemoryDesc) -> None:
    name, md = tensor
    if md.dims == first.dims:
        return
    raise refuse(
        "RS-R10:sum-of-different-dims", names=names, names2=names.source(0), first=first, name=name, md=md
    )


class SumPrimitiveDesc(SeveralPrimitiveDesc):
    """Queries that the descriptor of a sum adds."""

    __slots__ = ()

    def get_scales(self) -> list[float]:
        """Return the scale of each source, rounded to f32."""
        problem = self._implementation().problem
        assert isinstance(problem, SumProblem)
        return list(problem.scales)


Sum = make_primitive(SumProblem, None, SumPrimitiveDesc, SeveralPrimitive)
