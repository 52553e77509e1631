"""The kinds of elements that files have: those of safetensors, whose words are used for all files.

What restride has no data type for is moved, and never converted: as the bits that it is.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ..dtypes import DataType


class ElementKind(NamedTuple):
    """A kind of element: its word, its width in bits, the data type, and NumPy's type where there is one.

    Of kinds that come in blocks of several elements, the width is that of a `block`.
    """

    word: str
    bits: int
    data_type: DataType | None
    numpy: np.dtype[Any] | None
    block: int = 1

    def nbytes(self, shape: tuple[int, ...]) -> int:
        """The bytes of a dense array of this shape."""
        return (prod(shape) // self.block * self.bits + 7) // 8

    @property
    def carrier(self) -> DataType | None:
        """The data type that the bits are moved as; None where no type is as wide."""
        return self.data_type or (_CARRIERS.get(self.bits) if self.block == 1 else None)


_CARRIERS = {8: DataType.u8, 16: DataType.f16, 32: DataType.f32, 64: DataType.f64}
_ROWS: tuple[tuple[str, int, str, Any], ...] = (
    ("BOOL", 8, "boolean", np.bool_),
    ("F4", 4, "f4_e2m1", None),
    ("F6_E2M3", 6, "", None),
    ("F6_E3M2", 6, "", None),
    ("U8", 8, "u8", np.uint8),
    ("I8", 8, "s8", np.int8),
    ("F8_E5M2", 8, "f8_e5m2", ml_dtypes.float8_e5m2),
    ("F8_E4M3", 8, "f8_e4m3", ml_dtypes.float8_e4m3fn),
    ("F8_E8M0", 8, "e8m0", ml_dtypes.float8_e8m0fnu),
    ("F8_E4M3FNUZ", 8, "", ml_dtypes.float8_e4m3fnuz),
    ("F8_E5M2FNUZ", 8, "", ml_dtypes.float8_e5m2fnuz),
    ("I16", 16, "", np.int16),
    ("U16", 16, "", np.uint16),
    ("F16", 16, "f16", np.float16),
    ("BF16", 16, "bf16", ml_dtypes.bfloat16),
    ("I32", 32, "s32", np.int32),
    ("U32", 32, "", np.uint32),
    ("F32", 32, "f32", np.float32),
    ("C64", 64, "", np.complex64),
    ("F64", 64, "f64", np.float64),
    ("I64", 64, "", np.int64),
    ("U64", 64, "", np.uint64),
)


def _kind(word: str, bits: int, name: str, scalar: Any) -> ElementKind:
    return ElementKind(
        word, bits, DataType[name] if name else None, None if scalar is None else np.dtype(scalar)
    )


KINDS = {row[0]: _kind(*row) for row in _ROWS}
"""All kinds by their words."""

BYTES = KINDS["U8"]
"""What stands for bytes whose meaning a descriptor tells."""

_BY_TYPE = {kind.data_type: kind for kind in KINDS.values() if kind.data_type is not None}
_BY_NUMPY = {kind.numpy: kind for kind in KINDS.values() if kind.numpy is not None}


def kind_of_type(data_type: DataType) -> ElementKind | None:
    """The kind of a data type's elements; None for s4, u4 and f4_e3m0, which files have no word for."""
    return _BY_TYPE.get(data_type)


def kind_of_dtype(dtype: np.dtype[Any]) -> ElementKind | None:
    """The kind of the elements of a NumPy array; None for those that files have no word for."""
    return _BY_NUMPY.get(dtype)


# Types of ggml: the number, the word, elements and bytes of a block.
_GGML = (
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24),
    (8, "Q8_0", 32, 34),
    (9, "Q8_1", 32, 40),
    (10, "Q2_K", 256, 84),
    (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144),
    (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210),
    (15, "Q8_K", 256, 292),
    (16, "IQ2_XXS", 256, 66),
    (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98),
    (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18),
    (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82),
    (23, "IQ4_XS", 256, 136),
    (29, "IQ1_M", 256, 56),
    (34, "TQ1_0", 256, 54),
    (35, "TQ2_0", 256, 66),
    (39, "MXFP4", 32, 17),
    (40, "NVFP4", 64, 36),
    (41, "Q1_0", 128, 18),
)
GGML_KINDS = {
    number: ElementKind(word, 8 * nbytes, None, None, block) for number, word, block, nbytes in _GGML
}
"""Quantised kinds by ggml's number: values and scales in blocks, which are copied as they are."""
