"""The block formats of GGUF files: rows of blocks with scales and elements, in one buffer.

Elements and scales of at least 4 bits at separate places are located by descriptors. Others are located bit
by bit by a table (`desc/ggml_blocks.py`), and a kernel generated from that reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ..desc.ggml_blocks import GGML_BLOCKS
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_dims
from ..dtypes import DataType
from ..errors import refuse
from .tensor_format import TensorFormat

__all__ = [
    "iq4_nl",
    "mxfp4",
    "q2_k",
    "q3_k",
    "q4_0",
    "q4_1",
    "q4_k",
    "q5_0",
    "q5_1",
    "q5_k",
    "q6_k",
    "q8_0",
    "q8_k",
]

_GROUP = 32
# Element i and element i + 16 share a byte.
_HALVES = ((-1, 16, 1), (-1, 2, 16))
_IN_ORDER = ((-1, 32, 1),)


def q4_0(shape: Sequence[int]) -> TensorFormat:
    """18 bytes for 32 elements: an f16 scale, then 4-bit values with zero point 8, i and i + 16 in a byte."""
    return _format("q4_0", shape, 18, DataType.u4, (2, _HALVES), (DataType.f16, 0), zero_point=8)


def q4_1(shape: Sequence[int]) -> TensorFormat:
    """20 bytes for 32 elements: an f16 scale, an f16 minimum, then 4-bit values, i and i + 16 in a byte."""
    return _format("q4_1", shape, 20, DataType.u4, (4, _HALVES), (DataType.f16, 0), minimum=2)


def q8_0(shape: Sequence[int]) -> TensorFormat:
    """34 bytes for 32 elements: an f16 scale, then s8 values."""
    return _format("q8_0", shape, 34, DataType.s8, (2, _IN_ORDER), (DataType.f16, 0))


def mxfp4(shape: Sequence[int]) -> TensorFormat:
    """17 bytes for 32 elements: an e8m0 scale, then f4_e2m1 values, i and i + 16 in a byte."""
    return _format("mxfp4", shape, 17, DataType.f4_e2m1, (1, _HALVES), (DataType.e8m0, 0))


def q5_0(shape: Sequence[int]) -> TensorFormat:
    """22 bytes for 32 elements: an f16 scale, the fifth bits, then 4 bits of each, minus 16."""
    return _packed("q5_0", shape)


def q5_1(shape: Sequence[int]) -> TensorFormat:
    """24 bytes for 32 elements: an f16 scale, an f16 minimum, the fifth bits, then 4 bits of each."""
    return _packed("q5_1", shape)


def iq4_nl(shape: Sequence[int]) -> TensorFormat:
    """18 bytes for 32 elements: an f16 scale, then 4-bit codes of a table of 16 integers."""
    return _packed("iq4_nl", shape)


def q2_k(shape: Sequence[int]) -> TensorFormat:
    """84 bytes for 256 elements: 4 bits of scale and of minimum for 16, 2-bit values, two f16 factors."""
    return _packed("q2_k", shape)


def q3_k(shape: Sequence[int]) -> TensorFormat:
    """110 bytes for 256 elements: third bits, 2 bits of each, minus 4, 6-bit scales for 16, an f16 factor."""
    return _packed("q3_k", shape)


def q4_k(shape: Sequence[int]) -> TensorFormat:
    """144 bytes for 256 elements: two f16 factors, 6 bits of scale and of minimum for 32, 4-bit values."""
    return _packed("q4_k", shape)


def q5_k(shape: Sequence[int]) -> TensorFormat:
    """176 bytes for 256 elements: as Q4_K, with fifth bits before the 4 bits of each."""
    return _packed("q5_k", shape)


def q6_k(shape: Sequence[int]) -> TensorFormat:
    """210 bytes for 256 elements: 4 and 2 bits of each, minus 32, s8 scales for 16, an f16 factor."""
    return _packed("q6_k", shape)


def q8_k(shape: Sequence[int]) -> TensorFormat:
    """292 bytes for 256 elements: an f32 scale, s8 values, then 16 sums of 16 values in s16."""
    return _packed("q8_k", shape)


BLOCK_FORMATS: dict[str, Callable[[Sequence[int]], TensorFormat]] = {
    name.upper(): globals()[name] for name in __all__
}
"""The formats by ggml's names of types."""


def _packed(name: str, shape: Sequence[int]) -> TensorFormat:
    """Return a format whose elements are bit fields."""
    blocks = GGML_BLOCKS[name]
    dims = whole_blocks(name, shape, blocks.elements)
    groups = MemoryDesc((*dims[:-1], dims[-1] // blocks.group), DataType.f32)
    return TensorFormat(
        f"gguf.{name}",
        MemoryDesc(dims, blocks.value_type),
        groups,
        minimum=None if blocks.minimum_at is None else groups,
        nbytes=prod(dims) // blocks.elements * blocks.nbytes,
        has_one_buffer=True,
        about=(globals()[name].__doc__ or "").rstrip("."),
        blocks=blocks,
    )


def whole_blocks(name: str, shape: Sequence[int], block: int) -> tuple[int, ...]:
    """Return the dims of rows of whole blocks."""
    dims = parse_dims(shape)
    if dims and dims[-1] % block == 0:
        return dims
    raise refuse("RS-A15:last-dim", name=name, dims=dims[-1] if dims else "missing", dims2=dims, group=block)


def _format(
    name: str,
    shape: Sequence[int],
    block: int,
    data_type: DataType,
    values: tuple[int, Sequence[tuple[int, int, int]]],
    scale: tuple[DataType, int],
    zero_point: int = 0,
    minimum: int | None = None,
) -> TensorFormat:
    """Return a format of blocks of this size; `values`, `scale` and `minimum` are their first bytes."""
    dims = whole_blocks(name, shape, _GROUP)
    counts = (*dims[:-1], dims[-1] // _GROUP)
    # For consecutive blocks, in units of blocks.
    strides = [prod(max(n, 1) for n in counts[axis + 1 :]) for axis in range(len(counts))]

    def part(
        extents: tuple[int, ...], kind: DataType, at: int, inner: Sequence[tuple[int, int, int]] = ()
    ) -> MemoryDesc:
        steps = [stride * block * 8 // kind.bits for stride in strides]
        return MemoryDesc.from_strides(extents, kind, steps, at * 8 // kind.bits, inner)

    start, blocks = values
    inner = [(len(dims) - 1, size, step) for _, size, step in blocks]
    kind, first = scale
    return TensorFormat(
        f"gguf.{name}",
        part(dims, data_type, start, inner),
        part(counts, kind, first),
        zero_point,
        None if minimum is None else part(counts, kind, minimum),
        nbytes=block * prod(counts),
        has_one_buffer=True,
        about=(globals()[name].__doc__ or "").rstrip("."),
    )
