"""Functions on arrays, as tests/support/array_stub.py writes them (pytest --update-golden)."""

from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray

from ..desc.build import Format
from ..desc.literals import TorchType
from ..dtypes import DataType
from ..runtime.memory import Memory
from ..typing import (
    ArrayLike,
    BlockedTag,
    Extents,
    Factor,
    FormatLike,
    Host,
    NibbleName,
    OtherArray,
    Owned,
    PlainFormat,
    PlainTag,
    PostOpsLike,
    Scalar,
    Tensor,
    TypeLike,
    TypeName,
    Vector,
    WayName,
    WholeType,
)
from .scaling.quantized_tensor import QuantizedTensor

@overload
def add_n(
    arrays: Iterable[OtherArray | ArrayLike],
    scales: Iterable[float] | None,
    dtype: TypeLike | None,
    out: Owned,
) -> Owned:
    """Add arrays of the same dims in one pass: `scales[0] * arrays[0] + scales[1] * arrays[1] + ...`.

    arrays  1 to 1024 NumPy arrays, torch tensors, `Memory` objects, or objects with `__dlpack__`, of any
            layouts and types
    scales  one number for each, rounded to f32; None: all are 1
    dtype   the type of the result; optional if `out` determines it, or all arrays have the same
    out     destination: an array or `Memory` of the same dims; it is returned, and can be one of `arrays`

    Arrays are added in order in f32; in f64 if one is f64, u32, s64 or u64, or if integers whose sum may
    exceed f32, such as s32, are added with scales of 1. The result is rounded and saturated once (N1). It is
    of the kind of the first array, in the format of the first blocked one, else of the first.

    Raises InvalidArguments, before anything is written, for shapes and types that do not match, and for an
    `out` that is read-only or overlaps an array of another layout.

    >>> import numpy as np, restride as rs
    >>> rs.add_n([np.full(3, 100, np.uint8), np.full(3, 100, np.uint8), np.full(3, 100, np.uint8)])
    array([255, 255, 255], dtype=uint8)
    """

@overload
def add_n(
    arrays: Iterable[OtherArray | ArrayLike],
    scales: Iterable[float] | None = None,
    dtype: TypeLike | None = None,
    *,
    out: Owned,
) -> Owned: ...
@overload
def add_n(
    arrays: Iterable[Owned], scales: Iterable[float] | None = None, dtype: WholeType = None
) -> Owned: ...
@overload
def add_n(
    arrays: Iterable[OtherArray | ArrayLike],
    scales: Iterable[float] | None = None,
    dtype: TypeLike | None = None,
    out: OtherArray | None = None,
) -> Any: ...
@overload
def attention(
    q: OtherArray | ArrayLike,
    k: QuantizedTensor | OtherArray | ArrayLike,
    v: QuantizedTensor | OtherArray | ArrayLike,
    *,
    mask: OtherArray | ArrayLike | None = None,
    lengths: OtherArray | ArrayLike | int | None = None,
    sinks: OtherArray | ArrayLike | None = None,
    scale: float | None = None,
    causal: bool | str = False,
    window: Sequence[int] | None = None,
    soft_cap: float = 0.0,
    offsets: OtherArray | ArrayLike | None = None,
    key_offsets: OtherArray | ArrayLike | None = None,
    key_scales: OtherArray | ArrayLike | None = None,
    value_scales: OtherArray | ArrayLike | None = None,
    out: Owned,
) -> Owned:
    """Scaled dot-product attention: for each query, the values weighted by how well it matches their keys.

    q         (batch, heads, queries, width); missing leading dims are 1: a NumPy array, lists, a torch
              tensor, any object with `__dlpack__`, or a `Memory`, in any layout or format
    k         (batch, key heads, keys, width): each key head serves a group of consecutive heads of `q`
    v         (batch, key heads, keys, width of values)
    mask      dims of the scores, (batch, heads, queries, keys), each possibly 1: floats are added to the
              scores; in booleans and bytes, 0 hides a key
    lengths   the number of valid keys, for each element of the batch or one number for all; keys and values
              beyond it are ignored, whatever they contain
    sinks     (heads): a score that takes part in the softmax but has no value
    scale     factor of the products; None: 1 / sqrt(width)
    causal    True, or "bottom_right": the last query sees every key, the one before it one key fewer, and so
              on. "top_left": query i sees keys 0 to i, as in torch's `is_causal`; equivalent if there are as
              many queries as keys
    window    a pair: how many keys before and after its own position a query sees, -1 for all
    soft_cap  c replaces each score x by c * tanh(x / c)
    offsets   packed sequences, stored without padding, that do not see each other: the start of each and the
              end of the last, in ascending order. Causality and windows apply to each sequence separately
    key_offsets   the same for keys and values, if their lengths differ
    key_scales    (batch, key heads, keys): the factor of each key, if keys are s8 or f8. A `QuantizedTensor`,
                  such as `rs.quantize(k, "s8", group=0)`, has its own
    value_scales  the same for values
    out       destination in any layout: an array or `Memory` of (batch, heads, queries, width of values); it
              is returned

    Everything is read in place: interleaved heads, as in `x.reshape(batch, n, heads, width).swapaxes(1, 2)`,
    are not copied. The result has the type and the layout of `q`, dense: NumPy in, NumPy out; a tensor in, a
    tensor out; a `Memory` in, a `Memory` of the same format out. Computation is in f32, or in f64 if any
    array is f64. Queries that see no key get zeros.

    Raises InvalidArguments, before anything is written, for dims that do not match, and for an `out` that is
    read-only, has other dims or overlaps an input; Unimplemented for integers.

    >>> import numpy as np, restride as rs
    >>> x = 4 * np.eye(3, dtype=np.float32)
    >>> rs.attention(x, x, x, causal=True).round(2)
    array([[4., 0., 0.],
           [0., 4., 0.],
           [0., 0., 4.]], dtype=float32)
    """

