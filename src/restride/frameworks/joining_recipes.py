"""What a concat or a sum of arrays and memories of one kind needs, learnt from the first call that went well.

A call that is checked in full brings the solved problem; later ones with ends of the same kinds only look
that up, and bring addresses. What is not surely of a known kind has no recipe: it takes the way on which
everything is checked.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..runtime.alloc import extent
from ..runtime.cache import follow_capacity, get_primitive_cache_capacity
from .ends import End, read_from, write_to

Make = Callable[[], tuple[int, Any]]

_LAYOUTS = (type(None), str, MemoryDesc)
_TYPES = (type(None), str, DataType)
_NUMPY_TYPES = (type, np.dtype)
# Integers that f32 holds, and so does the double that stands for them in a key.
_WHOLE = 1 << 24


Joined = tuple[Hashable, list[End], End | None]
"""The kind of a call, by which recipes are kept; the ends that are read; the one that is written, if any."""


class JoiningRecipe:
    """How to join or add what is of one kind: `run(joined, out)`, or None where they overlap.

    `below`: how many bytes element offset 0 lies before the address of each end; `out_below`: before that of
    `out`. `make()` gives the address of a new result, and the result.
    """

    __slots__ = ("_below", "_make", "_out_below", "_reach", "_reaches", "_run")

    def __init__(self, impl: Any, below: Sequence[int], out_below: int, make: Make) -> None:
        problem = impl.problem
        self._below, self._out_below, self._run = tuple(below), out_below, impl.run_apart
        self._make = make
        self._reaches = tuple(extent(md)[:2] for md in problem.srcs)
        self._reach = extent(problem.dst)[:2]

    def run(self, joined: Joined, out: Any) -> Any:
        """The result; None, and nothing is written, where an end that is read shares bytes with `out`."""
        _, ends, written = joined
        sources = [at - below for (_, at, _), below in zip(ends, self._below, strict=True)]
        if written is None:
            target, result = self._make()
        else:
            target, result = written[1] - self._out_below, out
            if not self._is_apart(sources, target):
                return None
        self._run(sources, target)
        return result

    def _is_apart(self, sources: Sequence[int], target: int) -> bool:
        low, high = target + self._reach[0], target + self._reach[1]
        reaches = zip(sources, self._reaches, strict=True)
        return all(source + first >= high or source + end <= low for source, (first, end) in reaches)


def joined(how: tuple[Any, ...], arrays: Any, layout: Any, dtype: Any, out: Any) -> Joined | None:
    """The ends of a call and its kind; None where they are not plain. `how`: the call and its number."""
    if type(arrays) not in (list, tuple):
        return None
    if type(layout) not in _LAYOUTS or not (type(dtype) in _TYPES or isinstance(dtype, _NUMPY_TYPES)):
        return None
    target = None if out is None else write_to(out)
    sources = [end for x in arrays if (end := read_from(x)) is not None]
    if len(sources) < len(arrays) or (target is None and out is not None):
        return None
    into = None if target is None else target[0]
    kind = how, tuple([x[0] for x in sources]), layout, type(dtype), dtype, into
    return kind, sources, target


def scales_kind(scales: Any) -> Hashable | None:
    """Scales as a key that tells 0.0 from -0.0; None for what is no plain number."""
    if scales is None:
        return ()
    if type(scales) not in (list, tuple) or not all(map(_is_plain_number, scales)):
        return None
    return struct.pack(f"{len(scales)}d", *scales)


def find(kind: Hashable) -> JoiningRecipe | None:
    """The recipe of a kind, if it has been learnt."""
    return _recipes.get(kind)


def keep(kind: Hashable, recipe: JoiningRecipe) -> None:
    """Remember a recipe; as many are kept as primitives, and the oldest goes first."""
    with _lock:
        _recipes[kind] = recipe
    _trim(get_primitive_cache_capacity())


def _is_plain_number(value: object) -> bool:
    return type(value) is float or (type(value) is int and -_WHOLE <= value <= _WHOLE)


_recipes: dict[Hashable, JoiningRecipe] = {}
_lock = threading.RLock()


def _trim(capacity: int) -> None:
    with _lock:
        for kind in list(_recipes)[: max(len(_recipes) - capacity, 0)]:
            del _recipes[kind]


follow_capacity(_trim)


def _after_fork_in_child() -> None:
    """A lock held by a thread that is not here would never be released."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
