"""Types for annotations: what the functions of restride take, as type checkers and editors see it.

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
"""What names a format: a tag, strides in elements, a descriptor, or None to keep the one that is there."""


class OtherArray(Protocol):
    """An array of any library that exports DLPack."""

    @property
    def __dlpack__(self) -> Callable[..., Any]:
        """The export."""


class TorchTensor(OtherArray, Protocol):
    """A tensor of torch, known without torch."""

    @property
    def is_contiguous(self) -> Callable[..., bool]:
        """True where it is row-major, or lies in a memory format."""


class WithArray(Protocol):
    """An object that `np.asarray` makes an array of by itself."""

    @property
    def __array__(self) -> Callable[..., Any]:
        """The array."""


ArrayLike = list[Any] | tuple[Any, ...] | complex | np.generic | WithArray
"""What `np.asarray` takes: lists, numbers, and what has `__array__`. Text is none of it."""

Owned = TypeVar("Owned", bound=OtherArray)
"""An array of any library: of the kind that goes in is what comes out."""

Tensor = TypeVar("Tensor", bound=TorchTensor)
"""A tensor of torch, of any class."""

Scalar = TypeVar("Scalar", bound=np.generic)
"""The type of the elements of an array."""

PlainFormat = PlainTag | Sequence[int] | None
"""A format that is plain for certain: a well-known tag, strides, or that of the array itself."""

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
    """The arithmetic of `rs.reorder`."""

    scale: Factor
    zero_point: Factor
    axis: int | None
    beta: float
    post_ops: PostOpsLike


Host = Engine | str | None
"""An engine or its name; None for the CPU."""


def __dir__() -> list[str]:
    """The public names, and nothing else."""
    return sorted(__all__)
