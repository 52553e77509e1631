"""The protocol common to all functions on arrays; each adds only its own problem.

signature -> `calls` -> CompiledCall   a repeated call: addresses are packed, machine code runs
arrays -> memories -> problem -> run   the first call of its kind: everything is checked, and the call is
                                       cached
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ...desc.arguments import ARG_DIFF_DST, ARG_DIFF_SRC, ARG_DST, ARG_MULTIPLE_SRC, ARG_SRC, NAMES
from ...desc.memory_desc import MemoryDesc
from ...desc.parse import parse_int
from ...desc.tags import Tag
from ...dtypes import DataType
from ...errors import Error, refuse
from ...model.checks import check_destination, check_memory, overlaps, share_bytes
from ...model.derived import describe_operation
from ...model.implementation import Implementation, Problem, compiled, find_implementation
from ...model.operation import SEVERAL_SOURCES
from ...model.primitive import run
from ...runtime.cpu.executable import CpuExecutable
from ...runtime.describe import Subject
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ...runtime.transfer import refuse_host_out, synchronize
from ...watching import Watch
from .array_kinds import ArrayOperand, Kind, read_from, write_to
from .binder import CallKey, ParamPacker, cache_call, find_call
from .carriers import NumpyType
from .operands import memory_of
from .tensors import as_array, as_numpy, for_owner, is_foreign, narrowed

Memories = Mapping[int, Memory]
Parameters = tuple[Any, ...]
Compute = Callable[[Any, Any, Sequence[Any], Parameters, CallKey | None], Any]
# Types of parameters that can be part of a signature.
_PLAIN = frozenset((type(None), int, float, str, DataType, type))
# Pairs of arguments that can be the same memory if they have the same layout.
_IN_PLACE = ((ARG_SRC, ARG_DST), (ARG_DIFF_DST, ARG_DIFF_SRC))


def plain_key(parameters: Parameters) -> Parameters | None:
    """Return parameters as a key; None unless all are numbers, words, types or tuples of integers.

    All of these are equal if they mean the same.
    """
    types = tuple(map(type, parameters))
    for parameter, kind in zip(parameters, types, strict=True):
        is_plain = kind in _PLAIN or (kind is tuple and {*map(type, parameter)} <= {int})
        if not is_plain and not isinstance(parameter, np.dtype):
            return None
    return types, parameters


@dataclass(frozen=True, slots=True)
class ArrayFunction:
    """A function on arrays: its name in messages, and its propagation kind in verbose lines.

    `may_be_in_place`: the input can be overwritten if both have the same layout. `is_real`: results from
    integers and booleans are fractions, so a new result is f32. `is_several`: its arrays are interchangeable,
    and are numbered in messages. `narrows_lists`: integers in a list become s32, not NumPy's choice.
    `others`: the names of the operands. `arguments`: their names in messages, including the first array's, if
    that is not `x`. `overlap`: called if bytes are shared; returns the implementation to run, or raises.
    """

    name: str
    prop_kind: str = "forward_inference"
    may_be_in_place: bool = True
    is_real: bool = False
    is_several: bool = False
    narrows_lists: bool = True
    others: tuple[str, ...] = ()
    arguments: Mapping[int, str] = field(default_factory=dict)
    overlap: Callable[[str, Implementation, Memories], Implementation] | None = None

    def call(
        self,
        compute: Compute,
        parameters: Parameters,
        key: Any,
        x: Any,
        out: Any,
        operands: Sequence[Any] = (),
    ) -> Any:
        """Return the array that `compute(x, out, operands, parameters, signed)` writes, of arrays and memory
        objects.

        A repeated call, with arrays of the same kinds and an equal key, reuses what the first one found; None
        is not a key. The result belongs to the library of `x`.
        """
        signed, source, target = None, read_from(x), None if out is None else write_to(out)
        if key is None or source is None or (out is not None and target is None):
            pass  # needs a closer look
        elif not operands:
            signature: Hashable = (self.name, key, source[0], target and target[0])
            call = find_call(signature)
            if call is None:
                signed = CallKey(signature, (source,), target)
            elif target is None:
                return call.into_new(source)
            elif call.into(source, target):
                return out
        else:
            sources = [source]
            kinds: list[Kind | None] = [source[0]]
            for operand in operands:
                read = None if operand is None else read_from(operand)
                if read is not None:
                    sources.append(read)
                    kinds.append(read[0])
                elif operand is None:
                    kinds.append(None)
                else:
                    break
            else:
                signature = self.name, key, tuple(kinds), target and target[0]
                call = find_call(signature)
                if call is None:
                    signed = CallKey(signature, sources, target)
                else:
                    is_done, result = call.join(sources, target)
                    if is_done:
                        return result if out is None else out
        try:
            if any(map(is_foreign, (x, out, *operands))):
                return self._of_others(partial(self.call, compute, parameters, key), x, out, operands)
            read = as_array(x, self._what(0))
            read = narrowed(read) if self.narrows_lists and read is not x else read
            result = compute(read, out, operands, parameters, signed)
            return result_of(result, is_memory=isinstance(read, Memory)) if out is None else out
        except Error as error:
            error.drop_frames()
            raise

    def _of_others(self, call: Callable[..., Any], x: Any, out: Any, operands: Sequence[Any]) -> Any:
        """Return `call(x, out, operands)` for arrays of other libraries."""

        def of_numpy(x: Any, out: Any) -> Any:
            pairs = enumerate(operands, 1)
            return call(
                x,
                out,
                [arg if isinstance(arg, Memory) else as_numpy(arg, self._what(i)) for i, arg in pairs],
            )

        return for_owner(self._what(0), x, out, of_numpy)

    def _what(self, index: int) -> str:
        """Return the name of an array in messages."""
        if self.is_several:
            return f"{self.name}: array {index}"
        names = tuple(self.arguments.values()) or ("x", *(self.others or ("a tensor next to x",) * index))
        return f"{self.name}: {names[index]}"

    def _name_of(self, arg: int) -> str:
        """Return the name of an argument in messages."""
        if arg in SEVERAL_SOURCES:
            return f"array {arg - ARG_MULTIPLE_SRC}"
        names = {ARG_SRC: "x", ARG_DST: "out", **self.arguments}
        return names.get(arg) or NAMES[arg].removeprefix("ARG_").lower()

    # --- arrays as memories ---------------------------------------------------------------------------------

    def source(self, x: Any, engine: Engine) -> Memory:
        """Return the source as a memory object on the engine."""
        return memory_of(x, engine, Subject.source(self.name))

    def target(self, out: Any, like: MemoryDesc, dims: Sequence[int], engine: Engine) -> Memory:
        """Return the destination: a new dense memory in the format of `like`, or the caller's."""
        if out is None:
            tag = Tag(like.outer_order, like.inner_blks, like.inner_idxs)
            is_whole = like.data_type.is_integral or like.data_type is DataType.boolean
            kind = DataType.f32 if self.is_real and is_whole else like.data_type
            return Memory(MemoryDesc(dims, kind, tag), engine)
        return self.destination(out, engine)

    def destination(self, out: Any, engine: Engine) -> Memory:
        """Return the array to write, as a memory object on the engine."""
        subject = Subject.target(self.name)
        refuse_host_out(subject.refused, out, engine)
        return memory_of(out, engine, subject)

    def axis(self, axis: Any, ndims: int, read: object) -> int:
        """Return an axis, counted from 0. Raises InvalidArguments if there is none, showing `read` as `x`."""
        number = parse_int(axis, f"{self.name}: axis")
        if -ndims <= number < ndims:
            return number % ndims
        raise refuse("RS-S05:x-axes", name=self.name, number=number, read=read, ndims=ndims)

    # --- the run --------------------------------------------------------------------------------------------

    def run(
        self, problem: Problem, engine: Engine, memories: Memories, signed: CallKey | None = None
    ) -> None:
        """Find the implementation, check, and run to completion. `memories` by argument."""
        describe = partial(describe_operation, prop_kind=self.prop_kind)
        impl = find_implementation(problem, engine, describe, lambda: compiled(problem, engine))
        self.execute(impl, memories, signed)

    def execute(
        self,
        impl: Implementation,
        memories: Memories,
        signed: CallKey | None = None,
        dtype: NumpyType | None = None,
    ) -> None:
        """Check and run to completion. `signed`: the key under which later calls find this one; their new
        results have the type `dtype`.
        """
        slots = zip(impl.args, impl.executable.program.slots, strict=True)
        outputs = {arg for arg, slot in slots if arg is not None and slot.is_written}
        for arg, memory in memories.items():
            check_memory(self.name, self._name_of(arg), memory, memory.desc, impl.engine)
            if arg in outputs:
                check_destination(self.name, memory, self._name_of(arg))
        running = impl
        for arg in outputs:
            shared = {
                a: other for a, other in memories.items() if a != arg and share_bytes(other, memories[arg])
            }
            if shared:
                running = self._in_place(impl, memories, arg, shared)
        synchronize(*memories.values())
        running.executable.prepare()
        with Watch("execution", partial(describe_operation, prop_kind=self.prop_kind), running):
            run(running, dict(memories))
        if signed is not None:
            remember(signed, impl, memories, dtype, may_be_in_place=self.may_be_in_place)

    def _in_place(
        self, impl: Implementation, memories: Memories, arg: int, shared: Memories
    ) -> Implementation:
        """Return the implementation if `arg` overwrites bytes of `shared`; raise if that is impossible."""
        if self.overlap is not None:
            return self.overlap(self.name, impl, memories)
        for other, memory in shared.items():
            is_pair = self.may_be_in_place and (other, arg) in _IN_PLACE
            if not is_pair or overlaps(memory, memories[arg]):
                raise refuse(
                    "RS-N09:overlap",
                    name=self.name,
                    name_of=self._name_of(other),
                    name_of2=self._name_of(arg),
                    desc=memory.desc,
                    target_desc=memories[arg].desc,
                )
        return impl


