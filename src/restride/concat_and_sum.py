"""Functions on several arrays: joined along an axis, or added."""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable
from time import perf_counter
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from .desc.arguments import ARG_DST, ARG_MULTIPLE_SRC
from .desc.memory_desc import MemoryDesc
from .desc.parse import parse_int, renamed, short_repr
from .dtypes import DataType
from .errors import Error, InvalidArguments
from .frontend.array_key import ArrayOperand, read_from, write_to
from .frontend.array_lists import array_list, on_engine
from .frontend.binder import BoundCall, find_call, keep_call
from .frontend.carriers import (
    NumpyType,
    bits_of,
    format_of_bits,
    halves,
    is_same_type,
    of_bits,
    own_format,
    unnamed_type,
)
from .frontend.formats import format_key, type_key
from .frontend.nibbles import as_bytes, is_nibbles
from .frontend.results import maker_of
from .frontend.tensors import as_array, as_numpy, as_target, back_to, is_foreign, written
from .plan.concat_problem import ConcatProblem
from .primitives.base import DEFAULT_ATTR
from .primitives.checks import Names, check_destination, check_memory, share_bytes
from .primitives.concat import concat_in_place, concat_problem, describe_concat, find_concat
from .primitives.implementation import Describe, Implementation
from .primitives.primitive import run
from .primitives.sum import describe_sum, find_sum, parse_scales, sum_in_place, sum_problem
from .runtime.describe import Described, Subject, describe
from .runtime.engine import Engine
from .runtime.memory import Memory
from .runtime.transfer import from_host, refuse_host_out, settle
from .verbose import flags, write

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from .typing import (
        ArrayLike,
        BlockedTag,
        FormatLike,
        OtherArray,
        Owned,
        PlainFormat,
        TypeLike,
        WholeType,
    )

__all__ = ["add_n", "concat"]

