"""One sum problem: checked descriptors and scales, and what solves it in as few passes as kernels allow.

    t = scale[0] * src[0];  t = t + scale[i] * src[i], in order;  dst = saturate(t)

All in f32; in f64 where a tensor is f64, and where integers that f32 does not hold, s32, are added as they
are, so that their sum is exact (N1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

import numpy as np

from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..desc.tags import Tag
from ..dtypes import DataType
from ..errors import InvalidArguments, Unimplemented
from ..plan.compute import Compute, Step
from ..plan.nest import LoopNest
from ..plan.nibbles import wide_type
from ..plan.reorder import Tensor, reorder_nest
from ..runtime.alloc import extent
from ..runtime.cpu import Params
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.reference import run_nest, storage
from ..runtime.spread import Rooms, Runner, lines, make_program
from .execution import share_bytes
from .feeding import Extras
from .reorder import overlaps
from .scratchpad import scratch_address
from .several_checks import Names, check_concrete, check_destination_desc, check_sources, chosen_desc

_NAMES = Names("sum")
# Sources that one kernel reads: more streams of memory than this are slower than a second pass (measured).
MOST_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class SumProblem:
    """What to add: equal problems share an implementation. `factors` are the scales as f32 bytes."""

    srcs: tuple[MemoryDesc, ...]
    dst: MemoryDesc
    factors: bytes
    attr: Attr

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
        return DataType.f64 in types or (is_exact and DataType.s32 in read)

    @property
    def real(self) -> DataType:
        """The type in which all is added."""
        return DataType.f64 if self.is_wide else DataType.f32

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written, padding of the destination included."""
        read = sum(md.data_type.nbytes(md.nelems) for md in self.srcs)
        return read + self.dst.data_type.nbytes(prod(self.dst.padded_dims))


def make_problem(
    scales: tuple[float, ...],
    srcs: tuple[MemoryDesc, ...],
    dst: MemoryDesc | None,
    attr: Attr,
    names: Names = _NAMES,
) -> SumProblem:
    """The checked problem; a destination left out, or of format "any", gets the format of the sources.

    `names` is for messages. Raises InvalidArguments, Unimplemented for what cannot be added.
    """
    return _made(np.array(scales, "<f4").tobytes(), srcs, dst, attr, names)


@lru_cache(maxsize=1024)
def _made(
    factors: bytes, srcs: tuple[MemoryDesc, ...], dst: MemoryDesc | None, attr: Attr, names: Names
) -> SumProblem:
    """The problem by the bytes of its scales: 0.0 and -0.0 are equal, their sums are not."""
    check_sources(names, srcs)
    count = len(factors) // 4
    if count != len(srcs):
        why = f"there are {len(srcs)} {names.one}s and {count} scales"
        what, hint = f"{names.call}: wrong number of scales", f"give one for each {names.one}"
        raise InvalidArguments(what, code="RS-R22", why=why, hint=hint)
    named = [(names.source(i), md) for i, md in enumerate(srcs)]
    if dst is not None:
        check_concrete(names.call, names.dst, dst)
        named.append((names.dst, dst))
    for name, md in named[1:]:
        _check_dims(names, (name, md), srcs[0])
    if dst is None or dst.format_kind == "any":
        dst = chosen_desc(srcs, srcs[0].dims, srcs[0].data_type if dst is None else dst.data_type)
    check_destination_desc(names, dst)
    if not replace(attr, scratchpad="library").is_default:
        raise Unimplemented(
            f"{_NAMES.call}: unsupported attribute",
            code="RS-R26",
            where=f"attr {attr.verbose_str()}",
            why="a sum has its scales, and nothing else",
            hint="give the scales with the sources; a reorder before or after does the rest",
        )
    return SumProblem(srcs, dst, factors, attr)


def _check_dims(names: Names, named: tuple[str, MemoryDesc], first: MemoryDesc) -> None:
    name, md = named
    if md.dims == first.dims:
        return
    raise InvalidArguments(
        f"{names.call}: tensors of different shapes",
        code="RS-R10",
        where=f"{names.source(0)} {first}; {name} {md}",
        why=f"{names.source(0)} is {first.dims}, {name} {md.dims}",
        hint=f"a sum never broadcasts; give the {names.one} that is to be repeated a stride of 0",
    )


