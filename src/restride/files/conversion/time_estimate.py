"""How long a conversion will take: a few tiles of each kind are done, into a file that has no name."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import Self

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...errors import RuntimeFailure
from ...runtime.alloc import Array
from ..places import FilePlace, Workspace
from .planned import Conversion, PlacedStep
from .tile_threads import do_tiles
from .tiles import Ints, Runs, runs_of

# A kind is tried for so long, by some tiles of each job at a time; no other kind is begun after all of it.
_TILES_PER_JOB = 2
_ENOUGH_S, _MOST_S = 0.5, 3.0
_PARTS = 16
_SPAN = 256 << 20

Do = Callable[[int, Workspace], int]


class SamplePlaces:
    """Places for tiles that are only tried: a file without a name, which the system forgets.

    Boxes go one behind the other, from the start again after some. What is read may be another's.
    """

    def __init__(self, path: str) -> None:
        folder = os.path.dirname(os.path.realpath(path))
        # Of no name: nothing is left, whatever happens.
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        self._place = FilePlace(self._file.fileno(), path, 0)
        self._lock, self._end = threading.Lock(), 0

    def place(self, file: int, start: int) -> Self:
        """Where bytes of a file of the draft go: all to the same place."""
        return self

    def read(self, desc: MemoryDesc, start: Ints, size: Ints, into: Array) -> None:
        """As many bytes as the box has, run after run."""
        self._place.read_runs(_packed(runs_of(desc, start, size), 0), into)

    def write(self, desc: MemoryDesc, start: Ints, size: Ints, content: Array) -> None:
        """The bytes of a box, run after run."""
        with self._lock:
            at = 0 if self._end > _SPAN else self._end
            self._end = at + content.nbytes
        self._place.write_runs(_packed(runs_of(desc, start, size), at), content)

    def sync(self) -> None:
        """Force what was written to the disk, as a conversion does in the end."""
        os.fdatasync(self._file.fileno())

    def close(self) -> None:
        """Forget all of it."""
        self._file.close()


def _packed(runs: Runs, start: int) -> Runs:
    """As many runs, one behind the other: holes would make the file slow to remove."""
    return Runs(start + runs.nbytes * np.arange(len(runs.starts)), runs.nbytes)


def expected_seconds(
    work: Conversion,
    jobs: int,
    run: Do,
    check: Callable[[int, Workspace], object] | None,
    places: SamplePlaces,
) -> float | None:
    """The seconds that all tiles take by `run`, and by `check` where they are verified, from a sample.

    None where the system refuses to take the sample, as on a full disk. What stands in the way of the
    source, or of memory, is an error here as it would be then.
    """

    def both(tile: int, space: Workspace) -> int:
        weight = run(tile, space)
        if check is not None:
            check(tile, space)
        return weight

    seconds, measured, rest = 0.0, 0, 0
    begun = time.perf_counter()
    kinds = sorted(_kinds(work).values(), key=lambda numbers: -_weight(work, numbers))
    try:
        for numbers in kinds:
            weight = _weight(work, numbers)
            if time.perf_counter() - begun > _MOST_S:
                rest += weight
                continue
            seconds += weight / _speed(work, numbers, jobs, both, places)
            measured += weight
    except RuntimeFailure:
        return None
    return seconds + (rest * seconds / measured if measured else 0.0)


def _kinds(work: Conversion) -> dict[object, list[int]]:
    """Steps by what they do, as numbers; those of a kind run the same kernels."""
    groups: dict[object, list[int]] = {}
    for number, placed in enumerate(work.steps):
        if placed.step.tiles:
            groups.setdefault(_kind(placed), []).append(number)
    return groups


def _kind(placed: PlacedStep) -> object:
    step = placed.step
    descs = [array.desc for array in (step.source.array, step.results[0])]
    words = [desc and (desc.data_type, desc.tag, desc.layout.blocks) for desc in descs]
    return type(step), str(step.rule).rpartition("=")[2], *words


def _weight(work: Conversion, numbers: Sequence[int]) -> int:
    return sum(work.steps[number].step.source.array.nbytes for number in numbers)


def _speed(work: Conversion, numbers: Sequence[int], jobs: int, do: Do, places: SamplePlaces) -> float:
    """Bytes of the source that are done in a second, by all jobs together."""
    tiles = [tile for number in numbers for tile in range(work.firsts[number], work.firsts[number + 1])]
    do(tiles[0], Workspace())  # compiles
    # From all over the tensors, as the disk has parts of them in memory and others not.
    stride = max(len(tiles) // _PARTS, 1)
    order = [tile for first in range(stride) for tile in tiles[first::stride]]
    spent, weights = 0.0, list[int]()
    while order and spent < _ENOUGH_S:
        sample, order = order[: _TILES_PER_JOB * jobs], order[_TILES_PER_JOB * jobs :]
        begun = time.perf_counter()
        do_tiles(len(sample), 0, jobs, _on(sample, do, weights))
        places.sync()
        spent += time.perf_counter() - begun
    return max(sum(weights), 1) / max(spent, 1e-9)


def _on(sample: Sequence[int], do: Do, weights: list[int]) -> Do:
    """Do a tile of a sample by its place there, and keep its weight."""

    def run(at: int, space: Workspace) -> int:
        weights.append(do(sample[at], space))
        return weights[-1]

    return run
