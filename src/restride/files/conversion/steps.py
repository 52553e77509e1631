"""Steps of a conversion: one tensor each, copied, moved to another layout and type, or quantized.

A tile reads its box of the source, writes its boxes of the results, and does nothing else: tiles can be done
in any order, and an interrupted conversion continues with the remaining ones and produces the same bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...arrays.reorders import reorder
from ...arrays.scaling.block_scales import quantize_in_groups
from ...arrays.scaling.group import GroupScaling
from ...arrays.scaling.quantization import quantize, quantize_by
from ...desc.memory_desc import MemoryDesc
from ...desc.text_forms import order_tag
from ...dtypes import DataType
from ...errors import refuse
from ...formats import gguf
from ...formats.ggml_blocks import blocks_of
from ...runtime.alloc import Array
from ...runtime.cpu.ranges import min_max
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ..places import FilePlace, TensorPlace, Workspace, bytes_of
from ..stored_tensors import PIECE, StoredArray, StoredTensor, is_dense
from .reals import are_finite, check_scales, in_bytes, units_of
from .rules import ConversionRule
from .tiles import Ints, TileGrid, box_bytes, box_shape, compact, pieces_of
from .value_errors import (
    EXACT,
    HALF_LOST,
    ErrorBound,
    GroupErrors,
    Quantization,
    ValueErrors,
    as_f64,
    bound_of,
)

_CPU = Engine("cpu")
# Error bound of f32 arithmetic, relative to a value.
_ROUNDING = 2.0**-22

Targets = Sequence[TensorPlace]


class TileBox(NamedTuple):
    """A box that a tile writes: the number of the result, its descriptor, the start and the extents."""

    result: int
    desc: MemoryDesc
    start: Ints
    size: Ints


@dataclass(frozen=True, slots=True)
class ConversionStep:
    """The work for one tensor, in tiles.

    source   the tensor that is read
    results  the arrays that are written; the first one has the tensor's name
    rule     the rule that matches the tensor
    src, dst  the descriptors for reading tiles and for writing the first result
    grid     the tiles
    """

    source: StoredTensor
    results: tuple[StoredArray, ...]
    rule: ConversionRule | None
    src: MemoryDesc
    dst: MemoryDesc
    grid: TileGrid

    @property
    def tiles(self) -> int:
        """The number of tiles."""
        return len(self.grid) if self.src.nelems else 0

    @property
    def tile_bytes(self) -> int:
        """The memory of one tile in bytes."""
        return box_bytes((self.src, self.dst), self.grid.box)

    @property
    def result_boxes(self) -> tuple[Ints, ...]:
        """The extents of what the first tile writes of each result."""
        boxes = self._boxes_of((0,) * self.dst.ndims, self.grid.box)
        return tuple(box_shape(self.results[box.result], box.desc, box.size) for box in boxes)

    @property
    def tolerance(self) -> ErrorBound | None:
        """The error bound for values; None if all bits are the same."""
        return None

    def weight(self, tile: int) -> int:
        """Return the number of source bytes that a tile represents: the share of its box."""
        _, size = self.grid[tile]
        return self.source.array.nbytes * prod(size) // max(self.src.nelems, 1)

    def boxes(self, tile: int) -> Sequence[TileBox]:
        """Return the boxes that a tile writes, in order."""
        return self._boxes_of(*self.grid[tile])

    def run(self, tile: int, source: TensorPlace, targets: Targets, space: Workspace) -> None:
        """Do one tile."""
        raise NotImplementedError

    def check(self, tile: int, source: TensorPlace, targets: Targets, space: Workspace) -> ValueErrors:
        """Read back what a tile has written, and return its errors."""
        raise NotImplementedError

    def _boxes_of(self, start: Ints, size: Ints) -> list[TileBox]:
        """Return the boxes that the tile for this source box writes."""
        return [TileBox(0, self.dst, start, size)]


def read_box(
    place: TensorPlace, desc: MemoryDesc, start: Ints, size: Ints, space: Workspace, name: str
) -> Memory:
    """Read a box of a tensor, gathered, into a buffer of `space`."""
    box = compact(desc, size)
    content = space.bytes(name, box.size)
    place.read(desc, start, size, content)
    return Memory(box, _CPU, content)


@lru_cache(maxsize=1024)
def _line_of(nbytes: int) -> MemoryDesc:
    """Describe a number of bytes. Cached: a checkpoint's thousands of tensors have few distinct lengths."""
    return MemoryDesc((nbytes,), DataType.u8)


