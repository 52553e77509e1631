"""The scratchpad that a caller brings in user mode: large enough, writable, and apart from all else (R33)."""

from __future__ import annotations

from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments
from ..runtime.memory import Memory
from .args import ARG_SCRATCHPAD, name_of
from .base import PrimitiveDescBase, check_destination, check_memory
from .feeding import Extras

_NAME = f"argument {name_of(ARG_SCRATCHPAD)}"


def check_scratchpad(call: str, pd: PrimitiveDescBase, src: Memory, dst: Memory, extras: Extras) -> None:
    """Raise InvalidArguments unless the scratchpad of an execution, if it asked for one, will do.

    Any dense row of u8 that is long enough will: one may serve several primitives, one after the other.
    """
    if ARG_SCRATCHPAD not in extras:
        return
    pad, wanted = extras[ARG_SCRATCHPAD], pd.scratchpad_desc()
    will_do = isinstance(pad, Memory) and _is_long_enough(pad.desc, wanted)
    check_memory(call, _NAME, pad, pad.desc if will_do else wanted, pd.get_engine())
    check_destination(call, pad)
    others = {name_of(arg): held for arg, held in extras.items() if arg != ARG_SCRATCHPAD}
    for name, other in ({"src": src, "dst": dst} | others).items():
        if pad._lo < other._hi and other._lo < pad._hi:
            raise InvalidArguments(
                f"{call}: {_NAME} overlaps {name}",
                code="RS-N09",
                where=f"scratchpad {pad.desc}; {name} {other.desc}",
                why="it is written while they are in use (N9)",
                hint="give each execution that runs at the same time a scratchpad of its own",
            )


def _is_long_enough(md: MemoryDesc, wanted: MemoryDesc) -> bool:
    is_row = md.data_type is wanted.data_type and md.ndims == 1 and md.strides == (1,)
    return is_row and md.nelems >= wanted.nelems


def scratch_address(extras: Extras, held: list[object]) -> int:
    """Where the checked scratchpad of a run begins, 0 without one; `held` keeps its buffer."""
    pad = extras.get(ARG_SCRATCHPAD)
    if pad is None or pad._buffer is None:
        return 0
    held.append(pad._buffer)
    return pad._buffer.address + pad.desc.offset0