def sum_nest(src: MemoryDesc, dst: MemoryDesc, compute: Compute, more: Sequence[MemoryDesc]) -> LoopNest:
    """The nest that reads `src`, does `compute` with `more` as its operands, and writes `dst`."""
    return reorder_nest(src, dst, compute, [Tensor.of_desc(md) for md in more])


def _added(count: int) -> tuple[Step, ...]:
    return tuple(Step("accumulate", operand=i) for i in range(count))


class SumBase:
    """What all engines share."""

    in_place_hint = "use another buffer; in place works where layout, element size and address are the same"
    extra_args = ()

    def __init__(self, problem: SumProblem) -> None:
        self.problem = problem
        self.scales = problem.scales
        self.is_move = self.scales == (1.0,)
        self.name, self.why = "", ""

    @property
    def first_steps(self) -> tuple[Step, ...]:
        """What is done to source 0 before the others are added."""
        return () if self.is_move else (Step("mul"),)

    def steps(self, *, is_first: bool, added: int) -> tuple[Step, ...]:
        """The steps of one pass, which adds so many operands."""
        return (*(self.first_steps if is_first else ()), *_added(added))

    def extra_descs(self) -> dict[int, MemoryDesc]:
        """No argument but sources and destination."""
        return {}

    def check_extras(self, call: str, extras: Extras, engine: Engine, dst: Memory) -> None:
        """There is nothing to check."""

    def is_in_place(self, index: int, src: Memory, dst: Memory) -> bool:
        """True where a source may be overwritten: each element by its own sum."""
        return not overlaps(src, dst)

    def verbose_fields(self, op: str, engine: Engine, ms: float) -> list[object]:
        """The fields of one verbose line (spec 1.6)."""
        problem = self.problem
        mds = [md.verbose_str("src") for md in problem.srcs] + [problem.dst.verbose_str("dst")]
        dims = "x".join(map(str, problem.dst.dims))
        aux = f"scales:{':'.join(f'{scale:g}' for scale in self.scales)} why:{self.why}"
        head = [op, engine.kind, "sum", self.name, "undef"]
        return [*head, " ".join(mds), problem.attr.verbose_str(), aux, dims, ms]


class ReferenceSum(SumBase):
    """A sum on the reference engine: the interpreter, one pass for any number of sources."""

    def __init__(self, problem: SumProblem) -> None:
        super().__init__(problem)
        self.name, self.why = "ref:any", "the interpreter"
        src, *more = problem.srcs
        compute = Compute((*self.first_steps, *_added(len(more))), problem.is_wide)
        self._nest = sum_nest(src, problem.dst, compute, more)
        self._scalars = () if self.is_move else self.scales

    def prepare(self) -> None:
        """Nothing to compile."""

    def run(self, srcs: Sequence[Memory], dst: Memory, extras: Extras) -> None:
        """Run on checked memories."""
        run_nest(self._nest, srcs[0], dst, self._scalars, [storage(memory) for memory in srcs[1:]])