class CopyStep(ConversionStep):
    """Copies bytes unchanged: both descriptors are of a row of bytes."""

    CHUNK = 32 << 20

    @classmethod
    def of(cls, source: StoredTensor, rule: ConversionRule | None) -> CopyStep:
        """Return the step for a tensor."""
        line = _line_of(source.array.nbytes)
        return cls(source, (source.array,), rule, line, line, TileGrid(line.dims, (cls.CHUNK,)))

    @property
    def tile_bytes(self) -> int:
        """The size of a buffer, whatever the tensor."""
        return PIECE

    @property
    def result_boxes(self) -> tuple[Ints, ...]:
        """The whole array: where arrays are written in boxes, only those without axes are copied this way."""
        return (self.results[0].shape,)

    def weight(self, tile: int) -> int:
        """Return the size of a chunk."""
        return min(self.CHUNK, self.source.array.nbytes - tile * self.CHUNK)

    def run(self, tile: int, source: TensorPlace, targets: Targets, space: Workspace) -> None:
        """Copy a chunk."""
        if isinstance(source, FilePlace) and isinstance(targets[0], FilePlace):
            source.copy_to(targets[0], tile * self.CHUNK, self.weight(tile), space)
            return
        for _, line, at, count in self.boxes(tile):
            piece = space.bytes("copy", *count)
            source.read(line, at, count, piece)
            targets[0].write(line, at, count, piece)

    def check(self, tile: int, source: TensorPlace, targets: Targets, space: Workspace) -> ValueErrors:
        """Return no errors if both chunks are the same."""
        for _, line, at, count in self.boxes(tile):
            source_bytes, target_bytes = space.bytes("source", *count), space.bytes("written", *count)
            source.read(line, at, count, source_bytes)
            targets[0].read(line, at, count, target_bytes)
            if not np.array_equal(source_bytes, target_bytes):
                return ValueErrors(is_right=False)
        return ValueErrors()

    def _boxes_of(self, start: Ints, size: Ints) -> list[TileBox]:
        """Return a chunk, in pieces."""
        first, end = start[0], start[0] + size[0]
        return [TileBox(0, self.dst, (at,), (min(PIECE, end - at),)) for at in range(first, end, PIECE)]