def remember(
    signed: CallKey,
    impl: Implementation,
    memories: Memories,
    dtype: NumpyType | None = None,
    *,
    may_be_in_place: bool = False,
) -> None:
    """Let later calls run the machine code directly, if it reads the very bytes of the call's arguments."""
    first, target_arg, *others = impl.args
    sources = [memories[arg] for arg in (first, *others) if arg is not None]
    is_whole = target_arg == ARG_DST and len(sources) == len(signed.sources)
    words = None
    if impl.computation.operands:
        # Each is the memory of an argument, starting with its first element.
        is_whole = is_whole and None not in others and not any(memory.desc.offset0 for memory in sources)
        words = ParamPacker(replace(impl.computation, operands=()), len(sources) - 1)
    if not is_whole or not isinstance(impl.executable, CpuExecutable):
        return
    if all(map(_has_bytes_of, signed.sources, sources)):
        is_memory = isinstance(signed.sources[0][0], MemoryDesc)
        cache_call(
            signed,
            impl,
            sources,
            memories[ARG_DST],
            dtype=dtype,
            is_memory=is_memory,
            words=words,
            may_be_in_place=may_be_in_place,
        )


def result_of(result: Any, *, is_memory: bool) -> Any:
    """Return the result of a call: an array if NumPy can express it, unless it is to be a memory."""
    if is_memory or not isinstance(result, Memory):
        return result
    md = result.desc
    is_array = not md.inner_blks and md.data_type.bits >= 8 and result.engine.device.is_host
    return np.asarray(result) if is_array else result


