"""Layer, group and batch normalization on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from ..desc.arguments import ARG_DST, ARG_MEAN, ARG_SCALE, ARG_SHIFT, ARG_SRC, ARG_VARIANCE
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_int, short_repr, to_f32
from ..dtypes import DataType
from ..errors import refuse
from ..foreign import is_masked
from ..model.parse import check_written
from ..model.pointwise import check_known, check_same_dims
from ..ops.batch_normalization import BatchNormalizationProblem
from ..ops.group_normalization import GroupNormalizationProblem
from ..ops.layer_normalization import LayerNormalizationProblem
from ..ops.normalization import NormFlags, NormForwardProblem
from ..ops.normalization import check_data as check_normalized
from ..ops.programs.normalization import NormKind, stat_dims
from ..runtime.alloc import Array
from ..runtime.memory import Memory
from .calls.binder import CallKey
from .calls.function import ArrayFunction, Parameters, ndims_of, plain_key, with_axis_at, with_axis_last
from .calls.operands import engine_of

__all__ = ["batch_norm", "group_norm", "layer_norm"]

_LAYER, _GROUP, _BATCH = (
    ArrayFunction(name, is_real=True) for name in ("layer_norm", "group_norm", "batch_norm")
)
# Types in which scale and shift are read; all others are converted to f32.
_WEIGHT_TYPES = tuple(kind.numpy for kind in (DataType.f32, DataType.bf16, DataType.f16))


def layer_norm(
    x: Any, scale: Any = None, shift: Any = None, *, axis: int = -1, epsilon: float = 1e-5, out: Any = None
) -> Any:
    """Return `(x - mean) / sqrt(variance + epsilon) * scale + shift`, with mean and variance along an axis.

    x        a NumPy array, a torch tensor, any object with `__dlpack__`, or a `Memory` of any format, of f64,
             f32, bf16, f16, s8 or u8
    scale    one number for each index of the axis, or None
    shift    the same
    axis     the axis to normalize: by default the last, as in rows of features; 1 for the channels of images,
             which can have any format
    epsilon  added to the variance
    out      destination of any layout and type: an array or `Memory` with the dims of `x`, or `x` itself; it
             is returned

    The result has the type and the layout of `x`, dense, or f32 if `x` has integers: NumPy in, NumPy out; a
    tensor in, a tensor out; a `Memory` in, a `Memory` of the same format out, with zero padding. Computation
    is in f32, or in f64 if `x` or `out` is f64.

    Raises InvalidArguments, before anything is written, for an axis that `x` does not have, a scale or a
    shift of another length, a negative epsilon, and an `out` that is read-only, has other dims or overlaps
    `x`; Unimplemented for other types.

    >>> import numpy as np, restride as rs
    >>> print(rs.layer_norm(np.array([[1, 2, 3], [5, 5, 8]], np.float32)).round(2))
    [[-1.22  0.    1.22]
     [-0.71 -0.71  1.41]]
    """
    weights = () if scale is shift is None else (scale, shift)
    return _LAYER.call(_layer, (axis, epsilon), plain_key((axis, epsilon)), x, out, weights)


def group_norm(
    x: Any, groups: int, scale: Any = None, shift: Any = None, *, epsilon: float = 1e-5, out: Any = None
) -> Any:
    """Return `(x - mean) / sqrt(variance + epsilon) * scale + shift`, with statistics of groups of channels.

    `x`: of dims (N, C, ...), C a multiple of `groups`. `scale`, `shift`: one number for each channel, or
    None. Otherwise as `layer_norm`.

    >>> import numpy as np, restride as rs
    >>> print(rs.group_norm(np.array([[[0, 2], [4, 6], [1, 1], [1, 1]]], np.float32), 2)[0].round(2))
    [[-1.34 -0.45]
     [ 0.45  1.34]
     [ 0.    0.  ]
     [ 0.    0.  ]]
    """
    weights = () if scale is shift is None else (scale, shift)
    return _GROUP.call(_group, (groups, epsilon), plain_key((groups, epsilon)), x, out, weights)


def batch_norm(
    x: Any,
    mean: Any,
    variance: Any,
    scale: Any = None,
    shift: Any = None,
    *,
    epsilon: float = 1e-5,
    out: Any = None,
) -> Any:
    """Return `(x - mean) / sqrt(variance + epsilon) * scale + shift`, with given statistics from training.

    `x`: of dims (N, C, ...). `mean`, `variance`: one number for each channel; `scale`, `shift`: the same, or
    None. Otherwise as `layer_norm`.

    >>> import numpy as np, restride as rs
    >>> rs.batch_norm(np.ones((1, 2, 1, 1), np.float32), [0, 1], [4, 1], epsilon=0).ravel().tolist()
    [0.5, 0.0]
    """
    operands = mean, variance, scale, shift
    return _BATCH.call(_batch, (epsilon,), plain_key((epsilon,)), x, out, operands)


# --- problems -----------------------------------------------------------------------------------------------


def _layer(x: Any, out: Any, operands: Sequence[Any], parameters: Parameters, signed: CallKey | None) -> Any:
    (scale, shift), (axis, epsilon) = operands or (None, None), parameters
    ndims = _ndims_read(x)
    at = _LAYER.axis(axis, ndims, x.desc if isinstance(x, Memory) else x.shape)
    if out is not None and _LAYER.destination(out, engine_of(x, out, None)).desc.ndims != ndims:
        ndims_of_out = ndims_of(out)
        raise refuse("RS-R10:tensors-different-shapes", call="layer_norm", ndims=ndims, ndims2=ndims_of_out)
    weights = {ARG_SCALE: scale, ARG_SHIFT: shift}
    if ndims == 1:  # a single row, as a batch of one
        row, target = (None if array is None else _reshaped(array, (1, *_dims(array))) for array in (x, out))
        return _reshaped(_normalized(LayerNormalizationProblem, row, target, weights, epsilon), _dims(x))
    turned, target = (None if array is None else with_axis_last(array, at) for array in (x, out))
    call_key = signed if at == ndims - 1 else None
    result = _normalized(LayerNormalizationProblem, turned, target, weights, epsilon, signed=call_key)
    return with_axis_at(result, at)


def _group(
    x: Any, out: Any, operands: Sequence[Any], parameters: Parameters, signed: CallKey | None
) -> Memory:
    (scale, shift), (groups, epsilon) = operands or (None, None), parameters
    count, weights = parse_int(groups, "group_norm: groups"), {ARG_SCALE: scale, ARG_SHIFT: shift}
    return _normalized(GroupNormalizationProblem, x, out, weights, epsilon, groups=count, signed=signed)


def _batch(
    x: Any, out: Any, operands: Sequence[Any], parameters: Parameters, signed: CallKey | None
) -> Memory:
    mean, variance, scale, shift = operands
    numbers = {ARG_SCALE: scale, ARG_SHIFT: shift, ARG_MEAN: mean, ARG_VARIANCE: variance}
    return _normalized(BatchNormalizationProblem, x, out, numbers, parameters[0], signed=signed)


def _ndims_read(x: Any) -> int:
    """Return the number of axes. Raises InvalidArguments for anything that cannot be read."""
    if isinstance(x, np.ndarray) and x.ndim:
        return x.ndim
    return _LAYER.source(x, engine_of(x, None, None)).desc.ndims


def _dims(x: Any) -> tuple[int, ...]:
    return tuple(x.desc.dims if isinstance(x, Memory) else x.shape)


def _reshaped(x: Any, dims: tuple[int, ...]) -> Any:
    """Return an array or a memory with other dims, over the same bytes."""
    return Memory(x.desc.reshape(dims), x.engine, x) if isinstance(x, Memory) else x.reshape(dims)


def _normalized(
    of: type[NormForwardProblem],
    x: Any,
    out: Any,
    weights: dict[int, Any],
    epsilon: Any,
    *,
    groups: int = 1,
    signed: CallKey | None = None,
) -> Memory:
    """Return the normalized tensor. `weights`: scale, shift and statistics by argument, or None."""
    kind = of.norm_kind
    function = {NormKind.layer: _LAYER, NormKind.group: _GROUP, NormKind.batch: _BATCH}[kind]
    engine = engine_of(x, out, None)
    source = function.source(x, engine)
    src = check_known(function.name, "x", source.desc)
    check_data(function, src)
    target = function.target(out, src, src.dims, engine)
    check_data(function, target.desc)
    check_same_dims(function.name, [("x", src), ("out", target.desc)])
    check_written(function.name, "out", target.desc)
    if kind is NormKind.group and not (groups > 0 and src.dims[1] % groups == 0):
        raise refuse("RS-R10:groups", call=function.name, groups=groups, src=src, dims=src.dims[1])
    small = parse_epsilon(function.name, epsilon)
    count = src.dims[-1 if kind is NormKind.layer else 1]
    real = DataType.f64 if DataType.f64 in (src.data_type, target.desc.data_type) else DataType.f32
    weights = {arg: value for arg, value in weights.items() if value is not None or arg not in _TYPED}
    numbers = numbers_of(function, weights, count, real)
    types = (DataType.parse(numbers[arg].dtype) for arg in _TYPED if arg in numbers)
    flags = NormFlags(
        use_global_stats=kind is NormKind.batch,
        use_scale=ARG_SCALE in weights,
        use_shift=ARG_SHIFT in weights,
    )
    stats = MemoryDesc(stat_dims(kind, src.dims, groups), real)
    own = MemoryDesc((count,), next(types, real), "a")
    problem = of(kind, src, target.desc, stats, own, flags, False, groups, small)
    more = {arg: function.source(array, engine) for arg, array in numbers.items()}
    function.run(problem, engine, {ARG_SRC: source, ARG_DST: target, **more}, signed)
    return target


def parse_epsilon(what: str, epsilon: Any) -> float:
    """Return the summand of a variance, as f32. Raises InvalidArguments if negative or not finite."""
    small = to_f32(epsilon, f"{what}: epsilon")
    if isfinite(small) and small >= 0:
        return small
    why, hint = "it is added to a variance under the square root", "use a small number, such as 1e-5"
    raise refuse("RS-P06:epsilon", what=what, small=small, why=why, hint=hint)


def check_data(function: ArrayFunction, md: MemoryDesc) -> None:
    """Raise for unsupported tensors: as for the primitives, except that f64 is accepted."""
    check_normalized(function.name, md.as_type(DataType.f32) if md.data_type is DataType.f64 else md)


def numbers_of(
    function: ArrayFunction, weights: dict[int, Any], count: int, real: DataType = DataType.f32
) -> dict[int, Array]:
    """Return `count` numbers for each argument: scale and shift of one type, statistics as `real`."""
    numbers = {arg: _numbers(function, arg, weight, count) for arg, weight in weights.items()}
    kinds = {array.dtype for arg, array in numbers.items() if arg in _TYPED}
    common = kinds.pop() if len(kinds) == 1 else np.dtype(np.float32)
    kind = common if common in _WEIGHT_TYPES and real is DataType.f32 else real.numpy
    return {arg: np.ascontiguousarray(x, kind if arg in _TYPED else real.numpy) for arg, x in numbers.items()}


_TYPED = (ARG_SCALE, ARG_SHIFT)
_NAMES: dict[int, str] = {
    ARG_SCALE: "scale",
    ARG_SHIFT: "shift",
    ARG_MEAN: "mean",
    ARG_VARIANCE: "variance",
}


def _numbers(function: ArrayFunction, arg: int, value: Any, count: int) -> Array:
    try:
        array = value.to_numpy() if isinstance(value, Memory) else np.asarray(value)
        # ml_dtypes has types of kind V.
        is_number = array.dtype.kind in "fiu" or array.dtype in _WEIGHT_TYPES
        if array.shape == (count,) and is_number and not is_masked(value):
            return array
    except Exception:  # NumPy cannot convert it
        pass
    raise refuse(
        "RS-R10:numbers-index-axis",
        call=function.name,
        names=_NAMES[arg],
        value=short_repr(value),
        count=count,
    )
