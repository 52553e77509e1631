"""Recipes of calls that compute: as `recipes`, for what `asked` reads.

A recipe holds the program and where each value of a call goes; a warm call packs them and runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter, sub
from typing import Any, NamedTuple

from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..desc.post_ops import BinaryOp, EltwiseOp
from ..primitives.args import ARG_SRC
from ..primitives.chain import Chain
from ..primitives.problem import Problem, check_problem
from ..runtime.alloc import Array, address_of, extent
from ..runtime.cache import follow_capacity, get_primitive_cache_capacity
from ..runtime.cpu import packed_address, packer
from ..runtime.describe import describe_kind
from ..runtime.engine import Engine
from .arithmetic import Arithmetic, Bound, bind
from .asked import Asked
from .ends import End, described
from .formats import target_desc
from .recipes import NewRecipe, OutRecipe, target_of

_CPU = Engine("cpu")
Places = list[int]
Given = tuple[Any, ...]
"""The fields of an `Arithmetic`."""


class Packing:
    """Where the values and arrays of a call go among the words that its kernel reads."""

    __slots__ = ("_below", "_order", "_pack", "_spans", "_usual")

    def __init__(self, problem: Problem, bound: Bound, asked: Asked) -> None:
        chain = problem.chain()
        self._pack = packer(len(chain.feeds), len(chain.scalars))
        arrays, values = _array_places(problem.attr, chain, asked), _scalar_places(problem.attr, chain, asked)
        self._usual = chain.scalars
        self._order = _picker(arrays, values, len(chain.feeds) + len(chain.scalars))
        memories = [bound.extras[chain.feeds[place].arg] for place in arrays]
        self._below = list(map(_below, asked.arrays))
        self._spans = [extent(memory.desc)[:2] for memory in memories]

    def packed(self, asked: Asked) -> bytes:
        """The words for the values of a call, which must outlive them."""
        addresses = map(sub, map(address_of, asked.arrays), self._below)
        return self._pack(*self._order((*addresses, *asked.values, *self._usual)))

    def is_apart(self, asked: Asked, low: int, high: int) -> bool:
        """True where no array of a call has a byte from `low` up to `high`."""
        for (first, last), below, array in zip(self._spans, self._below, asked.arrays, strict=True):
            start = address_of(array) - below
            if start + first < high and low < start + last:
                return False
        return True


def _is_of_src(attr: Attr) -> bool:
    """True where the zero points are the source's: they come first."""
    return any(arg == ARG_SRC for arg, _ in attr.zero_points)


def _scalar_places(attr: Attr, chain: Chain, asked: Asked) -> Places:
    """The word of each of `asked.values`."""
    shift, factor, _, weight, posts = asked.structure
    places, at = Places(), len(chain.feeds)
    if shift == "one":
        places.append(at if _is_of_src(attr) else at + len(chain.scalars) - 1)
        at += _is_of_src(attr)
    if factor == "one":
        places.append(at)
        at += 1
    parts = (("sum", None), *posts) if weight else posts
    for op, part in zip(attr.post_ops, parts, strict=True):
        if isinstance(op, EltwiseOp):
            places += range(at, at + (0 if isinstance(part, str) else part[1]))
            at += 3
        elif not isinstance(op, BinaryOp):
            places.append(at)
            at += 1
    return places


def _array_places(attr: Attr, chain: Chain, asked: Asked) -> Places:
    """The word of each of `asked.arrays`."""
    places = list(range(len(chain.feeds)))
    if isinstance(asked.structure[0], int) and not _is_of_src(attr):
        places = [places[-1], *places[:-1]]
    return places


def _picker(arrays: Places, values: Places, count: int) -> Callable[[tuple[Any, ...]], Sequence[Any]]:
    """A function from addresses, values and usual scalars, in a row, to the words that a kernel reads."""
    given = [*arrays, *values]
    # Word i, a scalar that no value is for, is usual scalar i - len(arrays), and these begin at len(given).
    usual = len(values)
    picked = [given.index(word) if word in given else usual + word for word in range(count)]
    if picked == list(range(count)):
        return lambda row: row[:count]
    return itemgetter(*picked) if len(picked) > 1 else lambda row: [row[at] for at in picked]


