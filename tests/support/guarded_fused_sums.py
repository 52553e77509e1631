"""Reorders with sums on buffers between pages that nobody may touch, in a process of its own.

    python -m support.guarded_fused_sums LEVEL

prints the case that it is about to run, so that a crash names its case, and `done` at the end.
"""

from __future__ import annotations

import resource
import sys

import numpy as np

from restride.targets.isa import CacheSizes, Isa

from .fused_sums import CASES, SMALL, Case, compiled, sums_of
from .guarded import Guarded
from .kernels import COMMON, POISON, destination, expected, isa_id, random_source, runnable, tame


def run_case(case: Case, isa: Isa, caches: CacheSizes, *, at_end: bool, parts: int) -> None:
    """The kernel reads the source alone, and writes its destination and its sums alone."""
    src_md, dst_md = case.descs
    data = random_source(src_md, 1)
    tame(data, src_md.data_type, 2)
    wanted = expected(case.nest, data, destination(dst_md), case.scale)
    kernel = compiled(case, isa, caches)
    empty = kernel.planes(parts)
    src, dst, sums = (Guarded(n, at_end=at_end) for n in (data.size, wanted.size, empty.nbytes))
    src.write(data.tobytes())
    src.lock()
    dst.write(destination(dst_md).tobytes())
    sums.write(empty.tobytes())
    starts = [sums.address + number * empty[0].nbytes for number in range(len(empty))]
    for part in range(parts):
        kernel.part(src.address, dst.address, starts, (part, parts))
    planes = np.frombuffer(sums.read(), np.int32).reshape(empty.shape)
    if (
        dst.read() != wanted.tobytes()
        or (planes[0].sum(axis=0, dtype=np.int32) != sums_of(case, wanted)).any()
    ):
        raise AssertionError("wrong bytes")
    if (dst.around() | sums.around()) - {POISON}:
        raise AssertionError("bytes outside the destination or the sums were written")


def main(level: str) -> None:
    """Run all cases for one instruction set."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    isa = next(isa for isa in runnable() if isa_id(isa) == level)
    for number, (name, case) in enumerate(CASES.items()):
        for at_end in (False, True):
            print(f"{name} for {level}, at the {'end' if at_end else 'start'}", flush=True)
            caches = SMALL if number % 2 else COMMON
            run_case(case, isa, caches, at_end=at_end, parts=1 + number % 3)
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
