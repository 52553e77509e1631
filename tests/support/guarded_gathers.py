"""Trees with gathers, scatters and scans on buffers between pages that nobody may touch, in an own process.

    python -m support.guarded_gathers LEVEL

prints the case that it is about to run, so that a crash names its case, and `done` at the end.
"""

from __future__ import annotations

import resource
import sys

import numpy as np

from restride.targets.isa import Isa

from .gathers import CASES, Gather
from .guarded import Guarded
from .kernels import POISON, isa_id, runnable
from .trees import run_kernels


def run_case(case: Gather, isa: Isa, *, at_end: bool, parts: int) -> None:
    """The kernels read the sources alone, and write the destination alone."""
    tree, flats = case.tree(), case.flats(parts)
    pages = [Guarded(flat.nbytes, at_end=at_end) for flat in flats]
    for page, flat in zip(pages, flats, strict=True):
        page.write(flat.tobytes())
    for page in pages[:-1]:
        page.lock()
    held = [page.array().view(flat.dtype) for page, flat in zip(pages, flats, strict=True)]
    run_kernels(tree, held, isa, parts=parts)
    np.testing.assert_array_equal(case.result(held[-1]), case.wanted(flats))
    if pages[-1].around() - {POISON}:
        raise AssertionError("bytes outside the destination were written")


def main(level: str) -> None:
    """Run all cases for one instruction set."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    isa = next(isa for isa in runnable() if isa_id(isa) == level)
    for number, (name, case) in enumerate(CASES.items()):
        for at_end in (False, True):
            print(f"{name} for {level}, at the {'end' if at_end else 'start'}", flush=True)
            run_case(case, isa, at_end=at_end, parts=1 + number % 3)
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
