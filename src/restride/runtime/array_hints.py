"""Hints for array attributes that memories lack: reading one says how to get an array.

`__getattr__` could do the same, but it makes every attribute access of a memory slow: an execution took twice
as long.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..desc.memory_desc import MemoryDesc

_ADDRESS = "get_data_handle() gives the address of the stored elements"
# to_numpy() gives the elements in plain order, without padding: these names ask for what is stored.
_BYTES = {
    "tobytes": "physical().tobytes() gives the stored bytes, to_numpy().tobytes() those in plain order",
    "tofile": "physical().tofile() writes the stored bytes, to_numpy().tofile() those in plain order",
    **dict.fromkeys(("ctypes", "ptr", "data_ptr", "address"), _ADDRESS),
    "from_bytes": "Memory(desc, engine, np.frombuffer(data, np.uint8)) takes the stored bytes",
    "byte_offset": "m.desc.offset(*index) counts elements: times m.desc.data_type.itemsize",
}


class ArrayHint:
    """Descriptor for such a name; reading it raises AttributeError, so that `hasattr` is False."""

    __slots__ = ("_name", "_way")

    def __init__(self, name: str, way: str) -> None:
        self._name, self._way = name, way

    def __get__(self, instance: object, owner: type | None = None) -> object:
        raise AttributeError(f"Memory has no attribute {self._name!r}; {self._way}", name=self._name)


def add_hints(memory: type) -> None:
    """Add a hint to the class for every public name of arrays and of descriptors that it lacks."""
    hints = {name: f"its descriptor has one: m.desc.{name}" for name in dir(MemoryDesc)}
    hints |= {name: f"to_numpy() returns an array with one: m.to_numpy().{name}" for name in dir(np.ndarray)}
    hints["numpy"] = "to_numpy() returns a NumPy array"
    hints["to_torch"] = "torch.from_dlpack(m) returns a tensor, if the format is plain"
    hints["from_torch"] = "from_dlpack(x) wraps a tensor, and rs.reorder takes it"
    hints |= _BYTES
    for name, way in hints.items():
        if not name.startswith("_") and not hasattr(memory, name):
            setattr(memory, name, ArrayHint(name, way))


def without_hints(memory: type, names: Iterable[str]) -> list[str]:
    """Return the names that are not hints."""
    return [name for name in names if not isinstance(vars(memory).get(name), ArrayHint)]