def _has_bytes_of(operand: ArrayOperand, memory: Memory) -> bool:
    """Return True for an operand's own memory, not a copy in another type."""
    kind, address, owner = operand
    if isinstance(kind, MemoryDesc):
        return memory._buffer is owner
    return memory._lo <= address < memory._hi or memory._lo == memory._hi


def with_axis_last(x: Any, axis: int) -> Any:
    """Return an array or a memory with that axis moved to the end, over the same bytes."""
    return permuted(x, (*(i for i in range(ndims_of(x)) if i != axis), axis))


def with_axis_at(x: Any, axis: int) -> Any:
    """Return an array or a memory with its last axis moved to another place, over the same bytes."""
    order = list(range(ndims_of(x) - 1))
    order.insert(axis, len(order))
    return permuted(x, tuple(order))


def ndims_of(x: Any) -> int:
    """Return the number of axes of an array or a memory."""
    return x.desc.ndims if isinstance(x, Memory) else x.ndim


def permuted(x: Any, order: tuple[int, ...]) -> Any:
    """Return an array or a memory over the same bytes, whose axis i is the former axis `order[i]`."""
    if order == tuple(range(len(order))):
        return x
    if isinstance(x, Memory):
        return Memory(x.desc.permute_axes([order.index(i) for i in range(len(order))]), x.engine, x)
    return x.transpose(order)
