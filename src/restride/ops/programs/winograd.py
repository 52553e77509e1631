"""Winograd's algorithm: convolutions of stride 1 with fewer multiplications, in transformed windows.

Along each spatial dim, `tile` neighboring points of the result read a window of `size = tile + taps - 1`
points of the source. Polynomials are multiplied through their values (Cook and Toom): at `size - 1` points
and at infinity, those of the window, the taps and the result are

    y = A.T @ ((G @ w) * (B.T @ x))

so that a tile takes `size` products instead of the `tile * taps` of the direct sum, and powers of these with
several spatial dims. For channels, products become matrix products, one for each position of a window:

    v[place, tile, i] = B.T @ x @ B      u[place, i, j] = G @ w @ G.T      m = v @ u      y = A.T @ m @ A

| tile | taps | products of 2 dims | points |
| --- | --- | --- | --- |
| 2 | 3 | 16 of 36 | 0, 1, -1 |
| 4 | 3 | 36 of 144 | 0, 5/8, -5/8, 3/2, -3/2 |
| 2 | 5 | 36 of 100 | the same |

The points were chosen for accuracy: with 0, 1, -1, 2, -2 errors are four times as large. Transformation
matrices are rounded once, from f64; `v` and `y` are computed in f32, in the order of the loop trees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from ...desc.arguments import ARG_BIAS, ARG_DST, ARG_SRC, ARG_WEIGHTS
from ...desc.memory_desc import MemoryDesc
from ...desc.winograd import TILES, winograd_tile
from ...dtypes import DataType
from ...ir.attribute_chain import move_step, old_tensors
from ...ir.digits import IndexDigit, IndexDigits, index_digits, offset_at
from ...ir.expression import Affine, Const, Expr, Ref, TreeAxis
from ...ir.numbers import Number
from ...ir.program import DST, SRC, Place, Program, RepeatStep, Slot, Step, TreeStep
from ...ir.tree import Each, Guard, Item, Let, LoopTree, TreeTensor, fold_over
from ...schedule.fold_order import LEAST_GAIN, TILE_READ, TILE_WRITTEN, WEIGHT_READ
from ...schedule.machine import NOMINAL

if TYPE_CHECKING:
    from ..convolution import ConvolutionProblem
    from .convolution import ConvolutionExtents

Index = tuple[Affine | TreeAxis | int, ...]
Matrix = tuple[tuple[Fraction, ...], ...]
_POINTS = {4: (0, 1, -1), 6: (0, Fraction(5, 8), Fraction(-5, 8), Fraction(3, 2), Fraction(-3, 2))}
# Elements between the matrices of two positions: at a power of two, positions would share sets of a cache.
_GAP = 16
# The bytes of transformed tiles and products that are computed before results are.
_CHUNK_BYTES = 4 << 20


@cache
def transforms(tile: int, taps: int) -> tuple[Matrix, Matrix, Matrix]:
    """Return A.T, G and B.T for `tile` results with this many taps."""
    size = tile + taps - 1
    points = tuple(map(Fraction, _POINTS[size]))
    others = [[points[i] - p for p in points[:i] + points[i + 1 :]] for i in range(size - 1)]
    last = (*(Fraction(0),) * (taps - 1), Fraction(1))
    weights = (
        *(tuple(p**k / prod(away) for k in range(taps)) for p, away in zip(points, others, strict=True)),
        last,
    )
    results = tuple((*(p**k for p in points), Fraction(k == tile - 1)) for k in range(tile))
    rows = [_polynomial(points[:i] + points[i + 1 :]) for i in range(size - 1)]
    return results, weights, (*((*row, Fraction(0)) for row in rows), _polynomial(points))


def _polynomial(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return the coefficients of the product of all x - root, lowest power first."""
    found = [Fraction(1)]
    for root in roots:
        found = [a - root * b for a, b in zip([Fraction(0), *found], [*found, Fraction(0)], strict=True)]
    return tuple(found)


# --- transforms as items of trees ---------------------------------------------------------------------------


