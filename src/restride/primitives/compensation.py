"""Sums over the quantised destination, found right after it is written (spec 2.4).

A convolution of s8 activations and s8 weights on instructions that want u8 adds 128 to its source; one with a
zero point of its source shifts it. Both are taken back by one s32 for each output channel: -128 times the sum
of its weights, and -1 times it. Behind the bytes of the weights, in this order, is where oneDNN looks for
them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..desc.attr import Compensation
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..errors import InvalidArguments
from ..plan.reduction import Op, interpret, reduction_of
from ..runtime.alloc import Array
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.reduction import SumProgram
from ..runtime.reference import storage
from .args import ARG_DST_1, ARG_DST_2, name_of
from .base import check_destination, check_memory
from .feeding import Extras

Sum = Callable[[Memory], Array]
_TYPES = (DataType.s8, DataType.u8, DataType.s32)


def check_compensation(wanted: Compensation, dst: MemoryDesc, where: str) -> None:
    """Raise InvalidArguments for a destination that is not summed, or a mask beyond its dims (N10)."""
    if dst.data_type not in _TYPES:
        raise InvalidArguments(
            f"reorder: compensation of {dst.data_type}",
            where=where,
            why="sums are of a quantised destination, s8, u8 or s32",
            hint="quantise to s8",
        )
    if wanted.mask >> dst.ndims:
        raise InvalidArguments(
            f"reorder: the mask of the compensation is {wanted.mask}",
            where=where,
            why=f"the destination has dims 0 to {dst.ndims - 1} (N10)",
            hint="bit i keeps dim i: 1 for OIhw weights, 3 for gOIhw",
        )


def compensation_descs(wanted: Compensation, dst: MemoryDesc) -> dict[int, MemoryDesc]:
    """What the memories of the sums are: s32, one for each index of the kept padded dims."""
    count = prod(n for d, n in enumerate(dst.padded_dims) if wanted.mask >> d & 1)
    md = MemoryDesc((count,), "s32", "a")
    asked = ((ARG_DST_1, wanted.s8s8), (ARG_DST_2, wanted.zero_point))
    return {arg: md for arg, is_wanted in asked if is_wanted}


def check_outputs(kind: str, descs: dict[int, MemoryDesc], extras: Extras, src: Memory, dst: Memory) -> None:
    """Raise InvalidArguments unless the memories of the sums are right, writable and apart."""
    engine: Engine = dst.engine
    for arg, md in descs.items():
        memory = extras[arg]
        check_memory(kind, f"argument {name_of(arg)}", memory, md, engine)
        check_destination(kind, memory)
    others = {"src": src, "dst": dst} | {name_of(arg): memory for arg, memory in extras.items()}
    for arg in descs:
        name = name_of(arg)
        sums = others.pop(name)
        for at, other in others.items():
            if sums._lo < other._hi and other._lo < sums._hi:
                raise InvalidArguments(
                    f"{kind}.execute: the sums {name} overlap {at}",
                    where=f"{sums.desc}; {other.desc}",
                    why="one would overwrite the other (N9)",
                    hint="sums have a memory of their own, or lie behind the destination's md.size bytes",
                )


def sums_of(wanted: Compensation, dst: MemoryDesc, engine: Engine) -> Sum:
    """A function that gives -1 times the sums of a destination, s32 modulo 2**32."""
    if engine.kind == "reference":
        reduction = reduction_of(dst, wanted.mask, Op.total)
        return lambda memory: interpret(reduction, storage(memory), -1)[0]
    program = SumProgram(dst, wanted.mask, -1, padded=True)
    return lambda memory: program.sums(memory._address)


class Compensated:
    """A solved reorder that also writes the sums of its destination."""

    def __init__(self, inner: Any, wanted: Compensation, engine: Engine) -> None:
        dst: MemoryDesc = inner.problem.dst
        self._inner, self.problem, self.chain = inner, inner.problem, inner.chain
        self.name, self.why = inner.name, inner.why
        self.scratch_bytes = getattr(inner, "scratch_bytes", 0)
        self.outputs = compensation_descs(wanted, dst)
        self._sums = sums_of(wanted, dst, engine)

    def prepare(self) -> None:
        """Compile the reorder; sums take a second step, so that there is no direct call."""
        self._inner.prepare()

    def run(self, src: Memory, dst: Memory, extras: Extras) -> None:
        """Run on checked memories."""
        self._inner.run(src, dst, extras)
        found = np.asarray(self._sums(dst)).reshape(-1)
        for arg in self.outputs:
            held = extras[arg].data
            if held is not None:
                held[: found.size] = found if arg == ARG_DST_2 else found * np.int32(128)
