"""The time-stamp counter of the processor and its rate, for the tokens %clocks% and %freq%."""

from __future__ import annotations

import ctypes
import functools
import platform
import time
from collections.abc import Callable

from restride.targets.isa import host_isa
from restride.targets.jit import compile_ir, load

_SPAN = 0.02  # seconds: reading both clocks takes a millionth of them
_READ = """
declare i64 @llvm.readcyclecounter()

define i64 @ticks() {
  %now = call i64 @llvm.readcyclecounter()
  ret i64 %now
}
"""


@functools.cache
def rate() -> float:
    """Ticks of the counter in a second, measured once; 0 where programs may not read one.

    That of x86 runs at one rate, whatever the clock of the cores does. Elsewhere reading it may be illegal.
    """
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return 0.0
    library = load(compile_ir(_READ, host_isa()))
    ticks = ctypes.CFUNCTYPE(ctypes.c_uint64)(library.address("ticks"))
    return _measured(ticks)


def _measured(ticks: Callable[[], int]) -> float:
    begin, first = time.perf_counter_ns(), ticks()
    time.sleep(_SPAN)
    end, last = time.perf_counter_ns(), ticks()
    return (last - first) * 1e9 / (end - begin)
