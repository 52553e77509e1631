"""Contractions: loop trees that sum products of two tensors, as strides that a kernel can follow.

A convolution, an inner product and a matrix product are trees of one shape::

    each outer axes:
      each summed axes where guards:
        total = sum(first[...] * second[...])
      dst[...] = expr of total

`find_contraction` cuts every axis into the digits that the layouts of all tensors need, so that each loop
moves each tensor by a stride. The role of a loop depends on the tensors that its axis indexes:

| role | in `first` | in `second` | the kernel |
| --- | --- | --- | --- |
| row | yes | no | broadcasts an element of `first` |
| column | no | yes | loads a vector of `second` |
| batch | both or neither | | loops over it; along lanes it loads vectors of both |
| summed | not in the destination | | adds up |

`first` and `second` are swapped if the destination is contiguous along what would be a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

from ...dtypes import DataType
from ...ir.digits import IndexDigits, stride_at
from ...ir.expression import Affine, Expr, Load, Ref, TreeAxis, parts_of
from ...ir.tree import Each, LoopTree, TreeTensor
from .parts import COLUMN_SUMS, ROW_SUMS, parts_of_contraction, replaced

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ContractionLoop:
    """One digit of an axis: `extent` positions of `step` indices; a stride for each tensor, in elements.

    `size` is the extent of the whole axis, which the digits of a tail do not reach.
    """

    axis: str
    step: int
    extent: int
    size: int
    strides: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """True if the loop covers all of its axis."""
        return self.step == 1 and self.extent == self.size

    def __str__(self) -> str:
        return f"{self.axis}/{self.step} {self.extent}: {' '.join(map(str, self.strides))}"


@dataclass(frozen=True, slots=True)
class Limit:
    """Terms are skipped where `constant + sum of coefficient * index of an axis` is outside [0, size)."""

    terms: tuple[tuple[str, int], ...]
    constant: int
    size: int

    def coefficient(self, axis: str) -> int:
        """Return the coefficient of an axis."""
        return dict(self.terms).get(axis, 0)


@dataclass(frozen=True, slots=True)
class TensorAccess:
    """A tensor as accessed by one load or store: the offset of index 0 of all loops is `base`."""

    tensor: TreeTensor
    base: int


@dataclass(frozen=True, slots=True)
class ContractionResult:
    """A stored result: a value of the sums and of loads; `access` is the number of its destination."""

    access: int
    value: Expr


def has_integers(kind: DataType) -> bool:
    """Return whether elements are integers, or halves of small ones: sums of groups of them are exact."""
    return kind.is_integral or kind is DataType.f4_e2m1


@dataclass(frozen=True, slots=True)
class ContractionGroups:
    """Sums of groups: the `loop` over them, and the `value` of each sum, which is added to the others.

    `loads`: what the value reads; their accesses are the last ones. `moved`: the offset added to elements of
    the second factor.
    """

    loop: ContractionLoop
    value: Expr
    loads: tuple[Load, ...]
    moved: int


@dataclass(frozen=True, slots=True)
class Contraction:
    """Sums of products. `accesses`: the two factors, the destination, then the further inputs and outputs of
    the results.

    The sums share the first factor: sum i multiplies the element of the second at distance `parts[i]`.
    `results` are expressions of the sums by name, of sums of one factor alone, and of loads, whose
    accesses are in the order of `loads`. `places`: the number of each access's tensor among the tree's.
    `is_integral`: bytes are summed in 32 bits, and results are computed in f64. `groups`: for sums of groups,
    of floats, or of integers small enough that floats represent them.
    """

    accesses: tuple[TensorAccess, ...]
    places: tuple[int, ...]
    outer: tuple[ContractionLoop, ...]
    summed: tuple[ContractionLoop, ...]
    limits: tuple[Limit, ...]
    roles: tuple[tuple[str, str], ...]
    parts: tuple[int, ...]
    results: tuple[ContractionResult, ...]
    loads: tuple[Load, ...]
    tensors: int
    scalars: int
    is_integral: bool = False
    groups: ContractionGroups | None = None

    @property
    def sums_integers(self) -> bool:
        """True if products are of integers."""
        types = (access.tensor.data_type for access in self.accesses[:2])
        return self.is_integral or (self.groups is not None and all(map(has_integers, types)))

    def has_sums_of(self, name: str) -> bool:
        """Return whether a result needs `COLUMN_SUMS` or `ROW_SUMS`."""
        return any(part == Ref(name) for result in self.results for part in parts_of(result.value))

    def role(self, loop: ContractionLoop) -> str:
        """Return the role of an outer loop."""
        return dict(self.roles)[loop.axis]

    def __str__(self) -> str:
        names = ", ".join(f"{a.tensor.name} {a.tensor.data_type} + {a.base}" for a in self.accesses)
        outer = (f"for {loop} ({self.role(loop)})" for loop in self.outer)
        summed = (f"  sum {loop}" for loop in self.summed)
        results = (f"= {result.value}" for result in self.results)
        return "\n".join([names, *outer, *summed, *results])


FIRST, SECOND, DESTINATION = 0, 1, 2
"""The numbers of the accesses of every contraction."""


def find_contraction(tree: LoopTree) -> Contraction | None:
    """Return the tree as a contraction of linear strides; None if it is not one, or layouts are not linear.

    An empty sum is not one: kernels of contractions take at least one step.
    """
    return None if parts_of_contraction(tree) is None else _contraction_of(tree)


# Choosing formats and scheduling both analyze the same tree.
@lru_cache(maxsize=64)
def _contraction_of(tree: LoopTree) -> Contraction | None:
    parts = parts_of_contraction(tree)
    assert parts is not None
    outer, inner, products, results = parts[:4]
    if any(axis.extent == 0 for axis in inner.axes):
        return None
    around, of_group = parts.groups or (None, None)
    axes = (*outer.axes, *(() if around is None else around.axes), *inner.axes)
    product, values = products[0], [value for _, value in results]
    loads = _distinct(part for value in values for part in parts_of(value) if isinstance(part, Load))
    target, *others = (Load(store.tensor, store.index) for store, _ in results)
    own = () if of_group is None else _distinct(part for part in parts_of(of_group) if isinstance(part, Load))
    reached = [*product, target, *loads, *others, *own]
    digits = _digits(axes, tree, reached)
    if digits is None:
        return None
    accesses = tuple(_access(tree, load) for load in reached)
    roles = tuple((axis.name, _role(axis.name, *product)) for axis in outer.axes)
    names = [tensor.name for tensor in tree.tensors]
    limits = tuple(limit for limit in _limits(inner, axes) if limit is not None)
    limited = {name for limit in limits for name, _ in limit.terms}
    starts = [_access(tree, second).base for _, second in products]
    targets = (DESTINATION, *range(len(reached) - len(own) - len(others), len(reached) - len(own)))
    groups = None
    if around is not None and of_group is not None:
        loops = merged_loops(_loops(around.axes, digits, tree, reached), limited, {})
        if len(loops) != 1:
            return None
        groups = ContractionGroups(loops[0], of_group, own, parts.moved)
    contraction = Contraction(
        accesses,
        tuple(names.index(access.tensor.name) for access in accesses),
        merged_loops(_loops(outer.axes, digits, tree, reached), limited, dict(roles)),
        merged_loops(_loops(inner.axes, digits, tree, reached), limited, {}),
        limits,
        roles,
        tuple(start - starts[0] for start in starts),
        tuple(ContractionResult(*each) for each in zip(targets, values, strict=True)),
        loads,
        len(tree.tensors),
        tree.scalars,
        tree.wide,
        groups,
    )
    return _turned(contraction)


def _distinct(loads: Iterable[Load]) -> tuple[Load, ...]:
    return tuple(dict.fromkeys(loads))


def _role(axis: str, first: Load, second: Load) -> str:
    in_first, in_second = (axis in load.axes for load in (first, second))
    if in_first == in_second:
        return "batch"
    return "row" if in_first else "column"


# --- digits and strides -------------------------------------------------------------------------------------


def _dims(tree: LoopTree, load: Load) -> Iterable[tuple[Affine, IndexDigits]]:
    pairs = zip(load.index, tree.tensor(load.tensor).digits, strict=True)
    return [(at, digits) for at, digits in pairs if isinstance(at, Affine)]


def _digits(
    axes: Sequence[TreeAxis], tree: LoopTree, loads: Sequence[Load]
) -> dict[str, tuple[int, ...]] | None:
    """Return the steps of the digits of every axis, outermost first; None if they do not divide each other,
    or an index mixes digits of several axes.
    """
    steps: dict[str, set[int]] = {axis.name: {1} for axis in axes}
    for load in loads:
        for at, digits in _dims(tree, load):
            if len(digits) == 1:
                continue
            whole = digits[-1].step
            single = [name for name, factor in at.terms if factor % whole]
            if at.constant % whole or len(single) > 1 or any(dict(at.terms)[name] != 1 for name in single):
                return None
            for name in single:
                steps[name].update(digit.step for digit in digits)
    roles: dict[str, tuple[int, ...]] = {}
    for axis in axes:
        chain = sorted(step for step in steps[axis.name] if step < axis.extent or step == 1)
        if any(high % low for low, high in pairwise(chain)):
            return None
        roles[axis.name] = tuple(reversed(chain))
    return roles


def _loops(
    axes: Sequence[TreeAxis], digits: dict[str, tuple[int, ...]], tree: LoopTree, loads: Sequence[Load]
) -> tuple[ContractionLoop, ...]:
    loops: list[ContractionLoop] = []
    for axis in axes:
        above = -(-axis.extent // digits[axis.name][0]) * digits[axis.name][0]
        for step in digits[axis.name]:
            strides = tuple(_stride(tree, load, axis.name, step) for load in loads)
            extent = min(above // step, -(-axis.extent // step))
            loops.append(ContractionLoop(axis.name, step, extent, axis.extent, strides))
            above = step
    return tuple(loops)


def _stride(tree: LoopTree, load: Load, axis: str, step: int) -> int:
    """Return how far the offset moves for `step` of the index of an axis."""
    moved = 0
    for at, digits in _dims(tree, load):
        factor = dict(at.terms).get(axis, 0)
        whole = digits[-1]
        if len(digits) == 1 or factor % whole.step == 0:
            moved += factor * step // whole.step * whole.stride if factor else 0
        else:
            moved += stride_at(digits, step)
    return moved


def merged_loops(
    loops: Sequence[ContractionLoop], limited: set[str], roles: Mapping[str, str]
) -> tuple[ContractionLoop, ...]:
    """Merge loops of one role that are contiguous in every tensor."""
    found: list[ContractionLoop] = []
    for loop in loops:
        merged = loop
        while found and _continue_each_other(found[-1], merged, limited, roles):
            merged = _as_one(found.pop(), merged)
        found.append(merged)
    return tuple(found)


def _continue_each_other(
    outer: ContractionLoop, inner: ContractionLoop, limited: set[str], roles: Mapping[str, str]
) -> bool:
    if roles.get(outer.axis) != roles.get(inner.axis) or limited & {outer.axis, inner.axis}:
        return False
    are_digits = outer.axis == inner.axis and outer.step == inner.step * inner.extent
    if not are_digits and not (outer.is_whole and inner.is_whole):
        return False
    return all(a == b * inner.extent for a, b in zip(outer.strides, inner.strides, strict=True))


def _as_one(outer: ContractionLoop, inner: ContractionLoop) -> ContractionLoop:
    if outer.axis == inner.axis:
        # Outermost digits can exceed the positions of the axis.
        positions = -(-inner.size // inner.step)
        return replace(inner, extent=min(outer.extent * inner.extent, positions))
    size = outer.extent * inner.extent
    return replace(inner, extent=size, size=size)


def _access(tree: LoopTree, load: Load) -> TensorAccess:
    tensor = tree.tensor(load.tensor)
    constants = (at.constant // digits[-1].step * digits[-1].stride for at, digits in _dims(tree, load))
    return TensorAccess(tensor, tensor.base + sum(constants))


def _limits(inner: Each, axes: Sequence[TreeAxis]) -> Iterable[Limit | None]:
    """Yield the guards that exclude anything."""
    extents = {axis.name: axis.extent for axis in axes}
    for guard in inner.guards:
        ends = [factor * (extents[name] - 1) for name, factor in guard.index.terms]
        low = guard.index.constant + sum(min(end, 0) for end in ends)
        high = guard.index.constant + sum(max(end, 0) for end in ends)
        is_whole = low >= 0 and high < guard.size
        yield None if is_whole else Limit(guard.index.terms, guard.index.constant, guard.size)


# --- which factor is broadcast ------------------------------------------------------------------------------


def lane_loop(contraction: Contraction) -> ContractionLoop | None:
    """Return the outer loop along which the destination is contiguous, if any."""
    unit = [loop for loop in contraction.outer if loop.strides[DESTINATION] == 1]
    return max(unit, key=lambda loop: loop.extent, default=None)


_OTHER_ROLE = {"row": "column", "column": "row", "batch": "batch"}


def _turned(contraction: Contraction) -> Contraction | None:
    """Swap the factors if the destination is contiguous along a row; None if sums share the first."""
    lanes = lane_loop(contraction)
    if lanes is None or contraction.role(lanes) != "row":
        return contraction
    if len(contraction.parts) > 1 or contraction.groups is not None:
        return None

    names: dict[str, Expr] = {ROW_SUMS: Ref(COLUMN_SUMS), COLUMN_SUMS: Ref(ROW_SUMS)}

    def turned(loops: tuple[ContractionLoop, ...]) -> tuple[ContractionLoop, ...]:
        return tuple(replace(loop, strides=_exchanged(loop.strides)) for loop in loops)

    return replace(
        contraction,
        accesses=_exchanged(contraction.accesses),
        places=_exchanged(contraction.places),
        outer=turned(contraction.outer),
        summed=turned(contraction.summed),
        roles=tuple((axis, _OTHER_ROLE[role]) for axis, role in contraction.roles),
        results=tuple(replace(result, value=replaced(result.value, names)) for result in contraction.results),
    )


def _exchanged(row: tuple[T, ...]) -> tuple[T, ...]:
    first, second, *rest = row
    return (second, first, *rest)
