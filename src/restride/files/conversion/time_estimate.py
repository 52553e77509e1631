"""The expected time of a conversion: a few tiles of each kind are run, writing to an unnamed file."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...errors import RuntimeFailure
from ...runtime.alloc import Array
from ..places import FilePlace, Workspace
from .plan import Conversion
from .steps import ConversionStep
from .tile_threads import do_tiles
from .tiles import Ints, Runs, runs_of

# How long a kind is sampled, with several tiles for each job at a time; and the limit for starting another
# kind.
_TILES_PER_JOB = 2
_ENOUGH_S, _MOST_S = 0.5, 3.0
_PARTS = 16
_SPAN = 256 << 20

Do = Callable[[int, Workspace], int]


class SamplePlaces:
    """Places for sample tiles: an unnamed file that disappears when closed.

    Boxes are written one after the other, wrapping around to the start. Reads may return bytes of others.
    """

    def __init__(self, path: str) -> None:
        folder = os.path.dirname(os.path.realpath(path))
        # Unnamed, so that nothing is left, whatever happens.
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        self._place = FilePlace(self._file.fileno(), path, 0)
        self._lock, self._end = threading.Lock(), 0

    def place(self, file: int, start: int) -> Self:
        """Return the place of all bytes, regardless of the draft's file."""
        return self

    def read(self, desc: MemoryDesc, start: Ints, size: Ints, into: Array) -> None:
        """Read as many bytes as the box has, run after run."""
        self._place.read_runs(_packed(runs_of(desc, start, size), 0), into)

    def write(self, desc: MemoryDesc, start: Ints, size: Ints, content: Array) -> None:
        """Write the bytes of a box, run after run."""
        with self._lock:
            at = 0 if self._end > _SPAN else self._end
            self._end = at + content.nbytes
        self._place.write_runs(_packed(runs_of(desc, start, size), at), content)

    def sync(self) -> None:
        """Flush the output to disk, as a conversion does at the end."""
        os.fdatasync(self._file.fileno())

    def close(self) -> None:
        """Discard all of it."""
        self._file.close()


def _packed(runs: Runs, start: int) -> Runs:
    """Return as many runs, packed: holes would make the file slow to remove."""
    return Runs(start + runs.nbytes * np.arange(len(runs.starts)), runs.nbytes)


def expected_seconds(
    work: Conversion,
    jobs: int,
    run: Do,
    check: Callable[[int, Workspace], object] | None,
    places: SamplePlaces,
) -> float | None:
    """Estimate the seconds of all tiles with `run`, and with `check` if they are verified, from a sample.

    None if the system does not allow taking the sample, for example because the disk is full. Errors of the
    source, or of memory, are raised, as they would occur in the conversion too.
    """

    def both(tile: int, space: Workspace) -> int:
        weight = run(tile, space)
        if check is not None:
            check(tile, space)
        return weight

    # Equal steps run the same kernels: the bytes and the tiles of each kind.
    kinds: dict[object, tuple[int, list[int]]] = {}
    for placed, first, end in zip(work.steps, work.firsts, work.firsts[1:], strict=False):
        if end > first:
            weight, tiles = kinds.get(_kind(placed.step), (0, []))
            tiles += range(first, end)
            kinds[_kind(placed.step)] = weight + placed.step.source.array.nbytes, tiles
    seconds, measured, rest = 0.0, 0, 0
    begun = time.perf_counter()
    try:
        for weight, tiles in sorted(kinds.values(), key=lambda kind: -kind[0]):
            if time.perf_counter() - begun > _MOST_S:
                rest += weight
                continue
            seconds += weight / _speed(tiles, jobs, both, places)
            measured += weight
    except RuntimeFailure:
        return None
    return seconds + (rest * seconds / measured if measured else 0.0)


def _kind(step: ConversionStep) -> object:
    descs = [array.desc for array in (step.source.array, step.results[0])]
    words = [desc and (desc.data_type, desc.tag, desc.layout.blocks) for desc in descs]
    return type(step), str(step.rule).rpartition("=")[2], *words


def _speed(tiles: Sequence[int], jobs: int, do: Do, places: SamplePlaces) -> float:
    """Return the bytes of the source that are processed per second, by all jobs together."""
    do(tiles[0], Workspace())  # compiles
    # From all parts of the tensors, since parts of the file may be cached.
    stride = max(len(tiles) // _PARTS, 1)
    order = [tile for first in range(stride) for tile in tiles[first::stride]]
    spent, weights = 0.0, list[int]()

    def weigh(sample: Sequence[int], at: int, space: Workspace) -> int:
        weights.append(do(sample[at], space))
        return weights[-1]

    while order and spent < _ENOUGH_S:
        sample, order = order[: _TILES_PER_JOB * jobs], order[_TILES_PER_JOB * jobs :]
        begun = time.perf_counter()
        do_tiles(len(sample), 0, jobs, partial(weigh, sample))
        places.sync()
        spent += time.perf_counter() - begun
    return max(sum(weights), 1) / max(spent, 1e-9)
