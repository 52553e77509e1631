"""Names that arrays have and memories have not: who reads one is told the way to an array.

`__getattr__` would tell the same, but with it Python finds every attribute of a memory the slow way: an
execution took twice as long.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


class ArrayHint:
    """Stands for such a name in a class; reading it raises AttributeError, so that `hasattr` is False."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> object:
        name = self._name
        way = " of NumPy" if name == "numpy" else f", which has it: m.to_numpy().{name}"
        raise AttributeError(f"Memory has no attribute {name!r}; to_numpy() gives an array{way}", name=name)


def add_hints(memory: type) -> None:
    """Put a hint in the class for every public name of arrays that it has not."""
    for name in ("numpy", *dir(np.ndarray)):
        if not name.startswith("_") and not hasattr(memory, name):
            setattr(memory, name, ArrayHint(name))


def without_hints(memory: type, names: Iterable[str]) -> list[str]:
    """The names that are no hints."""
    return [name for name in names if not isinstance(vars(memory).get(name), ArrayHint)]
