"""Inputs of a network's calls: checks of names, dims and types, and conversion to arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arrays.calls.tensors import back_to, is_foreign, numpy_of, translate_hint
from ...dtypes import DataType
from ...errors import Error, refuse
from ...runtime.alloc import Array
from ...runtime.views import packed_nibbles
from ..dims import Dims, by
from ..fields import check_fields

__all__ = [
    "NetworkInput",
    "as_stored",
    "check_dims",
    "dense_input",
    "fixed_dims",
    "in_order",
    "returned",
    "wrong_inputs",
]


@dataclass(frozen=True, slots=True)
class NetworkInput:
    """An input of a network: its name, its extents (None for open ones), and its type.

    `dims` is None if any rank is allowed.
    """

    name: str
    dims: tuple[int | None, ...] | None
    data_type: DataType

    def __post_init__(self) -> None:
        check_fields(self)

    def __str__(self) -> str:
        dims = "any dims" if self.dims is None else _dims_text(self.dims)
        return f"{self.name}: {self.data_type} {dims}"


def dense_input(tensor: NetworkInput, x: Any) -> Array:
    """Return an input as a row-major NumPy array of the type that the network takes."""
    name = f"Network: input {tensor.name!r}"
    array = numpy_of(x, name)
    if array.dtype != tensor.data_type.numpy:
        error = refuse(
            "RS-G13",
            name=name,
            dtype=array.dtype,
            data_type=tensor.data_type,
            numpy=str(tensor.data_type.numpy),
        )
        raise translate_hint(x, error)
    return np.asarray(array, order="C")


def as_stored(tensor: NetworkInput, x: Array) -> Array:
    """Return a dense input as a run reads it: 4-bit elements are packed two to a byte, low half first."""
    return x if tensor.data_type.bits >= 8 else packed_nibbles(x)


def returned(x: Any, result: Array) -> Any:
    """Return an output as an array of the same library as an input."""
    return back_to(x, result) if is_foreign(x) else result


def in_order(inputs: Sequence[NetworkInput], x: Any) -> list[Any]:
    """Return the inputs of a call, one array or a dict of them, in order and unconverted."""
    names = [tensor.name for tensor in inputs]
    if not isinstance(x, Mapping):
        if len(names) != 1:
            raise wrong_inputs(names, [f"one {type(x).__name__}"])
        return [x]
    if set(x) != set(names):
        raise wrong_inputs(names, list(x))
    return [x[name] for name in names]


def check_dims(tensor: NetworkInput, dims: Dims) -> None:
    """Raise InvalidArguments for dims that an input does not accept."""
    shape = tensor.dims
    if shape is None:
        return
    if len(shape) == len(dims) and all(n in (None, m) for n, m in zip(shape, dims, strict=True)):
        return
    name, found, wanted = tensor.name, by(dims), _dims_text(shape)
    if len(shape) == len(dims):
        raise refuse("RS-G03:input-another-shape", name=name, dims=found, shape=wanted)
    is_item = len(dims) + 1 == len(shape)
    raise refuse(
        "RS-G03:input-another-rank",
        name=name,
        dims=found,
        shape=wanted,
        found=len(dims),
        rank=len(shape),
        hint="pass an array of a batch, x[None] for a single item" if is_item else "reshape the array",
    )


def fixed_dims(tensor: NetworkInput) -> Dims:
    """Return the dims of an input. Raises InvalidArguments if some are open."""
    dims = tensor.dims
    if dims is not None and all(n is not None for n in dims):
        return tuple(n for n in dims if n is not None)
    raise refuse("RS-G14", wanted=tensor)


def _dims_text(dims: Sequence[int | None]) -> str:
    return "x".join("*" if n is None else str(n) for n in dims) or "scalar"


def wrong_inputs(names: Sequence[str], inputs: Sequence[object]) -> Error:
    """Return the error of a call with inputs other than these names."""
    return refuse(
        "RS-G12:network",
        x=", ".join(map(str, inputs)) or "none",
        names=", ".join(map(repr, names)) or "none",
    )
