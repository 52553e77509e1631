"""One concat problem: checked descriptors, each source with its window, and what solves it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ..desc.attr import Attr
from ..desc.factor import ARG_MULTIPLE_SRC
from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments, Unimplemented
from ..plan.concat import Move, Window, window_moves
from ..plan.nibbles import has_nibbles
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.reference import run_nest
from ..runtime.spread import Runner, make_program
from .chain import Chain, scaled_chain
from .execution import share_bytes
from .feeding import Extras, check_feeds, fill_params, operand_arrays
from .scratchpad import scratch_address
from .several_checks import check_concrete, check_destination_desc, check_sources, chosen_desc

_WHAT = "concat"


@dataclass(frozen=True, slots=True)
class ConcatProblem:
    """Sources, one behind the other along `axis` of `dst`: equal problems share an implementation."""

    srcs: tuple[MemoryDesc, ...]
    dst: MemoryDesc
    axis: int
    attr: Attr

    def where(self) -> str:
        """The descriptors, for messages."""
        return f"{_listed(self.srcs)}; dst {self.dst}"

    def starts(self) -> list[int]:
        """The first index of each source."""
        return [sum(md.dims[self.axis] for md in self.srcs[:i]) for i in range(len(self.srcs))]

    def parts(self) -> Iterator[Part]:
        """The sources that have elements; the last of them is followed by the padding."""
        filled = [i for i, md in enumerate(self.srcs) if md.nelems]
        starts = self.starts()
        for i in filled:
            ends_at = starts[i] + self.srcs[i].dims[self.axis]
            until = self.dst.padded_dims[self.axis] if i == filled[-1] else ends_at
            window = Window(self.dst, self.axis, starts[i], until)
            scale = self.attr.scale_of(ARG_MULTIPLE_SRC + i)
            src = self.srcs[i]
            chain = scaled_chain(scale, ARG_MULTIPLE_SRC + i, src, self.dst)
            yield Part(i, src, window, chain)


def _listed(srcs: Sequence[MemoryDesc]) -> str:
    shown = "; ".join(f"source {i} {md}" for i, md in enumerate(srcs[:4]))
    return f"{shown}; ... {len(srcs)} sources" if len(srcs) > 4 else shown


# --- checks -------------------------------------------------------------------------------------------------


def make_problem(
    axis: int, srcs: tuple[MemoryDesc, ...], dst: MemoryDesc | None, attr: Attr
) -> ConcatProblem:
    """The checked problem; a destination left out, or of format "any", gets the format of the sources.

    Raises InvalidArguments, Unimplemented for what cannot be joined.
    """
    check_sources(_WHAT, srcs)
    _check_axis(axis, srcs[0])
    for i, md in enumerate(srcs[1:], 1):
        _check_alike(i, md, srcs[0], axis)
    whole = sum(md.dims[axis] for md in srcs)
    dims = (*srcs[0].dims[:axis], whole, *srcs[0].dims[axis + 1 :])
    if dst is not None:
        check_concrete(_WHAT, "dst", dst)
        _check_dims(dst, dims, srcs)
    made = ConcatProblem(srcs, MemoryDesc() if dst is None else dst, axis, attr)
    if dst is None or dst.format_kind == "any":
        starts = [start for start, md in zip(made.starts(), srcs, strict=True) if md.dims[axis]]
        data_type = srcs[0].data_type if dst is None else dst.data_type
        made = replace(made, dst=chosen_desc(srcs, dims, data_type, (axis, *starts)))
    check_destination_desc(_WHAT, made.dst)
    _check_attr(made)
    return made


def _check_axis(axis: int, first: MemoryDesc) -> None:
    if 0 <= axis < first.ndims:
        return
    raise InvalidArguments(
        f"{_WHAT}: bad axis",
        where=f"axis {axis}; source 0 {first}",
        why=f"axes are numbered from 0, and the last of {first.ndims} is {first.ndims - 1}",
        hint="only rs.concat counts negative axes from the end",
    )


def _check_alike(index: int, md: MemoryDesc, first: MemoryDesc, axis: int) -> None:
    if md.ndims == first.ndims:
        differing = [d for d in range(md.ndims) if d != axis and md.dims[d] != first.dims[d]]
        if not differing:
            return
        d = differing[0]
        why = f"dim {d} is {first.dims[d]} in source 0 and {md.dims[d]} in source {index}"
    else:
        why = f"source 0 has {first.ndims} dims, source {index} has {md.ndims}"
    raise InvalidArguments(
        f"{_WHAT}: sources of different shapes",
        where=f"source 0 {first}; source {index} {md}",
        why=why,
        hint=f"all dims but that of axis {axis} must be the same",
    )


def _check_dims(dst: MemoryDesc, dims: tuple[int, ...], srcs: Sequence[MemoryDesc]) -> None:
    if dst.dims == dims:
        return
    raise InvalidArguments(
        f"{_WHAT}: dst is of another shape",
        where=f"{_listed(srcs)}; dst {dst}",
        why=f"the sources make {dims}",
        hint="leave dst out, or give it these dims",
    )


def _check_attr(problem: ConcatProblem) -> None:
    attr = problem.attr
    arguments = range(ARG_MULTIPLE_SRC, ARG_MULTIPLE_SRC + len(problem.srcs))
    others = replace(attr, scales=(), scratchpad="library")
    wrong = [arg for arg, factor in attr.scales if arg not in arguments or factor.mask or factor.groups]
    if others.is_default and not wrong:
        return
    raise Unimplemented(
        f"{_WHAT}: unsupported attribute",
        where=f"attr {attr.verbose_str()}; {problem.where()}",
        why="a concat has one scale for each source, of mask 0, and nothing else",
        hint="attr.set_scales(rs.ARG_MULTIPLE_SRC + i, 0, [scale]); a reorder before or after does the rest",
    )


# --- parts --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One source: its number, where it goes, and what is done to its values."""

    index: int
    src: MemoryDesc
    window: Window
    chain: Chain

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """The nests that fill the window."""
        tensors = [feed.tensor for feed in self.chain.feeds]
        return window_moves(self.src, self.window, self.chain.compute, tensors)

    @cached_property
    def padding(self) -> tuple[Move, ...]:
        """The nests that write its padding alone."""
        return tuple(zeros for move in self.moves for zeros in move.padding())

    @cached_property
    def is_like_window(self) -> bool:
        """True where the source may lie in the window itself."""
        return self.window.is_like(self.src)

    @cached_property
    def is_copy(self) -> bool:
        """True where bits are moved as they are."""
        return self.chain.compute.is_move and self.src.data_type is self.window.dst.data_type

    @cached_property
    def _bits_apart(self) -> int:
        """How far behind the destination the source's memory begins where it lies in the window."""
        return (
            self.window.origin * self.window.dst.data_type.bits - self.src.offset0 * self.src.data_type.bits
        )

    def is_in_place(self, src: Memory, dst: Memory) -> bool:
        """True where the elements of the source are those of the window."""
        return self.is_like_window and 8 * (src._address - dst._address) == self._bits_apart

    def is_there(self, src: Memory, dst: Memory) -> bool:
        """True where the bits are where they belong already."""
        return self.is_copy and share_bytes(src, dst) and self.is_in_place(src, dst)


