"""What a stored tensor is made of: where its elements lie, and what they are multiplied by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..arrays import reorder
from ..block_scales import QuantizedTensor
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..errors import InvalidArguments
from ..grouped import over
from ..runtime.engine import Engine
from ..runtime.memory import Memory


@dataclass(frozen=True, slots=True)
class TensorFormat:
    """The layout of a quantised tensor: `x = scale * (value - zero_point) + minimum`.

    name        as `rs.formats` has it
    values      where the elements lie
    scale       where the scales lie, of the dims of the values divided by the groups; None without scales
    zero_point  where zero points lie, or one integer for all of them
    minimum     where what is added in the end lies, or None
    nbytes      of the buffer that holds all of it; 0 where each part has a buffer of its own
    about       one line on what it is and where it comes from
    """

    name: str
    values: MemoryDesc
    scale: MemoryDesc | None = None
    zero_point: MemoryDesc | int = 0
    minimum: MemoryDesc | None = None
    nbytes: int = 0
    about: str = ""

    @property
    def parts(self) -> dict[str, MemoryDesc]:
        """The descriptors by the names of what they describe."""
        found = {"values": self.values, "scale": self.scale, "minimum": self.minimum}
        if isinstance(self.zero_point, MemoryDesc):
            found["zero_point"] = self.zero_point
        return {name: md for name, md in found.items() if md is not None}

    @property
    def groups(self) -> tuple[int, ...]:
        """How many elements share a scale along each axis; 1 where there are no scales."""
        counts = self.values.dims if self.scale is None else self.scale.dims
        return tuple(n // max(m, 1) for n, m in zip(self.values.dims, counts, strict=True))

    def empty(self) -> QuantizedTensor:
        """A tensor of this format, of zero bytes."""
        if self.nbytes:
            return self.wrap(np.zeros(self.nbytes, np.uint8))
        return self.wrap(**{name: np.zeros(md.size, np.uint8) for name, md in self.parts.items()})

    def wrap(self, buffer: Any = None, **buffers: Any) -> QuantizedTensor:
        """The tensor in these bytes, without a copy: one buffer, or one for each of `parts` by its name.

        A buffer is an array of any type, contiguous. Raises InvalidArguments for other names, and for
        buffers that are too short.
        """
        if self.nbytes:
            if buffer is None or buffers:
                raise self._misfit("one buffer holds all of it", "pass it alone")
            held = _flat(self.name, buffer, self.nbytes)
            memories = {name: _part(held, md) for name, md in self.parts.items()}
        else:
            named = {**({} if buffer is None else {"values": buffer}), **buffers}
            if named.keys() != self.parts.keys():
                raise self._misfit(f"its parts are {', '.join(self.parts)}", "name a buffer for each of them")
            memories = {
                name: _part(_flat(name, b, self.parts[name].size), self.parts[name])
                for name, b in named.items()
            }
        zero = memories.get("zero_point") or self._one_zero_point()
        return QuantizedTensor(
            memories["values"], self._scale(memories), zero, minimum=memories.get("minimum")
        )

    def pack(self, tensor: QuantizedTensor) -> QuantizedTensor:
        """The same elements, scales and zero points in this format; nothing is computed.

        A format that holds scales apart keeps those of the tensor. Raises InvalidArguments where groups,
        types or zero points are others, and for parts that the format has not.
        """
        made, theirs = self.empty(), {"values": tensor.values, "minimum": tensor.minimum}
        if self.scale is None:
            made = replace(made, scale=tensor.scale)
        else:
            theirs["scale"] = tensor.scale
        if isinstance(self.zero_point, MemoryDesc):
            theirs["zero_point"] = tensor.zero_point
        else:
            self._check_zero_point(tensor.zero_point, self.zero_point)
        for name, src in theirs.items():
            dst = getattr(made, name)
            if src is None:
                continue
            if dst is None:
                raise self._misfit(f"the tensor has a {name}", "this format has none")
            self._check_part(name, src.desc, dst.desc)
            reorder(src, None, out=dst)
        return replace(made, tensor_scale=tensor.tensor_scale)

    def _check_part(self, name: str, src: MemoryDesc, dst: MemoryDesc) -> None:
        if (src.dims, src.data_type) != (dst.dims, dst.data_type):
            raise self._misfit(
                f"{name}: {src} is no {dst}", "quantise with the groups and types of this format"
            )

    def _check_zero_point(self, found: Memory | None, wanted: int) -> None:
        is_same = wanted == 0 if found is None else bool((found.to_numpy().astype(np.int32) == wanted).all())
        if not is_same:
            why = f"the zero point of this format is {wanted} for all elements"
            raise self._misfit(why, "the tensor's zero points are others")

    def _misfit(self, why: str, hint: str) -> InvalidArguments:
        return InvalidArguments(
            f"formats.{self.name}: the parts do not fit", code="RS-A15", why=why, hint=hint
        )

    def _scale(self, memories: dict[str, Memory]) -> Memory:
        if "scale" in memories:
            return memories["scale"]
        return Memory.from_numpy(np.ones((1,) * self.values.ndims, np.float32))

    def _one_zero_point(self) -> Memory | None:
        if isinstance(self.zero_point, MemoryDesc) or self.zero_point == 0:
            return None
        return Memory.from_numpy(np.full((1,) * self.values.ndims, self.zero_point, np.int8))


def _flat(name: str, buffer: Any, needed: int) -> Memory:
    """Bytes as a memory of them."""
    array = np.asarray(buffer)
    if not array.flags.c_contiguous or array.nbytes < needed:
        raise InvalidArguments(
            f"formats: the buffer of {name} will not do",
            code="RS-A15",
            why=f"it has {array.nbytes} bytes; {needed} are needed, without gaps",
            hint="pass a contiguous array",
        )
    return Memory(MemoryDesc((array.nbytes,), DataType.u8), Engine("cpu"), array.reshape(-1).view(np.uint8))


def _part(held: Memory, md: MemoryDesc) -> Memory:
    return over(held, md)
