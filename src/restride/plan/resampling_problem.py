"""The problems of resampling, forward and backward, and the programs that do them.

    s = (o + 1/2) * src size / dst size - 1/2                 along each spatial dim, as f32
    nearest   dst[o] = src[s rounded, halves up]
    linear    dst[o] = (1 - w) * src[floor(s)] + w * src[floor(s) + 1],  w = s - floor(s)

Along several dims weights are multiplied. Where each element of a result looks is a table for each dim, and
its weights are tensors that are known; a gradient adds up, for each element, all that have looked at it.
Programs are nests that add some **terms** at a time, a dim at a time where there are many.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..desc.arguments import ARG_DIFF_DST, ARG_DIFF_SRC, ARG_DST, ARG_SRC
from ..desc.attr import Attr
from ..desc.attr_value import structure_of
from ..desc.memory_desc import MemoryDesc
from ..desc.tags import Tag
from ..dtypes import DataType
from .computation import Computation, ComputationWriter, OperandSource
from .nest import Axis, Bound, Compute, LoopNest, Operand, Step
from .pointwise import moved_bytes
from .problem import ProblemBase
from .program import DST, SRC, NestStep, Place, Program, Slot
from .reorder import IndexDigits, TensorOperand, axes_of_digits, digits_of, index_digits, offset_at
from .rewrites import linear_table

NEAREST, LINEAR = "nearest", "linear"
ALGORITHMS = (NEAREST, LINEAR)
# Longer runs of one source element are no tiles.
_LONGEST_PERIOD = 16
# Terms that one nest adds; more are added to what another has found.
_MOST_TERMS = 8

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class DimTerm:
    """One of what is added along a dim: where each element of the result looks, and the weight there."""

    index: tuple[int, ...]
    weights: tuple[float, ...]


def dim_terms(alg: str, src: int, dst: int) -> tuple[DimTerm, ...]:
    """What each of `dst` elements looks at among `src`."""
    at = (np.arange(dst, dtype=np.float32) + np.float32(0.5)) * np.float32(src) / np.float32(max(dst, 1))
    at = at - np.float32(0.5)
    if alg == NEAREST:
        near = np.clip(np.floor(at + np.float32(0.5)), 0, max(src - 1, 0)).astype(np.int64)
        return (_term(near, np.ones(dst, np.float32)),)
    low = np.floor(at)
    weight = (at - low).astype(np.float32)
    places = (np.clip(low + more, 0, max(src - 1, 0)).astype(np.int64) for more in (0, 1))
    pair = zip(places, (np.float32(1) - weight, weight), strict=True)
    return tuple(_term(index, part) for index, part in pair if part.any())


def gradient_terms(alg: str, src: int, dst: int) -> tuple[DimTerm, ...]:
    """What each of `src` elements adds up: those of `dst` that have looked at it."""
    found: list[list[tuple[int, float]]] = [[] for _ in range(src)]
    for term in dim_terms(alg, src, dst):
        for out, (place, weight) in enumerate(zip(term.index, term.weights, strict=True)):
            if weight:
                found[place].append((out, weight))
    most = max(map(len, found), default=0) or 1
    rows = [sorted(each) + [(0, 0.0)] * (most - len(each)) for each in found]
    return tuple(
        DimTerm(tuple(row[i][0] for row in rows), tuple(row[i][1] for row in rows)) for i in range(most)
    )


def _term(index: Array, weights: Array) -> DimTerm:
    return DimTerm(tuple(index.tolist()), tuple(map(float, weights)))


class _Tap(NamedTuple):
    """One term of all dims: tables by dim, and the weights over the spatial dims, None for ones."""

    tables: dict[int, tuple[int, ...]]
    weights: Array | None


def _terms(by_dim: dict[int, tuple[DimTerm, ...]], sizes: Sequence[int]) -> list[_Tap]:
    """All combinations of what is added along some dims, of a result whose spatial dims have these sizes."""
    found: list[_Tap] = []
    for chosen in itertools.product(*by_dim.values()):
        weights = np.ones((), np.float32)
        parts = dict(zip(by_dim, chosen, strict=True))
        for dim, size in enumerate(sizes, 2):
            along = np.array(parts[dim].weights, np.float32) if dim in parts else np.ones(size, np.float32)
            weights = weights[..., None] * along
        is_one = bool((weights == 1).all())
        found.append(_Tap({dim: part.index for dim, part in parts.items()}, None if is_one else weights))
    return found


@dataclass(frozen=True, slots=True)
class _TableOperand:
    """What a nest reads or writes: its type, base and digits, and tables of dims where it is looked up.

    `values`: those of weights, over the spatial dims.
    """

    data_type: DataType
    base: int
    digits: tuple[IndexDigits, ...]
    tables: dict[int, tuple[int, ...]] = field(default_factory=dict)
    values: Array | None = None

    @classmethod
    def of_desc(cls, md: MemoryDesc, tables: dict[int, tuple[int, ...]] | None = None) -> _TableOperand:
        """A tensor."""
        digits = tuple(index_digits(md, dim) for dim in range(md.ndims))
        return cls(md.data_type, md.offset0, digits, tables or {})

    @classmethod
    def of_operand(cls, operand: TensorOperand, values: Array | None = None) -> _TableOperand:
        """An operand of a computation."""
        return cls(operand.data_type, operand.base, operand.dims, values=values)

    def offsets(self, dim: int, padded: int) -> tuple[int, ...]:
        """Where it is for each index of a dim; what is behind the end of a table does not matter."""
        table = self.tables.get(dim, tuple(range(padded)))
        whole = (*table, *[table[-1] if table else 0] * (padded - len(table)))
        return tuple(offset_at(self.digits[dim], i) for i in whole)

    def offsets_in(self, part: _Part, size: int, padded: int) -> tuple[int, ...]:
        """The same in a part of a dim, of a whole dim with its padding. Where values repeat themselves, the
        first of them are read each time: that is a broadcast.
        """
        found = self.offsets(part.dim, padded)
        if part.extent < size:
            found = found[part.first : part.first + part.extent]
        if self.values is None or part.period == 1:
            return found
        values = np.moveaxis(self.values, part.dim - 2, 0)[part.first : part.first + part.extent]
        rows = values.reshape(-1, part.period, *values.shape[1:])
        if (rows != rows[:1]).any():
            return found
        return tuple(found[i % part.period] for i in range(len(found)))


class _Part(NamedTuple):
    """The indices of one dim from `first` on, `extent` of them, that tables tell apart by two digits: the
    second has `period` positions.
    """

    dim: int
    first: int
    extent: int
    period: int = 1


def _parts(dst: MemoryDesc, readers: Sequence[_TableOperand]) -> tuple[_Part, ...]:
    """The innermost dim in parts: a middle in which tables repeat themselves, and what is left at its ends.

    A table such as 0 0 0 1 1 2 2 2 has in its middle two digits, of which tiles are made as of any others.
    One part where no table is on that dim, where it is padded, or where nothing repeats.
    """
    dim = dst.layout.outer_order[-1]
    size = dst.dims[dim]
    if size == dst.padded_dims[dim] and any(dim in reader.tables for reader in readers):
        tables = [reader.offsets(dim, size) for reader in readers]
        for period in range(1, min(size // 2, _LONGEST_PERIOD) + 1):
            for first in range(period + 1):
                count = (size - first) // period * period
                if all(_repeats(table[first : first + count], period) for table in tables):
                    behind = first + count
                    middle = _Part(dim, first, count, period)
                    found = (_Part(dim, 0, first), middle, _Part(dim, behind, size - behind))
                    return tuple(part for part in found if part.extent)
    return (_Part(dim, 0, size),)


def _repeats(table: Sequence[int], period: int) -> bool:
    """True for a table of two digits, both of which move by a stride."""
    if len(table) < 2 * period:
        return False
    step = table[period] - table[0]
    is_line = isinstance(linear_table(tuple(offset - table[0] for offset in table[:period])), int)
    return is_line and all(b - a == step for a, b in zip(table, table[period:], strict=False))


def _table_digits(tables: Sequence[tuple[int, ...]], period: int) -> list[Axis]:
    """The axes of a dim by where each operand is: two where there is a period, else one."""
    moved = [tuple(offset - table[0] for offset in table) for table in tables]
    size = len(moved[0])
    levels = [(size, 1, moved)]
    if period > 1:
        outer = [table[::period] for table in moved]
        levels = [(size // period, period, outer), (period, 1, [table[:period] for table in moved])]
    axes: list[Axis] = []
    for extent, step, steps in levels:
        src, dst, *more = map(linear_table, steps)
        axes.append(Axis(extent, src, dst, step=step, more=tuple(more)))
    return axes


def _nest(dst: MemoryDesc, readers: Sequence[_TableOperand], compute: Compute, part: _Part) -> LoopNest:
    """The nest that computes a part of `dst` of readers, of which the first is where the value starts."""
    sides = (readers[0], _TableOperand.of_desc(dst), *readers[1:])
    bases = [side.base for side in sides]
    axes: list[Axis] = []
    bounds: list[Bound] = []
    for dim, (size, padded) in enumerate(zip(dst.dims, dst.padded_dims, strict=True)):
        if padded and any(dim in side.tables for side in sides):
            own = part if dim == part.dim else _Part(dim, 0, size)
            tables = [side.offsets_in(own, size, padded) for side in sides]
            bases = [base + table[0] for base, table in zip(bases, tables, strict=True)]
            digits = _table_digits(tables, own.period)
            if own.extent < size:
                axes += [replace(axis, step=0) for axis in digits]
                continue
        else:
            digits = digits_of([side.digits[dim] for side in sides], padded)
        axes += axes_of_digits(digits, size, padded, bounds)
    operands = tuple(Operand(side.data_type, base) for side, base in zip(sides[2:], bases[2:], strict=True))
    return LoopNest(
        src_type=sides[0].data_type,
        dst_type=dst.data_type,
        axes=tuple(axes),
        src_base=bases[0],
        dst_base=bases[1],
        compute=compute,
        bounds=tuple(bounds),
        operands=operands,
    ).verify()


class _Pass(NamedTuple):
    """One pass over memory: the terms that it adds, from one tensor to another."""

    src: MemoryDesc
    dst: MemoryDesc
    terms: list[_Tap]


class _Writer:
    """A program while it is written. The weights are constants, numbered down from -1."""

    def __init__(self, passes: Sequence[_Pass], attr: Attr, *, is_wide: bool) -> None:
        self.passes, self.attr, self.is_wide = passes, attr, is_wide
        self.weights: list[OperandSource] = []
        self.last: Computation = Computation(Compute(), (), ())

    def weight(self, values: Array, dst: MemoryDesc) -> OperandSource:
        """A constant for the spatial dims of a tensor."""
        extents = (1, 1, *values.shape)
        tensor = TensorOperand.of_groups(DataType.f32, extents, dst.dims)
        flat = np.ascontiguousarray(values, np.float32).reshape(-1)
        arg = -1 - len(self.weights)
        source = OperandSource(tensor, arg, flat, None, flat.size, DataType.f32, extents)
        self.weights.append(source)
        return source

    def steps(self) -> Iterator[tuple[_Pass, list[_Tap], bool, bool]]:
        """The nests in order: their pass, terms, and whether they are the first and the last of it."""
        for each in self.passes:
            chunks = [each.terms[i : i + _MOST_TERMS] for i in range(0, len(each.terms), _MOST_TERMS)]
            for number, chunk in enumerate(chunks):
                yield each, chunk, number == 0, number == len(chunks) - 1


@dataclass(frozen=True, slots=True)
class _Resampling:
    """What both directions share: tensors in order, `passes` between them, and attributes of the last."""

    alg: str
    read: tuple[int, MemoryDesc]
    written: tuple[int, MemoryDesc]
    passes: tuple[_Pass, ...]
    attr: Attr

    @property
    def is_wide(self) -> bool:
        """True where all is computed as doubles."""
        return any(md.data_type in (DataType.f64, DataType.s32) for _, md in (self.read, self.written))

    def planned(self) -> tuple[Program, Computation]:
        """The program, and its constants with what the attributes read."""
        writer = _Writer(self.passes, self.attr, is_wide=self.is_wide)
        found = list(writer.steps())
        drafts = [self._draft(writer, number == len(found) - 1, *each) for number, each in enumerate(found)]
        last = drafts[-1].computed
        # Slots: source, destination, what the attributes read, then the weights.
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
        self, writer: _Writer, is_last: bool, each: _Pass, terms: list[_Tap], is_first: bool, ends: bool
    ) -> _ResamplingDraft:
        """One nest: its readers in the order of the operands, and where each of them is."""
        dst = each.dst if ends else _kept(each.dst, self.is_wide)
        readers: list[_TableOperand] = []
        places: list[int | str] = []
        steps: list[Step] = []
        if not is_first:
            readers.append(_TableOperand.of_desc(_kept(each.dst, self.is_wide)))
        for term in terms:
            reader = _TableOperand.of_desc(each.src, term.tables)
            if not readers:
                readers.append(reader)
                if term.weights is not None:
                    steps.append(Step("mul", operand=len(places)))
                    self._add_weight(writer, term.weights, each.dst, readers, places)
                continue
            number = len(places)
            readers.append(reader)
            places.append("src")
            if term.weights is None:
                steps.append(Step("add", operand=number))
            else:
                steps.append(Step("add", operand=number, factor=number + 1))
                self._add_weight(writer, term.weights, each.dst, readers, places)
        computed = ComputationWriter(dst.dims, is_wide=self.is_wide, sources=len(places))
        if is_last:
            computed.finish(self.attr)
        made = computed.computation()
        readers += [_TableOperand.of_operand(tensor) for tensor in made.tensors]
        compute = Compute((*steps, *made.compute.steps), self.is_wide)
        nests = tuple(_nest(dst, readers, compute, part) for part in _parts(dst, readers))
        src = each.src if is_first else _kept(each.dst, self.is_wide)
        return _ResamplingDraft(nests, src, dst, tuple(places), made, not is_first, ends, len(terms))

    @staticmethod
    def _add_weight(
        writer: _Writer, values: Array, dst: MemoryDesc, readers: list[_TableOperand], places: list[int | str]
    ) -> None:
        readers.append(_TableOperand.of_operand(writer.weight(values, dst).tensor, values))
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
        """A step for each nest. `source`: that of its pass; `last`: what the steps before have found, if
        these add to it.
        """
        found = tuple(
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
                (*found, *own),
                (0, len(self.computed.scalars)),
                finds_stages=False,
            )
            for nest in self.nests
        )


def _kept(md: MemoryDesc, is_wide: bool) -> MemoryDesc:
    """A tensor of its dims in which sums are kept between nests."""
    tag = Tag(md.outer_order, *md.layout.inner)
    return MemoryDesc(md.dims, DataType.f64 if is_wide else DataType.f32, tag)


@dataclass(frozen=True, slots=True)
class ResamplingProblem(ProblemBase):
    """A resampling: equal problems share an executable."""

    alg: str
    src: MemoryDesc
    dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    def structure(self) -> ResamplingProblem:
        """The problem without the values of its attributes."""
        return replace(self, attr=structure_of(self.attr))

    def _resampling(self) -> _Resampling:
        by_dim = {
            dim: dim_terms(self.alg, self.src.dims[dim], self.dst.dims[dim])
            for dim in range(2, self.src.ndims)
            if self.src.dims[dim] != self.dst.dims[dim]
        }
        only = _Pass(self.src, self.dst, _terms(by_dim, self.dst.dims[2:]))
        return _Resampling(self.alg, (ARG_SRC, self.src), (ARG_DST, self.dst), (only,), self.attr)

    def computation(self) -> Computation:
        """The weights, and what the attributes read."""
        return self._resampling().planned()[1]

    def program(self) -> Program:
        """The program."""
        return self._resampling().planned()[0]

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        return moved_bytes([self.src], self.dst, is_summed=self.attr.sum is not None)


@dataclass(frozen=True, slots=True)
class ResamplingBackwardProblem(ProblemBase):
    """The gradient of the source: equal problems share an executable."""

    alg: str
    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    @property
    def dst(self) -> MemoryDesc:
        """What is written."""
        return self.diff_src

    def _resampling(self) -> _Resampling:
        by_dim = {
            dim: gradient_terms(self.alg, self.diff_src.dims[dim], self.diff_dst.dims[dim])
            for dim in range(2, self.diff_src.ndims)
            if self.diff_src.dims[dim] != self.diff_dst.dims[dim]
        }
        read, written = (ARG_DIFF_DST, self.diff_dst), (ARG_DIFF_SRC, self.diff_src)
        is_wide = any(md.data_type in (DataType.f64, DataType.s32) for _, md in (read, written))
        return _Resampling(self.alg, read, written, tuple(self._passes(by_dim, is_wide)), self.attr)

    def _passes(self, by_dim: dict[int, tuple[DimTerm, ...]], is_wide: bool) -> Iterator[_Pass]:
        """All dims at once where few terms do, else one after the other, the innermost first."""
        if prod(map(len, by_dim.values())) <= _MOST_TERMS:
            yield _Pass(self.diff_dst, self.diff_src, _terms(by_dim, self.diff_src.dims[2:]))
            return
        at = self.diff_dst
        order = sorted(by_dim, reverse=True)
        for dim in order:
            dims = tuple(self.diff_src.dims[d] if d == dim else n for d, n in enumerate(at.dims))
            tag = Tag(self.diff_src.outer_order, *self.diff_src.layout.inner)
            between = MemoryDesc(dims, DataType.f64 if is_wide else DataType.f32, tag)
            to = self.diff_src if dim == order[-1] else between
            yield _Pass(at, to, _terms({dim: by_dim[dim]}, dims[2:]))
            at = to

    def computation(self) -> Computation:
        """The weights."""
        return self._resampling().planned()[1]

    def program(self) -> Program:
        """The program."""
        return self._resampling().planned()[0]

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        return moved_bytes([self.diff_dst], self.diff_src)
