"""Functions on the arrays that people hold: dims stay logical, memory changes underneath.

A warm call costs a few dictionary look-ups: what depends only on shapes, strides, types and formats is worked out once
and kept as a `_Recipe`; a call brings the addresses and the factors.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .desc.attr import Attr, PrimitiveAttr
from .desc.memory_desc import MemoryDesc
from .desc.post_ops import PostOps, SumOp, to_f32
from .desc.tags import FormatTag, GenericTag, Tag
from .dtypes import DataType
from .errors import InvalidArguments, Unimplemented
from .primitives.problem import Problem, check_problem
from .primitives.reorder import Reorder, is_same_place, overlaps, verbose_fields
from .runtime.alloc import Array, address_of, allocate, extent
from .runtime.cpu import Factors, Program
from .runtime.describe import Described, describe
from .runtime.engine import Engine
from .runtime.memory import Memory
from .runtime.stream import Stream
from .verbose import flags, write

__all__ = ["reorder"]

# Outputs from here on are aligned to a page, as streaming stores like it.
_LARGE = 1 << 18
_ONE = Factors(1.0, 0.0)
_CPU = Engine("cpu")


def reorder(
    x: Any,
    dst: Any,
    *,
    src: Any = None,
    dtype: Any = None,
    scale: Any = None,
    zero_point: Any = None,
    axis: Any = None,
    beta: Any = 0.0,
    post_ops: Any = None,
    out: Any = None,
    engine: Engine | None = None,
) -> Any:
    """Copy `x` into another memory format and data type: `dst = saturate(scale * x + beta * out)` (seed 001, N1).

    x       a NumPy array, whose strides say how it lies, or a `Memory`
    dst     a tag ("nhwc", "acdb", "nChw16c"), strides in elements, a `MemoryDesc`, or None to keep the layout
    src     the format of `x` where its strides cannot say it: a blocked tag or `MemoryDesc` makes it a physical array
    dtype   the data type of the result; that of `x`, of a `MemoryDesc` in `dst`, or of `out`, unless given
    scale   a number that multiplies; beta: a number that multiplies what `out` holds and adds it
    out     where to write: an array or `Memory` of the same dims; it is returned
    engine  the CPU, unless given

    Dims are logical and do not change: `reorder(x, "nhwc")` of an (N, C, H, W) array is an (N, C, H, W) array whose
    memory is NHWC. A plain destination gives a NumPy array, a blocked one a `Memory`.

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
        _refuse_missing(zero_point, axis, post_ops)
    if type(x) is np.ndarray and src is None and engine is None and (out is None or type(out) is np.ndarray):
        if type(dst) is list:
            dst = tuple(dst)
        alpha = 1.0 if scale is None else _factor(scale, "scale")
        weight = 0.0 if beta == 0.0 else _factor(beta, "beta")
        if out is None:
            return _into_new(x, dst, dtype, alpha, weight)
        return _into_array(x, dst, dtype, alpha, weight, out)
    return _general(x, dst, src, dtype, _attr(scale, beta), out, engine)


# --- the warm path: NumPy in, NumPy or a new Memory out --------------------------------------------------------


def _into_new(x: Array, dst: Any, dtype: Any, alpha: float, beta: float) -> Any:
    if beta != 0.0:
        raise InvalidArguments("reorder: beta without out", why="beta multiplies what out holds", hint="pass out=")
    try:
        recipe = _recipe(x.shape, x.strides, x.dtype, dst, dtype, alpha != 1.0)
    except TypeError:
        raise _bad_format(dst, dtype) from None
    factors = _ONE if alpha == 1.0 else Factors(alpha, 0.0)
    source = x.__array_interface__["data"][0] - recipe.below
    target, result = recipe.make()
    if flags.profile_exec:
        return _timed(recipe, source, target, factors, alpha, result)
    recipe.program.run(source, target, factors.address)
    return result