class _TransformItems:
    """Writes the values of transforms, each under its own name."""

    def __init__(self) -> None:
        self.items: list[Item] = []

    def named(self, value: Expr) -> Expr:
        if isinstance(value, Ref | Const):
            return value
        name = f"t{len(self.items)}"
        self.items.append(Let(name, value))
        return Ref(name)

    def along_dims(
        self, matrix: Matrix, values: Mapping[tuple[int, ...], Expr], dims: int
    ) -> dict[tuple[int, ...], Expr]:
        """Multiply a matrix by the values along each dim in turn."""
        found = dict(values)
        for dim in range(dims):
            lines: dict[tuple[int, ...], list[Expr]] = {}
            for index in sorted(found, key=lambda index: index[dim]):
                lines.setdefault(index[:dim] + index[dim + 1 :], []).append(found[index])
            found = {
                (*others[:dim], row, *others[dim:]): value
                for others, line in lines.items()
                for row, value in enumerate(self.product(matrix, line))
            }
        return found

    def product(self, matrix: Matrix, values: Sequence[Expr]) -> list[Expr]:
        """Multiply a matrix by a vector. Rows, and columns, of opposite points share common terms."""
        rows = range(len(matrix))
        twin = next((row for row in rows if _is_opposite(matrix, row)), None)
        if twin is not None and len(matrix) >= len(values):
            return self._of_twin_rows(matrix, values)
        return self._of_twin_columns(matrix, values)

    def _of_twin_rows(self, matrix: Matrix, values: Sequence[Expr]) -> list[Expr]:
        found: list[Expr] = []
        for row, numbers in enumerate(matrix):
            if _is_opposite(matrix, row):
                even, odd = (self.named(_sum(numbers[k::2], values[k::2])) for k in (0, 1))
                found += [self.named(even + odd), self.named(even - odd)]
            elif len(found) == row:
                found.append(self.named(_sum(numbers, values)))
        return found

    def _of_twin_columns(self, matrix: Matrix, values: Sequence[Expr]) -> list[Expr]:
        columns = tuple(zip(*matrix, strict=True))
        plain, pairs = [], []
        at = 0
        while at < len(columns):
            if _is_opposite(columns, at):
                both = self.named(values[at] + values[at + 1]), self.named(values[at] - values[at + 1])
                pairs.append((columns[at], both))
                at += 2
            else:
                plain.append((columns[at], values[at]))
                at += 1
        return [
            self.named(
                _sum(
                    [*(c[row] for c, _ in plain), *(c[row] for c, _ in pairs)],
                    [*(value for _, value in plain), *(both[row % 2] for _, both in pairs)],
                )
            )
            for row in range(len(matrix))
        ]


def _is_opposite(matrix: Sequence[Sequence[Fraction]], row: int) -> bool:
    """Return whether the next row is the same except for the signs at odd positions."""
    if row + 1 >= len(matrix) or matrix[row] == matrix[row + 1]:
        return False
    pairs = enumerate(zip(matrix[row], matrix[row + 1], strict=True))
    return all(b == (-a if k % 2 else a) for k, (a, b) in pairs)


def _sum(numbers: Sequence[Fraction], values: Sequence[Expr]) -> Expr:
    """Return the sum of products, without those that are 0."""
    found: Expr | None = None
    for number, value in zip(numbers, values, strict=True):
        if number:
            term = value if number == 1 else value * float(number)
            found = term if found is None else found + term
    return Const(0.0) if found is None else found


# --- weights ------------------------------------------------------------------------------------------------


def weights_tree(md: MemoryDesc, transformed: MemoryDesc) -> LoopTree:
    """Return the loops that transform weights, in f64: tensors `w` and `u`."""
    tile = winograd_tile(transformed.layout)
    *groups, outputs, inputs = md.dims[: -len(tile)]
    taps, group = md.dims[-len(tile) :], (0,) * len(groups)
    matrix = transforms(tile[0], taps[0])[1]
    w, u = TreeTensor.of_desc("w", md), _transformed("u", transformed)
    j, i, writer = TreeAxis("j", outputs), TreeAxis("i", inputs), _TransformItems()
    windows = {at: writer.named(w.load(*group, j, i, *at)) for at in product(*map(range, taps))}
    found = writer.along_dims(matrix, windows, len(taps))
    stores = (u.store((*group, j, i, *place), value) for place, value in found.items())
    return LoopTree((w, u), (Each((j, i), (*writer.items, *stores)),), number=Number.f64).verify()


