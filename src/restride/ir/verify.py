"""Checks of loop trees: an invalid tree is rejected with the offending line of its text.

`LoopTree.verify` traverses a tree in the order of its text, and reports each line to the checks. Besides
names, they check memory: an index stays within its tensor at all positions that the guards keep, and no two
positions of an unordered loop write different values to one element, or read what another one writes, as far
as the indices show it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from ..dtypes import DataType
from ..errors import Error, refuse
from .eltwise import ALGORITHMS
from .expression import (
    FOLDS,
    OPERATIONS,
    Affine,
    Apply,
    Coordinate,
    Expr,
    Index,
    Load,
    Ref,
    Scalar,
    TreeAxis,
    operands_of,
    parts_of,
)

if TYPE_CHECKING:
    from .numbers import Number
    from .tree import Guard, LoopTree, TreeTensor

RESERVED = frozenset(
    ("tree", "each", "once", "in", "where", "local", "let", "index", "scalar", "inf", "nan", "one")
)
"""Words that cannot be names, since the text of a tree uses them otherwise."""

# The types of elements that can be indices.
_OF_INDICES = tuple(
    kind for kind in DataType if kind.is_integral and kind.bits >= 8 and kind is not DataType.u64
)
_OF_INTEGERS_ALONE = ("and", "or", "shift_left", "shift_right")
_OF_INTEGERS = (
    *("add", "sub", "mul", "div", "min", "max", "lt", "le", "gt", "ge", "eq", "ne", "select"),
    *_OF_INTEGERS_ALONE,
)
# The most characters in a part of a message.
_SHOWN = 300

Line = tuple[int, str]
"""A line's number, and its text."""

Axes = frozenset[str]


def is_name(text: str) -> bool:
    """Return whether it is a letter or `_`, followed by letters, digits, `_` and `.`."""
    can_begin = text[:1].isalpha() or text[:1] == "_"
    return text.isascii() and can_begin and text.replace("_", "a").replace(".", "a").isalnum()


@dataclass
class _LoopFacts:
    """A loop around the checked line: its properties, and the facts about the items in it."""

    in_order: bool
    number: Number
    extents: dict[str, int] = field(default_factory=dict)
    guards: list[Guard] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    loads: dict[str, set[tuple[Index, ...]]] = field(default_factory=dict)
    stores: dict[tuple[str, tuple[Index, ...]], tuple[int, Axes]] = field(default_factory=dict)
    folded: dict[str, Axes] = field(default_factory=dict)

    def add_store(self, access: tuple[str, tuple[Index, ...]], line: int, used: Axes) -> None:
        """Record that a line stores a value depending on these axes; the first dependent line is reported."""
        first, known = self.stores.get(access, (line, frozenset()))
        self.stores[access] = first if known else line, known | used


