"""Resampling: spatial dims of another size, by the nearest element or linearly, forward and backward.

    s = (o + 1/2) * src size / dst size - 1/2                 along each spatial dim, as f32
    nearest   dst[o] = src[s rounded, halves up]
    linear    dst[o] = (1 - w) * src[floor(s)] + w * src[floor(s) + 1],  w = s - floor(s)

Along several dims, weights are multiplied. For each dim, a table holds the positions that each result element
reads, and its weights are constant tensors; a gradient sums, for each element, all results that have read it.
Programs are nests that add some **terms** at a time, one dim at a time if there are many. For a long dim,
execution itself computes positions and weights, in a loop tree: planning time does not grow with the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..desc.arguments import ARG_DIFF_DST, ARG_DIFF_SRC, ARG_DST, ARG_SRC
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import short_repr, to_f32
from ..desc.tags import Tag
from ..dtypes import DataType
from ..errors import refuse
from ..ir.attribute_chain import AttributeChain
from ..ir.computation import Array, Computation, ComputationWriter, OperandSource, computation_of
from ..ir.digits import TensorOperand
from ..ir.expression import Const, Coordinate, Expr, Index, Load, TreeAxis, apply
from ..ir.nest import Compute, LoopNest, Step, needs_double
from ..ir.numbers import Number
from ..ir.pointwise import moved_bytes
from ..ir.program import DST, SRC, NestStep, Place, Program, Slot
from ..ir.tree import Each, LoopTree, TreeTensor
from ..model.any_format import resolved
from ..model.derived import make_primitive
from ..model.forms import Args, NamedArgs
from ..model.operation import GradientProblem, OperationProblem
from ..model.pointwise import check_known, check_open
from ..model.reader import ArgumentReader
from ..model.result_dims import Misfit, Shaped
from .programs.resampling_rows import ResamplingRows
from .programs.resampling_terms import (
    ALGORITHMS,
    LINEAR,
    NEAREST,
    DimTerm,
    Tap,
    dim_terms,
    gradient_terms,
    taps_of,
)
from .programs.table_nest import TableOperand, parts_of, table_nest

# The terms that one nest adds; further ones are added to another nest's result.
_MOST_TERMS = 8
# Up to this many positions along a dim, a plan has tables.
_LONGEST_TABLE = 1 << 16


class _Pass(NamedTuple):
    """One pass over memory: the terms that it adds, from one tensor to another."""

    src: MemoryDesc
    dst: MemoryDesc
    terms: list[Tap]

    @property
    def looks(self) -> Array | None:
        """1 for each result element with at least one term, else 0; None if all have terms."""
        weights = [term.weights for term in self.terms if term.weights is not None]
        if len(weights) < len(self.terms):
            return None
        mask = np.any([weight != 0 for weight in weights], axis=0)
        return None if mask.all() else mask.astype(np.float32)


class _Writer:
    """A program under construction. The weights are constants, numbered down from -1."""

    def __init__(self, passes: Sequence[_Pass], attr: Attr, *, is_wide: bool) -> None:
        self.passes, self.attr, self.is_wide = passes, attr, is_wide
        self.weights: list[OperandSource] = []
        self.last: Computation = Computation(Compute(), (), ())

    def weight(self, values: Array, dst: MemoryDesc) -> OperandSource:
        """Add a constant for the spatial dims of a tensor."""
        extents = (1, 1, *values.shape)
        tensor = TensorOperand.of_groups(DataType.f32, extents, dst.dims)
        flat = np.ascontiguousarray(values, np.float32).reshape(-1)
        arg = -1 - len(self.weights)
        source = OperandSource(tensor, arg, flat, None, flat.size, DataType.f32, extents)
        self.weights.append(source)
        return source

    def steps(self) -> Iterator[tuple[_Pass, list[Tap], bool, bool]]:
        """Yield the nests in order: pass, terms, and whether they are the first and the last of the pass."""
        for step in self.passes:
            chunks = [step.terms[i : i + _MOST_TERMS] for i in range(0, len(step.terms), _MOST_TERMS)]
            for number, chunk in enumerate(chunks):
                yield step, chunk, number == 0, number == len(chunks) - 1


@dataclass(frozen=True, slots=True)
class _Resampling:
    """The common part of both directions: tensors in order, `passes` between them, attributes of the last."""

    alg: str
    read: tuple[int, MemoryDesc]
    written: tuple[int, MemoryDesc]
    passes: tuple[_Pass, ...]
    attr: Attr

    @property
    def is_wide(self) -> bool:
        """True if everything is computed in f64."""
        return any(needs_double(md.data_type) for _, md in (self.read, self.written))

    def planned(self) -> tuple[Program, Computation]:
        """The program, and its constants with what the attributes read."""
        writer = _Writer(self.passes, self.attr, is_wide=self.is_wide)
        parts = list(writer.steps())
        drafts = [self._draft(writer, number == len(parts) - 1, *part) for number, part in enumerate(parts)]
        last = drafts[-1].computed
        # Slots: source, destination, the operands of attributes, then the weights.
        attr_slots = last.slots()
        operands = (*last.operands, *writer.weights)
        slots = (
            Slot(self.read[0]),
            Slot(self.written[0], is_written=True),
            *attr_slots,
            *(weight.slot() for weight in writer.weights),
        )
        sizes: list[int] = []
        steps: list[NestStep] = []
        at = Place(SRC)
        for number, draft in enumerate(drafts):
            is_end = number == len(drafts) - 1
            if is_end:
                to = Place(DST)
            else:
                sizes.append(max(draft.dst.size, 1))
                to = Place(-len(sizes))
            source = steps[-1].dst if draft.adds_to_last else None
            pass_source = at
            steps += draft.steps(pass_source, to, source, len(attr_slots))
            if draft.ends_pass:
                at = to
        program = Program(slots, tuple(steps), tuple(sizes), scalars=len(last.scalars)).verify()
        return program, replace(last, operands=operands)

    def _draft(
        self, writer: _Writer, is_last: bool, stage: _Pass, terms: list[Tap], is_first: bool, ends: bool
    ) -> _ResamplingDraft:
        """Return one nest, with its readers in the order of the operands, and the place of each."""
        dst = stage.dst if ends else _sum_desc(stage.dst, self.is_wide)
        readers: list[TableOperand] = []
        places: list[int | str] = []
        steps: list[Step] = []
        if not is_first:
            readers.append(TableOperand.of_desc(_sum_desc(stage.dst, self.is_wide)))
        looks = stage.looks if ends else None
        for term in terms:
            reader = TableOperand.of_desc(stage.src, term.tables)
            if not readers:
                readers.append(reader)
                if term.weights is not None and not _are_equal(term.weights, looks):
                    steps.append(Step("mul", operand=len(places)))
                    self._add_weight(writer, term.weights, stage.dst, readers, places)
                continue
            number = len(places)
            readers.append(reader)
            places.append("src")
            if term.weights is None:
                steps.append(Step("add", operand=number))
            else:
                steps.append(Step("add", operand=number, factor=number + 1))
                self._add_weight(writer, term.weights, stage.dst, readers, places)
        if looks is not None:
            # Zero for elements without terms: an infinite element times a weight of 0 would give NaN.
            steps.append(Step("select", operand=len(places), condition=len(places)))
            self._add_weight(writer, looks, stage.dst, readers, places)
        computed = ComputationWriter(dst.dims, is_wide=self.is_wide, sources=len(places))
        if is_last:
            computed.finish(self.attr)
        computation = computed.computation()
        readers += [TableOperand.of_operand(tensor) for tensor in computation.tensors]
        compute = Compute((*steps, *computation.compute.steps), self.is_wide)
        nests = tuple(table_nest(dst, readers, compute, part) for part in parts_of(dst, readers))
        src = stage.src if is_first else _sum_desc(stage.dst, self.is_wide)
        return _ResamplingDraft(nests, src, dst, tuple(places), computation, not is_first, ends, len(terms))

    @staticmethod
    def _add_weight(
        writer: _Writer, values: Array, dst: MemoryDesc, readers: list[TableOperand], places: list[int | str]
    ) -> None:
        readers.append(TableOperand.of_operand(writer.weight(values, dst).tensor, values))
        places.append(len(writer.weights) - 1)


@dataclass(frozen=True, slots=True)
class _ResamplingDraft:
    """A step before its places are known: `places` are the source of its pass, or the numbers of weights."""

    nests: tuple[LoopNest, ...]
    src: MemoryDesc
    dst: MemoryDesc
    places: tuple[int | str, ...]
    computed: Computation
    adds_to_last: bool
    ends_pass: bool
    terms: int

    def steps(self, source: Place, to: Place, last: Place | None, attributes: int) -> tuple[NestStep, ...]:
        """Return a step for each nest. `source`: that of its pass; `last`: the preceding steps' result, if
        these add to it.
        """
        places = tuple(
            source if isinstance(place, str) else Place(DST + 1 + attributes + place) for place in self.places
        )
        own = tuple(Place(DST + 1 + i) for i in range(len(self.computed.operands)))
        work = moved_bytes([self.src], self.dst) + self.dst.nelems * 4 * self.terms
        return tuple(
            NestStep(
                nest,
                source if last is None else last,
                to,
                work * nest.positions // max(self.dst.nelems, 1),
                self.src.extent_range(),
                self.dst.extent_range(),
                (*places, *own),
                (0, len(self.computed.scalars)),
                finds_stages=False,
            )
            for nest in self.nests
        )


def _are_equal(weights: Array, looks: Array | None) -> bool:
    """Return whether weights are 1 wherever there are terms, else 0."""
    return looks is not None and bool((weights == looks).all())


def _sum_desc(md: MemoryDesc, is_wide: bool) -> MemoryDesc:
    """Return a tensor of the same dims in which sums are kept between nests."""
    tag = Tag(md.outer_order, *md.layout.inner)
    return MemoryDesc(md.dims, DataType.f64 if is_wide else DataType.f32, tag)


@dataclass(frozen=True, slots=True)
class ResamplingProblem(OperationProblem):
    """Spatial dims of another size (`dnnl::resampling_forward`).

    Executed with `ARG_SRC` and `ARG_DST`.
    """

    operation = "resampling"
    primitive = "ResamplingForward"
    call = "prop_kind", "algorithm", "src", "dst", "factors"
    defaults = {"dst": None, "factors": None}
    algorithms = ALGORITHMS
    in_place = False
    arguments = """
    The factors can also precede the source, as in oneDNN. `algorithm`: "resampling_nearest" or
    "resampling_linear". Tensors have a batch, channels and 1 to 3 spatial dims. `dst`: format "any" takes
    that of the source; if left out, its sizes are those of the source times the `factors`, rounded down.
    `attr`: post-ops and the scratchpad mode."""

    algorithm: str
    src: MemoryDesc
    dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> tuple[int, ...]:
        dims, sizes = tensors[0].dims, node.sizes
        if len(dims) != len(sizes) + 2 or not sizes or min(sizes) < 1:
            text = "x".join(map(str, sizes)) or "scalar"
            raise Misfit(f"the result has spatial dims {text}")
        return (*dims[:2], *sizes)

    @classmethod
    def placed(cls, args: Args, named: NamedArgs) -> tuple[Args, NamedArgs]:
        if len(args) > 3 and not isinstance(args[3], MemoryDesc) and "factors" not in named:
            rest = args[4:]
            mds = [md for md in rest[:2] if isinstance(md, MemoryDesc)]
            after = dict(zip(("attr", "allow_empty"), rest[len(mds) :], strict=False))
            return (*args[:3], *mds), {**named, "factors": args[3], **after}
        return args, named

    @classmethod
    def read(cls, call: ArgumentReader) -> ResamplingProblem:
        algorithm, src = call.algorithm(), call.known("src")
        _check_rank(call, "src", src)
        dims = _scaled(call, src)
        if call.dst is None and dims is None:
            raise refuse("RS-V07:size-destination-not", what=call.what)
        md = MemoryDesc(dims, src.data_type, "any") if call.dst is None and dims else call.dst
        dst = resolved(check_open(call.what, "dst", md), src)
        _check_pair(call, ("src", src), ("dst", dst), dims)
        call.check_written("dst", dst)
        return cls(algorithm, src, dst, call.attr("post_ops", of={ARG_DST: dst}))

    @property
    def verbose_aux(self) -> str:
        return f"alg:{self.algorithm}"

    def _resampling(self) -> _Resampling:
        by_dim = {
            dim: dim_terms(self.algorithm, self.src.dims[dim], self.dst.dims[dim])
            for dim in range(2, self.src.ndims)
            if self.src.dims[dim] != self.dst.dims[dim]
        }
        only = _Pass(self.src, self.dst, taps_of(by_dim, self.dst.dims[2:]))
        return _Resampling(self.algorithm, (ARG_SRC, self.src), (ARG_DST, self.dst), (only,), self.attr)

    def tree(self) -> LoopTree:
        """The loop tree: first, along each dim, the positions that are read and their weights."""
        src, dst = (TreeTensor.of_desc(name, getattr(self, name)) for name in ("src", "dst"))
        is_wide = any(needs_double(md.data_type) for md in (self.src, self.dst))
        axes = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(self.dst.dims))
        pairs = zip(axes, self.src.dims, strict=True)
        looks = [_DimLooks(self.algorithm, axis, n) for axis, n in pairs if axis.extent != n]
        value: Expr | None = None
        for chosen in product(*(look.terms for look in looks)):
            at: dict[TreeAxis, Index] = {
                look.axis: place for look, (place, _) in zip(looks, chosen, strict=True)
            }
            term: Expr = src.load(*(at.get(axis, axis) for axis in axes))
            for _, weight in chosen:
                term = term if weight is None else weight * term
            value = term if value is None else value + term
        assert value is not None
        chain = AttributeChain(computation_of(self.attr, self.src, self.dst), dst, self.dst.dims)
        loops = (*(look.loop for look in looks), Each(axes, (chain.store(axes, value),)))
        tensors = (src, dst, *(tensor for look in looks for tensor in look.tensors), *chain.tensors)
        return LoopTree(tensors, loops, chain.scalars, Number.real(is_wide=is_wide)).verify()

    @property
    def _has_tables(self) -> bool:
        """True if a plan has tables of the positions that are read."""
        pairs = zip(self.src.dims, self.dst.dims, strict=True)
        return max((m for n, m in pairs if n != m), default=0) <= _LONGEST_TABLE

    def _planned(self) -> tuple[Program, Computation]:
        resampling, rows = self._resampling(), ResamplingRows(self.src, self.dst)
        if self.algorithm == LINEAR and not self.attr.reads_dst and rows.can_be(backward=False):
            return rows.planned((ARG_SRC, ARG_DST), self.attr, backward=False, is_wide=resampling.is_wide)
        return resampling.planned()

    def computation(self) -> Computation:
        """The weights, and the operands of the attributes."""
        return self._planned()[1] if self._has_tables else computation_of(self.attr, self.src, self.dst)

    def program(self) -> Program:
        """The program."""
        return self._planned()[0] if self._has_tables else OperationProblem.program(self)


@dataclass(frozen=True, slots=True)
class _DimLooks:
    """The positions that elements along a dim read, as tensors filled at execution: `axis` runs over the
    result, `size` is the extent of the source.
    """

    algorithm: str
    axis: TreeAxis
    size: int

    @property
    def _names(self) -> tuple[str, ...]:
        return ("near",) if self.algorithm == NEAREST else ("low", "high")

    @property
    def _weights(self) -> TreeTensor:
        return TreeTensor.row_major(f"weight_{self.axis.name}", (self.axis.extent,), DataType.f32)

    def _places(self) -> list[TreeTensor]:
        names = (f"{name}_{self.axis.name}" for name in self._names)
        return [TreeTensor.row_major(name, (self.axis.extent,), DataType.s64) for name in names]

    @property
    def tensors(self) -> tuple[TreeTensor, ...]:
        """All of these tensors."""
        places = self._places()
        return (*places, self._weights) if len(places) > 1 else tuple(places)

    @property
    def terms(self) -> list[tuple[Load, Expr | None]]:
        """The terms: a position, and the weight of the element there, None for 1."""
        places = [each.load(self.axis) for each in self._places()]
        if len(places) == 1:
            return [(places[0], None)]
        above = self._weights.load(self.axis)
        return [(places[0], 1.0 - above), (places[1], above)]

    @property
    def loop(self) -> Each:
        """The loop that fills them, like `dim_terms`: an index past the last position is clamped to it."""
        where = (Coordinate(self.axis + 0) + 0.5) * Const(self.size) / Const(self.axis.extent) - 0.5
        places, at = self._places(), (self.axis,)
        if len(places) == 1:
            stores = (places[0].store(at, apply("max", apply("floor", where + 0.5), 0.0)),)
            return Each(at, stores, number=Number.f32)
        low = apply("floor", where)
        return Each(
            at,
            (
                places[0].store(at, apply("max", low, 0.0)),
                places[1].store(at, apply("max", low + 1.0, 0.0)),
                self._weights.store(at, where - low),
            ),
            number=Number.f32,
        )


@dataclass(frozen=True, slots=True)
class ResamplingBackwardProblem(GradientProblem):
    """The gradient of the source of a resampling (`dnnl::resampling_backward`).

    Executed with `ARG_DIFF_DST` and `ARG_DIFF_SRC`.
    """

    operation = "resampling"
    primitive = "ResamplingBackward"
    call = "algorithm", "diff_src", "diff_dst", "factors"
    defaults = {"factors": None}
    algorithms = ALGORITHMS
    reads = {ARG_DIFF_DST: "diff_dst"}
    in_place = False
    arguments = """
    The factors can also precede the gradients. `diff_src`: format "any" takes that of `diff_dst`. `hint_pd`:
    the forward descriptor of the same problem, or None; `diff_dst` of format "any" needs it."""

    algorithm: str
    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def placed(cls, args: Args, named: NamedArgs) -> tuple[Args, NamedArgs]:
        if len(args) > 2 and not isinstance(args[2], MemoryDesc) and "factors" not in named:
            return (*args[:2], *args[3:]), {**named, "factors": args[2]}
        return args, named

    @classmethod
    def read(cls, call: ArgumentReader) -> ResamplingBackwardProblem:
        algorithm, hint = call.algorithm(), call.hint(ResamplingProblem)
        diff_dst = check_known(call.what, "diff_dst", call.open("diff_dst", hint.dst if hint else None))
        diff_src = call.open("diff_src", diff_dst)
        _check_rank(call, "diff_src", diff_src)
        _check_pair(call, ("diff_src", diff_src), ("diff_dst", diff_dst), _scaled(call, diff_src))
        if hint is not None:
            theirs, own = (hint.src.dims, hint.dst.dims), (diff_src.dims, diff_dst.dims)
            call.check_hint(algorithm=(hint.algorithm, algorithm), dims=(theirs, own))
        call.check_written("diff_src", diff_src)
        return cls(algorithm, diff_src, diff_dst, call.attr())

    @property
    def verbose_aux(self) -> str:
        return f"alg:{self.algorithm}"

    def _resampling(self) -> _Resampling:
        by_dim = {
            dim: gradient_terms(self.algorithm, self.diff_src.dims[dim], self.diff_dst.dims[dim])
            for dim in range(2, self.diff_src.ndims)
            if self.diff_src.dims[dim] != self.diff_dst.dims[dim]
        }
        source, target = (ARG_DIFF_DST, self.diff_dst), (ARG_DIFF_SRC, self.diff_src)
        is_wide = any(needs_double(md.data_type) for _, md in (source, target))
        return _Resampling(self.algorithm, source, target, tuple(self._passes(by_dim, is_wide)), self.attr)

    def _passes(self, by_dim: dict[int, tuple[DimTerm, ...]], is_wide: bool) -> Iterator[_Pass]:
        """Yield one pass for all dims if there are few terms, else one per dim, the innermost first."""
        if prod(map(len, by_dim.values())) <= _MOST_TERMS:
            yield _Pass(self.diff_dst, self.diff_src, taps_of(by_dim, self.diff_src.dims[2:]))
            return
        at = self.diff_dst
        order = sorted(by_dim, reverse=True)
        for dim in order:
            dims = tuple(self.diff_src.dims[d] if d == dim else n for d, n in enumerate(at.dims))
            tag = Tag(self.diff_src.outer_order, *self.diff_src.layout.inner)
            between = MemoryDesc(dims, DataType.f64 if is_wide else DataType.f32, tag)
            to = self.diff_src if dim == order[-1] else between
            yield _Pass(at, to, taps_of({dim: by_dim[dim]}, dims[2:]))
            at = to

    def _planned(self) -> tuple[Program, Computation]:
        resampling, rows = self._resampling(), ResamplingRows(self.diff_src, self.diff_dst)
        if self.algorithm == LINEAR and rows.can_be(backward=True):
            args = ARG_DIFF_DST, ARG_DIFF_SRC
            return rows.planned(args, self.attr, backward=True, is_wide=resampling.is_wide)
        return resampling.planned()

    def computation(self) -> Computation:
        """The weights."""
        return self._planned()[1]

    def program(self) -> Program:
        """The program."""
        return self._planned()[0]


def _check_rank(call: ArgumentReader, name: str, md: MemoryDesc) -> None:
    if 3 <= md.ndims <= 5:
        return
    raise refuse("RS-R10:no-spatial-dims", what=call.what, name=name, md=md)


def _scaled(call: ArgumentReader, src: MemoryDesc) -> tuple[int, ...] | None:
    """Return the dims of the result from the factors, None without them."""
    factors = call.factors
    if factors is None:
        return None
    try:
        values = [] if isinstance(factors, str | bytes) else list(factors)  # type: ignore[call-overload]
    except Exception:  # iterating can raise anything
        values = []
    numbers = [to_f32(value, f"{call.what}: factors[{i}]") for i, value in enumerate(values)]
    if len(numbers) == src.ndims - 2 and all(0 < number < float("inf") for number in numbers):
        return (*src.dims[:2], *(int(n * f) for n, f in zip(src.dims[2:], numbers, strict=True)))
    raise refuse("RS-V02:factors", what=call.what, factors=short_repr(factors), ndims=src.ndims - 2)


def _check_pair(
    call: ArgumentReader,
    source: tuple[str, MemoryDesc],
    result: tuple[str, MemoryDesc],
    dims: tuple[int, ...] | None,
) -> None:
    (name, src), (other, dst) = source, result
    if dst.ndims != src.ndims or src.dims[:2] != dst.dims[:2]:
        why = "batch, channels and the number of spatial dims must be equal"
    elif dims is not None and dst.dims != dims:
        why = f"the factors give {dims}"
    elif 0 in src.dims and 0 not in dst.dims:
        why = "the source is empty"
    else:
        return
    raise refuse("RS-R10:tensors-not-fit", what=call.what, name=name, src=src, other=other, dst=dst, why=why)


ResamplingForward = make_primitive(ResamplingProblem)
ResamplingBackward = make_primitive(ResamplingBackwardProblem, ResamplingForward)