def _below(array: Array) -> int:
    """How many bytes element offset 0 lies before the first element."""
    return describe_kind(array.shape, array.strides, array.dtype).below if array.ndim else 0


# --- recipes ------------------------------------------------------------------------------------------------


class Attributed(NamedTuple):
    """How to do one kind of call: where to, and with which words."""

    recipe: Any
    packing: Packing


def into_new(x: End, dst: Any, to: Any, given: Given, asked: Asked) -> Any:
    """The new result of a call; None where there is no short way. Raises for what does not fit."""
    kind, address, _ = x
    key = (kind, None, dst, to, asked.structure)
    found = _recipes.get(key) or _keep(key, _make_new(key, given, asked))
    if found is None:
        return None
    recipe, packing = found
    target, result = recipe.make()
    words = packing.packed(asked)
    recipe.run(address - recipe.below, target, packed_address(words))
    return result


def into_end(x: End, out: End, dst: Any, to: Any, given: Given, asked: Asked) -> bool:
    """Write to an end; False, with nothing written, where there is no short way. Raises as `into_new`."""
    key = (x[0], out[0], dst, to, asked.structure)
    found = _recipes.get(key) or _keep(key, _make_out(key, given, asked))
    if found is None:
        return False
    recipe, packing = found
    source, target = x[1] - recipe.below, out[1] - recipe.out_below
    recipe.check_apart(source, target)
    if not packing.is_apart(asked, *recipe.span(target)):
        return False
    words = packing.packed(asked)
    recipe.run(source, target, packed_address(words))
    return True


_recipes: dict[tuple[Any, ...], Attributed] = {}


def _keep(key: tuple[Any, ...], made: Attributed | None) -> Attributed | None:
    """Keep as many as the primitive cache does; the first made goes first."""
    capacity = get_primitive_cache_capacity()
    if made is not None and capacity:
        _recipes[key] = made
        _trim(capacity)
    return made


def _trim(capacity: int) -> None:
    # A copy of the keys is made at once, whatever other threads do to the dict.
    beyond = len(_recipes) - capacity
    for key in list(_recipes)[:beyond] if beyond > 0 else ():
        _recipes.pop(key, None)


follow_capacity(_trim)


def _make_new(key: tuple[Any, ...], given: Given, asked: Asked) -> Attributed | None:
    kind, _, dst, to, _ = key
    source = described(kind)
    problem, bound = _bound(given, source.desc, target_desc(source.desc, dst, to))
    if problem.attr.sum is not None or not _is_short(problem, asked):
        return None
    return Attributed(NewRecipe(problem, source.below), Packing(problem, bound, asked))


def _make_out(key: tuple[Any, ...], given: Given, asked: Asked) -> Attributed | None:
    kind, out, dst, to, _ = key
    source = described(kind)
    target = target_of(source.desc, out, dst, to)
    problem, bound = _bound(given, source.desc, target.desc)
    if not _is_short(problem, asked):
        return None
    return Attributed(OutRecipe(problem, source.below, target.below), Packing(problem, bound, asked))


def _bound(given: Given, src: MemoryDesc, dst: MemoryDesc) -> tuple[Problem, Bound]:
    bound = bind(Arithmetic(*given), src, dst, _CPU)
    return Problem(src, dst, bound.attr.freeze()), bound


def _is_short(problem: Problem, asked: Asked) -> bool:
    """True where all that is asked for is computed, and read as it lies."""
    check_problem(problem)
    has_shift, feeds = asked.structure[0] is not None, problem.chain().feeds
    is_whole = has_shift == bool(problem.attr.zero_points) and len(feeds) == len(asked.arrays)
    return is_whole and all(feed.tensor.data_type.bits >= 8 for feed in feeds)
