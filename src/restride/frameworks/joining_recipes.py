"""What a concat or a sum of NumPy arrays of one kind needs, learnt from the first call that went well.

A call that is checked in full brings the solved problem; later ones with arrays of the same shapes, strides
and types only look up their kind, and bring addresses. What is not surely of a known kind has none: it takes
the way on which everything is checked.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..runtime.alloc import Array, address_of, extent
from ..runtime.cache import follow_capacity, get_primitive_cache_capacity
from .carriers import NumpyType, as_type
from .nibbles import NIBBLES
from .recipes import maker

_LAYOUTS = (type(None), str, MemoryDesc)
_TYPES = (type(None), str, type, np.dtype, DataType)
# Integers that f32 holds, and so does the double that stands for them in a key.
_WHOLE = 1 << 24


class JoiningRecipe:
    """How to join or add arrays of one kind: `run(arrays, out)`, or None where they overlap.

    `below`: how many bytes element offset 0 lies before the first element of each array; `out_below`: before
    that of `out`. `moved`: the type of arrays whose bits go as another type.
    """

    __slots__ = ("_below", "_make", "_out_below", "_reach", "_reaches", "_run")

    def __init__(
        self, impl: Any, below: Sequence[int], out_below: int, moved: NumpyType | None = None
    ) -> None:
        problem = impl.problem
        self._below, self._out_below, self._run = tuple(below), out_below, impl.run_apart
        self._make = maker(problem.dst) if moved is None else as_type(maker(problem.dst), moved)
        self._reaches = tuple(extent(md)[:2] for md in problem.srcs)
        self._reach = extent(problem.dst)[:2]

    def run(self, arrays: Sequence[Array], out: Array | None) -> Any:
        """The result; None, and nothing is written, where an array shares bytes with `out`."""
        sources = [address_of(x) - below for x, below in zip(arrays, self._below, strict=True)]
        if out is None:
            target, result = self._make()
        else:
            target, result = address_of(out) - self._out_below, out
            if not self._is_apart(sources, target):
                return None
        self._run(sources, target)
        return result

    def _is_apart(self, sources: Sequence[int], target: int) -> bool:
        low, high = target + self._reach[0], target + self._reach[1]
        reaches = zip(sources, self._reaches, strict=True)
        return all(source + first >= high or source + end <= low for source, (first, end) in reaches)


def kind_of(how: tuple[Any, ...], arrays: Any, layout: Any, dtype: Any, out: Any) -> Hashable | None:
    """What a recipe is kept by; None for arguments that are not plain. `how`: the call and its number."""
    if type(arrays) not in (list, tuple) or not all(map(_is_plain, arrays)):
        return None
    if not isinstance(layout, _LAYOUTS) or not isinstance(dtype, _TYPES):
        return None
    if out is not None and not (_is_plain(out) and out.flags.writeable):
        return None
    into = None if out is None else _array_kind(out)
    return (how, tuple([_array_kind(x) for x in arrays]), layout, type(dtype), dtype, into)


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


def _is_plain(x: object) -> bool:
    return type(x) is np.ndarray and x.dtype.num not in NIBBLES


def _array_kind(x: Array) -> tuple[Any, ...]:
    return x.shape, x.strides, x.dtype


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
