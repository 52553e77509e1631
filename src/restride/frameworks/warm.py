"""The warm path of a reorder: NumPy in, NumPy or a new Memory out, by a recipe that is worked out once."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from ..errors import Error, InvalidArguments
from ..primitives.problem import Problem
from ..primitives.reorder import verbose_fields
from ..runtime.alloc import Array, address_of
from ..runtime.engine import Engine
from ..verbose import flags, write
from . import attributed, recipes
from .asked import read
from .factors import Applied
from .formats import format_key, type_key
from .nibbles import NIBBLES
from .recipes import Recipe

_CPU = Engine("cpu")


def into_new(x: Array, dst: Any, dtype: Any, applied: Applied) -> Any:
    """A new array or `Memory` of `x` in a format and a type."""
    if applied.is_summed:
        raise beta_without_out()
    recipe = recipes.for_new(x.shape, x.strides, x.dtype, dst, dtype, applied.is_scaled)
    source = address_of(x) - recipe.below
    target, result = recipe.make()
    if flags.profile_exec or flags.profile_create:
        _run_reported(recipe, source, target, applied)
    else:
        recipe.run(source, target, applied.params)
    return result


def into_array(x: Array, dst: Any, dtype: Any, applied: Applied, out: Array) -> Array:
    """`x` in the layout and the type of `out`, which is returned."""
    kinds = (x.shape, x.strides, x.dtype), (out.shape, out.strides, out.dtype)
    recipe = recipes.for_out(*kinds, dst, dtype, applied.is_scaled, applied.is_summed)
    source, target = address_of(x) - recipe.below, address_of(out) - recipe.out_below
    if not out.flags.writeable:
        raise _read_only(recipe.problem)
    recipe.check_apart(source, target)
    if flags.profile_exec or flags.profile_create:
        _run_reported(recipe, source, target, applied)
    else:
        recipe.run(source, target, applied.params)
    return out


def computed(
    x: Any, dst: Any, src: Any, dtype: Any, given: tuple[Any, ...], out: Any, engine: Engine | str | None
) -> Any:
    """The result of a call that computes; None, with nothing written, where only the general path knows."""
    is_plain = type(x) is np.ndarray and src is None and engine is None and x.dtype.num not in NIBBLES
    is_told = flags.profile_exec or flags.profile_create
    asked = read(*given) if is_plain and not is_told else None
    if asked is None:
        return None
    try:
        to, kind = dst if type(dst) is str else format_key(dst), dtype if dtype is None else type_key(dtype)
        if out is None:
            return attributed.into_new(x, to, kind, given, asked)
        if type(out) is np.ndarray and out.dtype.num not in NIBBLES:
            return attributed.into_array(x, out, to, kind, given, asked)
    except Error:
        pass  # the general path says it in full
    return None


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


def beta_without_out() -> InvalidArguments:
    """The error for a `beta` that has nothing to multiply."""
    return InvalidArguments(
        "reorder: beta without out", code="RS-A09", why="beta multiplies what out holds", hint="pass out="
    )


def _read_only(problem: Problem) -> InvalidArguments:
    return InvalidArguments(
        "reorder: out is read-only",
        code="RS-A08",
        where=problem.where(),
        why="its memory must not be written",
        hint="pass a writable array",
    )
