"""The step that quantises by scales found from the data: along an axis, in groups, or for a whole tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import reorder
from ..desc.memory_desc import MemoryDesc
from ..desc.tags import Tag
from ..dtypes import DataType
from ..quantising import quantize
from ..runtime.alloc import Array
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from .moves import share_of
from .places import FilePlace, Workspace, gather, scatter
from .rules import ConversionRule
from .stored import StoredArray, StoredTensor
from .tiles import TileGrid, box_bytes, compact, runs_of

_CPU = Engine("cpu")
# Of f32 arithmetic, in units of half a step.
_SLACK = 1e-3
# Bits behind the point, and the exponent of the least step.
_FLOATS = {DataType.f8_e4m3: (3, -9), DataType.f8_e5m2: (2, -16), DataType.f4_e2m1: (1, -1)}


@dataclass(frozen=True, slots=True)
class QuantiseStep:
    """Values quantised by scales that are found from them: for each box, as a box has all that share one."""

    source: StoredTensor
    results: tuple[StoredArray, ...]
    rule: ConversionRule
    src: MemoryDesc
    dst: MemoryDesc
    grid: TileGrid
    axis: int | None

    @property
    def tiles(self) -> int:
        """Boxes of the tensor."""
        return len(self.grid) if self.src.nelems else 0

    @property
    def tile_bytes(self) -> int:
        """A box on both sides, and one between."""
        return box_bytes((self.src, self.src, self.dst, self.dst), self.grid.box)

    def weight(self, tile: int) -> int:
        """The share of a box in the tensor's bytes."""
        return share_of(self.source, self.src, self.grid.size(self.grid.start(tile)))

    def run(self, tile: int, source: FilePlace, targets: Sequence[FilePlace], space: Workspace) -> None:
        """Gather, find scales, quantise, scatter the values and the scales."""
        start = self.grid.start(tile)
        size = self.grid.size(start)
        made = self._made(source, start, size, space)
        scatter(targets[0], runs_of(self.dst, start, size), made[0])
        for place, result, part in zip(targets[1:], self.results[1:], made[1:], strict=True):
            assert result.desc is not None
            scatter(place, runs_of(result.desc, *self._scale_box(start, size)), part)

    def check(self, tile: int, source: FilePlace, targets: Sequence[FilePlace], space: Workspace) -> bool:
        """Whether each value that was written is within half a step of the source."""
        start = self.grid.start(tile)
        size = self.grid.size(start)
        src, dst = compact(self.src, size), compact(self.dst, size)
        written = space.bytes("written", dst.size)
        gather(targets[0], runs_of(self.dst, start, size), written)
        parts = []
        for place, result in zip(targets[1:], self.results[1:], strict=True):
            assert result.desc is not None
            box = self._scale_box(start, size)
            held = np.empty(box[1], result.kind.numpy)
            gather(place, runs_of(result.desc, *box), held.reshape(-1).view(np.uint8))
            parts.append(self._along(held, size))
        read = space.bytes("source", src.size)
        gather(source, runs_of(self.src, start, size), read)
        exact = reorder(Memory(src, _CPU, read), MemoryDesc(size, "f32"))
        found = reorder(Memory(dst, _CPU, written), MemoryDesc(size, "f32"))
        return within_half_a_step(exact, found, self.dst.data_type, *parts)

    def _along(self, held: Array, size: tuple[int, ...]) -> Array:
        """Scales, as they go with the elements of a box."""
        if self.axis is None:
            return held
        if self.rule.group is not None:
            return held.repeat(self.rule.group, self.axis)
        return held.reshape(tuple(n if d == self.axis else 1 for d, n in enumerate(size)))

    def _made(
        self, source: FilePlace, start: tuple[int, ...], size: tuple[int, ...], space: Workspace
    ) -> tuple[Array, ...]:
        """The bytes of the values' box, and of the boxes of their scales and zero points."""
        src, dst = compact(self.src, size), compact(self.dst, size)
        read = space.bytes("source", src.size)
        gather(source, runs_of(self.src, start, size), read)
        group, axis = self.rule.group, self.axis
        if group is None or axis is None:
            found = quantize(Memory(src, _CPU, read), dst.data_type, axis, self._is_symmetric, dst)
            parts = [np.atleast_1d(part) for part in found[1:]]
        else:
            found = self._grouped(src, dst, read, space)
            parts = list(found[1:])
        kinds = (np.float32, np.int32)
        return (
            _bytes_of(found[0]),
            *(
                np.ascontiguousarray(part, kind).reshape(-1).view(np.uint8)
                for part, kind, _ in zip(parts, kinds, self.results[1:], strict=False)
            ),
        )

    def _grouped(
        self, src: MemoryDesc, dst: MemoryDesc, read: Array, space: Workspace
    ) -> tuple[Memory, Array, Array]:
        """Groups as rows of a matrix, each with a scale."""
        group, axis = self.rule.group, self.axis
        assert group is not None
        assert axis is not None
        # The groups' axis innermost.
        order = (*(d for d in range(src.ndims) if d != axis), axis)
        rows = MemoryDesc(src.dims, src.data_type, Tag(order))
        if rows != src:
            turned = space.bytes("turned", rows.size)
            reorder(Memory(src, _CPU, read), None, out=Memory(rows, _CPU, turned))
            read = turned
        matrix = MemoryDesc((src.nelems // group, group), src.data_type)
        q, scale, zero = quantize(Memory(matrix, _CPU, read), dst.data_type, 0, self._is_symmetric)
        made = space.bytes("made", dst.size)
        written = Memory(rows.as_type(dst.data_type), _CPU, _bytes_of(q))
        reorder(written, None, out=Memory(dst, _CPU, made))
        shape = tuple(src.dims[d] // (group if d == axis else 1) for d in order)
        back = np.argsort(order)
        parts = [np.asarray(part).reshape(shape).transpose(back) for part in (scale, zero)]
        return Memory(dst, _CPU, made), parts[0], parts[1]

    @property
    def _is_symmetric(self) -> bool:
        return self.rule.scale == "absmax"

    def _scale_box(
        self, start: tuple[int, ...], size: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The box of the scales of a box: its start and its size."""
        axis, group = self.axis, self.rule.group
        if axis is None:
            return (0,), (1,)
        if group is None:
            return (start[axis],), (size[axis],)
        return _divided(start, axis, group), _divided(size, axis, group)


def _divided(values: tuple[int, ...], axis: int, group: int) -> tuple[int, ...]:
    return tuple(n // group if d == axis else n for d, n in enumerate(values))


def _bytes_of(made: Memory | Array) -> Array:
    """The bytes of a result, which is dense."""
    memory = made if isinstance(made, Memory) else Memory.from_numpy(made)
    data = memory.data
    assert data is not None
    found: Array = data.view(np.uint8)[: memory.desc.size]
    return found


def within_half_a_step(
    exact: Array, found: Array, data_type: DataType, scale: Array, zero: Array | None = None
) -> bool:
    """Whether quantised values `found`, of this type, stand for `exact` ones as well as they can.

    Where a value is no number, any quantised one will do.
    """
    shifted = found if zero is None else found - zero
    if data_type in _FLOATS:
        point, least = _FLOATS[data_type]
        steps = np.maximum(
            np.exp2(np.floor(np.log2(np.maximum(np.abs(shifted), 2.0**-40))) - point), 2.0**least
        )
    else:
        steps = np.float32(1)
    with np.errstate(all="ignore"):
        error = np.abs(exact - scale * shifted)
        fits = error <= np.abs(scale) * steps * (0.5 + _SLACK)
    return bool((fits | ~np.isfinite(exact)).all())
