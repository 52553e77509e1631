"""Names that arrays have and memories have not: who reads one is told the way to an array.

`__getattr__` would tell the same, but with it Python finds every attribute of a memory the slow way: an
execution took twice as long.
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
    """Stands for such a name in a class; reading it raises AttributeError, so that `hasattr` is False."""

    __slots__ = ("_name", "_way")

    def __init__(self, name: str, way: str) -> None:
        self._name, self._way = name, way

    def __get__(self, instance: object, owner: type | None = None) -> object:
        raise AttributeError(f"Memory has no attribute {self._name!r}; {self._way}", name=self._name)


def add_hints(memory: type) -> None:
    """Put a hint in the class for every public name of arrays and of descriptors that it has not."""
    hints = {name: f"its descriptor has it: m.desc.{name}" for name in dir(MemoryDesc)}
    hints |= {
        name: f"to_numpy() gives an array, which has it: m.to_numpy().{name}" for name in dir(np.ndarray)
    }
    hints["numpy"] = "to_numpy() gives an array of NumPy"
    hints |= _BYTES
    for name, way in hints.items():
        if not name.startswith("_") and not hasattr(memory, name):
            setattr(memory, name, ArrayHint(name, way))


def without_hints(memory: type, names: Iterable[str]) -> list[str]:
    """The names that are no hints."""
    return [name for name in names if not isinstance(vars(memory).get(name), ArrayHint)]
