"""Quantisation in groups: scales found from the data while it is near, in one pass over memory.

One kernel finds the scale of a group and applies it, where groups lie side by side or across a contiguous
axis. Otherwise a chunk of the tensor that fits the caches is read for the largest magnitudes of its groups,
and read again from the caches to be quantised.

| word | elements | group | scales | of all |
| --- | --- | --- | --- | --- |
| mxfp4 | f4_e2m1 | 32 of the last axis | e8m0 | |
| mxfp8 | f8_e4m3 | 32 of the last axis | e8m0 | |
| nvfp4 | f4_e2m1 | 16 of the last axis | f8_e4m3 | one f32 |

Scales are what a step is worth: `x` is about `scale * q`, or `scale * (q - zero_point)`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .arrays import reorder, target_desc
from .desc.memory_desc import MemoryDesc
from .desc.parse import parse_bool, parse_int, parse_ints
from .dtypes import DataType
from .errors import InvalidArguments
from .foreign import plain_text
from .frontend.results import maker_of
from .grouped import (
    Dims,
    GroupedReorder,
    GroupStep,
    group_extents,
    over,
    reorder_in_groups,
    split_in_groups,
    split_views,
)
from .plan.arithmetic import NumpyArithmetic, Term
from .plan.group_quantization import ENDS, LARGEST, MIDDLE, ScaleRule
from .runtime.alloc import Array
from .runtime.cache import calls
from .runtime.engine import Engine
from .runtime.group_quantization import GroupAddresses, GroupProgram, group_program
from .runtime.memory import Memory
from .runtime.reduction import amax, min_max
from .runtime.transfer import from_host

_NUMPY = NumpyArithmetic()
# Bytes of a source that stay in the caches between two passes of all threads.
_CHUNK = 4 << 20


@dataclass(frozen=True, slots=True)
class GroupScaling:
    """How a tensor is quantised: the type of elements, the group of each axis, the types beside them.

    `groups`: 0 stands for the whole axis. `zero_type`: that of zero points, None where there are none.
    `is_two_level`: block scales are of the tensor divided by one f32 scale for all of it.
    """

    data_type: DataType
    groups: Dims
    scale_type: DataType = DataType.f32
    zero_type: DataType | None = None
    is_two_level: bool = False

    @property
    def rule(self) -> ScaleRule:
        """What the scale of a group is."""
        return ScaleRule(
            self.data_type, self.scale_type, self.is_two_level, has_zeros=self.zero_type is not None
        )

    def for_dims(self, dims: Dims) -> GroupScaling:
        """With groups for each axis: those that are there are of the last ones."""
        if len(self.groups) > len(dims):
            raise InvalidArguments(
                f"groups of {len(self.groups)} axes for a tensor of {len(dims)}",
                code="RS-A15",
                where=f"dims {dims}, groups {self.groups}",
                why="there is at most one group for each axis",
                hint="groups are of the last axes; 1 shares nothing along an axis, 0 all of it",
            )
        whole = (1,) * (len(dims) - len(self.groups)) + self.groups
        return replace(self, groups=tuple(g or max(n, 1) for g, n in zip(whole, dims, strict=True)))


NAMED = {
    "mxfp4": GroupScaling(DataType.f4_e2m1, (32,), DataType.e8m0),
    "mxfp8": GroupScaling(DataType.f8_e4m3, (32,), DataType.e8m0),
    "nvfp4": GroupScaling(DataType.f4_e2m1, (16,), DataType.f8_e4m3, is_two_level=True),
}
"""Ways of quantising that have names."""

_SCALE_TYPES = (
    *(DataType.f32, DataType.f16, DataType.bf16),
    *(DataType.e8m0, DataType.f8_e4m3, DataType.f8_e5m2),
)
_MOST_F8 = 448.0


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedTensor:
    """Elements and the scales that groups of them share: `x` is about `scale * (values - zero_point)`.

    values        a `Memory` of the tensor's dims, in any layout
    scale         a `Memory` of the dims divided by the groups
    zero_point    a `Memory` of the same dims, or None
    tensor_scale  one more factor for the whole tensor
    minimum       a `Memory` of the same dims, of what is added in the end, or None
    """

    values: Memory
    scale: Memory
    zero_point: Memory | None = None
    tensor_scale: float = 1.0
    minimum: Memory | None = None

    @property
    def dims(self) -> Dims:
        """Extents of the tensor."""
        return self.values.desc.dims

    @property
    def groups(self) -> Dims:
        """How many elements share a scale along each axis."""
        return tuple(n // max(m, 1) for n, m in zip(self.dims, self.scale.desc.dims, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of elements, scales and zero points."""
        parts = (self.values, self.scale, self.zero_point, self.minimum)
        return sum(part.desc.size for part in parts if part is not None)

    def dequantize(self, dtype: Any = "f32", dst: Any = None, out: Memory | None = None) -> Memory:
        """The real numbers that this stands for, as a `Memory`; `out` is written and returned."""
        engine = self.values.engine
        made = out
        if made is None:
            made = _new(dst if isinstance(dst, MemoryDesc) else MemoryDesc(self.dims, dtype, dst), engine)
        steps = [] if self.zero_point is None else [GroupStep("sub", self.zero_point)]
        steps.append(GroupStep("mul", self.scale))
        if self.tensor_scale != 1.0:
            one = MemoryDesc((1,) * len(self.dims), DataType.f32)
            whole = from_host(one, engine, np.array([self.tensor_scale], np.float32))
            steps.append(GroupStep("mul", whole))
        if self.minimum is not None:
            steps.append(GroupStep("add", self.minimum))
        reorder_in_groups(self.values, made, steps)
        return made


