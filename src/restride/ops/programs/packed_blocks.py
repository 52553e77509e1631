"""The loop tree that reads blocks of bit fields (`desc/packed_blocks.py`).

First the integers of a block are assembled, many to a register, then the reals are computed; intermediate
values stay in the L1 cache. For Q5_K::

    each d0 4, b 16:
      local value[256] s8
      local scale[8] s8
      local minimum[8] s8
      each i 32 in i8:
        value[i] = or(and(in_u8[d0, b, i + 48], 15), shift_left(and(in_u8[d0, b, i + 16], 1), 4))
        ...
      each i 4 in i8:
        scale[i] = ...
      each g 8:
        let s = in_f16[d0, b, 0] * scale[g]
        let m = in_f16[d0, b, 1] * minimum[g]
        each i 32:
          dst[d0, 256 * b + 32 * g + i] = s * value[32 * g + i] - m
"""

from __future__ import annotations

from math import prod
from typing import cast

from ...desc.memory_desc import MemoryDesc
from ...desc.packed_blocks import WORD_BITS, BitField, BitNumbers, PackedBlocks
from ...dtypes import DataType
from ...ir.expression import Affine, Const, Coordinate, Expr, Ref, TreeAxis, apply
from ...ir.numbers import Number
from ...ir.program import DST, SRC, Place, Program, Slot, TreeStep
from ...ir.tree import Each, Item, Let, LoopTree, TreeTensor

Dims = tuple[int, ...]
_Index = tuple[Affine | TreeAxis | int, ...]


def real_program(blocks: PackedBlocks, dst: MemoryDesc) -> Program:
    """Return the program that writes the real numbers: slot 0 is the blocks, slot 1 the result."""
    reader = _BlockReader(blocks, dst.dims)
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
    """Return the program that writes values in bytes, scales in f32, and minima if there are any."""
    reader = _BlockReader(blocks, dims)
    counts = (*dims[:-1], dims[-1] // blocks.group)
    g = TreeAxis("g", blocks.elements // blocks.group)
    values = TreeTensor.row_major("values", dims, blocks.value_type)
    names = ("scales", "minima")[: 1 if blocks.minimum_at is None else 2]
    outs = [TreeTensor.row_major(name, counts) for name in names]
    reals: list[Expr] = [reader.scale(g)]
    if blocks.minimum_at is not None:
        # -0 for formats whose product with zero is -0.
        reals.append(reader.minimum(g) * -1.0 if blocks.minima else reader.minimum(g))
    place: _Index = (*reader.rows, reader.block * g.extent + g)
    stores = tuple(out.store(place, real) for out, real in zip(outs, reals, strict=True))
    where: _Index = (*reader.rows, reader.block * blocks.elements)
    loops = (reader.integers(blocks.values, values, where), *reader.shared(), Each((g,), stores))
    return reader.program((values, *outs), loops, ())


class _BlockReader:
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
        """Return the scale of a group."""
        return self._real("scale", self.blocks.scale_type, self.blocks.scale_at, g)

    def minimum(self, g: TreeAxis) -> Expr:
        """Return what is subtracted from the elements of a group; added if all elements share one."""
        assert self.blocks.minimum_at is not None
        return self._real("minimum", DataType.f16, self.blocks.minimum_at, g)

    def _real(self, name: str, data_type: DataType, at: int, g: TreeAxis) -> Expr:
        d = self._load(data_type, at // data_type.nbytes(1))
        return d * self._locals[name].load(g) if name in self._locals else d

    def shared(self) -> tuple[Each, ...]:
        """Return the loops that write the integers of the groups."""
        return tuple(self.integers(self._numbers[name], row) for name, row in self._locals.items())

    def integers(self, numbers: BitNumbers, to: TreeTensor, where: _Index = (0,)) -> Each:
        """Return the loop that writes integers of a block to a tensor, starting at `where`."""
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
        """Return the bits of the numbers from `first` on, one for each position of an axis."""
        bit, mask = field.bit(first), (1 << field.bits) - 1
        if field.is_dense:
            word = self._load(DataType.u16, bit // WORD_BITS)
            shift = Coordinate(i * field.digits[-1][1] + bit % WORD_BITS)
            return apply("and", apply("shift_right", word, shift), mask)
        value = self._load(DataType.u8, i + bit // 8)
        value = apply("shift_right", value, bit % 8) if bit % 8 else value
        return value if bit % 8 + field.bits == 8 else apply("and", value, mask)

    def _load(self, data_type: DataType, index: Affine | int) -> Expr:
        """Load an element of a block as the given type."""
        size = self.blocks.nbytes // data_type.nbytes(1)
        view = TreeTensor.row_major(f"in_{data_type}", (*self._sizes, size), data_type)
        return self._views.setdefault(data_type, view).load(*self.rows, self.block, index)

    def program(
        self, outs: tuple[TreeTensor, ...], loops: tuple[Each, ...], rows: tuple[TreeTensor, ...]
    ) -> Program:
        """Return the program of such loops for every block."""
        views = tuple(self._views.values())
        outer = Each((*self.rows, self.block), loops, locals=(*rows, *self._locals.values()))
        tree = LoopTree((*views, *outs), (outer,)).verify()
        places = (*(Place(SRC) for _ in views), *(Place(DST + slot) for slot in range(len(outs))))
        written = sum(out.data_type.nbytes(prod(out.padded)) for out in outs)
        step = TreeStep(tree, places, prod(self._sizes) * self.blocks.nbytes + written)
        slots = (Slot(SRC), *(Slot(DST + slot, is_written=True) for slot in range(len(outs))))
        return Program(slots, (step,)).verify()


def _chosen(code: Expr, table: tuple[int, ...]) -> Expr:
    """Return the table entry of a code, selected by one bit at a time."""
    numbers, bit = [cast("Expr", Const(number)) for number in table], 1
    while len(numbers) > 1:
        is_set = apply("and", code, bit)
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        numbers, bit = [apply("select", is_set, one, zero) for zero, one in pairs], 2 * bit
    return numbers[0]
