"""Formats and data types for type checkers and editors: the literal names."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np

from ..dtypes import DataType

PlainTag = Literal[
    "x", "nc", "cn", "tn", "nt", "oi", "io", "ncw", "nwc", "oiw", "owi", "wio", "iwo", "tnc", "ntc",
    "nchw", "nhwc", "chwn", "oihw", "hwio", "ohwi", "ihwo", "iohw", "goiw", "wigo", "ldnc", "ldio",
    "ldoi", "ldgo", "ncdhw", "ndhwc", "oidhw", "dhwio", "odhwi", "idhwo", "goihw", "hwigo", "giohw",
    "ldigo", "ldgoi", "goidhw", "giodhw", "dhwigo", "hwc", "chw", "nthwc", "ncthw", "ntchw", "nlc",
    "bchw", "bhwc", "a", "ab", "ba", "abc", "acb", "bac", "bca", "cba", "abcd", "abdc", "acdb",
    "bacd", "bcda", "cdba", "dcab", "abcde", "abdec", "acbde", "acdeb", "bcdea", "cdeba", "decab",
    "abcdef", "acbdef", "defcab", "abx", "axb", "xba", "channels_last", "channels_first",
]  # fmt: skip
"""Common plain formats; every other tag of the grammar is a `str`."""

BlockedTag = Literal[
    "nCw4c", "nCw8c", "nCw16c", "nCw32c", "nChw4c", "nChw8c", "nChw16c", "nChw32c", "nCdhw4c",
    "nCdhw8c", "nCdhw16c", "nCdhw32c", "OIhw8i8o", "OIhw16i16o", "OIhw16o16i", "OIhw4i16o4i",
    "Ohwi8o", "Ohwi16o", "Oihw16o", "Goihw16g", "aBc16b", "aBcd4b", "aBcd8b", "aBcd16b", "aBcde16b",
    "ABcd16b16a", "ABcd16a16b", "aBx8b", "aBx16b",
]  # fmt: skip
"""Common blocked formats; every other tag of the grammar is a `str`."""

NibbleName = Literal[
    "s4", "u4", "int4", "uint4", "f4_e2m1", "f4_e3m0", "nf4", "float4_e2m1fn",
]  # fmt: skip
"""The names of 4-bit types."""

TypeName = Literal[
    "f16", "bf16", "f32", "f64", "f8_e5m2", "f8_e4m3", "e8m0", "boolean",
    "s64", "s32", "s16", "s8", "u64", "u32", "u16", "u8",
    "float64", "float32", "float16", "bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e8m0fnu",
    "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool",
    "double", "single", "half", "fp64", "fp32", "fp16",
]  # fmt: skip
"""The names of all other types."""

BlockName = Literal[
    "iq4_nl", "q4_0", "q4_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_0", "q5_1", "q5_k", "q6_k", "q8_k"
]
WayName = Literal["mxfp4", "mxfp8", "nvfp4", BlockName]
"""Named group quantization schemes."""


class TorchType(Protocol):
    """A torch type, such as `torch.bfloat16`, described without importing torch."""

    @property
    def is_floating_point(self) -> bool:
        """Return True for types of real numbers."""

    @property
    def is_signed(self) -> bool:
        """Return True for signed types."""


TypeLike = TypeName | NibbleName | DataType | np.dtype[Any] | type[Any] | TorchType
"""A data type: a name, a `DataType`, or a type of NumPy, ml_dtypes, torch or JAX."""
