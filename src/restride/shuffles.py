"""Shuffles of arrays that people hold: groups as oneDNN, as OpenVINO and as torch count them (1.4)."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from .arrays import engine_of
from .desc.memory_desc import MemoryDesc
from .errors import Error, InvalidArguments
from .foreign import is_masked
from .frameworks import shuffle_recipes as recipes
from .frameworks.ends import Kind, both, kind_of
from .frameworks.formats import target_desc
from .frameworks.groups import CHANNEL_SHUFFLE, SHUFFLE, SHUFFLE_CHANNELS, Rule
from .frameworks.shuffle_recipes import ShuffleRecipe, fields, found, overlapping
from .frameworks.tensors import as_numpy, as_target, back_to, is_foreign, written
from .primitives.base import check_destination, check_memory
from .primitives.execution import share_bytes
from .primitives.shuffle_problem import ShuffleProblem
from .primitives.submitting import run_now
from .runtime.alloc import Array, address_of
from .runtime.brought import brought, refuse_host_out
from .runtime.describe import Subject, describe
from .runtime.engine import Engine
from .runtime.memory import Memory
from .verbose import flags, write

__all__ = ["channel_shuffle", "shuffle", "shuffle_channels"]

_CPU = Engine("cpu")


def shuffle(x: Any, *, group_size: int, axis: int = 1, out: Any = None) -> Any:
    """oneDNN's shuffle: `dst[u + v * C/G] = src[u * G + v]` along an axis of C, G the group size (S04).

    x           a NumPy array of any numbers of 1, 2, 4 or 8 bytes, a tensor of torch, what has `__dlpack__`,
                or a `Memory`, blocked ones included
    group_size  from 1 to C, a divisor of it; the number of groups, as others count them, is C / group_size
    axis        from 0 to the last
    out         where to write, in any layout: an array or `Memory` of the dims and the type of `x`, which
                shares no byte with it; it is returned

    Bits are moved, so that NaNs keep their payload. The result has the layout of `x`, dense: NumPy in, NumPy
    out, a tensor in, a tensor out; a `Memory` in, a `Memory` of the same format out, its padding zero.

    Raises InvalidArguments, before anything is written, for an axis that `x` has not, a group size that does
    not divide it, elements that are no numbers or of foreign byte order, and an `out` that is read-only,
    different or overlapping.

    >>> import numpy as np, restride as rs
    >>> rs.shuffle(np.arange(12).reshape(1, 12), group_size=4)
    array([[ 0,  4,  8,  1,  5,  9,  2,  6, 10,  3,  7, 11]])
    """
    return _shuffled(SHUFFLE, x, axis, group_size, out)


def shuffle_channels(x: Any, *, group: int = 1, axis: int = 1, out: Any = None) -> Any:
    """OpenVINO's ShuffleChannels-1: the axis as `group` groups, transposed (O01 to O05).

    `group`: from 1, a divisor of C; it is C / group_size of `shuffle`. `axis` may be negative, and counts
    from the end then. The rest as in `shuffle`.

    >>> import numpy as np, restride as rs
    >>> rs.shuffle_channels(np.arange(12).reshape(1, 12), group=3)
    array([[ 0,  4,  8,  1,  5,  9,  2,  6, 10,  3,  7, 11]])
    """
    return _shuffled(SHUFFLE_CHANNELS, x, axis, group, out)


def channel_shuffle(x: Any, groups: int) -> Any:
    """torch's `channel_shuffle`: axis 1 in `groups` groups; `shuffle_channels(x, group=groups)`.

    >>> import numpy as np, restride as rs
    >>> rs.channel_shuffle(np.arange(12).reshape(1, 12), 3)
    array([[ 0,  4,  8,  1,  5,  9,  2,  6, 10,  3,  7, 11]])
    """
    return _shuffled(CHANNEL_SHUFFLE, x, 1, groups, None)


def _shuffled(rule: Rule, x: Any, axis: Any, number: Any, out: Any) -> Any:
    if type(axis) is not int or type(number) is not int:
        axis, number = rule.parse(axis, number)
    if type(x) is np.ndarray:
        if out is None:
            return _into_new(rule, kind_of(x), address_of(x), axis, number)
        if type(out) is np.ndarray:
            return _into_array(rule, x, axis, number, out)
    made = _of_memories(rule, x, axis, number, out)
    return _general(rule, x, axis, number, out) if made is None else made


# --- on the CPU: arrays and memories whose kind is known ----------------------------------------------------


def _into_new(rule: Rule, kind: Kind, address: int, axis: int, number: int) -> Any:
    recipe = recipes.for_new(rule, kind, axis, number)
    target, result = recipe.make()
    _run(recipe, address - recipe.below, target)
    return result


def _into_array(rule: Rule, x: Array, axis: int, number: int, out: Array) -> Array:
    recipe = recipes.for_out(rule, kind_of(x), kind_of(out), axis, number)
    if not out.flags.writeable:
        raise InvalidArguments(
            f"{rule.call}: out is read-only",
            code="RS-A08",
            where=recipe.problem.where(),
            why="its memory must not be written",
            hint="pass a writable array",
        )
    _into_place(recipe, address_of(x), address_of(out))
    return out


def _of_memories(rule: Rule, x: Any, axis: int, number: int, out: Any) -> Any:
    """The result; None, with nothing written, where only the general path knows, or says what is wrong."""
    ends = both(x, None, out)
    if ends is None:
        return None
    source, target = ends
    try:
        if target is None:
            return _into_new(rule, *source[:2], axis, number)
        recipe = recipes.for_out(rule, source[0], target[0], axis, number)
    except Error:
        return None
    _into_place(recipe, source[1], target[1])
    return out


def _into_place(recipe: ShuffleRecipe, source: int, target: int) -> None:
    source, target = source - recipe.below, target - recipe.out_below
    recipe.check_apart(source, target)
    _run(recipe, source, target)


def _run(recipe: ShuffleRecipe, source: int, target: int) -> None:
    if flags.profile_exec or flags.profile_create:
        _run_reported(recipe, source, target)
    else:
        recipe.run(source, target, 0)


def _run_reported(recipe: ShuffleRecipe, source: int, target: int) -> None:
    """Run, and write the verbose lines; a new recipe has written that of its creation."""
    if not recipe.is_new:
        found(recipe.rule, recipe.problem, _CPU)
    recipe.prepare()
    start = time.perf_counter()
    recipe.run(source, target, 0)
    if flags.profile_exec:
        write(fields("exec", _CPU, recipe.impl, recipe.problem, (time.perf_counter() - start) * 1e3))


# --- any array or Memory ------------------------------------------------------------------------------------


def _general(rule: Rule, x: Any, axis: int, number: int, out: Any) -> Any:
    if _is_array(x) and (out is None or _is_array(out)):
        made = _shuffled(rule, np.asarray(x), axis, number, None if out is None else np.asarray(out))
        return made if out is None else out
    if is_foreign(x) or is_foreign(out):
        source_array = as_numpy(x, f"{rule.call}: x")
        if out is None:
            return back_to(x, _shuffled(rule, source_array, axis, number, None))
        _shuffled(rule, source_array, axis, number, as_target(out, f"{rule.call}: out"))
        return written(out)
    engine = engine_of(x, out, None)
    source = _as_memory(x, engine, Subject.source(rule.call))
    split = rule.split(source.desc.dims, axis, number)
    target = _target(source.desc, out, engine, Subject.target(rule.call))
    _run_memories(rule, ShuffleProblem(source.desc, target.desc, *split), (source, target), engine)
    return target if out is None else out


def _is_array(value: object) -> bool:
    """True for NumPy arrays of any class whose bytes are all there is to them."""
    return isinstance(value, np.ndarray) and not is_masked(value)


def _as_memory(value: Any, engine: Engine, subject: Subject) -> Memory:
    if not isinstance(value, Memory):
        described = describe(value, None, subject)
        return brought(described.desc, engine, described.buffer_of(value))
    if not value:
        hint = "give it a descriptor and an engine"
        raise InvalidArguments(subject.refused, code="RS-M36", why="the memory is empty", hint=hint)
    return value


def _target(source: MemoryDesc, out: Any, engine: Engine, subject: Subject) -> Memory:
    if out is None:
        return Memory(target_desc(source, None, None), engine)
    refuse_host_out(subject.refused, out, engine)
    return _as_memory(out, engine, subject)


def _run_memories(
    rule: Rule, problem: ShuffleProblem, memories: tuple[Memory, Memory], engine: Engine
) -> None:
    impl = found(rule, problem, engine)
    for name, memory, desc in zip(("x", "out"), memories, (problem.src, problem.dst), strict=True):
        check_memory(rule.call, name, memory, desc, engine)
    check_destination(rule.call, memories[1], "out")
    if share_bytes(*memories):
        raise overlapping(rule, problem)
    start = time.perf_counter()
    run_now(impl, engine, memories, (*memories, {}))
    if flags.profile_exec:
        write(fields("exec", engine, impl, problem, (time.perf_counter() - start) * 1e3))