class TreeChecks:
    """The checks of one tree. `lines`: the text that it was read from, instead of its own."""

    def __init__(self, tree: LoopTree, lines: Sequence[Line]) -> None:
        self.tree, self.lines = tree, lines
        self.line = len(tree.head)
        self.tensors: dict[str, TreeTensor] = {}
        self.taken = set[str]()
        self.loops: list[_LoopFacts] = []
        self.extents: dict[str, int] = {}
        self.guards: list[Guard] = []
        # The axes that a name depends on, and those of a local tensor's values.
        self.names: dict[str, Axes] = {}
        self.rows: dict[str, Axes] = {}
        # Accesses known to be in range, in these loops with these guards.
        self.inside: dict[tuple[str, tuple[Index, ...]], Axes] = {}

    def fault(self, why: str, hint: str, line: int = 0) -> Error:
        """Return the error for a line: the current one, or another one."""
        lines = self.lines or list(enumerate(str(self.tree).split("\n"), 1))
        number, text = lines[(line or self.line) - 1]
        text, why, hint = (
            f"{part[:_SHOWN]} ..." if len(part) > _SHOWN else part for part in (text.strip(), why, hint)
        )
        return refuse("RS-T02:line", line=number, text=text, why=why, hint=hint)

    def next_line(self) -> None:
        """Advance to the next line."""
        self.line += 1

    @property
    def number(self) -> Number:
        """The type of the line's computation."""
        return self.loops[-1].number if self.loops else self.tree.number

    # --- tensors

    def tensor(self, tensor: TreeTensor) -> None:
        """Check a line that declares a tensor of the caller."""
        self.next_line()
        self._is_free(tensor.name, self.taken, "tensor")
        self.taken.add(tensor.name)
        dims = len(tensor.sizes)
        if not len(tensor.padded) == len(tensor.digits) == dims:
            raise self.fault(
                f"{tensor.name} has {dims} sizes, but other places", "each dim has STRIDE/STEP ..."
            )
        if any(not 0 <= n <= whole for n, whole in zip(tensor.sizes, tensor.padded, strict=True)):
            raise self.fault(
                "a dim has fewer places than indices", "the sizes after `in` are the larger ones"
            )
        for digits in tensor.digits:
            steps = [digit.step for digit in digits]
            if steps[:1] != [1] or any(low >= high for low, high in pairwise(steps)):
                raise self.fault("the steps of a dim must begin at 1 and grow", "the smallest comes last")
        self.tensors[tensor.name] = tensor

    def local(self, tensor: TreeTensor) -> None:
        """Check a line that declares a local tensor."""
        self.next_line()
        self._is_free(tensor.name, self.taken, "tensor")
        self.taken.add(tensor.name)
        if tensor != type(tensor).row_major(tensor.name, tensor.sizes, tensor.data_type):
            raise self.fault(f"{tensor.name} is not dense", "local tensors are row-major")
        if any(size < 0 for size in tensor.sizes):
            raise self.fault("a size is negative", "use extents of 0 or more")
        self.tensors[tensor.name] = tensor
        self.rows[tensor.name] = frozenset()
        self.loops[-1].rows.append(tensor.name)

    def _is_free(self, name: str, known: Iterable[str], what: str) -> None:
        if not is_name(name) or name in RESERVED:
            raise self.fault(
                f"{name!r} is not a valid name", "names have letters, digits, _ and ., and are not keywords"
            )
        if name in known:
            raise self.fault(f"there are two {what}s named {name}", "rename one of them")

    # --- loops

    @contextmanager
    def loop(
        self, axes: Sequence[TreeAxis], *, in_order: bool, number: Number | None = None
    ) -> Iterator[None]:
        """Enter a loop over these axes for the lines checked inside."""
        loop, around = _LoopFacts(in_order, number or self.number), dict(self.names)
        if loop.number is not self.number:
            # Values have one type of number: others pass through tensors.
            self.names = {}
        for axis in axes:
            if axis.name in self.extents:
                raise self.fault(
                    f"the axis {axis.name} exists already", "axes of nested loops must have different names"
                )
            self._is_free(axis.name, (), "axis")
            if axis.extent < 0:
                raise self.fault(f"the extent of {axis.name} is negative", "use an extent of 0 or more")
            self.extents[axis.name] = loop.extents[axis.name] = axis.extent
        self.loops.append(loop)
        self.inside = {}
        yield
        if not in_order:
            self._positions_are_apart(loop)
        self.loops.pop()
        self.names, self.inside = around, {}
        del self.guards[len(self.guards) - len(loop.guards) :]
        for name in loop.extents:
            del self.extents[name]
        for name in loop.rows:
            del self.tensors[name], self.rows[name]
        if loop.folded and loop.number is not self.number:
            raise self.fault(
                f"its results are numbers of {loop.number.name}",
                "store them, and load them where they are used",
            )
        for name, used in loop.folded.items():
            self._is_free(name, self.names, "value")
            self.names[name] = used
        if self.loops:
            outer = self.loops[-1]
            for name, indices in loop.loads.items():
                outer.loads.setdefault(name, set()).update(indices)
            # Each position has separate local tensors.
            for access, (line, used) in loop.stores.items():
                if access[0] not in loop.rows:
                    outer.add_store(access, line, used)

    def guard(self, guard: Guard) -> None:
        """Check a line with a guard of the loop."""
        self.next_line()
        self._affine(guard.index)
        if guard.size < 0:
            raise self.fault("its size is negative", "use a size of 0 or more")
        self.loops[-1].guards.append(guard)
        self.guards.append(guard)
        self.inside = {}

    # --- items

    def let(self, name: str, value: Expr) -> None:
        """Check a line that names a value."""
        used = self.value(value)
        self._is_free(name, self.names, "value")
        self.names[name] = used

    def fold(self, op: str, names: Sequence[str], values: Sequence[Expr]) -> None:
        """Check a line that folds."""
        if len(self.loops) < 2:
            raise self.fault(
                "the result of a fold in the outermost loop cannot be read",
                "nest the folded loop in another one",
            )
        if op not in FOLDS:
            raise self.fault(f"{op} is not a fold", f"the folds are {', '.join(FOLDS)}")
        if op == "moments" and self.number.is_integer:
            raise self.fault("moments needs real numbers", "integers have sum, mul, max, min and argmax")
        states = len(FOLDS[op].identity)
        if not len(names) == len(values) == states:
            raise self.fault(
                f"{op} has a different number of states", f"it has {states} results, and as many operands"
            )
        loop = self.loops[-1]
        used = frozenset[str]().union(*map(self.value, values))
        guarded = {name for guard in loop.guards for name, _ in guard.index.terms}
        for name in names:
            self._is_free(name, loop.folded, "result")
            loop.folded[name] = (used | guarded).difference(loop.extents)

    def store(self, name: str, index: tuple[Index, ...], value: Expr) -> None:
        """Check a line that writes an element."""
        used = self.value(value)
        self._access(name, index)
        for at in index:
            if isinstance(at, Load):
                self.value(at)
        if name in self.rows:
            self.rows[name] |= used
        self.loops[-1].add_store((name, index), self.line, used)

    def value(self, value: Expr) -> Axes:
        """Check an expression of the line; return the axes that it depends on."""
        used = set[str]()
        for part in parts_of(value):
            if isinstance(part, Load):
                used |= self._access(part.tensor, part.index)
                self.loops[-1].loads.setdefault(part.tensor, set()).add(part.index)
            elif isinstance(part, Coordinate):
                used |= self._affine(part.index)
                if part.index.divisor != 1:
                    raise self.fault(f"{part} has a divisor", "the number of an axis is a sum")
            elif isinstance(part, Ref):
                if part.name not in self.names:
                    raise self.fault(
                        f"{part.name} is not defined",
                        "let names a value within its loop, a fold after its loop",
                    )
                used |= self.names[part.name]
            elif isinstance(part, Scalar):
                if self.number is not self.tree.number or self.number.is_integer:
                    raise self.fault("a tree of integers cannot use scalars", "they are real numbers")
                if not 0 <= part.number < self.tree.scalars:
                    raise self.fault(f"{part} does not exist", f"the tree has {self.tree.scalars} scalars")
            elif isinstance(part, Apply):
                self._operation(part)
        return frozenset(used)

    def _operation(self, part: Apply) -> None:
        if part.op not in OPERATIONS and part.op not in ALGORITHMS:
            raise self.fault(
                f"{part.op} is not an operation",
                f"the operations are {', '.join(OPERATIONS)}, and those of post-ops",
            )
        if self.number.is_integer and part.op not in _OF_INTEGERS:
            raise self.fault(f"{part.op} needs real numbers", f"integers have {', '.join(_OF_INTEGERS)}")
        if part.op in _OF_INTEGERS_ALONE and not self.number.is_integer:
            raise self.fault(f"{part.op} needs integers", "let the tree compute in them")
        most = operands_of(part.op)
        least = most if part.op in OPERATIONS else 1
        if not least <= len(part.args) <= most:
            raise self.fault(
                f"{part.op} has {len(part.args)} operands",
                f"it takes {'' if least == most else 'up to '}{most}",
            )

    # --- indices

    def _affine(self, index: Affine) -> Axes:
        """Check an index of known axes; return these."""
        names = index.axes
        if not self.extents.keys() >= names:
            unknown = ", ".join(sorted(names.difference(self.extents)))
            raise self.fault(
                f"the index {index} has unknown axes: {unknown}",
                "axes are defined only within their loop",
            )
        if index.divisor < 1:
            raise self.fault(f"the index {index} has a divisor below 1", "use a divisor of 1 or more")
        if len(names) < len(index.terms) or any(not factor for _, factor in index.terms):
            raise self.fault(
                f"the index {index} has an axis twice, or 0 times", "each axis can occur only once"
            )
        return names

    def _access(self, name: str, index: tuple[Index, ...]) -> Axes:
        """Check an element of a tensor; return the axes that it depends on."""
        tensor = self.tensors.get(name)
        if tensor is None:
            raise self.fault(f"{name} is not a tensor", f"there are {', '.join(self.tensors) or 'none'}")
        if len(tensor.sizes) != len(index):
            raise self.fault(f"{name} does not have {len(index)} dims", f"it has {len(tensor.sizes)}")
        if (name, index) in self.inside:
            return self.inside[name, index]
        used = self.rows.get(name, frozenset[str]())
        for dim, (at, size) in enumerate(zip(index, tensor.sizes, strict=True)):
            if isinstance(at, Load):
                used |= self._element(at, name, dim, size)
            else:
                used |= self._affine(at)
                self._is_inside(name, dim, at, size)
        if name not in self.rows:
            self.inside[name, index] = used
        return used

    def _element(self, load: Load, name: str, dim: int, size: int) -> Axes:
        """Check an index that is an element of a tensor; return the axes that it depends on."""
        tensor = self.tensors.get(load.tensor)
        if load.elements:
            raise self.fault(
                f"the index {load} has elements in its index", "indices of an element must be sums of axes"
            )
        if load.tensor in self.rows or (tensor and tensor.data_type not in _OF_INDICES):
            raise self.fault(
                f"the index {load} is not an integer",
                f"it must be an element of a caller's tensor of {', '.join(map(str, _OF_INDICES))}",
            )
        if not size and 0 not in self.extents.values():
            raise self.fault(f"dim {dim} of {name} is empty", "every index is out of range")
        return self._access(load.tensor, load.index)

    def _is_inside(self, name: str, dim: int, index: Affine, size: int) -> None:
        if 0 in self.extents.values() or any(not guard.size for guard in self.guards):
            # There are no positions.
            return
        low, high = _range(index, self.extents)
        for guard in self.guards:
            if low >= 0 and high < size:
                return
            least, most = _range_behind(guard, index, self.extents)
            low, high = max(low, least), min(high, most)
        if low <= high and (low < 0 or high >= size):
            raise self.fault(
                f"index {dim} of {name}, {index}, ranges from {low} to {high}, but its size is {size}",
                f"exclude positions out of range: where 0 <= {index} < {size}",
            )

    # --- positions

    def _positions_are_apart(self, loop: _LoopFacts) -> None:
        """Check that no position of a finished loop writes what another reads, or writes differently."""
        axes = {name for name, extent in loop.extents.items() if extent > 1}
        guarded = {name for guard in self.guards for name in _single(guard)}
        for (name, index), (line, used) in loop.stores.items():
            if name in loop.rows:
                continue
            there = {axis for at in index if isinstance(at, Affine) for axis in at.axes}
            scattered = {axis for at in index if isinstance(at, Load) for axis in at.axes}
            for axis in sorted(axes & ((used - guarded) | scattered) - there):
                raise self.fault(
                    f"positions of {axis} write different values to one element",
                    f"use {axis} in the index, fold over it, or let the loop run in order",
                    line,
                )
            for other in loop.loads.get(name, ()):
                if _is_of_another(index, other, loop.extents):
                    at = Load(name, other)
                    raise self.fault(
                        f"another position of the loop reads it as {at}",
                        "let the loop run in order: each ... in order:",
                        line,
                    )