@overload
def attention(
    q: Owned,
    k: QuantizedTensor | OtherArray | ArrayLike,
    v: QuantizedTensor | OtherArray | ArrayLike,
    *,
    mask: OtherArray | ArrayLike | None = None,
    lengths: OtherArray | ArrayLike | int | None = None,
    sinks: OtherArray | ArrayLike | None = None,
    scale: float | None = None,
    causal: bool | str = False,
    window: Sequence[int] | None = None,
    soft_cap: float = 0.0,
    offsets: OtherArray | ArrayLike | None = None,
    key_offsets: OtherArray | ArrayLike | None = None,
    key_scales: OtherArray | ArrayLike | None = None,
    value_scales: OtherArray | ArrayLike | None = None,
) -> Owned: ...
@overload
def attention(
    q: ArrayLike,
    k: QuantizedTensor | OtherArray | ArrayLike,
    v: QuantizedTensor | OtherArray | ArrayLike,
    *,
    mask: OtherArray | ArrayLike | None = None,
    lengths: OtherArray | ArrayLike | int | None = None,
    sinks: OtherArray | ArrayLike | None = None,
    scale: float | None = None,
    causal: bool | str = False,
    window: Sequence[int] | None = None,
    soft_cap: float = 0.0,
    offsets: OtherArray | ArrayLike | None = None,
    key_offsets: OtherArray | ArrayLike | None = None,
    key_scales: OtherArray | ArrayLike | None = None,
    value_scales: OtherArray | ArrayLike | None = None,
) -> NDArray[Any]: ...
@overload
def channel_shuffle(x: Owned, groups: int) -> Owned:
    """Apply torch's `channel_shuffle`: axis 1 in `groups` groups; `shuffle_channels(x, group=groups)`.

    >>> import numpy as np, restride as rs
    >>> rs.channel_shuffle(np.arange(12).reshape(1, 12), 3)
    array([[ 0,  4,  8,  1,  5,  9,  2,  6, 10,  3,  7, 11]])
    """

@overload
def channel_shuffle(x: ArrayLike, groups: int) -> NDArray[Any]: ...
@overload
def concat(
    arrays: Iterable[OtherArray | ArrayLike],
    axis: int,
    dst: FormatLike,
    dtype: TypeLike | None,
    out: Owned,
    *,
    layout: FormatLike = None,
) -> Owned:
    """Join arrays along an axis; each can have its own layout and type.

    arrays  1 to 1024 NumPy arrays, torch tensors, `Memory` objects, or objects with `__dlpack__`, equal in
            all dims except `axis`; if nothing is converted, of any one type of 1, 2, 4, 8 or 16 bytes
    axis    the axis along which they are joined; negative values count from the end
    dst     the format of the result: a tag ("nhwc", "nChw16c"), strides in elements or a `MemoryDesc`; None:
            that of the first blocked array, else of the first, as `Concat.PrimitiveDesc` chooses it
    dtype   the type of the result; optional if `dst` or `out` determines it, or all arrays have the same
    out     destination: an array or `Memory` with the dims of the result; it is returned. An array that is
            already in its place in `out` is not copied

    The result is of the kind of the first array; a blocked result, or one of 4-bit elements, is a `Memory`.
    `layout` is the old name of `dst`.

    Raises InvalidArguments, before anything is written, for shapes, types and formats that do not match, and
    for an `out` that is read-only or overlaps an array in any other place.

    >>> import numpy as np, restride as rs
    >>> rs.concat([np.zeros((1, 2), np.int8), np.ones((1, 2), np.int8)])
    array([[0, 0],
           [1, 1]], dtype=int8)
    """

