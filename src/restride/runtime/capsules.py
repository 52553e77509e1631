"""DLPack capsules of types that NumPy cannot name: bf16 and the 8-bit floats (DLPack 1.1).

NumPy makes and reads the capsules, as integers of the same width, and manages their lifetimes. Only the type
in the tensor structure is exchanged, while the capsule has no other user.
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from ..desc.tags import MAX_NDIMS
from ..errors import Error, refuse
from ..foreign import attribute_of, has_attribute, text_of
from .alloc import Array, NumpyType

# DLPack's code and bits of a type.
_CODES: dict[NumpyType, tuple[int, int]] = {
    np.dtype(ml_dtypes.bfloat16): (4, 16),
    np.dtype(ml_dtypes.float8_e3m4): (7, 8),
    np.dtype(ml_dtypes.float8_e4m3): (8, 8),
    np.dtype(ml_dtypes.float8_e4m3b11fnuz): (9, 8),
    np.dtype(ml_dtypes.float8_e4m3fn): (10, 8),
    np.dtype(ml_dtypes.float8_e4m3fnuz): (11, 8),
    np.dtype(ml_dtypes.float8_e5m2): (12, 8),
    np.dtype(ml_dtypes.float8_e5m2fnuz): (13, 8),
    np.dtype(ml_dtypes.float8_e8m0fnu): (14, 8),
}
_TYPES = {code: dtype for dtype, code in _CODES.items()}
_UNSIGNED = 1
# Offset of the tensor: in the versioned structure after version, context, deleter and flags.
_VERSIONED = b"dltensor_versioned"
_NAMES = {b"dltensor": 0, _VERSIONED: 32}
_LONGEST = 200
# DLPack's numbers of devices whose memory the host does not read.
_APART = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 9: "vpi", 10: "rocm", 12: "ext_dev", 15: "webgpu"}
# The version that has codes for 8-bit floats; it is at the beginning of the versioned structure.
_MAJOR, _MINOR, _MINOR_AT = 1, 1, 4

# Private function objects: those of ctypes.pythonapi are shared, and other libraries change their types.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _Tensor(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def is_named(dtype: NumpyType) -> bool:
    """True for a type that DLPack can name: NumPy's numbers, and those of ml_dtypes from 8 bits on."""
    return dtype in _CODES or dtype.isbuiltin == 1


def exported(x: Array, options: dict[str, Any]) -> object:
    """Return a capsule of an array, of any type that DLPack can name; options as for `__dlpack__`.

    Raises BufferError as NumPy does: for types without a name, and for read-only data without a version to
    flag it.
    """
    code = _CODES.get(x.dtype)
    if code is None:
        return x.__dlpack__(**options)
    capsule = x.view(f"u{x.itemsize}").__dlpack__(**options)
    name = _name(capsule)
    tensor = _tensor(capsule, name)
    tensor.code, tensor.bits = code
    if name == _VERSIONED:
        minor = ctypes.c_uint32.from_address(_pointer(capsule, name) + _MINOR_AT)
        minor.value = max(minor.value, _MINOR)
    return capsule


class Exported:
    """An array of any type as a producer, for libraries' `from_dlpack`."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __dlpack__(self, **options: object) -> object:
        """Return a capsule over the array's bytes."""
        return exported(self._array, options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's device type and number of the CPU."""
        return 1, 0


def imported(x: Any) -> Array:
    """Return an object that has `__dlpack__` as an array over its bytes, of NumPy's types or those of
    ml_dtypes.

    Raises whatever the producer raises, and NumPy's errors for capsules that it cannot read.
    """
    reader = _Reader(x)
    array = np.from_dlpack(reader)
    reader.restore()
    return array if reader.dtype is None else array.view(reader.dtype)


def not_imported(name: str, x: object, error: Exception) -> Error:
    """Return the error for a producer that fails, or whose capsule cannot be read."""
    if not has_attribute(x, "__dlpack__"):
        why, hint = f"{type(x).__name__} has no __dlpack__", "pass an array of a library that exports DLPack"
    elif device := _device_apart(x):
        why, hint = f"it is on {device}", "copy it to the host: x.get() of CuPy, x.to_device('cpu') of others"
    else:
        why = f"{type(x).__name__}.__dlpack__: {text_of(error)}"[:_LONGEST]
        hint = "copy it to NumPy: np.asarray(x)"
        if attribute_of(x, "is_meta") is True:
            hint = 'pass a tensor with values; for a trial, zeros: torch.zeros_like(x, device="cpu")'
        elif attribute_of(x, "requires_grad") is True:
            hint = "pass x.detach()"
    return refuse("RS-A04:capsule", name=name, why=why, hint_of_torch=hint)


def _device_apart(x: Any) -> str:
    """Return the device of an array, such as "cuda:0"; "" for the host, and if the array does not say."""
    try:
        kind, number = x.__dlpack_device__()
        return f"{_APART[int(kind)]}:{int(number)}"
    except Exception:  # a foreign object can raise anything
        return ""


class _Reader:
    """Passes a producer's capsule to NumPy, with types that NumPy cannot name as unsigned integers."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self._tensor: _Tensor | None = None
        self.dtype: NumpyType | None = None

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._producer.__dlpack__(**options)
        name = _name(capsule)
        if name not in _NAMES or (name == _VERSIONED and _major(capsule) != _MAJOR):
            return capsule  # NumPy reports what is wrong
        tensor = self._tensor = _tensor(capsule, name)
        _check(tensor)
        self.dtype = _TYPES.get((tensor.code, tensor.bits))
        if self.dtype is not None:
            tensor.code = _UNSIGNED
        return capsule

    def __dlpack_device__(self) -> Any:
        return self._producer.__dlpack_device__()

    def restore(self) -> None:
        """Restore the structure of the producer: it lives as long as the array, and may be shared."""
        if self.dtype is not None and self._tensor is not None:
            self._tensor.code = _CODES[self.dtype][0]


def _name(capsule: object) -> bytes:
    return next((name for name in _NAMES if _is_valid(capsule, name)), b"")


def _tensor(capsule: object, name: bytes) -> _Tensor:
    return _Tensor.from_address(_pointer(capsule, name) + _NAMES[name])


def _major(capsule: object) -> int:
    return ctypes.c_uint32.from_address(_pointer(capsule, _VERSIONED)).value


def _check(tensor: _Tensor) -> None:
    """Raise BufferError for an impossible rank, and for a tensor without a shape or without data.

    NumPy would follow the pointers blindly. The rank is checked first: it bounds how much of the shape is
    read.
    """
    if not 0 <= tensor.ndim <= MAX_NDIMS:
        raise BufferError(f"its tensor has {tensor.ndim} axes; the maximum is {MAX_NDIMS}")
    if tensor.ndim and not tensor.shape:
        raise BufferError("its tensor has axes, but no shape")
    has_elements = all(tensor.shape[d] for d in range(tensor.ndim))
    if has_elements and not tensor.data:
        raise BufferError("its tensor has elements, but no data")