def _single(guard: Guard) -> tuple[str, ...]:
    """Return the axis that a guard restricts to at most one position, if it is about one."""
    ends = [name for name, factor in guard.index.terms if abs(factor) >= guard.size * guard.index.divisor]
    return tuple(ends) if len(guard.index.terms) == 1 else ()


def _range(index: Affine, extents: Mapping[str, int]) -> tuple[int, int]:
    """Return the least and the greatest value of an index."""
    low = high = index.constant
    for name, factor in index.terms:
        end = factor * (extents[name] - 1)
        low, high = (low + end, high) if end < 0 else (low, high + end)
    return low // index.divisor, high // index.divisor


def _range_behind(guard: Guard, index: Affine, extents: Mapping[str, int]) -> tuple[int, int]:
    """Return the same where a guard holds: the index is a multiple of the guarded sum, plus a rest."""
    if guard.index.divisor != 1 or index.divisor != 1 or not guard.index.terms:
        return (0, guard.size - 1) if guard.index == index else _range(index, extents)
    name, factor = guard.index.terms[0]
    times, left = divmod(dict(index.terms).get(name, 0), factor)
    if left or not times:
        return _range(index, extents)
    low, high = _range(index - guard.index * times, extents)
    ends = (0, times * (guard.size - 1))
    return low + min(ends), high + max(ends)


def _is_of_another(index: tuple[Index, ...], other: tuple[Index, ...], extents: Mapping[str, int]) -> bool:
    """Return whether indices differing by constants, or by elements, meet at two positions of these axes."""
    moves: dict[str, int] = {}
    pairs = list(zip(index, other, strict=True))
    for one, two in pairs:
        if isinstance(one, Load) or isinstance(two, Load):
            apart = {at.axis for at, there in pairs if isinstance(at, Affine) and at == there}
            return index != other and any(n > 1 for name, n in extents.items() if name not in apart)
        if one.terms != two.terms or one.divisor != 1 or two.divisor != 1:
            return False
        distance = two.constant - one.constant
        if len(one.terms) != 1:
            if distance:
                return False
            continue
        ((name, factor),) = one.terms
        steps, left = divmod(distance, factor)
        if left or moves.setdefault(name, steps) != steps:
            return False
    moved = {name: steps for name, steps in moves.items() if steps}
    return bool(moved) and all(abs(steps) < extents.get(name, 0) for name, steps in moved.items())
