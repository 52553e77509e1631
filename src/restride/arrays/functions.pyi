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

    arrays  1 to 1024 NumPy arrays, tensors of torch, `Memory` objects, or what has `__dlpack__`, of any
            layouts and types
    scales  one number for each, rounded to f32; None: all are 1
    dtype   the type of the result; may be left out where `out` says it, or all arrays share it
    out     where to write: an array or `Memory` of the same dims; it is returned, and may be one of `arrays`

    Arrays are added in their order, as f32; as f64 where one is f64, u32, s64 or u64, or where integers whose
    sum f32 may not hold, such as s32, are added with scales of 1. The result is rounded and saturated once
    (N1). It is of the kind of the first array, in the format of the first one with blocks, else of the first.

    Raises InvalidArguments, before anything is written, for shapes and types that do not fit, and for an
    `out` that is read-only or overlaps an array that is laid out otherwise.

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
    """Scaled dot-product attention: for each query the values, weighted by how well it fits their keys.

    q         (batch, heads, queries, width); leading dims that are not there are 1: a NumPy array, lists, a
              tensor of torch, what has `__dlpack__`, or a `Memory`, in any layout or format
    k         (batch, key heads, keys, width): each of its heads serves as many neighbors of `q`
    v         (batch, key heads, keys, width of values)
    mask      of the dims of the scores, (batch, heads, queries, keys), or 1 in their place: floats are added
              to the scores, of truth values and bytes 0 hides a key
    lengths   how many keys there are, for each element of the batch or one number for all; what lies behind
              has no share, whatever it is
    sinks     (heads): a score that takes a share and has no value
    scale     of the products; 1 / sqrt(width) where it is None
    causal    True, or "bottom_right": the last query sees every key, one before it one key fewer. "top_left":
              query i sees keys 0 to i, as torch's `is_causal` has it; with as many queries as keys it is the
              same
    window    a pair: how many keys before and behind its place a query sees, -1 for all
    soft_cap  c makes c * tanh(x / c) of scores
    offsets   sequences lie one behind the other, without padding, and see nothing of each other: where each
              begins, and where the last one ends, in ascending order. Causality and windows are of each alone
    key_offsets   the same of keys and values, where these are not as many
    key_scales    (batch, key heads, keys): what each key is multiplied by, where keys are s8 or f8. A
                  `QuantizedTensor`, as `rs.quantize(k, "s8", group=0)` makes it, has its own
    value_scales  the same of values
    out       where to write, in any layout: an array or `Memory` of (batch, heads, queries, width of values);
              it is returned

    All is read where it lies: heads side by side, as `x.reshape(batch, n, heads, width).swapaxes(1, 2)` has
    them, are not moved. The result has the type and the layout of `q`, dense: NumPy in, NumPy out; a tensor
    in, a tensor out; a `Memory` in, a `Memory` of the same format out. All is computed as f32, as f64 where
    an array is f64. Queries that see no key get zeros.

    Raises InvalidArguments, before anything is written, for dims that do not fit, and an `out` that is
    read-only, of other dims or overlaps what is read; Unimplemented for integers.

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
    """torch's `channel_shuffle`: axis 1 in `groups` groups; `shuffle_channels(x, group=groups)`.

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
    """Join arrays along an axis: each may have a layout and a type of its own.

    arrays  1 to 1024 NumPy arrays, tensors of torch, `Memory` objects, or what has `__dlpack__`, equal in all
            dims but that of `axis`; where nothing is converted, of any one type of 1, 2, 4, 8 or 16 bytes
    axis    the axis along which they follow each other; negative ones count from the end
    dst     the format of the result: a tag ("nhwc", "nChw16c"), strides in elements or a `MemoryDesc`; None:
            that of the first array with blocks, else of the first, as `Concat.PrimitiveDesc` chooses it
    dtype   the type of the result; may be left out where `dst` or `out` says it, or all arrays share it
    out     where to write: an array or `Memory` of the dims of the result; it is returned. An array that lies
            in it already, in its own place, is not copied

    The result is of the kind of the first array; a blocked one, or one of 4-bit elements, is a `Memory`.
    `layout` is the older name of `dst`.

    Raises InvalidArguments, before anything is written, for shapes, types and formats that do not fit, and
    for an `out` that is read-only or overlaps an array anywhere else.

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
    """The convolution of a batch of one to three spatial dims.

    x        (N, C, ...): a NumPy array, lists, a tensor of torch, what has `__dlpack__`, or a `Memory`
    weights  (O, C / groups, ...); a `Memory` of any format, as `pack_weights` makes it, is read as it is: of
             (groups, O / groups, C / groups, ...) where there are groups
    bias     (O)
    stride, padding, dilation  one number, or one for each spatial dim; a dilation of 1 is dense
    dtype    of the result: that of `x`, and s32 where `x` is of integers, unless it is named
    out      where to write: an array or `Memory`, which is returned

    Arrays come back in the layout of `x`; a `Memory` comes back in the format that is fastest here.

    Raises InvalidArguments, before anything is written, for dims that do not fit; Unimplemented for types
    that are not multiplied together.

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
    """`scale * (q - zero_point)` as floats: the inverse of `quantize`, up to rounding.

    `q`: an array or a `Memory`, or a `QuantizedTensor`, which has its scales. Scales and zero points of as
    many dims as `q`, at least two, are of groups: arrays or memories of any layout, and the zero point may be
    one number. Otherwise `scale` and
    `zero_point` are one number, or with `axis` one for each index of that axis. `dst` and `out` as in
    `reorder`. `dtype`: that of `out`, or of a `MemoryDesc` in `dst`, unless given; else f32. Raises
    InvalidArguments for a result that is not of floats.

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
    """A new array of undefined content, in the memory that results get: for `out=`, and for sources.

    `dims`: logical, as in `MemoryDesc`. `format`: how they lie; None is row-major. A plain format gives an
    array of shape `dims`, a blocked one, and elements of 4 bits, a `Memory`. From 256 KB on the bytes are at
    a page, on huge pages where the system has them; when all that refers to them is gone, the next result of
    that size may have them.

    Raises InvalidArguments for what no descriptor can be made of, OutOfMemory where the system refuses.

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
    """`(x - mean) / sqrt(variance + epsilon) * scale + shift`, mean and variance along an axis.

    x        a NumPy array, a tensor of torch, what has `__dlpack__`, or a `Memory` of any format, of f64,
             f32, bf16, f16, s8 or u8
    scale    one number for each index of the axis, or None
    shift    the same
    axis     what is normalized: the last, as in rows of features, unless it is given; 1 for the channels of
             images, which may lie in any format
    epsilon  what is added to the variance
    out      where to write, in any layout and type: an array or `Memory` of the dims of `x`, or `x` itself;
             it is returned

    The result has the type and the layout of `x`, dense, and is f32 where `x` has integers: NumPy in, NumPy
    out; a tensor in, a tensor out; a `Memory` in, a `Memory` of the same format out, its padding zero. All is
    computed as f32, as f64 where `x` or `out` is f64.

    Raises InvalidArguments, before anything is written, for an axis that `x` has not, for a scale or a shift
    of another length, an epsilon below 0, and an `out` that is read-only, of other dims or overlaps `x`;
    Unimplemented for other types.

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
    """`(x - mean) / sqrt(variance + epsilon) * scale + shift`, mean and variance of groups of channels.

    `x`: of dims (N, C, ...), C a multiple of `groups`. `scale`, `shift`: one number for each channel, or
    None. The rest as in `layer_norm`.

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
    """`(x - mean) / sqrt(variance + epsilon) * scale + shift`, by the statistics that training has found.

    `x`: of dims (N, C, ...). `mean`, `variance`: one number for each channel; `scale`, `shift`: the same, or
    None. The rest as in `layer_norm`.

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
    """The product of matrices, `x @ weights + bias`.

    x        (..., M, K): a NumPy array, lists, a tensor of torch, what has `__dlpack__`, or a `Memory`
    weights  (K, N), or (..., K, N) with as many dims as `x`, of which those of 1 are repeated; a `Memory` of
             any format, as `pack_weights` makes it, is read as it is; a `QuantizedTensor` is decoded in
             registers where its groups are of rows, `rs.quantize(w, "s4", 0, group=32)`
    bias     (N)
    dtype    of the result: that of `x`, and s32 where `x` is of integers, unless it is named
    out      where to write: an array or `Memory` of (..., M, N), which is returned
    fpmath_mode  "strict"; "any": rows of `x` are quantized to 8 bits too where weights are quantized to
             integers, so that bytes are multiplied; "bf16": beside weights of 4 bits rows are rounded to bf16
             where the processor multiplies pairs of these

    Floats are summed as f32, or f64 where one is f64, integers exactly. NumPy in, NumPy out; a tensor in, a
    tensor out; a `Memory` in, a `Memory` out.

    Raises InvalidArguments, before anything is written, for dims that do not fit; Unimplemented for types
    that are not multiplied together.

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
    """`(x / unit - mean) / std` for each channel, in another type and layout, in one pass.

    x      images as they are decoded: a NumPy array, a tensor of torch, what has `__dlpack__`, or a `Memory`
    mean   a number, or one for each channel
    std    the same: the deviations
    dst    the format of the result: None for row-major (NCHW), "nhwc", "nChw16c", or what `reorder` takes
    axis   which axis of `x` holds the channels: the last, as in (N, H, W, C), unless it is given
    unit   what stands for 1 in `x`: 255 where it is u8, otherwise 1, unless it is given
    dtype  the type of the result
    out    where to write; it is returned

    The result has the channels in axis 1, (N, C, H, W), of one image of three axes in axis 0. It is computed
    as f32, `(x - mean * unit) * (1 / (unit * std))`, as f64 where `x` or the result is f64. A plain format
    gives an array of the kind of `x`, a blocked one a `Memory`.

    Raises InvalidArguments, before anything is written, for an axis that `x` has not, for numbers that are
    not one for each channel or not finite, for a deviation or a unit of 0, and for what `reorder` refuses.

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
    """The largest element of each window of an image, or their average.

    x         of dims (N, C, W), (N, C, H, W) or (N, C, D, H, W): a NumPy array, a tensor of torch, what has
              `__dlpack__`, or a `Memory` of any format
    kernel    how many positions a window has, for each spatial dim or one number for all; None: all of them,
              which leaves one element for each channel
    alg       "max", "avg_include_padding" ("avg" for short) or "avg_exclude_padding"
    stride    from one window to the next; as many as the kernel has positions unless it is given
    padding   how many positions are added at both ends; a pair for a spatial dim whose ends differ
    dilation  from one position of a window to the next; 1 is dense
    out       where to write, in any layout and type; it is returned

    A window counts where all of it lies within image and padding. One without an element above the least
    finite value of the type has that as its maximum, as in oneDNN: also where all are -inf.

    The result has the type and the layout of `x`, dense: NumPy in, NumPy out; a tensor in, a tensor out; a
    `Memory` in, a `Memory` of the same format out, its padding zero.

    Raises InvalidArguments, before anything is written, for windows that do not fit, and an `out` that is
    read-only, of other dims or overlaps `x`; Unimplemented for a type without arithmetic.

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
    """Quantise floats: `(q, scale, zero_point)` with `x` about `scale * (q - zero_point)`.

    x          an array or `Memory` of f64, f32, bf16, f16 or f8; results are arrays of its kind
    dtype      s8, u8, s4, u4, f8_e4m3 or f8_e5m2 (4-bit: `q` is a packed `Memory`); with groups also f4_e2m1
               and f4_e3m0. Or a way of quantising that has a name: "mxfp4", "mxfp8", "nvfp4", or one of
               ggml's blocks, as "q4_0" and "q4_k", which take no other words. `format` is another word for it
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

    x       a NumPy array, whose strides say how it lies, what `np.asarray` makes one of, a tensor of torch,
            an array of JAX, what has `__dlpack__`, or a `Memory`. Where nothing is computed, of any numbers
            of 1, 2, 4, 8 or 16 bytes in either byte order; `dst` of more than 12 axes is None or strides
    dst     a tag ("nhwc", "acdb", "nChw16c"), `torch.channels_last`, strides in elements, a `MemoryDesc`, or
            None, or left out, to keep the layout
    src     the format of `x` where its strides cannot say it: a blocked tag or a `MemoryDesc` makes it a
            physical array. Under a tag its dims are those of `out`, else padded
    dtype   the data type of the result; that of a `MemoryDesc` in `dst`, of `out`, or of `x`, unless given.
            Floats become integers by rounding to nearest even, and saturate: without a scale all that is
            between -0.5 and 0.5 becomes 0. `rs.quantize` finds scales
    scale   a number that multiplies, or with `axis` one for each index of that axis; an array of one value
            is a number. An array or `Memory` of as many axes as `x`, at least two, has one for each group of
            elements, its extents dividing the dims; (that, a number): times a scale of the whole tensor
    zero_point  a whole number, or with `axis` one for each index, or as `scale` for groups: added to a result
            of integers, `scale * x + zero_point`; where only `x` is of integers, `scale * (x - zero_point)`
    beta    a number that multiplies what `out` holds and adds it, before the zero point
    post_ops  a `PostOps`, or entries such as `["relu", ("clip", 0, 6), ("add", bias)]`, done before the zero
            point; operands broadcast
    out     where to write: an array or `Memory` of the same dims, or the physical array of a blocked `dst`;
            it is returned
    engine  an `Engine` or its name; that of a `Memory` among the arguments, else the CPU, unless given. A
            SYCL engine takes arrays of the host to its device; without `out`, the result is a `Memory` there

    Dims are logical and do not change: `reorder(x, "nhwc")` of an (N, C, H, W) array is an (N, C, H, W) array
    whose memory is NHWC. A plain destination gives an array of the kind of `x`, of NumPy for a `Memory`; a
    blocked one, and one of 4-bit elements, which NumPy cannot pack, a `Memory`.

    Raises InvalidArguments, before anything is written, for wrong formats, shapes and types, a read-only or
    overlapping `out`, scales and operands that do not fit.

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
    """oneDNN's shuffle: `dst[u + v * C/G] = src[u * G + v]` along an axis of C, G the group size.

    x           a NumPy array of any numbers of 1, 2, 4, 8 or 16 bytes in either byte order, lists, a tensor
                of torch, what has `__dlpack__`, or a `Memory`, blocked ones included
    group_size  from 1 to C, a divisor of it; the number of groups, as others count them, is C / group_size
    axis        from 0 to the last
    out         where to write, in any layout: an array or `Memory` of the dims and the type of `x`, which
                shares no byte with it; it is returned

    Bits are moved, so that NaNs keep their payload. The result has the layout of `x`, dense: NumPy in, NumPy
    out, a tensor in, a tensor out; a `Memory` in, a `Memory` of the same format out, its padding zero.

    Raises InvalidArguments, before anything is written, for an axis that `x` has not, a group size that does
    not divide it, elements that are no numbers, and an `out` that is read-only, different or overlapping.

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
    """OpenVINO's ShuffleChannels-1: the axis as `group` groups, transposed.

    `group`: from 1, a divisor of C; it is C / group_size of `shuffle`. `axis` may be negative, and counts
    from the end then. The rest as in `shuffle`.

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
    """`e**(x - m) / s` along an axis: m the largest there, s the sum of these powers.

    x     a NumPy array, lists, a tensor of torch, what has `__dlpack__`, or a `Memory` of any format
    axis  along which results add up to 1; negative ones count from the end
    log   the logarithm of that, `x - m - ln(s)`
    out   where to write, in any layout and type: an array or `Memory` of the dims of `x`, or `x` itself; it
          is returned

    Values are computed as f32, as f64 where `x` or `out` is f64 or of integers of 32 bits and more. The
    result has the type and the layout of `x`, dense, and is f32 where `x` has integers: NumPy in, NumPy out;
    a tensor in, a tensor out; a `Memory` in, a `Memory` of the same format out, its padding zero.

    Raises InvalidArguments, before anything is written, for an axis that `x` has not, and an `out` that is
    read-only, of other dims or overlaps `x`; Unimplemented for a type without arithmetic.

    >>> import numpy as np, restride as rs
    >>> rs.softmax(np.array([[0.0, 0.0], [0.0, np.log(3)]], np.float32)).round(2)
    array([[0.5 , 0.5 ],
           [0.25, 0.75]], dtype=float32)
    """

@overload
def softmax(x: Owned, axis: int = -1, *, log: bool = False) -> Owned: ...
@overload
def softmax(x: ArrayLike, axis: int = -1, *, log: bool = False) -> NDArray[Any]: ...
