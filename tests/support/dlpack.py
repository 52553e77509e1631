"""DLPack capsules made by hand, to see what a reader does with wrong ones (the protocol's C structures)."""

from __future__ import annotations

import ctypes
from typing import Any

_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _python(name: str, result: Any, *arguments: Any) -> Any:
    """A function of Python's C API with types of its own: those of ctypes.pythonapi are everyone's."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new = _python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_name = _python("PyCapsule_GetName", ctypes.c_char_p, ctypes.py_object)

VERSIONED, UNVERSIONED = b"dltensor_versioned", b"dltensor"
READ_ONLY, COPIED = 1, 2


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER)]


class ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", _DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


def name_of(capsule: object) -> bytes:
    return bytes(_name(capsule))


def flags_of(capsule: object) -> int:
    return int(ManagedVersioned.from_address(_pointer(capsule, VERSIONED)).flags)


def type_of(capsule: object) -> tuple[int, int, int]:
    """DLPack's code, bits and lanes of a tensor's elements."""
    name = name_of(capsule)
    kind: Any = Managed if name == UNVERSIONED else ManagedVersioned
    tensor = kind.from_address(_pointer(capsule, name)).tensor
    return tensor.code, tensor.bits, tensor.lanes


def version_of(capsule: object) -> tuple[int, ...]:
    return tuple(ManagedVersioned.from_address(_pointer(capsule, VERSIONED)).version)


# A capsule may be given back at any time, also when Python collects garbage: its deleter must be there still.
_alive: list[Producer] = []


class Producer:
    """Four f32 in a row, exported as asked for; `deleted` counts how often a reader gave them back."""

    def __init__(
        self,
        *,
        lanes: int = 1,
        version: tuple[int, int] | None = None,
        flags: int = 0,
        kind: tuple[int, int] = (2, 32),
    ) -> None:
        self.deleted = 0
        self.data = (ctypes.c_float * 4)(0, 1, 2, 3)
        self.shape = (ctypes.c_int64 * 1)(4)
        self.deleter = _DELETER(self._delete)
        device = (ctypes.c_int32 * 2)(1, 0)
        tensor = Tensor(ctypes.addressof(self.data), device, 1, *kind, lanes, self.shape, None, 0)
        if version is None:
            self.managed: Any = Managed(tensor, None, self.deleter)
        else:
            stamp = (ctypes.c_uint32 * 2)(*version)
            self.managed = ManagedVersioned(stamp, None, self.deleter, flags, tensor)
        self.name = UNVERSIONED if version is None else VERSIONED
        _alive.append(self)
        self.capsule = _new(ctypes.addressof(self.managed), self.name, None)

    def _delete(self, _: int) -> None:
        self.deleted += 1

    def __dlpack__(self, **options: Any) -> object:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0
