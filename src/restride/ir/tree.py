"""Loop trees: programs that compute over several tensors, with folds, windows and loops that share values.

A loop nest (`ir/nest.py`) moves each element of one tensor to one place of another; a tree computes. Its
grammar::

    tree   := tensor* each*
    tensor := name type sizes digits [local]
    each   := axis* guard* tensor* { item* }     its items for every position of the axes, in any order
    item   := each | let | fold | store
    let    := name = expr                        a value of this position
    fold   := name* op expr*                     folded over the positions of the loop that it stands in
    store  := tensor index* expr                 one element, converted to the tensor's type (N1 to N5)
    guard  := index size                         positions where the index is outside [0, size) are left out

Items run in order. A `let` is known to the items after it, and inside of them; what a `fold` has found, to
the items after its loop. `expr` and `index` are those of `ir/expression.py`. A position writes no element
that another one of the same loop reads or writes, unless it is the same value.

A **local** tensor belongs to one position of the loop that names it: a row that is computed once and used
twice. Its elements are of the type that is computed in.

An index of a tensor is logical; `digits` say where the element is, so that blocked formats need nothing more.
**Padding**: where a tensor has more places along a dim than indices, `padded`, the tree writes zeros there,
along every axis that is an index of a `store` and runs over all of the dim. It never reads them.

All is computed as f32, as f64, or as integers that wrap (`ir/numbers.py`). A sum of f32 has one order for
each kind of kernel, which depends on the tree alone: never on threads or instruction sets.
`ir/interpret_tree.py` says what a tree means.

A softmax over the channels of each pixel, for an example, with a row that stays in the caches::

    each n 2, h 5, w 3:
      local row[17]
      each c 17:
        m = max(src[n, c, h, w])
      each c 17:
        let e = exp_down(src[n, c, h, w] - m)
        row[c] = e
        s = sum(e)
      each c 17:
        dst[n, c, h, w] = row[c] / s
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from .digits import IndexDigit, IndexDigits, TensorOperand, index_digits
from .eltwise import ALGORITHMS
from .expression import (
    FOLDS,
    OPERATIONS,
    Affine,
    Apply,
    Coordinate,
    Expr,
    Load,
    Ref,
    Scalar,
    TreeAxis,
    index_of,
    operands_of,
    parts_of,
)
from .numbers import Number

# --- tensors ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TreeTensor:
    """A tensor of a tree: how many indices each dim has, how many places, and the digits of an index.

    A dim that is repeated has one index; `load` and `store` put 0 there.
    """

    name: str
    data_type: DataType
    sizes: tuple[int, ...]
    padded: tuple[int, ...]
    digits: tuple[IndexDigits, ...]
    base: int = 0

    @classmethod
    def of_desc(cls, name: str, md: MemoryDesc) -> TreeTensor:
        """A tensor as a concrete descriptor has it."""
        digits = tuple(index_digits(md, dim) for dim in range(md.ndims))
        return cls(name, md.data_type, md.dims, md.padded_dims, digits, md.offset0)

    @classmethod
    def of_operand(cls, name: str, operand: TensorOperand, dims: tuple[int, ...]) -> TreeTensor:
        """An operand of a computation, which is repeated along some of `dims`."""
        is_repeated = (all(digit.stride == 0 for digit in digits) for digits in operand.dims)
        sizes = tuple(1 if repeated else n for repeated, n in zip(is_repeated, dims, strict=True))
        return cls(name, operand.data_type, sizes, sizes, operand.dims, operand.base)

    @classmethod
    def row_major(cls, name: str, sizes: tuple[int, ...], data_type: DataType = DataType.f32) -> TreeTensor:
        """A dense tensor, as locals and temporaries are."""
        strides = [prod(sizes[dim + 1 :]) for dim in range(len(sizes))]
        digits = tuple((IndexDigit(1, stride),) for stride in strides)
        return cls(name, data_type, sizes, sizes, digits)

    @property
    def span(self) -> tuple[int, int]:
        """The elements [low, high) of its memory among which all its places are; both 0 where it has none."""
        if 0 in self.padded:
            return 0, 0
        low = high = self.base
        for size, digits in zip(self.padded, self.digits, strict=True):
            ends = (*(digit.step for digit in digits[1:]), size)
            for digit, end in zip(digits, ends, strict=True):
                reach = (-(-end // digit.step) - 1) * digit.stride
                low, high = low + min(reach, 0), high + max(reach, 0)
        return low, high + 1

    def load(self, *indices: Affine | TreeAxis | int) -> Load:
        """The element at an index for each dim."""
        return Load(self.name, self._index(indices))

    def store(self, indices: tuple[Affine | TreeAxis | int, ...], value: Expr) -> Store:
        """The item that writes a value there."""
        return Store(self.name, self._index(indices), value)

    def _index(self, indices: tuple[Affine | TreeAxis | int, ...]) -> tuple[Affine, ...]:
        found = index_of(*indices)
        return tuple(Affine() if size == 1 else at for at, size in zip(found, self.sizes, strict=True))

    def __str__(self) -> str:
        sizes = "x".join(map(str, self.sizes)) or "one"
        strides = (" ".join(f"{d.stride}/{d.step}" for d in reversed(digits)) for digits in self.digits)
        padded = "" if self.padded == self.sizes else f" in {'x'.join(map(str, self.padded))}"
        return f"{self.name} {self.data_type} {sizes}{padded} + {self.base}: {', '.join(strides)}"


# --- items --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Guard:
    """Only positions where an index is within [0, size), and its divisor divides, are run."""

    index: Affine
    size: int

    def __str__(self) -> str:
        return f"0 <= {self.index} < {self.size}"


@dataclass(frozen=True, slots=True)
class Let:
    """A name for a value."""

    name: str
    value: Expr

    def __str__(self) -> str:
        return f"let {self.name} = {self.value}"


@dataclass(frozen=True, slots=True)
class Fold:
    """Values folded over the positions of a loop: a name and a value for each state of the operation."""

    op: str
    names: tuple[str, ...]
    values: tuple[Expr, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.names)} = {self.op}({', '.join(map(str, self.values))})"


@dataclass(frozen=True, slots=True)
class Store:
    """A value written to one element."""

    tensor: str
    index: tuple[Affine, ...]
    value: Expr

    def __str__(self) -> str:
        return f"{self.tensor}[{', '.join(map(str, self.index))}] = {self.value}"


@dataclass(frozen=True, slots=True)
class Each:
    """Loops: the items for every position of the axes where all guards hold."""

    axes: tuple[TreeAxis, ...]
    items: tuple[Item, ...]
    guards: tuple[Guard, ...] = ()
    locals: tuple[TreeTensor, ...] = ()

    @property
    def positions(self) -> int:
        """The number of positions, guards aside."""
        return prod(axis.extent for axis in self.axes)

    @property
    def folds(self) -> tuple[Fold, ...]:
        """The folds of this loop."""
        return tuple(item for item in self.items if isinstance(item, Fold))

    def __str__(self) -> str:
        return "\n".join(_each_lines(self))


Item = Each | Let | Fold | Store


def fold_over(op: str, name: str, value: Expr) -> Fold:
    """A fold of one state."""
    return Fold(op, (name,), (value,))


# --- the tree -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoopTree:
    """A frozen program; equal trees share a kernel. `tensors`: those of the caller, in the order of a step's
    places. `scalars`: how many numbers an execution brings. `backwards`: from memory the outermost positions
    are run from the last one on, since the step before has left the end of what it read in the caches.
    """

    tensors: tuple[TreeTensor, ...]
    items: tuple[Each, ...]
    scalars: int = 0
    number: Number = Number.f32
    backwards: bool = False

    @property
    def wide(self) -> bool:
        """True where all is computed as f64."""
        return self.number is Number.f64

    def tensor(self, name: str) -> TreeTensor:
        """A tensor by its name, local ones too."""
        found = (each for each in (*self.tensors, *_locals(self.items)) if each.name == name)
        return next(found)

    @property
    def stores(self) -> tuple[Store, ...]:
        """All stores."""
        return tuple(item for item in _all_items(self.items) if isinstance(item, Store))

    @property
    def loads(self) -> tuple[Load, ...]:
        """All loads."""
        parts = (
            part for item in _all_items(self.items) for value in values_of(item) for part in parts_of(value)
        )
        return tuple(part for part in parts if isinstance(part, Load))

    @property
    def written(self) -> tuple[str, ...]:
        """The tensors of the caller that are written."""
        names = {store.tensor for store in self.stores}
        return tuple(tensor.name for tensor in self.tensors if tensor.name in names)

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to write."""
        sizes = {tensor.name: tensor.padded for tensor in self.tensors}
        return all(0 in sizes[name] for name in self.written)

    def verify(self) -> LoopTree:
        """Return self if well formed; else raise ValueError: a fault of the planner, never of a user."""
        names = [tensor.name for tensor in (*self.tensors, *_locals(self.items))]
        if len(set(names)) < len(names):
            raise ValueError(f"two tensors of one name in\n{self}")
        known = {tensor.name: tensor for tensor in self.tensors}
        for item in self.items:
            if item.folds:
                raise ValueError(f"a fold in the outermost loop of\n{self}")
            _Verifier(self, known).each(item, frozenset(), frozenset())
        return self

    def __str__(self) -> str:
        return "\n".join([*map(str, self.tensors), *map(str, self.items)])


