"""How near the tiles that the model of the machine chooses are to the best of all that fit.

    python -m restride_bench.tiles [TYPES [REGEX]]

runs the kernel of each layer with up to 30 tiles, all in turn on one thread, and prints how many times as
long as the best tile the model's takes. Layers are those of `restride bench --rows layers`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from restride.plan.program import TreeStep
from restride.plan.tree import LoopTree
from restride.runtime.alloc import address_of
from restride.runtime.cpu.kernel import KernelWords, kernel_of
from restride.runtime.result_pool import allocate
from restride.targets.cpu_contraction import LoweredContraction, lower_contraction
from restride.targets.isa import host_caches, host_isa

from .layers import LAYERS, TYPES, Layer, primitive_of
from .measure import Call, alternate, batch_size, geometric_mean

_MOST_TILES, _ROUNDS = 30, 11
_SETTLE = 0.0


@dataclass(frozen=True)
class TileTimes:
    """The least seconds of each tile of a layer, the model's first."""

    name: str
    tiles: dict[str, float]

    @property
    def over_best(self) -> float:
        """How many times as long as the best the model's tile takes."""
        model, *_ = self.tiles.values()
        return model / min(self.tiles.values())

    @property
    def best(self) -> str:
        """The best tile."""
        return min(self.tiles, key=self.tiles.__getitem__)


def measure(layer: Layer, types: str) -> TileTimes | None:
    """Time the tiles of a layer's kernel; None where it is no contraction of one kernel."""
    problem = primitive_of(layer, types).get_primitive_desc()._implementation().problem
    steps = [step for step in problem.program().steps if isinstance(step, TreeStep)]
    if len(steps) != 1 or len(steps[0].tree.items) != 1:
        return None
    calls = dict(_calls(steps[0].tree))
    if not calls:
        return None
    times = alternate(calls, rounds=_ROUNDS, settle=_SETTLE, number=batch_size(next(iter(calls.values()))))
    return TileTimes(layer.name, {name: min(timing.seconds) for name, timing in times.items()})


def _calls(tree: LoopTree) -> Iterator[tuple[str, Call]]:
    """A call for each tile: one kernel, without the work around it."""
    sizes = [tensor.data_type.nbytes(prod(tensor.padded)) for tensor in tree.tensors]
    storages = [allocate(size).bytes() for size in sizes]
    for storage in storages:
        # Small numbers, as bytes and as floats of any type.
        storage[:] = np.resize(np.array([0, 0, 0, 60], np.uint8), storage.size)
    words = KernelWords((0.0,) * tree.scalars, [address_of(storage) for storage in storages])
    seen: set[tuple[object, ...]] = set()
    for rank in range(2 * _MOST_TILES):
        lowered = lower_contraction(tree, host_isa(), host_caches(), rank)
        if lowered is None or lowered.key in seen:
            continue
        seen.add(lowered.key)
        yield _name(lowered), _call(lowered, words, storages)
        if len(seen) == _MOST_TILES:
            return


def _name(lowered: LoweredContraction) -> str:
    plan = lowered.plan
    return f"{plan.tiling.rows} x {plan.vectors}"


def _call(lowered: LoweredContraction, words: KernelWords, storages: Sequence[object]) -> Call:
    kernel = kernel_of(lowered, 0, lowered.numbers)

    def run(_held: object = (words, storages)) -> None:
        kernel.call(kernel.numbers_address, 0, words.address)

    return run


def main(arguments: Sequence[str]) -> None:
    """Print a line for each layer, and the means."""
    types, pattern = (*arguments, *("f32", "")[len(arguments) :])[:2]
    for kind in TYPES if types == "all" else types.split(","):
        found = []
        for layer in LAYERS:
            times = measure(layer, kind) if re.search(pattern, layer.name) else None
            if times is None:
                continue
            found.append(times.over_best)
            print(
                f"{kind:6s} {times.over_best:5.2f}  {next(iter(times.tiles))} of {len(times.tiles)}, "
                f"best {times.best}  {layer.name}",
                flush=True,
            )
        print(f"{kind}: mean {geometric_mean(found):.3f}, most {max(found):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
