"""Kernels as handlers that XLA calls from its own threads, without Python for small work."""

from __future__ import annotations

import ctypes
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from restride.emit.xla_handler import (
    FACT_NAMES,
    FACTS,
    HANDLER,
    MAJOR,
    MOST_SOURCES,
    xla_handler_ir,
)
from restride.targets import jit, store
from restride.targets.isa import host_isa

__all__ = ["MAJOR", "XlaOperand", "XlaWork", "make_handler"]

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64, ctypes.c_uint64)
# XLA keeps the address of a handler forever, and so do compiled programs.
_KEPT: list[object] = []


@dataclass(frozen=True, slots=True)
class XlaOperand:
    """The required operand of a handler: XLA's number of a type, and the number of elements."""

    type_number: int
    elements: int


@dataclass(frozen=True, slots=True)
class XlaWork:
    """The work of a handler. `whole`: a kernel void(src, dst, params) that one thread runs, or 0; `run`: the
    same for all other work, called from XLA's threads with the addresses of sources and destination; `keep`:
    objects that both need alive.
    """

    whole: int
    params: int
    run: Callable[..., None]
    keep: object


def make_handler(work: XlaWork, sources: Sequence[XlaOperand], dst: XlaOperand) -> int:
    """Return the address of a new handler, valid until the process ends, with up to MOST_SOURCES sources."""
    isa = host_isa()
    library = jit.load(store.object_code(xla_handler_ir(isa.triple), isa))
    callback = _CALLBACK(_guarded(work.run, len(sources)))
    address = ctypes.cast(callback, ctypes.c_void_p).value or 0
    absent = [XlaOperand(0, 0)] * (MOST_SOURCES - len(sources))
    operands = [(operand.type_number, operand.elements) for operand in (dst, *sources, *absent)]
    facts = (ctypes.c_uint64 * len(FACT_NAMES)).from_address(library.address(FACTS))
    facts[:] = [
        work.whole,
        address,
        work.params,
        len(sources),
        *(word for operand in operands for word in operand),
    ]
    _KEPT.append((library, callback, work))
    return library.address(HANDLER)


def _guarded(run: Callable[..., None], count: int) -> Callable[[int, int], int]:
    """Return a function that returns 1 instead of raising, which no native caller could handle."""
    addresses = ctypes.c_uint64 * count

    def called(sources: int, dst: int) -> int:
        try:
            run(*addresses.from_address(sources), dst)
        except BaseException:
            traceback.print_exc(file=sys.stderr)
            return 1
        return 0

    return called
