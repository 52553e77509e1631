"""Steps that quantise by scales found from the data: along an axis, for a whole tensor, or in groups.

A tile has all elements that share a scale, so that it reads its box once and writes values and scales. Where
all of a tensor shares one and does not fit into a tile, the tensor is read before, for its largest values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...arrays.scaling.block_scales import quantize_in_groups
from ...arrays.scaling.group import GroupScaling
from ...arrays.scaling.quantization import quantize, quantize_by
from ...desc.memory_desc import MemoryDesc
from ...desc.text_forms import order_tag
from ...runtime.alloc import Array
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ..physical_boxes import box_shape
from ..places import TensorPlace, Workspace, bytes_of
from ..stored_tensors import StoredArray, StoredTensor
from .move_steps import TileBox, share_of
from .rules import ConversionRule
from .tensor_range import TensorRange
from .tiles import TileGrid, box_bytes, compact, pieces_of
from .value_errors import ErrorBound, GroupErrors, Quantization, ValueErrors, as_f64, bound_of

_CPU = Engine("cpu")

Ints = tuple[int, ...]
Ends = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _ScaledStep:
    """What both kinds share: boxes that are read, made, and written with the boxes of their scales."""

    source: StoredTensor
    results: tuple[StoredArray, ...]
    rule: ConversionRule
    src: MemoryDesc
    dst: MemoryDesc
    grid: TileGrid
    ends: TensorRange | None

    @property
    def tiles(self) -> int:
        """Boxes of the tensor."""
        return len(self.grid) if self.src.nelems else 0

    @property
    def tile_bytes(self) -> int:
        """A box on both sides, and what lies between."""
        return box_bytes((self.src, self.src, self.dst, self.dst), self.grid.box)

    @property
    def result_boxes(self) -> tuple[Ints, ...]:
        """The boxes of values and of scales."""
        start, found = (0,) * self.dst.ndims, [box_shape(self.results[0], self.dst, self.grid.box)]
        for result in self.results[1:]:
            assert result.desc is not None
            size = self._box_of(result.desc, start, self.grid.box)[1]
            found.append(box_shape(result, result.desc, size))
        return tuple(found)

    def weight(self, tile: int) -> int:
        """The share of a box in the tensor's bytes."""
        return share_of(self.source, self.src, self.grid.size(self.grid.start(tile)))

    def run(self, tile: int, source: TensorPlace, targets: Sequence[TensorPlace], space: Workspace) -> None:
        """Read, find scales, quantise, write the values and the scales."""
        start = self.grid.start(tile)
        size = self.grid.size(start)
        src, dst = compact(self.src, size), compact(self.dst, size)
        ends = None if self.ends is None else self.ends.find(source, space)
        read = space.bytes("source", src.size)
        source.read(self.src, start, size, read)
        made = self._made(Memory(src, _CPU, read), dst, ends)
        for box, place, part in zip(self.boxes(tile), targets, made, strict=True):
            place.write(box.desc, box.start, box.size, part)

    def boxes(self, tile: int) -> Sequence[TileBox]:
        """The box of the values, and those of the scales."""
        start = self.grid.start(tile)
        size = self.grid.size(start)
        found = [TileBox(0, self.dst, start, size)]
        for number, result in enumerate(self.results[1:], 1):
            assert result.desc is not None
            found.append(TileBox(number, result.desc, *self._box_of(result.desc, start, size)))
        return found

    def check(
        self, tile: int, source: TensorPlace, targets: Sequence[TensorPlace], space: Workspace
    ) -> ValueErrors:
        """How far what was written is from the source.

        In pieces: as floats a tile takes many times its bytes.
        """
        start = self.grid.start(tile)
        size = self.grid.size(start)
        errors, groups, tolerance = ValueErrors(), GroupErrors(self._groups_of(size)), self.tolerance
        for first, extents in pieces_of((self.src, self.dst), size, self._units):
            at = tuple(a + b for a, b in zip(start, first, strict=True))
            if self._units:
                # Whole groups: there may be too many of them to keep those of a tile.
                errors += groups.summed_up(tolerance)
                groups = GroupErrors(self._groups_of(extents))
            begin = (0,) * len(first) if self._units else self._groups_of(first, last=False)
            groups.add(*self._read_back(at, extents, source, targets, space), begin, self._groups_of(extents))
        return errors + groups.summed_up(tolerance)

    def _groups_of(self, place: Ints, *, last: bool = True) -> Ints:
        """How many groups begin before a place, along each axis; or how many end."""
        return tuple(-(-n // g) if last else n // g for n, g in zip(place, self.groups, strict=True))

    def _read_back(
        self, start: Ints, size: Ints, source: TensorPlace, targets: Sequence[TensorPlace], space: Workspace
    ) -> tuple[Array, Array, Quantization]:
        """A box of the source, what was written of it, and the scales that were written beside it."""
        src, dst = compact(self.src, size), compact(self.dst, size)
        written, read = space.bytes("written", dst.size), space.bytes("source", src.size)
        targets[0].read(self.dst, start, size, written)
        source.read(self.src, start, size, read)
        parts = {}
        for place, result in zip(targets[1:], self.results[1:], strict=True):
            assert result.desc is not None
            box = self._box_of(result.desc, start, size)
            desc = compact(result.desc, box[1])
            held = np.empty(desc.size, np.uint8)
            place.read(result.desc, *box, held)
            value = as_f64(Memory(desc, _CPU, held))
            parts[result.name.removeprefix(f"{self.results[0].name}_")] = self._along(value, size)
        scale = parts["scale"] * parts.get("tensor_scale", 1.0)
        how = Quantization(self.dst.data_type, scale, parts.get("zero_point", 0.0), is_found=True)
        return as_f64(Memory(src, _CPU, read)), as_f64(Memory(dst, _CPU, written)), how

    @property
    def groups(self) -> Ints:
        """How many elements along each axis share a scale."""
        raise NotImplementedError

    @property
    def tolerance(self) -> ErrorBound:
        """Half a step of each group, and what the rounding of scales adds."""
        scale, has_zeros = self.results[1].desc, self.rule.scale == "minmax"
        assert scale is not None
        bound, least = bound_of(self.dst.data_type, scale.data_type, has_zeros=has_zeros)
        return ErrorBound(bound, least, self._has_groups, has_zeros)

    @property
    def _has_groups(self) -> bool:
        """False where one scale is for all of the tensor."""
        return True

    @property
    def _units(self) -> Ints:
        """Multiples that boxes keep along each axis, so that they have whole groups; () for any."""
        return ()

    def _made(self, read: Memory, dst: MemoryDesc, ends: Ends | None) -> tuple[Array, ...]:
        """The bytes of the values' box, and of the boxes of what is beside them; `ends` are the whole
        tensor's, where the box has not all that shares a scale.
        """
        raise NotImplementedError

    def _box_of(self, part: MemoryDesc, start: Ints, size: Ints) -> tuple[Ints, Ints]:
        """The start and the size of a box's scales."""
        raise NotImplementedError

    def _along(self, part: Array, size: Ints) -> Array:
        """Scales, as they go with the elements of a box."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class QuantiseStep(_ScaledStep):
    """One scale for the tensor, or one for each index of an axis."""

    axis: int | None

    @property
    def groups(self) -> Ints:
        """All elements, or all of an index of the axis."""
        return tuple(1 if d == self.axis else max(n, 1) for d, n in enumerate(self.src.dims))

    @property
    def _has_groups(self) -> bool:
        return self.axis is not None

    def _made(self, read: Memory, dst: MemoryDesc, ends: Ends | None) -> tuple[Array, ...]:
        is_symmetric = self.rule.scale == "absmax"
        if ends is None:
            made, *scales_made = quantize(read, dst.data_type, self.axis, is_symmetric, dst)
        else:
            _, scale, zero = quantize(np.array(ends), dst.data_type, None, is_symmetric)
            made, scales_made = quantize_by(read, dst.data_type, scale, zero, dst), [scale, zero]
        parts = zip(scales_made, (np.float32, np.int32), self.results[1:], strict=False)
        scales = (np.atleast_1d(np.asarray(part, kind)) for part, kind, _ in parts)
        values = made if isinstance(made, Memory) else Memory.from_numpy(made)
        return (bytes_of(values), *(np.ascontiguousarray(part).view(np.uint8) for part in scales))

    def _box_of(self, part: MemoryDesc, start: Ints, size: Ints) -> tuple[Ints, Ints]:
        return ((0,), (1,)) if self.axis is None else ((start[self.axis],), (size[self.axis],))

    def _along(self, part: Array, size: Ints) -> Array:
        if self.axis is None:
            return part
        return part.reshape(tuple(n if d == self.axis else 1 for d, n in enumerate(size)))


@dataclass(frozen=True, slots=True)
class GroupedStep(_ScaledStep):
    """A scale for each group of elements."""

    scaling: GroupScaling

    @property
    def groups(self) -> Ints:
        """As the scaling has them."""
        return tuple(max(n, 1) for n in self.scaling.groups)

    @property
    def _units(self) -> Ints:
        return self.groups

    def _made(self, read: Memory, dst: MemoryDesc, ends: Ends | None) -> tuple[Array, ...]:
        # Groups are axes of plain layouts.
        plain = read.to(MemoryDesc(read.desc.dims, read.desc.data_type)) if read.desc.inner_blks else read
        largest = None if ends is None else max(map(abs, ends))
        found = quantize_in_groups(plain, self.scaling, order_tag(dst.layout), largest=largest)
        values = found.values if found.values.desc == dst else found.values.to(dst)
        made = {"scale": found.scale, "zero_point": found.zero_point}
        if self.scaling.is_two_level:
            whole = np.full((1,) * dst.ndims, found.tensor_scale, np.float32)
            made["tensor_scale"] = Memory.from_numpy(whole)
        parts = []
        for result in self.results[1:]:
            part, desc = made[result.name.removeprefix(f"{self.results[0].name}_")], result.desc
            assert part is not None
            assert desc is not None
            is_same = part.desc.data_type is desc.data_type
            parts.append(bytes_of(part if is_same else part.to(None, desc.data_type)))
        return (bytes_of(values), *parts)

    def _box_of(self, part: MemoryDesc, start: Ints, size: Ints) -> tuple[Ints, Ints]:
        if set(part.dims) == {1}:
            return (0,) * len(start), part.dims
        first, count = (
            tuple(n // group for n, group in zip(values, self.scaling.groups, strict=True))
            for values in (start, size)
        )
        return first, count

    def _along(self, part: Array, size: Ints) -> Array:
        for axis, (n, m) in enumerate(zip(size, part.shape, strict=True)):
            part = part if m == 1 else part.repeat(n // m, axis)
        return part
