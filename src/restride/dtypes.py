"""The table of data types: name, bits, kind, limits and NumPy equivalent."""

from __future__ import annotations

import enum
import re
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from .errors import Error, LookupType, ValueLookup, refuse
from .foreign import plain_text
from .nearest import equally_near


class _Row(NamedTuple):
    """One row of the table: oneDNN's number, width, kind and NumPy equivalent."""

    number: int
    bits: int
    kind: str
    numpy: np.dtype[Any] | None


def _twin(scalar: Any) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.dtype(scalar)
    return dtype


_TABLE = {
    "undef": _Row(0, 0, "undef", None),
    "f16": _Row(1, 16, "float", _twin(np.float16)),
    "bf16": _Row(2, 16, "float", _twin(ml_dtypes.bfloat16)),
    "f32": _Row(3, 32, "float", _twin(np.float32)),
    "s32": _Row(4, 32, "int", _twin(np.int32)),
    "s8": _Row(5, 8, "int", _twin(np.int8)),
    "u8": _Row(6, 8, "uint", _twin(np.uint8)),
    "f64": _Row(7, 64, "float", _twin(np.float64)),
    "boolean": _Row(8, 8, "bool", _twin(np.bool_)),
    "f8_e5m2": _Row(9, 8, "float", _twin(ml_dtypes.float8_e5m2)),
    "f8_e4m3": _Row(10, 8, "float", _twin(ml_dtypes.float8_e4m3fn)),
    "s4": _Row(11, 4, "int", _twin(ml_dtypes.int4)),
    "u4": _Row(12, 4, "uint", _twin(ml_dtypes.uint4)),
    # A power of two, or NaN: often used for scales.
    "e8m0": _Row(13, 8, "float", _twin(ml_dtypes.float8_e8m0fnu)),
    "f4_e2m1": _Row(14, 4, "float", _twin(ml_dtypes.float4_e2m1fn)),
    "f4_e3m0": _Row(15, 4, "float", None),
    # Indices, counts and bits of other libraries. Of these oneDNN has only s64, which no primitive accepts.
    "s64": _Row(16, 64, "int", _twin(np.int64)),
    "u64": _Row(17, 64, "uint", _twin(np.uint64)),
    "u32": _Row(18, 32, "uint", _twin(np.uint32)),
    "s16": _Row(19, 16, "int", _twin(np.int16)),
    "u16": _Row(20, 16, "uint", _twin(np.uint16)),
    # 4-bit indices into a table of 16 numbers: weights of QLoRA and bitsandbytes.
    "nf4": _Row(21, 4, "float", None),
}

_WORDS = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e5m2": "f8_e5m2",
    "float8_e4m3fn": "f8_e4m3",
    "float8_e8m0fnu": "e8m0",
    "float4_e2m1fn": "f4_e2m1",
    "int4": "s4",
    "uint4": "u4",
    "int64": "s64",
    "uint64": "u64",
    "int32": "s32",
    "uint32": "u32",
    "int16": "s16",
    "uint16": "u16",
    "int8": "s8",
    "uint8": "u8",
    "bool": "boolean",
    "double": "f64",
    "single": "f32",
    "half": "f16",
    "fp64": "f64",
    "fp32": "f32",
    "fp16": "f16",
}
# Ambiguous words and other libraries' short names, used only for hints. NumPy's f8 and f4 count bytes.
_SHORT = {
    "float": ("f32", "f64"),
    "f8": ("f64", "f8_e4m3", "f8_e5m2"),
    "f4": ("f32", "f4_e2m1", "f4_e3m0", "nf4"),
    **dict.fromkeys(("fp8", "float8"), ("f8_e4m3", "f8_e5m2")),
    **dict.fromkeys(("e4m3", "e4m3fn", "fp8_e4m3", "fp8_e4m3fn", "float8_e4m3"), ("f8_e4m3",)),
    **dict.fromkeys(("e5m2", "fp8_e5m2"), ("f8_e5m2",)),
    **dict.fromkeys(("fp4", "float4"), ("f4_e2m1", "f4_e3m0")),
    **dict.fromkeys(("e2m1", "e2m1fn", "fp4_e2m1", "float4_e2m1"), ("f4_e2m1",)),
}
_INTEGERS = re.compile("[isu][0-9]+")
# Schemes that `rs.quantize` accepts in addition to the data types.
_WAYS = (
    *("mxfp4", "mxfp8", "nvfp4"),
    *("iq4_nl", "q4_0", "q4_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_0", "q5_1", "q5_k", "q6_k", "q8_k"),
)


