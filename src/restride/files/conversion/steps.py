"""Steps of a conversion: what a rule makes of a tensor, in tiles that can be done in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import lcm, prod
from typing import Protocol

import numpy as np

from ...arrays.calls.formats import target_desc
from ...arrays.scaling.group import scaling_of
from ...arrays.scaling.grouped import group_extents
from ...arrays.scaling.quantization import quantize
from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...errors import Error, OutOfMemory, refuse
from ..physical_boxes import box_units, is_cut_in_boxes
from ..places import TensorPlace, Workspace
from ..stored_tensors import Scaling, StoredArray, StoredTensor, array_of, is_dense, plain_array
from .move_steps import CopyStep, MoveStep, TileBox
from .quantise_steps import GroupedStep, QuantiseStep
from .rules import ConversionRule, needs_scale
from .tensor_range import TensorRange
from .tiles import TileGrid, box_bytes, plan_tiles
from .value_errors import ErrorBound, ValueErrors

_REALS = (DataType.f64, DataType.f32, DataType.bf16, DataType.f16, DataType.f8_e4m3, DataType.f8_e5m2)
_HINT = "put a rule before it that fits this tensor: 'NAME=keep' copies it"


class ConversionStep(Protocol):
    """What is done for one tensor."""

    @property
    def source(self) -> StoredTensor:
        """The tensor that is read."""

    @property
    def results(self) -> tuple[StoredArray, ...]:
        """The arrays that are written; the first one has the tensor's name."""

    @property
    def rule(self) -> ConversionRule | None:
        """The rule that fits the tensor."""

    @property
    def tiles(self) -> int:
        """How many tiles there are."""

    @property
    def tile_bytes(self) -> int:
        """The memory that one tile takes."""

    @property
    def result_boxes(self) -> tuple[tuple[int, ...], ...]:
        """Of each result the extents of what the first tile writes of its array."""

    @property
    def tolerance(self) -> ErrorBound | None:
        """How far values may be from the source's; None where all bits are the same."""

    def weight(self, tile: int) -> int:
        """The bytes of the source that a tile stands for."""

    def run(self, tile: int, source: TensorPlace, targets: Sequence[TensorPlace], space: Workspace) -> None:
        """Do one tile."""

    def boxes(self, tile: int) -> Sequence[TileBox]:
        """What a tile writes, in the order in which it does."""

    def check(
        self, tile: int, source: TensorPlace, targets: Sequence[TensorPlace], space: Workspace
    ) -> ValueErrors:
        """Whether a tile holds what it must, and how far its values are from the source's."""


def plan_step(
    tensor: StoredTensor, rule: ConversionRule | None, most_bytes: int, in_boxes: bool = False
) -> ConversionStep:
    """What a rule makes of a tensor, in tiles of at most about `most_bytes`.

    `in_boxes`: its tiles are boxes of the tensor, as they are where it is read in chunks. Raises an error
    that names the tensor and the rule where they do not fit.
    """
    room = _TileRoom(tensor, most_bytes, in_boxes)
    if rule is None or rule.is_copy:
        return _copied(room, rule)
    try:
        step = _planned(room, rule)
    except Error as error:
        why = f"{error.what}: {error.why}" if error.why else error.what
        hint = error.hint if isinstance(error, OutOfMemory) else _HINT
        what = f"the rule {str(rule)!r} does not fit {tensor.array.name[:120]!r}"
        where = f"{tensor.array.kind.word} {tensor.array.shape}"
        raise type(error)(what, code=error.code, where=where, why=why, hint=hint) from None
    return room.checked(step)


