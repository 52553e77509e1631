"""Functions on the arrays that people hold: dims stay logical, memory changes underneath.

A warm call costs one look-up: what depends only on shapes, strides, types and formats is worked out by the
first call, and kept (`frontend/binder.py`); later ones bring addresses and values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy as np

from .desc.arguments import ARG_FROM, ARG_TO
from .desc.memory_desc import MemoryDesc
from .dtypes import DataType
from .errors import Error, InvalidArguments
from .foreign import attribute_of
from .frontend.arithmetic import BoundAttributes, CallArithmetic, bind
from .frontend.array_key import read_from, write_to
from .frontend.binder import BoundCall, CallWords, SignedCall, find_call, keep_call
from .frontend.carriers import NumpyType, is_same_type, move_of_bits, of_bits, shape_of_array
from .frontend.formats import format_key, target_desc, type_key
from .frontend.hints import told_to_owner
from .frontend.nibbles import as_bytes, is_nibbles
from .frontend.operands import engine_of, source_of, target_of
from .frontend.results import maker_of
from .frontend.signature import NO_VALUES, Values, read_values
from .frontend.tensors import (
    as_array,
    as_numpy,
    as_target,
    back_to,
    is_foreign,
    narrowed,
    written,
)
from .primitives.checks import overlaps
from .primitives.reorder import Reorder
from .runtime.alloc import Array
from .runtime.engine import Engine
from .runtime.memory import Memory, register_mover
from .runtime.stream import Stream
from .runtime.transfer import settle

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from numpy.typing import NDArray

    from .typing import (
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
    dtype   the data type of the result; that of a `MemoryDesc` in `dst`, of `out`, or of `x`, unless given
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
                    signed = SignedCall(signature, (source,), target, values)
                elif target is None:
                    return call.into_new(source, values)
                elif call.into(source, target, values):
                    return out
        arithmetic = CallArithmetic(scale, zero_point, axis, beta, post_ops)
        return _general(x, dst, src, dtype, arithmetic, out, engine, signed)
    except Error as error:
        error.drop_frames()
        raise


# --- the general path: any array or Memory, any engine ----------------------------------------------------


def _general(
    x: Any,
    dst: Any,
    src: Any,
    dtype: Any,
    given: CallArithmetic,
    out: Any,
    engine: Engine | str | None,
    signed: SignedCall | None = None,
) -> Any:
    read = as_array(x, "reorder: x")
    # NumPy makes int64 of the integers of a list, which moves can do and arithmetic cannot.
    x = narrowed(read) if read is not x and _is_computed(read, dtype, given, out) else read
    if is_foreign(x) or is_foreign(out):
        return _of_others(x, dst, src, dtype, given, out, engine)
    if isinstance(x, np.ndarray) and x.ndim == 0:
        return _of_one(x, dst, src, dtype, given, out, engine)
    if is_nibbles(x):
        dtype = x.dtype if dtype is None and out is None and not isinstance(dst, MemoryDesc) else dtype
        x = as_bytes(x)
    if is_nibbles(out):
        return _into_nibbles(x, dst, src, dtype, given, out, engine)
    move = move_of_bits(x, format_key(dst), src, dtype, out) if given.is_nothing else None
    if move is None:
        made = _run(x, dst, src, dtype, given, out, engine, signed, None)
    else:
        made = _run(move.x, move.dst, move.src, None, given, move.out, engine, signed, move.dtype)
    return made if out is None else out


def _run(
    x: Any,
    dst: Any,
    src: Any,
    dtype: Any,
    given: CallArithmetic,
    out: Any,
    engine: Engine | str | None,
    signed: SignedCall | None,
    moved: NumpyType | None,
) -> Any:
    """Check, run and remember a call on arrays of NumPy and memories; the new result, or None for `out`.

    `moved`: the type of the elements whose bits are moved.
    """
    runs = engine_of(x, out, engine)
    source = source_of(x, src, runs, out)
    if out is None:
        target = Memory(target_desc(source.desc, dst, dtype), runs)
    else:
        target = target_of(source.desc, dst, dtype, out, runs)
    is_array = not target.desc.inner_blks and target.desc.data_type.bits >= 8 and target.engine.device.is_host
    if moved is not None and out is None and not is_array:
        raise _no_memory_of(moved, target)
    ends = target.engine, source.engine
    if not runs.device.is_host and all(end.device.is_host for end in ends):
        return _by_way_of(runs, source, target, given, out)
    # A device that holds one of the two does the work.
    runs = next((end for end in ends if not end.device.is_host), runs)
    bound = bind(given, source.desc, target.desc, runs)
    if out is None and bound.attr.freeze().sum is not None:
        raise InvalidArguments(
            "reorder: beta without out",
            code="RS-A09",
            why="beta multiplies what out holds",
            hint="pass out=",
        )
    primitive = _execute(source, target, bound, runs)
    if signed is not None:
        _remember(signed, primitive, source, target, bound, moved)
    if out is not None:
        return None
    if not is_array:
        return target
    return np.asarray(target) if moved is None else of_bits(np.asarray(target), moved)


def _is_computed(x: Any, dtype: Any, given: CallArithmetic, out: Any) -> bool:
    """True where a call does more than to move elements of the type of `x`."""
    wanted = attribute_of(out, "dtype") if dtype is None else dtype
    return not given.is_nothing or not (wanted is None or is_same_type(wanted, x.dtype))


def _of_one(
    x: Array, dst: Any, src: Any, dtype: Any, given: CallArithmetic, out: Any, engine: Engine | str | None
) -> Any:
    """One number, an array of no axes, as an array of one axis, and back."""
    target = out.reshape(1) if isinstance(out, np.ndarray) and out.ndim == 0 else out
    made = _general(x.reshape(1), dst, src, dtype, given, target, engine)
    if out is not None:
        return out
    return made.reshape(()) if isinstance(made, np.ndarray) else made


def _no_memory_of(moved: NumpyType, target: Memory) -> InvalidArguments:
    near = {"i": "convert, x.astype(np.int32), or ", "f": "convert, x.astype(np.float32), or "}.get(
        moved.kind, ""
    )
    return InvalidArguments(
        f"reorder: no Memory of {moved}",
        code="RS-A02",
        where="dst in blocks" if target.desc.inner_blks else f"engine {target.engine}",
        why=f"the result would be a Memory, which holds the data types only: none is {moved}",
        hint=f"{near}pass the physical array, out=np.empty({shape_of_array(target.desc, moved)}, x.dtype)",
    )


def _by_way_of(device: Engine, source: Memory, target: Memory, given: CallArithmetic, out: Any) -> Any:
    """Done on a device for memories of the host: `out` is brought there, written, and brought back."""
    there = Memory(target.desc, device)
    _general(target, None, None, None, CallArithmetic(), there, device)
    _general(source, None, None, None, given, there, device)
    _general(there, None, None, None, CallArithmetic(), target, device)
    return out


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
        raise told_to_owner(x if is_foreign(x) else out, error) from None
    return back_to(x, made) if out is None else written(out)


def _moved(memory: Memory, format: Any, data_type: Any) -> Memory:
    """What `Memory.to` does."""
    if not memory:
        raise InvalidArguments(
            "Memory.to is not possible",
            code="RS-M36",
            why="the memory is empty",
            hint="give it a descriptor and an engine",
        )
    target = Memory(target_desc(memory.desc, format, data_type), memory.engine)
    return reorder(memory, None, out=target)


register_mover(_moved)


def _into_nibbles(
    x: Any, dst: Any, src: Any, dtype: Any, given: CallArithmetic, out: Array, engine: Engine | str | None
) -> Array:
    """Pack, and give NumPy its elements one to a byte."""
    kind = DataType.parse(out.dtype)
    if dtype is not None and DataType.parse(dtype) is not kind:
        hint = "leave dtype out, or pass another out"
        raise InvalidArguments(
            f"reorder: out holds {kind}, dtype says otherwise",
            code="RS-A06",
            why="the array's own type says what its elements are",
            hint=hint,
        )
    device = engine_of(x, out, engine)
    packed = Memory(target_desc(source_of(x, src, device).desc, dst, kind), device)
    if not out.flags.writeable or packed.desc.dims != out.shape:
        fits = packed.desc.dims == out.shape
        raise InvalidArguments(
            "reorder: out will not do",
            code="RS-A07",
            where=f"dst {packed.desc}",
            why="its memory must not be written" if fits else f"its shape is {out.shape}",
            hint="pass a writable array of the dims of x",
        )
    _general(out, None, None, None, CallArithmetic(), packed, engine)
    _general(x, dst, src, None, given, packed, engine)
    out[...] = packed.to_numpy()
    return out


def _execute(source: Memory, target: Memory, bound: BoundAttributes, engine: Engine) -> Reorder:
    """Run the primitive, to its end."""
    if overlaps(source, target):
        raise InvalidArguments(
            "reorder: x and out overlap",
            code="RS-N09",
            where=f"src {source.desc}; dst {target.desc}",
            why="elements would be written before they are read (N9)",
            hint="pass another array, or a copy of x; in place works where layout and element size are the "
            "same",
        )
    primitive, stream = Reorder(source, target, bound.attr), Stream(engine)
    settle(source, target, *bound.extras.values())
    primitive.execute(stream, {ARG_FROM: source, ARG_TO: target, **bound.extras})
    stream.wait()
    return primitive


def _remember(
    signed: SignedCall,
    primitive: Reorder,
    source: Memory,
    target: Memory,
    bound: BoundAttributes,
    moved: NumpyType | None,
) -> None:
    """Let later calls of the same signature go straight to the machine code."""
    impl, values = primitive._check_usable(), signed.values
    words = CallWords(impl.computation)
    if values is not NO_VALUES:
        found = CallWords.of_values(impl.computation, values, bound.attr.freeze(), bound.extras)
        if found is None:
            return
        words = found
    out_below = 0 if signed.target is None else signed.target[1] - target._address
    below = (signed.sources[0][1] - source._address,)
    make = maker_of(target.desc, moved) if signed.target is None else None
    mds = (source.desc,), target.desc
    call = BoundCall(impl, *mds, below, out_below, make=make, words=words, may_be_in_place=True)
    keep_call(signed.signature, call)