def _into_array(x: Array, dst: Any, dtype: Any, alpha: float, beta: float, out: Array) -> Array:
    kinds = (x.shape, x.strides, x.dtype, out.shape, out.strides, out.dtype)
    try:
        program, problem, below, out_below = _out_recipe(kinds, dst, dtype, alpha != 1.0, beta != 0.0)
    except TypeError:
        raise _bad_format(dst, dtype) from None
    if not out.flags.writeable:
        raise _refused("out is read-only", "pass a writable array", problem)
    source, target = address_of(x) - below, address_of(out) - out_below
    _check_overlap(problem, source, target)
    factors = Factors(alpha, beta)
    if flags.profile_exec:
        start = _Clock()
        program.run(source, target, factors.address)
        start.report(program, problem, alpha, beta)
    else:
        program.run(source, target, factors.address)
    return out


class _Recipe:
    """How to reorder arrays of one kind: the program, and how to make the result."""

    __slots__ = ("below", "make", "problem", "program")

    def __init__(self, program: Program, problem: Problem, below: int, make: Callable[[], tuple[int, Any]]) -> None:
        self.program, self.problem, self.below, self.make = program, problem, below, make


@lru_cache(maxsize=1024)
def _recipe(
    shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any], dst: Any, to: Any, is_scaled: bool
) -> _Recipe:
    source = _described(shape, strides, dtype)
    target = target_desc(source.desc, dst, to)
    problem = check_problem(Problem(source.desc, target, _flagged(is_scaled, False)))
    program = Program(problem.nest(), problem.moved_bytes)
    return _Recipe(program, problem, source.below, _maker(target))


@lru_cache(maxsize=1024)
def _out_recipe(
    kinds: tuple[Any, ...], dst: Any, to: Any, is_scaled: bool, is_summed: bool
) -> tuple[Program, Problem, int, int]:
    source = _described(*kinds[:3])
    target = _out_desc(source.desc, _described(*kinds[3:]), dst, to)
    problem = check_problem(Problem(source.desc, target.desc, _flagged(is_scaled, is_summed)))
    return Program(problem.nest(), problem.moved_bytes), problem, source.below, target.below


def _flagged(is_scaled: bool, is_summed: bool) -> Attr:
    """Attributes that stand for any factors: the nest asks only whether there are some."""
    return Attr(0.5 if is_scaled else 1.0, SumOp(0.5) if is_summed else None)


def _described(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> Described:
    """`describe` of any array of this kind; no element is touched."""
    return describe(np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, strides, writeable=False))


def _out_desc(src: MemoryDesc, out: Described, dst: Any, to: Any) -> Described:
    wanted = None if dst is None and to is None else target_desc(src, out.desc if dst is None else dst, to or None)
    if wanted is not None and wanted.inner_blks:
        wanted = MemoryDesc.from_strides(wanted.physical_shape, wanted.data_type, wanted.physical_strides)
    if wanted is None or (wanted.dims == out.desc.dims and wanted == out.desc):
        return _physical_out(src, out, dst, to)
    raise InvalidArguments(
        "reorder: out does not lie as dst and dtype say",
        where=f"out {out.desc}; wanted {wanted}",
        why="its shape, strides or type differ",
        hint="pass dst=None to take the layout of out, or let reorder make the result",
    )


def _physical_out(src: MemoryDesc, out: Described, dst: Any, to: Any) -> Described:
    """The blocked descriptor whose physical array `out` is, where dst is blocked; else `out` as it lies."""
    if dst is None:
        return out
    wanted = target_desc(src, dst, to or out.desc.data_type)
    return Described(wanted, 0) if wanted.inner_blks else out


def _check_overlap(problem: Problem, source: int, target: int) -> None:
    low, high = extent(problem.src), extent(problem.dst)
    apart = source + low.low >= target + high.high or target + high.low >= source + low.high
    if apart or (source == target and is_same_place(problem.src, problem.dst)):
        return
    hint = "pass another array, or a copy of x; in place works where both have the same layout and element size"
    raise _refused("x and out overlap (N9)", hint, problem)


# --- the result -----------------------------------------------------------------------------------------------


