"""Why a test is not run: what restride, or this machine, cannot do. Nothing is left out in silence."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import restride as rs
from restride.ir.conversion import PROVIDED
from restride.runtime.cpu.thread_pool import MOST_THREADS
from restride.runtime.timing import available_memory

from .attr_text import COMPUTED
from .cases import Case
from .check import has_gaps
from .common import CommonKnobs
from .expand import Test
from .placed import USM_KINDS
from .work import CaseWork

_OURS = tuple(kind.name for kind in PROVIDED)
_MOST_OF_MEMORY = 0.75


def why_skipped(test: Test) -> str:
    """The reason, in the words of the report; the empty string where the test is to be run."""
    case, common = test.case, test.common
    reasons = [*_of_common(common), *_of_case(case)]
    reasons += [f"Data type not supported: {name}" for name in case.types if name not in _OURS]
    # What the case says of itself needs types that there are.
    reasons += [] if reasons else case.invalid()
    crossing = getattr(case, "cross_engine", "none")
    if crossing != "none" and not common.has_queues:
        reasons.append(
            _no(f"--cross-engine={crossing}, it is from or to a SYCL engine, which --engine names")
        )
    return reasons[0] if reasons else ""


def _no(what: str) -> str:
    return f"Case not supported: {what}"


def _of_common(common: CommonKnobs) -> Iterator[str]:
    if common.engine_index >= rs.Engine.get_count(common.engine_kind):
        yield _no(f"there is no engine {common.engine}")
    if common.memory_kind not in USM_KINDS:
        yield _no(f"--memory-kind={common.memory_kind}, memory of SYCL is USM")
    if not common.has_queues and common.memory_kind != "usm":
        yield _no(f"--memory-kind={common.memory_kind} is for SYCL engines")
    if not common.has_queues and common.stream_kind == "out_of_order":
        yield _no("--stream-kind=out_of_order, streams of the CPU are in order")
    if common.num_streams > 1:
        yield _no(f"--num-streams={common.num_streams}, a run uses one stream")
    if common.cold_cache not in ("none", "all"):
        yield _no(f"--cold-cache={common.cold_cache}, there are none and all")
    if common.cpu_isa_hints == "prefer_ymm":
        yield _no("--cpu-isa-hints=prefer_ymm, RESTRIDE_MAX_CPU_ISA=avx2 keeps to narrower registers")
    if common.execution_mode != "direct":
        yield _no(f"--execution-mode={common.execution_mode}, there are no graphs to record")
    if common.buffer_prefix:
        yield _no("--buffer-prefix, data is made up")


def _of_case(case: Case) -> Iterator[str]:
    if "stochastic" in case.attr_rounding_mode:
        yield _no(f"--attr-rounding-mode={case.attr_rounding_mode}, rounding is half to even")
    if case.attr_dropout:
        yield _no("--attr-dropout")
    if case.attr_precomputed_reductions:
        yield _no("--attr-precomputed-reductions")
    for factor in case.attr_scales:
        if factor.policy in COMPUTED:
            yield _no(f"--attr-scales={factor}, scales are not computed")
    for op in case.attr_post_ops:
        if not op.kind or "grouped" in op.fields[2:3]:
            yield _no(f"post-op {op}")
        if op.kind == "dw" and not case.takes_depthwise:
            yield _no(f"post-op {op} of other than a convolution")
        has_mask = op.kind in ("binary", "prelu") and op.policy.isdigit()
        if has_mask and int(op.policy) >> len(case.dims):
            yield f"Invalid case: the mask of {op} names dims that are not there"
    for context in (case.ctx_init, case.ctx_exe):
        threads = context.partition(":")[0]
        if threads != "auto" and int(threads) > MOST_THREADS:
            yield _no(f"threading context {context}, there are at most {MOST_THREADS} threads")
        if context.partition(":")[2].replace("auto", "").strip(":"):
            yield _no(f"threading context {context}, kinds of cores are not chosen")


def why_too_large(work: CaseWork, common: CommonKnobs) -> str:
    """The reason where the memory of this machine does not do; the empty string where it does."""
    if not common.mem_check or common.mode == "I":
        return ""
    read, written = (sum(int(one.md.size) for one in group) for group in (work.reads, work.writes))
    # How many times the bytes of the destination are held.
    times = 2 if common.mode == "B" else 1
    if common.checks:
        # A second answer, and both answers in logical order; where there are gaps, what was there, and masks.
        times = 11 if has_gaps(work.dst.md) else 5
    needed = read + times * written
    if needed <= _MOST_OF_MEMORY * (available_memory() or inf):
        return ""
    return f"Not enough RAM: {needed / 1e9:.1f} GB are needed"
