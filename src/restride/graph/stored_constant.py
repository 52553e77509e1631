"""Constants that stay as stored: elements of few bits, in any order, unpacked only on access."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..desc.memory_desc import MemoryDesc
from ..files.mapped_file import release_pages
from ..runtime.alloc import Array, Buffer, address_of
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.views import logical, packed_nibbles
from .graph import Constant, FloatArray
from .nodes.operations import TensorType

__all__ = ["StoredConstant", "as_constant"]


class StoredConstant(Constant):
    """Bytes, and a descriptor of the layout of elements: two of 4 bits share a byte.

    `values` are computed on each access: an element of 4 bits is a byte there.
    """

    __slots__ = ("content", "md")

    content: Array
    md: MemoryDesc

    def __init__(self, content: Array, md: MemoryDesc) -> None:
        content = content.reshape(-1).view(np.uint8)
        if content.nbytes < md.size:
            raise ValueError(f"{content.nbytes} bytes do not fit {md}")
        object.__setattr__(self, "content", content)
        object.__setattr__(self, "md", md)

    @property
    def values(self) -> FloatArray:
        """The elements, row-major, in new memory."""
        content = self.content
        values = logical(self.md, Buffer(address_of(content), content.nbytes, True, content))
        values.flags.writeable = False
        return values

    @property
    def type(self) -> TensorType:
        """The dims and the type of the descriptor."""
        return TensorType(self.md.dims, self.md.data_type)

    def memory(self, engine: Engine) -> Memory:
        """Return a memory over the bytes, without copying."""
        content = self.content
        return Memory.from_pointer(
            address_of(content), content.nbytes, self.md, engine, owner=content, readonly=True
        )

    def transposed(self, order: Sequence[int]) -> StoredConstant:
        """Return the same bytes with the dims permuted by `order`, as in NumPy."""
        return StoredConstant(self.content, self.md.permute_axes(_inverse(order)))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, StoredConstant) and self.md == other.md:
            own, others = self.content, other.content
            is_same = address_of(own) == address_of(others) or np.array_equal(own, others)
            for data in (own, others):
                release_pages(data)
            return is_same
        return Constant.__eq__(self, other)

    def __hash__(self) -> int:
        return hash(self.type)

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredConstant, (np.array(self.content), self.md)


def as_constant(values: Any) -> Constant:
    """Return an array as a constant: 4-bit elements are packed, two to a byte. A `Memory` is not copied."""
    if isinstance(values, Memory) and values.data is not None:
        return StoredConstant(values.data, values.desc)
    constant = values if isinstance(values, Constant) else Constant(values)
    kind = constant.type
    if isinstance(constant, StoredConstant) or kind.data_type.bits >= 8 or not kind.dims:
        return constant
    return StoredConstant(packed_nibbles(constant.values), MemoryDesc(kind.dims, kind.data_type))


def _inverse(order: Sequence[int]) -> list[int]:
    return [order.index(axis) for axis in range(len(order))]
