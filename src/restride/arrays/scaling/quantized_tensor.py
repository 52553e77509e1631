"""Elements together with the scales shared by groups of them, and the real numbers that they represent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...desc.layout import extent_range
from ...desc.memory_desc import MemoryDesc
from ...desc.parse import to_f32
from ...desc.viewer import viewer
from ...dtypes import DataType
from ...errors import refuse
from ...runtime.alloc import Array
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ...runtime.transfer import from_host
from ..calls.formats import target_desc
from ..calls.results import maker_of
from .grouped import Dims, GroupStep, groups_of, over, reorder_in_groups


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedTensor:
    """Elements and the scales shared by groups of them: `x` is about `scale * (values - zero_point)`.

    values        a `Memory` of the tensor's dims, in any layout
    values        a `Memory` with the tensor's dims, in any layout
    scale         a `Memory` with the dims divided by the groups
    zero_point    a `Memory` of the same dims, or None
    tensor_scale  an additional factor for the whole tensor
    minimum       a `Memory` of the same dims whose values are added at the end, or None

    Zero points and minima can have other groups. Raises InvalidArguments for parts that are not memory
    objects, have dims that do not divide those of the tensor, or have invalid types.
    """

    values: Memory
    scale: Memory
    zero_point: Memory | None = None
    tensor_scale: float = 1.0
    minimum: Memory | None = None

    # NumPy refuses it by its name, and takes it for no array of objects.
    __array_ufunc__: ClassVar[None] = None

    def __post_init__(self) -> None:
        for name, kinds in _KINDS.items():
            part = getattr(self, name)
            if part is not None or name in ("values", "scale"):
                self._check_part(name, part, kinds)
        whole = to_f32(self.tensor_scale, "QuantizedTensor: tensor_scale")
        if not isfinite(whole):
            raise refuse("RS-A15:tensor-scale", whole=whole)

    def _check_part(self, name: str, part: Any, kinds: tuple[str, ...]) -> None:
        if not isinstance(part, Memory) or not part:
            what, why = f"{name} is {type(part).__name__}", "each part must be a Memory with data"
            raise refuse("RS-A15:rs-memory-numpy", what=what, why=why)
        if part.desc.data_type.kind not in kinds:
            what = f"{name} is of {part.desc.data_type}"
            raise refuse("RS-A15:type-kind", what=what, kinds=" or ".join(kinds))
        if self.values.desc.nelems:
            groups_of(self.dims, part.desc)

    def _repr_html_(self) -> str:
        return str(viewer().watched().html_of(self))

    @property
    def dims(self) -> Dims:
        """The extents of the tensor."""
        return self.desc.dims

    @property
    def desc(self) -> MemoryDesc:
        """The descriptor of the elements."""
        return self.values.desc

    @property
    def groups(self) -> Dims:
        """The number of elements along each axis that share a scale."""
        return tuple(n // max(m, 1) for n, m in zip(self.dims, self.scale.desc.dims, strict=True))

    @property
    def T(self) -> QuantizedTensor:  # noqa: N802
        """The same numbers with the last two axes exchanged: views of all parts."""
        zero, minimum = (part and turned_memory(part) for part in (self.zero_point, self.minimum))
        values, scale = turned_memory(self.values), turned_memory(self.scale)
        return QuantizedTensor(values, scale, zero, self.tensor_scale, minimum)

    def rows(self, indices: Any) -> QuantizedTensor:
        """Return the same numbers at some indices of the first axis, in order; nothing else is read.

        Raises IndexError for an index out of range, as NumPy does.

        >>> import numpy as np, restride as rs
        >>> q = rs.quantize(np.arange(128, dtype="f4").reshape(4, 32), "u8", group=32)
        >>> q.rows([3, 1, 3]).dims
        (3, 32)
        """
        at = np.arange(self.dims[0])[np.asarray(indices)]
        parts = {name: part for name in _KINDS if (part := getattr(self, name)) is not None}
        taken = {name: _rows(part, at // (self.dims[0] // part.desc.dims[0])) for name, part in parts.items()}
        return QuantizedTensor(**taken, tensor_scale=self.tensor_scale)

    def in_groups(self, groups: Any) -> tuple[QuantizedTensor, Array]:
        """Group together the rows that share a scale, as GPTQ's `g_idx` specifies it for each: return (the
        tensor, the order of its rows). `rs.matmul(x[..., order], tensor)` multiplies by the original rows.

        Raises InvalidArguments unless each row is given a scale, and each scale has the same number of rows.

        >>> import numpy as np, restride as rs
        >>> q = rs.quantize(np.arange(128, dtype="f4").reshape(64, 2), "s8", 0, group=32)
        >>> ordered, order = q.in_groups(np.arange(64) % 2)
        >>> order[:3].tolist(), ordered.dims
        ([0, 2, 4], (64, 2))
        """
        rows, count = self.dims[0], self.scale.desc.dims[0]
        named: Array = np.asarray(groups).reshape(-1)
        wanted = np.repeat(np.arange(count), rows // max(count, 1))
        order = np.argsort(named, kind="stable")
        if named.shape != wanted.shape or not np.array_equal(named[order], wanted):
            raise refuse("RS-A15:groups-of-rows", rows=rows, count=count, size=named.size)
        taken = _rows(self.values, order).to(None, self.values.desc.data_type)
        return replace(self, values=taken), order

    @property
    def nbytes(self) -> int:
        """Size of elements, scales and zero points in bytes."""
        parts = (self.values, self.scale, self.zero_point, self.minimum)
        return sum(part.desc.size for part in parts if part is not None)

    def dequantize(self, dtype: Any = None, dst: Any = None, out: Memory | None = None) -> Memory:
        """Return the real numbers that it represents, as a `Memory`; `out` is written and returned.

        `dtype`: by default that of a `MemoryDesc` in `dst`, else f32.
        """
        engine = self.values.engine
        if out is not None:
            result = out
        elif isinstance(dst, MemoryDesc):
            result = new_memory(target_desc(self.values.desc, dst, dtype), engine)
        else:  # row-major unless `dst` specifies another format
            result = new_memory(MemoryDesc(self.dims, DataType.f32 if dtype is None else dtype, dst), engine)
        steps = [] if self.zero_point is None else [GroupStep("sub", self.zero_point)]
        steps.append(GroupStep("mul", self.scale))
        if self.tensor_scale != 1.0:
            one = MemoryDesc((1,) * len(self.dims), DataType.f32)
            whole = from_host(one, engine, np.array([self.tensor_scale], np.float32))
            steps.append(GroupStep("mul", whole))
        if self.minimum is not None:
            steps.append(GroupStep("add", self.minimum))
        reorder_in_groups(self.values, result, steps)
        return result


_NUMBERS = ("int", "uint", "float")
_KINDS = {"values": _NUMBERS, "scale": ("float",), "zero_point": _NUMBERS, "minimum": ("float",)}


def _rows(memory: Memory, indices: Array) -> Memory:
    """Return rows of a memory in a new one, including gaps if a row is stored separately."""
    md, data = memory.desc, memory.data
    layout, kind = md.layout, md.data_type
    step = layout.strides[0] * kind.bits
    if layout.blocks[0] > 1 or step % 8 or step <= 0:
        wide = {"int": DataType.s8, "uint": DataType.u8, "float": DataType.f32}[kind.kind]
        return _rows(memory.to(MemoryDesc(md.dims, wide if kind.bits < 8 else kind)), indices)
    assert data is not None
    one = replace(layout, dims=(1, *md.dims[1:]), padded_dims=(1, *layout.padded_dims[1:]))
    nbytes = -(-kind.nbytes(extent_range(one)[1]) // kind.nbytes(2)) * kind.nbytes(2)
    begins = as_strided(data.view(np.uint8), (md.dims[0], nbytes), (step // 8, 1), writeable=False)
    own = (nbytes * 8 // kind.bits, *layout.strides[1:])
    size = (len(indices), *one.dims[1:]), (len(indices), *one.padded_dims[1:])
    new = replace(layout, dims=size[0], padded_dims=size[1], strides=own)
    return Memory(MemoryDesc._make("blocked", kind, new), memory.engine, begins[indices].reshape(-1))


def turned_memory(memory: Memory) -> Memory:
    """Return a view with the last two axes exchanged."""
    axes = list(range(memory.desc.ndims))
    axes[-2:] = reversed(axes[-2:])
    return over(memory, memory.desc.permute_axes(axes))


def new_memory(md: MemoryDesc, engine: Engine) -> Memory:
    """Return a memory for results: on the CPU from the pool for results."""
    if not md.nelems or engine != Engine("cpu"):
        return Memory(md, engine)
    memory: Memory = maker_of(md, is_memory=True)()[1]
    return memory
