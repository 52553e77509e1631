"""Checks of the memory objects of an execution, before anything runs (N9, N10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..desc.arguments import ARG_SCRATCHPAD, name_of
from ..desc.attr_value import above_one, fits_extents
from ..desc.layout import BlockedLayout
from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments, refuse
from ..ir.computation import OperandSource
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.overlap import share_bytes_at
from ..runtime.stream import Stream

_SCRATCHPAD = f"argument {name_of(ARG_SCRATCHPAD)}"


class Names(NamedTuple):
    """Names in the errors of a primitive or a function on arrays: the call, a source, its destination."""

    call: str
    one: str = "source"
    dst: str = "dst"

    def source(self, index: int) -> str:
        """Return the name of a source: `source 1`, `array 1`."""
        return f"{self.one} {index}"

    @property
    def written(self) -> str:
        """The destination as written in a sentence."""
        return "the destination" if self.dst == "dst" else self.dst

    def listed(self, srcs: Sequence[MemoryDesc]) -> str:
        """Return the first few sources with their descriptors."""
        text = "; ".join(f"{self.source(i)} {md}" for i, md in enumerate(srcs[:4]))
        return f"{text}; ... {len(srcs)} {self.one}s" if len(srcs) > 4 else text


def share_bytes(one: Memory, other: Memory) -> bool:
    """Return True if some byte belongs to both memory objects; empty tensors have none."""
    is_near = one._lo < one._hi and one._lo < other._hi and other._lo < one._hi
    return is_near and share_bytes_at(one.desc, one._address, other.desc, other._address)


def overlaps(src: Memory, dst: Memory) -> bool:
    """Return True if writing `dst` can change `src` before it is read: unless converted in place (N9)."""
    if not share_bytes(src, dst):
        return False
    return not (src._address == dst._address and is_same_place(src.desc, dst.desc))


def is_same_place(src: MemoryDesc, dst: MemoryDesc) -> bool:
    """Return True for descriptors that put each element at the same byte."""
    return src.layout == dst.layout and src.data_type.bits == dst.data_type.bits


def check_memory(call: str, name: str, memory: object, desc: MemoryDesc, engine: Engine) -> None:
    """Raise InvalidArguments unless `memory` is of `desc`, on `engine`, with data, not mapped (N10).

    `call` is the caller's function, such as "Reorder.execute", and `name` its name for the memory.
    """
    # No message is composed for a valid memory: printing a descriptor takes 40 us.
    if not isinstance(memory, Memory):
        raise _unfit(
            "RS-V08",
            call,
            name,
            desc,
            f"expected an rs.Memory, got {type(memory).__name__}",
            "pass rs.Memory(md, engine)",
        )
    if not memory:
        raise _unfit("RS-M36", call, name, desc, "the memory is empty", "give it a descriptor and an engine")
    if memory.desc != desc:
        hint = "create the primitive from this memory's descriptor, or reorder into the primitive's"
        raise _unfit("RS-R07", call, name, desc, "its descriptor is not the primitive's", hint, memory)
    if memory.engine is not engine:
        why = f"it is on engine {memory.engine}, and the call runs on {engine}"
        raise _unfit("RS-R05", call, name, desc, why, f"create the memory on engine {engine}", memory)
    if memory._mapped:
        raise _unfit("RS-M38", call, name, desc, "the memory is mapped", "call unmap_data() first", memory)
    if memory._address == 0 and desc.nelems:
        hint = "call set_data_handle, or omit data to allocate"
        raise _unfit("RS-M36", call, name, desc, "the memory has no buffer", hint, memory)


def _unfit(
    code: str, call: str, name: str, desc: MemoryDesc, why: str, hint: str, memory: Memory | None = None
) -> InvalidArguments:
    is_other = memory is not None and memory.desc != desc
    where = "" if desc.is_zero() else str(desc)
    if memory and is_other:
        where = f"memory {memory.desc}; primitive {desc}"
    return InvalidArguments(f"{call}: {name} is not valid", code=code, where=where, why=why, hint=hint)


def check_destination(call: str, memory: Memory, name: str = "the destination") -> None:
    """Raise InvalidArguments for a read-only destination."""
    if memory.readonly:
        raise refuse("RS-A08:read-only", call=call, name=name, desc=memory.desc)


def checked_stream(kind: str, stream: object, engine: Engine) -> Stream:
    """Return a stream of `engine`. Raises InvalidArguments for anything else."""
    if not isinstance(stream, Stream):
        raise refuse("RS-V08:no-stream", kind=kind, type=type(stream).__name__)
    if stream.engine is not engine:
        raise refuse("RS-R05:stream-another-engine", kind=kind, engine=stream.engine, engine2=engine)
    return stream


def check_operand(call: str, operand: OperandSource, memory: Memory, engine: Engine, dst: Memory) -> None:
    """Raise InvalidArguments unless a memory matches the operand and is disjoint from `dst`."""
    name = f"argument {name_of(operand.arg)}"
    expected = operand.desc if operand.desc is not None else getattr(memory, "desc", MemoryDesc())
    check_memory(call, name, memory, expected, engine)
    if operand.desc is None:
        _check_values(call, name, operand, memory.desc)
    if memory._lo < dst._hi and dst._lo < memory._hi:
        raise refuse("RS-N09:overlaps-destination", call=call, name=name, desc=memory.desc, dst_desc=dst.desc)


def _check_values(call: str, name: str, operand: OperandSource, md: MemoryDesc) -> None:
    """Check scales and zero points: their number, shape and type, and that they are contiguous."""
    if md.nelems != operand.count:
        why = f"the mask requires {operand.count} values, but it has {md.nelems}"
    elif md.data_type is not operand.data_type:
        why = f"its values are {md.data_type}, but the attribute requires {operand.data_type}"
    elif md.nelems and not _is_dense(md.layout):
        why = "its values are not contiguous in row-major order"
    elif not fits_extents(md.dims, operand.extents):
        why = f"it is {_times(md.dims)}, but the masked dims are {_times(above_one(operand.extents))}"
    else:
        return
    raise refuse(
        "RS-R07:no-dense-values",
        call=call,
        name=name,
        md=md,
        why=why,
        count=operand.count,
        data_type=str(operand.data_type),
    )


def _times(dims: Sequence[int]) -> str:
    return " x ".join(map(str, dims))


def _is_dense(layout: BlockedLayout) -> bool:
    expected = 1
    for extent, stride in zip(reversed(layout.dims), reversed(layout.strides), strict=True):
        if extent > 1 and stride != expected:
            return False
        expected *= extent
    return not layout.inner_blks


def check_outputs(
    call: str,
    arg_names: Mapping[object, str],
    descs: Mapping[int, MemoryDesc],
    others: Mapping[int, Memory],
    dst: Memory,
    in_place: Mapping[int, int],
) -> None:
    """Raise InvalidArguments unless the other outputs are valid, writable and disjoint.

    `arg_names`: the constants for arguments. `others`: all memory objects except the destination. `in_place`:
    outputs that can be written exactly where another argument is read.
    """
    engine: Engine = dst.engine
    for arg, md in descs.items():
        memory = others[arg]
        check_memory(call, f"argument {name_of(arg, arg_names)}", memory, md, engine)
        check_destination(call, memory)
    rest = dict(others)
    for arg in descs:
        output = rest.pop(arg)
        near: list[tuple[int | None, Memory]] = [*rest.items(), (None, dst)]
        for at, other in near:
            is_near = output._lo < other._hi and other._lo < output._hi
            if is_near and not (at is not None and at == in_place.get(arg) and _is_same(output, other)):
                name = "the destination" if at is None else name_of(at, arg_names)
                raise refuse(
                    "RS-N09:overlaps",
                    call=call,
                    name_of=name_of(arg, arg_names),
                    name=name,
                    desc=output.desc,
                    other_desc=other.desc,
                )


def _is_same(one: Memory, other: Memory) -> bool:
    """Return True if the elements of two memory objects are the same bytes."""
    return one._lo == other._lo and one.desc == other.desc


def check_scratchpad(
    call: str, pad: Memory, expected: MemoryDesc, engine: Engine, others: Mapping[str, Memory]
) -> None:
    """Raise InvalidArguments unless the scratchpad of an execution is valid.

    Any dense u8 tensor that is long enough is: one can serve several primitives in sequence.
    """
    will_do = isinstance(pad, Memory) and _is_long_enough(pad.desc, expected)
    check_memory(call, _SCRATCHPAD, pad, pad.desc if will_do else expected, engine)
    check_destination(call, pad)
    for name, other in others.items():
        if pad._lo < other._hi and other._lo < pad._hi:
            raise refuse(
                "RS-N09:argument-overlaps",
                call=call,
                name_of=name_of(ARG_SCRATCHPAD),
                name=name,
                desc=pad.desc,
                other_desc=other.desc,
            )


def _is_long_enough(md: MemoryDesc, expected: MemoryDesc) -> bool:
    is_row = md.data_type is expected.data_type and md.ndims == 1 and md.strides == (1,)
    return is_row and md.nelems >= expected.nelems
