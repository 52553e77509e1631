"""Zarr v3 codecs: the standard `transpose` with restride's kernels, and `restride` for blocks and scales.

    import restride.files.zarr_codecs
    zarr.config.set({"codecs.transpose": "restride.files.zarr_codecs.ReorderTransposeCodec"})

selects the first: files do not change, and every program can read them. For uncompressed chunks,
`zarr_pipeline` transposes at lower cost. The second is named in an array's metadata,
`serializer=RestrideCodec(format="nChw16c", data_type="mxfp4")`; reading such an array requires restride. Zarr
finds the second if restride is installed, the first once this module is imported.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from zarr.abc.codec import ArrayBytesCodec
from zarr.codecs import TransposeCodec
from zarr.registry import register_codec

from ..arrays.calls.carriers import carried
from ..arrays.reorders import reorder
from ..arrays.scaling.block_scales import quantize_in_groups
from ..arrays.scaling.group import NAMED, GroupScaling, scaling_of
from ..arrays.scaling.grouped import group_extents
from ..arrays.scaling.quantized_tensor import QuantizedTensor
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..errors import refuse
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.result_pool import allocate
from .conversion.rules import needs_scale
from .places import bytes_of

__all__ = ["ReorderTransposeCodec", "RestrideCodec"]

_CPU = Engine("cpu")


@dataclass(frozen=True, init=False)
class ReorderTransposeCodec(TransposeCodec):  # type: ignore[misc]
    """The standard codec `transpose`, with restride's kernels instead of strided copies."""

    def __init__(self, *, order: Iterable[int]) -> None:
        super().__init__(order=order)

    def _decode_sync(self, chunk_array: Any, chunk_spec: Any) -> Any:
        back = tuple(int(i) for i in np.argsort(self.order))
        return _row_major(chunk_array, back, chunk_spec)

    def _encode_sync(self, chunk_array: Any, chunk_spec: Any) -> Any:
        return _row_major(chunk_array, self.order, chunk_spec)


