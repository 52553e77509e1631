"""Softmax of arrays that people hold."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from .desc.arguments import ARG_DST, ARG_SRC
from .desc.memory_desc import MemoryDesc
from .desc.parse import parse_bool, parse_int
from .desc.tags import Tag
from .errors import Error, InvalidArguments
from .foreign import is_masked
from .frontend.hints import told_to_owner
from .frontend.operands import engine_of
from .frontend.tensors import as_array, as_numpy, as_target, back_to, is_foreign, written
from .plan.softmax_problem import SoftmaxProblem
from .primitives.checks import check_destination, check_memory, share_bytes
from .primitives.implementation import Implementation, compiled, find_implementation, named_descs
from .primitives.pointwise import check_known, check_same_dims, check_written
from .primitives.primitive import run
from .primitives.reorder import overlaps
from .runtime.describe import Subject, describe
from .runtime.engine import Engine
from .runtime.memory import Memory
from .runtime.transfer import from_host, refuse_host_out, settle
from .verbose import flags, write

__all__ = ["softmax"]

_CALL = "softmax"


def softmax(x: Any, axis: int = -1, *, log: bool = False, out: Any = None) -> Any:
    """`e**(x - m) / s` along an axis: m the largest there, s the sum of these powers.

    x     a NumPy array, lists, a tensor of torch, what has `__dlpack__`, or a `Memory` of any format
    axis  along which results add up to 1; negative ones count from the end
    log   the logarithm of that, `x - m - ln(s)`
    out   where to write, in any layout and type: an array or `Memory` of the dims of `x`, or `x` itself; it
          is returned

    Values are computed as f32, as f64 where `x` or `out` is f64. The result has the type and the layout of
    `x`, dense: NumPy in, NumPy out; a tensor in, a tensor out; a `Memory` in, a `Memory` of the same format
    out, its padding zero.

    Raises InvalidArguments, before anything is written, for an axis that `x` has not, and an `out` that is
    read-only, of other dims or overlaps `x`; Unimplemented for a type without arithmetic.

    >>> import numpy as np, restride as rs
    >>> rs.softmax(np.array([[0.0, 0.0], [0.0, np.log(3)]], np.float32)).round(2)
    array([[0.5 , 0.5 ],
           [0.25, 0.75]], dtype=float32)
    """
    is_log = parse_bool("log", log)
    try:
        if is_foreign(x) or is_foreign(out):
            return _foreign(x, axis, is_log, out)
        return _softmax(as_array(x, f"{_CALL}: x"), axis, is_log, out)
    except Error as error:
        error.drop_frames()
        raise


def _foreign(x: Any, axis: Any, is_log: bool, out: Any) -> Any:
    source = as_numpy(x, f"{_CALL}: x")
    target = None if out is None else as_target(out, f"{_CALL}: out")
    try:
        made = _softmax(source, axis, is_log, target)
    except Error as error:
        raise told_to_owner(x if is_foreign(x) else out, error) from None
    return back_to(x, made) if out is None else written(out)


def _softmax(x: Any, axis: Any, is_log: bool, out: Any) -> Any:
    engine = engine_of(x, out, None)
    source = _as_memory(x, engine, Subject.source(_CALL))
    src = check_known(_CALL, "x", source.desc)
    target = _target(src, out, engine)
    check_same_dims(_CALL, [("x", src), ("out", target.desc)])
    check_written(_CALL, "out", target.desc)
    problem = SoftmaxProblem(is_log, src, target.desc, _axis(axis, src))
    _run(find_implementation(problem, engine, _describe, lambda: compiled(problem, engine)), source, target)
    if out is not None:
        return out
    return target if isinstance(x, Memory) else np.asarray(target)


def _axis(axis: Any, md: MemoryDesc) -> int:
    number = parse_int(axis, f"{_CALL}: axis")
    if -md.ndims <= number < md.ndims:
        return number % md.ndims
    raise InvalidArguments(
        f"{_CALL}: axis is {number}",
        code="RS-S05",
        where=f"x {md}",
        why=f"x has {md.ndims} axes",
        hint="negative ones count from the end",
    )


def _as_memory(value: Any, engine: Engine, subject: Subject) -> Memory:
    if not isinstance(value, Memory):
        if is_masked(value):
            value = np.asarray(value)
        described = describe(value, None, subject)
        return from_host(described.desc, engine, described.buffer_of(value))
    if value:
        return value
    hint = "give it a descriptor and an engine"
    raise InvalidArguments(subject.refused, code="RS-M36", why="the memory is empty", hint=hint)


def _target(src: MemoryDesc, out: Any, engine: Engine) -> Memory:
    """What is written: a new memory in the format of the source, dense, or the one that was brought."""
    if out is None:
        tag = Tag(src.outer_order, src.inner_blks, src.inner_idxs)
        return Memory(MemoryDesc(src.dims, src.data_type, tag), engine)
    subject = Subject.target(_CALL)
    refuse_host_out(subject.refused, out, engine)
    return _as_memory(out, engine, subject)


def _run(impl: Implementation, source: Memory, target: Memory) -> None:
    """Check, and run to the end."""
    for name, memory in (("x", source), ("out", target)):
        check_memory(_CALL, name, memory, memory.desc, impl.engine)
    check_destination(_CALL, target, "out")
    if share_bytes(source, target) and overlaps(source, target):
        raise InvalidArguments(
            f"{_CALL}: x and out overlap",
            code="RS-N09",
            where=f"x {source.desc}; out {target.desc}",
            why="elements would be written before they are read (N9)",
            hint="pass another array, or x itself",
        )
    settle(source, target)
    impl.executable.prepare()
    start = perf_counter()
    run(impl, {ARG_SRC: source, ARG_DST: target})
    if flags.profile_exec:
        write(_describe("exec", impl, (perf_counter() - start) * 1e3))


def _describe(op: str, impl: Implementation, ms: float) -> list[object]:
    """The fields of one verbose line (spec 1.6)."""
    problem = impl.problem
    assert isinstance(problem, SoftmaxProblem)
    mds = named_descs(("src", "dst"), (problem.src, problem.dst))
    head = [op, impl.engine.kind, "softmax", impl.name, "forward_inference"]
    how = f"alg:softmax_{'log' if problem.is_log else 'accurate'} axis:{problem.axis} why:{impl.why}"
    return [*head, mds, problem.attr.verbose_str(), how, "x".join(map(str, problem.dst.dims)), ms]
