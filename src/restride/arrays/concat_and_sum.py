"""Functions on several arrays: concatenation and sums."""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ..desc.arguments import ARG_DST, ARG_MULTIPLE_SRC
from ..desc.attr_value import MOST_SOURCES
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_int, renamed, short_repr
from ..dtypes import DataType
from ..errors import Error, InvalidArguments, refuse
from ..model.base import DEFAULT_ATTR
from ..model.checks import Names
from ..model.derived import find_operation
from ..model.implementation import Implementation
from ..model.prop_kind import PropKind
from ..model.several import SeveralProblem, implementation_in_place
from ..ops.concat import concat_problem
from ..ops.sum import parse_scales, sum_problem
from ..runtime.describe import Subject, describe
from ..runtime.engine import Engine
from ..runtime.memory import Memory, allocated_memory
from ..runtime.transfer import from_host, refuse_host_out
from .calls.binder import CallKey
from .calls.carriers import (
    as_bytes,
    bits_of,
    format_of_bits,
    halves,
    is_nibbles,
    is_same_type,
    of_bits,
    own_format,
    unnamed_type,
)
from .calls.formats import format_key, type_key
from .calls.function import ArrayFunction, Parameters
from .calls.tensors import as_array, is_torch
from .jax.arrays import is_jax

__all__ = ["add_n", "concat"]

_LAYOUTS = (type(None), str, MemoryDesc)
_TYPES = (str, DataType)
# Integers that are exact in f32, and so in the double that represents them in a key.
_WHOLE = 1 << 24
Descs = tuple[MemoryDesc, ...]
_CPU = Engine("cpu")


def concat(
    arrays: Any,
    axis: int = 0,
    dst: Any = None,
    dtype: Any = None,
    out: Any = None,
    *,
    layout: Any = None,
) -> Any:
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
    dst = renamed("concat: dst", dst, layout=layout) if layout is not None else dst
    key = _key(dtype, axis, dst) if type(axis) is int and type(dst) in _LAYOUTS else None
    if not (type(arrays) in (list, tuple) and 0 < len(arrays) <= MOST_SOURCES):
        arrays = _array_list("concat", arrays)
    return _CONCAT.call(_computed, (_CONCAT, axis, dst, dtype), key, arrays[0], out, arrays[1:])


def add_n(arrays: Any, scales: Any = None, dtype: Any = None, out: Any = None) -> Any:
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
    factors = _scales_key(scales)
    key = None if factors is None else _key(dtype, factors)
    if not (type(arrays) in (list, tuple) and 0 < len(arrays) <= MOST_SOURCES):
        arrays = _array_list("add_n", arrays)
    return _ADD_N.call(_computed, (_ADD_N, scales, None, dtype), key, arrays[0], out, arrays[1:])