_CPU = Engine("cpu")
Descs = tuple[MemoryDesc, ...]
InPlace = Callable[[Names, Implementation, list[Memory], Memory], Implementation]


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
    arrays: Iterable[OtherArray | ArrayLike],
    axis: int,
    dst: BlockedTag,
    dtype: TypeLike | None = None,
) -> Memory: ...
@overload
def concat(
    arrays: Iterable[OtherArray | ArrayLike],
    axis: int = 0,
    *,
    dst: BlockedTag,
    dtype: TypeLike | None = None,
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
def concat(
    arrays: Any,
    axis: int = 0,
    dst: Any = None,
    dtype: Any = None,
    out: Any = None,
    *,
    layout: Any = None,
) -> Any:
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
    dst = renamed("concat: dst", dst, layout=layout) if layout is not None else dst
    signed = _signed(("concat", axis), arrays, dst, dtype, out) if type(axis) is int else None
    is_done, made = _remembered(signed, out)
    if is_done:
        return made
    try:
        call = _ArraysCall("concat", arrays, dst, dtype, out)
        number = call.axis_of(parse_int(axis, "concat: axis"))
        problem = _concat_problem(call.descs, number, call.dst, call.dtype, call.names)
        return call.run(find_concat(problem, call.engine), concat_in_place, describe_concat, signed)
    except Error as error:
        error.drop_frames()
        raise


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
def add_n(arrays: Any, scales: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Add arrays of the same dims in one pass: `scales[0] * arrays[0] + scales[1] * arrays[1] + ...`.

    arrays  1 to 1024 NumPy arrays, tensors of torch, `Memory` objects, or what has `__dlpack__`, of any
            layouts and types
    scales  one number for each, rounded to f32; None: all are 1
    dtype   the type of the result; may be left out where `out` says it, or all arrays share it
    out     where to write: an array or `Memory` of the same dims; it is returned, and may be one of `arrays`

    Arrays are added in their order, as f32; as f64 where one is f64, or where integers, s32 among them, are
    added with scales of 1. The result is rounded and saturated once (N1). It is of the kind of the first
    array, in the format of the first one with blocks, else of the first.

    Raises InvalidArguments, before anything is written, for shapes and types that do not fit, and for an
    `out` that is read-only or overlaps an array that is laid out otherwise.

    >>> import numpy as np, restride as rs
    >>> rs.add_n([np.full(3, 100, np.uint8), np.full(3, 100, np.uint8), np.full(3, 100, np.uint8)])
    array([255, 255, 255], dtype=uint8)
    """
    scales_key = _scales_key(scales)
    signed = None if scales_key is None else _signed(("add_n", scales_key), arrays, None, dtype, out)
    is_done, made = _remembered(signed, out)
    if is_done:
        return made
    try:
        call = _ArraysCall("add_n", arrays, None, dtype, out)
        factors = parse_scales("add_n", scales, len(call.descs))
        target = _target(call.names, call.descs, call.descs[0].dims, call.dst, call.dtype)
        problem = sum_problem(factors, call.descs, target, DEFAULT_ATTR, call.names)
        return call.run(find_sum(problem, call.engine), sum_in_place, describe_sum, signed)
    except Error as error:
        error.drop_frames()
        raise


# --- calls whose signature is known -------------------------------------------------------------------------

_LAYOUTS = (type(None), str, MemoryDesc)
_TYPES = (type(None), str, DataType)
_NUMPY_TYPES = (type, np.dtype)
# Integers that f32 holds, and so does the double that stands for them in a key.
_WHOLE = 1 << 24


_Signed = tuple[Hashable, list[ArrayOperand], ArrayOperand | None]
"""The signature of a call, its arrays and its target: bare, as names would take a tenth of the call."""


def _signed(how: Hashable, arrays: Any, dst: Any, dtype: Any, out: Any) -> _Signed | None:
    """What a call is remembered by; None where its arguments are not plain. `how`: call and number."""
    if type(arrays) not in (list, tuple):
        return None
    if type(dst) not in _LAYOUTS or not (type(dtype) in _TYPES or isinstance(dtype, _NUMPY_TYPES)):
        return None
    target = None if out is None else write_to(out)
    sources = [source for x in arrays if (source := read_from(x)) is not None]
    if len(sources) < len(arrays) or (target is None and out is not None):
        return None
    kinds = tuple([source[0] for source in sources])
    return (how, kinds, dst, type(dtype), dtype, target and target[0]), sources, target


def _scales_key(scales: Any) -> Hashable | None:
    """Scales as a key that tells 0.0 from -0.0; None for what is no plain number."""
    if scales is None:
        return ()
    if type(scales) not in (list, tuple) or not all(map(_is_plain_number, scales)):
        return None
    return struct.pack(f"{len(scales)}d", *scales)


def _is_plain_number(value: object) -> bool:
    return type(value) is float or (type(value) is int and -_WHOLE <= value <= _WHOLE)


def _remembered(signed: _Signed | None, out: Any) -> tuple[bool, Any]:
    """Whether a call of this signature was known and has been done, and its result."""
    if signed is None:
        return False, None
    signature, sources, target = signed
    call = find_call(signature)
    if call is None:
        return False, None
    is_done, made = call.join(sources, target)
    return is_done, made if out is None else out


# --- problems -----------------------------------------------------------------------------------------------


def _concat_problem(descs: Descs, axis: int, dst: Any, dtype: DataType | None, names: Names) -> ConcatProblem:
    number = axis + descs[0].ndims if axis < 0 else axis
    inside = range(descs[0].ndims)
    if number not in inside:
        raise InvalidArguments(
            "concat: bad axis",
            code="RS-A10",
            where=f"axis {axis}; array 0 {descs[0]}",
            why=f"array 0 has {len(inside)} axes",
            hint=f"axes are numbered from 0 to {len(inside) - 1}, or from the end by -1 to -{len(inside)}",
        )
    whole = sum(md.dims[number] for md in descs if number < md.ndims)
    dims = (*descs[0].dims[:number], whole, *descs[0].dims[number + 1 :])
    target = _target(names, descs, dims, dst, dtype)
    return concat_problem(number, descs, target, DEFAULT_ATTR, names)


def _target(
    names: Names, descs: Descs, dims: tuple[int, ...], dst: Any, dtype: DataType | None
) -> MemoryDesc | None:
    """The descriptor of the result: of format "any" where only its type is said, None where nothing is."""
    if isinstance(dst, MemoryDesc):
        if dtype in (None, dst.data_type):
            return dst
        raise InvalidArguments(
            f"{names.call}: dtype is {dtype}",
            code="RS-A06",
            where=f"{names.dst} {dst}",
            why=f"the result is of {dst.data_type}",
            hint="leave dtype out",
        )
    kinds = dict.fromkeys(md.data_type for md in descs)
    if dtype is None and len(kinds) > 1:
        raise InvalidArguments(
            f"{names.call}: no type for the result",
            code="RS-A06",
            why=f"the arrays are of {', '.join(map(str, kinds))}",
            hint="say which, for example dtype='f32'",
        )
    if dst is None and dtype in (None, descs[0].data_type):
        return None
    return _described(names.call, dims, dtype or descs[0].data_type, "any" if dst is None else dst)


def _described(call: str, dims: tuple[int, ...], dtype: DataType, dst: Any) -> MemoryDesc:
    try:
        return MemoryDesc(dims, dtype, dst)
    except Error as error:
        what = f"{call}: dst: {error.what}"
        raise error.retold(what) from None


# --- the general path: any arrays and memories, any engine --------------------------------------------------


class _ArraysCall:
    """The arguments of a call: memories of all arrays on one engine, and what the result is to be."""

    def __init__(self, call: str, arrays: Any, dst: Any, dtype: Any, out: Any) -> None:
        self.call, self.out = call, out
        self.names = Names(call, "array", "dst" if out is None else "out")
        found = array_list(call, arrays)
        if dtype is None and out is None and found and all(map(is_nibbles, found)):
            dtype = found[0].dtype
        self.first = found[0]
        found = [
            x if isinstance(x, Memory) else as_array(as_numpy(x, f"{call}: array {i}"), f"{call}: array {i}")
            for i, x in enumerate(found)
        ]
        out = out if out is None or isinstance(out, Memory) else as_target(out, f"{call}: out")
        self.moved = self._moved(found, dst, dtype, out)
        self.engine = next((x.engine for x in (*found, out) if isinstance(x, Memory) and x), _CPU)
        self.below: list[int] = []
        self.out_below = 0
        self.sources = [self._source(i, x) for i, x in enumerate(found)]
        self.descs = tuple(memory.desc for memory in self.sources)
        self.dtype = None if self.moved is not None else _type(call, dtype)
        self.dst: Any = self._format_of_bits(found[0], _format(call, dst))
        self.target = None if out is None else self._target_of(out)

    def run(
        self, impl: Implementation, in_place: InPlace, describe_line: Describe, signed: _Signed | None
    ) -> Any:
        """Check, run, and give the result; a call that goes well is remembered by its signature.

        `in_place` finds the implementation for sources that lie in the destination.
        """
        if self.moved is not None and impl.problem.dst.inner_blks:
            raise InvalidArguments(
                f"{self.call}: no blocks of {self.moved}",
                code="RS-A02",
                why=f"a blocked result is a Memory, and no data type is {self.moved}",
                hint="ask for a plain layout, or convert the arrays first",
            )
        target = self.target or Memory.allocated(impl.problem.dst, self.engine)
        running = self._checked(impl, target, in_place)
        running.executable.prepare()
        settle(*self.sources, target)
        start = perf_counter()
        run(running, {**dict(enumerate(self.sources, ARG_MULTIPLE_SRC)), ARG_DST: target})
        if flags.profile_exec:
            write(describe_line("exec", running, (perf_counter() - start) * 1e3))
        if signed is not None:
            self._remember(signed, impl, target)
        return self._result(target) if self.out is None else written(self.out)

    def _checked(self, impl: Implementation, target: Memory, in_place: InPlace) -> Implementation:
        names = self.names
        for i, (memory, desc) in enumerate(zip(self.sources, self.descs, strict=True)):
            check_memory(names.call, names.source(i), memory, desc, self.engine)
        check_memory(names.call, names.dst, target, impl.problem.dst, self.engine)
        check_destination(names.call, target, names.written)
        shares = any(share_bytes(memory, target) for memory in self.sources)
        return in_place(names, impl, self.sources, target) if shares else impl

    def _remember(self, signed: _Signed, impl: Implementation, target: Memory) -> None:
        signature, _, out = signed
        is_memory = isinstance(self.first, Memory)
        make = None if out else maker_of(target.desc, self.moved, is_memory=is_memory)
        call = BoundCall(impl, self.descs, target.desc, self.below, self.out_below, make=make)
        keep_call(signature, call)

    def _result(self, target: Memory) -> Any:
        is_array = not target.desc.inner_blks and target.desc.data_type.bits >= 8
        if isinstance(self.first, Memory) or not self.engine.device.is_host or not is_array:
            return target
        array = np.asarray(target) if self.moved is None else of_bits(np.asarray(target), self.moved)
        return back_to(self.first, array) if is_foreign(self.first) else array

    def _source(self, index: int, x: Any) -> Memory:
        name = f"{self.call}: array {index}"
        if isinstance(x, Memory):
            self.below.append(0)
            return on_engine(x, self.engine, name)
        if is_nibbles(x):
            x = as_bytes(x)
        described, memory = self._wrapped(x, Subject(f"{name} cannot be read", f"{name} does not fit"))
        self.below.append(described.below)
        return memory

    def _moved(self, arrays: list[Any], dst: Any, dtype: Any, out: Any) -> NumpyType | None:
        """The type of arrays whose bits are moved, as no data type is named after it; None to convert."""
        if self.call != "concat" or isinstance(dst, MemoryDesc):
            return None
        found = unnamed_type(arrays if out is None else [*arrays, out])
        return found if found is not None and (dtype is None or is_same_type(dtype, found)) else None

    def _format_of_bits(self, first: Any, dst: Any) -> Any:
        """The format of the result, for bits where such are moved."""
        if self.moved is None or not halves(self.moved):
            return dst
        is_open = dst is None and self.out is None
        return own_format(first) if is_open else format_of_bits(dst, self.moved, first.ndim)

    def axis_of(self, number: int) -> int:
        """The axis of the arrays, for bits where such are moved: the halves of an element are none."""
        if self.moved is None or not halves(self.moved):
            return number
        ndims = self.descs[0].ndims - 1
        return number % ndims if -ndims <= number < ndims else number + (1 if number > 0 else -1)

    def _wrapped(self, x: Any, subject: Subject) -> tuple[Described, Memory]:
        array = x if self.moved is None else bits_of(x)
        described = describe(array, None, subject)
        return described, from_host(described.desc, self.engine, described.buffer_of(array))

    def _target_of(self, out: Any) -> Memory:
        """`out` as a memory, which says the layout and the type."""
        if isinstance(out, Memory):
            target = on_engine(out, self.engine, f"{self.call}: out")
        else:
            refuse_host_out(f"{self.call}: out will not do", out, self.engine)
            described, target = self._wrapped(out, Subject.target(self.call))
            self.out_below = described.below
        self._check_layout(target.desc)
        self.dst = target.desc
        return target

    def _check_layout(self, out: MemoryDesc) -> None:
        """Raise InvalidArguments for an `out` that does not lie as `dst` says."""
        if self.dst is None:
            return
        is_desc = isinstance(self.dst, MemoryDesc)
        wanted: Any = self.dst if is_desc else _described(self.call, out.dims, out.data_type, self.dst)
        if wanted != out:
            raise InvalidArguments(
                f"{self.call}: out does not lie as dst says",
                code="RS-A07",
                where=f"out {out}; wanted {wanted}",
                why="its descriptor differs",
                hint="leave dst out, or let the call make the result",
            )


def _type(call: str, dtype: Any) -> DataType | None:
    try:
        key = type_key(dtype)
        return None if key is None else DataType.parse(key)
    except Error as error:
        what = f"{call}: dtype is no data type"
        where = error.where or f"dtype {short_repr(dtype)}"
        raise InvalidArguments(
            what, code=error.code, where=where, why=error.why or error.what, hint=error.hint
        ) from None


def _format(call: str, dst: Any) -> Hashable:
    try:
        return format_key(dst)
    except Error as error:
        what = f"{call}: dst is no format"
        raise InvalidArguments(
            what, code=error.code, where=f"dst {short_repr(dst)}", why=error.why, hint=error.hint
        ) from None
