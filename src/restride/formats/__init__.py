"""Layouts of stored models, by name: `rs.formats.gguf.q4_0(shape)`, `rs.formats.awq(shape)`.

Each returns a `TensorFormat`: descriptors of the elements, of their scales and zero points, over one buffer
or several. They are permutations of digits, so a reorder can convert any one to any other, reading and
writing in place. If elements are spread over bits, as in the K quants, a table locates the bits, and a kernel
generated from it reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..arrays.scaling.grouped import group_extents
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_dims, parse_int, parse_ints, short_repr
from ..dtypes import DataType
from ..errors import refuse
from ..nearest import nearest
from . import gguf
from .ggml_blocks import NF4, quantize_blocks, unpack, unpack_nf4
from .tensor_format import TensorFormat

__all__ = [
    "NF4",
    "TensorFormat",
    "awq",
    "fp8_blocks",
    "gguf",
    "gptq",
    "marlin",
    "mxfp4",
    "mxfp8",
    "named",
    "names",
    "nvfp4",
    "nvfp4_scales_128x4",
    "quantize_blocks",
    "torchao_int4_cpu",
    "unpack",
    "unpack_nf4",
]

Shape = Sequence[int]

_AWQ = "aB2@1b4@2b"
_MARLIN = {4: "AB8@1b4@2a4@16b2@1a2@8b2@8a", 8: "AB8@1b4@2a8@8b2@1a2@8a"}
# In groups of rows, columns 0, 8, 16, ... of 64 are adjacent; in whole columns, pairs of 32.
_MARLIN_SCALES = {True: "aB8@1b8@8b", False: "aB4@2b4@8b2b"}
_SCALES_128X4 = "AB32@1a4@32a4b"


def mxfp4(shape: Shape) -> TensorFormat:
    """OCP's MXFP4: f4_e2m1, two to a byte, with an e8m0 scale for 32 elements of a row."""
    return _of_rows("mxfp4", shape, DataType.f4_e2m1, 32, DataType.e8m0)


def mxfp8(shape: Shape) -> TensorFormat:
    """OCP's MXFP8: f8_e4m3, with an e8m0 scale for 32 elements of a row."""
    return _of_rows("mxfp8", shape, DataType.f8_e4m3, 32, DataType.e8m0)


def nvfp4(shape: Shape, scales: str = "128x4") -> TensorFormat:
    """NVIDIA's NVFP4: f4_e2m1, two to a byte, with an f8_e4m3 scale for 16 elements of a row, and one f32 for
    the tensor.

    The scales of a matrix are in tiles of 128 by 4, the order of tensor cores; with `scales` "rows" they are
    row-major, as in checkpoints.
    """
    rows = _of_rows("nvfp4", shape, DataType.f4_e2m1, 16, DataType.f8_e4m3)
    if not isinstance(scales, str) or scales not in ("128x4", "rows"):
        raise refuse("RS-A15:lie-tiles-rows", scales=short_repr(scales))
    assert rows.scale is not None
    in_rows = scales == "rows" or len(rows.scale.dims) != 2
    scale = rows.scale if in_rows else nvfp4_scales_128x4(rows.scale.dims)
    return replace(rows, scale=scale, has_tensor_scale=True)


def nvfp4_scales_128x4(shape: Shape, dtype: str = "f8_e4m3") -> MemoryDesc:
    """Return scales of (rows, groups of a row) in tiles of 128 by 4: rows 0, 32, 64, 96 are adjacent.

    A tile is 512 bytes, 32 lines of 16: line r % 32 contains rows r, r + 32, r + 64 and r + 96, 4 scales
    each.
    """
    return MemoryDesc(_matrix("nvfp4_scales_128x4", shape), dtype, _SCALES_128X4)


def fp8_blocks(shape: Shape, group: Sequence[int] = (128, 128)) -> TensorFormat:
    """DeepSeek's FP8: f8_e4m3, row-major, with an f32 scale for each block of 128 by 128."""
    dims, groups = _matrix("fp8_blocks", shape), parse_ints(group, "formats.fp8_blocks: group")
    if len(groups) != 2:
        what, hint = f"group is {short_repr(group)}", "pass two extents, as (128, 128)"
        raise refuse("RS-A15:blocks-rows-columns", what=what, hint=hint)
    scale = MemoryDesc(group_extents(dims, groups), DataType.f32)
    return TensorFormat("fp8_blocks", MemoryDesc(dims, DataType.f8_e4m3), scale, about=_about(fp8_blocks))


def awq(shape: Shape, group: int = 128) -> TensorFormat:
    """AWQ: (in, out) weights of u4, eight columns to a word of 32 bits in the order 0 2 4 6 1 3 5 7.

    An f16 scale and a u4 zero point, in the same order, for `group` rows of each column.
    """
    dims, counts = _grouped_columns("awq", shape, group)
    values, zeros = (MemoryDesc(n, DataType.u4, _AWQ) for n in (dims, counts))
    return TensorFormat("awq", values, MemoryDesc(counts, DataType.f16), zeros, about=_about(awq))