@dataclass(frozen=True, slots=True)
class _TileRoom:
    """How a tensor may be cut: into tiles of so many bytes, which are `written_in_boxes` to chunks."""

    tensor: StoredTensor
    most_bytes: int
    written_in_boxes: bool

    @property
    def in_boxes(self) -> bool:
        """True where the tensor lies in chunks on one side."""
        return self.written_in_boxes or bool(self.tensor.chunks)

    def grid(
        self, src: MemoryDesc, dst: MemoryDesc, result: StoredArray, units: tuple[int, ...] = ()
    ) -> TileGrid:
        """Tiles of the tensor, of whole chunks of what is read where that fits into the memory."""
        units = units or (1,) * src.ndims
        if not self.in_boxes:
            return plan_tiles((src, dst), self.most_bytes, units)
        is_cut = not self.tensor.chunks or is_cut_in_boxes(self.tensor.array, src)
        if not is_cut or (self.written_in_boxes and not is_cut_in_boxes(result, dst)):
            return TileGrid(src.dims, tuple(max(n, 1) for n in src.dims))
        whole = tuple(map(lcm, units, box_units(self.tensor, src)))
        chunk = tuple(map(min, whole, src.dims))
        fits = box_bytes((src, dst), chunk) <= self.most_bytes
        return plan_tiles((src, dst), self.most_bytes, whole if fits else units)

    def whole(
        self, src: MemoryDesc, dst: MemoryDesc, result: StoredArray, units: tuple[int, ...]
    ) -> tuple[TileGrid, TensorRange | None]:
        """Tiles of a tensor that has a scale for all of it: one, or where that does not fit into the memory
        others, of `units`, with what finds the largest values.
        """
        if box_bytes((src, src, dst, dst), src.dims) <= self.most_bytes:
            return TileGrid(src.dims, tuple(max(n, 1) for n in src.dims)), None
        grid = self.grid(src, dst, result, units)
        return grid, TensorRange(src, grid) if len(grid) > 1 else None

    def checked(self, step: ConversionStep) -> ConversionStep:
        """The step. Raises OutOfMemory where its tiles, or the source's chunks, do not fit into memory."""
        most, chunk = 2 * self.most_bytes, self.tensor.chunk_bytes
        if max(step.tile_bytes, chunk) <= most:
            return step
        raise refuse(
            "RS-D01:cannot-cut-into",
            name=self.tensor.array.name[:120],
            rule=step.rule or "copied",
            chunk=f"a chunk takes {chunk}" if chunk > most else f"a tile takes {step.tile_bytes}",
            most=most,
        )


def _copied(room: _TileRoom, rule: ConversionRule | None) -> ConversionStep:
    """A tensor as it is: its bytes, or boxes of them where it lies in chunks."""
    array = room.tensor.array
    src = array.moved_as
    if array.is_fortran and src is not None:
        # No other format says so of an array: it is row-major there, and the same to every reader.
        result, dst = plain_array(array.name, array.kind, array.shape), _row_major(src)
        return room.checked(MoveStep(room.tensor, (result,), rule, src, dst, room.grid(src, dst, result)))
    if not room.in_boxes or src is None or not array.shape:
        return CopyStep(room.tensor, (array,), rule)
    return room.checked(MoveStep(room.tensor, (array,), rule, src, src, room.grid(src, src, array)))


def _row_major(desc: MemoryDesc) -> MemoryDesc:
    return MemoryDesc(desc.dims, desc.data_type)


def _target(
    array: StoredArray, src: MemoryDesc, rule: ConversionRule, data_type: DataType | None
) -> MemoryDesc:
    """What the rule makes of the elements; where it names no format, they stay as readers see them."""
    return target_desc(_row_major(src) if array.is_fortran else src, rule.format, data_type)


def _planned(room: _TileRoom, rule: ConversionRule) -> ConversionStep:
    array = room.tensor.array
    src = array.moved_as
    if src is None:
        raise refuse(
            "RS-F07:only-copied",
            word=f"{array.kind.word} of {len(array.shape)} axes" if array.shape else "a tensor of no axes",
        )
    if (rule.data_type, rule.named, rule.scale, rule.zero_point) != (None,) * 4:
        src = _convertible(array)
    if rule.is_found:
        return _quantising(room, src, rule)
    dst = _target(array, src, rule, rule.data_type)
    scaling = (rule.scale, rule.zero_point)
    if dst == src and dst.layout == src.layout and scaling == (None, None) and not array.is_fortran:
        return _copied(room, rule)
    result = replace(array_of(array.name, dst, array.scaling), unknown=array.unknown)
    if array.kind.data_type is None:
        result = replace(result, kind=array.kind)
    flat = None if room.in_boxes else _as_line(src, dst)
    read, written = flat or (src, dst)
    return MoveStep(room.tensor, (result,), rule, read, written, room.grid(read, written, result))


def _convertible(array: StoredArray) -> MemoryDesc:
    """The descriptor of elements that can be converted."""
    if array.desc is not None and array.kind.data_type is not None:
        return array.desc
    raise refuse("RS-F07:elements-moved-never", word=array.kind.word)


def _as_line(src: MemoryDesc, dst: MemoryDesc) -> tuple[MemoryDesc, MemoryDesc] | None:
    """Both as one axis, where only the type changes: all such tensors run the same kernels."""
    if src.layout != dst.layout or not (is_dense(src) and is_dense(dst)) or 0 in src.dims:
        return None
    line = (prod(src.physical_shape),)
    return MemoryDesc(line, src.data_type), MemoryDesc(line, dst.data_type)


