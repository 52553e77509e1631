"""Loop trees: programs that compute over several tensors, with folds, windows and loops that share values.

A loop nest (`ir/nest.py`) moves each element of one tensor to one place of another; a tree computes. Its
text, written by `str` and read by `ir/parse.py`, has a line for each tensor, loop, guard and item::

    tree   := ["tree" ("in" number | N "scalars" | "backwards"), ...] tensor* each*
    tensor := name type sizes ["in" padded] "+" base ":" digits, ...      sizes: 2x17, or `one` without dims
    digits := STRIDE/STEP ...                         of a dim: maps its index to offsets, largest step first
    each   := "each" (axis N, ... | "once") ["in" number] ["in order"] ":"
                  guard* local* item*                 2 spaces deeper
    guard  := "where 0 <=" sum "<" N                  positions where that does not hold are skipped
    local  := "local" name[N, ...] [type]             a tensor of each position of the loop
    item   := each
            | "let" name "=" expr                     a value of this position
            | name, ... "=" op(expr, ...)             folded over the positions of the loop
            | tensor[index, ...] "=" expr             one element, converted to the tensor's type (N1 to N5)
    expr   := number | "scalar" N | name | tensor[index, ...] | "index"(sum)
            | op(expr, ...) | expr ("+" | "-" | "*" | "/") expr
    index  := sum | tensor[sum, ...]
    sum    := N * axis + ... + N | (N * axis + ... + N) / N

`type` is a data type, N an integer, `number` one of `ir/numbers.py`: everything is computed in f32, f64, or
wrapping integers, as the tree specifies, or a loop for its body. Values pass from one number to another only
through tensors, as the bits of floats. Operations and folds are those of `ir/expression.py` and of eltwise.
Items run in order. A `let` is visible to the items after it, and inside them; the result of a fold, to the
items after its loop. Positions of a loop run in any order, also concurrently: none writes an element that
another one reads or writes, unless it is the same value. Positions of `each ... in order` run sequentially,
the last axis fastest: each can read what those before it have written. A local tensor belongs to one
position; one of f32 holds numbers of the tree.

An index is logical: it is within the sizes at all positions that guards keep. Digits map it to an offset, so
that blocked formats need nothing more. An index that is an element of an integer tensor is exact, counts from
the end if negative, and is clamped if out of range: a gather, or a scatter. **Padding**: where a tensor has
more places along a dim than indices, the tree writes zeros there, and never reads them. A sum of f32 has one
order for each kind of kernel, which depends only on the tree, never on threads or instruction sets.
`ir/verify.py` rejects invalid trees; `ir/interpret_tree.py` defines their meaning. A softmax over channels
of each pixel, with a row that stays in cache::

    src f32 2x17x15 + 0: 255/1, 15/1, 1/1
    dst f32 2x17x15 + 0: 255/1, 15/1, 1/1
    each n 2, w 15:
      local row[17]
      each c 17:
        m = max(src[n, c, w])
      each c 17:
        let e = exp_down(src[n, c, w] - m)
        row[c] = e
        s = sum(e)
      each c 17:
        dst[n, c, w] = row[c] / s

Rows added to the rows given by `to`, each time including what was added before::

    src f32 40x9 + 0: 9/1, 1/1
    to s32 40 + 0: 1/1
    dst f32 6x9 + 0: 9/1, 1/1
    each t 40 in order:
      each c 9:
        dst[to[t], c] = dst[to[t], c] + src[t, c]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from .digits import IndexDigit, IndexDigits, TensorOperand, index_digits
from .expression import Affine, Expr, Index, Load, TreeAxis, parts_of, place_of
from .numbers import Number
from .verify import Line, TreeChecks

# --- tensors ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TreeTensor:
    """A tensor of a tree: for each dim the number of indices, that of places, and the digits of an index.

    A broadcast dim has one index; `load` and `store` use 0 there.
    """

    name: str
    data_type: DataType
    sizes: tuple[int, ...]
    padded: tuple[int, ...]
    digits: tuple[IndexDigits, ...]
    base: int = 0

    @classmethod
    def of_desc(cls, name: str, md: MemoryDesc) -> TreeTensor:
        """Return the tensor of a concrete descriptor."""
        digits = tuple(index_digits(md, dim) for dim in range(md.ndims))
        return cls(name, md.data_type, md.dims, md.padded_dims, digits, md.offset0)

    @classmethod
    def of_operand(cls, name: str, operand: TensorOperand, dims: tuple[int, ...]) -> TreeTensor:
        """Return an operand of a computation, which is broadcast along some of `dims`."""
        is_repeated = (all(digit.stride == 0 for digit in digits) for digits in operand.dims)
        sizes = tuple(1 if repeated else n for repeated, n in zip(is_repeated, dims, strict=True))
        return cls(name, operand.data_type, sizes, sizes, operand.dims, operand.base)

    @classmethod
    def row_major(cls, name: str, sizes: tuple[int, ...], data_type: DataType = DataType.f32) -> TreeTensor:
        """Return a dense tensor, as for locals and temporaries."""
        strides = [prod(sizes[dim + 1 :]) for dim in range(len(sizes))]
        digits = tuple((IndexDigit(1, stride),) for stride in strides)
        return cls(name, data_type, sizes, sizes, digits)

    @property
    def span(self) -> tuple[int, int]:
        """The range [low, high) of elements in memory that contains all its places; both 0 if it is empty."""
        if 0 in self.padded:
            return 0, 0
        low = high = self.base
        for size, digits in zip(self.padded, self.digits, strict=True):
            ends = (*(digit.step for digit in digits[1:]), size)
            for digit, end in zip(digits, ends, strict=True):
                reach = (-(-end // digit.step) - 1) * digit.stride
                low, high = low + min(reach, 0), high + max(reach, 0)
        return low, high + 1

    def load(self, *indices: Index | TreeAxis | int) -> Load:
        """Load the element at an index for each dim."""
        return Load(self.name, self._index(indices))

    def store(self, indices: tuple[Index | TreeAxis | int, ...], value: Expr) -> Store:
        """Return the item that stores a value there."""
        return Store(self.name, self._index(indices), value)

    def _index(self, indices: tuple[Index | TreeAxis | int, ...]) -> tuple[Index, ...]:
        found = place_of(*indices)
        return tuple(Affine() if size == 1 else at for at, size in zip(found, self.sizes, strict=True))

    def __str__(self) -> str:
        sizes = "x".join(map(str, self.sizes)) or "one"
        strides = (" ".join(f"{d.stride}/{d.step}" for d in reversed(digits)) for digits in self.digits)
        padded = "" if self.padded == self.sizes else f" in {'x'.join(map(str, self.padded))}"
        return f"{self.name} {self.data_type} {sizes}{padded} + {self.base}: {', '.join(strides)}".rstrip()


# --- items --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Guard:
    """Restricts positions to those where an index is within [0, size) and its divisor divides."""

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
    index: tuple[Index, ...]
    value: Expr

    def __str__(self) -> str:
        return f"{self.tensor}[{', '.join(map(str, self.index))}] = {self.value}"


@dataclass(frozen=True, slots=True)
class Each:
    """Loops: the items for every position of the axes where all guards hold.

    `in_order`: sequentially, the last axis fastest, so that each position can read and overwrite what those
    before it have written. `number`: the type of computation, if it differs from that of the enclosing loops.
    """

    axes: tuple[TreeAxis, ...]
    items: tuple[Item, ...]
    guards: tuple[Guard, ...] = ()
    locals: tuple[TreeTensor, ...] = ()
    in_order: bool = False
    number: Number | None = None

    @property
    def positions(self) -> int:
        """The number of positions, ignoring guards."""
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
    places. `scalars`: the number passed at execution. `backwards`: the outermost positions run from the last
    one on, since the preceding step has left the end of what it read in cache.
    """

    tensors: tuple[TreeTensor, ...]
    items: tuple[Each, ...]
    scalars: int = 0
    number: Number = Number.f32
    backwards: bool = False

    @property
    def wide(self) -> bool:
        """True if everything is computed in f64."""
        return self.number is Number.f64

    def tensor(self, name: str) -> TreeTensor:
        """Return a tensor by name, including local ones."""
        for each in self.tensors:
            if each.name == name:
                return each
        return next(each for each in _locals(self.items) if each.name == name)

    def row_type(self, tensor: TreeTensor) -> DataType:
        """Return the element type of a local tensor: f32 ones hold the numbers of a real tree."""
        return DataType.f64 if self.wide and tensor.data_type is DataType.f32 else tensor.data_type

    @property
    def stores(self) -> tuple[Store, ...]:
        """All stores."""
        return tuple(item for item in _all_items(self.items) if isinstance(item, Store))

    @property
    def loads(self) -> tuple[Load, ...]:
        """All loads."""
        return tuple(loads_in(_all_items(self.items)))

    @property
    def written(self) -> tuple[str, ...]:
        """The tensors of the caller that are written."""
        names = {store.tensor for store in self.stores}
        return tuple(tensor.name for tensor in self.tensors if tensor.name in names)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to write."""
        sizes = {tensor.name: tensor.padded for tensor in self.tensors}
        return all(0 in sizes[name] for name in self.written)

    @property
    def head(self) -> tuple[str, ...]:
        """The options in the first line of the text; empty if all are defaults."""
        parts = [f"in {self.number.name}"] * (self.number is not Number.f32) + [
            f"{self.scalars} scalars"
        ] * bool(self.scalars)
        parts += ["backwards"] * self.backwards
        return (f"tree {', '.join(parts)}",) if parts else ()

    def verify(self, lines: Sequence[Line] = ()) -> LoopTree:
        """Return self if well formed; else raise InvalidArguments (RS-T02) with the offending line.

        `lines`: those of the text that the tree was read from.
        """
        checks = TreeChecks(self, lines)
        for tensor in self.tensors:
            checks.tensor(tensor)
        for item in self.items:
            _check(item, checks)
        return self

    def __str__(self) -> str:
        return "\n".join([*self.head, *map(str, self.tensors), *map(str, self.items)])


def values_of(item: Item) -> tuple[Expr, ...]:
    """Return the expressions of an item, without nested items; for a store, including those of its index."""
    if isinstance(item, Each):
        return ()
    if isinstance(item, Store):
        return (item.value, *(at for at in item.index if isinstance(at, Load)))
    return item.values if isinstance(item, Fold) else (item.value,)


def parts_in(items: Iterable[Item]) -> Iterator[Expr]:
    """Yield the expressions of items and all their parts, without nested items."""
    for item in items:
        for value in values_of(item):
            yield from parts_of(value)


def loads_in(items: Iterable[Item]) -> Iterator[Load]:
    """Yield the loads among these."""
    return (part for part in parts_in(items) if isinstance(part, Load))


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
    of_number = f" in {each.number.name}" if each.number else ""
    yield f"each {', '.join(map(str, each.axes)) or 'once'}{of_number}{' in order' * each.in_order}:"
    for guard in each.guards:
        yield f"  where {guard}"
    for tensor in each.locals:
        of_type = "" if tensor.data_type is DataType.f32 else f" {tensor.data_type}"
        yield f"  local {tensor.name}[{', '.join(map(str, tensor.sizes))}]{of_type}"
    for item in each.items:
        yield from ("  " + line for line in str(item).splitlines())


def _check(item: Item, checks: TreeChecks) -> None:
    """Check an item, in the order of the lines of its text."""
    checks.next_line()
    if isinstance(item, Let):
        checks.let(item.name, item.value)
    elif isinstance(item, Fold):
        checks.fold(item.op, item.names, item.values)
    elif isinstance(item, Store):
        checks.store(item.tensor, item.index, item.value)
    else:
        with checks.loop(item.axes, in_order=item.in_order, number=item.number):
            for guard in item.guards:
                checks.guard(guard)
            for tensor in item.locals:
                checks.local(tensor)
            for inside in item.items:
                _check(inside, checks)