def scaling_of(
    dtype: Any, axis: Any, symmetric: Any, group: Any, scale_type: Any, ndims: int
) -> GroupScaling:
    """How `quantize` is asked to quantise a tensor of so many dims."""
    name = plain_text(dtype)
    if isinstance(name, str) and name in NAMED:
        named = NAMED[name]
        return named if group is None else replace(named, groups=_groups_of(group, axis, ndims))
    kind, stored = DataType.parse(dtype), DataType.parse(scale_type)
    if kind not in LARGEST or stored not in _SCALE_TYPES:
        words = (
            (LARGEST, f"dtype is {kind}")
            if kind not in LARGEST
            else (_SCALE_TYPES, f"scale_type is {stored}")
        )
        raise InvalidArguments(
            f"quantize: {words[1]}",
            code="RS-A15",
            why=f"with groups it is one of {', '.join(map(str, words[0]))}",
            hint=f"or one of the names {', '.join(NAMED)}",
        )
    has_zeros = not parse_bool("quantize: symmetric", symmetric)
    if has_zeros and (kind not in ENDS or stored is DataType.e8m0):
        raise InvalidArguments(
            f"quantize: {kind} in scales of {stored} with symmetric=False",
            code="RS-A15",
            why="zero points are of integers, and beside scales that are no powers of two",
            hint="leave symmetric out",
        )
    return GroupScaling(
        kind, _groups_of(0 if group is None else group, axis, ndims), stored, kind if has_zeros else None
    )


def _groups_of(group: Any, axis: Any, ndims: int) -> Dims:
    """A group for each of the last axes, or for one axis that is named."""
    if isinstance(group, list | tuple):
        return parse_ints(group, "quantize: group")
    at = -1 if axis is None else parse_int(axis, "quantize: axis")
    if not -ndims <= at < ndims:
        raise InvalidArguments(
            f"quantize: axis is {at}",
            code="RS-A10",
            why=f"it must be from {-ndims} to {ndims - 1}",
            hint="groups are along the last axis unless another is given",
        )
    return tuple(parse_int(group, "quantize: group") if d == at % ndims else 1 for d in range(ndims))


def quantize_in_groups(
    x: Memory, scaling: GroupScaling, dst: Any = None, scales: Memory | None = None
) -> QuantizedTensor:
    """Quantise with scales found from the data, or with these. Raises InvalidArguments for groups that do not
    divide.
    """
    md, engine = x.desc, x.engine
    if scales is not None:
        return _quantize_by(x, scaling.data_type, dst, scales)
    scaling = scaling.for_dims(md.dims)
    extents = group_extents(md.dims, scaling.groups)
    tensor_scale = _tensor_scale(x, scaling)
    made = QuantizedTensor(
        _new(target_desc(md, dst, scaling.data_type), engine),
        _new(MemoryDesc(extents, scaling.scale_type), engine),
        None if scaling.zero_type is None else _new(MemoryDesc(extents, scaling.zero_type), engine),
        tensor_scale,
    )
    if not _quantize_at_once(x, made, scaling):
        _quantize_chunks(x, made, scaling)
    middle = MIDDLE.get(scaling.data_type) if made.zero_point is None else None
    return made if middle is None else replace(made, zero_point=_one_value(middle, scaling, md.ndims, engine))