@overload
def concat(
    arrays: Iterable[OtherArray | ArrayLike],
    axis: int = 0,
    dst: FormatLike = None,
    dtype: TypeLike | None = None,
    *,
    out: Owned,
    layout: FormatLike = None,
) -> Owned: ...
@overload
def concat(
    arrays: Iterable[OtherArray | ArrayLike], axis: int, dst: BlockedTag, dtype: TypeLike | None = None
) -> Memory: ...
@overload
def concat(
    arrays: Iterable[OtherArray | ArrayLike], axis: int = 0, *, dst: BlockedTag, dtype: TypeLike | None = None
) -> Memory: ...
@overload
def concat(
    arrays: Iterable[Owned],
    axis: int = 0,
    dst: PlainFormat = None,
    dtype: WholeType = None,
    *,
    layout: PlainFormat = None,
) -> Owned: ...
@overload
def concat(
    arrays: Iterable[ArrayLike], axis: int = 0, dst: PlainFormat = None, dtype: WholeType = None
) -> NDArray[Any]: ...
@overload
def concat(
    arrays: Iterable[OtherArray | ArrayLike],
    axis: int = 0,
    dst: FormatLike = None,
    dtype: TypeLike | None = None,
    out: OtherArray | None = None,
    *,
    layout: FormatLike = None,
) -> Any: ...
@overload
def convolution(
    x: OtherArray | ArrayLike,
    weights: OtherArray | ArrayLike,
    bias: Vector = None,
    *,
    stride: Extents = 1,
    padding: Extents = 0,
    dilation: Extents = 1,
    groups: int = 1,
    dtype: TypeLike | None = None,
    out: Owned,
) -> Owned:
    """Return the convolution of a batch with one to three spatial dims.

    x        (N, C, ...): a NumPy array, lists, a torch tensor, any object with `__dlpack__`, or a `Memory`
    weights  (O, C / groups, ...); a `Memory` of any format, such as `pack_weights` returns, is read in place:
             with several groups it is (groups, O / groups, C / groups, ...)
    bias     (O)
    stride, padding, dilation  one number, or one for each spatial dim; a dilation of 1 is dense
    dtype    type of the result; by default that of `x`, or s32 if `x` is integer
    out      destination: an array or `Memory`, which is returned

    Array results have the layout of `x`; a `Memory` result has the format that is fastest on this machine.

    Raises InvalidArguments, before anything is written, for dims that do not match; Unimplemented for
    unsupported combinations of types.

    >>> import numpy as np, restride as rs
    >>> x = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    >>> rs.convolution(x, np.ones((1, 1, 2, 2), np.float32)).tolist()
    [[[[8.0, 12.0], [20.0, 24.0]]]]
    """

@overload
def convolution(
    x: NDArray[Any],
    weights: OtherArray | ArrayLike,
    bias: Vector = None,
    *,
    stride: Extents = 1,
    padding: Extents = 0,
    dilation: Extents = 1,
    groups: int = 1,
    dtype: TypeLike | None = None,
) -> NDArray[Any]: ...
@overload
def convolution(
    x: Owned,
    weights: OtherArray | ArrayLike,
    bias: Vector = None,
    *,
    stride: Extents = 1,
    padding: Extents = 0,
    dilation: Extents = 1,
    groups: int = 1,
    dtype: TypeLike | None = None,
) -> Owned: ...
@overload
def convolution(
    x: ArrayLike,
    weights: OtherArray | ArrayLike,
    bias: Vector = None,
    *,
    stride: Extents = 1,
    padding: Extents = 0,
    dilation: Extents = 1,
    groups: int = 1,
    dtype: TypeLike | None = None,
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
    out: Owned,
) -> Owned:
    """Return `scale * (q - zero_point)` as floats: the inverse of `quantize`, up to rounding.

    `q`: an array or a `Memory`, or a `QuantizedTensor`, which has its own scales. Scales and zero points with
    as many dims as `q`, at least two, are for groups: arrays or memory objects of any layout; the zero point
    can also be one number. Otherwise `scale` and `zero_point` are one number, or with `axis` one for each
    index of that axis. `dst` and `out` as in `reorder`. `dtype`: by default that of `out`, or of a
    `MemoryDesc` in `dst`, else f32. Raises InvalidArguments unless the result has floats.

    >>> import numpy as np, restride as rs
    >>> rs.dequantize(np.int8([-2, 0, 3]), 0.5, 1).tolist()
    [-1.5, -0.5, 1.0]
    """

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
@overload
def empty(dims: Sequence[int], dtype: TypeLike, format: BlockedTag) -> Memory:
    """Return a new array with undefined content, in the memory used for results: for `out=`, and for sources.

    `dims`: logical, as in `MemoryDesc`. `format`: the layout; None is row-major. A plain format gives an
    array of shape `dims`; a blocked one, and elements of 4 bits, a `Memory`. From 256 KB up, the bytes are
    page-aligned, on huge pages if the system has them; once nothing refers to them, the next result of that
    size can reuse them.

    Raises InvalidArguments if no descriptor can be created, OutOfMemory if the system refuses the memory.

    >>> import restride as rs
    >>> rs.empty((8, 64, 56, 56), "bf16", "nhwc").strides
    (401408, 2, 7168, 128)
    """

