"""Running one test: create, fill, execute, check, time. However it ends, it ends as a status."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

import restride as rs
from restride import Error, InvalidArguments, OutOfMemory, Unimplemented

from . import check, fill
from .check import GuardedStorage, Verdict
from .expand import Test, expand
from .fill import Array, Bytes
from .operands import CaseOperand
from .peers import beside
from .placed import BoundPrimitive, Engines, Execute, place
from .result import Outcome, Perf, Result, Stages
from .skips import why_skipped, why_too_large
from .timing import measure
from .work import CaseWork

_Storages = dict[int, GuardedStorage]


def execute(primitive: Any, stream: rs.onednn.Stream, args: dict[int, rs.Memory]) -> None:
    """Run a primitive. What the driver tests goes through here; the tests of the driver pass a wrong one."""
    primitive.execute(stream, args)


def run_problem(line: str) -> Result:
    """Run one problem as the command line has it: `run_problem("--softmax --axis=1 2x3x4")`.

    Raises UsageError for a line that cannot be read, ValueError for one that is not one test.
    """
    (test,) = expand(line.split()).tests
    return run(test)


def run(test: Test, execute: Execute = execute) -> Result:
    """Run one test. Never raises for what the test is about."""
    if test.common.mode == "L":
        return Result(Outcome.LISTED)
    left_out = _left_out(test)
    if left_out is not None:
        return left_out
    stages = Stages()
    made = _created(test, stages)
    found = made if isinstance(made, Result) else _TestRun(test, made, stages, execute).result()
    return replace(found, stages=stages.items())


def create(test: Test) -> None:
    """Make the primitive of a test and let go of it: it stays in the cache of primitives."""
    if test.common.mode != "L" and _left_out(test) is None:
        _created(test, Stages())


def _left_out(test: Test) -> Result | None:
    """Return the result of a test that is not run; None for one that is."""
    try:
        reason = why_skipped(test)
    except Exception as error:
        return Result(Outcome.FAILED, f"looking at the case raised {_why(error)}")
    return Result(Outcome.SKIPPED, reason) if reason else None


@dataclass(frozen=True, slots=True)
class _ReadyPrimitive:
    """A primitive, ready to run, and what it is for."""

    work: CaseWork
    engines: Engines
    pd: Any
    primitive: Any

    @property
    def impl(self) -> str:
        return str(self.pd.impl_info_str)


def _created(test: Test, stages: Stages) -> _ReadyPrimitive | Result:
    common, case = test.common, test.case
    engine = rs.Engine(common.engine_kind, common.engine_index)
    engines = Engines.of(engine, getattr(case, "cross_engine", "none"))
    try:
        with _threads(case.ctx_init):
            with stages.timed("create_pd"):
                work = CaseWork.of(case)
                pd = work.create(engines.src, engines.dst)
            work = work.chosen(pd)
            hit = _filtered(test, str(pd.impl_info_str))
            too_large = why_too_large(work, common)
            if hit or too_large:
                return Result(Outcome.SKIPPED, hit or too_large, impl=str(pd.impl_info_str))
            with stages.timed("create_prim"):
                return _ReadyPrimitive(work, engines, pd, work.primitive(pd))
    except Unimplemented as error:
        return Result(Outcome.UNIMPLEMENTED, _why(error))
    except OutOfMemory as error:
        return Result(Outcome.SKIPPED, f"Not enough RAM: {_why(error)}")
    except InvalidArguments as error:
        return Result(Outcome.INVALID_ARGUMENTS, _why(error))
    except Exception as error:
        return Result(Outcome.FAILED, f"creation raised {_why(error)}")


def _filtered(test: Test, impl: str) -> str:
    """Why an implementation is not the one that is wanted."""
    case, common = test.case, test.common
    for knob, names in (("skip-impl", case.skip_impl), ("global-skip-impl", common.global_skip_impl)):
        if names and any(name and name in impl for name in names.split(",")):
            return f"Skip-impl option hit: --{knob}={names}, {impl}"
    for knob, names in (("impl", case.impl), ("global-impl", common.global_impl)):
        if names and not any(name and name in impl for name in names.split(",")):
            return f"Skip-impl option hit: --{knob}={names}, {impl}"
    return ""


@contextlib.contextmanager
def _threads(context: str) -> Iterator[None]:
    """So many threads as a threading context says."""
    count = context.partition(":")[0]
    if count == "auto":
        yield
        return
    before = rs.get_num_threads()
    rs.set_num_threads(int(count))
    try:
        yield
    finally:
        rs.set_num_threads(before)


def _why(error: BaseException) -> str:
    text = f"{error.what}: {error.why}" if isinstance(error, Error) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())


class _TestRun:
    """One test from its primitive on."""

    def __init__(self, test: Test, made: _ReadyPrimitive, stages: Stages, execute: Execute) -> None:
        self.test, self.common, self.made, self.stages = test, test.common, made, stages
        self.work, self._execute = made.work, execute
        # What inputs hold, as no run has touched it.
        self._held: dict[int, Bytes] = {}

    def result(self) -> Result:
        impl = self.made.impl
        is_reference = impl.startswith("ref")
        if self.common.check_ref_impl and is_reference and self.made.engines.runs.kind != "reference":
            outcome = Result(Outcome.FAILED, f"--check-ref-impl: the implementation is {impl}")
        elif self.common.attr_same_pd_check and is_reference and self._is_fast_without_attr():
            outcome = Result(Outcome.FAILED, f"--attr-same-pd-check: attributes lead to {impl}")
        elif self.common.mode == "I":
            outcome = Result(Outcome.INITIALIZED)
        else:
            outcome = self._outcome()
        return replace(outcome, impl=impl)

    def _is_fast_without_attr(self) -> bool:
        plain = replace(self.test.case, attr_scales=(), attr_zero_points=(), attr_post_ops=())
        _, src, dst = self.made.engines
        return not str(CaseWork.of(plain).create(src, dst).impl_info_str).startswith("ref")

    def _outcome(self) -> Result:
        try:
            with _threads(self.test.case.ctx_exe):
                return self._executed()
        except OutOfMemory as error:
            return Result(Outcome.SKIPPED, f"Not enough RAM: {_why(error)}")
        except Exception as error:
            return Result(Outcome.FAILED, f"execution raised {_why(error)}")

    def _executed(self) -> Result:
        with self.stages.timed("fill"):
            inputs = self._inputs()
            outputs = self._outputs(fill.POISON, inputs)
        bound = self._bound(inputs, outputs)
        with self.stages.timed("execute"):
            bound.call()
        bound.fetch()
        outcome = Result(Outcome.EXECUTED)
        if self.common.mode == "B":
            outcome = self._repeated(inputs, outputs)
        elif self.common.checks:
            with self.stages.timed("compute_ref"):
                has_formula = self.test.case.has_formula
                expected = self._exact() if has_formula else self._reference()
            with self.stages.timed("compare"):
                outcome = self._compared(inputs, outputs, expected)
        if self.common.times and not outcome.status.is_failure:
            return self._timed(outcome, bound, inputs, outputs)
        return outcome

    def _inputs(self) -> _Storages:
        """Storage of all that is read, filled once for all runs."""
        for one in (*self.work.reads, *self.work.scratchpads):
            if one.arg not in self._held:
                self._held[one.arg] = one.filled()
        return {arg: _copied(held) for arg, held in self._held.items()}

    def _outputs(self, poison: int, inputs: _Storages) -> _Storages:
        """Storage for what is written: poisoned, or with an old destination to be summed, or with the values
        that it has to begin with.

        In place it is the storage of what is read there.
        """
        return {one.arg: self._output(one, poison, inputs) for one in self.work.writes}

    def _output(self, operand: CaseOperand, poison: int, inputs: _Storages) -> GuardedStorage:
        is_dst = operand.arg == self.work.dst.arg
        if is_dst and self.work.in_place:
            return inputs[self.work.in_place]
        if is_dst and self.test.case.has_sum:
            return _copied(self._summed.filled())
        if is_dst or operand.values is None:
            return _poisoned(operand, poison)
        return _copied(operand.filled())

    @property
    def _summed(self) -> CaseOperand:
        """The old destination as a sum reads it: its bits as another type, where one is named."""
        dst = self.work.dst
        fields = next((op.fields for op in self.test.case.attr_post_ops if op.kind == "sum"), ())
        if len(fields) < 3 or dst.values is None:
            return dst
        return replace(dst, md=rs.MemoryDesc(dst.md.dims, fields[2], dst.format))

    def _before(self, operand: CaseOperand) -> Bytes:
        """The contents of the storages before the run."""
        inputs = self._inputs() if self.work.in_place else {}
        return self._output(operand, fill.POISON, inputs).bytes

    def _bound(self, inputs: _Storages, outputs: _Storages) -> BoundPrimitive:
        placed = place(self.work, self.made.engines, {**inputs, **outputs}, self.common)
        made = self.made
        return BoundPrimitive(made.primitive, made.engines, placed, self._execute, self.common.stream_kind)

    def _exact(self) -> dict[int, Array]:
        """The results of the formula, from inputs that no run has touched."""
        work, held = self.work, self._held
        read = {one.name: one.readable(held[one.arg]) for one in work.reads}
        if self.test.case.has_sum:
            old = self._summed
            read[old.name] = old.md, held[work.in_place] if work.in_place else old.filled()
        values = {name: check.logical(*each).astype(np.float64) for name, each in read.items()}
        exact = work.case.formula(values)
        return {one.arg: exact[one.name] for one in work.writes}

    def _reference(self) -> _Storages:
        """The results of the reference engine, in storage with another poison."""
        engines, inputs = Engines.of(rs.Engine("reference")), self._inputs()
        outputs = self._outputs(fill.OTHER_POISON, inputs)
        pd = self.work.create(engines.src, engines.dst)
        work = self.work.chosen(pd)
        scratchpads = {one.arg: _copied(one.filled()) for one in work.scratchpads}
        placed = place(work, engines, {**inputs, **outputs, **scratchpads}, self.common)
        BoundPrimitive(work.primitive(pd), engines, placed, execute).call()
        return outputs

    def _compared(
        self, inputs: _Storages, outputs: _Storages, expected: Mapping[int, GuardedStorage | Array]
    ) -> Result:
        verdicts = [self._verdict(one, outputs[one.arg], expected[one.arg]) for one in self.work.writes]
        errors, total = sum(v.errors for v in verdicts), sum(v.total for v in verdicts)
        reason = next((v.reason for v in verdicts if v.reason), "")
        if not all(storage.is_intact() for storage in inputs.values()):
            reason = reason or "canaries: bytes outside an input were written"
        if errors or reason:
            lines = tuple(line for v in verdicts for line in v.lines)
            return Result(Outcome.FAILED, reason, errors, total, lines)
        judged = verdicts if self.test.case.has_formula else verdicts[:1]
        is_empty = any(v.is_empty for v in judged)
        return Result(Outcome.MISTRUSTED if is_empty else Outcome.PASSED, errors=0, total=total)

    def _verdict(
        self, operand: CaseOperand, got: GuardedStorage, expected: GuardedStorage | Array
    ) -> Verdict:
        before = partial(self._before, operand)
        if isinstance(expected, GuardedStorage):
            return check.judge(operand, got, expected, before)
        return check.judge_near(operand, got, expected, self.work.tolerance(operand), before)

    def _repeated(self, inputs: _Storages, first: _Storages) -> Result:
        """A second run has to give the same bits."""
        given = self._inputs() if self.work.in_place else inputs
        again = self._outputs(fill.POISON, given)
        bound = self._bound(given, again)
        bound.call()
        bound.fetch()
        for arg, storage in first.items():
            differ = int((storage.bytes != again[arg].bytes).sum())
            if differ:
                return Result(Outcome.FAILED, "a second run gave other bits", differ, storage.bytes.size)
        return Result(Outcome.PASSED)

    def _timed(self, outcome: Result, bound: BoundPrimitive, inputs: _Storages, outputs: _Storages) -> Result:
        work, common, call = self.work, self.common, bound.call
        spent = [self.stages.seconds[stage] * 1e3 for stage in ("create_pd", "create_prim")]
        times = measure(call, common)
        read, written = (sum(int(one.md.size) for one in group) for group in (work.reads, work.writes))
        perf = Perf(*times, spent[0], spent[1], read, written)
        storages = inputs[work.src.arg].bytes, outputs[work.dst.arg].bytes
        peers = beside(self.test.case, common, call, work.src.md, storages) if common.peers else ()
        return replace(outcome, perf=perf, peers=peers)


def _copied(values: Bytes) -> GuardedStorage:
    stored = GuardedStorage(values.size)
    stored.bytes[...] = values
    return stored


def _poisoned(operand: CaseOperand, poison: int) -> GuardedStorage:
    stored = GuardedStorage(operand.md.size)
    stored.bytes[...] = poison
    return stored
