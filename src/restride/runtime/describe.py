"""Descriptors of NumPy arrays, from their strides, without touching the bytes (N8)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..desc.build import Format
from ..desc.layout import block_products
from ..desc.memory_desc import MemoryDesc
from ..desc.tags import MAX_NDIMS, FormatTag, GenericTag, Tag, to_tag
from ..dtypes import DataType
from ..errors import Error, InvalidArguments, refuse
from ..foreign import is_masked
from .alloc import Array, Buffer, NumpyType, address_of, extent

Shape = tuple[int, ...]

_HINTS = {
    "O": "convert the objects to numbers: x.astype(np.float32)",
    "U": "convert the text to numbers: x.astype(np.float32)",
    "S": "convert the text to numbers, x.astype(np.float32), or use its bytes, x.view(np.uint8)",
    "T": "convert the text to numbers: x.astype(np.float32)",
    "M": "convert the dates to numbers: x.astype(np.int64).astype(np.float64)",
    "m": "convert the durations to numbers: x.astype(np.int64).astype(np.float64)",
    "c": "turn the parts into an axis: np.stack([x.real, x.imag], axis=-1)",
}


class Subject(NamedTuple):
    """The name of an array in errors: the call and its argument, and the title for a wrong format.

    `hint` replaces those that suggest a copy, since a copy of an output is of no use.
    """

    refused: str
    misfit: str
    hint: str = ""

    @classmethod
    def source(cls, call: str, argument: str = "x") -> Subject:
        """Return the subject of an argument that a call reads; the format of `x` is `src`."""
        return cls(f"{call}: {argument} cannot be read", f"{call}: src does not fit {argument}")

    @classmethod
    def target(cls, call: str) -> Subject:
        """Return the subject of the argument `out` of a call."""
        what = f"{call}: out cannot be written"
        return cls(what, what, "pass an array such as np.empty(dims, np.float32), or omit out")

    def named(self, error: Error) -> Error:
        """Return an error of this module with this subject; others unchanged."""
        what = {_WRAPPED.refused: self.refused, _WRAPPED.misfit: self.misfit}.get(error.what)
        if what is None:
            return error
        return error.with_context(what, hint=self.hint)


_WRAPPED = Subject(
    "Memory.from_numpy: the array cannot be wrapped", "Memory.from_numpy: the format does not fit the array"
)
SOURCE, TARGET = Subject.source("reorder"), Subject.target("reorder")


class Described(NamedTuple):
    """A descriptor, and the number of bytes by which its buffer starts before the array's first element."""

    desc: MemoryDesc
    below: int

    def buffer_of(self, x: Array) -> Buffer:
        """Return the bytes of `x`, from the lowest to the highest that the descriptor touches."""
        return Buffer(address_of(x) - self.below, extent(self.desc).high, not x.flags.writeable, x)


def describe(x: Any, format: Format | MemoryDesc = None, subject: Subject = _WRAPPED) -> Described:
    """Return the descriptor of `x`: its shape as dims, its strides in elements, offset0 for negative strides.

    `format` only confirms: a plain one must match the strides. With a blocked tag, or a descriptor whose
    `physical_shape` is the shape of `x`, `x` is the physical array (as returned by `Memory.physical()`).
    Raises InvalidArguments for arrays that no descriptor can express, with a way out; `subject` names them.
    """
    try:
        _check_array(x)
        return _of_kind(x.shape, x.strides, x.dtype, format)
    except Error as error:
        raise subject.named(error) from None


def describe_kind(
    shape: Shape,
    strides: Shape,
    dtype: NumpyType,
    format: Format | MemoryDesc = None,
    *,
    subject: Subject = SOURCE,
) -> Described:
    """Return the descriptor of any array of this shape, strides in bytes, and type; see `describe`."""
    try:
        return _of_kind(shape, strides, dtype, format)
    except Error as error:
        raise subject.named(error) from None


def _of_kind(shape: Shape, strides: Shape, dtype: NumpyType, format: Format | MemoryDesc = None) -> Described:
    if not shape:
        raise refuse("RS-A01:array-no-axes", refused=_WRAPPED.refused)
    if len(shape) > MAX_NDIMS:
        raise refuse(
            "RS-A01:array-axes-tensor", refused=_WRAPPED.refused, count=len(shape), max_ndims=MAX_NDIMS
        )
    own = _of_strides(shape, strides, dtype)
    return own if format is None else _confirmed(shape, own, format)


# What to pass in place of objects that NumPy does not convert to numbers.
_INSTEAD: dict[type, str] = {
    str: "pass an array; rs.load(path) reads arrays from a file",
    type(None): "pass an array",
    dict: "pass the arrays in it separately",
    bytes: "specify the type of the bytes: np.frombuffer(x, np.float32)",
}


