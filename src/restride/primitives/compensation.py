"""Sums over the quantised destination: which are asked for, and whether they can be (spec 2.4).

What finds them is in `compensated`, which is loaded when they are first asked for.
"""

from __future__ import annotations

from math import prod

from ..desc.attr import Compensation
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..errors import InvalidArguments
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from .args import ARG_DST_1, ARG_DST_2, name_of
from .base import check_destination, check_memory
from .feeding import Extras

FACTORS = {ARG_DST_1: -128, ARG_DST_2: -1}
"""By what the sums are multiplied."""
_TYPES = (DataType.s8, DataType.u8, DataType.s32, DataType.s4, DataType.u4)


def check_compensation(wanted: Compensation, dst: MemoryDesc, where: str) -> None:
    """Raise InvalidArguments for a destination that is not summed, or a mask beyond its dims (N10)."""
    if dst.data_type not in _TYPES:
        raise InvalidArguments(
            f"reorder: compensation of {dst.data_type}",
            code="RS-R27",
            where=where,
            why="sums are of a quantised destination, s8, u8, s32, s4 or u4",
            hint="quantise to s8",
        )
    if wanted.mask >> dst.ndims:
        raise InvalidArguments(
            f"reorder: the mask of the compensation is {wanted.mask}",
            code="RS-N10",
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


def check_outputs(call: str, descs: dict[int, MemoryDesc], extras: Extras, src: Memory, dst: Memory) -> None:
    """Raise InvalidArguments unless the memories of the sums are right, writable and apart."""
    engine: Engine = dst.engine
    for arg, md in descs.items():
        memory = extras[arg]
        check_memory(call, f"argument {name_of(arg)}", memory, md, engine)
        check_destination(call, memory)
    others = {"src": src, "dst": dst} | {name_of(arg): memory for arg, memory in extras.items()}
    for arg in descs:
        name = name_of(arg)
        sums = others.pop(name)
        for at, other in others.items():
            if sums._lo < other._hi and other._lo < sums._hi:
                raise InvalidArguments(
                    f"{call}: the sums {name} overlap {at}",
                    code="RS-N09",
                    where=f"{sums.desc}; {other.desc}",
                    why="one would overwrite the other (N9)",
                    hint="sums have a memory of their own, or lie behind the destination's md.size bytes",
                )
