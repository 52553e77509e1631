"""The warm path of a reorder: arrays and memories of the CPU, by a recipe that is worked out once."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from ..errors import Error, InvalidArguments
from ..primitives.problem import Problem
from ..primitives.reorder import verbose_fields
from ..runtime.alloc import Array, address_of
from ..runtime.engine import Engine
from ..verbose import flags, write
from . import attributed, recipes
from .asked import read
from .ends import Kind, both, kind_of
from .factors import Applied
from .formats import format_key, type_key
from .recipes import OutRecipe, Recipe

_CPU = Engine("cpu")


def into_new(kind: Kind, address: int, dst: Any, dtype: Any, applied: Applied) -> Any:
    """A new array or `Memory` of what lies at an address, which the caller keeps alive."""
    if applied.is_summed:
        raise beta_without_out()
    recipe = recipes.for_new(kind, dst, dtype, applied.is_scaled)
    source = address - recipe.below
    target, result = recipe.make()
    if flags.profile_exec or flags.profile_create:
        _run_reported(recipe, source, target, applied)
    else:
        recipe.run(source, target, applied.params)
    return result


def into_array(x: Array, dst: Any, dtype: Any, applied: Applied, out: Array) -> Array:
    """`x` in the layout and the type of `out`, which is returned."""
    recipe = recipes.for_out(kind_of(x), kind_of(out), dst, dtype, applied.is_scaled, applied.is_summed)
    if not out.flags.writeable:
        raise _read_only(recipe.problem)
    _into_place(recipe, address_of(x), address_of(out), applied)
    return out


def from_or_to_memory(x: Any, dst: Any, src: Any, dtype: Any, applied: Applied, out: Any) -> Any:
    """The result of a call with a `Memory` or a physical array; None, with nothing written, where only the
    general path knows.
    """
    ends = both(x, src, out)
    if ends is None:
        return None
    source, target = ends
    try:
        to, wanted = format_key(dst), type_key(dtype)
        if target is None:
            return into_new(*source[:2], to, wanted, applied)
        is_scaled, is_summed = applied.is_scaled, applied.is_summed
        recipe = recipes.for_out(source[0], target[0], to, wanted, is_scaled, is_summed)
        _into_place(recipe, source[1], target[1], applied)
        return out
    except Error:
        return None  # the general path says it in full


def _into_place(recipe: OutRecipe, source: int, target: int, applied: Applied) -> None:
    """Run on the addresses of two ends. Raises InvalidArguments where they share bytes."""
    source, target = source - recipe.below, target - recipe.out_below
    recipe.check_apart(source, target)
    if flags.profile_exec or flags.profile_create:
        _run_reported(recipe, source, target, applied)
    else:
        recipe.run(source, target, applied.params)


def computed(x: Any, dst: Any, src: Any, dtype: Any, given: tuple[Any, ...], out: Any) -> Any:
    """The result of a call that computes; None, with nothing written, where only the general path knows."""
    is_told = flags.profile_exec or flags.profile_create
    ends = None if is_told else both(x, src, out)
    asked = None if ends is None else read(*given)
    if ends is None or asked is None:
        return None
    source, target = ends
    try:
        to, kind = dst if type(dst) is str else format_key(dst), dtype if dtype is None else type_key(dtype)
        if target is None:
            return attributed.into_new(source, to, kind, given, asked)
        return out if attributed.into_end(source, target, to, kind, given, asked) else None
    except Error:
        return None  # the general path says it in full


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
