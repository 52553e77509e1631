"""What calls of a network bring: names, dims and types of its inputs, checked, and what they become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arrays.calls.tensors import back_to, is_foreign, numpy_of
from ...dtypes import DataType
from ...errors import Error, refuse
from ...runtime.alloc import Array
from ..dims import Dims, by
from ..fields import check_fields

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
        raise refuse(
            "RS-G03:another-type",
            name=name,
            dtype=found.dtype,
            data_type=wanted.data_type,
            numpy=str(wanted.data_type.numpy),
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
    raise refuse("RS-G03:input-another-shape", name=wanted.name, dims=by(dims), shape=_shown(shape))


def fixed_dims(wanted: NetworkInput) -> Dims:
    """The dims of an input. Raises InvalidArguments where a run brings some of them."""
    dims = wanted.dims
    if dims is not None and all(n is not None for n in dims):
        return tuple(n for n in dims if n is not None)
    raise refuse("RS-G03:input-extents-run", wanted=wanted)


def _shown(dims: Sequence[int | None]) -> str:
    return "x".join("*" if n is None else str(n) for n in dims) or "scalar"


def wrong_inputs(names: Sequence[str], brought: Sequence[object]) -> Error:
    """The error of a call that brings other inputs than these names."""
    return refuse(
        "RS-G03:other-inputs",
        x=", ".join(map(str, brought)) or "none",
        names=", ".join(map(repr, names)) or "none",
    )