def weights_program(src: MemoryDesc, dst: MemoryDesc) -> Program:
    """Return the program of a reorder into a Winograd format."""
    step = TreeStep(weights_tree(src, dst), (Place(SRC), Place(DST)), src.size + dst.size)
    return Program((Slot(ARG_SRC), Slot(ARG_DST, is_written=True)), (step,)).verify()


def _transformed(name: str, md: MemoryDesc) -> TreeTensor:
    """Return weights in a Winograd format: (outputs, inputs, position along each dim), perhaps grouped."""
    outputs = md.ndims - len(winograd_tile(md.layout)) - 2
    sizes = tuple(md.dims[dim] if dim == outputs else n for dim, n in enumerate(md.padded_dims))
    digits = tuple(index_digits(md, dim) for dim in range(md.ndims))
    return TreeTensor(name, DataType.f32, sizes, md.padded_dims, digits)


# --- the convolution ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Tiles that are computed together: of `images`, and of `rows` of tiles from `row` on; `turns` such
    chunks, one after another.
    """

    image: int
    images: int
    row: int
    rows: int
    turns: int = 1


class WinogradProgram:
    """The program of a convolution: transforms, products and results, some tiles at a time."""

    def __init__(self, problem: ConvolutionProblem) -> None:
        self.problem, self.chain = problem, problem.chain()
        self.relation = relation = problem.relation
        self.tile, self.taps = problem.tile, relation.dims[0].kernel
        self.size, self.ndims = self.tile + self.taps - 1, len(relation.dims)
        self.places = self.size**self.ndims
        self.inputs, self.outputs = relation.window_channels, relation.point_channels
        self.tiles = tuple(-(-dim.points // self.tile) for dim in relation.dims)
        self.temporaries: list[int] = []
        self.trees: dict[tuple[int, int, int], tuple[LoopTree, LoopTree, LoopTree]] = {}

    def program(self) -> Program:
        """The program."""
        source, weights, result = self.problem.tensors
        self.src, self.dst = self._computed(source, "x"), self._computed(result, "y")
        is_ready = weights.format_kind == "opaque"
        self.weights = weights if is_ready else self.problem.transformed_weights
        src, dst, weights_at = (
            Place(slot) if md == own else self._temporary(md.size)
            for slot, md, own in (
                (SRC, self.src, source),
                (DST, self.dst, result),
                (DST + 1, self.weights, weights),
            )
        )
        before: list[Step] = []
        if src.buffer < 0:
            before.append(move_step(source, self.src, Place(SRC), src))
        if dst.buffer < 0 and self.chain.computed.compute.reads_destination:
            before.append(move_step(result, self.dst, Place(DST), dst))
        if weights_at.buffer < 0:
            tree = weights_tree(weights, self.weights)
            before.append(
                TreeStep(tree, (Place(DST + 1), weights_at), weights.size + self.weights.size, is_named=False)
            )
        chunks = list(self._chunks())
        tiles = max(chunk.images * chunk.rows for chunk in chunks) * prod(self.tiles[1:])
        v, m = (self._temporary(4 * self.places * (tiles * n + _GAP)) for n in (self.inputs, self.outputs))
        operands = {tensor.name: Place(DST + 2 + i) for i, tensor in enumerate(self.chain.operands)}
        at = {"x": src, "y": dst, "u": weights_at, "v": v, "m": m, **operands}
        steps = [step for chunk in chunks for step in self._steps(chunk, at)]
        before += self._padding(dst)
        after = [move_step(self.dst, result, dst, Place(DST))] if dst.buffer < 0 else []
        scalars = len(self.chain.computed.scalars)
        return Program(self._slots(), (*before, *steps, *after), tuple(self.temporaries), scalars).verify()

    def _slots(self) -> tuple[Slot, ...]:
        source, weights, _ = self.problem.tensors
        bias = (Slot(ARG_BIAS, span=self.problem.bias.extent_range()),) if self.problem.has_bias else ()
        return (
            Slot(ARG_SRC, span=source.extent_range()),
            Slot(ARG_DST, is_written=True),
            Slot(ARG_WEIGHTS, span=weights.extent_range()),
            *bias,
            *self.chain.computed.slots(),
        )

    def _temporary(self, nbytes: int) -> Place:
        self.temporaries.append(nbytes)
        return Place(~(len(self.temporaries) - 1))

    def _computed(self, md: MemoryDesc, name: str) -> MemoryDesc:
        """Return a tensor's descriptor if its channels are contiguous, else the preferred one."""
        digits = [index_digits(md, dim) for dim in range(md.ndims)]
        is_plain = all(len(of) == 1 for dim, of in enumerate(digits) if dim != 1)
        return md if is_plain and digits[1][0].stride == 1 else self.problem.preferred()[name]

    # --- chunks ---------------------------------------------------------------------------------------------

    def _chunks(self) -> Iterator[_Chunk]:
        batch, rows = self.relation.batch, self.tiles[0]
        row_bytes = 4 * self.places * prod(self.tiles[1:]) * (self.inputs + self.outputs)
        if not self._moves_evenly():
            yield _Chunk(0, batch, 0, rows)
        elif row_bytes * rows <= _CHUNK_BYTES:
            images = min(max(_CHUNK_BYTES // (row_bytes * rows), 1), batch)
            yield _Chunk(0, images, 0, rows, batch // images)
            if batch % images:
                yield _Chunk(batch - batch % images, batch % images, 0, rows)
        else:
            count = -(-rows // max(_CHUNK_BYTES // row_bytes, 1))
            most = -(-rows // count)
            parts = [(row, min(most, rows - row)) for row in range(0, rows, most)]
            inside = [part for part in parts if part[1] == most and self._is_inside(*part)]
            for image in range(batch):
                for row, own in parts:
                    if (row, own) not in inside:
                        yield _Chunk(image, 1, row, own)
                    elif (row, own) == inside[0]:
                        yield _Chunk(image, 1, row, own, len(inside))

    def _is_inside(self, row: int, rows: int) -> bool:
        """Return whether tiles in these rows touch no padding, and all of their points are in the result."""
        dim, end = self.relation.dims[0], (row + rows) * self.tile
        begins = row * self.tile >= dim.padding
        return begins and end + self.taps - 1 - dim.padding <= dim.window and end <= dim.points

    def _moves_evenly(self) -> bool:
        """True if every tensor moves by a constant number of bytes from image to image and row to row."""
        return all(len(tensor.digits[dim]) == 1 for tensor in self.chain.operands for dim in (0, 2))

    def _padding(self, dst: Place) -> Iterator[Step]:
        """Yield the zeros past the channels of the result. No loop of a chunk reaches all of them."""
        count = self.dst.padded_dims[1] - self.outputs
        if count:
            y = TreeTensor.of_desc("y", self.dst)
            batch, _, *sizes = y.sizes
            b, c, at = TreeAxis("b", batch), TreeAxis("c", count), _axes("o", sizes)
            zero = replace(y, sizes=y.padded).store((b, c + self.outputs, *at), Const(0.0))
            tree = LoopTree((replace(y, sizes=y.padded),), (Each((b, c, *at), (zero,)),)).verify()
            yield TreeStep(tree, (dst,), 4 * batch * count * prod(sizes), is_named=False)

    def _steps(self, chunk: _Chunk, at: Mapping[str, Place]) -> Iterator[Step]:
        key = chunk.images, chunk.row, chunk.rows
        trees = self.trees.get(key) or self.trees.setdefault(key, self._trees(*key))
        tiles = chunk.images * chunk.rows * prod(self.tiles[1:])
        terms = self.places * tiles * self.inputs * self.outputs
        work = (
            tiles * self.places * 8 * self.inputs,
            terms // NOMINAL.terms_per_byte,
            tiles * self.places * 8 * self.outputs,
        )
        turn = (chunk.images, 0) if chunk.rows == self.tiles[0] else (0, chunk.rows * self.tile)
        steps, strides = [], []
        for tree, nbytes, note in zip(
            trees, work, ("tiles of the source", "products", "results"), strict=True
        ):
            places = [at.get(tensor.name, at["y"]) for tensor in tree.tensors]
            places = [
                place._replace(offset=_moved(tensor, chunk.image, 0)) if tensor.name not in "uvm" else place
                for tensor, place in zip(tree.tensors, places, strict=True)
            ]
            strides.append(
                tuple(0 if tensor.name in "uvm" else _moved(tensor, *turn) for tensor in tree.tensors)
            )
            scalars = (0, tree.scalars)
            is_named = note == "products"
            steps.append(TreeStep(tree, tuple(places), nbytes, scalars, note, is_named, kind="winograd"))
        if chunk.turns == 1:
            yield from steps
        else:
            yield RepeatStep(chunk.turns, tuple(steps), tuple(strides))

    # --- trees ----------------------------------------------------------------------------------------------

    def _trees(self, images: int, row: int, rows: int) -> tuple[LoopTree, LoopTree, LoopTree]:
        tiles = (rows, *self.tiles[1:])
        return (
            self._source_tree(images, row, tiles),
            self._product_tree(images, tiles),
            self._result_tree(images, row, tiles),
        )

    def _source_tree(self, images: int, row: int, tiles: tuple[int, ...]) -> LoopTree:
        """Return the tree for v from x. Rows that a line of tiles reads are copied with their padding."""
        x, v = TreeTensor.of_desc("x", self.src), self._places("v", self.inputs, images, tiles)
        b, c, at = TreeAxis("b", images), TreeAxis("i", self.inputs), _axes("o", tiles)
        size, tile, last = self.size, self.tile, self.relation.dims[-1]
        width = (tiles[-1] - 1) * tile + size
        rows = _axes("k", (size,) * (self.ndims - 1))
        own = TreeTensor.row_major("rows", (size,) * (self.ndims - 1) + (width,))
        items: list[Item] = []

        def fill(first: int, count: int, *guards: Guard) -> None:
            if count > 0:
                w = TreeAxis("w", count)
                items.append(Each((*rows, w), (own.store((*rows, w + first), Const(0.0)),), guards))

        inside: list[Guard] = []
        index: list[Affine] = []
        for o, k, dim in zip(at, rows, self.relation.dims, strict=False):
            start = row * tile - dim.padding
            index.append(o * tile + k + start)
            if start < 0:
                fill(0, width, Guard(index[-1] * -1 + -1, -start))
            over = (tiles[0] - 1) * tile + size + start - dim.window
            if over > 0:
                fill(0, width, Guard(index[-1] + -dim.window, over))
            inside += [Guard(index[-1], dim.window)] * (start < 0 or over > 0)
        count = min(last.window, width - last.padding)
        fill(0, last.padding)
        fill(last.padding + count, width - last.padding - count)
        w = TreeAxis("w", count)
        copied = own.store((*rows, w + last.padding), x.load(b, c, *index, w))
        items.append(Each((*rows, w), (copied,), tuple(inside)))
        writer = _TransformItems()
        windows = {
            place: own.load(*place[:-1], at[-1] * tile + place[-1])
            for place in product(range(size), repeat=self.ndims)
        }
        found = writer.along_dims(transforms(tile, self.taps)[2], windows, self.ndims)
        stores = (v.store((number, b, *at, c), found[place]) for number, place in enumerate(sorted(found)))
        items.append(Each((at[-1],), (*writer.items, *stores)))
        return LoopTree((x, v), (Each((b, *at[:-1], c), tuple(items), (), (own,)),)).verify()

    def _product_tree(self, images: int, tiles: tuple[int, ...]) -> LoopTree:
        """Return the tree for m from v and u."""
        count = images * prod(tiles)
        v, m = (self._matrices(name, n, count) for name, n in (("v", self.inputs), ("m", self.outputs)))
        outputs = self.weights.ndims - self.ndims - 2
        digits = [index_digits(self.weights, dim) for dim in (outputs, outputs + 1, self.weights.ndims - 1)]
        sizes = self.places, self.inputs, self.outputs
        u = TreeTensor(
            "u",
            DataType.f32,
            sizes,
            (*sizes[:2], self.weights.padded_dims[outputs]),
            (digits[2], digits[1], digits[0]),
        )
        e, t, i, j = (
            TreeAxis(*axis)
            for axis in (("e", self.places), ("t", count), ("i", self.inputs), ("j", self.outputs))
        )
        summed = Each((i,), (fold_over("sum", "total", v.load(e, t, i) * u.load(e, i, j)),))
        return LoopTree((v, u, m), (Each((e, t, j), (summed, m.store((e, t, j), Ref("total")))),)).verify()

    def _result_tree(self, images: int, row: int, tiles: tuple[int, ...]) -> LoopTree:
        """Return the tree for y from m, with the attributes applied."""
        m, whole = self._places("m", self.outputs, images, tiles), TreeTensor.of_desc("y", self.dst)
        y = replace(whole, padded=whole.sizes)
        b, c, at = TreeAxis("b", images), TreeAxis("j", self.outputs), _axes("o", tiles)
        size, tile, dims = self.size, self.tile, self.relation.dims
        rows = _axes("k", [min(tile, dim.points) for dim in dims[:-1]])
        w = TreeAxis("w", dims[-1].points)
        own = TreeTensor.row_major("rows", (tile,) * (self.ndims - 1) + (tiles[-1] * tile,))
        writer = _TransformItems()
        places = product(range(size), repeat=self.ndims)
        windows = {place: writer.named(m.load(n, b, *at, c)) for n, place in enumerate(places)}
        found = writer.along_dims(transforms(tile, self.taps)[0], windows, self.ndims)
        kept = (own.store((*place[:-1], at[-1] * tile + place[-1]), value) for place, value in found.items())
        made = Each((at[-1],), (*writer.items, *kept))
        index = [o * tile + k + row * tile for o, k in zip(at, rows, strict=False)]
        guards = tuple(
            Guard(each, dim.points)
            for each, dim in zip(index, dims, strict=False)
            if (row + tiles[0]) * tile > dim.points
        )
        where: Index = (b, c, *index, w)
        stored = y.store(where, self.chain.result(own.load(*rows, w), y, where))
        each = Each((b, *at[:-1], c), (made, Each((*rows, w), (stored,), guards)), (), (own,))
        old = old_tensors(self.chain.computed.compute, y)
        scalars = len(self.chain.computed.scalars)
        return LoopTree((m, y, *self.chain.operands, *old), (each,), scalars).verify()

    def _places(self, name: str, channels: int, images: int, tiles: tuple[int, ...]) -> TreeTensor:
        """Return the matrices of all positions, by image and tile."""
        sizes = self.places, images, *tiles, channels
        step = images * prod(tiles) * channels + _GAP
        inner = [prod(sizes[dim + 1 :]) for dim in range(1, len(sizes))]
        return _strided(name, sizes, (step, *inner))

    def _matrices(self, name: str, channels: int, count: int) -> TreeTensor:
        """Return the same, by the number of the tile."""
        return _strided(name, (self.places, count, channels), (count * channels + _GAP, channels, 1))


def _axes(letter: str, extents: Sequence[int]) -> tuple[TreeAxis, ...]:
    return tuple(TreeAxis(f"{letter}{d}", n) for d, n in enumerate(extents))


def _strided(name: str, sizes: tuple[int, ...], strides: tuple[int, ...]) -> TreeTensor:
    digits: tuple[IndexDigits, ...] = tuple((IndexDigit(1, stride),) for stride in strides)
    return TreeTensor(name, DataType.f32, sizes, sizes, digits)


def _moved(tensor: TreeTensor, images: int, rows: int) -> int:
    """Return the bytes a tensor moves from an element to the same one of another image and row."""
    elements = offset_at(tensor.digits[0], images) + offset_at(tensor.digits[2], rows)
    return tensor.data_type.nbytes(elements)


# --- choosing the algorithm ---------------------------------------------------------------------------------


def fastest_tile(relation: ConvolutionExtents, *, may_be_direct: bool) -> int:
    """Return the tile size that takes the least time; 0 if the direct algorithm takes less.

    Time is counted in products. Reading a weight costs some products, however it is used. Only one image is
    considered, so that its results do not depend on the batch size.
    """
    inputs, outputs, ndims = relation.window_channels, relation.point_channels, len(relation.dims)
    taps = relation.dims[0].kernel

    def time(tile: int) -> int:
        tiles = prod(-(-dim.points // tile) for dim in relation.dims)
        moves = tiles * (TILE_READ * inputs + TILE_WRITTEN * outputs) if tile > 1 else 0
        products = inputs * outputs * max(tiles, WEIGHT_READ)
        return int((tile + taps - 1) ** ndims * (products + moves))

    best = min(TILES[taps, ndims], key=time)
    return best if not may_be_direct or time(best) * LEAST_GAIN < time(1) else 0
