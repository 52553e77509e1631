"""Concat: join tensors along an axis, each from its own format and type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ..desc.arguments import ARG_DST, ARG_MULTIPLE_SRC
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..errors import refuse
from ..ir.computation import Computation, OperandSource, scaled
from ..ir.nest import Compute
from ..ir.program import DST, NestStep, Place, Program, Slot
from ..model.checks import Names
from ..model.derived import make_primitive
from ..model.parse import check_described, check_written
from ..model.reader import ArgumentReader
from ..model.result_dims import Misfit, Shaped, check_axis
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
from .programs.concat import Window, WindowMove, window_moves


@dataclass(frozen=True, slots=True)
class ConcatProblem(SeveralProblem):
    """The concat primitive (`dnnl::concat`): each source is reordered into its window of the destination.

    A source already in its window, such as a memory of `dst.submemory_desc(...)` over the same buffer, is not
    copied.
    """

    operation = "concat"
    primitive = "Concat"
    call = "axis", "srcs", "dst"
    defaults = {"dst": None}
    overlap_hint = "use another buffer; a source can overlap the destination only at its own position"
    arguments = """
    Or, as in version 3 of oneDNN, `PrimitiveDesc(engine, dst, axis, srcs, ...)`. `srcs`: 1 to 1024
    descriptors, equal in all dims except `axis`; formats and types may differ. `dst`: if left out, it has
    the type of the first source; if left out or of format "any", it has the format of the first blocked
    source, else of the first source, dense. Formats with a source that would begin inside a block are
    skipped; if no format remains, it is plain, in the axis order of the first source. `attr`: scales of mask
    0 for `rs.onednn.Arg.MULTIPLE_SRC + i`, fixed or passed at execution, and the scratchpad mode."""

    srcs: tuple[MemoryDesc, ...]
    dst: MemoryDesc
    axis: int
    attr: Attr
    # Sources already in place, for which only padding is written.
    in_window: frozenset[int] = frozenset()

    @classmethod
    def read(cls, call: ArgumentReader) -> ConcatProblem:
        srcs, dst = parse_descs(call.what, call.srcs), parse_target(call.what, call.dst)
        return concat_problem(call.integer("axis"), srcs, dst, call.frozen_attr()).of_descs(srcs, dst)

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> tuple[int, ...]:
        axis, dims = node.axis, [tensor.dims for tensor in tensors]
        check_axis(axis, tensors[0])
        others = {(*tensor.dims[:axis], -1, *tensor.dims[axis + 1 :], tensor.data_type) for tensor in tensors}
        if len(others) > 1 or len(set(map(len, dims))) != 1:
            raise Misfit(f"types and all dims except axis {axis} must be equal")
        return joined_dims(dims, axis)

    def own_arguments(self) -> dict[str, object]:
        return {"axis": self.axis, "srcs": self.srcs}

    @property
    def verbose_aux(self) -> str:
        return f"axis:{self.axis}"

    @property
    def verbose_dims(self) -> str:
        return ":".join("x".join(map(str, md.dims)) for md in self.srcs)

    def is_in_place(self, index: int, src: Memory, dst: Memory) -> bool:
        apart = bits_to_window(self, index)
        return apart is not None and 8 * (src._address - dst._address) == apart

    def sharing(self, shared: frozenset[int]) -> ConcatProblem:
        copies = (source.index for source in self.windowed() if source.index in shared and source.is_copy)
        return replace(self, in_window=frozenset(copies))

    def starts(self) -> list[int]:
        """The index at which each source begins."""
        return [sum(md.dims[self.axis] for md in self.srcs[:i]) for i in range(len(self.srcs))]

    def windowed(self) -> Iterator[WindowedSource]:
        """Yield the nonempty sources; the last is followed by the padding."""
        indices = [i for i, md in enumerate(self.srcs) if md.nelems]
        starts = self.starts()
        for i in indices:
            ends_at = starts[i] + self.srcs[i].dims[self.axis]
            until = self.dst.padded_dims[self.axis] if i == indices[-1] else ends_at
            window = Window(self.dst, self.axis, starts[i], until)
            computed = scaled(
                self.attr.scale_of(ARG_MULTIPLE_SRC + i), ARG_MULTIPLE_SRC + i, self.srcs[i], self.dst
            )
            yield WindowedSource(i, self.srcs[i], window, computed)

    def computation(self) -> Computation:
        """The computation for all sources, one after another."""
        parts = [source.computed for source in self.windowed()]
        scalars = tuple(scalar for part in parts for scalar in part.scalars)
        operands: tuple[OperandSource, ...] = tuple(operand for part in parts for operand in part.operands)
        return Computation(Compute(), scalars, operands)

    def program(self) -> Program:
        """The program: the nests of each source, none of which reads what another writes."""
        count, computed = len(self.srcs), self.computation()
        sources = (Slot(ARG_MULTIPLE_SRC + i) for i in range(count))
        slots = (next(sources), Slot(ARG_DST, is_written=True), *sources, *computed.slots())
        steps: list[NestStep] = []
        operand, scalar = count + 1, 0
        for source in self.windowed():
            moves = source.padding() if source.index in self.in_window else source.moves()
            needs = source.computed
            steps += [
                _step(move, source_slot(source.index), needs.places(operand), (scalar, len(needs.scalars)))
                for move in moves
            ]
            operand, scalar = operand + len(needs.operands), scalar + len(needs.scalars)
        return Program(slots, tuple(steps), scalars=scalar).verify()

    @property
    def moved_bytes(self) -> int:
        return sum(md.data_type.nbytes(md.nelems) + self.dst.data_type.nbytes(md.nelems) for md in self.srcs)


@dataclass(frozen=True, slots=True)
class WindowedSource:
    """One source: its index, its window, and the conversion of its values."""

    index: int
    src: MemoryDesc
    window: Window
    computed: Computation

    def moves(self) -> tuple[WindowMove, ...]:
        """The nests that fill the window."""
        return window_moves(self.src, self.window, self.computed.compute, self.computed.tensors)

    def padding(self) -> tuple[WindowMove, ...]:
        """The nests that write only its padding."""
        return tuple(zeros for move in self.moves() for zeros in move.padding())

    @property
    def is_copy(self) -> bool:
        """True if bits are copied unchanged."""
        return self.computed.compute.is_move and self.src.data_type is self.window.dst.data_type


@lru_cache(maxsize=1024)
def bits_to_window(problem: ConcatProblem, index: int) -> int | None:
    """Return the bits from the destination's memory to that of a source in its window, else None."""
    source = next((part for part in problem.windowed() if part.index == index), None)
    if source is None or not source.window.is_like(source.src):
        return None
    return source.window.origin * problem.dst.data_type.bits - source.src.offset0 * source.src.data_type.bits