def _quantising(room: _TileRoom, src: MemoryDesc, rule: ConversionRule) -> ConversionStep:
    if room.tensor.array.scaling is not None:
        raise refuse("RS-F07:quantised-already")
    if src.data_type not in _REALS:
        raise refuse("RS-A15:scales-found-floats", data_type=src.data_type)
    if rule.group is not None or rule.named is not None:
        return _in_groups(room, src, rule)
    array, data_type, axis = room.tensor.array, rule.data_type, _axis_of(rule, src)
    assert data_type is not None
    dst = _target(array, src, rule, data_type)
    extents = (1,) if axis is None else (src.dims[axis],)
    kinds = {"scale": DataType.f32}
    if rule.scale == "minmax" or data_type.kind == "uint":
        kinds["zero_point"] = DataType.s32
    names = {part: f"{array.name}_{part}" for part in kinds}
    told = Scaling(names["scale"], names.get("zero_point", ""), axis)
    values = replace(array_of(array.name, dst, told), unknown=array.unknown)
    scales = tuple(array_of(names[part], MemoryDesc(extents, kind)) for part, kind in kinds.items())
    # A tile has all that shares a scale.
    units = tuple(max(n, 1) if d != axis else 1 for d, n in enumerate(src.dims))
    grid, ends = room.grid(src, dst, values, units), None
    if axis is None:
        grid, ends = room.whole(src, dst, values, ())
    _try_type(data_type, rule.scale == "absmax")
    return QuantiseStep(room.tensor, (values, *scales), rule, src, dst, grid, ends, axis)


@lru_cache(maxsize=64)
def _try_type(data_type: DataType, is_symmetric: bool) -> None:
    """Find mistakes in the type before anything is written."""
    quantize(np.zeros((1, 1), np.float32), data_type, 0, is_symmetric)


def _in_groups(room: _TileRoom, src: MemoryDesc, rule: ConversionRule) -> ConversionStep:
    array = room.tensor.array
    group = rule.group if rule.group is None or len(rule.group) > 1 else rule.group[0]
    is_symmetric, stored = rule.scale == "absmax", rule.scale_type or DataType.f32
    kind = rule.named or rule.data_type
    scaling = scaling_of(kind, rule.axis, is_symmetric, group, stored, src.ndims).for_dims(src.dims)
    extents = group_extents(src.dims, scaling.groups)
    dst = _target(array, src, rule, scaling.data_type)
    descs = {"scale": MemoryDesc(extents, scaling.scale_type)}
    if scaling.zero_type is not None:
        # Of a byte each: tiles have any number of them.
        zero_type = DataType.s8 if scaling.zero_type.kind == "int" else DataType.u8
        descs["zero_point"] = MemoryDesc(extents, zero_type)
    elif scaling.data_type.kind == "uint":
        descs["zero_point"] = MemoryDesc((1,) * src.ndims, DataType.u8)
    if scaling.is_two_level:
        descs["tensor_scale"] = MemoryDesc((1,) * src.ndims, DataType.f32)
    names = {part: f"{array.name}_{part}" for part in descs}
    scale, zero, whole = (names.get(part, "") for part in ("scale", "zero_point", "tensor_scale"))
    told = Scaling(scale, zero, None, scaling.groups, whole)
    values = replace(array_of(array.name, dst, told), unknown=array.unknown)
    parts = tuple(array_of(names[part], desc) for part, desc in descs.items())
    units = tuple(max(n, 1) for n in scaling.groups)
    grid, ends = room.grid(src, dst, values, units), None
    if scaling.is_two_level:
        grid, ends = room.whole(src, dst, values, units)
    return GroupedStep(room.tensor, (values, *parts), rule, src, dst, grid, ends, scaling)


def check_scaled(step: ConversionStep) -> None:
    """Refuse a rule that rounds floats and does not say how they are scaled: all of them may become 0."""
    rule, read, written = step.rule, step.source.array.moved_as, step.results[0].desc
    if rule is None or rule.data_type is None or (rule.scale, rule.named) != (None, None):
        return
    if read is None or written is None or not needs_scale(read.data_type, written.data_type):
        return
    raise refuse(
        "RS-F07:rule-not-fit",
        rule=str(rule),
        name=step.source.array.name[:120],
        word=step.source.array.kind.word,
        shape=step.source.array.shape,
        data_type=rule.data_type,
        rule2=f"{rule},scale=absmax",
    )


def as_sample(step: ConversionStep) -> ConversionStep:
    """A step for tiles that are only tried: a tile takes its own values for those of the whole tensor."""
    return replace(step, ends=None) if isinstance(step, QuantiseStep | GroupedStep) else step


def _axis_of(rule: ConversionRule, src: MemoryDesc) -> int | None:
    """The axis of the scales, from 0; None for one scale."""
    if rule.axis is None:
        return None
    if -src.ndims <= rule.axis < src.ndims:
        return rule.axis % src.ndims
    raise refuse("RS-A10:rule", axis=rule.axis, ndims=src.ndims)