@overload
def empty(dims: Sequence[int], dtype: TypeLike = "f32", *, format: BlockedTag) -> Memory: ...
@overload
def empty(dims: Sequence[int], dtype: NibbleName, format: Format = None) -> Memory: ...
@overload
def empty(
    dims: Sequence[int],
    dtype: TypeName | DataType | np.dtype[Any] | type[Any] | TorchType = "f32",
    format: PlainFormat = None,
) -> NDArray[Any]: ...
@overload
def empty(dims: Sequence[int], dtype: TypeLike = "f32", format: Format = None) -> Any: ...
@overload
def layer_norm(
    x: OtherArray | ArrayLike,
    scale: Vector = None,
    shift: Vector = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-05,
    out: Owned,
) -> Owned:
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

@overload
def layer_norm(
    x: Owned, scale: Vector = None, shift: Vector = None, *, axis: int = -1, epsilon: float = 1e-05
) -> Owned: ...
@overload
def layer_norm(
    x: ArrayLike, scale: Vector = None, shift: Vector = None, *, axis: int = -1, epsilon: float = 1e-05
) -> NDArray[Any]: ...
@overload
def group_norm(
    x: OtherArray | ArrayLike,
    groups: int,
    scale: Vector = None,
    shift: Vector = None,
    *,
    epsilon: float = 1e-05,
    out: Owned,
) -> Owned:
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

@overload
def group_norm(
    x: Owned, groups: int, scale: Vector = None, shift: Vector = None, *, epsilon: float = 1e-05
) -> Owned: ...
@overload
def group_norm(
    x: ArrayLike, groups: int, scale: Vector = None, shift: Vector = None, *, epsilon: float = 1e-05
) -> NDArray[Any]: ...
@overload
def batch_norm(
    x: OtherArray | ArrayLike,
    mean: OtherArray | ArrayLike,
    variance: OtherArray | ArrayLike,
    scale: Vector = None,
    shift: Vector = None,
    *,
    epsilon: float = 1e-05,
    out: Owned,
) -> Owned:
    """Return `(x - mean) / sqrt(variance + epsilon) * scale + shift`, with given statistics from training.

    `x`: of dims (N, C, ...). `mean`, `variance`: one number for each channel; `scale`, `shift`: the same, or
    None. Otherwise as `layer_norm`.

    >>> import numpy as np, restride as rs
    >>> rs.batch_norm(np.ones((1, 2, 1, 1), np.float32), [0, 1], [4, 1], epsilon=0).ravel().tolist()
    [0.5, 0.0]
    """

@overload
def batch_norm(
    x: Owned,
    mean: OtherArray | ArrayLike,
    variance: OtherArray | ArrayLike,
    scale: Vector = None,
    shift: Vector = None,
    *,
    epsilon: float = 1e-05,
) -> Owned: ...
@overload
def batch_norm(
    x: ArrayLike,
    mean: OtherArray | ArrayLike,
    variance: OtherArray | ArrayLike,
    scale: Vector = None,
    shift: Vector = None,
    *,
    epsilon: float = 1e-05,
) -> NDArray[Any]: ...
@overload
def matmul(
    x: OtherArray | ArrayLike,
    weights: QuantizedTensor | OtherArray | ArrayLike,
    bias: Vector = None,
    *,
    dtype: TypeLike | None = None,
    out: Owned,
    fpmath_mode: str = "strict",
) -> Owned:
    """Return the matrix product `x @ weights + bias`.

    x        (..., M, K): a NumPy array, lists, a torch tensor, any object with `__dlpack__`, or a `Memory`
    weights  (K, N), or (..., K, N) with as many dims as `x`, where dims of 1 are broadcast; a `Memory` of any
             format, such as `pack_weights` returns, is read in place; a `QuantizedTensor` with groups along
             the rows, `rs.quantize(w, "s4", 0, group=32)`, is decoded in registers
    bias     (N)
    dtype    type of the result; by default that of `x`, or s32 if `x` is integer
    out      destination: an array or `Memory` of (..., M, N), which is returned
    fpmath_mode  "strict"; "any": if the weights are quantized to integers, rows of `x` are quantized to 8
             bits too, so that bytes are multiplied; "bf16": with 4-bit weights, rows are rounded to bf16 if
             the processor multiplies pairs of them

    Floats are accumulated in f32, or in f64 if one is f64; integers exactly. NumPy in, NumPy out; a tensor
    in, a tensor out; a `Memory` in, a `Memory` out.

    Raises InvalidArguments, before anything is written, for dims that do not match; Unimplemented for
    unsupported combinations of types.

    >>> import numpy as np, restride as rs
    >>> rs.matmul(np.eye(2, dtype=np.float32), [[1.0, 2.0], [3.0, 4.0]], [10.0, 20.0])
    array([[11., 22.],
           [13., 24.]], dtype=float32)
    """

