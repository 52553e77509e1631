"""Reorders of any arrays and memories on any engine: all is checked here, and what fits is remembered."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..desc.arguments import ARG_FROM, ARG_TO
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..errors import Error, refuse
from ..foreign import attribute_of
from ..model.checks import overlaps
from ..ops.reorder import Reorder
from ..runtime.alloc import Array
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.stream import Stream
from ..runtime.transfer import synchronize
from .calls.arithmetic import BoundAttributes, CallArithmetic, bind
from .calls.binder import CallKey, ParamPacker, cache_call
from .calls.carriers import NumpyType, is_same_type, move_of_bits, of_bits, shape_of_array
from .calls.formats import format_key, target_desc
from .calls.nibbles import as_bytes, is_nibbles
from .calls.operands import engine_of, source_of, target_of
from .calls.signature import NO_VALUES
from .calls.tensors import as_array, narrowed


def reorder_anything(
    x: Any,
    dst: Any,
    src: Any,
    dtype: Any,
    given: CallArithmetic,
    out: Any,
    engine: Engine | str | None,
    signed: CallKey | None = None,
) -> Any:
    """A reorder of arrays of NumPy, what NumPy makes arrays of, and memories: `out`, or the new result."""
    x = as_source(x, dtype, given, out)
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


def as_source(x: Any, dtype: Any, given: CallArithmetic, out: Any) -> Any:
    """Lists and the like as arrays; arrays, memories and tensors as they are."""
    read = as_array(x, "reorder: x")
    # NumPy makes int64 of the integers of a list, which moves can do and arithmetic cannot.
    return narrowed(read) if read is not x and _is_computed(read, dtype, given, out) else read


def _run(
    x: Any,
    dst: Any,
    src: Any,
    dtype: Any,
    given: CallArithmetic,
    out: Any,
    engine: Engine | str | None,
    signed: CallKey | None,
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
    if out is None and bound.attr.freeze().reads_dst:
        raise refuse("RS-A09")
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
    made = reorder_anything(x.reshape(1), dst, src, dtype, given, target, engine)
    if out is not None:
        return out
    return made.reshape(()) if isinstance(made, np.ndarray) else made


def _no_memory_of(moved: NumpyType, target: Memory) -> Error:
    near = {"i": "convert, x.astype(np.int32), or ", "f": "convert, x.astype(np.float32), or "}.get(
        moved.kind, ""
    )
    return refuse(
        "RS-A02:no-memory",
        moved=moved,
        where="dst in blocks" if target.desc.inner_blks else f"engine {target.engine}",
        near=near,
        shape_of_array=shape_of_array(target.desc, moved),
    )


def _by_way_of(device: Engine, source: Memory, target: Memory, given: CallArithmetic, out: Any) -> Any:
    """Done on a device for memories of the host: `out` is brought there, written, and brought back."""
    there = Memory(target.desc, device)
    reorder_anything(target, None, None, None, CallArithmetic(), there, device)
    reorder_anything(source, None, None, None, given, there, device)
    reorder_anything(there, None, None, None, CallArithmetic(), target, device)
    return out


def _into_nibbles(
    x: Any, dst: Any, src: Any, dtype: Any, given: CallArithmetic, out: Array, engine: Engine | str | None
) -> Array:
    """Pack, and give NumPy its elements one to a byte."""
    kind = DataType.parse(out.dtype)
    if dtype is not None and DataType.parse(dtype) is not kind:
        raise refuse("RS-A06:out-holds-dtype", kind=kind)
    device = engine_of(x, out, engine)
    packed = Memory(target_desc(source_of(x, src, device).desc, dst, kind), device)
    if not out.flags.writeable or packed.desc.dims != out.shape:
        if packed.desc.dims == out.shape:
            raise refuse("RS-A07:read-only", desc=packed.desc)
        raise refuse("RS-A07:shape", desc=packed.desc, shape=out.shape)
    reorder_anything(out, None, None, None, CallArithmetic(), packed, engine)
    reorder_anything(x, dst, src, None, given, packed, engine)
    out[...] = packed.to_numpy()
    return out


def _execute(source: Memory, target: Memory, bound: BoundAttributes, engine: Engine) -> Reorder:
    """Run the primitive, to its end."""
    if overlaps(source, target):
        raise refuse("RS-N09:x-out-overlap", desc=source.desc, target_desc=target.desc)
    primitive, stream = Reorder(source, target, bound.attr), Stream(engine)
    synchronize(source, target, *bound.extras.values())
    primitive.execute(stream, {ARG_FROM: source, ARG_TO: target, **bound.extras})
    stream.wait()
    return primitive


def _remember(
    signed: CallKey,
    primitive: Reorder,
    source: Memory,
    target: Memory,
    bound: BoundAttributes,
    moved: NumpyType | None,
) -> None:
    """Let later calls of the same signature go straight to the machine code."""
    impl, values = primitive._check_usable(), signed.values
    words = ParamPacker(impl.computation)
    if values is not NO_VALUES:
        found = ParamPacker.of_values(impl.computation, values, bound.attr.freeze(), bound.extras)
        if found is None:
            return
        words = found
    cache_call(signed, impl, [source], target, dtype=moved, words=words, may_be_in_place=True)
