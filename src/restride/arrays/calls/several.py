"""Calls on several arrays, checked whole: memories of all, one engine, the descriptor of the result."""

from __future__ import annotations

from collections.abc import Hashable
from time import perf_counter
from typing import Any

import numpy as np

from ...desc.arguments import ARG_DST, ARG_MULTIPLE_SRC
from ...desc.memory_desc import MemoryDesc
from ...desc.parse import short_repr
from ...dtypes import DataType
from ...errors import Error, InvalidArguments, refuse
from ...model.checks import Names, check_destination, check_memory, share_bytes
from ...model.derived import describe_operation, find_operation
from ...model.implementation import Implementation
from ...model.primitive import run
from ...model.several import SeveralProblem, implementation_in_place
from ...runtime.describe import Described, Subject, describe
from ...runtime.engine import Engine
from ...runtime.memory import Memory, allocated_memory
from ...runtime.transfer import from_host, refuse_host_out, synchronize
from ...verbose import flags, write
from .array_kinds import ArrayOperand
from .binder import CompiledCall, store_call
from .carriers import (
    NumpyType,
    bits_of,
    format_of_bits,
    halves,
    is_same_type,
    of_bits,
    own_format,
    unnamed_type,
)
from .formats import format_key, type_key
from .lists import array_list, on_engine
from .nibbles import as_bytes, is_nibbles
from .results import maker_of
from .tensors import as_array, as_numpy, as_target, back_to, is_foreign, written

_CPU = Engine("cpu")
Descs = tuple[MemoryDesc, ...]
SignedArrays = tuple[Hashable, list[ArrayOperand], ArrayOperand | None]
"""The signature of a call, its arrays and its target: bare, as names would take a tenth of the call."""


def common_target(
    names: Names, descs: Descs, dims: tuple[int, ...], dst: Any, dtype: DataType | None
) -> MemoryDesc | None:
    """The descriptor of the result: of format "any" where only its type is said, None where nothing is."""
    if isinstance(dst, MemoryDesc):
        if dtype in (None, dst.data_type):
            return dst
        raise refuse("RS-A06:dtype", names=names, dtype=dtype, dst=dst)
    kinds = dict.fromkeys(md.data_type for md in descs)
    if dtype is None and len(kinds) > 1:
        raise refuse("RS-A06:no-type-result", call=names.call, kinds=", ".join(map(str, kinds)))
    if dst is None and dtype in (None, descs[0].data_type):
        return None
    return described_target(names.call, dims, dtype or descs[0].data_type, "any" if dst is None else dst)


def described_target(call: str, dims: tuple[int, ...], dtype: DataType, dst: Any) -> MemoryDesc:
    """The descriptor of a result in the format `dst`."""
    try:
        return MemoryDesc(dims, dtype, dst)
    except Error as error:
        what = f"{call}: dst: {error.what}"
        raise error.with_context(what) from None


class SeveralArrays:
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

    def run(self, problem: SeveralProblem, signed: SignedArrays | None) -> Any:
        """Check, run, and give the result; a call that goes well is remembered by its signature."""
        impl = find_operation(problem, self.engine)
        if self.moved is not None and impl.problem.dst.inner_blks:
            raise refuse("RS-A02:no-blocks", owner=self)
        target = self.target or allocated_memory(impl.problem.dst, self.engine)
        running = self._checked(impl, target)
        running.executable.prepare()
        synchronize(*self.sources, target)
        start = perf_counter()
        run(running, {**dict(enumerate(self.sources, ARG_MULTIPLE_SRC)), ARG_DST: target})
        if flags.profile_exec:
            write(describe_operation("exec", running, (perf_counter() - start) * 1e3))
        if signed is not None:
            self._remember(signed, impl, target)
        return self._result(target) if self.out is None else written(self.out)

    def _checked(self, impl: Implementation, target: Memory) -> Implementation:
        names = self.names
        for i, (memory, desc) in enumerate(zip(self.sources, self.descs, strict=True)):
            check_memory(names.call, names.source(i), memory, desc, self.engine)
        check_memory(names.call, names.dst, target, impl.problem.dst, self.engine)
        check_destination(names.call, target, names.written)
        shares = any(share_bytes(memory, target) for memory in self.sources)
        return implementation_in_place(names, impl, self.sources, target) if shares else impl

    def _remember(self, signed: SignedArrays, impl: Implementation, target: Memory) -> None:
        signature, _, out = signed
        is_memory = isinstance(self.first, Memory)
        make = None if out else maker_of(target.desc, self.moved, is_memory=is_memory)
        call = CompiledCall(impl, self.descs, target.desc, self.below, self.out_below, make=make)
        store_call(signature, call)

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
        wanted: Any = self.dst if is_desc else described_target(self.call, out.dims, out.data_type, self.dst)
        if wanted != out:
            raise refuse("RS-A07:out-not-lie-dst", call=self.call, out=out, wanted=wanted)


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
