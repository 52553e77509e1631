"""Kernels as handlers that XLA calls from its own threads, without Python where the work is small."""

from __future__ import annotations

import ctypes
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from restride.emit.xla_handler import FACT_NAMES, FACTS, HANDLER, MAJOR, xla_handler_ir
from restride.targets import jit, store
from restride.targets.isa import host_isa

__all__ = ["MAJOR", "XlaOperand", "XlaWork", "make_handler"]

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64, ctypes.c_uint64)
# XLA keeps the address of a handler for good, and so do compiled programs.
_KEPT: list[object] = []


@dataclass(frozen=True, slots=True)
class XlaOperand:
    """What a handler must be given or give: XLA's number of a type, and how many elements."""

    type_number: int
    elements: int


@dataclass(frozen=True, slots=True)
class XlaWork:
    """What a handler does. `whole`: a kernel void(src, dst, params) that one thread runs, or 0; `run`: the
    same for all other work, called from a thread of XLA's; `keep`: what both need to live on."""

    whole: int
    params: int
    run: Callable[[int, int], None]
    keep: object


def make_handler(work: XlaWork, src: XlaOperand, dst: XlaOperand) -> int:
    """The address of a new handler, good for the rest of the process."""
    isa = host_isa()
    library = jit.load(store.object_code(xla_handler_ir(isa.triple), isa))
    callback = _CALLBACK(_guarded(work.run))
    address = ctypes.cast(callback, ctypes.c_void_p).value or 0
    words = (work.whole, address, work.params, src.type_number, src.elements, dst.type_number, dst.elements)
    facts = (ctypes.c_uint64 * len(FACT_NAMES)).from_address(library.address(FACTS))
    facts[:] = list(words)
    _KEPT.append((library, callback, work))
    return library.address(HANDLER)


def _guarded(run: Callable[[int, int], None]) -> Callable[[int, int], int]:
    """A function that gives 1 in place of an exception, which no native caller could take."""

    def called(src: int, dst: int) -> int:
        try:
            run(src, dst)
        except BaseException:
            traceback.print_exc(file=sys.stderr)
            return 1
        return 0

    return called
