"""The parts of a stored tensor: its elements and their factors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from ..arrays.calls.tensors import as_numpy, is_foreign
from ..arrays.reorders import reorder
from ..arrays.scaling.grouped import over
from ..arrays.scaling.packed_tensor import PackedTensor
from ..arrays.scaling.quantized_tensor import QuantizedTensor
from ..desc.memory_desc import MemoryDesc
from ..desc.packed_blocks import PackedBlocks
from ..desc.parse import to_f32
from ..dtypes import DataType
from ..errors import Error, InvalidArguments, refuse
from ..foreign import is_masked, text_of
from ..runtime.engine import Engine
from ..runtime.memory import Memory


@dataclass(frozen=True, slots=True)
class TensorFormat:
    """The layout of a quantized tensor: `x = scale * (value - zero_point) + minimum`.

    name        its name in `rs.formats`
    values      the layout of the elements
    scale       the layout of the scales, with the dims of the values divided by the groups; None without
                scales
    zero_point  the layout of the zero points, or one integer for all of them
    minimum     the layout of the values added at the end, or None
    nbytes      the size of the common buffer; 0 if each part has its own
    about       a one-line description with its origin
    has_tensor_scale  True if an additional factor, for the whole tensor, is stored separately
    has_one_buffer  True if one buffer contains everything
    blocks      the bits of blocks, if no descriptor can locate the elements; then `values`, `scale` and
                `minimum` are the unpacked parts, elements minus their zero point
    """

    name: str
    values: MemoryDesc
    scale: MemoryDesc | None = None
    zero_point: MemoryDesc | int = 0
    minimum: MemoryDesc | None = None
    nbytes: int = 0
    about: str = ""
    has_tensor_scale: bool = False
    has_one_buffer: bool = False
    blocks: PackedBlocks | None = None

    @property
    def parts(self) -> dict[str, MemoryDesc]:
        """The descriptors by the names of the parts."""
        parts = {"values": self.values, "scale": self.scale, "minimum": self.minimum}
        if isinstance(self.zero_point, MemoryDesc):
            parts["zero_point"] = self.zero_point
        return {name: md for name, md in parts.items() if md is not None}

    @property
    def groups(self) -> tuple[int, ...]:
        """The number of elements that share a scale along each axis; 1 if there are no scales."""
        counts = self.values.dims if self.scale is None else self.scale.dims
        return tuple(n // max(m, 1) for n, m in zip(self.values.dims, counts, strict=True))

    def empty(self) -> QuantizedTensor:
        """Return a tensor of this format, of zero bytes."""
        if self.has_one_buffer:
            return self.wrap(np.zeros(self.nbytes, np.uint8))
        buffers: dict[str, Any] = {name: np.zeros(md.size, np.uint8) for name, md in self.parts.items()}
        return self.wrap(**buffers)

    def wrap(self, buffer: Any = None, *, tensor_scale: float = 1.0, **buffers: Any) -> QuantizedTensor:
        """Return the tensor in these bytes, without a copy: one buffer, or one for each of `parts` by name.

        A buffer is a contiguous array of any type. `tensor_scale` is the factor of the whole tensor, if the
        format has one. Raises InvalidArguments for other names, for buffers of another length, and for floats
        of a type other than the part's.
        """
        factor, parts = to_f32(tensor_scale, f"formats.{self.name}: tensor_scale"), self.parts
        if not isfinite(factor):
            raise self._misfit(f"tensor_scale is {factor}", "pass a number in the range of f32")
        if factor != 1 and not self.has_tensor_scale:
            raise self._misfit("this format has no tensor scale", "omit tensor_scale")
        if self.has_one_buffer:
            if buffer is None or buffers:
                raise self._misfit("one buffer contains all parts", "pass it alone")
            whole = _flat(self.name, buffer, self.nbytes)
            if self.blocks is not None:
                return PackedTensor(self.blocks, self.values.dims, whole)
            memories = {name: over(whole, md) for name, md in parts.items()}
        else:
            data = {**({} if buffer is None else {"values": buffer}), **buffers}
            if data.keys() != parts.keys():
                raise self._misfit(
                    f"its parts are {', '.join(parts)}", "pass a buffer for each of them by name"
                )
            memories = {
                name: over(_flat(name, data[name], md.size, md.data_type), md) for name, md in parts.items()
            }
        one = (1,) * self.values.ndims
        scale, zero = memories.get("scale"), memories.get("zero_point")
        if scale is None:
            scale = Memory.from_numpy(np.ones(one, np.float32))
        if zero is None and self.zero_point != 0:
            zero = Memory.from_numpy(np.full(one, self.zero_point, np.int8))
        return QuantizedTensor(memories["values"], scale, zero, factor, memories.get("minimum"))

    def pack(self, tensor: QuantizedTensor) -> QuantizedTensor:
        """Return the same elements, scales and zero points in this format; nothing is computed.

        A format with separate scales keeps those of the tensor. Raises InvalidArguments if groups, types or
        zero points differ, and for parts that the format does not have.
        """
        if not isinstance(tensor, QuantizedTensor):
            raise self._misfit(
                f"expected a QuantizedTensor, got {type(tensor).__name__}", "quantize it first"
            )
        if self.blocks is not None:
            raise self._misfit(
                "its scales are products of low-bit numbers", "create such blocks with rs.quantize"
            )
        packed, theirs = self.empty(), {"values": tensor.values, "minimum": tensor.minimum}
        if self.scale is None:
            packed = replace(packed, scale=tensor.scale)
        else:
            theirs["scale"] = tensor.scale
        if isinstance(self.zero_point, MemoryDesc):
            theirs["zero_point"] = tensor.zero_point
        else:
            zeros = 0 if tensor.zero_point is None else tensor.zero_point.to_numpy().astype(np.int32)
            if np.any(zeros != self.zero_point):
                why = f"the zero point of this format is {self.zero_point} for all elements"
                raise self._misfit(why, "the tensor's zero points differ")
        for name, src in theirs.items():
            dst = getattr(packed, name)
            if src is None:
                continue
            if dst is None:
                raise self._misfit(f"the tensor has a {name}", "this format has none")
            if (src.desc.dims, src.desc.data_type) != (dst.desc.dims, dst.desc.data_type):
                hint = "quantize with the groups and types of this format"
                raise self._misfit(f"{name}: {src.desc} is no {dst.desc}", hint)
            reorder(src, None, out=dst)
        return replace(packed, tensor_scale=tensor.tensor_scale)

    def _misfit(self, why: str, hint: str) -> Error:
        return refuse("RS-A15:parts-not-fit", name=self.name, why=why, hint=hint)


def _flat(name: str, buffer: Any, nbytes: int, data_type: DataType | None = None) -> Memory:
    """Return bytes as a memory. Integers of any type are taken as bytes; floats must have the part's type."""
    array = array_of(buffer, f"formats: the buffer of {name}")
    why = misfit_of_bytes(array, nbytes) or _misfit_of_type(array, data_type)
    if not why:
        data = array.reshape(-1).view(np.uint8)
        return Memory(MemoryDesc((array.nbytes,), DataType.u8), Engine("cpu"), data)
    raise refuse("RS-A15:buffer", name=name, why=why, needed=nbytes)


