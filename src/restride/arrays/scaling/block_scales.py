"""Quantization in groups: scales are found from the data and applied in one pass over memory.

One kernel finds the scale of a group and applies it (`ops/programs/group_quantization.py`).

A scale is the size of a step: `x` is about `scale * q`, or `scale * (q - zero_point)`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...errors import refuse
from ...ir.scale_rule import ENDS, LARGEST, MIDDLE
from ...ops.programs.group_quantization import group_program
from ...runtime.alloc import Array
from ...runtime.cache import calls
from ...runtime.cpu.executable import CpuExecutable
from ...runtime.cpu.kernel import KernelWords
from ...runtime.cpu.ranges import amax, min_max
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ...targets.isa import host_caches, host_isa
from ..reorders import reorder, target_desc
from .group import SCALE_TYPES, GroupScaling
from .grouped import (
    GroupStep,
    group_extents,
    reorder_in_groups,
    split_in_groups,
    split_views,
)
from .quantized_tensor import QuantizedTensor, new_memory

_MOST_F8 = 448.0


def quantize_in_groups(
    x: Memory, scaling: GroupScaling, dst: Any = None, largest: float | None = None
) -> QuantizedTensor:
    """Quantize with scales found from the data; for a part of a tensor, `largest` is the largest magnitude in
    the whole. Raises InvalidArguments for groups that do not divide.
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
    if x.desc.nelems:
        _quantize(x, q, scaling)
    middle = MIDDLE.get(scaling.data_type) if q.zero_point is None else None
    return q if middle is None else replace(q, zero_point=_one_value(middle, scaling, md.ndims, engine))


def _one_value(value: int, scaling: GroupScaling, ndims: int, engine: Engine) -> Memory:
    """Return a zero point for the whole tensor."""
    memory = Memory(MemoryDesc((1,) * ndims, scaling.data_type), engine)
    reorder(np.full((1,) * ndims, value, np.uint8), None, out=memory)
    return memory


def quantize_by_scales(
    x: Memory, scaling: GroupScaling, dst: Any, scales: Memory, *, has_groups: bool
) -> QuantizedTensor:
    """Quantize with given scales. Raises InvalidArguments for scales of types other than those of `scaling`,
    and, with `has_groups`, of other groups.
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
    # The caller chooses among them unless a name or `scale_type` determines it.
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
    """Return the steps that move 0 to the middle of unsigned integers."""
    if data_type not in MIDDLE:
        return []
    return [GroupStep("nan_to_zero"), GroupStep("linear", numbers=(1.0, float(MIDDLE[data_type])))]


def _ends(data_type: DataType) -> list[GroupStep]:
    """Return the steps that saturate floats that would become infinite or NaN."""
    most = LARGEST[data_type]
    is_open = data_type in (DataType.f8_e4m3, DataType.f8_e5m2)
    return [GroupStep("clip", numbers=(-most, most))] if is_open else []


def _quantize(x: Memory, tensor: QuantizedTensor, scaling: GroupScaling) -> None:
    """Find the scales; write elements, scales and zero points."""
    key = "quantize", x.desc, tensor.values.desc, tensor.scale.desc, scaling.rule
    executable: CpuExecutable | None = calls.find(key)
    if executable is None:
        views = split_views(x.desc, tensor.values.desc, [tensor.scale.desc])
        program = group_program(views[0], views[1], views[2], scaling.rule)
        executable = calls.keep(key, CpuExecutable(program, host_isa(), host_caches()))
    else:
        calls.count_hit()
    if x.desc.data_type is DataType.f64:
        _check_range(x, scaling)
    zero = tensor.zero_point
    if zero is not None and zero.desc.data_type.bits < 8:  # kernels write one byte each
        zero = Memory(MemoryDesc(zero.desc.dims, scaling.rule.zero_type), zero.engine)
    others = (tensor.scale, *(() if zero is None else (zero,)))
    scalars = (tensor.tensor_scale,) if scaling.is_two_level else ()
    words = KernelWords(scalars, [part.get_data_handle() for part in others])
    executable.run(x.get_data_handle(), tensor.values.get_data_handle(), words.address)
    if zero is not None and tensor.zero_point is not None and zero is not tensor.zero_point:
        reorder(zero, None, out=tensor.zero_point)


def _check_range(x: Memory, scaling: GroupScaling) -> None:
    """Raise InvalidArguments for doubles whose range no f32 scale can express."""
    if scaling.zero_type is None:
        _as_floats(amax(x.desc, x.get_data_handle(), 0))
        return
    bottom, top = ENDS[scaling.data_type]
    keep = sum(1 << 2 * axis for axis in range(x.desc.ndims))
    low, high = min_max(split_in_groups(x.desc, scaling.groups), x.get_data_handle(), keep)
    # Half of the range is finite even if the whole exceeds f64.
    _as_floats((np.maximum(high, 0) / 2 - np.minimum(low, 0) / 2) / ((top - bottom) / 2))


def _as_floats(largest: Array) -> Array:
    """Return magnitudes as f32. Raises InvalidArguments for doubles beyond its range."""
    if largest.dtype == np.float32:
        return largest
    if (largest > np.finfo(np.float32).max).any():
        raise refuse("RS-A15:large-steps")
    return np.asarray(largest, np.float32)


def _tensor_scale(x: Memory, scaling: GroupScaling, largest: float | None) -> float:
    """Return the scale of the whole tensor, which makes the largest block scale the largest f8_e4m3."""
    if not scaling.is_two_level or not x.desc.nelems:
        return 1.0
    most = amax(x.desc, x.get_data_handle(), 0) if largest is None else np.asarray(largest)
    scale = np.float32(_as_floats(most) / np.float32(LARGEST[scaling.data_type] * _MOST_F8))
    return float(scale) if scale > 0 else 1.0