@overload
def matmul(
    x: NDArray[Any],
    weights: QuantizedTensor | OtherArray | ArrayLike,
    bias: Vector = None,
    *,
    dtype: TypeLike | None = None,
    fpmath_mode: str = "strict",
) -> NDArray[Any]: ...
@overload
def matmul(
    x: Owned,
    weights: QuantizedTensor | OtherArray | ArrayLike,
    bias: Vector = None,
    *,
    dtype: TypeLike | None = None,
    fpmath_mode: str = "strict",
) -> Owned: ...
@overload
def matmul(
    x: ArrayLike,
    weights: QuantizedTensor | OtherArray | ArrayLike,
    bias: Vector = None,
    *,
    dtype: TypeLike | None = None,
    fpmath_mode: str = "strict",
) -> NDArray[Any]: ...
@overload
def normalize(
    x: OtherArray | ArrayLike | Memory,
    mean: ArrayLike,
    std: ArrayLike,
    dst: BlockedTag,
    *,
    axis: int = -1,
    unit: float | None = None,
    dtype: TypeLike = "f32",
) -> Memory:
    """Return `(x / unit - mean) / std` for each channel, in another type and layout, in one pass.

    x      decoded images: a NumPy array, a torch tensor, any object with `__dlpack__`, or a `Memory`
    mean   a number, or one for each channel
    std    standard deviation: a number, or one for each channel
    dst    the format of the result: None for row-major (NCHW), "nhwc", "nChw16c", or anything `reorder`
           accepts
    axis   the channel axis of `x`; by default the last, as in (N, H, W, C)
    unit   the value in `x` that represents 1; by default 255 if `x` is u8, otherwise 1
    dtype  the type of the result
    out    destination; it is returned

    The result has the channels in axis 1, (N, C, H, W), or in axis 0 for a single image of three axes. It is
    computed in f32 as `(x - mean * unit) * (1 / (unit * std))`, or in f64 if `x` or the result is f64. A
    plain format gives an array of the kind of `x`, a blocked one a `Memory`.

    Raises InvalidArguments, before anything is written, for an axis that `x` does not have, for numbers that
    are not finite or not one for each channel, for a `std` or a `unit` of 0, and whenever `reorder` does.

    >>> import numpy as np, restride as rs
    >>> photos = np.full((1, 2, 2, 3), 255, np.uint8)
    >>> rs.normalize(photos, (0.5, 0.5, 0.25), (0.5, 0.25, 0.25))[0, :, 0, 0].round(4).tolist()
    [1.0, 2.0, 3.0]
    """