class MoveStep(ConversionStep):
    """Changes the layout, the type, or both, optionally with a factor."""

    def run(self, tile: int, source: TensorPlace, targets: Targets, space: Workspace) -> None:
        """Read, reorder, write."""
        start, size = self.grid[tile]
        targets[0].write(self.dst, start, size, self._converted(source, start, size, space))

    @property
    def tolerance(self) -> ErrorBound | None:
        """None if the values stay the same, because the result's type contains all of the source's."""
        src, dst = self.src.data_type, self.dst.data_type
        has_all = src is dst or (
            src.numpy is not None and dst.numpy is not None and np.can_cast(src.numpy, dst.numpy, "safe")
        )
        if self._factors:
            return HALF_LOST
        return None if has_all else HALF_LOST if src.kind == "float" else EXACT

    def check(self, tile: int, source: TensorPlace, targets: Targets, space: Workspace) -> ValueErrors:
        """Check a tile: values that keep their type are moved back and must equal the source; others must
        equal the converted source, and their distance from it is measured.
        """
        start, size = self.grid[tile]
        if self.src.data_type is not self.dst.data_type or self._factors:
            return self._errors(start, size, source, targets[0], space)
        result = read_box(targets[0], self.dst, start, size, space, "written")
        exact = read_box(source, self.src, start, size, space, "source")
        back, again = space.bytes("back", exact.desc.size), space.bytes("again", result.desc.size)
        # Gaps and padding of the source are arbitrary and are not compared.
        back[:] = bytes_of(exact)
        returned = Memory(exact.desc, _CPU, back)
        reorder(result, None, out=returned)
        reorder(returned, None, out=Memory(result.desc, _CPU, again))
        is_same = np.array_equal(bytes_of(exact), back) and (
            not is_dense(result.desc) or np.array_equal(bytes_of(result), again)
        )
        return ValueErrors(is_right=bool(is_same))

    def _errors(
        self, start: Ints, size: Ints, source: TensorPlace, target: TensorPlace, space: Workspace
    ) -> ValueErrors:
        """Return the errors of the values of a box if its bytes are as expected."""
        factors = self._factors
        with np.errstate(all="ignore"):
            step = np.float64(1) / factors.get("scale", 1.0)
        rounding = _ROUNDING if factors else 0.0
        how = Quantization(self.dst.data_type, step, factors.get("zero_point", 0), rounding=rounding)
        ones, groups, tolerance = (1,) * len(size), GroupErrors((1,) * len(size)), self.tolerance
        for first, extents in pieces_of((self.src, self.dst), size):
            at = tuple(a + b for a, b in zip(start, first, strict=True))
            result = read_box(target, self.dst, at, extents, space, "written")
            if not np.array_equal(bytes_of(result), self._converted(source, at, extents, space)):
                return ValueErrors(is_right=False)
            if tolerance is not None:
                src = compact(self.src, extents)
                exact = Memory(src, _CPU, space.bytes("source", src.size))
                groups.add(as_f64(exact), as_f64(result), how, (0,) * len(size), ones)
        return groups.summed_up(HALF_LOST)

    @property
    def _factors(self) -> dict[str, Any]:
        rule = self.rule
        if rule is None or rule.is_found:
            return {}
        factors = {"scale": rule.scale, "zero_point": rule.zero_point or None}
        return {name: value for name, value in factors.items() if value is not None}

    def _converted(self, source: TensorPlace, start: Ints, size: Ints, space: Workspace) -> Array:
        """Return the bytes of the result's box; those of the source are in `space` under "source"."""
        dst = compact(self.dst, size)
        exact, converted = (
            read_box(source, self.src, start, size, space, "source"),
            space.bytes("made", dst.size),
        )
        reorder(exact, None, out=Memory(dst, _CPU, converted), **self._factors)
        return converted


class DequantizeStep(MoveStep):
    """Converts ggml blocks to real numbers, in another type and layout."""

    @property
    def tolerance(self) -> None:
        """None: the numbers are those that the blocks represent, rounded to the type."""

    def check(self, tile: int, source: TensorPlace, targets: Targets, space: Workspace) -> ValueErrors:
        """Return no errors if the output equals the numbers that the blocks represent."""
        start, size = self.grid[tile]
        result = read_box(targets[0], self.dst, start, size, space, "written")
        made = self._converted(source, start, size, space)
        return ValueErrors(is_right=np.array_equal(bytes_of(result), made))

    def _converted(self, source: TensorPlace, start: Ints, size: Ints, space: Workspace) -> Array:
        """Return the bytes of the result's box."""
        kind, dst = self.source.array.kind, compact(self.dst, size)
        dims, first, extents = (in_bytes(kind, box) for box in (self.src.dims, start, size))
        blocks = read_box(source, MemoryDesc(dims, DataType.u8), first, extents, space, "source")
        converted = space.bytes("made", dst.size)
        check_scales(self.source, bytes_of(blocks))
        tensor = gguf.BLOCK_FORMATS[kind.word](size).wrap(bytes_of(blocks))
        tensor.dequantize(out=Memory(dst, _CPU, converted))
        return converted


