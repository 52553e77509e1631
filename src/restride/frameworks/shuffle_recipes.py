"""What a shuffle of arrays or memories of one kind needs, worked out once: shapes, strides, types and groups.

A shuffle moves bits, so arrays of any numbers of 1, 2, 4 or 8 bytes go as a data type of that width (N11).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments
from ..primitives.base import DEFAULT_ATTR, find_implementation
from ..primitives.prop_kind import PropKind
from ..primitives.shuffle_problem import ShuffleProblem, check_shuffle, shuffle_fields, solve_shuffle
from ..runtime.alloc import extent
from ..runtime.cache import follow_capacity, get_primitive_cache_capacity
from ..runtime.describe import TARGET, Described, Subject, describe_kind
from ..runtime.engine import Engine
from ..runtime.overlap import share_bytes_at
from .carriers import NumpyType, carried
from .ends import Kind, described
from .formats import target_desc
from .groups import Rule
from .recipes import Run, result_maker

_CPU = Engine("cpu")


class ShuffleRecipe:
    """How to shuffle arrays or memories of one kind: `run(src, dst, 0)` on the addresses of element offset 0.

    `below` and `out_below`: how many bytes offset 0 lies before the address of the `End` that is read, and of
    the one that is written; `reach` is one past the highest byte that is read, counted from the former.
    `make()` gives a new result of the layout of `x`, and its address. `is_new` until the first run.
    """

    __slots__ = (
        "_dst",
        "_src",
        "below",
        "impl",
        "is_new",
        "make",
        "out_below",
        "problem",
        "reach",
        "rule",
        "run",
    )

    def __init__(self, rule: Rule, problem: ShuffleProblem, below: int, out_below: int) -> None:
        self.rule, self.problem = rule, problem
        self.below, self.out_below = below, out_below
        self.impl = found(rule, problem, _CPU)
        self._src, self._dst = extent(problem.src)[:2], extent(problem.dst)[:2]
        self.reach = self._src[1] - below
        self.is_new = True
        self.run: Run = self._run_first
        self.make: Callable[[], tuple[int, Any]] = _no_result

    def prepare(self) -> None:
        """Compile, and let later runs go straight to the machine code where nothing has to be decided."""
        self.run = self.impl.prepare() or self.impl.program.run
        self.is_new = False

    def check_apart(self, src: int, dst: int) -> None:
        """Raise InvalidArguments where both share bytes (S18)."""
        if src + self._src[0] >= dst + self._dst[1] or dst + self._dst[0] >= src + self._src[1]:
            return
        if share_bytes_at(self.problem.src, src, self.problem.dst, dst):
            raise overlapping(self.rule, self.problem)

    def _run_first(self, src: int, dst: int, params: int) -> None:
        # Only now, when everything has been checked, is it worth compiling.
        self.prepare()
        self.run(src, dst, params)


def found(rule: Rule, problem: ShuffleProblem, engine: Engine) -> Any:
    """The solved problem, from the primitive cache or now: it counts there, whoever asks (P16).

    Raises InvalidArguments, Unimplemented for problems that have no answer.
    """
    return find_implementation(
        (ShuffleProblem, problem, engine),
        lambda: solve_shuffle(check_shuffle(rule.call, problem), engine),
        lambda op, impl, ms: fields(op, engine, impl, problem, ms),
    )


def fields(op: str, engine: Engine, impl: Any, problem: ShuffleProblem, ms: float) -> list[object]:
    """The fields of a verbose line (spec 1.6)."""
    head, how = (
        (op, engine.kind, PropKind.forward_inference),
        f"axis:{problem.axis} group:{problem.group_size}",
    )
    return shuffle_fields(head, impl, problem.src, (DEFAULT_ATTR, how), ms)


def overlapping(rule: Rule, problem: ShuffleProblem) -> InvalidArguments:
    """The error for an `out` that shares bytes with `x`."""
    return InvalidArguments(
        f"{rule.call}: x and out overlap",
        code="RS-S18",
        where=problem.where(),
        why="elements would be written before they are read: a shuffle is not done in place (S18)",
        hint="pass another array, or leave out out",
    )


def _carried(kind: Kind, subject: Subject) -> Described:
    """As `described`, with arrays as the type that their bits are moved as."""
    if isinstance(kind, MemoryDesc):
        return described(kind)
    shape, strides, dtype, *_ = kind
    return describe_kind(shape, strides, carried(dtype), subject=subject)


def _make_new(rule: Rule, x: Kind, axis: int, number: int) -> ShuffleRecipe:
    source = _carried(x, Subject.source(rule.call))
    target = target_desc(source.desc, None, None)
    problem = ShuffleProblem(source.desc, target, *rule.split(target.dims, axis, number))
    recipe = ShuffleRecipe(rule, problem, source.below, 0)
    dtype = None if isinstance(x, MemoryDesc) else x[2]
    recipe.make = result_maker(problem.dst, dtype, is_memory=dtype is None)
    return recipe


def _make_out(rule: Rule, x: Kind, out: Kind, axis: int, number: int) -> ShuffleRecipe:
    if isinstance(x, MemoryDesc) or isinstance(out, MemoryDesc):
        # A memory has one of our types: bits of others have no place there.
        source, target = described(x), described(out, TARGET)
    else:
        source, target = _carried(x, Subject.source(rule.call)), _carried(out, Subject.target(rule.call))
        if x[2] != out[2]:
            raise _other_type(rule, x[2], out[2])
    problem = ShuffleProblem(source.desc, target.desc, *rule.split(source.desc.dims, axis, number))
    return ShuffleRecipe(rule, problem, source.below, target.below)


def _other_type(rule: Rule, of: NumpyType, to: NumpyType) -> InvalidArguments:
    return InvalidArguments(
        f"{rule.call}: x and out are of different types",
        code="RS-S11",
        where=f"x {str(of)[:60]}, out {str(to)[:60]}",
        why="a shuffle moves bits, and converts nothing",
        hint="pass an out of the type of x",
    )


def _no_result() -> tuple[int, Any]:
    raise AssertionError("a recipe for a given out makes no result")


def _find_new(*kind: Any) -> ShuffleRecipe:
    """With the first call only: the capacity is read when it is needed, not at import."""
    _resize(get_primitive_cache_capacity())
    return for_new(*kind)


def _find_out(*kind: Any) -> ShuffleRecipe:
    _resize(get_primitive_cache_capacity())
    return for_out(*kind)


for_new: Callable[..., ShuffleRecipe] = _find_new
for_out: Callable[..., ShuffleRecipe] = _find_out


def _resize(capacity: int) -> None:
    global for_new, for_out
    for_new, for_out = lru_cache(capacity)(_make_new), lru_cache(capacity)(_make_out)


follow_capacity(_resize)