def gptq(shape: Shape, group: int = 128) -> TensorFormat:
    """GPTQ: (in, out) weights of u4, eight rows to a word of 32 bits.

    An f16 scale and a u4 zero point for `group` rows of each column. Files of GPTQ's first version store zero
    points minus 1.
    """
    dims, counts = _grouped_columns("gptq", shape, group)
    values, zeros = MemoryDesc(dims, DataType.u4, "Ab8a"), MemoryDesc(counts, DataType.u4)
    return TensorFormat("gptq", values, MemoryDesc(counts, DataType.f16), zeros, about=_about(gptq))


def marlin(shape: Shape, bits: int = 4, group: int | None = None) -> TensorFormat:
    """Marlin: (in, out) weights of 4 or 8 bits in tiles of 16 by 64, in the order in which GPU threads read
    them.

    Scales are separate unless `group` is the number of rows that share one, 0 for all: then they are f16, in
    Marlin's order, which differs for whole columns.
    """
    dims, bits = _matrix("marlin", shape), parse_int(bits, "formats.marlin: bits")
    if bits not in _MARLIN:
        raise refuse("RS-A15:bits", bits=bits)
    if dims[0] % 16 or dims[1] % 64:
        raise refuse("RS-A15:tiles-16-64", dims=dims)
    kind = DataType.u4 if bits == 4 else DataType.u8
    zero = 8 if bits == 4 else 128
    scale = None
    if group is not None:
        rows = parse_int(group, "formats.marlin: group") or dims[0]
        counts = group_extents(dims, (rows, 1))
        scale = MemoryDesc(counts, DataType.f16, _MARLIN_SCALES[counts[0] > 1])
    return TensorFormat(
        "marlin", MemoryDesc(dims, kind, _MARLIN[bits]), scale, zero_point=zero, about=_about(marlin)
    )


def torchao_int4_cpu(shape: Shape, block: int = 64) -> TensorFormat:
    """torch's int4 weights for CPUs: (out, in) in blocks of 64 outputs (32 without AVX-512), i and i + 32 in
    a byte.

    Scales and zero points are separate, in pairs. The zero point is 8.
    """
    dims, block = _matrix("torchao_int4_cpu", shape), parse_int(block, "formats.torchao_int4_cpu: block")
    if block not in (32, 64) or dims[0] % block:
        raise refuse("RS-A15:outputs-blocks", dims=dims[0], block=block)
    half = block // 2
    values = MemoryDesc(dims, DataType.u4, f"Ab{half}@1a2@{half}a")
    return TensorFormat("torchao_int4_cpu", values, zero_point=8, about=_about(torchao_int4_cpu))


_FORMATS: dict[str, Callable[[Shape], TensorFormat]] = {
    **{f"gguf.{name}": getattr(gguf, name) for name in gguf.__all__},
    "awq": awq,
    "fp8_blocks": fp8_blocks,
    "gptq": gptq,
    "marlin": marlin,
    "mxfp4": mxfp4,
    "mxfp8": mxfp8,
    "nvfp4": nvfp4,
    "torchao_int4_cpu": torchao_int4_cpu,
}
_EXAMPLES = {
    **{f"gguf.{name}": (2, 256) for name in gguf.__all__ if name.endswith("_k")},
    "fp8_blocks": (128, 128),
    "nvfp4": (128, 64),
    "awq": (128, 8),
    "gptq": (128, 8),
    "marlin": (16, 64),
}


def names() -> tuple[str, ...]:
    """Return the names that `named` accepts."""
    return tuple(_FORMATS)


def named(name: str, shape: Shape) -> TensorFormat:
    """Return the format of that name for a tensor of `shape`. Raises InvalidArguments for another name."""
    make = _FORMATS.get(name) if isinstance(name, str) else None
    if make is None:
        near = nearest(name[:40].lower(), list(_FORMATS)) if isinstance(name, str) else ""
        raise refuse(
            "RS-A15:no-format-name",
            name=short_repr(name),
            hint=f"did you mean {near!r}?" if near else f"use one of {', '.join(_FORMATS)}",
        )
    return make(shape)


def example_shape(name: str) -> tuple[int, ...]:
    """Return a small shape that the format supports."""
    return _EXAMPLES.get(name, (64, 64))


def _about(make: Callable[..., TensorFormat]) -> str:
    """Return a one-line description of a format, from the docstring of its function."""
    first = (make.__doc__ or "").split("\n\n")[0]
    return " ".join(first.split()).rstrip(".")


def _of_rows(name: str, shape: Shape, data_type: DataType, group: int, scale_type: DataType) -> TensorFormat:
    dims = parse_dims(shape)
    if not dims:
        raise refuse("RS-A15:shape-empty", name=name)
    counts = group_extents(dims, (*(1,) * (len(dims) - 1), group))
    values, scale = MemoryDesc(dims, data_type), MemoryDesc(counts, scale_type)
    return TensorFormat(name, values, scale, about=_about(globals()[name]))


def _grouped_columns(name: str, shape: Shape, group: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    dims = _matrix(name, shape)
    if odd := [n for n in dims if n % 8]:
        raise refuse("RS-A15:words-hold-eight", name=name, n=odd[0])
    return dims, group_extents(dims, (parse_int(group, f"formats.{name}: group"), 1))


def _matrix(name: str, shape: Shape) -> tuple[int, ...]:
    dims = parse_dims(shape)
    if len(dims) == 2:
        return dims
    raise refuse("RS-A15:matrix", name=name, dims=dims)


def __dir__() -> list[str]:
    return sorted(__all__)