class CpuSum(SumBase):
    """A sum solved for the CPU: one pass for every 16 sources.

    Between passes the sum so far is kept in the type in which it is added, so that the result is the same as
    that of one pass. Where the destination has that type it holds the sum itself.
    """

    def __init__(self, problem: SumProblem) -> None:
        super().__init__(problem)
        dst, real, count = problem.dst, problem.real, len(problem.srcs)
        packed = {i: md for i, md in enumerate(problem.srcs) if i and md.data_type.bits < 8}
        self._kept = dst if dst.data_type is real else dense(dst, real)
        self._unpacked = {i: _Unpacked(md) for i, md in packed.items()}
        starts = range(0, count, MOST_AT_ONCE)
        self._passes = [self._pass(start, min(start + MOST_AT_ONCE, count)) for start in starts]
        self._calls: tuple[Callable[[int, int, int], None], ...] = ()
        runner = self._passes[0].runner
        passes = f"; {len(self._passes)} passes for {count} sources" if len(self._passes) > 1 else ""
        self.name, self.why = runner.name, runner.why + passes

    def _pass(self, start: int, stop: int) -> _Pass:
        """Sources [start, stop), and before them the sum so far."""
        problem, unpacked = self.problem, self._unpacked
        read = [unpacked[i].desc if i in unpacked else problem.srcs[i] for i in range(start, stop)]
        src, more = (self._kept, read) if start else (read[0], read[1:])
        dst = problem.dst if stop == len(problem.srcs) else self._kept
        steps = self.steps(is_first=not start, added=len(more))
        nest = sum_nest(src, dst, Compute(steps, problem.is_wide), more)
        bytes_of_pass = problem.moved_bytes * (stop - start + 1) // (len(problem.srcs) + 1)
        runner = make_program(nest, bytes_of_pass, src.extent_range(), dst.extent_range())
        scalars = () if self.is_move else self.scales[start:stop]
        return _Pass(runner, scalars, start, stop)

    def prepare(self) -> None:
        """Compile."""
        if not self._calls:
            self._calls = tuple(each.runner.direct_call() or each.runner.run for each in self._passes)

    def run(self, srcs: Sequence[Memory], dst: Memory, extras: Extras) -> None:
        """Run on checked memories."""
        # The buffers are held by name: another thread may give the memories others meanwhile.
        written, read = dst._buffer, [src._buffer for src in srcs]
        held: list[object] = []
        if written is None or any(buffer is None for buffer in read):
            return
        addresses = [buffer.address for buffer in read if buffer is not None]
        # A later pass reads sources that lie in the destination: it must not hold the sum so far.
        is_read = any(share_bytes(src, dst) for src in srcs[MOST_AT_ONCE:])
        self._run(addresses, written.address, Rooms(scratch_address(extras, held)), is_read)

    def run_apart(self, srcs: Sequence[int], dst: int) -> None:
        """Run, once prepared, on addresses of memories that share no byte."""
        if len(self._calls) > 1 or self._unpacked:
            self._run(list(srcs), dst, Rooms(0), False)
            return
        first, *more = srcs
        params = Params(self._passes[0].scalars, more)
        self._calls[0](first, dst, params.address)

    def _run(self, addresses: list[int], dst: int, rooms: Rooms, is_read: bool) -> None:
        for i, unpacked in self._unpacked.items():
            addresses[i] = unpacked.run(addresses[i], rooms)
        kept = self._keeper(is_read, dst, rooms)
        scratch = rooms.rest()
        for each in self._passes:
            each.run(addresses, kept, dst if each is self._passes[-1] else kept, scratch)

    def _keeper(self, is_read: bool, dst: int, rooms: Rooms) -> int:
        """Where the sum so far is kept: in the destination, unless a later pass has to read that."""
        if len(self._passes) == 1:
            return 0
        is_own = self._kept is not self.problem.dst
        return rooms.take(extent(self._kept).needed) if is_read or is_own else dst

    @property
    def scratch_bytes(self) -> int:
        """Bytes between of a run: unpacked sources, the sum so far, and what a pass needs."""
        kept = [extent(self._kept).needed] if len(self._passes) > 1 else []
        unpacked = [extent(each.desc).needed for each in self._unpacked.values()]
        runners = [each.runner for each in self._passes] + [each.runner for each in self._unpacked.values()]
        return sum(map(lines, [*unpacked, *kept])) + max(runner.scratch_bytes for runner in runners)


@dataclass(frozen=True, slots=True)
class _Pass:
    """A program for sources [start, stop); after the first pass its source is the sum so far."""

    runner: Runner
    scalars: tuple[float, ...]
    start: int
    stop: int

    def run(self, sources: Sequence[int], kept: int, dst: int, scratch: int) -> None:
        first, *more = ([kept] if self.start else []) + [*sources[self.start : self.stop]]
        params = Params(self.scalars, more)
        self.runner.run(first, dst, params.address, scratch)


class _Unpacked:
    """A source of 4-bit elements in bytes of their own, as operands are read."""

    def __init__(self, src: MemoryDesc) -> None:
        self.desc = dense(src)
        spans = src.extent_range(), self.desc.extent_range()
        moved = src.nelems + src.nelems // 2
        self.runner = make_program(reorder_nest(src, self.desc, Compute()), moved, *spans)

    def run(self, src: int, rooms: Rooms) -> int:
        """The address of the unpacked elements."""
        address = rooms.take(extent(self.desc).needed)
        self.runner.run(src, address, 0, rooms.rest())
        return address


def dense(md: MemoryDesc, data_type: DataType | None = None) -> MemoryDesc:
    """The same order of axes and blocks, dense, of another type; of 4-bit ones bytes that hold one each."""
    return MemoryDesc(
        md.dims, data_type or wide_type(md.data_type), Tag(md.outer_order, md.inner_blks, md.inner_idxs)
    )
