"""Reorders of arrays: dims stay logical, the layout in memory changes.

A warm call costs one look-up: whatever depends only on shapes, strides, types and formats is computed by the
first call and cached (`arrays/calls/binder.py`); later calls only pass addresses and values.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..desc.arguments import ARG_FROM, ARG_TO
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType, twin_of
from ..errors import Error, refuse
from ..foreign import attribute_of
from ..model.checks import overlaps
from ..ops.reorder import Reorder
from ..runtime.alloc import Array
from ..runtime.engine import Engine
from ..runtime.memory import Memory, register_mover
from ..runtime.stream import Stream
from ..runtime.transfer import synchronize
from .calls.arithmetic import CallArithmetic, bind
from .calls.array_kinds import read_from, write_to
from .calls.binder import CallKey, ParamPacker, cache_call, find_call
from .calls.carriers import (
    NumpyType,
    as_bytes,
    is_nibbles,
    is_same_type,
    move_of_bits,
    of_bits,
    shape_of_array,
)
from .calls.formats import format_key, target_desc, type_key
from .calls.operands import engine_of, source_of, target_of
from .calls.signature import NO_VALUES, Values, read_values
from .calls.tensors import as_array, for_owner, is_foreign, narrowed
from .many_axes import has_many_axes, joined, result_of

__all__ = ["reorder", "target_desc"]

_CPU = Engine("cpu")
_NO_BETA = 0.0


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
        request = _ReorderCall(x, dst, src, dtype, arithmetic, out, engine, signed)
        if not is_foreign(x) and not is_foreign(out):
            return _general(request)
        return _of_others(request)
    except Error as error:
        error.drop_frames()
        raise


class _ReorderCall(NamedTuple):
    """The arguments of a call and the key under which later calls find it; `dtype` and so on as in `reorder`.

    `bit_type`: the type of the elements whose bits are moved.
    """

    x: Any
    dst: Any = None
    src: Any = None
    dtype: Any = None
    arithmetic: CallArithmetic = CallArithmetic()
    out: Any = None
    engine: Engine | str | None = None
    signed: CallKey | None = None
    bit_type: NumpyType | None = None

    def read(self) -> Any:
        """Return lists and the like as arrays; arrays, memory objects and tensors unchanged."""
        read = as_array(self.x, "reorder: x")
        if read is self.x:
            return read
        # NumPy makes the integers of a list int64: moves keep that, arithmetic uses s32.
        dtype = attribute_of(self.out, "dtype") if self.dtype is None else self.dtype
        is_moved = self.arithmetic.is_nothing and (dtype is None or is_same_type(dtype, read.dtype))
        return read if is_moved else narrowed(read)


def _of_others(call: _ReorderCall) -> Any:
    """Reorder arrays of other libraries through NumPy arrays over the same bytes."""
    args = call.arithmetic
    names = ("scale", "zero_point", "axis", "beta", "post_ops")
    options = {name: getattr(args, name) for name in names} | {"dtype": call.dtype, "engine": call.engine}

    def work(x: Any, out: Any) -> Any:
        return reorder(x, call.dst, src=call.src, out=out, **options)

    return for_owner("reorder: x", call.read(), call.out, work)


def _general(call: _ReorderCall) -> Any:
    """Reorder arrays, anything convertible to them, and memory objects; return `out` or the new result."""
    x, out, dst, dtype = call.read(), call.out, call.dst, call.dtype
    if isinstance(x, np.ndarray) and x.ndim == 0:  # a scalar, as an array of one axis
        target = out.reshape(1) if isinstance(out, np.ndarray) and out.ndim == 0 else out
        result = _general(call._replace(x=x.reshape(1), out=target, signed=None))
        result = result.reshape(()) if isinstance(result, np.ndarray) else result
        return result if out is None else out
    if has_many_axes(x) and call.src is dtype is None and call.arithmetic.is_nothing:
        strides = format_key(dst)
        if strides is None or isinstance(strides, tuple):
            result = result_of("reorder", x, strides, out)
            source, target = joined(x, result)
            _run(call._replace(x=source, dst=None, out=target, signed=call.signed if out is result else None))
            return result
    if is_nibbles(x):
        dtype = x.dtype if dtype is None and out is None and not isinstance(dst, MemoryDesc) else dtype
        x = as_bytes(x)
    call = call._replace(x=x, dtype=dtype)
    if is_nibbles(out):
        return _into_nibbles(call)
    move = move_of_bits(x, format_key(dst), call.src, dtype, out) if call.arithmetic.is_nothing else None
    if move is not None:
        call = call._replace(
            x=move.x, dst=move.dst, src=move.src, dtype=None, out=move.out, bit_type=move.dtype
        )
    result = _run(call)
    return result if out is None else out


def _run(call: _ReorderCall) -> Any:
    """Check, run and cache a call on arrays and memory objects; return the result, or None for `out`."""
    x, out, bit_type, args = call.x, call.out, call.bit_type, call.arithmetic
    runs = engine_of(x, out, call.engine)
    source = source_of(x, call.src, runs, out)
    if out is None:
        target = Memory(target_desc(source.desc, call.dst, call.dtype), runs)
    else:
        target = target_of(source.desc, call.dst, call.dtype, out, runs)
    is_array = not target.desc.inner_blks and target.desc.data_type.bits >= 8 and target.engine.device.is_host
    if bit_type is not None and out is None and not is_array:
        kind = 'x.dtype.newbyteorder("=")' if twin_of(bit_type) else "np.float32"
        raise refuse(
            "RS-A02:no-memory",
            moved=bit_type,
            where="blocked dst" if target.desc.inner_blks else f"engine {target.engine}",
            near="" if bit_type.kind == "c" else f"convert, x.astype({kind}), or ",
            shape_of_array=shape_of_array(target.desc, bit_type),
        )
    ends = target.engine, source.engine
    if not runs.device.is_host and all(end.device.is_host for end in ends):
        # Host memory processed on a device: `out` is copied there, written, and copied back.
        there = Memory(target.desc, runs)
        _general(_ReorderCall(target, out=there, engine=runs))
        _general(_ReorderCall(source, arithmetic=args, out=there, engine=runs))
        _general(_ReorderCall(there, out=target, engine=runs))
        return None
    # If one of the two is on a device, the device does the work.
    runs = next((end for end in ends if not end.device.is_host), runs)
    bound = bind(args, source.desc, target.desc, runs)
    attr = bound.attr.freeze()
    if out is None and attr.reads_dst:
        raise refuse("RS-A09")
    if overlaps(source, target):
        raise refuse("RS-N09:x-out-overlap", desc=source.desc, target_desc=target.desc)
    primitive, stream = Reorder(source, target, bound.attr), Stream(runs)
    synchronize(source, target, *bound.extras.values())
    primitive.execute(stream, {ARG_FROM: source, ARG_TO: target, **bound.extras})
    stream.wait()
    if call.signed is not None:  # later calls of the same signature run the machine code directly
        impl, values = primitive._check_usable(), call.signed.values
        if values is NO_VALUES:
            words: ParamPacker | None = ParamPacker(impl.computation)
        else:
            words = ParamPacker.of_values(impl.computation, values, attr, bound.extras)
        if words is not None:
            cache_call(call.signed, impl, [source], target, dtype=bit_type, words=words, may_be_in_place=True)
    if out is not None or not is_array:
        return target
    return np.asarray(target) if bit_type is None else of_bits(np.asarray(target), bit_type)


def _into_nibbles(call: _ReorderCall) -> Array:
    """Pack, and return NumPy elements one to a byte."""
    out, dtype, engine = call.out, call.dtype, call.engine
    kind = DataType.parse(out.dtype)
    if dtype is not None and DataType.parse(dtype) is not kind:
        raise refuse("RS-A06:out-holds-dtype", kind=kind)
    device = engine_of(call.x, out, engine)
    packed = Memory(target_desc(source_of(call.x, call.src, device).desc, call.dst, kind), device)
    if packed.desc.dims != out.shape:
        raise refuse("RS-A07:shape", desc=packed.desc, shape=out.shape)
    if not out.flags.writeable:
        raise refuse("RS-A07:read-only", desc=packed.desc)
    _general(_ReorderCall(out, out=packed, engine=engine))
    _general(call._replace(dtype=None, out=packed, signed=None))
    out[...] = packed.to_numpy()
    array: Array = out
    return array


def _convert_memory(memory: Memory, format: Any, data_type: Any) -> Memory:
    """Implement `Memory.to`."""
    if not memory:
        raise refuse("RS-M36:memory-empty")
    target = Memory(target_desc(memory.desc, format, data_type), memory.engine)
    reorder(memory, None, out=target)
    return target


register_mover(_convert_memory)