@dataclass(frozen=True)
class RestrideCodec(ArrayBytesCodec):  # type: ignore[misc]
    """Chunks in one of restride's memory formats, and in another type: `mxfp4`, or a type with groups.

    format     a format tag, such as "nChw16c"; None for row-major
    data_type  of the stored elements, or a named quantization scheme; None for that of the array, which must
               then be floats or integers supported by restride
    group      the number of elements along the last axis that share a scale, which is found from the data

    The bytes of a chunk are the scales, if any, and the elements. Chunks at the ends of an array are whole
    chunks. Raises InvalidArguments for types and groups that do not match.
    """

    is_fixed_size = True

    format: str | None = None
    data_type: str | None = None
    group: int | None = None

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RestrideCodec:
        """Return the codec for an array's metadata."""
        configuration = data.get("configuration") or {}
        if not isinstance(configuration, dict) or not set(configuration) <= {"format", "data_type", "group"}:
            raise refuse("RS-F05:codec-restride-another", configuration=str(configuration)[:120])
        return cls(**configuration)

    def to_dict(self) -> dict[str, Any]:
        """Return the codec in the form of an array's metadata."""
        fields = {"format": self.format, "data_type": self.data_type, "group": self.group}
        configuration = {name: value for name, value in fields.items() if value is not None}
        return {"name": "restride", "configuration": configuration}

    def validate(self, *, shape: tuple[int, ...], dtype: Any, chunk_grid: Any) -> None:
        """Raise InvalidArguments if chunks of the array cannot be stored this way."""
        chunk = getattr(chunk_grid, "chunk_shape", shape)
        plan = _plan(self, tuple(chunk), dtype.to_native_dtype())
        if plan.scaling is None and needs_scale(DataType.parse(plan.dtype), plan.stored.data_type):
            raise refuse("RS-A15:codec-restride-stores-no", data_type=self.data_type, dtype=plan.dtype)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        """Return the size of a chunk in bytes."""
        return _plan(self, chunk_spec.shape, chunk_spec.dtype.to_native_dtype()).nbytes

    async def _encode_single(self, chunk_array: Any, chunk_spec: Any) -> Any:
        return self._encode_sync(chunk_array, chunk_spec)

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        return self._decode_sync(chunk_bytes, chunk_spec)

    def _encode_sync(self, chunk_array: Any, chunk_spec: Any) -> Any:
        plan = _plan(self, chunk_spec.shape, chunk_spec.dtype.to_native_dtype())
        x = np.asarray(chunk_array.as_numpy_array())
        encoded = np.empty(plan.nbytes, np.uint8)
        values = Memory(plan.stored, _CPU, encoded[plan.scale_bytes :])
        if plan.scaling is None:
            reorder(x, None, out=values)
        else:
            quantized = quantize_in_groups(
                Memory.from_numpy(np.ascontiguousarray(x)), plan.scaling, self.format
            )
            encoded[: plan.scale_bytes] = bytes_of(quantized.scale)
            encoded[plan.scale_bytes :] = bytes_of(quantized.values)
        return chunk_spec.prototype.buffer.from_array_like(encoded)

    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        plan = _plan(self, chunk_spec.shape, chunk_spec.dtype.to_native_dtype())
        content = np.asarray(chunk_bytes.as_numpy_array()).reshape(-1).view(np.uint8)
        if content.size != plan.nbytes:
            raise refuse("RS-F01:chunk-damaged", size=content.size, plan=plan)
        decoded = np.empty(chunk_spec.shape, plan.dtype)
        values = Memory(plan.stored, _CPU, content[plan.scale_bytes :])
        if plan.scaling is None:
            reorder(values, None, out=decoded)
        else:
            extents = tuple(n // g for n, g in zip(plan.stored.dims, plan.scaling.groups, strict=True))
            scale = Memory(MemoryDesc(extents, plan.scaling.scale_type), _CPU, content[: plan.scale_bytes])
            QuantizedTensor(values, scale).dequantize(out=Memory.from_numpy(decoded))
        return chunk_spec.prototype.nd_buffer.from_numpy_array(decoded)


@dataclass(frozen=True, slots=True)
class _ChunkPlan:
    """The form of a chunk: its elements, their scaling, the size of the scales, and the total size."""

    dtype: np.dtype[Any]
    stored: MemoryDesc
    scaling: GroupScaling | None
    scale_bytes: int
    nbytes: int


@lru_cache(maxsize=256)
def _plan(codec: RestrideCodec, shape: tuple[int, ...], dtype: np.dtype[Any]) -> _ChunkPlan:
    source = MemoryDesc(shape, DataType.parse(dtype))
    if codec.group is None and codec.data_type not in NAMED:
        dst = MemoryDesc(shape, codec.data_type or source.data_type, codec.format)
        return _ChunkPlan(dtype, dst, None, 0, dst.size)
    scaling = scaling_of(codec.data_type or "s8", None, True, codec.group, "f32", len(shape)).for_dims(shape)
    if scaling.is_two_level or scaling.data_type.kind == "uint" or source.data_type.kind != "float":
        raise refuse(
            "RS-A15:codec-restride-stores",
            data_type=codec.data_type or "s8",
            source_data_type=source.data_type,
        )
    dst = MemoryDesc(shape, scaling.data_type, codec.format)
    scales = MemoryDesc(group_extents(shape, scaling.groups), scaling.scale_type).size
    return _ChunkPlan(dtype, dst, scaling, scales, scales + dst.size)


def _row_major(chunk: Any, order: tuple[int, ...], spec: Any) -> Any:
    """Return the chunk with its axes in another order, as a row-major array."""
    x = np.asarray(chunk.as_numpy_array())
    view = x.transpose(order)
    carrier = carried(x.dtype)
    if not x.size or not x.ndim or carrier.kind not in "uf":
        return chunk.transpose(order)
    # Pages newly obtained from the system cost more than the work on them.
    copy = allocate(view.nbytes).bytes()[: view.nbytes].view(x.dtype).reshape(view.shape)
    reorder(view.view(carrier) if carrier != x.dtype else view, None, out=copy.view(carrier))
    return spec.prototype.nd_buffer.from_numpy_array(copy)


register_codec("transpose", ReorderTransposeCodec)
register_codec("restride", RestrideCodec)