def _maker(md: MemoryDesc) -> Callable[[], tuple[int, Any]]:
    """A function that makes an empty result of `md`, and its address."""
    if md.inner_blks:
        return lambda: _new_memory(md)
    twin = md.data_type.numpy
    assert twin is not None
    order = sorted(range(md.ndims), key=lambda d: (-md.strides[d], -md.dims[d], d))
    shape = tuple(md.dims[d] for d in order)
    back = tuple(order.index(d) for d in range(md.ndims))
    if md.size >= _LARGE or not _is_dense(md, order):
        return lambda: _new_aligned(md, twin)
    if back == tuple(range(md.ndims)):
        return lambda: _addressed(np.empty(shape, twin))
    return lambda: _addressed(np.empty(shape, twin).transpose(back))


def _is_dense(md: MemoryDesc, order: list[int]) -> bool:
    expected = 1
    for d in reversed(order):
        if md.dims[d] != 1 and md.strides[d] != expected:
            return False
        expected *= md.dims[d]
    return md.offset0 == 0


def _addressed(array: Array) -> tuple[int, Array]:
    return array.__array_interface__["data"][0], array


def _new_aligned(md: MemoryDesc, twin: np.dtype[Any]) -> tuple[int, Array]:
    buffer = allocate(extent(md).needed)
    return buffer.address, buffer.view(twin, md.dims, md.strides, md.offset0)


def _new_memory(md: MemoryDesc) -> tuple[int, Memory]:
    memory = Memory(md, _CPU)
    return memory._address, memory


# --- formats --------------------------------------------------------------------------------------------------


def target_desc(src: MemoryDesc, dst: Any, dtype: Any) -> MemoryDesc:
    """The destination's descriptor: `dst` says the format, `dtype` the type; what is None stays as in `src`."""
    if isinstance(dst, MemoryDesc):
        return _target_of_desc(dst, dtype)
    data_type = src.data_type if dtype is None else DataType.parse(dtype)
    if dst is None:
        return _same_format(src, data_type)
    if not isinstance(dst, str | tuple | list | FormatTag | Tag | GenericTag):
        raise _bad_format(dst, dtype)
    return MemoryDesc(src.dims, data_type, dst)


def _target_of_desc(dst: MemoryDesc, dtype: Any) -> MemoryDesc:
    if dtype is None or DataType.parse(dtype) is dst.data_type:
        return dst
    raise InvalidArguments(
        "reorder: dtype and dst disagree",
        where=f"dst {dst}",
        why=f"dtype is {DataType.parse(dtype)}, the descriptor says {dst.data_type}",
        hint="leave dtype out, or give dst as a tag",
    )


def _same_format(src: MemoryDesc, data_type: DataType) -> MemoryDesc:
    """The same order of axes and blocks, dense."""
    order = sorted(range(src.ndims), key=lambda d: (-abs(src.strides[d]), d))
    return MemoryDesc(src.dims, data_type, Tag(tuple(order), src.inner_blks, src.inner_idxs))


def _bad_format(dst: Any, dtype: Any) -> InvalidArguments:
    return InvalidArguments(
        "reorder: dst is no format",
        where=f"dst {dst!r:.60}, dtype {dtype!r:.60}",
        why=f"a {type(dst).__name__} names no layout",
        hint='pass a tag such as "nhwc" or "nChw16c", strides as a tuple, a rs.MemoryDesc, or None',
    )


# --- the general path -----------------------------------------------------------------------------------------


def _general(x: Any, dst: Any, src: Any, dtype: Any, attr: PrimitiveAttr, out: Any, engine: Engine | None) -> Any:
    device = _engine_of(x, engine)
    source = _as_source(x, src, device)
    if out is None:
        if attr.freeze().sum is not None:
            raise InvalidArguments("reorder: beta without out", why="beta multiplies what out holds", hint="pass out=")
        target = Memory(target_desc(source.desc, dst, dtype), device)
        Reorder(source, target, attr).execute(Stream(target.engine), source, target)
        return target if target.desc.inner_blks else np.asarray(target)
    target = _as_target(source.desc, dst, dtype, out, device)
    if overlaps(source, target):
        hint = "pass another array; in place works where both have the same layout and element size"
        raise _refused("x and out overlap (N9)", hint, Problem(source.desc, target.desc, attr.freeze()))
    Reorder(source, target, attr).execute(Stream(device), source, target)
    return out


