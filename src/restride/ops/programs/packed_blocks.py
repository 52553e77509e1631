"""Blocks whose numbers are fields of bits, as ggml's K quants: which bits are whose, and the loop tree that
reads them.

A number of few bits may lie in two places of a block: the low bits of all elements in one, the high bits in
another. Each is a `BitField`, which says as a descriptor does where a number's bits are: at a sum of the
digits of its index, each times a stride. First the integers of a block are put together, many to a register,
then the reals are computed; what lies between stays in the first cache. Of Q5_K::

    each d0 4, b 16:
      local value[256] s8
      local scale[8] s8
      local minimum[8] s8
      each i 32 in i8:
        value[i] = or(and(bytes[d0, b, i + 48], 15), shift_left(and(bytes[d0, b, i + 16], 1), 4))
        ...
      each i 4 in i8:
        scale[i] = ...
      each g 8:
        let s = scale[g] * halves[d0, b, 0]
        let m = minimum[g] * halves[d0, b, 1]
        each i 32:
          dst[d0, 256 * b + 32 * g + i] = s * value[32 * g + i] - m
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import cast

from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...ir.expression import Affine, Const, Coordinate, Expr, Ref, TreeAxis, apply
from ...ir.numbers import Number
from ...ir.program import DST, SRC, Place, Program, Slot, TreeStep
from ...ir.tree import Each, Item, Let, LoopTree, TreeTensor

Dims = tuple[int, ...]
_WORD = 16


@dataclass(frozen=True, slots=True)
class BitField:
    """Some bits of each of several numbers in a block, the lowest bit of a byte first.

    Those of number i begin at `start`, and so many bits behind it as the digits of i say: `digits` has the
    extent and the stride in bits of each, the outermost first.
    """

    start: int
    bits: int
    digits: tuple[tuple[int, int], ...]

    @property
    def count(self) -> int:
        """The number of numbers."""
        return prod(extent for extent, _ in self.digits)

    def bit(self, index: int) -> int:
        """Where the bits of a number begin."""
        place = self.start
        for extent, stride in reversed(self.digits):
            place += index % extent * stride
            index //= extent
        return place

    @property
    def is_dense(self) -> bool:
        """True where neighbors share a byte."""
        return self.digits[-1][1] < 8

    @property
    def run(self) -> int:
        """The neighbors that are read together: those in a word, or in bytes that follow each other."""
        extent, stride = self.digits[-1]
        return min(extent, _WORD // stride) if self.is_dense else extent


@dataclass(frozen=True, slots=True)
class BitNumbers:
    """Integers of a block: the bits of `fields`, of which each one stands above those before it, less
    `zero_point`; where there is a `table`, the number that it has there.
    """

    fields: tuple[BitField, ...]
    zero_point: int = 0
    table: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """How many there are."""
        return self.fields[0].count


@dataclass(frozen=True, slots=True)
class PackedBlocks:
    """Blocks of so many bytes: an element is `d * scale * value - d_minimum * minimum`.

    name        as ggml has it, in small letters
    scale_type  the type of d, which begins at byte `scale_at`
    scales      integers of the groups of a block; None where all have d
    minimum_at  the byte where d_minimum begins, an f16; None where nothing is subtracted
    minima      integers of the groups; None where d_minimum itself is added to all
    """

    name: str
    nbytes: int
    values: BitNumbers
    scale_at: int = 0
    scale_type: DataType = DataType.f16
    scales: BitNumbers | None = None
    minimum_at: int | None = None
    minima: BitNumbers | None = None

    @property
    def elements(self) -> int:
        """The elements of a block."""
        return self.values.count

    @property
    def group(self) -> int:
        """How many elements share a scale."""
        return self.elements // (self.scales.count if self.scales else 1)

    @property
    def value_type(self) -> DataType:
        """The type that holds the integers of the elements."""
        is_signed = self.values.zero_point or self.values.table or self.values.fields[0].bits == 8
        return DataType.s8 if is_signed else DataType.u8


def real_program(blocks: PackedBlocks, dst: MemoryDesc) -> Program:
    """The program that writes the real numbers: slot 0 is the blocks, slot 1 what is written."""
    reader = _Reader(blocks, dst.dims)
    out = TreeTensor.of_desc("dst", dst)
    value = TreeTensor.row_major("value", (blocks.elements,), DataType.s8)
    g, i = TreeAxis("g", blocks.elements // blocks.group), TreeAxis("i", blocks.group)
    at = g * blocks.group + i
    real, lets = Ref("s") * value.load(at), [Let("s", reader.scale(g))]
    if blocks.minimum_at is not None:
        lets.append(Let("m", reader.minimum(g)))
        real = real - Ref("m") if blocks.minima else real + Ref("m")
    store = out.store((*reader.rows, reader.block * blocks.elements + at), real)
    loops = (reader.integers(blocks.values, value), *reader.shared())
    return reader.program((out,), (*loops, Each((g,), (*lets, Each((i,), (store,))))), (value,))


def unpacking_program(blocks: PackedBlocks, dims: Dims) -> Program:
    """The program that writes values in bytes, scales in f32, and minima where there are some."""
    reader = _Reader(blocks, dims)
    counts = (*dims[:-1], dims[-1] // blocks.group)
    g = TreeAxis("g", blocks.elements // blocks.group)
    values = TreeTensor.row_major("values", dims, blocks.value_type)
    names = ("scales", "minima")[: 1 if blocks.minimum_at is None else 2]
    outs = [TreeTensor.row_major(name, counts) for name in names]
    reals: list[Expr] = [reader.scale(g)]
    if blocks.minimum_at is not None:
        # -0 where that is what nothing is times.
        reals.append(reader.minimum(g) * -1.0 if blocks.minima else reader.minimum(g))
    place = (*reader.rows, reader.block * g.extent + g)
    stores = tuple(out.store(place, real) for out, real in zip(outs, reals, strict=True))
    where = (*reader.rows, reader.block * blocks.elements)
    loops = (reader.integers(blocks.values, values, where), *reader.shared(), Each((g,), stores))
    return reader.program((values, *outs), loops, ())


class _Reader:
    """The tensors of blocks of bytes, and the loops that read one of the blocks."""

    def __init__(self, blocks: PackedBlocks, dims: Dims) -> None:
        self.blocks = blocks
        self.rows = tuple(TreeAxis(f"d{dim}", n) for dim, n in enumerate(dims[:-1]))
        self.block = TreeAxis("b", dims[-1] // blocks.elements)
        self._sizes = tuple(axis.extent for axis in (*self.rows, self.block))
        self._views: dict[DataType, TreeTensor] = {}
        named = {"scale": blocks.scales, "minimum": blocks.minima}
        self._numbers = {name: numbers for name, numbers in named.items() if numbers is not None}
        self._locals = {
            name: TreeTensor.row_major(name, (numbers.count,), DataType.s8)
            for name, numbers in self._numbers.items()
        }

    def scale(self, g: TreeAxis) -> Expr:
        """The scale of a group."""
        return self._real("scale", self.blocks.scale_type, self.blocks.scale_at, g)

    def minimum(self, g: TreeAxis) -> Expr:
        """What is subtracted from the elements of a group; added where all elements have one."""
        assert self.blocks.minimum_at is not None
        return self._real("minimum", DataType.f16, self.blocks.minimum_at, g)

    def _real(self, name: str, data_type: DataType, at: int, g: TreeAxis) -> Expr:
        d = self._load(data_type, at // data_type.nbytes(1))
        return d * self._locals[name].load(g) if name in self._locals else d

    def shared(self) -> tuple[Each, ...]:
        """The loops that write the integers of the groups."""
        return tuple(self.integers(self._numbers[name], row) for name, row in self._locals.items())

    def integers(
        self, numbers: BitNumbers, to: TreeTensor, where: tuple[Affine | TreeAxis | int, ...] = (0,)
    ) -> Each:
        """The loop that writes integers of a block, to a tensor from a place on."""
        run = min(field.run for field in numbers.fields)
        i, items = TreeAxis("i", run), list[Item]()
        for first in range(0, numbers.count, run):
            number, above = self._bits(numbers.fields[0], first, i), numbers.fields[0].bits
            for field in numbers.fields[1:]:
                bits = apply("shift_left", self._bits(field, first, i), above)
                number, above = apply("or", number, bits), above + field.bits
            if numbers.table:
                items.append(Let(f"code{first}", number))
                number = _chosen(Ref(f"code{first}"), numbers.table)
            number = number - Const(numbers.zero_point) if numbers.zero_point else number
            *rows, start = where
            items.append(to.store((*rows, i + first + start), number))
        is_dense = any(field.is_dense for field in numbers.fields)
        return Each((i,), tuple(items), number=Number.i16 if is_dense else Number.i8)

    def _bits(self, field: BitField, first: int, i: TreeAxis) -> Expr:
        """The bits of the numbers from `first` on, one for each position of an axis."""
        bit, mask = field.bit(first), (1 << field.bits) - 1
        if field.is_dense:
            word = self._load(DataType.u16, bit // _WORD)
            shift = Coordinate(i * field.digits[-1][1] + bit % _WORD)
            return apply("and", apply("shift_right", word, shift), mask)
        value = self._load(DataType.u8, i + bit // 8)
        value = apply("shift_right", value, bit % 8) if bit % 8 else value
        return value if bit % 8 + field.bits == 8 else apply("and", value, mask)

    def _load(self, data_type: DataType, index: Affine | int) -> Expr:
        """What a block holds at an index, in elements of a type."""
        size = self.blocks.nbytes // data_type.nbytes(1)
        view = TreeTensor.row_major(f"in_{data_type}", (*self._sizes, size), data_type)
        return self._views.setdefault(data_type, view).load(*self.rows, self.block, index)

    def program(
        self, outs: tuple[TreeTensor, ...], loops: tuple[Each, ...], rows: tuple[TreeTensor, ...]
    ) -> Program:
        """The program of such loops for every block."""
        views = tuple(self._views.values())
        outer = Each((*self.rows, self.block), loops, locals=(*rows, *self._locals.values()))
        tree = LoopTree((*views, *outs), (outer,)).verify()
        places = (*(Place(SRC) for _ in views), *(Place(DST + slot) for slot in range(len(outs))))
        written = sum(out.data_type.nbytes(prod(out.padded)) for out in outs)
        step = TreeStep(tree, places, prod(self._sizes) * self.blocks.nbytes + written)
        slots = (Slot(SRC), *(Slot(DST + slot, is_written=True) for slot in range(len(outs))))
        return Program(slots, (step,)).verify()


def _chosen(code: Expr, table: tuple[int, ...]) -> Expr:
    """The number that a code stands for, found by one of its bits after the other."""
    numbers, bit = [cast("Expr", Const(number)) for number in table], 1
    while len(numbers) > 1:
        is_set = apply("and", code, bit)
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        numbers, bit = [apply("select", is_set, one, zero) for zero, one in pairs], 2 * bit
    return numbers[0]