def values_of(item: Item) -> tuple[Expr, ...]:
    """The expressions of an item, without those of the items in it."""
    if isinstance(item, Each):
        return ()
    return item.values if isinstance(item, Fold) else (item.value,)


def _all_items(items: tuple[Item, ...]) -> Iterator[Item]:
    for item in items:
        yield item
        if isinstance(item, Each):
            yield from _all_items(item.items)


def _locals(items: tuple[Item, ...]) -> Iterator[TreeTensor]:
    for item in _all_items(items):
        if isinstance(item, Each):
            yield from item.locals


def _each_lines(each: Each) -> Iterator[str]:
    yield f"each {', '.join(map(str, each.axes)) or 'once'}:"
    for guard in each.guards:
        yield f"  where {guard}"
    for tensor in each.locals:
        yield f"  local {tensor.name}[{', '.join(map(str, tensor.sizes))}]"
    for item in each.items:
        yield from ("  " + line for line in str(item).splitlines())


class _Verifier:
    """Checks that every name is known where it is used."""

    def __init__(self, tree: LoopTree, tensors: dict[str, TreeTensor]) -> None:
        self.tree, self.tensors = tree, tensors

    def each(self, each: Each, axes: frozenset[str], names: frozenset[str]) -> frozenset[str]:
        """Check a loop; the names that are known after it."""
        own = [axis.name for axis in each.axes]
        if len(set(own)) < len(own) or axes.intersection(own) or any(a.extent < 0 for a in each.axes):
            raise self.fault(f"axes {', '.join(own)} are not new")
        inside, found = axes.union(own), names
        self.tensors = self.tensors | {tensor.name: tensor for tensor in each.locals}
        for guard in each.guards:
            self.index(guard.index, inside)
        after = set[str]()
        for item in each.items:
            if isinstance(item, Each):
                found |= self.each(item, inside, found)
                continue
            for value in values_of(item):
                self.value(value, inside, found)
            if isinstance(item, Let):
                found |= {item.name}
            elif isinstance(item, Fold):
                self.fold(item)
                after.update(item.names)
            else:
                self.place(item.tensor, item.index, inside)
        return frozenset(after)

    def fold(self, item: Fold) -> None:
        states = len(FOLDS[item.op].identity) if item.op in FOLDS else -1
        if not len(item.names) == len(item.values) == states:
            raise self.fault(f"{item} has other states than its operation")

    def value(self, value: Expr, axes: frozenset[str], names: frozenset[str]) -> None:
        for part in parts_of(value):
            if isinstance(part, Load):
                self.place(part.tensor, part.index, axes)
            elif isinstance(part, Coordinate):
                self.index(part.index, axes)
            elif isinstance(part, Ref) and part.name not in names:
                raise self.fault(f"{part.name} is not known yet")
            elif isinstance(part, Scalar) and not 0 <= part.number < self.tree.scalars:
                raise self.fault(f"{part} is not there")
            elif isinstance(part, Apply):
                self.operation(part)

    def operation(self, part: Apply) -> None:
        if part.op not in OPERATIONS and part.op not in ALGORITHMS:
            raise self.fault(f"{part.op} is no operation")
        most = operands_of(part.op)
        if len(part.args) > most or (part.op in OPERATIONS and len(part.args) < most):
            raise self.fault(f"{part} has {len(part.args)} operands")

    def place(self, name: str, index: tuple[Affine, ...], axes: frozenset[str]) -> None:
        if name not in self.tensors or len(self.tensors[name].sizes) != len(index):
            raise self.fault(f"{name} is no tensor of {len(index)} dims")
        for each in index:
            self.index(each, axes)

    def index(self, index: Affine, axes: frozenset[str]) -> None:
        if index.divisor < 1 or any(name not in axes for name, _ in index.terms):
            raise self.fault(f"index {index} is of axes that are not there")

    def fault(self, what: str) -> ValueError:
        return ValueError(f"{what} in\n{self.tree}")
