"""What calls of a network bring: names, dims and types of its inputs, checked, and what they become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import DataType
from ..errors import InvalidArguments
from ..frontend.tensors import back_to, is_foreign, numpy_of
from ..runtime.alloc import Array
from .dims import Dims, by
from .fields import check_fields

__all__ = ["NetworkInput", "check_dims", "dense_input", "fixed_dims", "returned", "wrong_inputs"]


@dataclass(frozen=True, slots=True)
class NetworkInput:
    """An input of a network: its name, its extents, None for one that a run brings, and its type.

    `dims` is None where any number of them may come.
    """

    name: str
    dims: tuple[int | None, ...] | None
    data_type: DataType

    def __post_init__(self) -> None:
        check_fields(self)

    def __str__(self) -> str:
        shown = "any dims" if self.dims is None else _shown(self.dims)
        return f"{self.name}: {self.data_type} {shown}"


def dense_input(wanted: NetworkInput, x: Any) -> Array:
    """An input as a row-major array of NumPy, of the type that the network takes."""
    name = f"Network: input {wanted.name!r}"
    found = numpy_of(x, name)
    if found.dtype != wanted.data_type.numpy:
        raise InvalidArguments(
            f"{name} is of another type",
            code="RS-G03",
            why=f"it is {found.dtype}, the network takes {wanted.data_type}",
            hint=f"convert it first: x.astype({str(wanted.data_type.numpy)!r})",
        )
    return np.asarray(found, order="C")


def returned(x: Any, made: Array) -> Any:
    """An output as an array of the kind of an input."""
    return back_to(x, made) if is_foreign(x) else made


def check_dims(wanted: NetworkInput, dims: Dims) -> None:
    """Raise InvalidArguments for dims that an input does not take."""
    shape = wanted.dims
    if shape is None:
        return
    if len(shape) == len(dims) and all(n in (None, m) for n, m in zip(shape, dims, strict=True)):
        return
    raise InvalidArguments(
        f"Network: input {wanted.name!r} is of another shape",
        code="RS-G03",
        where=f"it is {by(dims)}; the network takes {_shown(shape)}",
        why="the network fixes these extents; * is any",
        hint="bring the network's own, or save the model with dynamic dims",
    )


def fixed_dims(wanted: NetworkInput) -> Dims:
    """The dims of an input. Raises InvalidArguments where a run brings some of them."""
    dims = wanted.dims
    if dims is not None and all(n is not None for n in dims):
        return tuple(n for n in dims if n is not None)
    raise InvalidArguments(
        f"Network: input {wanted.name!r} has extents that a run brings",
        code="RS-G03",
        where=str(wanted),
        why="a plan is made for known extents",
        hint="pass the dims of each input: net.plan((1, 3, 224, 224))",
    )


def _shown(dims: Sequence[int | None]) -> str:
    return "x".join("*" if n is None else str(n) for n in dims) or "scalar"


def wrong_inputs(names: Sequence[str], brought: Sequence[object]) -> InvalidArguments:
    """The error of a call that brings other inputs than these names."""
    return InvalidArguments(
        "Network: other inputs than the network has",
        code="RS-G03",
        where=f"brought {', '.join(map(str, brought)) or 'none'}",
        why=f"the inputs are {', '.join(map(repr, names)) or 'none'}",
        hint="pass one array where there is one input, else a dict with an array for each name",
    )
