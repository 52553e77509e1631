"""Types for annotations: the arguments of restride's functions, as type checkers and editors see them.

>>> from restride.typing import FormatLike, TypeLike
>>> def pack(weights, format: FormatLike = "OIhw16i16o", dtype: TypeLike = "bf16"): ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypedDict, TypeVar

import numpy as np

from .desc.literals import BlockedTag, NibbleName, PlainTag, TorchType, TypeLike, TypeName, WayName
from .desc.memory_desc import MemoryDesc
from .desc.post_ops import PostOps
from .desc.tags import FormatTag, GenericTag, Tag
from .dtypes import DataType
from .profiling import Profile
from .runtime.engine import Engine
from .watching import Activity

__all__ = [
    "Activity",
    "ArrayLike",
    "BlockedTag",
    "FormatLike",
    "NibbleName",
    "OtherArray",
    "PlainTag",
    "Profile",
    "ReorderOptions",
    "TypeLike",
    "TypeName",
    "WayName",
]

FormatLike = (
    PlainTag
    | BlockedTag
    | str
    | FormatTag
    | Tag
    | GenericTag
    | Sequence[int]
    | Sequence[tuple[int, int, int]]
    | MemoryDesc
    | None
)
"""A format: a tag, strides in elements, a descriptor, or None to keep the present one."""


class OtherArray(Protocol):
    """An array of any library that exports DLPack."""

    @property
    def __dlpack__(self) -> Callable[..., Any]:
        """Export the array."""


class TorchTensor(OtherArray, Protocol):
    """A torch tensor, described without importing torch."""

    @property
    def is_contiguous(self) -> Callable[..., bool]:
        """Present in every torch tensor."""


class WithArray(Protocol):
    """An object that `np.asarray` converts through its `__array__`."""

    @property
    def __array__(self) -> Callable[..., Any]:
        """Convert to a NumPy array."""


ArrayLike = list[Any] | tuple[Any, ...] | complex | np.generic | WithArray
"""Anything that `np.asarray` accepts: lists, numbers, and objects with `__array__`, but not text."""

Owned = TypeVar("Owned", bound=OtherArray)
"""An array of any library; the result is of the same kind."""

Tensor = TypeVar("Tensor", bound=TorchTensor)
"""A torch tensor of any class."""

Scalar = TypeVar("Scalar", bound=np.generic)
"""The element type of an array."""

PlainFormat = PlainTag | Sequence[int] | None
"""A format known to be plain: a well-known tag, strides, or that of the array itself."""

WholeType = TypeName | DataType | np.dtype[Any] | type[Any] | TorchType | None
"""A type of whole bytes; None for that of the array."""

PostOpsLike = PostOps | str | tuple[Any, ...] | list[Any] | None
"""A chain of post-ops: a `PostOps`, or entries such as `["relu", ("clip", 0, 6)]`."""

Factor = float | Sequence[float] | OtherArray | ArrayLike | None
"""One number, or one for each index of an axis."""

Vector = OtherArray | ArrayLike | None
"""Numbers, one for each index of an axis, or none."""

Extents = int | Sequence[int]
"""One number for all spatial dims, or one for each."""


class ReorderOptions(TypedDict, total=False):
    """The arithmetic options of `rs.reorder`."""

    scale: Factor
    zero_point: Factor
    axis: int | None
    beta: float
    post_ops: PostOpsLike


Host = Engine | str | None
"""An engine or its name; None for the CPU."""


def __dir__() -> list[str]:
    return sorted(__all__)