def _new(md: MemoryDesc, engine: Engine) -> Memory:
    """A memory for results: on the CPU in the pages that results get again."""
    if not md.nelems or engine != Engine("cpu"):
        return Memory(md, engine)
    made: Memory = maker_of(md, is_memory=True)()[1]
    return made


def _one_value(value: int, scaling: GroupScaling, ndims: int, engine: Engine) -> Memory:
    """A zero point for the whole tensor."""
    found = Memory(MemoryDesc((1,) * ndims, scaling.data_type), engine)
    reorder(np.full((1,) * ndims, value, np.uint8), None, out=found)
    return found


def _quantize_by(x: Memory, data_type: DataType, dst: Any, scales: Memory) -> QuantizedTensor:
    """Quantise with scales that are there."""
    made = QuantizedTensor(_new(target_desc(x.desc, dst, data_type), x.engine), scales)
    reorder_in_groups(x, made.values, [GroupStep("div", scales), *_ends(data_type)])
    return made


def _ends(data_type: DataType) -> list[GroupStep]:
    """What saturates floats that would become infinite or NaN."""
    most = LARGEST[data_type]
    is_open = data_type in (DataType.f8_e4m3, DataType.f8_e5m2)
    return [GroupStep("clip", numbers=(-most, most))] if is_open else []


def _quantize_at_once(x: Memory, made: QuantizedTensor, scaling: GroupScaling) -> bool:
    """Quantise by one kernel; False where none does it."""
    if not x.desc.nelems:
        return False
    program = _program_of(x.desc, made.values.desc, made.scale.desc, scaling.rule)
    if program.is_provided:
        zero = None if made.zero_point is None else _bytes_like(made.zero_point)
        parts = (x, made.values, made.scale, *(() if zero is None else (zero,)))
        program.run(GroupAddresses(*(part.get_data_handle() for part in parts)), made.tensor_scale)
        if zero is not None and made.zero_point is not None and zero is not made.zero_point:
            reorder(zero, None, out=made.zero_point)
    return program.is_provided


def _program_of(x: MemoryDesc, values: MemoryDesc, scale: MemoryDesc, rule: ScaleRule) -> GroupProgram:
    """The program for tensors of these descriptors; what was made for a call serves all of its kind."""
    key = "quantize", x, values, scale, rule
    made: GroupProgram | None = calls.find(key)
    if made is not None:
        calls.count_hit()
        return made
    views = split_views(x, values, [scale])
    return calls.keep(key, group_program(views[0], views[1], views[2], rule))


def _bytes_like(zero: Memory) -> Memory:
    """The memory of zero points itself where each has a byte, else a new one in which it has."""
    if zero.desc.data_type.bits == 8:
        return zero
    kind = DataType.s8 if zero.desc.data_type is DataType.s4 else DataType.u8
    return Memory(MemoryDesc(zero.desc.dims, kind), zero.engine)


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

    def run(self, x: Memory, made: QuantizedTensor) -> None:
        """Find the scales of a chunk, and write its elements, scales and zero points."""
        md = self._splits.get(x.desc) or self._splits.setdefault(
            x.desc, split_in_groups(x.desc, self._scaling.groups)
        )
        keep = sum(1 << 2 * axis for axis in range(x.desc.ndims))
        address, zeros = x.get_data_handle(), []
        if made.zero_point is None:
            largest = _as_floats(amax(md, address, keep))
            stored, used = _symmetric(largest, self._scaling.rule, self._tensor_scale)
        else:
            low, high = min_max(md, address, keep)
            stored, used, zero = _asymmetric(low, high, self._scaling.rule)
            reorder(zero, None, out=made.zero_point)
            zeros = [Memory.from_numpy(zero)]
        reorder(stored, None, out=made.scale)
        operands = [Memory.from_numpy(used), *zeros]
        if x.desc not in self._reorders:
            self._reorders[x.desc] = self._reorder(x, made, operands)
        self._reorders[x.desc].run(x, made.values, operands)

    def _reorder(self, x: Memory, made: QuantizedTensor, operands: list[Memory]) -> GroupedReorder:
        kind = self._scaling.data_type
        steps = [GroupStep("div", operands[0])]
        steps += [
            step for zero in operands[1:] for step in (GroupStep("nan_to_zero"), GroupStep("add", zero))
        ]
        if kind in MIDDLE and made.zero_point is None:
            steps.append(GroupStep("nan_to_zero"))
            steps.append(GroupStep("linear", numbers=(1.0, float(MIDDLE[kind]))))
        return GroupedReorder(
            x.desc, made.values.desc, [*steps, *_ends(kind)], (x.engine, made.values.engine)
        )


