"""What a reorder of arrays or memories of one kind needs, worked out once: layouts, types and formats.

`for_new(...)` and `for_out(...)` find the recipe of a kind; a warm call is one look-up and one native call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments
from ..primitives.problem import Problem, check_problem
from ..primitives.reorder import is_same_place
from ..runtime.alloc import Array, address_of, allocate, extent
from ..runtime.cache import follow_capacity, get_primitive_cache_capacity
from ..runtime.describe import TARGET, Described
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.overlap import share_bytes_at
from ..runtime.views import element_type
from .carriers import NumpyType, as_type
from .ends import Kind, described
from .formats import check_out, out_desc, target_desc, wanted_of_out

# Outputs from here on are aligned to a page, as streaming stores like it.
_LARGE = 1 << 18
_CPU = Engine("cpu")

Run = Callable[[int, int, int], None]


class Recipe:
    """How to reorder arrays or memories of one kind: `run(src, dst, params)` on the addresses of offset 0.

    `below`: how many bytes offset 0 of the source lies before the address of its `End`. `is_new` until the
    first run.
    """

    __slots__ = ("below", "is_new", "problem", "program", "run")

    def __init__(self, problem: Problem, below: int) -> None:
        self.problem, self.below = check_problem(problem), below
        self.program = problem.make_program()
        self.is_new = True
        self.run: Run = self._run_first

    def prepare(self) -> None:
        """Compile, and let later runs go straight to the machine code where nothing has to be decided."""
        self.run = self.program.direct_call() or self.program.run
        self.is_new = False

    def _run_first(self, src: int, dst: int, params: int) -> None:
        # Only now, when everything has been checked, is it worth compiling.
        self.prepare()
        self.run(src, dst, params)


class NewRecipe(Recipe):
    """How to reorder into a new result: `make()` gives its address and the result, still empty."""

    __slots__ = ("make",)

    def __init__(self, problem: Problem, below: int) -> None:
        super().__init__(problem, below)
        self.make = maker(problem.dst)


class OutRecipe(Recipe):
    """How to reorder into an array or memory that is there.

    `reach`: one past the highest byte that is read, counted from the address of the source's `End`.
    """

    __slots__ = ("_dst", "_in_place", "_src", "out_below", "reach")

    def __init__(self, problem: Problem, below: int, out_below: int) -> None:
        super().__init__(problem, below)
        self.out_below = out_below
        self._src, self._dst = extent(problem.src)[:2], extent(problem.dst)[:2]
        self.reach = self._src[1] - below
        self._in_place = is_same_place(problem.src, problem.dst)

    def span(self, dst: int) -> tuple[int, int]:
        """The first byte that is written, and the one behind the last."""
        return dst + self._dst[0], dst + self._dst[1]

    def check_apart(self, src: int, dst: int) -> None:
        """Raise InvalidArguments where writing could change the source before it is read (N9)."""
        if src + self._src[0] >= dst + self._dst[1] or dst + self._dst[0] >= src + self._src[1]:
            return
        if src == dst and self._in_place:
            return
        if share_bytes_at(self.problem.src, src, self.problem.dst, dst):
            raise overlapping(self.problem)


def overlapping(problem: Problem) -> InvalidArguments:
    """The error for an `out` that shares bytes with `x`."""
    return InvalidArguments(
        "reorder: x and out overlap",
        code="RS-N09",
        where=problem.where(),
        why="elements would be written before they are read (N9)",
        hint="pass another array, or a copy of x; in place works where layout and element size are the same",
    )


def _make_new(x: Kind, dst: Any, to: Any, is_scaled: bool) -> NewRecipe:
    source = described(x)
    problem = Problem(source.desc, target_desc(source.desc, dst, to), _flagged(is_scaled, False))
    return NewRecipe(problem, source.below)


def _make_out(x: Kind, out: Kind, dst: Any, to: Any, is_scaled: bool, is_summed: bool) -> OutRecipe:
    source = described(x)
    target = target_of(source.desc, out, dst, to)
    return OutRecipe(
        Problem(source.desc, target.desc, _flagged(is_scaled, is_summed)), source.below, target.below
    )


def target_of(src: MemoryDesc, out: Kind, dst: Any, to: Any) -> Described:
    """The descriptor of what is written, as `dst` and `to` say: of a memory it is its own.

    Raises InvalidArguments where they say something else.
    """
    found = described(out, TARGET)
    if not isinstance(out, MemoryDesc):
        return out_desc(src, found, dst, to)
    check_out(out, wanted_of_out(src, out, dst, to))
    return found


def _find_new(*kind: Any) -> NewRecipe:
    """With the first call only: the capacity is read when it is needed, not at import."""
    _resize(get_primitive_cache_capacity())
    return for_new(*kind)


def _find_out(*kind: Any) -> OutRecipe:
    _resize(get_primitive_cache_capacity())
    return for_out(*kind)


for_new: Callable[..., NewRecipe] = _find_new
for_out: Callable[..., OutRecipe] = _find_out


def _resize(capacity: int) -> None:
    global for_new, for_out
    for_new, for_out = lru_cache(capacity)(_make_new), lru_cache(capacity)(_make_out)


follow_capacity(_resize)


def _flagged(is_scaled: bool, is_summed: bool) -> Attr:
    """Attributes that stand for any factors: the nest asks only whether there are some."""
    return Attr.common(0.5 if is_scaled else None, beta=0.5 if is_summed else None)


# --- results --------------------------------------------------------------------------------------------


def maker(md: MemoryDesc) -> Callable[[], tuple[int, Any]]:
    """A function that makes an empty result of `md`, and its address."""
    if md.inner_blks or md.data_type.bits < 8:
        return lambda: new_memory(md)
    twin = element_type(md)
    if not md.nelems:
        return lambda: _viewed(md)
    if md.size >= _LARGE or not _is_dense(md):
        return lambda: _new_aligned(md, twin)
    order = _outermost_first(md)
    shape = tuple(md.dims[d] for d in order)
    back = tuple(order.index(d) for d in range(md.ndims))
    if back == tuple(range(md.ndims)):
        return lambda: _addressed(np.empty(shape, twin))
    return lambda: _addressed(np.empty(shape, twin).transpose(back))


def result_maker(
    md: MemoryDesc, dtype: NumpyType | None = None, *, is_memory: bool
) -> Callable[[], tuple[int, Any]]:
    """What makes empty results: memories, or as `maker`, of the type `dtype` if bits go as another."""
    if is_memory:
        return partial(new_memory, md)
    return maker(md) if dtype is None else as_type(maker(md), dtype)


def _outermost_first(md: MemoryDesc) -> list[int]:
    return sorted(range(md.ndims), key=lambda d: (-md.strides[d], -md.dims[d], d))


def _is_dense(md: MemoryDesc) -> bool:
    expected = 1
    for d in reversed(_outermost_first(md)):
        if md.strides[d] != expected:
            return False
        expected *= md.dims[d]
    return md.offset0 == 0


def _viewed(md: MemoryDesc) -> tuple[int, Array]:
    address, memory = new_memory(md)
    return address, np.asarray(memory)


def _addressed(array: Array) -> tuple[int, Array]:
    return address_of(array), array


def _new_aligned(md: MemoryDesc, twin: NumpyType) -> tuple[int, Array]:
    buffer = allocate(extent(md).needed)
    return buffer.address, buffer.view(twin, md.dims, md.strides, md.offset0)


def new_memory(md: MemoryDesc) -> tuple[int, Memory]:
    """An empty memory of `md`, and its address."""
    memory = Memory.allocated(md, _CPU)
    return memory._address, memory