class DataType(ValueLookup, enum.Enum, metaclass=LookupType):
    """An element's data type (`dnnl::memory::data_type`). Values are oneDNN's numbers."""

    undef = 0
    f16 = 1
    bf16 = 2
    f32 = 3
    s32 = 4
    s8 = 5
    u8 = 6
    f64 = 7
    boolean = 8
    f8_e5m2 = 9
    f8_e4m3 = 10
    s4 = 11
    u4 = 12
    e8m0 = 13
    f4_e2m1 = 14
    f4_e3m0 = 15
    s64 = 16
    u64 = 17
    u32 = 18
    s16 = 19
    u16 = 20
    nf4 = 21

    bits: int
    kind: str
    numpy: np.dtype[Any] | None

    def __init__(self, number: int) -> None:
        row = next(row for row in _TABLE.values() if row.number == number)
        self.bits, self.kind, self.numpy = row.bits, row.kind, row.numpy

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"restride.{self.name}"

    @property
    def is_integral(self) -> bool:
        """True for s64 to s4 and u64 to u4; boolean is not included."""
        return self.kind in ("int", "uint")

    def nbytes(self, elements: int) -> int:
        """Return the size of `elements` elements in bytes; 4-bit types are packed two to a byte."""
        return (elements * self.bits + 7) // 8

    @classmethod
    def parse(cls, value: object) -> DataType:
        """Return the data type for a name, a `DataType`, or a type of NumPy, ml_dtypes, torch or JAX.

        Raises InvalidArguments for anything else and lists what is accepted.
        """
        if isinstance(value, cls):
            return value
        value = plain_text(value)
        if isinstance(value, str):
            word = value.removeprefix("torch.")
            name = _WORDS.get(word, word)
            if name in cls.__members__:
                return cls[name]
            raise _unknown(value)
        try:
            # Arrays, memory objects and descriptors have a dtype but are not data types.
            dtype = np.dtype(value) if isinstance(value, type | np.dtype) else None
        except Exception:  # a foreign object's dtype can raise anything
            raise _unknown(value) from None
        member = None if dtype is None else _BY_NUMPY.get(dtype)
        if member is None:
            raise _unknown(value)
        return member


_BY_NUMPY = {row.numpy: DataType[name] for name, row in _TABLE.items() if row.numpy is not None}


def _unknown(value: object) -> Error:
    foreign, short = _numpy_dtype(value), _in_short(value)
    twin = None if foreign is None else twin_of(foreign)
    if foreign is None or short:
        why, near = "restride has no data type of that name", short or _nearest(value)
    elif twin is None:
        why, near = f"NumPy's {foreign.name} is not supported", ()
    elif foreign.isnative:
        why, near = "restride has no data type of that name", (twin.name,)
    else:
        why, near = "its byte order is not native", (twin.name,)
    names = ", ".join(name for name in DataType.__members__ if name != "undef")
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    if isinstance(value, str) and value.lower() in _WAYS:
        why = "it is a quantization scheme: a 4- or 8-bit type with a scale for each group of elements"
        hint = f"use rs.quantize(x, {value.lower()!r}); for one type alone "
    return refuse("RS-P15:unknown-data-type", value=_shown(value), why=why, meant=hint, names=names)


def _shown(value: object) -> str:
    try:
        return repr(value.__name__ if isinstance(value, type) else str(value)[:60])
    except Exception:
        return f"<{type(value).__name__}>"


def _numpy_dtype(value: object) -> np.dtype[Any] | None:
    """Return NumPy's own reading of a word or a type: `"i8"` is int64."""
    is_scalar = isinstance(value, type) and issubclass(value, np.generic)
    if not is_scalar and not isinstance(value, str | np.dtype):
        return None
    try:
        return np.dtype(value)  # type: ignore[call-overload, no-any-return]
    except Exception:  # not a NumPy type either
        return None


def _in_short(value: object) -> tuple[str, ...]:
    """Return the types that another library's short name can mean."""
    return _SHORT.get(value.removeprefix("torch.").lower(), ()) if isinstance(value, str) else ()


def _nearest(value: object) -> tuple[str, ...]:
    """Return the types with the most similar names; for a short integer name, those of the same width."""
    if not isinstance(value, str):
        return ()
    word = value[:60].lower()
    words = {name: name for name in DataType.__members__ if name != "undef"} | _WORDS
    if _INTEGERS.fullmatch(word):
        first = "s" if word[0] == "i" else word[0]
        return tuple(name for name in words if name == first + word[1:])
    return tuple(dict.fromkeys(words[near] for near in equally_near(word, words)))[:3]


def twin_of(dtype: np.dtype[Any]) -> DataType | None:
    """Return the data type of these elements, in either byte order."""
    native = dtype if dtype.isnative else dtype.newbyteorder("=")
    return _BY_NUMPY.get(native)