@overload
def normalize(
    x: Tensor,
    mean: ArrayLike,
    std: ArrayLike,
    dst: PlainFormat = None,
    *,
    axis: int = -1,
    unit: float | None = None,
    dtype: WholeType = "f32",
) -> Tensor: ...
@overload
def normalize(
    x: ArrayLike | Memory,
    mean: ArrayLike,
    std: ArrayLike,
    dst: PlainFormat = None,
    *,
    axis: int = -1,
    unit: float | None = None,
    dtype: WholeType = "f32",
) -> NDArray[Any]: ...
@overload
def normalize(
    x: OtherArray | ArrayLike | Memory,
    mean: ArrayLike,
    std: ArrayLike,
    dst: FormatLike = None,
    *,
    axis: int = -1,
    unit: float | None = None,
    dtype: TypeLike = "f32",
    out: Any = None,
) -> Any: ...
@overload
def pool(
    x: OtherArray | ArrayLike,
    kernel: Extents | None = None,
    *,
    alg: str = "max",
    stride: Extents | None = None,
    padding: Extents | Sequence[Sequence[int]] = 0,
    dilation: Extents = 1,
    out: Owned,
) -> Owned:
    """Return the maximum or the average of each window of an image.

    x         of dims (N, C, W), (N, C, H, W) or (N, C, D, H, W): a NumPy array, a torch tensor, any object
              with `__dlpack__`, or a `Memory` of any format
    kernel    window size for each spatial dim, or one number for all; None: the whole image, which leaves one
              element for each channel
    alg       "max", "avg_include_padding" ("avg" for short) or "avg_exclude_padding"
    stride    distance between windows; by default the size of the kernel
    padding   number of positions added at both ends; a pair for a spatial dim whose ends differ
    dilation  distance between the positions of a window; 1 is dense
    out       destination of any layout and type; it is returned

    Only windows entirely inside image and padding count. A maximum is never below the lowest finite value of
    the type, as in oneDNN, even if all elements are -inf.

    The result has the type and the layout of `x`, dense: NumPy in, NumPy out; a tensor in, a tensor out; a
    `Memory` in, a `Memory` of the same format out, with zero padding.

    Raises InvalidArguments, before anything is written, for invalid windows, and for an `out` that is
    read-only, has other dims or overlaps `x`; Unimplemented for a type without arithmetic.

    >>> import numpy as np, restride as rs
    >>> image = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> rs.pool(image, 2).tolist()
    [[[[5.0, 7.0], [13.0, 15.0]]]]
    >>> rs.pool(image, alg="avg").ravel().tolist()
    [7.5]
    """

@overload
def pool(
    x: Owned,
    kernel: Extents | None = None,
    *,
    alg: str = "max",
    stride: Extents | None = None,
    padding: Extents | Sequence[Sequence[int]] = 0,
    dilation: Extents = 1,
) -> Owned: ...
@overload
def pool(
    x: ArrayLike,
    kernel: Extents | None = None,
    *,
    alg: str = "max",
    stride: Extents | None = None,
    padding: Extents | Sequence[Sequence[int]] = 0,
    dilation: Extents = 1,
) -> NDArray[Any]: ...
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
) -> QuantizedTensor:
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
    x: OtherArray | ArrayLike, dtype: TypeLike, axis: None, symmetric: bool, dst: BlockedTag
) -> tuple[Memory, np.float32, int]: ...
@overload
def quantize(
    x: OtherArray | ArrayLike,
    dtype: TypeLike = "s8",
    axis: None = None,
    symmetric: bool = True,
    *,
    dst: BlockedTag,
) -> tuple[Memory, np.float32, int]: ...
@overload
def quantize(
    x: OtherArray | ArrayLike, dtype: TypeLike, axis: int | None, symmetric: bool, dst: BlockedTag
) -> tuple[Memory, Any, Any]: ...
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
    x: Tensor, dtype: WholeType = "s8", axis: None = None, symmetric: bool = True, dst: PlainFormat = None
) -> tuple[Tensor, np.float32, int]: ...
@overload
def quantize(
    x: Tensor, dtype: WholeType, axis: int, symmetric: bool = True, dst: PlainFormat = None
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def quantize(
    x: Tensor, dtype: WholeType = "s8", *, axis: int, symmetric: bool = True, dst: PlainFormat = None
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def quantize(
    x: NDArray[Any] | ArrayLike,
    dtype: WholeType = "s8",
    axis: None = None,
    symmetric: bool = True,
    dst: PlainFormat = None,
) -> tuple[NDArray[Any], np.float32, int]: ...
@overload
def quantize(
    x: NDArray[Any] | ArrayLike, dtype: WholeType, axis: int, symmetric: bool = True, dst: PlainFormat = None
) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.int32]]: ...
@overload
def quantize(
    x: NDArray[Any] | ArrayLike,
    dtype: WholeType = "s8",
    *,
    axis: int,
    symmetric: bool = True,
    dst: PlainFormat = None,
) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.int32]]: ...
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
@overload
def reorder(
    x: OtherArray | ArrayLike,
    dst: FormatLike = None,
    *,
    src: FormatLike = None,
    dtype: TypeLike | None = None,
    scale: Factor = None,
    zero_point: Factor = None,
    axis: int | None = None,
    beta: float = 0.0,
    post_ops: PostOpsLike = None,
    out: Owned,
    engine: Host = None,
) -> Owned:
    """Copy `x` into another memory format and type: `dst = saturate(scale * x + beta * out)` (N1).

    x       a NumPy array, whose strides describe its layout, anything that `np.asarray` accepts, a torch
            tensor, a JAX array, any object with `__dlpack__`, or a `Memory`. If nothing is computed, numbers
            of 1, 2, 4, 8 or 16 bytes in either byte order, and more than 12 axes if `dst` is None or strides,
            are accepted too
    dst     a tag ("nhwc", "acdb", "nChw16c"), `torch.channels_last`, strides in elements, a `MemoryDesc`, or
            None, the default, to keep the layout
    src     the format of `x` if its strides cannot express it: with a blocked tag or a `MemoryDesc`, `x` is a
            physical array. With a tag, its dims are those of `out`, else padded
    dtype   the data type of the result; by default that of a `MemoryDesc` in `dst`, of `out`, or of `x`.
            Floats are rounded to the nearest even integer and saturated: without a scale, everything between
            -0.5 and 0.5 becomes 0. `rs.quantize` finds scales
    scale   a factor, or with `axis` one for each index of that axis; an array of one value is a number. An
            array or `Memory` of as many axes as `x`, at least two, has one for each group of elements; its
            extents divide the dims. (groups, number) adds a scale for the whole tensor
    zero_point  an integer, or with `axis` one for each index, or for groups as `scale`: an integer result is
            `scale * x + zero_point`; if only `x` is integer, the result is `scale * (x - zero_point)`
    beta    factor of the previous content of `out`, which is added before the zero point
    post_ops  a `PostOps`, or entries such as `["relu", ("clip", 0, 6), ("add", bias)]`, applied before the
            zero point; operands are broadcast
    out     destination: an array or `Memory` of the same dims, or the physical array of a blocked `dst`; it
            is returned
    engine  an `Engine` or its name; by default that of a `Memory` among the arguments, else the CPU. A SYCL
            engine copies host arrays to its device; without `out`, the result is a `Memory` there

    Dims are logical and do not change: `reorder(x, "nhwc")` of an (N, C, H, W) array is an (N, C, H, W) array
    whose memory is NHWC. A plain destination gives an array of the kind of `x`, or a NumPy array for a
    `Memory`; a blocked one, or one of 4-bit elements, which NumPy cannot pack, gives a `Memory`.

    Raises InvalidArguments, before anything is written, for invalid formats, shapes and types, a read-only or
    overlapping `out`, and scales and operands that do not match.

    >>> import numpy as np, restride as rs
    >>> x = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    >>> rs.reorder(x, "nhwc").strides
    (96, 4, 32, 8)
    >>> rs.reorder(x, "nChw16c", dtype="s8").desc.padded_dims
    (1, 16, 3, 4)
    """