def _computed(
    x: Any, out: Any, operands: Sequence[Any], parameters: Parameters, signed: CallKey | None
) -> Any:
    """Return arrays as memory objects on one engine, the result's descriptor, and the function to run."""
    (function, how, dst, dtype), call = parameters, parameters[0].name
    arrays = [x, *(as_array(operand, f"{call}: array {i}") for i, operand in enumerate(operands, 1))]
    if dtype is None and out is None and all(map(is_nibbles, arrays)):
        dtype = x.dtype
    bits = None
    if function is _CONCAT and not isinstance(dst, MemoryDesc):
        # The type of arrays whose bits are moved and which is not a data type; None to convert.
        bits = unnamed_type(arrays if out is None else [*arrays, out])
        bits = bits if bits is not None and (dtype is None or is_same_type(dtype, bits)) else None
    engine = next((memory.engine for memory in (*arrays, out) if isinstance(memory, Memory) and memory), _CPU)

    def memory_of(name: str, array: Any, subject: Subject) -> Memory:
        if isinstance(array, Memory):
            return _on_engine(array, engine, name)
        array = as_bytes(array) if is_nibbles(array) and array is not out else array
        array = array if bits is None else bits_of(array)
        described = describe(array, None, subject)
        return from_host(described.desc, engine, described.buffer_of(array))

    sources = []
    for i, array in enumerate(arrays):
        name = f"{call}: array {i}"
        sources.append(memory_of(name, array, Subject(f"{name} cannot be read", f"{name} does not match")))
    descs = tuple(memory.desc for memory in sources)
    data_type = None if bits is not None else _type(call, dtype)
    target_format: Any = _format(call, dst)
    if bits is not None and halves(bits):
        is_open = target_format is None and out is None
        target_format = own_format(x) if is_open else format_of_bits(target_format, bits, x.ndim)
    target = None
    if out is not None:
        refuse_host_out(f"{call}: invalid out", out, engine)
        target = memory_of(f"{call}: out", out, Subject.target(call))
        _check_layout(call, target.desc, target_format)
        target_format = target.desc
    names = Names(call, "array", "dst" if out is None else "out")
    if function is _CONCAT:
        axis = parse_int(how, "concat: axis")
        if bits is not None and halves(bits):  # the halves of an element are not an axis
            ndims = descs[0].ndims - 1
            axis = axis % ndims if -ndims <= axis < ndims else axis + (1 if axis > 0 else -1)
        problem: SeveralProblem = _concat_problem(descs, axis, target_format, data_type, names)
    else:
        factors = parse_scales(call, how, len(descs))
        dims = descs[0].dims
        problem = sum_problem(
            factors, descs, _target_desc(names, descs, dims, target_format, data_type), DEFAULT_ATTR, names
        )
    impl = find_operation(problem, engine)
    if bits is not None and problem.dst.inner_blks:
        raise refuse("RS-A02:no-blocks", call=call, moved=bits)
    target = allocated_memory(problem.dst, engine) if target is None else target
    function.execute(impl, {**dict(enumerate(sources, ARG_MULTIPLE_SRC)), ARG_DST: target}, signed, bits)
    return target if bits is None or out is not None else of_bits(np.asarray(target), bits)


# --- parameters and problems --------------------------------------------------------------------------------


def _array_list(call: str, arrays: Any) -> list[Any]:
    """Return the arrays of a call. A single array is not taken as a list of its rows."""
    if isinstance(arrays, np.ndarray | Memory | str | bytes) or not isinstance(arrays, Iterable):
        is_array = isinstance(arrays, np.ndarray | Memory)
        hint = "write [x]" if is_array else "pass a list of arrays"
        raise refuse("RS-A13:no-list", call=call, type=type(arrays).__name__, hint=hint)
    if is_torch(arrays) or is_jax(arrays):
        why = "it is one tensor" if is_torch(arrays) else "it is one array"
        raise refuse("RS-A13:one-array", call=call, why=why)
    try:
        sources = list(islice(arrays, MOST_SOURCES + 1))
    except Exception as error:  # a foreign iterator can raise anything
        why = f"{type(arrays).__name__} cannot be iterated over: {str(error)[:200] or type(error).__name__}"
        raise refuse("RS-A13:text", call=call, why=why) from None
    if 1 <= len(sources) <= MOST_SOURCES:
        return sources
    why, hint = (
        ("there are more", "join some of them first")
        if sources
        else ("there is none", "pass at least one array")
    )
    raise refuse("RS-A13:1-arrays", call=call, most_sources=MOST_SOURCES, why=why, hint=hint)


def _on_engine(memory: Memory, engine: Engine, name: str) -> Memory:
    """Return the memory if it is a tensor on the engine that runs the call: the first memory's."""
    if not memory:
        why, hint = "it has no descriptor", "give it a descriptor and an engine"
        raise refuse("RS-M36:empty-memory", name=name, why=why, hint=hint)
    if memory.engine is engine:
        return memory
    raise refuse("RS-R05:another-engine", name=name, memory=memory, engine=engine)


def _key(dtype: Any, *more: Hashable) -> Hashable | None:
    """Return parameters as a key; None for a type that is not a plain word."""
    is_plain = dtype is None or type(dtype) in _TYPES or isinstance(dtype, type | np.dtype)
    return (type(dtype), dtype, *more) if is_plain else None


