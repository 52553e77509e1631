"""Functions on the arrays that people hold: dims stay logical, memory changes underneath.

A warm call costs a few dictionary look-ups: what depends only on shapes, strides, types and formats is worked
out once and kept as a recipe (`frameworks.recipes`); a call brings the addresses and the factors.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from .desc.attr import PrimitiveAttr
from .desc.memory_desc import MemoryDesc
from .desc.parse import short_repr
from .errors import InvalidArguments, Unimplemented
from .frameworks import recipes
from .frameworks.factors import COPY, Applied, parse_factors
from .frameworks.formats import check_out, format_key, out_desc, target_desc, type_key, wanted_of_out
from .frameworks.recipes import Recipe, data_address, overlapping
from .primitives.problem import Problem
from .primitives.reorder import Reorder, overlaps, verbose_fields
from .runtime.alloc import Array
from .runtime.describe import describe
from .runtime.engine import Engine
from .runtime.memory import Memory
from .runtime.stream import Stream
from .verbose import flags, write

__all__ = ["reorder", "target_desc"]

_CPU = Engine("cpu")
_NO_BETA = 0.0


def reorder(
    x: Any,
    dst: Any,
    *,
    src: Any = None,
    dtype: Any = None,
    scale: Any = None,
    zero_point: Any = None,
    axis: Any = None,
    beta: Any = _NO_BETA,
    post_ops: Any = None,
    out: Any = None,
    engine: Engine | None = None,
) -> Any:
    """Copy `x` into another memory format and type: `dst = saturate(scale * x + beta * out)` (seed 001, N1).

    x       a NumPy array, whose strides say how it lies, or a `Memory`
    dst     a tag ("nhwc", "acdb", "nChw16c"), strides in elements, a `MemoryDesc`, or None to keep the layout
    src     the format of `x` where its strides cannot say it: a blocked tag or a `MemoryDesc` makes it a
            physical array
    dtype   the data type of the result; that of a `MemoryDesc` in `dst`, of `out`, or of `x`, unless given
    scale   a number that multiplies; beta: a number that multiplies what `out` holds and adds it
    out     where to write: an array or `Memory` of the same dims, or the physical array of a blocked `dst`;
            it is returned
    engine  the CPU, unless given

    Dims are logical and do not change: `reorder(x, "nhwc")` of an (N, C, H, W) array is an (N, C, H, W) array
    whose memory is NHWC. A plain destination gives a NumPy array, a blocked one a `Memory`.

    Raises InvalidArguments, before anything is written, for wrong formats, shapes and types, a read-only or
    overlapping `out`; Unimplemented for zero points, scales per axis and post-ops.

    >>> import numpy as np, restride as rs
    >>> x = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    >>> rs.reorder(x, "nhwc").strides
    (96, 4, 32, 8)
    >>> rs.reorder(x, "nChw16c", dtype="s8").desc.padded_dims
    (1, 16, 3, 4)
    """
    if zero_point is not None or axis is not None or post_ops is not None:
        refuse_missing(zero_point, axis, post_ops)
    applied = COPY if scale is None and beta is _NO_BETA else parse_factors(scale, beta)
    if type(x) is np.ndarray and src is None and engine is None:
        if type(dst) is not str:
            dst = format_key(dst)
        if dtype is not None:
            dtype = type_key(dtype)
        if out is None:
            return _into_new(x, dst, dtype, applied)
        if type(out) is np.ndarray:
            return _into_array(x, dst, dtype, applied, out)
    return _general(x, dst, src, dtype, applied, out, engine)


# --- the warm path: NumPy in, NumPy or a new Memory out ---------------------------------------------------


def _into_new(x: Array, dst: Any, dtype: Any, applied: Applied) -> Any:
    if applied.is_summed:
        raise _beta_without_out()
    recipe = recipes.for_new(x.shape, x.strides, x.dtype, dst, dtype, applied.is_scaled)
    source = data_address(x) - recipe.below
    target, result = recipe.make()
    if flags.profile_exec or flags.profile_create:
        _run_reported(recipe, source, target, applied)
    else:
        recipe.run(source, target, applied.params)
    return result


def _into_array(x: Array, dst: Any, dtype: Any, applied: Applied, out: Array) -> Array:
    kinds = (x.shape, x.strides, x.dtype), (out.shape, out.strides, out.dtype)
    recipe = recipes.for_out(*kinds, dst, dtype, applied.is_scaled, applied.is_summed)
    source, target = data_address(x) - recipe.below, data_address(out) - recipe.out_below
    if not out.flags.writeable:
        raise _read_only(recipe.problem)
    recipe.check_apart(source, target)
    if flags.profile_exec or flags.profile_create:
        _run_reported(recipe, source, target, applied)
    else:
        recipe.run(source, target, applied.params)
    return out


def _run_reported(recipe: Recipe, source: int, target: int, applied: Applied) -> None:
    """Run, and write the verbose lines of creation and execution."""
    problem = Problem(recipe.problem.src, recipe.problem.dst, applied.attr())
    shown = _Shown(recipe.program.name, recipe.program.why, problem)
    start = time.perf_counter()
    op = "create:cache_miss" if recipe.is_new else "create:cache_hit"
    recipe.prepare()
    if flags.profile_create:
        write(verbose_fields(op, shown, _CPU, (time.perf_counter() - start) * 1e3))
    start = time.perf_counter()
    recipe.run(source, target, applied.params)
    if flags.profile_exec:
        write(verbose_fields("exec", shown, _CPU, (time.perf_counter() - start) * 1e3))


class _Shown(NamedTuple):
    """What a verbose line says of a run."""

    name: str
    why: str
    problem: Problem


# --- the general path: any array or Memory, any engine ----------------------------------------------------


def _general(
    x: Any, dst: Any, src: Any, dtype: Any, applied: Applied, out: Any, engine: Engine | None
) -> Any:
    device = engine_of(x, out, engine)
    source = _as_source(x, src, device)
    if out is None and applied.is_summed:
        raise _beta_without_out()
    if out is None:
        target = Memory(target_desc(source.desc, dst, dtype), device)
    else:
        target = _as_target(source.desc, dst, dtype, out, device)
    _run_primitive(source, target, applied, device)
    if out is not None:
        return out
    return target if target.desc.inner_blks else np.asarray(target)


def _run_primitive(source: Memory, target: Memory, applied: Applied, device: Engine) -> None:
    if overlaps(source, target):
        raise overlapping(Problem(source.desc, target.desc, applied.attr()))
    attr = None if applied is COPY else PrimitiveAttr.of(applied.attr())
    Reorder(source, target, attr).execute(Stream(device), source, target)


def engine_of(x: object, out: object, engine: object) -> Engine:
    """The engine that runs a call: the one given, else that of a `Memory` among them, else the CPU."""
    if isinstance(engine, Engine):
        return engine
    if engine is not None:
        raise InvalidArguments(
            "reorder: engine is no engine", why=f"it is {type(engine).__name__}", hint='pass rs.Engine("cpu")'
        )
    memories = (held for held in (x, out) if isinstance(held, Memory) and held)
    return next((memory.engine for memory in memories), _CPU)


def _as_source(x: Any, src: Any, engine: Engine) -> Memory:
    if not isinstance(x, Memory):
        return Memory.from_numpy(x, src, engine)
    if src is not None:
        raise InvalidArguments(
            "reorder: src with a Memory", why="a Memory has its own descriptor", hint="leave src out"
        )
    if not x:
        raise InvalidArguments(
            "reorder: the source memory is empty", hint="give it a descriptor and an engine"
        )
    return _on_engine(x, engine)


def _as_target(src: MemoryDesc, dst: Any, dtype: Any, out: Any, engine: Engine) -> Memory:
    if isinstance(out, Memory) and out:
        check_out(out.desc, wanted_of_out(src, out.desc, dst, dtype))
        return _on_engine(out, engine)
    if isinstance(out, np.ndarray):
        target = out_desc(src, describe(out), dst, dtype)
        return Memory(target.desc, engine, target.buffer_of(out))
    empty = "an empty Memory" if isinstance(out, Memory) else type(out).__name__
    raise InvalidArguments(
        "reorder: out is no array", why=f"it is {empty}", hint="pass a NumPy array or a rs.Memory"
    )


def _on_engine(memory: Memory, engine: Engine) -> Memory:
    """The same bytes on an engine, as all are on the host. What is mapped stays its holder's (M38)."""
    return memory if memory.engine is engine or memory._mapped else Memory(memory.desc, engine, memory)


# --- errors -----------------------------------------------------------------------------------------------


def refuse_missing(zero_point: Any, axis: Any, post_ops: Any) -> None:
    """Raise Unimplemented for the arguments that later versions will take."""
    given = {"zero_point": zero_point, "axis": axis, "post_ops": post_ops}
    found = [name for name, value in given.items() if value is not None]
    if found:
        raise Unimplemented(
            f"reorder: {found[0]} is not provided by this version",
            where=f"{found[0]} {short_repr(given[found[0]])}",
            why="one scale for the whole tensor and beta are",
            hint=f"leave {found[0]} out",
        )


def _beta_without_out() -> InvalidArguments:
    return InvalidArguments(
        "reorder: beta without out", why="beta multiplies what out holds", hint="pass out="
    )


def _read_only(problem: Problem) -> InvalidArguments:
    return InvalidArguments(
        "reorder: out is read-only",
        where=problem.where(),
        why="its memory must not be written",
        hint="pass a writable array",
    )
