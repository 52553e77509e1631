"""`quantize`: finds scales in one pass over the values and applies them in a second (N1, N4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...desc.ggml_blocks import GGML_BLOCKS
from ...desc.memory_desc import MemoryDesc
from ...desc.parse import parse_bool, parse_int, short_repr
from ...dtypes import DataType
from ...errors import raises_at_the_call, refuse
from ...foreign import plain_text
from ...formats import named, quantize_blocks
from ...ir.ranges import NOT_FINITE
from ...model.checks import check_memory
from ...runtime.alloc import Array
from ...runtime.cpu.ranges import amax, min_max
from ...runtime.describe import Subject
from ...runtime.memory import Memory
from ...runtime.transfer import to_host
from ..calls.memories import memory_of, wrapped
from ..calls.tensors import as_array, as_numpy, back_to, for_owner, is_foreign
from ..reorders import reorder
from .block_packing import quantize_in_blocks
from .block_scales import quantize_by_scales, quantize_in_groups
from .group import NAMED, parse_kind, scaling_of

__all__ = ["quantize"]


@dataclass(frozen=True, slots=True)
class TargetRange:
    """The range of quantized values, [low, high], and the position of 0 if the range is symmetric."""

    data_type: DataType
    low: int
    high: int
    middle: int


TARGETS = {
    target.data_type: target
    for target in (
        TargetRange(DataType.s8, -128, 127, 0),
        TargetRange(DataType.u8, 0, 255, 128),
        TargetRange(DataType.s4, -8, 7, 0),
        TargetRange(DataType.u4, 0, 15, 8),
        TargetRange(DataType.f8_e4m3, -448, 448, 0),
        TargetRange(DataType.f8_e5m2, -57344, 57344, 0),
    )
}
"""The range of each type."""
# ggml blocks whose parts can be stored as tensors.
WHOLE_BLOCKS = "q4_0", "q4_1", "q8_0"
_KINDS = {kind.name: kind for kind in TARGETS}
# Smaller scales would have no finite inverse.
_SMALLEST = np.float32(2.0**-126)
_LARGEST = np.finfo(np.float32).max
_ONE = np.float32(1)


def _target_range(dtype: Any, symmetric: Any) -> TargetRange:
    """Return the range of a type. Raises InvalidArguments for types that cannot be quantized to."""
    kind = _KINDS.get(dtype) if type(dtype) is str else None
    kind = kind or parse_kind(dtype)
    if kind not in TARGETS:
        raise refuse("RS-A15:values-quantized-s8", kind=kind)
    if not parse_bool("quantize: symmetric", symmetric) and not kind.is_integral:
        raise refuse("RS-A15:symmetric-false", kind=kind)
    return TARGETS[kind]


def _scale_and_zero(
    source: Memory, axis: int | None, target: TargetRange, symmetric: bool
) -> tuple[Any, Any]:
    """Return scales as f32 and zero points as s32; scalars if there is one of each."""
    keep = 0 if axis is None else 1 << axis
    source = to_host(source)
    address = source.get_data_handle()
    if symmetric:
        largest = amax(source.desc, address, keep)
        reach = min(target.middle - target.low, target.high - target.middle)
        scale = _scale(largest, reach)
        zero = np.full(scale.shape, target.middle, np.int32) if scale.ndim else target.middle
    else:
        low, high = (np.float64(ends) for ends in min_max(source.desc, address, keep))
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
        scale = _scale(high / 2 - low / 2, (target.high - target.low) / 2)
        exact = np.rint(target.low - low / scale.astype(np.float64))
        zero = np.clip(exact, target.low, target.high).astype(np.int32)
    return (scale[()], int(zero)) if axis is None else (scale, zero)


def _scale(extent: Array, steps: float) -> Array:
    """Return the f32 scale that maps `extent` to `steps`; 1 if the extent is 0."""
    exact = np.asarray(extent, np.float64) / steps
    if (exact > _LARGEST).any():
        raise refuse("RS-A15:large-step", exact=float(exact.max()))
    scale = np.maximum(exact, _SMALLEST).astype(np.float32)
    return np.where(exact > 0, scale, _ONE)


@raises_at_the_call
def quantize(
    x: Any,
    dtype: Any = "s8",
    axis: int | None = None,
    symmetric: bool = True,
    dst: Any = None,
    *,
    group: Any = None,
    scale: Any = "absmax",
    scale_type: Any = "f32",
    format: Any = None,
) -> Any:
    """Quantize floats: return `(q, scale, zero_point)` with `x` about `scale * (q - zero_point)`.

    x          an array or `Memory` of f64, f32, bf16, f16 or f8; results are arrays of its kind
    dtype      s8, u8, s4, u4, f8_e4m3 or f8_e5m2 (4-bit: `q` is a packed `Memory`); with groups also f4_e2m1
               and f4_e3m0. Or a named scheme: "mxfp4", "mxfp8", "nvfp4", or one of ggml's blocks, such as
               "q4_0" and "q4_k", which take no other options. `format` is an alias
    axis       None: one scale (an np.float32) and one zero point (an int); else one for each index of that
               axis, as arrays of f32 and s32
    symmetric  True: scale from the largest magnitude, with zero point 0 (128 for u8, 8 for u4); False: from
               the smallest and largest value and 0, so that 0 stays exact
    dst        the format of `q`; None keeps that of `x`
    group      number of elements that share a scale along `axis`, by default the last; or a number for each
               of the last axes, such as (128, 128); 0 means a whole axis. With groups, and with a named
               scheme, the result is a `QuantizedTensor`, whose parts are memory objects
    scale      "absmax", computed from the data in one pass; or the scales, with the dims divided by the
               groups: then `symmetric` is True, and the zero point of unsigned integers is the middle of
               their range
    scale_type  of group scales: f32, f16, bf16, e8m0, f8_e4m3 or f8_e5m2

    Only finite values determine the range, and infinities saturate: to 448 in f8_e4m3, to 57344 in f8_e5m2.
    NaN stays NaN in f8; as an integer it becomes the zero point, which represents 0. If all values are 0, or
    none is finite, the scale is 1. The zero point of f8 is 0. Raises InvalidArguments for other types, and
    for f64 with a range that no f32 scale can express.

    >>> import numpy as np, restride as rs
    >>> q, scale, zero_point = rs.quantize(np.float32([[0.5, -2.0], [1.0, np.inf]]))
    >>> q.tolist(), zero_point
    ([[32, -127], [64, 127]], 0)
    >>> w = rs.quantize(np.ones((4, 64), np.float32), "mxfp4")
    >>> w.values.desc, w.scale.desc, rs.dequantize(w, dtype="f16").mean()
    (<MemoryDesc f4_e2m1 4x64 ab>, <MemoryDesc e8m0 4x2 ab>, np.float16(1.0))
    """
    if format is not None:
        if not (type(dtype) is str and dtype == "s8"):
            raise refuse("RS-V07:dtype-format", dtype=short_repr(dtype), format=short_repr(format))
        dtype = format
    name = plain_text(dtype)
    is_passed = not isinstance(scale, str)
    if not is_passed and scale != "absmax":
        raise refuse("RS-A15:scale", scale=short_repr(scale))
    if isinstance(name, str) and name in (*GGML_BLOCKS, *WHOLE_BLOCKS):
        others = axis, symmetric, dst, group, scale, scale_type
        if others != (None, True, None, None, "absmax", "f32"):
            raise refuse("RS-A15:blocks-alone", name=name)
        x = as_numpy(x, "quantize: x") if is_foreign(x) else as_array(x, "quantize: x")
        source = to_host(_source_of(x))
        if name in WHOLE_BLOCKS:
            return named(f"gguf.{name}", source.desc.dims).wrap(quantize_blocks(source.to_numpy(), name))
        return quantize_in_blocks(source, GGML_BLOCKS[name])
    if group is not None or is_passed or (isinstance(name, str) and name in NAMED):
        x = as_numpy(x, "quantize: x") if is_foreign(x) else as_array(x, "quantize: x")
        source = to_host(_source_of(x))
        scaling = scaling_of(dtype, axis, symmetric, group, scale_type, source.desc.ndims)
        if not is_passed:
            return quantize_in_groups(source, scaling, dst)
        scales = memory_of(scale, "quantize: scale")
        return quantize_by_scales(source, scaling, dst, scales, has_groups=group is not None)
    if is_foreign(x):
        parts = for_owner("quantize: x", x, None, lambda x, _: quantize(x, dtype, axis, symmetric, dst))
        q, scale, zero = (back_to(x, part) for part in parts)
        return q, scale, zero
    target = _target_range(dtype, symmetric)
    x = as_array(x, "quantize: x")
    source = _source_of(x)
    at, md = None, source.desc
    if axis is not None:
        at = parse_int(axis, "quantize: axis")
        if not -md.ndims <= at < md.ndims:
            raise refuse(
                "RS-A10:quantize", at=short_repr(at), dims=md.dims, least=-md.ndims, last=md.ndims - 1
            )
        at %= md.ndims
    scale, zero = _scale_and_zero(source, at, target, symmetric)
    return _quantized(x, target, scale, zero, at, dst), scale, zero


def quantize_by(x: Memory, data_type: DataType, scale: Any, zero: int, dst: MemoryDesc) -> Any:
    """Return the elements of a tensor with one scale and one zero point, which `quantize` has computed."""
    return _quantized(x, TARGETS[data_type], scale, zero, None, dst)


def _quantized(x: Any, target: TargetRange, scale: Any, zero: Any, axis: int | None, dst: Any) -> Any:
    with np.errstate(all="ignore"):
        inverse = np.float32(1) / scale
    has_shift = zero if axis is None else zero.any()
    # Saturate floats that a reorder would make infinite or NaN beyond the range.
    ends: Any = None if target.data_type.is_integral else [("clip", target.low, target.high)]
    shift, chain = (zero, "nan_to_zero") if has_shift else (None, ends)
    options = {"scale": _scalar(inverse), "zero_point": _scalar(shift), "axis": axis, "post_ops": chain}
    return reorder(x, dst, dtype=target.data_type, **options)


def _scalar(value: Any) -> Any:
    """Return one value as a number, several as an array."""
    return value if value is None or np.ndim(value) else value.item() if hasattr(value, "item") else value


def _source_of(x: Any) -> Memory:
    memory = x if isinstance(x, Memory) else wrapped(x, Subject.source("quantize"))
    if memory and memory.desc.data_type in NOT_FINITE:
        check_memory("quantize", "x", memory, memory.desc, memory.engine)
        return memory
    raise refuse(
        "RS-A15:x-not-real",
        where=str(memory.desc) if memory else short_repr(x),
        why=f"its elements are {memory.desc.data_type}" if memory else "it is empty",
        types=", ".join(map(str, NOT_FINITE)),
    )
