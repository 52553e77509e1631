"""Blocks of bit fields on buffers between pages that nobody may touch, in a process of its own.

    python -m support.guarded_blocks LEVEL

prints the case that it is about to run, so that a crash names its case, and `done` at the end.
"""

from __future__ import annotations

import resource
import sys

import numpy as np

import restride as rs
from restride.desc.memory_desc import MemoryDesc
from restride.desc.packed_blocks import PackedBlocks
from restride.ops.programs.packed_blocks import real_program, unpacking_program
from restride.runtime.cpu.executable import CpuExecutable
from restride.runtime.cpu.kernel import KernelWords
from restride.targets.isa import CacheSizes, Isa

from .guarded import Guarded
from .kernels import COMMON, POISON, isa_id, runnable

_NO_CACHE = CacheSizes(l2=1, l3=1)
_FORMATS = [rs.formats.named(name, (3, 512)) for name in rs.formats.names() if name.startswith("gguf.")]
PACKED = [form.blocks for form in _FORMATS if form.blocks is not None]


def run_case(blocks: PackedBlocks, isa: Isa, caches: CacheSizes, *, at_end: bool) -> None:
    """The kernels read the blocks alone, and write reals, values, scales and minima alone."""
    dims = (3, 2 * blocks.elements)
    raw = np.random.default_rng(0).integers(0, 256, 6 * blocks.nbytes, np.uint8)
    source = Guarded(raw.nbytes, at_end=at_end)
    source.write(raw.tobytes())
    source.lock()
    counts = MemoryDesc((3, dims[1] // blocks.group), "f32")
    minima = [] if blocks.minimum_at is None else [counts]
    reals = [(real_program(blocks, md), [md]) for md in (MemoryDesc(dims, "f32"), MemoryDesc(dims, "bf16"))]
    unpacked = unpacking_program(blocks, dims), [MemoryDesc(dims, blocks.value_type), counts, *minima]
    for program, written in (*reals, unpacked):
        outputs = [Guarded(md.size, at_end=at_end) for md in written]
        for output, md in zip(outputs, written, strict=True):
            output.write(np.full(md.size, 0xA5, np.uint8).tobytes())
        first, *others = (output.address for output in outputs)
        words = KernelWords((), others)
        CpuExecutable(program, isa, caches).run(source.address, first, words.address)
        if set().union(*(output.around() for output in outputs)) - {POISON}:
            raise AssertionError("bytes outside the outputs were written")


def main(level: str) -> None:
    """Run all formats for one instruction set."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    isa = next(isa for isa in runnable() if isa_id(isa) == level)
    for number, blocks in enumerate(PACKED):
        for at_end in (False, True):
            print(f"{blocks.name} for {level}, at the {'end' if at_end else 'start'}", flush=True)
            run_case(blocks, isa, _NO_CACHE if number % 2 else COMMON, at_end=at_end)
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