class PackStep(ConversionStep):
    """Packs real numbers into ggml blocks; tiles consist of whole blocks."""

    @property
    def tolerance(self) -> ErrorBound:
        """No bound: the blocks must equal the quantized source; their errors are only reported."""
        return ErrorBound(1e30, has_groups=True)

    def run(self, tile: int, source: TensorPlace, targets: Targets, space: Workspace) -> None:
        """Read, quantize, write."""
        (box,) = self.boxes(tile)
        targets[0].write(box.desc, box.start, box.size, self._packed(tile, source, space))

    def check(self, tile: int, source: TensorPlace, targets: Targets, space: Workspace) -> ValueErrors:
        """Return the errors of the output if it equals the quantized source."""
        (box,), kind = self.boxes(tile), self.results[0].kind
        result = read_box(targets[0], box.desc, box.start, box.size, space, "written")
        if not np.array_equal(bytes_of(result), self._packed(tile, source, space)):
            return ValueErrors(is_right=False)
        (start, size), errors = self.grid[tile], ValueErrors()
        make = gguf.BLOCK_FORMATS[kind.word]
        for first, extents in pieces_of((self.src,), size, (*(1,) * (len(size) - 1), kind.block)):
            at = tuple(a + b for a, b in zip(start, first, strict=True))
            exact = read_box(source, self.src, at, extents, space, "source")
            of_blocks = in_bytes(kind, at), in_bytes(kind, extents)
            written = read_box(targets[0], self.dst, *of_blocks, space, "written")
            form = make(extents)
            group = kind.block if form.blocks is None else form.blocks.group
            counts, how = (*extents[:-1], extents[-1] // group), Quantization(DataType.f64)
            groups, values = GroupErrors(counts), form.wrap(bytes_of(written)).dequantize()
            groups.add(as_f64(exact), as_f64(values), how, (0,) * len(counts), counts)
            errors += groups.summed_up(self.tolerance)
        # The bytes are right, even if a value is not the nearest.
        return replace(errors, is_right=True)

    def _packed(self, tile: int, source: TensorPlace, space: Workspace) -> Array:
        exact, kind = read_box(source, self.src, *self.grid[tile], space, "source"), self.results[0].kind
        packed = blocks_of(exact, kind.word.lower())
        if not are_finite(kind, packed):
            array = self.source.array
            raise refuse("RS-F07:values-too-large", name=array.name[:120], rule=self.rule, word=kind.word)
        return packed

    def _boxes_of(self, start: Ints, size: Ints) -> list[TileBox]:
        kind = self.results[0].kind
        return [TileBox(0, self.dst, in_bytes(kind, start), in_bytes(kind, size))]


class TensorRange:
    """The smallest and the largest value of a tensor that is larger than a tile and has a single scale.

    When the first thread needs them, all threads compute them together, box by box. Threads that find no box
    left wait for those still being read.
    """

    def __init__(self, src: MemoryDesc, grid: TileGrid) -> None:
        self._src, self._grid = src, grid
        self._turn = threading.Condition()
        self._taken, self._left = 0, len(grid)
        self._low = self._high = 0.0
        self._error: BaseException | None = None

    def find(self, source: TensorPlace, space: Workspace) -> tuple[float, float]:
        """Return the smallest and the largest finite value, including 0.

        Raises whatever reading raises, in each thread.
        """
        try:
            while (box := self._take()) is not None:
                exact = read_box(source, self._src, *self._grid[box], space, "source")
                low, high = min_max(exact.desc, exact.get_data_handle(), 0)
                with self._turn:
                    self._low, self._high = min(self._low, float(low)), max(self._high, float(high))
                    self._left -= 1
                    if not self._left:
                        self._turn.notify_all()
        except BaseException as error:
            with self._turn:
                self._error = self._error or error
                self._turn.notify_all()
            raise
        with self._turn:
            self._turn.wait_for(lambda: not self._left or self._error is not None)
            if self._error is not None:
                raise self._error
            return self._low, self._high

    def _take(self) -> int | None:
        """Return the next box; None if there is none, or none is needed any more."""
        with self._turn:
            if self._error is not None or self._taken >= len(self._grid):
                return None
            self._taken += 1
            return self._taken - 1


@dataclass(frozen=True, slots=True)
class QuantizeStep(ConversionStep):
    """Quantizes with scales found from the data: for the tensor, for each index of `axis`, or for groups.

    A tile contains all elements that share a scale, so it reads its box once and writes values and scales. If
    a single scale applies to a tensor that does not fit into a tile, the tensor is read in advance, for its
    `value_range`.
    """

    rule: ConversionRule
    value_range: TensorRange | None = None
    axis: int | None = None
    scaling: GroupScaling | None = None
    # What the results behind the first are: "scale" and the like.
    parts: tuple[str, ...] = ()

    @property
    def tile_bytes(self) -> int:
        """The size of a box on both sides, and of intermediate results."""
        return box_bytes((self.src, self.src, self.dst, self.dst), self.grid.box)

    @property
    def tolerance(self) -> ErrorBound:
        """Half a step of each group, plus the rounding error of scales."""
        scale, has_zeros = self.results[1].desc, self.rule.scale == "minmax"
        assert scale is not None
        bound, least = bound_of(self.dst.data_type, scale.data_type, has_zeros=has_zeros)
        return ErrorBound(bound, least, self.axis is not None or self.scaling is not None, has_zeros)

    def run(self, tile: int, source: TensorPlace, targets: Targets, space: Workspace) -> None:
        """Read, find scales, quantize, write the values and the scales."""
        boxes = self.boxes(tile)
        size, ends = boxes[0].size, None if self.value_range is None else self.value_range.find(source, space)
        exact = read_box(source, self.src, boxes[0].start, size, space, "source")
        quantized = self._quantized if self.scaling is None else self._quantized_in_groups
        for box, place, part in zip(
            boxes, targets, quantized(exact, compact(self.dst, size), ends), strict=True
        ):
            place.write(box.desc, box.start, box.size, part)

    def _quantized(self, exact: Memory, dst: MemoryDesc, ends: tuple[float, float] | None) -> list[Array]:
        """Return the bytes of the values' box, and of the boxes of the other parts; `ends` are those of the
        whole tensor, if the box does not contain all elements that share a scale.
        """
        is_symmetric = self.rule.scale == "absmax"
        if ends is None:
            elements, *scales = quantize(exact, dst.data_type, self.axis, is_symmetric, dst)
        else:
            _, scale, zero = quantize(np.array(ends), dst.data_type, None, is_symmetric)
            elements, scales = quantize_by(exact, dst.data_type, scale, zero, dst), [scale, zero]
        parts = zip(scales, (np.float32, np.int32), self.results[1:], strict=False)
        beside = (np.atleast_1d(np.asarray(part, kind)) for part, kind, _ in parts)
        values = elements if isinstance(elements, Memory) else Memory.from_numpy(elements)
        return [bytes_of(values), *(np.ascontiguousarray(part).view(np.uint8) for part in beside)]

    def _quantized_in_groups(
        self, exact: Memory, dst: MemoryDesc, ends: tuple[float, float] | None
    ) -> list[Array]:
        """Do the same with the groups of `scaling`."""
        assert self.scaling is not None
        # Groups are axes of plain layouts.
        plain = (
            exact.to(MemoryDesc(exact.desc.dims, exact.desc.data_type)) if exact.desc.inner_blks else exact
        )
        largest = None if ends is None else max(map(abs, ends))
        quantized = quantize_in_groups(plain, self.scaling, order_tag(dst.layout), largest=largest)
        values = quantized.values if quantized.values.desc == dst else quantized.values.to(dst)
        beside = {"scale": quantized.scale, "zero_point": quantized.zero_point}
        if self.scaling.is_two_level:
            whole = np.full((1,) * dst.ndims, quantized.tensor_scale, np.float32)
            beside["tensor_scale"] = Memory.from_numpy(whole)
        parts = []
        for name, result in zip(self.parts, self.results[1:], strict=True):
            part, desc = beside[name], result.desc
            assert part is not None
            assert desc is not None
            box = compact(desc, self._scale_box(desc, (0,) * dst.ndims, dst.dims)[1])
            parts.append(bytes_of(part if part.desc == box else part.to(box)))
        return [bytes_of(values), *parts]

    def _boxes_of(self, start: Ints, size: Ints) -> list[TileBox]:
        """Return the box of the values, and those of the scales."""
        boxes = [TileBox(0, self.dst, start, size)]
        for number, result in enumerate(self.results[1:], 1):
            assert result.desc is not None
            boxes.append(TileBox(number, result.desc, *self._scale_box(result.desc, start, size)))
        return boxes

    def _scale_box(self, part: MemoryDesc, start: Ints, size: Ints) -> tuple[Ints, Ints]:
        """Return the start and the size of a box's scales."""
        if set(part.dims) == {1}:
            return (0,) * part.ndims, part.dims
        if self.scaling is None:
            assert self.axis is not None
            return (start[self.axis],), (size[self.axis],)
        return self._groups_of(start, last=False), self._groups_of(size, last=False)

    # --- verification ------------------------------------------------------------------------------------

    def check(self, tile: int, source: TensorPlace, targets: Targets, space: Workspace) -> ValueErrors:
        """Return the deviation of the output from the source.

        Computed in pieces, of whole groups if there are any: as floats, a tile takes many times its bytes.
        """
        start, size = self.grid[tile]
        beside = {result.name: result.desc for result in self.results[1:]}
        units = () if self.scaling is None else units_of(self.src.dims, self._groups, beside)
        errors, groups, tolerance = ValueErrors(), GroupErrors(self._groups_of(size)), self.tolerance
        for first, extents in pieces_of((self.src, self.dst), size, units):
            at = tuple(a + b for a, b in zip(start, first, strict=True))
            if units:
                # A tile may have too many groups to keep them all.
                errors += groups.summed_up(tolerance)
                groups = GroupErrors(self._groups_of(extents))
            begin = (0,) * len(first) if units else self._groups_of(first, last=False)
            exact = read_box(source, self.src, at, extents, space, "source")
            result = read_box(targets[0], self.dst, at, extents, space, "written")
            how = self._scales_of(at, extents, targets)
            groups.add(as_f64(exact), as_f64(result), how, begin, self._groups_of(extents))
        return errors + groups.summed_up(tolerance)

    @property
    def _groups(self) -> Ints:
        """Return the number of elements along each axis that share a scale."""
        if self.scaling is not None:
            return tuple(max(n, 1) for n in self.scaling.groups)
        return tuple(1 if d == self.axis else max(n, 1) for d, n in enumerate(self.src.dims))

    def _groups_of(self, place: Ints, *, last: bool = True) -> Ints:
        """Return the number of groups that begin before a position, along each axis; or how many end."""
        return tuple(-(-n // g) if last else n // g for n, g in zip(place, self._groups, strict=True))

    def _scales_of(self, start: Ints, size: Ints, targets: Targets) -> Quantization:
        """Return the scales that were written for a box, broadcastable to its elements."""
        parts = {}
        for name, place, result in zip(self.parts, targets[1:], self.results[1:], strict=True):
            assert result.desc is not None
            part = as_f64(
                read_box(place, result.desc, *self._scale_box(result.desc, start, size), Workspace(), "")
            )
            if self.scaling is None:
                part = part.reshape(tuple(part.size if d == self.axis else 1 for d in range(len(size))))
            for axis, (n, m) in enumerate(zip(size, part.shape, strict=True)):
                part = part if m in (1, n) else part.repeat(n // m, axis)
            parts[name] = part
        scale = parts["scale"] * parts.get("tensor_scale", 1.0)
        return Quantization(self.dst.data_type, scale, parts.get("zero_point", 0.0), is_found=True)
