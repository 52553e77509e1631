"""Programs of one nest that computes each element of the destination from elements at the same index.

Sources are broadcast along their dims of 1. The value starts as an element of the first; the others, and the
operands of attributes, are operands of the chain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..desc.post_op_values import FIXED_POWERS, EltwiseOp
from .computation import Computation
from .digits import TensorOperand, digits_of, index_digits, nest_of
from .nest import Compute, LoopNest
from .program import DST, SRC, NestStep, Place, Program, Slot

# A function of one element takes as long as moving this many bytes (measured: 1 to 5 ns, at 10 bytes a ns).
_FUNCTION_BYTES = 32
_CHEAP_BYTES = 2
_CHEAP = frozenset(
    (
        *("abs", "clip", "clip_v2", "hardsigmoid", "hardswish", "linear", "relu", "round", "sqrt", "square"),
        *FIXED_POWERS.values(),
    )
)


def function_bytes(attr: Attr, *more: str) -> int:
    """Return the bytes that could be moved in the time of the functions of one element, including `more`."""
    functions = (*more, *(op.function for op in attr.post_ops if isinstance(op, EltwiseOp)))
    return sum(_CHEAP_BYTES if alg in _CHEAP else _FUNCTION_BYTES for alg in functions)


def pointwise_nest(
    src: MemoryDesc, dst: MemoryDesc, compute: Compute, tensors: Sequence[TensorOperand]
) -> LoopNest:
    """Return the nest that computes every element of `dst` and writes zero into its padding."""
    first = TensorOperand.of_desc(src)
    dims = [
        digits_of([first.dims[dim], index_digits(dst, dim), *(t.dims[dim] for t in tensors)], padded)
        for dim, padded in enumerate(dst.padded_dims)
    ]
    return nest_of(src, dst, compute, dims, tensors)


def pointwise_program(
    sources: Mapping[int, MemoryDesc],
    written: tuple[int, MemoryDesc],
    computed: Computation,
    work_bytes: int,
) -> Program:
    """Return the program of a chain: `sources` by argument, in the chain's order; `written` is its result.

    A source with the destination's layout can be the destination: elements are read before they are written.
    """
    (first, src), *more = sources.items()
    arg, dst = written
    tensors = [*(TensorOperand.of_desc(md) for _, md in more), *computed.tensors]
    slots = (
        Slot(first),
        Slot(arg, is_written=True),
        *(Slot(each, span=md.extent_range()) for each, md in more),
        *computed.slots(),
    )
    step = NestStep(
        pointwise_nest(src, dst, computed.compute, tensors),
        Place(SRC),
        Place(DST),
        work_bytes,
        src.extent_range(),
        dst.extent_range(),
        tuple(Place(DST + 1 + i) for i in range(len(tensors))),
        (0, len(computed.scalars)),
    )
    return Program(slots, (step,), scalars=len(computed.scalars)).verify()


def moved_bytes(sources: Sequence[MemoryDesc], dst: MemoryDesc, *, is_summed: bool = False) -> int:
    """Return the bytes moved, including padding of the destination, which counts twice if it is summed."""
    read = sum(md.data_type.nbytes(md.nelems) for md in sources)
    return read + dst.data_type.nbytes(prod(dst.padded_dims)) * (2 if is_summed else 1)