def _step(move: WindowMove, src: int, operands: tuple[Place, ...], scalars: tuple[int, int]) -> NestStep:
    """Return the step of one nest. Sources of equal shape share a kernel: it does not depend on starts."""
    nest, source, target = move.nest, Place(src), Place(DST)
    if not nest.has_nibbles:
        source = Place(src, nest.src_base * nest.src_type.bits // 8)
        target = Place(DST, nest.dst_base * nest.dst_type.bits // 8)
        nest = replace(nest, src_base=0, dst_base=0)
    return NestStep(nest, source, target, nest.moved_bytes, move.read, move.written, operands, scalars)


# --- checks -------------------------------------------------------------------------------------------------

_NAMES = Names("concat")


@lru_cache(maxsize=1024)
def concat_problem(
    axis: int, srcs: tuple[MemoryDesc, ...], dst: MemoryDesc | None, attr: Attr, names: Names = _NAMES
) -> ConcatProblem:
    """Return the checked problem; a missing destination, or one of format "any", follows the sources.

    `names` is for messages. Raises InvalidArguments, or Unimplemented for sources that cannot be joined.
    """
    check_sources(names, srcs)
    _check_axis(axis, srcs[0])
    for i, md in enumerate(srcs[1:], 1):
        _check_alike(names, i, (srcs[0], md), axis)
    dims = joined_dims([md.dims for md in srcs], axis)
    if dst is not None:
        check_described(names.call, names.dst, dst)
        _check_dims(names, dst, dims, srcs)
    problem = ConcatProblem(srcs, MemoryDesc() if dst is None else dst, axis, attr)
    if dst is None or dst.format_kind == "any":
        starts = [start for start, md in zip(problem.starts(), srcs, strict=True) if md.dims[axis]]
        data_type = srcs[0].data_type if dst is None else dst.data_type
        problem = replace(problem, dst=chosen_desc(srcs, dims, data_type, (axis, *starts)))
    check_written(names.call, names.written, problem.dst)
    _check_attr(problem)
    return problem


def joined_dims(dims: Sequence[tuple[int, ...]], axis: int) -> tuple[int, ...]:
    """Return the dims of the first tensor, with the extents of all tensors summed along the axis."""
    return (*dims[0][:axis], sum(extents[axis] for extents in dims), *dims[0][axis + 1 :])


def _check_axis(axis: int, first: MemoryDesc) -> None:
    if 0 <= axis < first.ndims:
        return
    raise refuse("RS-A10:bad-axis-axes", call=_NAMES.call, axis=axis, first=first, last=first.ndims - 1)


def _check_alike(names: Names, index: int, both: tuple[MemoryDesc, MemoryDesc], axis: int) -> None:
    first, md = both
    zero, this = names.source(0), names.source(index)
    if md.ndims == first.ndims:
        differing = [d for d in range(md.ndims) if d != axis and md.dims[d] != first.dims[d]]
        if not differing:
            return
        d = differing[0]
        why = f"dim {d} is {first.dims[d]} in {zero} and {md.dims[d]} in {this}"
    else:
        why = f"{zero} has {first.ndims} dims, {this} has {md.ndims}"
    raise refuse(
        "RS-R10:different-shapes", names=names, zero=zero, first=first, this=this, md=md, why=why, axis=axis
    )


def _check_dims(names: Names, dst: MemoryDesc, dims: tuple[int, ...], srcs: Sequence[MemoryDesc]) -> None:
    if dst.dims == dims:
        return
    raise refuse("RS-R10:another-shape", names=names, names2=names.listed(srcs), dst=dst, dims=dims)


def _check_attr(problem: ConcatProblem) -> None:
    attr = problem.attr
    arguments = range(ARG_MULTIPLE_SRC, ARG_MULTIPLE_SRC + len(problem.srcs))
    others = replace(attr, scales=(), scratchpad="library")
    wrong = [arg for arg, factor in attr.scales if arg not in arguments or factor.mask or factor.groups]
    if others.is_default and not wrong:
        return
    raise refuse("RS-R26:concat-attributes", call=_NAMES.call, attr=attr.verbose_str(), where=_where(problem))


def _where(problem: ConcatProblem) -> str:
    """Return the descriptors as text for messages."""
    return f"{_NAMES.listed(problem.srcs)}; dst {problem.dst}"


Concat = make_primitive(ConcatProblem, None, SeveralPrimitiveDesc, SeveralPrimitive)
