"""`plan`: shows how a reorder would run, without running it, and measures it on request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..desc.arguments import ARG_FROM, ARG_TO
from ..desc.memory_desc import MemoryDesc
from ..desc.viewer import viewer
from ..errors import Error, refuse
from ..model.implementation import Implementation, compiled
from ..model.scheduling import (
    by_schedule,
    launching,
    made_memories,
    measured,
    parse_wanted,
    search_for,
    why_fixed,
)
from ..ops.reorder import Reorder, ReorderProblem, check_reorder
from ..runtime.arguments import Executable
from ..runtime.cpu.executable import CpuExecutable
from ..runtime.cpu.rates import rates_of
from ..runtime.describe import Subject, describe
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.stream import Stream
from ..runtime.timing import Measured
from ..schedule.cost import InstructionWork, KernelWork, Prediction, predict
from ..schedule.language import Schedule
from ..schedule.machine import RATES, Rates
from ..schedule.moves.tiling import place_of
from ..targets.compile_pool import assembly
from ..targets.cpu import machine_of
from ..targets.instructions import instructions_of
from ..targets.isa import host_caches, host_processor
from ..targets.lowered import Lowered
from .calls.arithmetic import BoundAttributes, CallArithmetic, bind
from .calls.carriers import move_of_bits
from .calls.formats import check_out, format_key, out_desc, target_desc, wanted_of_out
from .calls.operands import engine_of
from .calls.tensors import as_array, as_numpy, as_target, is_foreign

if TYPE_CHECKING:
    from ..typing import ArrayLike, Factor, FormatLike, Host, OtherArray, PostOpsLike, TypeLike

__all__ = ["Measured", "Plan", "Prediction", "plan"]


@dataclass(frozen=True, slots=True)
class _Job:
    """The work of a plan, to be measured, and the measurements.

    `is_scheduled`: the executable has a schedule that no primitive has. `rates`: the basis of predictions.
    """

    problem: ReorderProblem
    engine: Engine
    bound: BoundAttributes
    executable: Executable
    is_scheduled: bool = False
    rates: Rates = RATES
    log: list[Measured] = field(default_factory=list)

    def scheduled_by(self, transforms: Schedule) -> _Job:
        """Return the same work with a schedule passed by the user."""
        executable = by_schedule("plan: this reorder", self.implementation, transforms).executable
        return replace(self, executable=executable, is_scheduled=True, log=[])

    def fastest(self) -> _Job:
        """Return the same work with the fastest of a few schedules, measured now or in an earlier process."""
        impl = self.implementation
        search_for(impl, {ARG_FROM: self.problem.src, ARG_TO: self.problem.dst, **impl.more_descs()})
        return replace(self, executable=compiled(self.problem, self.engine), log=[])

    def with_rates(self) -> _Job:
        """Return the same work, predicted by the rates of this machine if it runs on it."""
        if self.executable.lowered is None or not self.engine.device.is_host:
            return self
        return replace(self, rates=rates_of(host_processor()))

    def measure(self, rounds: object) -> None:
        """Execute on new memory objects and record the time: through a primitive if it has this schedule."""
        memories = self.memories()
        if self.is_scheduled:
            call = launching(self.implementation, self.executable, memories)
        else:
            call = self._execute_on(memories)
        self.log.append(measured(self.implementation, call, rounds))

    @property
    def threads(self) -> int:
        """The current maximum number of threads of a run; on a SYCL device, of work-items."""
        return self.executable.threads

    @property
    def implementation(self) -> Implementation:
        """The implementation that would be executed."""
        return Implementation(self.problem, self.engine, self.executable)

    def memories(self) -> dict[int, Memory]:
        """New memory objects for it. Raises OutOfMemory if they cannot be allocated."""
        mds = {ARG_FROM: self.problem.src, ARG_TO: self.problem.dst}
        return made_memories(self.implementation, mds) | self.bound.extras

    def _execute_on(self, memories: dict[int, Memory]) -> Callable[[], object]:
        pd = Reorder.PrimitiveDesc(
            self.engine, self.problem.src, self.engine, self.problem.dst, self.bound.attr
        )
        primitive, stream = Reorder(pd), Stream(self.engine)
        given = [memories] if self.bound.extras else [memories[ARG_FROM], memories[ARG_TO]]
        call = partial(primitive.execute, stream, *given)
        if self.engine.device.is_host:
            return call

        def to_its_end() -> None:
            call()
            stream.wait()

        return to_its_end


@dataclass(frozen=True)
class Plan:
    """A reorder as it would run: `print(plan)` shows everything.

    `src`, `dst`: descriptors. `bytes_moved`: bytes read and written, padding included. `padding`: elements of
    padding written as zero. `impl` and `why`: the kernel and the reason for it. `threads`: the maximum number
    of threads; on a SYCL device, of work-items. `nest`: the loop nest as pseudo-code.
    """

    src: MemoryDesc
    dst: MemoryDesc
    bytes_moved: int
    padding: int
    impl: str
    why: str
    threads: int
    nest: str
    _lowered: Lowered | None = field(repr=False)
    _job: _Job = field(repr=False, compare=False)

    @property
    def predicted(self) -> Prediction:
        """The predicted time of an execution. Raises Unimplemented if nothing is compiled for the CPU.

        Predicted by `schedule/cost.py`, with the rates of a reference machine, which serve to compare plans,
        not to quote times; with `effort="measure"`, with the rates of this machine.
        """
        found = self._predicted_by(self._job.rates)
        if found is None:
            raise refuse("RS-L04", which=self.impl)
        return found

    def _predicted_by(self, rates: Rates) -> Prediction | None:
        lowered, job = self._lowered, self._job
        if lowered is None or not job.engine.device.is_host:
            return None
        nest, caches = lowered.nests[0], host_caches()
        instructions = instructions_of(lowered, caches)
        work: KernelWork | InstructionWork
        if instructions is None:
            work = KernelWork(lowered.kind, self.bytes_moved, nest.positions, self.threads)
        else:
            written = job.problem.dst.data_type.nbytes(prod(self.dst.padded_dims))
            bits = min(nest.src_type.bits, nest.dst_type.bits)
            work = InstructionWork(
                instructions, self.bytes_moved, written, self.threads, bits, place_of(nest)
            )
        return predict(work, machine_of(lowered.isa, caches), rates)

    @property
    def measured(self) -> Measured | None:
        """The result of the last `measure()`, or None."""
        return self._job.log[-1] if self._job.log else None

    def measure(self, *, rounds: int = 15) -> Measured:
        """Run it on temporary memory objects and return how long it took.

        `rounds`: samples after a warm-up. `print(plan)` shows the result from then on. Caches are warm: work
        that fits in a cache is measured in the cache. Raises OutOfMemory if the memory objects cannot be
        allocated, InvalidArguments unless the number of rounds is positive.
        """
        self._job.measure(rounds)
        return self._job.log[-1]

    @property
    def schedule(self) -> str:
        """Tiles and loop order, blocks and stages: a line for each part of the nest, readable by
        `plan(..., schedule=...)`. Text after a `#` is a comment.

        It is the schedule that `reorder` uses, chosen by the model or found by `effort="measure"` on this
        machine, unless this plan was made with `schedule=`.
        """
        executable = self._job.executable
        if self._lowered and not why_fixed(executable, self._job.engine):
            is_one = isinstance(executable, CpuExecutable) and executable.is_one_kernel
            return str(self._lowered) if is_one else executable.schedule
        lines = str(self._lowered or "nothing to compile").splitlines()
        return "\n".join(line if line.startswith("#") else f"# {line}" for line in lines)

    @property
    def ir(self) -> str:
        """The kernel as LLVM IR; empty if nothing is compiled."""
        return self._lowered.ir() if self._lowered else ""

    @property
    def asm(self) -> str:
        """The kernel as assembly; empty if nothing is compiled, and for SYCL, where drivers compile it."""
        if self._lowered is None or not self._job.engine.device.is_host:
            return ""
        return assembly(self.ir, self._lowered.isa)

    def __str__(self) -> str:
        predicted, best = self._predicted_by(self._job.rates), self.measured
        threads = self._shared(self.threads)
        foretold, measured = "nothing to predict", "not measured"
        if predicted is not None:
            foretold = f"predicted {predicted.gb_per_s:.3g} GB/s ({_time(predicted.seconds)})"
        if best is not None:
            often = f"{_time(best.low)} to {_time(best.high)} in half of the {best.rounds} rounds"
            shared = self._shared(best.threads)
            measured = f"measured {best.gb_per_s:.3g} GB/s ({_time(best.seconds)}, {often}, with {shared})"
        head = [
            f"src      {self.src}",
            f"dst      {self.dst}",
            f"moves    {self.bytes_moved} bytes; {self.padding} elements of padding written as zero",
            f"kernel   {self.impl}: {self.why}; {threads}",
            f"speed    {foretold}; {measured}",
        ]
        return "\n".join([*head, "nest", _indented(self.nest), "schedule", _indented(self.schedule)])

    def _repr_html_(self) -> str:
        return str(viewer().watched().html_of(self))

    def _shared(self, threads: int) -> str:
        if not self._job.engine.device.is_host:
            return f"{threads} work-items"
        return "1 thread" if threads == 1 else f"up to {threads} threads"


def _time(seconds: float) -> str:
    unit, name = next((u, n) for u, n in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (0, "ns")) if seconds >= u)
    return f"{seconds / (unit or 1e-9):.3g} {name}"


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.splitlines())


def plan(
    x: MemoryDesc | OtherArray | ArrayLike,
    dst: FormatLike = None,
    *,
    src: FormatLike = None,
    dtype: TypeLike | None = None,
    scale: Factor = None,
    zero_point: Factor = None,
    axis: int | None = None,
    beta: float = 0.0,
    post_ops: PostOpsLike = None,
    out: OtherArray | None = None,
    engine: Host = None,
    schedule: str | None = None,
    effort: str = "model",
) -> Plan:
    """Return the plan of `reorder(x, dst, ...)`. `x`: an array, a `Memory` or a `MemoryDesc`; the rest as
    there.

    `beta` is allowed without `out`. Nothing is compiled, read or written. Raises what `reorder` would raise
    for the same formats and types, and Unimplemented for dims known only at execution.

    `effort`: "model" shows the schedule that `reorder` uses: chosen by the model, or found earlier. "measure"
    searches for the fastest of at most 30 candidates unless that was done before. The search takes about a
    second, more if one execution is long, and uses temporary memory objects. The result is stored with the
    kernels on disk, for this processor and number of threads, and `reorder` uses it from then on. So is the
    copy speed in the caches and in memory, which takes about two seconds to measure and is the basis of later
    predictions.

    `schedule`: an edited copy of `plan.schedule`, to be inspected and measured in place of the original,
    which `reorder` keeps using. No schedule changes a bit of the result. Raises InvalidArguments for an
    invalid text or one that does not match the problem.
    """
    try:
        arithmetic = CallArithmetic(scale, zero_point, axis, beta, post_ops)
        x = as_numpy(x, "plan: x") if is_foreign(x) else as_array(x, "plan: x")
        array = out if out is None or isinstance(out, Memory) else as_target(out, "plan: out")
        transforms, is_searched = parse_wanted("plan", schedule, effort)
        move = move_of_bits(x, format_key(dst), src, dtype, array) if arithmetic.is_nothing else None
        if move is not None:
            job = _job(move.x, move.dst, move.src, None, arithmetic, move.out, engine)
        else:
            job = _job(x, dst, src, dtype, arithmetic, array, engine)
        if transforms is not None:
            job = job.scheduled_by(transforms)
        return _plan_of(job.fastest().with_rates() if is_searched else job)
    except Error as error:
        error.drop_frames()
        raise


def _job(
    x: Any, dst: Any, src: Any, dtype: Any, arithmetic: CallArithmetic, out: Any, engine: Engine | str | None
) -> _Job:
    if not isinstance(x, MemoryDesc | Memory):
        source = describe(x, src, Subject.source("plan")).desc
    elif src is not None:
        raise refuse("RS-A14:src-descriptor")
    else:
        source = x if isinstance(x, MemoryDesc) else x.desc
    source = _concrete(source, "x")
    if isinstance(dst, MemoryDesc):
        _concrete(dst, "dst")
    if out is None:
        target = target_desc(source, dst, dtype)
    elif isinstance(out, Memory):
        target = out.desc
        check_out(target, wanted_of_out(source, target, dst, dtype))
    elif isinstance(out, np.ndarray):
        target = out_desc(source, describe(out, None, Subject.target("plan")), dst, dtype).desc
    else:
        raise refuse("RS-V08:plan-out", type=type(out).__name__)
    device = engine_of(x, out, engine)
    bound = bind(arithmetic, source, target, device)
    problem = check_reorder(ReorderProblem(source, target, bound.attr.freeze()))
    return _Job(problem, device, bound, compiled(problem, device))


def _plan_of(job: _Job) -> Plan:
    problem, executable = job.problem, job.executable
    return Plan(
        src=problem.src,
        dst=problem.dst,
        bytes_moved=problem.moved_bytes,
        padding=prod(problem.dst.padded_dims) - problem.dst.nelems,
        impl=executable.name,
        why=executable.why,
        threads=job.threads,
        nest=str(problem.nest()),
        _lowered=executable.lowered,
        _job=job,
    )


def _concrete(md: MemoryDesc, name: str) -> MemoryDesc:
    """Return the descriptor; Unimplemented for dims, strides or an offset known only at execution."""
    if md.layout.has_runtime:
        raise refuse("RS-S17:dims-known-only", what="plan", name=name, md=md)
    return md
