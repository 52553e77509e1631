"""Exports of a memory: NumPy's interfaces and DLPack, without a copy unless one is requested.

Only plain layouts are exported, which strides describe. Blocked layouts are refused with two alternatives,
the physical array and a reorder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_bool, short_repr
from ..desc.tag_names import LETTERS
from ..dtypes import DataType
from ..errors import Error, InvalidArguments, Unimplemented, refuse
from . import views
from .alloc import Array, Buffer, NumpyType
from .capsules import exported
from .device import Device

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

_CPU = (1, 0)
_WIDER = {DataType.u4: "u8", DataType.s4: "s8"}
_USUAL = {3: "ncw", 4: "nchw", 5: "ncdhw"}


class NotExported(InvalidArguments, BufferError):
    """A layout that strides cannot describe; a BufferError too, as DLPack's consumers expect."""


class NotCarried(Unimplemented, BufferError):
    """Elements that no consumer reads; a BufferError too, as DLPack's consumers expect."""


def refused(md: MemoryDesc, what: str) -> Error:
    """Return the error for a blocked layout; `what` is the method that was called."""
    plain = _USUAL.get(md.ndims, LETTERS[: md.ndims])
    return refuse("RS-A16:blocked", error=NotExported, what=what, md=md, plain=plain)


def array(md: MemoryDesc, buffer: Buffer, dtype: DTypeLike | None, copy: bool | None) -> Array:
    """Implement `__array__` of a plain layout. Raises InvalidArguments if `copy=False` is impossible."""
    is_packed = md.data_type.bits < 8
    values = views.logical(md, buffer) if is_packed else views.strided(md, buffer)
    target_type = values.dtype if dtype is None else np.dtype(dtype)
    if copy is False and (is_packed or target_type != values.dtype):
        raise refuse("RS-A16:needs-copy", dtype=values.dtype, wanted=target_type, md=md)
    return values.astype(target_type, copy=bool(copy))


def interface(md: MemoryDesc, buffer: Buffer) -> dict[str, Any]:
    """Implement `__array_interface__` of a plain layout.

    Raises AttributeError, as the protocol requires, for elements that it cannot name.
    """
    twin = _twin(md)
    # Bytes instead of an address: they keep the buffer alive, whatever the memory attaches later.
    return {
        "version": 3,
        "typestr": twin.str,
        "shape": md.dims,
        "strides": tuple(stride * twin.itemsize for stride in md.strides),
        "data": buffer.bytes(),
        "offset": md.offset0 * twin.itemsize if md.nelems else 0,
    }


def usm_interface(md: MemoryDesc, buffer: Buffer, device: Device) -> dict[str, Any] | None:
    """Implement `__sycl_usm_array_interface__`, once no work uses the memory; None for anything but plain
    USM.

    Strides and the offset count elements there. Raises AttributeError as `interface` does.
    """
    if md.inner_blks or device.usm_queue is None:
        return None
    device.synchronize(buffer)
    return {
        "version": 1,
        "typestr": _twin(md).str,
        "shape": md.dims,
        "strides": md.strides,
        "data": (buffer.address, buffer.readonly),
        "offset": md.offset0 if md.nelems else 0,
        "syclobj": device.usm_queue,
    }


def _twin(md: MemoryDesc) -> NumpyType:
    twin = md.data_type.numpy
    if twin is None or twin.isbuiltin != 1:
        raise AttributeError(f"the array interfaces have no name for {md.data_type}: use np.asarray(mem)")
    return twin


def dlpack(md: MemoryDesc, buffer: Buffer, options: dict[str, object]) -> object:
    """Return a capsule as NumPy makes it: versioned if `max_version` requests it, with read-only data
    flagged.

    Raises BufferError for a device other than the CPU, and for read-only data without a version to flag it.
    """
    if md.data_type.bits < 8:
        raise refuse(
            "RS-A16:two-elements-share", error=NotCarried, md=md, wider=_WIDER.get(md.data_type, "s8")
        )
    values = views.strided(md, buffer)
    device = options.get("dl_device")
    if device is not None and not (isinstance(device, tuple | list) and tuple(device) == _CPU):
        raise refuse("RS-A16:another-device", error=NotExported, device=short_repr(device))
    if options.get("stream") is not None:
        raise refuse("RS-A16:stream", error=NotExported, options=short_repr(options["stream"]))
    if options.get("copy") is not None:
        parse_bool("Memory.__dlpack__: copy", options["copy"])
    arguments = {name: value for name, value in options.items() if value is not None}
    return exported(values, arguments | {"dl_device": _CPU} if device is not None else arguments)
