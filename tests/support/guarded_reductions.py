"""Reductions on buffers between pages that nobody may touch, in a process of its own.

    python -m support.guarded_reductions LEVEL

prints the case that it is about to run, so that a crash names its case, and `done` at the end.
"""

from __future__ import annotations

import resource
import sys

import numpy as np

from restride.targets.isa import CacheSizes, Isa

from .guarded import Guarded
from .kernels import COMMON, POISON, isa_id, runnable
from .reductions import CASES, NO_CACHE, Reduced, compiled, expected, run, same, source


def run_case(case: Reduced, isa: Isa, caches: CacheSizes, *, at_end: bool) -> None:
    """The kernels read the tensor alone, and write their outputs alone."""
    data = source(case.md, 1, case.op)
    width = case.md.data_type.bits // 8
    low, high = (end * width for end in case.md.extent_range())
    tensor = Guarded(high - low, at_end=at_end)
    tensor.write(data[low:high].tobytes())
    tensor.lock()
    empty = case.new_results()
    outputs = [Guarded(bits.nbytes, at_end=at_end) for bits in empty]
    for output, bits in zip(outputs, empty, strict=True):
        output.write(bits.tobytes())
    run(compiled(case, isa, caches), tensor.address - low, [output.address for output in outputs])
    same(case.values([np.frombuffer(output.read(), np.uint8) for output in outputs]), expected(case, data))
    if set().union(*(output.around() for output in outputs)) - {POISON}:
        raise AssertionError("bytes outside the outputs were written")


def main(level: str) -> None:
    """Run all cases for one instruction set."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    isa = next(isa for isa in runnable() if isa_id(isa) == level)
    for number, case in enumerate(CASES):
        for at_end in (False, True):
            print(f"{case.name} for {level}, at the {'end' if at_end else 'start'}", flush=True)
            caches = NO_CACHE if number % 2 else COMMON
            run_case(case, isa, caches, at_end=at_end)
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