def _check_array(x: object) -> None:
    if not isinstance(x, np.ndarray):
        hint = _INSTEAD.get(type(x), "pass np.asarray(x), or wrap it, rs.Memory.from_dlpack(x)")
        if hasattr(type(x), "dequantize") and not hasattr(type(x), "__dlpack__"):
            hint = "pass its numbers, x.dequantize(), or its values, x.values"
        raise refuse("RS-A01:no-numpy-array", refused=_WRAPPED.refused, type=type(x).__name__, hint=hint)
    if is_masked(x):
        raise refuse("RS-A01:masked-array", refused=_WRAPPED.refused)


@lru_cache(maxsize=1024)
def _of_strides(shape: Shape, strides: Shape, dtype: NumpyType) -> Described:
    data_type = _data_type(dtype)
    if 0 in shape:
        return Described(MemoryDesc(shape, data_type), 0)
    steps = in_elements(shape, strides, dtype.itemsize)
    offset0 = -sum(min(0, (n - 1) * step) for n, step in zip(shape, steps, strict=True))
    desc = MemoryDesc.from_strides(shape, data_type, steps, offset0)
    return Described(desc, offset0 * dtype.itemsize)


def in_elements(shape: Shape, strides: Shape, itemsize: int) -> list[int]:
    """Return strides in elements. NumPy leaves those of axes of extent 1 undefined: they become row-major."""
    steps: list[int] = []
    outer = 1
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        open_one = n == 1 and (stride <= 0 or stride % itemsize != 0)
        if not open_one and stride % itemsize:
            raise refuse(
                "RS-A01:stride-bytes-not",
                refused=_WRAPPED.refused,
                shape=shape,
                strides=strides,
                stride=stride,
                itemsize=itemsize,
            )
        steps.append(outer if open_one else stride // itemsize)
        outer = max(1, n * abs(steps[-1]))
    return steps[::-1]


def _data_type(dtype: NumpyType) -> DataType:
    try:
        data_type = DataType.parse(dtype)
    except InvalidArguments:
        raise refuse(
            "RS-A02:elements", refused=_WRAPPED.refused, dtype=str(dtype)[:60], hint=_hint(dtype)
        ) from None
    if data_type.bits < 8:
        raise refuse(
            "RS-A02:arrays-numpy-keeps" if data_type.kind == "float" else "RS-A02:arrays-numpy-keeps-element",
            refused=_WRAPPED.refused,
            found=data_type,
        )
    return data_type


def _hint(dtype: NumpyType) -> str:
    if dtype.names:
        return f"take one field: x[{dtype.names[0]!r}]"
    if not dtype.isnative:
        return 'swap the bytes to this machine\'s order: x.astype(x.dtype.newbyteorder("="))'
    return _HINTS.get(dtype.kind, "convert, for example x.astype(np.float32)")


def _confirmed(shape: Shape, own: Described, format: Format | MemoryDesc) -> Described:
    desc = format if isinstance(format, MemoryDesc) else _of_format(shape, own.desc.data_type, format)
    if desc.format_kind != "blocked" or desc.data_type is not own.desc.data_type:
        raise refuse("RS-A03:format-describes-other", misfit=_WRAPPED.misfit, both=_both(own.desc, desc))
    if desc == own.desc:
        return own
    if shape == desc.physical_shape and _of_physical(desc) == own.desc:
        return Described(desc, 0)
    raise refuse("RS-A03:array-not-lie", misfit=_WRAPPED.misfit, both=_both(own.desc, desc))


def _of_physical(desc: MemoryDesc) -> MemoryDesc | None:
    """Return the plain descriptor that a physical array of `desc` has itself, or None."""
    if desc.offset0 or len(desc.physical_shape) > MAX_NDIMS:
        return None
    return MemoryDesc.from_strides(desc.physical_shape, desc.data_type, desc.physical_strides)


def _of_format(shape: Shape, data_type: DataType, format: Format) -> MemoryDesc:
    tag = FormatTag.parse(format) if isinstance(format, str | FormatTag) else format
    if isinstance(tag, Tag | GenericTag) and tag.inner_blks:
        return _of_blocked_tag(shape, data_type, tag)
    return MemoryDesc(shape, data_type, tag)


def _of_blocked_tag(shape: Shape, data_type: DataType, tag: Tag | GenericTag) -> MemoryDesc:
    """Return the descriptor without padding whose physical array has the shape of `x`."""
    ndims = len(shape) - len(tag.inner_blks)
    if ndims < 1 or shape[ndims:] != tag.inner_blks:
        raise refuse(
            "RS-A03:format-blocked-array", misfit=_WRAPPED.misfit, shape=shape, tag=tag, tag2=str(tag)
        )
    whole = to_tag(tag, ndims)
    outer: Sequence[int] = whole.order if isinstance(whole, Tag) else ()
    blocks = block_products(ndims, tag.inner_blks, tag.inner_idxs)
    extents = dict(zip(outer, shape, strict=False))
    return MemoryDesc([extents[d] * blocks[d] for d in range(ndims)], data_type, whole)


def _both(own: MemoryDesc, desc: MemoryDesc) -> str:
    return f"array {own}, format {desc}"