def _engine_of(x: Any, engine: Engine | None) -> Engine:
    if engine is not None and not isinstance(engine, Engine):
        raise InvalidArguments(
            "reorder: engine is no engine", why=f"it is {type(engine).__name__}", hint='pass rs.Engine("cpu")'
        )
    if engine is not None:
        return engine
    return x.engine if isinstance(x, Memory) and x else _CPU


def _as_source(x: Any, src: Any, engine: Engine) -> Memory:
    if not isinstance(x, Memory):
        return Memory.from_numpy(x, src, engine)
    if src is not None:
        raise InvalidArguments("reorder: src with a Memory", why="a Memory has its own descriptor", hint="leave src out")
    if not x:
        raise InvalidArguments("reorder: the source memory is empty", hint="give it a descriptor and an engine")
    return x if x.engine is engine else Memory(x.desc, engine, x)


def _as_target(src: MemoryDesc, dst: Any, dtype: Any, out: Any, engine: Engine) -> Memory:
    if isinstance(out, Memory):
        return _checked_target(src, dst, dtype, out)
    if not isinstance(out, np.ndarray):
        raise InvalidArguments(
            "reorder: out is no array", why=f"it is {type(out).__name__}", hint="pass a NumPy array or a rs.Memory"
        )
    target = _out_desc(src, describe(out), dst, dtype)
    return Memory(target.desc, engine, target.buffer_of(out))


def _checked_target(src: MemoryDesc, dst: Any, dtype: Any, out: Memory) -> Memory:
    if dst is None and dtype is None:
        return out
    wanted = target_desc(src, out.desc if dst is None else dst, dtype)
    if wanted == out.desc:
        return out
    raise InvalidArguments(
        "reorder: out does not lie as dst and dtype say",
        where=f"out {out.desc}; wanted {wanted}",
        why="the descriptors differ",
        hint="pass dst=None to take the layout of out",
    )


# --- factors --------------------------------------------------------------------------------------------------


def _factor(value: Any, name: str) -> float:
    if type(value) is float:
        return value
    if np.ndim(value):
        if name == "scale":
            raise Unimplemented(
                "reorder: scale per axis is not provided by this version",
                why=f"scale has shape {np.shape(value)}",
                hint="pass one number",
            )
        raise InvalidArguments(f"reorder: {name} is no number", why=f"it has shape {np.shape(value)}")
    return to_f32(value, f"reorder: {name}")


def _attr(scale: Any, beta: Any) -> PrimitiveAttr:
    attr = PrimitiveAttr()
    if scale is not None:
        attr.set_output_scales(0, [_factor(scale, "scale")])
    weight = _factor(beta, "beta")
    if weight != 0.0:
        ops = PostOps()
        ops.append_sum(weight)
        attr.set_post_ops(ops)
    return attr


def _refuse_missing(zero_point: Any, axis: Any, post_ops: Any) -> None:
    given = {"zero_point": zero_point, "axis": axis, "post_ops": post_ops}
    name = next(name for name, value in given.items() if value is not None)
    raise Unimplemented(
        f"reorder: {name} is not provided by this version",
        why="one scale for the whole tensor and beta are",
        hint=f"leave {name} out",
    )


def _refused(why: str, hint: str, problem: Problem) -> InvalidArguments:
    return InvalidArguments("reorder is not possible", where=problem.where(), why=why, hint=hint)


# --- verbose --------------------------------------------------------------------------------------------------


def _timed(recipe: _Recipe, source: int, target: int, factors: Factors, alpha: float, result: Any) -> Any:
    clock = _Clock()
    recipe.program.run(source, target, factors.address)
    clock.report(recipe.program, recipe.problem, alpha, 0.0)
    return result


class _Clock:
    """Times one run and writes its verbose line."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def report(self, program: Program, problem: Problem, alpha: float, beta: float) -> None:
        ms = (time.perf_counter() - self._start) * 1e3
        attr = Attr(alpha, SumOp(beta) if beta else None)
        shown = _Shown(program.name, program.why, Problem(problem.src, problem.dst, attr))
        write(verbose_fields("exec", shown, _CPU, ms))


class _Shown(NamedTuple):
    """What a verbose line says of a run."""

    name: str
    why: str
    problem: Problem
