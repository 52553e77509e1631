"""Steps that move: bytes as they are, or the elements of a tensor into another layout and type.

A tile reads its box of the source and writes its boxes of the results, and nothing else: a conversion that
was killed goes on with the tiles that are not done, and gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..arrays import reorder
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..runtime.alloc import Array
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from .file_image import PIECE
from .physical_boxes import box_shape
from .places import FilePlace, TensorPlace, Workspace, copy_bytes
from .rules import ConversionRule
from .stored_tensors import StoredArray, StoredTensor, is_dense
from .tiles import TileGrid, box_bytes, compact

_CPU = Engine("cpu")
_CHUNK = 32 << 20


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
        for at, count in _pieces(first, nbytes):
            piece = space.bytes("copy", count)
            source.read(self._line, (at,), (count,), piece)
            targets[0].write(self._line, (at,), (count,), piece)

    def check(self, tile: int, source: TensorPlace, targets: Sequence[TensorPlace], space: Workspace) -> bool:
        """Whether both chunks are the same."""
        for at, count in _pieces(tile * _CHUNK, self.weight(tile)):
            read, written = space.bytes("source", count), space.bytes("written", count)
            source.read(self._line, (at,), (count,), read)
            targets[0].read(self._line, (at,), (count,), written)
            if not np.array_equal(read, written):
                return False
        return True

    @property
    def _line(self) -> MemoryDesc:
        """The bytes of the tensor."""
        return MemoryDesc((self.source.array.nbytes,), DataType.u8)


def _pieces(first: int, nbytes: int) -> Iterator[tuple[int, int]]:
    """Starts and lengths of what is read at a time."""
    for at in range(first, first + nbytes, PIECE):
        yield at, min(PIECE, first + nbytes - at)


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
        start = self.grid.start(tile)
        size = self.grid.size(start)
        made = self._made(source, start, size, space)
        targets[0].write(self.dst, start, size, made)

    def check(self, tile: int, source: TensorPlace, targets: Sequence[TensorPlace], space: Workspace) -> bool:
        """Moves: what was written, moved back, is the source. Else: it is what the source converts to."""
        start = self.grid.start(tile)
        size = self.grid.size(start)
        src, dst = compact(self.src, size), compact(self.dst, size)
        written = space.bytes("written", dst.size)
        targets[0].read(self.dst, start, size, written)
        if src.data_type is not dst.data_type or self._factors:
            return bool(np.array_equal(written, self._made(source, start, size, space)))
        read, back = space.bytes("source", src.size), space.bytes("back", src.size)
        source.read(self.src, start, size, read)
        # Gaps and padding of the source may hold anything: they are taken as they are.
        back[:] = read
        reorder(Memory(dst, _CPU, written), None, out=Memory(src, _CPU, back))
        again = space.bytes("again", dst.size)
        reorder(Memory(src, _CPU, back), None, out=Memory(dst, _CPU, again))
        return bool(np.array_equal(read, back) and (not is_dense(dst) or np.array_equal(written, again)))

    @property
    def _factors(self) -> dict[str, Any]:
        rule = self.rule
        if rule is None:
            return {}
        factors = {"scale": rule.scale, "zero_point": rule.zero_point or None}
        return {name: value for name, value in factors.items() if value is not None}

    def _made(
        self, source: TensorPlace, start: tuple[int, ...], size: tuple[int, ...], space: Workspace
    ) -> Array:
        """The box of the result."""
        src, dst = compact(self.src, size), compact(self.dst, size)
        read, made = space.bytes("source", src.size), space.bytes("made", dst.size)
        source.read(self.src, start, size, read)
        reorder(Memory(src, _CPU, read), None, out=Memory(dst, _CPU, made), **self._factors)
        return made


def share_of(source: StoredTensor, src: MemoryDesc, size: tuple[int, ...]) -> int:
    """The part of a tensor's bytes that a box of it is."""
    return source.array.nbytes * prod(size) // max(src.nelems, 1)
