"""Functions on the arrays that people hold: dims stay logical, memory changes underneath.

A warm call costs one look-up: what depends only on shapes, strides, types and formats is worked out by the
first call, and kept (`arrays/calls/binder.py`); later ones bring addresses and values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, overload

from ..errors import Error, refuse
from ..runtime.engine import Engine
from ..runtime.memory import Memory, register_mover
from .calls.arithmetic import CallArithmetic
from .calls.array_kinds import read_from, write_to
from .calls.binder import CallKey, find_call
from .calls.error_translation import translate_hint
from .calls.formats import format_key, target_desc, type_key
from .calls.signature import NO_VALUES, Values, read_values
from .calls.tensors import (
    as_numpy,
    as_target,
    back_to,
    is_foreign,
    written,
)
from .checked_reorder import as_source, reorder_anything

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from numpy.typing import NDArray

    from ..typing import (
        ArrayLike,
        BlockedTag,
        FormatLike,
        Host,
        NibbleName,
        OtherArray,
        Owned,
        PlainFormat,
        PlainTag,
        ReorderOptions,
        Scalar,
        Tensor,
        TypeLike,
        WholeType,
    )

__all__ = ["reorder", "target_desc"]

_CPU = Engine("cpu")
_NO_BETA = 0.0


@overload
def reorder(
    x: OtherArray | ArrayLike,
    dst: FormatLike = None,
    *,
    src: FormatLike = None,
    dtype: TypeLike | None = None,
    out: Owned,
    engine: Host = None,
    **options: Unpack[ReorderOptions],
) -> Owned: ...
@overload
def reorder(
    x: OtherArray | ArrayLike,
    dst: BlockedTag,
    *,
    src: FormatLike = None,
    dtype: TypeLike | None = None,
    engine: Host = None,
    **options: Unpack[ReorderOptions],
) -> Memory: ...
@overload
def reorder(
    x: OtherArray | ArrayLike,
    dst: FormatLike = None,
    *,
    src: FormatLike = None,
    dtype: NibbleName,
    engine: Host = None,
    **options: Unpack[ReorderOptions],
) -> Memory: ...
@overload
def reorder(
    x: NDArray[Scalar],
    dst: PlainFormat = None,
    *,
    src: FormatLike = None,
    dtype: None = None,
    engine: None = None,
    **options: Unpack[ReorderOptions],
) -> NDArray[Scalar]: ...
@overload
def reorder(
    x: NDArray[Any],
    dst: PlainFormat = None,
    *,
    src: FormatLike = None,
    dtype: WholeType = None,
    engine: None = None,
    **options: Unpack[ReorderOptions],
) -> NDArray[Any]: ...
@overload
def reorder(
    x: Memory,
    dst: PlainTag | Sequence[int],
    *,
    dtype: WholeType = None,
    engine: None = None,
    **options: Unpack[ReorderOptions],
) -> NDArray[Any]: ...
@overload
def reorder(
    x: Tensor,
    dst: PlainFormat | torch.memory_format = None,
    *,
    src: FormatLike = None,
    dtype: WholeType = None,
    engine: None = None,
    **options: Unpack[ReorderOptions],
) -> Tensor: ...
@overload
def reorder(
    x: ArrayLike,
    dst: PlainFormat = None,
    *,
    src: FormatLike = None,
    dtype: WholeType = None,
    engine: None = None,
    **options: Unpack[ReorderOptions],
) -> NDArray[Any]: ...
@overload
def reorder(
    x: OtherArray | ArrayLike,
    dst: FormatLike = None,
    *,
    src: FormatLike = None,
    dtype: TypeLike | None = None,
    engine: Host = None,
    **options: Unpack[ReorderOptions],
) -> Any: ...
def reorder(
    x: Any,
    dst: Any = None,
    *,
    src: Any = None,
    dtype: Any = None,
    scale: Any = None,
    zero_point: Any = None,
    axis: Any = None,
    beta: Any = _NO_BETA,
    post_ops: Any = None,
    out: Any = None,
    engine: Engine | str | None = None,
) -> Any:
    """Copy `x` into another memory format and type: `dst = saturate(scale * x + beta * out)` (N1).

    x       a NumPy array, whose strides say how it lies, what `np.asarray` makes one of, a tensor of torch,
            an array of JAX, what has `__dlpack__`, or a `Memory`. Where nothing is computed, of any numbers
            of 1, 2, 4, 8 or 16 bytes in either byte order
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
    try:
        signed, source, target = None, read_from(x, src), None if out is None else write_to(out)
        is_here = engine is None or engine is _CPU or (type(engine) is str and engine == "cpu")
        if is_here and source is not None and (out is None or target is not None):
            if scale is zero_point is post_ops is axis is None and beta is _NO_BETA:
                values: Values | None = NO_VALUES
            else:
                values = read_values(scale, zero_point, axis, beta, post_ops)
            if values is not None:
                format = dst if type(dst) is str else format_key(dst)
                kind = dtype if dtype is None else type_key(dtype)
                signature = "reorder", source[0], target and target[0], format, kind, values.structure
                call = find_call(signature)
                if call is None:
                    signed = CallKey(signature, (source,), target, values)
                elif target is None:
                    return call.into_new(source, values)
                elif call.into(source, target, values):
                    return out
        arithmetic = CallArithmetic(scale, zero_point, axis, beta, post_ops)
        if is_foreign(x) or is_foreign(out):
            return _of_others(as_source(x, dtype, arithmetic, out), dst, src, dtype, arithmetic, out, engine)
        return reorder_anything(x, dst, src, dtype, arithmetic, out, engine, signed)
    except Error as error:
        error.drop_frames()
        raise


def _of_others(
    x: Any, dst: Any, src: Any, dtype: Any, given: CallArithmetic, out: Any, engine: Engine | str | None
) -> Any:
    """Arrays of other libraries: over the same bytes as NumPy's, and back."""
    target: Any = None if out is None else as_target(out, "reorder: out")
    named = {name: getattr(given, name) for name in ("scale", "zero_point", "axis", "beta", "post_ops")}
    source = as_numpy(x, "reorder: x")
    try:
        made = reorder(source, dst, src=src, dtype=dtype, out=target, engine=engine, **named)
    except Error as error:
        raise translate_hint(x if is_foreign(x) else out, error) from None
    return back_to(x, made) if out is None else written(out)


def _moved(memory: Memory, format: Any, data_type: Any) -> Memory:
    """What `Memory.to` does."""
    if not memory:
        raise refuse("RS-M36:memory-empty")
    target = Memory(target_desc(memory.desc, format, data_type), memory.engine)
    return reorder(memory, None, out=target)


register_mover(_moved)
