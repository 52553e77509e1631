"""Quantisation in groups: scales found from the data while it is near, in one pass over memory.

One kernel finds the scale of a group and applies it, where groups lie side by side or across a contiguous
axis. Otherwise a chunk of the tensor that fits the caches is read for the largest magnitudes of its groups,
and read again from the caches to be quantised.

Scales are what a step is worth: `x` is about `scale * q`, or `scale * (q - zero_point)`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...errors import refuse
from ...ir.arithmetic import NumpyArithmetic, Term
from ...ir.scale_rule import ENDS, LARGEST, MIDDLE, ScaleRule
from ...runtime.alloc import Array
from ...runtime.cache import calls
from ...runtime.cpu.group_quantization import GroupAddresses, GroupProgram, group_program
from ...runtime.cpu.ranges import amax, min_max
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ..reorders import reorder, target_desc
from .group import SCALE_TYPES, GroupScaling
from .grouped import (
    GroupedReorder,
    GroupStep,
    group_extents,
    over,
    reorder_in_groups,
    split_in_groups,
    split_views,
)
from .quantized_tensor import QuantizedTensor, new_memory

_NUMPY = NumpyArithmetic()
# Bytes of a source that stay in the caches between two passes of all threads.
_CHUNK = 4 << 20
_MOST_F8 = 448.0


def quantize_in_groups(
    x: Memory, scaling: GroupScaling, dst: Any = None, largest: float | None = None
) -> QuantizedTensor:
    """Quantise with scales found from the data; of a part of a tensor `largest` is the largest magnitude in
    all of it. Raises InvalidArguments for groups that do not divide.
    """
    md, engine = x.desc, x.engine
    scaling = scaling.for_dims(md.dims)
    extents = group_extents(md.dims, scaling.groups)
    tensor_scale = _tensor_scale(x, scaling, largest)
    q = QuantizedTensor(
        new_memory(target_desc(md, dst, scaling.data_type), engine),
        new_memory(MemoryDesc(extents, scaling.scale_type), engine),
        None if scaling.zero_type is None else new_memory(MemoryDesc(extents, scaling.zero_type), engine),
        tensor_scale,
    )
    if x.desc.nelems and not _quantize_at_once(x, q, scaling):
        _quantize_chunks(x, q, scaling)
    middle = MIDDLE.get(scaling.data_type) if q.zero_point is None else None
    return q if middle is None else replace(q, zero_point=_one_value(middle, scaling, md.ndims, engine))


def _one_value(value: int, scaling: GroupScaling, ndims: int, engine: Engine) -> Memory:
    """A zero point for the whole tensor."""
    memory = Memory(MemoryDesc((1,) * ndims, scaling.data_type), engine)
    reorder(np.full((1,) * ndims, value, np.uint8), None, out=memory)
    return memory


def quantize_by_scales(
    x: Memory, scaling: GroupScaling, dst: Any, scales: Memory, *, has_groups: bool
) -> QuantizedTensor:
    """Quantise with scales that are there. Raises InvalidArguments for scales of other types than `scaling`
    has, and, with `has_groups`, of other groups.
    """
    _check_scales(x.desc, scaling, scales.desc, has_groups=has_groups)
    kind, middle = scaling.data_type, MIDDLE.get(scaling.data_type)
    zero = None if middle is None else _one_value(middle, scaling, x.desc.ndims, x.engine)
    tensor = QuantizedTensor(new_memory(target_desc(x.desc, dst, kind), x.engine), scales, zero)
    reorder_in_groups(x, tensor.values, [GroupStep("div", scales), *_middle(kind), *_ends(kind)])
    return tensor


def _check_scales(x: MemoryDesc, scaling: GroupScaling, scales: MemoryDesc, *, has_groups: bool) -> None:
    if scaling.zero_type is not None:
        raise refuse("RS-A15:symmetric-false-scales")
    # Which of them is the caller's choice unless a name, or `scale_type`, says it.
    scale_types = SCALE_TYPES if scaling.scale_type is DataType.f32 else (scaling.scale_type,)
    if scales.data_type not in scale_types:
        raise refuse(
            "RS-A15:type",
            scales=scales,
            which="one of " if len(scale_types) > 1 else "",
            wanted=", ".join(map(str, scale_types)),
        )
    if not has_groups:
        return
    groups = scaling.for_dims(x.dims).groups
    counts = group_extents(x.dims, groups)
    if scales.dims != counts:
        raise refuse("RS-A15:groups", scales=scales, groups=groups, counts=counts)


def _middle(data_type: DataType) -> list[GroupStep]:
    """The steps that make 0 the middle of integers without a sign."""
    if data_type not in MIDDLE:
        return []
    return [GroupStep("nan_to_zero"), GroupStep("linear", numbers=(1.0, float(MIDDLE[data_type])))]


def _ends(data_type: DataType) -> list[GroupStep]:
    """The steps that saturate floats which would become infinite or NaN."""
    most = LARGEST[data_type]
    is_open = data_type in (DataType.f8_e4m3, DataType.f8_e5m2)
    return [GroupStep("clip", numbers=(-most, most))] if is_open else []


def _quantize_at_once(x: Memory, tensor: QuantizedTensor, scaling: GroupScaling) -> bool:
    """Quantise by one kernel; False where none does it."""
    key = "quantize", x.desc, tensor.values.desc, tensor.scale.desc, scaling.rule
    program: GroupProgram | None = calls.find(key)
    if program is None:
        views = split_views(x.desc, tensor.values.desc, [tensor.scale.desc])
        program = calls.keep(key, group_program(views[0], views[1], views[2], scaling.rule))
    else:
        calls.count_hit()
    if program.is_provided:
        zero = tensor.zero_point
        if zero is not None and zero.desc.data_type.bits < 8:  # kernels write a byte for each
            kind = DataType.s8 if zero.desc.data_type is DataType.s4 else DataType.u8
            zero = Memory(MemoryDesc(zero.desc.dims, kind), zero.engine)
        parts = (x, tensor.values, tensor.scale, *(() if zero is None else (zero,)))
        program.run(GroupAddresses(*(part.get_data_handle() for part in parts)), tensor.tensor_scale)
        if zero is not None and tensor.zero_point is not None and zero is not tensor.zero_point:
            reorder(zero, None, out=tensor.zero_point)
    return program.is_provided


class _RowWindows:
    """Windows of a memory along its first axis: those of one length share a descriptor, and so a kernel."""

    def __init__(self, memory: Memory, group: int = 1) -> None:
        self._memory, self._group, self._descs = memory, group, dict[int, MemoryDesc]()
        md = memory.desc
        self._blocks = md.layout.blocks[0]
        self._bits = md.strides[0] * md.data_type.bits

    def at(self, start: int, stop: int) -> Memory:
        """Those indices, counted in elements of the tensor."""
        first, count = start // self._group, (stop - start) // self._group
        md = self._memory.desc
        if count == md.dims[0]:
            return self._memory
        if count not in self._descs:
            self._descs[count] = md.submemory_desc((count, *md.dims[1:]), (0,) * md.ndims)
        return over(self._memory, self._descs[count], first // self._blocks * self._bits // 8)


class _Quantizer:
    """Quantises chunks of one tensor: what is made for one of them serves all of the same length."""

    def __init__(self, scaling: GroupScaling, tensor_scale: float) -> None:
        self._scaling, self._tensor_scale = scaling, tensor_scale
        self._reorders: dict[MemoryDesc, GroupedReorder] = {}
        self._splits: dict[MemoryDesc, MemoryDesc] = {}

    def run(self, x: Memory, tensor: QuantizedTensor) -> None:
        """Find the scales of a chunk, and write its elements, scales and zero points."""
        md = self._splits.get(x.desc) or self._splits.setdefault(
            x.desc, split_in_groups(x.desc, self._scaling.groups)
        )
        keep = sum(1 << 2 * axis for axis in range(x.desc.ndims))
        address, zeros = x.get_data_handle(), []
        if tensor.zero_point is None:
            largest = _as_floats(amax(md, address, keep))
            scales, used = _symmetric(largest, self._scaling.rule, self._tensor_scale)
        else:
            low, high = min_max(md, address, keep)
            scales, used, zero = _asymmetric(low, high, self._scaling.rule)
            reorder(zero, None, out=tensor.zero_point)
            zeros = [Memory.from_numpy(zero)]
        reorder(scales, None, out=tensor.scale)
        operands = [Memory.from_numpy(used), *zeros]
        if x.desc not in self._reorders:
            self._reorders[x.desc] = self._reorder(x, tensor, operands)
        self._reorders[x.desc].run(x, tensor.values, operands)

    def _reorder(self, x: Memory, tensor: QuantizedTensor, operands: list[Memory]) -> GroupedReorder:
        kind = self._scaling.data_type
        steps = [GroupStep("div", operands[0])]
        steps += [
            step for zero in operands[1:] for step in (GroupStep("nan_to_zero"), GroupStep("add", zero))
        ]
        if tensor.zero_point is None:
            steps += _middle(kind)
        return GroupedReorder(
            x.desc, tensor.values.desc, [*steps, *_ends(kind)], (x.engine, tensor.values.engine)
        )


def _quantize_chunks(x: Memory, tensor: QuantizedTensor, scaling: GroupScaling) -> None:
    """Chunk after chunk along the first axis, of whole groups and blocks."""
    md, values = x.desc, tensor.values.desc
    group = scaling.groups[0]
    quantizer = _Quantizer(scaling, tensor.tensor_scale)
    whole = int(np.lcm.reduce([group, md.layout.blocks[0], values.layout.blocks[0]]))
    scales = [part for part in (tensor.scale, tensor.zero_point) if part is not None]
    parts = (_RowWindows(x), _RowWindows(tensor.values), *(_RowWindows(part, group) for part in scales))
    count = max(_CHUNK // max(md.size // md.dims[0], 1) // whole * whole, whole)
    begin_bits = count // values.layout.blocks[0] * values.strides[0] * values.data_type.bits
    if min(md.strides) < 0 or begin_bits % 8:  # every chunk begins at a byte
        count = md.dims[0]
    for start in range(0, md.dims[0], count):
        stop = min(start + count, md.dims[0])
        window, target, *beside = (part.at(start, stop) for part in parts)
        scale, zero = beside[0], beside[1] if len(beside) > 1 else None
        quantizer.run(window, QuantizedTensor(target, scale, zero))


def _as_floats(largest: Array) -> Array:
    """Magnitudes as f32. Raises InvalidArguments for doubles beyond it."""
    if largest.dtype == np.float32:
        return largest
    if (largest > np.finfo(np.float32).max).any():
        raise refuse("RS-A15:large-steps")
    return np.asarray(largest, np.float32)


def _symmetric(largest: Array, rule: ScaleRule, tensor_scale: float) -> tuple[Array, Array]:
    """The scales as they are stored, and as f32 what elements are divided by."""
    whole = Term(_NUMPY, np.asarray(tensor_scale, np.float32)) if rule.is_two_level else None

    def stored(scales: Term[Array]) -> Term[Array]:
        return Term(_NUMPY, _as_stored(scales.value, rule.scale_type))

    stored_scales, used = rule.scales(Term(_NUMPY, largest), whole, stored)
    return stored_scales.value, used.value


def _as_stored(scales: Array, data_type: DataType) -> Array:
    """The values that the type holds."""
    if data_type is DataType.f32:
        return scales
    return np.asarray(reorder(reorder(scales, None, dtype=data_type), None, dtype="f32"))


def _asymmetric(low: Array, high: Array, rule: ScaleRule) -> tuple[Array, Array, Array]:
    """The scales, once as they are stored and once as f32, and the zero points."""
    bottom, top = ENDS[rule.data_type]
    # Half of it is a number where the whole is beyond f64.
    half = np.maximum(high, 0).astype(np.float64) / 2 - np.minimum(low, 0).astype(np.float64) / 2
    _as_floats(half / ((top - bottom) / 2))

    def stored(scales: Term[Array]) -> Term[Array]:
        return Term(_NUMPY, _as_stored(scales.value.astype(np.float32), rule.scale_type))

    stored_scales, zero = rule.ranged(Term(_NUMPY, low), Term(_NUMPY, high), stored)
    return stored_scales.value, stored_scales.value, zero.value.astype(np.int32)


def _tensor_scale(x: Memory, scaling: GroupScaling, largest: float | None) -> float:
    """The scale of the whole tensor: with it the largest block scale is the largest f8_e4m3."""
    if not scaling.is_two_level or not x.desc.nelems:
        return 1.0
    most = amax(x.desc, x.get_data_handle(), 0) if largest is None else np.asarray(largest)
    scale = np.float32(_as_floats(most) / np.float32(LARGEST[scaling.data_type] * _MOST_F8))
    return float(scale) if scale > 0 else 1.0