class _Concat:
    """What both engines share."""

    in_place_hint = "use another buffer; a source may lie in the destination in its own place alone"

    def __init__(self, problem: ConcatProblem) -> None:
        self.problem = problem
        self.parts = tuple(problem.parts())
        self._by_index = {part.index: part for part in self.parts}
        self.extra_args = tuple(arg for part in self.parts for arg in part.chain.args)
        self.name, self.why = "", ""

    def extra_descs(self) -> dict[int, MemoryDesc]:
        """What the memories of scales may look like."""
        return {arg: md for part in self.parts for arg, md in part.chain.descs().items()}

    def check_extras(self, kind: str, extras: Extras, engine: Engine, dst: Memory) -> None:
        """Raise InvalidArguments for scales that will not do."""
        for part in self.parts:
            check_feeds(kind, part.chain, extras, engine, dst)

    def is_in_place(self, index: int, src: Memory, dst: Memory) -> bool:
        """True where a source lies in its window."""
        return index in self._by_index and self._by_index[index].is_in_place(src, dst)

    def verbose_fields(self, op: str, engine: Engine, ms: float) -> list[object]:
        """The fields of one verbose line (spec 1.6)."""
        problem = self.problem
        mds = [md.verbose_str("src") for md in problem.srcs] + [problem.dst.verbose_str("dst")]
        dims = ":".join("x".join(map(str, md.dims)) for md in problem.srcs)
        aux = f"axis:{problem.axis} why:{self.why}"
        head = [op, engine.kind, "concat", self.name, "undef"]
        return [*head, " ".join(mds), problem.attr.verbose_str(), aux, dims, ms]


class ReferenceConcat(_Concat):
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


class CpuConcat(_Concat):
    """A concat solved for the CPU: the compiled moves of each source in turn."""

    def __init__(self, problem: ConcatProblem) -> None:
        super().__init__(problem)
        self._solved = tuple(_Solved(part) for part in self.parts)
        runners = [each.runner for solved in self._solved for each in solved.moves]
        self.name, self.why = _named(runners)
        self.scratch_bytes = max((runner.scratch_bytes for runner in runners), default=0)

    def prepare(self) -> None:
        """Compile."""
        for solved in self._solved:
            solved.prepare()

    def run(self, srcs: Sequence[Memory], dst: Memory, extras: Extras) -> None:
        """Run on checked memories."""
        # The buffers are held by name: another thread may give the memories others meanwhile.
        written, held = dst._buffer, list[object]()
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

    @cached_property
    def padding(self) -> tuple[_Compiled, ...]:
        """The programs that write the padding."""
        return tuple(map(_compiled, self.part.padding))

    def prepare(self) -> None:
        """Compile."""
        for each in self.moves:
            each.runner.direct_call()


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
    if has_nibbles(nest):
        return _Compiled(make_program(nest, nest.moved_bytes, move.read, move.written))
    # Sources of the same shape share a kernel, as where they begin is not in it.
    src, dst = nest.src_base * nest.src_type.bits // 8, nest.dst_base * nest.dst_type.bits // 8
    moved = replace(nest, src_base=0, dst_base=0)
    return _Compiled(make_program(moved, nest.moved_bytes, move.read, move.written), src, dst)


def _named(runners: Sequence[Any]) -> tuple[str, str]:
    """A name and a reason for all: `jit:avx512:copy+transpose`."""
    if not runners:
        return "jit:nothing", "there are no elements"
    first = dict.fromkeys(runner.name.rpartition(":")[2] for runner in runners)
    head = runners[0].name.rpartition(":")[0]
    whys = dict.fromkeys(runner.why for runner in runners)
    return f"{head}:{'+'.join(first)}", "; ".join(whys)


def solve_concat(problem: ConcatProblem, engine: Engine) -> CpuConcat | ReferenceConcat:
    """The implementation of a checked problem on an engine."""
    return ReferenceConcat(problem) if engine.kind == "reference" else CpuConcat(problem)
