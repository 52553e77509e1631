"""`quantize`: scales found in one pass over the values, applied in a second (N1, N4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...desc.parse import parse_int, short_repr
from ...dtypes import DataType
from ...errors import Error, raises_at_the_call, refuse
from ...foreign import plain_text
from ...model.checks import check_memory
from ...plan.reduction import Op
from ...runtime.describe import Subject
from ...runtime.memory import Memory
from ...runtime.transfer import to_host
from ..calls.error_translation import translate_hint
from ..calls.memories import memory_of, wrapped
from ..calls.tensors import as_array, as_numpy, back_to, is_foreign
from ..reorders import reorder
from .axis import TARGETS, TargetRange, ends_of, scale_and_zero, target_range
from .block_scales import quantize_by_scales, quantize_in_groups
from .group import NAMED, scaling_of
from .quantized_tensor import QuantizedTensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ...typing import (
        ArrayLike,
        BlockedTag,
        FormatLike,
        OtherArray,
        PlainFormat,
        Tensor,
        TypeLike,
        WayName,
        WholeType,
    )

__all__ = ["quantize"]


@overload
def quantize(
    x: OtherArray | ArrayLike,
    dtype: WayName,
    axis: int | None = None,
    symmetric: bool = True,
    dst: FormatLike = None,
    *,
    group: int | Sequence[int] | None = None,
    scale: str | OtherArray = "absmax",
    scale_type: TypeLike = "f32",
) -> QuantizedTensor: ...
@overload
def quantize(
    x: OtherArray | ArrayLike,
    dtype: TypeLike | WayName = "s8",
    axis: int | None = None,
    symmetric: bool = True,
    dst: FormatLike = None,
    *,
    group: int | Sequence[int],
    scale: str | OtherArray = "absmax",
    scale_type: TypeLike = "f32",
    format: WayName | None = None,
) -> QuantizedTensor: ...
@overload
def quantize(
    x: OtherArray | ArrayLike,
    dtype: TypeLike = "s8",
    axis: int | None = None,
    symmetric: bool = True,
    *,
    dst: BlockedTag,
) -> tuple[Memory, Any, Any]: ...
@overload
def quantize(
    x: Tensor,
    dtype: WholeType = "s8",
    axis: int | None = None,
    symmetric: bool = True,
    dst: PlainFormat = None,
) -> tuple[Tensor, Any, Any]: ...
@overload
def quantize(
    x: NDArray[Any] | ArrayLike,
    dtype: WholeType = "s8",
    axis: int | None = None,
    symmetric: bool = True,
    dst: PlainFormat = None,
) -> tuple[NDArray[Any], Any, Any]: ...
@overload
def quantize(
    x: OtherArray | ArrayLike,
    dtype: TypeLike | WayName = "s8",
    axis: int | None = None,
    symmetric: bool = True,
    dst: FormatLike = None,
    *,
    group: int | Sequence[int] | None = None,
    scale: str | OtherArray = "absmax",
    scale_type: TypeLike = "f32",
    format: WayName | None = None,
) -> Any: ...
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
    """Quantise floats: `(q, scale, zero_point)` with `x` about `scale * (q - zero_point)`.

    x          an array or `Memory` of f64, f32, bf16, f16 or f8; results are arrays of its kind
    dtype      s8, u8, s4, u4, f8_e4m3 or f8_e5m2 (4-bit: `q` is a packed `Memory`); with groups also f4_e2m1
               and f4_e3m0. Or a way of quantising that has a name: "mxfp4", "mxfp8", "nvfp4". `format` is
               another word for it
    axis       None: one scale (an np.float32) and one zero point (an int); else one for each index of that
               axis, as arrays of f32 and s32
    symmetric  True: from the largest magnitude, and the zero point is 0 (128 for u8, 8 for u4); False: from
               the smallest and largest value, 0 among them, so that 0 stays exact
    dst        the format of `q`; None keeps that of `x`
    group      how many elements share a scale along `axis`, the last one unless given; or a number for each
               of the last axes, as (128, 128); 0 stands for a whole axis. With groups, and with a name, the
               result is a `QuantizedTensor`, whose parts are memories
    scale      "absmax", found from the data in one pass over it; or the scales, of the dims divided by
               groups: then `symmetric` is True, and integers without a sign have their middle as zero point
    scale_type  of the scales of groups: f32, f16, bf16, e8m0, f8_e4m3 or f8_e5m2

    Only finite values make the range, and infinities saturate: to 448 in f8_e4m3, to 57344 in f8_e5m2. NaN
    stays NaN in f8; as an integer it becomes the zero point, which stands for 0. Where all values are 0, or
    none is finite, the scale is 1. The zero point of f8 is 0. Raises InvalidArguments for other types, and
    for f64 of a range that no f32 scale can express.

    >>> import numpy as np, restride as rs
    >>> q, scale, zero_point = rs.quantize(np.float32([[0.5, -2.0], [1.0, np.inf]]))
    >>> q.tolist(), zero_point
    ([[32, -127], [64, 127]], 0)
    >>> w = rs.quantize(np.ones((4, 64), np.float32), "mxfp4")
    >>> w.values.desc, w.scale.desc, rs.dequantize(w, dtype="f16").mean()
    (<MemoryDesc f4_e2m1 4x64 ab>, <MemoryDesc e8m0 4x2 ab>, np.float16(1.0))
    """
    dtype = _one_of(dtype, format)
    name = plain_text(dtype)
    is_passed = not isinstance(scale, str)
    if not is_passed and scale != "absmax":
        raise refuse("RS-A15:scale", scale=short_repr(scale))
    if group is not None or is_passed or (isinstance(name, str) and name in NAMED):
        source = to_host(
            _source_of(as_array(as_numpy(x, "quantize: x") if is_foreign(x) else x, "quantize: x"))
        )
        scaling = scaling_of(dtype, axis, symmetric, group, scale_type, source.desc.ndims)
        if not is_passed:
            return quantize_in_groups(source, scaling, dst)
        held = memory_of(scale, "quantize: scale")
        return quantize_by_scales(source, scaling, dst, held, has_groups=group is not None)
    if is_foreign(x):
        read = as_numpy(x, "quantize: x")
        try:
            made = quantize(read, dtype, axis, symmetric, dst)
        except Error as error:
            raise translate_hint(x, error) from None
        q, scale, zero = (back_to(x, part) for part in made)
        return q, scale, zero
    target = target_range(dtype, symmetric)
    x = as_array(x, "quantize: x")
    source = _source_of(x)
    at = None if axis is None else _axis_of(axis, source.desc)
    scale, zero = scale_and_zero(source, at, target, symmetric)
    return _quantized(x, target, scale, zero, at, dst), scale, zero


def quantize_by(x: Memory, data_type: DataType, scale: Any, zero: int, dst: MemoryDesc) -> Any:
    """The elements of a tensor by one scale and one zero point, which `quantize` has found before."""
    return _quantized(x, TARGETS[data_type], scale, zero, None, dst)


def _quantized(x: Any, target: TargetRange, scale: Any, zero: Any, axis: int | None, dst: Any) -> Any:
    with np.errstate(all="ignore"):
        inverse = np.float32(1) / scale
    has_shift = zero if axis is None else zero.any()
    shift, chain = (zero, "nan_to_zero") if has_shift else (None, ends_of(target))
    options = {"scale": _given(inverse), "zero_point": _given(shift), "axis": axis, "post_ops": chain}
    return reorder(x, dst, dtype=target.data_type, **options)


def _one_of(dtype: Any, format: Any) -> Any:
    """The type or the way of quantising, under either name of the parameter."""
    if format is None:
        return dtype
    if type(dtype) is str and dtype == "s8":
        return format
    raise refuse("RS-V07:dtype-format", dtype=short_repr(dtype), format=short_repr(format))


def _given(value: Any) -> Any:
    """One value as a number, several as an array."""
    return value if value is None or np.ndim(value) else value.item() if hasattr(value, "item") else value


def _source_of(x: Any) -> Memory:
    memory = x if isinstance(x, Memory) else wrapped(x, Subject.source("quantize"))
    if memory and memory.desc.data_type in Op.amax.types:
        check_memory("quantize", "x", memory, memory.desc, memory.engine)
        return memory
    raise refuse(
        "RS-A15:x-not-real",
        where=str(memory.desc) if memory else short_repr(x),
        why=f"its elements are {memory.desc.data_type}" if memory else "it is empty",
        types=", ".join(map(str, Op.amax.types)),
    )


def _axis_of(axis: Any, md: MemoryDesc) -> int:
    at = parse_int(axis, "quantize: axis")
    if -md.ndims <= at < md.ndims:
        return at % md.ndims
    raise refuse("RS-A10:quantize", at=short_repr(at), dims=md.dims, least=-md.ndims, last=md.ndims - 1)
