"""Speed of the tiles that the machine model chooses, compared with the best of all that fit.

    python -m restride_bench.tiles [TYPES [REGEX]]

runs the kernel of each layer with up to 30 tiles, all in turn on one thread, and prints how many times as
long as the best tile the model's takes. Layers are those of `restride bench --rows layers`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from restride.ir.program import TreeStep
from restride.ir.tree import LoopTree
from restride.runtime.alloc import address_of
from restride.runtime.cpu.kernel import Kernel, KernelWords, kernel_of
from restride.runtime.result_pool import allocate
from restride.schedule.contraction.schedule import draft_of
from restride.schedule.contraction.strides import find_contraction
from restride.targets.cpu import machine_of
from restride.targets.cpu_kernels import lower_plan
from restride.targets.isa import host_caches, host_isa

from .layers import LAYERS, TYPES, Layer, primitive_of
from .measure import geometric_mean
from .peer import PreparedCall
from .study import BenchRow, BenchSetup, RowPlan, race

_MOST_TILES = 30


_SETUP = BenchSetup((), (), 1, 11, 0)


def measure(layer: Layer, types: str) -> BenchRow | None:
    """Time the tiles of a layer, the model's first; None where it is no contraction of one kernel."""
    problem = primitive_of(layer, types).get_primitive_desc()._implementation().problem
    steps = [step for step in problem.program().steps if isinstance(step, TreeStep)]
    if len(steps) != 1 or len(steps[0].tree.items) != 1:
        return None
    calls = dict(_calls(steps[0].tree))
    work = RowPlan(layer.name, 0, calls, is_by_least=True)
    return race(work, _SETUP, settle=0.0) if calls else None


def _calls(tree: LoopTree) -> Iterator[tuple[str, PreparedCall]]:
    """A call for each tile: one kernel, without the work around it."""
    sizes = [tensor.data_type.nbytes(prod(tensor.padded)) for tensor in tree.tensors]
    storages = [allocate(size).bytes() for size in sizes]
    for storage in storages:
        # Small numbers, as bytes and as floats of any type.
        storage[:] = np.resize(np.array([0, 0, 0, 60], np.uint8), storage.size)
    words = KernelWords((0.0,) * tree.scalars, [address_of(storage) for storage in storages])
    seen: set[tuple[object, ...]] = set()
    contraction, machine = find_contraction(tree), machine_of(host_isa(), host_caches())
    draft = None if contraction is None else draft_of(contraction, machine)
    if draft is None:
        return
    for shape in draft.shapes[: 2 * _MOST_TILES]:
        plan = draft.plan(shape)
        lowered = lower_plan(plan, machine, host_isa())
        if not plan.has_few_kinds or lowered.key in seen:
            continue
        seen.add(lowered.key)
        kernel = kernel_of(lowered, 0)
        yield f"{plan.tiling.rows} x {plan.vectors}", _call(kernel, words, storages)
        if len(seen) == _MOST_TILES:
            return


def _call(kernel: Kernel, words: KernelWords, held: object) -> PreparedCall:
    def run(_held: object = (words, held)) -> None:
        kernel.call(kernel.numbers_address, 0, words.address)

    return PreparedCall(run)


def main(arguments: Sequence[str]) -> None:
    """Print a line for each layer, and the means."""
    types, pattern = (*arguments, *("f32", "")[len(arguments) :])[:2]
    for kind in TYPES if types == "all" else types.split(","):
        found = []
        for layer in LAYERS:
            times = measure(layer, kind) if re.search(pattern, layer.name) else None
            if times is None:
                continue
            tiles, best = list(times.times), min(times.times, key=times.seconds)
            found.append(times.seconds(tiles[0]) / times.seconds(best))
            told = f"{found[-1]:5.2f}  {tiles[0]} of {len(tiles)}, best {best}"
            print(f"{kind:6s} {told}  {layer.name}", flush=True)
        print(f"{kind}: mean {geometric_mean(found):.3f}, most {max(found):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
