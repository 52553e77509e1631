"""`quantize` and `dequantize`: scales found in one pass over the values, applied in a second (N1, N4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from .arrays import reorder
from .block_scales import NAMED, QuantizedTensor, quantize_in_groups, scaling_of
from .desc.memory_desc import MemoryDesc
from .desc.parse import parse_bool, parse_int, short_repr
from .dtypes import DataType
from .errors import Error, InvalidArguments, raises_at_the_call
from .foreign import attribute_of, plain_text
from .frontend.formats import parse_type
from .frontend.hints import told_to_owner
from .frontend.nibbles import is_nibbles
from .frontend.tensors import as_array, as_numpy, as_target, back_to, is_foreign
from .primitives.checks import check_memory
from .runtime.alloc import Array
from .runtime.describe import Subject, describe
from .runtime.engine import Engine
from .runtime.memory import Memory
from .runtime.reduction import amax, min_max
from .runtime.transfer import to_host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .typing import (
        ArrayLike,
        BlockedTag,
        Factor,
        FormatLike,
        OtherArray,
        Owned,
        PlainFormat,
        PlainTag,
        Tensor,
        TypeLike,
        WayName,
        WholeType,
    )

__all__ = ["dequantize", "quantize"]


@dataclass(frozen=True, slots=True)
class _Range:
    """What values are mapped to: [low, high], and where 0 goes when the range is symmetric."""

    data_type: DataType
    low: int
    high: int
    middle: int


_TARGETS = {
    found.data_type: found
    for found in (
        _Range(DataType.s8, -128, 127, 0),
        _Range(DataType.u8, 0, 255, 128),
        _Range(DataType.s4, -8, 7, 0),
        _Range(DataType.u4, 0, 15, 8),
        _Range(DataType.f8_e4m3, -448, 448, 0),
        _Range(DataType.f8_e5m2, -57344, 57344, 0),
    )
}
_KINDS = {kind.name: kind for kind in _TARGETS}
# Smaller scales would have no finite inverse.
_SMALLEST = np.float32(2.0**-126)
_LARGEST = np.finfo(np.float32).max
_ONE = np.float32(1)


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
    scale      "absmax", found from the data in one pass over it; or the scales, of the dims divided by groups
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
    dtype = dtype if format is None else format
    name = plain_text(dtype)
    if group is not None or not isinstance(scale, str) or (isinstance(name, str) and name in NAMED):
        source = to_host(
            _source_of(as_array(as_numpy(x, "quantize: x") if is_foreign(x) else x, "quantize: x"))
        )
        scaling = scaling_of(dtype, axis, symmetric, group, scale_type, source.desc.ndims)
        return quantize_in_groups(source, scaling, dst, None if isinstance(scale, str) else _scales_of(scale))
    if scale != "absmax":
        raise InvalidArguments(
            f"quantize: scale is {short_repr(scale)}",
            code="RS-A15",
            why='scales are found as "absmax" says, or passed',
            hint="leave scale out, or pass the scales of groups",
        )
    if is_foreign(x):
        read = as_numpy(x, "quantize: x")
        try:
            made = quantize(read, dtype, axis, symmetric, dst)
        except Error as error:
            raise told_to_owner(x, error) from None
        q, scale, zero = (back_to(x, part) for part in made)
        return q, scale, zero
    target = _target_of(dtype, symmetric)
    x = as_array(x, "quantize: x")
    source = _source_of(x)
    at = None if axis is None else _axis_of(axis, source.desc)
    scale, zero = _parameters(source, at, target, symmetric)
    with np.errstate(all="ignore"):
        inverse = _ONE / scale
    has_shift = zero if axis is None else zero.any()
    shift, chain = (zero, "nan_to_zero") if has_shift else (None, _ends_of(target))
    options = {"scale": _given(inverse), "zero_point": _given(shift), "axis": at, "post_ops": chain}
    return reorder(x, dst, dtype=target.data_type, **options), scale, zero


@overload
def dequantize(
    q: QuantizedTensor | OtherArray | ArrayLike,
    scale: Factor = None,
    zero_point: Factor = None,
    *,
    axis: int | None = None,
    dtype: TypeLike | None = None,
    dst: FormatLike = None,
    out: Owned,
) -> Owned: ...
@overload
def dequantize(
    q: QuantizedTensor | OtherArray | ArrayLike,
    scale: Factor = None,
    zero_point: Factor = None,
    *,
    axis: int | None = None,
    dtype: TypeLike | None = None,
    dst: BlockedTag,
) -> Memory: ...
@overload
def dequantize(
    q: Memory,
    scale: Factor = None,
    zero_point: Factor = None,
    *,
    axis: int | None = None,
    dtype: WholeType = None,
    dst: PlainTag | Sequence[int],
) -> NDArray[Any]: ...
@overload
def dequantize(
    q: Tensor,
    scale: Factor = None,
    zero_point: Factor = None,
    *,
    axis: int | None = None,
    dtype: WholeType = None,
    dst: PlainFormat = None,
) -> Tensor: ...
@overload
def dequantize(
    q: NDArray[Any] | ArrayLike,
    scale: Factor = None,
    zero_point: Factor = None,
    *,
    axis: int | None = None,
    dtype: WholeType = None,
    dst: PlainFormat = None,
) -> NDArray[Any]: ...
@overload
def dequantize(
    q: QuantizedTensor | OtherArray | ArrayLike,
    scale: Factor = None,
    zero_point: Factor = None,
    *,
    axis: int | None = None,
    dtype: TypeLike | None = None,
    dst: FormatLike = None,
) -> Any: ...
@raises_at_the_call
def dequantize(
    q: Any,
    scale: Any = None,
    zero_point: Any = None,
    *,
    axis: int | None = None,
    dtype: Any = None,
    dst: Any = None,
    out: Any = None,
) -> Any:
    """`scale * (q - zero_point)` as floats: the inverse of `quantize`, up to rounding.

    `q`: an array or a `Memory`, or a `QuantizedTensor`, which has its scales. Scales and zero points of as
    many dims as `q`, at least two, are of groups: arrays or memories of any layout. Otherwise `scale` and
    `zero_point` are one number, or with `axis` one for each index of that axis. `dst` and `out` as in
    `reorder`. `dtype`: that of `out`, or of a `MemoryDesc` in `dst`, unless given; else f32. Raises
    InvalidArguments for a result that is not of floats.

    >>> import numpy as np, restride as rs
    >>> rs.dequantize(np.int8([-2, 0, 3]), 0.5, 1).tolist()
    [-1.5, -0.5, 1.0]
    """
    if isinstance(q, QuantizedTensor) or _are_of_groups(q, scale):
        if isinstance(q, QuantizedTensor):
            held = q
        else:
            zero = None if zero_point is None else _scales_of(zero_point)
            held = QuantizedTensor(_memory_of(q), _scales_of(scale), zero)
        return _real_numbers(held, dtype, dst, out)
    if scale is None:
        raise InvalidArguments(
            "dequantize: scale is None",
            code="RS-A15",
            why="it says what a step is worth",
            hint="pass quantize's",
        )
    kind = _type_of(out, dst) if dtype is None else parse_type(dtype)
    _check_real(kind, out, dst)
    try:
        return reorder(q, dst, dtype=kind, scale=scale, zero_point=zero_point, axis=axis, out=out)
    except Error as error:
        raise error.retold(error.what.replace("reorder: ", "dequantize: ", 1)) from None


def _check_real(kind: DataType, out: Any, dst: Any) -> None:
    if kind.kind != "float":
        raise InvalidArguments(
            f"dequantize: dtype is {kind}",
            code="RS-A15",
            why="the result is of real numbers",
            hint='pass dtype="f32"' if out is None and dst is None else "write to an array of floats",
        )


def _are_of_groups(q: Any, scale: Any) -> bool:
    """True for scales of as many dims as the tensor, which has several."""
    return _rank(scale) > 1 and _rank(scale) == _rank(q)


def _rank(x: Any) -> int:
    """The number of axes of an array of any library; 0 for what is none."""
    found = attribute_of(x, "ndim")
    return found if type(found) is int else 0


def _real_numbers(held: QuantizedTensor, dtype: Any, dst: Any, out: Any) -> Any:
    kind = _type_of(out, dst) if dtype is None else parse_type(dtype)
    _check_real(kind, out, dst)
    if out is not None:
        target = out if isinstance(out, Memory) else _wrapped(as_target(out, "dequantize: out"))
        held.dequantize(out=target)
        return out
    made = held.dequantize(kind, dst)
    return made if made.desc.inner_blks or kind.bits < 8 else np.asarray(made)


def _scales_of(scale: Any) -> Memory:
    """Scales or zero points as a memory that may be read."""
    return scale if isinstance(scale, Memory) else _memory_of(scale)


def _memory_of(x: Any) -> Memory:
    found = as_array(as_numpy(x, "quantize: x") if is_foreign(x) else x, "quantize: x")
    if is_nibbles(found):
        found = reorder(found, None)
    return found if isinstance(found, Memory) else _wrapped(found)


def _ends_of(target: _Range) -> Any:
    """What saturates floats, which a reorder would make infinite or NaN beyond their ends."""
    return None if target.data_type.is_integral else [("clip", target.low, target.high)]


def _type_of(out: Any, dst: Any) -> DataType:
    """The type of what is written, where it is there already; else f32."""
    if out is None:
        return dst.data_type if isinstance(dst, MemoryDesc) else DataType.f32
    if isinstance(out, Memory):
        return out.desc.data_type
    return describe(as_target(out, "dequantize: out"), None, Subject.target("dequantize")).desc.data_type


def _given(value: Any) -> Any:
    """One value as a number, several as an array."""
    return value if value is None or np.ndim(value) else value.item() if hasattr(value, "item") else value


def _target_of(dtype: Any, symmetric: Any) -> _Range:
    kind = _KINDS.get(dtype) if type(dtype) is str else None
    kind = kind or parse_type(dtype)
    if kind not in _TARGETS:
        raise InvalidArguments(
            f"quantize: dtype is {kind}",
            code="RS-A15",
            why="values are quantised to s8, u8, s4, u4, f8_e4m3 or f8_e5m2",
            hint='pass dtype="s8"; rs.reorder converts to any type',
        )
    if not parse_bool("quantize: symmetric", symmetric) and not kind.is_integral:
        raise InvalidArguments(
            f"quantize: {kind} with symmetric=False",
            code="RS-A15",
            why="floats have no zero point",
            hint="leave symmetric out",
        )
    return _TARGETS[kind]


def _source_of(x: Any) -> Memory:
    memory = x if isinstance(x, Memory) else _wrapped(x)
    if memory and memory.desc.data_type.kind == "float":
        check_memory("quantize", "x", memory, memory.desc, memory.engine)
        return memory
    raise InvalidArguments(
        "quantize: x is not of real numbers",
        code="RS-A15",
        where=str(memory.desc) if memory else short_repr(x),
        why=f"its elements are {memory.desc.data_type}" if memory else "it is empty",
        hint="pass floats; rs.reorder(x, None, dtype=...) converts integers",
    )


def _wrapped(x: Any) -> Memory:
    described = describe(x, None, Subject.source("quantize"))
    return Memory(described.desc, Engine("cpu"), described.buffer_of(x))


def _axis_of(axis: Any, md: MemoryDesc) -> int:
    at = parse_int(axis, "quantize: axis")
    if -md.ndims <= at < md.ndims:
        return at % md.ndims
    raise InvalidArguments(
        f"quantize: axis is {short_repr(at)}",
        code="RS-A10",
        where=f"dims {md.dims}",
        why=f"it must be from {-md.ndims} to {md.ndims - 1}",
        hint="pass None for one scale for the whole tensor",
    )


def _parameters(source: Memory, axis: int | None, target: _Range, symmetric: bool) -> tuple[Any, Any]:
    """Scales as f32 and zero points as s32, without axes where there is one of each."""
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
    """The f32 scale that maps `extent` to `steps`; 1 where there is no extent."""
    exact = np.asarray(extent, np.float64) / steps
    if (exact > _LARGEST).any():
        raise InvalidArguments(
            "quantize: the values of x reach too far",
            code="RS-A15",
            why=f"a step would be worth {float(exact.max()):g}, and scales are f32",
            hint="divide x by a power of two first",
        )
    scale = np.maximum(exact, _SMALLEST).astype(np.float32)
    return np.where(exact > 0, scale, _ONE)
