"""Loop trees on buffers between pages that nobody may touch, in a process of its own.

    python -m support.guarded_trees LEVEL

prints the case that it is about to run, so that a crash names its case, and `done` at the end.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator

import numpy as np

from restride.desc.memory_desc import MemoryDesc
from restride.plan.interpret_tree import interpret_tree
from restride.plan.tree import LoopTree
from restride.runtime.cpu.kernel import KernelWords, kernel_of
from restride.targets.cpu_kernels import lower_tree
from restride.targets.isa import Isa, host_caches

from .guarded import Guarded
from .kernels import POISON, isa_id, runnable
from .trees import flat_of, softmax_tree, window_tree

_TAGS = ("nchw", "nhwc", "nChw16c", "nChw8c")


def _cases() -> Iterator[tuple[str, LoopTree, list[MemoryDesc]]]:
    """Trees with their tensors, those that are written behind those that are read."""
    dims = (2, 19, 3, 5)
    for tag in _TAGS:
        for other in (tag, "nhwc"):
            for axis in (1, 3):
                mds = [MemoryDesc(dims, "f32", tag), MemoryDesc(dims, "bf16", other)]
                yield f"softmax of {tag} into {other} along {axis}", softmax_tree(*mds, axis), mds
        src, dst = MemoryDesc((1, 5, 6, 19), "s8", tag), MemoryDesc((1, 5, 3, 10), "f32", tag)
        dense = MemoryDesc(dst.dims, "f32", "nchw")
        yield f"windows of {tag}", window_tree(src, dst, 3, 2, 1), [src, dst, dense, dense]


def run_case(tree: LoopTree, mds: list[MemoryDesc], isa: Isa, *, at_end: bool) -> None:
    """Kernels read what is read alone, write what is written alone, and mean what the interpreter says."""
    random = np.random.default_rng(1)
    flats = [flat_of(md, random.integers(-9, 9, md.dims) if i == 0 else None) for i, md in enumerate(mds)]
    held = [Guarded(flat.nbytes, at_end=at_end) for flat in flats]
    for guarded, flat in zip(held, flats, strict=True):
        guarded.write(flat.tobytes())
    held[0].lock()
    params = KernelWords((), [guarded.address for guarded in held])
    for part in lower_tree(tree, isa, host_caches()).loops:
        kernel = kernel_of(part, 1, part.numbers)
        kernel.call(kernel.numbers_address, 0, params.address)
    interpret_tree(tree, flats)
    for guarded, flat in zip(held[1:], flats[1:], strict=True):
        found = np.frombuffer(guarded.read(), flat.dtype)
        if np.count_nonzero(np.abs(found.astype(np.int64) - flat.astype(np.int64)) > 64):
            raise AssertionError("other values")
        if guarded.around() - {POISON}:
            raise AssertionError("bytes beside a tensor were written")


def main(level: str) -> None:
    """Run all cases for one instruction set."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    isa = next(isa for isa in runnable() if isa_id(isa) == level)
    for name, tree, mds in _cases():
        for at_end in (False, True):
            print(f"{name} for {level}, at the {'end' if at_end else 'start'}", flush=True)
            run_case(tree, mds, isa, at_end=at_end)
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