def _scales_key(scales: Any) -> bytes | None:
    """Return scales as a key that distinguishes 0.0 from -0.0; None unless all are plain numbers."""
    if scales is None:
        return b""
    if type(scales) not in (list, tuple) or not all(map(_is_plain_number, scales)):
        return None
    return struct.pack(f"{len(scales)}d", *scales)


def _is_plain_number(value: object) -> bool:
    return type(value) is float or (type(value) is int and -_WHOLE <= value <= _WHOLE)


def _type(call: str, dtype: Any) -> DataType | None:
    try:
        key = type_key(dtype)
        return None if key is None else DataType.parse(key)
    except Error as error:
        what, where = f"{call}: dtype is not a data type", error.where or f"dtype {short_repr(dtype)}"
        why = error.why or error.what
        raise InvalidArguments(what, code=error.code, where=where, why=why, hint=error.hint) from None


def _format(call: str, dst: Any) -> Hashable:
    try:
        return format_key(dst)
    except Error as error:
        what, where = f"{call}: dst is not a memory format", f"dst {short_repr(dst)}"
        raise InvalidArguments(what, code=error.code, where=where, why=error.why, hint=error.hint) from None


def _check_layout(call: str, out: MemoryDesc, dst: Any) -> None:
    """Raise InvalidArguments for an `out` without the layout `dst`."""
    if dst is None:
        return
    expected = dst if isinstance(dst, MemoryDesc) else _in_format(call, out.dims, out.data_type, dst)
    if expected != out:
        raise refuse("RS-A07:out-not-lie-dst", call=call, out=out, wanted=expected)


def _target_desc(
    names: Names, descs: Descs, dims: tuple[int, ...], dst: Any, dtype: DataType | None
) -> MemoryDesc | None:
    """Return the descriptor of the result: format "any" if only its type is given, None if nothing is."""
    if isinstance(dst, MemoryDesc):
        if dtype in (None, dst.data_type):
            return dst
        raise refuse("RS-A06:dtype", names=names, dtype=dtype, dst=dst)
    kinds = dict.fromkeys(md.data_type for md in descs)
    if dtype is None and len(kinds) > 1:
        raise refuse("RS-A06:no-type-result", call=names.call, kinds=", ".join(map(str, kinds)))
    if dst is None and dtype in (None, descs[0].data_type):
        return None
    return _in_format(names.call, dims, dtype or descs[0].data_type, "any" if dst is None else dst)


def _in_format(call: str, dims: tuple[int, ...], dtype: DataType, dst: Any) -> MemoryDesc:
    """Return the descriptor of a result in the format `dst`."""
    try:
        return MemoryDesc(dims, dtype, dst)
    except Error as error:
        raise error.with_context(f"{call}: dst: {error.what}") from None


def _concat_problem(
    descs: Descs, axis: int, dst: Any, dtype: DataType | None, names: Names
) -> SeveralProblem:
    count = descs[0].ndims
    number = axis + count if axis < 0 else axis
    if number not in range(count):
        raise refuse("RS-A10:bad-axis", axis=axis, descs=descs[0], count=count, last=count - 1)
    whole = sum(md.dims[number] for md in descs if number < md.ndims)
    dims = (*descs[0].dims[:number], whole, *descs[0].dims[number + 1 :])
    target = _target_desc(names, descs, dims, dst, dtype)
    return concat_problem(number, descs, target, DEFAULT_ATTR, names)


def _in_place(call: str, impl: Implementation, memories: Mapping[int, Memory]) -> Implementation:
    """Return the implementation if some of the arrays are parts of `out`."""
    *sources, target = memories.values()
    return implementation_in_place(Names(call, "array", "out"), impl, sources, target)


_CONCAT, _ADD_N = (
    ArrayFunction(name, PropKind.undef, False, is_several=True, narrows_lists=False, overlap=_in_place)
    for name in ("concat", "add_n")
)
