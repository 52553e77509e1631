"""Steps that move: bytes as they are, or the elements of a tensor into another layout and type.

A tile reads its box of the source and writes its boxes of the results, and nothing else: a conversion that
was killed goes on with the tiles that are not done, and gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...arrays.reorders import reorder
from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...runtime.alloc import Array
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ..physical_boxes import box_shape
from ..places import FilePlace, TensorPlace, Workspace, copy_bytes
from ..stored_tensors import StoredArray, StoredTensor, is_dense
from ..writing.file_image import PIECE
from .rules import ConversionRule
from .tiles import Ints, TileGrid, box_bytes, compact, pieces_of
from .value_errors import HALF_LOST, ErrorBound, GroupErrors, Quantization, ValueErrors, as_f64

_CPU = Engine("cpu")
_CHUNK = 32 << 20
# What f32 arithmetic may be off by, relative to a value.
_ROUNDING = 2.0**-22


class TileBox(NamedTuple):
    """A box that a tile writes: of which result, by which descriptor, from where on, of which extents."""

    result: int
    desc: MemoryDesc
    start: Ints
    size: Ints


@dataclass(frozen=True, slots=True)
class CopyStep:
    """The bytes as they are."""

    source: StoredTensor
    results: tuple[StoredArray, ...]
    rule: ConversionRule | None

    @property
    def tiles(self) -> int:
        """Chunks of the tensor's bytes."""
        return -(-self.source.array.nbytes // _CHUNK)

    @property
    def tile_bytes(self) -> int:
        """A buffer, whatever the tensor."""
        return PIECE

    @property
    def tolerance(self) -> None:
        """Nothing may be another."""
        return None

    @property
    def result_boxes(self) -> tuple[tuple[int, ...], ...]:
        """All of the array: where arrays lie in boxes, only those without axes are copied so."""
        return (self.results[0].shape,)

    def weight(self, tile: int) -> int:
        """The bytes of a chunk."""
        return min(_CHUNK, self.source.array.nbytes - tile * _CHUNK)

    def run(self, tile: int, source: TensorPlace, targets: Sequence[TensorPlace], space: Workspace) -> None:
        """Copy a chunk."""
        first, nbytes = tile * _CHUNK, self.weight(tile)
        if isinstance(source, FilePlace) and isinstance(targets[0], FilePlace):
            copy_bytes(source, targets[0], first, nbytes, space)
            return
        for _, line, at, count in self.boxes(tile):
            piece = space.bytes("copy", *count)
            source.read(line, at, count, piece)
            targets[0].write(line, at, count, piece)

    def boxes(self, tile: int) -> Sequence[TileBox]:
        """A chunk, in pieces."""
        line = MemoryDesc((self.source.array.nbytes,), DataType.u8)
        first, end = tile * _CHUNK, tile * _CHUNK + self.weight(tile)
        return [TileBox(0, line, (at,), (min(PIECE, end - at),)) for at in range(first, end, PIECE)]

    def check(
        self, tile: int, source: TensorPlace, targets: Sequence[TensorPlace], space: Workspace
    ) -> ValueErrors:
        """Whether both chunks are the same."""
        for _, line, at, count in self.boxes(tile):
            read, written = space.bytes("source", *count), space.bytes("written", *count)
            source.read(line, at, count, read)
            targets[0].read(line, at, count, written)
            if not np.array_equal(read, written):
                return ValueErrors(is_right=False)
        return ValueErrors()


@dataclass(frozen=True, slots=True)
class MoveStep:
    """Another layout, another type, a number that multiplies, or all of it."""

    source: StoredTensor
    results: tuple[StoredArray, ...]
    rule: ConversionRule | None
    src: MemoryDesc
    dst: MemoryDesc
    grid: TileGrid

    @property
    def tiles(self) -> int:
        """Boxes of the tensor."""
        return len(self.grid) if self.src.nelems else 0

    @property
    def tile_bytes(self) -> int:
        """A box on both sides."""
        return box_bytes((self.src, self.dst), self.grid.box)

    @property
    def result_boxes(self) -> tuple[tuple[int, ...], ...]:
        """The box of the result."""
        return (box_shape(self.results[0], self.dst, self.grid.box),)

    def weight(self, tile: int) -> int:
        """The share of a box in the tensor's bytes."""
        return share_of(self.source, self.src, self.grid.size(self.grid.start(tile)))

    def run(self, tile: int, source: TensorPlace, targets: Sequence[TensorPlace], space: Workspace) -> None:
        """Read, reorder, write."""
        (_, desc, start, size) = self.boxes(tile)[0]
        targets[0].write(desc, start, size, self._made(source, start, size, space))

    def boxes(self, tile: int) -> Sequence[TileBox]:
        """The box of the result."""
        start = self.grid.start(tile)
        return [TileBox(0, self.dst, start, self.grid.size(start))]

    @property
    def tolerance(self) -> ErrorBound | None:
        """None where the result has the same values, because its type has all of the source's."""
        read, written = self.src.data_type, self.dst.data_type
        has_all = read is written or (
            read.numpy is not None
            and written.numpy is not None
            and np.can_cast(read.numpy, written.numpy, "safe")
        )
        return None if has_all and not self._factors else HALF_LOST

    def check(
        self, tile: int, source: TensorPlace, targets: Sequence[TensorPlace], space: Workspace
    ) -> ValueErrors:
        """Values that keep their type: whether what was written, moved back, is the source. Else: whether it
        is what the source converts to, and how far that is from it.
        """
        start = self.grid.start(tile)
        size = self.grid.size(start)
        if self.src.data_type is not self.dst.data_type or self._factors:
            return self._errors(start, size, source, targets[0], space)
        src, dst = compact(self.src, size), compact(self.dst, size)
        written = space.bytes("written", dst.size)
        targets[0].read(self.dst, start, size, written)
        read, back = space.bytes("source", src.size), space.bytes("back", src.size)
        source.read(self.src, start, size, read)
        # Gaps and padding of the source may hold anything: they are taken as they are.
        back[:] = read
        reorder(Memory(dst, _CPU, written), None, out=Memory(src, _CPU, back))
        again = space.bytes("again", dst.size)
        reorder(Memory(src, _CPU, back), None, out=Memory(dst, _CPU, again))
        is_same = np.array_equal(read, back) and (not is_dense(dst) or np.array_equal(written, again))
        return ValueErrors(is_right=bool(is_same))

    def _errors(
        self, start: Ints, size: Ints, source: TensorPlace, target: TensorPlace, space: Workspace
    ) -> ValueErrors:
        """How far the values of a box are from the source's, as long as the bytes are what they must be."""
        factors = self._factors
        with np.errstate(all="ignore"):
            step = np.float64(1) / factors.get("scale", 1.0)
        rounding = _ROUNDING if factors else 0.0
        how = Quantization(self.dst.data_type, step, factors.get("zero_point", 0), rounding=rounding)
        ones, groups, tolerance = (1,) * len(size), GroupErrors((1,) * len(size)), self.tolerance
        for first, extents in pieces_of((self.src, self.dst), size):
            at = tuple(a + b for a, b in zip(start, first, strict=True))
            src, dst = compact(self.src, extents), compact(self.dst, extents)
            written = space.bytes("written", dst.size)
            target.read(self.dst, at, extents, written)
            if not np.array_equal(written, self._made(source, at, extents, space)):
                return ValueErrors(is_right=False)
            if tolerance is None:
                continue
            exact, stored = Memory(src, _CPU, space.bytes("source", src.size)), Memory(dst, _CPU, written)
            groups.add(as_f64(exact), as_f64(stored), how, (0,) * len(size), ones)
        return groups.summed_up(HALF_LOST)

    @property
    def _factors(self) -> dict[str, Any]:
        rule = self.rule
        if rule is None:
            return {}
        factors = {"scale": rule.scale, "zero_point": rule.zero_point or None}
        return {name: value for name, value in factors.items() if value is not None}

    def _made(self, source: TensorPlace, start: Ints, size: Ints, space: Workspace) -> Array:
        """The box of the result."""
        src, dst = compact(self.src, size), compact(self.dst, size)
        read, made = space.bytes("source", src.size), space.bytes("made", dst.size)
        source.read(self.src, start, size, read)
        reorder(Memory(src, _CPU, read), None, out=Memory(dst, _CPU, made), **self._factors)
        return made


def share_of(source: StoredTensor, src: MemoryDesc, size: tuple[int, ...]) -> int:
    """The part of a tensor's bytes that a box of it is."""
    return source.array.nbytes * prod(size) // max(src.nelems, 1)