def misfit_of_bytes(array: Any, nbytes: int) -> str:
    """Return why an array does not consist of `nbytes` contiguous bytes; "" if it does."""
    if array.dtype.hasobject:
        return "it contains Python objects, not bytes"
    if not array.dtype.isnative:
        return f"its elements are {array.dtype}, in the other byte order"
    is_whole = array.flags.c_contiguous and array.nbytes == nbytes
    return "" if is_whole else f"it has {array.nbytes} bytes; {nbytes} are required, without gaps"


def _misfit_of_type(array: Any, data_type: DataType | None) -> str:
    """Return why the elements are invalid: integers are taken as bytes, others must have the part's type."""
    try:
        own = DataType.parse(array.dtype)
    except InvalidArguments:
        return "" if array.dtype.kind in "iuV" else f"its elements are {array.dtype}"
    if own.bits < 8:
        return f"it has one byte for each {own}; two must share one"
    is_other = data_type is not None and own.kind == "float" and own is not data_type
    return f"its elements are {own}, not {data_type}" if is_other else ""


def array_of(buffer: Any, what: str) -> Any:
    """Return the elements of a bytes-like object or an array of any library, without a copy."""
    if isinstance(buffer, bytes | bytearray | memoryview) and memoryview(buffer).c_contiguous:
        return np.frombuffer(buffer, np.uint8)
    if is_masked(buffer):
        why, hint = "a mask would be lost", "pass x.data, or x.filled(0)"
        raise refuse("RS-A15:part", what=what, why=why, hint=hint)
    try:
        return as_numpy(buffer, what) if is_foreign(buffer) else np.asarray(buffer)
    except Error:
        raise
    except Exception as error:  # a foreign object can raise anything
        why = f"NumPy cannot convert it to an array: {text_of(error)[:200]}"
        hint = "pass bytes, or an array"
        raise refuse("RS-A15:part", what=what, why=why, hint=hint) from None
