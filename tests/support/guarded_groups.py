"""Quantizations in groups on buffers between pages that nobody may touch, in a process of its own.

    python -m support.guarded_groups LEVEL

prints the case that it is about to run, so that a crash names its case, and `done` at the end.
"""

from __future__ import annotations

import resource
import sys

import numpy as np

import restride as rs
from restride.desc.memory_desc import MemoryDesc
from restride.runtime.cpu.executable import CpuExecutable
from restride.runtime.cpu.kernel import KernelWords
from restride.targets.isa import CacheSizes, Isa

from .group_quantizations import CASES, Case
from .guarded import Guarded
from .kernels import COMMON, POISON, isa_id, runnable

_NO_CACHE = CacheSizes(l2=1, l3=1)


def run_case(case: Case, isa: Isa, caches: CacheSizes, *, at_end: bool) -> None:
    """The kernels read the tensor alone, and write elements, scales and zero points alone."""
    source = rs.Memory(case.descs[0], rs.Engine("cpu"))
    rs.reorder(case.source(), None, out=source)
    tensor = Guarded(case.descs[0].size, at_end=at_end)
    tensor.write(source.data.tobytes())
    tensor.lock()
    written = [*case.descs[1:], *([MemoryDesc(case.counts, "u8")] if case.has_zeros else [])]
    outputs = [Guarded(md.size, at_end=at_end) for md in written]
    for output, md in zip(outputs, written, strict=True):
        output.write(np.full(md.size, 0xA5, np.uint8).tobytes())
    values, *beside = (output.address for output in outputs)
    words = KernelWords((1.0,) if case.is_two_level else (), beside)
    CpuExecutable(case.program, isa, caches).run(tensor.address, values, words.address)
    if set().union(*(output.around() for output in outputs)) - {POISON}:
        raise AssertionError("bytes outside the outputs were written")


def main(level: str) -> None:
    """Run all cases for one instruction set."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    isa = next(isa for isa in runnable() if isa_id(isa) == level)
    for number, case in enumerate(CASES):
        for at_end in (False, True):
            print(f"{case} for {level}, at the {'end' if at_end else 'start'}", flush=True)
            run_case(case, isa, _NO_CACHE if number % 2 else COMMON, at_end=at_end)
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
