"""Types used to move bits: if nothing is converted, arrays of any numbers are accepted (N6, N11).

Numbers of 1, 2, 4 and 8 bytes are moved as a type of their width, in either byte order. Numbers of 16 bytes
are moved as two of 8, which form an additional axis, the last and innermost one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...desc.tags import MAX_NDIMS, FormatTag, GenericTag, Tag, to_tag
from ...dtypes import DataType
from ...errors import InvalidArguments
from ...foreign import is_masked, plain_text
from ...runtime.alloc import Array

NumpyType = np.dtype[Any]

_WIDE = 16
_CARRIERS = {1: DataType.u8, 2: DataType.f16, 4: DataType.f32, 8: DataType.f64, _WIDE: DataType.f64}
# NumPy's own number types, complex ones included; those of ml_dtypes are void to NumPy.
_KINDS = "biufc"


def carried(dtype: NumpyType) -> NumpyType:
    """Return the type that an array's bits are moved as; `dtype` itself if there is none."""
    is_number = dtype.kind in _KINDS or (dtype.kind == "V" and dtype.type is not np.void)
    carrier = _CARRIERS.get(dtype.itemsize) if is_number else None
    return dtype if carrier is None or carrier.numpy is None else carrier.numpy


def halves(dtype: NumpyType) -> tuple[int, ...]:
    """Return the extents of the additional axes of elements of this type when their bits are moved."""
    return (2,) if dtype.itemsize == _WIDE and carried(dtype) != dtype else ()


def bits_of(x: Array) -> Array:
    """Return the array viewed as the type that its bits are moved as."""
    carrier = carried(x.dtype)
    if carrier == x.dtype:
        return x
    whole = np.asarray(x)
    return whole[..., np.newaxis].view(carrier) if halves(x.dtype) else whole.view(carrier)


def of_bits(x: Array, dtype: NumpyType) -> Array:
    """Return the array of `dtype`, the inverse of `bits_of`."""
    return x.view(dtype)[..., 0] if halves(dtype) else x.view(dtype)


def format_of_bits(format: Any, dtype: NumpyType, ndims: int) -> Any:
    """Return the format of the bits of elements with the layout `format`, a tag or strides."""
    if format is None or not halves(dtype):
        return format
    if isinstance(format, tuple):
        return (*(2 * stride for stride in format), 1)
    tag = to_tag(format, ndims)
    if not isinstance(tag, Tag):
        return format
    blocks = ((*tag.inner_blks, 2), (*tag.inner_idxs, ndims), (*tag.inner_steps, 1)) if tag.inner_blks else ()
    return Tag((*tag.order, ndims), *blocks)


def shape_of_array(bits: MemoryDesc, dtype: NumpyType) -> tuple[int, ...]:
    """Return the shape of an array of `dtype` whose bits have the layout `bits`; physical if blocked."""
    ndims = bits.ndims - len(halves(dtype))
    if not bits.inner_blks:
        return bits.dims[:ndims]
    shape = bits.physical_shape
    # The two halves of a number are the innermost block of an additional axis.
    return shape if ndims == bits.ndims else (*shape[:ndims], *shape[bits.ndims : -1])


def own_format(x: Array) -> Tag | None:
    """Return the order of the axes of an array for its bits; None if its strides determine it.

    Two halves have a stride of 1, so the strides of broadcast axes are below theirs.
    """
    if not halves(x.dtype):
        return None
    order = sorted(range(x.ndim), key=lambda d: (-abs(x.strides[d]), d))
    return Tag((*order, x.ndim))


def as_type(make: Callable[[], tuple[int, Array]], dtype: NumpyType) -> Callable[[], tuple[int, Array]]:
    """Return `make` with results of `dtype` instead of the type that its bits are moved as."""
    if carried(dtype) == dtype:
        return make

    def viewed() -> tuple[int, Array]:
        address, result = make()
        return address, of_bits(result, dtype)

    return viewed


def unnamed_type(arrays: list[Any]) -> NumpyType | None:
    """Return the common type of all these arrays if it is not a data type but its bits can be moved."""
    kinds: set[NumpyType | None] = {
        x.dtype if isinstance(x, np.ndarray) and not is_masked(x) else None for x in arrays
    }
    dtype = kinds.pop() if len(kinds) == 1 else None
    if dtype is None or carried(dtype) == dtype:
        return None
    try:
        DataType.parse(dtype)
    except InvalidArguments:
        return dtype
    return None


class BitMove(NamedTuple):
    """A reorder of elements without a data type: its arguments, with bits in place of the elements."""

    dtype: NumpyType
    x: Array
    dst: Any
    src: Any
    out: Array | None


def move_of_bits(x: Any, dst: Any, src: Any, dtype: Any, out: Any) -> BitMove | None:
    """Return the arguments of a reorder that computes nothing; None if its elements have a data type.

    Also None for a conversion, or for anything but an array: these require data types.
    """
    if not isinstance(x, np.ndarray) or isinstance(dst, MemoryDesc) or isinstance(src, MemoryDesc):
        return None
    bit_type = unnamed_type([x] if out is None else [x, out])
    if bit_type is None or not (dtype is None or is_same_type(dtype, bit_type)):
        return None
    blocks = _blocks_of(src)
    ndims = x.ndim - len(blocks)
    if not 1 <= ndims <= MAX_NDIMS - len(halves(bit_type)):
        return None
    own = own_format(x) if not blocks else format_of_bits(src, bit_type, ndims)
    return BitMove(
        bit_type,
        _physical_bits(x, blocks, ndims),
        own if dst is None and out is None else format_of_bits(dst, bit_type, ndims),
        format_of_bits(src, bit_type, ndims),
        None if out is None else _physical_bits(out, _blocks_of(dst) if out.ndim > ndims else (), ndims),
    )


def is_same_type(dtype: Any, bit_type: NumpyType) -> bool:
    """Return True if `dtype` names the type of the elements that are moved."""
    try:
        return bool(np.dtype(plain_text(dtype)) == bit_type)
    except Exception:  # not a NumPy type
        return False


def _blocks_of(format: Any) -> tuple[int, ...]:
    """Return the inner blocks of a tag; none for strides or without a format."""
    if not isinstance(format, str | FormatTag | Tag | GenericTag):
        return ()
    tag = FormatTag.parse(format) if isinstance(format, str | FormatTag) else format
    return () if isinstance(tag, FormatTag) else tag.inner_blks


def _physical_bits(x: Array, blocks: tuple[int, ...], ndims: int) -> Array:
    """Return the bits of an array; in a physical one, the two halves are a block of an additional axis."""
    bits = bits_of(x)
    return np.expand_dims(bits, ndims) if blocks and halves(x.dtype) else bits


# --- 4-bit elements: one to a byte in NumPy, two in memory objects ------------------------------------------

_BYTES: dict[int, type] = {
    np.dtype(ml_dtypes.int4).num: np.int8,
    np.dtype(ml_dtypes.uint4).num: np.uint8,
    np.dtype(ml_dtypes.float4_e2m1fn).num: ml_dtypes.float8_e4m3fn,
}
NIBBLES = frozenset(_BYTES)
"""NumPy's 4-bit number types."""


def is_nibbles(x: Any) -> bool:
    """Return True for an array of NumPy's 4-bit types."""
    return isinstance(x, np.ndarray) and x.dtype.num in NIBBLES


def as_bytes(x: Array) -> Array:
    """Convert 4-bit elements to 8-bit ones, which can represent them all."""
    return x.astype(_BYTES[x.dtype.num])
