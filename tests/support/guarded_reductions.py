"""Reductions on buffers between pages that nobody may touch, in a process of its own.

    python -m support.guarded_reductions LEVEL

prints the case that it is about to run, so that a crash names its case, and `done` at the end.
"""

from __future__ import annotations

import resource
import sys

import numpy as np

from restride.ir.reduction import Op
from restride.schedule.reduction import finish, new_planes
from restride.targets.isa import CacheSizes, Isa

from .guarded import Guarded
from .kernels import COMMON, POISON, isa_id, runnable
from .reductions import CASES, NO_CACHE, Reduced, compiled, expected, same, source


def run_case(case: Reduced, isa: Isa, caches: CacheSizes, *, at_end: bool, parts: int) -> None:
    """The kernel reads the tensor alone, and writes its outputs alone."""
    factor = -1 if case.op is Op.total else 1
    data = source(case.md, 1, case.op)
    width = case.md.data_type.bits // 8
    low, high = (end * width for end in case.md.extent_range())
    tensor = Guarded(high - low, at_end=at_end)
    tensor.write(data[low:high].tobytes())
    tensor.lock()
    kernel = compiled(case.reduction, isa, caches)
    empty = new_planes(case.reduction, kernel.planes)
    outputs = Guarded(empty.nbytes, at_end=at_end)
    outputs.write(empty.tobytes())
    for part in range(parts):
        kernel.part(tensor.address - low, outputs.address, factor, part, parts)
    planes = np.frombuffer(outputs.read(), empty.dtype).reshape(empty.shape)
    same(finish(case.reduction, planes), expected(case, data, factor))
    if outputs.around() - {POISON}:
        raise AssertionError("bytes beside the outputs were written")


def main(level: str) -> None:
    """Run all cases for one instruction set."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    isa = next(isa for isa in runnable() if isa_id(isa) == level)
    for number, case in enumerate(CASES):
        for at_end in (False, True):
            print(f"{case.name} for {level}, at the {'end' if at_end else 'start'}", flush=True)
            caches = NO_CACHE if number % 2 else COMMON
            run_case(case, isa, caches, at_end=at_end, parts=1 + number % 3)
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
