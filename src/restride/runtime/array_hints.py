"""Names that arrays have and memories have not: who reads one is told the way to an array.

`__getattr__` would tell the same, but with it Python finds every attribute of a memory the slow way: an
execution took twice as long.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..desc.memory_desc import MemoryDesc


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
    hints["to_torch"] = "torch.from_dlpack(m) gives a tensor of a plain format, as of m.to('nchw')"
    hints["from_torch"] = "from_dlpack(x) wraps a tensor, and rs.reorder takes it"
    for name, way in hints.items():
        if not name.startswith("_") and not hasattr(memory, name):
            setattr(memory, name, ArrayHint(name, way))


def without_hints(memory: type, names: Iterable[str]) -> list[str]:
    """The names that are no hints."""
    return [name for name in names if not isinstance(vars(memory).get(name), ArrayHint)]