@overload
def reorder(
    x: OtherArray | ArrayLike,
    dst: BlockedTag,
    *,
    src: FormatLike = None,
    dtype: TypeLike | None = None,
    scale: Factor = None,
    zero_point: Factor = None,
    axis: int | None = None,
    beta: float = 0.0,
    post_ops: PostOpsLike = None,
    engine: Host = None,
) -> Memory: ...
@overload
def reorder(
    x: OtherArray | ArrayLike,
    dst: FormatLike = None,
    *,
    src: FormatLike = None,
    dtype: NibbleName,
    scale: Factor = None,
    zero_point: Factor = None,
    axis: int | None = None,
    beta: float = 0.0,
    post_ops: PostOpsLike = None,
    engine: Host = None,
) -> Memory: ...
@overload
def reorder(
    x: NDArray[Scalar],
    dst: PlainFormat = None,
    *,
    src: FormatLike = None,
    dtype: None = None,
    scale: Factor = None,
    zero_point: Factor = None,
    axis: int | None = None,
    beta: float = 0.0,
    post_ops: PostOpsLike = None,
    engine: None = None,
) -> NDArray[Scalar]: ...
@overload
def reorder(
    x: NDArray[Any],
    dst: PlainFormat = None,
    *,
    src: FormatLike = None,
    dtype: WholeType = None,
    scale: Factor = None,
    zero_point: Factor = None,
    axis: int | None = None,
    beta: float = 0.0,
    post_ops: PostOpsLike = None,
    engine: None = None,
) -> NDArray[Any]: ...
@overload
def reorder(
    x: Memory,
    dst: PlainTag | Sequence[int],
    *,
    dtype: WholeType = None,
    scale: Factor = None,
    zero_point: Factor = None,
    axis: int | None = None,
    beta: float = 0.0,
    post_ops: PostOpsLike = None,
    engine: None = None,
) -> NDArray[Any]: ...
@overload
def reorder(
    x: Tensor,
    dst: PlainFormat | torch.memory_format = None,
    *,
    src: FormatLike = None,
    dtype: WholeType = None,
    scale: Factor = None,
    zero_point: Factor = None,
    axis: int | None = None,
    beta: float = 0.0,
    post_ops: PostOpsLike = None,
    engine: None = None,
) -> Tensor: ...
@overload
def reorder(
    x: ArrayLike,
    dst: PlainFormat = None,
    *,
    src: FormatLike = None,
    dtype: WholeType = None,
    scale: Factor = None,
    zero_point: Factor = None,
    axis: int | None = None,
    beta: float = 0.0,
    post_ops: PostOpsLike = None,
    engine: None = None,
) -> NDArray[Any]: ...
@overload
def reorder(
    x: OtherArray | ArrayLike,
    dst: FormatLike = None,
    *,
    src: FormatLike = None,
    dtype: TypeLike | None = None,
    scale: Factor = None,
    zero_point: Factor = None,
    axis: int | None = None,
    beta: float = 0.0,
    post_ops: PostOpsLike = None,
    engine: Host = None,
) -> Any: ...
@overload
def shuffle(x: OtherArray | ArrayLike, *, group_size: int, axis: int = 1, out: Owned) -> Owned:
    """Apply oneDNN's shuffle, `dst[u + v * C/G] = src[u * G + v]`, along an axis of extent C; G is the group
    size.

    x           a NumPy array of numbers of 1, 2, 4, 8 or 16 bytes in either byte order, lists, a torch
                tensor, any object with `__dlpack__`, or a `Memory`, possibly blocked
    group_size  a divisor of C, from 1 to C; the number of groups, as counted elsewhere, is C / group_size
    axis        0 or greater
    out         destination of any layout: an array or `Memory` with the dims and the type of `x`, which
                shares no byte with it; it is returned

    Bits are moved, so NaNs keep their payload. The result has the layout of `x`, dense: NumPy in, NumPy out;
    a tensor in, a tensor out; a `Memory` in, a `Memory` of the same format out, with zero padding.

    Raises InvalidArguments, before anything is written, for an axis that `x` does not have, a group size that
    does not divide it, non-numeric elements, and an `out` that is read-only, does not match or overlaps `x`.

    >>> import numpy as np, restride as rs
    >>> rs.shuffle(np.arange(12).reshape(1, 12), group_size=4)
    array([[ 0,  4,  8,  1,  5,  9,  2,  6, 10,  3,  7, 11]])
    """