def _quantize_chunks(x: Memory, made: QuantizedTensor, scaling: GroupScaling) -> None:
    """Chunk after chunk along the first axis, of whole groups and blocks."""
    md, values = x.desc, made.values.desc
    if not md.nelems:
        return
    group = scaling.groups[0]
    quantizer = _Quantizer(scaling, made.tensor_scale)
    whole = int(np.lcm.reduce([group, md.layout.blocks[0], values.layout.blocks[0]]))
    scales = [part for part in (made.scale, made.zero_point) if part is not None]
    parts = (_RowWindows(x), _RowWindows(made.values), *(_RowWindows(part, group) for part in scales))
    count = max(_CHUNK // max(md.size // md.dims[0], 1) // whole * whole, whole)
    if min(md.strides) < 0 or not _begin_whole_bytes(made.values.desc, count):
        count = md.dims[0]
    for start in range(0, md.dims[0], count):
        stop = min(start + count, md.dims[0])
        window, written, *beside = (part.at(start, stop) for part in parts)
        scale, zero = beside[0], beside[1] if len(beside) > 1 else None
        quantizer.run(window, QuantizedTensor(written, scale, zero))


def _begin_whole_bytes(md: MemoryDesc, count: int) -> bool:
    """True where every chunk of so many indices begins at a byte."""
    return count // md.layout.blocks[0] * md.strides[0] * md.data_type.bits % 8 == 0


def _as_floats(largest: Array) -> Array:
    """Magnitudes as f32. Raises InvalidArguments for doubles beyond it."""
    if largest.dtype == np.float32:
        return largest
    if (largest > np.finfo(np.float32).max).any():
        raise InvalidArguments(
            "quantize: the values of x reach too far",
            code="RS-A15",
            why="a step would be worth more than f32 holds",
            hint="divide x by a power of two first",
        )
    return np.asarray(largest, np.float32)


def _symmetric(largest: Array, rule: ScaleRule, tensor_scale: float) -> tuple[Array, Array]:
    """The scales as they are stored, and as f32 what elements are divided by."""
    whole = Term(_NUMPY, np.asarray(tensor_scale, np.float32)) if rule.is_two_level else None

    def stored(scales: Term[Array]) -> Term[Array]:
        return Term(_NUMPY, _as_stored(scales.value, rule.scale_type))

    held, used = rule.scales(Term(_NUMPY, largest), whole, stored)
    return held.value, used.value


def _as_stored(scales: Array, data_type: DataType) -> Array:
    """The values that the type holds."""
    if data_type is DataType.f32:
        return scales
    return np.asarray(reorder(reorder(scales, None, dtype=data_type), None, dtype="f32"))


def _asymmetric(low: Array, high: Array, rule: ScaleRule) -> tuple[Array, Array, Array]:
    """The scales, once as they are stored and once as f32, and the zero points."""
    bottom, top = ENDS[rule.data_type]
    reach = np.maximum(high, 0).astype(np.float64) - np.minimum(low, 0)
    _as_floats(reach / (top - bottom))

    def stored(scales: Term[Array]) -> Term[Array]:
        return Term(_NUMPY, _as_stored(scales.value.astype(np.float32), rule.scale_type))

    held, zero = rule.ranged(Term(_NUMPY, low), Term(_NUMPY, high), stored)
    return held.value, held.value, zero.value.astype(np.int32)


def _tensor_scale(x: Memory, scaling: GroupScaling) -> float:
    """The scale of the whole tensor: with it the largest block scale is the largest f8_e4m3."""
    if not scaling.is_two_level or not x.desc.nelems:
        return 1.0
    largest = _as_floats(amax(x.desc, x.get_data_handle(), 0))
    found = np.float32(largest / np.float32(LARGEST[scaling.data_type] * _MOST_F8))
    return float(found) if found > 0 else 1.0
