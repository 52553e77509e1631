"""The block formats of GGUF files: rows of blocks, each of them scales and then elements, in one buffer."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_dims
from ..dtypes import DataType
from ..errors import refuse
from .tensor_format import TensorFormat

__all__ = ["mxfp4", "q4_0", "q4_1", "q8_0"]

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
    """A format of blocks of so many bytes; `values`, `scale` and `minimum` say at which byte each begins."""
    dims = parse_dims(shape)
    if not dims or dims[-1] % _GROUP:
        raise refuse(
            "RS-A15:last-dim", name=name, dims=dims[-1] if dims else "missing", dims2=dims, group=_GROUP
        )
    counts = (*dims[:-1], dims[-1] // _GROUP)
    # Of blocks that lie one behind the other, in blocks.
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