@overload
def shuffle(x: Owned, *, group_size: int, axis: int = 1) -> Owned: ...
@overload
def shuffle(x: ArrayLike, *, group_size: int, axis: int = 1) -> NDArray[Any]: ...
@overload
def shuffle_channels(x: OtherArray | ArrayLike, *, group: int = 1, axis: int = 1, out: Owned) -> Owned:
    """Apply OpenVINO's ShuffleChannels-1: view the axis as `group` groups and transpose them.

    `group`: a divisor of C, from 1; it is C / group_size of `shuffle`. A negative `axis` counts from the end.
    Otherwise as `shuffle`.

    >>> import numpy as np, restride as rs
    >>> rs.shuffle_channels(np.arange(12).reshape(1, 12), group=3)
    array([[ 0,  4,  8,  1,  5,  9,  2,  6, 10,  3,  7, 11]])
    """

@overload
def shuffle_channels(x: Owned, *, group: int = 1, axis: int = 1) -> Owned: ...
@overload
def shuffle_channels(x: ArrayLike, *, group: int = 1, axis: int = 1) -> NDArray[Any]: ...
@overload
def softmax(x: OtherArray | ArrayLike, axis: int = -1, *, log: bool = False, out: Owned) -> Owned:
    """Return `e**(x - m) / s` along an axis, with m the maximum along the axis and s the sum of the powers.

    x     a NumPy array, lists, a torch tensor, any object with `__dlpack__`, or a `Memory` of any format
    axis  the axis along which results sum to 1; negative values count from the end
    log   return the logarithm instead, `x - m - ln(s)`
    out   destination of any layout and type: an array or `Memory` with the dims of `x`, or `x` itself; it is
          returned

    Values are computed in f32, or in f64 if `x` or `out` is f64 or has integers of 32 bits or more. The
    result has the type and the layout of `x`, dense, or f32 if `x` has integers: NumPy in, NumPy out; a
    tensor in, a tensor out; a `Memory` in, a `Memory` of the same format out, with zero padding.

    Raises InvalidArguments, before anything is written, for an axis that `x` does not have, and for an `out`
    that is read-only, has other dims or overlaps `x`; Unimplemented for a type without arithmetic.

    >>> import numpy as np, restride as rs
    >>> rs.softmax(np.array([[0.0, 0.0], [0.0, np.log(3)]], np.float32)).round(2)
    array([[0.5 , 0.5 ],
           [0.25, 0.75]], dtype=float32)
    """

@overload
def softmax(x: Owned, axis: int = -1, *, log: bool = False) -> Owned: ...
@overload
def softmax(x: ArrayLike, axis: int = -1, *, log: bool = False) -> NDArray[Any]: ...
